package openai

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// decodedFields is the first table of FIELDS.md: what is carried into the
// request. Each row is: names, routes, accepted values, remarks.
var decodedFields = [][4]string{
	{"model", "both", "a name", "required"},
	{"messages", "chat", "1 to 4096 messages", "roles system, developer, user, assistant, tool, function; content as a string or parts of text, image_url, input_audio, file; whether a model takes more than text is for its route to say"},
	{"prompt", "completions", "a string, strings, token ids, or arrays of them; at most 256", "required"},
	{"temperature", "both", "0 to 2", "0 is greedy"},
	{"top_p", "both", "above 0, up to 1", ""},
	{"top_k", "both", "-1 or more", "-1 and 0 are off"},
	{"min_p", "both", "0 to 1", ""},
	{"frequency_penalty, presence_penalty", "both", "-2 to 2", ""},
	{"repetition_penalty", "both", "above 0, up to 10", "1 is off"},
	{"n", "both", "1 to 128", "prompts times n is at most 256"},
	{"max_tokens, max_completion_tokens, n_predict", "both", "1 or more", "if two are given they must be equal; completions default to 16; n_predict -1 is without limit"},
	{"min_tokens", "both", "0 up to max_tokens", ""},
	{"seed", "both", "a whole number of 64 bits", ""},
	{"stop", "both", "a string or up to 64, each of 1 to 1024 bytes", ""},
	{"stop_token_ids", "both", "up to 1024 ids", ""},
	{"ignore_eos, include_stop_str_in_output", "both", "true or false", ""},
	{"logit_bias", "both", "token ids to -100 … 100, up to 4096", ""},
	{"logprobs, top_logprobs", "chat", "true or false; 0 to 20", "top_logprobs needs logprobs"},
	{"logprobs", "completions", "0 to 20", ""},
	{"echo, suffix", "completions", "true or false; a string", "not both"},
	{"best_of", "completions", "equal to n", ""},
	{"stream, stream_options", "both", "true or false; include_usage, continuous_usage_stats, include_obfuscation", ""},
	{"tools, functions", "chat", "up to 256 functions", "other types of tool are for providers that know them"},
	{"tool_choice, function_call", "chat", "none, auto, required, a function, allowed_tools", ""},
	{"parallel_tool_calls", "chat", "true or false", ""},
	{"response_format", "both", "text, json_object, json_schema, regex, grammar", "one constraint in all"},
	{"structured_outputs", "both", "json, regex, grammar, choice, json_object", "vLLM's form"},
	{"guided_json, guided_regex, guided_grammar, guided_choice", "both", "", "vLLM's older form"},
	{"json_schema, regex, grammar", "both", "", "llama.cpp's and SGLang's form"},
	{"chat_template_kwargs", "chat", "", "variables of the template, which takes only those it reads"},
	{"reasoning_effort, enable_thinking, thinking_budget, thinking, reasoning", "chat", "", "how much to reason; variables of a template that reads them"},
	{"include_reasoning", "chat", "true or false", "false leaves the reasoning out of the answer"},
	{"add_generation_prompt, continue_final_message", "chat", "true or false", "not both true"},
	{"return_token_ids, return_tokens_as_token_ids", "both", "true or false", ""},
	{"cache_salt", "both", "a string of up to 256 bytes", "narrows the sharing of cached prefixes"},
	{"priority", "both", "a whole number", "lower runs earlier"},
}

// TestFieldsDocument holds FIELDS.md to be what the tables say.
func TestFieldsDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Request fields of the OpenAI dialect\n\n")
	b.WriteString("Made from the tables in the code; `go test ./web/openai -run Fields -update` rewrites it. `null` means the default for every optional field.\n")
	b.WriteString("This is what the engine in the box takes. A provider that speaks the same dialect is sent every field as it came, known or not. Whatever else serves the request\n")
	b.WriteString("says of each field whether it has it; one that would be lost, or a value out of range, is refused with 400 or reported, as its route says, and `param` names the field.\n\n")
	b.WriteString("## Decoded\n\n| field | route | values | remarks |\n| --- | --- | --- | --- |\n")
	for _, r := range decodedFields {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r[0], r[1], r[2], r[3])
	}
	names := slices.Sorted(maps.Keys(sideFields))
	b.WriteString("\n## Labels and hints: any value, since none can change the answer\n\n| field | type | why |\n| --- | --- | --- |\n")
	for _, name := range names {
		if f := sideFields[name]; f.neutral == nil {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, f.kinds[0], f.why)
		}
	}
	b.WriteString("\n## Accepted only where they ask for what is done anyway\n\n| field | accepted | what is not offered |\n| --- | --- | --- |\n")
	for _, name := range names {
		if f := sideFields[name]; f.neutral != nil {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, strings.Join(append([]string{"null"}, f.neutral...), ", "), f.why)
		}
	}
	golden(t, "../FIELDS.md", []byte(b.String()))
}
