package appliance

import (
	"context"
	"slices"
	"strings"
	"time"

	"hearth/appliance/identity"
	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

var (
	opKeyList = operation[tenantQuery, []keyRow]{
		name: "key/list", place: "GET /keys", access: admin.ReadTenant,
		summary: "list the API keys with state and spend, without secrets",
		run:     listKeys, tenant: func(q *tenantQuery) *string { return &q.Tenant },
	}
	opKeyShow = operation[oneKey, keyRow]{
		name: "key/show", place: "GET /keys/{id}", access: admin.ReadTenant,
		summary: "one API key with state and spend",
		run: func(ctx context.Context, c *control, r oneKey) (keyRow, error) {
			return c.keyRow(ctx, r.ID)
		},
		owner: func(ctx context.Context, c *control, r oneKey) (string, error) { return c.ownerOfKey(r.ID) },
	}
	opKeyUpdate = operation[keyChange, keyRow]{
		name: "key/update", place: "POST /keys/{id}", access: admin.OperateTenant,
		summary: "change an API key; what is left out stays as it is",
		run:     updateKey,
		owner:   func(ctx context.Context, c *control, r keyChange) (string, error) { return c.ownerOfKey(r.ID) },
	}
	opKeyDisable = operation[oneKey, keyRow]{
		name: "key/disable", place: "POST /keys/{id}/disable", access: admin.OperateTenant,
		summary: "refuse an API key until it is enabled again; its open streams end",
		run: func(ctx context.Context, c *control, r oneKey) (keyRow, error) {
			return c.switchKey(ctx, "key/disable", r.ID, true)
		},
		owner: func(ctx context.Context, c *control, r oneKey) (string, error) { return c.ownerOfKey(r.ID) },
	}
	opKeyEnable = operation[oneKey, keyRow]{
		name: "key/enable", place: "POST /keys/{id}/enable", access: admin.OperateTenant,
		summary: "take an API key again that was disabled",
		run: func(ctx context.Context, c *control, r oneKey) (keyRow, error) {
			return c.switchKey(ctx, "key/enable", r.ID, false)
		},
		owner: func(ctx context.Context, c *control, r oneKey) (string, error) { return c.ownerOfKey(r.ID) },
	}
	opIdentityList = operation[none, []identity.State]{
		name: "identity/list", place: "GET /identities", access: admin.Read,
		summary: "callers by token and certificate: keys and authorities that count, and what failed",
		run: func(_ context.Context, c *control, _ none) ([]identity.State, error) {
			if c.server == nil {
				return nil, errNoServer
			}
			return c.server.identities.States(), nil
		},
	}
)

type oneKey struct {
	ID string `json:"id"`
}

// keyRow is one key with how it stands.
type keyRow struct {
	store.Key
	State string `json:"state"` // "live", "disabled", "expired", "revoked"
	// Spend has its budgets in their present windows: its own, or those that its
	// tenant gives each key; empty: none caps it, or no configuration is at hand.
	Spend []budgetPosition `json:"spend"`
	// Recent is what its requests came to over RecentSpan, at most a day.
	Recent     spent         `json:"recent"`
	RecentSpan time.Duration `json:"recent_span_ns"`
	// Open is how many of its requests run now, on a running server.
	Open int `json:"open_requests"`
}

// keyRows gives the rows of keys.
func (c *control) keyRows(ctx context.Context, tenant string, keys []store.Key) ([]keyRow, error) {
	var budgets []budgetPosition
	// A command beside no server may not find the configuration; keys are there
	// without it.
	if _, err := c.config(); c.server != nil || err == nil {
		if budgets, err = c.budgets(ctx, tenant); err != nil {
			return nil, err
		}
	}
	recent, err := c.recentOf(ctx)
	if err != nil {
		return nil, err
	}
	open := c.openByCaller()
	out := make([]keyRow, len(keys))
	for i := range keys {
		k := &keys[i]
		out[i] = keyRow{Key: *k, State: keyState(*k, c.now()), Spend: []budgetPosition{}, RecentSpan: recent.span, Open: open[k.ID]}
		if r := recent.keys[k.ID]; r != nil {
			out[i].Recent = *r
		}
	}
	byID := make(map[string]*keyRow, len(out))
	for i := range out {
		byID[out[i].ID] = &out[i]
	}
	for _, b := range budgets {
		if row := byID[b.KeyID]; row != nil {
			row.Spend = append(row.Spend, b)
		}
	}
	return out, nil
}

// openByCaller counts the open requests of each caller.
func (c *control) openByCaller() map[string]int {
	open := map[string]int{}
	if c.server == nil {
		return open
	}
	c.server.grants.Range(func(_, v any) bool {
		open[v.(*admission).ID.KeyID]++
		return true
	})
	return open
}

func (c *control) keyRow(ctx context.Context, id string) (keyRow, error) {
	k, ok := c.store.Key(id)
	if !ok {
		return keyRow{}, errNoKey(id)
	}
	rows, err := c.keyRows(ctx, k.Tenant, []store.Key{k})
	if err != nil {
		return keyRow{}, err
	}
	return rows[0], nil
}

func errNoKey(id string) error { return infer.Errorf(infer.CodeNotFound, "there is no key %.32q", id) }

func (c *control) ownerOfKey(id string) (string, error) {
	k, ok := c.store.Key(id)
	if !ok {
		return "", errNoKey(id)
	}
	return k.Tenant, nil
}

func listKeys(ctx context.Context, c *control, q tenantQuery) ([]keyRow, error) {
	keys, err := c.store.Keys(ctx)
	if err != nil {
		return nil, err
	}
	if q.Tenant != "" {
		keys = slices.DeleteFunc(keys, func(k store.Key) bool { return k.Tenant != q.Tenant })
	}
	return c.keyRows(ctx, q.Tenant, keys)
}

// keyChange says what to change of a key. A list that is given replaces what was;
// an empty one means its tenant's again.
type keyChange struct {
	ID          string             `json:"id"`
	Name        *string            `json:"name,omitempty"`
	Expires     *time.Time         `json:"expires,omitempty"`
	Never       bool               `json:"never_expires,omitempty"` // whatever Expires says
	Models      *[]string          `json:"models,omitempty"`
	Tools       *[]string          `json:"tools,omitempty"`
	DataClasses *[]string          `json:"data_classes,omitempty"`
	Regions     *[]string          `json:"regions,omitempty"`
	Effects     *[]string          `json:"effects,omitempty"`
	Limits      *limitsChange      `json:"limits,omitempty"`
	Budgets     *[]store.KeyBudget `json:"budgets,omitempty"`
}

type limitsChange struct {
	RequestsPerMinute *int `json:"requests_per_minute,omitempty"`
	TokensPerMinute   *int `json:"tokens_per_minute,omitempty"`
	Concurrency       *int `json:"concurrency,omitempty"`
}

func updateKey(ctx context.Context, c *control, r keyChange) (keyRow, error) {
	_, err := c.store.EditKey(ctx, "key/update", r.ID, func(k *store.Key) (string, error) {
		changed := r.apply(k)
		if len(changed) == 0 {
			return "", infer.Invalid("id", "cannot change nothing: wanted one of name, expires, models, tools, data_classes, regions, effects, limits, budgets")
		}
		return "; changed " + strings.Join(changed, ", "), nil
	})
	if err != nil {
		return keyRow{}, err
	}
	return c.keyRow(ctx, r.ID)
}

// apply changes k and names what was asked to be changed.
func (r *keyChange) apply(k *store.Key) (changed []string) {
	note := func(name string) { changed = append(changed, name) }
	if r.Name != nil {
		k.Name = *r.Name
		note("name")
	}
	switch {
	case r.Never:
		k.Expires = time.Time{}
		note("expires")
	case r.Expires != nil:
		k.Expires = *r.Expires
		note("expires")
	}
	for _, l := range []struct {
		name     string
		from, to *[]string
	}{{"models", r.Models, &k.Models}, {"tools", r.Tools, &k.Tools}, {"data_classes", r.DataClasses, &k.DataClasses},
		{"regions", r.Regions, &k.Regions}, {"effects", r.Effects, &k.Effects}} {
		if l.from != nil {
			*l.to = *l.from
			note(l.name)
		}
	}
	if r.Limits != nil {
		for _, l := range []struct {
			name string
			from *int
			to   *int
		}{{"requests_per_minute", r.Limits.RequestsPerMinute, &k.Limits.RequestsPerMinute},
			{"tokens_per_minute", r.Limits.TokensPerMinute, &k.Limits.TokensPerMinute}, {"concurrency", r.Limits.Concurrency, &k.Limits.Concurrency}} {
			if l.from != nil {
				*l.to = *l.from
				note(l.name)
			}
		}
	}
	if r.Budgets != nil {
		k.Budgets = *r.Budgets
		note("budgets")
	}
	return changed
}

// switchKey disables a key or enables it. To do so twice changes nothing.
func (c *control) switchKey(ctx context.Context, action, id string, disabled bool) (keyRow, error) {
	_, err := c.store.EditKey(ctx, action, id, func(k *store.Key) (string, error) {
		k.Disabled = disabled
		return "", nil
	})
	if err != nil {
		return keyRow{}, err
	}
	return c.keyRow(ctx, id)
}
