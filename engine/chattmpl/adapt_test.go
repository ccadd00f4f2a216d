package chattmpl

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"hearth/engine/infer"
)

func builtin(t testing.TB, name string) *Template {
	src, ok := Builtin(name)
	if !ok {
		t.Fatalf("no built-in template %s", name)
	}
	tm, err := Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

func compile(t testing.TB, src string) *Template {
	tm, err := Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

func prompt(t testing.TB, tm *Template, in Input) (string, *Prompt) {
	t.Helper()
	p, err := tm.Prompt(in)
	if err != nil {
		t.Fatal(err)
	}
	return Text(p.Segments), p
}

func TestBuiltins(t *testing.T) {
	in := Input{Messages: []infer.Message{say(infer.RoleSystem, "S"), say(infer.RoleUser, "U"), say(infer.RoleAssistant, "A"), say(infer.RoleUser, "V")},
		AddGenerationPrompt: true, BOS: "<s>", EOS: "</s>"}
	for name, want := range map[string]string{
		"chatml": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n",
		"llama2": "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST] A </s><s>[INST] V [/INST]",
		"llama3": "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nV<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
		"gemma":  "<s><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>user\nV<end_of_turn>\n<start_of_turn>model\n",
		"phi3":   "<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\nV<|end|>\n<|assistant|>\n",
		"plain":  "<s>S\n\nUser: U\nAssistant: A\nUser: V\nAssistant:",
	} {
		if got, _ := prompt(t, builtin(t, name), in); got != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
}

func TestFallback(t *testing.T) {
	for tokens, want := range map[string]string{
		"<|start_header_id|> <|end_header_id|> <|eot_id|>": "llama3", "<|im_start|> <|im_end|>": "chatml", "<start_of_turn> <end_of_turn>": "gemma",
		"<|user|> <|assistant|> <|end|>": "phi3", "[INST] [/INST]": "llama2", "<s> </s>": "plain", "<|im_start|>": "plain", "": "plain",
	} {
		has := func(s string) bool { return s != "" && contains(strings.Split(tokens, " "), s) }
		name, src := Fallback(has)
		if name != want || src == "" {
			t.Errorf("%s: got %s, want %s", tokens, name, want)
		}
	}
}

func TestCaps(t *testing.T) {
	want := map[string]Caps{
		"gemma3":       {System: true},
		"llama3.1":     {System: true, Tools: true, ToolCalls: true, ToolResults: true},
		"llama3.2":     {System: true, Tools: true, ToolCalls: true, ToolResults: true},
		"mistral-nemo": {System: true, Tools: true, ToolCalls: true, ToolResults: true, ParallelCalls: true},
		"phi3.5":       {System: true},
		"qwen2.5":      {System: true, Tools: true, ToolCalls: true, ToolResults: true, ParallelCalls: true},
		"qwen3":        {System: true, Tools: true, ToolCalls: true, ToolResults: true, ParallelCalls: true, Thinking: true, Reasoning: true},
		"smollm2":      {System: true},
	}
	for _, path := range sharedVectors(t) {
		f := readVectors(t, path)
		if got := compile(t, f.Template).Caps(); got != want[f.Family] {
			t.Errorf("%s: got %+v, want %+v", f.Family, got, want[f.Family])
		}
	}
}

// Templates differ in the shapes they take; the probes find them.
func TestForms(t *testing.T) {
	call := infer.Message{Role: infer.RoleAssistant, ToolCalls: []infer.ToolCall{{ID: "call_abcdefgh", Name: "f", Arguments: `{"a": 1}`}}}
	result := infer.Message{Role: infer.RoleTool, ToolCallID: "call_abcdefgh", Content: []infer.Part{{Text: "r"}}}
	for name, c := range map[string]struct {
		src, want string
		messages  []infer.Message
	}{
		"parts only": {`{% for m in messages %}{% for p in m.content %}{% if p.type == 'text' %}[{{ p.text }}]{% endif %}{% endfor %}{% endfor %}`, "[Hi]",
			[]infer.Message{say(infer.RoleUser, "Hi")}},
		"parts as text": {`{% for m in messages %}[{{ m.content }}]{% endfor %}`, "[ab]",
			[]infer.Message{{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: "a"}, {Type: "text", Text: "b"}}}}},
		"parts as parts": {`{% for m in messages %}{% if m.content is string %}[{{ m.content }}]{% else %}{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endif %}{% endfor %}`, "<a><b>",
			[]infer.Message{{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: "a"}, {Type: "text", Text: "b"}}}}},
		"arguments as text": {`{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.name + '(' + c.function.arguments + ')' }}{% endfor %}{% if m.role == 'tool' %}={{ m.content }}{% endif %}{% endfor %}`, `f({"a": 1})=r`,
			[]infer.Message{call, result}},
		"arguments as object": {`{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.name ~ '(' ~ c.function.arguments|tojson ~ ')' }}{% endfor %}{% if m.role == 'tool' %}={{ m.content }}{% endif %}{% endfor %}`, `f({"a": 1})=r`,
			[]infer.Message{call, result}},
		"content none beside calls": {`{% for m in messages %}{% if m.role == 'tool' %}={{ m.content }}{% elif m.content is none %}{{ m.tool_calls[0].function.name ~ m.tool_calls[0].function.arguments|tojson }}{% else %}{{ m.content }}{% endif %}{% endfor %}`, `Hif{"a": 1}=r`,
			[]infer.Message{say(infer.RoleUser, "Hi"), call, result}},
	} {
		if got, _ := prompt(t, compile(t, c.src), Input{Messages: c.messages}); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	short := compile(t, `{% for m in messages %}{% if m.tool_calls is defined %}{% if m.tool_calls[0].id|length != 9 %}{{ raise_exception('nine') }}{% endif %}{{ m.tool_calls[0].id ~ m.tool_calls[0].function|tojson }}{% elif m.role == 'tool' %}{% if m.tool_call_id|length != 9 %}{{ raise_exception('nine') }}{% endif %}={{ m.tool_call_id ~ m.content }}{% endif %}{% endfor %}`)
	got, _ := prompt(t, short, Input{Messages: []infer.Message{call, result}})
	if id := got[:9]; got != id+`{"name": "f", "arguments": {"a": 1}}=`+id+"r" {
		t.Errorf("short ids: got %q", got)
	}
	if id := short.form.callID("abcDEF123"); id != "abcDEF123" {
		t.Errorf("an id that fits became %q", id)
	}
}

var weather = infer.Tool{Name: "get_weather", Description: "Weather of a \"city\" <now>.", Parameters: json.RawMessage(`{"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "number"}}}`)}

// A model without tools in its template gets them as text, and the whole loop of
// call and result with them.
func TestGenericTools(t *testing.T) {
	in := Input{Tools: []infer.Tool{weather}, AddGenerationPrompt: true, Messages: []infer.Message{
		say(infer.RoleSystem, "Be brief."), say(infer.RoleUser, "Rome and Oslo?"),
		{Role: infer.RoleAssistant, Content: []infer.Part{{Text: "Looking."}}, ToolCalls: []infer.ToolCall{
			{ID: "1", Name: "get_weather", Arguments: `{"z": "Rome"}`}, {ID: "2", Name: "get_weather", Arguments: `{"z": "Oslo"}`}}},
		{Role: infer.RoleTool, ToolCallID: "1", Content: []infer.Part{{Text: "sun"}}},
		{Role: infer.RoleTool, ToolCallID: "2", Content: []infer.Part{{Text: "snow"}}},
		say(infer.RoleUser, "Thanks."),
	}}
	got, p := prompt(t, builtin(t, "gemma"), in)
	want := "<start_of_turn>user\nBe brief.\n\n" + genericHead +
		`{"name": "get_weather", "description": "Weather of a \"city\" <now>.", "parameters": {"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}}}}` + "\n" + genericTail +
		"\n\nRome and Oslo?<end_of_turn>\n<start_of_turn>model\nLooking.\n" +
		`<tool_call>{"name": "get_weather", "arguments": {"z": "Rome"}}</tool_call>` + "\n" + `<tool_call>{"name": "get_weather", "arguments": {"z": "Oslo"}}</tool_call>` +
		"<end_of_turn>\n<start_of_turn>user\n<tool_response>sun</tool_response>\n<tool_response>snow</tool_response>\n\nThanks.<end_of_turn>\n<start_of_turn>model\n"
	if got != want || !p.GenericTools {
		t.Errorf("got %q\nwant %q", got, want)
	}
	in.Tools = nil // the history alone needs no format
	if got, p := prompt(t, builtin(t, "gemma"), in); p.GenericTools || !strings.Contains(got, "<tool_response>snow</tool_response>") {
		t.Errorf("without tools: %v %q", p.GenericTools, got)
	}
	in = Input{Tools: []infer.Tool{weather}, Messages: []infer.Message{say(infer.RoleUser, "Hi")}}
	if got, _ := prompt(t, builtin(t, "chatml"), in); !strings.HasPrefix(got, "<|im_start|>system\n"+genericHead) {
		t.Errorf("without a system message: %q", got)
	}
	if len(in.Tools) != 1 || len(in.Messages) != 1 {
		t.Error("the caller's input was changed")
	}
	in.Tools[0].Parameters = json.RawMessage(`{`)
	if _, err := builtin(t, "chatml").Prompt(in); infer.AsError(err).Code != infer.CodeInvalid {
		t.Errorf("broken parameters: %v", err)
	}
}

const oneCall = `{% for m in messages %}{{ m.role[0] }}{% if m.tool_calls is defined %}{% if m.tool_calls|length != 1 %}{{ raise_exception('one call') }}{% endif %}({{ m.tool_calls[0].function.name ~ m.tool_calls[0].function.arguments|tojson }}){% else %}:{{ m.content }} {% endif %}{% endfor %}`

// Several calls in one turn reach a template of one call a turn one by one.
func TestSplitCalls(t *testing.T) {
	in := Input{Messages: []infer.Message{say(infer.RoleUser, "q"),
		{Role: infer.RoleAssistant, ToolCalls: []infer.ToolCall{{ID: "1", Name: "f"}, {ID: "2", Name: "g"}}},
		{Role: infer.RoleTool, ToolCallID: "2", Content: []infer.Part{{Text: "rg"}}}, {Role: infer.RoleTool, ToolCallID: "1", Content: []infer.Part{{Text: "rf"}}},
		{Role: infer.RoleTool, ToolCallID: "3", Content: []infer.Part{{Text: "stray"}}}, say(infer.RoleUser, "end")}}
	if got, _ := prompt(t, compile(t, oneCall), in); got != "u:q a(f{})t:rf a(g{})t:rg t:stray u:end " {
		t.Errorf("got %q", got)
	}
	if _, err := compile(t, oneCall).Render(in); err == nil || infer.AsError(err).Message != "one call" {
		t.Errorf("Render adapts nothing, got %v", err)
	}
}

const alternating = `{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('must alternate') }}{% endif %}[{{ m.content }}]{% endfor %}`

func TestSystemMessages(t *testing.T) {
	gemma := builtin(t, "gemma")
	for _, c := range []struct {
		name     string
		tm       *Template
		roles    string // s, d, u, a
		want     string // empty: an error
		mustFail string
	}{
		{"no system role", compile(t, alternating), "su", "[0\n\n1]", ""},
		{"two systems", compile(t, alternating), "sdu", "[0\n\n1\n\n2]", ""},
		{"only a system", compile(t, alternating), "s", "[0]", ""},
		{"system before assistant", compile(t, alternating), "sau", "[0][1][2]", ""},
		{"late, before a user", compile(t, alternating), "uasu", "[0][1][<system>\n2\n</system>\n\n3]", ""},
		{"late, behind a user", compile(t, alternating), "usau", "[0\n\n<system>\n1\n</system>][2][3]", ""},
		{"late, last", compile(t, alternating), "uas", "[0][1][<system>\n2\n</system>]", ""},
		{"two users", compile(t, alternating), "uu", "", "must alternate"},
		{"developer", builtin(t, "chatml"), "d", "<|im_start|>system\n0<|im_end|>\n", ""},
		{"late where it may be", builtin(t, "chatml"), "us", "<|im_start|>user\n0<|im_end|>\n<|im_start|>system\n1<|im_end|>\n", ""},
		{"gemma, late", gemma, "suas", "<start_of_turn>user\n0\n\n1<end_of_turn>\n<start_of_turn>model\n2<end_of_turn>\n<start_of_turn>user\n<system>\n3\n</system><end_of_turn>\n", ""},
	} {
		in := Input{}
		for i, r := range c.roles {
			role := map[rune]infer.Role{'s': infer.RoleSystem, 'd': infer.RoleDeveloper, 'u': infer.RoleUser, 'a': infer.RoleAssistant}[r]
			in.Messages = append(in.Messages, say(role, string(rune('0'+i))))
		}
		p, err := c.tm.Prompt(in)
		switch {
		case c.want == "":
			if err == nil || infer.AsError(err).Message != c.mustFail {
				t.Errorf("%s: got error %v, want %q", c.name, err, c.mustFail)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case Text(p.Segments) != c.want:
			t.Errorf("%s: got %q, want %q", c.name, Text(p.Segments), c.want)
		}
	}
}

func TestContinueFinalMessage(t *testing.T) {
	turn := func(s string) Input {
		return Input{ContinueFinalMessage: true, Messages: []infer.Message{say(infer.RoleUser, "Hi"), say(infer.RoleAssistant, s)}}
	}
	chatml, gemma := builtin(t, "chatml"), builtin(t, "gemma")
	for _, c := range []struct {
		tm       *Template
		in, want string
	}{
		{chatml, "Sure, ", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nSure, "},
		{gemma, "Sure, ", "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nSure,"},
		{gemma, "  Hi", "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHi"},
		{chatml, "", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
		{chatml, "<think>\nwell", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\nwell"},
	} {
		got, p := prompt(t, c.tm, turn(c.in))
		if got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
		if open := map[bool]string{true: "<think>"}[strings.HasPrefix(c.in, "<think>")]; p.OpenThink != open {
			t.Errorf("%q: open mark %q, want %q", c.in, p.OpenThink, open)
		}
	}
	bad := []Input{{ContinueFinalMessage: true}, {ContinueFinalMessage: true, Messages: []infer.Message{say(infer.RoleUser, "Hi")}}, turn("x")}
	bad[2].AddGenerationPrompt = true
	for i, in := range bad {
		if _, err := chatml.Prompt(in); err == nil || infer.AsError(err).Code != infer.CodeInvalid {
			t.Errorf("bad input %d: %v", i, err)
		}
	}
}

func TestOpenThink(t *testing.T) {
	tm := compile(t, `{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|a|><think>{% if enable_thinking is defined and not enable_thinking %}</think>{% endif %}`+"\n{% endif %}")
	if !tm.Caps().OpensThink || !tm.Caps().Thinking || !tm.Caps().Reasoning {
		t.Errorf("caps %+v", tm.Caps())
	}
	in := Input{Messages: []infer.Message{say(infer.RoleUser, "Hi")}, AddGenerationPrompt: true}
	if _, p := prompt(t, tm, in); p.OpenThink != "<think>" {
		t.Errorf("open mark %q", p.OpenThink)
	}
	in.Args = map[string]json.RawMessage{"enable_thinking": json.RawMessage("false")}
	if _, p := prompt(t, tm, in); p.OpenThink != "" {
		t.Errorf("open mark %q although thinking is off", p.OpenThink)
	}
	in = Input{Messages: []infer.Message{say(infer.RoleUser, "<think>")}}
	if _, p := prompt(t, tm, in); p.OpenThink != "" {
		t.Error("a user opened the reasoning")
	}
}

func TestBadInput(t *testing.T) {
	tm := builtin(t, "chatml")
	for name, in := range map[string]Input{
		"role":          {Messages: []infer.Message{say("wizard", "x")}},
		"reserved name": {Args: map[string]json.RawMessage{"messages": json.RawMessage("[]")}},
		"bad argument":  {Args: map[string]json.RawMessage{"x": json.RawMessage("[")}},
		"an image":      {Messages: []infer.Message{{Role: infer.RoleUser, Content: []infer.Part{{Type: "image"}}}}},
	} {
		_, err := tm.Prompt(in)
		if e := infer.AsError(err); err == nil || e.Code != infer.CodeInvalid && e.Code != infer.CodeUnsupported {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A template is used by many requests at once.
func TestConcurrentRender(t *testing.T) {
	tm := compile(t, `{% set ns = namespace(l=[]) %}{% macro f(x) %}<{{ x }}>{% endmacro %}{% for m in messages %}{% set ns.l = ns.l + [f(m.content)] %}{{ loop.changed(m.role) }}{% endfor %}{{ ns.l|join(joiner()()) }}`)
	want, _ := prompt(t, tm, conversation("x"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if p, err := tm.Prompt(conversation("x")); err != nil || Text(p.Segments) != want {
					t.Errorf("got %v, %v", p, err)
				}
			}
		})
	}
	wg.Wait()
}
