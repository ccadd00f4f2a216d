package policy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hearth/engine/infer"
)

// dispatcher is a policy without a store: enough to choose candidates.
func dispatcher(t testing.TB, c Config, random func() float64) *Policy {
	t.Helper()
	c.Defaults()
	for _, f := range c.Validate() {
		t.Fatal(f)
	}
	start := time.Now()
	p := &Policy{now: time.Now, fleet: newFleet(func() time.Duration { return time.Since(start) }, random)}
	p.swap(t, c)
	return p
}

// swap puts another configuration in force.
func (p *Policy) swap(t testing.TB, c Config) {
	t.Helper()
	c.Defaults()
	s, err := build(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.fleet.attach(s)
	p.snap.Store(s)
}

func (p *Policy) routeNamed(name string) *Route { return p.snap.Load().routes[name] }

func failed(class infer.FailureClass, unsent bool, after time.Duration) *infer.Error {
	e := infer.Errorf(infer.CodeUpstream, "failed")
	if class == infer.FailRateLimit {
		e.Code = infer.CodeRateLimited
	}
	e.Upstream = &infer.UpstreamFault{Class: class, Unsent: unsent, RetryAfter: after}
	return e
}

// simulation is one random scenario: routes, providers that fail at random, and
// requests that come and go. It checks what must hold whatever happens.
type simulation struct {
	t    *testing.T
	seed uint64
	p    *Policy
	r    *rand.Rand

	mu     sync.Mutex
	floors map[string]time.Time // by quota domain
	open   map[string]int       // by candidate, and by upstream
	starts int
}

func (s *simulation) fail(format string, args ...any) {
	s.t.Errorf("scenario %d: %s", s.seed, fmt.Sprintf(format, args...))
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func randomConfig(r *rand.Rand) Config {
	c := Config{}
	bounds := map[string]int{"a": pick(r, 0, 0, 1, 2), "b": pick(r, 0, 0, 1, 2)} // of a deployment, the same for all routes
	for i := range 1 + r.IntN(3) {
		eject := pick(r, 0, 1, 3)
		c.Upstreams = append(c.Upstreams, UpstreamConfig{Name: fmt.Sprint("u", i), Kind: "openai", MaxConcurrent: pick(r, 0, 0, 1, 3),
			Health: HealthConfig{EjectAfter: &eject, EjectFor: Duration(time.Second), EjectMax: Duration(10 * time.Second)}})
	}
	for i := range 1 + r.IntN(2) {
		route := RouteConfig{Model: fmt.Sprint("m", i), Split: pick(r, SplitOrdered, SplitWeighted, SplitLeast, SplitPrefix), Effect: pick(r, ReadOnly, Effectful)}
		route.Retry = RetryConfig{Attempts: 1 + r.IntN(5), Backoff: Duration(100 * time.Millisecond), MaxBackoff: Duration(2 * time.Second)}
		if r.IntN(3) == 0 {
			route.Retry.On = []string{"connect", "rate_limit", "quota", "malformed"}
		}
		route.Queue = QueueConfig{Depth: pick(r, 0, 2, 50), Wait: pick(r, Duration(0), Duration(3*time.Second))}
		for j, u := range c.Upstreams {
			if j == 0 || r.IntN(2) == 0 {
				route.Candidates = append(route.Candidates, CandidateConfig{Upstream: u.Name, Model: pick(r, "a", "b"), Weight: 1 + r.IntN(4), QuotaDomain: pick(r, "", "shared")})
				last := &route.Candidates[len(route.Candidates)-1]
				last.MaxConcurrent = bounds[last.Model]
			}
		}
		c.Routes = append(c.Routes, route)
	}
	return c
}

// result makes up how an attempt ends.
func result(r *rand.Rand) AttemptResult {
	switch n := r.IntN(12); {
	case n < 4:
		return AttemptResult{Delivered: true}
	case n == 4:
		return AttemptResult{Left: true}
	case n == 5:
		return AttemptResult{Delivered: true, Err: failed(infer.FailLost, false, 0)}
	case n == 6:
		return AttemptResult{Err: failed(infer.FailRateLimit, true, pick(r, 0, time.Second, 5*time.Second))}
	}
	class := pick(r, infer.FailConnect, infer.FailQuota, infer.FailOverload, infer.FailServer, infer.FailTimeout, infer.FailLost, infer.FailMalformed, infer.FailAuth, infer.FailRequest)
	return AttemptResult{Err: failed(class, class == infer.FailConnect || r.IntN(2) == 0, 0)}
}

func TestDispatchSimulation(t *testing.T) {
	scenarios := 1000
	if testing.Short() {
		scenarios = 300
	}
	for seed := range uint64(scenarios) {
		synctest.Test(t, func(t *testing.T) {
			s := &simulation{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 1)), floors: map[string]time.Time{}, open: map[string]int{}}
			jitter := rand.New(rand.NewPCG(seed, 2)) // only under the fleet's lock
			s.p = dispatcher(t, randomConfig(s.r), jitter.Float64)
			s.run()
		})
		if t.Failed() {
			return
		}
	}
}

func (s *simulation) run() {
	var all sync.WaitGroup
	for i := range 5 + s.r.IntN(25) {
		seed, wait := s.r.Uint64(), time.Duration(s.r.Int64N(int64(10*time.Second)))
		all.Go(func() {
			time.Sleep(wait)
			s.request(rand.New(rand.NewPCG(seed, 0)), i)
		})
	}
	all.Wait()
	s.atRest()
	time.Sleep(time.Hour)
	s.recovers()
	s.atRest()
}

// request makes the attempts that it is allowed.
func (s *simulation) request(r *rand.Rand, n int) {
	names := s.p.snap.Load().names
	route := s.p.routeNamed(names[r.IntN(len(names))])
	req := DispatchRequest{Identity: &Identity{Tenant: fmt.Sprint("t", n%3)}, Prefix: r.Uint64N(3), Repeatable: r.IntN(4) == 0}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.IntN(4) > 0 {
		req.Deadline = time.Now().Add(time.Duration(r.Int64N(int64(20 * time.Second))))
		ctx, cancel = context.WithDeadline(ctx, req.Deadline)
		defer cancel()
	} else if r.IntN(2) == 0 {
		time.AfterFunc(time.Duration(r.Int64N(int64(5*time.Second))), cancel)
	}
	if r.IntN(5) == 0 {
		bad := r.IntN(len(route.Candidates))
		req.Usable = func(i int) error {
			if i == bad {
				return infer.Unsupported("x", "is not offered")
			}
			return nil
		}
	}
	d := s.p.Dispatch(route, req)
	again, made := true, 0
	for {
		a, err := d.Next(ctx)
		if err != nil {
			s.told(err, made, again)
			return
		}
		made++
		if !again || made > route.Config.Retry.Attempts || a.Number != made {
			s.fail("attempt %d (numbered %d) of at most %d, allowed: %v", made, a.Number, route.Config.Retry.Attempts, again)
		}
		if !req.Deadline.IsZero() && !time.Now().Before(req.Deadline) {
			s.fail("an attempt began after the deadline")
		}
		if req.Usable != nil && req.Usable(a.Index) != nil {
			s.fail("a candidate was asked that is not usable")
		}
		again = s.attempt(r, route, a, &req)
	}
}

func (s *simulation) told(err error, made int, again bool) {
	var e *infer.Error
	if !errors.As(err, &e) || e.Code == "" || e.Message == "" {
		s.fail("the error told is %v", err)
	}
	if made == 0 && !again {
		s.fail("no attempt was made and none is allowed")
	}
	if e.RetryAfter%time.Second != 0 {
		s.fail("the client is told to wait for %v", e.RetryAfter)
	}
}

// attempt checks that it may begin, and ends it at random; it says whether
// another may follow.
func (s *simulation) attempt(r *rand.Rand, route *Route, a *Attempt, req *DispatchRequest) bool {
	c := a.Candidate
	candidate, upstream := c.Backend+"/"+c.Model, c.Backend
	s.mu.Lock()
	s.starts++
	if floor := s.floors[c.QuotaDomain]; time.Now().Before(floor) {
		s.fail("domain %s was asked %v before its time", c.QuotaDomain, time.Until(floor))
	}
	s.open[candidate]++
	s.open[upstream]++
	if n := s.open[candidate]; c.MaxConcurrent > 0 && n > c.MaxConcurrent {
		s.fail("%d requests open at %s", n, candidate)
	}
	if n := s.open[upstream]; c.Upstream.MaxConcurrent > 0 && n > c.Upstream.MaxConcurrent {
		s.fail("%d requests open at %s", n, upstream)
	}
	s.mu.Unlock()
	time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
	res := result(r)
	s.mu.Lock()
	s.open[candidate]--
	s.open[upstream]--
	if res.Err != nil && res.Err.Upstream.RetryAfter > 0 {
		if until := time.Now().Add(res.Err.Upstream.RetryAfter); until.After(s.floors[c.QuotaDomain]) {
			s.floors[c.QuotaDomain] = until
		}
	}
	v := a.Done(res)
	s.mu.Unlock()
	if res.Err != nil && v.Again {
		u := res.Err.Upstream
		if res.Delivered || !u.Unsent && u.Class != infer.FailRateLimit && !req.Repeatable && route.Config.Effect != ReadOnly {
			s.fail("another attempt is allowed after %+v, delivered: %v", u, res.Delivered)
		}
	}
	if res.Err == nil && v.Again {
		s.fail("another attempt is allowed after the answer")
	}
	if again := a.Done(res); again != (Verdict{}) {
		s.fail("a second end gave %+v", again)
	}
	return v.Again
}

// atRest checks that nothing is held when nobody asks.
func (s *simulation) atRest() {
	f := s.p.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, d := range f.deployments {
		if d.outstanding != 0 || d.circuit.trying {
			s.fail("at rest %v has %d requests open, on trial: %v", k, d.outstanding, d.circuit.trying)
		}
	}
	for k, u := range f.upstreams {
		if u.outstanding != 0 {
			s.fail("at rest %v has %d requests open", k, u.outstanding)
		}
	}
	if len(f.busy) != 0 {
		s.fail("at rest requests wait in %d routes", len(f.busy))
	}
	for k, l := range f.lanes {
		if len(l.waiting) != 0 || len(l.last) != 0 {
			s.fail("at rest %d requests wait for %s", len(l.waiting), k)
		}
	}
}

// recovers checks that everything can be asked again later and is healthy when
// it answers.
func (s *simulation) recovers() {
	for _, name := range s.p.snap.Load().names {
		route := s.p.routeNamed(name)
		for want := range route.Candidates {
			d := s.p.Dispatch(route, DispatchRequest{Usable: func(i int) error {
				if i != want {
					return infer.Errorf(infer.CodeInternal, "another")
				}
				return nil
			}})
			a, err := d.Next(context.Background())
			if err != nil {
				s.fail("an hour later %s: %v", name, err)
				return
			}
			a.Done(AttemptResult{Delivered: true})
		}
	}
	for _, h := range s.p.Health() {
		if h.State != Healthy || h.Outstanding != 0 {
			s.fail("in the end: %+v", h)
		}
	}
}

// Many at once, in real time: for the race detector, and to see that what is free
// is always used.
func TestDispatchRace(t *testing.T) {
	never := 0
	p := dispatcher(t, Config{
		Upstreams: []UpstreamConfig{{Name: "a", Kind: "openai", MaxConcurrent: 3, Health: HealthConfig{EjectAfter: &never}}, {Name: "b", Kind: "openai"}},
		Routes: []RouteConfig{{Model: "m", Effect: ReadOnly, Queue: QueueConfig{Depth: 1000}, Split: SplitLeast,
			Retry:      RetryConfig{Attempts: 4, Backoff: Duration(time.Millisecond), MaxBackoff: Duration(2 * time.Millisecond)},
			Candidates: []CandidateConfig{{Upstream: "a", Model: "x"}, {Upstream: "b", Model: "y", MaxConcurrent: 2}}}},
	}, rand.Float64)
	var all sync.WaitGroup
	var served, open atomic.Int64
	for i := range 300 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if i%10 == 0 {
				time.AfterFunc(time.Millisecond, cancel)
			}
			d := p.Dispatch(p.routeNamed("m"), DispatchRequest{Identity: &Identity{Tenant: fmt.Sprint(i % 4)}})
			for {
				a, err := d.Next(ctx)
				if err != nil {
					return
				}
				if open.Add(1) > 5 {
					t.Error("more than five requests are open")
				}
				time.Sleep(time.Duration(i%3) * 100 * time.Microsecond)
				open.Add(-1)
				if i%7 == 0 && a.Number == 1 {
					a.Done(AttemptResult{Err: failed(infer.FailServer, false, 0)})
					continue
				}
				a.Done(AttemptResult{Delivered: true})
				served.Add(1)
			}
		})
		if i%50 == 0 {
			p.Health()
			p.ReportProbe("a", i%100 == 0)
		}
	}
	all.Wait()
	if served.Load() < 270 {
		t.Errorf("%d of 300 were served", served.Load())
	}
	(&simulation{t: t, p: p}).atRest()
}
