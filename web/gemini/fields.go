package gemini

import (
	"strings"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// The smallest bodies with room for one part, tool and so on in place of the mark.
const (
	mark     = "▮"
	turn1    = `"contents":[{"parts":[{"text":"a"}]}]`
	inWhole  = `{` + turn1 + `,` + mark + `}`
	inPart   = `{"contents":[{"parts":[{"text":"a"},` + mark + `]}]}`
	inModel  = `{"contents":[{"parts":[{"text":"a"}]},{"role":"model","parts":[` + mark + `]},{"parts":[{"text":"b"}]}]}`
	inResult = `{"contents":[{"parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"name":"f",` + mark + `}}]}]}`
	inConfig = `{` + turn1 + `,"generationConfig":{` + mark + `}}`
	inTools  = `{` + turn1 + `,"tools":[{"functionDeclarations":[{"name":"f",` + mark + `}]}]}`
	inChoice = `{` + turn1 + `,"tools":[{"functionDeclarations":[{"name":"f"},{"name":"g"},{"name":"h"}]}],"toolConfig":{"functionCallingConfig":{` + mark + `}}}`
)

const (
	onePixel = `"iVBORw0KGgo="`
	schema   = `{"type":"OBJECT","properties":{"a":{"type":"STRING"}}}`
)

// row writes one row of the table: piece stands in place of the mark of in.
func row(path string, f infer.Feature, example, in, piece, note string) wire.Field {
	return wire.Field{Path: path, Feature: f, Example: example, Base: strings.Replace(in, mark, piece, 1), Note: note}
}

// Fields lists every field of a GenerateContentRequest with the feature that it
// uses. Names may be written in snake_case too.
func Fields() []wire.Field {
	var all []wire.Field
	for _, part := range [][]wire.Field{topFields(), partFields(), toolFields(), configFields(), thinkingFields()} {
		all = append(all, part...)
	}
	return all
}

func topFields() []wire.Field {
	top := func(path string, f infer.Feature, example, note string) wire.Field {
		return row(path, f, example, inWhole, `"`+path+`":`+example, note)
	}
	return []wire.Field{
		{Path: "contents", Example: `[{"parts":[{"text":"a"}]}]`, Base: `{` + turn1 + `}`, Note: "roles user and model"},
		top("systemInstruction", "", `{"parts":[{"text":"Be brief."}]}`, ""),
		top("cachedContent", infer.FeatureCachedContent, `"cachedContents/c1"`, ""),
		row("safetySettings[]", infer.FeatureSafety, `{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_LOW_AND_ABOVE"}`, inWhole,
			`"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_LOW_AND_ABOVE"}]`, "a threshold that blocks"),
		row("safetySettings[]", infer.FeatureBeta, `{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}`, inWhole,
			`"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}]`, "thresholds BLOCK_NONE and OFF ask for no filter"),
		top("labels", infer.FeatureMetadata, `{"team":"a"}`, ""),
		top("serviceTier", infer.FeatureServiceTier, `"flex"`, "standard is the default"),
		top("store", infer.FeatureStore, `true`, "false is the default"),
		top("modelArmorConfig", infer.FeatureSafety, `{"promptTemplateName":"t"}`, "Vertex AI"),
		top("continuationToken", infer.FeatureUnknown, `"YQ=="`, ""),
	}
}

func partFields() []wire.Field {
	const at = "contents[].parts[]."
	return []wire.Field{
		row(at+"text", "", `"b"`, inPart, `{"text":"b"}`, ""),
		row(at+"inlineData", infer.FeatureImageData, `{"mimeType":"image/png","data":`+onePixel+`}`, inPart, `{"inlineData":{"mimeType":"image/png","data":`+onePixel+`}}`, "of type image/*"),
		row(at+"inlineData", infer.FeatureAudio, `{"mimeType":"audio/wav","data":"UklGRg=="}`, inPart, `{"inlineData":{"mimeType":"audio/wav","data":"UklGRg=="}}`, "of type audio/*"),
		row(at+"inlineData", infer.FeatureVideo, `{"mimeType":"video/mp4","data":"AAAA"}`, inPart, `{"inlineData":{"mimeType":"video/mp4","data":"AAAA"}}`, "of type video/*"),
		row(at+"inlineData", infer.FeatureFile, `{"mimeType":"application/pdf","data":"JVBERg=="}`, inPart, `{"inlineData":{"mimeType":"application/pdf","data":"JVBERg=="}}`, "of another type"),
		row(at+"fileData", infer.FeatureImageURL, `{"mimeType":"image/png","fileUri":"https://example.org/a.png"}`, inPart, `{"fileData":{"mimeType":"image/png","fileUri":"https://example.org/a.png"}}`, "of type image/*, anywhere"),
		row(at+"fileData", infer.FeatureFileURL, `{"mimeType":"application/pdf","fileUri":"https://example.org/a.pdf"}`, inPart, `{"fileData":{"mimeType":"application/pdf","fileUri":"https://example.org/a.pdf"}}`, "a document, anywhere"),
		row(at+"fileData", infer.FeatureFileStored, `{"mimeType":"image/png","fileUri":"gs://b/a.png"}`, inPart, `{"fileData":{"mimeType":"image/png","fileUri":"gs://b/a.png"}}`, "kept at Google, of any type; sound and film by its address too"),
		row(at+"videoMetadata", infer.FeatureUnknown, `{"fps":1}`, inPart, `{"text":"b","videoMetadata":{"fps":1}}`, ""),
		row(at+"mediaResolution", infer.FeatureImageDetail, `{"level":"MEDIA_RESOLUTION_HIGH"}`, inPart, `{"inlineData":{"mimeType":"image/png","data":`+onePixel+`},"mediaResolution":{"level":"MEDIA_RESOLUTION_HIGH"}}`, ""),
		row(at+"partMetadata", infer.FeatureBeta, `{"a":1}`, inPart, `{"text":"b","partMetadata":{"a":1}}`, ""),
		row(at+"text", infer.FeatureThought, `"hm"`, inModel, `{"text":"hm","thought":true},{"text":"b"}`, "beside thought: true"),
		row(at+"thoughtSignature", infer.FeatureThoughtSignature, `"YQ=="`, inModel, `{"text":"b","thoughtSignature":"YQ=="}`, ""),
		row(at+"functionCall", "", `{"name":"f","args":{}}`, inModel, `{"functionCall":{"name":"f","args":{}}}`, ""),
		row(at+"functionResponse.response", "", `{"result":"b"}`, inResult, `"response":{"result":"b"}`, ""),
		row(at+"functionResponse.response", infer.FeatureToolResultError, `{"error":"b"}`, inResult, `"response":{"error":"b"}`, "with the key error"),
		row(at+"functionResponse.parts", infer.FeatureToolResultMedia, `[{"inlineData":{"mimeType":"image/png","data":`+onePixel+`}}]`, inResult, `"response":{},"parts":[{"inlineData":{"mimeType":"image/png","data":`+onePixel+`}}]`, ""),
		row(at+"functionResponse.willContinue", infer.FeatureUnknown, `true`, inResult, `"response":{},"willContinue":true`, ""),
		row(at+"functionResponse.scheduling", infer.FeatureUnknown, `"SILENT"`, inResult, `"response":{},"scheduling":"SILENT"`, ""),
		row(at+"executableCode", infer.FeatureToolCallHosted, `{"language":"PYTHON","code":"1"}`, inModel, `{"executableCode":{"language":"PYTHON","code":"1"}}`, ""),
		row(at+"codeExecutionResult", infer.FeatureToolCallHosted, `{"outcome":"OUTCOME_OK","output":"1"}`, inModel, `{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}`, ""),
		row(at+"toolCall", infer.FeatureToolCallHosted, `{"id":"a"}`, inModel, `{"toolCall":{"id":"a"}}`, ""),
		row(at+"toolResponse", infer.FeatureToolCallHosted, `{"id":"a"}`, inModel, `{"toolResponse":{"id":"a"}}`, ""),
		row("contents", infer.FeaturePrefill, `[{"parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]}]`, `{"contents":`+mark+`}`, `[{"parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]}]`, "with the model's turn last"),
	}
}

func toolFields() []wire.Field {
	const decl = "tools[].functionDeclarations[]"
	rows := []wire.Field{
		row(decl, infer.FeatureTools, `{"name":"f"}`, inTools, `"description":"d"`, ""),
		row(decl+".parameters", infer.FeatureTools, schema, inTools, `"parameters":`+schema, "a Schema; noted with its function"),
		row(decl+".parametersJsonSchema", infer.FeatureTools, `{"type":"object"}`, inTools, `"parametersJsonSchema":{"type":"object"}`, "noted with its function"),
		row(decl+".response", infer.FeatureToolAnnotation, schema, inTools, `"response":`+schema, ""),
		row(decl+".responseJsonSchema", infer.FeatureToolAnnotation, `{"type":"object"}`, inTools, `"responseJsonSchema":{"type":"object"}`, ""),
		row(decl+".behavior", infer.FeatureUnknown, `"NON_BLOCKING"`, inTools, `"behavior":"NON_BLOCKING"`, "BLOCKING is the default"),
		row("toolConfig.functionCallingConfig.mode", infer.FeatureToolRequired, `"ANY"`, inChoice, `"mode":"ANY"`, ""),
		row("toolConfig.functionCallingConfig.mode", infer.FeatureToolNone, `"NONE"`, inChoice, `"mode":"NONE"`, ""),
		row("toolConfig.functionCallingConfig.mode", infer.FeatureToolStrict, `"VALIDATED"`, inChoice, `"mode":"VALIDATED"`, ""),
		row("toolConfig.functionCallingConfig.allowedFunctionNames", infer.FeatureToolNamed, `["f"]`, inChoice, `"mode":"ANY","allowedFunctionNames":["f"]`, "one, with ANY"),
		row("toolConfig.functionCallingConfig.allowedFunctionNames", infer.FeatureToolAllowed, `["f","g"]`, inChoice, `"mode":"ANY","allowedFunctionNames":["f","g"]`, "several, or with VALIDATED"),
		row("toolConfig.functionCallingConfig.streamFunctionCallArguments", infer.FeatureBeta, `true`, inChoice, `"streamFunctionCallArguments":true`, "Vertex AI"),
		row("toolConfig.retrievalConfig", infer.FeatureToolHosted, `{"languageCode":"en"}`, inWhole, `"toolConfig":{"retrievalConfig":{"languageCode":"en"}}`, ""),
		row("toolConfig.includeServerSideToolInvocations", infer.FeatureToolHosted, `true`, inWhole, `"toolConfig":{"includeServerSideToolInvocations":true}`, ""),
		row("tools[].googleSearch", infer.FeatureToolHostedOptional, `{}`, `{`+turn1+`,"tools":[{"functionDeclarations":[{"name":"f"}]},`+mark+`]}`, `{"googleSearch":{}}`, "beside functions that may be called or left; so with the other hosted tools"),
	}
	for _, name := range []string{"googleSearch", "googleSearchRetrieval", "googleMaps", "codeExecution", "urlContext", "computerUse", "fileSearch",
		"enterpriseWebSearch", "retrieval", "mcpServers", "parallelAiSearch", "exaAiSearch"} {
		rows = append(rows, row("tools[]."+name, infer.FeatureToolHosted, `{}`, inWhole, `"tools":[{"`+name+`":{}}]`, ""))
	}
	return rows
}

func configFields() []wire.Field {
	c := func(name string, f infer.Feature, example, note string) wire.Field {
		return row("generationConfig."+name, f, example, inConfig, `"`+name+`":`+example, note)
	}
	return []wire.Field{
		c("temperature", infer.FeatureTemperature, `0.5`, ""),
		c("topP", infer.FeatureTopP, `0.5`, ""),
		c("topK", infer.FeatureTopK, `40`, ""),
		c("candidateCount", infer.FeatureChoices, `2`, "1 is the default"),
		c("maxOutputTokens", infer.FeatureMaxTokens, `16`, ""),
		c("stopSequences", infer.FeatureStop, `["END"]`, ""),
		c("seed", infer.FeatureSeed, `7`, ""),
		c("presencePenalty", infer.FeaturePresencePenalty, `0.5`, ""),
		c("frequencyPenalty", infer.FeatureFrequencyPenalty, `0.5`, ""),
		c("responseLogprobs", infer.FeatureLogprobs, `true`, ""),
		row("generationConfig.logprobs", infer.FeatureLogprobs, `2`, inConfig, `"responseLogprobs":true,"logprobs":2`, ""),
		c("responseMimeType", infer.FeatureJSONObject, `"application/json"`, "text/plain is the default"),
		row("generationConfig.responseSchema", infer.FeatureJSONSchema, schema, inConfig, `"responseMimeType":"application/json","responseSchema":`+schema, "a Schema"),
		row("generationConfig.responseSchema", infer.FeatureChoice, `{"type":"STRING","enum":["a","b"]}`, inConfig, `"responseMimeType":"text/x.enum","responseSchema":{"type":"STRING","enum":["a","b"]}`, "with text/x.enum"),
		row("generationConfig.responseJsonSchema", infer.FeatureJSONSchema, `{"type":"object"}`, inConfig, `"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}`, ""),
		c("responseModalities", infer.FeatureModalities, `["IMAGE"]`, "TEXT is the default"),
		row("generationConfig.mediaResolution", infer.FeatureImageDetail, `"MEDIA_RESOLUTION_LOW"`, `{"contents":[{"parts":[{"text":"a"},{"inlineData":{"mimeType":"image/png","data":`+onePixel+`}}]}],"generationConfig":{`+mark+`}}`,
			`"mediaResolution":"MEDIA_RESOLUTION_LOW"`, ""),
		c("speechConfig", infer.FeatureModalities, `{"languageCode":"en"}`, ""),
		c("imageConfig", infer.FeatureModalities, `{"aspectRatio":"1:1"}`, ""),
		c("audioTimestamp", infer.FeatureUnknown, `true`, "Vertex AI"),
		c("enableAffectiveDialog", infer.FeatureBeta, `true`, "Vertex AI"),
		c("enableEnhancedCivicAnswers", infer.FeatureBeta, `true`, ""),
		c("routingConfig", infer.FeatureUnknown, `{"autoMode":{}}`, "Vertex AI"),
		c("modelConfig", infer.FeatureUnknown, `{"featureSelectionPreference":"BALANCED"}`, "Vertex AI"),
		c("responseFormat", infer.FeatureUnknown, `[{}]`, ""),
		c("translationConfig", infer.FeatureUnknown, `{}`, ""),
		c("audioTranscriptionConfig", infer.FeatureUnknown, `{}`, ""),
	}
}

func thinkingFields() []wire.Field {
	t := func(name string, f infer.Feature, example, note string) wire.Field {
		return row("generationConfig.thinkingConfig."+name, f, example, inConfig, `"thinkingConfig":{"`+name+`":`+example+`}`, note)
	}
	return []wire.Field{
		t("includeThoughts", infer.FeatureReasoningSummary, `true`, "without it thoughts are left out of the answer"),
		row("generationConfig.thinkingConfig.thinkingBudget", infer.FeatureReasoningBudget, `2048`, inConfig, `"maxOutputTokens":4096,"thinkingConfig":{"thinkingBudget":2048}`, ""),
		t("thinkingBudget", infer.FeatureReasoningSwitch, `0`, "0 is off, -1 as much as the model sees fit"),
		t("thinkingLevel", infer.FeatureReasoningEffort, `"LOW"`, ""),
	}
}

// EmbedFields lists every field of an EmbedContentRequest.
func EmbedFields() []wire.Field {
	body := func(piece string) string { return `{"content":{"parts":[{"text":"a"}]}` + piece + `}` }
	return []wire.Field{
		{Path: "content", Example: `{"parts":[{"text":"a"}]}`, Base: body("")},
		{Path: "outputDimensionality", Feature: infer.FeatureDimensions, Example: `64`, Base: body(`,"outputDimensionality":64`)},
		{Path: "taskType", Feature: infer.FeatureUnknown, Example: `"RETRIEVAL_QUERY"`, Base: body(`,"taskType":"RETRIEVAL_QUERY"`)},
		{Path: "title", Feature: infer.FeatureUnknown, Example: `"t"`, Base: body(`,"title":"t"`)},
	}
}
