// Package anthropic speaks Anthropic's Messages wire format (POST /v1/messages
// and its count_tokens), in both directions: as a server it decodes requests and
// encodes answers, streams and errors; as a client it writes requests to a
// provider of the format and reads what comes back.
//
// The fields follow the API reference of versions 2023-06-01 and 2026-10-21. The
// later one took temperature, top_p and top_k away; they stay legal here under
// both, since models without that rule answer too. A request without a version
// counts as of the older.
//
// Decoding is lenient: a field, block or tool that nobody here knows is noted
// (infer.FeatureUnknown) and travels in infer.Request.Wire, so that a provider of
// the same format gets it unchanged and any other target refuses or reports it.
// Only what is malformed is an error.
package anthropic

import (
	"io"
	"net/http"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// Name is the dialect's name in infer.Wire.Dialect.
const Name = "anthropic"

// Bounds of one request. They keep what a body can make us build in proportion
// to what a model could use; the body itself is bounded by the server.
const (
	maxMessages  = 100_000 // the API's own bound
	maxBlocks    = 4096    // content blocks of one message
	maxTools     = 1024
	maxName      = 256     // bytes of a tool's name or a call's id
	maxStops     = 64      // the API takes fewer; editors send two dozen
	maxStopBytes = 1024    // a stop string is looked for at every token
	maxTokens    = 1 << 20 // max_tokens
	maxUses      = 4096    // noted fields; more of them are one note
	maxCalls     = 512     // tool calls of one answer
)

// Messages is the dialect of POST /v1/messages.
type Messages struct{}

var _ wire.Dialect = Messages{}

// DecodeRequest implements wire.Dialect.
func (Messages) DecodeRequest(h *http.Request, body []byte) (*infer.Request, wire.Options, error) {
	d, err := decode(h, body)
	if err != nil {
		return nil, wire.Options{}, err
	}
	if !d.maxTokens {
		return nil, wire.Options{}, infer.Invalid("max_tokens", "cannot answer without max_tokens: got none, wanted how many tokens the answer may have")
	}
	return d.r, d.o, nil
}

// DecodeCount reads the body of POST /v1/messages/count_tokens, which is a
// request for an answer without what concerns the answer alone.
func DecodeCount(h *http.Request, body []byte) (*infer.Request, error) {
	d, err := decode(h, body)
	if err != nil {
		return nil, err
	}
	return d.r, nil
}

// EncodeResponse implements wire.Dialect.
func (Messages) EncodeResponse(w io.Writer, r *infer.Request, o wire.Options, a *wire.Answer) error {
	_, err := w.Write(appendMessage(nil, r, o, a))
	return err
}

// NewStream implements wire.Dialect.
func (Messages) NewStream(r *infer.Request, o wire.Options) wire.StreamEncoder {
	return newStream(r, o)
}

// EncodeError implements wire.Dialect.
func (Messages) EncodeError(e *infer.Error, requestID string) (status int, body []byte) {
	return EncodeError(e, requestID)
}
