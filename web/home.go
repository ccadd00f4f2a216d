package web

import (
	_ "embed"
	"net/http"
	"strconv"
)

// homePolicy: the page is text, it loads nothing.
const homePolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed home.html
var homePage []byte

//go:embed icon.svg
var icon []byte

// home tells a person who has opened the address of the API where they are.
// Clients ask for it too, to see whether anybody is there.
func (x *exchange) home() { x.file("text/html; charset=utf-8", homePage) }

// favicon serves the icon under the name that browsers try by themselves.
func (x *exchange) favicon() { x.file("image/svg+xml", icon) }

func (x *exchange) file(mediaType string, b []byte) {
	h := x.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", homePolicy)
	h.Set("X-Frame-Options", "DENY")
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(b)
	}
}
