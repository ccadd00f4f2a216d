package infer

// Feature names one thing that a request can ask for, independently of how a
// dialect writes it. Decoders note the features of a request in Request.Uses;
// every target (the local engine, each provider dialect) classes every feature;
// the two together say what is lost on the way (see Losses).
//
// Plain text turns, the model's name and streaming are what every dialect has;
// they are not features.
type Feature string

// The features. A new one needs a line in every target's table: a test holds
// the tables complete against Features.
const (
	// FeatureUnknown is a field that the dialect's decoder does not know. Only a
	// target of the same dialect can carry it.
	FeatureUnknown Feature = "unknown"

	// Turns and their content.
	FeatureDeveloperRole Feature = "developer_role"
	FeatureSystemMidway  Feature = "system_midway" // a system turn after the first other turn
	FeatureMessageName   Feature = "message_name"
	FeatureImageData     Feature = "image_data"
	FeatureImageURL      Feature = "image_url"
	FeatureImageDetail   Feature = "image_detail"
	FeatureAudio         Feature = "audio"
	FeatureVideo         Feature = "video"
	FeatureFile          Feature = "file"     // a document, inline or kept at its provider
	FeatureFileURL       Feature = "file_url" // a document by its address
	// FeatureFileStored is a file by a name that only Google's services know, which
	// say what they keep by address.
	FeatureFileStored      Feature = "file_stored"
	FeatureCitations       Feature = "citations"
	FeatureRefusalPart     Feature = "refusal_part" // an earlier refusal, sent back
	FeatureToolResultError Feature = "tool_result_error"
	FeatureToolResultMedia Feature = "tool_result_media" // images and files in a tool's result
	FeatureThought         Feature = "thought"           // earlier reasoning, readable
	// FeatureThoughtSealed is earlier reasoning that only the service which made it
	// can open: the encrypted content of OpenAI's Responses.
	FeatureThoughtSealed Feature = "thought_sealed"
	// FeatureThoughtSummary is earlier reasoning that is there to be read: the
	// service that showed it does not take it back as the model's own.
	FeatureThoughtSummary   Feature = "thought_summary"
	FeatureThoughtSignature Feature = "thought_signature" // earlier reasoning, signed, encrypted or redacted
	FeatureCacheBreakpoint  Feature = "cache_breakpoint"
	FeaturePrefill          Feature = "prefill" // the answer goes on from a last assistant turn

	// Tools.
	FeatureTools        Feature = "tools"
	FeatureToolStrict   Feature = "tool_strict"
	FeatureToolRequired Feature = "tool_required"
	FeatureToolNamed    Feature = "tool_named"
	FeatureToolNone     Feature = "tool_none"
	FeatureToolAllowed  Feature = "tool_allowed" // a choice among several named tools
	FeatureToolSerial   Feature = "tool_serial"  // at most one call an answer
	FeatureToolHosted   Feature = "tool_hosted"  // a tool that the provider runs itself
	FeatureToolCustom   Feature = "tool_custom"  // free-text input
	// FeatureToolHostedOptional is a hosted tool that the model may use or leave
	// (choice auto, beside other tools): agents list one with every request.
	FeatureToolHostedOptional Feature = "tool_hosted_optional"
	FeatureToolCallHosted     Feature = "tool_call_hosted" // an earlier call of a hosted tool, or its result

	// Decoding.
	FeatureMaxTokens         Feature = "max_tokens"
	FeatureMinTokens         Feature = "min_tokens"
	FeatureTemperature       Feature = "temperature"
	FeatureTopP              Feature = "top_p"
	FeatureTopK              Feature = "top_k"
	FeatureMinP              Feature = "min_p"
	FeatureFrequencyPenalty  Feature = "frequency_penalty"
	FeaturePresencePenalty   Feature = "presence_penalty"
	FeatureRepetitionPenalty Feature = "repetition_penalty"
	FeatureLogitBias         Feature = "logit_bias"
	FeatureSeed              Feature = "seed"
	FeatureChoices           Feature = "choices" // more than one
	FeatureStop              Feature = "stop"
	FeatureStopTokens        Feature = "stop_tokens"
	FeatureIgnoreEOS         Feature = "ignore_eos"
	FeatureIncludeStop       Feature = "include_stop"
	FeatureLogprobs          Feature = "logprobs"
	FeaturePromptLogprobs    Feature = "prompt_logprobs"
	FeatureTokenIDs          Feature = "token_ids"    // ids in the answer
	FeatureTokenPrompt       Feature = "token_prompt" // ids as the prompt
	FeatureEcho              Feature = "echo"
	FeatureSuffix            Feature = "suffix"
	FeatureManyPrompts       Feature = "many_prompts"
	FeatureSampler           Feature = "sampler" // any other knob of one engine's sampler

	// Form of the answer.
	FeatureJSONObject Feature = "json_object"
	FeatureJSONSchema Feature = "json_schema"
	FeatureRegex      Feature = "regex"
	FeatureGrammar    Feature = "grammar"
	FeatureChoice     Feature = "choice"
	FeatureVerbosity  Feature = "verbosity"
	FeatureModalities Feature = "modalities" // an answer in other than text

	// Reasoning.
	FeatureReasoningEffort    Feature = "reasoning_effort"
	FeatureReasoningBudget    Feature = "reasoning_budget"    // a number of tokens
	FeatureReasoningSwitch    Feature = "reasoning_switch"    // on, off, adaptive
	FeatureReasoningSummary   Feature = "reasoning_summary"   // how much of it is shown
	FeatureReasoningEncrypted Feature = "reasoning_encrypted" // sealed reasoning in the answer, to be sent back

	// The request as a whole.
	FeatureTemplateArgs  Feature = "template_args"
	FeatureTurnUnopened  Feature = "turn_unopened" // the prompt ends without the beginning of an answer
	FeatureState         Feature = "state"         // earlier turns that only the provider keeps or can read
	FeatureBackground    Feature = "background"    // how long it may take without the caller; that it goes on without is done here
	FeatureTruncation    Feature = "truncation"    // what to leave out of a prompt that is too long
	FeatureContextEdits  Feature = "context_edits"
	FeatureSafety        Feature = "safety" // a provider's own content filter settings
	FeatureServiceTier   Feature = "service_tier"
	FeatureCachedContent Feature = "cached_content" // a prompt stored at the provider
	FeaturePriority      Feature = "priority"
	FeatureCacheSalt     Feature = "cache_salt"
	FeatureDimensions    Feature = "dimensions" // of embeddings

	// Hints and labels: they cannot change what the answer says.
	FeatureUser           Feature = "user"
	FeatureMetadata       Feature = "metadata"
	FeatureCacheKey       Feature = "cache_key"
	FeaturePrediction     Feature = "prediction"
	FeatureKeepAlive      Feature = "keep_alive"
	FeatureStore          Feature = "store" // keep the answer at the provider
	FeatureBeta           Feature = "beta"  // an opt-in of one provider
	FeatureObfuscation    Feature = "obfuscation"
	FeatureToolAnnotation Feature = "tool_annotation" // examples, titles and other remarks on a tool
)

// Features lists every feature except FeatureUnknown.
var Features = []Feature{
	FeatureDeveloperRole, FeatureSystemMidway, FeatureMessageName, FeatureImageData, FeatureImageURL, FeatureImageDetail, FeatureAudio,
	FeatureVideo, FeatureFile, FeatureFileURL, FeatureFileStored, FeatureCitations, FeatureRefusalPart, FeatureToolResultError, FeatureToolResultMedia, FeatureThought,
	FeatureThoughtSealed, FeatureThoughtSummary,
	FeatureThoughtSignature, FeatureCacheBreakpoint, FeaturePrefill, FeatureTools, FeatureToolStrict, FeatureToolRequired, FeatureToolNamed,
	FeatureToolNone, FeatureToolAllowed, FeatureToolSerial, FeatureToolHosted, FeatureToolHostedOptional, FeatureToolCustom, FeatureToolCallHosted, FeatureMaxTokens,
	FeatureMinTokens, FeatureTemperature, FeatureTopP, FeatureTopK, FeatureMinP, FeatureFrequencyPenalty, FeaturePresencePenalty,
	FeatureRepetitionPenalty, FeatureLogitBias, FeatureSeed, FeatureChoices, FeatureStop, FeatureStopTokens, FeatureIgnoreEOS,
	FeatureIncludeStop, FeatureLogprobs, FeaturePromptLogprobs, FeatureTokenIDs, FeatureTokenPrompt, FeatureEcho, FeatureSuffix,
	FeatureManyPrompts, FeatureSampler, FeatureJSONObject, FeatureJSONSchema, FeatureRegex, FeatureGrammar, FeatureChoice, FeatureVerbosity,
	FeatureModalities, FeatureReasoningEffort, FeatureReasoningBudget, FeatureReasoningSwitch, FeatureReasoningSummary,
	FeatureReasoningEncrypted, FeatureTemplateArgs, FeatureTurnUnopened, FeatureState, FeatureBackground, FeatureTruncation, FeatureContextEdits, FeatureSafety,
	FeatureServiceTier, FeatureCachedContent, FeaturePriority, FeatureCacheSalt, FeatureDimensions, FeatureUser, FeatureMetadata,
	FeatureCacheKey, FeaturePrediction, FeatureKeepAlive, FeatureStore, FeatureBeta, FeatureObfuscation, FeatureToolAnnotation,
}

// Hint says that the feature is a label, or a wish about how and how much, which
// cannot change what is asked for: to drop it is reported, never refused.
func (f Feature) Hint() bool {
	switch f {
	case FeatureUser, FeatureMetadata, FeatureCacheKey, FeaturePrediction, FeatureKeepAlive, FeatureStore, FeatureBeta,
		FeatureObfuscation, FeatureToolAnnotation, FeatureToolHostedOptional, FeatureThoughtSummary, FeatureCacheBreakpoint, FeatureServiceTier, FeaturePriority, FeatureImageDetail,
		FeatureMessageName, FeatureDeveloperRole, FeatureVerbosity, FeatureContextEdits, FeatureThought, FeatureThoughtSignature,
		FeatureReasoningEffort, FeatureReasoningBudget, FeatureReasoningSwitch, FeatureReasoningSummary, FeatureReasoningEncrypted:
		return true
	case FeatureTruncation, // a prompt that is too long is refused in any case
		FeatureBackground: // a bound on time, not on what is said
		return true
	}
	return false
}

// Class says what becomes of a feature at a target.
type Class string

const (
	Carried     Class = "carried"     // the target has it under this or another name
	Transformed Class = "transformed" // the target has it in another form with the same effect
	Emulated    Class = "emulated"    // brought about by other means; close, not the same
	Dropped     Class = "dropped"     // the target does not have it
)

// Use is one field of the wire that a request carries. A field that holds its
// dialect's default (n: 1, stop: null) is not noted.
type Use struct {
	Feature Feature
	Path    string // as the dialect names it, for instance "messages[2].content[0].cache_control"
	// Why is what a target that cannot have it says, where the decoder knows better
	// words than that the field is not offered.
	Why string
	// Own is a field that has no typed place: it shares its feature with fields of
	// other names, but only what speaks the request's dialect knows it, and is sent
	// it only with the bytes of the request. Whoever writes the request anew loses
	// it, whatever becomes of the feature there.
	Own bool
}

// Loss is a field that does not reach the target as it was meant.
type Loss struct {
	Path    string
	Feature Feature
	Class   Class  // Emulated or Dropped
	Why     string // of the use
}

// Refusable says that the loss changes what the answer means, so that a route
// which rejects losses refuses the request.
func (l Loss) Refusable() bool { return l.Class == Dropped && !l.Feature.Hint() }

// Losses gives what a request with these uses loses at a target that is sent it
// written anew from its typed fields, in the order of the uses.
func Losses(uses []Use, class func(Feature) Class) []Loss {
	var out []Loss
	for _, u := range uses {
		c := Dropped
		if u.Feature != FeatureUnknown && !u.Own {
			c = class(u.Feature)
		}
		if c == Emulated || c == Dropped {
			out = append(out, Loss{u.Path, u.Feature, c, u.Why})
		}
	}
	return out
}
