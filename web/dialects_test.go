package web_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/web"
	"hearth/web/webtest"
)

// ask sends a request with the headers that are given as pairs.
func (b *bench) ask(method, path, body string, headers ...string) answer {
	b.t.Helper()
	r, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, out}
}

const geminiAsk = `{"contents":[{"parts":[{"text":"hi"}]}]}`

// TestGeminiCredentials takes the key from where Google's clients put it, and
// never writes one of them down.
func TestGeminiCredentials(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	const path = "/v1beta/models/parrot:generateContent"
	for _, k := range []struct {
		query   string
		headers []string
		status  int
	}{
		{"?key=" + webtest.Key, nil, 200},
		{"", []string{"X-Goog-Api-Key", webtest.Key}, 200},
		{"", []string{"Authorization", "Bearer " + webtest.Key}, 200},
		{"?key=" + webtest.Key, []string{"X-Goog-Api-Key", webtest.Key}, 200},
		{"?key=", []string{"X-Goog-Api-Key", webtest.Key}, 200},
		{"?key=canary-in-query", []string{"X-Goog-Api-Key", webtest.Key}, 401},
		{"?key=canary-in-query&key=" + webtest.Key, nil, 401},
		{"?key=canary-in-query", nil, 401},
		{"", []string{"X-Goog-Api-Key", "canary-in-header", "X-Api-Key", webtest.Key}, 401},
		{"", nil, 401},
	} {
		a := b.ask("POST", path+k.query, geminiAsk, append(k.headers, "Content-Type", "application/json")...)
		if a.status != k.status {
			t.Errorf("%s %v: status %d, want %d: %s", k.query, k.headers, a.status, k.status, a.body)
		}
		if k.status == 401 && a.js(t)["error"].(map[string]any)["status"] != "UNAUTHENTICATED" {
			t.Errorf("%s: %s", k.query, a.body)
		}
	}
	// The query is not read on routes of other dialects.
	if a := b.ask("GET", "/v1/models?key="+webtest.Key, ""); a.status != 401 {
		t.Errorf("a key in the query of OpenAI's list: status %d", a.status)
	}
	if logs := b.logs.String(); strings.Contains(logs, webtest.Key) || strings.Contains(logs, "canary") || !strings.Contains(logs, "{model}:generateContent") {
		t.Errorf("the log has a key, or not the route:\n%s", logs)
	}
}

func TestGeminiRoutes(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	key := []string{"X-Goog-Api-Key", webtest.Key}
	for _, path := range []string{
		"/v1beta/models/parrot:generateContent", "/v1/models/parrot:generateContent", "/v1alpha/models/parrot:generateContent",
		"/v1beta1/publishers/google/models/parrot:generateContent",
		"/v1beta1/projects/p/locations/l/publishers/google/models/parrot:generateContent",
		"/v1/projects/p/locations/l/publishers/google/models/parrot:generateContent",
	} {
		if a := b.ask("POST", path, geminiAsk, key...); a.status != 200 || b.svc.Last.Load().Model != "parrot" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	a := b.ask("POST", "/v1beta/models/vendor/big:generateContent", geminiAsk, key...)
	if a.status != 404 || b.svc.Last.Load().Model != "vendor/big" || a.header.Get("X-Should-Retry") != "false" {
		t.Errorf("a name with a slash: %d %s", a.status, a.body)
	}
	a = b.ask("POST", "/v1beta/models/parrot:streamGenerateContent?alt=sse", geminiAsk, key...)
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") || !strings.HasPrefix(string(a.body), "data: {") || strings.Contains(string(a.body), "[DONE]") {
		t.Errorf("SSE: %v %s", a.header, a.body)
	}
	a = b.ask("POST", "/v1beta/models/parrot:streamGenerateContent", geminiAsk, key...)
	if a.header.Get("Content-Type") != "application/json" || !strings.HasPrefix(string(a.body), "[{") || !strings.HasSuffix(string(a.body), "]\n") {
		t.Errorf("array: %v %s", a.header, a.body)
	}
	// One list serves clients of three dialects.
	if a = b.ask("GET", "/v1/models", "", key...); a.js(t)["models"] == nil {
		t.Errorf("the list for Google's clients: %s", a.body)
	}
	if a = b.ask("GET", "/v1/models", "", "Authorization", "Bearer "+webtest.Key); a.js(t)["data"] == nil {
		t.Errorf("the list for OpenAI's clients: %s", a.body)
	}
	if a = b.ask("GET", "/v1/models/parrot", "", key...); a.js(t)["name"] != "models/parrot" {
		t.Errorf("a model for Google's clients: %s", a.body)
	}
	for path, status := range map[string]int{"/v1beta/nothing": 404, "/v1beta/models/parrot:dance": 405, "/v1beta/models/parrot:streamGenerateContent?alt=xml": 400} {
		a := b.ask("POST", path, geminiAsk, key...)
		if e, ok := a.js(t)["error"].(map[string]any); a.status != status || !ok || e["status"] == nil || e["code"] != float64(status) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a = b.ask("POST", "/v1beta/models/parrot:countTokens", geminiAsk, key...); a.js(t)["totalTokens"] != 1.0 {
		t.Errorf("count: %s", a.body)
	}
	if a = b.ask("POST", "/v1beta/models/parrot:embedContent", `{"content":{"parts":[{"text":"a"}]}}`, key...); a.js(t)["embedding"] == nil {
		t.Errorf("embedding: %s", a.body)
	}
}

// TestFramedStreamsHaveNoHeartbeat waits for an answer longer than a heartbeat:
// the clients of these streams know no comments.
func TestFramedStreamsHaveNoHeartbeat(t *testing.T) {
	b := start(t, web.Limits{Heartbeat: 100 * time.Millisecond}, nil)
	a := b.ask("POST", "/v1beta/models/parrot:streamGenerateContent?alt=sse", strings.Replace(geminiAsk, "hi", "wait 350ms", 1), "X-Goog-Api-Key", webtest.Key)
	if strings.Contains(string(a.body), ": ping") || !strings.Contains(string(a.body), "waited") {
		t.Errorf("Gemini: %s", a.body)
	}
	a = b.ask("POST", "/api/chat", `{"model":"parrot","messages":[{"role":"user","content":"wait 350ms"}]}`, "Authorization", "Bearer "+webtest.Key)
	if strings.Contains(string(a.body), "ping") || !strings.Contains(string(a.body), "waited") {
		t.Errorf("Ollama: %s", a.body)
	}
}

// TestNativeFrames passes on what a provider of the same dialect sent.
func TestNativeFrames(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	frames := []string{`{"x":1}`, `{"y":2}`}
	b.svc.Hook = func(_ context.Context, _ *web.Grant, _ *infer.Request, yield func(infer.Event, error) bool) {
		f := func(i int) *infer.Frame { return &infer.Frame{Data: []byte(frames[i])} }
		_ = yield(infer.Event{Kind: infer.EventStart, Model: &infer.Served{Name: "up", Native: true}, Frame: f(0)}, nil) &&
			yield(infer.Event{Kind: infer.EventText, Text: "metered"}, nil) &&
			yield(infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop}, nil) &&
			yield(infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 1}, Frame: f(1)}, nil)
	}
	for _, k := range []struct{ path, body, want string }{
		{"/v1beta/models/parrot:streamGenerateContent?alt=sse", geminiAsk, "data: {\"x\":1}\n\ndata: {\"y\":2}\n\n"},
		{"/v1beta/models/parrot:streamGenerateContent", geminiAsk, "[{\"x\":1},\r\n{\"y\":2}]\n"},
		{"/v1beta/models/parrot:generateContent", geminiAsk, `{"y":2}`},
		{"/api/chat", `{"model":"parrot","messages":[{"role":"user","content":"a"}]}`, "{\"x\":1}\n{\"y\":2}\n"},
		{"/api/generate", `{"model":"parrot","prompt":"a","stream":false}`, `{"y":2}`},
	} {
		a := b.ask("POST", k.path, k.body, "Authorization", "Bearer "+webtest.Key)
		if a.status != 200 || string(a.body) != k.want {
			t.Errorf("%s: %d %q, want %q", k.path, a.status, a.body, k.want)
		}
	}
}

func TestOllamaRoutes(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	key := []string{"Authorization", "Bearer " + webtest.Key}
	ask := `{"model":"parrot:latest","messages":[{"role":"user","content":"hi"}]}`
	a := b.ask("POST", "/api/chat", ask, append(key, "Content-Type", "application/x-www-form-urlencoded")...)
	if a.status != 200 || a.header.Get("Content-Type") != "application/x-ndjson" || !strings.HasSuffix(string(a.body), "}\n") || strings.Count(string(a.body), `"done":true`) != 1 {
		t.Errorf("a stream: %d %v %s", a.status, a.header, a.body)
	}
	a = b.ask("POST", "/api/chat", strings.Replace(ask, "{", `{"stream":false,`, 1), key...)
	if v := a.js(t); a.header.Get("Content-Type") != "application/json" || v["done"] != true || v["total_duration"] == nil || v["model"] != "parrot" {
		t.Errorf("whole: %s", a.body)
	}
	for body, reason := range map[string]string{`{"model":"parrot"}`: "load", `{"model":"parrot","keep_alive":0,"stream":false}`: "unload"} {
		for _, path := range []string{"/api/chat", "/api/generate"} {
			if a := b.ask("POST", path, body, key...); a.status != 200 || a.js(t)["done_reason"] != reason {
				t.Errorf("%s %s: %d %s", path, body, a.status, a.body)
			}
		}
	}
	for _, k := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/api/pull", `{"model":"x"}`, 501}, {"DELETE", "/api/delete", `{"model":"x"}`, 501}, {"POST", "/api/create", `{}`, 501},
		{"GET", "/api/chat", "", 405}, {"GET", "/api/nothing", "", 404}, {"POST", "/api/chat", `{"model":"nobody"}`, 404}, {"POST", "/api/chat", `{`, 400},
		{"POST", "/api/show", `{"model":"nobody"}`, 404}, {"POST", "/api/embed", `{"model":"nobody","input":[]}`, 404},
	} {
		a := b.ask(k.method, k.path, k.body, key...)
		if _, ok := a.js(t)["error"].(string); a.status != k.status || !ok || a.header.Get("X-Should-Retry") == "" {
			t.Errorf("%s %s: %d %v %s", k.method, k.path, a.status, a.header, a.body)
		}
	}
	if a := b.ask("GET", "/api/version", ""); a.js(t)["version"] == "" || a.js(t)["hearth"] != "1.2.3" {
		t.Errorf("version: %s", a.body)
	}
	if a := b.ask("GET", "/api/tags", ""); a.status != 401 {
		t.Errorf("the list without a key: %d", a.status)
	}
	if a := b.ask("HEAD", "/", ""); a.status != 200 {
		t.Errorf("HEAD /: %d", a.status)
	}
}
