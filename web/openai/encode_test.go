package openai

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/web/wire"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

func lp(id int32, s string, p float64, top ...infer.TopLogprob) infer.TokenLogprob {
	return infer.TokenLogprob{ID: id, Bytes: []byte(s), Logprob: p, Top: top}
}

func top(id int32, s string, p float64) infer.TopLogprob {
	return infer.TopLogprob{ID: id, Bytes: []byte(s), Logprob: p}
}

func started(prompt, cached int) infer.Event {
	return infer.Event{Kind: infer.EventStart, Usage: &infer.Usage{PromptTokens: prompt, CachedTokens: cached}, Model: &infer.Served{Name: "m-1", Fingerprint: "fp_9"}}
}

func text(choice int, s string) infer.Event {
	return infer.Event{Kind: infer.EventText, Choice: choice, Text: s, Tokens: 1}
}

func finish(choice int, f infer.FinishReason) infer.Event {
	return infer.Event{Kind: infer.EventFinish, Choice: choice, Finish: f}
}

func used(prompt, cached, made, mind int) infer.Event {
	return infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: prompt, CachedTokens: cached, CompletionTokens: made, ReasoningTokens: mind}}
}

// 🙂 is f0 9f 99 82; its bytes come as three tokens.
var smile = []infer.Event{
	{Kind: infer.EventText, Tokens: 1, Logprobs: []infer.TokenLogprob{lp(1, "a", -0.5, top(1, "a", -0.5), top(2, "b", -1))}},
	{Kind: infer.EventText, Tokens: 1, Logprobs: []infer.TokenLogprob{lp(3, "\xf0\x9f", -0.25, top(3, "\xf0\x9f", -0.25), top(4, "\xf0\x90", -2))}},
	{Kind: infer.EventText, Tokens: 1, Logprobs: []infer.TokenLogprob{lp(5, "\x99", -0.1, top(5, "\x99", -0.1), top(6, "\x98", math.Inf(-1)))}},
	{Kind: infer.EventText, Tokens: 1, Text: "a🙂", Logprobs: []infer.TokenLogprob{lp(7, "\x82", -0.05, top(7, "\x82", -0.05), top(8, "\x83", -4))}},
	{Kind: infer.EventText, Tokens: 1, Text: "é\"\n", Logprobs: []infer.TokenLogprob{lp(9, "é\"\n", -1e-7, top(9, "é\"\n", -1e-7), top(10, "x", -17))}},
}

var encodings = []struct {
	name   string
	body   string // of the request
	events []infer.Event
}{
	{"chat-plain", `"stream":true`, []infer.Event{started(5, 0), text(0, "Hel"), text(0, ""), text(0, "lo <&>"), finish(0, infer.FinishStop), used(5, 0, 3, 0)}},
	{"chat-usage", `"stream":true,"stream_options":{"include_usage":true}`, []infer.Event{started(5, 3), text(0, "Hello"), finish(0, infer.FinishLength), used(5, 3, 1, 0)}},
	{"chat-running-usage", `"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`, []infer.Event{started(5, 3), text(0, "Hel"), text(0, "lo"), finish(0, infer.FinishStop), used(5, 3, 2, 0)}},
	{"chat-choices", `"stream":true,"n":2`, []infer.Event{started(5, 0), text(1, "b"), text(0, "a"), finish(1, infer.FinishStop), text(0, "c"), finish(0, infer.FinishLength), used(5, 0, 3, 0)}},
	{"chat-logprobs", `"stream":true,"logprobs":true,"top_logprobs":2`, append(append([]infer.Event{started(5, 0)}, smile...), finish(0, infer.FinishStop), used(5, 0, 5, 0))},
	{"chat-logprobs-ids", `"stream":true,"logprobs":true,"return_tokens_as_token_ids":true,"return_token_ids":true`, []infer.Event{started(5, 0), {Kind: infer.EventText, Text: "a", Tokens: 1, TokenIDs: []int32{1}, Logprobs: []infer.TokenLogprob{lp(1, "a", -0.5)}}, {Kind: infer.EventFinish, Finish: infer.FinishStop, Tokens: 1, TokenIDs: []int32{2}, Logprobs: []infer.TokenLogprob{lp(2, "", -0.1)}}, used(5, 0, 2, 0)}},
	{"chat-tools", `"stream":true,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]`, []infer.Event{
		started(5, 0), text(0, "Let me look."),
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 0, ID: "call_a", Name: "f"}, Tokens: 4}, {Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 0}},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 0, Arguments: `{"a":`}}, {Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 0, Arguments: ` "é"}`}},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: 1, ID: "call_b", Name: "g", Arguments: "{}"}},
		finish(0, infer.FinishToolCalls), used(5, 0, 9, 0),
	}},
	{"chat-functions", `"stream":true,"functions":[{"name":"f"}]`, []infer.Event{
		started(5, 0), {Kind: infer.EventTool, Tool: &infer.ToolDelta{ID: "call_a", Name: "f"}, Tokens: 4}, {Kind: infer.EventTool, Tool: &infer.ToolDelta{Arguments: `{}`}},
		finish(0, infer.FinishToolCalls), used(5, 0, 5, 0),
	}},
	{"chat-reasoning", `"stream":true,"stream_options":{"include_usage":true}`, []infer.Event{started(5, 0), {Kind: infer.EventReasoning, Text: "Hm", Tokens: 1}, text(0, "Yes"), {Kind: infer.EventFinish, Finish: infer.FinishStop, Stop: "END"}, used(5, 0, 2, 1)}},
	{"chat-reasoning-hidden", `"stream":true,"include_reasoning":false`, []infer.Event{started(5, 0), {Kind: infer.EventReasoning, Text: "Hm", Tokens: 1}, text(0, "Yes"), finish(0, infer.FinishStop), used(5, 0, 2, 1)}},
	{"completion-plain", `"stream":true`, []infer.Event{started(5, 0), text(0, "Hel"), text(0, ""), text(0, "lo"), finish(0, infer.FinishStop), used(5, 0, 3, 0)}},
	{"completion-logprobs", `"stream":true,"logprobs":2,"stream_options":{"include_usage":true}`, append(append([]infer.Event{started(5, 0)}, smile...), finish(0, infer.FinishStop), used(5, 0, 5, 0))},
	{"completion-echo", `"echo":true,"logprobs":1`, []infer.Event{started(2, 0),
		{Kind: infer.EventText, Text: "ab", Logprobs: []infer.TokenLogprob{lp(1, "a", math.NaN()), lp(2, "b", -1, top(3, "c", -0.5))}},
		{Kind: infer.EventText, Text: "c", Tokens: 1, Logprobs: []infer.TokenLogprob{lp(3, "c", -0.5, top(3, "c", -0.5))}}, finish(0, infer.FinishLength), used(2, 0, 1, 0)}},
}

// TestGolden encodes each list of events as a stream and as a whole, and holds
// both against the committed texts.
func TestGolden(t *testing.T) {
	for _, c := range encodings {
		var d wire.Dialect = Chat{}
		body := "{" + hi + "," + c.body + "}"
		if strings.HasPrefix(c.name, "completion") {
			d, body = Completion{}, `{"model":"m","prompt":"p",`+c.body+"}"
		}
		r, o, err := d.DecodeRequest(nil, []byte(body))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		r.ID, o.Created = "req_0123", time.Unix(1_700_000_000, 0)
		if r.Sampling.ReturnTokenIDs {
			o.PromptTokens = [][]int32{{7, 8}}
		}
		s, col := d.NewStream(r, o), wire.NewCollector(r)
		var out []byte
		for _, ev := range c.events {
			if out, err = s.Event(out, ev); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if err := col.Add(ev); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		out = s.End(out)
		for _, frame := range strings.SplitAfter(strings.TrimSuffix(string(out), "\n\n"), "\n\n") {
			data, ok := strings.CutPrefix(strings.TrimSpace(frame), "data: ")
			if !ok || data != "[DONE]" && !json.Valid([]byte(data)) {
				t.Errorf("%s: a frame that is none: %q", c.name, frame)
			}
		}
		golden(t, c.name+".sse", out)
		a, err := col.Answer()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var whole bytes.Buffer
		if err := d.EncodeResponse(&whole, r, o, a); err != nil {
			t.Fatal(err)
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, whole.Bytes(), "", " "); err != nil {
			t.Fatalf("%s: %v: %s", c.name, err, &whole)
		}
		golden(t, c.name+".json", pretty.Bytes())
	}
}

func TestStreamError(t *testing.T) {
	r, o, err := chat(t, `"stream":true`)
	if err != nil {
		t.Fatal(err)
	}
	s := Chat{}.NewStream(r, o)
	got := string(s.Error(nil, &infer.Error{Code: infer.CodeUnavailable, Message: "the worker was lost"}))
	if got != `data: {"error":{"message":"the worker was lost","type":"server_error","param":null,"code":"unavailable"}}`+"\n\n" {
		t.Errorf("got %s", got)
	}
}

// A stream that breaks the rules of events is an error, not an odd stream.
func TestStreamRules(t *testing.T) {
	for name, events := range map[string][]infer.Event{
		"choice beyond n":   {started(1, 0), text(1, "x")},
		"text after finish": {started(1, 0), finish(0, "stop"), text(0, "x")},
		"two finishes":      {started(1, 0), finish(0, "stop"), finish(0, "stop")},
		"after usage":       {started(1, 0), finish(0, "stop"), used(1, 0, 1, 0), text(0, "x")},
		"two starts":        {started(1, 0), started(1, 0)},
		"tool of nothing":   {started(1, 0), {Kind: infer.EventTool}},
		"usage of nothing":  {started(1, 0), {Kind: infer.EventUsage}},
		"unknown kind":      {started(1, 0), {Kind: 99}},
	} {
		r, o, _ := chat(t, `"stream":true`)
		s, c := Chat{}.NewStream(r, o), wire.NewCollector(r)
		var serr, cerr error
		for _, ev := range events {
			if serr == nil {
				_, serr = s.Event(nil, ev)
			}
			if cerr == nil && name != "two starts" && name != "text after finish" {
				cerr = c.Add(ev)
			}
		}
		if serr == nil {
			t.Errorf("%s: the stream took it", name)
		}
		if cerr == nil && name != "two starts" && name != "text after finish" {
			t.Errorf("%s: the collector took it", name)
		}
	}
}

// Padded chunks are multiples of 64 bytes, whatever is in them.
func TestObfuscation(t *testing.T) {
	r, o, err := chat(t, `"stream":true,"stream_options":{"include_obfuscation":true}`)
	if err != nil {
		t.Fatal(err)
	}
	s := Chat{}.NewStream(r, o)
	for _, ev := range []infer.Event{started(1, 0), text(0, "a"), text(0, "a longer piece of text"), finish(0, "stop")} {
		b, err := s.Event(nil, ev)
		if err != nil || len(b)%64 != 0 || len(b) == 0 {
			t.Errorf("got %d bytes, %v", len(b), err)
		}
		if data := bytes.TrimPrefix(bytes.TrimSpace(b), []byte("data: ")); !json.Valid(data) {
			t.Errorf("no JSON: %s", data)
		}
	}
}

func TestErrorTable(t *testing.T) {
	for code := range errorTable {
		status, body := EncodeError(&infer.Error{Code: code, Message: "m", Param: "p"}, "req_1")
		if status < 400 || !json.Valid(body) {
			t.Errorf("%s: %d %s", code, status, body)
		}
	}
	if status, _ := EncodeError(&infer.Error{Code: "made up"}, ""); status != 500 {
		t.Errorf("an unknown code is a %d", status)
	}
}

func TestModels(t *testing.T) {
	golden(t, "models.json", EncodeModels([]infer.Model{{Name: "a/b", ContextLength: 2048, Created: 1_700_000_000}, {Name: "c"}}))
	golden(t, "models-none.json", EncodeModels(nil))
}

func TestEncodeEmbed(t *testing.T) {
	r := &infer.EmbedRequest{Model: "m", Inputs: make([]infer.Prompt, 2)}
	res := &infer.EmbedResult{Model: "m", Vectors: [][]float32{{1, 0}, {-0.5, 1e-9}}, Usage: infer.Usage{PromptTokens: 4}}
	for name, o := range map[string]EmbedOptions{"embed.json": {}, "embed-base64.json": {Base64: true}} {
		b, err := EncodeEmbed(r, o, res)
		if err != nil || !json.Valid(b) {
			t.Fatalf("%s: %v %s", name, err, b)
		}
		golden(t, name, b)
	}
	res.Vectors[0][0] = float32(math.NaN())
	if _, err := EncodeEmbed(r, EmbedOptions{}, res); err == nil {
		t.Error("NaN was sent")
	}
	res.Vectors = res.Vectors[:1]
	if _, err := EncodeEmbed(r, EmbedOptions{}, res); err == nil {
		t.Error("a vector is missing and nobody minds")
	}
}

func TestOffsets(t *testing.T) {
	var o offsets
	var got []int
	for _, b := range []string{"a", "\xf0\x9f", "\x99", "\x82", "é", "\xff", "b", "\xe2\x80", "c", ""} {
		got = append(got, o.next([]byte(b)))
	}
	want := []int{0, 1, 1, 1, 2, 3, 4, 5, 5, 7}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func BenchmarkStreamEvent(b *testing.B) {
	r, o, err := chat(b, `"stream":true`)
	if err != nil {
		b.Fatal(err)
	}
	s := Chat{}.NewStream(r, o)
	buf, _ := s.Event(nil, started(5, 0))
	ev := text(0, " word")
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = s.Event(buf[:0], ev); err != nil {
			b.Fatal(err)
		}
	}
}
