package appliance

import (
	"context"
	"testing"

	"hearth/engine/infer"
	"hearth/internal/fakeprovider"
)

// An image that is not fetched is lost and not silently left out: one of another
// scheme than http, also beside none that is.
func TestImagesOfOtherSchemesAreLost(t *testing.T) {
	for _, url := range []string{"file:///etc/passwd", "gopher://127.0.0.1/", "//127.0.0.1/x.png", "HTTP://127.0.0.1/", "https://127.0.0.1/x.png"} {
		p := newProvider(t)
		p.Play(fakeprovider.Script{Answer: answer()})
		b := newTestbedWith(t, gatewayConfig("ollama", p.URL(), p.URL())+"[media]\nfetch = true\n")
		r := chat("first")
		r.Messages[0].Content = append(r.Messages[0].Content, infer.Part{Type: "image", URL: url})
		r.Uses = []infer.Use{{Feature: infer.FeatureImageURL, Path: "messages[0].content[1]"}}
		g := b.admit()
		var failed error
		for _, err := range b.Call(context.Background(), g, r) {
			failed = err
		}
		g.Release()
		if failed == nil || len(p.Requests()) > 0 {
			t.Errorf("%s: the request went out without its image (%v)", url, failed)
		}
	}
}
