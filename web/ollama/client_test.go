package ollama

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/wire"
)

func text(s string) []infer.Part { return []infer.Part{{Type: "text", Text: s}} }

func request() *infer.Request {
	r := infer.NewRequest()
	r.ID, r.Model = "req_0123", "m"
	r.Messages = []infer.Message{{Role: infer.RoleUser, Content: text("a")}}
	return r
}

// TestEncodeTyped writes requests of other dialects.
func TestEncodeTyped(t *testing.T) {
	const user = `{"role":"user","content":"a"}`
	for _, k := range []struct {
		name string
		set  func(r *infer.Request)
		want string
	}{
		{"least", func(r *infer.Request) {}, `{"model":"up","messages":[` + user + `],"stream":false}`},
		{"turns", func(r *infer.Request) {
			r.Stream = true
			r.Messages = append(r.Messages,
				infer.Message{Role: infer.RoleDeveloper, Content: text("d")},
				infer.Message{Role: infer.RoleAssistant, Reasoning: "hm", ToolCalls: []infer.ToolCall{{ID: "c", Name: "f", Arguments: `{"x":1}`}}},
				infer.Message{Role: infer.RoleTool, ToolCallID: "c", ToolError: true, Content: []infer.Part{{Type: "text", Text: "b"}, {Type: "image", Data: []byte("x")}}})
		}, `{"model":"up","messages":[` + user + `,{"role":"system","content":"d"},{"role":"assistant","content":"","thinking":"hm","tool_calls":[{"id":"c","function":{"index":0,"name":"f","arguments":{"x":1}}}]},` +
			`{"role":"tool","content":"The tool failed: b","images":["eA=="],"tool_name":"f","tool_call_id":"c"}],"stream":true}`},
		{"tools", func(r *infer.Request) {
			r.Tools = []infer.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "g"}}
			r.ToolChoice.Allowed = []string{"f"}
		}, `{"model":"up","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}],"stream":false}`},
		{"no tools", func(r *infer.Request) { r.Tools, r.ToolChoice.Mode = []infer.Tool{{Name: "f"}}, "none" }, `{"model":"up","messages":[` + user + `],"stream":false}`},
		{"options", func(r *infer.Request) {
			seed := int64(7)
			r.Sampling = infer.Sampling{N: 1, Temperature: 0, TopP: 0.5, TopK: 4, MinP: 0.1, RepetitionPenalty: 1.1, PresencePenalty: 1, FrequencyPenalty: -1, Seed: &seed, MaxTokens: 5, Stop: []string{"x", "y"}, Logprobs: true, TopLogprobs: 2}
			r.Format = infer.Format{Kind: infer.FormatJSONSchema, Schema: json.RawMessage(`{"type":"object"}`)}
			r.Thinking.Effort = "minimal"
			r.Hints.KeepAlive = "5m"
		}, `{"model":"up","messages":[` + user + `],"stream":false,"format":{"type":"object"},"think":"low","keep_alive":"5m","logprobs":true,"top_logprobs":2,` +
			`"options":{"temperature":0,"top_p":0.5,"top_k":4,"min_p":0.1,"repeat_penalty":1.1,"presence_penalty":1,"frequency_penalty":-1,"seed":7,"num_predict":5,"stop":["x","y"]}}`},
		{"no thinking", func(r *infer.Request) { r.Thinking.Switch, r.Hints.KeepAlive = "off", "0" }, `{"model":"up","messages":[` + user + `],"stream":false,"think":false,"keep_alive":0}`},
	} {
		r := request()
		k.set(r)
		o, err := ChatClient{}.EncodeRequest(r, wire.Target{Model: "up"})
		if err != nil || string(o.Body) != k.want || o.Path != "/api/chat" || o.Native {
			t.Errorf("%s: %v\ngot  %s\nwant %s", k.name, err, o.Body, k.want)
		}
		if _, _, err := (Chat{}).DecodeRequest(nil, o.Body); err != nil {
			t.Errorf("%s: our own decoder refuses it: %v", k.name, err)
		}
	}
	r := infer.NewRequest()
	r.Kind, r.Prompts = infer.Completion, []infer.Prompt{{Text: "a"}}
	o, err := GenerateClient{}.EncodeRequest(r, wire.Target{Model: "up", MaxOutput: 9})
	if want := `{"model":"up","prompt":"a","raw":true,"stream":false}`; err != nil || string(o.Body) != want || o.Path != "/api/generate" {
		t.Errorf("a plain prompt: %s, %v", o.Body, err)
	}
	r.Sampling.MaxTokens = 9
	o, _ = GenerateClient{}.EncodeRequest(r, wire.Target{Model: "up"})
	if want := `{"model":"up","prompt":"a","raw":true,"stream":false,"options":{"num_predict":9}}`; string(o.Body) != want {
		t.Errorf("a plain prompt with a bound: %s", o.Body)
	}
	r.Suffix, r.Sampling.MaxTokens = "b", 0
	o, _ = GenerateClient{}.EncodeRequest(r, wire.Target{Model: "up"})
	if want := `{"model":"up","prompt":"a","suffix":"b","stream":false}`; string(o.Body) != want {
		t.Errorf("a prompt with a suffix: %s", o.Body)
	}
	if _, err := (ChatClient{}).EncodeRequest(r, wire.Target{Model: "up"}); err == nil {
		t.Error("a plain prompt is taken for a chat")
	}
}

func TestEncodeNative(t *testing.T) {
	r := request()
	r.Wire = &infer.Wire{Dialect: NameChat, Body: []byte(`{ "messages":[] , "model":"m", "later": 1.50}`)}
	o, err := ChatClient{}.EncodeRequest(r, wire.Target{Model: "up"})
	if want := `{ "messages":[] , "model":"up", "later": 1.50}`; err != nil || string(o.Body) != want || !o.Native {
		t.Errorf("native chat: %s, %v", o.Body, err)
	}
	r.Wire = &infer.Wire{Dialect: NameGenerate, Body: []byte(`{"model":"m","prompt":"a"}`)}
	o, err = GenerateClient{}.EncodeRequest(r, wire.Target{Model: "up"})
	if want := `{"model":"up","prompt":"a"}`; err != nil || string(o.Body) != want || !o.Native || o.Path != "/api/generate" {
		t.Errorf("native generate: %s, %v", o.Body, err)
	}
}

func show(evs []infer.Event) string {
	var b strings.Builder
	for _, ev := range evs {
		switch ev.Kind {
		case infer.EventStart:
			fmt.Fprintf(&b, "start %s", ev.Model.Name)
		case infer.EventText:
			fmt.Fprintf(&b, "text %q", ev.Text)
		case infer.EventReasoning:
			fmt.Fprintf(&b, "think %q", ev.Text)
		case infer.EventTool:
			fmt.Fprintf(&b, "tool %d %s %s %s", ev.Tool.Index, ev.Tool.ID, ev.Tool.Name, ev.Tool.Arguments)
		case infer.EventFinish:
			fmt.Fprintf(&b, "finish %s", ev.Finish)
		case infer.EventUsage:
			fmt.Fprintf(&b, "usage %d/%d %v", ev.Usage.PromptTokens, ev.Usage.CompletionTokens, ev.Usage.Estimated)
		case infer.EventFrame:
			b.WriteString("frame")
		}
		if ev.Frame != nil {
			fmt.Fprintf(&b, " <%s>", ev.Frame.Data)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func play(o *wire.Outgoing, lines []string) (string, error) {
	d := ChatClient{}.NewDecoder(request(), o)
	var evs []infer.Event
	var err error
	for _, l := range lines {
		if evs, err = d.Frame(evs, "", []byte(l)); err != nil {
			return show(evs), err
		}
	}
	evs, err = d.End(evs)
	return show(evs), err
}

func TestDecodeStream(t *testing.T) {
	msg := func(m string) string { return `{"model":"q","message":{"role":"assistant",` + m + `},"done":false}` }
	const end = `{"model":"q","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":4}`
	for _, k := range []struct {
		name  string
		lines []string
		want  string
		fails bool
	}{
		{"text", []string{msg(`"content":"Hel"`), msg(`"content":"lo"`), end}, "start q\ntext \"Hel\"\ntext \"lo\"\nfinish stop\nusage 9/4 false\n", false},
		{"thinking and calls", []string{
			msg(`"content":"","thinking":"hm"`),
			msg(`"content":"","tool_calls":[{"function":{"index":0,"name":"f","arguments":{"x":1}}},{"id":"i","function":{"index":0,"name":"g"}},{"id":"i","function":{"name":"g","arguments":{}}}]`),
			end,
		}, "start q\nthink \"hm\"\ntool 0 call_0123_1 f {\"x\":1}\ntool 1 i g {}\ntool 2 call_0123_3 g {}\nfinish tool_calls\nusage 9/4 false\n", false},
		{"no counts", []string{msg(`"content":"abcde"`), `{"done":true,"done_reason":"length"}`}, "start q\ntext \"abcde\"\nfinish length\nusage 5/2 true\n", false},
		{"counts of nothing", []string{`{"response":"a","done":true,"prompt_eval_count":0,"eval_count":0}`}, "start m\ntext \"a\"\nfinish stop\nusage 0/0 false\n", false},
		{"cut", []string{msg(`"content":"a"`)}, "start q\ntext \"a\"\n", true},
		{"nothing", nil, "", true},
		{"an error", []string{msg(`"content":"a"`), `{"error":"llama runner process has terminated"}`}, "start q\ntext \"a\"\n", true},
		{"broken", []string{`{"message":`}, "", true},
		{"no object", []string{`[]`}, "", true},
		{"a call without a name", []string{msg(`"tool_calls":[{}]`)}, "", true},
	} {
		got, err := play(&wire.Outgoing{Stream: true}, k.lines)
		if got != k.want {
			t.Errorf("%s:\ngot  %s\nwant %s", k.name, got, k.want)
		}
		var e *infer.Error
		if (err != nil) != k.fails || err != nil && (!errors.As(err, &e) || e.Upstream == nil) {
			t.Errorf("%s: error %v", k.name, err)
		}
	}
	a := msg(`"content":"a"`)
	got, err := play(&wire.Outgoing{Stream: true, Native: true}, []string{a, msg(`"content":""`), end})
	if want := "start q <" + a + ">\ntext \"a\"\nframe <" + msg(`"content":""`) + ">\nfinish stop\nusage 9/4 false <" + end + ">\n"; got != want || err != nil {
		t.Errorf("native: got %s%v, want %s", got, err, want)
	}
	evs, err := ChatClient{}.DecodeAnswer(request(), &wire.Outgoing{Native: true}, []byte(end))
	if err != nil || !strings.HasSuffix(show(evs), "<"+end+">\n") {
		t.Errorf("whole: %s%v", show(evs), err)
	}
	if _, err := (ChatClient{}).DecodeAnswer(request(), &wire.Outgoing{}, []byte(a)); err == nil {
		t.Error("an answer that is not done is taken")
	}
}

func TestDecodeError(t *testing.T) {
	for _, k := range []struct {
		status int
		body   string
		code   infer.Code
		class  infer.FailureClass
	}{
		{404, `{"error":"model 'x' not found"}`, infer.CodeUpstream, infer.FailRequest},
		{400, `{"error":"\"m\" does not support thinking"}`, infer.CodeInvalid, infer.FailRequest},
		{400, `{"error":"the input length exceeds the context length"}`, infer.CodeContextLength, infer.FailRequest},
		{500, `{"error":"the input length exceeds the context length"}`, infer.CodeContextLength, infer.FailRequest},
		{503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, infer.CodeOverloaded, infer.FailOverload},
		{500, `<html>`, infer.CodeUpstream, infer.FailServer},
		{401, `{"error":{"message":"unauthorized"}}`, infer.CodeUpstream, infer.FailAuth},
	} {
		e := ChatClient{}.DecodeError(k.status, http.Header{}, []byte(k.body))
		if e.Code != k.code || e.Upstream == nil || e.Upstream.Class != k.class || e.Upstream.Status != k.status {
			t.Errorf("%d %s: %+v %+v", k.status, k.body, e, e.Upstream)
		}
	}
}

func TestEmbed(t *testing.T) {
	r := &infer.EmbedRequest{Model: "m", Inputs: []infer.Prompt{{Text: "a"}}, Dimensions: 2}
	o, err := ChatClient{}.EncodeEmbed(r, wire.Target{Model: "up"})
	if want := `{"model":"up","input":["a"],"truncate":false,"dimensions":2}`; err != nil || string(o.Body) != want || o.Path != "/api/embed" {
		t.Errorf("body %s, %v", o.Body, err)
	}
	res, err := ChatClient{}.DecodeEmbed(r, o, []byte(`{"embeddings":[[3,4]],"prompt_eval_count":1}`))
	if err != nil || res.Vectors[0][0] != 0.6 || res.Usage.PromptTokens != 1 || res.Usage.Estimated {
		t.Errorf("vectors %+v, %v", res, err)
	}
	for _, bad := range []string{`{}`, `{"embeddings":[[]]}`, `{"embeddings":[[1],[2]]}`, `x`} {
		if _, err := (ChatClient{}).DecodeEmbed(r, o, []byte(bad)); err == nil {
			t.Errorf("%s is an answer", bad)
		}
	}
	for body, path := range map[string]string{`{"model":"m","input":"a"}`: "/api/embed", `{"model":"m","prompt":"a"}`: "/api/embeddings"} {
		r.Wire = &infer.Wire{Dialect: NameChat, Body: []byte(body)}
		o, err := ChatClient{}.EncodeEmbed(r, wire.Target{Model: "up"})
		if err != nil || o.Path != path || !o.Native || string(o.Body) != strings.Replace(body, `"m"`, `"up"`, 1) {
			t.Errorf("native %s: %+v, %v", body, o, err)
		}
	}
}

func FuzzClient(f *testing.F) {
	f.Add([]byte(`{"model":"q","message":{"content":"a","thinking":"b","tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}]},"logprobs":[{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[{"token":"b"}]}],"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":4}`))
	f.Add([]byte(`{"error":"x"}`))
	f.Add([]byte(`{"embeddings":[[1,2]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := request()
		r.Sampling.Logprobs = true
		for _, native := range []bool{false, true} {
			o := &wire.Outgoing{Native: native}
			d := ChatClient{}.NewDecoder(r, o)
			evs, err := d.Frame(nil, "", data)
			if err == nil {
				evs, _ = d.End(evs)
			}
			for i, ev := range evs {
				if ev.Kind == infer.EventUsage && i != len(evs)-1 {
					t.Error("the usage is not last")
				}
			}
			_, _ = GenerateClient{}.DecodeAnswer(r, o, data)
		}
		if e := (ChatClient{}).DecodeError(500, http.Header{}, data); e.Upstream == nil {
			t.Error("an error without its fault")
		}
		_, _ = ChatClient{}.DecodeEmbed(&infer.EmbedRequest{Inputs: []infer.Prompt{{Text: "a"}}}, &wire.Outgoing{}, data)
	})
}
