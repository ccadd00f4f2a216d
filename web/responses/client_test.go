package responses

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/sse"
	"hearth/web/wire"
)

// TestClasses holds the table against the features: what it names exists, and
// what is sealed or kept elsewhere is not claimed.
func TestClasses(t *testing.T) {
	known := map[infer.Feature]bool{}
	for _, f := range infer.Features {
		known[f] = true
	}
	for f := range classes {
		if !known[f] {
			t.Errorf("%s is no feature", f)
		}
	}
	if len(classes) < 30 {
		t.Errorf("the table has %d features", len(classes))
	}
	for _, f := range []infer.Feature{infer.FeatureUnknown, infer.FeatureStop, infer.FeatureSeed, infer.FeatureThought, infer.FeaturePrefill, infer.FeatureAudio} {
		if c := (Client{}).Class(f); c != infer.Dropped {
			t.Errorf("%s is %s", f, c)
		}
	}
}

// A request of the dialect goes out byte for byte but for what must change.
func TestEncodeNative(t *testing.T) {
	body := "{ \"model\":\"m\",\n\t\"input\":\"a\", \"new\":{\"x\":[1, 2]},\"max_output_tokens\":9 }"
	r, _ := decode(t, body)
	r.Wire.Set = map[string]json.RawMessage{"max_output_tokens": json.RawMessage("5")}
	o, err := Client{}.EncodeRequest(r, wire.Target{Model: "up"})
	want := "{ \"model\":\"up\",\n\t\"input\":\"a\", \"new\":{\"x\":[1, 2]},\"max_output_tokens\":5 }"
	if err != nil || string(o.Body) != want || !o.Native || o.Path != "/responses" {
		t.Errorf("got %s, %v", o.Body, err)
	}
	if r.Wire.Body[0] != '{' || string(r.Wire.Body) != body {
		t.Errorf("the caller's body was changed to %s", r.Wire.Body)
	}
}

func TestEncodeTyped(t *testing.T) {
	r, _ := decode(t, codex)
	r.Wire = nil
	r.Messages[3].Thoughts = append(r.Messages[3].Thoughts, infer.Thought{Text: "Own.", Signature: sealProvider + "ENC"}, infer.Thought{Text: "Unsealed."})
	r.Messages = append(r.Messages, infer.Message{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: "See"}, {Type: "image", Data: []byte{1}, MIME: "image/png"},
		{Type: "file", Name: "a.pdf", URL: "https://example.org/a.pdf"}, {Type: "audio", Data: []byte{1}}}},
		infer.Message{Role: infer.RoleTool, ToolCallID: "c1", ToolError: true, Content: []infer.Part{{Type: "text", Text: "no"}}})
	r.Sampling.MaxTokens, r.Sampling.Temperature, r.Hints.User = 100, 0.5, "u"
	o, err := Client{}.EncodeRequest(r, wire.Target{Model: "up"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"up","instructions":"You are an agent.","input":[` +
		`{"type":"message","role":"developer","content":[{"type":"input_text","text":"Sandboxed."}]},` +
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix it."}]},` +
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"Own."}],"encrypted_content":"ENC"},` +
		`{"type":"message","role":"assistant","content":"Looking."},` +
		`{"type":"function_call","call_id":"c1","name":"shell","arguments":"{\"command\":[\"ls\"]}"},` +
		`{"type":"function_call","call_id":"c2","name":"mcp__files__read","arguments":"{}"},` +
		`{"type":"custom_tool_call","call_id":"c3","name":"apply_patch","input":"*** Begin"},` +
		`{"type":"function_call_output","call_id":"c1","output":"a.go"},` +
		`{"type":"function_call_output","call_id":"c2","output":"text"},` +
		`{"type":"custom_tool_call_output","call_id":"c3","output":"done"},` +
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"See"},{"type":"input_image","image_url":"data:image/png;base64,AQ==","detail":"auto"},` +
		`{"type":"input_file","filename":"a.pdf","file_url":"https://example.org/a.pdf"}]},` +
		`{"type":"function_call_output","call_id":"c1","output":"Error: no"}],` +
		`"tools":[{"type":"function","name":"shell","description":"Runs it.","parameters":{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}}}},"strict":false},` +
		`{"type":"custom","name":"apply_patch","description":"Edits.","format":{"type":"grammar","syntax":"lark","definition":"start: /.+/"}},` +
		`{"type":"function","name":"mcp__files__read","description":"Files.","parameters":{},"strict":false},` +
		`{"type":"function","name":"mcp__files__write","description":"Files.","parameters":{},"strict":false}],` +
		`"parallel_tool_calls":false,"text":{"verbosity":"low"},"reasoning":{"effort":"medium","summary":"auto"},` +
		`"max_output_tokens":100,"temperature":0.5,"include":["reasoning.encrypted_content"],"store":false,"stream":true,` +
		`"safety_identifier":"u","prompt_cache_key":"k"}`
	if string(o.Body) != want || o.Native {
		t.Errorf("got  %s\nwant %s", o.Body, want)
	}
}

func TestEncodeSmall(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(r *infer.Request)
		want string
	}{
		"plain": {func(*infer.Request) {}, `"store":false`},
		"bound": {func(r *infer.Request) { r.Sampling.MaxTokens = 77 }, `"max_output_tokens":77`},
		"schema": {func(r *infer.Request) {
			r.Format = infer.Format{Kind: infer.FormatJSONSchema, Schema: []byte(`{"a":1}`)}
		}, `"text":{"format":{"type":"json_schema","name":"answer","schema":{"a":1},"strict":false}}`},
		"object": {func(r *infer.Request) { r.Format.Kind = infer.FormatJSONObject }, `"text":{"format":{"type":"json_object"}}`},
		"budget": {func(r *infer.Request) { r.Thinking = infer.Thinking{Switch: "on", Budget: 4000} }, `"reasoning":{"effort":"medium","summary":"auto"}`},
		"off":    {func(r *infer.Request) { r.Thinking.Switch = "off" }, `"reasoning":{"effort":"none"}`},
		"max":    {func(r *infer.Request) { r.Thinking.Effort = "max" }, `"reasoning":{"effort":"xhigh"}`},
		"lps":    {func(r *infer.Request) { r.Sampling.Logprobs, r.Sampling.TopLogprobs = true, 2 }, `"top_logprobs":2,"include":["message.output_text.logprobs"]`},
		"named": {func(r *infer.Request) {
			r.Tools = []infer.Tool{{Name: "f"}}
			r.ToolChoice = infer.ToolChoice{Mode: "function", Name: "f"}
		}, `"tool_choice":{"type":"function","name":"f"}`},
		"allowed": {func(r *infer.Request) {
			r.Tools = []infer.Tool{{Name: "f"}}
			r.ToolChoice = infer.ToolChoice{Mode: "required", Allowed: []string{"f"}}
		}, `"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]}`},
	} {
		r := infer.NewRequest()
		r.Messages = []infer.Message{{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: "a"}}}}
		c.set(r)
		o, err := Client{}.EncodeRequest(r, wire.Target{Model: "m", MaxOutput: 78})
		if err != nil || !strings.Contains(string(o.Body), c.want) || !json.Valid(o.Body) || strings.Contains(string(o.Body), ":78") {
			t.Errorf("%s: got %s, %v", name, o.Body, err)
		}
	}
	r := infer.NewRequest()
	r.Kind = infer.Completion
	if _, err := (Client{}).EncodeRequest(r, wire.Target{}); infer.AsError(err).Code != infer.CodeUnsupported {
		t.Errorf("a plain prompt: %v", err)
	}
}

// script is a provider's stream; each line is the data of one event.
func script(lines ...string) []string { return lines }

const (
	created = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_68","model":"up-1","status":"in_progress","output":[]}}`
	addMsg  = `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}`
	hello   = `{"type":"response.output_text.delta","output_index":0,"content_index":0,"item_id":"msg_1","delta":"Hello"}`
	doneMsg = `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Hello"}]}}`
	last    = `{"type":"response.completed","response":{"id":"resp_68","model":"up-1","status":"completed","output":[],"usage":{"input_tokens":120,"input_tokens_details":{"cached_tokens":96,"cache_write_tokens":8},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":2}}}}`
)

// events reads a script as a stream.
func events(o *wire.Outgoing, lines []string) ([]infer.Event, error) {
	r := infer.NewRequest()
	r.Model, r.Sampling.Logprobs = "asked", true
	d := Client{}.NewDecoder(r, o)
	var evs []infer.Event
	var err error
	for _, l := range lines {
		if evs, err = d.Frame(evs, stringMember([]byte(l), "type"), []byte(l)); err != nil {
			return evs, err
		}
	}
	return d.End(evs)
}

// told is events in short.
func toldEvents(evs []infer.Event) string {
	var b strings.Builder
	for _, ev := range evs {
		switch ev.Kind {
		case infer.EventStart:
			fmt.Fprintf(&b, "start(%s) ", ev.Model.Name)
		case infer.EventText:
			fmt.Fprintf(&b, "text(%s%s%d) ", ev.Text, map[bool]string{true: " refusal ", false: " "}[ev.Refusal], len(ev.Logprobs))
		case infer.EventReasoning:
			fmt.Fprintf(&b, "think(%s|%s) ", ev.Text, ev.Signature)
		case infer.EventTool:
			fmt.Fprintf(&b, "tool(%d %s %s %s) ", ev.Tool.Index, ev.Tool.ID, ev.Tool.Name, ev.Tool.Arguments)
		case infer.EventFinish:
			fmt.Fprintf(&b, "%s ", ev.Finish)
		case infer.EventUsage:
			u := ev.Usage
			fmt.Fprintf(&b, "usage(%d %d %d %d %d %v)", u.PromptTokens, u.CachedTokens, u.CacheWriteTokens, u.CompletionTokens, u.ReasoningTokens, u.Estimated)
		case infer.EventFrame:
			b.WriteString("frame ")
		}
	}
	return b.String()
}

func TestDecodeStream(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"text": {script(created, addMsg, hello, `{"type":"response.weather.updated","weather":"fine"}`, doneMsg, last, "[DONE]"),
			"start(up-1) text(Hello 0) stop usage(120 96 8 7 2 false)"},
		"only whole items": {script(created, doneMsg, last), "start(up-1) text(Hello 0) stop usage(120 96 8 7 2 false)"},
		"logprobs": {script(created, addMsg, `{"type":"response.output_text.delta","output_index":0,"delta":"Hi","logprobs":[{"token":"Hi","bytes":[72,105],"logprob":-1,"top_logprobs":[]}]}`, last),
			"start(up-1) text(Hi 1) stop usage(120 96 8 7 2 false)"},
		"calls": {script(created,
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":""}}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"custom_tool_call","id":"fc_2","call_id":"c2","name":"p","input":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a\""}`,
			`{"type":"response.custom_tool_call_input.delta","output_index":1,"delta":"***"}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"delta":":1}"}`,
			`{"type":"response.function_call_arguments.done","output_index":0,"arguments":"{\"a\":1}"}`,
			`{"type":"response.custom_tool_call_input.done","output_index":1,"input":"***"}`, last),
			`start(up-1) tool(0 c1 f ) tool(1 c2 p ) tool(0   {"a") tool(0   :1}) tool(1   {"input":"***"}) tool_calls usage(120 96 8 7 2 false)`},
		"arguments at once": {script(created,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"}}`, last),
			`start(up-1) tool(0 c1 f ) tool(0   {}) tool_calls usage(120 96 8 7 2 false)`},
		"reasoning": {script(created,
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}`,
			`{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0}`,
			`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Hm."}`,
			`{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":1}`,
			`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"So."}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"ENC"}}`, last),
			"start(up-1) think(Hm.|) think(\n\n|) think(So.|) think(|responses.1.ENC) stop usage(120 96 8 7 2 false)"},
		"refusal": {script(created, addMsg, `{"type":"response.refusal.delta","output_index":0,"delta":"No."}`, last), "start(up-1) text(No. refusal 0) refusal usage(120 96 8 7 2 false)"},
		"cut": {script(created, addMsg, hello, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":1,"output_tokens":2}}}`),
			"start(up-1) text(Hello 0) length usage(1 0 0 2 0 false)"},
		"filtered": {script(created, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"usage":{"input_tokens":1,"output_tokens":0}}}`),
			"start(up-1) content_filter usage(1 0 0 0 0 false)"},
		"no count": {script(created, addMsg, hello, `{"type":"response.completed","response":{"status":"completed","usage":null}}`), "start(up-1) text(Hello 0) stop usage(1 0 0 2 0 true)"},
	} {
		evs, err := events(&wire.Outgoing{Stream: true}, c.lines)
		if got := toldEvents(evs); err != nil || got != c.want {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", name, got, err, c.want)
		}
	}
}

func TestDecodeStreamErrors(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		code  infer.Code
		class infer.FailureClass
	}{
		"error":     {script(created, `{"type":"error","code":"server_error","message":"boom /srv/x.py","param":null}`), infer.CodeUpstream, infer.FailServer},
		"failed":    {script(created, `{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}}`), infer.CodeRateLimited, infer.FailRateLimit},
		"overload":  {script(created, `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_is_overloaded","message":"slow"}}}`), infer.CodeOverloaded, infer.FailOverload},
		"too long":  {script(created, `{"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"Your input is too long"}}}`), infer.CodeContextLength, infer.FailRequest},
		"quota":     {script(`{"type":"error","code":"insufficient_quota","message":"x"}`), infer.CodeQuota, infer.FailQuota},
		"no end":    {script(created, addMsg, hello), infer.CodeUpstream, infer.FailLost},
		"nothing":   {nil, infer.CodeUpstream, infer.FailLost},
		"nameless":  {script(created, `{"error":{"message":"boom","type":"server_error"}}`), infer.CodeUpstream, infer.FailServer},
		"no JSON":   {script(created, `{"type":`), infer.CodeUpstream, infer.FailMalformed},
		"an array":  {script(`[1]`), infer.CodeUpstream, infer.FailMalformed},
		"no name":   {script(created, `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c"}}`), infer.CodeUpstream, infer.FailMalformed},
		"far index": {script(created, `{"type":"response.output_item.added","output_index":99999,"item":{"type":"message"}}`), infer.CodeUpstream, infer.FailMalformed},
	} {
		_, err := events(&wire.Outgoing{Stream: true}, c.lines)
		e := infer.AsError(err)
		if err == nil || e.Upstream == nil || e.Code != c.code || e.Upstream.Class != c.class || e.Upstream.Unsent {
			t.Errorf("%s: got %v %+v", name, err, e.Upstream)
		} else if strings.Contains(e.Message, "/srv") {
			t.Errorf("%s: the message leaks: %s", name, e.Message)
		}
	}
}

// In native mode every frame of the provider is on exactly one event, in order,
// and the end mark on the usage.
func TestDecodeNative(t *testing.T) {
	lines := script(created, addMsg, hello, `{"type":"response.web_search_call.searching","output_index":1}`, doneMsg, last)
	evs, err := events(&wire.Outgoing{Stream: true, Native: true}, lines)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, ev := range evs {
		if ev.Frame != nil {
			got = append(got, string(ev.Frame.Data))
			if ev.Frame.Event != stringMember(ev.Frame.Data, "type") {
				t.Errorf("a frame named %s: %s", ev.Frame.Event, ev.Frame.Data)
			}
		}
	}
	if strings.Join(got, "\n") != strings.Join(lines, "\n") {
		t.Errorf("got %q", got)
	}
	if end := evs[len(evs)-1]; end.Kind != infer.EventUsage || end.Frame == nil || !evs[0].Model.Native {
		t.Errorf("the end is %+v", end)
	}
}

// The encoder beside a native stream knows where it stands, and what it said.
func TestWatch(t *testing.T) {
	evs, err := events(&wire.Outgoing{Stream: true, Native: true}, script(created, `{"type":"response.in_progress","sequence_number": 41,"response":{}}`, addMsg, hello))
	if err == nil {
		t.Fatal("a cut stream without an error")
	}
	r, o := decode(t, plainBody)
	s := NewStream(r, o)
	for i := range evs {
		s.Watch(&evs[i])
	}
	out := s.Error(nil, infer.AsError(err))
	if !bytes.Contains(out, []byte(`event: response.failed`)) || !bytes.Contains(out, []byte(`"sequence_number":42,"response":{"id":"resp_68"`)) || bytes.Contains(out, []byte("response.created")) {
		t.Errorf("got %s", out)
	}
	evs, err = events(&wire.Outgoing{Stream: true, Native: true}, script(created, last))
	if err != nil {
		t.Fatal(err)
	}
	s = NewStream(r, o)
	saved := ""
	s.Save = func(body []byte) error { saved = s.ID() + string(body[:1]); return nil }
	for i := range evs {
		s.Watch(&evs[i])
	}
	if saved != "resp_68{" || s.Error(nil, infer.Errorf(infer.CodeInternal, "x")) != nil {
		t.Errorf("saved %q", saved)
	}
}

func TestDecodeAnswer(t *testing.T) {
	r := infer.NewRequest()
	body := `{"id":"resp_68","model":"up-1","status":"completed","output":[{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"A"},{"type":"summary_text","text":"B"}],"encrypted_content":"E"},
		{"type":"web_search_call","id":"ws"},{"type":"message","content":[{"type":"output_text","text":"Hi"},{"type":"refusal","refusal":"No"}]},
		{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],"usage":{"input_tokens":3,"output_tokens":4}}`
	evs, err := Client{}.DecodeAnswer(r, &wire.Outgoing{}, []byte(body))
	if got, want := toldEvents(evs), "start(up-1) think(A\n\nB|) think(|responses.1.E) text(Hi 0) text(No refusal 0) tool(0 c f ) tool(0   {}) tool_calls usage(3 0 0 4 0 false)"; err != nil || got != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	evs, err = Client{}.DecodeAnswer(r, &wire.Outgoing{Native: true}, []byte(body))
	if err != nil || string(evs[len(evs)-1].Frame.Data) != body || !evs[0].Model.Native {
		t.Errorf("native: %v", err)
	}
	for body, class := range map[string]infer.FailureClass{
		`{"status":"failed","error":{"code":"server_error","message":"x"}}`: infer.FailServer,
		`{"error":{"message":"boom at edge-17","type":"server_error"}}`:     infer.FailServer, `{"id":"x"}`: infer.FailMalformed,
		`{"status":"in_progress","output":[]}`: infer.FailMalformed, `{"status":`: infer.FailMalformed, `<html>`: infer.FailMalformed, ``: infer.FailMalformed,
	} {
		_, err := Client{}.DecodeAnswer(r, &wire.Outgoing{}, []byte(body))
		if e := infer.AsError(err); err == nil || e.Upstream == nil || e.Upstream.Class != class {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestDecodeError(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		code   infer.Code
		has    string
	}{
		{400, `{"error":{"message":"Unknown parameter: 'x'.","type":"invalid_request_error","param":"x","code":"unknown_parameter"}}`, infer.CodeInvalid, "Unknown parameter"},
		{400, `{"error":{"message":"too many","code":"context_length_exceeded"}}`, infer.CodeContextLength, ""},
		{401, `{"error":{"message":"Incorrect API key provided: sk-abc."}}`, infer.CodeUpstream, ""},
		{429, `{"error":{"code":"insufficient_quota","message":"pay"}}`, infer.CodeQuota, ""},
		{429, `{"error":{"code":"rate_limit_exceeded","message":"slow"}}`, infer.CodeRateLimited, ""},
		{502, `<html>bad</html>`, infer.CodeUpstream, ""},
	} {
		e := Client{}.DecodeError(c.status, http.Header{"Retry-After": {"2"}, "X-Request-Id": {"r1"}}, []byte(c.body))
		if e.Code != c.code || e.Upstream == nil || e.Upstream.RequestID != "r1" || !strings.Contains(e.Message, c.has) || strings.Contains(e.Message, "sk-") || strings.Contains(e.Message, "<") {
			t.Errorf("%d %s: got %v", c.status, c.body, e)
		}
	}
}

func TestCount(t *testing.T) {
	r, _ := decode(t, codex)
	o, err := Client{}.EncodeCount(r, wire.Target{Model: "up"})
	if err != nil || o.Path != "/responses/input_tokens" || strings.Contains(string(o.Body), `"store"`) || strings.Contains(string(o.Body), `"stream"`) || !json.Valid(o.Body) {
		t.Errorf("got %s, %v", o.Body, err)
	}
	if n, err := (Client{}).DecodeCount([]byte(`{"object":"response.input_tokens","input_tokens":42}`)); n != 42 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	for _, body := range []string{``, `{}`, `{"input_tokens":-1}`, `{"input_tokens":"x"}`} {
		if _, err := (Client{}).DecodeCount([]byte(body)); err == nil {
			t.Errorf("%s: no error", body)
		}
	}
}

// What our encoder writes, our decoder reads: the two sides agree.
func TestRoundTrip(t *testing.T) {
	body := `{"model":"m","input":"a","reasoning":{"summary":"auto"},"tools":[{"type":"function","name":"f"},{"type":"custom","name":"p"}]}`
	s, out := encode(t, body, nil, start(), think("Hm."), say("Hi "), say("there"), call(0, "c", "f", `{"a":`), call(0, "", "", `1}`), call(1, "d", "p", `{"input":"x"}`), finish(infer.FinishToolCalls), counted)
	r := infer.NewRequest()
	d := Client{}.NewDecoder(r, &wire.Outgoing{Stream: true})
	rd := sse.NewReader(bytes.NewReader(out), 0)
	var evs []infer.Event
	for {
		ev, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if evs, err = d.Frame(evs, ev.Name, ev.Data); err != nil {
			t.Fatal(err)
		}
	}
	evs, err := d.End(evs)
	want := `start(m1) think(Hm.|) text(Hi  0) text(there 0) tool(0 c f ) tool(0   {"a":) tool(0   1}) tool(1 d p ) tool(1   {"input":"x"}) tool_calls usage(120 96 4 7 2 false)`
	if got := toldEvents(evs); err != nil || got != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	whole, err := Client{}.DecodeAnswer(r, &wire.Outgoing{}, s.Body())
	if got := toldEvents(whole); err != nil || !strings.Contains(got, `text(Hi there 0)`) || !strings.Contains(got, `tool(1   {"input":"x"})`) {
		t.Errorf("whole: %s, %v", got, err)
	}
}

// FuzzDecodeStream holds that foreign bytes never panic and that whatever is
// read obeys the rules of infer.Event, so that it can be encoded.
func FuzzDecodeStream(f *testing.F) {
	f.Add(strings.Join([]string{created, addMsg, hello, doneMsg, last}, "\n"), false)
	f.Add(`{"type":"response.output_item.added","output_index":1,"item":{"type":"custom_tool_call","call_id":"c","name":"p"}}`+"\n"+last, true)
	f.Fuzz(func(t *testing.T, lines string, native bool) {
		r, o, err := Dialect{}.DecodeRequest(nil, []byte(plainBody))
		if err != nil {
			t.Fatal(err)
		}
		d := Client{}.NewDecoder(r, &wire.Outgoing{Stream: true, Native: native})
		s := NewStream(r, o)
		var out []byte
		for l := range strings.SplitSeq(lines, "\n") {
			evs, err := d.Frame(nil, "", []byte(l))
			for i := range evs {
				if native {
					s.Watch(&evs[i])
					continue
				}
				if out, err = s.Event(out, evs[i]); err != nil {
					t.Fatalf("%v after %s", err, lines)
				}
			}
			if err != nil {
				break
			}
		}
		_, _ = d.End(nil)
		for _, l := range bytes.Split(out, []byte("\n")) {
			if data, ok := bytes.CutPrefix(l, []byte("data: ")); ok && !json.Valid(data) {
				t.Fatalf("a frame that is no JSON: %s", data)
			}
		}
	})
}
