package upstream

import (
	"encoding/json"
	"net/http"
	"strings"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// codec is a wire.Client for tests of the transport: a request names its model
// and prompt, an answer is {"text", "out"}, a stream has {"t":"…"} frames and
// ends with {"end":true,"out":n}.
type codec struct {
	dialect string
	framing wire.Framing
}

func testClients(framing wire.Framing) func(dialect, kind string) wire.Client {
	return func(dialect, _ string) wire.Client { return &codec{dialect, framing} }
}

func (c *codec) Dialect() string       { return c.dialect }
func (c *codec) Framing() wire.Framing { return c.framing }

func (c *codec) Class(f infer.Feature) infer.Class {
	if f == infer.FeatureTopK {
		return infer.Dropped
	}
	return infer.Carried
}

func (c *codec) EncodeRequest(r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	o := &wire.Outgoing{Path: "/chat/completions", Stream: r.Stream, Native: r.Wire != nil && r.Wire.Dialect == c.dialect}
	if c.dialect == dialectAnthropic {
		o.Path, o.Header = "/v1/messages", http.Header{"Anthropic-Version": {"2023-06-01"}}
	}
	if o.Native {
		o.Body = r.Wire.Body
		return o, nil
	}
	o.Body, _ = json.Marshal(map[string]any{"model": t.Model, "stream": r.Stream})
	return o, nil
}

type codecFrame struct {
	Text  string `json:"t"`
	End   bool   `json:"end"`
	Out   int    `json:"out"`
	Error string `json:"error"`
}

func (c *codec) DecodeAnswer(_ *infer.Request, o *wire.Outgoing, body []byte) ([]infer.Event, error) {
	var f codecFrame
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, fault(infer.FailMalformed, "cannot read the provider's answer", nil)
	}
	if f.Error != "" {
		return nil, fault(infer.FailureClass(f.Error), "the provider failed", nil)
	}
	usage := infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{CompletionTokens: f.Out}}
	if o.Native {
		usage.Frame = &infer.Frame{Data: body}
	}
	return []infer.Event{{Kind: infer.EventStart}, {Kind: infer.EventText, Text: f.Text, Tokens: f.Out}, {Kind: infer.EventFinish, Finish: infer.FinishStop}, usage}, nil
}

func (c *codec) NewDecoder(*infer.Request, *wire.Outgoing) wire.StreamDecoder { return &codecStream{} }

type codecStream struct{ started, ended bool }

func (s *codecStream) Frame(dst []infer.Event, name string, data []byte) ([]infer.Event, error) {
	var f codecFrame
	if err := json.Unmarshal(data, &f); err != nil {
		return dst, fault(infer.FailMalformed, "cannot read the provider's stream", nil)
	}
	if f.Error != "" {
		return dst, fault(infer.FailureClass(f.Error), "the provider failed", nil)
	}
	if !s.started {
		s.started = true
		dst = append(dst, infer.Event{Kind: infer.EventStart})
	}
	if f.End {
		s.ended = true
		return append(dst, infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop}, infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{CompletionTokens: f.Out}}), nil
	}
	return append(dst, infer.Event{Kind: infer.EventText, Text: strings.Clone(f.Text), Tokens: 1}), nil
}

func (s *codecStream) End(dst []infer.Event) ([]infer.Event, error) {
	if !s.ended {
		return dst, fault(infer.FailLost, "the provider's stream ended before its end", nil)
	}
	return dst, nil
}

func (c *codec) DecodeError(status int, h http.Header, body []byte) *infer.Error {
	class := infer.FailRequest
	switch {
	case status == 429:
		class = infer.FailRateLimit
	case status == 503 || status == 529:
		class = infer.FailOverload
	case status == 401 || status == 403:
		class = infer.FailAuth
	case status >= 500:
		class = infer.FailServer
	}
	return fault(class, "the provider refused", nil)
}
