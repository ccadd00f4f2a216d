package appliance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"hearth/appliance/config"
	"hearth/appliance/config/edit"
	"hearth/engine/infer"
	"hearth/policy"
	"hearth/store"
	"hearth/web"
	"hearth/web/admin"
)

// tenantRow is one tenant: what it may, has, and does now.
type tenantRow struct {
	Name        string           `json:"name"`
	Paused      bool             `json:"paused"`
	Models      []string         `json:"models"` // empty: all
	Tools       []string         `json:"tools"`
	DataClasses []string         `json:"data_classes"`
	Regions     []string         `json:"regions"`
	Effects     []string         `json:"effects"`
	Zone        string           `json:"zone"`
	Limits      store.Limits     `json:"limits"`
	KeyLimits   store.Limits     `json:"key_limits"` // of each key without its own
	Budgets     []budgetPosition `json:"budgets"`
	KeyBudgets  []tenantBudget   `json:"key_budgets"` // of each key without its own
	Keys        int              `json:"keys"`
	LiveKeys    int              `json:"live_keys"` // neither revoked, disabled nor expired
	Open        int              `json:"open_requests"`
	// Recent is what its requests came to over RecentSpan, at most a day.
	Recent     spent         `json:"recent"`
	RecentSpan time.Duration `json:"recent_span_ns"`
	PerRequest int64         `json:"per_request_nano"`
	LastUsed   time.Time     `json:"last_used,omitzero"` // within RecentSpan
}

// tenantBudget is a cap in a window.
type tenantBudget struct {
	Period store.Period `json:"period"` // "day", "month", "total"
	Cap    int64        `json:"cap_nano"`
}

// editGuard is what every change of the configuration takes besides.
type editGuard struct {
	IfMatch string `json:"if_match,omitempty"` // digest that the file must have; empty: any
	Note    string `json:"note,omitempty"`
	DryRun  bool   `json:"dry_run,omitempty"` // only tell what would change
}

// tenantSettings are keys of a [[tenant]]. What is left out stays as it is; what
// is given replaces what was, limits and lists of budgets as a whole.
type tenantSettings struct {
	Models      *[]string       `json:"models,omitempty"`
	Tools       *[]string       `json:"tools,omitempty"`
	DataClasses *[]string       `json:"data_classes,omitempty"`
	Regions     *[]string       `json:"regions,omitempty"`
	Effects     *[]string       `json:"effects,omitempty"`
	Zone        *string         `json:"zone,omitempty"`
	Limits      *store.Limits   `json:"limits,omitempty"`
	KeyLimits   *store.Limits   `json:"key_limits,omitempty"`
	Budgets     *[]tenantBudget `json:"budgets,omitempty"`
	KeyBudgets  *[]tenantBudget `json:"key_budgets,omitempty"`
}

type tenantCreate struct {
	Name string `json:"name"`
	tenantSettings
	editGuard
}

type tenantUpdate struct {
	Name string `json:"name"`
	tenantSettings
	// Clear names settings that go back to their default, for forms, which cannot
	// tell an empty field from none.
	Clear []string `json:"clear,omitempty"`
	editGuard
}

type tenantPause struct {
	Name   string `json:"name"`
	Paused bool   `json:"paused"`
	editGuard
}

type tenantDelete struct {
	Name       string `json:"name"`
	Confirm    string `json:"confirm"`               // the name once more, typed
	RevokeKeys bool   `json:"revoke_keys,omitempty"` // else it must have no live key
	editGuard
}

var (
	opTenantList = operation[tenantQuery, []tenantRow]{
		name: "tenant/list", place: "GET /tenants", access: admin.ReadTenant,
		summary: "tenants with limits, budgets, keys and what they do now",
		run:     listTenants,
		tenant:  func(q *tenantQuery) *string { return &q.Tenant },
	}
	opTenantCreate = operation[tenantCreate, applied]{
		name: "tenant/create", place: "POST /tenants", access: admin.Operate,
		summary: "add a tenant to the configuration",
		run:     createTenant,
	}
	opTenantUpdate = operation[tenantUpdate, applied]{
		name: "tenant/update", place: "POST /tenants/{name}", access: admin.Operate,
		summary: "change limits, budgets and permissions of a tenant in the configuration",
		run:     updateTenant,
	}
	opTenantPause = operation[tenantPause, applied]{
		name: "tenant/pause", place: "POST /tenants/{name}/pause", access: admin.Operate,
		summary: "refuse all keys of a tenant, or take them again",
		run: func(ctx context.Context, c *control, r tenantPause) (applied, error) {
			return c.editTenant(ctx, r.Name, r.editGuard, func(at string) []configEdit {
				return []configEdit{{Path: at + ".disabled", Value: r.Paused}}
			})
		},
	}
	opTenantDelete = operation[tenantDelete, applied]{
		name: "tenant/delete", place: "POST /tenants/{name}/delete", access: admin.Operate,
		summary: "take a tenant out of the configuration; confirm is its name",
		run:     deleteTenant,
	}
)

func listTenants(ctx context.Context, c *control, q tenantQuery) ([]tenantRow, error) {
	conf, err := c.config()
	if err != nil {
		return nil, err
	}
	budgets, err := c.budgets(ctx, q.Tenant)
	if err != nil {
		return nil, err
	}
	recent, err := c.recentOf(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := c.store.Keys(ctx)
	if err != nil {
		return nil, err
	}
	open, now := c.openByTenant(), c.now()
	out := []tenantRow{}
	for i := range conf.Tenants {
		t := &conf.Tenants[i]
		if q.Tenant != "" && t.Name != q.Tenant {
			continue
		}
		row := tenantOf(t, conf.Zone)
		for _, b := range budgets {
			if b.Tenant == t.Name && b.KeyID == "" {
				row.Budgets = append(row.Budgets, b)
			}
		}
		for k := range keys {
			if keys[k].Tenant == t.Name {
				row.Keys++
				if keys[k].Live(now) {
					row.LiveKeys++
				}
			}
		}
		row.Open, row.RecentSpan, row.LastUsed = open[t.Name], recent.span, recent.last[t.Name]
		if s := recent.tenants[t.Name]; s != nil {
			row.Recent, row.PerRequest = *s, s.perRequest()
		}
		out = append(out, row)
	}
	return out, nil
}

// tenantOf is what the configuration says of a tenant.
func tenantOf(t *policy.TenantConfig, zone string) tenantRow {
	list := func(l []string) []string { return append([]string{}, l...) }
	row := tenantRow{Name: t.Name, Paused: t.Disabled, Models: list(t.Models), Tools: list(t.Tools), DataClasses: list(t.DataClasses), Regions: list(t.Regions),
		Effects: list(t.Effects), Zone: t.Zone, Limits: t.Limits, KeyLimits: t.KeyLimits, Budgets: []budgetPosition{}, KeyBudgets: []tenantBudget{}}
	if row.Zone == "" {
		row.Zone = zone
	}
	for _, b := range t.KeyBudgets {
		row.KeyBudgets = append(row.KeyBudgets, tenantBudget{b.Period, int64(b.CapUSD)})
	}
	return row
}

// openByTenant counts the requests that run.
func (c *control) openByTenant() map[string]int {
	n := map[string]int{}
	if c.server != nil {
		c.server.grants.Range(func(g, _ any) bool {
			n[g.(*web.Grant).Tenant]++
			return true
		})
	}
	return n
}

// table is s as a TOML table: only what is given.
func (s *tenantSettings) table() map[string]any {
	t := map[string]any{}
	for key, l := range map[string]*[]string{"models": s.Models, "tools": s.Tools, "data_classes": s.DataClasses, "regions": s.Regions, "effects": s.Effects} {
		if l != nil {
			t[key] = texts(*l)
		}
	}
	if s.Zone != nil {
		t["zone"] = *s.Zone
	}
	for key, l := range map[string]*store.Limits{"limits": s.Limits, "key_limits": s.KeyLimits} {
		if l != nil {
			t[key] = map[string]any{"requests_per_minute": int64(l.RequestsPerMinute), "tokens_per_minute": int64(l.TokensPerMinute), "concurrency": int64(l.Concurrency)}
		}
	}
	for key, l := range map[string]*[]tenantBudget{"budget": s.Budgets, "key_budget": s.KeyBudgets} {
		if l != nil {
			t[key] = budgetTables(*l)
		}
	}
	return t
}

func texts(l []string) []any {
	out := make([]any, len(l))
	for i := range l {
		out[i] = l[i]
	}
	return out
}

func budgetTables(l []tenantBudget) []any {
	out := make([]any, len(l))
	for i, b := range l {
		out[i] = map[string]any{"period": string(b.Period), "cap_usd": policy.NanoUSD(b.Cap).String()}
	}
	return out
}

// tenantTables is what the file says of tenants; none where it has no such table
// and the default one is implied.
func (c *control) tenantTables() ([]string, error) {
	text, err := c.current()
	if err != nil {
		return nil, err
	}
	d, err := edit.Parse(text)
	if err != nil {
		return nil, infer.Errorf(infer.CodeConflict, "cannot change keys of a file that is no TOML now: %v", err)
	}
	v, _ := d.Get(edit.Path{edit.Key("tenant")})
	names := []string{}
	for _, t := range tablesOf(v) {
		name, _ := t["name"].(string)
		names = append(names, name)
	}
	return names, nil
}

// editTenant changes the table of a tenant; one that is only implied is written
// first.
func (c *control) editTenant(ctx context.Context, name string, g editGuard, edits func(at string) []configEdit) (applied, error) {
	names, err := c.tenantTables()
	if err != nil {
		return applied{}, err
	}
	var all []configEdit
	i := slices.Index(names, name)
	if i < 0 && (len(names) > 0 || name != config.DefaultTenant) {
		return applied{}, infer.Errorf(infer.CodeNotFound, "no tenant is called %.64q, the configuration has %q", name, names)
	}
	if i < 0 {
		i = 0
		all = append(all, configEdit{Path: "tenant", Append: true, Value: map[string]any{"name": name}})
	}
	all = append(all, edits(fmt.Sprintf("tenant[%d]", i))...)
	return setConfig(ctx, c, configSet{Changes: all, IfMatch: g.IfMatch, Note: g.Note, DryRun: g.DryRun})
}

func createTenant(ctx context.Context, c *control, r tenantCreate) (applied, error) {
	names, err := c.tenantTables()
	if err != nil {
		return applied{}, err
	}
	if slices.Contains(names, r.Name) || len(names) == 0 && r.Name == config.DefaultTenant {
		return applied{}, infer.Errorf(infer.CodeConflict, "there is a tenant %.64q already", r.Name)
	}
	var all []configEdit
	if len(names) == 0 { // with a table of another one it would be no more
		all = append(all, configEdit{Path: "tenant", Append: true, Value: map[string]any{"name": config.DefaultTenant}})
	}
	t := r.table()
	t["name"] = r.Name
	all = append(all, configEdit{Path: "tenant", Append: true, Value: t})
	return setConfig(ctx, c, configSet{Changes: all, IfMatch: r.IfMatch, Note: r.Note, DryRun: r.DryRun})
}

// tenantKeys are the settings that can be cleared, by the key of the file.
var tenantKeys = map[string]string{"models": "models", "tools": "tools", "data_classes": "data_classes", "regions": "regions", "effects": "effects",
	"zone": "zone", "limits": "limits", "key_limits": "key_limits", "budgets": "budget", "key_budgets": "key_budget"}

func updateTenant(ctx context.Context, c *control, r tenantUpdate) (applied, error) {
	names, err := c.tenantTables()
	if err != nil {
		return applied{}, err
	}
	var has map[string]bool
	if i := slices.Index(names, r.Name); i >= 0 {
		if has, err = c.keysAt(fmt.Sprintf("tenant[%d]", i)); err != nil {
			return applied{}, err
		}
	}
	for _, k := range r.Clear {
		if tenantKeys[k] == "" {
			return applied{}, infer.Invalid("clear", "there is no setting %.40q of a tenant", k)
		}
	}
	return c.editTenant(ctx, r.Name, r.editGuard, func(at string) []configEdit {
		var edits []configEdit
		table := r.table()
		for _, key := range []string{"models", "tools", "data_classes", "regions", "effects", "zone", "limits", "key_limits", "budget", "key_budget"} {
			if v, ok := table[key]; ok {
				edits = append(edits, settle(at, key, v, has)...)
			}
		}
		for _, k := range r.Clear {
			if key := tenantKeys[k]; has[key] && table[key] == nil {
				edits = append(edits, configEdit{Path: at + "." + key, Delete: true})
			}
		}
		return edits
	})
}

// settle makes the key of a table have a value: lists of tables are written anew,
// and other tables key by key, so that comments stay. has says what is there.
func settle(at, key string, v any, has map[string]bool) []configEdit {
	var edits []configEdit
	path := at + "." + key
	list, isList := v.([]any)
	if isList && (len(list) == 0 || isMap(list[0])) && (key == "budget" || key == "key_budget") {
		if has[key] {
			edits = append(edits, configEdit{Path: path, Delete: true})
		}
		for _, e := range list {
			edits = append(edits, configEdit{Path: path, Append: true, Value: e})
		}
		return edits
	}
	if m, ok := v.(map[string]any); ok {
		for _, k := range []string{"requests_per_minute", "tokens_per_minute", "concurrency"} {
			if m[k] != int64(0) || has[key+"."+k] {
				edits = append(edits, configEdit{Path: path + "." + k, Value: m[k]})
			}
		}
		return edits
	}
	return []configEdit{{Path: path, Value: v}}
}

func isMap(v any) bool { _, ok := v.(map[string]any); return ok }

// keysAt says which keys a table of the file has.
func (c *control) keysAt(path string) (map[string]bool, error) {
	text, err := c.current()
	if err != nil {
		return nil, err
	}
	d, err := edit.Parse(text)
	if err != nil {
		return nil, infer.Errorf(infer.CodeConflict, "cannot change keys of a file that is no TOML now: %v", err)
	}
	p, err := edit.ParsePath(path)
	if err != nil {
		return nil, err
	}
	v, _ := d.Get(p)
	t, _ := v.(map[string]any)
	has := map[string]bool{}
	for k, v := range t {
		has[k] = true
		sub, _ := v.(map[string]any)
		for k2 := range sub {
			has[k+"."+k2] = true
		}
	}
	return has, nil
}

func deleteTenant(ctx context.Context, c *control, r tenantDelete) (applied, error) {
	if err := confirmed(r.Name, r.Confirm); err != nil {
		return applied{}, err
	}
	keys, err := c.store.Keys(ctx)
	if err != nil {
		return applied{}, err
	}
	var live []string
	for i := range keys {
		if keys[i].Tenant == r.Name && keys[i].Live(c.now()) {
			live = append(live, keys[i].ID)
		}
	}
	if len(live) > 0 && !r.RevokeKeys {
		return applied{}, infer.Errorf(infer.CodeConflict, "cannot delete tenant %q: it has %d live keys; set revoke_keys to end them", r.Name, len(live))
	}
	names, err := c.tenantTables()
	if err != nil {
		return applied{}, err
	}
	if len(names) == 1 && names[0] == r.Name {
		return applied{}, infer.Errorf(infer.CodeConflict, "cannot delete tenant %q: it is the only one", r.Name)
	}
	out, err := c.editTenant(ctx, r.Name, r.editGuard, func(at string) []configEdit { return []configEdit{{Path: at, Delete: true}} })
	if err != nil || r.DryRun {
		return out, err
	}
	for _, id := range live {
		if _, err := c.store.RevokeKey(ctx, id); err != nil {
			return out, err
		}
	}
	return out, nil
}
