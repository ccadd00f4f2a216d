package anthropic

import "hearth/engine/infer"

// classes says what becomes of each feature of a request of another dialect at
// a provider of the Messages format. Requests of this dialect go as they came.
var classes = map[infer.Feature]infer.Class{
	infer.FeatureDeveloperRole:    infer.Transformed, // part of the system prompt
	infer.FeatureSystemMidway:     infer.Emulated,    // a marked user turn in its place
	infer.FeatureMessageName:      infer.Dropped,
	infer.FeatureImageData:        infer.Carried,
	infer.FeatureImageURL:         infer.Carried,
	infer.FeatureImageDetail:      infer.Dropped,
	infer.FeatureAudio:            infer.Dropped,
	infer.FeatureVideo:            infer.Dropped,
	infer.FeatureFile:             infer.Transformed, // a document block; PDF and text
	infer.FeatureFileURL:          infer.Transformed, // a document block; PDF
	infer.FeatureFileStored:       infer.Dropped,
	infer.FeatureCitations:        infer.Dropped,
	infer.FeatureRefusalPart:      infer.Emulated, // text of the assistant's turn
	infer.FeatureToolResultError:  infer.Carried,
	infer.FeatureToolResultMedia:  infer.Carried,
	infer.FeatureThought:          infer.Dropped, // thinking is taken back only with this provider's signature
	infer.FeatureThoughtSealed:    infer.Dropped,
	infer.FeatureThoughtSummary:   infer.Dropped,
	infer.FeatureThoughtSignature: infer.Emulated, // as it came, unless it is marked as another maker's
	infer.FeatureCacheBreakpoint:  infer.Carried,
	infer.FeaturePrefill:          infer.Carried,

	infer.FeatureTools:              infer.Carried,
	infer.FeatureToolStrict:         infer.Carried,
	infer.FeatureToolRequired:       infer.Carried,
	infer.FeatureToolNamed:          infer.Carried,
	infer.FeatureToolNone:           infer.Carried,
	infer.FeatureToolAllowed:        infer.Emulated, // the other tools are not shown
	infer.FeatureToolSerial:         infer.Carried,
	infer.FeatureToolHosted:         infer.Dropped,
	infer.FeatureToolHostedOptional: infer.Dropped,
	infer.FeatureToolCustom:         infer.Emulated, // a function with one string
	infer.FeatureToolCallHosted:     infer.Dropped,

	infer.FeatureMaxTokens:         infer.Carried,
	infer.FeatureMinTokens:         infer.Dropped,
	infer.FeatureTemperature:       infer.Carried, // up to 1; beyond is refused
	infer.FeatureTopP:              infer.Carried,
	infer.FeatureTopK:              infer.Carried,
	infer.FeatureMinP:              infer.Dropped,
	infer.FeatureFrequencyPenalty:  infer.Dropped,
	infer.FeaturePresencePenalty:   infer.Dropped,
	infer.FeatureRepetitionPenalty: infer.Dropped,
	infer.FeatureLogitBias:         infer.Dropped,
	infer.FeatureSeed:              infer.Dropped,
	infer.FeatureChoices:           infer.Dropped,
	infer.FeatureStop:              infer.Carried,
	infer.FeatureStopTokens:        infer.Dropped,
	infer.FeatureIgnoreEOS:         infer.Dropped,
	infer.FeatureIncludeStop:       infer.Dropped,
	infer.FeatureLogprobs:          infer.Dropped,
	infer.FeaturePromptLogprobs:    infer.Dropped,
	infer.FeatureTokenIDs:          infer.Dropped,
	infer.FeatureTokenPrompt:       infer.Dropped,
	infer.FeatureEcho:              infer.Dropped,
	infer.FeatureSuffix:            infer.Dropped,
	infer.FeatureManyPrompts:       infer.Dropped,
	infer.FeatureSampler:           infer.Dropped,

	infer.FeatureJSONObject: infer.Emulated, // asked for in words
	infer.FeatureJSONSchema: infer.Carried,
	infer.FeatureRegex:      infer.Dropped,
	infer.FeatureGrammar:    infer.Dropped,
	infer.FeatureChoice:     infer.Dropped,
	infer.FeatureVerbosity:  infer.Dropped,
	infer.FeatureModalities: infer.Dropped,

	infer.FeatureReasoningEffort:    infer.Transformed, // output_config.effort, or a budget
	infer.FeatureReasoningBudget:    infer.Carried,
	infer.FeatureReasoningSwitch:    infer.Carried,
	infer.FeatureReasoningSummary:   infer.Transformed, // thinking.display
	infer.FeatureReasoningEncrypted: infer.Transformed, // as signatures, which come unasked

	infer.FeatureTemplateArgs:  infer.Dropped,
	infer.FeatureTurnUnopened:  infer.Dropped,
	infer.FeatureState:         infer.Dropped,
	infer.FeatureBackground:    infer.Dropped,
	infer.FeatureTruncation:    infer.Dropped,
	infer.FeatureContextEdits:  infer.Dropped,
	infer.FeatureSafety:        infer.Dropped,
	infer.FeatureServiceTier:   infer.Emulated, // there are two here
	infer.FeatureCachedContent: infer.Dropped,
	infer.FeaturePriority:      infer.Dropped,
	infer.FeatureCacheSalt:     infer.Dropped,
	infer.FeatureDimensions:    infer.Dropped,

	infer.FeatureUser:           infer.Transformed, // metadata.user_id
	infer.FeatureMetadata:       infer.Dropped,
	infer.FeatureCacheKey:       infer.Dropped,
	infer.FeaturePrediction:     infer.Dropped,
	infer.FeatureKeepAlive:      infer.Dropped,
	infer.FeatureStore:          infer.Dropped,
	infer.FeatureBeta:           infer.Dropped,
	infer.FeatureObfuscation:    infer.Dropped,
	infer.FeatureToolAnnotation: infer.Dropped,
}

// Class implements wire.Client.
func (Client) Class(f infer.Feature) infer.Class {
	if c, ok := classes[f]; ok {
		return c
	}
	return infer.Dropped
}
