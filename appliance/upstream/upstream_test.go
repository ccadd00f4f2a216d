package upstream

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hearth/engine/infer"
	"hearth/policy"
	"hearth/web/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a provider; the upstream under test speaks the codec of these
// tests to it.
func serve(t testing.TB, h http.HandlerFunc, tune ...func(*policy.UpstreamConfig, *Options)) (*Upstream, *httptest.Server) {
	t.Helper()
	s := httptest.NewServer(h)
	u := dialled(t, s.URL, tune...)
	t.Cleanup(func() { u.Close(); s.CloseClientConnections(); s.Close() })
	return u, s
}

func dialled(t testing.TB, base string, tune ...func(*policy.UpstreamConfig, *Options)) *Upstream {
	t.Helper()
	c, o := &policy.UpstreamConfig{Name: "up", Kind: "openai-compatible", BaseURL: base}, Options{}
	for _, f := range tune {
		f(c, &o)
	}
	framing := wire.FramingSSE
	if c.Kind == "ollama" {
		framing = wire.FramingNDJSON
	} else if c.Kind == "bedrock" {
		framing = wire.FramingEventStream
	}
	u, err := build(c, o, testClients(framing))
	if err != nil {
		t.Fatal(err)
	}
	if viaTransport {
		u.plain = nil
	}
	return u
}

// viaTransport sends what would go over connections of our own through net/http.
var viaTransport bool

// TestViaTransport holds that both ways to a provider behave alike.
func TestViaTransport(t *testing.T) {
	viaTransport = true
	defer func() { viaTransport = false }()
	for name, f := range map[string]func(*testing.T){
		"Generate": TestGenerate, "Reuse": TestReuse, "ContentTypes": TestContentTypes, "ContentCodings": TestContentCodings, "GzipFlushed": TestGzipFlushed,
		"Death": TestDeath, "Unsent": TestUnsent, "StaleConnection": TestStaleConnection, "ServerCloses": TestServerCloses, "Refusals": TestRefusals, "Cancel": TestCancel,
		"Timeouts": TestTimeouts, "HugeFrames": TestHugeFrames, "Close": TestClose, "Drain": TestDrain, "Interim": TestInterim, "LongHead": TestLongHead,
	} {
		t.Run(name, f)
	}
}

// script answers a connection with raw bytes, whatever is asked, piece by piece.
func script(t testing.TB, f func(c net.Conn, in *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c, bufio.NewReader(c))
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String()
}

// ask runs a request and collects its events as text.
func ask(ctx context.Context, u *Upstream, stream bool) (string, *infer.Error) {
	r := infer.NewRequest()
	r.ID, r.Stream = "req", stream
	return askFor(ctx, u, r)
}

func askFor(ctx context.Context, u *Upstream, r *infer.Request) (string, *infer.Error) {
	var b strings.Builder
	for ev, err := range u.Backend("m", 16).Generate(ctx, r) {
		if err != nil {
			return b.String(), infer.AsError(err)
		}
		switch ev.Kind {
		case infer.EventStart:
			fmt.Fprintf(&b, "<%s %s>", ev.Model.Name, ev.Model.RequestID)
		case infer.EventText:
			b.WriteString(ev.Text)
		case infer.EventUsage:
			fmt.Fprintf(&b, "[%d]", ev.Usage.CompletionTokens)
		}
	}
	return b.String(), nil
}

const streamBody = "data: {\"t\":\"Hi \"}\n\ndata: {\"t\":\"you 🫠\"}\n\ndata: {\"end\":true,\"out\":2}\n\n"

func stream(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Request-Id", "req_7")
	io.WriteString(w, body)
}

func TestGenerate(t *testing.T) {
	var got atomic.Pointer[http.Request]
	u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got.Store(r)
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"stream":true`)) {
			stream(w, streamBody)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "req_7")
		io.WriteString(w, `{"t":"Hi you 🫠","out":2}`)
	}, func(c *policy.UpstreamConfig, o *Options) {
		c.Credential, c.Headers = "env:KEY", map[string]string{"x-team": "red"}
		o.Getenv = func(string) string { return " sk-1\n" }
		o.Version = "9"
	})
	ctx := WithTrace(t.Context(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b")
	for _, s := range []bool{false, true} {
		text, err := ask(ctx, u, s)
		if err != nil || text != "<m req_7>Hi you 🫠[2]" {
			t.Errorf("stream %v: got %q, %v", s, text, err)
		}
		h := got.Load().Header
		for k, v := range map[string]string{"Authorization": "Bearer sk-1", "X-Team": "red", "User-Agent": "hearth/9", "Accept-Encoding": "identity",
			"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate": "a=b", "Content-Type": "application/json"} {
			if h.Get(k) != v {
				t.Errorf("%s: got %q, want %q", k, h.Get(k), v)
			}
		}
		if p := got.Load().URL.Path; p != "/v1/chat/completions" {
			t.Errorf("path %s", p)
		}
	}
}

// TestReuse holds that connections are used again after whole answers, streams
// whose end mark comes before their last byte, and refusals.
func TestReuse(t *testing.T) {
	var conns atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"stream":true`)) {
			stream(w, streamBody)
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond) // the end of the body comes later
			return
		}
		w.WriteHeader(429)
	}))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	u := dialled(t, s.URL)
	defer u.Close()
	for i := range 6 {
		ask(t.Context(), u, i%2 == 0)
		time.Sleep(20 * time.Millisecond)
	}
	if conns.Load() != 1 {
		t.Errorf("%d connections for six requests", conns.Load())
	}
}

func TestContentTypes(t *testing.T) {
	whole, sse := `{"t":"Hi","out":1}`, "data: {\"t\":\"Hi\"}\n\ndata: {\"end\":true,\"out\":1}\n\n"
	for _, c := range []struct {
		kind, body string
		want       string // "" : malformed
	}{
		{"application/json", whole, "<m >Hi[1]"},
		{"application/json; charset=utf-8", whole, "<m >Hi[1]"},
		{"application/problem+json", whole, "<m >Hi[1]"},
		{"text/event-stream", sse, "<m >Hi[1]"},
		{"text/event-stream;charset=UTF-8", sse, "<m >Hi[1]"},
		{"text/plain", sse, "<m >Hi[1]"},
		{"text/plain", " \n" + whole, "<m >Hi[1]"},
		{"application/octet-stream", whole, "<m >Hi[1]"},
		{"text/html", "<html>", ""},
		{"text/plain", "<html>", ""},
		{"text/plain", "", ""},
		{"application/x-ndjson", whole + "\n", ""},
		{"application/vnd.amazon.eventstream", "\x00", ""},
		{"image/png", whole, ""},
		{"application/json", "<html>", ""},
		{"application/json", "", ""},
		{"text/event-stream", "data: <html>\n\n", ""},
	} {
		for _, streamed := range []bool{false, true} {
			u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				io.WriteString(w, c.body)
			})
			text, err := ask(t.Context(), u, streamed)
			if c.want == "" {
				if err == nil || err.Upstream == nil || err.Upstream.Class != infer.FailMalformed && c.body != "" || err.Upstream.Unsent {
					t.Errorf("%s %q: got %q, %v", c.kind, c.body, text, err)
				}
			} else if err != nil || text != c.want {
				t.Errorf("%s %q stream %v: got %q, %v", c.kind, c.body, streamed, text, err)
			}
			u.Close()
		}
	}
}

// TestNativeOnlyWhereAsked holds that an answer in another form than was asked
// for is not said to be the caller's own.
func TestNativeOnlyWhereAsked(t *testing.T) {
	for _, c := range []struct{ asked, came, native bool }{{false, false, true}, {true, true, true}, {true, false, false}, {false, true, false}} {
		u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if c.came {
				stream(w, streamBody)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"t":"Hi","out":1}`)
		})
		r := infer.NewRequest()
		r.Stream, r.Wire = c.asked, &infer.Wire{Dialect: dialectChat, Body: []byte("{}")}
		for ev, err := range u.Backend("m", 0).Generate(t.Context(), r) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Kind == infer.EventStart && ev.Model.Native != c.native {
				t.Errorf("%+v: native %v", c, ev.Model.Native)
			}
			if ev.Frame != nil && !c.native {
				t.Errorf("%+v: a frame", c)
			}
		}
	}
}

func TestSplitAtEveryByte(t *testing.T) {
	for name, body := range map[string]string{
		"LF": streamBody, "CRLF": strings.ReplaceAll(streamBody, "\n", "\r\n"), "CR": strings.ReplaceAll(streamBody, "\n", "\r"),
		"no last blank": strings.TrimRight(streamBody, "\n"), "comments": ": hi\n\n" + strings.ReplaceAll(streamBody, "data: ", ":x\ndata:"),
	} {
		for _, size := range []int{1, 2, 3, 7} {
			base := script(t, func(c net.Conn, in *bufio.Reader) {
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
				for b := []byte(body); len(b) > 0; b = b[min(size, len(b)):] {
					c.Write(b[:min(size, len(b))])
				}
			})
			u := dialled(t, base)
			if text, err := ask(t.Context(), u, true); err != nil || text != "<m >Hi you 🫠[2]" {
				t.Errorf("%s by %d: got %q, %v", name, size, text, err)
			}
			u.Close()
		}
	}
}

func squeeze(coding, body string, flush func()) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	default:
		w, _ = flate.NewWriter(&b, 6)
	}
	io.WriteString(w, body)
	w.Close()
	return b.Bytes()
}

func TestContentCodings(t *testing.T) {
	members := append(squeeze("gzip", streamBody[:30], nil), squeeze("gzip", streamBody[30:], nil)...)
	for _, c := range []struct {
		coding string
		body   []byte
		ok     bool
	}{
		{"gzip", squeeze("gzip", streamBody, nil), true}, {"x-gzip", squeeze("gzip", streamBody, nil), true}, {"gzip", members, true},
		{"deflate", squeeze("zlib", streamBody, nil), true}, {"deflate", squeeze("flate", streamBody, nil), true},
		{"identity", []byte(streamBody), true}, {"gzip, identity", squeeze("gzip", streamBody, nil), true},
		{"deflate, gzip", squeeze("gzip", string(squeeze("zlib", streamBody, nil)), nil), true},
		{"br", []byte("x"), false}, {"gzip", []byte("no gzip at all"), false}, {"gzip", squeeze("gzip", streamBody, nil)[:40], false},
		{"gzip,gzip,gzip,gzip", []byte("x"), false},
	} {
		u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", c.coding)
			w.Write(c.body)
		})
		text, err := ask(t.Context(), u, true)
		if ok := err == nil && text == "<m >Hi you 🫠[2]"; ok != c.ok {
			t.Errorf("%s: got %q, %v", c.coding, text, err)
		}
		u.Close()
	}
}

// TestGzipFlushed holds that compressed events are passed on when they come.
func TestGzipFlushed(t *testing.T) {
	next := make(chan struct{})
	u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		for _, ev := range strings.SplitAfter(streamBody, "\n\n") {
			io.WriteString(z, ev)
			z.Flush()
			w.(http.Flusher).Flush()
			if ev != "" {
				<-next
			}
		}
		z.Close()
	})
	r := infer.NewRequest()
	r.Stream = true
	n := 0
	for ev, err := range u.Backend("m", 0).Generate(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == infer.EventText || ev.Kind == infer.EventUsage {
			n++
			next <- struct{}{} // the provider waits until we have it
		}
	}
	if n != 3 {
		t.Errorf("%d events", n)
	}
}

// TestDeath holds what an answer that breaks off is called, at every byte of it.
func TestDeath(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	var raw strings.Builder
	raw.WriteString(head)
	for _, ev := range strings.SplitAfter(streamBody, "\n\n") {
		if ev != "" {
			fmt.Fprintf(&raw, "%x\r\n%s\r\n", len(ev), ev)
		}
	}
	full := raw.String()
	usage := strings.Index(full, "{\"end\"") + len("{\"end\":true,\"out\":2}\n\n")
	var at atomic.Int64
	base := script(t, func(c net.Conn, in *bufio.Reader) {
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		io.WriteString(c, full[:at.Load()])
	})
	u := dialled(t, base)
	defer u.Close()
	for i := range len(full) {
		at.Store(int64(i))
		text, err := ask(t.Context(), u, true)
		if i >= usage {
			if err != nil {
				t.Errorf("at %d: %v", i, err)
			}
			continue
		}
		// Between the end mark's last character and the blank line after it the
		// event is complete although its frame is not.
		if err == nil && i >= usage-2 {
			continue
		}
		if err == nil || err.Upstream == nil || err.Upstream.Unsent {
			t.Fatalf("at %d of %d: got %q, %v", i, len(full), text, err)
		}
		if c := err.Upstream.Class; c != infer.FailLost && !(i > 0 && i < len(head) && c == infer.FailMalformed) {
			t.Fatalf("at %d of %d: class %s: %v", i, len(full), c, err.Cause)
		}
	}
}

func TestUnsent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	l.Close()
	hangsUp := script(t, func(c net.Conn, in *bufio.Reader) {
		http.ReadRequest(in)
	})
	plain := script(t, func(c net.Conn, in *bufio.Reader) { io.Copy(io.Discard, in) })
	for _, c := range []struct {
		name, base string
		class      infer.FailureClass
		unsent     bool
	}{
		{"closed port", closed, infer.FailConnect, true},
		{"no such name", "http://nowhere.invalid", infer.FailConnect, true},
		{"no TLS there", strings.Replace(hangsUp, "http:", "https:", 1), infer.FailConnect, true},
		{"silent TLS", strings.Replace(plain, "http:", "https:", 1), infer.FailConnect, true},
		{"hangs up", hangsUp, infer.FailLost, false},
	} {
		u := dialled(t, c.base, func(p *policy.UpstreamConfig, o *Options) {
			p.ConnectTimeout = policy.Duration(200 * time.Millisecond)
			dial := (&net.Dialer{}).DialContext
			o.Dial = func(ctx context.Context, n, a string) (net.Conn, error) {
				if strings.HasPrefix(a, "nowhere") {
					return nil, &net.DNSError{Err: "no such host", Name: a, IsNotFound: true}
				}
				return dial(ctx, n, a)
			}
		})
		_, err := ask(t.Context(), u, false)
		if err == nil || err.Upstream == nil || err.Upstream.Class != c.class || err.Upstream.Unsent != c.unsent {
			t.Errorf("%s: got %+v, cause %v", c.name, err.Upstream, err.Cause)
		}
		u.Close()
	}
}

// TestStaleConnection holds that a kept connection which the provider closed
// costs nothing where nothing was written on it, and that a request is never
// sent twice.
func TestStaleConnection(t *testing.T) {
	var requests atomic.Int64
	base := script(t, func(c net.Conn, in *bufio.Reader) {
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			if requests.Add(1)%2 == 0 {
				return // after the request, before any answer
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n{\"t\":\"Hi\",\"out\":1}")
		}
	})
	u := dialled(t, base)
	defer u.Close()
	if _, err := ask(t.Context(), u, false); err != nil {
		t.Fatal(err)
	}
	_, err := ask(t.Context(), u, false)
	if err == nil || err.Upstream.Class != infer.FailLost || err.Upstream.Unsent {
		t.Errorf("got %v", err)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests arrived, want 2", n)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status int
		header http.Header
		class  infer.FailureClass
		unsent bool
		wait   time.Duration
	}{
		{400, nil, infer.FailRequest, true, 0}, {401, nil, infer.FailAuth, true, 0}, {403, nil, infer.FailAuth, true, 0}, {404, nil, infer.FailRequest, true, 0},
		{408, nil, infer.FailRequest, false, 0}, {409, nil, infer.FailRequest, false, 0}, {413, nil, infer.FailRequest, true, 0}, {424, nil, infer.FailRequest, false, 0},
		{429, http.Header{"Retry-After": {"7"}}, infer.FailRateLimit, true, 7 * time.Second},
		{429, http.Header{"Retry-After-Ms": {"1400"}, "Retry-After": {"9"}}, infer.FailRateLimit, true, 1400 * time.Millisecond},
		{503, nil, infer.FailOverload, true, 0}, {529, nil, infer.FailOverload, true, 0},
		{500, nil, infer.FailServer, false, 0}, {502, nil, infer.FailServer, false, 0}, {504, nil, infer.FailServer, false, 0},
		{302, http.Header{"Location": {"/elsewhere"}}, infer.FailMalformed, false, 0},
	} {
		var asked atomic.Int64
		u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			for k, v := range c.header {
				w.Header()[k] = v
			}
			w.Header().Set("Request-Id", "r1")
			w.WriteHeader(c.status)
			io.WriteString(w, "<html>edge-0447</html>")
		})
		_, err := ask(t.Context(), u, true)
		f := err.Upstream
		if f.Class != c.class || f.Unsent != c.unsent || f.RetryAfter != c.wait || f.Status != c.status || f.RequestID != "r1" || asked.Load() != 1 {
			t.Errorf("%d: got %+v after %d requests", c.status, f, asked.Load())
		}
		if strings.Contains(err.Error(), "edge") {
			t.Errorf("%d: %v", c.status, err)
		}
		u.Close()
	}
}

func TestErrorsInStream(t *testing.T) {
	for _, c := range []struct {
		body   string
		class  infer.FailureClass
		unsent bool
	}{
		{"data: {\"error\":\"overload\"}\n\n", infer.FailOverload, true},
		{"data: {\"t\":\"Hi\"}\n\ndata: {\"error\":\"overload\"}\n\n", infer.FailOverload, false},
		{"data: {\"error\":\"server\"}\n\n", infer.FailServer, false},
	} {
		u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { stream(w, c.body) })
		_, err := ask(t.Context(), u, true)
		if err == nil || err.Upstream.Class != c.class || err.Upstream.Unsent != c.unsent || err.Upstream.RequestID != "req_7" {
			t.Errorf("%q: got %+v", c.body, err)
		}
		u.Close()
	}
}

// TestCancel holds that the provider sees the end of the connection soon after
// the caller leaves, in every phase.
func TestCancel(t *testing.T) {
	for _, phase := range []string{"before the head", "after the head", "midway", "whole", "loop left"} {
		gone, started := make(chan time.Time, 1), make(chan struct{})
		base := script(t, func(c net.Conn, in *bufio.Reader) {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
			switch phase {
			case "after the head":
				io.WriteString(c, head)
			case "midway", "loop left":
				io.WriteString(c, head+"data: {\"t\":\"Hi\"}\n\n")
			case "whole":
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"t\":")
			}
			close(started)
			in.ReadByte()
			gone <- time.Now()
		})
		u := dialled(t, base)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan time.Time, 1)
		go func() {
			<-started
			time.Sleep(20 * time.Millisecond)
			if phase != "loop left" {
				left <- time.Now()
				cancel()
			}
		}()
		r := infer.NewRequest()
		r.Stream = phase != "whole"
		var last error
		for ev, err := range u.Backend("m", 0).Generate(ctx, r) {
			last = err
			if phase == "loop left" && ev.Kind == infer.EventText {
				left <- time.Now()
				break
			}
		}
		if phase != "loop left" && !errors.Is(last, context.Canceled) {
			t.Errorf("%s: got %v", phase, last)
		}
		if d := (<-gone).Sub(<-left); d > 100*time.Millisecond {
			t.Errorf("%s: the provider saw it after %v", phase, d)
		}
		cancel()
		u.Close()
	}
}

func TestTimeouts(t *testing.T) {
	for _, phase := range []string{"head", "stream", "whole", "deadline"} {
		base := script(t, func(c net.Conn, in *bufio.Reader) {
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			switch phase {
			case "stream":
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"t\":\"Hi\"}\n\n")
			case "whole":
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"t\":")
			}
			io.Copy(io.Discard, in)
		})
		u := dialled(t, base, func(c *policy.UpstreamConfig, o *Options) {
			c.FirstByteTimeout, c.IdleTimeout = policy.Duration(60*time.Millisecond), policy.Duration(60*time.Millisecond)
			if phase == "deadline" {
				c.FirstByteTimeout = 0
			}
		})
		ctx := t.Context()
		if phase == "deadline" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 60*time.Millisecond)
			defer cancel()
		}
		begun := time.Now()
		_, err := ask(ctx, u, phase != "whole")
		if err == nil || err.Code != infer.CodeTimeout || err.Upstream.Class != infer.FailTimeout || err.Upstream.Unsent || time.Since(begun) > time.Second {
			t.Errorf("%s: got %+v after %v", phase, err, time.Since(begun))
		}
		u.Close()
	}
}

func TestHugeFrames(t *testing.T) {
	u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == "application/json" {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"t":"`)
			io.CopyN(w, endless{}, 1<<20)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: ")
		io.CopyN(w, endless{}, maxFrame+100)
	}, func(_ *policy.UpstreamConfig, o *Options) { o.MaxAnswer = 1 << 19 })
	for _, s := range []bool{true, false} {
		if _, err := ask(t.Context(), u, s); err == nil || err.Upstream.Class != infer.FailMalformed {
			t.Errorf("stream %v: got %v", s, err)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestClose(t *testing.T) {
	started := make(chan struct{})
	u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(started)
		<-r.Context().Done()
	})
	go func() {
		<-started
		u.Close()
	}()
	if _, err := ask(t.Context(), u, true); err == nil || err.Code != infer.CodeUnavailable {
		t.Errorf("got %v", err)
	}
	if _, err := ask(t.Context(), u, true); err == nil || err.Code != infer.CodeUnavailable || !err.Upstream.Unsent {
		t.Errorf("after Close: got %v", err)
	}
}
