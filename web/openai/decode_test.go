package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/wire"
)

const hi = `"model":"m","messages":[{"role":"user","content":"hi"}]`

func chat(t testing.TB, extra string) (*infer.Request, wire.Options, error) {
	t.Helper()
	body := "{" + hi + "}"
	if extra != "" {
		body = "{" + hi + "," + extra + "}"
	}
	return Chat{}.DecodeRequest(nil, []byte(body))
}

// TestChatAccepts decodes one field at a time and holds what came of it.
func TestChatAccepts(t *testing.T) {
	f := func(extra string, want any, got func(*infer.Request, wire.Options) any) {
		t.Helper()
		r, o, err := chat(t, extra)
		if err != nil {
			t.Errorf("%s: %v", extra, err)
			return
		}
		if g := got(r, o); !reflect.DeepEqual(g, want) {
			t.Errorf("%s: got %#v, want %#v", extra, g, want)
		}
	}
	type R = *infer.Request
	type O = wire.Options
	f(`"temperature":0`, 0.0, func(r R, _ O) any { return r.Sampling.Temperature })
	f(`"temperature":2`, 2.0, func(r R, _ O) any { return r.Sampling.Temperature })
	f(`"temperature":null`, 1.0, func(r R, _ O) any { return r.Sampling.Temperature })
	f(`"top_p":1e-9`, 1e-9, func(r R, _ O) any { return r.Sampling.TopP })
	f(`"top_p":1`, 1.0, func(r R, _ O) any { return r.Sampling.TopP })
	f(`"top_k":-1`, 0, func(r R, _ O) any { return r.Sampling.TopK })
	f(`"top_k":40`, 40, func(r R, _ O) any { return r.Sampling.TopK })
	f(`"min_p":0.05`, 0.05, func(r R, _ O) any { return r.Sampling.MinP })
	f(`"frequency_penalty":-2`, -2.0, func(r R, _ O) any { return r.Sampling.FrequencyPenalty })
	f(`"presence_penalty":2`, 2.0, func(r R, _ O) any { return r.Sampling.PresencePenalty })
	f(`"repetition_penalty":1.1`, 1.1, func(r R, _ O) any { return r.Sampling.RepetitionPenalty })
	f(`"n":128`, 128, func(r R, _ O) any { return r.Sampling.N })
	f(`"max_tokens":7`, 7, func(r R, _ O) any { return r.Sampling.MaxTokens })
	f(`"max_tokens":7.0`, 7, func(r R, _ O) any { return r.Sampling.MaxTokens })
	f(`"max_completion_tokens":7`, 7, func(r R, _ O) any { return r.Sampling.MaxTokens })
	f(`"max_completion_tokens":7,"max_tokens":7`, 7, func(r R, _ O) any { return r.Sampling.MaxTokens })
	f(`"max_completion_tokens":7,"max_tokens":null`, 7, func(r R, _ O) any { return r.Sampling.MaxTokens })
	f(`"n_predict":-1`, 0, func(r R, _ O) any { return r.Sampling.MaxTokens })
	f(`"min_tokens":3,"max_tokens":3`, 3, func(r R, _ O) any { return r.Sampling.MinTokens })
	f(`"seed":-9223372036854775808`, int64(-1<<63), func(r R, _ O) any { return *r.Sampling.Seed })
	f(`"seed":null`, true, func(r R, _ O) any { return r.Sampling.Seed == nil })
	f(`"stop":"a"`, []string{"a"}, func(r R, _ O) any { return r.Sampling.Stop })
	f(`"stop":["a","é"]`, []string{"a", "é"}, func(r R, _ O) any { return r.Sampling.Stop })
	f(`"stop":[]`, 0, func(r R, _ O) any { return len(r.Sampling.Stop) })
	f(`"stop_token_ids":[1,2]`, []int32{1, 2}, func(r R, _ O) any { return r.Sampling.StopTokenIDs })
	f(`"ignore_eos":true,"include_stop_str_in_output":true`, true, func(r R, _ O) any { return r.Sampling.IgnoreEOS && r.Sampling.IncludeStop })
	f(`"logit_bias":{"5":-100,"7":0.5}`, map[int32]float64{5: -100, 7: 0.5}, func(r R, _ O) any { return r.Sampling.LogitBias })
	f(`"logit_bias":{}`, 0, func(r R, _ O) any { return len(r.Sampling.LogitBias) })
	f(`"logprobs":true,"top_logprobs":20`, 20, func(r R, _ O) any { return r.Sampling.TopLogprobs })
	f(`"top_logprobs":3,"logprobs":true`, true, func(r R, _ O) any { return r.Sampling.Logprobs })
	f(`"logprobs":true`, 0, func(r R, _ O) any { return r.Sampling.TopLogprobs })
	f(`"logprobs":false,"top_logprobs":0`, false, func(r R, _ O) any { return r.Sampling.Logprobs })
	f(`"return_token_ids":true`, true, func(r R, _ O) any { return r.Sampling.ReturnTokenIDs })
	f(`"cache_salt":"x","priority":-3`, "x-3", func(r R, _ O) any { return fmt.Sprint(r.CacheSalt, r.Priority) })
	f(`"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}`, true, func(_ R, o O) any { return o.Stream && o.IncludeUsage && !o.Obfuscate })
	f(`"stream":false,"stream_options":null`, false, func(_ R, o O) any { return o.Stream })
	f(`"stream":false,"stream_options":{"include_usage":false}`, false, func(_ R, o O) any { return o.IncludeUsage })
	f(`"include_reasoning":false`, true, func(_ R, o O) any { return o.HideReasoning })
	f(`"chat_template_kwargs":{"enable_thinking":false}`, `{"enable_thinking":false}`, func(r R, _ O) any { b, _ := json.Marshal(r.TemplateArgs); return string(b) })
	f(`"reasoning_effort":"low"`, infer.Thinking{Effort: "low"}, func(r R, _ O) any { return r.Thinking })
	f(`"reasoning_effort":"none"`, infer.Thinking{Effort: "none"}, func(r R, _ O) any { return r.Thinking })
	f(`"enable_thinking":false`, infer.Thinking{Switch: "off"}, func(r R, _ O) any { return r.Thinking })
	f(`"thinking":{"type":"enabled","budget_tokens":2048}`, infer.Thinking{Switch: "on", Budget: 2048}, func(r R, _ O) any { return r.Thinking })
	f(`"reasoning":{"effort":"high","exclude":true}`, infer.Thinking{Effort: "high"}, func(r R, _ O) any { return r.Thinking })
	f(`"response_format":{"type":"text"}`, infer.FormatText, func(r R, _ O) any { return r.Format.Kind })
	f(`"response_format":{"type":"json_object"}`, infer.FormatJSONObject, func(r R, _ O) any { return r.Format.Kind })
	f(`"response_format":{"type":"json_object","schema":{"type":"array"}}`, `{"type":"array"}`, func(r R, _ O) any { return string(r.Format.Schema) })
	f(`"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":{"type":"object"}}}`, infer.Format{Kind: infer.FormatJSONSchema, Name: "a", Strict: true, Schema: json.RawMessage(`{"type":"object"}`)}, func(r R, _ O) any { return r.Format })
	f(`"response_format":{"type":"json_schema","json_schema":{"name":"a","description":"d","schema":{"type":"object"}}}`, `{"description":"d","type":"object"}`, func(r R, _ O) any { return string(r.Format.Schema) })
	f(`"response_format":{"type":"regex","regex":"a+"}`, "a+", func(r R, _ O) any { return r.Format.Pattern })
	f(`"response_format":{"type":"regex","pattern":"a+"}`, "a+", func(r R, _ O) any { return r.Format.Pattern })
	f(`"response_format":{"type":"grammar","grammar":"root ::= \"a\""}`, `root ::= "a"`, func(r R, _ O) any { return r.Format.Grammar })
	f(`"guided_json":{"type":"object"}`, infer.FormatJSONSchema, func(r R, _ O) any { return r.Format.Kind })
	f(`"guided_json":"{\"type\":\"object\"}"`, `{"type":"object"}`, func(r R, _ O) any { return string(r.Format.Schema) })
	f(`"guided_regex":"a","guided_choice":null`, "a", func(r R, _ O) any { return r.Format.Pattern })
	f(`"guided_choice":["a","b"]`, []string{"a", "b"}, func(r R, _ O) any { return r.Format.Choices })
	f(`"structured_outputs":{"regex":"a","disable_fallback":true}`, infer.FormatRegex, func(r R, _ O) any { return r.Format.Kind })
	f(`"structured_outputs":{"json":{},"regex":null}`, infer.FormatJSONSchema, func(r R, _ O) any { return r.Format.Kind })
	f(`"structured_outputs":{"json_object":true}`, infer.FormatJSONObject, func(r R, _ O) any { return r.Format.Kind })
	f(`"grammar":"root ::= \"a\""`, infer.FormatGrammar, func(r R, _ O) any { return r.Format.Kind })

	tool := `"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}},{"type":"function","function":{"name":"g"}}]`
	f(tool, infer.Tool{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`), Strict: true}, func(r R, _ O) any { return r.Tools[0] })
	f(tool+`,"tool_choice":"required","parallel_tool_calls":false`, "required false", func(r R, _ O) any { return fmt.Sprint(r.ToolChoice.Mode, " ", r.ParallelToolCalls) })
	f(`"tool_choice":{"type":"function","function":{"name":"g"}},`+tool, infer.ToolChoice{Mode: "function", Name: "g"}, func(r R, _ O) any { return r.ToolChoice })
	f(tool+`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]}}`, "required g", func(r R, _ O) any { return r.ToolChoice.Mode + " " + r.Tools[0].Name })
	f(`"functions":[{"name":"f"}],"function_call":{"name":"f"}`, true, func(r R, o O) any { return o.LegacyFunctions && r.ToolChoice.Name == "f" && !r.ParallelToolCalls })
	f(`"tools":[],"tool_choice":"auto"`, 0, func(r R, _ O) any { return len(r.Tools) })
	f(`"tools":null,"tool_choice":null,"functions":null,"function_call":null`, "auto", func(r R, _ O) any { return r.ToolChoice.Mode })
}

// TestNullIsDefault gives null to every optional field that is decoded or
// tolerated.
func TestNullIsDefault(t *testing.T) {
	fields := strings.Fields(`temperature top_p top_k min_p frequency_penalty presence_penalty repetition_penalty n max_tokens
		max_completion_tokens n_predict min_tokens seed stop stop_token_ids ignore_eos include_stop_str_in_output logit_bias return_token_ids
		return_tokens_as_token_ids cache_salt priority stream stream_options response_format structured_outputs guided_json json_schema
		guided_regex regex guided_grammar grammar guided_choice tools functions tool_choice function_call parallel_tool_calls logprobs
		top_logprobs chat_template_kwargs add_generation_prompt continue_final_message reasoning_effort enable_thinking include_reasoning
		echo add_special_tokens`)
	for name := range sideFields {
		fields = append(fields, name)
	}
	want, _, err := chat(t, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range fields {
		r, _, err := chat(t, `"`+name+`":null`)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if len(r.Uses) > 0 && name != "frobnicate" || !reflect.DeepEqual(bare(r), bare(want)) {
			t.Errorf("%s: null changed the request", name)
		}
	}
}

// complaint is what a caller is told by a target that is not of this dialect: the
// decoder's error, or the first loss that says why.
func complaint(r *infer.Request, err error) *infer.Error {
	var e *infer.Error
	if errors.As(err, &e) || r == nil {
		return e
	}
	for _, u := range r.Uses {
		if u.Why != "" {
			return infer.Invalid(u.Path, "%s", u.Why)
		}
	}
	return nil
}

// bare is r without the memory of how it came.
func bare(r *infer.Request) *infer.Request {
	if r == nil {
		return nil
	}
	own := *r
	own.Wire, own.Uses, own.Hints = nil, nil, infer.Hints{}
	return &own
}

// TestRefusals holds, for each fault, the parameter that is named and a part of
// the text.
func TestRefusals(t *testing.T) {
	f := func(extra, param, part string) {
		t.Helper()
		r, _, err := chat(t, extra)
		e := complaint(r, err)
		if e == nil {
			t.Errorf("%.100s: got %v, want an error about %s", extra, err, param)
			return
		}
		if e.Param != param || !strings.Contains(e.Message, part) || e.Code != infer.CodeInvalid && e.Code != infer.CodeUnsupported {
			t.Errorf("%.100s: got %s | %s | %s", extra, e.Code, e.Param, e.Message)
		}
	}
	f(`"temperature":-0.5`, "temperature", "got -0.5, wanted a number from 0 to 2")
	f(`"temperature":2.001`, "temperature", "0 to 2")
	f(`"temperature":"hot"`, "temperature", "got a string")
	f(`"temperature":1e999`, "temperature", "0 to 2")
	f(`"top_p":0`, "top_p", "above 0 and up to 1")
	f(`"top_p":1.5`, "top_p", "up to 1")
	f(`"top_k":-2`, "top_k", "-1 or more")
	f(`"min_p":1.1`, "min_p", "0 to 1")
	f(`"presence_penalty":2.5`, "presence_penalty", "-2 to 2")
	f(`"frequency_penalty":-2.5`, "frequency_penalty", "-2 to 2")
	f(`"repetition_penalty":0`, "repetition_penalty", "above 0")
	f(`"n":0`, "n", "1 to 128")
	f(`"n":129`, "n", "1 to 128")
	f(`"max_tokens":-1`, "max_tokens", "got -1")
	f(`"max_tokens":0`, "max_tokens", "got 0")
	f(`"max_tokens":2.5`, "max_tokens", "got 2.5, wanted a whole number")
	f(`"max_tokens":1e30`, "max_tokens", "whole number")
	f(`"max_tokens":[]`, "max_tokens", "an array")
	f(`"max_completion_tokens":1.5`, "max_completion_tokens", "1.5")
	f(`"max_tokens":3,"max_completion_tokens":4`, "max_completion_tokens", "differ")
	f(`"min_tokens":5,"max_tokens":4`, "min_tokens", "at most max_tokens")
	f(`"seed":"seven"`, "seed", "whole number")
	f(`"seed":1.5`, "seed", "whole number")
	f(`"seed":true`, "seed", "got true")
	f(`"seed":9223372036854775808`, "seed", "whole number")
	f(`"stop":7`, "stop", "a string or an array")
	f(`"stop":[7]`, "stop[0]", "a string")
	f(`"stop":""`, "stop", "1 to 1024")
	f(`"stop":["a"`+strings.Repeat(`,"b"`, 64)+`]`, "stop", "more than 64")
	f(`"stop":"`+strings.Repeat("x", 1025)+`"`, "stop", "got 1025 bytes")
	f(`"logit_bias":{"cat":1}`, "logit_bias", `"cat"`)
	f(`"logit_bias":{"-1":1}`, "logit_bias", `"-1"`)
	f(`"logit_bias":{"01":1}`, "logit_bias", `"01"`)
	f(`"logit_bias":{"1":101}`, "logit_bias.1", "-100 to 100")
	f(`"logit_bias":[]`, "logit_bias", "an object")
	f(`"top_logprobs":3`, "top_logprobs", "without logprobs")
	f(`"logprobs":true,"top_logprobs":21`, "top_logprobs", "0 to 20")
	f(`"logprobs":true,"top_logprobs":-1`, "top_logprobs", "0 to 20")
	f(`"logprobs":5`, "logprobs", "true or false")
	f(`"stream":"yes"`, "stream", "true or false")
	f(`"stream_options":{"include_usage":true}`, "stream_options", "without stream")
	f(`"stream":true,"stream_options":{"x":1}`, "stream_options.x", "unknown field")
	f(`"frobnicate":1`, "frobnicate", `unknown field "frobnicate"`)
	f(`"frobnicate":null`, "frobnicate", "unknown field")
	f(`"response_format":"json"`, "response_format", "an object")
	f(`"response_format":{"type":"xml"}`, "response_format.type", "one of text")
	f(`"response_format":{"type":"json_schema"}`, "response_format", "got no json_schema")
	f(`"response_format":{"type":"json_schema","json_schema":{"name":"a"}}`, "response_format.json_schema", "got no schema")
	f(`"response_format":{"type":"json_schema","json_schema":{"schema":{}}}`, "response_format.json_schema", "got no name")
	f(`"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":[]}}`, "response_format.json_schema.schema", "an object")
	f(`"response_format":{"type":"json_object"},"guided_regex":"a"`, "guided_regex", "both")
	f(`"structured_outputs":{"regex":"a","choice":["b"]}`, "structured_outputs.choice", "both")
	f(`"structured_outputs":{"whitespace_pattern":" "}`, "structured_outputs.whitespace_pattern", "not offered")
	f(`"guided_json":"{"`, "guided_json", "end of the body")
	f(`"guided_json":5`, "guided_json", "an object")
	f(`"guided_choice":[]`, "guided_choice", "at least one")
	f(`"tool_choice":"sometimes"`, "tool_choice", "one of none")
	f(`"tool_choice":"required"`, "tool_choice", "got no tools")
	f(`"tools":{"type":"function"}`, "tools", "an array")
	f(`"tools":[{"type":"function","function":{"parameters":{}}}]`, "tools[0].function", "got no name")
	f(`"tools":[{"type":"function","function":{"name":"a b"}}]`, "tools[0].function.name", "letters")
	f(`"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"a"}}]`, "tools[1].function", "twice")
	f(`"tools":[{"type":"web_search"}]`, "tools[0]", "web_search")
	f(`"tools":[{"type":"custom","custom":{"name":"x y"}}]`, "tools[0].custom", "letters")
	f(`"tools":[{"type":"function"}]`, "tools[0]", "got no function")
	f(`"tools":[{"type":"function","function":{"name":"a","parameters":7}}]`, "tools[0].function.parameters", "an object")
	f(`"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":{"type":"function","function":{"name":"nobody"}}`, "tool_choice.function", "nobody")
	f(`"tools":[{"type":"function","function":{"name":"a"}}],"functions":[{"name":"b"}]`, "functions", "beside tools")
	f(`"reasoning_effort":"heroic"`, "reasoning_effort", "one of none")
	f(`"chat_template_kwargs":{"enable_thinking":true},"enable_thinking":false`, "enable_thinking", "too")
	f(`"continue_final_message":true`, "continue_final_message", "add_generation_prompt")
	f(`"continue_final_message":true,"add_generation_prompt":false`, "continue_final_message", "role user")
	f(`"echo":true`, "echo", "only false")
	f(`"cache_salt":""`, "cache_salt", "not empty")

	f(`"store":true`, "store", "stored completions")
	f(`"web_search_options":{}`, "web_search_options", "web search")
	f(`"modalities":["audio"]`, "modalities", "other than text")
	f(`"audio":{"voice":"x"}`, "audio", "audio output")
	f(`"service_tier":"flex"`, "service_tier", "service tiers")
	f(`"user":5`, "user", "got 5")
	f(`"mirostat":2`, "mirostat", "mirostat")
	f(`"chat_template":"{{x}}"`, "chat_template", "a template")
	f(`"use_beam_search":true`, "use_beam_search", "beam search")
	f(`"prompt_logprobs":1`, "prompt_logprobs", "echo with logprobs")
}

// TestTolerated holds the fields that real clients send and that change nothing.
func TestTolerated(t *testing.T) {
	want, _, _ := chat(t, "")
	for _, extra := range []string{
		`"user":"somebody"`, `"metadata":{"a":"b"}`, `"store":false`, `"service_tier":"auto"`, `"prompt_cache_key":"k"`, `"safety_identifier":"s"`,
		`"verbosity":"medium"`, `"modalities":["text"]`, `"modalities":[ "text" ]`, `"prediction":{"type":"content","content":"x"}`, `"use_beam_search":false`, `"length_penalty":1.0`,
		`"skip_special_tokens":true`, `"repeat_penalty":1`, `"mirostat":0`, `"typical_p":1.0`, `"cache_prompt":true`, `"logits_processors":[]`, `"parallel_tool_calls":true`,
	} {
		r, _, err := chat(t, extra)
		if err != nil {
			t.Errorf("%s: %v", extra, err)
		} else if !reflect.DeepEqual(bare(r), bare(want)) {
			t.Errorf("%s changed the request", extra)
		}
	}
}

func TestMessages(t *testing.T) {
	decode := func(msgs string) (*infer.Request, error) {
		r, _, err := Chat{}.DecodeRequest(nil, []byte(`{"model":"m","messages":`+msgs+`}`))
		return r, err
	}
	good := func(msgs string, check func([]infer.Message) bool) {
		t.Helper()
		r, err := decode(msgs)
		if err != nil {
			t.Errorf("%.100s: %v", msgs, err)
		} else if !check(r.Messages) {
			t.Errorf("%.100s: got %+v", msgs, r.Messages)
		}
	}
	good(`[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"system","content":"c"},{"role":"developer","content":"d"}]`, func(m []infer.Message) bool {
		return len(m) == 4 && m[2].Role == infer.RoleSystem && m[3].Role == infer.RoleDeveloper
	})
	good(`[{"role":"user","name":"bob","content":""}]`, func(m []infer.Message) bool { return m[0].Name == "bob" && m[0].Text() == "" })
	good(`[{"content":[{"type":"text","text":"a"},{"text":"b","type":"text","cache_control":{"type":"ephemeral"}}],"role":"user"}]`, func(m []infer.Message) bool { return m[0].Text() == "ab" && len(m[0].Content) == 2 })
	good(`[{"role":"user","content":"w?"},{"role":"assistant","content":null,"refusal":null,"audio":null,"annotations":[],"function_call":null,"tool_calls":[{"id":"c","type":"function","index":0,"function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"sun"}]`, func(m []infer.Message) bool {
		return m[1].ToolCalls[0] == infer.ToolCall{ID: "c", Name: "f", Arguments: `{"a":1}`} && m[2].ToolCallID == "c"
	})
	good(`[{"role":"user","content":"w?"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"sun"}]`, func(m []infer.Message) bool {
		return m[2].Role == infer.RoleTool && m[2].ToolCallID == m[1].ToolCalls[0].ID && m[2].ToolCallID != ""
	})
	good(`[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning_content":"c"}]`, func(m []infer.Message) bool { return m[1].Reasoning == "c" })
	good(`[{"role":"user","content":"a"},{"role":"assistant","content":null,"refusal":"no"}]`, func(m []infer.Message) bool { return m[1].Text() == "no" })
	good(`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk=","detail":"auto"}}]}]`, func(m []infer.Message) bool {
		p := m[0].Content[0]
		return p.Type == "image" && p.MIME == "image/png" && string(p.Data) == "hi"
	})
	good(`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a/b.png"}},{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav"}}]}]`, func(m []infer.Message) bool {
		return m[0].Content[0].URL != "" && m[0].Content[1].MIME == "audio/wav"
	})

	bad := func(msgs, param, part string) {
		t.Helper()
		r, err := decode(msgs)
		e := complaint(r, err)
		if e == nil || e.Param != param || !strings.Contains(e.Message, part) {
			t.Errorf("%.100s: got %v", msgs, err)
		}
	}
	bad(`[]`, "messages", "no messages")
	bad(`null`, "messages", "an array")
	bad(`"hello"`, "messages", "an array")
	bad(`{}`, "messages", "an array")
	bad(`["hello"]`, "messages[0]", "an object")
	bad(`[null]`, "messages[0]", "an object")
	bad(`[[]]`, "messages[0]", "an object")
	bad(`[{"content":"x"}]`, "messages[0]", "no role")
	bad(`[{"role":"wizard","content":"x"}]`, "messages[0].role", "wizard")
	bad(`[{"role":3,"content":"x"}]`, "messages[0].role", "one of")
	bad(`[{"role":null,"content":"x"}]`, "messages[0].role", "one of")
	bad(`[{"role":"user","content":5}]`, "messages[0].content", "got 5")
	bad(`[{"role":"user","content":null}]`, "messages[0]", "no content")
	bad(`[{"role":"user"}]`, "messages[0]", "no content")
	bad(`[{"role":"user","content":{"a":1}}]`, "messages[0].content", "a string or an array")
	bad(`[{"role":"user","content":[5]}]`, "messages[0].content[0]", "an object")
	bad(`[{"role":"user","content":[{"type":"text"}]}]`, "messages[0].content[0]", "got no text")
	bad(`[{"role":"user","content":[{"type":"smell","smell":"x"}]}]`, "messages[0].content[0].type", "smell")
	bad(`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/hostname"}}]}]`, "messages[0].content[0].image_url.url", "https:")
	bad(`[{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://a"}}]}]`, "messages[0].content[0].type", "one of text")
	bad(`[{"role":"tool","content":"x"}]`, "messages[0]", "tool_call_id")
	bad(`[{"role":"function","name":"f","content":"x"}]`, "messages[0]", "no earlier")
	bad(`[{"role":"user","content":"x","tool_calls":[{}]}]`, "messages[0].tool_calls", "unknown field")
	bad(`[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f"}}]}]`, "messages[0].tool_calls[0]", "no id")
	bad(`[{"role":"assistant","tool_calls":[{"id":"c","function":{"arguments":"{}"}}]}]`, "messages[0].tool_calls[0].function", "no name")
	bad(`[{"role":"user","content":"x","mood":"good"}]`, "messages[0].mood", "unknown field")
	bad(`[`+strings.Repeat(`{"role":"user","content":"x"},`, 4096)+`{"role":"user","content":"x"}]`, "messages", "more than 4096")
	good(`[`+strings.Repeat(`{"role":"user","content":"x"},`, 4095)+`{"role":"user","content":"x"}]`, func(m []infer.Message) bool { return len(m) == 4096 })
}

func TestBodies(t *testing.T) {
	for _, body := range []string{"", "null", "5", "[]", `"x"`, "{}", "{}{}", "{" + hi + "} x", `{"model":5,"messages":[]}`, `{"messages":[{"role":"user","content":"x"}]}`,
		`{"model":"m","model":"n","messages":[]}`, "{" + hi + `,"x_extra":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + "}"} {
		for _, d := range []wire.Dialect{Chat{}, Completion{}} {
			_, _, err := d.DecodeRequest(nil, []byte(body))
			var e *infer.Error
			if !errors.As(err, &e) {
				t.Errorf("%T %.60q: got %v", d, body, err)
				continue
			}
			status, out := d.EncodeError(e, "req_x")
			var shape struct {
				Error struct {
					Message, Type string
					Param, Code   *string
				}
			}
			if err := json.Unmarshal(out, &shape); err != nil || status != 400 || shape.Error.Message == "" || shape.Error.Type != "invalid_request_error" {
				t.Errorf("%.60q: got %d %s", body, status, out)
			}
		}
	}
}

func TestCompletionFields(t *testing.T) {
	decode := func(body string) (*infer.Request, error) {
		r, _, err := Completion{}.DecodeRequest(nil, []byte(`{"model":"m",`+body+`}`))
		return r, err
	}
	good := func(body string, check func(*infer.Request) bool) {
		t.Helper()
		r, err := decode(body)
		if err != nil {
			t.Errorf("%s: %v", body, err)
		} else if !check(r) {
			t.Errorf("%s: got %+v", body, r)
		}
	}
	type R = *infer.Request
	good(`"prompt":"a"`, func(r R) bool { return r.Prompts[0].Text == "a" && r.Sampling.MaxTokens == 16 && !r.SplitReasoning })
	good(`"prompt":""`, func(r R) bool { return len(r.Prompts) == 1 })
	good(`"prompt":["a","b"],"n":2`, func(r R) bool { return wire.Choices(r) == 4 })
	good(`"prompt":[5,6]`, func(r R) bool { return reflect.DeepEqual(r.Prompts, []infer.Prompt{{Tokens: []int32{5, 6}}}) })
	good(`"prompt":[[5],[6,7]]`, func(r R) bool { return len(r.Prompts) == 2 && r.Prompts[1].Tokens[1] == 7 })
	good(`"prompt":"a","echo":true,"logprobs":3`, func(r R) bool { return r.Echo && r.Sampling.PromptLogprobs && r.Sampling.TopLogprobs == 3 })
	good(`"prompt":"a","logprobs":0`, func(r R) bool { return r.Sampling.Logprobs && !r.Sampling.PromptLogprobs })
	good(`"prompt":"a","logprobs":null`, func(r R) bool { return !r.Sampling.Logprobs })
	good(`"prompt":"a","suffix":"b","best_of":1,"max_tokens":3`, func(r R) bool { return r.Suffix == "b" && r.Sampling.MaxTokens == 3 })
	bad := func(body, param string) {
		t.Helper()
		r, err := decode(body)
		if e := complaint(r, err); e == nil || e.Param != param {
			t.Errorf("%s: got %v, want one about %s", body, err, param)
		}
	}
	bad(`"max_tokens":3`, "prompt")
	bad(`"prompt":null`, "prompt")
	bad(`"prompt":5`, "prompt")
	bad(`"prompt":{}`, "prompt")
	bad(`"prompt":[]`, "prompt")
	bad(`"prompt":[[]]`, "prompt[0]")
	bad(`"prompt":[-1]`, "prompt[0]")
	bad(`"prompt":["a",5.5]`, "prompt[1]")
	bad(`"prompt":[[1],-3]`, "prompt[1]")
	bad(`"prompt":[1,"a"]`, "prompt[1]")
	bad(`"prompt":[null]`, "prompt[0]")
	bad(`"prompt":"a","n":2,"best_of":1`, "best_of")
	bad(`"prompt":"a","n":2,"best_of":3`, "best_of")
	bad(`"prompt":"a","logprobs":21`, "logprobs")
	bad(`"prompt":"a","messages":[]`, "messages")
	bad(`"prompt":["a","b","c"],"n":128`, "n")
}

func TestEmbedAndTokenize(t *testing.T) {
	f := func(body, param string) {
		t.Helper()
		r, _, err := DecodeEmbed([]byte(`{"model":"m",` + body + `}`))
		e := complaint(&infer.Request{Uses: r.Uses}, err)
		switch {
		case param == "" && err != nil:
			t.Errorf("%s: %v", body, err)
		case param != "" && (e == nil || e.Param != param):
			t.Errorf("%s: got %v, want one about %s", body, err, param)
		}
	}
	f(`"input":"a"`, "")
	f(`"input":["a","b"],"encoding_format":"base64","dimensions":8,"user":"x"`, "")
	f(`"input":[1,2]`, "")
	f(`"input":[[1],[2]],"encoding_format":null`, "")
	f(`"input":""`, "input")
	f(`"input":[]`, "input")
	f(`"input":5`, "input")
	f(`"input":null`, "input")
	f(`"input":[""]`, "input[0]")
	f(`"encoding_format":"float"`, "input")
	f(`"input":"a","encoding_format":"hex"`, "encoding_format")
	f(`"input":"a","dimensions":0`, "dimensions")
	f(`"input":"a","temperature":1`, "temperature")

	tr, _, err := DecodeTokenize([]byte(`{"model":"m","prompt":"a","add_special_tokens":false}`))
	if err != nil || tr.Text != "a" || tr.AddSpecial {
		t.Errorf("got %+v, %v", tr, err)
	}
	tr, _, err = DecodeTokenize([]byte(`{"messages":[{"role":"user","content":"a"}]}`))
	if err != nil || tr.Chat == nil || tr.Model != "" {
		t.Errorf("got %+v, %v", tr, err)
	}
	for _, body := range []string{`{}`, `{"prompt":5}`, `{"prompt":"a","messages":[{"role":"user","content":"a"}]}`, `{"content":"a"}`, `{"prompt":"a","x":1}`} {
		if _, _, err := DecodeTokenize([]byte(body)); err == nil {
			t.Errorf("%s was taken", body)
		}
	}
	if _, ids, err := DecodeDetokenize([]byte(`{"tokens":[1,2]}`)); err != nil || len(ids) != 2 {
		t.Errorf("got %v, %v", ids, err)
	}
	if _, _, err := DecodeDetokenize([]byte(`{"tokens":[-1]}`)); err == nil {
		t.Error("a negative id was taken")
	}
}

// No string of a request may come back in an error beyond a field's name or a
// word where one of a few words was wanted.
func TestErrorsKeepContentToThemselves(t *testing.T) {
	const secret = "the secret words of a prompt that must stay where they are"
	for _, body := range []string{
		`{"model":"m","messages":"` + secret + `"}`, `{"model":"m","messages":[{"role":"user","content":"` + secret + `"}],"temperature":"` + secret + `"}`,
		`{"model":"m","messages":[{"role":"user","content":"` + secret + `"`, `{"model":"m","messages":[{"role":"user","content":"` + secret + "\xff" + `"}]}`,
		`{"model":"m","messages":[{"role":"user","content":{"text":"` + secret + `"}}]}`, `{"model":"m","stop":"` + strings.Repeat(secret, 50) + `"}`,
	} {
		_, _, err := Chat{}.DecodeRequest(nil, []byte(body))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%.60s…: got %v", body, err)
		}
	}
}

// fuzzSeeds are bodies that reach far into the decoders.
var fuzzSeeds = []string{
	"{" + hi + `,"stop":["a"],"logit_bias":{"5":1},"stream":true,"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"auto"}`,
	`{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"x"}]}]}`,
	"{" + hi + `,"response_format":{"type":"json_schema","json_schema":{"name":"a","description":"d","schema":{"a":[1,{}]}}}}`,
	`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]}]}`,
	`{"model":"m","prompt":[[1,2],[3]],"echo":true,"logprobs":2,"suffix":"x"}`,
	`{"model":"m","input":["a"],"encoding_format":"base64"}`,
}

// FuzzDecode holds that every decoder either gives a request that is whole or a
// typed error, and that encoding that error is valid JSON.
func FuzzDecode(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		check := func(err error) {
			if err == nil {
				return
			}
			var e *infer.Error
			if !errors.As(err, &e) || e.Code == infer.CodeInternal {
				t.Fatalf("an error without a type: %v", err)
			}
			if _, out := EncodeError(e, ""); !json.Valid(out) {
				t.Fatalf("an error that is no JSON: %s", out)
			}
		}
		r, _, err := Chat{}.DecodeRequest(nil, body)
		check(err)
		if err == nil && (r.Model == "" || len(r.Messages) == 0 || r.Sampling.N < 1) {
			t.Fatalf("half a request: %+v", r)
		}
		r, _, err = Completion{}.DecodeRequest(nil, body)
		check(err)
		if err == nil && (r.Model == "" || len(r.Prompts) == 0) {
			t.Fatalf("half a request: %+v", r)
		}
		_, _, err = DecodeEmbed(body)
		check(err)
		_, _, err = DecodeTokenize(body)
		check(err)
		_, _, err = DecodeDetokenize(body)
		check(err)
	})
}

// BenchmarkDecode is a usual request of an SDK.
func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"model":"m","messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"` + strings.Repeat("some words ", 40) + `"}],"temperature":0.7,"max_tokens":256,"stream":true,"stream_options":{"include_usage":true}}`)
	b.ReportAllocs()
	for b.Loop() {
		r, _, err := Chat{}.DecodeRequest(nil, body)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := NewChatClient("").EncodeRequest(r, wire.Target{Model: "up"}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNoTokens holds that no tokens may be asked for with an echo, and by a
// caller who asks for nothing else.
func TestNoTokens(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m","max_tokens":0,"prompt":"a","echo":true,"logprobs":1}`:      "",
		`{"model":"m","max_tokens":0,"prompt":"a"}`:                               "max_tokens",
		`{"model":"m","max_tokens":0,"prompt":"a","echo":true,"min_tokens":1}`:    "min_tokens",
		`{"model":"m","max_tokens":0,"prompt":"a","echo":true,"top_p":1,"n":1}`:   "",
		`{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"a"}]}`: "prompt",
	} {
		r, _, err := Completion{}.DecodeRequest(nil, []byte(body))
		got := ""
		switch {
		case err != nil:
			got = infer.AsError(err).Param
		case r.Sampling.MaxTokens != -1:
			t.Errorf("%s: at most %d tokens", body, r.Sampling.MaxTokens)
		default:
			for _, u := range r.Uses {
				if u.Feature == infer.FeatureUnknown {
					got = u.Path
				}
			}
		}
		if got != want {
			t.Errorf("%s: got %q, %v; want %q", body, got, err, want)
		}
	}
}
