package web

import (
	"hearth/web/openai"
)

// responsesRoutes are the routes of OpenAI's Responses API, with and without
// /v1 in front.
func (s *Server) responsesRoutes(t *routeTable) {
	add := func(method, suffix, pattern string, exact bool, handle func(*exchange)) {
		r := &route{pattern: method + " " + pattern, dialect: "responses", handle: handle, encodeError: openai.EncodeError}
		for _, base := range []string{"/v1/responses", "/responses"} {
			if !exact {
				t.prefix = append(t.prefix, prefixRoute{path: base + "/", method: method, route: r, suffix: suffix})
				continue
			}
			if t.exact[base+suffix] == nil {
				t.exact[base+suffix] = map[string]*route{}
			}
			t.exact[base+suffix][method] = r
		}
	}
	add("POST", "", "/v1/responses", true, (*exchange).createResponse)
	add("POST", "/input_tokens", "/v1/responses/input_tokens", true, (*exchange).responseInputTokens)
	add("POST", "/cancel", "/v1/responses/{id}/cancel", false, (*exchange).cancelResponse)
	add("GET", "/input_items", "/v1/responses/{id}/input_items", false, (*exchange).responseInputItems)
	add("GET", "", "/v1/responses/{id}", false, (*exchange).response)
	add("DELETE", "", "/v1/responses/{id}", false, (*exchange).deleteResponse)
}
