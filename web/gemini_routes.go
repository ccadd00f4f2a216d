package web

import (
	"net/http"
	"strings"

	"hearth/engine/infer"
	"hearth/web/gemini"
)

// geminiRoutes adds the routes of the Gemini API. The verb stands behind the
// model's name, which may hold slashes. Vertex AI has the same verbs below
// longer collections; what stands before the model there says nothing here.
func (t *routeTable) geminiRoutes() {
	t.gemini = &route{pattern: "other", dialect: "gemini", queryKey: true, encodeError: gemini.EncodeError}
	add := func(method, path, suffix, pattern string, handle func(*exchange)) {
		r := &route{pattern: method + " " + pattern, dialect: "gemini", queryKey: true, handle: handle, encodeError: gemini.EncodeError}
		t.prefix = append(t.prefix, prefixRoute{path: path, method: method, suffix: suffix, route: r})
	}
	for verb, handle := range map[string]func(*exchange){
		":generateContent":       func(x *exchange) { x.generate(gemini.Generate{Model: x.param}) },
		":streamGenerateContent": (*exchange).geminiStream,
		":countTokens":           (*exchange).geminiCount,
		":embedContent":          func(x *exchange) { x.geminiEmbed(false) },
		":batchEmbedContents":    func(x *exchange) { x.geminiEmbed(true) },
	} {
		for _, path := range []string{"/v1beta/models/", "/v1alpha/models/", "/v1/models/"} {
			add("POST", path, verb, "/v1beta/models/{model}"+verb, handle)
		}
		for _, path := range []string{"/v1beta1/", "/v1/projects/", "/v1/publishers/"} {
			add("POST", path, verb, "/v1/publishers/google/models/{model}"+verb, behindModels(handle))
		}
	}
	for _, version := range []string{"/v1beta", "/v1alpha"} {
		add("GET", version+"/models/", "", "/v1beta/models/{model}", (*exchange).geminiModelInfo)
		list := &route{pattern: "GET /v1beta/models", dialect: "gemini", queryKey: true, handle: (*exchange).geminiModels, encodeError: gemini.EncodeError}
		t.exact[version+"/models"] = map[string]*route{"GET": list}
	}
}

// speaksGemini tells a client of Google's, on routes that it shares with others:
// newer ones ask below /v1, as OpenAI's do.
func speaksGemini(r *http.Request) bool {
	return r.Header.Get("X-Goog-Api-Key") != "" || r.Header.Get("X-Goog-Api-Client") != ""
}

// inGemini serves a shared route in the form of its client, if that is Google's.
func (x *exchange) inGemini(handle func(*exchange)) bool {
	if !speaksGemini(x.r) {
		return false
	}
	own := *x.route
	own.dialect, own.queryKey, own.encodeError = "gemini", true, gemini.EncodeError
	x.route = &own
	handle(x)
	return true
}

// behindModels takes the collections before the model's name off the param.
func behindModels(handle func(*exchange)) func(*exchange) {
	return func(x *exchange) {
		if _, name, ok := strings.Cut(x.param, "models/"); ok {
			x.param = name
		}
		handle(x)
	}
}

// geminiStream serves :streamGenerateContent, as SSE with ?alt=sse and as one
// JSON array without.
func (x *exchange) geminiStream() {
	alt := x.r.URL.Query().Get("alt")
	if alt != "" && alt != "sse" && alt != "json" {
		x.fail(infer.Invalid("alt", "cannot use alt: wanted sse or json"))
		return
	}
	x.generate(gemini.Generate{Model: x.param, Stream: true, Array: alt != "sse"})
}

// geminiCount serves :countTokens.
func (x *exchange) geminiCount() {
	if !x.admit() {
		return
	}
	body, done, err := x.body()
	defer done()
	if err != nil {
		x.fail(err)
		return
	}
	r, err := gemini.DecodeCount(body, x.param)
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
	x.json(http.StatusOK, gemini.EncodeCount(n.PromptTokens))
}

// geminiEmbed serves :embedContent and :batchEmbedContents.
func (x *exchange) geminiEmbed(batch bool) {
	if !x.admit() {
		return
	}
	body, done, err := x.body()
	defer done()
	if err != nil {
		x.fail(err)
		return
	}
	r, o, err := gemini.DecodeEmbed(body, x.param, batch)
	if err != nil {
		x.fail(err)
		return
	}
	if err := x.claim(body); err != nil {
		x.fail(err)
		return
	}
	r.ID, r.Tenant = x.id, x.grant.Tenant
	res, err := x.s.opt.Service.Embed(x.r.Context(), x.grant, r)
	if err != nil {
		x.fail(err)
		return
	}
	x.answerHeaders(infer.Served{})
	x.json(http.StatusOK, gemini.EncodeEmbed(o, res))
}

// geminiModels serves GET /v1beta/models.
func (x *exchange) geminiModels() {
	if !x.admit() {
		return
	}
	list, err := x.s.opt.Service.Models(x.r.Context(), x.grant)
	if err != nil {
		x.fail(err)
		return
	}
	body, err := gemini.EncodeModels(list, x.r.URL.Query())
	if err != nil {
		x.fail(err)
		return
	}
	x.json(http.StatusOK, body)
}

// geminiModelInfo serves GET /v1beta/models/{model}.
func (x *exchange) geminiModelInfo() {
	if !x.admit() {
		return
	}
	m, err := x.findModel(x.param)
	if err != nil {
		x.fail(err)
		return
	}
	x.json(http.StatusOK, append(gemini.AppendModel(nil, &m), '\n'))
}
