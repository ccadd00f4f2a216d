package policy

import "slices"

// Provider is a kind of upstream, as far as a configuration depends on it.
type Provider struct {
	Kind string
	// Dialects that deployments of this kind speak, always or where the
	// configuration asks for it. "openai-" may be left out.
	Dialects []string
	// BaseURL says that base_url must be given: the kind has no address of its
	// own, nor one that follows from a region.
	BaseURL bool
	// Region and Project say that these must be given.
	Region, Project bool
}

// Dialect names, as in infer.Wire.
const (
	dialectChat           = "openai-chat"
	dialectCompletions    = "openai-completions"
	dialectResponses      = "openai-responses"
	dialectEmbeddings     = "openai-embeddings"
	dialectAnthropic      = "anthropic"
	dialectGemini         = "gemini"
	dialectOllama         = "ollama-chat"
	dialectOllamaGenerate = "ollama-generate"
	dialectConverse       = "bedrock-converse"
)

var openAIDialects = []string{dialectChat, dialectCompletions, dialectEmbeddings, dialectResponses}

// Providers lists every kind.
var Providers = []Provider{
	{Kind: "openai", Dialects: openAIDialects},
	{Kind: "openai-compatible", Dialects: openAIDialects, BaseURL: true},
	{Kind: "vllm", Dialects: openAIDialects, BaseURL: true},
	{Kind: "sglang", Dialects: openAIDialects, BaseURL: true},
	{Kind: "tgi", Dialects: []string{dialectChat, dialectCompletions}, BaseURL: true},
	{Kind: "tensorrt-llm", Dialects: openAIDialects, BaseURL: true},
	{Kind: "llamacpp", Dialects: openAIDialects, BaseURL: true},
	{Kind: "ollama", Dialects: []string{dialectOllama, dialectOllamaGenerate, dialectChat, dialectCompletions, dialectEmbeddings}},
	{Kind: "openrouter", Dialects: openAIDialects},
	{Kind: "litellm", Dialects: openAIDialects, BaseURL: true},
	{Kind: "azure", Dialects: openAIDialects, BaseURL: true},
	{Kind: "anthropic", Dialects: []string{dialectAnthropic}},
	{Kind: "gemini", Dialects: []string{dialectGemini}},
	{Kind: "vertex", Dialects: []string{dialectGemini, dialectAnthropic, dialectChat}, Region: true, Project: true},
	{Kind: "bedrock", Dialects: []string{dialectConverse}, Region: true},
	{Kind: "hearth", Dialects: []string{dialectChat, dialectResponses, dialectCompletions, dialectEmbeddings, dialectAnthropic, dialectGemini, dialectOllama,
		dialectOllamaGenerate}, BaseURL: true},
}

// ProviderOf finds a kind by its name; nil if there is none.
func ProviderOf(kind string) *Provider {
	i := slices.IndexFunc(Providers, func(p Provider) bool { return p.Kind == kind })
	if i < 0 {
		return nil
	}
	return &Providers[i]
}

func kindNames() []string {
	names := make([]string, len(Providers))
	for i := range Providers {
		names[i] = Providers[i].Kind
	}
	return names
}
