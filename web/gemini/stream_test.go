package gemini

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"hearth/engine/infer"
	"hearth/web/wire"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// scripts are answers as events.
var scripts = map[string][]infer.Event{
	"text": {
		{Kind: infer.EventStart, Model: &infer.Served{Name: "parrot"}},
		{Kind: infer.EventText, Text: "Hel"}, {Kind: infer.EventText, Text: "lo \"you\"\n"},
		{Kind: infer.EventFinish, Finish: infer.FinishStop},
		{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 9, CachedTokens: 4, CompletionTokens: 3}},
	},
	"tools": {
		{Kind: infer.EventStart},
		{Kind: infer.EventReasoning, Text: "hm"}, {Kind: infer.EventReasoning, Signature: "EqQB"},
		{Kind: infer.EventText, Text: "I look."},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 0, ID: "a", Name: "f"}},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 1, ID: "b", Name: "g"}},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 0, Arguments: `{"x": `}},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 1, Arguments: `{}`}},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 0, Arguments: `1}`}},
		{Kind: infer.EventFinish, Finish: infer.FinishToolCalls},
		{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 9, CompletionTokens: 12, ReasoningTokens: 2}},
	},
	"broken-call": {
		{Kind: infer.EventStart},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 0, ID: "a", Name: "f", Arguments: `{"x":`}},
		{Kind: infer.EventFinish, Finish: infer.FinishToolCalls},
		{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 9, CompletionTokens: 2}},
	},
	"cut-call": {
		{Kind: infer.EventStart},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 0, ID: "a", Name: "f", Arguments: `{"x":`}},
		{Kind: infer.EventFinish, Finish: infer.FinishLength},
		{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 9, CompletionTokens: 2}},
	},
	"two": {
		{Kind: infer.EventStart},
		{Kind: infer.EventText, Choice: 1, Text: "b", Logprobs: []infer.TokenLogprob{{ID: 7, Bytes: []byte("b"), Logprob: -0.5, Top: []infer.TopLogprob{{ID: 7, Bytes: []byte("b"), Logprob: -0.5}}}}},
		{Kind: infer.EventFinish, Choice: 1, Finish: infer.FinishLength},
		{Kind: infer.EventText, Text: "a"},
		{Kind: infer.EventFinish, Finish: infer.FinishContentFilter},
		{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 1, CompletionTokens: 2}},
	},
	"cut": {
		{Kind: infer.EventStart}, {Kind: infer.EventText, Text: "so far"},
	},
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s", name, got)
	}
}

func encode(t *testing.T, enc wire.StreamEncoder, evs []infer.Event) []byte {
	t.Helper()
	var out []byte
	var err error
	for _, ev := range evs {
		if out, err = enc.Event(out, ev); err != nil {
			t.Fatal(err)
		}
	}
	if evs[len(evs)-1].Kind == infer.EventUsage {
		return enc.End(out)
	}
	return enc.Error(out, &infer.Error{Code: infer.CodeUnavailable, Message: "the worker was lost", NoRetry: true})
}

// TestStreams compares with golden files, as SSE and as an array, with thoughts
// and without; the array must be JSON however the answer ended.
func TestStreams(t *testing.T) {
	for name, evs := range scripts {
		r := infer.NewRequest()
		r.ID, r.Model = "req_0123", "m"
		if name == "two" {
			r.Sampling.N, r.Sampling.Logprobs = 2, true
		}
		g := Generate{Model: "m", Stream: true}
		out := encode(t, g.NewStream(r, wire.Options{Stream: true}), evs)
		golden(t, name+".sse", out)
		g.Array = true
		out = encode(t, g.NewStream(r, wire.Options{Stream: true, HideReasoning: true}), evs)
		golden(t, name+".json", out)
		var all []json.RawMessage
		if err := json.Unmarshal(out, &all); err != nil {
			t.Errorf("%s: the array is no JSON: %v", name, err)
		}
	}
}

// TestWhole encodes the same answers in one piece.
func TestWhole(t *testing.T) {
	for name, evs := range scripts {
		if name == "cut" {
			continue
		}
		r := infer.NewRequest()
		r.ID, r.Model = "req_0123", "m"
		if name == "two" {
			r.Sampling.N, r.Sampling.Logprobs = 2, true
		}
		c := wire.NewCollector(r)
		for _, ev := range evs {
			if err := c.Add(ev); err != nil {
				t.Fatal(err)
			}
		}
		a, err := c.Answer()
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := (Generate{}).EncodeResponse(&b, r, wire.Options{}, a); err != nil {
			t.Fatal(err)
		}
		if !json.Valid(b.Bytes()) {
			t.Errorf("%s: no JSON: %s", name, b.Bytes())
		}
		golden(t, name+".whole", b.Bytes())
	}
}

// TestStreamRules has events that break the rules of infer.Event.
func TestStreamRules(t *testing.T) {
	for name, evs := range map[string][]infer.Event{
		"choice":       {{Kind: infer.EventText, Choice: 1, Text: "a"}},
		"after finish": {{Kind: infer.EventFinish, Finish: infer.FinishStop}, {Kind: infer.EventText, Text: "a"}},
		"tool":         {{Kind: infer.EventTool}},
		"tool index":   {{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 1, ID: "a"}}},
		"usage":        {{Kind: infer.EventUsage}},
		"kind":         {{Kind: 99}},
	} {
		enc := Generate{}.NewStream(infer.NewRequest(), wire.Options{})
		var err error
		for _, ev := range evs {
			if _, e := enc.Event(nil, ev); e != nil {
				err = e
			}
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNativeFrames(t *testing.T) {
	for _, array := range []bool{false, true} {
		enc := Generate{Array: array}.NewStream(infer.NewRequest(), wire.Options{}).(wire.Framed)
		out := enc.Frame(nil, &infer.Frame{Data: []byte(`{"a":1}`)})
		out = enc.Frame(out, &infer.Frame{Data: []byte(`{"b":2}`)})
		out = enc.(wire.StreamEncoder).End(out)
		want := "data: {\"a\":1}\n\ndata: {\"b\":2}\n\n"
		if array {
			want = "[{\"a\":1},\r\n{\"b\":2}]\n"
		}
		if string(out) != want {
			t.Errorf("frames %q, want %q", out, want)
		}
	}
}

// BenchmarkStream encodes a stream of 64 chunks.
func BenchmarkStream(b *testing.B) {
	r := infer.NewRequest()
	r.ID, r.Model = "req_0123", "m"
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		enc := Generate{}.NewStream(r, wire.Options{})
		buf, _ = enc.Event(buf[:0], infer.Event{Kind: infer.EventStart})
		for range 64 {
			buf, _ = enc.Event(buf[:0], infer.Event{Kind: infer.EventText, Text: " word"})
		}
		buf, _ = enc.Event(buf[:0], infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop})
		buf, _ = enc.Event(buf[:0], infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 1, CompletionTokens: 64}})
	}
}
