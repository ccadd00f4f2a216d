package appliance

import (
	"encoding/json"
	"slices"

	"hearth/engine/infer"
)

// localClass says what becomes of each feature at the engine in this box. A
// model may still refuse what it has no way for (tools without a template,
// infill without its tokens): that is an error of its own, not a loss.
var localClass = map[infer.Feature]infer.Class{
	infer.FeatureDeveloperRole:    infer.Transformed, // a system turn
	infer.FeatureSystemMidway:     infer.Transformed, // in place; tagged where the template has no such turn
	infer.FeatureMessageName:      infer.Carried,     // a template variable
	infer.FeatureImageData:        infer.Dropped,
	infer.FeatureImageURL:         infer.Dropped,
	infer.FeatureImageDetail:      infer.Dropped,
	infer.FeatureAudio:            infer.Dropped,
	infer.FeatureVideo:            infer.Dropped,
	infer.FeatureFile:             infer.Dropped,
	infer.FeatureFileURL:          infer.Dropped,
	infer.FeatureFileStored:       infer.Dropped,
	infer.FeatureCitations:        infer.Dropped,
	infer.FeatureRefusalPart:      infer.Transformed, // text
	infer.FeatureToolResultError:  infer.Emulated,    // said in the result's text
	infer.FeatureToolResultMedia:  infer.Dropped,
	infer.FeatureThought:          infer.Carried,
	infer.FeatureThoughtSummary:   infer.Carried,
	infer.FeatureThoughtSealed:    infer.Dropped,
	infer.FeatureThoughtSignature: infer.Dropped,     // readable text is kept
	infer.FeatureCacheBreakpoint:  infer.Transformed, // every prefix is cached
	infer.FeaturePrefill:          infer.Carried,

	infer.FeatureTools:              infer.Carried,
	infer.FeatureToolStrict:         infer.Carried,
	infer.FeatureToolRequired:       infer.Carried,
	infer.FeatureToolNamed:          infer.Carried,
	infer.FeatureToolNone:           infer.Carried,
	infer.FeatureToolAllowed:        infer.Transformed, // the other tools are left out
	infer.FeatureToolSerial:         infer.Carried,
	infer.FeatureToolHosted:         infer.Dropped,
	infer.FeatureToolHostedOptional: infer.Dropped,
	infer.FeatureToolCustom:         infer.Emulated, // a function that takes one string
	infer.FeatureToolCallHosted:     infer.Dropped,

	infer.FeatureMaxTokens:         infer.Carried,
	infer.FeatureMinTokens:         infer.Carried,
	infer.FeatureTemperature:       infer.Carried,
	infer.FeatureTopP:              infer.Carried,
	infer.FeatureTopK:              infer.Carried,
	infer.FeatureMinP:              infer.Carried,
	infer.FeatureFrequencyPenalty:  infer.Carried,
	infer.FeaturePresencePenalty:   infer.Carried,
	infer.FeatureRepetitionPenalty: infer.Carried,
	infer.FeatureLogitBias:         infer.Carried,
	infer.FeatureSeed:              infer.Carried,
	infer.FeatureChoices:           infer.Carried,
	infer.FeatureStop:              infer.Carried,
	infer.FeatureStopTokens:        infer.Carried,
	infer.FeatureIgnoreEOS:         infer.Carried,
	infer.FeatureIncludeStop:       infer.Carried,
	infer.FeatureLogprobs:          infer.Carried,
	infer.FeaturePromptLogprobs:    infer.Carried,
	infer.FeatureTokenIDs:          infer.Carried,
	infer.FeatureTokenPrompt:       infer.Carried,
	infer.FeatureEcho:              infer.Carried,
	infer.FeatureSuffix:            infer.Carried,
	infer.FeatureManyPrompts:       infer.Carried,
	infer.FeatureSampler:           infer.Dropped,

	infer.FeatureJSONObject: infer.Carried,
	infer.FeatureJSONSchema: infer.Carried,
	infer.FeatureRegex:      infer.Carried,
	infer.FeatureGrammar:    infer.Carried,
	infer.FeatureChoice:     infer.Carried,
	infer.FeatureVerbosity:  infer.Dropped,
	infer.FeatureModalities: infer.Dropped,

	infer.FeatureReasoningEffort:    infer.Carried, // a template variable
	infer.FeatureReasoningBudget:    infer.Dropped,
	infer.FeatureReasoningSwitch:    infer.Carried, // a template variable
	infer.FeatureReasoningSummary:   infer.Dropped,
	infer.FeatureReasoningEncrypted: infer.Dropped,

	infer.FeatureTemplateArgs:  infer.Carried,
	infer.FeatureTurnUnopened:  infer.Carried,
	infer.FeatureState:         infer.Dropped, // what the appliance keeps is in the turns
	infer.FeatureBackground:    infer.Dropped,
	infer.FeatureTruncation:    infer.Dropped,
	infer.FeatureContextEdits:  infer.Dropped,
	infer.FeatureSafety:        infer.Dropped,
	infer.FeatureServiceTier:   infer.Dropped,
	infer.FeatureCachedContent: infer.Dropped,
	infer.FeaturePriority:      infer.Carried,
	infer.FeatureCacheSalt:     infer.Carried,
	infer.FeatureDimensions:    infer.Carried,

	infer.FeatureUser:           infer.Dropped,
	infer.FeatureMetadata:       infer.Dropped,
	infer.FeatureCacheKey:       infer.Transformed, // prefixes are found by their content
	infer.FeaturePrediction:     infer.Dropped,
	infer.FeatureKeepAlive:      infer.Dropped,
	infer.FeatureStore:          infer.Dropped,
	infer.FeatureBeta:           infer.Dropped,
	infer.FeatureObfuscation:    infer.Carried, // done where the stream is written
	infer.FeatureToolAnnotation: infer.Dropped,
}

// LocalClass is the class of a feature at the engine in this box.
func LocalClass(f infer.Feature) infer.Class {
	if c, ok := localClass[f]; ok {
		return c
	}
	return infer.Dropped
}

// localClassOf is LocalClass for one model: some variables are read by some
// templates only.
func localClassOf(m infer.Model) func(infer.Feature) infer.Class {
	reads := func(name string) infer.Class {
		if slices.Contains(m.TemplateArgs, name) {
			return infer.Carried
		}
		return infer.Dropped
	}
	return func(f infer.Feature) infer.Class {
		switch f {
		case infer.FeatureReasoningEffort:
			return reads("reasoning_effort")
		case infer.FeatureReasoningSwitch:
			return reads("enable_thinking")
		}
		return LocalClass(f)
	}
}

// localRequest writes r for the engine in this box, without what only
// providers read.
func localRequest(r *infer.Request, model infer.Model) *infer.Request {
	own := *r
	own.Wire, own.Uses, own.Hints = nil, nil, infer.Hints{}
	own.TemplateArgs = thinkingArgs(r, model)
	own.Thinking = infer.Thinking{}
	if slices.ContainsFunc(r.Messages, func(m infer.Message) bool { return m.ToolError }) {
		own.Messages = slices.Clone(r.Messages)
		for i := range own.Messages {
			if m := &own.Messages[i]; m.ToolError {
				m.Content = append([]infer.Part{{Type: "text", Text: "The tool failed: "}}, m.Content...)
				m.ToolError = false
			}
		}
	}
	if allowed := r.ToolChoice.Allowed; len(allowed) > 0 {
		own.ToolChoice.Allowed = nil
		own.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t infer.Tool) bool { return !slices.Contains(allowed, t.Name) })
	}
	return &own
}

// thinkingArgs are the template variables that ask for the wanted amount of
// reasoning, where the caller did not set them itself.
func thinkingArgs(r *infer.Request, model infer.Model) map[string]json.RawMessage {
	t, args := r.Thinking, r.TemplateArgs
	set := func(name, value string) {
		if _, own := args[name]; own || !slices.Contains(model.TemplateArgs, name) {
			return
		}
		next := map[string]json.RawMessage{name: json.RawMessage(value)}
		for k, v := range args {
			next[k] = v
		}
		args = next
	}
	switch {
	case t.Switch == "off" || t.Effort == "none":
		set("enable_thinking", "false")
	case t.Switch == "on":
		set("enable_thinking", "true")
	}
	if t.Effort != "" && t.Effort != "none" {
		set("reasoning_effort", `"`+t.Effort+`"`)
	}
	return args
}
