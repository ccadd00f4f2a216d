package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// chunked reads from a list of pieces, one piece a call.
type chunked [][]byte

func (c *chunked) Read(p []byte) (int, error) {
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*c)[0])
	if (*c)[0] = (*c)[0][n:]; len((*c)[0]) == 0 {
		*c = (*c)[1:]
	}
	return n, nil
}

func all(src io.Reader, max int) (string, error) {
	r := NewReader(src, max)
	var b strings.Builder
	for {
		e, err := r.Next()
		if err != nil {
			return b.String(), err
		}
		fmt.Fprintf(&b, "<%s|%s|%s>", e.Name, e.Data, e.ID)
	}
}

var framings = []struct{ in, want string }{
	{"data: a\n\ndata: b\n\n", "<|a|><|b|>"},
	{"data: a\r\n\r\ndata: b\r\n\r\n", "<|a|><|b|>"},
	{"data: a\r\rdata: b\r\r", "<|a|><|b|>"},
	{"data: a\r\n\rdata: b\n\r\n", "<|a|><|b|>"},
	{"data:a\n\ndata:  b\n\n", "<|a|><| b|>"},
	{"data: a", "<|a|>"},
	{"data: a\n", "<|a|>"},
	{"data: a\n\ndata: [DONE]", "<|a|><|[DONE]|>"},
	{": hello\n\n:\n\ndata: a\n:x\n\n", "<|a|>"},
	{"data: a\ndata: b\ndata\n\n", "<|a\nb\n|>"},
	{"event: x\ndata: {}\nid: 7\nretry: 5\nnobody: knows\n\ndata: 2\n\n", "<x|{}|7><|2|7>"},
	{"event: lost\n\ndata: a\n\n", "<|a|>"},
	{"\ufeffdata: a\n\n", "<|a|>"},
	{"data: \xef\xbb\xbfé🙂\n\n", "<|\ufeffé🙂|>"},
	{"\n\n\r\n\rdata: a\n\n\n\n", "<|a|>"},
	{"id: a\x00b\ndata: 1\n\n", "<|1|>"},
	{"", ""},
}

func TestReaderFramings(t *testing.T) {
	for _, c := range framings {
		got, err := all(strings.NewReader(c.in), 0)
		if err != io.EOF || strings.ReplaceAll(got, "|>", ">") != strings.ReplaceAll(c.want, "|>", ">") {
			t.Errorf("%q: got %q, %v, want %q", c.in, got, err, c.want)
		}
		// The same, split at every byte, and byte by byte.
		for i := 1; i < len(c.in); i++ {
			again, err := all(&chunked{[]byte(c.in[:i]), []byte(c.in[i:])}, 0)
			if again != got || err != io.EOF {
				t.Errorf("%q split at %d: got %q, %v, want %q", c.in, i, again, err, got)
			}
		}
		if again, err := all(iotest.OneByteReader(strings.NewReader(c.in)), 0); again != got || err != io.EOF {
			t.Errorf("%q by bytes: got %q, %v, want %q", c.in, again, err, got)
		}
	}
}

func TestReaderLimits(t *testing.T) {
	ok := "data: " + strings.Repeat("x", 1000) + "\n\n"
	if _, err := all(strings.NewReader(ok), 1000); err != io.EOF {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := all(strings.NewReader(ok), 999); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one past the limit: %v", err)
	}
	if _, err := all(strings.NewReader(strings.Repeat("data: xxxxx\n", 1000)), 999); !errors.Is(err, ErrTooLarge) {
		t.Errorf("many lines past the limit: %v", err)
	}
	if _, err := all(strings.NewReader(strings.Repeat("x", 1<<20)), 999); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one endless line: %v", err)
	}
	if _, err := all(strings.NewReader("data: a\n\ndat"), 0); err != io.ErrUnexpectedEOF {
		t.Errorf("a field cut in its name: %v", err)
	}
	boom := errors.New("boom")
	if got, err := all(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(boom)), 0); got != "<|a|>" || err != boom {
		t.Errorf("a broken connection: %q, %v", got, err)
	}
}

func TestWriter(t *testing.T) {
	rec := httptest.NewRecorder()
	w := NewWriter(rec, time.Second)
	if w.Started() {
		t.Fatal("started before anything was sent")
	}
	for _, f := range []func() error{w.Ping, func() error { return w.Send([]byte("data: 1\n\n")) }} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	if rec.Body.String() != ": ping\n\ndata: 1\n\n" || !rec.Flushed || rec.Header().Get("X-Accel-Buffering") != "no" {
		t.Errorf("got %q %v", rec.Body, rec.Header())
	}
}

// A peer that reads nothing must not hold the handler beyond the deadline.
func TestWriterGivesUpOnStuckReader(t *testing.T) {
	done := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		w := NewWriter(rw, 300*time.Millisecond)
		frame := append(append([]byte("data: "), bytes.Repeat([]byte("x"), 1<<16)...), "\n\n"...)
		for {
			if err := w.Send(frame); err != nil {
				done <- err
				return
			}
		}
	}))
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("the writer still waits for a reader that reads nothing")
	}
}

// FuzzReader holds that the way the input is cut never changes what is read.
func FuzzReader(f *testing.F) {
	for i, c := range framings {
		f.Add([]byte(c.in), uint8(i+1))
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		whole, werr := all(bytes.NewReader(in), 1<<12)
		var parts chunked
		for rest := in; len(rest) > 0; {
			n := min(int(step%16)+1, len(rest))
			parts, rest = append(parts, rest[:n:n]), rest[n:]
		}
		cut, cerr := all(&parts, 1<<12)
		if werr == io.EOF && (cut != whole || cerr != werr) {
			t.Fatalf("%q: whole %q %v, cut %q %v", in, whole, werr, cut, cerr)
		}
	})
}
