package appliance

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/store"
)

// control is what the administrative commands work on: the store, of a running
// server or opened for one command.
type control struct {
	store  *store.Store
	server *Appliance // nil without a running server
	config func() (*config.Config, error)
}

// operation is one administrative call with its argument and result. The same
// table serves the socket and the command line.
type operation[Req, Resp any] struct {
	name string
	run  func(ctx context.Context, c *control, r Req) (Resp, error)
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
	opKeyCreate = operation[store.Key, store.NewKey]{"key/create", createKey}
	opKeyList   = operation[none, []store.Key]{"key/list", func(ctx context.Context, c *control, _ none) ([]store.Key, error) {
		return c.store.Keys(ctx)
	}}
	opKeyRotate = operation[keyID, store.NewKey]{"key/rotate", func(ctx context.Context, c *control, r keyID) (store.NewKey, error) {
		return c.store.RotateKey(ctx, r.ID, r.Grace)
	}}
	opKeyRevoke = operation[keyID, store.Key]{"key/revoke", func(ctx context.Context, c *control, r keyID) (store.Key, error) {
		return c.store.RevokeKey(ctx, r.ID)
	}}
	opKeySetup   = operation[none, setupLink]{"key/setup", makeSetupLink}
	opLedgerList = operation[store.Filter, store.Page]{"ledger/list", func(ctx context.Context, c *control, f store.Filter) (store.Page, error) {
		return c.store.List(ctx, f)
	}}
	opLedgerShow = operation[requestID, store.Detail]{"ledger/show", func(ctx context.Context, c *control, r requestID) (store.Detail, error) {
		return c.store.Show(ctx, r.ID)
	}}
	opLedgerCheck = operation[none, store.Report]{"ledger/check", func(ctx context.Context, c *control, _ none) (store.Report, error) {
		return c.store.Check(ctx)
	}}
	opReload = operation[none, none]{"config/reload", func(ctx context.Context, c *control, _ none) (none, error) {
		if c.server == nil {
			return none{}, infer.Errorf(infer.CodeUnavailable, "no server is running")
		}
		return none{}, c.server.Reload(ctx)
	}}
	opModels = operation[none, []servedModel]{"model/served", func(ctx context.Context, c *control, _ none) ([]servedModel, error) {
		return c.served(ctx), nil
	}}
)

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
		return setupLink{}, infer.Errorf(infer.CodeUnavailable, "no server is running, a set-up link needs one")
	}
	keys, err := c.store.Keys(ctx)
	if err != nil {
		return setupLink{}, err
	}
	for _, k := range keys {
		if _, err := c.server.liveKey(ctx, k.ID); err == nil {
			token, err := c.server.newSetupToken(ctx, k)
			return setupLink{c.server.baseURL() + setupFragment + token, c.server.now().Add(setupLifetime)}, err
		}
	}
	return setupLink{}, infer.Errorf(infer.CodeConflict, "there is no live api key that the page could act for: make one first")
}

// exportLedger streams rows; it is no operation since its answer may be large.
func exportLedger(ctx context.Context, c *control, w io.Writer, format store.Format, f store.Filter) (int, error) {
	switch format {
	case store.JSONL, store.CSV:
		return c.store.Export(ctx, w, format, f)
	}
	return 0, fmt.Errorf("cannot export as %q, wanted %s or %s", format, store.JSONL, store.CSV)
}
