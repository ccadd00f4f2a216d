package gemini

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
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
	call := infer.Message{Role: infer.RoleAssistant, Thoughts: []infer.Thought{{Text: "hm", Signature: "gemini:c2ln"}, {Signature: "EqQB"}},
		ToolCalls: []infer.ToolCall{{ID: "c1", Name: "f", Arguments: `{"x":1}`}, {ID: "c2", Name: "g"}}}
	results := []infer.Message{
		{Role: infer.RoleTool, ToolCallID: "c1", Content: []infer.Part{{Type: "text", Text: "one"}, {Type: "image", MIME: "image/png", Data: []byte("x")}}},
		{Role: infer.RoleTool, ToolCallID: "c2", ToolError: true, Content: text("gone")},
	}
	for _, k := range []struct {
		name  string
		model string
		set   func(r *infer.Request)
		want  string
	}{
		{"least", "", func(r *infer.Request) {}, `{"contents":[{"role":"user","parts":[{"text":"a"}]}]}`},
		{"system", "", func(r *infer.Request) {
			r.Messages = []infer.Message{{Role: infer.RoleSystem, Content: text("s")}, {Role: infer.RoleDeveloper, Content: text("d")}, r.Messages[0], {Role: infer.RoleSystem, Content: text("late")}}
		}, `{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"user","parts":[{"text":"<system>\nlate\n</system>"}]}],"systemInstruction":{"parts":[{"text":"s"},{"text":"d"}]}}`},
		{"calls", "", func(r *infer.Request) { r.Messages = append(r.Messages, append([]infer.Message{call}, results...)...) },
			`{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"hm","thought":true},{"functionCall":{"id":"c1","name":"f","args":{"x":1}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"c2","name":"g","args":{}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"result":"one"}}},{"functionResponse":{"id":"c2","name":"g","response":{"error":"gone"}}},{"inlineData":{"mimeType":"image/png","data":"eA=="}}]}]}`},
		{"calls of another model", "gemini-3-pro", func(r *infer.Request) {
			c := call
			c.Thoughts = nil
			r.Messages = append(r.Messages, c)
		}, `{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{"x":1}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"id":"c2","name":"g","args":{}}}]}]}`},
		{"tools", "", func(r *infer.Request) {
			r.Tools = []infer.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`), Strict: true}, {Name: "g"}}
		}, `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"f","description":"d","parametersJsonSchema":{"type":"object"}},{"name":"g"}]}],"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}}}`},
		{"named", "", func(r *infer.Request) {
			r.Tools = []infer.Tool{{Name: "f"}}
			r.ToolChoice = infer.ToolChoice{Mode: "function", Name: "f"}
		}, `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}}`},
		{"config", "", func(r *infer.Request) {
			seed := int64(-1)
			r.Sampling = infer.Sampling{N: 2, MaxTokens: 9, Temperature: 1, TopP: 1, TopK: 3, Seed: &seed, Stop: []string{"x"}, Logprobs: true, TopLogprobs: 2, RepetitionPenalty: 1, PresencePenalty: 1}
			r.Uses = []infer.Use{{Feature: infer.FeatureTemperature, Path: "temperature"}}
			r.Format = infer.Format{Kind: infer.FormatJSONSchema, Schema: json.RawMessage(`{"type":"object"}`)}
		}, `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"maxOutputTokens":9,"temperature":1,"topK":3,"presencePenalty":1,"candidateCount":2,"seed":2147483647,"stopSequences":["x"],"responseLogprobs":true,"logprobs":2,"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}}`},
		{"choice", "", func(r *infer.Request) {
			r.Format = infer.Format{Kind: infer.FormatChoice, Choices: []string{"a", "b"}}
		}, `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"responseMimeType":"text/x.enum","responseSchema":{"type":"STRING","enum":["a","b"]}}}`},
		{"effort", "gemini-3-flash", func(r *infer.Request) { r.Thinking.Effort = "medium" },
			`{"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"thinkingConfig":{"thinkingLevel":"medium","includeThoughts":true}}}`},
		{"effort as a budget", "gemini-2.5-flash", func(r *infer.Request) { r.Thinking.Effort = "medium" },
			`{"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"thinkingConfig":{"thinkingBudget":8192,"includeThoughts":true}}}`},
		{"thinking off", "gemini-2.5-flash", func(r *infer.Request) { r.Thinking.Switch = "off" },
			`{"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"thinkingConfig":{"thinkingBudget":0,"includeThoughts":false}}}`},
		{"url", "", func(r *infer.Request) {
			r.Messages[0].Content = []infer.Part{{Type: "image", URL: "https://example.org/a.webp?b=c.gif"}}
		}, `{"contents":[{"role":"user","parts":[{"fileData":{"mimeType":"image/webp","fileUri":"https://example.org/a.webp?b=c.gif"}}]}]}`},
	} {
		r := request()
		k.set(r)
		model := k.model
		if model == "" {
			model = "up"
		}
		o, err := Client{}.EncodeRequest(r, wire.Target{Model: model, MaxOutput: 77}) // which need not be named
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
			continue
		}
		if string(o.Body) != k.want {
			t.Errorf("%s:\ngot  %s\nwant %s", k.name, o.Body, k.want)
		}
		if o.Path != "/v1beta/models/"+model+":generateContent" || o.Native {
			t.Errorf("%s: path %s, native %v", k.name, o.Path, o.Native)
		}
		// What we write must be what we read.
		if _, _, err := (Generate{Model: "m"}).DecodeRequest(nil, o.Body); err != nil {
			t.Errorf("%s: our own decoder refuses it: %v", k.name, err)
		}
	}
}

func TestEncodeNative(t *testing.T) {
	body := []byte(`{ "contents":[ {"parts":[{"text":"a"}]} ], "later": {"x":1.50} }`)
	r := request()
	r.Wire, r.Stream = &infer.Wire{Dialect: Name, Body: body}, true
	o, err := Client{}.EncodeRequest(r, wire.Target{Model: "a b/c"})
	if err != nil || string(o.Body) != string(body) || !o.Native || o.Path != "/v1beta/models/a%20b/c:streamGenerateContent?alt=sse" {
		t.Errorf("native: %+v, %v", o, err)
	}
	r.Wire.Set = map[string]json.RawMessage{"generationConfig": json.RawMessage(`{"maxOutputTokens":5}`)}
	r.Wire.Body = []byte(`{"model":"models/m","generation_config":{"maxOutputTokens":9},"contents":[]}`)
	o, err = Client{}.EncodeRequest(r, wire.Target{Model: "up", Profile: ProfileVertex})
	if want := `{"model":"publishers/google/models/up","generation_config":{"maxOutputTokens":5},"contents":[]}`; err != nil || string(o.Body) != want {
		t.Errorf("native with a limit: %s, %v", o.Body, err)
	}
	if o.Path != "/publishers/google/models/up:streamGenerateContent?alt=sse" {
		t.Errorf("path at Vertex AI: %s", o.Path)
	}
	c, err := Client{}.EncodeCount(r, wire.Target{Model: "up"})
	if want := `{"generateContentRequest":{"model":"models/up","generation_config":{"maxOutputTokens":5},"contents":[]}}`; err != nil || string(c.Body) != want || c.Path != "/v1beta/models/up:countTokens" {
		t.Errorf("count: %s, %v", c.Body, err)
	}
	c, err = Client{}.EncodeCount(r, wire.Target{Model: "up", Profile: ProfileVertex})
	if want := `{"generationConfig":{"maxOutputTokens":5},"contents":[]}`; err != nil || string(c.Body) != want {
		t.Errorf("count at Vertex AI: %s, %v", c.Body, err)
	}
	if n, err := (Client{}).DecodeCount([]byte(`{"totalTokens":7}`)); n != 7 || err != nil {
		t.Errorf("count %d, %v", n, err)
	}
}

// play reads a stream and writes its events down.
func play(r *infer.Request, o *wire.Outgoing, frames []string) (string, error) {
	d := Client{}.NewDecoder(r, o)
	var evs []infer.Event
	var err error
	for _, f := range frames {
		if evs, err = d.Frame(evs, "", []byte(f)); err != nil {
			return show(evs), err
		}
	}
	evs, err = d.End(evs)
	return show(evs), err
}

func show(evs []infer.Event) string {
	var b strings.Builder
	for _, ev := range evs {
		switch ev.Kind {
		case infer.EventStart:
			fmt.Fprintf(&b, "start %s", ev.Model.Name)
		case infer.EventText:
			fmt.Fprintf(&b, "text%d %q", ev.Choice, ev.Text)
		case infer.EventReasoning:
			fmt.Fprintf(&b, "think %q %s", ev.Text, ev.Signature)
		case infer.EventTool:
			fmt.Fprintf(&b, "tool %d %s %s %s", ev.Tool.Index, ev.Tool.ID, ev.Tool.Name, ev.Tool.Arguments)
		case infer.EventFinish:
			fmt.Fprintf(&b, "finish%d %s", ev.Choice, ev.Finish)
		case infer.EventUsage:
			u := ev.Usage
			fmt.Fprintf(&b, "usage %d/%d %d/%d %v", u.PromptTokens, u.CachedTokens, u.CompletionTokens, u.ReasoningTokens, u.Estimated)
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

func TestDecodeStream(t *testing.T) {
	part := func(parts, rest string) string {
		return `{"candidates":[{"content":{"parts":[` + parts + `],"role":"model"},"index":0` + rest + `}],"modelVersion":"gemini-3"}`
	}
	usage := func(s string) string { return strings.TrimSuffix(s, "}") + `,"usageMetadata":` }
	for _, k := range []struct {
		name   string
		frames []string
		want   string
		lost   bool
	}{
		{"text", []string{part(`{"text":"Hel"}`, ""), usage(part(`{"text":"lo"}`, `,"finishReason":"STOP"`)) + `{"promptTokenCount":9,"cachedContentTokenCount":4,"candidatesTokenCount":2,"thoughtsTokenCount":3,"totalTokenCount":14}}`},
			"start gemini-3\ntext0 \"Hel\"\ntext0 \"lo\"\nfinish0 stop\nusage 9/4 5/3 false\n", false},
		{"a reason in every chunk", []string{part(`{"text":"a"}`, `,"finishReason":"STOP"`), part(`{"text":"b"}`, `,"finishReason":"MAX_TOKENS"`)},
			"start gemini-3\ntext0 \"a\"\ntext0 \"b\"\nfinish0 length\nusage 5/0 2/0 true\n", false},
		{"thoughts and calls", []string{
			part(`{"text":"hm","thought":true}`, ""),
			part(`{"functionCall":{"name":"f","args":{"x": [1, 2]}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"i","name":"g"}},{"functionCall":{"id":"i","name":"g"}}`, ""),
			part(`{"text":""}`, `,"finishReason":"STOP"`),
		}, "start gemini-3\nthink \"hm\" \nthink \"\" gemini:c2ln\ntool 0 call_0123_1 f {\"x\":[1,2]}\ntool 1 i g {}\ntool 2 call_0123_3 g {}\nfinish0 tool_calls\nusage 5/0 6/0 true\n", false},
		{"blocked", []string{`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":9,"totalTokenCount":9}}`},
			"start m\nfinish0 content_filter\nusage 9/0 0/0 false\n", false},
		{"safety", []string{part(`{"text":"a"}`, ""), part("", `,"finishReason":"SAFETY","safetyRatings":[]`)},
			"start gemini-3\ntext0 \"a\"\nfinish0 content_filter\nusage 5/0 1/0 true\n", false},
		{"cut", []string{part(`{"text":"a"}`, "")}, "start gemini-3\ntext0 \"a\"\n", true},
		{"nothing", nil, "", true},
		{"empty", []string{`{"usageMetadata":{"promptTokenCount":9}}`}, "start m\n", true},
		{"a call that Google could not read", []string{part("", `,"finishReason":"MALFORMED_FUNCTION_CALL"`)}, "start gemini-3\n", true},
		{"broken JSON", []string{`{"candidates":[`}, "", true},
		{"another candidate", []string{`{"candidates":[{"index":3}]}`}, "", true},
		{"an error", []string{part(`{"text":"a"}`, ""), `{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}`}, "start gemini-3\ntext0 \"a\"\n", true},
	} {
		got, err := play(request(), &wire.Outgoing{Stream: true}, k.frames)
		if got != k.want {
			t.Errorf("%s:\ngot  %s\nwant %s", k.name, got, k.want)
		}
		var e *infer.Error
		if (err != nil) != k.lost || err != nil && (!errors.As(err, &e) || e.Upstream == nil) {
			t.Errorf("%s: error %v", k.name, err)
		}
	}
}

// TestDecodeNative passes frames on; the one that ends the answer goes with the
// usage.
func TestDecodeNative(t *testing.T) {
	a, b, c := `{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}`, `{"candidates":[{"finishReason":"STOP"}]}`, `{"later":1}`
	o := &wire.Outgoing{Stream: true, Native: true}
	got, err := play(request(), o, []string{a, b})
	if want := "start m <" + a + ">\ntext0 \"a\"\nfinish0 stop\nusage 5/0 1/0 true <" + b + ">\n"; got != want || err != nil {
		t.Errorf("got %s%v, want %s", got, err, want)
	}
	got, err = play(request(), o, []string{a, b, c})
	if want := "start m <" + a + ">\ntext0 \"a\"\nframe <" + b + ">\nframe <" + c + ">\nfinish0 stop\nusage 5/0 1/0 true\n"; got != want || err != nil {
		t.Errorf("got %s%v, want %s", got, err, want)
	}
	bad := `{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`
	if got, err := play(request(), o, []string{bad}); err != nil || !strings.HasSuffix(got, "<"+bad+">\n") {
		t.Errorf("a malformed call is not passed on: %s%v", got, err)
	}
}

func TestDecodeWhole(t *testing.T) {
	body := []byte(`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":2,"candidatesTokenCount":1}}`)
	evs, err := Client{}.DecodeAnswer(request(), &wire.Outgoing{Native: true}, body)
	if err != nil {
		t.Fatal(err)
	}
	if want := "start m\ntext0 \"a\"\nfinish0 stop\nusage 2/0 1/0 false <" + string(body) + ">\n"; show(evs) != want {
		t.Errorf("got %s, want %s", show(evs), want)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"candidates":[]}`, `<html>`, `{"candidates":[{"finishReason":"STOP"}]} x`} {
		if evs, err := (Client{}).DecodeAnswer(request(), &wire.Outgoing{}, []byte(bad)); err == nil {
			t.Errorf("%q is an answer: %s", bad, show(evs))
		}
	}
}

func TestDecodeError(t *testing.T) {
	for _, k := range []struct {
		status int
		body   string
		code   infer.Code
		class  infer.FailureClass
		wait   float64
	}{
		{400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"x","reason":"API_KEY_INVALID"}]}}`, infer.CodeUpstream, infer.FailAuth, 0},
		{400, `[{"error":{"code":400,"message":"Invalid value at 'tools'","status":"INVALID_ARGUMENT"}}]`, infer.CodeInvalid, infer.FailRequest, 0},
		{400, `{"error":{"message":"The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, infer.CodeContextLength, infer.FailRequest, 0},
		{400, `{"error":{"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}`, infer.CodeUpstream, infer.FailAuth, 0},
		{429, `{"error":{"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3.5s"}]}}`, infer.CodeRateLimited, infer.FailRateLimit, 3.5},
		{503, `<html>`, infer.CodeOverloaded, infer.FailOverload, 0},
		{500, ``, infer.CodeUpstream, infer.FailServer, 0},
	} {
		e := Client{}.DecodeError(k.status, http.Header{}, []byte(k.body))
		if e.Code != k.code || e.Upstream == nil || e.Upstream.Class != k.class || e.Upstream.Status != k.status || e.Upstream.RetryAfter.Seconds() != k.wait {
			t.Errorf("%d %s: %+v %+v", k.status, k.body, e, e.Upstream)
		}
	}
	e := Client{}.DecodeError(400, http.Header{}, []byte(`{"error":{"message":"Invalid value at 'tools'","status":"INVALID_ARGUMENT"}}`))
	if !strings.Contains(e.Message, "Invalid value at") {
		t.Errorf("message %q", e.Message)
	}
}

func TestEmbed(t *testing.T) {
	r := &infer.EmbedRequest{Model: "m", Inputs: []infer.Prompt{{Text: "a"}, {Text: "b"}}, Dimensions: 2}
	o, err := Client{}.EncodeEmbed(r, wire.Target{Model: "up"})
	if want := `{"requests":[{"model":"models/up","content":{"parts":[{"text":"a"}]},"outputDimensionality":2},{"model":"models/up","content":{"parts":[{"text":"b"}]},"outputDimensionality":2}]}`; err != nil || string(o.Body) != want {
		t.Errorf("body %s, %v", o.Body, err)
	}
	res, err := Client{}.DecodeEmbed(r, o, []byte(`{"embeddings":[{"values":[3,4]},{"values":[1,0]}]}`))
	if err != nil || !reflect.DeepEqual(res.Vectors, [][]float32{{0.6, 0.8}, {1, 0}}) || !res.Usage.Estimated {
		t.Errorf("vectors %+v, %v", res, err)
	}
	v := wire.Target{Model: "up", Profile: ProfileVertex}
	if o, err = (Client{}).EncodeEmbed(r, v); err != nil || string(o.Body) != `{"instances":[{"content":"a"},{"content":"b"}],"parameters":{"outputDimensionality":2}}` || o.Path != "/publishers/google/models/up:predict" {
		t.Errorf("at Vertex AI: %+v, %v", o, err)
	}
	res, err = Client{}.DecodeEmbed(r, o, []byte(`{"predictions":[{"embeddings":{"values":[1,0],"statistics":{"token_count":2}}},{"embeddings":{"values":[0,1],"statistics":{"token_count":3}}}]}`))
	if err != nil || res.Usage.PromptTokens != 5 || res.Usage.Estimated {
		t.Errorf("at Vertex AI: %+v, %v", res, err)
	}
	r.Wire = &infer.Wire{Dialect: Name, Body: []byte(`{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]},"taskType":"X"},{"content":{}}],"z":1}`)}
	o, err = Client{}.EncodeEmbed(r, wire.Target{Model: "up"})
	if want := `{"requests":[{"model":"models/up","content":{"parts":[{"text":"a"}]},"taskType":"X"},{"content":{},"model":"models/up"}],"z":1}`; err != nil || string(o.Body) != want || !o.Native {
		t.Errorf("native %s, %v", o.Body, err)
	}
	for _, bad := range []string{`{}`, `{"embeddings":[{"values":[1]}]}`, `{"embeddings":[{},{}]}`, `x`} {
		if _, err := (Client{}).DecodeEmbed(r, o, []byte(bad)); err == nil {
			t.Errorf("%s is an answer", bad)
		}
	}
}

func FuzzClient(f *testing.F) {
	f.Add([]byte(`{"candidates":[{"content":{"parts":[{"text":"a"},{"functionCall":{"name":"f","args":{}}}]},"finishReason":"STOP","logprobsResult":{"chosenCandidates":[{"token":"a"}]}}],"usageMetadata":{"promptTokenCount":2}}`))
	f.Add([]byte(`{"error":{"code":429,"details":[{"retryDelay":"1s","violations":[{"quotaId":"x"}]}]}}`))
	f.Add([]byte(`{"embeddings":[{"values":[1,2]}]}`))
	f.Add([]byte(`{"promptFeedback":{"blockReason":"SAFETY"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := request()
		r.Sampling.Logprobs = true
		for _, native := range []bool{false, true} {
			d := newAnswerDecoder(r, native)
			evs, err := d.Frame(nil, "", data)
			if err == nil {
				evs, _ = d.End(evs)
			}
			for i, ev := range evs {
				if ev.Kind == infer.EventUsage && i != len(evs)-1 {
					t.Error("the usage is not last")
				}
			}
			_, _ = Client{}.DecodeAnswer(r, &wire.Outgoing{Native: native}, data)
		}
		if e := (Client{}).DecodeError(429, http.Header{}, data); e.Upstream == nil {
			t.Error("an error without its fault")
		}
		_, _ = Client{}.DecodeCount(data)
		_, _ = Client{}.DecodeEmbed(&infer.EmbedRequest{Inputs: []infer.Prompt{{Text: "a"}}}, &wire.Outgoing{}, data)
	})
}

// BenchmarkDecode reads a stream of 64 chunks.
func BenchmarkDecode(b *testing.B) {
	chunk := []byte(`{"candidates":[{"content":{"parts":[{"text":" word"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"totalTokenCount":11},"modelVersion":"gemini-3","responseId":"x"}`)
	last := []byte(`{"candidates":[{"finishReason":"STOP","index":0}]}`)
	r := request()
	var evs []infer.Event
	b.ReportAllocs()
	for b.Loop() {
		d := newAnswerDecoder(r, true)
		for range 64 {
			evs, _ = d.Frame(evs[:0], "", chunk)
		}
		evs, _ = d.Frame(evs[:0], "", last)
		evs, _ = d.End(evs[:0])
	}
}
