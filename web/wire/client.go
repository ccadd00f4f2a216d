package wire

import (
	"net/http"

	"hearth/engine/infer"
)

// Client speaks one dialect to a provider: the other direction of Dialect. It
// only translates; connections, credentials and retries are the caller's. There
// is one value per kind of provider; it is stateless and safe for concurrent
// use.
type Client interface {
	// Dialect is the name that a request of the same dialect has in
	// infer.Wire.Dialect.
	Dialect() string
	// Class says what becomes of a feature at this provider.
	Class(f infer.Feature) infer.Class
	// EncodeRequest writes r for the target. A request whose Wire is of this
	// dialect is sent as it came, but for the model's name, the members in
	// Wire.Set, and what metering needs; any other is written from its typed
	// fields, without the fields that Class calls dropped.
	EncodeRequest(r *infer.Request, t Target) (*Outgoing, error)
	// DecodeAnswer reads a whole answer (2xx, not streamed) as the events of a
	// complete stream: start, content, a finish for each choice, usage. With
	// Native the usage event carries the body as its Frame.
	DecodeAnswer(r *infer.Request, o *Outgoing, body []byte) ([]infer.Event, error)
	// NewDecoder reads the stream of one answer.
	NewDecoder(r *infer.Request, o *Outgoing) StreamDecoder
	// DecodeError reads an answer that is not 2xx. Its Upstream is always set;
	// its Message may quote the provider's message for errors of the request
	// itself and is otherwise in our own words; keys and addresses never pass.
	DecodeError(status int, h http.Header, body []byte) *infer.Error
}

// Framing is how a provider frames the events of a stream.
type Framing string

const (
	FramingSSE         Framing = "sse"              // text/event-stream; the default
	FramingNDJSON      Framing = "ndjson"           // one JSON value a line: StreamDecoder.Frame gets one line, with no name
	FramingEventStream Framing = "aws-event-stream" // application/vnd.amazon.eventstream: Frame gets the event's type and payload
)

// Framer is a Client whose provider does not stream SSE.
type Framer interface{ Framing() Framing }

// EmbedClient is a Client whose provider computes embeddings.
type EmbedClient interface {
	EncodeEmbed(r *infer.EmbedRequest, t Target) (*Outgoing, error)
	DecodeEmbed(r *infer.EmbedRequest, o *Outgoing, body []byte) (*infer.EmbedResult, error)
}

// CountClient is a Client whose provider counts the tokens of a prompt.
type CountClient interface {
	EncodeCount(r *infer.Request, t Target) (*Outgoing, error)
	DecodeCount(body []byte) (promptTokens int, err error)
}

// ValueClient is a Client that takes some fields only with some values.
type ValueClient interface {
	// ValueLosses are those losses of a request written anew that come of the
	// values of its fields, beside those of their classes.
	ValueLosses(r *infer.Request, t Target) []infer.Loss
}

// BudgetLoss is the loss of a reasoning budget of asked tokens where sent are: 0,
// none. A budget that stands for an effort counts as lost only if none is sent.
func BudgetLoss(r *infer.Request, asked, sent int) []infer.Loss {
	class := infer.Emulated
	switch {
	case sent == 0:
		class = infer.Dropped
	case sent == asked || r.Thinking.Budget <= 0:
		return nil
	}
	for _, f := range [...]infer.Feature{infer.FeatureReasoningBudget, infer.FeatureReasoningEffort, infer.FeatureReasoningSwitch} {
		for _, u := range r.Uses {
			if u.Feature == f {
				return []infer.Loss{{Path: u.Path, Feature: f, Class: class, Why: u.Why}}
			}
		}
	}
	return nil
}

// Target is the deployment that a request is written for.
type Target struct {
	Model string // the model's name there
	// MaxOutput bounds the answer where the request gives no bound and the
	// dialect demands one; 0: none.
	MaxOutput int
	// Profile names the provider's departures from its dialect, for instance
	// "vllm" in the OpenAI dialect; empty: none.
	Profile string
}

// Outgoing is one HTTP request to a provider, as far as the dialect knows it.
type Outgoing struct {
	Method string      // default POST
	Path   string      // appended to the base URL, with query: "/chat/completions"
	Header http.Header // of the dialect: Anthropic-Version and its like; nil: none
	Body   []byte
	Stream bool
	Native bool // the answer's frames are the caller's dialect
	// Usage says that we asked for usage on a stream on our own account: its
	// frame is not passed on.
	Usage bool
}

// StreamDecoder reads one streamed answer. It is not safe for concurrent use.
type StreamDecoder interface {
	// Frame appends the events of one SSE event (name may be empty), or of what
	// the client's Framing says in its place, to dst. The
	// data is valid only during the call; what is kept is copied. An error frame
	// of the provider is returned as an *infer.Error.
	//
	// The usage event comes last, when the provider's end mark has been seen;
	// with Native it carries the frame of the end mark, and a frame that says
	// nothing becomes an EventFrame.
	Frame(dst []infer.Event, name string, data []byte) ([]infer.Event, error)
	// End is called when the provider's stream has ended. It appends what is
	// still due, or fails with FailLost if the answer was not complete.
	End(dst []infer.Event) ([]infer.Event, error)
}

// Field is one field of a dialect's requests, for the table of losses: every
// field of the dialect's schema has one.
type Field struct {
	Path    string        // "messages[].content[].cache_control"
	Feature infer.Feature // empty: every target has it
	// Example is the value of the field, as JSON, in the smallest request that
	// notes a Use of Feature. Base is the rest of that request (a whole body
	// with the field in place); empty where Path is a top-level member and the
	// smallest request with it added will do.
	Example string
	Base    string
	Note    string
}
