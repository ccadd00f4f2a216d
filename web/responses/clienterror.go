package responses

import (
	"net/http"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// told is an error as a provider wrote it, in any of the places where this API
// has one: the body of a failed request, the error event, a failed response.
type told struct{ message, kind, code, param string }

// DecodeError implements wire.Client.
func (Client) DecodeError(status int, h http.Header, body []byte) *infer.Error {
	e := wire.StatusFault(status, h)
	var c jsonread.Cursor
	c.Reset(body)
	var t told
	found := false
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "error":
			t = readTold(&c)
			found = true
		default:
			c.Skip()
		}
	}
	if !c.End() || !found {
		return e
	}
	return t.apply(e)
}

// readTold reads an error object, or a string in its place.
func readTold(c *jsonread.Cursor) told {
	var t told
	if k, ok := c.Kind(); ok && k == jsonread.String {
		t.message = c.Str()
		return t
	}
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "message":
			t.message = c.Str()
		case "type":
			t.kind = c.Str()
		case "code":
			t.code = c.Str()
		case "param":
			t.param = c.Str()
		default:
			c.Skip()
		}
	}
	return t
}

// apply makes the error of a status more exact. Only what a provider says about
// the request itself is quoted.
func (t *told) apply(e *infer.Error) *infer.Error {
	switch {
	case t.quota():
		e.Code, e.NoRetry, e.RetryAfter = infer.CodeQuota, true, 0
		e.Upstream.Class, e.Message = infer.FailQuota, "the account at the provider is used up"
	case e.Upstream.Class == infer.FailRequest && e.Code != infer.CodeUpstream:
		if t.tooLong() {
			e.Code = infer.CodeContextLength
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

func (t *told) quota() bool {
	for _, s := range []string{t.code, t.kind} {
		switch s {
		case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active":
			return true
		}
	}
	return false
}

func (t *told) tooLong() bool {
	if t.code == "context_length_exceeded" || t.code == "string_above_max_length" {
		return true
	}
	m := strings.ToLower(t.message)
	return strings.Contains(m, "context window") || strings.Contains(m, "maximum context length")
}

// inBand is the error that a provider told within an answer. Some of the work
// may have been done.
func (t *told) inBand() *infer.Error {
	status := 500
	switch t.code {
	case "rate_limit_exceeded":
		status = 429
	case "server_is_overloaded", "slow_down", "overloaded":
		status = 503
	case "insufficient_quota":
		status = 402
	case "context_length_exceeded", "invalid_prompt", "bio_policy", "misalignment_policy_violation", "invalid_image", "invalid_image_format",
		"invalid_base64_image", "invalid_image_url", "image_too_large", "image_too_small", "image_parse_error",
		"image_content_policy_violation", "invalid_image_mode", "image_file_too_large", "unsupported_image_media_type", "empty_image_file",
		"failed_to_download_image", "image_file_not_found":
		status = 400
	}
	if t.kind == "invalid_request_error" {
		status = 400
	}
	e := wire.StatusFault(status, nil)
	e.Upstream.Status, e.Upstream.Unsent = 200, false
	return t.apply(e)
}
