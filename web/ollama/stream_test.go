package ollama

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

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
		{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 9, CompletionTokens: 3}},
	},
	"tools": {
		{Kind: infer.EventStart},
		{Kind: infer.EventReasoning, Text: "hm"}, {Kind: infer.EventReasoning, Signature: "EqQB"},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 0, ID: "a", Name: "f"}},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 1, ID: "b", Name: "g"}},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 0, Arguments: "{\"x\":\n "}},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 0, Arguments: `1}`}},
		{Kind: infer.EventFinish, Finish: infer.FinishToolCalls},
		{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 9, CompletionTokens: 12, ReasoningTokens: 2}},
	},
	"logprobs": {
		{Kind: infer.EventStart},
		{Kind: infer.EventText, Logprobs: []infer.TokenLogprob{{Bytes: []byte("\xc3"), Logprob: -0.25}}},
		{Kind: infer.EventText, Text: "é", Logprobs: []infer.TokenLogprob{{Bytes: []byte("\xa9"), Logprob: -0.5, Top: []infer.TopLogprob{{Bytes: []byte("a"), Logprob: -1}}}}},
		{Kind: infer.EventFinish, Finish: infer.FinishLength},
		{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 9, CompletionTokens: 2}},
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

// TestStreams compares with golden files; each line must be JSON. The clock goes
// on by 10 ms with every event.
func TestStreams(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, evs := range scripts {
		for _, d := range []struct {
			name string
			wire.Dialect
		}{{"chat", Chat{}}, {"generate", Generate{}}} {
			if name == "tools" && d.name == "generate" {
				continue
			}
			r := infer.NewRequest()
			r.ID, r.Model, r.Sampling.Logprobs = "req_0123", "m", name == "logprobs"
			enc := d.NewStream(r, wire.Options{Stream: true, Created: began}).(*stream)
			now := began
			enc.now = func() time.Time { now = now.Add(10 * time.Millisecond); return now }
			var out []byte
			var err error
			for _, ev := range evs {
				if out, err = enc.Event(out, ev); err != nil {
					t.Fatal(err)
				}
			}
			if name == "cut" {
				out = enc.Error(out, &infer.Error{Code: infer.CodeUnavailable, Message: "the worker was lost"})
			} else {
				out = enc.End(out)
			}
			for line := range bytes.Lines(out) {
				if !json.Valid(line) {
					t.Errorf("%s: no JSON: %s", name, line)
				}
			}
			golden(t, name+"."+d.name, out)
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
		r.Model, r.Sampling.Logprobs = "m", name == "logprobs"
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
		if err := (Chat{}).EncodeResponse(&b, r, wire.Options{Created: time.Now()}, a); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Message struct {
				Content, Thinking string
				Calls             []struct {
					Function struct{ Arguments map[string]any }
				} `json:"tool_calls"`
			}
			Done     bool
			Reason   string `json:"done_reason"`
			Total    *int64 `json:"total_duration"`
			Eval     int    `json:"eval_count"`
			Logprobs []any
		}
		if err := json.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v: %s", name, err, b.Bytes())
		}
		if !got.Done || got.Total == nil || got.Eval != a.Usage.CompletionTokens || len(got.Logprobs) != len(a.Choices[0].Logprobs) ||
			len(got.Message.Calls) != len(a.Choices[0].ToolCalls) || got.Message.Content != a.Choices[0].Text {
			t.Errorf("%s: %s", name, b.Bytes())
		}
	}
}

func TestStreamRules(t *testing.T) {
	for name, evs := range map[string][]infer.Event{
		"choice":       {{Kind: infer.EventText, Choice: 1, Text: "a"}},
		"after finish": {{Kind: infer.EventFinish, Finish: infer.FinishStop}, {Kind: infer.EventText, Text: "a"}},
		"tool":         {{Kind: infer.EventTool}},
		"tool index":   {{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 1, ID: "a"}}},
		"arguments":    {{Kind: infer.EventTool, Tool: &infer.ToolDelta{ID: "a", Arguments: "[]"}}, {Kind: infer.EventFinish, Finish: infer.FinishToolCalls}},
		"usage":        {{Kind: infer.EventUsage}},
		"kind":         {{Kind: 99}},
	} {
		enc := Chat{}.NewStream(infer.NewRequest(), wire.Options{})
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

func TestLists(t *testing.T) {
	models := []infer.Model{
		{Name: "parrot", Architecture: "llama", ParameterSize: 7_600_000_000, FileBytes: 5, Device: "cuda:0", ContextLength: 10, Tools: true, Created: 1_700_000_000},
		{Name: "far", Device: "upstream"},
	}
	for name, body := range map[string][]byte{"tags": EncodeTags(models), "ps": EncodeRunning(models), "show": EncodeShow(&models[0])} {
		if !json.Valid(body) {
			t.Errorf("%s: no JSON: %s", name, body)
		}
		golden(t, name+".json", body)
	}
}

// BenchmarkStream encodes a stream of 64 pieces.
func BenchmarkStream(b *testing.B) {
	r := infer.NewRequest()
	r.Model = "m"
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		enc := Chat{}.NewStream(r, wire.Options{})
		buf, _ = enc.Event(buf[:0], infer.Event{Kind: infer.EventStart})
		for range 64 {
			buf, _ = enc.Event(buf[:0], infer.Event{Kind: infer.EventText, Text: " word"})
		}
		buf, _ = enc.Event(buf[:0], infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop})
		buf, _ = enc.Event(buf[:0], infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 1, CompletionTokens: 64}})
	}
}
