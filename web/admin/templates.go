package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"

	"hearth/engine/infer"
)

//go:embed assets
var assetFiles embed.FS

// mediaTypes are the kinds of asset that there are.
var mediaTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// pages are the templates and assets, read once. Assets live below a folder
// named for their digest, so that browsers may keep them for ever.
type pages struct {
	byFile  map[string]*pageTemplate
	shared  *template.Template // never executed: that would end its cloning
	cloning sync.Mutex
	folder  string                   // /assets/DIGEST/
	files   map[string][]byte        // by name
	gzip    map[string]func() []byte // of each, made when first asked for; nil where that saves nothing
}

// loadPages reads assets/: *.html are shared templates, pages/*.html one page
// each, the rest is served.
func loadPages() (*pages, error) {
	p := &pages{byFile: map[string]*pageTemplate{}, files: map[string][]byte{}, gzip: map[string]func() []byte{}}
	sum := sha256.New()
	err := fs.WalkDir(assetFiles, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".html" || path.Ext(name) == ".txt" {
			return err
		}
		b, err := assetFiles.ReadFile(name)
		if err != nil {
			return err
		}
		if mediaTypes[path.Ext(name)] == "" {
			return fmt.Errorf("cannot serve asset %s: its kind is unknown", name)
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(b))
		sum.Write(b)
		p.files[path.Base(name)] = b
		p.gzip[path.Base(name)] = sync.OnceValue(func() []byte { return squeezed(b) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.folder = "/assets/" + hex.EncodeToString(sum.Sum(nil)[:8]) + "/"
	p.shared, err = template.New("").Option("missingkey=zero").Funcs(p.funcs()).ParseFS(assetFiles, "assets/*.html")
	if err != nil {
		return nil, fmt.Errorf("cannot read the page templates: %w", err)
	}
	list, err := fs.Glob(assetFiles, "assets/pages/*.html")
	if err != nil {
		return nil, err
	}
	for _, name := range list {
		text, err := assetFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		t := &pageTemplate{live: bytes.Contains(text, []byte(`{{define "live"}}`))}
		t.parse = sync.OnceValues(func() (*template.Template, error) { return p.parse(name) })
		p.byFile[strings.TrimSuffix(path.Base(name), ".html")] = t
	}
	return p, nil
}

// pageTemplate is a page with all that it shares with the others. It is parsed
// when it is first asked for: most appliances show few pages, and what lies
// about is looked at by every garbage collection.
type pageTemplate struct {
	parse func() (*template.Template, error)
	live  bool // it has a part that changes by itself
}

func (p *pages) parse(name string) (*template.Template, error) {
	p.cloning.Lock()
	t, err := p.shared.Clone()
	p.cloning.Unlock()
	if err == nil {
		t, err = t.ParseFS(assetFiles, name)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the page template %s: %w", name, err)
	}
	return t, nil
}

func (p *pages) has(file string) bool { return p.byFile[file] != nil }

func (p *pages) hasLive(file string) bool { return p.has(file) && p.byFile[file].live }

// execute renders one template of a page. Functions that depend on who looks
// find the exchange in the data.
func (p *pages) execute(file, name string, x *exchange, data pageData) ([]byte, error) {
	if !p.has(file) {
		return nil, infer.Errorf(infer.CodeInternal, "there is no page template %s", file)
	}
	t, err := p.byFile[file].parse()
	if err != nil {
		return nil, err
	}
	data["x"] = view{x}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return nil, fmt.Errorf("cannot render the page %s: %w", file, err)
	}
	return b.Bytes(), nil
}

// view is what templates may ask of the exchange.
type view struct{ x *exchange }

// May says whether who looks may carry out an operation.
func (v view) May(operation string) bool { return v.x.may(operation) }

// Live is the address of the live part of the page.
func (v view) Live() string {
	return "/live?page=" + url.QueryEscape(v.x.r.URL.RequestURI())
}

// Was is what had been typed into a field of a form that failed.
func (v view) Was(name string) string { return v.x.was[name] }

// Query is a field of the page's address.
func (v view) Query(name string) string { return v.x.r.URL.Query().Get(name) }

// With is the address of the page with one field of its query set; empty: without
// it.
func (v view) With(name, value string) string {
	u := *v.x.r.URL
	q := u.Query()
	q.Del("done")
	if q.Set(name, value); value == "" {
		q.Del(name)
	}
	u.RawQuery = q.Encode()
	return u.RequestURI()
}

// asset serves an embedded file.
func (x *exchange) asset() error {
	name, ok := strings.CutPrefix(x.r.URL.Path, x.s.pages.folder)
	b := x.s.pages.files[name]
	if !ok || b == nil {
		return infer.Errorf(infer.CodeNotFound, "there is no such asset")
	}
	x.w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	return x.file(name, b)
}

// favicon serves the icon under the name that browsers try by themselves.
func (x *exchange) favicon() error { return x.file("icon.svg", x.s.pages.files["icon.svg"]) }

func (x *exchange) file(name string, b []byte) error {
	x.w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(x.r.Header.Get("Accept-Encoding"), "gzip") {
		if z := x.s.pages.gzip[name](); z != nil {
			x.w.Header().Set("Content-Encoding", "gzip")
			b = z
		}
	}
	return x.bytes(mediaTypes[path.Ext(name)], b)
}

var _ http.ResponseWriter = (*recorder)(nil)
