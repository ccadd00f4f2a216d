package ollama

import (
	"encoding/json"
	"net/http"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// ChatClient asks an Ollama server over /api/chat, and /api/embed.
type ChatClient struct{}

// GenerateClient asks an Ollama server over /api/generate: plain prompts, and
// requests that came in that form.
type GenerateClient struct{}

var (
	_ wire.Client      = ChatClient{}
	_ wire.Framer      = ChatClient{}
	_ wire.EmbedClient = ChatClient{}
	_ wire.Client      = GenerateClient{}
	_ wire.Framer      = GenerateClient{}
)

// Dialect implements wire.Client.
func (ChatClient) Dialect() string { return NameChat }

// Dialect implements wire.Client.
func (GenerateClient) Dialect() string { return NameGenerate }

// Framing implements wire.Framer.
func (ChatClient) Framing() wire.Framing { return wire.FramingNDJSON }

// Framing implements wire.Framer.
func (GenerateClient) Framing() wire.Framing { return wire.FramingNDJSON }

// EncodeRequest implements wire.Client.
func (ChatClient) EncodeRequest(r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	o := &wire.Outgoing{Path: "/api/chat", Stream: r.Stream}
	if r.Wire != nil && r.Wire.Dialect == NameChat {
		return native(o, r, t)
	}
	if r.Kind != infer.Chat {
		return nil, infer.Errorf(infer.CodeUnsupported, "cannot continue a plain prompt over the provider's chat route: it takes conversations")
	}
	o.Body = appendChat(r, t)
	return o, nil
}

// EncodeRequest implements wire.Client.
func (GenerateClient) EncodeRequest(r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	o := &wire.Outgoing{Path: "/api/generate", Stream: r.Stream}
	if r.Wire != nil && r.Wire.Dialect == NameGenerate {
		return native(o, r, t)
	}
	switch {
	case r.Kind != infer.Completion:
		return nil, infer.Errorf(infer.CodeUnsupported, "cannot hold a conversation over the provider's generate route: it takes one prompt")
	case len(r.Prompts) != 1:
		return nil, infer.Unsupported("prompt", "the provider of this model continues one prompt at a time, got %d", len(r.Prompts))
	case r.Prompts[0].Tokens != nil:
		return nil, infer.Unsupported("prompt", "the provider of this model continues text, not token ids")
	}
	o.Body = appendGenerate(r, t)
	return o, nil
}

// native sends a body as it came, but for the name of the model and what policy
// has set. A stream is what happens unless the body says otherwise.
func native(o *wire.Outgoing, r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	o.Native = true
	name, err := json.Marshal(t.Model)
	if err != nil {
		return nil, err
	}
	set := append(wire.Members(r.Wire.Set), wire.Member{Name: "model", Value: name})
	var ok bool
	if o.Body, ok = wire.Splice(r.Wire.Body, set, nil); !ok {
		return nil, infer.Errorf(infer.CodeInvalid, "cannot pass the request on: its body is no JSON object")
	}
	return o, nil
}

// DecodeAnswer implements wire.Client.
func (ChatClient) DecodeAnswer(r *infer.Request, o *wire.Outgoing, body []byte) ([]infer.Event, error) {
	return decodeWhole(r, o, body)
}

// DecodeAnswer implements wire.Client.
func (GenerateClient) DecodeAnswer(r *infer.Request, o *wire.Outgoing, body []byte) ([]infer.Event, error) {
	return decodeWhole(r, o, body)
}

// NewDecoder implements wire.Client.
func (ChatClient) NewDecoder(r *infer.Request, o *wire.Outgoing) wire.StreamDecoder {
	return &answerDecoder{r: r, native: o.Native}
}

// NewDecoder implements wire.Client.
func (GenerateClient) NewDecoder(r *infer.Request, o *wire.Outgoing) wire.StreamDecoder {
	return &answerDecoder{r: r, native: o.Native}
}

// DecodeError implements wire.Client.
func (ChatClient) DecodeError(status int, h http.Header, body []byte) *infer.Error {
	return decodeError(status, h, body)
}

// DecodeError implements wire.Client.
func (GenerateClient) DecodeError(status int, h http.Header, body []byte) *infer.Error {
	return decodeError(status, h, body)
}
