package openai

import (
	"maps"
	"slices"
	"strings"

	"hearth/engine/infer"
)

// Departure is one known way in which a server that says it speaks OpenAI's
// dialect does not, and what is done about it.
type Departure struct {
	Fact   string // what differs
	Done   string // what the client does about it
	Source string // where it is documented, or the project's own thread
}

// profile is what a kind of server takes of the dialect. The zero profile would
// be a server that takes nothing; see base.
type profile struct {
	name  string
	about string
	// limit is the member that bounds the answer of a chat.
	limit string
	// usageOption says that stream_options.include_usage is understood.
	usageOption bool
	// developer is the role that stands for developer.
	developer string
	// reasoning is the member in which an earlier turn's reasoning is sent back,
	// empty if there is none.
	reasoning string
	// extra are the members beyond OpenAI's that are sent, by feature: the name
	// that the server gives it.
	extra map[infer.Feature]string
	// classes are what differs from the dialect's own table.
	classes    map[infer.Feature]infer.Class
	departures []Departure
}

// chatClasses is what OpenAI's chat completions make of each feature of a
// request that came in another dialect. A feature that is not in the table is
// dropped.
var chatClasses = map[infer.Feature]infer.Class{
	infer.FeatureDeveloperRole: infer.Carried, infer.FeatureSystemMidway: infer.Carried, infer.FeatureMessageName: infer.Carried,
	infer.FeatureImageData: infer.Carried, infer.FeatureImageURL: infer.Carried, infer.FeatureImageDetail: infer.Carried,
	infer.FeatureAudio: infer.Carried, infer.FeatureFile: infer.Carried,
	infer.FeatureRefusalPart:     infer.Transformed, // as text of the assistant
	infer.FeatureToolResultError: infer.Emulated,    // the result's own text has to say it
	infer.FeatureToolResultMedia: infer.Emulated,    // in a user's turn behind the results
	infer.FeatureTools:           infer.Carried, infer.FeatureToolStrict: infer.Carried, infer.FeatureToolRequired: infer.Carried,
	infer.FeatureToolNamed: infer.Carried, infer.FeatureToolNone: infer.Carried,
	infer.FeatureToolCustom:  infer.Emulated,    // as a function that takes one string
	infer.FeatureToolAllowed: infer.Transformed, // the others are not declared
	infer.FeatureToolSerial:  infer.Carried,
	infer.FeatureMaxTokens:   infer.Carried, infer.FeatureTemperature: infer.Carried, infer.FeatureTopP: infer.Carried,
	infer.FeatureFrequencyPenalty: infer.Carried, infer.FeaturePresencePenalty: infer.Carried, infer.FeatureLogitBias: infer.Carried,
	infer.FeatureSeed: infer.Carried, infer.FeatureChoices: infer.Carried, infer.FeatureStop: infer.Carried, infer.FeatureLogprobs: infer.Carried,
	infer.FeatureJSONObject: infer.Carried, infer.FeatureJSONSchema: infer.Carried, infer.FeatureVerbosity: infer.Carried,
	infer.FeatureReasoningEffort: infer.Carried,
	infer.FeatureReasoningBudget: infer.Emulated, // as the effort that comes near
	infer.FeatureReasoningSwitch: infer.Emulated, // off as the effort none; on is left to the model
	infer.FeatureUser:            infer.Carried, infer.FeatureMetadata: infer.Carried, infer.FeatureCacheKey: infer.Carried,
	infer.FeatureServiceTier: infer.Carried,
}

// base is OpenAI itself.
func base(name, about string) profile {
	return profile{name: name, about: about, limit: "max_completion_tokens", usageOption: true, developer: "developer"}
}

// local is what the open servers have in common: they took max_tokens before
// OpenAI renamed it, know system but not always developer, and have no accounts.
func local(name, about string) profile {
	p := base(name, about)
	p.limit, p.developer = "max_tokens", "system"
	p.classes = map[infer.Feature]infer.Class{
		infer.FeatureDeveloperRole: infer.Transformed, infer.FeatureFile: infer.Dropped,
		infer.FeatureUser: infer.Dropped, infer.FeatureMetadata: infer.Dropped, infer.FeatureCacheKey: infer.Dropped,
		infer.FeatureServiceTier: infer.Dropped, infer.FeatureVerbosity: infer.Dropped,
	}
	p.departures = []Departure{
		{"the role developer is not known to every chat template", "it is sent as system", "vLLM, SGLang and llama.cpp render the model's own template, most of which know system only"},
		{"max_tokens is the name that every version knows", "the bound is sent as max_tokens", "max_completion_tokens came to these servers later, or not at all"},
	}
	return p
}

func (p profile) with(extra map[infer.Feature]string, classes map[infer.Feature]infer.Class, more ...Departure) profile {
	p.extra = extra
	all := maps.Clone(p.classes)
	if all == nil {
		all = map[infer.Feature]infer.Class{}
	}
	for f := range extra {
		all[f] = infer.Carried
	}
	maps.Copy(all, classes)
	p.classes = all
	p.departures = append(slices.Clone(p.departures), more...)
	return p
}

// profiles are the kinds of server that are told apart, OpenAI's own first.
var profiles = []profile{
	base("openai", "OpenAI's own service").with(nil, map[infer.Feature]infer.Class{infer.FeatureMetadata: infer.Dropped},
		Departure{"reasoning models refuse max_tokens", "the bound is sent as max_completion_tokens, which all chat models take", "OpenAI, chat completions reference: max_tokens is deprecated"},
		Departure{"reasoning models refuse temperature and top_p", "they are sent as asked; the refusal is the provider's to tell", "OpenAI, reasoning guide"},
		Departure{"metadata without store is an error", "it is left out and reported", "OpenAI, chat completions reference: metadata"},
		Departure{"models that do not reason refuse reasoning_effort", "a budget or a switch becomes an effort for models whose names say that they reason; an effort is sent as asked", "OpenAI, reasoning guide"},
		Departure{"parallel_tool_calls without tools is an error", "it is sent with tools only", "OpenAI, chat completions reference"},
	),
	base("openai-compatible", "any other server that speaks the dialect").with(nil, map[infer.Feature]infer.Class{
		infer.FeatureReasoningBudget: infer.Dropped, infer.FeatureReasoningSwitch: infer.Dropped,
	},
		Departure{"many refuse reasoning_effort for models that do not reason", "a budget or a switch is dropped; an effort is sent as asked", "Groq, reasoning; Mistral, chat completions"},
		Departure{"max_tokens is the name that every server knows", "the bound is sent as max_tokens", "most servers took the dialect before max_completion_tokens came"},
		Departure{"the role developer is not known everywhere", "it is sent as system", "OpenAI, model spec: developer was system before"},
	).bounded("max_tokens").developed("system"),
	base("azure", "Azure OpenAI").with(nil, map[infer.Feature]infer.Class{infer.FeatureServiceTier: infer.Dropped, infer.FeatureMetadata: infer.Dropped},
		Departure{"a first chunk has no choices, only prompt_filter_results, with empty id and model", "it is tolerated, and passed on where the caller speaks the same dialect", "Azure OpenAI, content streaming"},
		Departure{"a filtered prompt is a 400 with the code content_filter", "it is told as an error of the request", "Azure OpenAI, content filtering"},
		Departure{"x-ratelimit-* may be -1 or 0 without a limit being reached", "the headers are not believed; only Retry-After is", "Azure OpenAI, quotas"},
	),
	local("vllm", "vLLM").with(map[infer.Feature]string{
		infer.FeatureTopK: "top_k", infer.FeatureMinP: "min_p", infer.FeatureRepetitionPenalty: "repetition_penalty",
		infer.FeatureMinTokens: "min_tokens", infer.FeatureStopTokens: "stop_token_ids", infer.FeatureIgnoreEOS: "ignore_eos",
		infer.FeatureIncludeStop: "include_stop_str_in_output", infer.FeaturePrefill: "continue_final_message",
		infer.FeatureTurnUnopened: "add_generation_prompt", infer.FeatureTemplateArgs: "chat_template_kwargs", infer.FeatureReasoningSwitch: "chat_template_kwargs",
		infer.FeatureCacheSalt: "cache_salt", infer.FeaturePriority: "priority",
		infer.FeatureRegex: "structured_outputs", infer.FeatureGrammar: "structured_outputs", infer.FeatureChoice: "structured_outputs",
	}, map[infer.Feature]infer.Class{infer.FeatureToolStrict: infer.Dropped},
		Departure{"strict of a function is ignored", "it is left out and reported as dropped", "vLLM, tool calling: only named and required choices are constrained"},
		Departure{"null for encoding_format of embeddings is an error in some versions", "what is absent stays absent", "vLLM, embeddings API"},
		Departure{"reasoning comes as reasoning_content, newer versions say reasoning", "either is read", "vLLM, reasoning outputs"},
		Departure{"stop_reason beside finish_reason names the stop string", "it is read", "vLLM, OpenAI-compatible server"},
		Departure{"older versions send errors flat: {\"object\":\"error\",\"message\",…}", "they are read, before the answer and inside it", "vLLM, protocol ErrorResponse"},
		Departure{"continue_final_message with add_generation_prompt false goes on from the last turn", "a prefilled answer is sent so", "vLLM, chat completions extra parameters"},
	).thinks("reasoning_content"),
	local("sglang", "SGLang").with(map[infer.Feature]string{
		infer.FeatureTopK: "top_k", infer.FeatureMinP: "min_p", infer.FeatureRepetitionPenalty: "repetition_penalty",
		infer.FeatureMinTokens: "min_tokens", infer.FeatureStopTokens: "stop_token_ids", infer.FeatureIgnoreEOS: "ignore_eos",
		infer.FeaturePrefill: "continue_final_message", infer.FeatureTemplateArgs: "chat_template_kwargs",
		infer.FeatureReasoningSwitch: "chat_template_kwargs", infer.FeatureRegex: "regex",
	}, nil,
		Departure{"matched_stop beside finish_reason names the stop string or token", "it is read if it is a string", "SGLang, OpenAI APIs"},
		Departure{"finish_reason abort for an answer that was cut", "it is a failure, not an end", "SGLang, finish reasons"},
	).thinks("reasoning_content"),
	local("tgi", "Text Generation Inference").with(nil, map[infer.Feature]infer.Class{
		infer.FeatureToolSerial: infer.Dropped, infer.FeatureToolStrict: infer.Dropped, infer.FeatureChoices: infer.Dropped,
		infer.FeatureReasoningEffort: infer.Dropped, infer.FeatureReasoningBudget: infer.Dropped, infer.FeatureReasoningSwitch: infer.Dropped,
		infer.FeatureAudio: infer.Dropped, infer.FeatureMessageName: infer.Carried,
	},
		Departure{"finish_reason may be eos_token or stop_sequence", "both are stop", "TGI, Messages API: FinishReason"},
		Departure{"n is accepted and one choice comes", "it is classed as dropped", "TGI, ChatRequest: n is unused"},
		Departure{"errors are {\"error\":\"text\",\"error_type\":…}, in the stream too", "they are read", "TGI, ErrorResponse"},
		Departure{"arguments of a call may be an object in place of a string", "they are read as its text", "TGI, FunctionDefinition"},
	),
	local("tensorrt-llm", "TensorRT-LLM").with(map[infer.Feature]string{
		infer.FeatureTopK: "top_k", infer.FeatureMinP: "min_p", infer.FeatureRepetitionPenalty: "repetition_penalty",
		infer.FeatureMinTokens: "min_tokens", infer.FeatureStopTokens: "stop_token_ids", infer.FeatureIgnoreEOS: "ignore_eos",
		infer.FeatureTurnUnopened: "add_generation_prompt", infer.FeatureTemplateArgs: "chat_template_kwargs", infer.FeatureReasoningSwitch: "chat_template_kwargs",
	}, map[infer.Feature]infer.Class{infer.FeatureToolStrict: infer.Dropped, infer.FeatureToolSerial: infer.Dropped, infer.FeatureAudio: infer.Dropped},
		Departure{"parallel_tool_calls is not in its schema", "it is left out and reported", "TensorRT-LLM, openai_protocol.py"},
	).thinks("reasoning_content"),
	local("llamacpp", "llama.cpp's server").with(map[infer.Feature]string{
		infer.FeatureTopK: "top_k", infer.FeatureMinP: "min_p", infer.FeatureIgnoreEOS: "ignore_eos", infer.FeatureRepetitionPenalty: "repeat_penalty",
		infer.FeatureTurnUnopened: "add_generation_prompt", infer.FeatureTemplateArgs: "chat_template_kwargs", infer.FeatureReasoningSwitch: "chat_template_kwargs", infer.FeatureGrammar: "grammar",
	}, map[infer.Feature]infer.Class{
		infer.FeatureToolStrict: infer.Dropped, infer.FeatureImageDetail: infer.Dropped, infer.FeatureImageURL: infer.Carried,
		infer.FeatureRepetitionPenalty: infer.Emulated, infer.FeatureMessageName: infer.Dropped,
	},
		Departure{"repeat_penalty looks back over a window", "repetition_penalty is sent as it, and reported as emulated", "llama.cpp, server README: repeat_last_n"},
		Departure{"a prompt beyond the context is exceed_context_size_error", "it is told as context_length_exceeded", "llama.cpp, server errors"},
		Departure{"tools need --jinja, else 500", "the failure is the provider's to tell", "llama.cpp, function calling"},
	).thinks("reasoning_content"),
	local("ollama", "Ollama's OpenAI-compatible routes").with(nil, map[infer.Feature]infer.Class{
		infer.FeatureToolStrict: infer.Dropped, infer.FeatureToolSerial: infer.Dropped, infer.FeatureToolRequired: infer.Dropped,
		infer.FeatureToolNamed: infer.Dropped, infer.FeatureToolNone: infer.Transformed, infer.FeatureLogitBias: infer.Dropped, infer.FeatureChoices: infer.Dropped,
		infer.FeatureAudio: infer.Dropped, infer.FeatureImageURL: infer.Dropped, infer.FeatureImageDetail: infer.Dropped, infer.FeatureMessageName: infer.Dropped,
	},
		Departure{"every call of a streamed answer states index 0", "a new id is a new call", "Ollama, issue 15457"},
		Departure{"tool_choice, logit_bias, n and user are not supported", "they are classed as dropped; none is brought about by declaring no tools", "Ollama, OpenAI compatibility"},
		Departure{"images by URL are not fetched", "classed as dropped", "Ollama, OpenAI compatibility"},
		Departure{"finish_reason is stop behind tool calls in some versions", "it is told as tool_calls", "Ollama, OpenAI compatibility"},
	).thinks("reasoning"),
	base("openrouter", "OpenRouter").with(map[infer.Feature]string{
		infer.FeatureTopK: "top_k", infer.FeatureMinP: "min_p", infer.FeatureRepetitionPenalty: "repetition_penalty",
		infer.FeatureReasoningBudget: "reasoning", infer.FeatureReasoningSwitch: "reasoning", infer.FeatureCacheBreakpoint: "cache_control",
	}, map[infer.Feature]infer.Class{infer.FeatureServiceTier: infer.Dropped, infer.FeatureCacheKey: infer.Dropped},
		Departure{"comments (\": OPENROUTER PROCESSING\") keep the stream alive", "the framing skips them", "OpenRouter, streaming"},
		Departure{"an error inside the stream is a chunk with a top-level error and finish_reason error", "it is a failure", "OpenRouter, errors: mid-stream"},
		Departure{"error codes are numbers, the HTTP status", "they are read as the status", "OpenRouter, errors"},
		Departure{"reasoning comes as reasoning and again as reasoning_details", "it is read once", "OpenRouter, reasoning tokens"},
		Departure{"an effort and a budget go into the object reasoning", "they are sent so", "OpenRouter, reasoning tokens"},
		Departure{"cache_control on parts is passed to the providers that know it", "cache marks are carried", "OpenRouter, prompt caching"},
	).thinks("reasoning").bounded("max_tokens").developed("system"),
	base("litellm", "LiteLLM's proxy").with(map[infer.Feature]string{
		infer.FeatureTopK: "top_k", infer.FeatureCacheBreakpoint: "cache_control", infer.FeatureReasoningBudget: "thinking",
	}, nil,
		Departure{"counts of Anthropic's caches stand beside the totals under Anthropic's names", "they are read; prompt_tokens includes them", "LiteLLM, prompt caching"},
		Departure{"budget_exceeded has varied in status: 400, 401, 429", "the type is read, whatever the status", "LiteLLM, budgets"},
		Departure{"thinking with a budget is passed to the providers that know it", "a budget is carried", "LiteLLM, reasoning content"},
	).thinks("reasoning_content").bounded("max_tokens"),
	base("vertex", "Vertex AI's OpenAI-compatible endpoint").with(nil, map[infer.Feature]infer.Class{
		infer.FeatureMetadata: infer.Dropped, infer.FeatureServiceTier: infer.Dropped, infer.FeatureCacheKey: infer.Dropped, infer.FeatureVerbosity: infer.Dropped,
		infer.FeatureUser: infer.Dropped, infer.FeatureLogitBias: infer.Dropped, infer.FeatureToolSerial: infer.Dropped, infer.FeatureFile: infer.Dropped,
	},
		Departure{"a list of OpenAI's parameters is supported, the others are ignored", "those are classed as dropped", "Vertex AI, OpenAI compatibility: supported parameters"},
	).bounded("max_tokens").developed("system"),
	base("hearth", "another box of this kind").with(map[infer.Feature]string{
		infer.FeatureTopK: "top_k", infer.FeatureMinP: "min_p", infer.FeatureRepetitionPenalty: "repetition_penalty",
		infer.FeatureMinTokens: "min_tokens", infer.FeatureStopTokens: "stop_token_ids", infer.FeatureIgnoreEOS: "ignore_eos",
		infer.FeatureIncludeStop: "include_stop_str_in_output", infer.FeaturePrefill: "continue_final_message",
		infer.FeatureTurnUnopened: "add_generation_prompt", infer.FeatureTemplateArgs: "chat_template_kwargs", infer.FeatureReasoningSwitch: "enable_thinking", infer.FeatureReasoningBudget: "thinking_budget",
		infer.FeatureCacheSalt: "cache_salt", infer.FeaturePriority: "priority", infer.FeatureCacheBreakpoint: "cache_control",
		infer.FeatureRegex: "structured_outputs", infer.FeatureGrammar: "structured_outputs", infer.FeatureChoice: "structured_outputs",
	}, nil,
		Departure{"fields of the open servers are taken beside OpenAI's", "they are sent; what serves the model there says which it has", "FIELDS.md of this package"},
	).thinks("reasoning_content"),
}

// thinks names the member that takes an earlier turn's reasoning.
func (p profile) thinks(member string) profile {
	p.reasoning = member
	p.classes[infer.FeatureThought], p.classes[infer.FeatureThoughtSummary] = infer.Carried, infer.Carried
	return p
}

func (p profile) bounded(member string) profile { p.limit = member; return p }

func (p profile) developed(role string) profile {
	p.developer = role
	p.classes[infer.FeatureDeveloperRole] = infer.Transformed
	return p
}

// profileOf finds a profile by name; OpenAI's where the name is empty or not
// known.
func profileOf(name string) *profile {
	for i := range profiles {
		if profiles[i].name == name {
			return &profiles[i]
		}
	}
	return &profiles[0]
}

// Profiles lists the names that NewChatClient knows.
func Profiles() []string {
	var names []string
	for i := range profiles {
		names = append(names, profiles[i].name)
	}
	return names
}

// Departures lists what is known of a profile's departures from the dialect.
func Departures(name string) []Departure { return slices.Clone(profileOf(name).departures) }

// class is what the profile makes of a feature.
func (p *profile) class(f infer.Feature) infer.Class {
	if c, ok := p.classes[f]; ok {
		return c
	}
	if c, ok := chatClasses[f]; ok {
		return c
	}
	return infer.Dropped
}

// reasons tells whether a model takes an effort in place of a budget or a switch.
// OpenAI's models that do not reason refuse it; their names tell which do, also
// in deployments that are named after the model.
func (p *profile) reasons(model string) bool {
	if p.name != "openai" && p.name != "azure" {
		return true
	}
	model = strings.ToLower(model)
	for _, part := range []string{"gpt-5", "gpt-6", "gpt-oss", "codex", "o1", "o3", "o4"} {
		if at := strings.Index(model, part); at == 0 || at > 0 && strings.IndexByte("-_/.", model[at-1]) >= 0 {
			return true
		}
	}
	return false
}

// has tells whether the feature is sent at all.
func (p *profile) has(f infer.Feature) bool { return p.class(f) != infer.Dropped }
