package wire

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"hearth/engine/infer"
)

// StatusFault is the error for an answer with an HTTP status that is not 2xx,
// before a dialect's body is looked at: its Upstream is complete, its Message in
// our own words.
func StatusFault(status int, h http.Header) *infer.Error {
	e := &infer.Error{Upstream: &infer.UpstreamFault{Status: status, RequestID: UpstreamID(h)}}
	f := e.Upstream
	set := func(code infer.Code, class infer.FailureClass, unsent, noRetry bool, msg string) {
		e.Code, e.NoRetry, e.Message = code, noRetry, msg
		f.Class, f.Unsent = class, unsent
	}
	switch {
	case status == 400 || status == 422:
		set(infer.CodeInvalid, infer.FailRequest, true, true, "the provider refused the request as invalid")
	case status == 401 || status == 403:
		set(infer.CodeUpstream, infer.FailAuth, true, true, "the provider refused this server's credential")
	case status == 402:
		set(infer.CodeQuota, infer.FailQuota, true, true, "the account at the provider is used up")
	case status == 404 || status == 405 || status == 410:
		set(infer.CodeUpstream, infer.FailRequest, true, true, "the provider does not know the model or the route")
	case status == 408:
		set(infer.CodeUpstream, infer.FailTimeout, false, false, "the provider gave up waiting for the request")
	case status == 413:
		set(infer.CodeTooLarge, infer.FailRequest, true, true, "the request is too large for the provider")
	case status == 429:
		set(infer.CodeRateLimited, infer.FailRateLimit, true, false, "the provider limits the rate of requests")
	case status == 503 || status == 529:
		set(infer.CodeOverloaded, infer.FailOverload, true, false, "the provider is overloaded")
	case status == 504 || status == 524:
		set(infer.CodeTimeout, infer.FailTimeout, false, false, "the provider did not answer in time")
	case status >= 500:
		set(infer.CodeUpstream, infer.FailServer, false, false, "the provider failed")
	case status >= 400:
		set(infer.CodeUpstream, infer.FailRequest, true, true, "the provider refused the request")
	default:
		set(infer.CodeUpstream, infer.FailMalformed, false, true, "the provider answered with something else than an answer")
	}
	f.RetryAfter = RetryAfter(h, time.Now())
	if !e.NoRetry {
		e.RetryAfter = f.RetryAfter
	}
	return e
}

// Malformed is the error for an answer that cannot be read. cause is for logs
// and must not quote the answer.
func Malformed(cause error) *infer.Error {
	return &infer.Error{
		Code: infer.CodeUpstream, Message: "the provider's answer cannot be read", Cause: cause,
		Upstream: &infer.UpstreamFault{Class: infer.FailMalformed},
	}
}

// Lost is the error for an answer that ended before it was complete.
func Lost(cause error) *infer.Error {
	return &infer.Error{
		Code: infer.CodeUpstream, Message: "the provider's answer broke off before its end", Cause: cause,
		Upstream: &infer.UpstreamFault{Class: infer.FailLost},
	}
}

// maxWait is the longest wait that is believed.
const maxWait = 24 * time.Hour

// RetryAfter reads how long a provider wants to be left alone: retry-after-ms,
// or Retry-After in seconds or as a date (RFC 9110, section 10.2.3). 0: it did
// not say.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil && ms > 0 {
		return bounded(ms / 1000)
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return bounded(s)
	}
	if t, err := http.ParseTime(v); err == nil {
		return bounded(t.Sub(now).Seconds())
	}
	return 0
}

func bounded(seconds float64) time.Duration {
	if math.IsNaN(seconds) || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, maxWait.Seconds()) * float64(time.Second))
}

// UpstreamID is the provider's own id of a request, from whichever header it
// uses; empty if there is none that could be shown.
func UpstreamID(h http.Header) string {
	for _, name := range []string{"X-Request-Id", "Request-Id", "Apim-Request-Id", "X-Ms-Request-Id", "X-Amzn-Requestid", "X-Goog-Request-Id"} {
		if v := h.Get(name); v != "" && len(v) <= 128 && printable(v) {
			return v
		}
	}
	return ""
}

func printable(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// maxQuote is how much of a provider's message is passed on, in bytes.
const maxQuote = 400

// Quote makes a provider's message about a request fit to be shown to the one
// who made the request: one line, bounded, without markup and without any word
// that looks like an address, a path or a secret. What is left of a message
// that is mostly such words is nothing.
func Quote(msg string) string {
	msg = strings.TrimSpace(msg)
	low := strings.ToLower(msg)
	if msg == "" || !utf8.ValidString(msg) || strings.Contains(low, "<html") || strings.Contains(low, "<!doctype") || strings.Contains(low, "traceback (") {
		return ""
	}
	var b strings.Builder
	dropped, kept := 0, 0
	for _, w := range strings.FieldsFunc(msg, func(r rune) bool { return r <= ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 }) {
		if b.Len()+len(w) > maxQuote {
			b.WriteString(" …")
			break
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if secretive(w) {
			dropped++
			b.WriteString("…")
			continue
		}
		kept++
		b.WriteString(w)
	}
	if kept <= dropped {
		return ""
	}
	return strings.TrimSuffix(b.String(), ".")
}

// secretive tells whether a word might be an address, a path or a key.
func secretive(w string) bool {
	w = strings.Trim(w, ".,;:'\"`()[]{}<>")
	low := strings.ToLower(w)
	switch {
	case strings.Contains(w, "://"), strings.Count(w, "/") >= 2, strings.HasPrefix(w, "/") && len(w) > 1, strings.Contains(w, `\`) && len(w) > 3:
		return true
	case strings.Contains(low, "key-"), strings.HasPrefix(low, "sk-"), strings.HasPrefix(low, "bearer"), strings.Contains(w, "@"):
		return true
	}
	letters, digits, dots, alone := 0, 0, 0, true
	for i := 0; i < len(w); i++ {
		switch c := w[i]; {
		case '0' <= c && c <= '9':
			digits++
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			letters++
		case c == '.' || c == ':':
			dots++
		case c == '-' || c == '_' || c == '+' || c == '=':
		default:
			alone = false
		}
	}
	if letters == 0 && dots >= 3 && digits >= 4 {
		return true // an IP address
	}
	if host, port, ok := strings.Cut(w, ":"); ok && host != "" && port != "" && strings.Trim(port, "0123456789") == "" {
		return strings.ContainsAny(host, ".") || low == "localhost:"+port // host:port
	}
	// A word of this length with digits in it is more likely a token than a name.
	return alone && len(w) >= 24 && digits >= 4 && letters >= 4
}
