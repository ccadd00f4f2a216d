package policy

import "time"

// RouteState is a route with what is known of its candidates now.
type RouteState struct {
	Route   *Route
	Aliases []string
	Waiting int // requests in its queue
	// Candidates is in step with Route.Candidates.
	Candidates []CandidateState
	Shadows    []ShadowState
}

// CandidateState is one candidate of a route as a request would find it.
type CandidateState struct {
	State       string        // Healthy, Ejected, HalfOpen or Blocked
	For         time.Duration // until the state ends by itself; 0: it does not
	Outstanding int           // requests open there, over all routes
	Full        bool          // it has as many as it may
}

// Routes lists every route by its public name.
func (p *Policy) Routes() []RouteState {
	s, f := p.snap.Load(), p.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.elapsed()
	out := make([]RouteState, 0, len(s.names))
	for _, name := range s.names {
		r := s.routes[name]
		st := RouteState{Route: r, Waiting: len(r.lane.waiting)}
		if r.Config != nil {
			st.Aliases = r.Config.Aliases
		}
		for i := range r.Candidates {
			c := &r.Candidates[i]
			h := c.healthLocked(now)
			if left := c.live.domain.until - now; left > 0 && h.State == Healthy {
				h.State, h.For = Blocked, left
			}
			full := c.MaxConcurrent > 0 && c.live.deployment.outstanding >= c.MaxConcurrent ||
				c.Upstream != nil && c.Upstream.MaxConcurrent > 0 && c.live.upstream.outstanding >= c.Upstream.MaxConcurrent
			st.Candidates = append(st.Candidates, CandidateState{h.State, h.For, h.Outstanding, full})
		}
		st.Shadows = r.shadowsLocked(now)
		out = append(out, st)
	}
	return out
}

// MayUse says whether keys of a tenant may ask for a route, as far as the tenant
// decides that.
func (p *Policy) MayUse(tenant, route string) bool {
	s := p.snap.Load()
	t, r := s.tenants[tenant], s.routes[route]
	if t == nil || r == nil || t.disabled {
		return false
	}
	sc := scope{classes: both(t.dataClasses, nil), regions: both(t.regions, nil), effects: [2][]string{t.effects, nil}}
	_, err := sc.permit(r)
	return err == nil && allows(t.models, r.Name)
}

// Readmit takes an upstream's deployments back into use at once, as if they had
// just answered: those that were ejected, or the one of that model if one is
// named. It gives their number; -1 if no route names the upstream.
func (p *Policy) Readmit(upstream, model string) int {
	f := p.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.upstreams[upstream]
	if u == nil {
		return -1
	}
	n := 0
	closed := func(c *circuit) {
		if c.open || c.failures > 0 {
			n++
		}
		*c = circuit{epoch: c.epoch + 1} // what runs tells nothing of the time to come
	}
	closed(&u.circuit)
	for k, d := range f.deployments {
		if k.upstream == upstream && (model == "" || k.model == model) {
			closed(&d.circuit)
		}
	}
	for k, s := range f.shadows {
		if k.upstream == upstream && (model == "" || k.model == model) {
			closed(&s.circuit)
		}
	}
	f.serveLocked(f.elapsed())
	return n
}
