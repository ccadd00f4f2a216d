package policy

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"hearth/store"
)

// Snapshot is everything that a configuration says, in the shape in which
// requests ask for it. It is immutable; a reload makes another one.
type Snapshot struct {
	config  Config
	tenants map[string]*tenant
	routes  map[string]*Route // by public name and alias
	names   []string          // public names without aliases, sorted
}

type tenant struct {
	name     string
	owner    string   // of its limits
	charges  []charge // its own budgets
	disabled bool
	models   []string
	tools    []string
	// What its requests may hold, be served in and do; see scope.
	dataClasses, regions, effects []string

	zone       *time.Location
	limits     store.Limits
	keyLimits  store.Limits
	keyBudgets []store.KeyBudget
	windows    [3]atomic.Pointer[store.Window] // the present one of each period
}

// Route is how a public model name is served.
type Route struct {
	Name       string        // public name of the route
	Contract   string        // what all candidates are declared to keep
	Class      string        // request class
	Deadline   time.Duration // 0: none of its own
	Candidates []Candidate   // in order; at least one
	Config     *RouteConfig  // the rest; nil for a local model that no route names
	Revision   string        // digest of the route's configuration, its upstreams and prices included
	Rules      *Rules        // what is asked of requests and answers; nil: nothing
	Shadows    []*Shadow     // who gets copies of its requests

	lane *lane
}

// Candidate is one backend that may serve a route.
type Candidate struct {
	Backend         string // name of an upstream; Local is the engine in this box
	Model           string // the model's name there
	Price           store.Price
	Priced          bool            // a price is known
	MaxOutputTokens int             // held where the request names no maximum; 0 for the local engine, which knows its own
	Upstream        *UpstreamConfig // nil for the local engine
	Weight          int
	MaxConcurrent   int    // 0: no bound of its own
	QuotaDomain     string // what shares the provider's rate limit

	live live
}

// build makes the snapshot of a validated configuration.
func build(c Config, local []string) (*Snapshot, error) {
	s := &Snapshot{config: c, tenants: map[string]*tenant{}, routes: map[string]*Route{}}
	for i := range c.Tenants {
		t, err := buildTenant(&c.Tenants[i], c.Zone)
		if err != nil {
			return nil, err
		}
		s.tenants[t.name] = t
	}
	for i := range c.Routes {
		r := &c.Routes[i]
		route := &Route{Name: r.Model, Contract: r.Contract, Class: r.Class, Deadline: time.Duration(r.Deadline), Config: r}
		for _, cc := range r.Candidates {
			cand := s.candidate(r.Model, cc.Upstream, cc.Model)
			cand.MaxOutputTokens = cc.MaxOutputTokens
			cand.Weight, cand.MaxConcurrent, cand.QuotaDomain = cc.Weight, cc.MaxConcurrent, cc.QuotaDomain
			route.Candidates = append(route.Candidates, cand)
		}
		route.Revision = s.revision(route)
		s.shadows(route)
		var err error
		if route.Rules, err = c.compile(r); err != nil {
			return nil, err
		}
		for _, name := range append([]string{r.Model}, r.Aliases...) {
			s.routes[name] = route
		}
		s.names = append(s.names, r.Model)
	}
	for _, m := range local {
		if s.routes[m] == nil {
			r := &Route{Name: m, Contract: m, Candidates: []Candidate{s.candidate(m, Local, m)}}
			r.Revision = s.revision(r)
			s.routes[m] = r
			s.names = append(s.names, m)
		}
	}
	slices.Sort(s.names)
	return s, nil
}

// shadows makes those of a route.
func (s *Snapshot) shadows(r *Route) {
	for i := range r.Config.Shadows {
		k := &r.Config.Shadows[i]
		c := s.candidate(r.Name, k.Upstream, k.Model)
		c.MaxOutputTokens, c.MaxConcurrent = k.MaxOutputTokens, k.MaxConcurrent
		for _, own := range r.Candidates {
			if own.Backend == c.Backend { // a wait that its provider asks of callers holds here
				c.QuotaDomain = own.QuotaDomain
			}
		}
		r.Shadows = append(r.Shadows, &Shadow{Share: k.Share, Tenant: k.Tenant, Path: &Route{
			Name: r.Name, Contract: r.Contract, Class: ClassShadow, Deadline: time.Duration(k.Deadline),
			Candidates: []Candidate{c}, Config: r.Config, Revision: r.Revision,
		}})
	}
}

func buildTenant(c *TenantConfig, zone string) (*tenant, error) {
	t := &tenant{name: c.Name, owner: "tenant/" + c.Name, disabled: c.Disabled, models: c.Models, limits: c.Limits, keyLimits: c.KeyLimits,
		tools: c.Tools, dataClasses: c.DataClasses, regions: c.Regions, effects: c.Effects}
	if c.Zone != "" {
		zone = c.Zone
	}
	var err error
	if t.zone, err = time.LoadLocation(zone); err != nil {
		return nil, fmt.Errorf("cannot use time zone %q of tenant %s: %w", zone, c.Name, err)
	}
	for _, b := range c.Budgets {
		t.charges = append(t.charges, charge{t.owner + "/" + string(b.Period), "", b.Period, int64(b.CapUSD)})
	}
	for _, b := range c.KeyBudgets {
		t.keyBudgets = append(t.keyBudgets, store.KeyBudget{Period: b.Period, CapNano: int64(b.CapUSD)})
	}
	return t, nil
}

// candidate finds the price of a model: that of the deployment, else that of its
// public name, else that of its name at the backend.
func (s *Snapshot) candidate(public, backend, model string) Candidate {
	c := Candidate{Backend: backend, Model: model, Weight: 1, QuotaDomain: backend + "/" + public}
	for i := range s.config.Upstreams {
		if u := &s.config.Upstreams[i]; u.Name == backend {
			c.Upstream = u
		}
	}
	for _, name := range []string{backend + "/" + model, public, model} {
		for i := range s.config.Prices {
			p := &s.config.Prices[i]
			if p.Model != name {
				continue
			}
			c.Priced = true
			c.Price = store.Price{Version: s.config.PriceVersion, Input: int64(p.InputUSDPerM), Output: int64(p.OutputUSDPerM),
				Cached: int64(*p.CachedUSDPerM), CacheWrite: int64(*p.CacheWriteUSDPerM), CacheWriteHour: int64(*p.CacheWriteHourUSDPerM)}
			return c
		}
	}
	return c
}

// allows says whether a list of names and "prefix*" patterns has name. An empty
// list allows all.
func allows(patterns []string, name string) bool {
	if len(patterns) == 0 {
		return true
	}
	return slices.ContainsFunc(patterns, func(p string) bool {
		if prefix, star := strings.CutSuffix(p, "*"); star {
			return strings.HasPrefix(name, prefix)
		}
		return p == name
	})
}

// charge is one budget that a key's requests count against.
type charge struct {
	id     string
	key    string // empty: the tenant's own
	period store.Period
	cap    int64
}

// window is the window of p at now. A request falls into the same ones as that
// before it, and to find their edges takes a while.
func (t *tenant) window(p store.Period, now time.Time) (*store.Window, error) {
	var kept *atomic.Pointer[store.Window]
	switch p {
	case store.Day:
		kept = &t.windows[0]
	case store.Month:
		kept = &t.windows[1]
	case store.Total:
		kept = &t.windows[2]
	default:
		w, err := store.WindowAt(p, t.zone, now)
		return &w, err
	}
	if w := kept.Load(); w != nil && (p == store.Total || !now.Before(w.Start) && now.Before(w.End)) {
		return w, nil
	}
	w, err := store.WindowAt(p, t.zone, now)
	if err == nil {
		kept.Store(&w)
	}
	return &w, err
}

// keys lists the budgets of one of its keys.
func (t *tenant) keys(k *store.Key) []charge {
	budgets := k.Budgets
	if len(budgets) == 0 {
		budgets = t.keyBudgets
	}
	var out []charge
	for _, b := range budgets {
		out = append(out, charge{"key/" + k.ID + "/" + string(b.Period), k.ID, b.Period, b.CapNano})
	}
	return out
}

// limitsOf gives a key's own limits, or those of its tenant for each key.
func (t *tenant) limitsOf(k *store.Key) store.Limits {
	if k.Limits != (store.Limits{}) {
		return k.Limits
	}
	return t.keyLimits
}
