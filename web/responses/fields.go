package responses

import (
	"strings"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// Bodies around one item, part or tool, which stands in place of the mark.
const (
	mark    = "▮"
	inInput = `{"model":"m","input":[{"role":"user","content":"a"},` + mark + `]}`
	inUser  = `{"model":"m","input":[{"role":"user","content":[` + mark + `]}]}`
	inTool  = `{"model":"m","input":"a","tools":[` + mark + `]}`
	inBody  = `{"model":"m","input":"a",` + mark + `}`
	inCall  = `{"model":"m","input":[{"role":"user","content":"a"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` + mark + `]}`
	aTool   = `"tools":[{"type":"function","name":"f","parameters":{}}],`
)

// row writes one row of the table: example is the field's value; in, with the
// piece that holds the field in place of its mark, is the body.
func row(path string, f infer.Feature, example, in, piece, note string) wire.Field {
	return wire.Field{Path: path, Feature: f, Example: example, Base: strings.Replace(in, mark, piece, 1), Note: note}
}

// Fields lists every field of a request to create a response, with the feature
// that it uses. Items and tools of which only the kind matters stand under their
// type.
func Fields() []wire.Field {
	var all []wire.Field
	for _, part := range [][]wire.Field{wholeFields(), shapeFields(), serviceFields(), itemFields(), partFields(), toolFields(), choiceFields()} {
		all = append(all, part...)
	}
	return all
}

func wholeFields() []wire.Field {
	return []wire.Field{
		{Path: "model", Example: `"m"`},
		{Path: "input", Example: `"a"`, Note: "a text or items"},
		{Path: "instructions", Example: `"Be brief."`, Note: "the first system turn; not kept for a following turn"},
		{Path: "stream", Example: `true`},
		{Path: "temperature", Feature: infer.FeatureTemperature, Example: `0.5`},
		{Path: "top_p", Feature: infer.FeatureTopP, Example: `0.5`},
		{Path: "top_k", Feature: infer.FeatureTopK, Example: `40`, Note: "of the open servers of this API"},
		{Path: "min_p", Feature: infer.FeatureMinP, Example: `0.1`, Note: "likewise"},
		{Path: "repetition_penalty", Feature: infer.FeatureRepetitionPenalty, Example: `1.1`, Note: "likewise"},
		{Path: "presence_penalty", Feature: infer.FeaturePresencePenalty, Example: `0.5`, Note: "likewise"},
		{Path: "frequency_penalty", Feature: infer.FeatureFrequencyPenalty, Example: `0.5`, Note: "likewise"},
		{Path: "seed", Feature: infer.FeatureSeed, Example: `7`, Note: "likewise"},
		{Path: "stop", Feature: infer.FeatureStop, Example: `["END"]`, Note: "likewise"},
		{Path: "max_output_tokens", Feature: infer.FeatureMaxTokens, Example: `100`},
		{Path: "top_logprobs", Feature: infer.FeatureLogprobs, Example: `3`},
	}
}

func shapeFields() []wire.Field {
	return []wire.Field{
		row("text.format (json_object)", infer.FeatureJSONObject, `{"type":"json_object"}`, inBody, `"text":{"format":{"type":"json_object"}}`, ""),
		row("text.format (json_schema)", infer.FeatureJSONSchema, `{"type":"json_schema","name":"n","schema":{}}`, inBody, `"text":{"format":{"type":"json_schema","name":"n","schema":{}}}`, ""),
		row("text.format (grammar)", infer.FeatureGrammar, `{"type":"grammar","grammar":"root ::= \"a\""}`, inBody, `"text":{"format":{"type":"grammar","grammar":"root ::= \"a\""}}`, "of the engine here"),
		row("text.verbosity", infer.FeatureVerbosity, `"low"`, inBody, `"text":{"verbosity":"low"}`, ""),
		row("reasoning.effort", infer.FeatureReasoningEffort, `"high"`, inBody, `"reasoning":{"effort":"high"}`, ""),
		row("reasoning.summary", infer.FeatureReasoningSummary, `"auto"`, inBody, `"reasoning":{"summary":"auto"}`, "asks for reasoning as a summary; without it readable reasoning comes as reasoning_text"),
		row("reasoning.generate_summary", infer.FeatureReasoningSummary, `"auto"`, inBody, `"reasoning":{"generate_summary":"auto"}`, "older name of summary"),
		row("reasoning.context", infer.FeatureReasoningEncrypted, `"all_turns"`, inBody, `"reasoning":{"context":"all_turns"}`, ""),
		row("reasoning.mode", infer.FeatureReasoningEffort, `"pro"`, inBody, `"reasoning":{"mode":"pro"}`, ""),
		row("include[] (reasoning.encrypted_content)", infer.FeatureReasoningEncrypted, `"reasoning.encrypted_content"`, inBody, `"include":["reasoning.encrypted_content"]`, "seals of other dialects come as encrypted_content whether asked for or not"),
		row("include[] (message.output_text.logprobs)", infer.FeatureLogprobs, `"message.output_text.logprobs"`, inBody, `"include":["message.output_text.logprobs"]`, ""),
		row("include[] (web_search_call.action.sources)", infer.FeatureToolHostedOptional, `"web_search_call.action.sources"`, inBody, `"include":["web_search_call.action.sources"]`, "and what else is shown of hosted tools"),
		{Path: "truncation", Feature: infer.FeatureTruncation, Example: `"auto"`},
		{Path: "context_management", Feature: infer.FeatureContextEdits, Example: `[{"type":"compaction"}]`},
		row("parallel_tool_calls", infer.FeatureToolSerial, `false`, inBody, aTool+`"parallel_tool_calls":false`, "means nothing without tools"),
		row("stream_options.include_obfuscation", "", `true`, inBody, `"stream":true,"stream_options":{"include_obfuscation":true}`, "done here"),
	}
}

func serviceFields() []wire.Field {
	return []wire.Field{
		{Path: "previous_response_id", Feature: infer.FeatureState, Example: `"resp_h00000000000000000000000000000000"`, Note: "found here among the tenant's responses, and then carried everywhere; a use where responses are not kept"},
		{Path: "conversation", Feature: infer.FeatureState, Example: `"conv_1"`},
		row("prompt", infer.FeatureState, `{"id":"pmpt_1"}`, inBody, `"prompt":{"id":"pmpt_1"}`, "a template kept at the provider"),
		{Path: "store", Example: `true`, Note: "kept here, see [responses]"},
		{Path: "background", Example: `true`, Note: "run here, for every target"},
		{Path: "background_options", Feature: infer.FeatureBackground, Example: `{"completion_window":"2h"}`},
		{Path: "max_tool_calls", Feature: infer.FeatureToolHostedOptional, Example: `3`, Note: "counts hosted tools only"},
		{Path: "moderation", Feature: infer.FeatureSafety, Example: `{"model":"omni-moderation-latest"}`},
		{Path: "access_programs", Feature: infer.FeatureSafety, Example: `{"cyber":"standard"}`},
		{Path: "image", Feature: infer.FeatureImageDetail, Example: `{"context_compression":"auto"}`},
		{Path: "service_tier", Feature: infer.FeatureServiceTier, Example: `"flex"`},
		{Path: "metadata", Feature: infer.FeatureMetadata, Example: `{"a":"b"}`},
		{Path: "client_metadata", Feature: infer.FeatureMetadata, Example: `{"a":"b"}`, Note: "of Codex"},
		{Path: "user", Feature: infer.FeatureUser, Example: `"u"`},
		{Path: "safety_identifier", Feature: infer.FeatureUser, Example: `"u"`},
		{Path: "prompt_cache_key", Feature: infer.FeatureCacheKey, Example: `"k"`},
		{Path: "prompt_cache_options", Feature: infer.FeatureCacheKey, Example: `{"mode":"explicit"}`},
		{Path: "prompt_cache_retention", Feature: infer.FeatureCacheKey, Example: `"24h"`},
	}
}

func itemFields() []wire.Field {
	out := []wire.Field{
		row("input[].role (developer)", infer.FeatureDeveloperRole, `"developer"`, inInput, `{"role":"developer","content":"b"}`, ""),
		row("input[].role (system, after another turn)", infer.FeatureSystemMidway, `"system"`, inInput, `{"role":"system","content":"b"}`, ""),
		row("input[].name", infer.FeatureMessageName, `"n"`, inInput, `{"role":"user","name":"n","content":"b"}`, ""),
		row("input[].phase", infer.FeatureMetadata, `"commentary"`, inInput, `{"role":"assistant","phase":"commentary","content":"b"}`, ""),
		row("input[].function_call", "", `{}`, inInput, `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`, ""),
		row("input[].function_call_output", "", `{}`, inCall, `{"type":"function_call_output","call_id":"c","output":"b"}`, ""),
		row("input[].function_call_output.output[]", infer.FeatureToolResultMedia, `{"type":"input_image"}`, inCall,
			`{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"https://example.org/a.png"}]}`, "images and files"),
		row("input[].custom_tool_call", infer.FeatureToolCustom, `{}`, inInput, `{"type":"custom_tool_call","call_id":"c","name":"f","input":"b"}`, ""),
		row("input[].reasoning.summary", infer.FeatureThoughtSummary, `[]`, inInput, `{"type":"reasoning","summary":[{"type":"summary_text","text":"b"}]}`, ""),
		row("input[].reasoning.content", infer.FeatureThoughtSummary, `[]`, inInput, `{"type":"reasoning","content":[{"type":"reasoning_text","text":"b"}]}`, ""),
		row("input[].reasoning.encrypted_content", infer.FeatureThoughtSealed, `"x"`, inInput, `{"type":"reasoning","summary":[],"encrypted_content":"x"}`, "OpenAI's own"),
		row("input[].reasoning.encrypted_content (sealed here)", infer.FeatureReasoningEncrypted, `"x"`, inInput, `{"type":"reasoning","summary":[],"encrypted_content":"`+sealSigned+`x"}`, "another dialect's signature"),
		row("input[].item_reference", infer.FeatureState, `{}`, inInput, `{"type":"item_reference","id":"msg_1"}`, "found here if it was made here"),
	}
	for _, kind := range []string{"compaction", "compaction_trigger", "configuration_update"} {
		out = append(out, row("input[]."+kind, infer.FeatureState, `{}`, inInput, `{"type":"`+kind+`"}`, ""))
	}
	for _, kind := range hostedItems {
		out = append(out, row("input[]."+kind, infer.FeatureToolCallHosted, `{}`, inInput, `{"type":"`+kind+`"}`, ""))
	}
	return out
}

func partFields() []wire.Field {
	return []wire.Field{
		row("input[].content[].input_text", "", `"a"`, inUser, `{"type":"input_text","text":"a"}`, ""),
		row("input[].content[].prompt_cache_breakpoint", infer.FeatureCacheBreakpoint, `{}`, inUser, `{"type":"input_text","text":"a","prompt_cache_breakpoint":{"mode":"explicit"}}`, ""),
		row("input[].content[].annotations", infer.FeatureCitations, `[]`, inInput, `{"role":"assistant","content":[{"type":"output_text","text":"b","annotations":[{"type":"url_citation"}]}]}`, ""),
		row("input[].content[].refusal", infer.FeatureRefusalPart, `"no"`, inInput, `{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`, ""),
		row("input[].content[].input_image.image_url (https)", infer.FeatureImageURL, `"https://example.org/a.png"`, inUser, `{"type":"input_image","image_url":"https://example.org/a.png"}`, ""),
		row("input[].content[].input_image.image_url (data)", infer.FeatureImageData, `"data:image/png;base64,AAAA"`, inUser, `{"type":"input_image","image_url":"data:image/png;base64,AAAA"}`, ""),
		row("input[].content[].detail", infer.FeatureImageDetail, `"low"`, inUser, `{"type":"input_image","detail":"low","image_url":"https://example.org/a.png"}`, ""),
		row("input[].content[].input_image.file_id", infer.FeatureFile, `"file-1"`, inUser, `{"type":"input_image","file_id":"file-1"}`, "and of a file"),
		row("input[].content[].input_file.file_data", infer.FeatureFile, `"data:application/pdf;base64,AAAA"`, inUser, `{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"}`, ""),
		row("input[].content[].input_file.file_url", infer.FeatureFileURL, `"https://example.org/a.pdf"`, inUser, `{"type":"input_file","file_url":"https://example.org/a.pdf"}`, ""),
		row("input[].content[].input_audio", infer.FeatureAudio, `{}`, inUser, `{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`, ""),
	}
}

func toolFields() []wire.Field {
	out := []wire.Field{
		row("tools[].function", infer.FeatureTools, `{}`, inTool, `{"type":"function","name":"f","parameters":{}}`, ""),
		row("tools[].strict", infer.FeatureToolStrict, `true`, inTool, `{"type":"function","name":"f","parameters":{},"strict":true}`, ""),
		row("tools[].defer_loading", infer.FeatureToolAnnotation, `true`, inTool, `{"type":"function","name":"f","defer_loading":true}`, ""),
		row("tools[].output_schema", infer.FeatureToolAnnotation, `{}`, inTool, `{"type":"function","name":"f","output_schema":{}}`, ""),
		row("tools[].async", infer.FeatureToolAnnotation, `true`, inTool, `{"type":"function","name":"f","async":true}`, ""),
		row("tools[].allowed_callers", infer.FeatureToolHostedOptional, `["programmatic"]`, inTool, `{"type":"function","name":"f","allowed_callers":["programmatic"]}`, ""),
		row("tools[].custom", infer.FeatureToolCustom, `{}`, inTool, `{"type":"custom","name":"f"}`, "with its format"),
		row("tools[].namespace", infer.FeatureTools, `{}`, inTool, `{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"f"}]}`, "flattened to its tools; calls come back with their namespace"),
	}
	for _, kind := range hostedTools {
		out = append(out, row("tools[]."+kind, infer.FeatureToolHostedOptional, `{}`, inTool, `{"type":"`+kind+`"}`, "tool_hosted where the choice demands it; nothing where the choice is none"))
	}
	return out
}

func choiceFields() []wire.Field {
	return []wire.Field{
		row("tool_choice (none)", infer.FeatureToolNone, `"none"`, inBody, aTool+`"tool_choice":"none"`, ""),
		row("tool_choice (required)", infer.FeatureToolRequired, `"required"`, inBody, aTool+`"tool_choice":"required"`, ""),
		row("tool_choice (function)", infer.FeatureToolNamed, `{"type":"function","name":"f"}`, inBody, aTool+`"tool_choice":{"type":"function","name":"f"}`, "and custom"),
		row("tool_choice (allowed_tools)", infer.FeatureToolAllowed, `{}`, inBody, aTool+`"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}`, ""),
		row("tool_choice (hosted)", infer.FeatureToolHosted, `{"type":"web_search_preview"}`, inBody, aTool+`"tool_choice":{"type":"web_search_preview"}`, ""),
	}
}

// hostedItems are the items of tools that the provider runs, or that only its
// models know.
var hostedItems = []string{
	"file_search_call", "web_search_call", "computer_call", "computer_call_output", "image_generation_call", "code_interpreter_call",
	"local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output",
	"mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "mcp_call", "tool_search_call", "tool_search_output",
	"program", "program_output",
}

// hostedTools are the tools that the provider runs, or that only its models
// know. A type that is not here is taken for one of them.
var hostedTools = []string{
	"web_search", "web_search_preview", "file_search", "code_interpreter", "image_generation", "mcp", "computer", "computer_use_preview",
	"local_shell", "shell", "apply_patch", "tool_search", "programmatic_tool_calling",
}
