package web_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/web"
	"hearth/web/webtest"
)

// raw sends bytes no client library would send and returns what came back
// until the peer closed or fell silent.
func (b *bench) raw(payload string, wait time.Duration) string {
	b.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(wait))
	go io.WriteString(c, payload)
	var out bytes.Buffer
	_, _ = io.Copy(&out, c)
	return out.String()
}

func statuses(raw string) (out []string) {
	for _, line := range strings.Split(raw, "\r\n") {
		if strings.HasPrefix(line, "HTTP/1.") && len(line) > 12 {
			out = append(out, line[9:12])
		}
	}
	return out
}

// TestSmuggling sends requests whose end two readers could see in two places.
// Each must be refused, or be seen as exactly one request: the hidden one, for
// /livez, is never answered.
func TestSmuggling(t *testing.T) {
	b := start(t, web.Limits{HeaderTime: time.Second, BodyStall: 500 * time.Millisecond, BodyTime: time.Second}, nil)
	const hidden = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
	head := "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + webtest.Key + "\r\n"
	cl := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	for name, payload := range map[string]string{
		"two lengths":              head + cl(0) + cl(len(hidden)) + "\r\n" + hidden,
		"a list of lengths":        head + "Content-Length: 0, 31\r\n\r\n" + hidden,
		"signed length":            head + "Content-Length: +31\r\n\r\n" + hidden,
		"negative length":          head + "Content-Length: -1\r\n\r\n" + hidden,
		"huge length":              head + "Content-Length: 99999999999999999999\r\n\r\n" + hidden,
		"length with underscore":   head + "Content-Length: 3_1\r\n\r\n" + hidden,
		"space before colon":       head + "Content-Length : 31\r\n\r\n" + hidden,
		"folded header":            head + "Content-Length: 0\r\n 31\r\n\r\n" + hidden,
		"chunked twice":            head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunked and identity":     head + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
		"unknown coding":           head + "Transfer-Encoding: xchunked\r\n" + cl(len(hidden)) + "\r\n" + hidden,
		"bad chunk size":           head + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
		"negative chunk":           head + "Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n",
		"huge chunk":               head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nabc\r\n0\r\n\r\n",
		"chunk without its end":    head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcX0\r\n\r\n",
		"bare line feed in chunks": head + "Transfer-Encoding: chunked\r\n\r\n0\n\n" + hidden,
		"NUL in a header":          head + "X-A: a\x00b\r\n" + cl(0) + "\r\n",
		"CR in a header":           head + "X-A: a\rb\r\n" + cl(0) + "\r\n",
		"no host":                  "GET /livez HTTP/1.1\r\n\r\n",
		"two hosts":                "GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"bad version":              "GET /livez HTTP/9.9\r\nHost: a\r\n\r\n",
		"bad method":               "G E T /livez HTTP/1.1\r\nHost: a\r\n\r\n",
		"a request line of LF":     "GET /livez\nHost: a\n\n",
	} {
		got := statuses(b.raw(payload, 3*time.Second))
		if len(got) > 1 || len(got) == 1 && got[0] == "200" {
			t.Errorf("%s: answered %v", name, got)
		}
	}
	// Length and chunked together: the chunks count, and nothing that comes
	// after them on the connection.
	got := statuses(b.raw(head+cl(5+len(hidden))+"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+hidden, time.Second))
	if len(got) != 1 || got[0] != "400" {
		t.Errorf("length and chunked: answered %v", got)
	}
}

// TestHeaderAbuse sends heads beyond the bounds.
func TestHeaderAbuse(t *testing.T) {
	b := start(t, web.Limits{HeaderTime: 700 * time.Millisecond}, nil)
	many := func(n int, line string) string { return strings.Repeat(line, n) }
	for name, c := range map[string]struct {
		head   string
		status string // "" allows a closed connection too
	}{
		"a value of 64 KiB": {"X-A: " + strings.Repeat("a", 64<<10) + "\r\n", "431"},
		"a name of 64 KiB":  {strings.Repeat("a", 64<<10) + ": 1\r\n", "431"},
		"4 000 names": {func() (s string) {
			for i := range 4000 {
				s += fmt.Sprintf("X-%d: 1\r\n", i)
			}
			return
		}(), "431"},
		"101 values":          {many(101, "X-A: 1\r\n"), "431"},
		"1 000 cookies":       {many(1000, "Cookie: a=b\r\n"), "431"},
		"98 values and a key": {many(98, "X-A: 1\r\n"), "200"},
	} {
		got := statuses(b.raw("GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+c.head+"\r\n", 5*time.Second))
		if len(got) != 1 || got[0] != c.status {
			t.Errorf("%s: answered %v, want %s", name, got, c.status)
		}
	}
	// Our own count answers in the dialect.
	if got := b.raw("GET /v1/models HTTP/1.1\r\nHost: x\r\n"+many(101, "X-A: 1\r\n")+"\r\n", time.Second); !strings.Contains(got, `"code":"headers_too_large"`) {
		t.Errorf("101 values: %q", got)
	}
	// A head that drips is cut in time.
	c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	start := time.Now()
	go func() {
		for range 100 {
			if _, err := io.WriteString(c, "G"); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.Copy(io.Discard, c)
	if d := time.Since(start); d > 8*time.Second {
		t.Errorf("a dripping head was borne for %s", d)
	}
}

// TestBodyAbuse sends bodies beyond the bounds, in chunks and by length.
func TestBodyAbuse(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	send := func(body io.Reader, n int64) *answer {
		t.Helper()
		req, _ := http.NewRequest("POST", b.url+chatPath, body)
		req.ContentLength = n
		req.Header.Set("Authorization", "Bearer "+webtest.Key)
		req.Header.Set("Content-Type", "application/json")
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		res, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			t.Fatalf("the connection was torn down without an answer: %v", err)
		}
		defer res.Body.Close()
		out, _ := io.ReadAll(res.Body)
		return &answer{res.StatusCode, res.Header, out}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, n := range map[string]int64{"100 MiB by length": 100 << 20, "100 MiB in chunks": -1, "one byte beyond": 20<<20 + 1} {
		size := max(n, 20<<20+1)
		if n < 0 {
			size = 100 << 20
		}
		started := time.Now()
		if a := send(io.LimitReader(zeros{}, size), n); a.status != 413 || a.errorOf(t)["code"] != "request_too_large" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if d := time.Since(started); d > 20*time.Second {
			t.Errorf("%s: took %s", name, d)
		}
	}
	runtime.ReadMemStats(&after)
	if got := int64(after.TotalAlloc - before.TotalAlloc); got > 200<<20 {
		t.Errorf("%d MiB were allocated for three refused bodies", got>>20)
	}
	// Just at the limit the body is read, and is no JSON request.
	if a := send(io.LimitReader(zeros{}, 20<<20), 20<<20); a.status != 400 {
		t.Errorf("at the limit: %d", a.status)
	}
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for name, body := range map[string]string{
		"deep":          deep,
		"deep content":  `{"model":"parrot","messages":[{"role":"user","content":` + deep + `}]}`,
		"deep schema":   ask("x", `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":`+strings.Repeat(`{"items":`, 10_000)+"1"+strings.Repeat("}", 10_000)+`}}`),
		"10^6 messages": `{"model":"parrot","messages":[` + strings.Repeat(`{"role":"user","content":"x"},`, 600_000) + `{}]}`,
		"a huge number": ask("x", `"seed":`+strings.Repeat("9", 1<<20)),
		"10^6 stops":    ask("x", `"stop":[`+strings.Repeat(`"a",`, 1_000_000)+`"a"]`),
		"10^5 members": ask("x", `"logit_bias":{`+func() (s string) {
			var w strings.Builder
			for i := range 100_000 {
				fmt.Fprintf(&w, `"%d":1,`, i)
			}
			return w.String()
		}()+`"x":1}`),
		"invalid UTF-8":    ask("x")[:40] + "\xff" + ask("x")[40:],
		"unpaired half":    `{"model":"parrot","messages":[{"role":"user","content":"a\ud800b"}]}`,
		"negative maximum": ask("x", `"max_tokens":-1`),
	} {
		a := send(strings.NewReader(body), int64(len(body)))
		if a.status != 400 || a.errorOf(t)["type"] != "invalid_request_error" {
			t.Errorf("%s: %d %.200s", name, a.status, a.body)
		}
	}
	// A client that waits for leave to send hears the refusal without sending.
	got := b.raw("POST "+chatPath+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+webtest.Key+"\r\nExpect: 100-continue\r\nContent-Length: 104857600\r\n\r\n", 3*time.Second)
	if s := statuses(got); len(s) != 1 || s[0] != "413" {
		t.Errorf("expect: %v", s)
	}
}

// TestSlowBody drips a body, or stops in the middle of one.
func TestSlowBody(t *testing.T) {
	b := start(t, web.Limits{BodyStall: 200 * time.Millisecond, BodyTime: 600 * time.Millisecond, LingerTime: 100 * time.Millisecond}, nil)
	head := "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + webtest.Key + "\r\nContent-Length: 1000\r\n\r\n"
	for name, pause := range map[string]time.Duration{"drips": 50 * time.Millisecond, "stops": time.Hour} {
		c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, head+"{")
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(pause):
				}
				if _, err := io.WriteString(c, " "); err != nil {
					return
				}
			}
		}()
		started := time.Now()
		_ = c.SetReadDeadline(started.Add(4 * time.Second))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: no answer: %v", name, err)
		} else if res.StatusCode != 408 || res.Header.Get("X-Should-Retry") != "true" {
			t.Errorf("%s: %d %v", name, res.StatusCode, res.Header)
		}
		if d := time.Since(started); d > 6*time.Second {
			t.Errorf("%s: borne for %s", name, d)
		}
		close(stop)
		c.Close()
	}
}

// TestSlowCrowd has 120 clients that drip their heads or read nothing, and
// holds that others are served beside them.
func TestSlowCrowd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	b := start(t, web.Limits{HeaderTime: time.Second, WriteTime: time.Second}, nil)
	b.svc.Hook = func(ctx context.Context, _ *web.Grant, r *infer.Request, yield func(infer.Event, error) bool) {
		if webtest.Asked(r) == "endless" {
			word := strings.Repeat("word ", 4000)
			for yield(infer.Event{Kind: infer.EventText, Text: word, Tokens: 1}, nil) && ctx.Err() == nil {
			}
			return
		}
		_ = yield(infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop}, nil) && yield(infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{}}, nil)
	}
	var open []net.Conn
	for i := range 120 {
		c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		if i%2 == 0 {
			io.WriteString(c, "POST ")
			continue
		}
		body := ask("endless", `"stream":true`)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", chatPath, webtest.Key, len(body), body)
	}
	for range 20 {
		started := time.Now()
		if a := b.do("POST", chatPath, ask("x")); a.status != 200 {
			t.Fatalf("%d", a.status)
		}
		if d := time.Since(started); d > 8*time.Second {
			t.Errorf("an answer beside the crowd took %s", d)
		}
	}
	limit := time.Now().Add(8 * time.Second)
	for b.srv.Conns() > 0 && time.Now().Before(limit) {
		time.Sleep(20 * time.Millisecond)
	}
	if n := b.srv.Conns(); n > 0 {
		t.Errorf("%d of 120 slow connections are still held", n)
	}
	for _, c := range open {
		c.Close()
	}
}
