package gemini

import "hearth/engine/infer"

// classes says what becomes of each feature of another dialect at Gemini. What a
// request of this dialect asks for arrives as it is.
var classes = map[infer.Feature]infer.Class{
	infer.FeatureDeveloperRole:    infer.Transformed, // part of the instruction
	infer.FeatureSystemMidway:     infer.Emulated,    // a tagged turn of the user, in its place
	infer.FeatureMessageName:      infer.Dropped,
	infer.FeatureImageData:        infer.Carried,
	infer.FeatureImageURL:         infer.Transformed, // fileData
	infer.FeatureImageDetail:      infer.Dropped,
	infer.FeatureAudio:            infer.Carried,
	infer.FeatureVideo:            infer.Carried,
	infer.FeatureFile:             infer.Carried,
	infer.FeatureFileURL:          infer.Transformed, // fileData
	infer.FeatureFileStored:       infer.Carried,
	infer.FeatureCitations:        infer.Dropped,
	infer.FeatureRefusalPart:      infer.Transformed, // text
	infer.FeatureToolResultError:  infer.Transformed, // a result with the key error
	infer.FeatureToolResultMedia:  infer.Transformed, // parts behind the result
	infer.FeatureThought:          infer.Carried,
	infer.FeatureThoughtSealed:    infer.Dropped,
	infer.FeatureThoughtSummary:   infer.Transformed, // thoughts of its turn
	infer.FeatureThoughtSignature: infer.Emulated,    // Gemini's own are carried, others' left out
	infer.FeatureCacheBreakpoint:  infer.Dropped,
	infer.FeaturePrefill:          infer.Emulated, // a last turn of the model

	infer.FeatureTools:              infer.Carried,
	infer.FeatureToolStrict:         infer.Transformed, // mode VALIDATED
	infer.FeatureToolRequired:       infer.Transformed, // mode ANY
	infer.FeatureToolNamed:          infer.Transformed,
	infer.FeatureToolNone:           infer.Transformed,
	infer.FeatureToolAllowed:        infer.Transformed,
	infer.FeatureToolSerial:         infer.Dropped,
	infer.FeatureToolHosted:         infer.Dropped,
	infer.FeatureToolHostedOptional: infer.Dropped,
	infer.FeatureToolCustom:         infer.Emulated, // a function with one string
	infer.FeatureToolCallHosted:     infer.Dropped,

	infer.FeatureMaxTokens:         infer.Carried,
	infer.FeatureMinTokens:         infer.Dropped,
	infer.FeatureTemperature:       infer.Carried,
	infer.FeatureTopP:              infer.Carried,
	infer.FeatureTopK:              infer.Carried,
	infer.FeatureMinP:              infer.Dropped,
	infer.FeatureFrequencyPenalty:  infer.Carried,
	infer.FeaturePresencePenalty:   infer.Carried,
	infer.FeatureRepetitionPenalty: infer.Dropped,
	infer.FeatureLogitBias:         infer.Dropped,
	infer.FeatureSeed:              infer.Carried,
	infer.FeatureChoices:           infer.Carried,
	infer.FeatureStop:              infer.Carried,
	infer.FeatureStopTokens:        infer.Dropped,
	infer.FeatureIgnoreEOS:         infer.Dropped,
	infer.FeatureIncludeStop:       infer.Dropped,
	infer.FeatureLogprobs:          infer.Carried,
	infer.FeaturePromptLogprobs:    infer.Dropped,
	infer.FeatureTokenIDs:          infer.Dropped,
	infer.FeatureTokenPrompt:       infer.Dropped,
	infer.FeatureEcho:              infer.Dropped,
	infer.FeatureSuffix:            infer.Dropped,
	infer.FeatureManyPrompts:       infer.Dropped,
	infer.FeatureSampler:           infer.Dropped,

	infer.FeatureJSONObject: infer.Transformed, // responseMimeType
	infer.FeatureJSONSchema: infer.Transformed, // responseJsonSchema
	infer.FeatureRegex:      infer.Dropped,
	infer.FeatureGrammar:    infer.Dropped,
	infer.FeatureChoice:     infer.Transformed, // text/x.enum
	infer.FeatureVerbosity:  infer.Dropped,
	infer.FeatureModalities: infer.Dropped,

	infer.FeatureReasoningEffort:    infer.Transformed, // thinkingLevel, or a budget for models before 3
	infer.FeatureReasoningBudget:    infer.Transformed,
	infer.FeatureReasoningSwitch:    infer.Transformed,
	infer.FeatureReasoningSummary:   infer.Transformed, // includeThoughts
	infer.FeatureReasoningEncrypted: infer.Dropped,

	infer.FeatureTemplateArgs:  infer.Dropped,
	infer.FeatureTurnUnopened:  infer.Dropped,
	infer.FeatureState:         infer.Dropped, // what the appliance keeps is in the turns
	infer.FeatureBackground:    infer.Dropped,
	infer.FeatureTruncation:    infer.Dropped,
	infer.FeatureContextEdits:  infer.Dropped,
	infer.FeatureSafety:        infer.Dropped,
	infer.FeatureServiceTier:   infer.Dropped,
	infer.FeatureCachedContent: infer.Dropped,
	infer.FeaturePriority:      infer.Dropped,
	infer.FeatureCacheSalt:     infer.Dropped,
	infer.FeatureDimensions:    infer.Carried,

	infer.FeatureUser:           infer.Dropped,
	infer.FeatureMetadata:       infer.Dropped,
	infer.FeatureCacheKey:       infer.Dropped,
	infer.FeaturePrediction:     infer.Dropped,
	infer.FeatureKeepAlive:      infer.Dropped,
	infer.FeatureStore:          infer.Dropped,
	infer.FeatureBeta:           infer.Dropped,
	infer.FeatureObfuscation:    infer.Transformed, // done where the stream is written
	infer.FeatureToolAnnotation: infer.Dropped,
}

// Class implements wire.Client.
func (Client) Class(f infer.Feature) infer.Class {
	if c, ok := classes[f]; ok {
		return c
	}
	return infer.Dropped
}
