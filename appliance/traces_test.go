package appliance

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"hearth/internal/fakeprovider"
	"hearth/web"
)

// span is one span as a collector reads it.
type readSpan struct {
	trace, id, parent, name, state string
	kind, start, end               uint64
	attrs                          map[string]string
	failed                         bool
}

// traceReceiver is a collector that keeps what comes.
type traceReceiver struct {
	*httptest.Server
	mu    sync.Mutex // guards below
	spans []readSpan
	raw   []byte
	auth  string
}

func newTraceReceiver(t *testing.T) *traceReceiver {
	r := &traceReceiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		in := io.Reader(q.Body)
		if q.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(in)
			if err != nil {
				t.Error(err)
				return
			}
			in = z
		}
		b, _ := io.ReadAll(in)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.auth = q.Header.Get("Authorization")
		r.raw = append(r.raw, b...)
		messages(b, 1, func(rs []byte) {
			messages(rs, 2, func(ss []byte) { messages(ss, 2, func(s []byte) { r.spans = append(r.spans, readOne(s)) }) })
		})
	}))
	t.Cleanup(r.Close)
	return r
}

func messages(b []byte, want protowire.Number, do func([]byte)) {
	protoFields(b, func(n protowire.Number, v []byte, _ uint64) {
		if n == want {
			do(v)
		}
	})
}

func protoFields(b []byte, do func(n protowire.Number, v []byte, x uint64)) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			panic("a broken span")
		}
		b = b[n:]
		var v []byte
		var x uint64
		switch typ {
		case protowire.BytesType:
			v, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			x, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			x, n = protowire.ConsumeFixed64(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			panic("a broken span")
		}
		do(num, v, x)
		b = b[n:]
	}
}

func readOne(b []byte) readSpan {
	s := readSpan{attrs: map[string]string{}}
	protoFields(b, func(n protowire.Number, v []byte, x uint64) {
		switch n {
		case 1:
			s.trace = fmt.Sprintf("%x", v)
		case 2:
			s.id = fmt.Sprintf("%x", v)
		case 3:
			s.state = string(v)
		case 4:
			s.parent = fmt.Sprintf("%x", v)
		case 5:
			s.name = string(v)
		case 6:
			s.kind = x
		case 7:
			s.start = x
		case 8:
			s.end = x
		case 9:
			key := ""
			protoFields(v, func(n protowire.Number, v []byte, _ uint64) {
				if n == 1 {
					key = string(v)
				} else {
					protoFields(v, func(n protowire.Number, v []byte, x uint64) {
						if s.attrs[key] = string(v); n == 3 {
							s.attrs[key] = fmt.Sprint(x)
						}
					})
				}
			})
		case 15:
			protoFields(v, func(n protowire.Number, _ []byte, x uint64) { s.failed = s.failed || n == 3 && x == 2 })
		}
	})
	return s
}

// wait gives the spans once there are so many.
func (r *traceReceiver) wait(t *testing.T, n int) []readSpan {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r.mu.Lock()
		got := append([]readSpan{}, r.spans...)
		r.mu.Unlock()
		if len(got) >= n {
			return got
		}
		if time.Now().After(end) {
			t.Fatalf("%d spans came, wanted %d: %+v", len(got), n, got)
		}
	}
}

const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// One request over two attempts is one trace: the server's span under the
// caller's, under it admission, hold, both attempts with the retry's reason, and
// settle; the provider is told the span of its attempt; no word of content.
func TestOneTrace(t *testing.T) {
	r, first, second := newTraceReceiver(t), newProvider(t), newProvider(t)
	first.Handle(func(*fakeprovider.Request) *fakeprovider.Script {
		return &fakeprovider.Script{Error: &fakeprovider.Error{Kind: "overloaded"}}
	})
	told := make(chan string, 1)
	second.Handle(func(q *fakeprovider.Request) *fakeprovider.Script {
		told <- q.Header.Get("Traceparent")
		return &fakeprovider.Script{Answer: answer(), GapMS: 2}
	})
	t.Setenv("TRACE_SECRET", "s3cr3t")
	b := newTestbedWith(t, gatewayConfig("vllm", first.URL()+"/v1", second.URL()+"/v1")+fmt.Sprintf(
		"[telemetry.traces]\nendpoint = %q\ncredential = \"env:TRACE_SECRET\"\ninterval = \"20ms\"\nratio = 0.0\n", r.URL+"/v1/traces"))
	g, err := b.Admit(context.Background(), web.Caller{RequestID: "req_t", Credential: b.key, RemoteAddr: "127.0.0.1:1", TraceParent: traceParent, TraceState: "a=b"})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range b.Call(context.Background(), g, chat("both")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	g.Release()
	spans := r.wait(t, 8)
	by := map[string]readSpan{}
	for _, s := range spans {
		by[s.name] = s
		if s.trace != "0af7651916cd43dd8448eb211c80319c" || s.state != "a=b" || s.start > s.end || s.start == 0 {
			t.Errorf("span %+v", s)
		}
	}
	root := by["chat both"]
	if root.parent != "b7ad6b7169203331" || root.kind != 2 || root.attrs["gen_ai.operation.name"] != "chat" || root.attrs["gen_ai.usage.output_tokens"] != "8" ||
		root.attrs["hearth.outcome"] != "complete" || root.attrs["hearth.attempts"] != "2" || root.failed {
		t.Errorf("the server's span is %+v", root)
	}
	for _, name := range []string{"admission", "hold", "attempt a/up", "attempt b/up", "settle"} {
		if s := by[name]; s.parent != root.id || s.start < root.start || s.end > root.end {
			t.Errorf("%s: %+v under %s", name, s, root.id)
		}
	}
	if s := by["attempt a/up"]; !s.failed || s.attrs["error.type"] != "overload" || s.kind != 3 {
		t.Errorf("the attempt that failed: %+v", s)
	}
	if s := by["attempt b/up"]; s.failed || s.attrs["hearth.retry_reason"] != "overload" || by["prefill"].parent != s.id || by["decode"].parent != s.id {
		t.Errorf("the attempt that answered: %+v", s)
	}
	if got, want := <-told, "00-0af7651916cd43dd8448eb211c80319c-"+by["attempt b/up"].id+"-01"; got != want {
		t.Errorf("the provider was told %s, its attempt is %s", got, want)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if raw := string(r.raw); strings.Contains(raw, "one two") || strings.Contains(raw, "tri ") || strings.Contains(raw, "s3cr3t") {
		t.Error("content or a secret is in the spans")
	}
	if r.auth != "Bearer s3cr3t" {
		t.Errorf("sent with %q", r.auth)
	}
	// The sender counts once it has read our answer.
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		s := b.traces.stats()
		if s.Exported == uint64(len(r.spans)) && s.Dropped == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v of %d", s, len(r.spans))
		}
	}
}

// Without the sampled flag only what failed is sent; names follow the switch;
// a reload takes a new table and may end it all.
func TestTraceSampling(t *testing.T) {
	r := newTraceReceiver(t)
	conf := func(more string) string {
		return testConfig + fmt.Sprintf("[telemetry.traces]\nendpoint = %q\ninterval = \"10ms\"\nratio = 0.0\n%s", r.URL, more)
	}
	b := newTestbedWith(t, conf(""))
	b.fake.generate = words(2)
	ask := func(parent string) {
		t.Helper()
		g, err := b.Admit(context.Background(), web.Caller{RequestID: fmt.Sprint("req_", b.n.Add(1)), Credential: b.key, RemoteAddr: "127.0.0.1:1", TraceParent: parent})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Release()
		for _, err := range b.Call(context.Background(), g, chat("m")) {
			_ = err
		}
	}
	ask("")
	ask(strings.TrimSuffix(traceParent, "01") + "00")
	b.fake.generate = then(1, context.DeadlineExceeded)
	ask("")
	spans := r.wait(t, 5)
	for _, s := range spans {
		if s.name == "chat m" && (!s.failed || s.attrs["error.type"] == "") {
			t.Errorf("sent although nothing failed: %+v", s)
		}
	}
	b.fake.generate = words(2)
	rewrite := func(text string) {
		t.Helper()
		if err := writeFile(b.configPath(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := b.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(conf("names = \"genai-1.36\"\nerrors = false\n"))
	n := len(r.wait(t, 5))
	ask(traceParent)
	for _, s := range r.wait(t, n+5)[n:] {
		if s.name == "chat m" && (s.attrs["gen_ai.system"] != "hearth" || s.attrs["gen_ai.provider.name"] != "") {
			t.Errorf("by the names of 1.36: %+v", s.attrs)
		}
	}
	rewrite(testConfig)
	if b.traces.live.Load() != nil {
		t.Error("traces go on without an endpoint")
	}
	ask(traceParent)
}

func TestRatioSamples(t *testing.T) {
	n := 0
	for range 4000 {
		if sampled(newSpan("", 0.25)) {
			n++
		}
	}
	if n < 800 || n > 1200 {
		t.Errorf("a quarter of 4000 is %d", n)
	}
	if !sampled(newSpan("", 1)) || sampled(newSpan("", 0)) || sampled(newSpan(traceParent[:53]+"00", 1)) {
		t.Error("all, none, and the caller's word")
	}
}
