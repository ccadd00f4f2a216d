package bedrock

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/wire"
)

const model = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"

func encodeMap(t *testing.T, r *infer.Request, name string) map[string]any {
	t.Helper()
	o, err := Client{}.EncodeRequest(r, wire.Target{Model: name, MaxOutput: 4096})
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(o.Body, &out); err != nil {
		t.Fatalf("%v in %s", err, o.Body)
	}
	return out
}

// wants compares a piece of the body, found by its path, with JSON.
func wants(t *testing.T, body map[string]any, at, want string) {
	t.Helper()
	var got any = body
	for _, key := range strings.Split(at, ".") {
		switch v := got.(type) {
		case map[string]any:
			got = v[key]
		case []any:
			i := int(key[0] - '0')
			if i >= len(v) {
				t.Errorf("%s: nothing there", at)
				return
			}
			got = v[i]
		default:
			got = nil
		}
	}
	var w any
	if want != "" {
		if err := json.Unmarshal([]byte(want), &w); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(got, w) {
		b, _ := json.Marshal(got)
		t.Errorf("%s: got %s, want %s", at, b, want)
	}
}

func words(s string) []infer.Part { return []infer.Part{{Type: "text", Text: s}} }

func TestConversation(t *testing.T) {
	r := infer.NewRequest()
	r.Messages = []infer.Message{
		{Role: infer.RoleSystem, Content: []infer.Part{{Type: "text", Text: "Be brief.", Cache: "1h"}}},
		{Role: infer.RoleDeveloper, Content: words("Be kind.")},
		{Role: infer.RoleUser, Content: []infer.Part{
			{Type: "text", Text: "What is it?", Cache: "5m"}, {Type: "text", Text: "  "},
			{Type: "image", Data: []byte("png!"), MIME: "image/png"},
			{Type: "file", Data: []byte("%PDF"), MIME: "application/pdf", Name: "Q3_report.final.pdf"},
			{Type: "file", Data: []byte("a,b"), MIME: "", Name: "Q3_report.final.csv"},
		}},
		{Role: infer.RoleAssistant, Content: words("Let me look."), Thoughts: []infer.Thought{{Text: "hm", Signature: "c2ln"}, {Redacted: "cmVk"}, {Text: "unsigned"}},
			ToolCalls: []infer.ToolCall{{ID: "call.1", Name: "look", Arguments: `{"at": 1}`}, {ID: "call.2", Name: "look", Arguments: "no json"}}},
		{Role: infer.RoleTool, ToolCallID: "call.1", Content: []infer.Part{{Type: "text", Text: "a cat", Cache: "5m"}}},
		{Role: infer.RoleTool, ToolCallID: "call.2", Content: words("failed"), ToolError: true},
		{Role: infer.RoleUser, Content: words("And?")},
		{Role: infer.RoleSystem, Content: words("Now in French.")},
	}
	r.Tools = []infer.Tool{{Name: "look", Description: "looks", Parameters: json.RawMessage(`{"type":"object"}`), Strict: true, Cache: "5m"}}
	b := encodeMap(t, r, model)
	one, two := toolID("call.1"), toolID("call.2")
	wants(t, b, "system", `[{"text":"Be brief."},{"cachePoint":{"type":"default","ttl":"1h"}},{"text":"Be kind."}]`)
	wants(t, b, "messages.0", `{"role":"user","content":[{"text":"What is it?"},{"cachePoint":{"type":"default"}},
		{"image":{"format":"png","source":{"bytes":"cG5nIQ=="}}},{"document":{"format":"pdf","name":"Q3-report-final","source":{"bytes":"JVBERg=="}}},
		{"document":{"format":"csv","name":"Q3-report-final (2)","source":{"bytes":"YSxi"}}}]}`)
	wants(t, b, "messages.1", `{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm","signature":"c2ln"}}},
		{"reasoningContent":{"redactedContent":"cmVk"}},{"text":"Let me look."},
		{"toolUse":{"toolUseId":"`+one+`","name":"look","input":{"at":1}}},{"toolUse":{"toolUseId":"`+two+`","name":"look","input":{"input":"no json"}}}]}`)
	wants(t, b, "messages.2", `{"role":"user","content":[{"toolResult":{"toolUseId":"`+one+`","content":[{"text":"a cat"}]}},{"cachePoint":{"type":"default"}},
		{"toolResult":{"toolUseId":"`+two+`","content":[{"text":"failed"}],"status":"error"}},{"text":"And?"},{"text":"<system>\nNow in French.\n</system>"}]}`)
	wants(t, b, "toolConfig", `{"tools":[{"toolSpec":{"name":"look","description":"looks","inputSchema":{"json":{"type":"object"}},"strict":true}},{"cachePoint":{"type":"default"}}]}`)
	wants(t, b, "inferenceConfig", "") // nobody named a bound
	r.Sampling.MaxTokens = 77
	wants(t, encodeMap(t, r, model), "inferenceConfig", `{"maxTokens":77}`)
}

func TestParameters(t *testing.T) {
	base := func() *infer.Request {
		r := infer.NewRequest()
		r.Messages = []infer.Message{{Role: infer.RoleUser, Content: words("Hi")}}
		return r
	}
	for _, c := range []struct {
		model    string
		set      func(*infer.Request)
		at, want string
	}{
		{model, func(r *infer.Request) {
			r.Sampling.MaxTokens, r.Sampling.Temperature, r.Sampling.TopP, r.Sampling.Stop = 9, 0, 0.5, []string{"END", " "}
		},
			"inferenceConfig", `{"maxTokens":9,"temperature":0,"topP":0.5,"stopSequences":["END"]}`},
		{model, func(r *infer.Request) { r.Sampling.TopK = 40 }, "additionalModelRequestFields", `{"top_k":40}`},
		{"amazon.nova-pro-v1:0", func(r *infer.Request) { r.Sampling.TopK = 40 }, "additionalModelRequestFields", `{"inferenceConfig":{"topK":40}}`},
		{"cohere.command-r-v1:0", func(r *infer.Request) { r.Sampling.TopK = 40 }, "additionalModelRequestFields", `{"k":40}`},
		{model, func(r *infer.Request) { r.Thinking.Budget, r.Sampling.MaxTokens = 2000, 9000 }, "additionalModelRequestFields", `{"thinking":{"type":"enabled","budget_tokens":2000}}`},
		{model, func(r *infer.Request) { r.Thinking.Budget, r.Sampling.MaxTokens = 2000, 900 }, "additionalModelRequestFields", ``},
		{"anthropic.claude-opus-4-6-v1", func(r *infer.Request) { r.Thinking.Effort = "high" }, "additionalModelRequestFields", `{"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}}`},
		{model, func(r *infer.Request) { r.Thinking.Effort, r.Sampling.MaxTokens = "low", 9000 }, "additionalModelRequestFields", `{"thinking":{"type":"enabled","budget_tokens":2048}}`},
		{model, func(r *infer.Request) { r.Thinking.Switch = "off" }, "additionalModelRequestFields", `{"thinking":{"type":"disabled"}}`},
		{"openai.gpt-oss-120b-1:0", func(r *infer.Request) { r.Thinking.Effort = "xhigh" }, "additionalModelRequestFields", `{"reasoning_effort":"high"}`},
		{"us.amazon.nova-2-lite-v1:0", func(r *infer.Request) { r.Thinking.Budget = 4000 }, "additionalModelRequestFields", `{"reasoningConfig":{"type":"enabled","maxReasoningEffort":"medium"}}`},
		{model, func(r *infer.Request) {
			r.Format = infer.Format{Kind: infer.FormatJSONSchema, Name: "n", Schema: json.RawMessage(`{"type":"object"}`)}
		},
			"outputConfig", `{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"schema":"{\"type\":\"object\"}","name":"n"}}}}`},
		{model, func(r *infer.Request) { r.Format.Kind = infer.FormatJSONObject }, "system.0.text", `"` + jsonWords + `"`},
		{model, func(r *infer.Request) { r.Hints.ServiceTier = "standard_only" }, "serviceTier", `{"type":"default"}`},
		{model, func(r *infer.Request) { r.Hints.ServiceTier = "auto" }, "serviceTier", ``},
		{model, func(r *infer.Request) { r.Tools = []infer.Tool{{Name: "a"}}; r.ToolChoice.Mode = "required" }, "toolConfig.toolChoice", `{"any":{}}`},
		{model, func(r *infer.Request) {
			r.Tools = []infer.Tool{{Name: "a"}}
			r.ToolChoice = infer.ToolChoice{Mode: "function", Name: "a"}
		}, "toolConfig.toolChoice", `{"tool":{"name":"a"}}`},
		{model, func(r *infer.Request) { r.Tools = []infer.Tool{{Name: "a"}}; r.ToolChoice.Mode = "none" }, "toolConfig", ``},
		{model, func(r *infer.Request) {
			r.Tools = []infer.Tool{{Name: "a"}, {Name: "b"}}
			r.ToolChoice.Allowed = []string{"b"}
		}, "toolConfig.tools", `[{"toolSpec":{"name":"b","inputSchema":{"json":{"type":"object","properties":{}}}}}]`},
		{model, func(r *infer.Request) { r.Tools = []infer.Tool{{Name: "a"}}; r.ParallelToolCalls = false }, "system", `[{"text":"` + serialWords + `"}]`},
		// Calls in the conversation demand toolConfig.
		{model, func(r *infer.Request) {
			r.Messages = append(r.Messages, infer.Message{Role: infer.RoleAssistant, ToolCalls: []infer.ToolCall{{ID: "1", Name: "z"}}}, infer.Message{Role: infer.RoleTool, ToolCallID: "1"})
		},
			"toolConfig", `{"tools":[{"toolSpec":{"name":"z","inputSchema":{"json":{"type":"object","properties":{}}}}}]}`},
		// A conversation begins with the user, and the system prompt alone is a question.
		{model, func(r *infer.Request) { r.Messages[0].Role = infer.RoleAssistant }, "messages.0.role", `"user"`},
		{model, func(r *infer.Request) { r.Messages[0].Role = infer.RoleSystem }, "messages", `[{"role":"user","content":[{"text":"Hi"}]}]`},
		{model, func(r *infer.Request) {
			r.ContinueFinalMessage = true
			r.Messages = append(r.Messages, infer.Message{Role: infer.RoleAssistant, Content: words("Well \n\\n \t\n")})
		}, "messages.1.content", `[{"text":"Well \n\\n"}]`},
		{model, func(r *infer.Request) {
			r.Messages[0].Content = []infer.Part{{Type: "file", Data: []byte("x"), MIME: "text/plain"}}
		}, "messages.0.content.1", `{"text":"(See the document.)"}`},
	} {
		r := base()
		c.set(r)
		wants(t, encodeMap(t, r, c.model), c.at, c.want)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, set := range map[string]func(*infer.Request){
		"prompt":      func(r *infer.Request) { r.Kind = infer.Completion },
		"temperature": func(r *infer.Request) { r.Sampling.Temperature = 1.5 },
		"messages":    func(r *infer.Request) { r.Messages = nil },
		"messages[0].content[0].image": func(r *infer.Request) {
			r.Messages[0].Content = []infer.Part{{Type: "image", Data: []byte("x"), MIME: "image/tiff"}}
		},
		"messages[0].content[0].file": func(r *infer.Request) {
			r.Messages[0].Content = []infer.Part{{Type: "file", Data: []byte("x"), MIME: "application/zip", Name: "x.zip"}}
		},
	} {
		r := infer.NewRequest()
		r.Messages = []infer.Message{{Role: infer.RoleUser, Content: words("Hi")}}
		set(r)
		if _, err := (Client{}).EncodeRequest(r, wire.Target{Model: model}); err == nil || infer.AsError(err).Param != name {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestPathAndNative(t *testing.T) {
	r := infer.NewRequest()
	r.Stream = true
	r.Wire = &infer.Wire{Dialect: Name, Body: []byte(`{"messages": [],"x":1.50}`), Set: map[string]json.RawMessage{"x": json.RawMessage("2")}}
	o, err := Client{}.EncodeRequest(r, wire.Target{Model: "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.a-v1:0"})
	if err != nil || o.Path != "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Feu.a-v1%3A0/converse-stream" || !o.Native || string(o.Body) != `{"messages": [],"x":2}` {
		t.Errorf("got %+v, %v, body %s", o, err, o.Body)
	}
}

func TestClasses(t *testing.T) {
	for _, f := range infer.Features {
		if _, ok := classes[f]; !ok {
			t.Errorf("%s has no class", f)
		}
	}
	if len(classes) != len(infer.Features) {
		t.Errorf("%d classes for %d features", len(classes), len(infer.Features))
	}
}

// told is what events say, in short.
func told(events []infer.Event) string {
	var b strings.Builder
	for _, ev := range events {
		switch ev.Kind {
		case infer.EventText:
			b.WriteString("T:" + ev.Text + " ")
		case infer.EventReasoning:
			b.WriteString("R:" + ev.Text + "/" + ev.Signature + "/" + ev.Redacted + " ")
		case infer.EventTool:
			b.WriteString("C:" + ev.Tool.ID + "/" + ev.Tool.Name + "/" + ev.Tool.Arguments + " ")
		case infer.EventFinish:
			b.WriteString("F:" + string(ev.Finish) + " ")
		case infer.EventUsage:
			u, _ := json.Marshal(ev.Usage)
			b.Write(u)
		}
	}
	return b.String()
}

const usageOut = `{"PromptTokens":160,"CachedTokens":100,"CacheWriteTokens":50,"CompletionTokens":7,"ReasoningTokens":0,"CacheWriteHourTokens":20,"Estimated":false}`

const usageIn = `{"inputTokens":10,"outputTokens":7,"totalTokens":167,"cacheReadInputTokens":100,"cacheWriteInputTokens":50,"cacheDetails":[{"ttl":"1h","inputTokens":20},{"ttl":"5m","inputTokens":30}]}`

func TestAnswer(t *testing.T) {
	body := `{"metrics":{"latencyMs":5},"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm","signature":"s"}}},
		{"reasoningContent":{"redactedContent":"x"}},{"text":"Hi ☃"},{"toolUse":{"toolUseId":"t1","name":"look","input":{"a": [1]}}},{"toolUse":{"toolUseId":"t2","name":"go","input":{}}},
		{"citationsContent":{"content":[{"text":"cited"}],"citations":[{}]}},{"future":{}}]}},"stopReason":"tool_use","usage":` + usageIn + `}`
	events, err := Client{}.DecodeAnswer(infer.NewRequest(), &wire.Outgoing{}, []byte(body))
	want := `R:hm/s/ R://x T:Hi ☃ C:t1/look/ C://{"a": [1]} C:t2/go/ C://{} T:cited F:tool_calls ` + usageOut
	if err != nil || told(events) != want {
		t.Errorf("got %s, %v\nwant %s", told(events), err, want)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"output":{"message":{"content":[]}}}`, `{"stopReason":"end_turn"}`, `{"output":{"message":{"content":[]}},"stopReason":"end_turn"`,
		`{"output":{"message":{"content":[]}},"stopReason":"malformed_tool_use"}`, `{"output":{"message":{"content":[{"toolUse":{"name":"x"}}]}},"stopReason":"tool_use"}`} {
		if _, err := (Client{}).DecodeAnswer(infer.NewRequest(), &wire.Outgoing{}, []byte(bad)); err == nil || infer.AsError(err).Upstream.Class != infer.FailMalformed {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}

// frame is one event of a stream: its name, a space, its payload.
func run(frames []string, native bool) ([]infer.Event, error) {
	d := Client{}.NewDecoder(infer.NewRequest(), &wire.Outgoing{Native: native, Stream: true})
	var out []infer.Event
	for _, f := range frames {
		name, data, _ := strings.Cut(f, " ")
		var err error
		if out, err = d.Frame(out, name, []byte(data)); err != nil {
			return out, err
		}
	}
	return d.End(out)
}

var goodStream = []string{
	`messageStart {"role":"assistant"}`,
	`contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"hm"}}}`,
	`contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"s"}}}`,
	`contentBlockStop {"contentBlockIndex":0}`,
	`contentBlockDelta {"contentBlockIndex":1,"delta":{"text":"Hi "},"p":"abcd"}`,
	`contentBlockDelta {"contentBlockIndex":1,"delta":{"text":"you"}}`,
	`contentBlockStop {"contentBlockIndex":1}`,
	`contentBlockStart {"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"t1","name":"look"}}}`,
	`contentBlockDelta {"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"a\":"}}}`,
	`contentBlockDelta {"contentBlockIndex":2,"delta":{"toolUse":{"input":"1}"}}}`,
	`contentBlockStop {"contentBlockIndex":2}`,
	`contentBlockStart {"contentBlockIndex":3,"start":{"toolUse":{"toolUseId":"t2","name":"go"}}}`,
	`contentBlockStop {"contentBlockIndex":3}`,
	`somethingNew {"x":1}`,
	`messageStop {"stopReason":"tool_use"}`,
	`metadata {"usage":` + usageIn + `,"metrics":{"latencyMs":1}}`,
}

func TestStream(t *testing.T) {
	events, err := run(goodStream, false)
	want := `R:hm// R:/s/ T:Hi  T:you C:t1/look/ C://{"a": C://1} C:t2/go/ C://{} F:tool_calls ` + usageOut
	if err != nil || told(events) != want {
		t.Errorf("got %s, %v\nwant %s", told(events), err, want)
	}
	events, err = run(goodStream, true)
	if err != nil {
		t.Fatal(err)
	}
	var frames []string
	for _, ev := range events {
		if ev.Frame != nil {
			frames = append(frames, ev.Frame.Event+" "+string(ev.Frame.Data))
		}
	}
	if !reflect.DeepEqual(frames, goodStream) || events[len(events)-1].Kind != infer.EventUsage || events[len(events)-1].Frame == nil {
		t.Errorf("frames: got %q", frames)
	}
	// Without metadata the usage is estimated.
	events, err = run(goodStream[:len(goodStream)-1], false)
	if err != nil || !events[len(events)-1].Usage.Estimated {
		t.Errorf("without metadata: got %v, %v", told(events), err)
	}
}

func TestStreamFailures(t *testing.T) {
	for i := range goodStream[:len(goodStream)-2] {
		if _, err := run(goodStream[:i], false); err == nil || infer.AsError(err).Upstream.Class != infer.FailLost {
			t.Errorf("cut after %d: got %v", i, err)
		}
	}
	for frame, class := range map[string]infer.FailureClass{
		`throttlingException {"message":"Too many"}`:                         infer.FailRateLimit,
		`modelStreamErrorException {"message":"x","originalStatusCode":500}`: infer.FailServer,
		`internalServerException {"message":"x"}`:                            infer.FailServer,
		`serviceUnavailableException {}`:                                     infer.FailOverload,
		`validationException {"message":"bad"}`:                              infer.FailRequest,
		`modelTimeoutException {}`:                                           infer.FailTimeout,
		`futureException {}`:                                                 infer.FailServer,
		`error `:                                                             infer.FailServer,
		`messageStop {}`:                                                     infer.FailMalformed,
		`messageStop {"stopReason":"malformed_model_output"}`:                infer.FailMalformed,
		`contentBlockDelta <html>`:                                           infer.FailMalformed,
		`contentBlockStart {"start":{"toolUse":{}}}`:                         infer.FailMalformed,
	} {
		_, err := run([]string{goodStream[0], frame}, false)
		if e := infer.AsError(err); err == nil || e.Upstream == nil || e.Upstream.Class != class || e.Upstream.Unsent {
			t.Errorf("%s: got %+v", frame, e)
		}
	}
}

func TestDecodeError(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   string
		body   string
		class  infer.FailureClass
		code   infer.Code
	}{
		{400, "ValidationException:http://internal.amazon.com/", `{"message":"Input is too long for requested model."}`, infer.FailRequest, infer.CodeContextLength},
		{400, "ValidationException", `{"message":"The field x is wrong"}`, infer.FailRequest, infer.CodeInvalid},
		{403, "AccessDeniedException", `{"Message":"no access AKIDEXAMPLE"}`, infer.FailAuth, infer.CodeUpstream},
		{400, "ExpiredTokenException", `{"message":"expired"}`, infer.FailAuth, infer.CodeUpstream},
		{403, "", `{"__type":"com.amazon.coral.service#UnrecognizedClientException","message":"x"}`, infer.FailAuth, infer.CodeUpstream},
		{429, "ThrottlingException", `{"message":"slow"}`, infer.FailRateLimit, infer.CodeRateLimited},
		{429, "ModelNotReadyException", `{}`, infer.FailOverload, infer.CodeOverloaded},
		{408, "ModelTimeoutException", `{}`, infer.FailTimeout, infer.CodeTimeout},
		{424, "ModelErrorException", `{}`, infer.FailServer, infer.CodeUpstream},
		{503, "", `<html>`, infer.FailOverload, infer.CodeOverloaded},
	} {
		e := Client{}.DecodeError(c.status, http.Header{"X-Amzn-Errortype": {c.kind}, "X-Amzn-Requestid": {"r9"}}, []byte(c.body))
		if e.Upstream.Class != c.class || e.Code != c.code || e.Upstream.Status != c.status || e.Upstream.RequestID != "r9" || strings.Contains(e.Message, "AKID") {
			t.Errorf("%d %s %s: got %+v %+v", c.status, c.kind, c.body, e, e.Upstream)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range goodStream {
		name, data, _ := strings.Cut(s, " ")
		f.Add(name, []byte(data))
	}
	f.Add("answer", []byte(`{"output":{"message":{"content":[{"text":"x"}]}},"stopReason":"end_turn","usage":`+usageIn+`}`))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		c, o, r := Client{}, &wire.Outgoing{}, infer.NewRequest()
		c.DecodeAnswer(r, o, data)
		if e := c.DecodeError(500, nil, data); e == nil || e.Upstream == nil {
			t.Fatal("an error without a fault")
		}
		d := c.NewDecoder(r, o)
		ev, err := d.Frame(nil, name, data)
		if err != nil && infer.AsError(err).Upstream == nil {
			t.Fatalf("%v", err)
		}
		d.Frame(ev, "messageStop", []byte(`{"stopReason":"end_turn"}`))
		d.Frame(ev, "metadata", data)
		d.End(nil)
	})
}

// FuzzEncode holds that whatever text a conversation has, the body is JSON.
func FuzzEncode(f *testing.F) {
	f.Add("Hi \n\t", "call\\", `{"a":1}`, "n.pdf")
	f.Fuzz(func(t *testing.T, text, id, args, name string) {
		r := infer.NewRequest()
		r.ContinueFinalMessage = true
		r.Messages = []infer.Message{
			{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: text}, {Type: "file", Data: []byte(args), MIME: "text/plain", Name: name}}},
			{Role: infer.RoleAssistant, ToolCalls: []infer.ToolCall{{ID: id, Name: name, Arguments: args}}},
			{Role: infer.RoleTool, ToolCallID: id, Content: words(text)},
			{Role: infer.RoleAssistant, Content: words(text)},
		}
		o, err := Client{}.EncodeRequest(r, wire.Target{Model: model})
		if err == nil && !json.Valid(o.Body) {
			t.Fatalf("no JSON: %q", o.Body)
		}
	})
}

func TestBudgeted(t *testing.T) {
	for name, want := range map[string]bool{
		"eu.anthropic.claude-3-7-sonnet-20250219-v1:0": true, "anthropic.claude-opus-4-20250514-v1:0": true, "anthropic.claude-opus-4-1-20250805-v1:0": true,
		model: true, "anthropic.claude-haiku-4-5-20251001-v1:0": true, "anthropic.claude-instant-v1": true, "anthropic.claude-v2:1": true,
		"anthropic.claude-opus-4-6-v1": false, "global.anthropic.claude-sonnet-5-v1:0": false, "anthropic.claude-opus-5-1-20270101-v1:0": false, "amazon.nova-pro-v1:0": false,
	} {
		if budgeted(name) != want {
			t.Errorf("%s: got %v", name, !want)
		}
	}
}

// TestBudgetLosses holds that no budget is changed or left out without a word.
func TestBudgetLosses(t *testing.T) {
	for _, c := range []struct {
		budget, limit int
		effort        string
		sent          string
		want          infer.Class
	}{
		{2000, 9000, "", `2000`, ""}, {2000, 0, "", `2000`, ""}, {500, 9000, "", `1024`, infer.Emulated}, {9000, 2000, "", `1999`, infer.Emulated},
		{2000, 1024, "", ``, infer.Dropped}, {0, 1024, "low", ``, infer.Dropped}, {0, 2000, "low", `1999`, ""}, {0, 10, "", ``, ""},
	} {
		r := infer.NewRequest()
		r.Messages = []infer.Message{{Role: infer.RoleUser, Content: words("Hi")}}
		r.Thinking, r.Sampling.MaxTokens = infer.Thinking{Budget: c.budget, Effort: c.effort}, c.limit
		if r.Uses = []infer.Use{{Feature: infer.FeatureReasoningBudget, Path: "b"}}; c.effort != "" {
			r.Uses[0].Feature = infer.FeatureReasoningEffort
		}
		wants(t, encodeMap(t, r, model), "additionalModelRequestFields.thinking.budget_tokens", c.sent)
		var got infer.Class
		if l := (Client{}).ValueLosses(r, wire.Target{Model: model}); len(l) == 1 && l[0].Path == "b" {
			got = l[0].Class
		}
		if got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
