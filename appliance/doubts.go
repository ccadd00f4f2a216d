package appliance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hearth/appliance/config"
	"hearth/engine/artifact"
	"hearth/policy"
)

// doubts lists what a valid configuration hardly means: what policy doubts, and
// credentials that this process cannot read. file is where c stands, local
// names the models of the engine in this box.
func doubts(c *config.Config, file string, local []string, getenv func(string) string) []policy.Fault {
	specs := make([]modelSpec, len(local))
	for i, name := range local {
		specs[i].Name = name
	}
	pc := policyConfig(c, specs)
	found, err := pc.Doubts(local)
	if err != nil {
		return []policy.Fault{{Message: err.Error()}}
	}
	for i, u := range beside(file, c.Upstreams) {
		if why := unreadable(u.Credential, getenv); why != "" {
			found = append(found, policy.Fault{Path: fmt.Sprintf("upstream[%d].credential", i), Message: why})
		}
	}
	return found
}

// unreadable says why a credential cannot be read by this process; empty: it
// can, or another process is given it.
func unreadable(reference string, getenv func(string) string) string {
	kind, name, _ := strings.Cut(reference, ":")
	switch dir := getenv("CREDENTIALS_DIRECTORY"); {
	case kind == "env" && getenv(name) == "":
		return fmt.Sprintf("environment variable %.64s is not set here (a server needs it in its own environment)", name)
	case kind == "file", kind == "oidc-file":
	case kind == "systemd" && dir != "":
		name = filepath.Join(dir, name)
	default:
		return ""
	}
	f, err := os.Open(name)
	if err != nil {
		return "cannot be read here: " + err.Error()
	}
	f.Close()
	return ""
}

// localModels names what the engine in this box would serve: the models of the
// configuration, and the installed ones that none of them points to.
func localModels(c *config.Config, dir dataDir) []string {
	var names, pointed []string
	for i := range c.Models {
		names, pointed = append(names, c.Models[i].Name), append(pointed, c.Models[i].Path)
	}
	if !c.Library.Serve || !fileExists(dir.models()) {
		return names
	}
	lib, err := artifact.Open(dir.models())
	if err != nil {
		return names
	}
	installed, _ := lib.List() // what can be listed is
	for _, m := range installed {
		if !slices.Contains(pointed, m.Name) && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

// sayDoubts logs them when a configuration is taken.
func (a *Appliance) sayDoubts(c *config.Config, specs []modelSpec) {
	for _, d := range doubts(c, a.configPath(), specNames(specs), a.env.Getenv) {
		a.log.Warn("the configuration may not mean this", "key", d.Path, "doubt", d.Message)
	}
}
