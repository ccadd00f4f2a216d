package infer

import (
	"errors"
	"fmt"
	"time"
)

// Code is the machine-readable kind of an Error. Each dialect maps codes to its
// own status and type in one table.
type Code string

const (
	CodeInvalid       Code = "invalid_request"         // 400
	CodeUnsupported   Code = "unsupported"             // 400: a field or value that this build or model does not offer
	CodeContextLength Code = "context_length_exceeded" // 400
	CodeUnauthorized  Code = "invalid_api_key"         // 401
	CodeForbidden     Code = "permission_denied"       // 403
	CodeNotFound      Code = "not_found"               // 404
	CodeModelNotFound Code = "model_not_found"         // 404
	CodeMethod        Code = "method_not_allowed"      // 405
	CodeSlowBody      Code = "request_timeout"         // 408: the body did not arrive in time
	CodeConflict      Code = "conflict"                // 409
	CodeTooLarge      Code = "request_too_large"       // 413
	CodeMediaType     Code = "unsupported_media_type"  // 415
	CodeHeaders       Code = "headers_too_large"       // 431
	CodeRateLimited   Code = "rate_limit_exceeded"     // 429
	CodeQuota         Code = "insufficient_quota"      // 429, never to be retried
	CodeInternal      Code = "internal_error"          // 500
	CodeUpstream      Code = "upstream_error"          // 502
	CodeUnavailable   Code = "unavailable"             // 503: starting, draining, worker lost
	CodeOverloaded    Code = "overloaded"              // 503 with Retry-After: queue full
	CodeTimeout       Code = "timeout"                 // 504
)

// Error is a failure that may be shown to the caller. Message never contains
// prompts, completions, secrets or operator details; those go to Cause, which
// is for logs only.
type Error struct {
	Code       Code
	Param      string // the request field at fault, as the dialect names it
	Message    string // a sentence without full stop
	RetryAfter time.Duration
	// NoRetry makes the dialect tell clients not to repeat the request.
	NoRetry bool
	Cause   error
	// Upstream is set where a provider failed.
	Upstream *UpstreamFault
	// Losses are set where the request was refused for what would be lost.
	Losses []Loss
}

// UpstreamFault says how a provider failed, for whoever decides on the next
// attempt.
type UpstreamFault struct {
	Class FailureClass
	// Unsent is proof that the provider did not begin on the request: it may be
	// sent again, or elsewhere, without doing the work twice.
	Unsent    bool
	Status    int    // HTTP status; 0: none came
	RequestID string // the provider's own
	// RetryAfter is what the provider asked for; it binds its whole quota domain.
	RetryAfter time.Duration
}

// FailureClass is the kind of a provider's failure.
type FailureClass string

const (
	FailConnect   FailureClass = "connect"    // no connection: refused, unresolved, TLS
	FailRateLimit FailureClass = "rate_limit" // 429
	FailQuota     FailureClass = "quota"      // the account is used up: no retry helps
	FailOverload  FailureClass = "overload"   // 503, 529
	FailServer    FailureClass = "server"     // other 5xx
	FailTimeout   FailureClass = "timeout"    // no answer in time
	FailLost      FailureClass = "lost"       // the connection ended before or within the answer
	FailMalformed FailureClass = "malformed"  // an answer that cannot be read
	FailAuth      FailureClass = "auth"       // 401, 403: our credential
	FailRequest   FailureClass = "request"    // other 4xx: the request itself
)

func (e *Error) Error() string {
	if e.Param != "" {
		return fmt.Sprintf("%s: %s: %s", e.Code, e.Param, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Cause }

// Final is e with the word that the request must not be repeated. e itself may
// be shared and is not changed.
func (e *Error) Final() *Error {
	own := *e
	own.NoRetry = true
	return &own
}

// Errorf makes an Error without a parameter.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid makes a CodeInvalid error about a request field.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Unsupported makes a CodeUnsupported error about a request field.
func Unsupported(param, format string, args ...any) *Error {
	return &Error{Code: CodeUnsupported, Param: param, Message: fmt.Sprintf(format, args...)}
}

// AsError returns err as an *Error; anything else becomes CodeInternal with
// err as its cause and a message that gives nothing away.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Message: "the server failed to handle the request", Cause: err}
}
