package ollama

import (
	"strings"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// The smallest bodies with room for one thing in place of the mark.
const (
	mark        = "▮"
	inChat      = `{"model":"m","messages":[{"role":"user","content":"a"}],` + mark + `}`
	inTurns     = `{"model":"m","messages":[{"role":"user","content":"a"},` + mark + `,{"role":"user","content":"b"}]}`
	inCalls     = `{"model":"m","messages":[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","content":"b",` + mark + `}]}`
	inOptions   = `{"model":"m","messages":[{"role":"user","content":"a"}],"options":{` + mark + `}}`
	inGenerate  = `{"model":"m","prompt":"a",` + mark + `}`
	inEmbed     = `{"model":"m","input":"a",` + mark + `}`
	onePixel    = `"iVBORw0KGgo="`
	emptySchema = `{"type":"object"}`
)

// row writes one row of the table: piece stands in place of the mark of in.
func row(path string, f infer.Feature, example, in, piece, note string) wire.Field {
	return wire.Field{Path: path, Feature: f, Example: example, Base: strings.Replace(in, mark, piece, 1), Note: note}
}

// member is the row of a top-level member.
func member(name string, f infer.Feature, example, in, note string) wire.Field {
	return row(name, f, example, in, `"`+name+`":`+example, note)
}

// ChatFields lists every field of a chat request with the feature that it uses.
func ChatFields() []wire.Field {
	rows := []wire.Field{
		{Path: "model", Example: `"m"`, Base: `{"model":"m","messages":[{"role":"user","content":"a"}]}`},
		{Path: "messages", Example: `[{"role":"user","content":"a"}]`, Base: `{"model":"m","messages":[{"role":"user","content":"a"}]}`, Note: "without any the model is loaded"},
		row("messages[]", infer.FeatureSystemMidway, `{"role":"system","content":"b"}`, inTurns, `{"role":"system","content":"b"}`, "a system turn behind another"),
		row("messages[]", infer.FeatureDeveloperRole, `{"role":"developer","content":"b"}`, inTurns, `{"role":"developer","content":"b"}`, "not Ollama's own"),
		row("messages", infer.FeaturePrefill, `[{"role":"assistant","content":"b"}]`, `{"model":"m","messages":`+mark+`}`, `[{"role":"assistant","content":"b"}]`, "with the assistant's turn last"),
		row("messages[].images[]", infer.FeatureImageData, onePixel, inTurns, `{"role":"user","content":"b","images":[`+onePixel+`]}`, ""),
		row("messages[].thinking", infer.FeatureThought, `"hm"`, inTurns, `{"role":"assistant","content":"b","thinking":"hm"}`, ""),
		row("messages[].tool_calls", "", `[{"function":{"name":"f","arguments":{}}}]`, inTurns, `{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]}`, ""),
		row("messages[].tool_name", "", `"f"`, inCalls, `"tool_name":"f"`, ""),
		row("messages[].tool_call_id", "", `"call_1"`, inCalls, `"tool_call_id":"call_1"`, ""),
		row("messages[]", infer.FeatureToolResultMedia, `{"role":"tool","content":"b","images":[`+onePixel+`]}`, inCalls, `"images":[`+onePixel+`]`, "images of a tool's result"),
		row("tools[]", infer.FeatureTools, `{"type":"function","function":{"name":"f"}}`, inChat, `"tools":[{"type":"function","function":{"name":"f"}}]`, ""),
		row("tools[].function.strict", infer.FeatureToolStrict, `true`, inChat, `"tools":[{"type":"function","function":{"name":"f","strict":true}}]`, "not Ollama's own"),
		row("tools[]", infer.FeatureToolHosted, `{"type":"web_search"}`, inChat, `"tools":[{"type":"web_search"}]`, "of another type"),
	}
	return append(append(rows, sharedFields(inChat)...), optionFields()...)
}

// GenerateFields lists every field of a request for generate; options are those
// of chat.
func GenerateFields() []wire.Field {
	rows := []wire.Field{
		{Path: "model", Example: `"m"`, Base: `{"model":"m","prompt":"a"}`},
		{Path: "prompt", Example: `"a"`, Base: `{"model":"m","prompt":"a"}`, Note: "without one the model is loaded"},
		member("system", "", `"Be brief."`, inGenerate, ""),
		member("raw", "", `true`, inGenerate, "the prompt is continued as it is"),
		member("suffix", infer.FeatureSuffix, `"b"`, inGenerate, ""),
		row("images[]", infer.FeatureImageData, onePixel, inGenerate, `"images":[`+onePixel+`]`, ""),
		member("template", infer.FeatureUnknown, `"{{ .Prompt }}"`, inGenerate, ""),
		member("context", infer.FeatureUnknown, `[1,2]`, inGenerate, "ids of one engine's earlier answer"),
		member("width", infer.FeatureUnknown, `512`, inGenerate, "of an image"),
		member("height", infer.FeatureUnknown, `512`, inGenerate, "of an image"),
		member("steps", infer.FeatureUnknown, `4`, inGenerate, "of an image"),
	}
	return append(rows, sharedFields(inGenerate)...)
}

func sharedFields(in string) []wire.Field {
	return []wire.Field{
		member("stream", "", `false`, in, "true is the default"),
		member("format", infer.FeatureJSONObject, `"json"`, in, ""),
		member("format", infer.FeatureJSONSchema, emptySchema, in, "a JSON schema"),
		member("think", infer.FeatureReasoningSwitch, `true`, in, ""),
		member("think", infer.FeatureReasoningEffort, `"high"`, in, "low, medium, high, max"),
		member("keep_alive", infer.FeatureKeepAlive, `"5m"`, in, ""),
		member("logprobs", infer.FeatureLogprobs, `true`, in, ""),
		row("top_logprobs", infer.FeatureLogprobs, `2`, in, `"logprobs":true,"top_logprobs":2`, ""),
		member("truncate", "", `false`, in, "a prompt that is too long is refused"),
		member("shift", "", `false`, in, "a context that is full ends the answer"),
		member("_debug_render_only", infer.FeatureUnknown, `true`, in, ""),
	}
}

func optionFields() []wire.Field {
	o := func(name string, f infer.Feature, example string) wire.Field {
		return row("options."+name, f, example, inOptions, `"`+name+`":`+example, "")
	}
	rows := []wire.Field{
		o("temperature", infer.FeatureTemperature, `0.5`), o("top_p", infer.FeatureTopP, `0.5`), o("top_k", infer.FeatureTopK, `40`),
		o("min_p", infer.FeatureMinP, `0.1`), o("repeat_penalty", infer.FeatureRepetitionPenalty, `1.1`),
		o("presence_penalty", infer.FeaturePresencePenalty, `0.5`), o("frequency_penalty", infer.FeatureFrequencyPenalty, `0.5`),
		o("seed", infer.FeatureSeed, `7`), o("num_predict", infer.FeatureMaxTokens, `16`), o("stop", infer.FeatureStop, `["END"]`),
	}
	for _, name := range []string{"num_keep", "tfs_z", "typical_p", "repeat_last_n", "mirostat", "mirostat_tau", "mirostat_eta"} {
		rows = append(rows, o(name, infer.FeatureSampler, `1`))
	}
	rows = append(rows, o("penalize_newline", infer.FeatureSampler, `true`))
	for _, name := range []string{"num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "draft_num_predict"} {
		f := o(name, infer.FeatureBeta, `1`)
		f.Note = "how the model is loaded"
		rows = append(rows, f)
	}
	for _, name := range []string{"numa", "low_vram", "f16_kv", "logits_all", "vocab_only", "use_mmap", "use_mlock", "embedding_only"} {
		f := o(name, infer.FeatureBeta, `true`)
		f.Note = "how the model is loaded"
		rows = append(rows, f)
	}
	return rows
}

// EmbedFields lists every field of a request for embeddings.
func EmbedFields() []wire.Field {
	return []wire.Field{
		{Path: "model", Example: `"m"`, Base: `{"model":"m","input":"a"}`},
		{Path: "input", Example: `"a"`, Base: `{"model":"m","input":"a"}`},
		member("dimensions", infer.FeatureDimensions, `64`, inEmbed, ""),
		member("truncate", "", `false`, inEmbed, "an input that is too long is refused"),
		member("keep_alive", infer.FeatureKeepAlive, `"5m"`, inEmbed, ""),
	}
}
