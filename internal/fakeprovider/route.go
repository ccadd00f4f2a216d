package fakeprovider

import (
	"encoding/json"
	"net/url"
	"strings"
)

// The dialects that the server speaks; the names are those of infer.Wire, where
// it has one.
const (
	Chat            = "openai-chat"
	Completions     = "openai-completions"
	Responses       = "openai-responses"
	Embeddings      = "openai-embeddings"
	Anthropic       = "anthropic"
	Gemini          = "gemini"
	OllamaChat      = "ollama-chat"
	OllamaGenerate  = "ollama-generate"
	OllamaEmbed     = "ollama-embed"
	Bedrock         = "bedrock-converse"
	AnthropicCount  = "anthropic-count"
	GeminiCount     = "gemini-count"
	GeminiEmbed     = "gemini-embed"
	ResponsesCount  = "openai-responses-count"
	Token           = "token" // an exchange of credentials
	Listing         = "listing"
	Unknown         = "unknown"
	listingBody     = `{"object":"list","data":[{"id":"fake","object":"model","created":1700000000,"owned_by":"fake"}],"models":[{"name":"fake"}]}`
	tokenBody       = `{"access_token":"fake-access-token","token_type":"Bearer","expires_in":3600,"issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`
	anthropicOnGoog = "/publishers/anthropic/models/"
)

// detect finds dialect, model and streaming of a request.
func detect(path string, query url.Values, body []byte) (dialect, model string, stream bool) {
	var b struct {
		Model  string `json:"model"`
		Stream *bool  `json:"stream"`
	}
	json.Unmarshal(body, &b) // whatever it holds: what is not there stays empty
	model, stream = b.Model, b.Stream != nil && *b.Stream
	if _, rest, ok := strings.Cut(path, "/openai/deployments/"); ok { // Azure
		model, _, _ = strings.Cut(rest, "/")
	}
	if at := strings.LastIndex(path, "/models/"); at >= 0 && strings.Contains(path[at:], ":") {
		name, verb, _ := strings.Cut(path[at+len("/models/"):], ":")
		model, _ = url.PathUnescape(name)
		switch verb {
		case "generateContent":
			return Gemini, model, false
		case "streamGenerateContent":
			return Gemini, model, true
		case "countTokens":
			return GeminiCount, model, false
		case "embedContent", "batchEmbedContents":
			return GeminiEmbed, model, false
		case "rawPredict":
			return Anthropic, model, false
		case "streamRawPredict":
			return Anthropic, model, true
		}
	}
	if _, rest, ok := strings.Cut(path, "/model/"); ok {
		name, verb, _ := strings.Cut(rest, "/")
		if i := strings.LastIndexByte(rest, '/'); i >= 0 { // an ARN may have slashes
			name, verb = rest[:i], rest[i+1:]
		}
		model, _ = url.PathUnescape(name)
		switch verb {
		case "converse":
			return Bedrock, model, false
		case "converse-stream":
			return Bedrock, model, true
		case "invoke":
			return Anthropic, model, false
		case "invoke-with-response-stream":
			return Anthropic, model, true
		}
	}
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat, model, stream
	case strings.HasSuffix(path, "/completions"):
		return Completions, model, stream
	case strings.HasSuffix(path, "/responses"):
		return Responses, model, stream
	case strings.HasSuffix(path, "/responses/input_tokens"):
		return ResponsesCount, model, false
	case strings.HasSuffix(path, "/embeddings"):
		return Embeddings, model, false
	case strings.HasSuffix(path, "/messages/count_tokens"):
		return AnthropicCount, model, false
	case strings.HasSuffix(path, "/messages"):
		return Anthropic, model, stream
	case strings.HasSuffix(path, "/api/chat"):
		return OllamaChat, model, b.Stream == nil || stream
	case strings.HasSuffix(path, "/api/generate"):
		return OllamaGenerate, model, b.Stream == nil || stream
	case strings.HasSuffix(path, "/api/embed"):
		return OllamaEmbed, model, false
	case strings.HasSuffix(path, "/token"):
		return Token, "", false
	case strings.HasSuffix(path, "/models"), strings.HasSuffix(path, "/api/tags"), strings.HasSuffix(path, "/health"), path == "/":
		return Listing, "", false
	}
	return Unknown, model, false
}
