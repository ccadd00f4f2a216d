package policy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"hearth/engine/infer"
	"hearth/store"
)

// Options of New.
type Options struct {
	Store *store.Store
	// Now is the wall clock of budget windows and expiries; nil means time.Now.
	Now func() time.Time
	// Elapsed is the monotonic clock of rate limits; nil means the time since
	// New.
	Elapsed func() time.Duration
	// Random gives numbers in [0, 1) for the jitter of backoffs; nil means those
	// of math/rand.
	Random func() float64
	// Local lists the local models that are served without a route.
	Local []string
}

// Policy is the live policy: the present Snapshot and the state of the limits.
// It is safe for concurrent use.
type Policy struct {
	store  *store.Store
	now    func() time.Time
	snap   atomic.Pointer[Snapshot]
	limits *limits
	failed *failures
	fleet  *fleet

	mu    sync.Mutex // serializes those who make snapshots; guards local
	local []string
}

// New builds a policy from a validated configuration.
func New(c Config, o Options) (*Policy, error) {
	if o.Store == nil {
		return nil, errors.New("cannot make a policy without a store")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Elapsed == nil {
		start := time.Now()
		o.Elapsed = func() time.Duration { return time.Since(start) }
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	p := &Policy{store: o.Store, now: o.Now, limits: newLimits(o.Elapsed), local: o.Local, fleet: newFleet(o.Elapsed, o.Random)}
	p.failed = &failures{elapsed: o.Elapsed, byAddr: map[string]*rate.Limiter{}}
	return p, p.Reload(c)
}

// Reload swaps in a new configuration, or leaves the old one and says why not.
// Running requests keep the snapshot that they began with; rate buckets keep
// their level.
func (p *Policy) Reload(c Config) error {
	c.Defaults()
	if faults := c.Validate(); len(faults) > 0 {
		errs := make([]error, len(faults))
		for i, f := range faults {
			errs[i] = f
		}
		return errors.Join(errs...)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := build(c, p.local)
	if err != nil {
		return err
	}
	p.failed.configure(c.Auth)
	p.fleet.attach(s)
	p.snap.Store(s)
	p.limits.mu.Lock()
	p.limits.sweepLocked()
	p.limits.mu.Unlock()
	return nil
}

// SetLocal changes which local models exist.
func (p *Policy) SetLocal(models []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := build(p.snap.Load().config, models)
	if err != nil {
		panic("BUG: a configuration that was in force cannot be built again: " + err.Error())
	}
	p.local = models
	p.fleet.attach(s)
	p.snap.Store(s)
}

// Admission is a place among the running requests. Release gives the place
// back; it may be called more than once.
type Admission struct {
	ID     Identity
	Limits []LimitState // the tightest of each kind, as of now

	p     *Policy
	slots []slot
	once  sync.Once
}

// Release gives back the concurrency slots.
func (a *Admission) Release() {
	if a.p != nil {
		a.once.Do(func() { a.p.limits.leave(a.slots) })
	}
}

// Admit takes one request from the request-rate limits of key and tenant and a
// slot from their concurrency limits, all or none. Refusals are CodeRateLimited
// with RetryAfter between 1 s and 60 s.
func (p *Policy) Admit(id *Identity) (*Admission, error) {
	var k store.Key
	_, t, err := p.caller(id, &k)
	if err != nil {
		return nil, err
	}
	key, keyOwner, tenOwner := t.limitsOf(&k), "key/"+k.ID, t.owner
	a := &Admission{ID: *id, p: p, slots: []slot{{keyOwner, key.Concurrency}, {tenOwner, t.limits.Concurrency}}}
	requests := []limit{{keyOwner, key.RequestsPerMinute}, {tenOwner, t.limits.RequestsPerMinute}}
	tokens := []limit{{keyOwner, key.TokensPerMinute}, {tenOwner, t.limits.TokensPerMinute}}

	l := p.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.enterLocked(a.slots); err != nil {
		return nil, err
	}
	if err := l.takeLocked("requests", 1, requests); err != nil {
		l.leaveLocked(a.slots)
		return nil, err
	}
	a.Limits = l.statesLocked(nil, "requests", requests)
	a.Limits = l.statesLocked(a.Limits, "tokens", tokens)
	return a, nil
}

// Route finds what serves a model name for this caller: candidates that its data
// may not go to, or that are in other regions, are left out. CodeModelNotFound if
// nothing has that name or the caller may not use it: names that one may not
// use are not told apart from names that do not exist. CodeForbidden if the
// route's effect, or what its data may be, excludes the caller, or no candidate
// is left.
func (p *Policy) Route(id *Identity, model string) (*Route, error) {
	var k store.Key
	s, t, err := p.caller(id, &k)
	if err != nil {
		return nil, err
	}
	r := s.routes[model]
	if r == nil || !mayUse(t, &k, r, model) {
		return nil, &infer.Error{Code: infer.CodeModelNotFound, Param: "model",
			Message: fmt.Sprintf("the model %.128q does not exist or this api key may not use it", model)}
	}
	sc := scopeOf(t, &k)
	return sc.permit(r)
}

// mayUse asks for the name as written or for the route's own: permission for a
// route covers its aliases.
func mayUse(t *tenant, k *store.Key, r *Route, asked string) bool {
	ok := func(patterns []string) bool { return allows(patterns, asked) || allows(patterns, r.Name) }
	return ok(t.models) && ok(k.Models)
}

// Models lists the public names that the caller may use, sorted, without
// aliases.
func (p *Policy) Models(id *Identity) []string {
	var k store.Key
	s, t, err := p.caller(id, &k)
	if err != nil {
		return nil
	}
	out, sc := []string{}, scopeOf(t, &k)
	for _, n := range s.names {
		if _, err := sc.permit(s.routes[n]); err == nil && mayUse(t, &k, s.routes[n], n) {
			out = append(out, n)
		}
	}
	return out
}

// BudgetState is one budget's position in its present window.
type BudgetState struct {
	Tenant                       string
	KeyID                        string // empty: the tenant's own budget
	Budget                       string // id in the ledger
	Period                       store.Period
	Window                       store.Window
	CapNano, SpentNano, HeldNano int64
}

// Budgets lists the positions of all configured budgets of tenants and live
// keys.
func (p *Policy) Budgets() ([]BudgetState, error) {
	s, now := p.snap.Load(), p.now()
	out := []BudgetState{}
	add := func(t *tenant, charges []charge) error {
		for _, c := range charges {
			w, err := store.WindowAt(c.period, t.zone, now)
			if err != nil {
				return err
			}
			b, err := p.store.Balance(c.id, w.ID)
			if err != nil {
				return err
			}
			out = append(out, BudgetState{t.name, c.key, c.id, c.period, w, c.cap, b.SpentNano, b.HeldNano})
		}
		return nil
	}
	for i := range s.config.Tenants { // in the file's order
		t := s.tenants[s.config.Tenants[i].Name]
		if err := add(t, t.charges); err != nil {
			return nil, infer.AsError(err)
		}
	}
	keys, err := p.store.Keys(context.Background())
	if err != nil {
		return nil, err
	}
	for i := range keys {
		if t := s.tenants[keys[i].Tenant]; t != nil && keys[i].Live(now) {
			if err := add(t, t.keys(&keys[i])); err != nil {
				return nil, infer.AsError(err)
			}
		}
	}
	return out, nil
}
