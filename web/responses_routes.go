package web

import (
	"hearth/engine/infer"
	"hearth/web/openai"
	"hearth/web/responses"
)

// responsesRoutes are the routes of OpenAI's Responses API, with and without
// /v1 in front.
func (s *Server) responsesRoutes(t *routeTable) {
	for _, base := range []string{"/v1/responses", "/responses"} {
		add := func(method, path, suffix string, handle func(*exchange)) {
			pattern := method + " /v1/responses" + path
			r := &route{pattern: pattern, dialect: "responses", handle: handle, encodeError: openai.EncodeError}
			if path == "" || path == "/input_tokens" {
				if t.exact[base+path] == nil {
					t.exact[base+path] = map[string]*route{}
				}
				t.exact[base+path][method] = r
				return
			}
			t.prefix = append(t.prefix, prefixRoute{path: base + "/", method: method, route: r, suffix: suffix})
		}
		add("POST", "", "", (*exchange).createResponse)
	}
}

// responsesDialect is the dialect as this server speaks it: with the errors
// that all of OpenAI's routes share, and with the caller's earlier responses.
type responsesDialect struct {
	responses.Dialect
	x *exchange
}

// EncodeError implements wire.Dialect.
func (d responsesDialect) EncodeError(e *infer.Error, requestID string) (int, []byte) {
	return openai.EncodeError(e, requestID)
}

// createResponse serves POST /v1/responses.
func (x *exchange) createResponse() {
	x.generate(responsesDialect{x: x})
}
