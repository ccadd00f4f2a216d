package ollama

import "hearth/engine/infer"

// classes says what becomes of each feature of another dialect at Ollama's chat.
// Generate has the same for what a plain prompt can ask for.
var classes = map[infer.Feature]infer.Class{
	infer.FeatureDeveloperRole:    infer.Transformed, // a system turn
	infer.FeatureSystemMidway:     infer.Carried,
	infer.FeatureMessageName:      infer.Dropped,
	infer.FeatureImageData:        infer.Carried,
	infer.FeatureImageURL:         infer.Dropped, // Ollama fetches nothing
	infer.FeatureImageDetail:      infer.Dropped,
	infer.FeatureAudio:            infer.Dropped,
	infer.FeatureVideo:            infer.Dropped,
	infer.FeatureFile:             infer.Dropped,
	infer.FeatureFileURL:          infer.Dropped, // Ollama fetches nothing
	infer.FeatureFileStored:       infer.Dropped,
	infer.FeatureCitations:        infer.Dropped,
	infer.FeatureRefusalPart:      infer.Transformed, // text
	infer.FeatureToolResultError:  infer.Emulated,    // said in the result's text
	infer.FeatureToolResultMedia:  infer.Emulated,    // images of the result's turn
	infer.FeatureThought:          infer.Carried,
	infer.FeatureThoughtSealed:    infer.Dropped,
	infer.FeatureThoughtSummary:   infer.Transformed, // thoughts of its turn
	infer.FeatureThoughtSignature: infer.Dropped,
	infer.FeatureCacheBreakpoint:  infer.Dropped,
	infer.FeaturePrefill:          infer.Transformed, // a last turn of the assistant is always continued

	infer.FeatureTools:              infer.Carried,
	infer.FeatureToolStrict:         infer.Dropped,
	infer.FeatureToolRequired:       infer.Dropped,
	infer.FeatureToolNamed:          infer.Dropped,
	infer.FeatureToolNone:           infer.Transformed, // the tools are left out
	infer.FeatureToolAllowed:        infer.Transformed, // the other tools are left out
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
	infer.FeatureMinP:              infer.Carried,
	infer.FeatureFrequencyPenalty:  infer.Carried,
	infer.FeaturePresencePenalty:   infer.Carried,
	infer.FeatureRepetitionPenalty: infer.Carried,
	infer.FeatureLogitBias:         infer.Dropped,
	infer.FeatureSeed:              infer.Carried,
	infer.FeatureChoices:           infer.Dropped,
	infer.FeatureStop:              infer.Carried,
	infer.FeatureStopTokens:        infer.Dropped,
	infer.FeatureIgnoreEOS:         infer.Dropped,
	infer.FeatureIncludeStop:       infer.Dropped,
	infer.FeatureLogprobs:          infer.Carried,
	infer.FeaturePromptLogprobs:    infer.Dropped,
	infer.FeatureTokenIDs:          infer.Dropped,
	infer.FeatureTokenPrompt:       infer.Dropped,
	infer.FeatureEcho:              infer.Dropped,
	infer.FeatureSuffix:            infer.Carried,
	infer.FeatureManyPrompts:       infer.Dropped,
	infer.FeatureSampler:           infer.Dropped,

	infer.FeatureJSONObject: infer.Carried,
	infer.FeatureJSONSchema: infer.Carried,
	infer.FeatureRegex:      infer.Dropped,
	infer.FeatureGrammar:    infer.Dropped,
	infer.FeatureChoice:     infer.Dropped,
	infer.FeatureVerbosity:  infer.Dropped,
	infer.FeatureModalities: infer.Dropped,

	infer.FeatureReasoningEffort:    infer.Transformed, // think: low, medium, high, max
	infer.FeatureReasoningBudget:    infer.Emulated,    // think: true
	infer.FeatureReasoningSwitch:    infer.Transformed,
	infer.FeatureReasoningSummary:   infer.Dropped, // all of it is shown
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
	infer.FeatureKeepAlive:      infer.Carried,
	infer.FeatureStore:          infer.Dropped,
	infer.FeatureBeta:           infer.Dropped,
	infer.FeatureObfuscation:    infer.Transformed, // done where the stream is written
	infer.FeatureToolAnnotation: infer.Dropped,
}

func classOf(f infer.Feature) infer.Class {
	if c, ok := classes[f]; ok {
		return c
	}
	return infer.Dropped
}

// Class implements wire.Client.
func (ChatClient) Class(f infer.Feature) infer.Class { return classOf(f) }

// Class implements wire.Client.
func (GenerateClient) Class(f infer.Feature) infer.Class { return classOf(f) }
