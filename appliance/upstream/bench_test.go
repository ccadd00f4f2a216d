package upstream

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
)

// benched is an upstream of OpenAI's kind with the product's own client.
func benched(b *testing.B, kind, body string) *Upstream {
	answer := []byte(body)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{kind}
		w.Write(answer)
	}))
	b.Cleanup(s.Close)
	u, err := New(&policy.UpstreamConfig{Name: "u", Kind: "openai", BaseURL: s.URL, Credential: "env:K"}, Options{Getenv: func(string) string { return "k" }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { u.Close() })
	return u
}

func bench(b *testing.B, u *Upstream, stream bool) {
	r := chat(stream)
	r.Wire = &infer.Wire{Dialect: dialectChat, Body: []byte(`{"model":"x","messages":[{"role":"user","content":"Hi"}]}`)}
	if stream {
		r.Wire.Body = []byte(`{"model":"x","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hi"}]}`)
	}
	backend := u.Backend("m", 100)
	b.ReportAllocs()
	before := processTime()
	for b.Loop() {
		n := 0
		for _, err := range backend.Generate(b.Context(), r) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n < 3 {
			b.Fatal("no answer")
		}
	}
	b.ReportMetric(float64(processTime()-before)/float64(b.N), "cpu-ns/op")
}

// processTime is the CPU time of the process, ours and the system's for us.
func processTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The figures include the provider, which runs in the same process.
func BenchmarkGenerateWhole(b *testing.B) {
	bench(b, benched(b, "application/json", `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello there."},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6}}`), false)
}

func BenchmarkGenerateStream64(b *testing.B) {
	var s strings.Builder
	for i := range 64 {
		fmt.Fprintf(&s, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word%d \"},\"finish_reason\":null}]}\n\n", i)
	}
	s.WriteString("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
	s.WriteString("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":64,\"total_tokens\":67}}\n\ndata: [DONE]\n\n")
	bench(b, benched(b, "text/event-stream", s.String()), true)
}
