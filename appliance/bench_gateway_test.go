package appliance

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hearth/engine/infer"
)

// The gateway as it serves: key, limits, a durable hold, an attempt at a
// provider over a kept connection, a durable settlement, metrics and log, over
// loopback. Client and provider share the process; both only move bytes that
// were made before, so that the figures are the gateway's but for some 15 µs a
// request.

const benchConfig = `price_version = "p1"
[tls]
mode = "off"
[server]
max_requests = 4096
[[model]]
name = "m"
path = "nowhere.gguf"
[[tenant]]
name = "default"
[tenant.limits]
requests_per_minute = 100000000
tokens_per_minute = 1000000000
concurrency = 100000
[[tenant.budget]]
period = "month"
cap_usd = "1000000"
[[price]]
model = "up"
input_usd_per_m = "0.10"
output_usd_per_m = "0.40"
[[upstream]]
name = "a"
kind = "openai-compatible"
base_url = %q
[[route]]
model = "up"
effect = "read-only"
[[route.candidate]]
upstream = "a"
model = "up"
max_output_tokens = 64
`

// script is a provider that answers every request with the same bytes.
func script(tb testing.TB, answer string) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	serve := func(c net.Conn) {
		defer c.Close()
		r := bufio.NewReader(c)
		for {
			n, err := skipHead(r)
			if err != nil {
				return
			}
			if _, err := r.Discard(n); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serve(c) })
		}
	})
	tb.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String() + "/v1"
}

// skipHead reads a head and gives the length of the body behind it; -1: it
// comes in chunks.
func skipHead(r *bufio.Reader) (int, error) {
	n := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil || len(line) <= 2 {
			return n, err
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case len(name) == 14 && bytes.EqualFold(name, []byte("content-length")):
			n, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		case len(name) == 17 && bytes.EqualFold(name, []byte("transfer-encoding")):
			n = -1
		}
	}
}

// talker is a client on one connection.
type talker struct {
	c       net.Conn
	r       *bufio.Reader
	request []byte
}

func (t *talker) ask() error {
	if _, err := t.c.Write(t.request); err != nil {
		return err
	}
	status, err := t.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200")) {
		return fmt.Errorf("status %q", status)
	}
	n, err := skipHead(t.r)
	if err != nil || n >= 0 {
		_, err2 := t.r.Discard(max(n, 0))
		return max2(err, err2)
	}
	for {
		size, err := t.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		k, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 32)
		if err != nil {
			return err
		}
		if _, err := t.r.Discard(int(k) + 2); err != nil || k == 0 {
			return err
		}
	}
}

func max2(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// benchGateway opens an appliance in front of a provider.
func benchGateway(tb testing.TB, base string) *Appliance {
	tb.Helper()
	dir := tb.TempDir()
	conf := filepath.Join(dir, "c.toml")
	if err := os.WriteFile(conf, fmt.Appendf(nil, benchConfig, base), 0o600); err != nil {
		tb.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(tuneCollector()) // as serve does
	f := &fake{}
	a, err := Open(context.Background(), Options{
		Env: &Env{Stdout: io.Discard, Stderr: log, Getenv: os.Getenv, Now: time.Now},
		Dir: dataDir(filepath.Join(dir, "d")), Config: conf, Listen: "127.0.0.1:0",
		Open: func(context.Context, modelSpec) (infer.Backend, error) { return f, nil },
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := a.Close(); err != nil {
			tb.Error(err)
		}
		log.Close()
	})
	return a
}

func (a *Appliance) talker(tb testing.TB, body string) *talker {
	tb.Helper()
	addr := a.listeners[0].Addr().String()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	head := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", addr, a.first.APIKey, len(body))
	return &talker{c, bufio.NewReaderSize(c, 64<<10), []byte(head + body)}
}

// benchRequests has 32 clients ask as often as the benchmark wants.
func benchRequests(b *testing.B, body, answer string) {
	a := benchGateway(b, script(b, answer))
	const clients = 32
	var talkers [clients]*talker
	for i := range talkers {
		talkers[i] = a.talker(b, body)
		if err := talkers[i].ask(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for _, t := range talkers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := t.ask(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(b.N)/1000, "cpu-µs/op")
}

// cpuTime is what the process has used, in user and system mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const benchBody = `{"model":"up","messages":[{"role":"user","content":"Hello, how are you today?"}],"max_tokens":64,"temperature":0`

func BenchmarkGatewayWhole(b *testing.B) {
	answer := `{"id":"c","object":"chat.completion","created":1,"model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("token ", 64) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":64,"total_tokens":76}}`
	benchRequests(b, benchBody+"}", fmt.Sprintf("HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", http.StatusOK, len(answer), answer))
}

func BenchmarkGatewayStream64(b *testing.B) {
	var s strings.Builder
	s.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	add := func(data string) {
		data = "data: " + data + "\n\n"
		fmt.Fprintf(&s, "%x\r\n%s\r\n", len(data), data)
	}
	const head = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"up","choices":[`
	for range 64 {
		add(head + `{"index":0,"delta":{"content":"token "},"finish_reason":null}]}`)
	}
	add(head + `{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	add(head + `],"usage":{"prompt_tokens":12,"completion_tokens":64,"total_tokens":76}}`)
	add("[DONE]")
	benchRequests(b, benchBody+`,"stream":true}`, s.String()+"0\r\n\r\n")
}
