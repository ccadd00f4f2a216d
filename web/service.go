// Package web is the HTTP surface: server bounds, the handler that takes a
// request from any dialect to the Service and its stream of events back, and
// the status page. It knows nothing of engines, providers or storage.
package web

import (
	"context"
	"crypto/x509"
	"iter"
	"log/slog"
	"time"

	"hearth/engine/infer"
)

// Service is what the appliance offers to the wire. All methods are safe for
// concurrent use; every error is or wraps an *infer.Error.
type Service interface {
	// Admit authenticates the caller and takes request and concurrency limits,
	// before the body is read. The Grant must be released exactly once. With an
	// error the Grant may still be non-nil, only to tell Limits to the client;
	// it holds nothing and its Release is not called.
	Admit(ctx context.Context, c Caller) (*Grant, error)

	// Call runs a generation for an admitted caller: validate, route, hold,
	// generate, settle, record. Leaving the loop or cancelling ctx ends it.
	// Call may write to g before it yields its first event and after its last,
	// never in between.
	Call(ctx context.Context, g *Grant, r *infer.Request) iter.Seq2[infer.Event, error]

	Embed(ctx context.Context, g *Grant, r *infer.EmbedRequest) (*infer.EmbedResult, error)
	Models(ctx context.Context, g *Grant) ([]infer.Model, error)
	Count(ctx context.Context, g *Grant, r *infer.Request) (infer.Count, error)
	Tokenize(ctx context.Context, g *Grant, r *infer.TokenizeRequest) ([]int32, error)
	Detokenize(ctx context.Context, g *Grant, model string, ids []int32) ([]byte, error)

	// Ready says whether new work is admitted, and why not.
	Ready() (bool, string)
	Once
	Responses
}

// Once answers repeats of a request that carries an Idempotency-Key with the
// first answer. The scope of a key is the caller's API key.
type Once interface {
	// Claim takes the key for the body with the given SHA-256. It returns a
	// Recording if the request is to be served, or the Replay of the first
	// answer if that is finished; CodeConflict if the key was used with another
	// body, while the first request is still open (with RetryAfter), or if its
	// outcome is not known or its answer was not kept.
	Claim(ctx context.Context, g *Grant, key string, route string, body [32]byte) (Recording, *Replay, error)
}

// Recording receives the answer to a claimed request.
type Recording interface {
	// Limit is how many bytes of a body can be kept.
	Limit() int
	// Keep ends the recording, after the call has ended and before the end of a
	// whole answer is sent. It stores the answer for replays, durably; if
	// nothing was charged it gives the key up instead, so that a repeat may run.
	Keep(a Replay) error
}

// Replay is a finished answer as it was sent.
type Replay struct {
	RequestID   string // of the first request
	Status      int
	ContentType string
	Header      map[string]string // x-hearth-* headers of the first answer
	Body        []byte            // the whole body, streams included
	Cut         bool              // the answer broke off after Body
	TooLarge    bool              // Body is left out: it is over the limit
}

// Responses keeps the answers of the responses dialect for later retrieval and
// as earlier turns. They are the caller's tenant's; they expire.
type Responses interface {
	// KeepsResponses tells whether responses are kept at all; if not, the methods
	// below fail with CodeUnsupported.
	KeepsResponses() bool
	// SaveResponse stores or replaces a response under its id.
	SaveResponse(ctx context.Context, g *Grant, r *StoredResponse) error
	// LoadResponse finds one of the caller's tenant; CodeNotFound else.
	LoadResponse(ctx context.Context, g *Grant, id string) (*StoredResponse, error)
	DeleteResponse(ctx context.Context, g *Grant, id string) error
	// Detach runs f after the caller's request is over, with a grant of its own
	// that is released when f ends, and a context that ends with the appliance,
	// the route's deadline, or CancelResponse of the id.
	Detach(g *Grant, id string, f func(ctx context.Context, g *Grant)) error
	// CancelResponse ends a detached run; false if none runs under the id.
	CancelResponse(ctx context.Context, g *Grant, id string) (bool, error)
}

// StoredResponse is one response with what a following turn needs.
type StoredResponse struct {
	ID      string
	Created time.Time
	Body    []byte // the response object, JSON
	Input   []byte // the input items that led to it, JSON array, earlier turns included
	Expires time.Time
	// Running is set by LoadResponse where a detached run goes on under the id.
	Running bool
}

// Caller is what identifies a request before its body is read.
type Caller struct {
	RequestID  string
	Credential string // bearer token or x-api-key, empty if none
	// Principal is set, and nothing else that identifies a caller, where the
	// control plane asks for somebody whom it knows.
	Principal *Principal
	// Bearer says that Credential came as Authorization: Bearer, where a token of
	// an issuer may stand in place of an API key.
	Bearer bool
	// Certificates is the chain that the peer of a mutual TLS connection has sent,
	// the leaf first, whose key it has proved to hold. Who issued it, and whether
	// that counts, nobody has judged yet. Nil: none.
	Certificates []*x509.Certificate
	RemoteAddr   string // host:port of the peer
	Route        string // route pattern, for instance "POST /v1/chat/completions"
	TraceParent  string // incoming W3C traceparent, validated; empty if none
	TraceState   string
	// Retry is the client's own count of repeats (x-stainless-retry-count).
	Retry int
	// Timeout is how long the caller will wait (x-hearth-timeout-ms); 0: it did
	// not say.
	Timeout time.Duration
	// Idempotency is the value of Idempotency-Key, empty if none.
	Idempotency string
}

// Principal is somebody whom the control plane has signed in.
type Principal struct {
	User   string // name of the account
	Tenant string // who is charged
}

type principalKey struct{}

// As gives a context under which a request is p's, whatever credential it
// carries. Only the control plane may use it.
func As(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, &p)
}

// Grant is an admission. Call fills in what became known on the way.
type Grant struct {
	RequestID string
	Tenant    string
	KeyID     string
	Started   time.Time
	Trace     string // W3C traceparent of the server span
	// TraceState is the caller's W3C tracestate, to be passed on with Trace.
	TraceState string
	// Stream says that the answer is streamed; set by the server before Call.
	Stream bool
	Limits []LimitState
	// Contract is the digest of the serving contract that answers, set by Call
	// before its first event and returned as x-hearth-contract.
	Contract string
	// Losses are what the translation to the target loses, set by Call with
	// Contract; told to the client in x-hearth-loss.
	Losses []infer.Loss
	// Deadline is when the caller stops waiting, as it said itself; zero: it did
	// not. Idempotency is the key that it sent, empty if none. Set by Admit.
	Deadline    time.Time
	Idempotency string
	// Route and Upstream name what serves the request, Revision the
	// configuration it was routed by; set by Call with Contract.
	Route    string
	Upstream string
	Revision string
	// Line says that the server writes a line about the exchange into the log,
	// which Call and Embed add Said to instead of writing one of their own;
	// Warn makes it a warning.
	Line bool
	Said []slog.Attr
	Warn bool

	// Ended is closed when the caller may ask no more, since what it showed was
	// revoked, or Release was called. Call and Embed watch it themselves.
	Ended <-chan struct{}

	Release func() // idempotent
}

// LimitState is one rate limit as told to the client.
type LimitState struct {
	Kind      string // "requests" or "tokens"
	Limit     int
	Remaining int
	Reset     time.Duration // until full
}
