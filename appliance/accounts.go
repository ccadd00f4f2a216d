package appliance

import (
	"context"
	"crypto/tls"
	"net/http"
	"path/filepath"

	"hearth/appliance/accounts"
	"hearth/appliance/config"
	"hearth/web/admin"
)

const (
	setupBucket   = "setup" // of the store: what the first start leaves
	setupLifetime = accounts.SetUpLifetime
)

// consoleService is what the control plane stands on: who people are from the
// accounts, the playground from the appliance.
type consoleService struct {
	*accounts.Accounts
	a *Appliance
}

var _ admin.Service = consoleService{}

// Play serves a request of the playground as the data plane would.
func (s consoleService) Play(w http.ResponseWriter, r *http.Request, c *admin.Caller, tenant string) {
	s.a.Play(w, r, c, tenant)
}

// openAccounts reads who may use the control plane.
func (a *Appliance) openAccounts(ctx context.Context) error {
	acc, err := accounts.Open(ctx, accounts.Options{
		Storage: a.store.Blobs(accounts.Bucket), Log: a.log, Now: a.now, Audit: a.store.Audit, Owned: a.owned,
	})
	if err != nil {
		return err
	}
	acc.Configure(signInSettings(a.config(), a.configPath(), a.env.Getenv))
	a.accounts = acc
	return nil
}

// signInSettings is what the accounts need of a configuration.
func signInSettings(c *config.Config, file string, getenv func(string) string) accounts.Settings {
	s := accounts.Settings{
		Idle: c.Admin.SessionIdle.Std(), Lifetime: c.Admin.SessionLifetime.Std(),
		OIDC: c.Admin.OIDC, Peers: c.Admin.ClientCertificate,
		Folder: filepath.Dir(file), Getenv: getenv,
	}
	for i := range c.Tenants {
		s.Tenants = append(s.Tenants, c.Tenants[i].Name)
	}
	return s
}

// owned lets others than this machine reach the control plane, now that it
// cannot be taken by who comes first.
func (a *Appliance) owned() {
	go func() { // the request that made the owner is still being answered
		if err := a.bindConsole(a.config()); err != nil {
			a.log.Error("the control plane stays open to this machine only", "error", err)
		}
	}()
}

// askForCertificates has the control plane ask for a client certificate where
// the configuration says so. What comes is checked for each request, so that a
// revocation counts on open connections.
func (a *Appliance) askForCertificates(c *tls.Config) {
	pool, err := a.accounts.ClientAuthorities()
	if err != nil {
		a.log.Error("client certificates are not asked for", "error", err)
	} else if pool != nil {
		c.ClientAuth, c.ClientCAs = tls.RequestClientCert, pool
	}
}

// accounts is who may use the control plane, of the running server or read for
// one command.
func (c *control) accounts(ctx context.Context) (*accounts.Accounts, error) {
	if c.server != nil {
		return c.server.accounts, nil
	}
	acc, err := accounts.Open(ctx, accounts.Options{Storage: c.store.Blobs(accounts.Bucket), Audit: c.store.Audit})
	if err != nil {
		return nil, err
	}
	conf, err := c.config()
	if err != nil {
		return nil, err
	}
	acc.Configure(signInSettings(conf, c.file, nil))
	return acc, nil
}
