package bedrock

import "hearth/engine/infer"

// classes says what becomes of each feature at Converse. What only some models
// have goes into additionalModelRequestFields under the name that their maker
// gives it; a model without it refuses it aloud.
var classes = map[infer.Feature]infer.Class{
	infer.FeatureDeveloperRole:    infer.Transformed, // part of the system prompt
	infer.FeatureSystemMidway:     infer.Emulated,    // a marked user turn in its place
	infer.FeatureMessageName:      infer.Dropped,
	infer.FeatureImageData:        infer.Carried,
	infer.FeatureImageURL:         infer.Dropped, // Converse takes bytes or S3 objects
	infer.FeatureImageDetail:      infer.Dropped,
	infer.FeatureAudio:            infer.Dropped,
	infer.FeatureVideo:            infer.Dropped,
	infer.FeatureFile:             infer.Transformed, // a document block; its name is made to fit
	infer.FeatureFileURL:          infer.Dropped,
	infer.FeatureFileStored:       infer.Dropped,
	infer.FeatureCitations:        infer.Dropped,
	infer.FeatureRefusalPart:      infer.Emulated, // text of the assistant's turn
	infer.FeatureToolResultError:  infer.Carried,
	infer.FeatureToolResultMedia:  infer.Carried,
	infer.FeatureThought:          infer.Dropped, // models take reasoning back with its signature only
	infer.FeatureThoughtSealed:    infer.Dropped,
	infer.FeatureThoughtSummary:   infer.Dropped,
	infer.FeatureThoughtSignature: infer.Emulated, // as it came, unless it is marked as another maker's
	infer.FeatureCacheBreakpoint:  infer.Carried,
	infer.FeaturePrefill:          infer.Carried,

	infer.FeatureTools:              infer.Carried,
	infer.FeatureToolStrict:         infer.Carried,
	infer.FeatureToolRequired:       infer.Carried,
	infer.FeatureToolNamed:          infer.Carried,
	infer.FeatureToolNone:           infer.Emulated, // no tools, or, with earlier calls, a word in the system prompt
	infer.FeatureToolAllowed:        infer.Emulated, // the other tools are not shown
	infer.FeatureToolSerial:         infer.Emulated, // a word in the system prompt
	infer.FeatureToolHosted:         infer.Dropped,
	infer.FeatureToolHostedOptional: infer.Dropped,
	infer.FeatureToolCustom:         infer.Emulated, // a function with one string
	infer.FeatureToolCallHosted:     infer.Dropped,

	infer.FeatureMaxTokens:         infer.Carried,
	infer.FeatureMinTokens:         infer.Dropped,
	infer.FeatureTemperature:       infer.Carried, // up to 1; beyond is refused
	infer.FeatureTopP:              infer.Carried,
	infer.FeatureTopK:              infer.Transformed, // a field of the model's own
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
	infer.FeatureJSONSchema: infer.Carried,  // outputConfig.textFormat
	infer.FeatureRegex:      infer.Dropped,
	infer.FeatureGrammar:    infer.Dropped,
	infer.FeatureChoice:     infer.Dropped,
	infer.FeatureVerbosity:  infer.Dropped,
	infer.FeatureModalities: infer.Dropped,

	infer.FeatureReasoningEffort:    infer.Transformed, // a field of the model's own
	infer.FeatureReasoningBudget:    infer.Transformed,
	infer.FeatureReasoningSwitch:    infer.Transformed,
	infer.FeatureReasoningSummary:   infer.Dropped,
	infer.FeatureReasoningEncrypted: infer.Dropped,

	infer.FeatureTemplateArgs:  infer.Dropped,
	infer.FeatureTurnUnopened:  infer.Dropped,
	infer.FeatureState:         infer.Dropped,
	infer.FeatureBackground:    infer.Dropped,
	infer.FeatureTruncation:    infer.Dropped,
	infer.FeatureContextEdits:  infer.Dropped,
	infer.FeatureSafety:        infer.Dropped,
	infer.FeatureServiceTier:   infer.Emulated, // the tiers here are not the other providers'
	infer.FeatureCachedContent: infer.Dropped,
	infer.FeaturePriority:      infer.Dropped,
	infer.FeatureCacheSalt:     infer.Dropped,
	infer.FeatureDimensions:    infer.Dropped,

	infer.FeatureUser:           infer.Dropped,
	infer.FeatureMetadata:       infer.Dropped,
	infer.FeatureCacheKey:       infer.Dropped,
	infer.FeaturePrediction:     infer.Dropped,
	infer.FeatureKeepAlive:      infer.Dropped,
	infer.FeatureStore:          infer.Dropped,
	infer.FeatureBeta:           infer.Dropped,
	infer.FeatureObfuscation:    infer.Dropped,
	infer.FeatureToolAnnotation: infer.Dropped,
}
