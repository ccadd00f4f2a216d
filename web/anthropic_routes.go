package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/web/anthropic"
)

// anthropicRoutes are the routes of the Messages format. SDKs put /v1 in front
// by themselves; some base URLs end in it already.
func (s *Server) anthropicRoutes(t *routeTable) {
	add := func(method, path string, handle func(*exchange)) {
		r := &route{pattern: method + " /v1" + path, dialect: "anthropic", handle: handle, encodeError: anthropic.EncodeError}
		for _, p := range []string{"/v1" + path, path, "/v1/v1" + path} {
			if t.exact[p] == nil {
				t.exact[p] = map[string]*route{}
			}
			t.exact[p][method] = r
		}
	}
	add("POST", "/messages", func(x *exchange) { x.generate(anthropic.Messages{}) })
	add("POST", "/messages/count_tokens", (*exchange).countTokens)
	t.anthropic = &route{pattern: "other", dialect: "anthropic", encodeError: anthropic.EncodeError}
}

// speaksAnthropic tells a client of the Messages format, on routes that it
// shares with others: its SDKs send the version with every request.
func speaksAnthropic(r *http.Request) bool {
	return r.Header.Get("Anthropic-Version") != "" || strings.HasPrefix(strings.TrimPrefix(clean(r.URL.Path), "/v1"), "/messages")
}

// inAnthropic makes errors of a shared route take the form of its client.
func (x *exchange) inAnthropic() {
	if speaksAnthropic(x.r) {
		own := *x.route
		own.dialect, own.encodeError = "anthropic", anthropic.EncodeError
		x.route = &own
	}
}

// countTokens serves POST /v1/messages/count_tokens.
func (x *exchange) countTokens() {
	if !x.admit() {
		return
	}
	body, done, err := x.body()
	defer done()
	if err != nil {
		x.fail(err)
		return
	}
	r, err := anthropic.DecodeCount(x.r, body)
	if err != nil {
		x.fail(err)
		return
	}
	r.ID, r.Tenant = x.id, x.grant.Tenant
	n, err := x.s.opt.Service.Count(x.r.Context(), x.grant, r)
	if err != nil {
		x.fail(err)
		return
	}
	x.answerHeaders(infer.Served{})
	x.json(http.StatusOK, anthropic.EncodeCount(n.PromptTokens))
}

// anthropicLimits tells the state of a limit in Anthropic's names, whose reset
// is a time (API reference, "Rate limits").
func anthropicLimits(h http.Header, l LimitState, now time.Time) {
	h.Set("Anthropic-Ratelimit-"+l.Kind+"-Limit", strconv.Itoa(l.Limit))
	h.Set("Anthropic-Ratelimit-"+l.Kind+"-Remaining", strconv.Itoa(max(0, l.Remaining)))
	h.Set("Anthropic-Ratelimit-"+l.Kind+"-Reset", now.Add(max(0, l.Reset)).UTC().Truncate(time.Second).Format(time.RFC3339))
}
