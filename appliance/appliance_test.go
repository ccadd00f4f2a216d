package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web"
	"hearth/web/admin"
)

// fake is a backend whose answers a test writes.
type fake struct {
	generate func(ctx context.Context, r *infer.Request, yield func(infer.Event, error) bool)
	count    infer.Count
	open     atomic.Int64 // generations that have not been left
	closed   atomic.Bool
}

func (f *fake) Generate(ctx context.Context, r *infer.Request) iter.Seq2[infer.Event, error] {
	return func(yield func(infer.Event, error) bool) {
		f.open.Add(1)
		defer f.open.Add(-1)
		if strings.HasPrefix(r.ID, "warm-up") {
			words(1)(ctx, r, yield)
			return
		}
		f.generate(ctx, r, yield)
	}
}

func (f *fake) Count(context.Context, *infer.Request) (infer.Count, error) { return f.count, nil }

func (f *fake) Embed(_ context.Context, r *infer.EmbedRequest) (*infer.EmbedResult, error) {
	return &infer.EmbedResult{Vectors: [][]float32{{1}}, Usage: infer.Usage{PromptTokens: 3}}, nil
}

func (f *fake) Tokenize(context.Context, *infer.TokenizeRequest) ([]int32, error) {
	return []int32{1, 2, 3}, nil
}

func (f *fake) Detokenize(context.Context, string, []int32) ([]byte, error) { return []byte("x"), nil }

func (f *fake) Models(context.Context) ([]infer.Model, error) {
	return []infer.Model{{Name: "fake", Device: "cpu", ContextLength: 100, Fingerprint: "fp_fake"}}, nil
}

func (f *fake) Health(context.Context) infer.Health { return infer.Health{Ready: true} }

func (f *fake) Close() error { f.closed.Store(true); return nil }

type generation func(ctx context.Context, r *infer.Request, yield func(infer.Event, error) bool)

func started() infer.Event {
	return infer.Event{Kind: infer.EventStart, Usage: &infer.Usage{PromptTokens: 10, CachedTokens: 4}, Model: &infer.Served{Name: "m"}}
}

// words gives n tokens and a complete end.
func words(n int) generation {
	return func(_ context.Context, _ *infer.Request, yield func(infer.Event, error) bool) {
		if !yield(started(), nil) {
			return
		}
		for range n {
			if !yield(infer.Event{Kind: infer.EventText, Text: "w ", Tokens: 1}, nil) {
				return
			}
		}
		_ = yield(infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop}, nil) &&
			yield(infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 10, CachedTokens: 4, CompletionTokens: n}}, nil)
	}
}

// then gives n tokens and fails.
func then(n int, err error) generation {
	return func(_ context.Context, _ *infer.Request, yield func(infer.Event, error) bool) {
		if !yield(started(), nil) {
			return
		}
		for range n {
			if !yield(infer.Event{Kind: infer.EventText, Text: "w ", Tokens: 1}, nil) {
				return
			}
		}
		if err != nil {
			yield(infer.Event{}, err)
		}
	}
}

// wait gives n tokens and then nothing until ctx ends.
func wait(n int) generation {
	return func(ctx context.Context, r *infer.Request, yield func(infer.Event, error) bool) {
		if !yield(started(), nil) {
			return
		}
		for range n {
			if !yield(infer.Event{Kind: infer.EventText, Text: "w ", Tokens: 1}, nil) {
				return
			}
		}
		<-ctx.Done()
		yield(infer.Event{}, context.Cause(ctx))
	}
}

const testConfig = `price_version = "p1"
[server]
max_requests = 8
[[model]]
name = "m"
path = "nowhere.gguf"
[[tenant]]
name = "default"
[[tenant.budget]]
period = "total"
cap_usd = "1.00"
[[price]]
model = "*"
input_usd_per_m = "1.00"
cached_usd_per_m = "0.50"
output_usd_per_m = "4.00"
[[route]]
model = "quick"
deadline = "1s"
[[route.candidate]]
upstream = "local"
model = "m"
`

// testbed is an appliance over a fake backend.
type testbed struct {
	*Appliance
	t    *testing.T
	fake *fake
	key  string
	log  *syncBuffer
	n    atomic.Int64
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newTestbed(t *testing.T) *testbed {
	t.Helper()
	return newTestbedWith(t, testConfig)
}

func newTestbedWith(t *testing.T, file string) *testbed {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "c.toml")
	if err := os.WriteFile(conf, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &testbed{t: t, fake: &fake{count: infer.Count{PromptTokens: 10, MaxOutputTokens: 20}}, log: &syncBuffer{}}
	env := &Env{Stdout: &bytes.Buffer{}, Stderr: b.log, Getenv: os.Getenv, Now: time.Now}
	a, err := Open(context.Background(), Options{
		Env: env, Dir: dataDir(filepath.Join(dir, "d")), Config: conf, Listen: "127.0.0.1:0",
		Open: func(context.Context, modelSpec) (infer.Backend, error) { return b.fake, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Appliance, b.key = a, a.first.APIKey
	t.Cleanup(func() {
		// Whatever a test did: the books are right and nothing is held.
		r, err := a.store.Check(context.Background())
		if err != nil || !r.OK() || r.OpenHolds != 0 {
			t.Errorf("ledger: %+v, %v", r, err)
		}
		if n := b.fake.open.Load(); n != 0 {
			t.Errorf("%d generations were not left", n)
		}
		if n := a.open.Load(); n != 0 {
			t.Errorf("%d requests are still open", n)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if !b.fake.closed.Load() {
			t.Error("the backend was not closed")
		}
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if ok, reason := a.Ready(); ok {
			return b
		} else if time.Now().After(end) {
			t.Fatalf("not ready: %s", reason)
		}
	}
}

func (b *testbed) admit() *web.Grant {
	b.t.Helper()
	id := fmt.Sprintf("req_%d", b.n.Add(1))
	g, err := b.Admit(context.Background(), web.Caller{RequestID: id, Credential: b.key, RemoteAddr: "127.0.0.1:1", Route: "POST /x"})
	if err != nil {
		b.t.Fatal(err)
	}
	return g
}

func chat(model string) *infer.Request {
	r := infer.NewRequest()
	r.Model = model
	r.Messages = []infer.Message{{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: "secret words"}}}}
	return r
}

// ask runs one request; leave ends it after so many events (0: never).
func (b *testbed) ask(ctx context.Context, model string, leave int) (events []infer.Event, row store.Row, err error) {
	b.t.Helper()
	g := b.admit()
	for ev, e := range b.Call(ctx, g, chat(model)) {
		if e != nil {
			err = e
			break
		}
		events = append(events, ev)
		if leave > 0 && len(events) == leave {
			break
		}
	}
	g.Release()
	g.Release()
	d, e := b.store.Show(context.Background(), g.RequestID)
	if e != nil {
		b.t.Fatalf("no row: %v", e)
	}
	return events, d.Row, err
}

// Every way that a request can end: what the ledger says, what it cost, what
// the caller was told.
func TestOutcomes(t *testing.T) {
	upstream := infer.Errorf(infer.CodeUpstream, "gone")
	const prompt = 6*1000 + 4*500 // nano-USD: 6 fresh and 4 cached tokens
	for _, c := range []struct {
		name    string
		make    generation
		model   string
		leave   int
		outcome store.Outcome
		code    infer.Code
		tokens  int64
		nano    int64
	}{
		{"complete", words(5), "m", 0, store.OutcomeComplete, "", 5, prompt + 5*4000},
		{"complete without a word", words(0), "m", 0, store.OutcomeComplete, "", 0, prompt},
		{"left after three tokens", words(5), "m", 4, store.OutcomeCancelled, "", 3, prompt + 3*4000},
		{"left at the start", words(5), "m", 1, store.OutcomeCancelled, "", 0, 0},
		{"failed after two tokens", then(2, upstream), "m", 0, store.OutcomePartial, infer.CodeUpstream, 2, prompt + 2*4000},
		{"failed before any token", then(0, upstream), "m", 0, store.OutcomeError, infer.CodeUpstream, 0, 0},
		{"broke off without a word of why", then(2, nil), "m", 0, store.OutcomePartial, infer.CodeUpstream, 2, prompt + 2*4000},
		{"past its deadline", wait(2), "quick", 0, store.OutcomePartial, infer.CodeTimeout, 2, prompt + 2*4000},
		{"no such model", words(1), "none", 0, store.OutcomeRefused, infer.CodeModelNotFound, 0, 0},
		{"more than was held", words(30), "m", 0, store.OutcomeComplete, "", 30, prompt + 30*4000},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newTestbed(t)
			b.fake.generate = c.make
			events, row, err := b.ask(context.Background(), c.model, c.leave)
			if row.Outcome != c.outcome || row.Usage.Output != c.tokens || row.ChargeNano != c.nano {
				t.Errorf("row: %s, %d tokens, %d nano-USD; wanted %s, %d, %d", row.Outcome, row.Usage.Output, row.ChargeNano, c.outcome, c.tokens, c.nano)
			}
			if got := infer.Code(row.ErrorCode); got != c.code {
				t.Errorf("the row says error %q, wanted %q", got, c.code)
			}
			if (err != nil) != (c.code != "") || err != nil && infer.AsError(err).Code != c.code {
				t.Errorf("the caller was told %v, wanted %q", err, c.code)
			}
			if c.outcome == store.OutcomePartial && !infer.AsError(err).NoRetry {
				t.Error("a charged failure invites a repeat")
			}
			if c.outcome == store.OutcomeComplete && events[len(events)-1].Kind != infer.EventUsage {
				t.Error("the last event is not usage")
			}
			if strings.Contains(b.log.String(), "secret") {
				t.Error("the log has content")
			}
		})
	}
}

// A caller whose connection ends while the model is silent.
func TestCallerGone(t *testing.T) {
	b := newTestbed(t)
	b.fake.generate = wait(2)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, row, err := b.ask(ctx, "m", 0)
	if row.Outcome != store.OutcomeCancelled || row.Usage.Output != 2 || row.ChargeNano != 6*1000+4*500+2*4000 {
		t.Errorf("row: %+v", row)
	}
	if err == nil {
		t.Error("no error")
	}
}

// Draining admits nothing, waits, and then ends what is open.
func TestDrain(t *testing.T) {
	b := newTestbed(t)
	b.fake.generate = wait(1)
	c := *b.config()
	c.Drain.Timeout = 0
	b.conf.Store(&c)
	done := make(chan store.Row)
	var told error
	go func() {
		var row store.Row
		_, row, told = b.ask(context.Background(), "m", 0)
		done <- row
	}()
	for b.fake.open.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	b.Drain(make(chan os.Signal))
	row := <-done
	if row.Outcome != store.OutcomePartial || infer.AsError(told).Code != infer.CodeUnavailable {
		t.Errorf("outcome %s, told %v", row.Outcome, told)
	}
	_, err := b.Admit(context.Background(), web.Caller{RequestID: "late", Credential: b.key})
	if e := infer.AsError(err); e.Code != infer.CodeUnavailable || e.RetryAfter == 0 {
		t.Errorf("a late caller was told %v", err)
	}
	if ok, reason := b.Ready(); ok || reason != "draining" {
		t.Errorf("ready %v, %q", ok, reason)
	}
}

// There is no more open at once than the configuration says.
func TestMaxRequests(t *testing.T) {
	b := newTestbed(t)
	var grants []*web.Grant
	for range 8 {
		grants = append(grants, b.admit())
	}
	_, err := b.Admit(context.Background(), web.Caller{RequestID: "ninth", Credential: b.key})
	if infer.AsError(err).Code != infer.CodeOverloaded {
		t.Errorf("the ninth was told %v", err)
	}
	for _, g := range grants {
		g.Release()
	}
	b.admit().Release()
}

// The set-up token works once and opens a session of the control plane, which
// may ask the data plane on a tenant's account.
func TestSessions(t *testing.T) {
	b := newTestbed(t)
	ctx := context.Background()
	if _, err := b.accounts.Redeem(ctx, "wrong", "127.0.0.1:1", ""); infer.AsError(err).Code != infer.CodeUnauthorized {
		t.Errorf("a wrong token: %v", err)
	}
	s, err := b.accounts.Redeem(ctx, b.first.SetupToken, "127.0.0.1:1", "")
	if err != nil || s.Role != admin.Owner {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := b.accounts.Redeem(ctx, b.first.SetupToken, "127.0.0.1:1", ""); err == nil {
		t.Error("the token worked twice")
	}
	g, err := b.Admit(ctx, web.Caller{RequestID: "browser", Principal: &web.Principal{User: s.User, Tenant: "default"}})
	if err != nil || g.Tenant != "default" || g.KeyID == "" {
		t.Fatalf("%+v, %v", g, err)
	}
	g.Release()
	if err := b.accounts.SignOut(ctx, s.Secret); err != nil {
		t.Error(err)
	}
	if _, err := b.accounts.Session(ctx, s.Secret, ""); err == nil {
		t.Error("a session outlived its end")
	}
	if err := b.accounts.SignOut(ctx, "unknown"); err != nil {
		t.Error(err)
	}
}

// Embeddings pass the same door.
func TestEmbedIsCharged(t *testing.T) {
	b := newTestbed(t)
	g := b.admit()
	defer g.Release()
	if _, err := b.Embed(context.Background(), g, &infer.EmbedRequest{Model: "m", Inputs: []infer.Prompt{{Text: "a"}}}); err != nil {
		t.Fatal(err)
	}
	d, err := b.store.Show(context.Background(), g.RequestID)
	if err != nil || d.Row.Operation != "embeddings" || d.Row.ChargeNano != 3000 || d.Row.Outcome != store.OutcomeComplete {
		t.Errorf("%+v, %v", d.Row, err)
	}
}

// A backend that breaks the contract of events is held to it.
func TestStreamNormalized(t *testing.T) {
	text := func(c int) infer.Event { return infer.Event{Kind: infer.EventText, Choice: c, Text: "x", Tokens: 1} }
	end := func(c int) infer.Event {
		return infer.Event{Kind: infer.EventFinish, Choice: c, Finish: infer.FinishStop}
	}
	for _, c := range []struct {
		name    string
		choices int
		in      []infer.Event
		want    []infer.EventKind
		fails   bool
	}{
		{"no start", 1, []infer.Event{text(0), end(0)}, []infer.EventKind{infer.EventStart, infer.EventText, infer.EventFinish, infer.EventUsage}, false},
		{"two starts", 1, []infer.Event{started(), started(), end(0)}, []infer.EventKind{infer.EventStart, infer.EventFinish, infer.EventUsage}, false},
		{"text after its finish", 2, []infer.Event{started(), end(0), text(0), text(1), end(1), end(1)}, []infer.EventKind{infer.EventStart, infer.EventFinish, infer.EventText, infer.EventFinish, infer.EventUsage}, false},
		{"a choice without finish", 2, []infer.Event{started(), text(0), end(0), {Kind: infer.EventUsage}}, []infer.EventKind{infer.EventStart, infer.EventText, infer.EventFinish}, true},
		{"nothing", 1, nil, nil, true},
		{"more after usage", 1, []infer.Event{started(), end(0), {Kind: infer.EventUsage}, text(0)}, []infer.EventKind{infer.EventStart, infer.EventFinish, infer.EventUsage}, false},
	} {
		s := stream{choices: c.choices, prompt: infer.Usage{PromptTokens: 7}}
		var got []infer.EventKind
		var failed error
		for ev, err := range s.normalize(func(yield func(infer.Event, error) bool) {
			for _, ev := range c.in {
				if !yield(ev, nil) {
					return
				}
			}
		}, infer.Served{Name: "m"}) {
			if err != nil {
				failed = err
				break
			}
			got = append(got, ev.Kind)
		}
		same := len(got) == len(c.want)
		for i := range got {
			same = same && got[i] == c.want[i]
		}
		if !same || (failed != nil) != c.fails {
			t.Errorf("%s: got %v, %v; wanted %v, failing %v", c.name, got, failed, c.want, c.fails)
		}
	}
}

// The metrics have the names that dashboards look for, and no content.
func TestMetrics(t *testing.T) {
	b := newTestbed(t)
	b.fake.generate = words(3)
	if _, _, err := b.ask(context.Background(), "m", 0); err != nil {
		t.Fatal(err)
	}
	families, err := b.telemetry.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, f := range families {
		have[f.GetName()] = true
	}
	for _, name := range []string{
		"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:prefix_cache_hits_total", "vllm:num_preemptions_total",
		"vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total", "vllm:time_to_first_token_seconds",
		"vllm:inter_token_latency_seconds", "vllm:e2e_request_latency_seconds", "hearth_ledger_open_holds", "hearth_spend_usd_total",
		"hearth_certificate_expiry_timestamp_seconds", "hearth_build_info", "hearth_worker_restarts_total", "hearth_ready",
	} {
		if !have[name] {
			t.Errorf("no metric %s", name)
		}
	}
}

// A trace goes on through us with a span of our own.
func TestTrace(t *testing.T) {
	const in = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	out := newSpan(in, 0)
	if traceID(out) != "0af7651916cd43dd8448eb211c80319c" || !strings.HasSuffix(out, "-01") || strings.Contains(out, "b7ad6b7169203331") {
		t.Errorf("got %s", out)
	}
	for _, bad := range []string{"", "x", "00-00000000000000000000000000000000-b7ad6b7169203331-01", strings.ToUpper(in)} {
		if got := newSpan(bad, 0); len(got) != 55 || traceID(got) == "" || !strings.HasSuffix(got, "-00") {
			t.Errorf("%q became %q", bad, got)
		}
	}
}

// What first-run.json says works, and nobody else can read it.
func TestFirstRunFile(t *testing.T) {
	b := newTestbed(t)
	var out bytes.Buffer
	if err := b.Announce(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(b.dir.firstRun())
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	raw, _ := os.ReadFile(b.dir.firstRun())
	var got map[string]string
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"base_url", "ca_file", "api_key", "setup_url", "setup_token"} {
		if got[field] == "" {
			t.Errorf("no %s", field)
		}
	}
	if !strings.Contains(out.String(), got["api_key"]) || !strings.HasSuffix(got["setup_url"], "#"+got["setup_token"]) {
		t.Errorf("printed %s\nfile %s", &out, raw)
	}
	if shellQuote("it's") != `'it'\''s'` || shellQuote("/a/b.c") != "/a/b.c" {
		t.Error("shellQuote")
	}
}

// A part that cannot be opened closes those before it: another start succeeds.
func TestOpenFailsWhole(t *testing.T) {
	b := newTestbed(t)
	opt := b.opt
	if _, err := Open(context.Background(), opt); err == nil {
		t.Fatal("two servers on one data directory")
	}
	opt.Dir = dataDir(t.TempDir())
	opt.Listen = b.listeners[0].Addr().String()
	if _, err := Open(context.Background(), opt); err == nil {
		t.Fatal("two servers on one port")
	}
	opt.Listen = "127.0.0.1:0"
	a, err := Open(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
	b.fake.closed.Store(false) // it was shared
}

// A closed appliance leaves no goroutine behind.
func TestNothingRunsAfterClose(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("", func(t *testing.T) {
		b := newTestbed(t)
		b.fake.generate = words(3)
		if _, _, err := b.ask(context.Background(), "m", 2); err != nil {
			t.Fatal(err)
		}
		if err := b.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	goleak.VerifyNone(t, before)
}
