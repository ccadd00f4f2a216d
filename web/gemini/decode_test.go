package gemini

import (
	"errors"
	"strings"
	"testing"

	"hearth/engine/infer"
)

func decode(t *testing.T, body string) *infer.Request {
	t.Helper()
	r, _, err := Generate{Model: "m"}.DecodeRequest(nil, []byte(body))
	if err != nil {
		t.Fatalf("cannot decode %s: %v", body, err)
	}
	return r
}

func TestDecodeConversation(t *testing.T) {
	r := decode(t, `{
		"system_instruction": {"role":"system","parts":{"text":"Be brief."}},
		"contents": [
			{"role":"user","parts":[{"text":"What is"},{"inline_data":{"mime_type":"image/png","data":"iVBORw0KGgo"}}]},
			{"role":"model","parts":[
				{"text":"hm","thought":true},{"text":", yes","thought":true},
				{"text":"I look."},
				{"functionCall":{"name":"look","args":{"a":1}},"thoughtSignature":"c2ln"},
				{"functionCall":{"id":"x","name":"look","args":{"a":2}}}]},
			{"parts":[
				{"functionResponse":{"name":"look","response":{"result":"one"}}},
				{"functionResponse":{"id":"x","name":"look","response":{"error":"gone"}}},
				{"text":"and?"}]}
		]}`)
	ms := r.Messages
	roles := ""
	for _, m := range ms {
		roles += string(m.Role[0])
	}
	if roles != "suattu" {
		t.Fatalf("roles %s, want suattu", roles)
	}
	if ms[0].Text() != "Be brief." || ms[1].Content[1].MIME != "image/png" || string(ms[1].Content[1].Data) != "\x89PNG\r\n\x1a\n" {
		t.Errorf("instruction or image: %+v", ms[:2])
	}
	a := ms[2]
	if a.Reasoning != "hm, yes" || len(a.Thoughts) != 2 || a.Thoughts[0].Text != "hm, yes" || a.Thoughts[1] != (infer.Thought{Signature: "gemini:c2ln", ID: "call_1"}) {
		t.Errorf("thoughts: %+v", a.Thoughts)
	}
	if len(a.ToolCalls) != 2 || a.ToolCalls[0] != (infer.ToolCall{ID: "call_1", Name: "look", Arguments: `{"a":1}`}) || a.ToolCalls[1].ID != "x" {
		t.Errorf("calls: %+v", a.ToolCalls)
	}
	if ms[3].ToolCallID != "call_1" || ms[3].Text() != "one" || ms[3].ToolError || ms[4].ToolCallID != "x" || ms[4].Text() != "gone" || !ms[4].ToolError {
		t.Errorf("results: %+v", ms[3:5])
	}
	if ms[5].Text() != "and?" {
		t.Errorf("last turn: %+v", ms[5])
	}
}

func TestDecodeConfig(t *testing.T) {
	r := decode(t, `{"contents":[{"parts":[{"text":"a"}]}],
		"generationConfig":{"temperature":0,"topP":0.9,"topK":40.0,"candidateCount":2,"maxOutputTokens":"64","stopSequences":["x","y"],"seed":5,
			"presencePenalty":1,"frequencyPenalty":-1,"responseLogprobs":true,"logprobs":3,"responseMimeType":"application/json",
			"responseSchema":{"type":"OBJECT","nullable":true,"propertyOrdering":["b"],"properties":{"b":{"type":"ARRAY","minItems":"1","items":{"type":"INTEGER"}},"type":{"type":"STRING","enum":["X"]}},"required":["b"]},
			"thinkingConfig":{"thinkingBudget":-1,"includeThoughts":true}},
		"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT"}},{"name":"g"}]},{"googleSearch":{}}],
		"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED","allowedFunctionNames":["f","g"]}}}`)
	s := r.Sampling
	if s.Temperature != 0 || s.TopP != 0.9 || s.TopK != 40 || s.N != 2 || s.MaxTokens != 64 || len(s.Stop) != 2 || *s.Seed != 5 || s.PresencePenalty != 1 ||
		s.FrequencyPenalty != -1 || !s.Logprobs || s.TopLogprobs != 3 {
		t.Errorf("sampling: %+v", s)
	}
	want := `{"type":["object","null"],"properties":{"b":{"type":"array","minItems":1,"items":{"type":"integer"}},"type":{"type":"string","enum":["X"]}},"required":["b"]}`
	if got := string(r.Format.Schema); got != want {
		t.Errorf("schema %s, want %s", got, want)
	}
	if r.Thinking != (infer.Thinking{Switch: "adaptive", Summary: "auto"}) {
		t.Errorf("thinking: %+v", r.Thinking)
	}
	if c := r.ToolChoice; c.Mode != "auto" || strings.Join(c.Allowed, " ") != "f g" || !r.Tools[0].Strict {
		t.Errorf("choice: %+v", c)
	}
	optional := false
	for _, u := range r.Uses {
		optional = optional || u.Feature == infer.FeatureToolHostedOptional && u.Path == "tools[1].googleSearch"
	}
	if !optional {
		t.Errorf("uses %v, want the search as one that may be left", r.Uses)
	}
}

// TestRefused has bodies that are malformed, and the field that the error names.
func TestRefused(t *testing.T) {
	const c = `"contents":[{"parts":[{"text":"a"}]}]`
	for _, k := range []struct{ body, param string }{
		{`{}`, "contents"},
		{`[]`, ""},
		{`{"contents":[]}`, "contents"},
		{`{"contents":"a"}`, "contents"},
		{`{"contents":[{"role":"system","parts":[{"text":"a"}]}]}`, "contents[0]"},
		{`{"contents":[{"parts":[{"text":1}]}]}`, "contents[0].parts[0].text"},
		{`{"contents":[{"parts":[{"text":"a","inlineData":{}}]}]}`, "contents[0].parts[0]"},
		{`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"%%"}}]}]}`, "contents[0].parts[0].inlineData.data"},
		{`{"contents":[{"parts":[{"inlineData":{"data":"YQ=="}}]}]}`, "contents[0].parts[0].inlineData"},
		{`{"contents":[{"parts":[{"functionCall":{"name":"f"}}]}]}`, "contents[0].parts[0].functionCall"},
		{`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":[]}}]}]}`, "contents[0].parts[0].functionCall.args"},
		{`{` + c + `,"generationConfig":{"topK":5,"top_k":6}}`, "generationConfig.top_k"},
		{`{` + c + `,"generationConfig":{"temperature":9}}`, "generationConfig.temperature"},
		{`{` + c + `,"generationConfig":{"responseMimeType":"image/png"}}`, "generationConfig.responseMimeType"},
		{`{` + c + `,"tools":[{"functionDeclarations":[{"name":"f"},{"name":"f"}]}]}`, "tools[0].functionDeclarations[1]"},
		{`{` + c + `,"toolConfig":{"functionCallingConfig":{"mode":"SOME"}}}`, "toolConfig.functionCallingConfig.mode"},
		{`{` + c + `,"model":"models/other"}`, "model"},
	} {
		_, _, err := Generate{Model: "m"}.DecodeRequest(nil, []byte(k.body))
		var e *infer.Error
		if !errors.As(err, &e) || e.Param != k.param || e.Code != infer.CodeInvalid {
			t.Errorf("%s: %v, want an invalid %q", k.body, err, k.param)
		}
	}
}

func TestSignaturesTravel(t *testing.T) {
	for _, sig := range []string{"gemini:c2ln", "EqQBCkYIARgC", "not base64 at all"} {
		if got, red := inSignature(outSignature(sig)); got != sig || red != "" {
			t.Errorf("signature %q came back as %q, %q", sig, got, red)
		}
	}
	if got, red := inSignature(outSealed("EmwK")); got != "" || red != "EmwK" {
		t.Errorf("a sealed block came back as %q, %q", got, red)
	}
	if outSignature("gemini:c2ln") != "c2ln" {
		t.Error("Gemini's own signature is changed on its way to Gemini's clients")
	}
}

func TestCount(t *testing.T) {
	for _, body := range []string{
		`{"contents":[{"parts":[{"text":"a"}]}]}`,
		`{"generateContentRequest":{"model":"models/m","contents":[{"parts":[{"text":"a"}]}]}}`,
	} {
		r, err := DecodeCount([]byte(body), "m")
		if err != nil || r.Messages[0].Text() != "a" || !strings.HasSuffix(string(r.Wire.Body), `"contents":[{"parts":[{"text":"a"}]}]}`) {
			t.Errorf("%s: %+v, %v", body, r, err)
		}
	}
	if _, err := DecodeCount([]byte(`{"generateContentRequest":{"contents":[]},"contents":[]}`), "m"); err == nil {
		t.Error("both forms at once are taken")
	}
}

func FuzzDecode(f *testing.F) {
	for _, row := range Fields() {
		f.Add([]byte(row.Base))
	}
	f.Add([]byte(`{"requests":[{"content":{"parts":[{"text":"a"}]}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, err := range []error{
			func() error { _, _, err := Generate{Model: "m"}.DecodeRequest(nil, body); return err }(),
			func() error { _, err := DecodeCount(body, "m"); return err }(),
			func() error { _, _, err := DecodeEmbed(body, "m", true); return err }(),
		} {
			var e *infer.Error
			if err != nil && !errors.As(err, &e) {
				t.Errorf("an error of type %T", err)
			}
		}
	})
}

// BenchmarkDecodeRequest reads a request with ten tools and twenty turns.
func BenchmarkDecodeRequest(b *testing.B) {
	var s strings.Builder
	s.WriteString(`{"systemInstruction":{"parts":[{"text":"` + strings.Repeat("Be brief. ", 500) + `"}]},"contents":[`)
	for i := range 20 {
		if i > 0 {
			s.WriteString(",")
		}
		s.WriteString(`{"role":"` + []string{"user", "model"}[i%2] + `","parts":[{"text":"` + strings.Repeat("word ", 100) + `"}]}`)
	}
	s.WriteString(`,{"role":"user","parts":[{"text":"end"}]}],"tools":[{"functionDeclarations":[`)
	for i := range 10 {
		if i > 0 {
			s.WriteString(",")
		}
		s.WriteString(`{"name":"f` + string(rune('a'+i)) + `","description":"d","parameters":{"type":"OBJECT","properties":{"a":{"type":"STRING"},"b":{"type":"INTEGER"}},"required":["a"]}}`)
	}
	s.WriteString(`]}],"generationConfig":{"temperature":0.5,"maxOutputTokens":100}}`)
	body := []byte(s.String())
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := (Generate{Model: "m"}).DecodeRequest(nil, body); err != nil {
			b.Fatal(err)
		}
	}
}
