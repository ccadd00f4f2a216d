package upstream

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
)

// TestHTTP2 holds that requests over TLS share a connection, with roots of our
// own, and that cancelling one leaves the others alone.
func TestHTTP2(t *testing.T) {
	var conns atomic.Int64
	var reset atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("HTTP/%d", r.ProtoMajor)
		}
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"t\":\"Hi\"}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			reset.Add(1)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"t":"Hi","out":1}`)
	}))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns.Add(1)
		}
	}
	s.StartTLS()
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600)
	u := dialled(t, s.URL, func(c *policy.UpstreamConfig, _ *Options) { c.CAFile = ca })
	defer u.Close()
	if _, err := ask(t.Context(), u, false); err != nil {
		t.Fatalf("%v: %v", err, err.Cause)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := infer.NewRequest()
	r.Stream = true
	var last error
	for ev, err := range u.Backend("m", 0).Generate(ctx, r) {
		last = err
		if ev.Kind == infer.EventText {
			cancel()
		}
	}
	cancel()
	if !errors.Is(last, context.Canceled) {
		t.Errorf("got %v", last)
	}
	eventually(t, func() bool { return reset.Load() == 1 })
	if text, err := ask(t.Context(), u, false); err != nil || text != "<m >Hi[1]" || conns.Load() != 1 {
		t.Errorf("got %q, %v on %d connections", text, err, conns.Load())
	}
	// Without the root the connection is refused before anything is sent.
	other := dialled(t, s.URL)
	defer other.Close()
	_, err := ask(t.Context(), other, false)
	var unknown x509.UnknownAuthorityError
	if err == nil || err.Upstream.Class != infer.FailConnect || !err.Upstream.Unsent || !errors.As(err, &unknown) {
		t.Errorf("got %+v, cause %v", err, err.Cause)
	}
}

// TestDrain holds that an answer whose caller has left is read on for its usage,
// that the caller does not wait for it, and that this ends in time.
func TestDrain(t *testing.T) {
	for _, c := range []struct {
		name   string
		rest   string
		after  time.Duration
		usage  bool
		broken bool // leave by breaking the loop
	}{
		{"usage comes", "data: {\"t\":\"more\"}\n\ndata: {\"end\":true,\"out\":9}\n\n", 50 * time.Millisecond, true, false},
		{"loop left", "data: {\"end\":true,\"out\":9}\n\n", 50 * time.Millisecond, true, true},
		{"too late", "data: {\"end\":true,\"out\":9}\n\n", time.Second, false, false},
		{"breaks off", "", 20 * time.Millisecond, false, false},
	} {
		drained := make(chan Drained, 1)
		u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			stream(w, "data: {\"t\":\"Hi\"}\n\n")
			w.(http.Flusher).Flush()
			select {
			case <-time.After(c.after):
			case <-r.Context().Done():
				return
			}
			if c.rest == "" {
				panic(http.ErrAbortHandler)
			}
			io.WriteString(w, c.rest)
		}, func(p *policy.UpstreamConfig, o *Options) {
			p.OnCancel, p.DrainTimeout = "drain", policy.Duration(200*time.Millisecond)
			o.OnDrained = func(d Drained) { drained <- d }
		})
		ctx, cancel := context.WithCancel(t.Context())
		r := infer.NewRequest()
		r.ID, r.Stream = "req-9", true
		begun := time.Now()
		var last error
		for ev, err := range u.Backend("m", 0).Generate(ctx, r) {
			last = err
			if ev.Kind == infer.EventText {
				begun = time.Now()
				if c.broken {
					break
				}
				cancel()
			}
		}
		if d := time.Since(begun); d > 40*time.Millisecond {
			t.Errorf("%s: the caller waited %v", c.name, d)
		}
		if !c.broken && !errors.Is(last, context.Canceled) {
			t.Errorf("%s: got %v", c.name, last)
		}
		select {
		case d := <-drained:
			if d.Request != "req-9" || d.RequestID != "req_7" || d.Upstream != "up" || (d.Usage != nil) != c.usage || c.usage && d.Usage.CompletionTokens != 9 {
				t.Errorf("%s: got %+v", c.name, d)
			}
		case <-time.After(2 * time.Second):
			t.Errorf("%s: nothing was told", c.name)
		}
		cancel()
		u.Close()
	}
	// An answer that its caller read to the end is not told.
	told := false
	u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { stream(w, streamBody) }, func(p *policy.UpstreamConfig, o *Options) {
		p.OnCancel, o.OnDrained = "drain", func(Drained) { told = true }
	})
	if text, err := ask(t.Context(), u, true); err != nil || text != "<m req_7>Hi you 🫠[2]" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := ask(t.Context(), u, true); err != nil {
		t.Error(err)
	}
	u.Close()
	if told {
		t.Error("an answer that was read was told as drained")
	}
}

func TestProbe(t *testing.T) {
	var sick atomic.Bool
	var path atomic.Value
	u, s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.Method + " " + r.RequestURI + " " + r.Header.Get("Authorization"))
		if sick.Load() {
			w.WriteHeader(503)
		}
	}, func(c *policy.UpstreamConfig, o *Options) {
		c.Health.Probe, c.Health.ProbeInterval = "/health?full=1", policy.Duration(10*time.Millisecond)
		c.Credential, o.Getenv = "env:K", func(string) string { return "k" }
	})
	if !u.Health().Ready {
		t.Error("not ready before the first probe")
	}
	sick.Store(true)
	eventually(t, func() bool { h := u.Health(); return !h.Ready && strings.Contains(h.Reason, "503") })
	if path.Load() != "GET /health?full=1 Bearer k" {
		t.Errorf("got %v", path.Load())
	}
	sick.Store(false)
	eventually(t, func() bool { return u.Health().Ready })
	s.CloseClientConnections()
	s.Close()
	eventually(t, func() bool { h := u.Health(); return !h.Ready && h.Reason == "it cannot be reached" })
	u.Close()
	if h := u.Health(); h.Ready || h.Reason != "closed" {
		t.Errorf("after Close: %+v", h)
	}
	without := dialled(t, "http://127.0.0.1:1")
	defer without.Close()
	if !without.Health().Ready {
		t.Error("not ready without probes")
	}
}

// TestIdle holds that unused connections are dropped before their server drops
// them.
func TestIdle(t *testing.T) {
	for i := range profiles {
		if p := &profiles[i]; p.idle <= 0 || p.idle > 55*time.Second {
			t.Errorf("%s keeps connections for %v", p.kind, p.idle)
		}
	}
}

// TestEarlyAnswer holds that an answer which comes before the request is written
// whole is read all the same.
func TestEarlyAnswer(t *testing.T) {
	base := script(t, func(c net.Conn, in *bufio.Reader) {
		for {
			line, err := in.ReadString('\n')
			if err != nil || line == "\r\n" {
				break
			}
		}
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		io.CopyN(io.Discard, in, 1<<20)
	})
	u := dialled(t, base)
	defer u.Close()
	r := infer.NewRequest()
	r.Wire = &infer.Wire{Dialect: dialectChat, Body: make([]byte, 8<<20)}
	_, err := askFor(t.Context(), u, r)
	if err == nil || err.Upstream.Status != 413 && err.Upstream.Class != infer.FailLost {
		t.Errorf("got %+v", err)
	}
}

func TestEmbed(t *testing.T) {
	u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.6,0.8]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`)
	})
	own, err := New(&policy.UpstreamConfig{Name: "u", Kind: "openai", BaseURL: "http://" + u.target.host}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	res, err := own.Backend("m", 0).Embed(t.Context(), &infer.EmbedRequest{Inputs: []infer.Prompt{{Text: "Hi"}}})
	if err != nil || len(res.Vectors) != 1 || res.Usage.PromptTokens != 3 {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		h    map[string]string
		want time.Duration
	}{
		{nil, 0},
		{map[string]string{"Retry-After": "2"}, 2 * time.Second},
		{map[string]string{"Retry-After": "0"}, 0},
		{map[string]string{"Retry-After": "-5"}, 0},
		{map[string]string{"Retry-After": "1.5"}, 1500 * time.Millisecond},
		{map[string]string{"Retry-After": "Fri, 02 Jan 2026 03:04:15 GMT"}, 10 * time.Second},
		{map[string]string{"Retry-After": "Fri, 02 Jan 2026 03:04:00 GMT"}, 0},
		{map[string]string{"Retry-After": "99999999999"}, maxRetryAfter},
		{map[string]string{"Retry-After": "soon"}, 0},
		{map[string]string{"Retry-After-Ms": "1400", "Retry-After": "2"}, 1400 * time.Millisecond},
		{map[string]string{"X-Ratelimit-Reset-Requests": "6m0s", "X-Ratelimit-Reset-Tokens": "12ms"}, 6 * time.Minute},
		{map[string]string{"X-Ratelimit-Reset-Requests": "6m0s", "X-Ratelimit-Remaining-Requests": "5", "X-Ratelimit-Reset-Tokens": "12ms", "X-Ratelimit-Remaining-Tokens": "0"}, 12 * time.Millisecond},
		{map[string]string{"X-Ratelimit-Reset-Requests": "6m0s", "X-Ratelimit-Remaining-Requests": "-1"}, 0},
		{map[string]string{"X-Ratelimit-Reset": "1767323065000"}, 20 * time.Second},
		{map[string]string{"X-Ratelimit-Reset": "1767323055"}, 10 * time.Second},
		{map[string]string{"Anthropic-Ratelimit-Requests-Reset": "2026-01-02T03:04:35Z", "Anthropic-Ratelimit-Requests-Remaining": "0"}, 30 * time.Second},
		{map[string]string{"Retry-After": "1", "Anthropic-Ratelimit-Requests-Reset": "2026-01-02T03:04:35Z"}, time.Second},
	} {
		h := http.Header{}
		for k, v := range c.h {
			h.Set(k, v)
		}
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("%v: got %v, want %v", c.h, got, c.want)
		}
	}
}
