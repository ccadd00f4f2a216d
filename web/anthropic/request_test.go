package anthropic

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/wire"
)

func decodeOK(t *testing.T, body string) (*infer.Request, wire.Options) {
	t.Helper()
	r, o, err := Messages{}.DecodeRequest(nil, []byte(body))
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return r, o
}

var index = regexp.MustCompile(`\[\d+\]`)

// TestFields holds every row of the table against the decoder: its body notes
// exactly the use that the row says, at its path, once.
func TestFields(t *testing.T) {
	known := map[string]bool{"max_tokens": true}
	for _, f := range Fields() {
		known[f.Path] = true
	}
	for _, f := range Fields() {
		t.Run(f.Path+"/"+string(f.Feature), func(t *testing.T) {
			body := f.Base
			if body == "" {
				members := map[string]string{"model": `"m"`, "max_tokens": "1", "messages": `[{"role":"user","content":"a"}]`}
				members[f.Path] = f.Example
				var all []string
				for k, v := range members {
					all = append(all, fmt.Sprintf("%q:%s", k, v))
				}
				body = "{" + strings.Join(all, ",") + "}"
			} else if !strings.Contains(body, f.Example) && f.Example != "{}" {
				t.Errorf("the example %s is not in the body %s", f.Example, body)
			}
			r, _ := decodeOK(t, body)
			n := 0
			for _, u := range r.Uses {
				path := index.ReplaceAllString(u.Path, "[]")
				if path == f.Path && u.Feature == f.Feature {
					n++
				} else if !known[path] || u.Feature == infer.FeatureUnknown {
					t.Errorf("unexpected use %+v of %s", u, body)
				}
			}
			want := 1
			if f.Feature == "" {
				want = 0
			}
			if n != want {
				t.Errorf("got %d uses of %q, wanted %d: %+v of %s", n, f.Feature, want, r.Uses, body)
			}
		})
	}
}

// TestDecodePlain notes nothing for what every target has.
func TestDecodePlain(t *testing.T) {
	r, o := decodeOK(t, `{"model":"m","max_tokens":5,"system":"S","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"}]},{"role":"user","content":[{"type":"text","text":"c"},{"type":"text","text":"","cache_control":null}]}],"stream":false,"temperature":1.0,"top_p":1,"top_k":null,"stop_sequences":[],"service_tier":"auto","tools":[],"metadata":{},"tool_choice":{"type":"auto"},"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}}`)
	if want := []infer.Use{{Feature: infer.FeatureMaxTokens, Path: "max_tokens"}}; !reflect.DeepEqual(r.Uses, want) {
		t.Errorf("uses: got %+v", r.Uses)
	}
	want := []infer.Message{
		{Role: infer.RoleSystem, Content: text("S")}, {Role: infer.RoleUser, Content: text("a")},
		{Role: infer.RoleAssistant, Content: text("b")}, {Role: infer.RoleUser, Content: text("c")},
	}
	if !reflect.DeepEqual(r.Messages, want) {
		t.Errorf("messages: got %+v", r.Messages)
	}
	if o.Stream || r.Stream || r.Sampling.MaxTokens != 5 || !r.AddGenerationPrompt || r.ContinueFinalMessage || r.Wire == nil {
		t.Errorf("got %+v %+v", r, o)
	}
}

// TestDecodeAgent reads what an agent sends: blocks, tools, a system turn on the
// way, marks on empty text, thinking.
func TestDecodeAgent(t *testing.T) {
	h, _ := http.NewRequest("POST", "/v1/messages?beta=true", nil)
	h.Header.Set("Anthropic-Version", "2023-06-01")
	h.Header.Set("Anthropic-Beta", "never-heard-2026-01-01,other")
	h.Header.Set("X-Api-Key", "secret")
	body := `{"model":"m","max_tokens":32000,"stream":true,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},
	"system":[{"type":"text","text":"A"},{"type":"text","text":"B","cache_control":{"type":"ephemeral","ttl":"1h"}}],
	"messages":[
	 {"role":"user","content":[{"type":"text","text":"q"},{"type":"text","text":"","cache_control":{"type":"ephemeral"}}]},
	 {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"x"},{"type":"tool_use","id":"t1","name":"Bash","input":{"a": 1},"caller":{"type":"direct"}}]},
	 {"role":"user","content":[{"type":"text","text":"note"},{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"no"}],"cache_control":{"type":"ephemeral"}}]},
	 {"role":"system","content":"mind the time"},
	 {"role":"assistant","content":[]},
	 {"role":"user","content":[{"type":"tool_result","tool_use_id":"t2"},{"type":"tool_result","tool_use_id":"t3","content":"ok"}]}],
	"tools":[{"name":"Bash","description":"d","input_schema":{"type":"object"},"eager_input_streaming":true},{"type":"web_search_20250305","name":"web_search"}],
	"metadata":{"user_id":"u"}}`
	r, o, err := Messages{}.DecodeRequest(h, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if !o.Stream || len(r.Wire.Header) != 2 || r.Wire.Header.Get("Anthropic-Beta") != "never-heard-2026-01-01,other" || string(r.Wire.Body) != body {
		t.Errorf("got %+v, header %v", o, r.Wire.Header)
	}
	want := []infer.Message{
		{Role: infer.RoleSystem, Content: []infer.Part{{Type: "text", Text: "A"}, {Type: "text", Text: "B", Cache: "1h"}}},
		{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: "q", Cache: "5m"}}},
		{Role: infer.RoleAssistant, Content: text("x"), Reasoning: "hm", Thoughts: []infer.Thought{{Text: "hm", Signature: "s"}, {Redacted: "d"}}, ToolCalls: []infer.ToolCall{{ID: "t1", Name: "Bash", Arguments: `{"a": 1}`}}},
		{Role: infer.RoleTool, ToolCallID: "t1", ToolError: true, Content: []infer.Part{{Type: "text", Text: "no", Cache: "5m"}}},
		{Role: infer.RoleUser, Content: text("note")},
		{Role: infer.RoleSystem, Content: text("mind the time")},
		{Role: infer.RoleAssistant, Content: []infer.Part{}},
		{Role: infer.RoleTool, ToolCallID: "t2", Content: []infer.Part{{Type: "text"}}},
		{Role: infer.RoleTool, ToolCallID: "t3", Content: text("ok")},
	}
	for i := range want {
		if i >= len(r.Messages) || fmt.Sprintf("%+v", r.Messages[i]) != fmt.Sprintf("%+v", want[i]) {
			t.Errorf("message %d: got %+v, want %+v", i, r.Messages[i], want[i])
		}
	}
	if len(r.Messages) != len(want) {
		t.Errorf("got %d messages, want %d", len(r.Messages), len(want))
	}
	uses := map[string]infer.Feature{}
	for _, u := range r.Uses {
		uses[u.Path] = u.Feature
	}
	for path, f := range map[string]infer.Feature{
		"anthropic-beta": infer.FeatureBeta, "messages[3]": infer.FeatureSystemMidway, "tools[1].web_search_20250305": infer.FeatureToolHostedOptional,
		"messages[0].content[1].cache_control": infer.FeatureCacheBreakpoint, "messages[1].content[0].thinking.signature": infer.FeatureThoughtSignature,
	} {
		if uses[path] != f {
			t.Errorf("%s: got %q, want %q in %+v", path, uses[path], f, r.Uses)
		}
	}
	if r.Thinking.Switch != "adaptive" || r.Thinking.Effort != "high" || r.Hints.User != "u" || len(r.Tools) != 1 {
		t.Errorf("got %+v %+v", r.Thinking, r.Tools)
	}
}

func TestDecodeSettings(t *testing.T) {
	const head = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}],`
	tool := `"tools":[{"name":"t","input_schema":{"type":"object"}}],`
	for body, ok := range map[string]func(r *infer.Request, o wire.Options) bool{
		`"thinking":{"type":"enabled","budget_tokens":2048,"display":"omitted"}}`: func(r *infer.Request, o wire.Options) bool {
			return r.Thinking == infer.Thinking{Switch: "on", Budget: 2048, Summary: "omitted"} && o.HideReasoning
		},
		`"thinking":{"type":"disabled"}}`: func(r *infer.Request, _ wire.Options) bool { return r.Thinking.Switch == "off" },
		tool + `"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`: func(r *infer.Request, _ wire.Options) bool {
			return r.ToolChoice.Mode == "required" && !r.ParallelToolCalls
		},
		tool + `"tool_choice":{"type":"tool","name":"t"}}`: func(r *infer.Request, _ wire.Options) bool {
			return r.ToolChoice.Mode == "function" && r.ToolChoice.Name == "t"
		},
		tool + `"tool_choice":{"type":"none"}}`: func(r *infer.Request, _ wire.Options) bool { return r.ToolChoice.Mode == "none" },
		`"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}`: func(r *infer.Request, _ wire.Options) bool {
			return r.Format.Kind == infer.FormatJSONSchema && string(r.Format.Schema) == `{"type":"object"}` && r.Format.Strict
		},
		`"cache_control":{"type":"ephemeral","ttl":"1h"}}`: func(r *infer.Request, _ wire.Options) bool { return r.Messages[0].Content[0].Cache == "1h" },
		`"service_tier":"standard_only"}`:                  func(r *infer.Request, _ wire.Options) bool { return r.Hints.ServiceTier == "default" },
		`"stop_sequences":["a","b"],"top_k":3,"top_p":0}`: func(r *infer.Request, _ wire.Options) bool {
			return len(r.Sampling.Stop) == 2 && r.Sampling.TopK == 3 && r.Sampling.TopP > 0 && r.Sampling.TopP < 0.001
		},
	} {
		r, o := decodeOK(t, head+body)
		if !ok(r, o) {
			t.Errorf("%s: got %+v %+v %+v %+v", body, r.Thinking, r.ToolChoice, r.Sampling, r.Format)
		}
	}
	r, _ := decodeOK(t, `{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`)
	if r.Sampling.MaxTokens != 1 || r.Uses[0].Feature != infer.FeatureUnknown || !r.ContinueFinalMessage || r.AddGenerationPrompt {
		t.Errorf("got %+v %+v", r.Uses, r)
	}
}

// TestDecodeRefused has bodies that are malformed, and the field that is named.
func TestDecodeRefused(t *testing.T) {
	in := func(block string) string { return strings.Replace(inUser, mark, block, 1) }
	for body, param := range map[string]string{
		``:                          "",
		`[]`:                        "",
		`{"model":"m","messages":[`: "",
		`{"max_tokens":1,"messages":[{"role":"user","content":"a"}]}`:             "model",
		`{"model":"m","messages":[{"role":"user","content":"a"}]}`:                "max_tokens",
		`{"model":"m","max_tokens":1}`:                                            "messages",
		`{"model":"m","max_tokens":1,"messages":[]}`:                              "messages",
		`{"model":"m","max_tokens":1,"messages":{}}`:                              "messages",
		`{"model":"m","max_tokens":-1,"messages":[]}`:                             "max_tokens",
		`{"model":"","max_tokens":1,"messages":[]}`:                               "model",
		`{"model":"m","max_tokens":1,"messages":[1]}`:                             "messages[0]",
		`{"model":"m","max_tokens":1,"messages":[{}]}`:                            "messages[0]",
		`{"model":"m","max_tokens":1,"messages":[{"role":"boss","content":"a"}]}`: "messages[0].role",
		`{"model":"m","max_tokens":1,"messages":[{"role":"user"}]}`:               "messages[0]",
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":1}]}`:   "messages[0].content",
		in(`1`):                        "messages[0].content[0]",
		in(`{}`):                       "messages[0].content[0]",
		in(`{"type":"text"}`):          "messages[0].content[0]",
		in(`{"type":"text","text":1}`): "messages[0].content[0].text",
		in(`{"type":"text","text":"a","cache_control":1}`): "messages[0].content[0].cache_control",
		in(`{"type":"image"}`):                             "messages[0].content[0]",
		in(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"*"}}`):             "messages[0].content[0].source",
		in(`{"type":"image","source":{"type":"url"}}`):                                                    "messages[0].content[0].source",
		in(`{"type":"tool_result"}`):                                                                      "messages[0].content[0]",
		in(`{"type":"tool_use","id":"a"}`):                                                                "messages[0].content[0]",
		in(`{"type":"tool_use","id":"a","name":"b","input":"c"}`):                                         "messages[0].content[0].input",
		in(`{"type":"thinking","thinking":"a"}`):                                                          "messages[0]",
		in(`{"type":"tool_use","id":"a","name":"b","input":{}}`):                                          "messages[0]",
		strings.Replace(inAssistant, mark, `{"type":"tool_result","tool_use_id":"a"}`, 1):                 "messages[1]",
		in(`{"type":"thinking"}`):                                                                         "messages[0].content[0]",
		strings.Replace(inTool, mark, `{"name":"t"}`, 1):                                                  "tools[0]",
		strings.Replace(inTool, mark, `{"input_schema":{}}`, 1):                                           "tools[0]",
		strings.Replace(inTool, mark, `{"name":"t","input_schema":{}},{"name":"t","input_schema":{}}`, 1): "tools[1]",
		strings.Replace(withTool, mark, `"tool_choice":{"type":"tool","name":"u"}`, 1):                    "tool_choice",
		strings.Replace(withTool, mark, `"tool_choice":{"type":"tool"}`, 1):                               "tool_choice",
		strings.Replace(withMember, mark, `"tool_choice":{"type":"any"}`, 1):                              "tool_choice",
		strings.Replace(withMember, mark, `"stop_sequences":[""]`, 1):                                     "stop_sequences[0]",
		strings.Replace(withMember, mark, `"temperature":"hot"`, 1):                                       "temperature",
		strings.Replace(withMember, mark, `"output_config":{"effort":7}`, 1):                              "output_config.effort",
		strings.Replace(withMember, mark, `"output_config":{"format":{"type":"json_schema"}}`, 1):         "output_config.format",
		strings.Replace(withMember, mark, `"output_config":{"format":{"type":"json_schema","schema":{}}},"output_format":{"type":"json_schema","schema":{}}`, 1): "output_format",
	} {
		_, _, err := Messages{}.DecodeRequest(nil, []byte(body))
		if err == nil {
			t.Errorf("%s: got no error", body)
			continue
		}
		e := infer.AsError(err)
		if e.Code != infer.CodeInvalid || e.Param != param {
			t.Errorf("%s: got %v, wanted a complaint about %q", body, err, param)
		}
	}
}

// FuzzDecode feeds whatever a client may send.
func FuzzDecode(f *testing.F) {
	for _, row := range Fields() {
		if row.Base != "" {
			f.Add(row.Base)
		}
	}
	f.Fuzz(func(t *testing.T, body string) {
		r, _, err := Messages{}.DecodeRequest(nil, []byte(body))
		if err != nil {
			if e := infer.AsError(err); e.Code == infer.CodeInternal {
				t.Fatal(err)
			}
			return
		}
		for i := range r.Messages {
			_ = r.Messages[i].Text()
		}
		out, err := Client{}.EncodeRequest(r, wire.Target{Model: "up"})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := (Messages{}).DecodeRequest(nil, out.Body); err != nil {
			t.Fatalf("what is passed on cannot be read: %v in %s", err, out.Body)
		}
		r.Wire, r.Sampling.Temperature = nil, 1
		if out, err = (Client{}).EncodeRequest(r, wire.Target{Model: "up"}); err != nil {
			return
		}
		if _, _, err := (Messages{}).DecodeRequest(nil, out.Body); err != nil {
			t.Fatalf("what is written cannot be read: %v in %s", err, out.Body)
		}
	})
}
