package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"hearth/engine/infer"
)

//go:embed assets
var assetFiles embed.FS

// pages are the templates and assets, read once. Assets live below a folder
// named for their digest, so that browsers may keep them for ever and modules
// can still import each other by relative names.
type pages struct {
	t      *template.Template
	folder string            // /assets/DIGEST/
	files  map[string][]byte // by name
}

// mediaTypes are the kinds of asset that there are.
var mediaTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// pagePolicy lets a page load from us alone: no inline script or style, no
// frame, no foreign origin, no string turned into code.
const pagePolicy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func loadPages() (*pages, error) {
	p := &pages{files: map[string][]byte{}}
	sum := sha256.New()
	err := fs.WalkDir(assetFiles, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".html" {
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
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.folder = "/assets/" + hex.EncodeToString(sum.Sum(nil)[:8]) + "/"
	p.t, err = template.New("").Funcs(template.FuncMap{
		"asset": func(name string) (string, error) {
			if p.files[name] == nil {
				return "", fmt.Errorf("no asset is named %s", name)
			}
			return p.folder + name, nil
		},
		"usd": usd, "ms": ms, "bytes": sizeText, "clock": clockText, "count": countText, "pct": pct,
	}).ParseFS(assetFiles, "assets/*.html")
	if err != nil {
		return nil, fmt.Errorf("cannot read the page templates: %w", err)
	}
	return p, nil
}

// asset serves an embedded file.
func (x *exchange) asset() {
	name, ok := strings.CutPrefix(x.r.URL.Path, x.s.pages.folder)
	b := x.s.pages.files[name]
	if !ok || b == nil {
		x.fail(infer.Errorf(infer.CodeNotFound, "there is no such asset"))
		return
	}
	x.w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	x.file(name, b)
}

// favicon serves the icon under the name that browsers try by themselves.
func (x *exchange) favicon() { x.file("icon.svg", x.s.pages.files["icon.svg"]) }

func (x *exchange) file(name string, b []byte) {
	h := x.w.Header()
	h.Set("Content-Type", mediaTypes[path.Ext(name)])
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", pagePolicy)
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(b)
	}
}

// page renders a template.
func (x *exchange) page(status int, name string, data any) {
	var buf bytes.Buffer
	if err := x.s.pages.t.ExecuteTemplate(&buf, name+".html", data); err != nil {
		x.fail(fmt.Errorf("cannot render the page %s: %w", name, err))
		return
	}
	h := x.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(buf.Len()))
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=()")
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(buf.Bytes())
	}
}

type signInData struct {
	Failed string // what went wrong with the last try
}

// home is the status page for who is signed in, and the sign-in for others.
func (x *exchange) home() {
	s := x.session()
	if s == nil {
		if x.cookie() != "" {
			x.setCookie(nil)
		}
		x.page(http.StatusOK, "signin", signInData{})
		return
	}
	x.page(http.StatusOK, "status", x.s.view(x.r.Context(), s))
}

// pct is a share in whole percent, 0 to 100; 0 of nothing.
func pct(part, whole any) int {
	p, w := toInt64(part), toInt64(whole)
	if w <= 0 || p <= 0 {
		return 0
	}
	return int(min(100, float64(p)/float64(w)*100))
}

func toInt64(v any) int64 {
	switch n := v.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	}
	panic(fmt.Sprintf("BUG: a share of type %T", v))
}
