package policy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/store"
)

// world is a policy over a real store, with both clocks in hand.
type world struct {
	t     *testing.T
	s     *store.Store
	p     *Policy
	clock atomic.Int64 // unix nanoseconds: the store looks at it too
	mono  atomic.Int64
	n     int
}

func newWorld(t *testing.T, c Config, local ...string) *world {
	t.Helper()
	w := &world{t: t}
	w.set(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC))
	var err error
	w.s, err = store.Open(filepath.Join(tempDir(t), "h.db"), store.Options{BallastBytes: -1, Now: w.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		rep, err := w.s.Check(context.Background())
		if err != nil || !rep.OK() {
			t.Errorf("check: %v %v", rep.Faults, err)
		}
		w.s.Close()
	})
	if len(local) == 0 {
		local = []string{"tiny"}
	}
	w.p, err = New(c, Options{Store: w.s, Local: local, Now: w.now,
		Elapsed: func() time.Duration { return time.Duration(w.mono.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// tempDir is a folder in memory where there is one: the tests make many commits
// and ask nothing of the disk.
func tempDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "hearth-policy-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (w *world) now() time.Time { return time.Unix(0, w.clock.Load()).UTC() }

func (w *world) set(t time.Time) { w.clock.Store(t.UnixNano()) }

func (w *world) pass(d time.Duration) {
	w.set(w.now().Add(d))
	w.mono.Add(int64(d))
}

// key makes a key and logs in with it.
func (w *world) key(k store.Key) *Identity {
	w.t.Helper()
	if k.Tenant == "" {
		k.Tenant = "default"
	}
	nk, err := w.s.CreateKey(context.Background(), k)
	if err != nil {
		w.t.Fatal(err)
	}
	id, err := w.p.Authenticate(nk.Secret, "127.0.0.1:1")
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) admit(id *Identity) *Admission {
	w.t.Helper()
	a, err := w.p.Admit(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) reserve(a *Admission, prompt, output int) (*Reservation, error) {
	w.t.Helper()
	r, err := w.p.Route(&a.ID, "tiny")
	if err != nil {
		w.t.Fatal(err)
	}
	w.n++
	return w.p.Reserve(context.Background(), a, ReserveRequest{RequestID: fmt.Sprint("r", w.n), Operation: "chat",
		Model: "tiny", Route: r, PromptTokens: prompt, MaxOutputTokens: output})
}

func wantCode(t *testing.T, err error, code infer.Code) *infer.Error {
	t.Helper()
	var e *infer.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
	return e
}

// priced charges 1 000 nano-USD for a prompt token, 2 000 for one of output.
func priced(tenants ...TenantConfig) Config {
	return Config{PriceVersion: "p1", Tenants: tenants,
		Prices: []PriceConfig{{Model: "tiny", InputUSDPerM: 1 * nanoPerUSD, OutputUSDPerM: 2 * nanoPerUSD}}}
}

func TestReserveHoldsTheWorstCase(t *testing.T) {
	w := newWorld(t, priced(TenantConfig{Name: "default", Zone: "Europe/Berlin",
		Budgets: []BudgetConfig{{store.Day, 1 * nanoPerUSD / 1000}, {store.Total, nanoPerUSD}}}))
	id := w.key(store.Key{Budgets: []store.KeyBudget{{Period: store.Month, CapNano: nanoPerUSD}}})
	res, err := w.reserve(w.admit(id), 100, 200)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(100*1000 + 200*2000); res.Row.HoldNano != want {
		t.Errorf("held %d, want %d", res.Row.HoldNano, want)
	}
	var held []string
	for _, p := range res.Row.Budgets {
		held = append(held, p.Budget+"@"+p.Window)
	}
	if got := strings.Join(held, " "); got != "tenant/default/day@2026-11-29 tenant/default/total@total key/"+id.KeyID+"/month@2026-11" {
		t.Errorf("held against %s", got)
	}
	// A second of the same size fits into the day's 1 000 000; a third does not.
	res2, err := w.reserve(w.admit(id), 100, 200)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.reserve(w.admit(id), 100, 200)
	e := wantCode(t, err, infer.CodeQuota)
	var be *store.BudgetError
	if !e.NoRetry || !errors.As(err, &be) || be.Budget != "tenant/default/day" {
		t.Errorf("refusal: %+v", e)
	}
	if strings.Contains(e.Error(), "tenant/default") {
		t.Errorf("the message tells the operator's names: %s", e.Error())
	}
	row, err := res.Settle(Outcome{Outcome: store.OutcomeCancelled, Usage: infer.Usage{PromptTokens: 100, CachedTokens: 40, CompletionTokens: 7}})
	if err != nil || row.ChargeNano != 100*1000+7*2000 || row.Usage.FreshInput != 60 || row.Backend != "local" || row.Price.Version != "p1" {
		t.Errorf("settled %+v, %v", row, err)
	}
	if _, err := res.Release(Outcome{Outcome: store.OutcomeError}); !errors.Is(err, store.ErrResolved) {
		t.Errorf("ended twice: %v", err)
	}
	if row, err := res2.Release(Outcome{Outcome: store.OutcomeError}); err != nil || row.ChargeNano != 0 {
		t.Errorf("released %+v, %v", row, err)
	}
	bs, err := w.p.Budgets()
	if err != nil || len(bs) != 3 || bs[0].SpentNano != 114_000 || bs[0].HeldNano != 0 || bs[2].KeyID != id.KeyID {
		t.Errorf("budgets: %+v, %v", bs, err)
	}
	d, err := w.s.Show(context.Background(), "r3")
	if err != nil || d.Row.Outcome != store.OutcomeRefused || d.Row.ErrorCode != "insufficient_quota" {
		t.Errorf("row of the refusal: %+v, %v", d.Row, err)
	}
}

// TestWindowsTurn shows that a budget is fresh at local midnight, that a hold
// made before is settled in its own day, and that going back in time finds the
// old balance.
func TestWindowsTurn(t *testing.T) {
	w := newWorld(t, priced(TenantConfig{Name: "default", Zone: "America/New_York", Budgets: []BudgetConfig{{store.Day, 500_000}}}))
	id := w.key(store.Key{})
	w.set(time.Date(2026, 11, 30, 4, 59, 59, 0, time.UTC)) // 23:59:59 in New York
	old, err := w.reserve(w.admit(id), 100, 200)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.reserve(w.admit(id), 0, 1)
	wantCode(t, err, infer.CodeQuota)
	w.set(w.now().Add(time.Second))
	fresh, err := w.reserve(w.admit(id), 100, 200)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Settle(Outcome{Outcome: store.OutcomeComplete, Usage: infer.Usage{PromptTokens: 100, CompletionTokens: 200}}); err != nil {
		t.Fatal(err)
	}
	if b, _ := w.s.Balance("tenant/default/day", "2026-11-29"); b.SpentNano != 500_000 || b.HeldNano != 0 {
		t.Errorf("old day: %+v", b)
	}
	if b, _ := w.s.Balance("tenant/default/day", "2026-11-30"); b.SpentNano != 0 || b.HeldNano != 500_000 {
		t.Errorf("new day: %+v", b)
	}
	w.set(w.now().Add(-time.Hour))
	_, err = w.reserve(w.admit(id), 0, 1)
	wantCode(t, err, infer.CodeQuota)
	if _, err := fresh.Release(Outcome{Outcome: store.OutcomeError}); err != nil {
		t.Fatal(err)
	}
}

func TestUnknownPrice(t *testing.T) {
	w := newWorld(t, Config{Tenants: []TenantConfig{{Name: "default"}, {Name: "paid", Budgets: []BudgetConfig{{store.Total, nanoPerUSD}}}}})
	_, err := w.reserve(w.admit(w.key(store.Key{Tenant: "paid"})), 1, 1)
	if e := wantCode(t, err, infer.CodeQuota); !e.NoRetry {
		t.Error("may be retried")
	}
	res, err := w.reserve(w.admit(w.key(store.Key{})), 1, 1) // no budget: free
	if err != nil || res.Row.HoldNano != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	row, err := res.Settle(Outcome{Outcome: store.OutcomeComplete, Usage: infer.Usage{PromptTokens: 1, CompletionTokens: 1}})
	if err != nil || row.ChargeNano != 0 || row.Price.Version != "" {
		t.Errorf("%+v, %v", row, err)
	}
}

func TestAuthenticate(t *testing.T) {
	w := newWorld(t, Config{Tenants: []TenantConfig{{Name: "default"}, {Name: "off", Disabled: true}}})
	nk, err := w.s.CreateKey(context.Background(), store.Key{Tenant: "default", Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	id, err := w.p.Authenticate(nk.Secret, "192.0.2.1:99")
	if err != nil || id.Name != "ci" || id.Tenant != "default" || id.KeyID != nk.ID {
		t.Fatalf("%+v, %v", id, err)
	}
	first := ""
	for i, bad := range []string{"", "x", nk.Secret + "x", nk.Secret[:len(nk.Secret)-1], strings.ToUpper(nk.Secret),
		"hk_" + nk.ID + "_" + strings.Repeat("a", 52), "hk_aaaaaaaaaaaa_" + strings.Repeat("a", 52), "hk_\x00\xff" + strings.Repeat("é", 40)} {
		_, err := w.p.Authenticate(bad, "192.0.2.7:1")
		e := wantCode(t, err, infer.CodeUnauthorized)
		if first == "" {
			first = e.Error()
		}
		if e.Error() != first || e.Cause != nil || len(bad) > 3 && strings.Contains(e.Error(), bad) {
			t.Errorf("case %d: %v", i, e)
		}
	}
	off, err := w.s.CreateKey(context.Background(), store.Key{Tenant: "off"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.p.Authenticate(off.Secret, "192.0.2.1:99")
	wantCode(t, err, infer.CodeForbidden)

	if _, err := w.s.RevokeKey(context.Background(), nk.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.p.Authenticate(nk.Secret, "192.0.2.1:99")
	wantCode(t, err, infer.CodeUnauthorized)
	_, err = w.p.Admit(id) // an identity from before
	wantCode(t, err, infer.CodeUnauthorized)
}

func TestFailuresAreDamped(t *testing.T) {
	w := newWorld(t, Config{Auth: AuthConfig{FailureBurst: 3, FailuresPerMinute: 6}})
	nk, _ := w.s.CreateKey(context.Background(), store.Key{Tenant: "default"})
	for range 3 {
		_, err := w.p.Authenticate("wrong", "[2001:db8::1]:7")
		wantCode(t, err, infer.CodeUnauthorized)
	}
	_, err := w.p.Authenticate("wrong", "[2001:db8::2]:9") // the same /64
	if e := wantCode(t, err, infer.CodeRateLimited); e.RetryAfter < time.Second || e.RetryAfter > time.Minute {
		t.Errorf("retry after %v", e.RetryAfter)
	}
	if _, err := w.p.Authenticate(nk.Secret, "[2001:db8::2]:9"); err != nil {
		t.Errorf("a right key is locked out: %v", err)
	}
	_, err = w.p.Authenticate("wrong", "[2001:db8:0:1::2]:9") // another
	wantCode(t, err, infer.CodeUnauthorized)
	w.pass(10 * time.Second)
	_, err = w.p.Authenticate("wrong", "[2001:db8::1]:7")
	wantCode(t, err, infer.CodeUnauthorized)
	for i := range 3 * maxAddresses {
		w.p.failed.note(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255))
	}
	if n := len(w.p.failed.byAddr); n > maxAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
}

func TestRequestLimits(t *testing.T) {
	w := newWorld(t, Config{Tenants: []TenantConfig{{Name: "default", Limits: store.Limits{RequestsPerMinute: 5}}}})
	a, b := w.key(store.Key{Limits: store.Limits{RequestsPerMinute: 3}}), w.key(store.Key{})
	adm := w.admit(a)
	if l := adm.Limits; len(l) != 1 || l[0] != (LimitState{"requests", 3, 2, 20 * time.Second}) {
		t.Errorf("limits: %+v", l)
	}
	w.admit(a)
	w.admit(a)
	_, err := w.p.Admit(a)
	if e := wantCode(t, err, infer.CodeRateLimited); e.RetryAfter != 20*time.Second || e.NoRetry {
		t.Errorf("%+v", e)
	}
	w.admit(b) // the refusal took nothing from the tenant
	w.admit(b)
	_, err = w.p.Admit(b)
	wantCode(t, err, infer.CodeRateLimited)
	w.pass(20 * time.Second)
	w.admit(a)

	// A jump of the wall clock refills nothing.
	_, err = w.p.Admit(a)
	wantCode(t, err, infer.CodeRateLimited)
	w.set(w.now().Add(1000 * time.Hour))
	_, err = w.p.Admit(a)
	wantCode(t, err, infer.CodeRateLimited)
}

func TestConcurrencyLimit(t *testing.T) {
	w := newWorld(t, Config{Tenants: []TenantConfig{{Name: "default", Limits: store.Limits{Concurrency: 3}, KeyLimits: store.Limits{Concurrency: 2, RequestsPerMinute: 1000}}}})
	a, b := w.key(store.Key{}), w.key(store.Key{})
	a1 := w.admit(a)
	w.admit(a)
	_, err := w.p.Admit(a)
	if e := wantCode(t, err, infer.CodeRateLimited); e.RetryAfter != time.Second {
		t.Errorf("%+v", e)
	}
	w.admit(b)
	_, err = w.p.Admit(b)
	wantCode(t, err, infer.CodeRateLimited)
	a1.Release()
	a1.Release() // gives back once
	w.admit(b)
	_, err = w.p.Admit(a)
	wantCode(t, err, infer.CodeRateLimited)

	// Raced: never more than two of one key inside.
	w2 := newWorld(t, Config{Tenants: []TenantConfig{{Name: "default", KeyLimits: store.Limits{Concurrency: 2}}}})
	c := w2.key(store.Key{})
	var inside, peak atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 200 {
				adm, err := w2.p.Admit(c)
				if err != nil {
					continue
				}
				n := inside.Add(1)
				for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
				}
				inside.Add(-1)
				adm.Release()
			}
		})
	}
	wg.Wait()
	if peak.Load() > 2 || len(w2.p.limits.running) != 0 {
		t.Errorf("peak %d, left %v", peak.Load(), w2.p.limits.running)
	}
}

// TestTokenLimits: input + maximum output up front, corrected afterwards, what
// was used beyond it becomes debt.
func TestTokenLimits(t *testing.T) {
	w := newWorld(t, Config{Tenants: []TenantConfig{{Name: "default", KeyLimits: store.Limits{TokensPerMinute: 600}}}})
	id := w.key(store.Key{})
	res, err := w.reserve(w.admit(id), 100, 400)
	if err != nil || res.Limits[0] != (LimitState{"tokens", 600, 100, 50 * time.Second}) {
		t.Fatalf("%+v, %v", res, err)
	}
	_, err = w.reserve(w.admit(id), 100, 100)
	if e := wantCode(t, err, infer.CodeRateLimited); e.RetryAfter != 10*time.Second || e.NoRetry {
		t.Errorf("%+v", e)
	}
	_, err = w.reserve(w.admit(id), 500, 101)
	if e := wantCode(t, err, infer.CodeRateLimited); !e.NoRetry {
		t.Errorf("can never fit, yet may be retried: %+v", e)
	}
	if _, err := res.Settle(Outcome{Outcome: store.OutcomeComplete, Usage: infer.Usage{PromptTokens: 100, CompletionTokens: 50}}); err != nil {
		t.Fatal(err)
	}
	if a := w.admit(id); a.Limits[0].Remaining != 450 {
		t.Errorf("after the settle: %+v", a.Limits)
	}
	res, err = w.reserve(w.admit(id), 0, 450)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := res.Settle(Outcome{Outcome: store.OutcomeComplete, Usage: infer.Usage{CompletionTokens: 2050}}); err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Minute) // 1 600 beyond the bucket: 160 s of debt
	_, err = w.reserve(w.admit(id), 0, 1)
	if e := wantCode(t, err, infer.CodeRateLimited); e.RetryAfter > time.Minute {
		t.Errorf("%+v", e)
	}
	w.pass(41 * time.Second)
	if _, err = w.reserve(w.admit(id), 0, 1); err != nil {
		t.Fatal(err)
	}
	// A hold that is refused gives its tokens back.
	w.pass(time.Hour)
	w.n-- // a request id that was used
	_, err = w.reserve(w.admit(id), 0, 500)
	wantCode(t, err, infer.CodeConflict)
	if a := w.admit(id); a.Limits[0].Remaining != 600 {
		t.Errorf("after a refused hold: %+v", a.Limits)
	}
}

func TestReloadKeepsLimitState(t *testing.T) {
	c := Config{Tenants: []TenantConfig{{Name: "default", KeyLimits: store.Limits{RequestsPerMinute: 10, Concurrency: 3}}}}
	w := newWorld(t, c)
	id := w.key(store.Key{})
	for range 3 {
		w.admit(id)
	}
	if err := w.p.Reload(c); err != nil {
		t.Fatal(err)
	}
	_, err := w.p.Admit(id)
	wantCode(t, err, infer.CodeRateLimited) // still three inside
	c.Tenants = []TenantConfig{{Name: "default", KeyLimits: store.Limits{RequestsPerMinute: 20}}}
	if err := w.p.Reload(c); err != nil {
		t.Fatal(err)
	}
	if a := w.admit(id); a.Limits[0].Limit != 20 || a.Limits[0].Remaining > 7 {
		t.Errorf("a raised limit refilled the bucket: %+v", a.Limits)
	}
	c.Zone = "Nowhere/Land"
	if err := w.p.Reload(c); err == nil || !strings.Contains(err.Error(), "zone") {
		t.Errorf("reload: %v", err)
	}
	w.admit(id) // the old one is in force
}

func TestRoutesAndModels(t *testing.T) {
	c := priced(TenantConfig{Name: "default"}, TenantConfig{Name: "small", Models: []string{"ti*", "nice"}})
	c.Routes = []RouteConfig{{Model: "nice", Aliases: []string{"gpt-4o"}, Candidates: []CandidateConfig{{Upstream: Local, Model: "big"}}, Class: "batch", Deadline: Duration(time.Minute)}}
	w := newWorld(t, c, "tiny", "big")
	all, small := w.key(store.Key{}), w.key(store.Key{Tenant: "small"})
	one := w.key(store.Key{Tenant: "small", Models: []string{"tiny", "big"}})
	if got := fmt.Sprint(w.p.Models(all), w.p.Models(small), w.p.Models(one)); got != "[big nice tiny] [nice tiny] [tiny]" {
		t.Errorf("models: %s", got)
	}
	r, err := w.p.Route(small, "gpt-4o")
	if err != nil || r.Name != "nice" || r.Class != "batch" || r.Deadline != time.Minute || r.Candidates[0].Model != "big" || r.Candidates[0].Priced {
		t.Errorf("%+v, %v", r, err)
	}
	_, missing := w.p.Route(one, "nope")
	_, denied := w.p.Route(one, "gpt-4o")
	wantCode(t, missing, infer.CodeModelNotFound)
	if strings.ReplaceAll(missing.Error(), "nope", "gpt-4o") != denied.Error() {
		t.Errorf("a denied model is told apart: %v, %v", missing, denied)
	}
	w.p.SetLocal([]string{"new"})
	if got := fmt.Sprint(w.p.Models(all)); got != "[new nice]" {
		t.Errorf("models: %s", got)
	}
}

func TestChargeKnownInvoice(t *testing.T) {
	// 6 fresh, 159 217 written to the cache and 2 745 output tokens at
	// 5 / 6.25 / 25 dollars a million come to 1.06376125 dollars.
	var p PriceConfig
	for _, f := range []struct {
		n *NanoUSD
		s string
	}{{&p.InputUSDPerM, "5"}, {&p.OutputUSDPerM, "25"}} {
		if err := f.n.UnmarshalText([]byte(f.s)); err != nil {
			t.Fatal(err)
		}
	}
	write := NanoUSD(6_250_000_000)
	p.CacheWriteUSDPerM = &write
	p.Model = "m"
	c := Config{PriceVersion: "v", Prices: []PriceConfig{p}, Routes: []RouteConfig{{Model: "m"}}}
	c.Defaults()
	s, err := build(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := store.UsageOf(infer.Usage{PromptTokens: 159_223, CacheWriteTokens: 159_217, CompletionTokens: 2_745})
	got, err := store.ChargeOf(s.routes["m"].Candidates[0].Price, u)
	if err != nil || NanoUSD(got).String() != "1.06376125" {
		t.Errorf("charged %s, %v", NanoUSD(got), err)
	}
}

// TestBudgetsUnderRace lets 32 callers spend against small caps of tenant and
// key. No balance that anybody sees passes its cap, and the sums are those of
// the rows.
func TestBudgetsUnderRace(t *testing.T) {
	w := newWorld(t, priced(TenantConfig{Name: "default", Budgets: []BudgetConfig{{store.Day, 3_000_000}, {store.Total, 4_000_000}}}))
	ids := []*Identity{w.key(store.Key{}), w.key(store.Key{Budgets: []store.KeyBudget{{Period: store.Month, CapNano: 900_000}}})}
	var spent atomic.Int64
	var wg sync.WaitGroup
	for c := range 32 {
		wg.Go(func() {
			for i := range 12 {
				a, err := w.p.Admit(ids[c%2])
				if err != nil {
					t.Error(err)
					return
				}
				route, _ := w.p.Route(&a.ID, "tiny")
				res, err := w.p.Reserve(context.Background(), a, ReserveRequest{RequestID: fmt.Sprint("c", c, "-", i), Model: "tiny", Route: route, PromptTokens: 10, MaxOutputTokens: 100})
				if err == nil {
					row, err := res.Settle(Outcome{Outcome: store.OutcomeComplete, Usage: infer.Usage{PromptTokens: 10, CompletionTokens: (c * i) % 100}})
					if err != nil {
						t.Error(err)
					}
					spent.Add(row.ChargeNano)
				} else if infer.AsError(err).Code != infer.CodeQuota {
					t.Error(err)
				}
				a.Release()
				bs, err := w.p.Budgets()
				if err != nil {
					t.Error(err)
				}
				for _, b := range bs {
					if b.SpentNano+b.HeldNano > b.CapNano {
						t.Errorf("over the cap: %+v", b)
					}
				}
			}
		})
	}
	wg.Wait()
	bs, _ := w.p.Budgets()
	if bs[0].SpentNano != spent.Load() || bs[0].HeldNano != 0 || bs[0].SpentNano == 0 {
		t.Errorf("%+v, the rows sum to %d", bs[0], spent.Load())
	}
}
