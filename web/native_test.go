package web_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"hearth/engine/infer"
	"hearth/web"
	"hearth/web/webtest"
)

// play makes the service answer with these events.
func play(svc *webtest.Service, g func(*web.Grant), evs ...infer.Event) {
	svc.Hook = func(_ context.Context, grant *web.Grant, _ *infer.Request, yield func(infer.Event, error) bool) {
		if g != nil {
			g(grant)
		}
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func frame(data string) *infer.Frame { return &infer.Frame{Data: []byte(data)} }

// TestNativeAnswers holds that what a provider of the caller's dialect sends
// arrives as it was sent, and that the headers tell what served it.
func TestNativeAnswers(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	native := &infer.Served{Name: "up", Native: true}
	usage := &infer.Usage{PromptTokens: 1, CompletionTokens: 2}
	told := func(g *web.Grant) {
		g.Route, g.Upstream = "r1", "next door"
		g.Losses = []infer.Loss{{Path: "top_k", Class: infer.Dropped}, {Path: "a b,\r\n=ü", Class: infer.Emulated}}
	}
	play(b.svc, told,
		infer.Event{Kind: infer.EventStart, Model: native, Frame: frame(`{"x":1.0}`)},
		infer.Event{Kind: infer.EventText, Text: "a", Frame: frame("{\"two\":\n\"lines\"}")},
		infer.Event{Kind: infer.EventText, Text: "more out of the same frame"},
		infer.Event{Kind: infer.EventFrame, Frame: &infer.Frame{Event: "note", Data: []byte("z")}},
		infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop},
		infer.Event{Kind: infer.EventUsage, Usage: usage, Frame: frame("[DONE]")})
	a := b.do("POST", chatPath, ask("x", `"stream":true`))
	if want := "data: {\"x\":1.0}\n\ndata: {\"two\":\ndata: \"lines\"}\n\nevent: note\ndata: z\n\ndata: [DONE]\n\n"; string(a.body) != want {
		t.Errorf("got %q", a.body)
	}
	for name, want := range map[string]string{"X-Hearth-Route": "r1", "X-Hearth-Upstream": "next%20door", "X-Hearth-Loss": "top_k=dropped, a%20b%2C%0D%0A%3D%C3%BC=emulated"} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	body := `{"object":"chat.completion", "y": 1.50}`
	play(b.svc, nil,
		infer.Event{Kind: infer.EventStart, Model: native},
		infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop},
		infer.Event{Kind: infer.EventUsage, Usage: usage, Frame: frame(body)})
	if a := b.do("POST", chatPath, ask("x")); a.status != 200 || string(a.body) != body || a.header.Get("X-Hearth-Loss") != "" {
		t.Errorf("got %d %q %v", a.status, a.body, a.header)
	}
	// Many losses are cut, and counted.
	many := func(g *web.Grant) {
		for range 500 {
			g.Losses = append(g.Losses, infer.Loss{Path: "messages[0].content[0].cache_control", Class: infer.Dropped})
		}
	}
	play(b.svc, many, infer.Event{Kind: infer.EventStart}, infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop},
		infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 3, CompletionTokens: 4, Estimated: true}})
	a = b.do("POST", chatPath, ask("x"))
	if h := a.header.Get("X-Hearth-Loss"); len(h) > 2200 || !strings.Contains(h, ", +4") {
		t.Errorf("got %d bytes: …%q", len(h), h[max(0, len(h)-60):])
	}
	if a.header.Get("X-Hearth-Usage") != "estimated" || !bytes.Contains(a.body, []byte(`"estimated":true`)) {
		t.Errorf("an estimate is not marked: %s", a.body)
	}
}

// TestCallerHeaders holds what is taken from the head of a request.
func TestCallerHeaders(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	if a := b.do("POST", chatPath, ask("x"), "X-Hearth-Timeout-Ms", "1500"); a.status != 200 || b.svc.Caller.Load().Timeout.Milliseconds() != 1500 {
		t.Errorf("got %d %v", a.status, b.svc.Caller.Load().Timeout)
	}
	for _, v := range []string{"0", "-1", "soon", "1e3", "86400001"} {
		if a := b.do("POST", chatPath, ask("x"), "X-Hearth-Timeout-Ms", v); a.status != 400 {
			t.Errorf("%s: got %d", v, a.status)
		}
	}
	if a := b.do("POST", chatPath, ask("x"), "X-Hearth-Timeout-Ms", "86400000"); a.status != 200 {
		t.Errorf("got %d", a.status)
	}
}

func pack(t *testing.T, coding, body string) string {
	t.Helper()
	var out bytes.Buffer
	var w interface {
		Write([]byte) (int, error)
		Close() error
	}
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "zlib":
		w = zlib.NewWriter(&out)
	case "flate":
		w, _ = flate.NewWriter(&out, 9)
	case "zstd":
		w, _ = zstd.NewWriter(&out)
	}
	if _, err := w.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestCompressedBodies holds that compressed bodies are read, and that nothing is
// gained by one that is small only on the wire.
func TestCompressedBodies(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	good := ask("say pony")
	for coding, name := range map[string]string{"gzip": "gzip", "zlib": "deflate", "flate": "deflate", "zstd": "zstd"} {
		packed := pack(t, coding, good)
		a := b.do("POST", chatPath, packed, "Content-Encoding", name)
		if a.status != 200 {
			t.Errorf("%s: got %d %s", coding, a.status, a.body)
		}
		for what, body := range map[string]string{"cut": packed[:len(packed)-5], "more behind": packed + "x", "not compressed": good} {
			if a := b.do("POST", chatPath, body, "Content-Encoding", name); a.status != 400 || a.errorOf(t)["code"] != "invalid_request" {
				t.Errorf("%s, %s: got %d %s", coding, what, a.status, a.body)
			}
		}
		// 8 MiB of blanks are some KiB on the wire: refused on the way.
		bomb := pack(t, coding, strings.Repeat(" ", 8<<20))
		if a := b.do("POST", chatPath, bomb, "Content-Encoding", name); a.status != 413 {
			t.Errorf("%s: a body of %d bytes that becomes 8 MiB: got %d", coding, len(bomb), a.status)
		}
	}
	// The limit of the body holds for what it becomes.
	b = start(t, web.Limits{BodyBytes: 1 << 20, BodiesBytes: 8 << 20}, nil)
	noise := make([]byte, 1<<20)
	rand.Read(noise)
	for i := range noise {
		noise[i] = 'a' + noise[i]%16
	}
	large := pack(t, "gzip", `{"x":"`+string(noise)+`"}`)
	if a := b.do("POST", chatPath, large, "Content-Encoding", "gzip"); a.status != 413 {
		t.Errorf("over 1 MiB in %d bytes: got %d", len(large), a.status)
	}
	if a := b.do("POST", chatPath, good, "Content-Encoding", "gzip, gzip"); a.status != 415 {
		t.Errorf("two codings: got %d", a.status)
	}
}
