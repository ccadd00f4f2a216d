package openai

import (
	"net/http"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// CompletionsClient asks a provider over /completions.
type CompletionsClient struct{ p *profile }

var _ wire.Client = CompletionsClient{}

// NewCompletionsClient makes the client for a kind of server; see NewChatClient.
func NewCompletionsClient(profile string) CompletionsClient {
	return CompletionsClient{profileOf(profile)}
}

// Dialect implements wire.Client.
func (CompletionsClient) Dialect() string { return DialectCompletions }

// completionsClasses are the features of a plain prompt.
var completionsClasses = map[infer.Feature]bool{
	infer.FeatureMaxTokens: true, infer.FeatureTemperature: true, infer.FeatureTopP: true, infer.FeatureFrequencyPenalty: true,
	infer.FeaturePresencePenalty: true, infer.FeatureLogitBias: true, infer.FeatureSeed: true, infer.FeatureChoices: true,
	infer.FeatureStop: true, infer.FeatureLogprobs: true, infer.FeaturePromptLogprobs: true, infer.FeatureTokenPrompt: true,
	infer.FeatureEcho: true, infer.FeatureSuffix: true, infer.FeatureManyPrompts: true, infer.FeatureUser: true,
}

// Class implements wire.Client.
func (c CompletionsClient) Class(f infer.Feature) infer.Class {
	p := of(c.p, wire.Target{})
	if completionsClasses[f] {
		if _, known := chatClasses[f]; known {
			return p.class(f)
		}
		return infer.Carried
	}
	switch f {
	case infer.FeatureTopK, infer.FeatureMinP, infer.FeatureRepetitionPenalty, infer.FeatureMinTokens, infer.FeatureStopTokens,
		infer.FeatureIgnoreEOS, infer.FeatureIncludeStop, infer.FeatureCacheSalt, infer.FeaturePriority,
		infer.FeatureRegex, infer.FeatureGrammar, infer.FeatureChoice:
		return p.class(f)
	case infer.FeatureJSONObject, infer.FeatureJSONSchema:
		if p.extra[infer.FeatureTopK] != "" { // the engines take a constraint on either route
			return p.class(f)
		}
	}
	return infer.Dropped
}

// EncodeRequest implements wire.Client.
func (c CompletionsClient) EncodeRequest(r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	p := of(c.p, t)
	if r.Kind != infer.Completion {
		return nil, infer.Errorf(infer.CodeUnsupported, "cannot hold a conversation over the provider's completions route: it takes prompts")
	}
	o := &wire.Outgoing{Path: "/completions", Stream: r.Stream}
	if r.Wire != nil && r.Wire.Dialect == DialectCompletions {
		return native(o, r.Wire, t, p)
	}
	o.Usage = r.Stream
	w := &requestWriter{b: append(make([]byte, 0, 512), '{'), r: r, p: p}
	w.str("model", t.Model)
	w.prompts()
	if r.Suffix != "" {
		w.str("suffix", r.Suffix)
	}
	if r.Echo {
		w.raw("echo", "true")
	}
	w.bound("max_tokens", t.MaxOutput) // for the API would stop at 16
	w.sampling()
	if r.Sampling.Logprobs {
		w.int("logprobs", int64(r.Sampling.TopLogprobs))
	}
	if c.Class(infer.FeatureJSONSchema) != infer.Dropped || r.Format.Kind == infer.FormatRegex || r.Format.Kind == infer.FormatGrammar || r.Format.Kind == infer.FormatChoice {
		if err := w.format(); err != nil {
			return nil, err
		}
	}
	if r.Hints.User != "" && p.has(infer.FeatureUser) {
		w.str("user", wire.Opaque(r.Hints.User, maxUser))
	}
	w.stream()
	o.Body = append(w.b, '}')
	return o, nil
}

// prompts writes one prompt as itself and several as an array.
func (w *requestWriter) prompts() {
	w.key("prompt")
	one := len(w.r.Prompts) == 1
	if !one {
		w.b = append(w.b, '[')
	}
	for i, p := range w.r.Prompts {
		w.b = comma(w.b, i)
		if p.Tokens != nil {
			w.b = jsonwrite.Int32s(w.b, p.Tokens)
		} else {
			w.b = jsonwrite.String(w.b, p.Text)
		}
	}
	if !one {
		w.b = append(w.b, ']')
	}
}

// DecodeAnswer implements wire.Client.
func (CompletionsClient) DecodeAnswer(r *infer.Request, o *wire.Outgoing, body []byte) ([]infer.Event, error) {
	d := newAnswerDecoder(r, o, o.Native && !o.Stream)
	d.plain = true
	return d.answer(body)
}

// NewDecoder implements wire.Client.
func (CompletionsClient) NewDecoder(r *infer.Request, o *wire.Outgoing) wire.StreamDecoder {
	d := newAnswerDecoder(r, o, o.Native)
	d.plain = true
	return d
}

// DecodeError implements wire.Client.
func (CompletionsClient) DecodeError(status int, h http.Header, body []byte) *infer.Error {
	return decodeError(status, h, body)
}
