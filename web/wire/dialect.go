// Package wire is the contract between the HTTP server and one public wire
// format: what a dialect decodes a body into, and what it encodes answers,
// events and errors from. It is a leaf below web, so that each dialect package
// can implement it without seeing the server.
package wire

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"hearth/engine/infer"
)

// Dialect translates between one public wire format and infer. There is one
// value per generating route; it is stateless and safe for concurrent use.
type Dialect interface {
	// DecodeRequest reads the whole body. Unknown, ill-typed and unsupported
	// fields are an *infer.Error whose Param is the path of the field. h is
	// the request head, for dialects whose meaning depends on a header.
	DecodeRequest(h *http.Request, body []byte) (*infer.Request, Options, error)
	// EncodeResponse writes a complete answer collected from events.
	EncodeResponse(w io.Writer, r *infer.Request, o Options, a *Answer) error
	// NewStream returns the encoder of one stream. It is not safe for
	// concurrent use.
	NewStream(r *infer.Request, o Options) StreamEncoder
	// EncodeError gives status and body of an error before the first byte.
	EncodeError(e *infer.Error, requestID string) (status int, body []byte)
}

// Options are the parts of a request that only the wire cares about.
type Options struct {
	Stream       bool
	IncludeUsage bool
	// ContinuousUsage puts the running usage on every chunk.
	ContinuousUsage bool
	// LegacyFunctions answers with function_call in place of tool_calls.
	LegacyFunctions bool
	// Obfuscate pads stream chunks so that their size tells less of the text.
	Obfuscate bool
	// HideReasoning leaves the reasoning out of the answer.
	HideReasoning bool
	// TokensAsIDs writes tokens in log-probabilities as token_id:N.
	TokensAsIDs bool
	// PromptTokens are the ids of each prompt, to be returned beside the answer.
	// The server fills them in where Sampling.ReturnTokenIDs is set.
	PromptTokens [][]int32
	// Created is the time of the answer, the same on every chunk.
	Created time.Time
	// Own is what a dialect's decoder leaves for its own encoders.
	Own any
}

// StreamEncoder turns events into complete SSE frames of its dialect.
type StreamEncoder interface {
	// Event appends the frames for ev to dst. It may append none.
	Event(dst []byte, ev infer.Event) ([]byte, error)
	// Error appends the in-band error frame; nothing follows it.
	Error(dst []byte, e *infer.Error) []byte
	// End appends what ends a complete stream.
	End(dst []byte) []byte
}

// Framed is a StreamEncoder whose stream is not SSE with comments allowed: its
// media type is its own and no heartbeat is sent in it.
type Framed interface {
	ContentType() string
	// Frame appends a frame that a provider of the same dialect sent, as it is
	// passed on. End is called after the last one too, to end the framing.
	Frame(dst []byte, f *infer.Frame) []byte
}

// Pinger is a StreamEncoder whose dialect has a heartbeat of its own. Without it
// the heartbeat of an SSE stream is a comment.
type Pinger interface {
	// Ping appends a whole heartbeat to dst.
	Ping(dst []byte) []byte
}

// AppendSSE appends a frame as one SSE event. Data of several lines becomes as
// many data fields (HTML, section 9.2.6).
func AppendSSE(dst []byte, f *infer.Frame) []byte {
	if f.Event != "" {
		dst = append(append(append(dst, "event: "...), f.Event...), '\n')
	}
	data := f.Data
	for {
		line, rest, more := bytes.Cut(data, []byte{'\n'})
		dst = append(append(append(dst, "data: "...), line...), '\n')
		if !more {
			return append(dst, '\n')
		}
		data = rest
	}
}

// Answer is a finished generation, collected from its events.
type Answer struct {
	Model   infer.Served
	Choices []Choice
	Usage   infer.Usage
	// First is when its first piece came; zero where nobody looked.
	First time.Time
	// Frame is the whole body as a provider of the caller's dialect sent it, to
	// be passed on in place of the rest.
	Frame *infer.Frame
}

// Choice is one finished choice.
type Choice struct {
	Text string
	// Refusal is the model's words of declining, where its provider tells them
	// apart; they are not in Text.
	Refusal   string
	Reasoning string
	// Thoughts is the reasoning piece by piece, with the seals of its provider.
	Thoughts  []infer.Thought
	ToolCalls []infer.ToolCall
	Logprobs  []infer.TokenLogprob
	TokenIDs  []int32
	Finish    infer.FinishReason
	Stop      string
}
