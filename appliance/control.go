package appliance

import (
	"context"
	"slices"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

// control is what the administrative commands work on: the store, of a running
// server or opened for one command.
type control struct {
	store  *store.Store
	server *Appliance // nil without a running server
	config func() (*config.Config, error)
	dir    dataDir
	file   string // of the configuration
	// Without a server: what stands in for a file that is not there yet, and where
	// credentials are looked for.
	sample []byte
	getenv func(string) string
}

type none struct{}

type keyID struct {
	ID    string        `json:"id"`
	Grace time.Duration `json:"grace_ns,omitempty"`
}

type requestID struct {
	ID string `json:"id"`
}

type setupLink struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires"`
}

var (
	opKeyCreate = operation[store.Key, store.NewKey]{
		name: "key/create", place: "POST /keys", access: admin.OperateTenant,
		summary: "make an API key; the secret is in this answer only",
		run:     createKey, tenant: func(k *store.Key) *string { return &k.Tenant },
	}
	opKeyRotate = operation[keyID, store.NewKey]{
		name: "key/rotate", place: "POST /keys/{id}/rotate", access: admin.OperateTenant,
		summary: "give an API key a new secret; the old one is good for grace_ns more",
		run: func(ctx context.Context, c *control, r keyID) (store.NewKey, error) {
			return c.store.RotateKey(ctx, r.ID, r.Grace)
		},
		owner: tenantOfKey,
	}
	opKeyRevoke = operation[keyID, store.Key]{
		name: "key/revoke", place: "POST /keys/{id}/revoke", access: admin.OperateTenant,
		summary: "end an API key for good",
		run: func(ctx context.Context, c *control, r keyID) (store.Key, error) {
			return c.store.RevokeKey(ctx, r.ID)
		},
		owner: tenantOfKey,
	}
	opKeySetup = operation[none, setupLink]{
		name: "key/setup", access: admin.Nobody,
		summary: "make a one-time link that signs the owner in",
		run:     makeSetupLink,
		subject: func(none) string { return "set-up link" },
	}
	opLedgerList = operation[store.Filter, store.Page]{
		name: "ledger/list", place: "GET /ledger", access: admin.ReadTenant,
		summary: "search the request ledger, newest first",
		run: func(ctx context.Context, c *control, f store.Filter) (store.Page, error) {
			return c.store.List(ctx, f)
		},
		tenant: func(f *store.Filter) *string { return &f.Tenant },
	}
	opLedgerShow = operation[requestID, store.Detail]{
		name: "ledger/show", place: "GET /ledger/{id}", access: admin.ReadTenant,
		summary: "one request with its attempts and its records",
		run: func(ctx context.Context, c *control, r requestID) (store.Detail, error) {
			return c.store.Show(ctx, r.ID)
		},
		owner: tenantOfRequest,
	}
	opLedgerCheck = operation[none, store.Report]{
		name: "ledger/check", place: "POST /ledger/check", access: admin.Read,
		summary: "verify the ledger from its first record to its last",
		run:     checkLedger,
	}
	opModels = operation[none, []servedModel]{
		name: "model/served", place: "GET /models/served", access: admin.ReadTenant,
		summary: "models that the engine serves now",
		scope:   everyTenant[none],
		run: func(ctx context.Context, c *control, _ none) ([]servedModel, error) {
			return c.served(ctx), nil
		},
	}
)

var errNoServer = infer.Errorf(infer.CodeUnavailable, "no server is running")

// tenantQuery asks for what belongs to a tenant; empty: to all.
type tenantQuery struct {
	Tenant string `json:"tenant,omitempty"`
}

// tenantOfKey is whose key it is, also after it has been revoked.
func tenantOfKey(ctx context.Context, c *control, r keyID) (string, error) {
	k, ok := c.store.Key(r.ID)
	if !ok {
		return "", infer.Errorf(infer.CodeNotFound, "there is no key %.32q", r.ID)
	}
	return k.Tenant, nil
}

func tenantOfRequest(ctx context.Context, c *control, r requestID) (string, error) {
	d, err := c.store.Show(ctx, r.ID)
	return d.Row.Tenant, err
}

// servedModel is a model of a running server.
type servedModel struct {
	infer.Model
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

func (c *control) served(ctx context.Context) []servedModel {
	if c.server == nil {
		return nil
	}
	var out []servedModel
	for _, m := range c.server.models.states(ctx) {
		out = append(out, servedModel{m.info, m.health.Ready, m.health.Reason})
	}
	return out
}

// createKey makes a key of a tenant that exists.
func createKey(ctx context.Context, c *control, k store.Key) (store.NewKey, error) {
	conf, err := c.config()
	if err != nil {
		return store.NewKey{}, err
	}
	var names []string
	for _, t := range conf.Tenants {
		names = append(names, t.Name)
	}
	if !slices.Contains(names, k.Tenant) {
		return store.NewKey{}, infer.Invalid("tenant", "no tenant is called %q, the configuration has %q", k.Tenant, names)
	}
	return c.store.CreateKey(ctx, k)
}

// makeSetupLink makes a new one-time link to the status page.
func makeSetupLink(ctx context.Context, c *control, _ none) (setupLink, error) {
	if c.server == nil {
		return setupLink{}, errNoServer
	}
	if c.server.console == nil {
		return setupLink{}, infer.Errorf(infer.CodeConflict, "there is no status page: admin.listen is off")
	}
	token, expires, err := c.server.accounts.NewSetUp(ctx)
	return setupLink{c.server.adminURL() + setupFragment + token, expires}, err
}
