package upstream

import (
	"strings"

	"hearth/engine/infer"
	"hearth/web/anthropic"
	"hearth/web/bedrock"
	"hearth/web/gemini"
	"hearth/web/ollama"
	"hearth/web/openai"
	"hearth/web/responses"
	"hearth/web/wire"
)

// newClient makes the client of a dialect for a kind of provider; nil where
// there is none.
func newClient(dialect, kind string) wire.Client {
	switch dialect {
	case dialectChat:
		return openai.NewChatClient(kind)
	case dialectResponses:
		return responses.Client{}
	case dialectCompletions:
		return openai.NewCompletionsClient(kind)
	case dialectEmbeddings:
		return openai.NewEmbeddingsClient(kind)
	case dialectAnthropic:
		return anthropic.Client{}
	case dialectGemini:
		return gemini.Client{}
	case dialectOllamaChat:
		return ollama.ChatClient{}
	case dialectOllamaGenerate:
		return ollama.GenerateClient{}
	case dialectConverse:
		return bedrock.Client{}
	}
	return nil
}

// native says that w can be sent by c as it came.
func native(c wire.Client, w *infer.Wire) bool { return w != nil && w.Dialect == c.Dialect() }

// client is the one that speaks the request's own dialect, if this provider
// does; else the preferred one for its kind.
func (u *Upstream) client(r *infer.Request, model string) (wire.Client, error) {
	if r.Wire != nil {
		for _, c := range u.clients {
			if c.Dialect() == r.Wire.Dialect {
				return c, nil
			}
		}
	}
	if u.profile.kind == "vertex" {
		return u.vertexClient(model, r)
	}
	for _, c := range u.clients {
		if serves(c.Dialect(), r.Kind) {
			return c, nil
		}
	}
	if r.Kind == infer.Completion {
		return nil, infer.Unsupported("model", "the provider of this model continues no plain prompts; ask for a chat")
	}
	return nil, infer.Unsupported("model", "the provider of this model holds no chats")
}

// serves says whether a dialect can carry a kind of request.
func serves(dialect string, k infer.Kind) bool {
	switch dialect {
	case dialectCompletions, dialectOllamaGenerate:
		return k == infer.Completion
	case dialectEmbeddings:
		return false
	}
	return k == infer.Chat
}

// embedClient finds the client for embeddings, in the request's own dialect
// where it can.
func (u *Upstream) embedClient(r *infer.EmbedRequest) (wire.Client, wire.EmbedClient) {
	var client wire.Client
	var embed wire.EmbedClient
	for _, c := range u.clients {
		e, ok := c.(wire.EmbedClient)
		if !ok {
			continue
		}
		own := native(c, r.Wire)
		if client == nil || own || strings.HasSuffix(c.Dialect(), "-embeddings") && !native(client, r.Wire) {
			client, embed = c, e
		}
	}
	return client, embed
}
