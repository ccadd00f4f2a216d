package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/web"
	"hearth/web/webtest"
)

// BenchmarkStream is one streamed answer of 64 chunks over a kept connection, as
// a provider of the caller's dialect sends it and as it is encoded here. The
// client is as cheap as can be, so that the figure is the server's.
func BenchmarkStream(b *testing.B) {
	for _, c := range []struct {
		name   string
		native bool
		pause  time.Duration
	}{{"native", true, 0}, {"typed", false, 0}, {"paced", true, time.Millisecond}} {
		b.Run(c.name, func(b *testing.B) {
			native := c.native
			s := start(b, web.Limits{}, nil)
			chunk := frame(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1750000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}`)
			s.svc.Hook = func(_ context.Context, _ *web.Grant, _ *infer.Request, yield func(infer.Event, error) bool) {
				yield(infer.Event{Kind: infer.EventStart, Model: &infer.Served{Name: "m", Native: native}}, nil)
				for range 64 {
					time.Sleep(c.pause)
					yield(infer.Event{Kind: infer.EventText, Text: " word", Tokens: 1, Frame: chunk}, nil)
				}
				yield(infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop}, nil)
				yield(infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{}, Frame: frame("[DONE]")}, nil)
			}
			c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			body := ask("x", `"stream":true`)
			request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", chatPath, webtest.Key, len(body), body)
			r := bufio.NewReaderSize(c, 64<<10)
			b.ReportAllocs()
			var before, after syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			for b.Loop() {
				if _, err := io.WriteString(c, request); err != nil {
					b.Fatal(err)
				}
				for {
					line, err := r.ReadSlice('\n')
					if err != nil {
						b.Fatal(err)
					}
					if string(line) == "0\r\n" {
						_, _ = r.ReadSlice('\n')
						break
					}
				}
			}
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(cpu)/float64(b.N)/1000, "cpu-µs/op")
		})
	}
}
