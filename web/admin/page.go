package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"hearth/engine/infer"
)

// Page is one page: what it reads through operations, and the template that
// shows it.
type Page struct {
	Path  string // "/keys", "/ledger/{id}"
	Title string
	Group string // of the menu; empty: not in the menu
	// File names assets/pages/FILE.html, which defines "main" and, for what
	// changes by itself, "live", shown by {{template "live" .}} in a section that
	// {{liveAttrs}} makes live.
	File   string
	Access Access
	Reads  []Query
}

// Query is one operation of a page. Its result stands in the template under As,
// as JSON: maps with the JSON names. An operation that the caller may not use is
// left out, and so is one that fails where Optional is set; the error stands
// under As + "_error" then.
type Query struct {
	As, Op string
	// Args are inputs by name: a text, "$path.id" for a part of the path,
	// "$query.NAME" for a field of the query, "$query" (name "*") for all of them.
	Args     map[string]string
	Optional bool
}

// pageData is what a template gets.
type pageData = map[string]any

// pageRoutes places every page, the assets and what pages post to.
func (s *Server) pageRoutes() {
	for _, p := range allPages() {
		path := p.Path
		if path == "/" {
			path = "/{$}"
		}
		s.handle(Route{Method: "GET", Path: path, Access: p.Access}, func(x *exchange) error {
			return x.page(http.StatusOK, p, pageData{})
		})
	}
	s.handle(Route{Method: "GET", Path: "/assets/{digest}/{name}", Open: true}, (*exchange).asset)
	s.handle(Route{Method: "GET", Path: "/favicon.ico", Open: true}, (*exchange).favicon)
	s.handle(Route{Method: "GET", Path: "/live", Access: ReadTenant}, (*exchange).live)
	s.handle(Route{Method: "POST", Path: "/do/{operation...}", Access: ReadTenant}, (*exchange).form)
	s.handle(Route{Method: "POST", Path: "/edit/{page...}", Access: ReadTenant}, (*exchange).edit)
	s.handle(Route{Method: "GET", Path: "/get/{operation...}", Access: ReadTenant}, (*exchange).download)
	for _, path := range []string{"/play/v1/chat/completions", "/play/v1/messages", "/play/v1/responses"} {
		s.handle(Route{Method: "POST", Path: path, Access: OperateTenant}, (*exchange).play)
	}
}

// pageAt finds the page of a local path, and gives the request that asks for it.
func (s *Server) pageAt(ctx context.Context, path string) (*Page, *http.Request) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, localPath(path, "/"), nil)
	if err != nil {
		return nil, nil
	}
	_, pattern := s.mux.Handler(r)
	pattern = strings.TrimPrefix(pattern, "GET ")
	for _, p := range allPages() {
		if p.Path == pattern || p.Path == "/" && pattern == "/{$}" {
			setPathValues(r, p.Path)
			return p, r
		}
	}
	return nil, nil
}

// setPathValues does for a request that is not routed what the router does.
func setPathValues(r *http.Request, pattern string) {
	parts, have := strings.Split(pattern, "/"), strings.Split(r.URL.EscapedPath(), "/")
	for i, part := range parts {
		if !strings.HasPrefix(part, "{") || i >= len(have) {
			continue
		}
		name := strings.Trim(part, "{}")
		value := have[i]
		if rest, ok := strings.CutSuffix(name, "..."); ok {
			name, value = rest, strings.Join(have[i:], "/")
		}
		if plain, err := url.PathUnescape(value); err == nil {
			r.SetPathValue(name, plain)
		}
	}
}

// page shows p; more is set beside what it reads.
func (x *exchange) page(status int, p *Page, more pageData) error {
	data, err := x.read(p)
	if err != nil {
		return err
	}
	maps.Copy(data, more)
	return x.render(status, p.File, data)
}

// read gathers what a page shows.
func (x *exchange) read(p *Page) (pageData, error) {
	data := x.frame(p.Title, p.Path)
	for _, rd := range p.Reads {
		op := x.s.opt.Operations.Find(rd.Op)
		if op == nil {
			if rd.Optional {
				continue
			}
			return nil, infer.Errorf(infer.CodeInternal, "the page %s asks for %s, which there is not", p.Path, rd.Op)
		}
		if !op.Access.Allows(x.caller.Role) {
			continue
		}
		v, err := x.ask(op, x.args(rd))
		if err != nil && !rd.Optional {
			return nil, err
		}
		if err != nil {
			data[rd.As+"_error"] = x.faultOf(err)
			continue
		}
		data[rd.As] = v
	}
	return data, nil
}

// args resolves the inputs of a read.
func (x *exchange) args(rd Query) url.Values {
	query := x.r.URL.Query()
	values := url.Values{}
	for name, text := range rd.Args {
		switch {
		case text == "$query":
			for n, v := range query {
				if !strings.HasPrefix(n, "_") && n != "done" {
					values[n] = v
				}
			}
		case strings.HasPrefix(text, "$query."):
			if v := query[strings.TrimPrefix(text, "$query.")]; len(v) > 0 {
				values[name] = v
			}
		case strings.HasPrefix(text, "$path."):
			values.Set(name, x.r.PathValue(strings.TrimPrefix(text, "$path.")))
		default:
			values.Set(name, text)
		}
	}
	return values
}

// ask carries out an operation that changes nothing, and gives its result as a
// program would read it.
func (x *exchange) ask(op *Operation, values url.Values) (any, error) {
	in := reflect.New(op.In).Interface()
	if err := bind(in, values); err != nil {
		return nil, err
	}
	out, err := x.s.opt.Operations.Call(x.r.Context(), op, in)
	if err != nil {
		return nil, err
	}
	return asJSON(out)
}

// asJSON is v as maps, lists, texts and numbers: int64 where they are whole, so
// that templates can ask whether one is zero, else float64.
func asJSON(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var out any
	err = d.Decode(&out)
	return numbered(out), err
}

// numbered replaces every json.Number in v.
func numbered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = numbered(e)
		}
	case []any:
		for i, e := range v {
			v[i] = numbered(e)
		}
	case json.Number:
		if !strings.ContainsAny(string(v), ".eE") {
			if n, err := v.Int64(); err == nil {
				return n
			}
		}
		f, _ := v.Float64() // JSON has no number that is none; too large a one is infinite
		return f
	}
	return v
}

// menuItem is one line of the menu.
type menuItem struct {
	Path, Title string
	Here        bool
}

type menuGroup struct {
	Title string
	Items []menuItem
}

// frame is what every page has.
func (x *exchange) frame(title, path string) pageData {
	data := pageData{
		"title": title, "path": path, "here": x.r.URL.RequestURI(), "version": x.s.opt.Version,
		"query": firsts(x.r.URL.Query()), "now": x.s.opt.Now(), "roles": Roles(), "base": x.s.opt.API(),
	}
	if x.caller != nil {
		data["me"] = pageData{"user": x.caller.User, "role": string(x.caller.Role), "tenant": x.caller.Tenant, "method": x.caller.Method}
		data["menu"] = x.menu(path)
	}
	if op := x.s.opt.Operations.Find(x.r.URL.Query().Get("done")); op != nil {
		data["done"] = op.Summary
	}
	return data
}

func firsts(v url.Values) map[string]string {
	out := map[string]string{}
	for k, s := range v {
		out[k] = s[0]
	}
	return out
}

// menu lists the pages that the caller may see.
func (x *exchange) menu(path string) []menuGroup {
	var out []menuGroup
	for _, p := range allPages() {
		if p.Group == "" || !p.Access.Allows(x.caller.Role) {
			continue
		}
		i := slices.IndexFunc(out, func(g menuGroup) bool { return g.Title == p.Group })
		if i < 0 {
			i = len(out)
			out = append(out, menuGroup{Title: p.Group})
		}
		here := p.Path == path || p.Path != "/" && strings.HasPrefix(path, p.Path+"/")
		out[i].Items = append(out[i].Items, menuItem{p.Path, p.Title, here})
	}
	slices.SortStableFunc(out, func(a, b menuGroup) int {
		return slices.Index(menuGroups, a.Title) - slices.Index(menuGroups, b.Title)
	})
	return out
}

// may says whether the caller may carry out an operation, for templates that
// show a form only to who can use it.
func (x *exchange) may(name string) bool {
	op := x.s.opt.Operations.Find(name)
	return op != nil && x.caller != nil && op.Access.Allows(x.caller.Role)
}

// render writes a page.
func (x *exchange) render(status int, file string, data pageData) error {
	b, err := x.s.pages.execute(file, "layout", x, data)
	if err != nil {
		return err
	}
	h := x.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(b)
	}
	return nil
}

// errorPage tells of an error.
func (x *exchange) errorPage(status int, f Fault) {
	data := x.frame("Not done", "")
	data["fault"] = f
	data["status"] = status
	if err := x.render(status, "error", data); err != nil {
		x.s.log.Error("the control plane cannot render its error page", "error", err)
		_ = x.json(status, struct {
			Error Fault `json:"error"`
		}{f})
	}
}
