package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
)

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
