package remote

import (
	"context"
	"errors"
	"time"

	"hearth/engine/infer"
)

// hello is the first frame of each end.
type hello struct {
	Version int
	Build   string
	Schema  string
	PID     int
	Beat    time.Duration // from the gateway: how often to beat
}

// ping is the gateway's sign of life.
type ping struct {
	Seq  uint64
	Open int // streams that it waits for
}

// beat is the worker's sign of life.
type beat struct {
	Seq    uint64
	Open   int // streams that it works on
	Health infer.Health
	Note   string // for the operator, for instance of the sandbox
}

// op is what a call asks for.
type op uint8

const (
	opGenerate op = 1 + iota
	opCount
	opEmbed
	opTokenize
	opDetokenize
	opModels
)

// call is what a frame of type call carries; the field of its op is set.
type call struct {
	Op         op
	Generate   *infer.Request // also for count
	Embed      *infer.EmbedRequest
	Tokenize   *infer.TokenizeRequest
	Detokenize *detokenize
}

type detokenize struct {
	Model string
	IDs   []int32
}

// result answers a call that is no generate: Error or the field of its op.
type result struct {
	Error  *wireError
	Count  infer.Count
	Embed  *infer.EmbedResult
	IDs    []int32
	Bytes  []byte
	Models []infer.Model
}

// itemKind is what an item of a batch is.
type itemKind uint8

const (
	itemEvent itemKind = iota // infer.Event
	itemEnd                   // empty: the stream is complete
	itemError                 // wireError: the stream ends with it
	itemKinds
)

// schema is the digest of every type that crosses.
var schema = schemaOf(hello{}, ping{}, beat{}, call{}, result{}, wireError{}, infer.Event{})

// wireError is an infer.Error; its cause crosses as text, for logs.
type wireError struct {
	Code       string
	Param      string
	Message    string
	RetryAfter time.Duration
	NoRetry    bool
	Cause      string
}

// toWire keeps what kind of error it is. A context's error is that of the
// worker's own context, which ends when the gateway cancels: the gateway has
// its own by then.
func toWire(err error) *wireError {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &wireError{Code: string(infer.CodeUnavailable), Message: "the request was cancelled", Cause: err.Error()}
	}
	e := infer.AsError(err)
	w := &wireError{Code: string(e.Code), Param: e.Param, Message: e.Message, RetryAfter: e.RetryAfter, NoRetry: e.NoRetry}
	if e.Cause != nil {
		w.Cause = e.Cause.Error()
	}
	w.Param, w.Message, w.Cause = cut(w.Param), cut(w.Message), cut(w.Cause)
	return w
}

func (w *wireError) err() *infer.Error {
	e := &infer.Error{Code: infer.Code(w.Code), Param: w.Param, Message: w.Message, RetryAfter: w.RetryAfter, NoRetry: w.NoRetry}
	if w.Cause != "" {
		e.Cause = errors.New(w.Cause)
	}
	return e
}

func cut(s string) string {
	if len(s) > maxReason {
		return s[:maxReason]
	}
	return s
}

// eventSize is about what an event takes in memory and on the wire.
func eventSize(ev *infer.Event) int {
	n := 48 + len(ev.Text) + len(ev.Stop) + 5*len(ev.TokenIDs)
	if ev.Tool != nil {
		n += 32 + len(ev.Tool.ID) + len(ev.Tool.Name) + len(ev.Tool.Arguments)
	}
	for i := range ev.Logprobs {
		n += 32 + len(ev.Logprobs[i].Bytes) + 32*len(ev.Logprobs[i].Top)
	}
	return n
}

// join adds ev to last where one event can say both, in order.
func join(last, ev *infer.Event) bool {
	if last.Kind != ev.Kind || last.Choice != ev.Choice {
		return false
	}
	switch ev.Kind {
	case infer.EventText, infer.EventReasoning:
		last.Text += ev.Text
	case infer.EventTool:
		a, b := last.Tool, ev.Tool
		if a == nil || b == nil || a.Index != b.Index || b.ID != "" || b.Name != "" {
			return false
		}
		both := *a
		both.Arguments += b.Arguments
		last.Tool = &both
	default:
		return false
	}
	last.Tokens += ev.Tokens
	last.TokenIDs = append(last.TokenIDs[:len(last.TokenIDs):len(last.TokenIDs)], ev.TokenIDs...)
	last.Logprobs = append(last.Logprobs[:len(last.Logprobs):len(last.Logprobs)], ev.Logprobs...)
	return true
}
