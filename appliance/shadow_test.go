package appliance

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/internal/fakeprovider"
	"hearth/policy"
	"hearth/store"
)

// shadowConfig routes "watched" to the local model, and copies its requests to a
// provider on the account of the tenant "lab".
func shadowConfig(kind, url, capUSD, more string) string {
	return fmt.Sprintf(`price_version = "p1"
[[model]]
name = "m"
path = "nowhere.gguf"
[[tenant]]
name = "default"
[[tenant.budget]]
period = "total"
cap_usd = "1000"
[[tenant]]
name = "lab"
[[tenant.budget]]
period = "total"
cap_usd = %q
[[price]]
model = "*"
input_usd_per_m = "1.00"
cached_usd_per_m = "0.50"
output_usd_per_m = "4.00"
[[price]]
model = "up"
input_usd_per_m = "3"
cached_usd_per_m = "0.3"
cache_write_usd_per_m = "3.75"
output_usd_per_m = "15"
[[upstream]]
name = "new"
kind = %q
base_url = %q
[upstream.health]
eject_after = 0
[[route]]
model = "watched"
effect = "read-only"
[[route.candidate]]
upstream = "local"
model = "m"
[[route.shadow]]
upstream = "new"
model = "up"
share = 1.0
tenant = "lab"
max_output_tokens = 16
%s
`, capUSD, kind, url, more)
}

// copies waits until no copy runs and gives the rows of all that were made.
func (b *testbed) copies() []store.Row {
	b.t.Helper()
	idle := func() bool {
		b.shadows.mu.Lock()
		defer b.shadows.mu.Unlock()
		return b.shadows.open == 0
	}
	for end := time.Now().Add(10 * time.Second); !idle(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatal("copies run on")
		}
	}
	p, err := b.store.List(context.Background(), store.Filter{Limit: 1000})
	if err != nil {
		b.t.Fatal(err)
	}
	return slices.DeleteFunc(p.Rows, func(r store.Row) bool { return !policy.IsShadow(r.KeyID) })
}

func (b *testbed) dropped(reason string) uint64 {
	return b.shadows.drops(shadowName{"watched", "new", "up"})[reason]
}

// A copy has a row of its own, on the account of its tenant; the caller's row and
// the metrics of requests know nothing of it.
func TestShadowRow(t *testing.T) {
	p := newProvider(t)
	p.Play(fakeprovider.Script{Answer: answer()})
	b := newTestbedWith(t, shadowConfig("anthropic", p.URL(), "10", ""))
	b.fake.generate = words(5)
	events, own, err := b.ask(context.Background(), "watched", 0)
	if err != nil || len(events) == 0 {
		t.Fatal(err)
	}
	rows := b.copies()
	if len(rows) != 1 {
		t.Fatalf("got %d rows of copies, want 1", len(rows))
	}
	r := rows[0]
	if r.Outcome != store.OutcomeComplete || r.Tenant != "lab" || r.Class != "shadow" || r.Route != "watched" || r.Operation != "chat" || r.Backend != "new" ||
		r.Finish != "stop" || r.Termination != store.TermComplete || !slices.Contains(r.Decisions, "shadow-of="+own.RequestID) || r.TraceID != own.TraceID {
		t.Errorf("the row is %+v", r)
	}
	if want := int64(20*3000 + 5*300 + 8*15000); r.ChargeNano != want || r.Usage.Output != 8 || r.HoldNano < want {
		t.Errorf("charged %d of %d held, want %d", r.ChargeNano, r.HoldNano, want)
	}
	if len(r.Attempts) != 1 || r.Attempts[0].Backend != "new" || r.Attempts[0].Provider != "anthropic" || r.Attempts[0].UpstreamRequestID == "" || len(r.Budgets) == 0 {
		t.Errorf("attempts %+v, budgets %+v", r.Attempts, r.Budgets)
	}
	if own.Tenant != "default" || own.Backend != "local" || len(own.Attempts) != 1 || own.ChargeNano == 0 || own.Class != "" || len(own.Decisions) != 0 {
		t.Errorf("the caller's row is %+v", own)
	}
	if s := b.telemetry.latency.all.e2e.summary(time.Now(), time.Hour); s.Count != 1 {
		t.Errorf("%d latencies, want that of the request", s.Count)
	}
	if n := b.telemetry.sums.requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	if seen := p.Requests(); len(seen) != 1 || !strings.Contains(string(seen[0].Body), `"max_tokens":16`) {
		t.Error("the copy was not cut to its bound")
	}
	b.shownShadow()
}

// shownShadow holds what the route tells of its one copy.
func (b *testbed) shownShadow() {
	t := b.t
	t.Helper()
	list, err := listRoutes(context.Background(), b.control(), tenantQuery{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(r routeRow) bool { return r.Name == "watched" })
	row := list[i]
	if len(row.Shadows) != 1 || row.Recent.Requests != 1 || row.Primary == nil || row.Primary.Answered != 1 || row.Primary.PerAnswer != 5 {
		t.Fatalf("the route is %+v", row)
	}
	s := row.Shadows[0]
	if s.Upstream != "new" || s.Model != "up" || s.Share != 1 || s.Tenant != "lab" || !s.Eligible || s.Recent.Runs != 1 || s.Recent.Failed != 0 ||
		s.Recent.Output != 8 || s.Recent.PerAnswer != 8 || s.Recent.Finish["stop"] != 1 || s.Recent.Charge == 0 {
		t.Errorf("the shadow is %+v", s)
	}
	ups, err := listUpstreams(context.Background(), b.control(), none{})
	if err != nil || ups[0].State != "shadow" || ups[0].Recent.Attempts != 0 {
		t.Errorf("the upstream is %+v, %v", ups, err)
	}
	families, err := b.telemetry.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			seen[f.GetName()] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{"hearth_shadow_requests_total": 1, "hearth_shadow_tokens_total": 33, "hearth_shadow_finished_total": 1,
		"hearth_shadow_latency_seconds": 1, "hearth_shadow_time_to_first_token_seconds": 1, "hearth_requests_total": 1} {
		if seen[name] != want {
			t.Errorf("%s is %v, want %v", name, seen[name], want)
		}
	}
}

// Whatever its copies meet, a caller gets the same answer in the same time.
func TestShadowNeverTouchesCallers(t *testing.T) {
	flood := answer()
	flood.Parts = []fakeprovider.Part{{Text: strings.Repeat("one ", 5000)}}
	flood.Piece, flood.Usage.Output = 4, 5000
	for name, c := range map[string]struct {
		script  fakeprovider.Script
		gone    bool
		outcome store.Outcome
		code    string
	}{
		"hangs":    {fakeprovider.Script{Answer: answer(), DelayMS: 30_000}, false, store.OutcomeAmbiguous, "timeout"},
		"stalls":   {fakeprovider.Script{Answer: answer(), StallAfter: 6, StallMS: 30_000}, false, store.OutcomePartial, "timeout"},
		"errs":     {fakeprovider.Script{Error: &fakeprovider.Error{Kind: "overloaded"}}, false, store.OutcomeError, ""},
		"dies":     {fakeprovider.Script{Answer: answer(), Die: "after_headers"}, false, store.OutcomeAmbiguous, ""},
		"floods":   {fakeprovider.Script{Answer: flood}, false, store.OutcomePartial, "upstream_error"},
		"is gone":  {fakeprovider.Script{}, true, store.OutcomeError, ""},
		"rambles":  {fakeprovider.Script{Text: "no such thing", Repeat: 1000}, false, "", ""},
		"is quick": {fakeprovider.Script{Answer: answer()}, false, store.OutcomeComplete, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			if c.gone {
				p.close()
			} else {
				p.Play(c.script)
			}
			b := newTestbedWith(t, shadowConfig("anthropic", p.URL(), "100", "max_concurrent = 2\ndeadline = \"3s\""))
			b.fake.generate = words(5)
			began := time.Now()
			const n = 12
			for range n {
				r := chat("watched")
				r.Stream = true
				g := b.admit()
				g.Stream = true
				events := 0
				for _, err := range b.Call(context.Background(), g, r) {
					if err != nil {
						t.Fatal(err)
					}
					events++
				}
				g.Release()
				if events != 8 {
					t.Errorf("the caller got %d events, want 8", events)
				}
			}
			if took := time.Since(began); took > 2500*time.Millisecond {
				t.Errorf("callers took %v", took)
			}
			rows := b.copies()
			if len(rows) == 0 || len(rows)+int(b.dropped(policy.ShadowFull)) != n {
				t.Errorf("%d copies, %d dropped, of %d", len(rows), b.dropped(policy.ShadowFull), n)
			}
			for _, r := range rows {
				if c.outcome != "" && r.Outcome != c.outcome || c.code != "" && r.ErrorCode != c.code {
					t.Errorf("a copy ended as %s (%s), want %s (%s): %+v", r.Outcome, r.ErrorCode, c.outcome, c.code, r.Attempts)
				}
				if r.Outcome == store.OutcomePartial && r.Usage.Output > 40 {
					t.Errorf("%d tokens were taken of a flood", r.Usage.Output)
				}
			}
			own, err := b.store.List(context.Background(), store.Filter{Tenant: "default"})
			if err != nil || len(own.Rows) != n {
				t.Fatalf("%d rows of callers, %v", len(own.Rows), err)
			}
			for _, r := range own.Rows {
				if r.Outcome != store.OutcomeComplete || len(r.Attempts) != 1 {
					t.Errorf("a caller's row is %s with %d attempts", r.Outcome, len(r.Attempts))
				}
			}
			for _, h := range b.policy.Health() {
				if h.Failures != 0 || h.Outstanding != 0 {
					t.Errorf("copies count for the health of %s: %+v", h.Upstream, h)
				}
			}
		})
	}
}

// Without money there are no copies; callers do not notice. The other tenant's
// money pays for none.
func TestShadowBudget(t *testing.T) {
	p := newProvider(t)
	p.Play(fakeprovider.Script{Answer: answer()})
	b := newTestbedWith(t, shadowConfig("anthropic", p.URL(), "0.001", ""))
	b.fake.generate = words(5)
	for range 12 {
		if _, _, err := b.ask(context.Background(), "watched", 0); err != nil {
			t.Fatal(err)
		}
		b.copies()
	}
	rows := b.copies()
	sum := int64(0)
	for _, r := range rows {
		sum += r.ChargeNano
		if r.Tenant != "lab" || r.Outcome == store.OutcomeRefused {
			t.Errorf("the row is %+v", r)
		}
	}
	if len(rows) == 0 || b.dropped(shadowBudget) == 0 || len(rows)+int(b.dropped(shadowBudget)) != 12 || sum > 1_000_000 {
		t.Errorf("%d copies for %d nano-dollars, %v dropped", len(rows), sum, b.shadows.drops(shadowName{"watched", "new", "up"}))
	}
	states, err := b.policy.Budgets()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		if s.Tenant == "default" && s.SpentNano != 12*(6*1000+4*500+5*4000) {
			t.Errorf("the callers' tenant has spent %d", s.SpentNano)
		}
		if s.Tenant == "lab" && s.SpentNano != sum {
			t.Errorf("the tenant of the copies has spent %d, its rows say %d", s.SpentNano, sum)
		}
	}
}

// A drain ends copies at once and begins none.
func TestShadowDrain(t *testing.T) {
	p := newProvider(t)
	p.Play(fakeprovider.Script{Answer: answer(), DelayMS: 30_000})
	b := newTestbedWith(t, shadowConfig("anthropic", p.URL(), "100", ""))
	b.fake.generate = words(5)
	late := b.admit()
	if _, _, err := b.ask(context.Background(), "watched", 0); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); len(p.Requests()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no copy came")
		}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		b.Drain(nil)
	}()
	began := time.Now()
	rows := b.copies()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the copy held on for %v", took)
	}
	for _, err := range b.Call(context.Background(), late, chat("watched")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	late.Release()
	<-drained
	if len(rows) != 1 || rows[0].Outcome != store.OutcomeAmbiguous || rows[0].Termination != store.TermDrained || rows[0].ErrorCode != "unavailable" {
		t.Errorf("the rows are %+v", rows)
	}
	if n := len(p.Requests()); n != 1 || b.dropped(shadowDraining) != 1 {
		t.Errorf("%d copies were sent, %d dropped", n, b.dropped(shadowDraining))
	}
}

// What a shadow cannot be asked as it is, or must not be sent, is not copied.
func TestShadowPassesOver(t *testing.T) {
	p := newProvider(t)
	p.Play(fakeprovider.Script{Answer: answer()})
	b := newTestbedWith(t, shadowConfig("ollama", p.URL(), "100", "")+"[media]\nfetch = true\n")
	b.fake.generate = words(5)
	ask := func(change func(r *infer.Request)) {
		t.Helper()
		r := chat("watched")
		change(r)
		g := b.admit()
		for range b.Call(context.Background(), g, r) {
		}
		g.Release()
		b.copies()
	}
	ask(func(r *infer.Request) { r.Thinking.Budget = 1000 })
	if b.dropped(shadowSize) != 1 {
		t.Error("a request that thinks longer than a copy may answer was copied")
	}
	a := &shadowRun{a: b.Appliance, ctx: context.Background(), shadow: b.shadowOf("watched"), tenant: "default", request: chat("watched")}
	a.request.Messages[0].Content = append(a.request.Messages[0].Content, infer.Part{Type: "image", URL: "https://example.com/a.png"})
	a.request.Uses = []infer.Use{{Path: "messages[0].content[1]", Feature: infer.FeatureImageURL}}
	a.target = b.target(a.shadow.Candidate())
	if why := a.weigh(); why != shadowMedia {
		t.Errorf("an image that would have to be fetched: %q", why)
	}
	a.target.release()
	a.request.Uses = []infer.Use{{Path: "logit_bias", Feature: infer.FeatureLogitBias}}
	a.target = b.target(a.shadow.Candidate())
	if why := a.weigh(); why != shadowLoss {
		t.Errorf("a field that would be lost: %q", why)
	}
	a.target.release()
	if n := len(p.Requests()); n != 0 {
		t.Errorf("%d copies were sent", n)
	}
	// A name of its own keeps one tenant's work apart from another's at targets
	// that share it.
	if a.salt() == "default" || a.salt() == "lab" {
		t.Error("copies share work with callers")
	}
}

func (b *testbed) shadowOf(route string) *policy.Shadow {
	for _, st := range b.policy.Routes() {
		if st.Route.Name == route {
			return st.Route.Shadows[0]
		}
	}
	b.t.Fatal("no route " + route)
	return nil
}

// A request that is repeated with its Idempotency-Key is answered out of what was
// kept, and copied no second time.
func TestShadowOfARepeat(t *testing.T) {
	p := newProvider(t)
	p.Play(fakeprovider.Script{Answer: answer()})
	b := newTestbedWith(t, shadowConfig("anthropic", p.URL(), "100", ""))
	b.fake.generate = words(5)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its own authority
	defer client.CloseIdleConnections()
	for range 3 {
		r, err := http.NewRequest("POST", b.baseURL()+"/v1/chat/completions", strings.NewReader(`{"model":"watched","messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+b.key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "order 66")
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		for name := range res.Header {
			if v := strings.ToLower(name + res.Header.Get(name)); strings.Contains(v, "shadow") {
				t.Errorf("the caller is told of a copy: %s", v)
			}
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Fatalf("status %d", res.StatusCode)
		}
	}
	if rows := b.copies(); len(rows) != 1 || len(p.Requests()) != 1 || rows[0].Idempotency != "" {
		t.Errorf("%d rows of copies, %d were sent", len(rows), len(p.Requests()))
	}
}

// The share is changed by an edit of the file, at once and for new requests only.
func TestShadowShareIsLive(t *testing.T) {
	p := newProvider(t)
	p.Play(fakeprovider.Script{Answer: answer()})
	b := newTestbedWith(t, shadowConfig("anthropic", p.URL(), "100", ""))
	b.fake.generate = words(5)
	set := func(percent float64) error {
		_, err := updateRoute(context.Background(), b.control(), routeUpdate{Name: "watched", Shadow: "new/up", ShadowShare: percent})
		return err
	}
	revision := b.policy.Routes()[1].Route.Revision
	for i, c := range []struct {
		percent float64
		want    int
	}{{0, 0}, {100, 1}, {0.01, 1}} {
		if err := set(c.percent); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.ask(context.Background(), "watched", 0); err != nil {
			t.Fatal(err)
		}
		if n := len(b.copies()); n != c.want {
			t.Errorf("step %d: %d copies, want %d", i, n, c.want)
		}
	}
	if set(101) == nil || set(-1) == nil {
		t.Error("took a share beyond 100 percent")
	}
	if _, err := updateRoute(context.Background(), b.control(), routeUpdate{Name: "watched", Shadow: "odd/up", ShadowShare: 5}); err == nil {
		t.Error("took a shadow that is not there")
	}
	if now := b.policy.Routes()[1].Route.Revision; now != revision {
		t.Error("a share changed the revision that callers are told")
	}
}

// Copies of requests for embeddings, at the engine in this box; a bug in what
// serves a copy ends the copy alone.
func TestShadowHere(t *testing.T) {
	file := strings.Replace(shadowConfig("anthropic", "http://127.0.0.1:1", "100", ""), "upstream = \"new\"\nmodel = \"up\"\nshare", "upstream = \"local\"\nmodel = \"m\"\nshare", 1)
	b := newTestbedWith(t, file)
	g := b.admit()
	if _, err := b.Embed(context.Background(), g, &infer.EmbedRequest{Model: "watched", Inputs: []infer.Prompt{{Text: "x"}}}); err != nil {
		t.Fatal(err)
	}
	g.Release()
	rows := b.copies()
	if len(rows) != 1 || rows[0].Operation != "embeddings" || rows[0].Usage.Prompt() != 3 || rows[0].ChargeNano != 3000 || rows[0].Tenant != "lab" {
		t.Errorf("the rows are %+v", rows)
	}
	b.fake.generate = func(ctx context.Context, r *infer.Request, yield func(infer.Event, error) bool) {
		if r.Class == policy.ClassShadow {
			panic("as a bug would")
		}
		words(5)(ctx, r, yield)
	}
	if _, _, err := b.ask(context.Background(), "watched", 0); err != nil {
		t.Fatal(err)
	}
	rows = b.copies()
	if len(rows) != 2 || rows[0].Outcome != store.OutcomeError || rows[0].ErrorCode != "internal_error" || rows[0].ChargeNano != 0 {
		t.Errorf("after a bug the row is %+v", rows[0])
	}
	if !strings.Contains(b.log.String(), "a copy of a request met a bug") || strings.Contains(b.log.String(), "as a bug would") {
		t.Error("the log does not tell of the bug, or tells too much")
	}
}
