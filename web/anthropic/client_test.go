package anthropic

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// same compares two JSON texts by value.
func same(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatalf("%s: %v in %s", what, err, got)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func text(s string) []infer.Part { return []infer.Part{{Type: "text", Text: s}} }

func chat(f func(r *infer.Request)) *infer.Request {
	r := infer.NewRequest()
	r.ID, r.Model = "req_1", "m"
	r.Messages = []infer.Message{{Role: infer.RoleUser, Content: text("Hi")}}
	r.Wire = &infer.Wire{Dialect: "openai-chat", Body: []byte(`{}`)}
	if f != nil {
		f(r)
	}
	return r
}

// TestEncodeRequest writes requests of another dialect.
func TestEncodeRequest(t *testing.T) {
	const hi = `"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]`
	weather := infer.Tool{Name: "w", Description: "d", Parameters: []byte(`{"type":"object"}`)}
	for name, c := range map[string]struct {
		f    func(r *infer.Request)
		t    wire.Target
		want string
	}{
		"plain": {nil, wire.Target{}, `{"model":"up","max_tokens":4096,` + hi + `}`},
		"bound": {nil, wire.Target{MaxOutput: 77}, `{"model":"up","max_tokens":77,` + hi + `}`},
		"sampling": {func(r *infer.Request) {
			r.Sampling.MaxTokens, r.Sampling.Temperature, r.Sampling.TopP, r.Sampling.TopK, r.Sampling.Stop = 9, 0, 0.5, 40, []string{"END", "\n"}
			r.Stream, r.Hints.User, r.Hints.ServiceTier = true, "u1", "default"
		}, wire.Target{}, `{"model":"up","max_tokens":9,` + hi + `,"temperature":0,"top_p":0.5,"top_k":40,"stop_sequences":["END"],"metadata":{"user_id":"u1"},"service_tier":"standard_only","stream":true}`},
		"system": {func(r *infer.Request) {
			r.Messages = []infer.Message{
				{Role: infer.RoleSystem, Content: text("A")}, {Role: infer.RoleDeveloper, Content: []infer.Part{{Type: "text", Text: "B", Cache: "1h"}}},
				{Role: infer.RoleUser, Content: text("one")}, {Role: infer.RoleUser, Content: text("two")},
				{Role: infer.RoleSystem, Content: text("late")}, {Role: infer.RoleAssistant, Content: text("yes \n")},
			}
			r.ContinueFinalMessage, r.AddGenerationPrompt = true, false
		}, wire.Target{}, `{"model":"up","max_tokens":4096,"system":[{"type":"text","text":"A"},{"type":"text","text":"B","cache_control":{"type":"ephemeral","ttl":"1h"}}],
			"messages":[{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"},{"type":"text","text":"<system>\nlate\n</system>"}]},{"role":"assistant","content":[{"type":"text","text":"yes"}]}]}`},
		"only system": {func(r *infer.Request) { r.Messages = []infer.Message{{Role: infer.RoleSystem, Content: text("A")}} }, wire.Target{},
			`{"model":"up","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"A"}]}]}`},
		"tool turns": {func(r *infer.Request) {
			r.Messages = []infer.Message{
				{Role: infer.RoleUser, Content: text("q")},
				{Role: infer.RoleAssistant, Content: text(""), ToolCalls: []infer.ToolCall{{ID: "call.1", Name: "w", Arguments: `{"a": 1}`}, {ID: "c2", Name: "w", Arguments: ""}, {ID: "c3", Name: "w", Arguments: `{"a": `}}},
				{Role: infer.RoleUser, Content: text("meanwhile")},
				{Role: infer.RoleTool, ToolCallID: "call.1", Content: text("sunny")},
				{Role: infer.RoleTool, ToolCallID: "c2", Content: []infer.Part{{Type: "image", MIME: "image/png", Data: []byte("x")}}, ToolError: true},
				{Role: infer.RoleTool, ToolCallID: "c3", Content: text("")},
			}
			r.Tools = []infer.Tool{weather, {Name: "n", Strict: true, Cache: "5m"}, {Name: "s", Parameters: []byte(`{"properties":{}}`)}}
			r.ParallelToolCalls = false
		}, wire.Target{}, `{"model":"up","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"q"}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"w","input":{"a":1}},{"type":"tool_use","id":"c2","name":"w","input":{}},{"type":"tool_use","id":"c3","name":"w","input":{"invalid_json":"{\"a\":"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"sunny"}]},{"type":"tool_result","tool_use_id":"c2","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"eA=="}}],"is_error":true},{"type":"tool_result","tool_use_id":"c3"},{"type":"text","text":"meanwhile"}]}],
			"tools":[{"name":"w","description":"d","input_schema":{"type":"object"}},{"name":"n","input_schema":{"type":"object","properties":{}},"strict":true,"cache_control":{"type":"ephemeral"}},{"name":"s","input_schema":{"type":"object","properties":{}}}],
			"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`},
		"tool required": {func(r *infer.Request) {
			r.Tools, r.ToolChoice.Mode = []infer.Tool{weather, {Name: "x"}}, "required"
			r.ToolChoice.Allowed = []string{"w"}
		}, wire.Target{}, `{"model":"up","max_tokens":4096,` + hi + `,"tools":[{"name":"w","description":"d","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}}`},
		"tool named": {func(r *infer.Request) {
			r.Tools, r.ToolChoice = []infer.Tool{weather}, infer.ToolChoice{Mode: "function", Name: "w"}
		}, wire.Target{}, `{"model":"up","max_tokens":4096,` + hi + `,"tools":[{"name":"w","description":"d","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"w"}}`},
		"tool none": {func(r *infer.Request) {
			r.Tools, r.ToolChoice.Mode, r.ParallelToolCalls = []infer.Tool{weather}, "none", false
		}, wire.Target{}, `{"model":"up","max_tokens":4096,` + hi + `,"tools":[{"name":"w","description":"d","input_schema":{"type":"object"}}],"tool_choice":{"type":"none"}}`},
		"parts": {func(r *infer.Request) {
			r.Messages[0].Content = []infer.Part{
				{Type: "image", URL: "https://x/y.png"}, {Type: "file", MIME: "application/pdf", Data: []byte("%PDF"), Name: "a.pdf", Cache: "5m"},
				{Type: "file", MIME: "text/plain", Data: []byte("abc")}, {Type: "audio", Data: []byte("x")}, {Type: "text", Text: "Hi"},
			}
		}, wire.Target{}, `{"model":"up","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/y.png"}},
			{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERg=="},"title":"a.pdf","cache_control":{"type":"ephemeral"}},
			{"type":"document","source":{"type":"text","media_type":"text/plain","data":"abc"}},{"type":"text","text":"Hi"}]}]}`},
		"effort":       {func(r *infer.Request) { r.Thinking.Effort = "minimal" }, wire.Target{}, `{"model":"up","max_tokens":4096,` + hi + `,"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}}`},
		"address":      {func(r *infer.Request) { r.Hints.User = "a@example.org" }, wire.Target{}, `{"model":"up","max_tokens":4096,` + hi + `,"metadata":{"user_id":"` + wire.Opaque("a@example.org", 0) + `"}}`},
		"no effort":    {func(r *infer.Request) { r.Thinking.Effort = "none" }, wire.Target{}, `{"model":"up","max_tokens":4096,` + hi + `,"thinking":{"type":"disabled"}}`},
		"summary":      {func(r *infer.Request) { r.Thinking.Effort, r.Thinking.Summary = "high", "auto" }, wire.Target{}, `{"model":"up","max_tokens":4096,` + hi + `,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"}}`},
		"budget":       {func(r *infer.Request) { r.Thinking.Budget = 9000 }, wire.Target{}, `{"model":"up","max_tokens":4096,` + hi + `,"thinking":{"type":"enabled","budget_tokens":4095}}`},
		"small budget": {func(r *infer.Request) { r.Thinking.Budget, r.Sampling.MaxTokens = 9000, 100 }, wire.Target{}, `{"model":"up","max_tokens":100,` + hi + `}`},
		"older model":  {func(r *infer.Request) { r.Thinking.Effort, r.Sampling.MaxTokens = "medium", 20000 }, wire.Target{Model: "claude-sonnet-4-5"}, `{"model":"claude-sonnet-4-5","max_tokens":20000,` + hi + `,"thinking":{"type":"enabled","budget_tokens":8192}}`},
		"switch":       {func(r *infer.Request) { r.Thinking.Switch = "off" }, wire.Target{}, `{"model":"up","max_tokens":4096,` + hi + `,"thinking":{"type":"disabled"}}`},
		"schema": {func(r *infer.Request) {
			r.Format = infer.Format{Kind: infer.FormatJSONSchema, Schema: []byte(`{"type":"object"}`)}
		}, wire.Target{}, `{"model":"up","max_tokens":4096,` + hi + `,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}`},
		"json object": {func(r *infer.Request) { r.Format.Kind = infer.FormatJSONObject }, wire.Target{}, `{"model":"up","max_tokens":4096,"system":[{"type":"text","text":"` + jsonWords + `"}],` + hi + `}`},
		"foreign thoughts": {func(r *infer.Request) {
			r.Messages = append(r.Messages, infer.Message{Role: infer.RoleAssistant, Content: text("a"), Reasoning: "hm", Thoughts: []infer.Thought{{Text: "hm", Signature: "s"}}}, infer.Message{Role: infer.RoleUser, Content: text("b")})
		}, wire.Target{}, `{"model":"up","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]},{"role":"assistant","content":[{"type":"text","text":"a"}]},{"role":"user","content":[{"type":"text","text":"b"}]}]}`},
		"own thoughts": {func(r *infer.Request) {
			r.Wire = nil
			r.Messages = append(r.Messages, infer.Message{Role: infer.RoleAssistant, Content: text("a"), Thoughts: []infer.Thought{{Text: "hm", Signature: "s"}, {Redacted: "d"}, {Text: "unsigned"}}}, infer.Message{Role: infer.RoleUser, Content: text("b")})
		}, wire.Target{}, `{"model":"up","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"a"}]},{"role":"user","content":[{"type":"text","text":"b"}]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.t.Model == "" {
				c.t.Model = "up"
			}
			o, err := Client{}.EncodeRequest(chat(c.f), c.t)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "body", o.Body, c.want)
			if o.Path != "/v1/messages" || o.Native || o.Header.Get("Anthropic-Version") != version {
				t.Errorf("got %q native %v header %v", o.Path, o.Native, o.Header)
			}
		})
	}
	for name, f := range map[string]func(r *infer.Request){
		"temperature": func(r *infer.Request) { r.Sampling.Temperature = 1.5 },
		"completion":  func(r *infer.Request) { r.Kind = infer.Completion },
		"empty":       func(r *infer.Request) { r.Messages = nil },
		"file type":   func(r *infer.Request) { r.Messages[0].Content[0] = infer.Part{Type: "file", MIME: "application/zip"} },
	} {
		if _, err := (Client{}).EncodeRequest(chat(f), wire.Target{Model: "up"}); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// TestEncodeNative sends a body of the same dialect as it came.
// TestBudgetLosses holds that no budget is changed or left out without a word.
func TestBudgetLosses(t *testing.T) {
	for _, c := range []struct {
		budget, limit int
		effort, model string
		sent          string // "": none
		want          infer.Class
	}{
		{2000, 9000, "", "up", `"budget_tokens":2000`, ""}, {500, 9000, "", "up", `"budget_tokens":1024`, infer.Emulated},
		{9000, 2000, "", "up", `"budget_tokens":1999`, infer.Emulated}, {9000, 0, "", "up", `"budget_tokens":4095`, infer.Emulated},
		{2000, 1024, "", "up", ``, infer.Dropped}, {0, 1024, "low", "claude-sonnet-4-5", ``, infer.Dropped},
		{0, 2000, "low", "claude-sonnet-4-5", `"budget_tokens":1999`, ""}, {0, 1024, "low", "up", ``, ""},
	} {
		r := infer.NewRequest()
		r.Messages = []infer.Message{{Role: infer.RoleUser, Content: text("Hi")}}
		r.Thinking, r.Sampling.MaxTokens = infer.Thinking{Budget: c.budget, Effort: c.effort}, c.limit
		if r.Uses = []infer.Use{{Feature: infer.FeatureReasoningBudget, Path: "b"}}; c.effort != "" {
			r.Uses[0].Feature = infer.FeatureReasoningEffort
		}
		o, err := Client{}.EncodeRequest(r, wire.Target{Model: c.model})
		if err != nil || !strings.Contains(string(o.Body), c.sent) || c.sent == "" && strings.Contains(string(o.Body), "budget_tokens") {
			t.Errorf("%+v: sent %s, %v", c, o.Body, err)
		}
		var got infer.Class
		if l := (Client{}).ValueLosses(r, wire.Target{Model: c.model}); len(l) == 1 && l[0].Path == "b" {
			got = l[0].Class
		}
		if got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

func TestEncodeNative(t *testing.T) {
	body := "{ \"max_tokens\" : 5,\n \"model\":\"m\", \"messages\":[{\"role\":\"user\",\"content\":\"\\u0048i\"}], \"x_new\":{\"a\":1e400} ,\"stream\":true}"
	r, o := decodeOK(t, body)
	if !o.Stream || !r.Stream {
		t.Error("not streamed")
	}
	r.Wire.Header = map[string][]string{"Anthropic-Version": {"2026-10-21"}, "Anthropic-Beta": {"a", "b"}}
	r.Wire.Set = map[string]json.RawMessage{"max_tokens": []byte("3"), "metadata": []byte(`{"user_id":"k"}`)}
	out, err := Client{}.EncodeRequest(r, wire.Target{Model: "up"})
	if err != nil {
		t.Fatal(err)
	}
	want := "{ \"max_tokens\" : 3,\n \"model\":\"up\", \"messages\":[{\"role\":\"user\",\"content\":\"\\u0048i\"}], \"x_new\":{\"a\":1e400} ,\"stream\":true,\"metadata\":{\"user_id\":\"k\"}}"
	if string(out.Body) != want {
		t.Errorf("got  %s\nwant %s", out.Body, want)
	}
	if !out.Native || !out.Stream || out.Header.Get("Anthropic-Version") != "2026-10-21" || !reflect.DeepEqual(out.Header["Anthropic-Beta"], []string{"a", "b"}) {
		t.Errorf("got %+v", out)
	}
	n, err := Client{}.EncodeCount(r, wire.Target{Model: "up"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "count", n.Body, `{"model":"up","messages":[{"role":"user","content":"Hi"}]}`)
	if got, err := (Client{}).DecodeCount([]byte(`{"input_tokens": 12}`)); got != 12 || err != nil {
		t.Error(got, err)
	}
	for _, bad := range []string{``, `{}`, `{"input_tokens":-1}`, `{"input_tokens":1`, `[]`} {
		if _, err := (Client{}).DecodeCount([]byte(bad)); err == nil {
			t.Errorf("%s: got no error", bad)
		}
	}
}

// frames plays a stream of the API through the decoder.
func frames(t *testing.T, native bool, lines ...string) ([]infer.Event, error) {
	t.Helper()
	d := Client{}.NewDecoder(chat(nil), &wire.Outgoing{Stream: true, Native: native})
	var events []infer.Event
	for _, l := range lines {
		var o struct{ Type string }
		_ = json.Unmarshal([]byte(l), &o)
		var err error
		if events, err = d.Frame(events, o.Type, []byte(l)); err != nil {
			return events, err
		}
	}
	return d.End(events)
}

// wire stream pieces.
const (
	wStart = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"up","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":11,"output_tokens":1}}}`
	wText0 = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	wHello = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel\u006co"}}`
	wStop0 = `{"type":"content_block_stop","index":0}`
	wDelta = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}`
	wStop  = `{"type":"message_stop"}`
)

// brief writes events down for comparison.
func brief(events []infer.Event) string {
	var b strings.Builder
	for _, ev := range events {
		switch ev.Kind {
		case infer.EventStart:
			b.WriteString("start ")
		case infer.EventText:
			b.WriteString("text:" + ev.Text + " ")
		case infer.EventReasoning:
			b.WriteString("mind:" + ev.Text + "/" + ev.Signature + "/" + ev.Redacted + " ")
		case infer.EventTool:
			b.WriteString("tool" + string(rune('0'+ev.Tool.Index)) + ":" + ev.Tool.ID + "/" + ev.Tool.Name + "/" + ev.Tool.Arguments + " ")
		case infer.EventFinish:
			b.WriteString("finish:" + string(ev.Finish) + "/" + ev.Stop + " ")
		case infer.EventUsage:
			b.WriteString("usage ")
		case infer.EventFrame:
			b.WriteString("frame ")
		}
		if ev.Frame != nil {
			b.WriteString("(" + ev.Frame.Event + ") ")
		}
	}
	return strings.TrimSpace(b.String())
}

func TestDecodeStream(t *testing.T) {
	stop := func(reason, sequence string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":` + sequence + `},"usage":{"output_tokens":7}}`
	}
	for name, c := range map[string]struct {
		lines []string
		want  string
		usage infer.Usage
	}{
		"text":          {[]string{wStart, `{"type":"ping"}`, wText0, wHello, wStop0, wDelta, wStop, wStop}, "start text:Hello finish:stop/ usage", infer.Usage{PromptTokens: 11, CompletionTokens: 7}},
		"stop sequence": {[]string{wStart, stop("stop_sequence", `"END"`), wStop}, "start finish:stop/END usage", infer.Usage{PromptTokens: 11, CompletionTokens: 7}},
		"max_tokens":    {[]string{wStart, stop("max_tokens", "null"), wStop}, "start finish:length/ usage", infer.Usage{PromptTokens: 11, CompletionTokens: 7}},
		"refusal":       {[]string{wStart, stop("refusal", "null"), wStop}, "start finish:refusal/ usage", infer.Usage{PromptTokens: 11, CompletionTokens: 7}},
		"pause":         {[]string{wStart, stop("pause_turn", "null"), wStop}, "start finish:pause/ usage", infer.Usage{PromptTokens: 11, CompletionTokens: 7}},
		"context":       {[]string{wStart, stop("model_context_window_exceeded", "null"), wStop}, "start finish:context/ usage", infer.Usage{PromptTokens: 11, CompletionTokens: 7}},
		"thinking": {[]string{wStart,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"Eq/w=="}}`, wStop0,
			`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"Emw="}}`, `{"type":"content_block_stop","index":1}`, wDelta, wStop},
			"start mind:Let me// mind:/Eq/w==/ mind://Emw= finish:stop/ usage", infer.Usage{PromptTokens: 11, CompletionTokens: 7}},
		"tools": {[]string{wStart,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"w","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":":1}"}}`, wStop0,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t2","name":"n","input":{ }}}`, `{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t3","name":"n","input":{"b":2}}}`, `{"type":"content_block_stop","index":2}`,
			stop("tool_use", "null"), wStop},
			`start tool0:t1/w/ tool0://{"a" tool0://:1} tool1:t2/n/ tool1://{} tool2:t3/n/ tool2://{"b":2} finish:tool_calls/ usage`, infer.Usage{PromptTokens: 11, CompletionTokens: 7}},
		"hosted": {[]string{wStart,
			`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}`, wStop0,
			`{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"s","content":[]}}`, `{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"So"}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"type":"x","text":"y"}}}`, wDelta, wStop},
			"start text:So finish:stop/ usage", infer.Usage{PromptTokens: 11, CompletionTokens: 7}},
		"late totals": {[]string{
			`{"type":"message_start","message":{"usage":{"input_tokens":0,"output_tokens":0}}}`, wText0,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`,
			`{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":9,"input_tokens":24,"cache_read_input_tokens":96,"cache_creation_input_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":6},"output_tokens_details":{"thinking_tokens":2}}}`, wStop},
			"start finish:stop/ usage", infer.Usage{PromptTokens: 130, CachedTokens: 96, CacheWriteTokens: 10, CacheWriteHourTokens: 6, CompletionTokens: 9, ReasoningTokens: 2}},
		"no usage": {[]string{`{"type":"message_start","message":{}}`, wText0, wHello, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, wStop},
			"start text:Hello finish:stop/ usage", infer.Usage{PromptTokens: 5, CompletionTokens: 2, Estimated: true}},
	} {
		t.Run(name, func(t *testing.T) {
			events, err := frames(t, false, c.lines...)
			if err != nil {
				t.Fatal(err)
			}
			if got := brief(events); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if u := events[len(events)-1].Usage; *u != c.usage {
				t.Errorf("usage: got %+v, want %+v", *u, c.usage)
			}
		})
	}
}

// TestDecodeNoStop tells nobody of a stop before the end mark has come.
func TestDecodeNoStop(t *testing.T) {
	for _, native := range []bool{false, true} {
		events, err := frames(t, native, wStart, wText0, wHello, wStop0, wDelta, `{"type":"ping"}`)
		if classOf(err) != infer.FailLost || strings.Contains(brief(events), "finish") || strings.Contains(brief(events), "message_delta") {
			t.Errorf("native %v: got %s, %v", native, brief(events), err)
		}
	}
	for n, want := range map[int]infer.FailureClass{maxHeld - 2: "", maxHeld + 1: infer.FailMalformed} {
		lines := append(append([]string{wStart}, repeat(wDelta, n)...), wStop)
		if _, err := frames(t, true, lines...); classOf(err) != want {
			t.Errorf("%d frames held: got %v, want %q", n, err, want)
		}
	}
}

// TestDecodeNative keeps every frame, in order and unchanged.
func TestDecodeNative(t *testing.T) {
	lines := []string{wStart, `{"type":"ping"}`, wText0, wHello, `{"type":"new_event","x":1}`, wStop0, wDelta, wStop}
	events, err := frames(t, true, lines...)
	if err != nil {
		t.Fatal(err)
	}
	want := "start (message_start) frame (ping) frame (content_block_start) text:Hello (content_block_delta) frame (new_event) frame (content_block_stop) finish:stop/ (message_delta) usage (message_stop)"
	if got := brief(events); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !events[0].Model.Native {
		t.Error("not native")
	}
	s := newStream(chat(nil), wire.Options{Stream: true})
	var out []byte
	for _, ev := range events {
		if out, err = s.Event(out, ev); err != nil {
			t.Fatal(err)
		}
	}
	out = s.End(out)
	var all strings.Builder
	for _, l := range lines {
		var o struct{ Type string }
		_ = json.Unmarshal([]byte(l), &o)
		all.WriteString("event: " + o.Type + "\ndata: " + l + "\n\n")
	}
	if string(out) != all.String() {
		t.Errorf("got  %s\nwant %s", out, all.String())
	}
}

func repeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

func classOf(err error) infer.FailureClass {
	var e *infer.Error
	if errors.As(err, &e) && e.Upstream != nil {
		return e.Upstream.Class
	}
	return ""
}

func TestDecodeBroken(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  infer.FailureClass
	}{
		"nothing":        {nil, infer.FailLost},
		"no stop":        {[]string{wStart, wText0, wHello, wStop0, wDelta}, infer.FailLost},
		"midway":         {[]string{wStart, wText0, wHello}, infer.FailLost},
		"no reason":      {[]string{wStart, wStop}, infer.FailMalformed},
		"not json":       {[]string{wStart, `{"type":`}, infer.FailMalformed},
		"not an object":  {[]string{wStart, `"x"`}, infer.FailMalformed},
		"overloaded":     {[]string{wStart, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`}, infer.FailOverload},
		"rate limit":     {[]string{`{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`}, infer.FailRateLimit},
		"other":          {[]string{wStart, `{"type":"error","error":{"type":"api_error","message":"x"}}`}, infer.FailServer},
		"call, no name":  {[]string{wStart, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a"}}`}, infer.FailMalformed},
		"html, in a way": {[]string{`<html>`}, infer.FailMalformed},
	} {
		_, err := frames(t, false, c.lines...)
		if got := classOf(err); got != c.want {
			t.Errorf("%s: got %q (%v), want %q", name, got, err, c.want)
		}
		var e *infer.Error
		if errors.As(err, &e) && e.Upstream.Unsent {
			t.Errorf("%s: claimed to be unsent", name)
		}
	}
}

func TestDecodeAnswer(t *testing.T) {
	body := `{"id":"msg_1","type":"message","role":"assistant","model":"up","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"Hi","citations":null},{"type":"tool_use","id":"t","name":"w","input":{"a":1}},{"type":"tool_use","id":"t2","name":"w","input":{}},{"type":"server_tool_use","id":"x","name":"y","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":11,"output_tokens":7},"x_vendor":1}`
	want := `start mind:hm/s/ mind://d text:Hi tool0:t/w/ tool0://{"a":1} tool1:t2/w/ tool1://{} finish:tool_calls/ usage`
	events, err := Client{}.DecodeAnswer(chat(nil), &wire.Outgoing{}, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if got := brief(events); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	events, err = Client{}.DecodeAnswer(chat(nil), &wire.Outgoing{Native: true}, []byte(body))
	if err != nil || string(events[len(events)-1].Frame.Data) != body {
		t.Errorf("native: got %v %v", brief(events), err)
	}
	for in, class := range map[string]infer.FailureClass{
		``: infer.FailMalformed, `<html>`: infer.FailMalformed, `[]`: infer.FailMalformed, `{"type":"message"}`: infer.FailMalformed,
		`{"type":"message","content":[],"stop_reason":null}`:                          infer.FailMalformed,
		`{"type":"message","content":{},"stop_reason":"end_turn"}`:                    infer.FailMalformed,
		`{"type":"message","content":[1],"stop_reason":"end_turn"}`:                   infer.FailMalformed,
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`: infer.FailOverload,
		`{"error":{"message":"Engine is down.","type":"server_error"}}`:               infer.FailServer,
	} {
		_, err := Client{}.DecodeAnswer(chat(nil), &wire.Outgoing{}, []byte(in))
		if got := classOf(err); got != class {
			t.Errorf("%s: got %q, want %q", in, got, class)
		}
	}
}

func TestDecodeError(t *testing.T) {
	env := func(kind, msg string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + msg + `"},"request_id":"req_up7"}`
	}
	for _, c := range []struct {
		status  int
		body    string
		code    infer.Code
		class   infer.FailureClass
		message string
	}{
		{400, env("invalid_request_error", "max_tokens: must be less"), infer.CodeInvalid, infer.FailRequest, "max_tokens: must be less"},
		{400, env("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), infer.CodeContextLength, infer.FailRequest, "200000"},
		{400, env("invalid_request_error", "Your credit balance is too low to access"), infer.CodeQuota, infer.FailQuota, "used up"},
		{401, env("authentication_error", "invalid x-api-key upkey-1"), infer.CodeUpstream, infer.FailAuth, "credential"},
		{402, env("billing_error", "x"), infer.CodeQuota, infer.FailQuota, "used up"},
		{403, env("permission_error", "x"), infer.CodeUpstream, infer.FailAuth, "credential"},
		{404, env("not_found_error", "model: up-x"), infer.CodeUpstream, infer.FailRequest, "does not know"},
		{413, env("request_too_large", "The request is too large."), infer.CodeTooLarge, infer.FailRequest, "too large"},
		{429, env("rate_limit_error", "x"), infer.CodeRateLimited, infer.FailRateLimit, "rate"},
		{500, env("overloaded_error", "Overloaded"), infer.CodeOverloaded, infer.FailOverload, "overloaded"},
		{500, env("api_error", "File /srv/model/worker_17.py"), infer.CodeUpstream, infer.FailServer, "failed"},
		{502, `<html>`, infer.CodeUpstream, infer.FailServer, "failed"},
		{504, env("timeout_error", "x"), infer.CodeTimeout, infer.FailTimeout, "in time"},
		{529, env("overloaded_error", "Overloaded."), infer.CodeOverloaded, infer.FailOverload, "overloaded"},
	} {
		e := Client{}.DecodeError(c.status, http.Header{"Retry-After": {"2"}}, []byte(c.body))
		if e.Code != c.code || e.Upstream == nil || e.Upstream.Class != c.class || !strings.Contains(e.Message, c.message) {
			t.Errorf("%d %s: got %+v %+v", c.status, c.body, e, e.Upstream)
		}
		if strings.Contains(e.Message, "upkey") || strings.Contains(e.Message, "/srv") {
			t.Errorf("%d: leaks %q", c.status, e.Message)
		}
		if c.status != 502 && e.Upstream.RequestID != "req_up7" {
			t.Errorf("%d: got request id %q", c.status, e.Upstream.RequestID)
		}
	}
}

// TestClasses holds the table complete.
func TestClasses(t *testing.T) {
	for _, f := range infer.Features {
		if classes[f] == "" {
			t.Errorf("no class for %s", f)
		}
	}
	if len(classes) != len(infer.Features) {
		t.Errorf("got %d classes for %d features", len(classes), len(infer.Features))
	}
	if (Client{}).Class(infer.FeatureUnknown) != infer.Dropped {
		t.Error("unknown fields are not dropped")
	}
}

// BenchmarkDecodeStream is the cost of an answer of 64 pieces.
func BenchmarkDecodeStream(b *testing.B) {
	for name, native := range map[string]bool{"typed": false, "native": true} {
		b.Run(name, func(b *testing.B) {
			r := chat(nil)
			hello := []byte(wHello)
			b.ReportAllocs()
			var events []infer.Event
			var out []byte
			for b.Loop() {
				d := Client{}.NewDecoder(r, &wire.Outgoing{Stream: true, Native: native})
				s := newStream(r, wire.Options{})
				feed := func(name string, data []byte) {
					events, _ = d.Frame(events[:0], name, data)
					for _, ev := range events {
						out, _ = s.Event(out[:0], ev)
					}
				}
				feed("message_start", []byte(wStart))
				feed("content_block_start", []byte(wText0))
				for range 64 {
					feed("content_block_delta", hello)
				}
				feed("content_block_stop", []byte(wStop0))
				feed("message_delta", []byte(wDelta))
				feed("message_stop", []byte(wStop))
			}
		})
	}
}

// FuzzDecodeStream feeds whatever a provider may send: no panic, no event after
// the usage, and no usage without an end.
func FuzzDecodeStream(f *testing.F) {
	f.Add(strings.Join([]string{wStart, wText0, wHello, wStop0, wDelta, wStop}, "\n"), false)
	f.Add(wStart+"\n"+`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"w","input":{"a":[1]}}}`+"\n"+wStop0+"\n"+wDelta+"\n"+wStop, true)
	f.Fuzz(func(t *testing.T, in string, native bool) {
		d := Client{}.NewDecoder(chat(nil), &wire.Outgoing{Stream: true, Native: native})
		s := newStream(chat(nil), wire.Options{})
		ended := false
		for _, line := range strings.Split(in, "\n") {
			events, err := d.Frame(nil, "", []byte(line))
			if err != nil {
				return
			}
			for _, ev := range events {
				if ended {
					t.Fatalf("event %d after the usage", ev.Kind)
				}
				ended = ev.Kind == infer.EventUsage
				if _, err := s.Event(nil, ev); err != nil && !native && strings.HasPrefix(err.Error(), "BUG") {
					t.Fatal(err)
				}
			}
		}
		if _, err := d.End(nil); (err == nil) != ended {
			t.Fatalf("the end is %v, the usage %v", err, ended)
		}
		_, _ = Client{}.DecodeAnswer(chat(nil), &wire.Outgoing{}, []byte(in))
		_ = Client{}.DecodeError(400, nil, []byte(in))
	})
}
