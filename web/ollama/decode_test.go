package ollama

import (
	"errors"
	"testing"

	"hearth/engine/infer"
)

func TestDecodeChat(t *testing.T) {
	r, o, err := Chat{}.DecodeRequest(nil, []byte(`{"model":"m","messages":[
		{"role":"System","content":"Be brief."},
		{"role":"user","content":"look","images":["iVBORw0KGgo=","data:image/webp;base64,UklGRgAAAABXRUJQ"]},
		{"role":"assistant","content":"","thinking":"hm","tool_calls":[{"function":{"name":"f","arguments":{"x":1}}},{"id":"b","function":{"index":1,"name":"g","arguments":{}}}]},
		{"role":"tool","tool_name":"g","content":"two"},
		{"role":"tool","content":"one"}],
		"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
		"options":{"temperature":0.1,"top_p":0.9,"top_k":5,"min_p":0.1,"seed":3,"num_predict":-1,"stop":"x","repeat_penalty":1.1,"num_ctx":4096},
		"format":{"type":"object"},"think":"high","keep_alive":300,"logprobs":true,"top_logprobs":2}`))
	if err != nil {
		t.Fatal(err)
	}
	if !o.Stream || !r.Stream {
		t.Error("a stream is not the default")
	}
	ms := r.Messages
	if ms[0].Role != infer.RoleSystem || ms[1].Content[1].MIME != "image/png" || ms[1].Content[2].MIME != "image/webp" {
		t.Errorf("turns: %+v", ms[:2])
	}
	if a := ms[2]; a.Reasoning != "hm" || a.ToolCalls[0] != (infer.ToolCall{ID: "call_1", Name: "f", Arguments: `{"x":1}`}) || a.ToolCalls[1].ID != "b" {
		t.Errorf("calls: %+v", a)
	}
	if ms[3].ToolCallID != "b" || ms[4].ToolCallID != "call_1" || ms[4].Name != "f" {
		t.Errorf("results: %+v", ms[3:])
	}
	s := r.Sampling
	if s.Temperature != 0.1 || s.TopP != 0.9 || s.TopK != 5 || s.MinP != 0.1 || *s.Seed != 3 || s.MaxTokens != 0 || s.Stop[0] != "x" || s.RepetitionPenalty != 1.1 || !s.Logprobs || s.TopLogprobs != 2 {
		t.Errorf("sampling: %+v", s)
	}
	if r.Thinking != (infer.Thinking{Switch: "on", Effort: "high"}) || r.Hints.KeepAlive != "300" || r.Format.Kind != infer.FormatJSONSchema {
		t.Errorf("the rest: %+v %+v %+v", r.Thinking, r.Hints, r.Format)
	}
}

func TestDecodeGenerate(t *testing.T) {
	decode := func(body string) *infer.Request {
		r, _, err := Generate{}.DecodeRequest(nil, []byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return r
	}
	if r := decode(`{"model":"m","prompt":"a","system":"s","images":["iVBORw0KGgo="]}`); r.Kind != infer.Chat || len(r.Messages) != 2 || len(r.Messages[1].Content) != 2 {
		t.Errorf("a prompt for the template: %+v", r)
	}
	if r := decode(`{"model":"m","prompt":"a","raw":true,"stream":false}`); r.Kind != infer.Completion || r.Prompts[0].Text != "a" || r.Stream {
		t.Errorf("a raw prompt: %+v", r)
	}
	if r := decode(`{"model":"m","prompt":"a","suffix":"b"}`); r.Kind != infer.Completion || r.Suffix != "b" {
		t.Errorf("a prompt with a suffix: %+v", r)
	}
	for body, want := range map[string]string{
		`{"model":"m"}`: "load", `{"model":"m","prompt":"","keep_alive":0}`: "unload", `{"model":"m","keep_alive":"0s"}`: "unload", `{"model":"m","prompt":"a"}`: "",
	} {
		if loads, reason := Loads(decode(body)); reason != want || loads != (want != "") {
			t.Errorf("%s: %v %q, want %q", body, loads, reason, want)
		}
	}
}

// TestRefused has bodies that are malformed, and the field that the error names.
func TestRefused(t *testing.T) {
	const m = `"model":"m","messages":[{"role":"user","content":"a"}]`
	for _, k := range []struct{ body, param string }{
		{`{"messages":[]}`, "model"},
		{`[]`, ""},
		{`{"model":""}`, "model"},
		{`{"model":"m","messages":{}}`, "messages"},
		{`{"model":"m","messages":[{"role":"robot","content":"a"}]}`, "messages[0]"},
		{`{"model":"m","messages":[{"role":"user","content":[]}]}`, "messages[0].content"},
		{`{"model":"m","messages":[{"role":"user","content":"a","images":["%"]}]}`, "messages[0].images[0]"},
		{`{"model":"m","messages":[{"role":"user","tool_calls":[{"function":{"name":"f"}}]}]}`, "messages[0]"},
		{`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{}}]}]}`, "messages[0].tool_calls[0]"},
		{`{` + m + `,"stream":"yes"}`, "stream"},
		{`{` + m + `,"format":"xml"}`, "format"},
		{`{` + m + `,"think":"a lot"}`, "think"},
		{`{` + m + `,"options":{"temperature":-1}}`, "options.temperature"},
		{`{` + m + `,"options":[]}`, "options"},
		{`{` + m + `,"top_logprobs":2}`, "top_logprobs"},
		{`{` + m + `,"tools":[{"type":"function","function":{}}]}`, "tools[0]"},
	} {
		_, _, err := Chat{}.DecodeRequest(nil, []byte(k.body))
		var e *infer.Error
		if !errors.As(err, &e) || e.Param != k.param || e.Code != infer.CodeInvalid {
			t.Errorf("%s: %v, want an invalid %q", k.body, err, k.param)
		}
	}
	if _, _, err := (Generate{}).DecodeRequest(nil, []byte(`{"model":"m","prompt":"a","raw":true,"system":"s"}`)); err == nil {
		t.Error("a raw prompt with a system text is taken")
	}
}

func FuzzDecode(f *testing.F) {
	for _, row := range append(ChatFields(), GenerateFields()...) {
		f.Add([]byte(row.Base))
	}
	f.Add([]byte(`{"model":"m","input":["a"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, err := range []error{
			func() error { _, _, err := Chat{}.DecodeRequest(nil, body); return err }(),
			func() error { _, _, err := Generate{}.DecodeRequest(nil, body); return err }(),
			func() error { _, _, err := DecodeEmbed(body, false); return err }(),
			func() error { _, err := DecodeShow(body); return err }(),
		} {
			var e *infer.Error
			if err != nil && !errors.As(err, &e) {
				t.Errorf("an error of type %T", err)
			}
		}
	})
}
