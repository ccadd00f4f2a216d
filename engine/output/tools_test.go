package output

import (
	"encoding/json"
	"strings"
	"testing"

	"hearth/engine/infer"
)

// Each text gives the same text and calls whether it comes as pieces of 1, 3 or
// 50 bytes, or whole.
func TestToolCalls(t *testing.T) {
	length, stop := infer.FinishLength, infer.FinishStop
	for _, c := range []struct {
		name   string
		f      *ToolFormat
		in     string
		reason infer.FinishReason
		text   string
		calls  string
		finish infer.FinishReason
	}{
		{"hermes", Hermes, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>", stop, "", `add({"a": 1, "b": 2})`, infer.FinishToolCalls},
		{"hermes after text", Hermes, "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>", stop, "Let me see.\n", `add({})`, infer.FinishToolCalls},
		{"hermes white space before", Hermes, "\n\n<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>", stop, "", `add({})`, infer.FinishToolCalls},
		{"hermes two", Hermes, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\":1}}\n</tool_call>\n<tool_call>\n{\"name\": \"run\", \"arguments\": {\"cmd\":\"x\"}}\n</tool_call>\n", stop, "", `add({"a":1}) | run({"cmd":"x"})`, infer.FinishToolCalls},
		{"hermes two in one", Hermes, "<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n{\"name\": \"run\", \"arguments\": {}}\n</tool_call>", stop, "", `add({}) | run({})`, infer.FinishToolCalls},
		{"hermes list", Hermes, `<tool_call>[{"name": "add", "arguments": {}}, {"name": "run", "arguments": {}}]</tool_call>`, stop, "", `add({}) | run({})`, infer.FinishToolCalls},
		{"hermes text behind", Hermes, "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>\nDone, I think.", stop, "\nDone, I think.", `add({})`, infer.FinishToolCalls},
		{"hermes no end mark", Hermes, `<tool_call>{"name": "add", "arguments": {"a": [1, {"b": "}"}]}}`, stop, "", `add({"a": [1, {"b": "}"}]})`, infer.FinishToolCalls},
		{"hermes brace missing", Hermes, `<tool_call>{"name": "add", "arguments": {"a": 1}</tool_call>`, stop, "", `add({"a": 1})`, infer.FinishToolCalls},
		{"hermes brace missing at the end", Hermes, `<tool_call>{"name": "add", "arguments": {"a": 1}`, stop, "", `add({"a": 1})`, infer.FinishToolCalls},
		{"hermes brace too many", Hermes, "<tool_call>{\"name\": \"add\", \"arguments\": {}}}\n</tool_call>", stop, "", `add({})`, infer.FinishToolCalls},
		{"marker in an argument", Hermes, `<tool_call>{"name": "run", "arguments": {"cmd": "</tool_call><tool_call>"}}</tool_call>`, stop, "", `run({"cmd": "</tool_call><tool_call>"})`, infer.FinishToolCalls},
		{"braces in an argument", Hermes, `<tool_call>{"name": "run", "arguments": {"cmd": "mkdir -p test/{test1,test2"}}</tool_call>`, stop, "", `run({"cmd": "mkdir -p test/{test1,test2"})`, infer.FinishToolCalls},
		{"quotes in an argument", Hermes, `<tool_call>{"name": "run", "arguments": {"cmd": "quote \" and \\ slash"}}</tool_call>`, stop, "", `run({"cmd": "quote \" and \\ slash"})`, infer.FinishToolCalls},
		{"raw line break in a string", Hermes, "<tool_call>{\"name\": \"run\", \"arguments\": {\"cmd\": \"a\nb\"}}</tool_call>", stop, "", `run({"cmd": "a\nb"})`, infer.FinishToolCalls},
		{"encoded twice", Hermes, `<tool_call>{"name": "run", "arguments": "{\"cmd\": \"a \\\"b\\\"\"}"}</tool_call>`, stop, "", `run({"cmd": "a \"b\""})`, infer.FinishToolCalls},
		{"arguments first", Hermes, `<tool_call>{"arguments": {"cmd": "x"}, "name": "run"}</tool_call>`, stop, "", `run({"cmd": "x"})`, infer.FinishToolCalls},
		{"other keys", Hermes, `<tool_call>{"id": 7, "type": "function", "name": "run", "x": [1, "}"], "arguments": {"cmd": "x"}, "y": null}</tool_call>`, stop, "", `run({"cmd": "x"})`, infer.FinishToolCalls},
		{"function object", Hermes, `<tool_call>{"type": "function", "function": {"name": "run", "arguments": {"cmd": "x"}}}</tool_call>`, stop, "", `run({"cmd": "x"})`, infer.FinishToolCalls},
		{"no arguments", Hermes, `<tool_call>{"name": "run"}</tool_call>`, stop, "", `run({})`, infer.FinishToolCalls},
		{"null arguments", Hermes, `<tool_call>{"name": "run", "arguments": null}</tool_call>`, stop, "", `run({})`, infer.FinishToolCalls},
		{"parameters", Hermes, `<tool_call>{"name": "run", "parameters": {"cmd": "x"}}</tool_call>`, stop, "", `run({"cmd": "x"})`, infer.FinishToolCalls},
		{"unicode", Hermes, `<tool_call>{"name": "run", "arguments": {"cmd": "naïve 日本 😀"}}</tool_call>`, stop, "", `run({"cmd": "naïve 日本 😀"})`, infer.FinishToolCalls},

		{"no call at all", Hermes, "a < b <tool <tool_cal", stop, "a < b <tool <tool_cal", "", stop},
		{"only white space", Hermes, " \n", stop, " \n", "", stop},
		{"malformed", Hermes, "<tool_call>not json</tool_call>", stop, "<tool_call>not json</tool_call>", "", stop},
		{"malformed then good", Hermes, `x <tool_call>{"nom": }<tool_call>{"name": "add", "arguments": {}}</tool_call>`, stop, `x <tool_call>{"nom": }`, "add({})", infer.FinishToolCalls},
		{"empty call", Hermes, "<tool_call></tool_call>", stop, "<tool_call></tool_call>", "", stop},
		{"arguments are a list", Hermes, `<tool_call>{"name": "add", "arguments": [1]}</tool_call>`, stop, `<tool_call>{"name": "add", "arguments": [1]}</tool_call>`, "", stop},
		{"arguments break", Hermes, `<tool_call>{"name": "add", "arguments": {"a": oops}}</tool_call> x`, stop, " x", `add({"a": oops}})`, stop},
		{"name is a number", Hermes, `<tool_call>{"name": 5, "arguments": {}}</tool_call>`, stop, `<tool_call>{"name": 5, "arguments": {}}</tool_call>`, "", stop},

		{"cut in the marker", Hermes, "Sure. <tool_ca", length, "Sure. <tool_ca", "", length},
		{"cut behind the marker", Hermes, "Sure. <tool_call>\n", length, "Sure. ", "", length},
		{"cut in the name", Hermes, "Sure. <tool_call>\n{\"name\": \"ad", length, "Sure. ", "", length},
		{"cut before the arguments", Hermes, "<tool_call>\n{\"name\": \"add\", \"argu", length, "", "", length},
		{"cut in the arguments", Hermes, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1", length, "", `add({"a": 1)`, length},
		{"cut in the second", Hermes, "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>\n<tool_call>{\"na", length, "", `add({})`, length},
		{"cut in the end", Hermes, "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_c", length, "", `add({})`, length},
		{"ended in the name", Hermes, "<tool_call>\n{\"name\": \"ad", stop, "<tool_call>\n{\"name\": \"ad", "", stop},
		{"ended in the arguments", Hermes, `<tool_call>{"name": "add", "arguments": {"a": 1`, stop, "", `add({"a": 1)`, stop},

		{"generic", Generic, "Yes.\n<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>", stop, "Yes.\n", `add({"a": 1})`, infer.FinishToolCalls},

		{"llama", Llama3, `{"name": "get_weather", "parameters": {"city": "Oslo"}}`, stop, "", `get_weather({"city": "Oslo"})`, infer.FinishToolCalls},
		{"llama typed", Llama3, `{"type": "function", "name": "get_weather", "parameters": {"city": "Oslo"}}`, stop, "", `get_weather({"city": "Oslo"})`, infer.FinishToolCalls},
		{"llama tag", Llama3, `<|python_tag|>{"name": "add", "parameters": {}}`, stop, "", `add({})`, infer.FinishToolCalls},
		{"llama two", Llama3, `{"name": "add", "parameters": {}}; {"name": "run", "parameters": {}}`, stop, "", `add({}) | run({})`, infer.FinishToolCalls},
		{"llama unknown name", Llama3, `{"name": "Bob", "parameters": {"age": 3}}`, stop, `{"name": "Bob", "parameters": {"age": 3}}`, "", stop},
		{"llama json answer", Llama3, `{"city": "Oslo", "name": "x"}`, stop, `{"city": "Oslo", "name": "x"}`, "", stop},
		{"llama json later", Llama3, `Here: {"name": "add", "parameters": {}}`, stop, `Here: {"name": "add", "parameters": {}}`, "", stop},
		{"llama cut", Llama3, `{"name": "add", "para`, length, "", "", length},
		{"llama json cut", Llama3, `{"city": "Os`, length, `{"city": "Os`, "", length},
		{"llama no arguments", Llama3, `{"name": "add"}`, stop, `{"name": "add"}`, "", stop},
		{"generic without marks", Generic, "\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}", stop, "", `add({"a": 1})`, infer.FinishToolCalls},
		{"generic json answer", Generic, `{"name": "Ann", "arguments": {}}`, stop, `{"name": "Ann", "arguments": {}}`, "", stop},
		{"llama code", Llama3, `<|python_tag|>print(1)`, stop, `<|python_tag|>print(1)`, "", stop},
		{"llama text", Llama3, "Hello { there", stop, "Hello { there", "", stop},

		{"mistral list", Mistral, `[TOOL_CALLS][{"name": "add", "arguments": {"a": 1}, "id": "abc123def"}, {"name": "run", "arguments": {"cmd": "]"}}]`, stop, "", `add({"a": 1}) | run({"cmd": "]"})`, infer.FinishToolCalls},
		{"mistral spaces", Mistral, `[TOOL_CALLS] [ {"name": "add", "arguments": {}} ]`, stop, "", `add({})`, infer.FinishToolCalls},
		{"mistral text behind", Mistral, `[TOOL_CALLS][{"name": "add", "arguments": {}}] ok`, stop, " ok", `add({})`, infer.FinishToolCalls},
		{"mistral args", MistralArgs, `[TOOL_CALLS]add[ARGS]{"a": 1}[TOOL_CALLS]run[ARGS]{"cmd": "[TOOL_CALLS]"}`, stop, "", `add({"a": 1}) | run({"cmd": "[TOOL_CALLS]"})`, infer.FinishToolCalls},
		{"mistral id", MistralArgs, `ok [TOOL_CALLS]add[CALL_ID]abc123def[ARGS]{"a": 1}`, stop, "ok ", `add({"a": 1})`, infer.FinishToolCalls},
		{"mistral bare args", MistralArgs, `[TOOL_CALLS]add{"a": 1}`, stop, "", `add({"a": 1})`, infer.FinishToolCalls},
		{"mistral cut", MistralArgs, `[TOOL_CALLS]ad`, length, "", "", length},
		{"mistral prose", Mistral, `[TOOL_CALLS] is my marker`, stop, `[TOOL_CALLS] is my marker`, "", stop},

		{"phi", Phi4, `<|tool_call|>[{"name": "add", "arguments": {"a": 1}}]<|/tool_call|>`, stop, "", `add({"a": 1})`, infer.FinishToolCalls},
		{"granite", Phi4, `<|tool_call|>[{"name": "add", "arguments": {"a": 1}}, {"name": "run", "arguments": {}}]`, stop, "", `add({"a": 1}) | run({})`, infer.FinishToolCalls},

		{"xml", Qwen3Coder, "<tool_call>\n<function=get_weather>\n<parameter=city>\nNew \"York\"\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>", stop, "", `get_weather({"city": "New \"York\"", "days": 3})`, infer.FinishToolCalls},
		{"xml lines", Qwen3Coder, "I will.\n\n<tool_call>\n<function=run>\n<parameter=cmd>\nfor x in a; do\n  echo </parameter> $x\ndone\n</parameter>\n</function>\n</tool_call>", stop, "I will.\n\n", `run({"cmd": "for x in a; do\n  echo </parameter> $x\ndone"})`, infer.FinishToolCalls},
		{"xml none", Qwen3Coder, "<tool_call>\n<function=run>\n</function>\n</tool_call>", stop, "", `run({})`, infer.FinishToolCalls},
		{"xml no outer tag", Qwen3Coder, "<function=run>\n<parameter=cmd>ls</parameter>\n</function>", stop, "", `run({"cmd": "ls"})`, infer.FinishToolCalls},
		{"xml values", Qwen3Coder, "<tool_call><function=get_weather><parameter=opts>{\"a\": [1]}</parameter><parameter=on>True</parameter><parameter=days>many</parameter></function></tool_call>", stop, "", `get_weather({"opts": {"a": [1]}, "on": true, "days": "many"})`, infer.FinishToolCalls},
		{"xml two", Qwen3Coder, "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=run>\n</function>\n</tool_call>", stop, "", `add({"a": 1}) | run({})`, infer.FinishToolCalls},
		{"xml as json", Qwen3Coder, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>", stop, "", `add({"a": 1})`, infer.FinishToolCalls},
		{"xml cut", Qwen3Coder, "<tool_call>\n<function=ru", length, "", "", length},
		{"xml cut in a value", Qwen3Coder, "<tool_call>\n<function=run>\n<parameter=cmd>\nls", length, "", `run({"cmd": "ls)`, length},
		{"xml end missing", Qwen3Coder, "<tool_call>\n<function=run>\n<parameter=cmd>\nls\n</parameter>\n", stop, "", `run({"cmd": "ls"})`, infer.FinishToolCalls},
		{"xml function end missing", Qwen3Coder, "<tool_call>\n<function=run>\n<parameter=cmd>\nls\n</parameter>\n</tool_call>", stop, "", `run({"cmd": "ls"})`, infer.FinishToolCalls},
		{"xml prose", Qwen3Coder, "if a <function= b", stop, "if a <function= b", "", stop},

		{"deepseek", DeepSeek, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>run<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", stop, "", `add({"a": 1}) | run({})`, infer.FinishToolCalls},
		{"deepseek r1", DeepSeekR1, "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{\"a\": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>run\n```json\n{\"cmd\": \"```\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", stop, "Hm.", "add({\"a\": 1}) | run({\"cmd\": \"```\"})", infer.FinishToolCalls},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := feedAll(t, Options{Format: c.f, Tools: tools}, c.in, c.reason)
			if a.text != c.text || join(a.calls) != c.calls || a.finish != c.finish {
				t.Errorf("%q:\n got text %q, calls %s, finish %s\nwant text %q, calls %s, finish %s", c.in, a.text, join(a.calls), a.finish, c.text, c.calls, c.finish)
			}
		})
	}
}

// What constrained decoding writes by a format's envelope, the format reads.
func TestEnvelopes(t *testing.T) {
	args := []string{`{"cmd": "</tool_call> ]} ` + "```" + ` [ARGS]"}`, `{}`}
	for _, f := range []*ToolFormat{Generic, Hermes, Llama3, Mistral, MistralArgs, Phi4, Qwen3Coder, DeepSeek, DeepSeekR1} {
		e := f.Call
		one := e.CallOpen + "run" + e.ArgsOpen + args[0] + e.CallClose
		two := one + e.Separator + e.CallOpen + "add" + e.ArgsOpen + args[1] + e.CallClose
		a := feedAll(t, Options{Format: f, Tools: tools, Forced: true}, e.Begin+two+e.End, infer.FinishStop)
		if a.text != "" || join(a.calls) != "run("+args[0]+") | add("+args[1]+")" || a.finish != infer.FinishToolCalls {
			t.Errorf("%s: %v", f.Name, a)
		}
		text := e.Begin + two + e.End
		a = feedAll(t, Options{Format: f, Tools: tools, SingleCall: true}, text, infer.FinishLength)
		if a.text != "" || join(a.calls) != "run("+args[0]+")" || a.finish != infer.FinishToolCalls {
			t.Errorf("%s, single: %v", f.Name, a)
		}
		// Cut anywhere by the limit: no markup in the text, nothing claimed complete.
		for n := range text {
			a := feed(t, Options{Format: f, Tools: tools, Forced: true}, text[:n], 3, infer.FinishLength)
			if a.text != "" || a.finish != infer.FinishLength {
				t.Fatalf("%s cut at %d: %v", f.Name, n, a)
			}
		}
	}
}

// Arguments come out while they are generated, not at the end.
func TestToolStreaming(t *testing.T) {
	p := New(Options{Format: Hermes, Tools: tools})
	text := `<tool_call>{"name": "run", "arguments": {"cmd": "` + strings.Repeat("x", 100) + `"}}</tool_call>`
	var got strings.Builder
	for i := range len(text) {
		ev, _ := p.Push(1, []byte{text[i]}, nil)
		for _, e := range ev {
			if e.Kind == infer.EventTool {
				got.WriteString(e.Tool.Arguments)
			}
		}
		if at := strings.Index(text, "xx"); i > at && i < at+98 && !strings.HasSuffix(got.String(), strings.Repeat("x", i-at+1)) {
			t.Fatalf("after %d bytes only %q came out", i+1, got.String())
		}
	}
	if !json.Valid([]byte(got.String())) {
		t.Errorf("arguments %s", got.String())
	}
}

// An answer in JSON is not held up, although a call could begin so.
func TestJSONAnswerStreams(t *testing.T) {
	p := New(Options{Format: Llama3, Tools: tools})
	text, out := `{"city": "Oslo", "days": 3}`, ""
	for i := range len(text) {
		ev, _ := p.Push(1, []byte{text[i]}, nil)
		for _, e := range ev {
			out += e.Text
		}
		if i >= len(`{"city"`) && out != text[:i+1] {
			t.Fatalf("after %q only %q came out", text[:i+1], out)
		}
	}
}

func TestDetectToolFormat(t *testing.T) {
	none := func(string) bool { return false }
	for text, want := range map[string]*ToolFormat{
		"": Generic, "... <tool_call> ...": Hermes, "<function=x><parameter=y><tool_call>": Qwen3Coder,
		"[TOOL_CALLS]": Mistral, "[TOOL_CALLS] [ARGS]": MistralArgs, "<|python_tag|>": Llama3,
		`<|start_header_id|> "parameters": `: Llama3, "<|tool_call|>": Phi4,
		"<｜tool▁calls▁begin｜>": DeepSeek, "<｜tool▁calls▁begin｜> ```json": DeepSeekR1,
	} {
		if f := DetectToolFormat(text, none); f != want {
			t.Errorf("%q: got %s, want %s", text, f.Name, want.Name)
		}
	}
	if f := DetectToolFormat("<|tool|>", func(s string) bool { return s == "<|tool_call|>" }); f != Phi4 {
		t.Errorf("got %s, want %s", f.Name, Phi4.Name)
	}
}
