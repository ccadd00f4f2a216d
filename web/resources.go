package web

import (
	"encoding/json"
	"net/http"

	"hearth/engine/infer"
	"hearth/web/openai"
)

// embed serves POST /v1/embeddings.
func (x *exchange) embed() {
	if !x.admit() {
		return
	}
	body, done, err := x.body()
	defer done()
	if err != nil {
		x.fail(err)
		return
	}
	if err := x.claim(body); err != nil {
		x.fail(err)
		return
	}
	r, o, err := openai.DecodeEmbed(body)
	if err != nil {
		x.fail(err)
		return
	}
	r.ID, r.Tenant = x.id, x.grant.Tenant
	res, err := x.s.opt.Service.Embed(x.r.Context(), x.grant, r)
	if err != nil {
		x.fail(err)
		return
	}
	out, err := openai.EncodeEmbed(r, o, res)
	if err != nil {
		x.fail(err)
		return
	}
	x.answerHeaders(infer.Served{})
	x.json(http.StatusOK, out)
}

// models serves GET /v1/models: what this caller may ask for.
func (x *exchange) models() {
	if x.inGemini((*exchange).geminiModels) {
		return
	}
	x.inAnthropic()
	if !x.admit() {
		return
	}
	list, err := x.s.opt.Service.Models(x.r.Context(), x.grant)
	if err != nil {
		x.fail(err)
		return
	}
	x.json(http.StatusOK, openai.EncodeModels(list))
}

// model serves GET /v1/models/{id}; ids may hold slashes.
func (x *exchange) model() {
	if x.inGemini((*exchange).geminiModelInfo) {
		return
	}
	x.inAnthropic()
	if !x.admit() {
		return
	}
	m, err := x.findModel(x.param)
	if err != nil {
		x.fail(err)
		return
	}
	x.json(http.StatusOK, append(openai.AppendModel(nil, &m), '\n'))
}

// findModel looks a model up among those the caller may see. An empty name
// means the only one there is.
func (x *exchange) findModel(name string) (infer.Model, error) {
	list, err := x.s.opt.Service.Models(x.r.Context(), x.grant)
	if err != nil {
		return infer.Model{}, err
	}
	if name == "" {
		if len(list) == 1 {
			return list[0], nil
		}
		return infer.Model{}, infer.Invalid("model", "cannot choose a model: got no name, and there are %d", len(list))
	}
	for _, m := range list {
		if m.Name == name {
			return m, nil
		}
	}
	e := infer.Errorf(infer.CodeModelNotFound, "the model %.128q does not exist or you have no access to it", name)
	e.Param = "model"
	return infer.Model{}, e
}

// tokenize serves POST /tokenize.
func (x *exchange) tokenize() {
	if !x.admit() {
		return
	}
	body, done, err := x.body()
	defer done()
	if err != nil {
		x.fail(err)
		return
	}
	r, o, err := openai.DecodeTokenize(body)
	if err != nil {
		x.fail(err)
		return
	}
	m, err := x.findModel(r.Model)
	if err != nil {
		x.fail(err)
		return
	}
	r.Model = m.Name
	if r.Chat != nil {
		r.Chat.ID, r.Chat.Tenant, r.Chat.Model = x.id, x.grant.Tenant, m.Name
	}
	ids, err := x.s.opt.Service.Tokenize(x.r.Context(), x.grant, r)
	if err != nil {
		x.fail(err)
		return
	}
	var strs []string
	if o.Strings {
		strs = make([]string, len(ids))
		for i, id := range ids {
			b, err := x.s.opt.Service.Detokenize(x.r.Context(), x.grant, m.Name, []int32{id})
			if err != nil {
				x.fail(err)
				return
			}
			strs[i] = string(b)
		}
	}
	x.json(http.StatusOK, openai.EncodeTokenize(ids, m.ContextLength, strs))
}

// detokenize serves POST /detokenize.
func (x *exchange) detokenize() {
	if !x.admit() {
		return
	}
	body, done, err := x.body()
	defer done()
	if err != nil {
		x.fail(err)
		return
	}
	name, ids, err := openai.DecodeDetokenize(body)
	if err != nil {
		x.fail(err)
		return
	}
	m, err := x.findModel(name)
	if err != nil {
		x.fail(err)
		return
	}
	text, err := x.s.opt.Service.Detokenize(x.r.Context(), x.grant, m.Name, ids)
	if err != nil {
		x.fail(err)
		return
	}
	x.json(http.StatusOK, openai.EncodeDetokenize(text))
}

// livez says that the process serves; it depends on nothing else.
func (x *exchange) livez() { x.text(http.StatusOK, "ok\n") }

// readyz says whether new work is admitted, and why not.
func (x *exchange) readyz() {
	if ok, why := x.s.opt.Service.Ready(); !ok {
		x.w.Header().Set("Retry-After", "1")
		x.text(http.StatusServiceUnavailable, "not ready: "+why+"\n")
		return
	}
	text := "ready\n"
	if s, ok := x.s.opt.Service.(interface{ Notes() []string }); ok {
		for _, note := range s.Notes() {
			text += "note: " + note + "\n"
		}
	}
	x.text(http.StatusOK, text)
}

// health is readyz without words, as load generators and probes expect it.
func (x *exchange) health() {
	status := http.StatusOK
	if ok, _ := x.s.opt.Service.Ready(); !ok {
		status = http.StatusServiceUnavailable
	}
	x.w.Header().Set("Content-Length", "0")
	x.w.WriteHeader(status)
}

func (x *exchange) version() {
	out := map[string]string{"version": x.s.opt.Version}
	for k, v := range x.s.opt.Build {
		out[k] = v
	}
	b, _ := json.Marshal(out)
	x.json(http.StatusOK, append(b, '\n'))
}

// metrics hands over to the handler that the appliance gave.
func (x *exchange) metrics() {
	if x.s.opt.Metrics == nil {
		x.fail(infer.Errorf(infer.CodeNotFound, "metrics are not switched on"))
		return
	}
	if !onLoopback(x.r) && !x.admit() {
		return
	}
	x.s.opt.Metrics.ServeHTTP(x.w, x.r)
}
