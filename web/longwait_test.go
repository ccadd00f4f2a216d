package web_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/web"
	"hearth/web/webtest"
)

// An answer that takes longer to make than a write may take is still given,
// over either protocol.
func TestLongWait(t *testing.T) {
	cert, pool := testCert()
	b := start(t, web.Limits{WriteTime: 150 * time.Millisecond}, &tls.Config{Certificates: cert})
	b.svc.Hook = func(ctx context.Context, _ *web.Grant, _ *infer.Request, yield func(infer.Event, error) bool) {
		use := infer.Usage{PromptTokens: 1, CompletionTokens: 1}
		if !yield(infer.Event{Kind: infer.EventStart, Usage: &use, Model: &infer.Served{Name: "parrot"}}, nil) {
			return
		}
		select {
		case <-time.After(400 * time.Millisecond):
		case <-ctx.Done():
			yield(infer.Event{}, ctx.Err())
			return
		}
		_ =
			yield(infer.Event{Kind: infer.EventText, Text: "late", Tokens: 1}, nil) &&
				yield(infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop}, nil) &&
				yield(infer.Event{Kind: infer.EventUsage, Usage: &use}, nil)
	}
	for _, h2 := range []bool{false, true} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "example.com"}, ForceAttemptHTTP2: h2}
		for _, stream := range []string{"false", "false", "true", "true"} { // later ones on the same connection
			req, _ := http.NewRequest("POST", "https"+strings.TrimPrefix(b.url, "http")+chatPath, strings.NewReader(ask("x", `"stream":`+stream)))
			req.Header.Set("Authorization", "Bearer "+webtest.Key)
			r, err := (&http.Client{Transport: tr}).Do(req)
			if err != nil {
				t.Fatalf("http2 %v: %v", h2, err)
			}
			out, err := io.ReadAll(r.Body)
			if err != nil || !strings.Contains(string(out), "late") {
				t.Errorf("http2 %v, stream %s: %v, got %s", h2, stream, err, out)
			}
			r.Body.Close()
			if r.StatusCode != http.StatusOK {
				t.Errorf("http2 %v: got status %d", h2, r.StatusCode)
			}
		}
		tr.CloseIdleConnections()
	}
}
