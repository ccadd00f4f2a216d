package policy

import (
	"fmt"
	"slices"
)

// Doubts lists what is no fault of a valid configuration but hardly what was
// meant: requests that will be refused for want of a price, upstreams that
// nothing asks. local are the models of the engine in this box.
func (c *Config) Doubts(local []string) ([]Fault, error) {
	s, err := build(*c, local)
	if err != nil {
		return nil, err
	}
	v := &validator{}
	for i := range c.Upstreams {
		name := c.Upstreams[i].Name
		if !slices.ContainsFunc(c.Routes, func(r RouteConfig) bool { return r.asks(name) }) {
			v.fault(fmt.Sprintf("upstream[%d].name", i), "no route names %q: nothing asks it", name)
		}
	}
	payer := c.budgeted()
	for i := range c.Routes {
		r := s.routes[c.Routes[i].Model]
		for j := range r.Candidates {
			cand := &r.Candidates[j]
			at := fmt.Sprintf("route[%d].candidate[%d]", i, j)
			if cand.Backend == Local && !slices.Contains(local, cand.Model) {
				v.fault(at, "no local model is called %.64q: requests are refused; name an upstream, or install the model", cand.Model)
			} else if !cand.Priced && payer != "" {
				v.fault(at, "no [[price]] is for it, and tenant %q has a budget: it is refused on this route; want one with model = %.64q or %.64q",
					payer, cand.Backend+"/"+cand.Model, r.Name)
			}
		}
		for j, sh := range r.Shadows {
			cand, at := sh.Candidate(), fmt.Sprintf("route[%d].shadow[%d]", i, j)
			if cand.Backend == Local && !slices.Contains(local, cand.Model) {
				v.fault(at, "no local model is called %.64q: no copies are made; name an upstream, or install the model", cand.Model)
			} else if !cand.Priced && c.pays(sh.Tenant) {
				v.fault(at, "no [[price]] is for it, and tenant %q has a budget: no copies are made; want one with model = %.64q", sh.Tenant, cand.Backend+"/"+cand.Model)
			}
		}
	}
	for _, name := range local {
		if r := s.routes[name]; r.Config == nil && !r.Candidates[0].Priced && payer != "" {
			v.fault("price", "none is for the local model %.64q, and tenant %q has a budget: it is refused; want one with model = %.64q, or \"*\" for every local model", name, payer, name)
		}
	}
	return v.faults, nil
}

// asks says whether a candidate of the route is of the upstream.
func (r *RouteConfig) asks(upstream string) bool {
	return slices.ContainsFunc(r.Candidates, func(c CandidateConfig) bool { return c.Upstream == upstream }) ||
		slices.ContainsFunc(r.Shadows, func(s ShadowConfig) bool { return s.Upstream == upstream })
}

// pays says that a budget applies to a caller of the tenant without one of its own.
func (c *Config) pays(tenant string) bool {
	return slices.ContainsFunc(c.Tenants, func(t TenantConfig) bool { return t.Name == tenant && len(t.Budgets)+len(t.KeyBudgets) > 0 })
}

// budgeted names the first tenant with a budget; empty: there is none.
func (c *Config) budgeted() string {
	for i := range c.Tenants {
		if t := &c.Tenants[i]; !t.Disabled && len(t.Budgets)+len(t.KeyBudgets) > 0 {
			return t.Name
		}
	}
	return ""
}
