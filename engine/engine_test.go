package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"hearth/engine"
	"hearth/engine/infer"
	"hearth/engine/sched"
	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

func own(t *testing.T, change func(*engine.Options)) *engine.Engine {
	t.Helper()
	o := engine.Options{Path: ownModel(t)}
	if change != nil {
		change(&o)
	}
	e := open(t, o)
	t.Cleanup(func() { e.Close() })
	return e
}

func completion(tokens ...int32) *infer.Request {
	r := infer.NewRequest()
	r.Kind = infer.Completion
	r.Prompts = []infer.Prompt{{Tokens: tokens}}
	r.Sampling.Temperature = 0
	r.Sampling.MaxTokens = 8
	r.Sampling.IgnoreEOS = true
	r.Sampling.ReturnTokenIDs = true
	return r
}

// answer is a collected stream.
type answer struct {
	start, usage *infer.Usage
	text         map[int]string
	ids          map[int][]int32
	lps          map[int][]infer.TokenLogprob
	finish       map[int]infer.FinishReason
	tokens       int
	err          error
}

func ask(ctx context.Context, e infer.Backend, r *infer.Request) answer {
	a := answer{text: map[int]string{}, ids: map[int][]int32{}, lps: map[int][]infer.TokenLogprob{}, finish: map[int]infer.FinishReason{}}
	for ev, err := range e.Generate(ctx, r) {
		if err != nil {
			a.err = err
			return a
		}
		a.tokens += ev.Tokens
		a.ids[ev.Choice] = append(a.ids[ev.Choice], ev.TokenIDs...)
		a.lps[ev.Choice] = append(a.lps[ev.Choice], ev.Logprobs...)
		switch ev.Kind {
		case infer.EventStart:
			a.start = ev.Usage
		case infer.EventText:
			a.text[ev.Choice] += ev.Text
		case infer.EventFinish:
			a.finish[ev.Choice] = ev.Finish
		case infer.EventUsage:
			a.usage = ev.Usage
		}
	}
	return a
}

func codeOf(err error) infer.Code {
	var e *infer.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestUsageCountsRealTokens(t *testing.T) {
	e := own(t, nil)
	for _, n := range []int{1, 2, 10} {
		r := completion(5, 6, 7)
		r.Sampling.MaxTokens, r.Sampling.N = n, 2
		a := ask(t.Context(), e, r)
		if a.err != nil {
			t.Fatal(a.err)
		}
		if a.usage.PromptTokens != 3 || a.usage.CompletionTokens != 2*n || a.tokens != 2*n {
			t.Errorf("max_tokens %d, n 2: usage %+v, events carry %d", n, *a.usage, a.tokens)
		}
		if a.finish[0] != infer.FinishLength || a.finish[1] != infer.FinishLength {
			t.Errorf("finish %v", a.finish)
		}
		if !slices.Equal(a.ids[0], a.ids[1]) {
			t.Errorf("greedy choices differ: %v %v", a.ids[0], a.ids[1])
		}
	}
}

func TestLeavingFreesWithinOneStep(t *testing.T) {
	e := own(t, nil)
	r := completion(5, 6, 7)
	r.Sampling.MaxTokens = 200
	seen := 0
	for _, err := range e.Generate(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen == 4 {
			break
		}
	}
	steps := e.Health(t.Context()).Stats.Steps
	waitIdle(t, e)
	if late := e.Health(t.Context()).Stats.Steps - steps; late > 2 {
		t.Errorf("%d steps ran after the caller had left", late)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("gone")
	cancel(cause)
	if a := ask(ctx, e, completion(1, 2)); !errors.Is(a.err, cause) {
		t.Errorf("cancelled before the start: %v", a.err)
	}
	waitIdle(t, e)
}

func TestContextLimits(t *testing.T) {
	e := own(t, func(o *engine.Options) { o.Context = 64 })
	long := make([]int32, 64)
	a := ask(t.Context(), e, completion(long...))
	if codeOf(a.err) != infer.CodeContextLength || !strings.Contains(a.err.Error(), "64") {
		t.Errorf("prompt of the whole context: %v", a.err)
	}
	r := completion(long[:60]...)
	r.Sampling.MaxTokens = 0
	if a = ask(t.Context(), e, r); a.err != nil || a.usage.CompletionTokens != 4 || a.finish[0] != infer.FinishLength {
		t.Errorf("60 of 64: %+v %v", a.usage, a.err)
	}
	n, err := e.Count(t.Context(), r)
	if err != nil || n != (infer.Count{PromptTokens: 60, MaxOutputTokens: 4}) {
		t.Errorf("count %+v %v", n, err)
	}
}

// A text that cannot fit however it is cut is refused before it is tokenized.
func TestHopelessPromptCostsNothing(t *testing.T) {
	e := own(t, nil)
	r := completion()
	r.Prompts = []infer.Prompt{{Text: strings.Repeat("a", 20<<20)}}
	began := time.Now()
	a := ask(t.Context(), e, r)
	if codeOf(a.err) != infer.CodeContextLength || !strings.Contains(a.err.Error(), "256") {
		t.Errorf("20 MiB of text: %v", a.err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("took %v", took)
	}
}

func TestWhatCannotFitTheCacheIsRefused(t *testing.T) {
	path := gguftest.WriteLlama(t, gguftest.Options{Seed: 1, Type: kernels.Q8_0, Context: 256})
	if _, err := engine.Open(t.Context(), engine.Options{Path: path, KVBytes: 1 << 10, Digest: "x"}); err == nil || !strings.Contains(err.Error(), "kv_memory") {
		t.Errorf("a cache below one context: %v", err)
	}
}

func TestBadRequests(t *testing.T) {
	e := own(t, nil)
	for name, c := range map[string]struct {
		set   func(*infer.Request)
		param string
	}{
		"bias":   {func(r *infer.Request) { r.Sampling.LogitBias = map[int32]float64{1 << 30: 1} }, "logit_bias"},
		"stop":   {func(r *infer.Request) { r.Sampling.StopTokenIDs = []int32{-1} }, "stop_token_ids"},
		"prompt": {func(r *infer.Request) { r.Prompts[0].Tokens = []int32{99999999} }, "prompt"},
		"empty":  {func(r *infer.Request) { r.Prompts[0].Tokens = []int32{} }, "prompt"},
		"none":   {func(r *infer.Request) { r.Prompts = nil }, "prompt"},
		"n":      {func(r *infer.Request) { r.Sampling.N = 100000 }, "n"},
		"suffix": {func(r *infer.Request) { r.Suffix = "b" }, "suffix"},
	} {
		r := completion(1, 2)
		c.set(r)
		var ie *infer.Error
		if a := ask(t.Context(), e, r); !errors.As(a.err, &ie) || ie.Param != c.param || ie.Code == infer.CodeInternal {
			t.Errorf("%s: %v, want an error about %s", name, a.err, c.param)
		}
	}
}

func TestPrefixCacheIsToldAndKeptApart(t *testing.T) {
	e := own(t, nil)
	prompt := make([]int32, 50)
	for i := range prompt {
		prompt[i] = int32(i + 3)
	}
	run := func(tenant, salt string) answer {
		r := completion(prompt...)
		r.Tenant, r.CacheSalt = tenant, salt
		return ask(t.Context(), e, r)
	}
	first := run("a", "")
	for _, c := range []struct {
		tenant, salt string
		cached       int
	}{{"a", "", 48}, {"b", "", 0}, {"a", "x", 0}, {"a", "x", 48}} {
		got := run(c.tenant, c.salt)
		if got.usage.CachedTokens != c.cached || got.usage.PromptTokens != 50 {
			t.Errorf("%v: usage %+v", c, *got.usage)
		}
		if !slices.Equal(got.ids[0], first.ids[0]) {
			t.Errorf("%v: the cache changed the answer", c)
		}
	}
}

func TestEchoWithLogprobs(t *testing.T) {
	e := own(t, func(o *engine.Options) { o.MaxStepTokens = 7 })
	r := completion(9, 8, 7, 6, 5, 4, 3, 9, 8, 7)
	r.Echo = true
	r.Sampling.Logprobs, r.Sampling.PromptLogprobs, r.Sampling.TopLogprobs = true, true, 2
	a := ask(t.Context(), e, r)
	if a.err != nil {
		t.Fatal(a.err)
	}
	lps := a.lps[0]
	if len(lps) != 18 || !math.IsNaN(lps[0].Logprob) || lps[9].ID != 7 {
		t.Fatalf("%d entries, first %v", len(lps), lps[0])
	}
	// The same token generated after the same prefix has the same value.
	q := completion(9, 8, 7, 6)
	q.Sampling.LogitBias = map[int32]float64{5: 100}
	q.Sampling.Logprobs, q.Sampling.MaxTokens = true, 1
	if b := ask(t.Context(), e, q); b.lps[0][0].ID != 5 || b.lps[0][0].Logprob != lps[4].Logprob {
		t.Errorf("prompt entry %v, generated entry %v", lps[4].Logprob, b.lps[0])
	}
	r.Sampling.MaxTokens = -1
	if a := ask(t.Context(), e, r); a.err != nil || a.usage.CompletionTokens != 0 || len(a.lps[0]) != 10 {
		t.Errorf("echo alone: %+v, %d entries, %v", a.usage, len(a.lps[0]), a.err)
	}
}

func TestEmbeddings(t *testing.T) {
	e := own(t, nil)
	embed := func(dim int, in ...string) [][]float32 {
		t.Helper()
		r := &infer.EmbedRequest{Dimensions: dim}
		for _, s := range in {
			r.Inputs = append(r.Inputs, infer.Prompt{Text: s})
		}
		res, err := e.Embed(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return res.Vectors
	}
	both := embed(0, "one text", "another")
	alone := embed(0, "another")
	if !slices.Equal(both[1], alone[0]) || slices.Equal(both[0], both[1]) {
		t.Error("a vector depends on its company, or on nothing")
	}
	short := embed(8, "another")
	if len(short[0]) != 8 || math.Abs(norm(short[0])-1) > 1e-5 || math.Abs(norm(alone[0])-1) > 1e-5 {
		t.Errorf("length %d, norms %v %v", len(short[0]), norm(short[0]), norm(alone[0]))
	}
	for _, r := range []*infer.EmbedRequest{{}, {Inputs: []infer.Prompt{{}}}, {Inputs: []infer.Prompt{{Text: "a"}}, Dimensions: 1 << 20}} {
		if _, err := e.Embed(t.Context(), r); codeOf(err) != infer.CodeInvalid {
			t.Errorf("%+v: %v", r, err)
		}
	}
	waitIdle(t, e)
}

func norm(v []float32) float64 {
	var n float64
	for _, x := range v {
		n += float64(x) * float64(x)
	}
	return math.Sqrt(n)
}

func TestStructuredAnswerFitsItsSchema(t *testing.T) {
	e := own(t, nil)
	r := infer.NewRequest()
	r.Messages = []infer.Message{{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: "hello"}}}}
	r.Format = infer.Format{Kind: infer.FormatJSONSchema, Name: "x", Strict: true, Schema: json.RawMessage(
		`{"type":"object","properties":{"a":{"type":"integer","minimum":0,"maximum":99},"b":{"enum":["x","y"]}},"required":["a","b"],"additionalProperties":false}`)}
	for seed := range int64(5) {
		r.Sampling.Seed = &seed
		a := ask(t.Context(), e, r)
		var v struct {
			A *int
			B string
		}
		if a.err != nil || json.Unmarshal([]byte(a.text[0]), &v) != nil || v.A == nil || *v.A > 99 || (v.B != "x" && v.B != "y") {
			t.Errorf("seed %d: %q %v", seed, a.text[0], a.err)
		}
		if a.finish[0] != infer.FinishStop {
			t.Errorf("finish %v", a.finish)
		}
	}
}

func TestForcedToolCall(t *testing.T) {
	e := own(t, func(o *engine.Options) {
		o.Path = gguftest.WriteLlama(t, gguftest.Options{Seed: 1, Type: kernels.Q8_0, Context: 1024})
	})
	r := infer.NewRequest()
	r.Messages = []infer.Message{{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: "weather?"}}}}
	r.Tools = []infer.Tool{{Name: "get_weather", Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":9}},"required":["n"],"additionalProperties":false}`)}}
	r.ToolChoice.Mode = "required"
	r.ParallelToolCalls = false
	seed := int64(3)
	r.Sampling.Seed = &seed
	var name, args, content string
	var finish infer.FinishReason
	for ev, err := range e.Generate(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Tool != nil {
			name += ev.Tool.Name
			args += ev.Tool.Arguments
		}
		if ev.Kind == infer.EventText {
			content += ev.Text
		}
		if ev.Kind == infer.EventFinish {
			finish = ev.Finish
		}
	}
	var v struct{ N int }
	if name != "get_weather" || json.Unmarshal([]byte(args), &v) != nil || v.N < 1 || content != "" || finish != infer.FinishToolCalls {
		t.Errorf("call %s(%s), content %q, finish %s", name, args, content, finish)
	}
}

func TestFullQueueIsTold(t *testing.T) {
	e := own(t, func(o *engine.Options) { o.QueueLimit = 1 })
	r := completion(1, 2, 3)
	r.Sampling.MaxTokens = 200
	for range e.Generate(t.Context(), r) {
		if a := ask(t.Context(), e, completion(1)); codeOf(a.err) != infer.CodeOverloaded {
			t.Errorf("second request: %v", a.err)
		}
		break
	}
}

func TestCloseEndsStreams(t *testing.T) {
	// A step takes a while, so that the answer is not over before Close comes.
	e := own(t, func(o *engine.Options) {
		o.BeforeStep = func(uint64, []*sched.Sequence, func(*sched.Sequence)) { time.Sleep(10 * time.Millisecond) }
	})
	r := completion(1, 2, 3)
	r.Sampling.MaxTokens = 250
	closed := false
	deadline := time.Now().Add(10 * time.Second)
	for ev, err := range e.Generate(t.Context(), r) {
		if err != nil {
			if codeOf(err) != infer.CodeUnavailable {
				t.Errorf("after Close: %v", err)
			}
			return
		}
		if !closed && ev.Kind != infer.EventStart {
			closed = true
			go e.Close()
		}
		if time.Now().After(deadline) {
			break
		}
	}
	t.Error("the stream did not end with an error")
}
