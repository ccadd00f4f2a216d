package loadgen

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// server answers two tokens, every third request with 429, every fifth with a
// stream that breaks off.
func server(t *testing.T) *httptest.Server {
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := n.Add(1)
		switch {
		case i%3 == 0:
			http.Error(w, "slow down", http.StatusTooManyRequests)
			return
		case r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer k":
			http.Error(w, "wrong", http.StatusNotFound)
			return
		}
		fmt.Fprint(w, `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}`, "\n\n", `data: {"choices":[{"delta":{"content":"a"}}]}`, "\n\n")
		if i%5 == 0 {
			return
		}
		fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"b"}}]}`, "\n\n", `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}`, "\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(srv.Close)
	return srv
}

func TestClosedAndOpenLoopCountEveryRequest(t *testing.T) {
	for name, set := range map[string]func(*Options){
		"closed": func(o *Options) { o.Streams = 4 },
		"open":   func(o *Options) { o.Rate = 2000 },
		"trace": func(o *Options) {
			for i := range 30 {
				o.Trace = append(o.Trace, Arrival{At: float64(i) / 1000, Prompt: "x", MaxTokens: 2})
			}
		},
	} {
		srv := server(t)
		o := Options{URL: srv.URL + "/v1", Key: "k", Model: "m", Requests: 30, MaxTokens: 2, Timeout: 10 * time.Second,
			Prompt: func(i int) string { return strings.Repeat("x", i) }}
		set(&o)
		samples, took, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		r := Summarize(samples, took)
		if r.Requests != 30 || r.Done != 16 || r.Rejected != 10 || r.Failed != 4 || r.OutputTokens != 32 || r.PromptTokens != 7*16 {
			t.Errorf("%s: %+v", name, r)
		}
		if r.TTFT.P50 <= 0 || r.E2E.P50 < r.TTFT.P50 {
			t.Errorf("%s: latencies %+v %+v", name, r.TTFT, r.E2E)
		}
	}
}

func TestTimeout(t *testing.T) {
	hold := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(hold)
	samples, took, err := Run(t.Context(), Options{URL: srv.URL, Requests: 1, Streams: 1, Timeout: 50 * time.Millisecond, Prompt: func(int) string { return "x" }})
	if r := Summarize(samples, took); err != nil || r.TimedOut != 1 {
		t.Errorf("%+v %v", r, err)
	}
}
