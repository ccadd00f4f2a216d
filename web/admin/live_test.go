package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hearth/engine/infer"
)

// watched is a server whose overview tells the uptime, in seconds, that the
// function gives.
func watched(t *testing.T, uptime func(context.Context) (int, error)) *Server {
	t.Helper()
	type nothing struct{}
	gone := false
	s, err := New(Options{Service: tokens{gone: &gone}, Operations: NewRegistry(&Operation{Name: "telemetry/overview", Method: "GET", Path: "/overview", Summary: "x", Access: Read,
		In: reflect.TypeFor[nothing](), Out: reflect.TypeFor[map[string]any](), Run: func(ctx context.Context, _ any) (any, error) {
			text, _ := sample("telemetry/overview")
			var out map[string]any
			if err := json.Unmarshal([]byte(text), &out); err != nil {
				return nil, err
			}
			n, err := uptime(ctx)
			out["uptime_s"] = n
			return out, err
		}})})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// watch asks for a live page over HTTP/1 from this machine.
func watch(t *testing.T, s *Server) (reply *http.Response, end func()) {
	t.Helper()
	ours, theirs := net.Pipe()
	l := &oneConn{c: near{theirs}, closed: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, nil) }()
	go io.WriteString(ours, "GET /live?page=/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer t\r\nAccept: text/event-stream\r\n\r\n")
	reply, err := http.ReadResponse(bufio.NewReader(ours), nil)
	if err != nil {
		t.Fatal(err)
	}
	return reply, func() {
		ours.Close()
		s.Close()
		<-served
	}
}

// oneConn is a listener at which one connection comes.
type oneConn struct {
	c      net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.c; c != nil {
		l.c = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}
func (l *oneConn) Close() error   { close(l.closed); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv6loopback} }

type near struct{ net.Conn }

func (near) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv6loopback, Port: 9} }

// A stream lasts while there is somebody to read it: longer than the body of a
// request may take, and each change comes at the next tick.
func TestLiveLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := watched(t, func(context.Context) (int, error) { return int(time.Since(began).Minutes()) * 60, nil })
		reply, end := watch(t, s)
		defer end()
		lines := bufio.NewScanner(reply.Body)
		want := "Up 0 since"
		for _, next := range []string{"Up 1 min since", "Up 2 min since", "Up 3 min since", "Up 4 min since", ""} {
			for !strings.Contains(lines.Text(), want) {
				if !lines.Scan() {
					t.Fatalf("after %v the stream ends before it says %q: %v", time.Since(began), want, lines.Err())
				}
			}
			want = next
		}
		if took := time.Since(began); took < 4*time.Minute || took > 4*time.Minute+liveEvery {
			t.Errorf("four minutes were told after %v", took)
		}
	})
}

// A page that cannot be rendered is not said to be live: it is an error, after
// which the browser waits before it asks again. One that fails later ends, and
// who asks again gets it as it is then.
func TestLiveThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		fails.Store(true)
		s := watched(t, func(context.Context) (int, error) {
			if fails.Load() {
				return 0, infer.Errorf(infer.CodeOverloaded, "not now")
			}
			return 1, nil
		})
		p, _ := s.pageAt(t.Context(), "/")
		reads := p.Reads
		defer func() { p.Reads = reads }()
		p.Reads = []Query{{As: "o", Op: "telemetry/overview"}} // as one that the page cannot do without
		r := httptest.NewRequest("GET", "https://localhost/live?page=/", nil)
		r.Header.Set("Authorization", "Bearer t")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != statusOf(infer.CodeOverloaded) || strings.Contains(w.Header().Get("Content-Type"), "event-stream") {
			t.Errorf("status %d, %s", w.Code, w.Header().Get("Content-Type"))
		}

		fails.Store(false)
		reply, end := watch(t, s)
		defer end()
		time.Sleep(3 * liveEvery)
		fails.Store(true)
		all, err := io.ReadAll(reply.Body)
		if err != nil || reply.StatusCode != http.StatusOK || strings.Count(string(all), "event: live\n") != 1 {
			t.Errorf("status %d, %v: %s", reply.StatusCode, err, all)
		}
		if n := s.watching.Load(); n != 0 || len(s.scenes.list) != 0 {
			t.Errorf("%d streams and %d scenes are left", n, len(s.scenes.list))
		}
	})
}

// What a page can do without is missing where its asker goes while it is read.
// Others who look at the same scene are not shown that.
func TestSceneOfOneWhoGoes(t *testing.T) {
	s := watched(t, func(ctx context.Context) (int, error) { return 60, ctx.Err() })
	caller := &Caller{User: "ada", Role: Owner}
	look := func(ctx context.Context) (string, error) {
		p, r := s.pageAt(With(ctx, caller), "/")
		x := &exchange{s: s, r: r, caller: caller}
		scene := s.scenes.enter(sceneKey{"/", *caller})
		defer s.scenes.leave(scene)
		event, _, err := scene.event(time.Now, func() ([]byte, error) { return x.livePart(p) })
		return string(event), err
	}
	stays := s.scenes.enter(sceneKey{"/", *caller})
	defer s.scenes.leave(stays)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := look(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("what was read for one who has gone: %v", err)
	}
	if event, err := look(t.Context()); err != nil || !strings.Contains(event, "Up 1 min") {
		t.Errorf("%v: %s", err, event)
	}
}
