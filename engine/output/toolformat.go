package output

import "strings"

// style is the grammar of what follows a begin marker.
type style uint8

const (
	// styleJSON: objects {"name": …, "arguments": …}, alone, in a list, or
	// separated by commas or semicolons, up to the end marker if there is one.
	styleJSON style = iota
	// styleNamed: a name, a separator, the arguments as an object.
	styleNamed
	// styleXML: <function=NAME><parameter=KEY>VALUE</parameter></function>.
	styleXML
)

// ToolFormat is one family's syntax of tool calls, for reading (streamed) and
// for writing (constrained decoding). Formats are immutable and shared.
type ToolFormat struct {
	Name string
	// Markers are the control tokens of the syntax: their text must be pushed
	// like any other although they are special tokens.
	Markers []string
	// Call is the shape for constrained decoding.
	Call Envelope

	style  style
	bare   bool     // an object of known name may stand without marker at the start of the answer
	begins []string // any of these starts a call, or a list of calls
	end    string   // ends it; may be missing
	seps   []string // styleNamed: what may stand between name and arguments
	item   string   // styleNamed: starts each call inside begin and end
	itemTo string   // styleNamed: ends each call
}

// Envelope spells a sequence of calls for constrained decoding:
//
//	Begin  CallOpen NAME ArgsOpen ARGS CallClose  [Separator CallOpen …]  End
//
// where NAME is the JSON-escaped function name without quotes and ARGS a JSON
// object that matches the function's schema.
type Envelope struct {
	Begin, CallOpen, ArgsOpen, CallClose, Separator, End string
}

// Formats by family. The shapes are those of the published templates:
// Hermes 2 Pro, Qwen 2.5 and 3; Llama 3.1 to 3.3; Mistral tokenizer versions 2
// to 7 and from 11; Phi-4-mini and Granite 3; Qwen3-Coder; DeepSeek V3, R1, V3.1.
var (
	// Generic is the syntax that chattmpl's generic tool prompt asks for.
	Generic = &ToolFormat{
		Name:  "generic",
		Call:  Envelope{CallOpen: `<tool_call>{"name": "`, ArgsOpen: `", "arguments": `, CallClose: `}</tool_call>`, Separator: "\n"},
		style: styleJSON, bare: true, begins: []string{"<tool_call>"}, end: "</tool_call>",
		Markers: []string{"<tool_call>", "</tool_call>"},
	}
	Hermes = &ToolFormat{
		Name:  "hermes",
		Call:  Envelope{CallOpen: "<tool_call>\n" + `{"name": "`, ArgsOpen: `", "arguments": `, CallClose: "}\n</tool_call>", Separator: "\n"},
		style: styleJSON, bare: true, begins: []string{"<tool_call>"}, end: "</tool_call>",
		Markers: []string{"<tool_call>", "</tool_call>"},
	}
	Llama3 = &ToolFormat{
		Name:  "llama3",
		Call:  Envelope{CallOpen: `{"name": "`, ArgsOpen: `", "parameters": `, CallClose: "}", Separator: "; "},
		style: styleJSON, bare: true, begins: []string{"<|python_tag|>"},
		Markers: []string{"<|python_tag|>"},
	}
	Mistral = &ToolFormat{
		Name:  "mistral",
		Call:  Envelope{Begin: "[TOOL_CALLS][", CallOpen: `{"name": "`, ArgsOpen: `", "arguments": `, CallClose: "}", Separator: ", ", End: "]"},
		style: styleNamed, begins: []string{"[TOOL_CALLS]"}, seps: []string{"[CALL_ID]", "[ARGS]"},
		Markers: []string{"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
	}
	MistralArgs = &ToolFormat{
		Name:  "mistral-args",
		Call:  Envelope{CallOpen: "[TOOL_CALLS]", ArgsOpen: "[ARGS]"},
		style: styleNamed, begins: []string{"[TOOL_CALLS]"}, seps: []string{"[CALL_ID]", "[ARGS]"},
		Markers: []string{"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
	}
	Phi4 = &ToolFormat{
		Name:  "phi4",
		Call:  Envelope{Begin: "<|tool_call|>[", CallOpen: `{"name": "`, ArgsOpen: `", "arguments": `, CallClose: "}", Separator: ", ", End: "]<|/tool_call|>"},
		style: styleJSON, begins: []string{"<|tool_call|>"}, end: "<|/tool_call|>",
		Markers: []string{"<|tool_call|>", "<|/tool_call|>"},
	}
	// Qwen3Coder reads its XML form and, since constrained decoding writes JSON
	// arguments, the form of Hermes too.
	Qwen3Coder = &ToolFormat{
		Name:  "qwen3-coder",
		Call:  Hermes.Call,
		style: styleXML, begins: []string{"<tool_call>", "<function="}, end: "</tool_call>",
		Markers: []string{"<tool_call>", "</tool_call>"},
	}
	DeepSeek = &ToolFormat{
		Name: "deepseek",
		Call: Envelope{Begin: "<｜tool▁calls▁begin｜>", CallOpen: "<｜tool▁call▁begin｜>", ArgsOpen: "<｜tool▁sep｜>",
			CallClose: "<｜tool▁call▁end｜>", End: "<｜tool▁calls▁end｜>"},
		style: styleNamed, begins: []string{"<｜tool▁calls▁begin｜>"}, end: "<｜tool▁calls▁end｜>",
		item: "<｜tool▁call▁begin｜>", itemTo: "<｜tool▁call▁end｜>", seps: []string{"<｜tool▁sep｜>"},
		Markers: deepSeekMarkers,
	}
	DeepSeekR1 = &ToolFormat{
		Name: "deepseek-r1",
		Call: Envelope{Begin: "<｜tool▁calls▁begin｜>", CallOpen: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", ArgsOpen: "\n```json\n",
			CallClose: "\n```<｜tool▁call▁end｜>", Separator: "\n", End: "<｜tool▁calls▁end｜>"},
		style: styleNamed, begins: []string{"<｜tool▁calls▁begin｜>"}, end: "<｜tool▁calls▁end｜>",
		item: "<｜tool▁call▁begin｜>", itemTo: "<｜tool▁call▁end｜>", seps: []string{"<｜tool▁sep｜>"},
		Markers: deepSeekMarkers,
	}
	deepSeekMarkers = []string{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"}
)

// DetectToolFormat chooses the syntax of tool calls by the template's text and
// then by the vocabulary; Generic where neither names one.
func DetectToolFormat(template string, hasToken func(string) bool) *ToolFormat {
	in := func(s string) bool { return strings.Contains(template, s) }
	switch {
	case in("<function=") && in("<parameter="):
		return Qwen3Coder
	case in("<｜tool▁calls▁begin｜>") && in("```json"):
		return DeepSeekR1
	case in("<｜tool▁calls▁begin｜>"):
		return DeepSeek
	case in("[TOOL_CALLS]") && in("[ARGS]"):
		return MistralArgs
	case in("[TOOL_CALLS]"):
		return Mistral
	case in("<|tool_call|>"):
		return Phi4
	case in("<tool_call>"):
		return Hermes
	case in("<|python_tag|>") || in("<|start_header_id|>") && in(`"parameters": `):
		return Llama3
	case in("<|tool|>") && hasToken("<|tool_call|>"):
		return Phi4
	}
	return Generic
}
