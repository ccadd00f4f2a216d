package policy

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hearth/engine/infer"
	"hearth/store"
)

// Of many requests the share is copied, always the same ones, and of a greater
// share all that a smaller one has.
func TestShadowShare(t *testing.T) {
	const n = 20_000
	for _, share := range []float64{0, 0.001, 0.05, 0.5, 1} {
		s, greater, got := Shadow{Share: share}, Shadow{Share: share * 2}, 0
		for i := range n {
			id := fmt.Sprintf("req_%d", i)
			if s.Samples(id) {
				got++
				if !s.Samples(id) || !greater.Samples(id) {
					t.Fatalf("%s is copied now and then", id)
				}
			}
		}
		if d, sigma := math.Abs(float64(got)-n*share), math.Sqrt(n*share*(1-share)); d > 4*sigma {
			t.Errorf("share %v: %d of %d copied, off by %.1f with a deviation of %.1f", share, got, n, d, sigma)
		}
	}
}

func shadowed(change func(c *Config)) Config {
	never := 0
	c := Config{
		Tenants: []TenantConfig{{Name: "default"}, {Name: "lab"}},
		Upstreams: []UpstreamConfig{
			{Name: "a", Kind: "openai", MaxConcurrent: 2, Health: HealthConfig{EjectAfter: &never}},
			{Name: "b", Kind: "openai", Health: HealthConfig{EjectFor: Duration(10 * time.Second)}}},
		Routes: []RouteConfig{{Model: "r", Effect: ReadOnly, Candidates: candidatesAt("a"),
			Shadows: []ShadowConfig{{Upstream: "a", Model: "s", Share: 1, Tenant: "lab"}, {Upstream: "b", Model: "s", Share: 1, Tenant: "lab", MaxConcurrent: 1}}}},
	}
	if change != nil {
		change(&c)
	}
	return c
}

func TestShadowFaults(t *testing.T) {
	for want, change := range map[string]func(r *RouteConfig, c *Config){
		"route[0].shadow[0]: cannot copy requests that are effectful": func(r *RouteConfig, _ *Config) { r.Effect = Effectful },
		"route[0].shadow[0].share: cannot use 1.5":                    func(r *RouteConfig, _ *Config) { r.Shadows[0].Share = 1.5 },
		"route[0].shadow[0].share: cannot use NaN":                    func(r *RouteConfig, _ *Config) { r.Shadows[0].Share = math.NaN() },
		"route[0].shadow[1].tenant: cannot find tenant \"nobody\"":    func(r *RouteConfig, _ *Config) { r.Shadows[1].Tenant = "nobody" },
		"route[0].shadow[1].tenant: cannot find tenant \"\"":          func(r *RouteConfig, _ *Config) { r.Shadows[1].Tenant = "" },
		"route[0].shadow[0].upstream: cannot find upstream \"c\"":     func(r *RouteConfig, _ *Config) { r.Shadows[0].Upstream = "c" },
		"route[0].shadow[0].max_concurrent: cannot use -1":            func(r *RouteConfig, _ *Config) { r.Shadows[0].MaxConcurrent = -1 },
		"route[0].shadow[0].max_output_tokens: cannot use -1":         func(r *RouteConfig, _ *Config) { r.Shadows[0].MaxOutputTokens = -1 },
		"route[0].shadow[0].deadline: cannot use 1ms":                 func(r *RouteConfig, _ *Config) { r.Shadows[0].Deadline = Duration(time.Millisecond) },
		"route[0].shadow[1]: cannot have shadow \"a/s\" twice":        func(r *RouteConfig, _ *Config) { r.Shadows[1].Upstream = "a" },
		"route[0].shadow: cannot have 5 shadows":                      func(r *RouteConfig, _ *Config) { r.Shadows = append(r.Shadows, make([]ShadowConfig, 3)...) },
		"route[0].shadow[1].upstream: cannot send data of class \"secret\"": func(r *RouteConfig, c *Config) {
			r.DataClasses, c.Upstreams[1].DataClasses = []string{"secret"}, []string{"public"}
		},
		"route[0].shadow[1].upstream: cannot serve this route at": func(r *RouteConfig, c *Config) { r.Regions, c.Upstreams[0].Region = []string{"eu"}, "eu" },
	} {
		c := shadowed(nil)
		change(&c.Routes[0], &c)
		c.Defaults()
		var faults []string
		for _, f := range c.Validate() {
			faults = append(faults, f.Error())
		}
		if !slices.ContainsFunc(faults, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("no fault %q: %q", want, faults)
		}
	}
	c := shadowed(nil)
	c.Defaults()
	if f := c.Validate(); len(f) > 0 {
		t.Errorf("faults: %v", f)
	}
	if s := c.Routes[0].Shadows[0]; s.MaxConcurrent != 4 || s.MaxOutputTokens != 4096 || time.Duration(s.Deadline) != time.Minute {
		t.Errorf("defaults: %+v", s)
	}
}

// A caller's data goes to no shadow where it could not go by itself.
func TestShadowScope(t *testing.T) {
	c := shadowed(func(c *Config) {
		c.Upstreams[0].Region, c.Upstreams[1].Region = "eu", "us"
		c.Upstreams[0].DataClasses = []string{"public", "internal"}
		c.Upstreams[1].DataClasses = []string{"public", "internal"}
		c.Routes[0].DataClasses = []string{"public", "internal"}
		c.Tenants = append(c.Tenants, TenantConfig{Name: "europe", Regions: []string{"eu"}})
	})
	w := newWorld(t, c)
	for tenant, want := range map[string]int{"default": 2, "europe": 1} {
		r, err := w.p.Route(w.key(store.Key{Tenant: tenant}), "r")
		if err != nil || len(r.Shadows) != want || r.Shadows[0].Candidate().Backend != "a" || len(r.Candidates) != 1 {
			t.Errorf("%s: %d shadows, want %d: %v", tenant, len(r.Shadows), want, err)
		}
	}
}

// Copies take no place that callers need, and what they meet is theirs alone.
func TestShadowYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := dispatcher(t, shadowed(nil), half)
		r := p.routeNamed("r")
		yielded := make(chan int, 4)
		enter := func(i, n int) (*ShadowRun, string) { return p.EnterShadow(r.Shadows[i], func() { yielded <- n }) }
		first, _ := enter(0, 1)
		second, _ := enter(0, 2)
		if _, why := enter(0, 3); first == nil || second == nil || why != ShadowFull {
			t.Fatalf("the third copy of two: %q", why)
		}
		one := next(t, p.Dispatch(r, DispatchRequest{}))
		if n := <-yielded; n != 2 {
			t.Errorf("copy %d made room, want the newest", n)
		}
		second.Done(infer.Errorf(infer.CodeUpstream, "ended"), false)
		two := next(t, p.Dispatch(r, DispatchRequest{}))
		if n := <-yielded; n != 1 {
			t.Errorf("copy %d made room", n)
		}
		first.Done(nil, false)
		first.Done(nil, false) // once
		if _, why := enter(0, 4); why != ShadowFull {
			t.Errorf("beside callers who fill the upstream: %q", why)
		}
		one.Done(AttemptResult{})
		if run, why := enter(0, 5); run == nil {
			t.Errorf("with room: %q", why)
		} else {
			run.Done(nil, true)
		}
		two.Done(AttemptResult{})
		if st := p.Routes()[0]; st.Shadows[0].Open != 0 || st.Candidates[0].Outstanding != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestShadowHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := shadowed(func(c *Config) { c.Routes[0].Candidates = candidatesAt("b"); c.Routes[0].Shadows[1].Model = "m" })
		p := dispatcher(t, c, half)
		s := p.routeNamed("r").Shadows[1]
		for range 5 {
			run, why := p.EnterShadow(s, func() {})
			if run == nil {
				t.Fatalf("barred: %q", why)
			}
			run.Done(failed(infer.FailServer, false, 0), true)
		}
		if _, why := p.EnterShadow(s, func() {}); why != ShadowEjected {
			t.Errorf("after five failures: %q", why)
		}
		if h := p.Health(); h[0].State != Healthy || h[0].Failed != 0 {
			t.Errorf("callers see %+v", h[0])
		}
		next(t, p.Dispatch(p.routeNamed("r"), DispatchRequest{})).Done(AttemptResult{})
		time.Sleep(11 * time.Second)
		p.swap(t, c) // a reload forgets nothing of it
		s = p.routeNamed("r").Shadows[1]
		run, _ := p.EnterShadow(s, func() {})
		if run == nil {
			t.Fatal("it is not tried again")
		}
		run.Done(failed(infer.FailRateLimit, false, 30*time.Second), true)
		if _, why := p.EnterShadow(s, func() {}); why != ShadowBlocked {
			t.Errorf("after a rate limit: %q", why)
		}
		next(t, p.Dispatch(p.routeNamed("r"), DispatchRequest{})).Done(AttemptResult{Err: failed(infer.FailRateLimit, false, time.Minute)})
		time.Sleep(31 * time.Second)
		if _, why := p.EnterShadow(s, func() {}); why != ShadowBlocked {
			t.Errorf("while callers leave the provider alone: %q", why)
		}
	})
}

// Copies are held against the budget of their tenant, not against its rates.
func TestShadowReserve(t *testing.T) {
	c := shadowed(func(c *Config) {
		c.PriceVersion = "p"
		c.Prices = []PriceConfig{{Model: "s", InputUSDPerM: 1e9, OutputUSDPerM: 1e9}, {Model: "m", InputUSDPerM: 1e9, OutputUSDPerM: 1e9}}
		c.Tenants[1].Limits = store.Limits{TokensPerMinute: 10, RequestsPerMinute: 1, Concurrency: 1}
		c.Tenants[1].Budgets = []BudgetConfig{{Period: store.Total, CapUSD: 250_000}}
	})
	w := newWorld(t, c)
	r, err := w.p.Route(w.key(store.Key{Tenant: "default"}), "r")
	if err != nil {
		t.Fatal(err)
	}
	reserve := func(id string) (*Reservation, error) {
		return w.p.ReserveShadow(context.Background(), r.Shadows[0], ReserveRequest{RequestID: id, Operation: "chat", Model: "r", PromptTokens: 50, MaxOutputTokens: 50})
	}
	one, err := reserve("shadow_1")
	if err != nil || one.Row.Tenant != "lab" || one.Row.Class != ClassShadow || one.Row.HoldNano != 100_000 || !IsShadow(one.Row.KeyID) {
		t.Fatalf("%+v, %v", one, err)
	}
	two, err := reserve("shadow_2")
	if err != nil {
		t.Fatal(err)
	}
	_, err = reserve("shadow_3")
	wantCode(t, err, infer.CodeQuota)
	if _, err := w.s.Show(context.Background(), "shadow_3"); err == nil {
		t.Error("a copy that was not made has a row")
	}
	for _, res := range []*Reservation{one, two} {
		if _, err := res.Release(Outcome{Outcome: store.OutcomeError}); err != nil {
			t.Error(err)
		}
	}
	c.Tenants[1].Disabled = true
	if err := w.p.Reload(c); err != nil {
		t.Fatal(err)
	}
	_, err = reserve("shadow_4")
	wantCode(t, err, infer.CodeForbidden)
}

func TestCap(t *testing.T) {
	for asked, want := range map[int]int{0: 16, 8: 8, 16: 16, 100: 16} {
		r := infer.NewRequest()
		r.Sampling.MaxTokens = asked
		r.Wire = &infer.Wire{Dialect: dialectChat, Body: []byte(fmt.Sprintf(`{"max_tokens":%d}`, asked))}
		got := Cap(r, 16, "vllm")
		if got.Sampling.MaxTokens != want || r.Sampling.MaxTokens != asked {
			t.Errorf("asked for %d: %d", asked, got.Sampling.MaxTokens)
		}
		if asked > 16 && string(got.Wire.Set["max_tokens"]) != "16" {
			t.Errorf("its bytes say %v", got.Wire.Set)
		}
	}
}
