package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"

	"hearth/engine/infer"
)

// fault makes the error of a provider's failure. Its message is ours; cause is
// for logs.
func fault(class infer.FailureClass, message string, cause error) *infer.Error {
	e := &infer.Error{Code: infer.CodeUpstream, Message: message, Cause: cause, Upstream: &infer.UpstreamFault{Class: class}}
	switch class {
	case infer.FailTimeout:
		e.Code = infer.CodeTimeout
	case infer.FailAuth:
		e.NoRetry = true
	}
	return e
}

// fill puts what is known of the exchange into a fault.
func (a *attempt) fill(e *infer.Error) *infer.Error {
	if a.status != 0 {
		e.Upstream.Status = a.status
	}
	if e.Upstream.RequestID == "" {
		e.Upstream.RequestID = a.requestID
	}
	a.scrub(e)
	return e
}

// malformed is the error for an answer that cannot be read.
func (a *attempt) malformed(got string, cause error) *infer.Error {
	return a.fill(fault(infer.FailMalformed, "cannot read the provider's answer: got "+got, cause))
}

// ended is the error for an attempt that our side has ended; nil if it has not.
func (a *attempt) ended() *infer.Error {
	if a.ctx.Err() == nil {
		return nil
	}
	switch cause := context.Cause(a.ctx); {
	case errors.Is(cause, errFirstByte), errors.Is(cause, errSilent), errors.Is(cause, errDrained), errors.Is(cause, context.DeadlineExceeded):
		return fault(infer.FailTimeout, "the provider did not answer in time", cause)
	case errors.Is(cause, errClosed):
		e := fault(infer.FailLost, "the server is shutting down", cause)
		e.Code = infer.CodeUnavailable
		return e
	default:
		return fault(infer.FailLost, "the request was ended", cause)
	}
}

// broken is the error for an exchange without the head of an answer.
func (a *attempt) broken(err error) *infer.Error {
	var own *infer.Error
	unsent := a.unsent()
	e := a.ended()
	switch {
	case e != nil:
	case errors.As(err, &own) && own.Upstream != nil:
		return own // of the credential: nothing was sent
	case a.conn == nil && !a.headed.Load() && isTimeout(err):
		e = fault(infer.FailConnect, "the provider could not be reached in time", err)
	case unsent && !a.reused:
		e = fault(infer.FailConnect, "the provider could not be reached", err)
	case unreadable(err):
		e = fault(infer.FailMalformed, "cannot read the provider's answer: got something that is not HTTP", err)
	default:
		e = fault(infer.FailLost, "the connection to the provider was lost before its answer", err)
	}
	e.Upstream.Unsent = unsent
	return a.fill(e)
}

// cut is the error for an answer that ended too early.
func (a *attempt) cut(err error) *infer.Error {
	if e := a.ended(); e != nil {
		return a.fill(e)
	}
	var bad *frameError
	if errors.As(err, &bad) {
		return a.malformed("a body that cannot be decoded", err)
	}
	return a.fill(fault(infer.FailLost, "the connection to the provider was lost within its answer", err))
}

// refused completes the error of a status other than 2xx.
func (a *attempt) refused(e *infer.Error, resp *http.Response) *infer.Error {
	if e == nil {
		e = fault(infer.FailServer, "the provider failed to answer", nil)
	}
	if e.Upstream == nil {
		e.Upstream = &infer.UpstreamFault{Class: infer.FailServer}
	}
	f := e.Upstream
	f.Unsent = provesRefusal(resp.StatusCode)
	f.RetryAfter = max(f.RetryAfter, retryAfter(resp.Header, a.u.o.Now()))
	if f.Class == infer.FailRateLimit || f.Class == infer.FailOverload {
		e.RetryAfter = max(e.RetryAfter, f.RetryAfter)
	}
	if f.Class == infer.FailAuth && a.u.auth != nil {
		a.u.auth.refused()
	}
	return a.fill(e)
}

// provesRefusal lists the statuses that say that the provider turned the request
// away before it worked on it.
//
//   - 429, 503 and 529 are answers of admission: no room now.
//   - 400, 401, 402, 403, 404, 405, 406, 411, 413, 414, 415, 421, 422, 425, 426,
//     428, 431 and 451 are judgements on the request or its sender, made before
//     any work.
//
// 408 and 499 are not: providers use them for work that took too long. 409 and
// 424 are not: they tell of other work, or of a model that failed at it. Of the
// 5xx, 500, 502 and 504 come from anywhere in the midst of work.
func provesRefusal(status int) bool {
	switch status {
	case 429, 503, 529:
		return true
	case 408, 409, 410, 412, 416, 417, 423, 424, 499:
		return false
	}
	return status >= 400 && status < 500
}

// told completes an error that the decoder of the dialect gave.
func (x *exchange) told(err error) error {
	e := infer.AsError(err)
	if e.Upstream == nil {
		m := x.malformed("what is not the provider's dialect", err)
		if e.Code != infer.CodeInternal && e.Code != infer.CodeInvalid {
			m.Message = e.Message
		}
		return m
	}
	// Before anything of an answer has come, no room is the same word as the
	// status 429 or 529 would be. Afterwards nothing proves that no work was done.
	turnedAway := e.Upstream.Class == infer.FailOverload || e.Upstream.Class == infer.FailRateLimit || e.Upstream.Class == infer.FailQuota
	e.Upstream.Unsent = turnedAway && !x.emitted
	if e.Upstream.Class == infer.FailRateLimit || e.Upstream.Class == infer.FailOverload {
		e.RetryAfter = max(e.RetryAfter, e.Upstream.RetryAfter)
	}
	return x.fill(e)
}

// unreadable completes an error of reading a whole answer.
func (a *attempt) unreadable(err error) error {
	return (&exchange{attempt: a}).told(err)
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// unreadable says that what came in place of an answer is no HTTP.
func unreadable(err error) bool {
	var head tls.RecordHeaderError
	if errors.As(err, &head) {
		return true
	}
	text := err.Error() // net/http has no types for these
	for _, part := range []string{"malformed HTTP", "malformed MIME", "server response headers exceeded", "invalid Content-Length", "unsupported transfer encoding", "too many transfer encodings"} {
		if containsFold(text, part) {
			return true
		}
	}
	return false
}
