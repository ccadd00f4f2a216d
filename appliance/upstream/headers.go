package upstream

import (
	"context"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"hearth/policy"
	"hearth/web/wire"
)

// never are the headers that no configuration and no caller may set on a
// request to a provider: credentials, and what belongs to one connection.
var never = []string{
	"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Ocp-Apim-Subscription-Key", "Cookie", "Cookie2", "Proxy-Authorization",
	"Proxy-Authenticate", "X-Amz-Security-Token", "X-Amz-Date", "X-Amz-Content-Sha256", "Host", "Content-Length", "Content-Type",
	"Content-Encoding", "Transfer-Encoding", "Accept-Encoding", "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Upgrade",
	"Expect", "Range", "Idempotency-Key", "X-Idempotency-Key", "X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "Traceparent", "Tracestate",
}

// fixedHeaders are those that every request carries.
func fixedHeaders(c *policy.UpstreamConfig, version string) (http.Header, error) {
	h := http.Header{
		"User-Agent":      {"hearth/" + version},
		"Content-Type":    {"application/json"},
		"Accept-Encoding": {"identity"},
	}
	if len(c.Headers) > 64 {
		return nil, fmt.Errorf("cannot send %d headers: want at most 64", len(c.Headers))
	}
	for name, value := range c.Headers {
		key := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !validName(name) || !validValue(value):
			return nil, fmt.Errorf("cannot send header %.64q: its name or value is not allowed in HTTP", name)
		case slices.Contains(never, key):
			return nil, fmt.Errorf("cannot send header %.64q: it is set by the credential or by the connection", name)
		}
		h[key] = []string{value}
	}
	return h, nil
}

// header makes the head of one request: ours, the dialect's, and those of the
// caller's that belong to the dialect.
func (u *Upstream) header(ctx context.Context, client wire.Client, out *wire.Outgoing, w caller) http.Header {
	h := make(http.Header, len(u.fixed)+len(out.Header)+4)
	for k, v := range u.fixed {
		h[k] = v
	}
	h["Accept"] = accepts[wire.FramingSSE]
	if !out.Stream {
		h["Accept"] = acceptWhole
	} else if f := u.framing(client); f != wire.FramingSSE {
		h["Accept"] = accepts[f]
	}
	for k, v := range out.Header {
		h[k] = v
	}
	for k, v := range w {
		if _, taken := h[k]; !taken && !slices.Contains(never, k) {
			h[k] = v
		}
	}
	if v := u.profile.versionHeader; v != "" && u.c.APIVersion != "" {
		h[v] = []string{u.c.APIVersion}
	}
	if t, ok := ctx.Value(traceKey{}).(trace); ok {
		h["Traceparent"] = []string{t.parent}
		if t.state != "" {
			h["Tracestate"] = []string{t.state}
		}
	}
	return h
}

// caller are the headers of the caller that belong to the dialect.
type caller = textproto.MIMEHeader

var (
	acceptWhole = []string{"application/json"}
	accepts     = map[wire.Framing][]string{
		wire.FramingSSE:         {"text/event-stream, application/json"},
		wire.FramingNDJSON:      {"application/x-ndjson, application/json"},
		wire.FramingEventStream: {"application/vnd.amazon.eventstream"},
	}
)

// framing is how a stream in a client's dialect is framed here.
func (u *Upstream) framing(c wire.Client) wire.Framing {
	if f, ok := u.profile.framing[c.Dialect()]; ok {
		return f
	}
	if f, ok := c.(wire.Framer); ok {
		return f.Framing()
	}
	return wire.FramingSSE
}

type traceKey struct{}

type trace struct{ parent, state string }

// WithTrace gives requests made under ctx the W3C trace headers to be sent to
// the provider. An empty parent sends none.
func WithTrace(ctx context.Context, parent, state string) context.Context {
	if parent == "" || !validValue(parent) || !validValue(state) {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, trace{parent, state})
}

// requestIDs are the headers in which providers name a request, best first.
var requestIDs = []string{
	"X-Request-Id", "Request-Id", "X-Amzn-Requestid", "Apim-Request-Id", "X-Ms-Request-Id", "X-Goog-Request-Id", "X-Generation-Id", "X-Litellm-Call-Id", "Cf-Ray",
}

// requestID is the provider's id of a request: printable ASCII, at most 200
// bytes.
func requestID(h http.Header) string {
	for _, k := range requestIDs {
		if v := h[k]; len(v) > 0 && v[0] != "" && len(v[0]) <= 200 && !strings.ContainsFunc(v[0], notGraphic) {
			return v[0]
		}
	}
	return ""
}

func notGraphic(r rune) bool { return r <= ' ' || r >= 0x7f }

// validName holds a field name to RFC 9110, section 5.1: a token.
func validName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return notGraphic(r) || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}

// validValue holds a field value to visible ASCII, spaces and tabs.
func validValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\t' && (r < ' ' || r >= 0x7f) })
}
