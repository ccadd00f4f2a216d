package policy

import (
	"slices"
	"strings"
	"time"

	"hearth/engine/infer"
)

// Health states of a deployment.
const (
	Healthy  = "healthy"
	Ejected  = "ejected"   // taken out after failures, or by its probes
	HalfOpen = "half-open" // one request at a time tries it again
	Blocked  = "blocked"   // its provider asked to be left alone
)

// CandidateHealth is the state of one deployment: a model at an upstream.
type CandidateHealth struct {
	Upstream string
	Model    string
	Routes   []string // public names of the routes that name it, sorted
	State    string
	For      time.Duration // until the state ends by itself; 0: it does not
	// Blocked tells how much longer each of its quota domains is left alone, by
	// name; nil: none.
	Blocked     map[string]time.Duration
	Outstanding int // requests open there
	Waiting     int // requests in the queues of its routes
	Failures    int // in a row
	LastFailure infer.FailureClass
	// Counters since the start. Fallbacks are attempts made there after another
	// candidate had failed or was passed over, Retries those made there again.
	Successes, Failed, Fallbacks, Retries uint64
}

// Health lists every deployment that a route names, by upstream and model.
func (p *Policy) Health() []CandidateHealth {
	s, f := p.snap.Load(), p.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.elapsed()
	found := map[*deployment]*CandidateHealth{}
	for _, name := range s.names {
		r := s.routes[name]
		for i := range r.Candidates {
			c := &r.Candidates[i]
			h := found[c.live.deployment]
			if h == nil {
				h = c.healthLocked(now)
				found[c.live.deployment] = h
			}
			h.Routes = append(h.Routes, name)
			h.Waiting += len(r.lane.waiting)
			if left := c.live.domain.until - now; left > 0 {
				if h.Blocked == nil {
					h.Blocked = map[string]time.Duration{}
				}
				h.Blocked[c.QuotaDomain] = left
				if h.State == Healthy || h.State == Blocked {
					h.State, h.For = Blocked, max(h.For, left)
				}
			}
		}
	}
	out := make([]CandidateHealth, 0, len(found))
	for _, h := range found {
		out = append(out, *h)
	}
	slices.SortFunc(out, func(a, b CandidateHealth) int {
		if c := strings.Compare(a.Upstream, b.Upstream); c != 0 {
			return c
		}
		return strings.Compare(a.Model, b.Model)
	})
	return out
}

func (c *Candidate) healthLocked(now time.Duration) *CandidateHealth {
	d := c.live.deployment
	h := &CandidateHealth{Upstream: c.Backend, Model: c.Model, State: Healthy, Outstanding: d.outstanding, Failures: d.circuit.failures,
		LastFailure: d.last, Successes: d.successes, Failed: d.failures, Fallbacks: d.fallbacks, Retries: d.retries}
	if !c.ejects() {
		return h
	}
	for _, circuit := range [...]*circuit{&d.circuit, &c.live.upstream.circuit} {
		switch {
		case !circuit.open:
		case now < circuit.until:
			h.State, h.For = Ejected, max(h.For, circuit.until-now)
		case h.State == Healthy:
			h.State = HalfOpen
		}
	}
	return h
}

// ReportProbe counts what an active probe of an upstream found. Failed probes in
// a row take all its deployments out, as failed requests take out one; a good
// one brings them back, and lets a request try those at once that could not be
// connected to.
func (p *Policy) ReportProbe(upstream string, ok bool) {
	s, f := p.snap.Load(), p.fleet
	i := slices.IndexFunc(s.config.Upstreams, func(u UpstreamConfig) bool { return u.Name == upstream })
	if i < 0 {
		return
	}
	h := &s.config.Upstreams[i].Health
	f.mu.Lock()
	defer f.mu.Unlock()
	u, now := f.upstreams[upstream], f.elapsed()
	if u == nil {
		return // no route names it
	}
	if !ok {
		u.circuit.fail(now, u.circuit.epoch, *h.EjectAfter, time.Duration(h.EjectFor), time.Duration(h.EjectMax))
		return
	}
	u.circuit.succeed(u.circuit.epoch)
	for k, d := range f.deployments {
		if k.upstream == upstream && d.last == infer.FailConnect {
			d.circuit.readmit(now)
		}
	}
	f.serveLocked(now)
}
