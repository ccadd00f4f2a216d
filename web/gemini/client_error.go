package gemini

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// status is a google.rpc.Status as the provider wrote it.
type status struct {
	code    int // the HTTP status
	message string
	name    string // of the google.rpc.Code
	reason  string // of ErrorInfo
	retry   time.Duration
	quota   string // ids of the quotas that were hit
}

// readStatus reads the value of the member error.
func readStatus(c *jsonread.Cursor) status {
	var s status
	if k, ok := c.Kind(); ok && k == jsonread.String {
		s.message = c.Str()
		return s
	}
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "code":
			if n, ok := c.Int(); ok && n >= 100 && n < 600 {
				s.code = int(n)
			}
		case "message":
			s.message = c.Str()
		case "status":
			s.name = c.Str()
		case "details":
			for ok := c.Array(); ok && c.More(); {
				s.detail(c)
			}
		default:
			c.Skip()
		}
	}
	return s
}

// detail reads what matters of one of google/rpc/error_details.proto.
func (s *status) detail(c *jsonread.Cursor) {
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "reason":
			s.reason = c.Str()
		case "retryDelay":
			if d, err := strconv.ParseFloat(strings.TrimSuffix(c.Str(), "s"), 64); err == nil && d > 0 && d < 86400 {
				s.retry = time.Duration(d * float64(time.Second))
			}
		case "violations":
			for ok := c.Array(); ok && c.More(); {
				for ok := c.Object(); ok && c.More(); {
					if key := string(c.Key()); key == "quotaId" || key == "subject" {
						s.quota += c.Str() + " "
					} else {
						c.Skip()
					}
				}
			}
		default:
			c.Skip()
		}
	}
}

// decodeError reads an answer that is not 2xx. Streams without alt=sse, and some
// proxies, wrap it in an array.
func decodeError(code int, h http.Header, body []byte) *infer.Error {
	var c jsonread.Cursor
	c.Reset(body)
	var s status
	read := func() {
		for ok := c.Object(); ok && c.More(); {
			if string(c.Key()) == "error" {
				s = readStatus(&c)
			} else {
				c.Skip()
			}
		}
	}
	if k, ok := c.Kind(); ok && k == jsonread.Array {
		for c.Array(); c.More(); {
			read()
		}
	} else {
		read()
	}
	if !c.OK() {
		s = status{}
	}
	return s.error(code, h)
}

// error judges by status and name.
func (s *status) error(code int, h http.Header) *infer.Error {
	e := wire.StatusFault(code, h)
	f := e.Upstream
	if f.RetryAfter == 0 && s.retry > 0 {
		f.RetryAfter = s.retry
		if !e.NoRetry {
			e.RetryAfter = s.retry
		}
	}
	low := strings.ToLower(s.message)
	switch {
	case code == 400 && (s.reason == "API_KEY_INVALID" || strings.Contains(low, "api key not valid") || strings.Contains(low, "api key expired")):
		// Google says 400 for a key that it does not know.
		auth := wire.StatusFault(http.StatusUnauthorized, h)
		auth.Upstream.Status = code
		return auth
	case code == 400 && (strings.Contains(low, "token count") && strings.Contains(low, "exceeds") || strings.Contains(low, "context length") || strings.Contains(low, "input token limit")):
		e.Code, e.Message = infer.CodeContextLength, "the prompt is longer than the model's context at the provider"
	case code == 400 && s.name == "FAILED_PRECONDITION":
		// The account may not use the service: region, or billing.
		e.Code, e.Message, f.Class = infer.CodeUpstream, "the provider does not serve this account", infer.FailAuth
	case code == 400 || code == 404 && s.name == "INVALID_ARGUMENT":
		if q := wire.Quote(s.message); q != "" {
			e.Message = "the provider refused the request: " + q
		}
	case code == 429 && strings.Contains(low, "billing") && s.retry == 0 && !strings.Contains(low, "rate") && !strings.Contains(s.quota, "PerMinute"):
		// The same words stand in answers to too many requests a minute, which say
		// when to come again, or which quota was hit.
		quota := wire.StatusFault(http.StatusPaymentRequired, h)
		quota.Upstream.Status = code
		return quota
	case code == 499: // CANCELLED
		f.Class = infer.FailServer
	}
	return e
}

// inBand is the error for one that came inside a stream or a 2xx answer.
func (s *status) inBand() *infer.Error {
	code := s.code
	if code == 0 {
		code = map[string]int{
			"INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "OUT_OF_RANGE": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403,
			"NOT_FOUND": 404, "RESOURCE_EXHAUSTED": 429, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504,
		}[s.name]
	}
	if code < 400 {
		code = 500
	}
	e := s.error(code, nil)
	e.Upstream.Unsent = false
	return e
}
