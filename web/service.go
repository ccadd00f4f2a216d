// Package web is the HTTP surface: server bounds, the handler that takes a
// request from any dialect to the Service and its stream of events back, and
// the status page. It knows nothing of engines, providers or storage.
package web

import (
	"context"
	"io"
	"iter"
	"net/http"
	"time"

	"hearth/engine/infer"
)

// Service is what the appliance offers to the wire. All methods are safe for
// concurrent use; every error is or wraps an *infer.Error.
type Service interface {
	// Admit authenticates the caller and takes request and concurrency limits,
	// before the body is read. The Grant must be released exactly once.
	Admit(ctx context.Context, c Caller) (*Grant, error)

	// Call runs a generation for an admitted caller: validate, route, hold,
	// generate, settle, record. Leaving the loop or cancelling ctx ends it.
	Call(ctx context.Context, g *Grant, r *infer.Request) iter.Seq2[infer.Event, error]

	Embed(ctx context.Context, g *Grant, r *infer.EmbedRequest) (*infer.EmbedResult, error)
	Models(ctx context.Context, g *Grant) ([]infer.Model, error)
	Count(ctx context.Context, g *Grant, r *infer.Request) (infer.Count, error)
	Tokenize(ctx context.Context, g *Grant, r *infer.TokenizeRequest) ([]int32, error)
	Detokenize(ctx context.Context, g *Grant, model string, ids []int32) ([]byte, error)

	// Ready says whether new work is admitted, and why not.
	Ready() (bool, string)
	// Status is the snapshot behind the status page.
	Status(ctx context.Context) Status
}

// Caller is what identifies a request before its body is read.
type Caller struct {
	RequestID   string
	Credential  string // bearer token or x-api-key, empty if none
	RemoteAddr  string
	Route       string // route pattern, for instance "POST /v1/chat/completions"
	TraceParent string // incoming W3C traceparent, validated
}

// Grant is an admission. Call fills in what became known on the way.
type Grant struct {
	RequestID string
	Tenant    string
	KeyID     string
	Started   time.Time
	Trace     string // W3C traceparent of the server span
	Limits    []LimitState
	Release   func() // idempotent
}

// LimitState is one rate limit as told to the client.
type LimitState struct {
	Kind      string // "requests" or "tokens"
	Limit     int
	Remaining int
	Reset     time.Duration // until full
}

// Dialect translates between one public wire format and infer. One per route.
type Dialect interface {
	// DecodeRequest reads the whole body. Unknown or unsupported fields are an
	// *infer.Error that names them.
	DecodeRequest(r *http.Request, body []byte) (*infer.Request, Options, error)
	// EncodeResponse writes a complete answer collected from events.
	EncodeResponse(w io.Writer, r *infer.Request, a *Answer) error
	// NewStream returns the encoder of one stream.
	NewStream(r *infer.Request, o Options) StreamEncoder
	// EncodeError gives status and body of an error before the first byte.
	EncodeError(e *infer.Error, requestID string) (status int, body []byte)
}

// Options are the wire-only parts of a request.
type Options struct {
	Stream       bool
	IncludeUsage bool
}

// StreamEncoder turns events into complete SSE frames of its dialect.
type StreamEncoder interface {
	// Event appends the frames for ev to dst.
	Event(dst []byte, ev infer.Event) ([]byte, error)
	// Error appends the in-band error frame; nothing follows it.
	Error(dst []byte, e *infer.Error) []byte
	// End appends what ends a complete stream.
	End(dst []byte) []byte
}

// Answer is a finished generation, collected from its events.
type Answer struct {
	Model   infer.Served
	Created time.Time
	Choices []Choice
	Usage   infer.Usage
}

// Choice is one finished choice.
type Choice struct {
	Text      string
	Reasoning string
	ToolCalls []infer.ToolCall
	Logprobs  []infer.TokenLogprob
	TokenIDs  []int32
	Finish    infer.FinishReason
	Stop      string
}

// Status is what the status page shows.
type Status struct {
	Version   string
	Started   time.Time
	Ready     bool
	Reason    string
	Models    []ModelStatus
	Spend     []Spend
	Latency   []Latency
	Open      int    // requests in flight
	OpenHolds int    // budget holds not yet settled
	HeldNano  int64  // sum of open holds, nano-USD
	Ledger    uint64 // position of the last ledger record
}

// ModelStatus is one model with its live load.
type ModelStatus struct {
	infer.Model
	Ready  bool
	Reason string
	Stats  infer.Stats
}

// Spend is one budget's position, nano-USD.
type Spend struct {
	Tenant    string
	Budget    string
	Window    string // "day", "month", "total"
	CapNano   int64
	SpentNano int64
	HeldNano  int64
	Resets    time.Time // zero: never
}

// Latency is a distribution over the last five minutes.
type Latency struct {
	Name          string // "ttft", "tpot", "e2e"
	Count         int
	P50, P95, P99 time.Duration
}
