package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	gatewayCallers  = 32
	gatewayRequests = 3000
	gatewayChunks   = 64
)

// checkGateway measures the CPU time of requests and of streams of 64 chunks.
// Nothing is promised: it is for two programs in one sitting.
func checkGateway(ctx context.Context, o *options) error {
	base, stop, err := serve(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Stream bool `json:"stream"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&asked) != nil || !asked.Stream {
			answer(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range gatewayChunks {
			finish := "null"
			if i == gatewayChunks-1 {
				finish = `"stop"`
			}
			fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"mock\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":%s}]}\n\n", finish)
			if http.NewResponseController(w).Flush() != nil {
				return
			}
		}
		fmt.Fprint(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"mock\",\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":64,\"total_tokens\":75}}\n\ndata: [DONE]\n\n")
	})
	if err != nil {
		return err
	}
	defer stop()
	b, err := start(ctx, o, "gateway", base)
	if err != nil {
		return err
	}
	defer b.stop()
	for range o.rounds {
		for _, kind := range []string{"whole", "stream"} {
			extra := ""
			if kind == "stream" {
				extra = `"stream":true,`
			}
			if err := b.load(ctx, extra, gatewayRequests/10); err != nil { // connections, pools
				return err
			}
			before := b.cpu()
			if err := b.load(ctx, extra, gatewayRequests); err != nil {
				return err
			}
			fmt.Printf("gateway: %s, %.0f µs CPU each\n", kind, float64((b.cpu()-before).Microseconds())/gatewayRequests)
		}
	}
	return nil
}

// load has n requests answered over kept connections.
func (b *box) load(ctx context.Context, extra string, n int) error {
	var left atomic.Int64
	left.Store(int64(n))
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range gatewayCallers {
		wg.Go(func() {
			if err := b.caller(ctx, extra, &left); err != nil {
				failed.Store(&err)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return ctx.Err()
}

// caller asks over one connection until nothing is left.
func (b *box) caller(ctx context.Context, extra string, left *atomic.Int64) error {
	host := strings.TrimPrefix(b.api, "https://")
	conn, err := tls.Dial("tcp", host, &tls.Config{RootCAs: b.roots})
	if err != nil {
		return err
	}
	defer conn.Close()
	body := `{"model":"mock",` + extra + `"max_tokens":64,"temperature":0,"messages":[{"role":"user","content":"Hello, how are you today?"}]}`
	request := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, b.key, len(body), body)
	in := bufio.NewReaderSize(conn, 32<<10)
	for left.Add(-1) >= 0 && ctx.Err() == nil {
		if _, err := io.WriteString(conn, request); err != nil {
			return err
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
	}
	return nil
}
