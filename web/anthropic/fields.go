package anthropic

import (
	"strings"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// inUser, inAssistant, inTool and inResult are bodies around one block, tool or
// piece of a tool's result, which stands in place of the mark.
const (
	mark        = "▮"
	inUser      = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[` + mark + `]}]}`
	inAssistant = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[` + mark + `]},{"role":"user","content":"b"}]}`
	inTool      = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"}],"tools":[` + mark + `]}`
	inResult    = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[` + mark + `]}]}]}`
	inTurns     = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"},` + mark + `]}`
	withTool    = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"}],"tools":[{"name":"t","input_schema":{}}],` + mark + `}`
	withMember  = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"}],` + mark + `}`
)

// row writes one row of the table: example is the field's value; in, with the
// piece that holds the field in place of its mark, is the body.
func row(path string, f infer.Feature, example, in, piece, note string) wire.Field {
	return wire.Field{Path: path, Feature: f, Example: example, Base: strings.Replace(in, mark, piece, 1), Note: note}
}

// Fields lists every field of the Messages request, of both versions and of the
// betas, with the feature that it uses. Blocks and tools of which only the kind
// matters stand under their type.
func Fields() []wire.Field {
	var all []wire.Field
	for _, part := range [][]wire.Field{wholeRows(), messageRows(), blockRows(), toolRows(), reasoningRows()} {
		all = append(all, part...)
	}
	return all
}

func wholeRows() []wire.Field {
	return []wire.Field{
		{Path: "model", Example: `"m"`},
		{Path: "messages", Example: `[{"role":"user","content":"a"}]`},
		{Path: "stream", Example: `true`},
		{Path: "system", Example: `"Be brief."`, Note: "a string or text blocks"},
		row("system[].text", "", `"a"`, withMember, `"system":[{"type":"text","text":"a"}]`, ""),
		row("system[].cache_control", infer.FeatureCacheBreakpoint, `{"type":"ephemeral"}`, withMember, `"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]`, ""),
		{Path: "max_tokens", Feature: infer.FeatureMaxTokens, Example: `1`, Note: "0 fills the provider's cache and asks for no answer: unknown elsewhere"},
		{Path: "temperature", Feature: infer.FeatureTemperature, Example: `0.5`, Note: "taken away in version 2026-10-21; legal here under both"},
		{Path: "top_p", Feature: infer.FeatureTopP, Example: `0.5`, Note: "like temperature"},
		{Path: "top_k", Feature: infer.FeatureTopK, Example: `40`, Note: "like temperature"},
		{Path: "stop_sequences", Feature: infer.FeatureStop, Example: `["END"]`},
		{Path: "cache_control", Feature: infer.FeatureCacheBreakpoint, Example: `{"type":"ephemeral"}`, Note: "marks the last block"},
		row("metadata.user_id", infer.FeatureUser, `"u"`, withMember, `"metadata":{"user_id":"u"}`, ""),
		{Path: "service_tier", Feature: infer.FeatureServiceTier, Example: `"standard_only"`},
		{Path: "speed", Feature: infer.FeatureServiceTier, Example: `"fast"`},
		{Path: "container", Feature: infer.FeatureToolHosted, Example: `"c1"`},
		{Path: "mcp_servers", Feature: infer.FeatureToolHosted, Example: `[{"type":"url","name":"n","url":"https://example.org"}]`},
		row("context_management.edits[]", infer.FeatureContextEdits, `{"type":"clear_tool_uses_20250919"}`, withMember, `"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}`, "to keep all thinking is what happens anyway"),
		{Path: "compaction", Feature: infer.FeatureContextEdits, Example: `{"enabled":true}`},
		{Path: "thread", Feature: infer.FeatureState, Example: `{"id":"t"}`},
		{Path: "diagnostics", Feature: infer.FeatureBeta, Example: `{"previous_message_id":"m"}`},
		{Path: "betas", Feature: infer.FeatureBeta, Example: `["x"]`, Note: "usually in the header anthropic-beta, which is noted too and forwarded to providers of the format"},
		{Path: "inference_geo", Feature: infer.FeatureUnknown, Example: `"us"`},
		{Path: "user_profile_id", Feature: infer.FeatureUnknown, Example: `"p"`},
		{Path: "workspace_id", Feature: infer.FeatureUnknown, Example: `"w"`},
		{Path: "billing_policy", Feature: infer.FeatureUnknown, Example: `{"a":1}`},
		{Path: "fallbacks", Feature: infer.FeatureUnknown, Example: `[{"model":"n"}]`},
		{Path: "fallback_credit_token", Feature: infer.FeatureUnknown, Example: `"t"`},
	}
}

func messageRows() []wire.Field {
	return []wire.Field{
		row("messages[].role", "", `"user"`, inUser, `{"type":"text","text":"a"}`, "user, assistant; system see below"),
		row("messages[].content", "", `"a"`, withMember, `"stream":false`, "a string or blocks"),
		row("messages[]", infer.FeatureSystemMidway, `{"role":"system","content":"b"}`, inTurns, `{"role":"system","content":"b"},{"role":"user","content":"c"}`, "a message with the role system after another turn keeps its place"),
		row("messages[]", infer.FeaturePrefill, `{"role":"assistant","content":"b"}`, inTurns, `{"role":"assistant","content":"b"}`, "a last turn of the assistant is continued"),
	}
}

func blockRows() []wire.Field {
	const b, m = "messages[].content[]", `,"cache_control":{"type":"ephemeral"}`
	png := `{"type":"base64","media_type":"image/png","data":"eA=="}`
	pdf := `{"type":"base64","media_type":"application/pdf","data":"eA=="}`
	use := `{"type":"tool_use","id":"t","name":"n","input":{}`
	res := `{"type":"tool_result","tool_use_id":"t"`
	return []wire.Field{
		row(b+".text", "", `"a"`, inUser, `{"type":"text","text":"a"}`, ""),
		row(b+".cache_control", infer.FeatureCacheBreakpoint, `{"type":"ephemeral"}`, inUser, `{"type":"text","text":"a"`+m+`}`, "on every kind of block; ttl 5m or 1h"),
		row(b+".citations", infer.FeatureCitations, `[{"type":"char_location"}]`, inAssistant, `{"type":"text","text":"a","citations":[{"type":"char_location"}]}`, "of an earlier answer; enabled on documents and search results"),
		row(b+".image", infer.FeatureImageData, png, inUser, `{"type":"image","source":`+png+`}`, "source base64"),
		row(b+".image", infer.FeatureImageURL, `{"type":"url","url":"https://example.org/a.png"}`, inUser, `{"type":"image","source":{"type":"url","url":"https://example.org/a.png"}}`, "source url"),
		row(b+".image.source", infer.FeatureUnknown, `{"type":"file","file_id":"f"}`, inUser, `{"type":"image","source":{"type":"file","file_id":"f"}}`, "a file that lies at the provider; also of a document"),
		row(b+".transformations", infer.FeatureUnknown, `{"oversized_image":"error"}`, inUser, `{"type":"image","source":`+png+`,"transformations":{"oversized_image":"error"}}`, "of an image"),
		row(b+".document", infer.FeatureFile, pdf, inUser, `{"type":"document","source":`+pdf+`}`, "source base64, text or content"),
		row(b+".document", infer.FeatureFileURL, `{"type":"url","url":"https://example.org/a.pdf"}`, inUser, `{"type":"document","source":{"type":"url","url":"https://example.org/a.pdf"}}`, "source url"),
		row(b+".title", "", `"a"`, inUser, `{"type":"document","title":"a","source":`+pdf+`}`, "of a document or search result"),
		row(b+".document.context", infer.FeatureUnknown, `"a"`, inUser, `{"type":"document","context":"a","source":`+pdf+`}`, ""),
		row(b+".search_result", infer.FeatureFile, `{}`, inUser, `{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"a"}]}`, "a passage, as a document of plain text"),
		row(b+".thinking", infer.FeatureThought, `"a"`, inAssistant, `{"type":"thinking","thinking":"a","signature":""}`, ""),
		row(b+".thinking.signature", infer.FeatureThoughtSignature, `"s"`, inAssistant, `{"type":"thinking","thinking":"","signature":"s"}`, ""),
		row(b+".redacted_thinking", infer.FeatureThoughtSignature, `"d"`, inAssistant, `{"type":"redacted_thinking","data":"d"}`, ""),
		row(b+".id", "", `"t"`, inAssistant, use+`}`, "of tool_use, with name and input"),
		row(b+".caller", infer.FeatureToolCallHosted, `{"type":"code_execution_20260120","tool_id":"x"}`, inAssistant, use+`,"caller":{"type":"code_execution_20260120","tool_id":"x"}}`, "other than direct"),
		row(b+".toolset_name", infer.FeatureUnknown, `"s"`, inAssistant, use+`,"toolset_name":"s"}`, ""),
		row(b+".tool_use_id", "", `"t"`, inUser, res+`,"content":"a"}`, "of tool_result, with content"),
		row(b+".is_error", infer.FeatureToolResultError, `true`, inUser, res+`,"is_error":true}`, ""),
		row(b+".content[].image", infer.FeatureToolResultMedia, png, inResult, `{"type":"image","source":`+png+`}`, "also document and search_result"),
		row(b+".content[].tool_reference", infer.FeatureUnknown, `"n"`, inResult, `{"type":"tool_reference","tool_name":"n"}`, ""),
		row(b+".content[].browser_state", infer.FeatureUnknown, `{}`, inResult, `{"type":"browser_state"}`, ""),
		row(b+".server_tool_use", infer.FeatureToolCallHosted, `{}`, inAssistant, `{"type":"server_tool_use","id":"s","name":"web_search","input":{}}`, ""),
		row(b+".web_search_tool_result", infer.FeatureToolCallHosted, `[]`, inAssistant, `{"type":"web_search_tool_result","tool_use_id":"s","content":[]}`, "and the results of web_fetch, code_execution, bash_code_execution, text_editor_code_execution, tool_search, advisor"),
		row(b+".mcp_tool_use", infer.FeatureToolCallHosted, `{}`, inAssistant, `{"type":"mcp_tool_use","id":"s","name":"n","server_name":"x","input":{}}`, ""),
		row(b+".mcp_tool_result", infer.FeatureToolCallHosted, `[]`, inUser, `{"type":"mcp_tool_result","tool_use_id":"s","content":[]}`, ""),
		row(b+".mcp_tool_listing", infer.FeatureToolCallHosted, `[]`, inAssistant, `{"type":"mcp_tool_listing","tools":[]}`, ""),
		row(b+".container_upload", infer.FeatureToolCallHosted, `"f"`, inUser, `{"type":"container_upload","file_id":"f"}`, ""),
		row(b+".compaction", infer.FeatureUnknown, `"a"`, inAssistant, `{"type":"compaction","content":"a"}`, ""),
		row(b+".tool_addition", infer.FeatureUnknown, `[]`, inUser, `{"type":"tool_addition","tools":[]}`, "and tool_removal, fallback, and kinds that come later"),
	}
}

func toolRows() []wire.Field {
	const t = `{"name":"t","input_schema":{}`
	return []wire.Field{
		row("tools", infer.FeatureTools, `[{"name":"t","input_schema":{}}]`, inTool, t+`}`, "functions of the caller: name, description, input_schema"),
		row("tools[].strict", infer.FeatureToolStrict, `true`, inTool, t+`,"strict":true}`, ""),
		row("tools[].cache_control", infer.FeatureCacheBreakpoint, `{"type":"ephemeral"}`, inTool, t+`,"cache_control":{"type":"ephemeral"}}`, ""),
		row("tools[].input_examples", infer.FeatureToolAnnotation, `[{}]`, inTool, t+`,"input_examples":[{}]}`, ""),
		row("tools[].eager_input_streaming", infer.FeatureToolAnnotation, `true`, inTool, t+`,"eager_input_streaming":true}`, ""),
		row("tools[].defer_loading", infer.FeatureToolAnnotation, `true`, inTool, t+`,"defer_loading":true}`, ""),
		row("tools[].allowed_callers", infer.FeatureToolHosted, `["code_execution_20260120"]`, inTool, t+`,"allowed_callers":["code_execution_20260120"]}`, "other than direct"),
		row("tools[].web_search_20250305", infer.FeatureToolHosted, `{}`, inTool, `{"type":"web_search_20250305","name":"web_search"}`, "and every other kind that the API defines: web_fetch, code_execution, bash, text_editor, memory, computer, browser, tool_search, mcp_toolset, in all versions"),
		row("tools[].web_search_20260318", infer.FeatureToolHostedOptional, `{}`, inTool, t+`},{"type":"web_search_20260318","name":"web_search"}`, "beside functions, unless tool_choice names it"),
		row("tool_choice", infer.FeatureToolRequired, `{"type":"any"}`, withTool, `"tool_choice":{"type":"any"}`, ""),
		row("tool_choice", infer.FeatureToolNamed, `{"type":"tool","name":"t"}`, withTool, `"tool_choice":{"type":"tool","name":"t"}`, ""),
		row("tool_choice", infer.FeatureToolNone, `{"type":"none"}`, withTool, `"tool_choice":{"type":"none"}`, ""),
		row("tool_choice.disable_parallel_tool_use", infer.FeatureToolSerial, `true`, withTool, `"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`, ""),
	}
}

func reasoningRows() []wire.Field {
	return []wire.Field{
		row("thinking.type", infer.FeatureReasoningSwitch, `"adaptive"`, withMember, `"thinking":{"type":"adaptive"}`, "enabled, disabled, adaptive"),
		row("thinking.type", infer.FeatureUnknown, `"between_tools"`, withMember, `"thinking":{"type":"between_tools"}`, ""),
		row("thinking.budget_tokens", infer.FeatureReasoningBudget, `2048`, withMember, `"thinking":{"type":"enabled","budget_tokens":2048}`, ""),
		row("thinking.display", infer.FeatureReasoningSummary, `"omitted"`, withMember, `"thinking":{"type":"adaptive","display":"omitted"}`, ""),
		row("output_config.effort", infer.FeatureReasoningEffort, `"high"`, withMember, `"output_config":{"effort":"high"}`, ""),
		row("output_config.format", infer.FeatureJSONSchema, `{"type":"json_schema","schema":{}}`, withMember, `"output_config":{"format":{"type":"json_schema","schema":{}}}`, ""),
		row("output_config.task_budget", infer.FeatureUnknown, `{"type":"tokens","total":9}`, withMember, `"output_config":{"task_budget":{"type":"tokens","total":9}}`, ""),
		{Path: "output_format", Feature: infer.FeatureJSONSchema, Example: `{"type":"json_schema","schema":{}}`, Note: "before output_config.format"},
	}
}
