package openai

import (
	"maps"
	"slices"
	"strings"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// The smallest bodies with room for one thing in place of the mark.
const (
	mark       = "▮"
	inChat     = `{"model":"m","messages":[{"role":"user","content":"a"}],` + mark + `}`
	inTurns    = `{"model":"m","messages":[{"role":"user","content":"a"},` + mark + `]}`
	inUser     = `{"model":"m","messages":[{"role":"user","content":[` + mark + `]}]}`
	inResult   = `{"model":"m","messages":[{"role":"tool","tool_call_id":"c","content":[` + mark + `]}]}`
	inTools    = `{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f"}}` + mark + `}`
	inPrompt   = `{"model":"m","prompt":"a",` + mark + `}`
	inInput    = `{"model":"m","input":"a",` + mark + `}`
	oneTool    = `"tools":[{"type":"function","function":{"name":"f"}}]`
	oneSchema  = `{"type":"json_schema","json_schema":{"name":"a","schema":{}}}`
	customTool = `{"type":"custom","custom":{"name":"c","description":"d","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"x"}}}}`
)

// row writes one row of the table: piece stands in place of the mark of in.
func row(path string, f infer.Feature, example, in, piece, note string) wire.Field {
	return wire.Field{Path: path, Feature: f, Example: example, Base: strings.Replace(in, mark, piece, 1), Note: note}
}

// member is the row of a top-level member.
func topRow(name string, f infer.Feature, example, in, note string) wire.Field {
	return row(name, f, example, in, `"`+name+`":`+example, note)
}

// ChatFields lists every field of a chat request, of OpenAI's schema and of the
// servers that speak its dialect, with the feature that it uses. A value that is
// the field's default uses nothing.
func ChatFields() []wire.Field {
	return slices.Concat(turnRows(), chatToolRows(), chatRows(), sharedRows(inChat), sideRows(inChat))
}

// CompletionFields lists every field of a completion request.
func CompletionFields() []wire.Field {
	rows := []wire.Field{
		{Path: "model", Example: `"m"`, Base: `{"model":"m","prompt":"a"}`},
		{Path: "prompt", Example: `"a"`, Base: `{"model":"m","prompt":"a"}`},
		{Path: "prompt", Feature: infer.FeatureManyPrompts, Example: `["a","b"]`, Base: `{"model":"m","prompt":["a","b"]}`},
		{Path: "prompt", Feature: infer.FeatureTokenPrompt, Example: `[5,6]`, Base: `{"model":"m","prompt":[5,6]}`, Note: "ids in place of text"},
		topRow("suffix", infer.FeatureSuffix, `"z"`, inPrompt, ""),
		topRow("echo", infer.FeatureEcho, `true`, inPrompt, ""),
		topRow("best_of", infer.FeatureUnknown, `2`, inPrompt, "as many as n are what happens anyway"),
		topRow("logprobs", infer.FeatureLogprobs, `2`, inPrompt, ""),
		row("logprobs", infer.FeaturePromptLogprobs, `2`, inPrompt, `"echo":true,"logprobs":2`, "with echo"),
		row("max_tokens", infer.FeatureEcho, `0`, inPrompt, `"echo":true,"max_tokens":0`, "nothing is made, the prompt is scored"),
		topRow("add_special_tokens", infer.FeatureUnknown, `false`, inPrompt, "vLLM's"),
	}
	return slices.Concat(rows, sharedRows(inPrompt), sideRows(inPrompt))
}

// EmbedFields lists every field of an embedding request.
func EmbedFields() []wire.Field {
	return []wire.Field{
		{Path: "model", Example: `"m"`, Base: `{"model":"m","input":"a"}`},
		{Path: "input", Example: `"a"`, Base: `{"model":"m","input":"a"}`},
		{Path: "input", Feature: infer.FeatureManyPrompts, Example: `["a","b"]`, Base: `{"model":"m","input":["a","b"]}`},
		{Path: "input", Feature: infer.FeatureTokenPrompt, Example: `[5,6]`, Base: `{"model":"m","input":[5,6]}`, Note: "ids in place of text"},
		topRow("dimensions", infer.FeatureDimensions, `8`, inInput, ""),
		topRow("encoding_format", "", `"base64"`, inInput, "written here, whatever the target gives"),
		topRow("user", infer.FeatureUser, `"u"`, inInput, ""),
		topRow("priority", "", `3`, inInput, "vLLM's; an embedding is one step"),
		topRow("truncate_prompt_tokens", infer.FeatureUnknown, `8`, inInput, "vLLM's"),
		topRow("normalize", infer.FeatureUnknown, `false`, inInput, "vectors are of unit length"),
		topRow("add_special_tokens", infer.FeatureUnknown, `false`, inInput, "vLLM's"),
		topRow("embd_normalize", infer.FeatureUnknown, `-1`, inInput, "llama.cpp's"),
	}
}

// turnRows are the messages and what is in them.
func turnRows() []wire.Field {
	const call = `{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}`
	part := func(kind, arg string) string { return `{"type":"` + kind + `","` + kind + `":` + arg + `}` }
	return []wire.Field{
		{Path: "model", Example: `"m"`, Base: `{"model":"m","messages":[{"role":"user","content":"a"}]}`},
		{Path: "messages", Example: `[{"role":"user","content":"a"}]`, Base: `{"model":"m","messages":[{"role":"user","content":"a"}]}`},
		row("messages[].role", "", `"system"`, `{"model":"m","messages":[`+mark+`,{"role":"user","content":"a"}]}`, `{"role":"system","content":"b"}`, ""),
		row("messages[].role", infer.FeatureSystemMidway, `"system"`, inTurns, `{"role":"system","content":"b"}`, "behind another turn"),
		row("messages[].role", infer.FeatureDeveloperRole, `"developer"`, `{"model":"m","messages":[`+mark+`,{"role":"user","content":"a"}]}`, `{"role":"developer","content":"b"}`, ""),
		row("messages[].role", "", `"function"`, inTurns, `{"role":"assistant","function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"b"}`, "the older form of tool"),
		row("messages[].role", infer.FeatureUnknown, `"wizard"`, inTurns, `{"role":"wizard","content":"b"}`, "a role not yet invented"),
		row("messages[].name", infer.FeatureMessageName, `"ann"`, inTurns, `{"role":"user","content":"b","name":"ann"}`, ""),
		row("messages[].content[].text", "", `"b"`, inUser, part("text", `"b"`), ""),
		row("messages[].content[].image_url", infer.FeatureImageURL, `{"url":"https://example.org/a.png"}`, inUser, part("image_url", `{"url":"https://example.org/a.png"}`), ""),
		row("messages[].content[].image_url", infer.FeatureImageData, `{"url":"data:image/png;base64,aGk="}`, inUser, part("image_url", `{"url":"data:image/png;base64,aGk="}`), ""),
		row("messages[].content[].image_url.detail", infer.FeatureImageDetail, `"low"`, inUser, part("image_url", `{"url":"data:image/png;base64,aGk=","detail":"low"}`), "auto is what happens anyway"),
		row("messages[].content[].image_url", infer.FeatureToolResultMedia, `{"url":"data:image/png;base64,aGk="}`, inResult, part("image_url", `{"url":"data:image/png;base64,aGk="}`), "in a tool's result"),
		row("messages[].content[].input_audio", infer.FeatureAudio, `{"data":"aGk=","format":"wav"}`, inUser, part("input_audio", `{"data":"aGk=","format":"wav"}`), ""),
		row("messages[].content[].file", infer.FeatureFile, `{"filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="}`, inUser, part("file", `{"filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="}`), ""),
		row("messages[].content[].file.file_id", infer.FeatureUnknown, `"file-1"`, inUser, part("file", `{"file_id":"file-1"}`), "known to one provider only"),
		row("messages[].content[].type", infer.FeatureVideo, `"video_url"`, inUser, part("video_url", `{"url":"https://example.org/a.mp4"}`), "vLLM's"),
		row("messages[].content[].type", infer.FeatureUnknown, `"smell"`, inUser, part("smell", `"x"`), "a kind not yet invented"),
		row("messages[].content[].refusal", infer.FeatureRefusalPart, `"no"`, inTurns, `{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`, ""),
		row("messages[].content[].cache_control", infer.FeatureCacheBreakpoint, `{"type":"ephemeral"}`, inUser, `{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}`, "OpenRouter's and LiteLLM's"),
		row("messages[].cache_control", infer.FeatureCacheBreakpoint, `{"type":"ephemeral"}`, inTurns, `{"role":"user","content":"b","cache_control":{"type":"ephemeral"}}`, "LiteLLM's"),
		row("messages[].refusal", infer.FeatureRefusalPart, `"no"`, inTurns, `{"role":"assistant","content":null,"refusal":"no"}`, ""),
		row("messages[].audio", infer.FeatureAudio, `{"id":"audio_1"}`, inTurns, `{"role":"assistant","content":"b","audio":{"id":"audio_1"}}`, "audio of an earlier answer"),
		row("messages[].annotations", "", `[{"type":"url_citation"}]`, inTurns, `{"role":"assistant","content":"b","annotations":[{"type":"url_citation"}]}`, "out of an answer; no model is shown it"),
		row("messages[].reasoning_content", infer.FeatureThought, `"hm"`, inTurns, `{"role":"assistant","content":"b","reasoning_content":"hm"}`, "vLLM's; reasoning is another name"),
		row("messages[].tool_calls", infer.FeatureTools, `[`+call+`]`, inTurns, `{"role":"assistant","tool_calls":[`+call+`]}`, ""),
		row("messages[].tool_calls[].custom", infer.FeatureToolCustom, `{"name":"f","input":"x"}`, inTurns, `{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{"name":"f","input":"x"}}]}`, ""),
		row("messages[].tool_call_id", "", `"c"`, inTurns, `{"role":"tool","tool_call_id":"c","content":"b"}`, ""),
		row("messages[].function_call", infer.FeatureTools, `{"name":"f","arguments":"{}"}`, inTurns, `{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}`, "the older form"),
		row("messages[].mood", infer.FeatureUnknown, `"good"`, inTurns, `{"role":"user","content":"b","mood":"good"}`, "a member not yet invented"),
	}
}

// chatToolRows are the tools and the choice among them.
func chatToolRows() []wire.Field {
	tool := func(more string) string { return `"tools":[{"type":"function","function":{"name":"f"` + more + `}}]` }
	with := func(path string, f infer.Feature, example, note string) wire.Field {
		return row(path, f, example, inTools, `],"`+path+`":`+example, note)
	}
	return []wire.Field{
		row("tools", infer.FeatureTools, `[{"type":"function","function":{"name":"f"}}]`, inChat, oneTool, ""),
		row("tools[].function.strict", infer.FeatureToolStrict, `true`, inChat, tool(`,"strict":true`), ""),
		row("tools[].function.description", "", `"d"`, inChat, tool(`,"description":"d"`), ""),
		row("tools[].function.parameters", "", `{"type":"object"}`, inChat, tool(`,"parameters":{"type":"object"}`), ""),
		row("tools[].custom", infer.FeatureToolCustom, `{"name":"c","description":"d","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"x"}}}`, inChat, `"tools":[`+customTool+`]`, ""),
		row("tools[].cache_control", infer.FeatureCacheBreakpoint, `{"type":"ephemeral"}`, inChat, `"tools":[{"type":"function","function":{"name":"f"},"cache_control":{"type":"ephemeral"}}]`, "OpenRouter's and LiteLLM's"),
		row("tools[]", infer.FeatureToolHosted, `{"type":"web_search"}`, inChat, `"tools":[{"type":"web_search"}]`, "of the kinds that providers run themselves"),
		row("tools[]", infer.FeatureUnknown, `{"type":"telepathy"}`, inChat, `"tools":[{"type":"telepathy"}]`, "of a kind not yet invented"),
		with("tool_choice", "", `"auto"`, ""),
		with("tool_choice", infer.FeatureToolNone, `"none"`, ""),
		with("tool_choice", infer.FeatureToolRequired, `"required"`, ""),
		row("tool_choice.function", infer.FeatureToolNamed, `{"name":"f"}`, inTools, `],"tool_choice":{"type":"function","function":{"name":"f"}}`, ""),
		row("tool_choice.custom", infer.FeatureToolNamed, `{"name":"c"}`, inTools, `,`+customTool+`],"tool_choice":{"type":"custom","custom":{"name":"c"}}`, ""),
		row("tool_choice.allowed_tools", infer.FeatureToolAllowed, `{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}`, inTools, `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`, ""),
		with("parallel_tool_calls", infer.FeatureToolSerial, `false`, ""),
		row("functions", infer.FeatureTools, `[{"name":"f"}]`, inChat, `"functions":[{"name":"f"}]`, "the older form of tools"),
		row("function_call", infer.FeatureToolNamed, `{"name":"f"}`, inChat, `"functions":[{"name":"f"}],"function_call":{"name":"f"}`, "the older form of tool_choice"),
	}
}

// chatRows are the top-level members that only chats have.
func chatRows() []wire.Field {
	top := func(name string, f infer.Feature, example, note string) wire.Field {
		return topRow(name, f, example, inChat, note)
	}
	return []wire.Field{
		top("logprobs", infer.FeatureLogprobs, `true`, ""),
		row("top_logprobs", infer.FeatureLogprobs, `2`, inChat, `"logprobs":true,"top_logprobs":2`, ""),
		top("reasoning_effort", infer.FeatureReasoningEffort, `"low"`, ""),
		top("enable_thinking", infer.FeatureReasoningSwitch, `false`, "of the open models' servers"),
		row("thinking_budget", infer.FeatureReasoningBudget, `1024`, inChat, `"max_tokens":4096,"thinking_budget":1024`, "of the open models' servers"),
		row("thinking.type", infer.FeatureReasoningSwitch, `"enabled"`, inChat, `"thinking":{"type":"enabled"}`, "LiteLLM's and others', after Anthropic"),
		row("thinking.budget_tokens", infer.FeatureReasoningBudget, `1024`, inChat, `"max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":1024}`, "LiteLLM's and others', after Anthropic"),
		row("reasoning.effort", infer.FeatureReasoningEffort, `"low"`, inChat, `"reasoning":{"effort":"low"}`, "OpenRouter's"),
		row("reasoning.max_tokens", infer.FeatureReasoningBudget, `1024`, inChat, `"max_tokens":4096,"reasoning":{"max_tokens":1024}`, "OpenRouter's"),
		row("reasoning.enabled", infer.FeatureReasoningSwitch, `true`, inChat, `"reasoning":{"enabled":true}`, "OpenRouter's"),
		row("reasoning.exclude", "", `true`, inChat, `"reasoning":{"exclude":true}`, "done here"),
		top("include_reasoning", "", `false`, "done here"),
		top("chat_template_kwargs", infer.FeatureTemplateArgs, `{"a":1}`, "vLLM's"),
		top("add_generation_prompt", infer.FeatureTurnUnopened, `false`, "vLLM's"),
		row("continue_final_message", infer.FeaturePrefill, `true`, `{"model":"m","messages":[{"role":"assistant","content":"a"}],"add_generation_prompt":false,`+mark+`}`, `"continue_final_message":true`, "vLLM's"),
		top("echo", infer.FeatureUnknown, `true`, "vLLM's"),
		top("add_special_tokens", infer.FeatureUnknown, `true`, "vLLM's"),
	}
}

// sharedRows are the members that chats and completions have in common.
func sharedRows(in string) []wire.Field {
	top := func(name string, f infer.Feature, example, note string) wire.Field {
		return topRow(name, f, example, in, note)
	}
	return []wire.Field{
		top("stream", "", `true`, ""),
		row("stream_options.include_usage", "", `true`, in, `"stream":true,"stream_options":{"include_usage":true}`, ""),
		row("stream_options.include_obfuscation", "", `true`, in, `"stream":true,"stream_options":{"include_obfuscation":true}`, "done here"),
		row("stream_options.continuous_usage_stats", "", `true`, in, `"stream":true,"stream_options":{"continuous_usage_stats":true}`, "vLLM's; done here"),
		top("temperature", infer.FeatureTemperature, `0.5`, ""),
		top("temperature", infer.FeatureUnknown, `5`, "out of the range that is served elsewhere"),
		top("top_p", infer.FeatureTopP, `0.5`, ""),
		top("top_k", infer.FeatureTopK, `40`, "of the open servers"),
		top("min_p", infer.FeatureMinP, `0.1`, "of the open servers"),
		top("frequency_penalty", infer.FeatureFrequencyPenalty, `0.5`, ""),
		top("presence_penalty", infer.FeaturePresencePenalty, `0.5`, ""),
		top("repetition_penalty", infer.FeatureRepetitionPenalty, `1.1`, "of the open servers"),
		top("seed", infer.FeatureSeed, `7`, ""),
		top("logit_bias", infer.FeatureLogitBias, `{"5":-100}`, ""),
		top("n", infer.FeatureChoices, `2`, ""),
		top("max_tokens", infer.FeatureMaxTokens, `17`, ""),
		top("max_completion_tokens", infer.FeatureMaxTokens, `17`, ""),
		top("n_predict", infer.FeatureMaxTokens, `17`, "llama.cpp's"),
		row("min_tokens", infer.FeatureMinTokens, `2`, in, `"max_tokens":16,"min_tokens":2`, "vLLM's"),
		top("stop", infer.FeatureStop, `["END"]`, ""),
		top("stop_token_ids", infer.FeatureStopTokens, `[5]`, "vLLM's"),
		top("ignore_eos", infer.FeatureIgnoreEOS, `true`, "vLLM's"),
		top("include_stop_str_in_output", infer.FeatureIncludeStop, `true`, "vLLM's"),
		top("return_token_ids", infer.FeatureTokenIDs, `true`, "vLLM's"),
		top("return_tokens_as_token_ids", infer.FeatureTokenIDs, `true`, "vLLM's"),
		top("cache_salt", infer.FeatureCacheSalt, `"x"`, "vLLM's"),
		top("priority", infer.FeaturePriority, `3`, "vLLM's"),
		row("response_format", infer.FeatureJSONObject, `{"type":"json_object"}`, in, `"response_format":{"type":"json_object"}`, ""),
		row("response_format.json_schema", infer.FeatureJSONSchema, `{"name":"a","schema":{}}`, in, `"response_format":`+oneSchema, ""),
		row("response_format.regex", infer.FeatureRegex, `"a+"`, in, `"response_format":{"type":"regex","regex":"a+"}`, "SGLang's and TGI's"),
		row("response_format.grammar", infer.FeatureGrammar, `"root"`, in, `"response_format":{"type":"grammar","grammar":"root"}`, ""),
		row("response_format.type", infer.FeatureUnknown, `"xml"`, in, `"response_format":{"type":"xml"}`, "a form not yet invented"),
		row("structured_outputs.json", infer.FeatureJSONSchema, `{}`, in, `"structured_outputs":{"json":{}}`, "vLLM's"),
		row("structured_outputs.json_object", infer.FeatureJSONObject, `true`, in, `"structured_outputs":{"json_object":true}`, "vLLM's"),
		row("structured_outputs.regex", infer.FeatureRegex, `"a+"`, in, `"structured_outputs":{"regex":"a+"}`, "vLLM's"),
		row("structured_outputs.grammar", infer.FeatureGrammar, `"root"`, in, `"structured_outputs":{"grammar":"root"}`, "vLLM's"),
		row("structured_outputs.choice", infer.FeatureChoice, `["a"]`, in, `"structured_outputs":{"choice":["a"]}`, "vLLM's"),
		row("structured_outputs.structural_tag", infer.FeatureUnknown, `"t"`, in, `"structured_outputs":{"structural_tag":"t"}`, "vLLM's"),
		top("guided_json", infer.FeatureJSONSchema, `{}`, "vLLM's older form"),
		top("guided_regex", infer.FeatureRegex, `"a+"`, "vLLM's older form"),
		top("guided_grammar", infer.FeatureGrammar, `"root"`, "vLLM's older form"),
		top("guided_choice", infer.FeatureChoice, `["a"]`, "vLLM's older form"),
		top("json_schema", infer.FeatureJSONSchema, `{}`, "llama.cpp's"),
		top("regex", infer.FeatureRegex, `"a+"`, "SGLang's"),
		top("grammar", infer.FeatureGrammar, `"root"`, "llama.cpp's"),
		top("x_future", infer.FeatureUnknown, `{"a":1}`, "a field not yet invented"),
	}
}

// sideRows are the members of the table of fields without a counterpart.
func sideRows(in string) []wire.Field {
	example := map[string]string{
		"request_id": `"r"`, "metadata": `{"k":"v"}`, "prediction": `{"type":"content","content":"x"}`, "service_tier": `"flex"`,
		"verbosity": `"low"`, "modalities": `["text","audio"]`, "audio": `{"voice":"x","format":"wav"}`, "mirostat": `2`, "id_slot": `3`,
		"truncation": `"auto"`, "reasoning_format": `"none"`, "guided_decoding_backend": `"x"`, "repeat_last_n": `8`, "thinking_token_budget": `1024`,
	}
	var rows []wire.Field
	for _, name := range slices.Sorted(maps.Keys(sideFields)) {
		f := sideFields[name]
		v := example[name]
		if v == "" {
			v = map[string]string{"a string": `"x"`, "a number": `7`, "a boolean": `true`, "an object": `{"a":1}`, "an array": `["x"]`}[f.kinds[0].String()]
		}
		if slices.Contains(f.neutral, v) { // a boolean whose default is true
			v = `false`
		}
		feature := f.feature
		if feature == "" {
			feature = infer.FeatureUnknown
		}
		piece := `"` + name + `":` + v
		if feature == infer.FeatureReasoningBudget { // it has to be within the bound
			piece = `"max_tokens":4096,` + piece
		}
		rows = append(rows, row(name, feature, v, in, piece, f.why))
	}
	return rows
}
