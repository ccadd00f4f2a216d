package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// mostAPage is what the server may take for a page, at the 95th percentile.
const mostAPage = 200 * time.Millisecond

// pagesTimed are the pages whose time depends on how much there is.
var pagesTimed = []string{"/", "/ledger", "/ledger?outcome=error", "/ledger?model=nothing", "/spend", "/spend?by=day", "/tenants", "/tenants/default", "/keys", "/upstreams", "/routes", "/models", "/audit", "/logs", "/config", "/accounts", "/certificates", "/about"}

// checkTimes fills a ledger through the gateway and measures pages.
func checkTimes(ctx context.Context, o *options) error {
	base, stop, err := answerer()
	if err != nil {
		return err
	}
	defer stop()
	b, err := start(ctx, o, "times", base)
	if err != nil {
		return err
	}
	defer b.stop()
	if err := b.makeOwner(ctx); err != nil {
		return err
	}
	c, err := b.signIn()
	if err != nil {
		return err
	}
	have, err := b.rows(c)
	if err != nil {
		return err
	}
	if err := b.fill(ctx, o.rows-have); err != nil {
		return err
	}
	late := ""
	for _, page := range pagesTimed {
		var took []time.Duration
		size := 0
		for range 20 {
			began := time.Now()
			resp, err := c.Get(b.admin + page)
			if err != nil {
				return err
			}
			n, err := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: status %d, %v", page, resp.StatusCode, err)
			}
			size = int(n)
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		p95 := took[len(took)*95/100-1]
		fmt.Printf("  %-22s p50 %5.1f ms, p95 %6.1f ms, %4d KB\n", page, ms(took[len(took)/2]), ms(p95), size/1000)
		if p95 > mostAPage {
			late += " " + page
		}
	}
	rss, peak := b.memory()
	fmt.Printf("times: %d rows; resident %.0f MB, at the peak %.0f\n", o.rows, rss, peak)
	if late != "" {
		return fmt.Errorf("slower than %v at the 95th percentile:%s", mostAPage, late)
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// rows of the ledger, nearly: each request is a hold and a settlement.
func (b *box) rows(c *http.Client) (int, error) {
	var p struct {
		Seq int `json:"seq"`
	}
	err := b.call(c, "GET", "/ledger/position", nil, &p)
	return p.Seq / 2, err
}

// answerer is a provider that answers at once.
func answerer() (base string, stop func(), err error) {
	return serve(answer)
}

func answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodPost {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"mock","object":"model"}]}`)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	fmt.Fprint(w, `{"id":"c","object":"chat.completion","created":1,"model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14}}`)
}

// fill has n requests answered.
func (b *box) fill(ctx context.Context, n int) error {
	if n <= 0 {
		return nil
	}
	began := time.Now()
	body := []byte(`{"model":"mock","max_tokens":64,"messages":[{"role":"user","content":"Hello, how are you today?"}]}`)
	var left atomic.Int64
	left.Store(int64(n))
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	c := b.client(nil)
	for range 64 {
		wg.Go(func() {
			for left.Add(-1) >= 0 && failed.Load() == nil && ctx.Err() == nil {
				r, _ := http.NewRequest("POST", b.api+"/v1/chat/completions", bytes.NewReader(body))
				r.Header.Set("Authorization", "Bearer "+b.key)
				r.Header.Set("Content-Type", "application/json")
				resp, err := c.Do(r)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if err == nil && resp.StatusCode != http.StatusOK {
						err = fmt.Errorf("status %d", resp.StatusCode)
					}
				}
				if err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	fmt.Printf("  %d requests in %.0f s\n", n, time.Since(began).Seconds())
	return ctx.Err()
}
