package upstream

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
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
