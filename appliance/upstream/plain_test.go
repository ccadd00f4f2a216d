package upstream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hearth/engine/infer"
)

const wholeAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n{\"t\":\"Hi\",\"out\":1}"

// answers serves connections on which each request is answered with raw bytes;
// close says to close the connection afterwards, without a word about it.
func answers(t *testing.T, raw string, closes bool) (*Upstream, *atomic.Int64) {
	t.Helper()
	var conns atomic.Int64
	base := script(t, func(c net.Conn, in *bufio.Reader) {
		conns.Add(1)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			io.WriteString(c, raw)
			if closes {
				return
			}
		}
	})
	u := dialled(t, base)
	t.Cleanup(func() { u.Close() })
	return u, &conns
}

// TestServerCloses holds that connections which a server closes without saying
// so fail no request, once the close has arrived.
func TestServerCloses(t *testing.T) {
	u, conns := answers(t, wholeAnswer, true)
	for range 10 {
		if _, err := ask(t.Context(), u, false); err != nil {
			t.Fatalf("%v: %v", err, err.Cause)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if conns.Load() != 10 {
		t.Errorf("%d connections", conns.Load())
	}
}

func TestInterim(t *testing.T) {
	u, conns := answers(t, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"+wholeAnswer, false)
	for range 2 {
		if text, err := ask(t.Context(), u, false); err != nil || text != "<m >Hi[1]" {
			t.Fatalf("got %q, %v", text, err)
		}
	}
	if conns.Load() != 1 {
		t.Errorf("%d connections", conns.Load())
	}
}

func TestLongHead(t *testing.T) {
	u, _ := answers(t, "HTTP/1.1 200 OK\r\nX-Long: "+strings.Repeat("x", 2*maxHead)+"\r\nContent-Length: 0\r\n\r\n", true)
	if _, err := ask(t.Context(), u, false); err == nil || err.Upstream.Class != infer.FailMalformed || err.Upstream.Unsent {
		t.Errorf("got %+v, cause %v", err, err.Cause)
	}
}

func TestPlainAnswers(t *testing.T) {
	for _, c := range []struct {
		raw   string
		conns int64 // for two requests
		ok    bool
	}{
		{wholeAnswer, 1, true},
		{strings.Replace(wholeAnswer, "Content-Length: 18", "Content-Length: 18\r\nConnection: close", 1), 2, true},
		{strings.Replace(wholeAnswer, "HTTP/1.1", "HTTP/1.0", 1), 2, true},
		// Bytes behind an answer are not the next one's.
		{wholeAnswer + "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n{\"t\":\"No\",\"out\":9}", 2, true},
		{strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 9) + wholeAnswer, 2, false},
		{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + wholeAnswer, 2, false},
		{"SSH-2.0-x\r\n\r\n", 2, false},
		{"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 18\r\nContent-Length: 19\r\n\r\n", 2, false},
		{"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n12\r\n{\"t\":\"Hi\",\"out\":1}\r\n0\r\nX-Trailer: y\r\n\r\n", 1, true},
		{"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 2, false},
	} {
		u, conns := answers(t, c.raw, false)
		for range 2 {
			text, err := ask(t.Context(), u, false)
			if (err == nil) != c.ok || c.ok && text != "<m >Hi[1]" {
				t.Errorf("%.60q: got %q, %v", c.raw, text, err)
			}
			if err != nil && err.Upstream.Class != infer.FailMalformed && err.Upstream.Class != infer.FailLost {
				t.Errorf("%.60q: class %s", c.raw, err.Upstream.Class)
			}
			time.Sleep(5 * time.Millisecond)
		}
		if conns.Load() != c.conns {
			t.Errorf("%.60q: %d connections for two requests", c.raw, conns.Load())
		}
	}
}

// TestPlainIdle holds that unused connections are closed when their time is over.
func TestPlainIdle(t *testing.T) {
	u, conns := answers(t, wholeAnswer, false)
	u.plain.idle = 30 * time.Millisecond
	if _, err := ask(t.Context(), u, false); err != nil {
		t.Fatal(err)
	}
	free := func() int {
		u.plain.mu.Lock()
		defer u.plain.mu.Unlock()
		return len(u.plain.free)
	}
	if free() != 1 {
		t.Error("the connection was not kept")
	}
	eventually(t, func() bool { return free() == 0 })
	if _, err := ask(t.Context(), u, false); err != nil || conns.Load() != 2 {
		t.Errorf("got %v, %d connections", err, conns.Load())
	}
}

func TestAppendRequest(t *testing.T) {
	to := &url.URL{Scheme: "http", Host: "h:1", Path: "/a b", RawPath: "/a%20b", RawQuery: "q=1"}
	got, err := appendRequest(nil, "POST", to, http.Header{"X-A": {"1"}}, []byte("{}"))
	if want := "POST /a%20b?q=1 HTTP/1.1\r\nHost: h:1\r\nContent-Length: 2\r\nX-A: 1\r\n\r\n{}"; err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	for _, h := range []http.Header{{"X-A": {"1\r\nX-B: 2"}}, {"X-A\r\nX-B": {"1"}}, {"X-A": {"\x00"}}, {"": {"1"}}} {
		if _, err := appendRequest(nil, "POST", to, h, nil); err == nil {
			t.Errorf("%q was written", h)
		}
	}
}
