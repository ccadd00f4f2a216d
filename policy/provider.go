package policy

import "slices"

// Provider is a kind of upstream, as far as a configuration depends on it.
type Provider struct {
	Kind string
	// Dialects that deployments of this kind speak, the preferred one first.
	Dialects []string
	// BaseURL says that base_url must be given: the kind has no address of its
	// own, nor one that follows from a region.
	BaseURL bool
	// Region and Project say that these must be given, Region unless there is a
	// base_url.
	Region, Project bool
}

// Dialect names, as in infer.Wire.
const (
	dialectChat        = "openai-chat"
	dialectCompletions = "openai-completions"
	dialectResponses   = "openai-responses"
	dialectAnthropic   = "anthropic"
	dialectGemini      = "gemini"
	dialectOllama      = "ollama-chat"
	dialectConverse    = "bedrock-converse"
)

// Providers lists every kind.
var Providers = []Provider{
	{Kind: "openai", Dialects: []string{dialectChat, dialectResponses, dialectCompletions}},
	{Kind: "openai-compatible", Dialects: []string{dialectChat, dialectResponses, dialectCompletions}, BaseURL: true},
	{Kind: "vllm", Dialects: []string{dialectChat, dialectResponses, dialectCompletions}, BaseURL: true},
	{Kind: "sglang", Dialects: []string{dialectChat, dialectCompletions}, BaseURL: true},
	{Kind: "tgi", Dialects: []string{dialectChat, dialectCompletions}, BaseURL: true},
	{Kind: "tensorrt-llm", Dialects: []string{dialectChat, dialectCompletions}, BaseURL: true},
	{Kind: "llamacpp", Dialects: []string{dialectChat, dialectCompletions}, BaseURL: true},
	{Kind: "ollama", Dialects: []string{dialectChat, dialectOllama, dialectCompletions}, BaseURL: true},
	{Kind: "openrouter", Dialects: []string{dialectChat, dialectCompletions}},
	{Kind: "litellm", Dialects: []string{dialectChat, dialectAnthropic, dialectResponses, dialectCompletions}, BaseURL: true},
	{Kind: "azure", Dialects: []string{dialectChat, dialectResponses, dialectCompletions}, BaseURL: true},
	{Kind: "anthropic", Dialects: []string{dialectAnthropic}},
	{Kind: "gemini", Dialects: []string{dialectGemini, dialectChat}},
	{Kind: "vertex", Dialects: []string{dialectGemini, dialectAnthropic, dialectChat}, Region: true, Project: true},
	{Kind: "bedrock", Dialects: []string{dialectConverse, dialectAnthropic}, Region: true},
	{Kind: "hearth", Dialects: []string{dialectChat, dialectAnthropic, dialectResponses, dialectCompletions}, BaseURL: true},
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
