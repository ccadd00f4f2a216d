package web

import (
	"net/http"
	"slices"
	"strings"

	"hearth/engine/infer"
	"hearth/web/openai"
)

// route is one thing that can be asked for. Every request, matched or not, has
// a route: it decides the dialect of whatever goes wrong.
type route struct {
	pattern string // as told to Admit, the log and the metrics
	dialect string // "openai" or "web"
	quiet   bool   // asked for all the time: logged at debug level
	// anyType takes a body whatever its media type is said to be.
	anyType bool
	// queryKey takes the credential from ?key= too.
	queryKey bool
	handle   func(*exchange)
	// encodeError gives status and body of an error.
	encodeError func(*infer.Error, string) (int, []byte)
}

// routeTable finds routes by exact path, then by prefix. It does not redirect
// and does not clean paths: a POST does not survive the one, and the other
// hides what was asked for.
type routeTable struct {
	exact     map[string]map[string]*route // path, method
	prefix    []prefixRoute
	openai    *route // what is not there, in the dialect of the API
	anthropic *route
	gemini    *route
	ollama    *route
	web       *route // the same for the pages
}

// prefixRoute matches path, something that becomes the exchange's param, and
// suffix, which may be empty.
type prefixRoute struct {
	path   string
	method string
	route  *route
	suffix string
}

// match gives what stands between prefix and suffix.
func (p *prefixRoute) match(path string) (id string, ok bool) {
	id, ok = strings.CutPrefix(path, p.path)
	if ok {
		id, ok = strings.CutSuffix(id, p.suffix)
	}
	return id, ok && id != ""
}

// makeRoutes is the whole surface. API paths exist with and without /v1, since
// clients differ in whether their base URL includes it.
func (s *Server) makeRoutes() routeTable {
	t := routeTable{exact: map[string]map[string]*route{}}
	t.openai = &route{pattern: "other", dialect: "openai", encodeError: openai.EncodeError}
	t.web = &route{pattern: "other", dialect: "web", encodeError: openai.EncodeError}
	add := func(dialect, method string, paths []string, handle func(*exchange)) *route {
		r := &route{pattern: method + " " + paths[0], dialect: dialect, handle: handle, encodeError: openai.EncodeError}
		for _, p := range paths {
			if t.exact[p] == nil {
				t.exact[p] = map[string]*route{}
			}
			t.exact[p][method] = r
		}
		return r
	}
	api := func(method, path string, handle func(*exchange)) {
		add("openai", method, []string{"/v1" + path, path}, handle)
	}
	api("POST", "/chat/completions", func(x *exchange) { x.generate(openai.Chat{}) })
	api("POST", "/completions", func(x *exchange) { x.generate(openai.Completion{}) })
	api("POST", "/embeddings", (*exchange).embed)
	api("GET", "/models", (*exchange).models)
	api("POST", "/tokenize", (*exchange).tokenize)
	api("POST", "/detokenize", (*exchange).detokenize)
	model := &route{pattern: "GET /v1/models/{id}", dialect: "openai", handle: (*exchange).model, encodeError: openai.EncodeError}
	t.prefix = append(t.prefix, prefixRoute{path: "/v1/models/", method: "GET", route: model}, prefixRoute{path: "/models/", method: "GET", route: model})

	for path, handle := range map[string]func(*exchange){
		"/livez": (*exchange).livez, "/readyz": (*exchange).readyz, "/health": (*exchange).health,
		"/version": (*exchange).version, "/metrics": (*exchange).metrics,
	} {
		add("openai", "GET", []string{path}, handle).quiet = true
	}
	s.anthropicRoutes(&t)
	s.responsesRoutes(&t)
	t.geminiRoutes()
	t.ollamaRoutes()
	add("web", "GET", []string{"/"}, (*exchange).home).quiet = true
	add("web", "GET", []string{"/favicon.ico"}, (*exchange).favicon).quiet = true
	return t
}

// clean takes one slash off the end, which some clients write.
func clean(path string) string {
	if len(path) > 1 {
		return strings.TrimSuffix(path, "/")
	}
	return path
}

// find returns the route of a request, and what its pattern's {id} matched.
func (t *routeTable) find(r *http.Request) (*route, string, *infer.Error) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	path := clean(r.URL.Path)
	if by, ok := t.exact[path]; ok {
		if rt := by[method]; rt != nil {
			return rt, "", nil
		}
		for _, rt := range by { // any of them has the right dialect
			return &route{pattern: "other", dialect: rt.dialect, encodeError: rt.encodeError}, "", methodError(r, t.allowed(path))
		}
	}
	var other *route // of the same path with another method
	for i := range t.prefix {
		p := &t.prefix[i]
		if id, ok := p.match(r.URL.Path); ok {
			if method == p.method {
				return p.route, id, nil
			}
			other = p.route
		}
	}
	if other != nil {
		return &route{pattern: "other", dialect: other.dialect, encodeError: other.encodeError}, "", methodError(r, t.allowed(r.URL.Path))
	}
	return nil, "", infer.Errorf(infer.CodeNotFound, "cannot find the path: there is no such route here")
}

func methodError(r *http.Request, allowed string) *infer.Error {
	return infer.Errorf(infer.CodeMethod, "cannot use method %s here: wanted %s", knownMethod(r.Method), allowed)
}

// allowed lists the methods of a path, for the Allow header.
func (t *routeTable) allowed(path string) string {
	var out []string
	for m := range t.exact[clean(path)] {
		out = append(out, m)
	}
	for i := range t.prefix {
		if _, ok := t.prefix[i].match(path); ok {
			out = append(out, t.prefix[i].method)
		}
	}
	if slices.Contains(out, "GET") {
		out = append(out, "HEAD")
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

// fallback is the route of a path that has none.
func (t *routeTable) fallback(r *http.Request) *route {
	path := r.URL.Path
	if speaksAnthropic(r) {
		return t.anthropic
	}
	if speaksGemini(r) || strings.HasPrefix(path, "/v1beta") || strings.HasPrefix(path, "/v1alpha/") {
		return t.gemini
	}
	if strings.HasPrefix(path, "/api/") {
		return t.ollama
	}
	if path == "/" {
		return t.web
	}
	return t.openai
}
