package web

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"hearth/engine/infer"
)

// maxRetryAfter is the longest wait that both SDK families obey.
const maxRetryAfter = 60 * time.Second

// retryHeaders tells the SDKs what to do next. All of them repeat 408, 409, 429
// and 5xx twice on their own unless x-should-retry says otherwise.
func (x *exchange) retryHeaders(e *infer.Error) {
	h := x.w.Header()
	retry := mayRetry(e)
	h.Set("X-Should-Retry", strconv.FormatBool(retry))
	if !retry {
		return
	}
	wait := e.RetryAfter
	if wait <= 0 {
		wait = time.Second
	}
	wait = min(wait, maxRetryAfter)
	h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
	h.Set("Retry-After-Ms", strconv.FormatInt(max(1, wait.Milliseconds()), 10))
}

// mayRetry says whether the same request may succeed later without costing
// twice. A failure of our own is not repeated: its outcome is not known.
func mayRetry(e *infer.Error) bool {
	if e.NoRetry {
		return false
	}
	switch e.Code {
	case infer.CodeRateLimited, infer.CodeUnavailable, infer.CodeOverloaded, infer.CodeSlowBody, infer.CodeUpstream, infer.CodeTimeout:
		return true
	case infer.CodeConflict:
		return e.RetryAfter > 0 // what is in the way will end
	}
	return false
}

// maxTimeout is the longest time that a caller can ask to wait.
const maxTimeout = 24 * time.Hour

// timeoutHeader reads how long the caller will wait.
func timeoutHeader(h http.Header) (time.Duration, *infer.Error) {
	v := h.Get("X-Hearth-Timeout-Ms")
	if v == "" {
		return 0, nil
	}
	ms, err := strconv.ParseInt(v, 10, 64)
	if err != nil || ms < 1 || ms > maxTimeout.Milliseconds() {
		return 0, infer.Errorf(infer.CodeInvalid, "cannot use x-hearth-timeout-ms: wanted a whole number from 1 to %d", maxTimeout.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// set puts a header that has one value; name is in its canonical form. Most
// answers have some twenty, whose values share one piece of memory.
func (x *exchange) set(name, value string) {
	if len(x.values) == cap(x.values) {
		x.values = make([]string, 0, 24)
	}
	n := len(x.values)
	x.values = append(x.values, value)
	x.w.Header()[name] = x.values[n : n+1 : n+1]
}

// answerHeaders sets what is known once the answer begins.
func (x *exchange) answerHeaders(m infer.Served) {
	g := x.grant
	x.limits = g.Limits
	contract := g.Contract
	if contract == "" {
		contract = m.Fingerprint
	}
	if contract != "" {
		x.set("X-Hearth-Contract", contract)
	}
	x.routeHeaders()
	x.lossHeader(g.Losses)
}

// routeHeaders tell what serves the request, as the operator has named it.
func (x *exchange) routeHeaders() {
	if x.grant.Route != "" {
		x.set("X-Hearth-Route", headerText(x.grant.Route))
	}
	if x.grant.Upstream != "" {
		x.set("X-Hearth-Upstream", headerText(x.grant.Upstream))
	}
}

// maxLossHeader bounds x-hearth-loss in bytes. The ledger has all losses.
const maxLossHeader = 2048

// lossHeader tells the fields that do not reach the target as they were meant:
// x-hearth-loss: messages[1].name=dropped, thinking=emulated.
func (x *exchange) lossHeader(losses []infer.Loss) {
	if len(losses) == 0 {
		return
	}
	var b strings.Builder
	for i, l := range losses {
		entry := headerText(l.Path) + "=" + string(l.Class)
		if b.Len()+len(entry) > maxLossHeader {
			fmt.Fprintf(&b, ", +%d", len(losses)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(entry)
	}
	x.w.Header().Set("X-Hearth-Loss", b.String())
}

// headerText makes a name fit for a list in a header: what is not a visible
// ASCII character, and what separates entries, is percent-encoded.
func headerText(s string) string {
	const hex = "0123456789ABCDEF"
	clean := true
	for i := 0; i < len(s) && clean; i++ {
		clean = s[i] > ' ' && s[i] < 0x7f && s[i] != ',' && s[i] != '=' && s[i] != '%'
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; c > ' ' && c < 0x7f && c != ',' && c != '=' && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// lastHeaders adds what can change until the head is sent: the state of the
// limits, in OpenAI's names and in Anthropic's to its clients, and the time.
func (x *exchange) lastHeaders(took time.Duration) {
	x.set("Openai-Processing-Ms", strconv.FormatInt(took.Milliseconds(), 10))
	for i := range x.limits {
		l := &x.limits[i]
		switch l.Kind {
		case "requests":
			x.set("X-Ratelimit-Limit-Requests", strconv.Itoa(l.Limit))
			x.set("X-Ratelimit-Remaining-Requests", strconv.Itoa(max(0, l.Remaining)))
			x.set("X-Ratelimit-Reset-Requests", resetText(l.Reset))
		case "tokens":
			x.set("X-Ratelimit-Limit-Tokens", strconv.Itoa(l.Limit))
			x.set("X-Ratelimit-Remaining-Tokens", strconv.Itoa(max(0, l.Remaining)))
			x.set("X-Ratelimit-Reset-Tokens", resetText(l.Reset))
		default:
			continue
		}
		if x.route.dialect == "anthropic" {
			anthropicLimits(x.w.Header(), *l, x.s.opt.Now())
		}
	}
}

// resetText writes a duration as OpenAI does: 12ms, 1.5s, 6m0s.
func resetText(d time.Duration) string {
	d = max(0, d)
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// maxCredential bounds a credential in bytes: tokens of issuers that list groups
// have several thousand.
const maxCredential = 12 << 10

// credential reads a key from Authorization: Bearer, x-api-key or, as Google's
// clients write it, x-goog-api-key; every route takes all alike. Two different
// keys are refused: which of them counts must not depend on who reads.
func credential(h http.Header) (key string, isBearer bool, e *infer.Error) {
	auth := h.Values("Authorization")
	if len(auth) > 1 || len(h.Values("X-Api-Key")) > 1 || len(h.Values("X-Goog-Api-Key")) > 1 {
		return "", false, infer.Errorf(infer.CodeUnauthorized, "cannot authenticate: got more than one credential")
	}
	bearer := ""
	if len(auth) == 1 {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(auth[0]), " ")
		if auth[0] != "" && !strings.EqualFold(scheme, "Bearer") {
			return "", false, infer.Errorf(infer.CodeUnauthorized, "cannot authenticate: wanted Authorization: Bearer with an API key")
		}
		bearer = strings.TrimSpace(rest)
	}
	for _, name := range [...]string{"X-Api-Key", "X-Goog-Api-Key"} {
		switch k := strings.TrimSpace(h.Get(name)); {
		case k == "" || k == key:
		case key != "":
			return "", false, infer.Errorf(infer.CodeUnauthorized, "cannot authenticate: x-api-key and x-goog-api-key differ")
		default:
			key = k
		}
	}
	if bearer != "" && key != "" && bearer != key {
		return "", false, infer.Errorf(infer.CodeUnauthorized, "cannot authenticate: Authorization and the other key header differ")
	}
	if max(len(bearer), len(key)) > maxCredential {
		return "", false, infer.Errorf(infer.CodeUnauthorized, "cannot authenticate: the credential is too long")
	}
	return cmp.Or(bearer, key), bearer != "", nil
}

// traceParent returns a valid W3C traceparent header, or nothing: a broken one
// starts a new trace (Trace Context, section 3.2). Later versions may carry
// more fields; what is known of them is passed on.
func traceParent(h http.Header) string {
	v := h.Values("Traceparent")
	if len(v) != 1 || len(v[0]) < 55 {
		return ""
	}
	s := v[0]
	if s[2] != '-' || s[35] != '-' || s[52] != '-' || !lowerHex(s[:2]) || s[:2] == "ff" {
		return ""
	}
	trace, span, flags := s[3:35], s[36:52], s[53:55]
	if !lowerHex(trace) || !lowerHex(span) || !lowerHex(flags) || strings.Trim(trace, "0") == "" || strings.Trim(span, "0") == "" {
		return ""
	}
	if len(s) > 55 && (s[:2] == "00" || s[55] != '-') {
		return ""
	}
	return "00" + s[2:55]
}

func lowerHex(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}

// traceState is passed on with a valid parent, if it has a sane size.
func traceState(h http.Header) string {
	s := strings.Join(h.Values("Tracestate"), ",")
	if len(s) > 512 {
		return ""
	}
	return s
}

// onLoopback tells whether the peer is this machine itself, and not a proxy on
// it that speaks for somebody else.
func onLoopback(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	return peerOnLoopback(r)
}

// peerOnLoopback tells whether the connection comes from this machine, be it
// from a proxy.
func peerOnLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
