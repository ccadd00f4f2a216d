package openai

import (
	"encoding/json"
	"net/http"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// The dialects as infer.Wire names them.
const (
	DialectChat        = "openai-chat"
	DialectCompletions = "openai-completions"
	DialectEmbeddings  = "openai-embeddings"
)

// ChatClient asks a provider over /chat/completions.
type ChatClient struct{ p *profile }

var (
	_ wire.Client = ChatClient{}
)

// NewChatClient makes the client for a kind of server: a name out of Profiles,
// or nothing for OpenAI itself.
func NewChatClient(profile string) ChatClient { return ChatClient{profileOf(profile)} }

// of is the profile that a request is written by.
func of(own *profile, t wire.Target) *profile {
	if t.Profile != "" {
		return profileOf(t.Profile)
	}
	if own == nil {
		return &profiles[0]
	}
	return own
}

// Dialect implements wire.Client.
func (ChatClient) Dialect() string { return DialectChat }

// Class implements wire.Client.
func (c ChatClient) Class(f infer.Feature) infer.Class { return of(c.p, wire.Target{}).class(f) }

// EncodeRequest implements wire.Client.
func (c ChatClient) EncodeRequest(r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	p := of(c.p, t)
	if r.Kind != infer.Chat {
		return nil, infer.Errorf(infer.CodeUnsupported, "cannot complete a prompt over the provider's chat route: it takes conversations")
	}
	o := &wire.Outgoing{Path: "/chat/completions", Stream: r.Stream}
	if r.Wire != nil && r.Wire.Dialect == DialectChat {
		return native(o, r.Wire, t, p)
	}
	o.Usage = r.Stream
	var err error
	o.Body, err = appendChatRequest(r, t, p)
	return o, err
}

// native sends a body as it came, but for the name of the model, what policy has
// set, and the wish for a count. The frame of a count that the caller did not
// wish for is not passed on, also where the provider sends it unasked.
func native(o *wire.Outgoing, w *infer.Wire, t wire.Target, p *profile) (*wire.Outgoing, error) {
	o.Native = true
	set := members(w.Set)
	at := find(set, []byte("model"))
	if at < 0 {
		at = len(set)
		set = append(set, member{name: "model"})
	}
	name, err := json.Marshal(t.Model)
	if err != nil {
		return nil, err
	}
	set[at].value = name
	set = p.rename(set, w)
	if o.Stream {
		options, asked := usageOption(get(w.Body, "stream_options"))
		o.Usage = !asked
		if !asked && p.usageOption && find(set, []byte("stream_options")) < 0 {
			set = append(set, member{"stream_options", options})
		}
	}
	var ok bool
	if o.Body, ok = splice(w.Body, set); !ok {
		return nil, infer.Errorf(infer.CodeInvalid, "cannot pass the request on: its body is no JSON object")
	}
	return o, nil
}

// rename puts the bound under the name that the server knows for certain: one
// that policy has set, and at Ollama, which has only the old name
// (openai/openai.go, ChatCompletionRequest), the caller's own as well. Elsewhere
// the caller's name stays alone: OpenAI, which proxies pass it to, refuses both.
func (p *profile) rename(set []member, w *infer.Wire) []member {
	if p.limit != "max_tokens" || w.Dialect != DialectChat || w.Set["max_tokens"] != nil {
		return set
	}
	asked, at := get(w.Body, "max_completion_tokens"), find(set, []byte("max_completion_tokens"))
	if at >= 0 && asked == nil {
		set[at].name = "max_tokens"
		return set
	}
	if p.name != "ollama" || asked == nil {
		return set
	}
	if at >= 0 {
		asked = set[at].value
	}
	if old := get(w.Body, "max_tokens"); string(asked) == "null" || old != nil && string(old) != "null" {
		return set
	}
	return append(set, member{"max_tokens", asked})
}

// usageOption is stream_options with include_usage, and whether it was there.
func usageOption(raw []byte) (options []byte, asked bool) {
	if asked = string(get(raw, "include_usage")) == "true"; asked {
		return raw, true
	}
	yes := []member{{"include_usage", []byte("true")}}
	if out, ok := splice(raw, yes); ok {
		return out, false
	}
	return []byte(`{"include_usage":true}`), false
}

// DecodeAnswer implements wire.Client. A provider that was asked for a stream and
// answers at once has its answer read like any other, and not passed on as it is.
func (ChatClient) DecodeAnswer(r *infer.Request, o *wire.Outgoing, body []byte) ([]infer.Event, error) {
	return newAnswerDecoder(r, o, o.Native && !o.Stream).answer(body)
}

// NewDecoder implements wire.Client.
func (ChatClient) NewDecoder(r *infer.Request, o *wire.Outgoing) wire.StreamDecoder {
	return newAnswerDecoder(r, o, o.Native)
}

// DecodeError implements wire.Client.
func (ChatClient) DecodeError(status int, h http.Header, body []byte) *infer.Error {
	return decodeError(status, h, body)
}
