package policy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"hearth/engine/infer"
)

// ShadowConfig is one [[route.shadow]]: a deployment that is sent copies of a
// share of the route's requests. Its answers are counted and thrown away. Only
// routes whose effect is read-only may have one.
type ShadowConfig struct {
	Upstream string `toml:"upstream"` // name of an upstream, or Local
	Model    string `toml:"model"`    // its name there; empty: the route's
	// Share of the route's requests, 0 to 1. 0: none for the time being.
	Share float64 `toml:"share"`
	// Tenant whose budgets the copies are held against and charged to.
	Tenant string `toml:"tenant"`
	// MaxConcurrent bounds the copies that run at once; further ones are dropped.
	MaxConcurrent int `toml:"max_concurrent"`
	// MaxOutputTokens bounds the answer to a copy, whatever its request asks for.
	MaxOutputTokens int `toml:"max_output_tokens"`
	// Deadline bounds a copy, from its start to its last token.
	Deadline Duration `toml:"deadline"`
}

// ClassShadow is the request class of copies, in the ledger and for scheduling.
const ClassShadow = "shadow"

// Bounds of [[route.shadow]] tables.
const (
	maxShadows           = 4
	maxShadowConcurrent  = 256
	shadowConcurrent     = 4
	defaultShadowTimeout = time.Minute
)

func (s *ShadowConfig) defaults(route string) {
	setText(&s.Model, route)
	if s.MaxConcurrent == 0 {
		s.MaxConcurrent = shadowConcurrent
	}
	if s.MaxOutputTokens == 0 {
		s.MaxOutputTokens = defaultMaxOutput
	}
	setDuration(&s.Deadline, defaultShadowTimeout)
}

// Shadow is a deployment that answers copies of a route's requests.
type Shadow struct {
	Share  float64
	Tenant string // who is charged
	// Path is the route as a copy goes it: one candidate, one attempt.
	Path *Route

	state *shadowState
}

// Candidate is the deployment.
func (s *Shadow) Candidate() *Candidate { return &s.Path.Candidates[0] }

// config is the table that it comes from.
func (s *Shadow) config(route *RouteConfig) *ShadowConfig {
	c := s.Candidate()
	for i := range route.Shadows {
		if k := &route.Shadows[i]; k.Upstream == c.Backend && k.Model == c.Model {
			return k
		}
	}
	panic("BUG: a shadow without a table")
}

// Samples says whether the request of that id is copied: always the same for the
// same id, and for all shadows of one share the same requests.
func (s *Shadow) Samples(requestID string) bool {
	sum := sha256.Sum256([]byte(requestID))
	return float64(binary.BigEndian.Uint64(sum[:])>>11)/(1<<53) < s.Share
}

// shadowIdentity is whom the ledger knows the copies of a route by.
func shadowIdentity(tenant, route string) Identity {
	return Identity{KeyID: CallerID(KindShadow, "", tenant, Subject(route)), Name: "shadow of " + route, Tenant: tenant, Kind: KindShadow}
}

// IsShadow says of a key id in the ledger that it stands for the copies of a route.
func IsShadow(keyID string) bool { return strings.HasPrefix(keyID, string(KindShadow)+"/") }

// ReserveShadow holds the worst case of a copy against the budgets of the shadow's
// tenant, as Reserve does for a caller. The tenant's rate limits do not count
// copies: what bounds those is the share and max_concurrent, and a caller shall
// not wait for them. A refusal writes no row.
func (p *Policy) ReserveShadow(ctx context.Context, s *Shadow, r ReserveRequest) (*Reservation, error) {
	r.Route = s.Path
	res, _, err := p.reserve(ctx, &Admission{ID: shadowIdentity(s.Tenant, s.Path.Name)}, &r)
	if err != nil {
		return nil, infer.AsError(err)
	}
	return res, nil
}

// Reasons why a copy is not made.
const (
	ShadowFull    = "full"    // as many run as may, or its upstream has no room to spare
	ShadowEjected = "ejected" // it is out after failures, of copies or of callers' requests
	ShadowBlocked = "blocked" // its provider asked to be left alone
)

// shadowState is the live state of one shadow. What happens to copies says
// nothing about the deployment to callers: they have circuits of their own.
type shadowState struct {
	open    int
	circuit circuit
	until   time.Duration // to be left alone until then
}

type shadowKey struct{ route, upstream, model string }

// ShadowRun is one copy on its way. Done ends it, exactly once.
type ShadowRun struct {
	f      *fleet
	s      *Shadow
	epoch  uint64
	trial  bool
	yield  func()
	ended  bool
	upward *upstreamState
}

// EnterShadow takes a place for a copy, or says why there is none: it never
// waits. yield ends the copy; it is called, from another goroutine and under a
// lock, when a caller needs the place at the upstream.
func (p *Policy) EnterShadow(s *Shadow, yield func()) (*ShadowRun, string) {
	f := p.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if why := s.barredLocked(f.elapsed()); why != "" {
		return nil, why
	}
	c := s.Candidate()
	r := &ShadowRun{f: f, s: s, yield: yield, upward: c.live.upstream}
	if c.ejects() {
		r.epoch, r.trial = s.state.circuit.enter()
	}
	s.state.open++
	r.upward.shadows = append(r.upward.shadows, r)
	return r, ""
}

// barredLocked says why no copy can be made now; empty: one can.
func (s *Shadow) barredLocked(now time.Duration) string {
	c, st := s.Candidate(), s.state
	if max(st.until, c.live.domain.until) > now {
		return ShadowBlocked
	}
	if c.ejects() {
		until, busy := st.circuit.wait(now)
		if until > now || busy || c.live.deployment.circuit.open || c.live.upstream.circuit.open {
			return ShadowEjected
		}
	}
	up := c.live.upstream
	if st.open >= c.MaxConcurrent || c.Upstream != nil && c.Upstream.MaxConcurrent > 0 && up.outstanding+len(up.shadows) >= c.Upstream.MaxConcurrent {
		return ShadowFull
	}
	return ""
}

// displaceLocked ends the newest copy at an upstream that has more open than it
// may: callers come first.
func (c *Candidate) displaceLocked() {
	up := c.live.upstream
	if n := len(up.shadows); c.Upstream != nil && n > 0 && c.Upstream.MaxConcurrent > 0 && up.outstanding+n > c.Upstream.MaxConcurrent {
		r := up.shadows[n-1]
		up.shadows = up.shadows[:n-1]
		r.yield()
	}
}

// Done gives the place back and counts what became of the copy for later ones.
// Only copies learn of it. told is false where it tells nothing of the
// deployment: the copy was ended from here, or never sent.
func (r *ShadowRun) Done(err *infer.Error, told bool) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	st, now := r.s.state, r.f.elapsed()
	st.open--
	r.upward.shadows = slices.DeleteFunc(r.upward.shadows, func(o *ShadowRun) bool { return o == r })
	st.circuit.leave(r.epoch, r.trial)
	switch {
	case !told:
	case err == nil:
		st.circuit.succeed(r.epoch)
	default:
		class := classOf(err)
		if u := err.Upstream; u != nil && u.RetryAfter > 0 {
			st.until = max(st.until, now+min(u.RetryAfter, maxFloor))
		}
		if u := r.s.Candidate().Upstream; u != nil && unhealthy(class) {
			st.circuit.fail(now, r.epoch, *u.Health.EjectAfter, time.Duration(u.Health.EjectFor), time.Duration(u.Health.EjectMax))
		}
	}
	r.f.serveLocked(now) // no caller waits for a copy, but its end is a moment to look
}

// ShadowState is one shadow of a route as a request would find it.
type ShadowState struct {
	Shadow *Shadow
	Config *ShadowConfig
	Open   int    // copies that run
	Barred string // why none can be made now; empty: one can
}

func (r *Route) shadowsLocked(now time.Duration) []ShadowState {
	var out []ShadowState
	for _, s := range r.Shadows {
		out = append(out, ShadowState{Shadow: s, Config: s.config(r.Config), Open: s.state.open, Barred: s.barredLocked(now)})
	}
	return out
}

// Cap gives r with at most so many output tokens, in the bytes for a provider of
// the same dialect too. kind is the provider's.
func Cap(r *infer.Request, most int, kind string) *infer.Request {
	if n := r.Sampling.MaxTokens; n > 0 && n <= most {
		return r
	}
	if r.Sampling.MaxTokens == 0 {
		return Bound(r, most, kind)
	}
	own := *r
	own.Sampling.MaxTokens = most
	if own.Wire != nil {
		own.Wire = clampWire(own.Wire, most)
	}
	return &own
}
