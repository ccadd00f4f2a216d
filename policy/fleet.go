package policy

import (
	"hash/fnv"
	"sync"
	"time"

	"hearth/engine/infer"
)

// fleet is the live state of everything that routes name: who is in use, who is
// out, who must be left alone, who waits. It outlives snapshots, which hold
// pointers into it; a reload forgets what no route names any more.
type fleet struct {
	elapsed func() time.Duration // monotonic
	random  func() float64       // in [0, 1)
	timer   func(time.Duration) (fired <-chan time.Time, stop func())

	mu          sync.Mutex // guards what follows, and all state that is pointed to
	deployments map[deploymentKey]*deployment
	upstreams   map[string]*upstreamState
	domains     map[string]*domain
	lanes       map[string]*lane
	shadows     map[shadowKey]*shadowState
	busy        []*lane // those in which requests wait
	picks       uint64
	joined      uint64
}

type deploymentKey struct{ upstream, model string }

// deployment is one model at one upstream, whichever routes name it.
type deployment struct {
	key         deploymentKey
	hash        uint64
	outstanding int
	circuit     circuit
	picked      uint64 // when it was chosen last, counted in choices
	last        infer.FailureClass
	successes   uint64
	failures    uint64
	fallbacks   uint64
	retries     uint64
}

// upstreamState is what the deployments at one upstream share.
type upstreamState struct {
	outstanding int
	circuit     circuit // by probes alone
	shadows     []*ShadowRun
}

// domain is what shares a rate limit at a provider.
type domain struct {
	until time.Duration // to be left alone until then
}

// lane is the live state of one route.
type lane struct {
	size    int                 // candidates of the whole route
	current map[*deployment]int // smooth weighted round robin
	waiting []*waiter           // ordered by turn
	served  uint64              // turn of the last that was served from the queue
	last    map[string]uint64   // by tenant: its latest turn
}

func newFleet(elapsed func() time.Duration, random func() float64) *fleet {
	return &fleet{elapsed: elapsed, random: random, timer: newTimer,
		deployments: map[deploymentKey]*deployment{}, upstreams: map[string]*upstreamState{}, domains: map[string]*domain{}, lanes: map[string]*lane{},
		shadows: map[shadowKey]*shadowState{}}
}

func newTimer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// live is where the state of one candidate is.
type live struct {
	deployment *deployment
	upstream   *upstreamState
	domain     *domain
}

// attach gives every route of a snapshot its state, the present one where there
// is one, and forgets what is neither named nor in use.
func (f *fleet) attach(s *Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.elapsed()
	deployments, upstreams := map[deploymentKey]*deployment{}, map[string]*upstreamState{}
	domains, lanes := map[string]*domain{}, map[string]*lane{}
	for k, d := range f.deployments {
		if d.outstanding > 0 {
			deployments[k], upstreams[k.upstream] = d, f.upstreams[k.upstream]
		}
	}
	shadows := map[shadowKey]*shadowState{}
	for k, s := range f.shadows {
		if s.open > 0 {
			shadows[k], upstreams[k.upstream] = s, f.upstreams[k.upstream]
		}
	}
	for k, d := range f.domains {
		if d.until > now {
			domains[k] = d
		}
	}
	for k, l := range f.lanes {
		if len(l.waiting) > 0 {
			lanes[k] = l
		}
	}
	attach := func(c *Candidate) {
		key := deploymentKey{c.Backend, c.Model}
		c.live = live{
			keep(deployments, f.deployments, key, func() *deployment { return &deployment{key: key, hash: key.digest()} }),
			keep(upstreams, f.upstreams, c.Backend, func() *upstreamState { return &upstreamState{} }),
			keep(domains, f.domains, c.QuotaDomain, func() *domain { return &domain{} }),
		}
	}
	for _, name := range s.names {
		r := s.routes[name]
		r.lane = keep(lanes, f.lanes, name, func() *lane { return &lane{current: map[*deployment]int{}, last: map[string]uint64{}} })
		r.lane.size = len(r.Candidates)
		for i := range r.Candidates {
			attach(&r.Candidates[i])
		}
		for _, s := range r.Shadows {
			c := s.Candidate()
			attach(c)
			s.state = keep(shadows, f.shadows, shadowKey{name, c.Backend, c.Model}, func() *shadowState { return &shadowState{} })
		}
	}
	for _, l := range lanes {
		for d := range l.current {
			if deployments[d.key] != d {
				delete(l.current, d)
			}
		}
	}
	f.deployments, f.upstreams, f.domains, f.lanes, f.shadows = deployments, upstreams, domains, lanes, shadows
}

// keep takes the value of k over from one map to the next.
func keep[K comparable, V any](next, old map[K]*V, k K, make func() *V) *V {
	if next[k] == nil {
		if next[k] = old[k]; next[k] == nil {
			next[k] = make()
		}
	}
	return next[k]
}

func (k deploymentKey) digest() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(k.upstream + "\x00" + k.model))
	return h.Sum64()
}
