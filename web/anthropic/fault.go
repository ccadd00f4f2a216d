package anthropic

import (
	"errors"
	"net/http"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// statusOf is the HTTP status that goes with an error type (API reference,
// "Errors"), for errors that come inside a stream.
var statusOf = map[string]int{
	"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
	"request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529,
}

// fault is what an error envelope says.
type fault struct {
	kind    string
	message string
	id      string // request_id
}

// readFault reads {"type":"error","error":{type,message},"request_id"}, and the
// forms of gateways that leave the outer type out.
func readFault(body []byte) (f fault, ok bool) {
	var c jsonread.Cursor
	c.Reset(body)
	for in := c.Object(); in && c.More(); {
		switch string(c.Key()) {
		case "error":
			if k, have := c.Kind(); have && k == jsonread.String {
				f.message, ok = c.Str(), true
				continue
			}
			for in := c.Object(); in && c.More(); {
				ok = true
				switch string(c.Key()) {
				case "type":
					f.kind = c.Str()
				case "message":
					f.message = c.Str()
				default:
					c.Skip()
				}
			}
		case "request_id":
			f.id = c.Str()
		case "message": // Bedrock and some gateways: {"message":…}
			f.message = c.Str()
		default:
			c.Skip()
		}
	}
	if !c.End() {
		return fault{}, false
	}
	return f, ok || f.message != ""
}

// DecodeError implements wire.Client.
func (Client) DecodeError(status int, h http.Header, body []byte) *infer.Error {
	e := wire.StatusFault(status, h)
	if f, ok := readFault(body); ok {
		f.apply(e)
	}
	return e
}

// inBand is an error that came after status 200: the provider had begun.
func (f *fault) inBand() *infer.Error {
	status := statusOf[f.kind]
	if status == 0 {
		status = 500
	}
	e := wire.StatusFault(status, nil)
	e.Upstream.Status, e.Upstream.Unsent = 200, false
	f.apply(e)
	return e
}

// apply makes the error of a status more exact by what the body says. Only what
// a provider says about the request itself is quoted.
func (f *fault) apply(e *infer.Error) {
	if e.Upstream.RequestID == "" && len(f.id) <= 128 && wire.Quote(f.id) == f.id {
		e.Upstream.RequestID = f.id
	}
	low := strings.ToLower(f.message)
	switch {
	case f.kind == "billing_error", strings.Contains(low, "credit balance is too low"):
		// An account without credit is told as an invalid request.
		e.Code, e.NoRetry, e.RetryAfter = infer.CodeQuota, true, 0
		e.Upstream.Class, e.Message = infer.FailQuota, "the account at the provider is used up"
		return
	case f.kind == "overloaded_error" && e.Upstream.Class == infer.FailServer:
		e.Code, e.Upstream.Class, e.Message = infer.CodeOverloaded, infer.FailOverload, "the provider is overloaded"
		return
	case e.Upstream.Class != infer.FailRequest || e.Code == infer.CodeUpstream:
		return
	case strings.Contains(low, "prompt is too long") || strings.Contains(low, "exceed context limit"):
		e.Code = infer.CodeContextLength
	}
	if q := wire.Quote(f.message); q != "" {
		e.Message = "the provider refused the request: " + q
	}
}

// malformed is the error for an answer that cannot be read.
func malformed(why string) *infer.Error { return wire.Malformed(errors.New(why)) }
