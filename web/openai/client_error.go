package openai

import (
	"net/http"
	"strconv"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// told is an error object as a provider wrote it.
type told struct {
	message, kind, code, param string
	status                     int // some repeat the HTTP status as a numeric code
}

// readTold reads the value of an "error" member: OpenAI's object, or a string
// as llama.cpp's and TGI's older forms have it.
func readTold(c *jsonread.Cursor) told {
	var t told
	if k, ok := c.Kind(); ok && k == jsonread.String {
		t.message = c.Str()
		return t
	}
	for ok := c.Object(); ok && c.More(); {
		key := string(c.Key())
		t.member(c, key)
	}
	return t
}

func (t *told) member(c *jsonread.Cursor, key string) {
	switch key {
	case "message", "detail":
		t.message = c.Str()
	case "type", "error_type":
		t.kind = c.Str()
	case "param":
		t.param = c.Str()
	case "code", "status", "http_status":
		k, ok := c.Kind()
		if !ok {
			return
		}
		if k == jsonread.Number {
			if n, ok := c.Int(); ok && n >= 100 && n < 600 {
				t.status = int(n)
			}
			return
		}
		s := c.Str()
		if n, err := strconv.Atoi(s); err == nil && n >= 100 && n < 600 {
			t.status = n
		} else if key == "code" {
			t.code = s
		}
	default:
		c.Skip()
	}
}

// readErrorBody reads the whole body of a failed answer. ok is false where
// nothing in it tells of an error.
func readErrorBody(body []byte) (t told, ok bool) {
	var c jsonread.Cursor
	c.Reset(body)
	if k, have := c.Kind(); !have || k != jsonread.Object {
		return t, false
	}
	var flat told
	object := false
	for c.Object(); c.More(); {
		switch key := string(c.Key()); key {
		case "error":
			if truthy(&c) {
				t, ok = readTold(&c), true
			} else {
				c.Skip()
			}
		case "object": // vLLM's older form is flat: {"object":"error","message",…}
			object = c.Str() == "error"
		default:
			flat.member(&c, key)
		}
	}
	if !c.End() {
		return told{}, false
	}
	if !ok && (object || flat.message != "") {
		return flat, true
	}
	if t.kind == "" {
		t.kind = flat.kind
	}
	return t, ok
}

// truthy tells whether the next value would make a client raise an error.
func truthy(c *jsonread.Cursor) bool {
	k, ok := c.Kind()
	if !ok {
		return false
	}
	here := *c
	raw := string(here.Raw())
	switch k {
	case jsonread.Null:
		return false
	case jsonread.Bool:
		return raw == "true"
	case jsonread.String:
		return raw != `""`
	case jsonread.Number:
		return raw != "0"
	}
	return true
}

// tooLong tells whether a provider complains about the length of the prompt.
func (t *told) tooLong() bool {
	switch t.code {
	case "context_length_exceeded", "exceed_context_size_error", "string_above_max_length":
		return true
	}
	if t.kind == "exceed_context_size_error" {
		return true
	}
	m := strings.ToLower(t.message)
	for _, s := range []string{"maximum context length", "context length exceeded", "exceeds the context", "context window", "exceed context size", "prompt is too long", "longer than the model's context", "maximum input length", "`inputs` must have less than"} {
		if strings.Contains(m, s) {
			return true
		}
	}
	return false
}

// quota tells whether the account is used up: a wait helps nothing.
func (t *told) quota() bool {
	for _, s := range []string{t.code, t.kind} {
		switch s {
		case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_user_quota", "budget_exceeded", "payment_required", "insufficient_credits":
			return true
		}
	}
	return false
}

// apply makes the error of a status more exact by what the body says. Only what
// a provider says about the request itself is quoted.
func (t *told) apply(e *infer.Error) *infer.Error {
	switch {
	case t.quota():
		e.Code, e.NoRetry, e.RetryAfter = infer.CodeQuota, true, 0
		e.Upstream.Class, e.Message = infer.FailQuota, "the account at the provider is used up"
	case e.Upstream.Class == infer.FailRequest:
		if (e.Code == infer.CodeInvalid || e.Code == infer.CodeTooLarge) && t.tooLong() {
			e.Code = infer.CodeContextLength
		}
		if t.code == "content_filter" || t.code == "content_policy_violation" {
			e.Code = infer.CodeInvalid
		}
		if e.Code == infer.CodeUpstream {
			break // a route or model that is not there is the operator's matter
		}
		if q := wire.Quote(t.message); q != "" {
			e.Message = "the provider refused the request: " + q
		}
		if len(t.param) <= 128 && wire.Quote(t.param) == t.param {
			e.Param = t.param
		}
	}
	return e
}

// decodeError reads an answer that is not 2xx.
func decodeError(status int, h http.Header, body []byte) *infer.Error {
	e := wire.StatusFault(status, h)
	if t, ok := readErrorBody(body); ok {
		return t.apply(e)
	}
	return e
}

// statusOf is the status that a kind or code of error goes with where none was
// sent: inside a stream, or under a 200.
func (t *told) statusOf() int {
	if t.status >= 400 {
		return t.status
	}
	for _, s := range []string{t.kind, t.code} {
		switch s {
		case "invalid_request_error", "BadRequestError", "bad_request", "validation", "context_length_exceeded", "exceed_context_size_error":
			return 400
		case "authentication_error", "AuthenticationError", "invalid_api_key", "permission_error":
			return 401
		case "insufficient_quota":
			return 402
		case "not_found_error", "NotFoundError", "model_not_found":
			return 404
		case "rate_limit_error", "RateLimitError", "rate_limit_exceeded", "requests", "tokens":
			return 429
		case "overloaded_error", "overloaded", "service_unavailable", "ServiceUnavailableError", "unavailable_error", "engine_overloaded_error", "server_overloaded":
			return 503
		case "timeout", "TimeoutError", "timeout_error":
			return 504
		}
	}
	return 500
}

// inBand is the error that a provider told inside a stream or under a 200. Some
// of the work may have been done.
func (t *told) inBand() *infer.Error {
	e := wire.StatusFault(t.statusOf(), nil)
	e.Upstream.Status = 200
	e.Upstream.Unsent = false
	return t.apply(e)
}
