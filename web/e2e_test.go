package web_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/web"
	"hearth/web/sse"
	"hearth/web/webtest"
)

// bench is a server with a scripted model behind it.
type bench struct {
	t    testing.TB
	svc  *webtest.Service
	srv  *web.Server
	url  string
	logs *syncBuffer
	mu   sync.Mutex
	seen []web.Exchange
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start serves plain HTTP on loopback; tc makes it TLS.
func start(t testing.TB, lim web.Limits, tc *tls.Config) *bench {
	t.Helper()
	b := &bench{t: t, svc: &webtest.Service{}, logs: &syncBuffer{}}
	var err error
	b.srv, err = web.New(web.Options{
		Service: b.svc, Limits: lim, Version: "1.2.3", Build: map[string]string{"go": "test"},
		Log: slog.New(slog.NewTextHandler(b.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "hearth_up 1")
		}),
		Observe: func(e web.Exchange) { b.mu.Lock(); b.seen = append(b.seen, e); b.mu.Unlock() },
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- b.srv.Serve(l, tc) }()
	b.url = "http://" + l.Addr().String()
	t.Cleanup(func() {
		b.srv.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		// Handlers of cut connections end a moment later.
		for limit := time.Now().Add(10 * time.Second); b.srv.Open() > 0 && time.Now().Before(limit); {
			time.Sleep(5 * time.Millisecond)
		}
		if a, r := b.svc.Admitted.Load(), b.svc.Released.Load(); a != r {
			t.Errorf("%d admitted, %d released", a, r)
		}
		if c, e := b.svc.Calls.Load(), b.svc.Ended.Load(); c != e {
			t.Errorf("%d calls, %d ended", c, e)
		}
	})
	return b
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) js(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%v: %d %q", err, a.status, a.body)
	}
	return v
}

// errorOf holds an answer to be a well-formed error.
func (a *answer) errorOf(t testing.TB) map[string]any {
	t.Helper()
	e, ok := a.js(t)["error"].(map[string]any)
	if !ok || e["message"] == "" || e["type"] == "" {
		t.Fatalf("no error object: %d %s", a.status, a.body)
	}
	if a.header.Get("X-Should-Retry") == "" || a.header.Get("X-Request-Id") == "" || a.header.Get("Request-Id") != a.header.Get("X-Request-Id") {
		t.Fatalf("headers are missing: %v", a.header)
	}
	return e
}

func (b *bench) do(method, path, body string, header ...string) *answer {
	b.t.Helper()
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, b.url+path, rd)
	if err != nil {
		b.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+webtest.Key)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer c.CloseIdleConnections()
	res, err := c.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return &answer{res.StatusCode, res.Header, out}
}

func ask(content string, extra ...string) string {
	c, _ := json.Marshal(content)
	s := `{"model":"parrot","messages":[{"role":"user","content":` + string(c) + `}]`
	for _, e := range extra {
		s += "," + e
	}
	return s + "}"
}

const chatPath = "/v1/chat/completions"

func TestWholeAnswer(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	a := b.do("POST", chatPath, ask("good morning"), "X-Request-Id", "mine-1", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	v := a.js(t)
	ch := v["choices"].([]any)[0].(map[string]any)
	if ch["message"].(map[string]any)["content"] != "You said: good morning" || ch["finish_reason"] != "stop" || v["system_fingerprint"] != "fp_test" {
		t.Errorf("got %s", a.body)
	}
	for name, want := range map[string]string{
		"X-Client-Request-Id": "mine-1", "X-Hearth-Contract": "sha256:0123456789abcdef", "X-Ratelimit-Limit-Requests": "60", "X-Ratelimit-Remaining-Requests": "59",
		"X-Ratelimit-Reset-Requests": "1s", "X-Ratelimit-Reset-Tokens": "6m0s", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"Content-Type": "application/json", "X-Content-Type-Options": "nosniff",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	id := a.header.Get("X-Request-Id")
	if !strings.HasPrefix(id, "req_") || v["id"] != "chatcmpl-"+id[4:] || a.header.Get("Openai-Processing-Ms") == "" {
		t.Errorf("ids: %s %v", id, v["id"])
	}
	c := b.svc.Caller.Load()
	if c.Route != "POST /v1/chat/completions" || c.RequestID != id || c.TraceParent == "" || c.Credential != webtest.Key {
		t.Errorf("caller: %+v", c)
	}
	if r := b.svc.Last.Load(); r.ID != id || r.Tenant != "acme" {
		t.Errorf("request: %+v", r)
	}
}

// events reads a stream to its end.
func events(t testing.TB, body []byte) []string {
	t.Helper()
	r := sse.NewReader(bytes.NewReader(body), 0)
	var out []string
	for {
		e, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(e.Data))
	}
}

func TestStream(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	a := b.do("POST", chatPath, ask("naïve 🙂 day", `"stream":true`, `"stream_options":{"include_usage":true}`))
	if ct := a.header.Get("Content-Type"); a.status != 200 || !strings.HasPrefix(ct, "text/event-stream") || a.header.Get("X-Hearth-Contract") == "" {
		t.Fatalf("%d %v", a.status, a.header)
	}
	ev := events(t, a.body)
	if ev[len(ev)-1] != "[DONE]" {
		t.Errorf("the last event is %s", ev[len(ev)-1])
	}
	text := ""
	for _, e := range ev[:len(ev)-1] {
		var c struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(e), &c); err != nil {
			t.Fatal(err)
		}
		if len(c.Choices) > 0 {
			text += c.Choices[0].Delta.Content
		}
	}
	if text != "You said: naïve 🙂 day" {
		t.Errorf("got %q", text)
	}
	// Both base URL habits, and the other route.
	for _, p := range []string{"/chat/completions", "/v1/chat/completions/"} {
		if a := b.do("POST", p, ask("x")); a.status != 200 {
			t.Errorf("%s: %d", p, a.status)
		}
	}
	a = b.do("POST", "/v1/completions", `{"model":"parrot","prompt":["a","b"],"n":2,"stream":true}`)
	if n := strings.Count(string(a.body), `"finish_reason":"stop"`); n != 4 || !strings.HasSuffix(string(a.body), "data: [DONE]\n\n") {
		t.Errorf("%d ends in %s", n, a.body)
	}
}

// TestErrors holds status, code, param and the retry headers of every layer.
func TestErrors(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	f := func(name string, a *answer, status int, code string, retry bool) {
		t.Helper()
		e := a.errorOf(t)
		if a.status != status || e["code"] != code {
			t.Errorf("%s: got %d %v, want %d %s", name, a.status, e, status, code)
		}
		if got := a.header.Get("X-Should-Retry") == "true"; got != retry || retry != (a.header.Get("Retry-After") != "") || retry != (a.header.Get("Retry-After-Ms") != "") {
			t.Errorf("%s: retry headers %v", name, a.header)
		}
	}
	key := func(k string) *answer { return b.do("POST", chatPath, ask("x"), "Authorization", "Bearer "+k) }
	f("no key", b.do("POST", chatPath, ask("x"), "Authorization", ""), 401, "invalid_api_key", false)
	f("wrong key", key("sk-wrong"), 401, "invalid_api_key", false)
	f("basic", b.do("POST", chatPath, ask("x"), "Authorization", "Basic YTpi"), 401, "invalid_api_key", false)
	f("two keys", b.do("POST", chatPath, ask("x"), "X-Api-Key", "another"), 401, "invalid_api_key", false)
	f("forbidden", key("forbidden"), 403, "permission_denied", false)
	f("limited", key("limited"), 429, "rate_limit_exceeded", true)
	f("broke", key("broke"), 429, "insufficient_quota", false)
	f("unknown path", b.do("GET", "/v1/no-such-thing", ""), 404, "not_found", false)
	f("unknown path, posted", b.do("POST", "/v1/nowhere", ask("x")), 404, "not_found", false)
	f("method", b.do("GET", chatPath, ""), 405, "method_not_allowed", false)
	f("method put", b.do("PUT", chatPath, "{}"), 405, "method_not_allowed", false)
	f("method of a prefix", b.do("DELETE", "/v1/models/a", ""), 405, "method_not_allowed", false)
	f("media type", b.do("POST", chatPath, ask("x"), "Content-Type", "application/x-www-form-urlencoded"), 415, "unsupported_media_type", false)
	f("charset", b.do("POST", chatPath, ask("x"), "Content-Type", "application/json; charset=utf-16"), 415, "unsupported_media_type", false)
	f("compressed", b.do("POST", chatPath, ask("x"), "Content-Encoding", "br"), 415, "unsupported_media_type", false)
	f("no body", b.do("POST", chatPath, ""), 400, "invalid_request", false)
	f("no JSON", b.do("POST", chatPath, "{"), 400, "invalid_request", false)
	f("unknown field", b.do("POST", chatPath, ask("x", `"frobnicate":1`)), 400, "invalid_request", false)
	f("unknown model", b.do("POST", chatPath, `{"model":"nobody","messages":[{"role":"user","content":"x"}]}`), 404, "model_not_found", false)
	f("unknown model, streamed", b.do("POST", chatPath, `{"model":"nobody","stream":true,"messages":[{"role":"user","content":"x"}]}`), 404, "model_not_found", false)
	f("unknown model by id", b.do("GET", "/v1/models/org/nobody", ""), 404, "model_not_found", false)
	f("panic", b.do("POST", chatPath, ask("panic")), 500, "internal_error", false)
	f("panic, streamed", b.do("POST", chatPath, ask("panic", `"stream":true`)), 500, "internal_error", false)
	for code, status := range map[string]int{"overloaded": 503, "unavailable": 503, "timeout": 504, "upstream_error": 502} {
		f(code, b.do("POST", chatPath, ask("error "+code)), status, code, true)
	}
	f("context", b.do("POST", chatPath, ask("error context_length_exceeded")), 400, "context_length_exceeded", false)
	b.svc.Down.Store("draining")
	f("draining", b.do("POST", chatPath, ask("x")), 503, "unavailable", true)
	if a := b.do("GET", "/readyz", ""); a.status != 503 || !strings.Contains(string(a.body), "draining") {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	if a := b.do("GET", "/health", ""); a.status != 503 || len(a.body) != 0 {
		t.Errorf("health: %d %s", a.status, a.body)
	}
	if a := b.do("GET", "/livez", ""); a.status != 200 {
		t.Errorf("livez: %d", a.status)
	}
	logs := b.logs.String()
	if strings.Contains(logs, "the words of a prompt") || strings.Contains(logs, webtest.Key) || strings.Contains(logs, "sk-wrong") {
		t.Errorf("content or a secret is in the log:\n%s", logs)
	}
	if strings.Count(logs, "BUG") < 2 {
		t.Errorf("the panics are not in the log")
	}
}

func TestRetryAfterNumbers(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	a := b.do("POST", chatPath, ask("x"), "Authorization", "Bearer limited")
	if a.header.Get("Retry-After") != "2" || a.header.Get("Retry-After-Ms") != "1500" || a.header.Get("X-Ratelimit-Remaining-Requests") != "0" {
		t.Errorf("got %v", a.header)
	}
	if a := b.do("POST", chatPath, ask("x"), "Authorization", "", "X-Api-Key", webtest.Key); a.status != 200 {
		t.Errorf("x-api-key: %d", a.status)
	}
}

// A stream that breaks ends with an error frame, without an end mark and
// without an invented finish.
func TestStreamBreaks(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	for _, how := range []string{"die", "crash"} {
		a := b.do("POST", chatPath, ask(how, `"stream":true`))
		ev := events(t, a.body)
		last := ev[len(ev)-1]
		if !strings.HasPrefix(last, `{"error":{`) || strings.Contains(string(a.body), "[DONE]") || strings.Contains(string(a.body), `"finish_reason":"`) {
			t.Errorf("%s: got %s", how, a.body)
		}
		if a := b.do("POST", chatPath, ask(how)); a.status != map[string]int{"die": 503, "crash": 500}[how] || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s, whole: %d %v", how, a.status, a.header)
		}
	}
}

// A first event that lets wait is bridged by comments; an error after that is
// told in the stream.
func TestHeartbeat(t *testing.T) {
	b := start(t, web.Limits{Heartbeat: 120 * time.Millisecond}, nil)
	a := b.do("POST", chatPath, ask("wait 500ms", `"stream":true`))
	if n := strings.Count(string(a.body), ": ping\n\n"); n < 2 || n > 5 || !strings.HasSuffix(string(a.body), "[DONE]\n\n") {
		t.Errorf("%d pings in %s", n, a.body)
	}
	b.svc.Hook = func(_ context.Context, _ *web.Grant, _ *infer.Request, yield func(infer.Event, error) bool) {
		time.Sleep(300 * time.Millisecond)
		yield(infer.Event{}, infer.Errorf(infer.CodeOverloaded, "the queue is full"))
	}
	a = b.do("POST", chatPath, ask("x", `"stream":true`))
	if a.status != 200 || !strings.Contains(string(a.body), ": ping") || !strings.Contains(string(a.body), `"code":"overloaded"`) || strings.Contains(string(a.body), "DONE") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A client that leaves ends the call, streamed or not.
func TestDisconnect(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	for _, stream := range []string{"true", "false"} {
		for _, how := range []string{"endless", "wait 1m"} {
			ended := b.svc.Ended.Load()
			ctx, cancel := context.WithCancel(context.Background())
			req, _ := http.NewRequestWithContext(ctx, "POST", b.url+chatPath, strings.NewReader(ask(how, `"stream":`+stream)))
			req.Header.Set("Authorization", "Bearer "+webtest.Key)
			go func() { time.Sleep(100 * time.Millisecond); cancel() }()
			res, err := http.DefaultClient.Do(req)
			if err == nil {
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			limit := time.Now().Add(8 * time.Second)
			for b.svc.Ended.Load() == ended && time.Now().Before(limit) {
				time.Sleep(5 * time.Millisecond)
			}
			if b.svc.Ended.Load() == ended {
				t.Errorf("%s, stream %s: the call goes on without its client", how, stream)
			}
		}
	}
}

// A peer that reads nothing slows its own generation, and is cut in the end.
func TestStuckReader(t *testing.T) {
	b := start(t, web.Limits{WriteTime: 400 * time.Millisecond}, nil)
	made := 0
	b.svc.Hook = func(ctx context.Context, _ *web.Grant, _ *infer.Request, yield func(infer.Event, error) bool) {
		word := strings.Repeat("word ", 4000)
		for yield(infer.Event{Kind: infer.EventText, Text: word, Tokens: 1}, nil) && ctx.Err() == nil {
			made++
		}
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := ask("x", `"stream":true`)
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", chatPath, webtest.Key, len(body), body)
	limit := time.Now().Add(5 * time.Second)
	for b.svc.Ended.Load() == 0 && time.Now().Before(limit) {
		time.Sleep(10 * time.Millisecond)
	}
	if b.svc.Ended.Load() == 0 {
		t.Fatal("the call still runs for a peer that does not read")
	}
	if made > 2000 {
		t.Errorf("%d events of 20 kB were made for a peer that does not read", made)
	}
}

func TestTools(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	tools := `"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]`
	v := b.do("POST", chatPath, ask("x", tools)).js(t)
	ch := v["choices"].([]any)[0].(map[string]any)
	msg := ch["message"].(map[string]any)
	if calls := msg["tool_calls"].([]any); len(calls) != 2 || msg["content"] != nil || ch["finish_reason"] != "tool_calls" {
		t.Errorf("got %v", ch)
	}
	v = b.do("POST", chatPath, ask("x", `"functions":[{"name":"f"}]`)).js(t)
	ch = v["choices"].([]any)[0].(map[string]any)
	if fc := ch["message"].(map[string]any)["function_call"].(map[string]any); fc["name"] != "f" || ch["finish_reason"] != "function_call" {
		t.Errorf("got %v", ch)
	}
}

func TestResources(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	v := b.do("GET", "/v1/models", "").js(t)
	if m := v["data"].([]any)[0].(map[string]any); m["id"] != "parrot" || m["max_model_len"] != 2048.0 || v["has_more"] != false {
		t.Errorf("models: %v", v)
	}
	if v := b.do("GET", "/models/parrot", "").js(t); v["object"] != "model" || v["type"] != "model" {
		t.Errorf("model: %v", v)
	}
	if v := b.do("POST", "/tokenize", `{"model":"parrot","prompt":"ab","return_token_strs":true}`).js(t); v["count"] != 3.0 || v["max_model_len"] != 2048.0 || fmt.Sprint(v["tokens"]) != "[1 97 98]" || fmt.Sprint(v["token_strs"]) != "[ a b]" {
		t.Errorf("tokenize: %v", v)
	}
	if v := b.do("POST", "/v1/tokenize", `{"messages":[{"role":"user","content":"ab"}]}`).js(t); v["count"] != 2.0 {
		t.Errorf("tokenize a chat: %v", v)
	}
	if v := b.do("POST", "/detokenize", `{"model":"parrot","tokens":[1,97,98]}`).js(t); v["prompt"] != "ab" {
		t.Errorf("detokenize: %v", v)
	}
	if a := b.do("POST", "/detokenize", `{"model":"parrot","tokens":[999]}`); a.status != 400 {
		t.Errorf("detokenize an unknown id: %d", a.status)
	}
	if v := b.do("POST", "/v1/embeddings", `{"model":"parrot","input":["a","b"],"dimensions":5}`).js(t); len(v["data"].([]any)) != 2 {
		t.Errorf("embeddings: %v", v)
	}
	a := b.do("POST", chatPath, ask("ab", `"return_token_ids":true`))
	if v := a.js(t); fmt.Sprint(v["prompt_token_ids"]) != "[97 98]" {
		t.Errorf("prompt ids: %s", a.body)
	}
	for _, path := range []string{"/", "/metrics", "/v1/models", "/livez", "/version"} {
		if a := b.do("HEAD", path, ""); a.status != 200 || len(a.body) != 0 {
			t.Errorf("HEAD %s: %d %q", path, a.status, a.body)
		}
	}
	if a := b.do("GET", "/metrics", "", "X-Forwarded-For", "192.0.2.7", "Authorization", ""); a.status != 401 {
		t.Errorf("metrics through a proxy without a key: %d", a.status)
	}
	if a := b.do("GET", "/metrics", "", "Authorization", ""); a.status != 200 {
		t.Errorf("metrics from loopback: %d", a.status)
	}
	if v := b.do("GET", "/version", "").js(t); v["version"] != "1.2.3" {
		t.Errorf("version: %v", v)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.seen {
		if e.Route == "" || e.Status == 0 || e.Duration < 0 {
			t.Errorf("a poor record: %+v", e)
		}
	}
}

// One connection carries many requests, refusals among them.
func TestKeepAlive(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for i, want := range []int{200, 400, 401, 404, 405, 415, 200} {
		key, path, body, ct := webtest.Key, chatPath, ask("x"), "application/json"
		switch want {
		case 400:
			body = "{"
		case 401:
			key = "no"
		case 404:
			path = "/nowhere"
		case 405:
			path = "/livez"
		case 415:
			ct = "text/html"
		}
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", path, key, ct, len(body), body)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		io.Copy(io.Discard, res.Body)
		if res.StatusCode != want {
			t.Errorf("request %d: %d, want %d", i, res.StatusCode, want)
		}
	}
}

func TestLimitsAreChecked(t *testing.T) {
	for _, lim := range []web.Limits{{Heartbeat: time.Minute}, {BodyBytes: 100, BodiesBytes: 10}, {HeaderTime: time.Hour}, {ConnsPerAddress: 10, Conns: 5}, {HeaderValues: 3}} {
		if _, err := web.New(web.Options{Service: &webtest.Service{}, Limits: lim}); err == nil {
			t.Errorf("%+v was taken", lim)
		}
	}
	if _, err := web.New(web.Options{}); err == nil {
		t.Error("no service, and no complaint")
	}
}

// HTTP/2 over TLS serves streams too.
func TestHTTP2(t *testing.T) {
	cert, pool := testCert()
	b := start(t, web.Limits{}, &tls.Config{Certificates: cert})
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "example.com"}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	req, _ := http.NewRequest("POST", "https"+strings.TrimPrefix(b.url, "http")+chatPath, strings.NewReader(ask("two", `"stream":true`)))
	req.Header.Set("Authorization", "Bearer "+webtest.Key)
	res, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil || res.ProtoMajor != 2 || !strings.HasSuffix(string(out), "data: [DONE]\n\n") {
		t.Errorf("%v %s %s", err, res.Proto, out)
	}
	// A body beyond the limit is refused over HTTP/2 as well.
	req, _ = http.NewRequest("POST", req.URL.String(), io.LimitReader(zeros{}, 30<<20))
	req.Header.Set("Authorization", "Bearer "+webtest.Key)
	res, err = (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 413 {
		t.Errorf("30 MiB over HTTP/2: %d", res.StatusCode)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
