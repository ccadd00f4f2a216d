package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// TestSplice holds that every byte that is not replaced stays.
func TestSplice(t *testing.T) {
	set := []member{{"model", []byte(`"up"`)}, {"seed", []byte(`7`)}}
	for in, want := range map[string]string{
		`{"model":"m","seed":9007199254740993,"t":1.0,"stop":null,"x":0.12345678901234567890}`: `{"model":"up","seed":7,"t":1.0,"stop":null,"x":0.12345678901234567890}`,
		` { "model" : "m" } `:          ` { "model" : "up" ,"seed":7} `,
		`{}`:                           `{"model":"up","seed":7}`,
		`{"a":{"model":"m"}}`:          `{"a":{"model":"m"},"model":"up","seed":7}`,
		`{"mod\u0065l":"m","seed":{}}`: `{"mod\u0065l":"up","seed":7}`,
		`{"model":"m","model":"n"}`:    `{"model":"up","model":"up","seed":7}`,
		`{"s":"}{\"model\":1","seed":[1,{"model":2}]}`: `{"s":"}{\"model\":1","seed":7,"model":"up"}`,
	} {
		got, ok := splice([]byte(in), set)
		if !ok || string(got) != want {
			t.Errorf("%s: got %s", in, got)
		}
	}
	for _, in := range []string{``, `[]`, `null`, `{"a":}`, `{`, `{} {}`} {
		if got, ok := splice([]byte(in), set); ok {
			t.Errorf("%s: got %s", in, got)
		}
	}
}

func FuzzSplice(f *testing.F) {
	f.Add([]byte(`{"model":"m","a":[1,2.50,{"model":null}],"mod\u0065l":3}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		out, ok := splice(in, []member{{"model", []byte(`"up"`)}})
		if !json.Valid(in) {
			return
		}
		var was, is map[string]json.RawMessage
		if json.Unmarshal(in, &was) != nil || was == nil {
			return
		}
		if !ok || json.Unmarshal(out, &is) != nil || string(is["model"]) != `"up"` {
			t.Fatalf("%q: got %q", in, out)
		}
		for k, v := range was {
			if k != "model" && string(is[k]) != string(v) {
				t.Fatalf("%q: %q has become %q", in, v, is[k])
			}
		}
	})
}

func TestNativeRequest(t *testing.T) {
	encode := func(body string, set map[string]json.RawMessage, profile string) *wire.Outgoing {
		t.Helper()
		r, o, err := Chat{}.DecodeRequest(nil, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Stream, r.Wire.Set = o.Stream, set
		out, err := NewChatClient(profile).EncodeRequest(r, wire.Target{Model: "up", MaxOutput: 77}) // which a chat need not name
		if err != nil {
			t.Fatal(err)
		}
		if !out.Native || out.Path != "/chat/completions" {
			t.Errorf("got %+v", out)
		}
		return out
	}
	msgs := `"messages":[{"role":"user","content":"é\u00e9","x":1.50}]`
	for _, c := range []struct {
		body, want string
		usage      bool
	}{
		{`{"model":"m",` + msgs + `,"x_future":[1, null],"seed":9007199254740993}`, `{"model":"up",` + msgs + `,"x_future":[1, null],"seed":9007199254740993}`, false},
		{`{"model":"m",` + msgs + `,"stream":true}`, `{"model":"up",` + msgs + `,"stream":true,"stream_options":{"include_usage":true}}`, true},
		{`{"model":"m","stream":true,"stream_options":null,` + msgs + `}`, `{"model":"up","stream":true,"stream_options":{"include_usage":true},` + msgs + `}`, true},
		{`{"model":"m","stream":true,"stream_options":{"x":1,"include_usage":false},` + msgs + `}`, `{"model":"up","stream":true,"stream_options":{"x":1,"include_usage":true},` + msgs + `}`, true},
		{`{"model":"m","stream":true,"stream_options":{ "include_usage":true },` + msgs + `}`, `{"model":"up","stream":true,"stream_options":{ "include_usage":true },` + msgs + `}`, false},
	} {
		out := encode(c.body, nil, "")
		if string(out.Body) != c.want || out.Usage != c.usage {
			t.Errorf("%s:\ngot  %s\nwant %s", c.body, out.Body, c.want)
		}
	}
	out := encode(`{"model":"m","max_tokens":99999,`+msgs+`}`, map[string]json.RawMessage{"max_tokens": json.RawMessage("16")}, "")
	if want := `{"model":"up","max_tokens":16,` + msgs + `}`; string(out.Body) != want {
		t.Errorf("got %s", out.Body)
	}
	if _, err := NewChatClient("").EncodeRequest(&infer.Request{Kind: infer.Completion}, wire.Target{}); err == nil {
		t.Error("a prompt was sent to the chat route")
	}
}

// full is a request that asks for as much as another dialect can.
func full() *infer.Request {
	r := infer.NewRequest()
	r.Model, r.Stream = "m", true
	text := func(s string) []infer.Part { return []infer.Part{{Type: "text", Text: s}} }
	r.Messages = []infer.Message{
		{Role: infer.RoleDeveloper, Content: text("be short")},
		{Role: infer.RoleUser, Name: "ann", Content: []infer.Part{{Type: "text", Text: "look", Cache: "5m"}, {Type: "image", URL: "https://a/b.png", Detail: "low"}, {Type: "image", MIME: "image/png", Data: []byte("hi")}, {Type: "file", MIME: "application/pdf", Data: []byte("pdf"), Name: "a.pdf"}, {Type: "audio", MIME: "audio/mpeg", Data: []byte("mp")}}},
		{Role: infer.RoleAssistant, Thoughts: []infer.Thought{{Text: "hmm", Signature: "SIGNED"}}, ToolCalls: []infer.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a":1}`}, {ID: "c2", Name: "g"}}},
		{Role: infer.RoleTool, ToolCallID: "c1", Content: []infer.Part{{Type: "text", Text: "sun"}, {Type: "image", MIME: "image/png", Data: []byte("im")}}},
		{Role: infer.RoleTool, ToolCallID: "c2", ToolError: true, Content: text("boom")},
		{Role: infer.RoleUser, Content: text("and?")},
	}
	r.Tools = []infer.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`), Strict: true, Cache: "5m"}, {Name: "g"}}
	r.ToolChoice, r.ParallelToolCalls = infer.ToolChoice{Mode: "function", Name: "g"}, false
	seed := int64(9007199254740993)
	r.Sampling = infer.Sampling{N: 2, MaxTokens: 64, Temperature: 0, TopK: 40, TopP: 0.9, MinP: 0.1, FrequencyPenalty: 0.5, PresencePenalty: -0.5, RepetitionPenalty: 1.1, LogitBias: map[int32]float64{7: 1, 5: -100}, Seed: &seed, Stop: []string{"END"}, Logprobs: true, TopLogprobs: 3}
	r.Format = infer.Format{Kind: infer.FormatJSONSchema, Name: "a", Schema: json.RawMessage(`{"type":"object"}`), Strict: true}
	r.Thinking = infer.Thinking{Switch: "on", Budget: 2048}
	r.Hints = infer.Hints{User: "u1", Metadata: json.RawMessage(`{"k":"v"}`), ServiceTier: "flex", CacheKey: "ck", Verbosity: "low"}
	return r
}

// TestTypedRequests holds, for each kind of server, the body of one request that
// asks for everything. What the profile drops is not in it.
func TestTypedRequests(t *testing.T) {
	var all strings.Builder
	for _, name := range Profiles() {
		out, err := NewChatClient(name).EncodeRequest(full(), wire.Target{Model: "gpt-5-up"})
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(out.Body) || out.Native || !out.Usage {
			t.Errorf("%s: got %s", name, out.Body)
		}
		if strings.Contains(string(out.Body), "SIGNED") || strings.Contains(strings.ReplaceAll(string(out.Body), `"content":null`, ""), "null") {
			t.Errorf("%s: a seal of another provider, or null for what is absent: %s", name, out.Body)
		}
		all.WriteString(name + "\n" + strings.ReplaceAll(string(out.Body), `},{"role"`, "},\n  {\"role\"") + "\n\n")
	}
	golden(t, "requests.txt", []byte(all.String()))
}

// TestTextDocument holds that a document of text is sent as text, which every
// server takes, and one of another kind as a file.
func TestTextDocument(t *testing.T) {
	r := infer.NewRequest()
	r.Messages = []infer.Message{{Role: infer.RoleUser, Content: []infer.Part{
		{Type: "file", MIME: "text/plain", Name: "Notes", Data: []byte("a \"b\"")}, {Type: "file", MIME: "text/csv", Data: []byte("1,2")},
		{Type: "file", MIME: "text/plain", Data: []byte("\xff")}, {Type: "file", MIME: "application/pdf", Data: []byte("pdf")}}}}
	out, err := NewChatClient("").EncodeRequest(r, wire.Target{Model: "up"})
	want := `"content":[{"type":"text","text":"Notes\n\na \"b\""},{"type":"text","text":"1,2"},` +
		`{"type":"file","file":{"filename":"file","file_data":"data:text/plain;base64,/w=="}},{"type":"file","file":{"filename":"file.pdf","file_data":"data:application/pdf;base64,cGRm"}}]`
	if err != nil || !strings.Contains(string(out.Body), want) {
		t.Errorf("got %s, %v", out.Body, err)
	}
}

// TestProfiles holds the table of servers: every feature that is sent beyond
// OpenAI's has a class that says so, and every departure its reason and source.
func TestProfiles(t *testing.T) {
	seen := map[string]bool{}
	for i := range profiles {
		p := &profiles[i]
		if seen[p.name] || p.about == "" || p.limit == "" || p.developer == "" {
			t.Errorf("%s: twice, or not described", p.name)
		}
		seen[p.name] = true
		if len(p.departures) == 0 {
			t.Errorf("%s: no departures are written down", p.name)
		}
		for _, d := range p.departures {
			if d.Fact == "" || d.Done == "" || d.Source == "" {
				t.Errorf("%s: half a departure: %+v", p.name, d)
			}
		}
		for f := range p.extra {
			if p.class(f) == infer.Dropped {
				t.Errorf("%s: %s is sent and classed as dropped", p.name, f)
			}
		}
		for _, f := range infer.Features {
			switch c := p.class(f); c {
			case infer.Carried, infer.Transformed, infer.Emulated, infer.Dropped:
			default:
				t.Errorf("%s: %s is classed as %q", p.name, f, c)
			}
		}
	}
	for _, name := range []string{"openai", "openai-compatible", "azure", "vllm", "sglang", "tgi", "tensorrt-llm", "llamacpp", "ollama", "openrouter", "litellm"} {
		if !seen[name] {
			t.Errorf("no profile %s", name)
		}
	}
}

// TestClassesAreKept asks for one feature at a time and holds that what is
// classed as carried is in the body, and what is dropped is not.
func TestClassesAreKept(t *testing.T) {
	seed := int64(7)
	for f, c := range map[infer.Feature]struct {
		set  func(r *infer.Request)
		mark string
	}{
		infer.FeatureTopK:              {func(r *infer.Request) { r.Sampling.TopK = 41 }, `:41`},
		infer.FeatureMinP:              {func(r *infer.Request) { r.Sampling.MinP = 0.125 }, `:0.125`},
		infer.FeatureRepetitionPenalty: {func(r *infer.Request) { r.Sampling.RepetitionPenalty = 1.25 }, `:1.25`},
		infer.FeatureMinTokens:         {func(r *infer.Request) { r.Sampling.MinTokens = 43 }, `:43`},
		infer.FeatureStopTokens:        {func(r *infer.Request) { r.Sampling.StopTokenIDs = []int32{99} }, `[99]`},
		infer.FeatureIgnoreEOS:         {func(r *infer.Request) { r.Sampling.IgnoreEOS = true }, `"ignore_eos":true`},
		infer.FeatureLogitBias:         {func(r *infer.Request) { r.Sampling.LogitBias = map[int32]float64{5: 1} }, `"logit_bias"`},
		infer.FeatureSeed:              {func(r *infer.Request) { r.Sampling.Seed = &seed }, `"seed":7`},
		infer.FeatureChoices:           {func(r *infer.Request) { r.Sampling.N = 3 }, `"n":3`},
		infer.FeatureRegex:             {func(r *infer.Request) { r.Format = infer.Format{Kind: infer.FormatRegex, Pattern: "[a-z]"} }, `[a-z]`},
		infer.FeatureGrammar:           {func(r *infer.Request) { r.Format = infer.Format{Kind: infer.FormatGrammar, Grammar: "root"} }, `"root"`},
		infer.FeatureChoice:            {func(r *infer.Request) { r.Format = infer.Format{Kind: infer.FormatChoice, Choices: []string{"yes"}} }, `"yes"`},
		infer.FeatureJSONObject:        {func(r *infer.Request) { r.Format.Kind = infer.FormatJSONObject }, `json_object`},
		infer.FeatureUser:              {func(r *infer.Request) { r.Hints.User = "somebody" }, `somebody`},
		infer.FeatureMetadata:          {func(r *infer.Request) { r.Hints.Metadata = json.RawMessage(`{"k":"label"}`) }, `label`},
		infer.FeatureServiceTier:       {func(r *infer.Request) { r.Hints.ServiceTier = "flex" }, `flex`},
		infer.FeatureVerbosity:         {func(r *infer.Request) { r.Hints.Verbosity = "low" }, `"verbosity"`},
		infer.FeatureCacheKey:          {func(r *infer.Request) { r.Hints.CacheKey = "ck1" }, `ck1`},
		infer.FeatureReasoningEffort:   {func(r *infer.Request) { r.Thinking.Effort = "high" }, `"high"`},
		infer.FeatureReasoningBudget:   {func(r *infer.Request) { r.Thinking.Budget = 2048 }, `e`},
		infer.FeatureToolStrict:        {func(r *infer.Request) { r.Tools = []infer.Tool{{Name: "f", Strict: true}} }, `"strict":true`},
		infer.FeatureToolSerial:        {func(r *infer.Request) { r.Tools, r.ParallelToolCalls = []infer.Tool{{Name: "f"}}, false }, `"parallel_tool_calls":false`},
		infer.FeatureToolRequired:      {func(r *infer.Request) { r.Tools, r.ToolChoice.Mode = []infer.Tool{{Name: "f"}}, "required" }, `"required"`},
		infer.FeatureToolNamed: {func(r *infer.Request) {
			r.Tools, r.ToolChoice = []infer.Tool{{Name: "f"}}, infer.ToolChoice{Mode: "function", Name: "f"}
		}, `"tool_choice"`},
		infer.FeatureTemplateArgs: {func(r *infer.Request) { r.TemplateArgs = map[string]json.RawMessage{"t1": json.RawMessage("1")} }, `"t1":1`},
		infer.FeatureThought: {func(r *infer.Request) {
			r.Messages = append(r.Messages, infer.Message{Role: infer.RoleAssistant, Reasoning: "thought so"})
		}, `thought so`},
		infer.FeatureCacheBreakpoint: {func(r *infer.Request) { r.Messages[0].Content[0].Cache = "1h" }, `"cache_control"`},
		infer.FeatureMessageName:     {func(r *infer.Request) { r.Messages[0].Name = "ann" }, `"name":"ann"`},
		infer.FeatureImageDetail: {func(r *infer.Request) {
			r.Messages[0].Content = []infer.Part{{Type: "image", URL: "https://a", Detail: "low"}}
		}, `"detail":"low"`},
		infer.FeaturePrefill: {func(r *infer.Request) {
			r.ContinueFinalMessage, r.AddGenerationPrompt = true, false
			r.Messages = append(r.Messages, infer.Message{Role: infer.RoleAssistant, Content: []infer.Part{{Type: "text", Text: "So"}}})
		}, `"continue_final_message":true`},
	} {
		for _, name := range Profiles() {
			r := asked(false)
			c.set(r)
			client := NewChatClient(name)
			out, err := client.EncodeRequest(r, wire.Target{Model: "o3-up"})
			if err != nil {
				t.Errorf("%s %s: %v", name, f, err)
				continue
			}
			there := strings.Contains(strings.ReplaceAll(string(out.Body), `"reasoning_effort":"low"`, `e`), c.mark)
			if f == infer.FeatureReasoningBudget {
				there = strings.Contains(string(out.Body), "reasoning") || strings.Contains(string(out.Body), "thinking")
			}
			if class := client.Class(f); there != (class != infer.Dropped) {
				t.Errorf("%s: %s is classed as %s: %s", name, f, class, out.Body)
			}
		}
	}
}

// TestBudgetOfReasoning holds which models are asked for an effort in place of a
// budget.
func TestBudgetOfReasoning(t *testing.T) {
	for model, want := range map[string]bool{"gpt-5.1": true, "o3": true, "o4-mini": true, "prod-o3-mini": true, "gpt-4o": false, "gpt-4.1": false, "foo3": false, "chatgpt-4o-latest": false} {
		r := asked(false)
		r.Thinking = infer.Thinking{Switch: "on", Budget: 8000}
		out, err := NewChatClient("azure").EncodeRequest(r, wire.Target{Model: model})
		if got := strings.Contains(string(out.Body), `"reasoning_effort":"medium"`); err != nil || got != want {
			t.Errorf("%s: got %s, %v", model, out.Body, err)
		}
		r.Thinking = infer.Thinking{Effort: "high"}
		if out, _ = NewChatClient("azure").EncodeRequest(r, wire.Target{Model: model}); !strings.Contains(string(out.Body), `"reasoning_effort":"high"`) {
			t.Errorf("%s: an effort that was asked for is not sent: %s", model, out.Body)
		}
	}
}

func TestCompletionsAndEmbeddings(t *testing.T) {
	r := infer.NewRequest()
	r.Kind, r.Model, r.Prompts, r.Suffix = infer.Completion, "m", []infer.Prompt{{Text: "a"}, {Tokens: []int32{5, 6}}}, "z"
	r.Sampling.MaxTokens, r.Sampling.Logprobs, r.Sampling.TopLogprobs = 16, true, 2
	out, err := NewCompletionsClient("vllm").EncodeRequest(r, wire.Target{Model: "up"})
	if want := `{"model":"up","prompt":["a",[5,6]],"suffix":"z","max_tokens":16,"logprobs":2}`; err != nil || string(out.Body) != want || out.Path != "/completions" {
		t.Errorf("got %s, %v", out.Body, err)
	}
	evs, err := NewCompletionsClient("").DecodeAnswer(r, out, []byte(`{"model":"up","choices":[{"index":0,"text":"b","logprobs":{"tokens":["b"],"token_logprobs":[-0.5],"text_offset":[0]},"finish_reason":"length"},{"index":1,"text":"c","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`))
	if got := brief(evs); err != nil || got != "start(up) text(b) 1:text(c) finish(length) 1:finish(stop) usage(3 0 0 2 0)" || evs[1].Logprobs[0].Logprob != -0.5 {
		t.Errorf("got %s, %v", got, err)
	}
	scored, o, err := Completion{}.DecodeRequest(nil, []byte(`{"model":"m","prompt":"a","echo":true,"logprobs":1,"max_tokens":0}`))
	if err != nil || scored.Sampling.MaxTokens >= 0 || o.Stream {
		t.Errorf("got %+v, %v", scored, err)
	}
	if out, err = NewCompletionsClient("").EncodeRequest(scored, wire.Target{Model: "up"}); err != nil || string(out.Body) != `{"model":"up","prompt":"a","echo":true,"logprobs":1,"max_tokens":0}` {
		t.Errorf("got %s, %v", out.Body, err)
	}

	e := &infer.EmbedRequest{Model: "m", Inputs: []infer.Prompt{{Text: "a"}, {Text: "b"}}, Dimensions: 2}
	c := NewEmbeddingsClient("vllm")
	if out, err = c.EncodeEmbed(e, wire.Target{Model: "up"}); err != nil || string(out.Body) != `{"model":"up","input":["a","b"],"dimensions":2}` {
		t.Errorf("got %s, %v", out.Body, err)
	}
	res, err := c.DecodeEmbed(e, out, []byte(`{"object":"list","model":"up","data":[{"index":1,"embedding":"AACAPwAAAEA="},{"index":0,"embedding":[0.5,-1e-3]}],"usage":{"prompt_tokens":4,"total_tokens":4}}`))
	if err != nil || res.Vectors[0][0] != 0.5 || res.Vectors[1][1] != 2 || res.Usage.PromptTokens != 4 || res.Model != "up" {
		t.Errorf("got %+v, %v", res, err)
	}
	for _, body := range []string{`{}`, `{"data":[]}`, `{"data":[{"index":0,"embedding":[1]}]}`, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`, `{"data":[{"index":5,"embedding":[1]}]}`, `{"data":[{"embedding":["x"]},{"embedding":[1]}]}`, `{"data":[{"embedding":"AAA"},{"embedding":[1]}]}`, `<html>`, `{"error":"x"}`} {
		if res, err := c.DecodeEmbed(e, &wire.Outgoing{}, []byte(body)); err == nil || infer.AsError(err).Upstream == nil {
			t.Errorf("%s: got %+v, %v", body, res, err)
		}
	}
	body := `{"model":"m","input":"a","encoding_format":"base64","x":1.0}`
	native, eo, err := DecodeEmbed([]byte(body))
	if err != nil || len(native.Uses) != 1 || native.Uses[0] != (infer.Use{Feature: infer.FeatureUnknown, Path: "x", Why: `unknown field "x"`}) {
		t.Fatalf("got %+v, %v", native, err)
	}
	out, err = c.EncodeEmbed(native, wire.Target{Model: "up"})
	if err != nil || !out.Native || string(out.Body) != `{"model":"up","input":"a","encoding_format":"base64","x":1.0}` {
		t.Errorf("got %s, %v", out.Body, err)
	}
	answer := `{"data":[{"embedding":"AACAPw==","y":1.50}],"usage":{"prompt_tokens":1}}`
	if res, err = c.DecodeEmbed(native, out, []byte(answer)); err != nil || res.Usage.PromptTokens != 1 {
		t.Fatalf("got %+v, %v", res, err)
	}
	if got, err := EncodeEmbed(native, eo, res); err != nil || string(got) != answer {
		t.Errorf("got %s, %v", got, err)
	}
}
