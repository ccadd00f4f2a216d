package otlp

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"
)

// collector takes posts and answers as it is told.
type collector struct {
	*httptest.Server
	mu     sync.Mutex // guards below
	bodies [][]byte
	heads  []http.Header
	answer func(n int, w http.ResponseWriter)
}

func newCollector(t *testing.T, answer func(n int, w http.ResponseWriter)) *collector {
	c := &collector{answer: answer}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(in)
			if err != nil {
				t.Error(err)
				return
			}
			in = z
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		c.bodies, c.heads = append(c.bodies, b), append(c.heads, r.Header)
		n := len(c.bodies)
		c.mu.Unlock()
		if c.answer != nil {
			c.answer(n, w)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) seen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.bodies)
}

func exporter(t *testing.T, c *collector, change func(*Options)) *Exporter {
	t.Helper()
	o := Options{Endpoint: c.URL, Client: &http.Client{Transport: &http.Transport{}}, Queue: 8, Batch: 2, Interval: 20 * time.Millisecond, Timeout: 2 * time.Second, Pause: time.Millisecond}
	if change != nil {
		change(&o)
	}
	e := New(o)
	t.Cleanup(func() { e.Close(5 * time.Second) })
	return e
}

func group(n int) []Span {
	out := make([]Span, n)
	for i := range out {
		out[i] = Span{Trace: [16]byte{1}, ID: [8]byte{byte(i + 1)}, Name: "s", Kind: Internal, Start: time.Unix(1, 0), End: time.Unix(2, 0),
			Attrs: []Attr{String("k", strings.Repeat("v", 200)), Int("n", -1), Bool("b", false), Float("f", 0), Strings("l", "a", "")}}
	}
	return out
}

// spansIn counts the spans of a request, strictly: every byte must belong to a
// field of the protocol.
func spansIn(t *testing.T, b []byte) int {
	t.Helper()
	n := 0
	walk(t, "", b, func(path string, _ []byte) {
		if path == "/1/2/2" {
			n++
		}
	})
	return n
}

// inner lists the fields that are messages, by their path from the request.
var inner = map[string]bool{
	"/1": true, "/1/1": true, "/1/1/1": true, "/1/1/1/2": true, "/1/2": true, "/1/2/1": true,
	"/1/2/2": true, "/1/2/2/9": true, "/1/2/2/9/2": true, "/1/2/2/9/2/5": true, "/1/2/2/9/2/5/1": true, "/1/2/2/11": true, "/1/2/2/15": true,
}

func walk(t *testing.T, path string, b []byte, do func(path string, v []byte)) {
	t.Helper()
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatalf("a broken tag at %s", path)
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			t.Fatalf("a broken value at %s/%d", path, num)
		}
		at := path + "/" + string(appendInt(nil, int(num)))
		if typ == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b)
			do(at, v)
			if inner[at] {
				walk(t, at, v, do)
			}
		}
		b = b[n:]
	}
}

func appendInt(b []byte, n int) []byte {
	if n >= 10 {
		b = appendInt(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

func TestExport(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c := newCollector(t, nil)
	e := exporter(t, c, func(o *Options) {
		o.Header = func(h http.Header) error { h.Set("Authorization", "Bearer x"); return nil }
	})
	for range 5 {
		if !e.Offer(group(3)) {
			t.Fatal("no room")
		}
	}
	e.Close(5 * time.Second)
	n := 0
	for i, b := range c.bodies {
		n += spansIn(t, b)
		if h := c.heads[i]; h.Get("Content-Type") != "application/x-protobuf" || h.Get("Authorization") != "Bearer x" || (h.Get("Content-Encoding") == "gzip") != (len(b) >= gzipFrom) {
			t.Errorf("head %v", h)
		}
	}
	if s := e.Stats(); n != 15 || s.Exported != 15 || s.Dropped != 0 {
		t.Errorf("%d spans came, %+v", n, s)
	}
	if e.Offer(group(1)) {
		t.Error("a closed exporter takes spans")
	}
	c.Close()
}

func TestRetryAndGiveUp(t *testing.T) {
	c := newCollector(t, func(n int, w http.ResponseWriter) {
		switch {
		case n < 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n == 4:
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	var told atomic.Int64
	e := exporter(t, c, func(o *Options) {
		o.Batch = 1
		o.Failed = func(err error, n int) {
			if !strings.Contains(err.Error(), "400") {
				t.Error(err)
			}
			told.Add(int64(n))
		}
	})
	e.Offer(group(2)) // 503, 503, 200
	e.Offer(group(3)) // 400: never again
	e.Close(5 * time.Second)
	if s := e.Stats(); s.Exported != 2 || s.Dropped != 3 || s.Failures != 3 || c.seen() != 4 || told.Load() != 3 {
		t.Errorf("%+v after %d posts, told of %d", s, c.seen(), told.Load())
	}
}

func TestPartialSuccess(t *testing.T) {
	c := newCollector(t, func(_ int, w http.ResponseWriter) {
		inside := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 2)
		w.Write(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inside))
	})
	e := exporter(t, c, nil)
	e.Offer(group(3))
	e.Close(5 * time.Second)
	if s := e.Stats(); s.Exported != 1 || s.Rejected != 2 {
		t.Errorf("%+v", s)
	}
}

// A collector that hangs costs nothing but the spans.
func TestNeverBlocks(t *testing.T) {
	hang := make(chan struct{})
	c := newCollector(t, func(int, http.ResponseWriter) { <-hang })
	e := exporter(t, c, func(o *Options) { o.Batch, o.Timeout = 1, 50*time.Millisecond })
	began := time.Now()
	taken := 0
	for range 1000 {
		if e.Offer(group(1)) {
			taken++
		}
	}
	if took := time.Since(began); took > time.Second || taken > 9+8 {
		t.Errorf("1000 offers took %s, %d were taken", took, taken)
	}
	e.Close(200 * time.Millisecond)
	close(hang)
	if s := e.Stats(); s.Dropped+s.Exported != 1000 || s.Dropped < 900 {
		t.Errorf("%+v", s)
	}
}

func TestUnreachable(t *testing.T) {
	c := newCollector(t, nil)
	c.Close()
	failed := make(chan error, 10)
	e := exporter(t, c, func(o *Options) { o.Failed = func(err error, _ int) { failed <- err } })
	e.Offer(group(1))
	select {
	case err := <-failed:
		if err == nil || strings.Contains(err.Error(), c.URL) {
			t.Errorf("told %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("nobody is told")
	}
	e2 := exporter(t, c, func(o *Options) { o.Header = func(http.Header) error { return errors.New("no secret") } })
	e2.Offer(group(1))
	e2.Close(10 * time.Second)
	if s := e2.Stats(); s.Dropped != 1 || s.Posts != 0 {
		t.Errorf("%+v", s)
	}
}

func FuzzRejected(f *testing.F) {
	f.Add([]byte{0x0a, 0x02, 0x08, 0x05})
	f.Add([]byte{0x0a, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, why := rejected(b); n < 0 || len(why) > 500 {
			t.Errorf("%d %q", n, why)
		}
	})
}

func TestEncodeLongFields(t *testing.T) {
	long := strings.Repeat("x", 70000)
	b := Encode(nil, &Resource{Attrs: []Attr{String("service.name", "s")}, Library: "l", Version: "v"},
		[]Span{{Name: long, State: "a=b", Parent: [8]byte{1}, Kind: Server, Failed: true, Message: "m", Sampled: true,
			Events: []Event{{At: time.Unix(1, 0), Name: "e", Attrs: []Attr{String("k", long)}}}}})
	if n := spansIn(t, b); n != 1 || bytes.Count(b, []byte(long)) != 2 {
		t.Errorf("%d spans in %d bytes", n, len(b))
	}
}
