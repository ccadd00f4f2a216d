package web

import (
	"encoding/json"
	"net/http"
	"strings"

	"hearth/engine/infer"
	"hearth/web/ollama"
	"hearth/web/wire"
)

// ollamaRoutes adds the routes of Ollama's API. Ollama knows no keys of its own;
// its clients send OLLAMA_API_KEY as a bearer token. It does not look at the
// media type of a body either: curl -d says it is a form.
func (t *routeTable) ollamaRoutes() {
	t.ollama = &route{pattern: "other", dialect: "ollama", encodeError: ollama.EncodeError}
	add := func(method, path string, handle func(*exchange)) *route {
		r := &route{pattern: method + " " + path, dialect: "ollama", anyType: true, handle: handle, encodeError: ollama.EncodeError}
		if t.exact[path] == nil {
			t.exact[path] = map[string]*route{}
		}
		t.exact[path][method] = r
		return r
	}
	add("POST", "/api/chat", func(x *exchange) { x.generate(ollamaDialect{ollama.Chat{}, x}) })
	add("POST", "/api/generate", func(x *exchange) { x.generate(ollamaDialect{ollama.Generate{}, x}) })
	add("POST", "/api/embed", func(x *exchange) { x.ollamaEmbed(false) })
	add("POST", "/api/embeddings", func(x *exchange) { x.ollamaEmbed(true) })
	add("GET", "/api/tags", func(x *exchange) { x.ollamaList(ollama.EncodeTags) })
	add("GET", "/api/ps", func(x *exchange) { x.ollamaList(ollama.EncodeRunning) })
	add("POST", "/api/show", (*exchange).ollamaShow)
	add("GET", "/api/version", (*exchange).ollamaVersion).quiet = true
	// Models are put in place by the operator.
	for path, method := range map[string]string{
		"/api/pull": "POST", "/api/push": "POST", "/api/create": "POST", "/api/copy": "POST", "/api/delete": "DELETE",
	} {
		add(method, path, (*exchange).ollamaUnoffered).encodeError = func(e *infer.Error, id string) (int, []byte) {
			_, body := ollama.EncodeError(e, id)
			return http.StatusNotImplemented, body
		}
	}
}

// ollamaDialect adds to a dialect what needs the server: which models there are.
type ollamaDialect struct {
	wire.Dialect
	x *exchange
}

// DecodeRequest implements wire.Dialect.
func (d ollamaDialect) DecodeRequest(h *http.Request, body []byte) (*infer.Request, wire.Options, error) {
	r, o, err := d.Dialect.DecodeRequest(h, body)
	if err == nil {
		r.Model = d.x.ollamaModel(r.Model)
	}
	return r, o, err
}

// detach answers a request that asks for nothing but the model to be loaded,
// which it is as long as the server runs.
func (d ollamaDialect) detach(r *infer.Request, o wire.Options) bool {
	loads, reason := ollama.Loads(r)
	if !loads {
		return false
	}
	x := d.x
	if _, err := x.findModel(r.Model); err != nil {
		x.fail(err)
		return true
	}
	body := ollama.EncodeLoad(d.Dialect, r.Model, reason, x.s.opt.Now())
	if !o.Stream {
		x.json(http.StatusOK, body)
		return true
	}
	x.w.Header().Set("Content-Type", ollama.ContentType)
	x.w.WriteHeader(http.StatusOK)
	_, _ = x.w.Write(body)
	return true
}

// ollamaModel is a model's name without the tag that Ollama's clients add, unless
// there is a model of that very name.
func (x *exchange) ollamaModel(name string) string {
	plain, ok := strings.CutSuffix(name, ":latest")
	if !ok {
		return name
	}
	if _, err := x.findModel(name); err == nil {
		return name
	}
	return plain
}

// ollamaEmbed serves POST /api/embed and /api/embeddings.
func (x *exchange) ollamaEmbed(legacy bool) {
	if !x.admit() {
		return
	}
	body, done, err := x.body()
	defer done()
	if err != nil {
		x.fail(err)
		return
	}
	r, o, err := ollama.DecodeEmbed(body, legacy)
	if err != nil {
		x.fail(err)
		return
	}
	if err := x.claim(body); err != nil {
		x.fail(err)
		return
	}
	r.ID, r.Tenant, r.Model = x.id, x.grant.Tenant, x.ollamaModel(r.Model)
	res := &infer.EmbedResult{Model: r.Model}
	if len(r.Inputs) > 0 {
		if res, err = x.s.opt.Service.Embed(x.r.Context(), x.grant, r); err != nil {
			x.fail(err)
			return
		}
	} else if _, err := x.findModel(r.Model); err != nil { // only loads the model
		x.fail(err)
		return
	}
	x.answerHeaders(infer.Served{})
	x.json(http.StatusOK, ollama.EncodeEmbed(o, res))
}

// ollamaList serves GET /api/tags and /api/ps.
func (x *exchange) ollamaList(encode func([]infer.Model) []byte) {
	if !x.admit() {
		return
	}
	list, err := x.s.opt.Service.Models(x.r.Context(), x.grant)
	if err != nil {
		x.fail(err)
		return
	}
	x.json(http.StatusOK, encode(list))
}

// ollamaShow serves POST /api/show.
func (x *exchange) ollamaShow() {
	if !x.admit() {
		return
	}
	body, done, err := x.body()
	defer done()
	if err != nil {
		x.fail(err)
		return
	}
	name, err := ollama.DecodeShow(body)
	if err != nil {
		x.fail(err)
		return
	}
	m, err := x.findModel(x.ollamaModel(name))
	if err != nil {
		x.fail(err)
		return
	}
	x.json(http.StatusOK, ollama.EncodeShow(&m))
}

// ollamaVersion serves GET /api/version: the version of the API, and ours.
func (x *exchange) ollamaVersion() {
	b, _ := json.Marshal(map[string]string{"version": ollama.APIVersion, "hearth": x.s.opt.Version})
	x.json(http.StatusOK, append(b, '\n'))
}

// ollamaUnoffered refuses what would change the models.
func (x *exchange) ollamaUnoffered() {
	x.fail(&infer.Error{Code: infer.CodeUnsupported, NoRetry: true, Message: "models are not managed over this API: the operator of the server installs them"})
}
