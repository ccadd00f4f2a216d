package appliance

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Where no request is answered nothing was measured, and the command says so.
func TestBenchServeRefused(t *testing.T) {
	bench := func(h http.HandlerFunc, more ...string) (status int, out, errs string) {
		s := httptest.NewServer(h)
		defer s.Close()
		env, o, e := testEnv(nil)
		status = Main(append([]string{"bench", "serve", "--base-url", s.URL, "--streams", "2", "--requests", "4", "--max-tokens", "3", "--quiet"}, more...), env)
		return status, o.String(), e.String()
	}
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"no such key"}}`, http.StatusUnauthorized)
	}
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(`data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n" + `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}` + "\n\ndata: [DONE]\n\n"))
	}
	for _, more := range [][]string{nil, {"--json"}} {
		status, out, errs := bench(refuse, more...)
		if status != 1 || !strings.Contains(errs, "no request was answered") || !strings.Contains(out, "no such key") {
			t.Errorf("%q, all refused: status %d\n%s%s", more, status, out, errs)
		}
		if status, out, errs := bench(answer, more...); status != 0 || errs != "" {
			t.Errorf("%q, all answered: status %d\n%s%s", more, status, out, errs)
		}
	}
}
