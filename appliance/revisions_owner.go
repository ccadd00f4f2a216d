package appliance

import (
	"fmt"

	"hearth/appliance/config"
)

// ownersTables are what only an owner changes: who may use the control plane,
// whom the data plane believes, and whose words are kept.
var ownersTables = []string{"admin", "identity", "retention"}

// ownersOnly lists the changes that an operator may not make: those of the
// owner's tables, and where a secret goes. It compares by itself: the list of
// changes that is told to people ends somewhere, and what stands behind its end
// must not pass unseen.
func ownersOnly(old, new *config.Config) []string {
	var changed []changedKey
	was, is := old.Tree(), new.Tree()
	for _, table := range ownersTables {
		var of []changedKey
		compareTrees(table, was[table], is[table], &of)
		changed = append(changed, of...)
	}
	out := pathsOf(changed, maxChanged)
	had := secretUses(old)
	for _, use := range secretUses(new) {
		if !hasUse(had, use) {
			out = append(out, use.path)
		}
	}
	if old.Backup.Passphrase != new.Backup.Passphrase {
		out = append(out, "backup.passphrase")
	}
	return out
}

// secretUse is a reference to a secret with all that decides who gets to see what
// it stands for. A reference can name any variable and any file that the process
// can read, so who may pair one with an address can read all of them.
type secretUse struct {
	path, sentTo string
}

func hasUse(list []secretUse, use secretUse) bool {
	for _, u := range list {
		if u.sentTo == use.sentTo {
			return true
		}
	}
	return false
}

// secretUses lists the secrets that a configuration sends somewhere.
func secretUses(c *config.Config) []secretUse {
	var out []secretUse
	add := func(path, ref string, to ...any) {
		if ref != "" {
			out = append(out, secretUse{path, fmt.Sprintf("%q to %q", ref, fmt.Sprint(to...))})
		}
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		add("upstream["+u.Name+"].credential", u.Credential, fmt.Sprintf("%q", []string{u.Kind, u.BaseURL, u.TokenURL, u.Audience, u.Region, u.CAFile}), u.AllowHTTP)
	}
	t := &c.Telemetry.Traces
	add("telemetry.traces.credential", t.Credential, fmt.Sprintf("%q", []string{t.Endpoint, t.CredentialHeader, t.CAFile}))
	add("tls.eab_key", c.TLS.EABKey, fmt.Sprintf("%q", []string{c.TLS.Directory, c.TLS.CAFile}))
	return out
}
