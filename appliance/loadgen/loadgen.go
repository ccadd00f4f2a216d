// Package loadgen puts load on any server that speaks OpenAI's chat API and
// measures what its users wait for: time to first token, between tokens, per
// output token, and to the end. The load is closed (so many callers, each
// waiting for its answer) or open (arrivals on a schedule that does not wait, so
// that a slow server cannot slow its own load down).
package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"hearth/web/sse"
)

// Options of a run.
type Options struct {
	URL     string // base URL, with or without /v1
	Key     string
	Model   string
	Client  *http.Client
	Timeout time.Duration // of a request; 0: 5 min

	Requests  int       // how many in all
	Streams   int       // closed loop: callers at once
	Rate      float64   // open loop: arrivals a second, Poisson; excludes Streams
	Trace     []Arrival // open loop: given arrivals; excludes both
	MaxTokens int
	Prompt    func(i int) string // text of request i
	Seed      uint64
	Extra     map[string]any // more fields of the body

	Now   func() time.Time // nil: time.Now
	Ended func()           // called after each request, maybe by several goroutines; nil: not
}

// Arrival is one line of a trace.
type Arrival struct {
	At        float64 `json:"at_s"` // seconds after the start
	Prompt    string  `json:"prompt"`
	MaxTokens int     `json:"max_tokens"`
}

// Outcome of a request.
type Outcome string

const (
	Done     Outcome = "done"
	Rejected Outcome = "rejected"  // 429 or 503 before any content
	TimedOut Outcome = "timed_out" // by the Timeout
	Failed   Outcome = "failed"    // anything else
)

// Sample is what one request saw.
type Sample struct {
	Outcome Outcome
	Status  int
	TTFT    time.Duration
	E2E     time.Duration
	Gaps    []time.Duration // between events with content
	Prompt  int
	Output  int
	Error   string
}

// TPOT is the mean time per output token after the first.
func (s *Sample) TPOT() time.Duration {
	if s.Output < 2 {
		return 0
	}
	return (s.E2E - s.TTFT) / time.Duration(s.Output-1)
}

// Run puts the load on and returns a sample a request, in order of arrival, and
// the time from the first request to the last answer.
func Run(ctx context.Context, o Options) ([]Sample, time.Duration, error) {
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	if len(o.Trace) > 0 {
		o.Requests = len(o.Trace)
	}
	if o.Requests < 1 || (o.Streams < 1 && o.Rate <= 0 && len(o.Trace) == 0) {
		return nil, 0, errors.New("a run needs requests, and streams, a rate or a trace")
	}
	samples := make([]Sample, o.Requests)
	began := o.Now()
	var err error
	if o.Rate > 0 || len(o.Trace) > 0 {
		err = o.open(ctx, samples)
	} else {
		o.closed(ctx, samples)
		err = ctx.Err()
	}
	return samples, o.Now().Sub(began), err
}

func (o *Options) closed(ctx context.Context, samples []Sample) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(o.Streams, len(samples)) {
		wg.Go(func() {
			for i := range next {
				samples[i] = o.ask(ctx, o.Prompt(i), o.MaxTokens)
			}
		})
	}
	for i := range samples {
		next <- i
	}
	close(next)
	wg.Wait()
}

func (o *Options) open(ctx context.Context, samples []Sample) error {
	r := rand.New(rand.NewPCG(o.Seed, 1))
	began := o.Now()
	at := 0.0
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range samples {
		a := Arrival{At: at, MaxTokens: o.MaxTokens}
		if len(o.Trace) > 0 {
			a = o.Trace[i]
		} else {
			a.Prompt = o.Prompt(i)
			at += r.ExpFloat64() / o.Rate
		}
		wait := time.NewTimer(time.Duration(a.At*float64(time.Second)) - o.Now().Sub(began))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		}
		wg.Go(func() { samples[i] = o.ask(ctx, a.Prompt, a.MaxTokens) })
	}
	return nil
}

// ask runs one streamed chat completion.
func (o *Options) ask(ctx context.Context, prompt string, maxTokens int) (s Sample) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	began := o.Now()
	defer func() {
		s.E2E = o.Now().Sub(began)
		if o.Ended != nil {
			o.Ended()
		}
		if s.Outcome == Failed && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.Outcome = TimedOut
		}
	}()
	res, err := o.post(ctx, prompt, maxTokens)
	if err != nil {
		return Sample{Outcome: Failed, Error: err.Error()}
	}
	defer res.Body.Close()
	s.Status = res.StatusCode
	if res.StatusCode != http.StatusOK {
		s.Outcome = Failed
		if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
			s.Outcome = Rejected
		}
		text, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		s.Error = fmt.Sprintf("%s: %s", res.Status, text)
		return s
	}
	s.Outcome = Failed
	if err := o.read(res.Body, began, &s); err != nil {
		s.Error = err.Error()
		return s
	}
	s.Outcome = Done
	return s
}

func (o *Options) post(ctx context.Context, prompt string, maxTokens int) (*http.Response, error) {
	body := map[string]any{
		"model": o.Model, "stream": true, "max_tokens": maxTokens,
		"stream_options": map[string]any{"include_usage": true},
		"messages":       []map[string]any{{"role": "user", "content": prompt}},
	}
	for k, v := range o.Extra {
		body[k] = v
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint(o.URL), bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+o.Key)
	}
	return o.Client.Do(req)
}

// read follows the stream, timing every event that has content.
func (o *Options) read(body io.Reader, began time.Time, s *Sample) error {
	var last time.Time
	r := sse.NewReader(body, 0)
	for {
		ev, err := r.Next()
		if err != nil {
			return fmt.Errorf("the stream broke off: %w", err)
		}
		if string(ev.Data) == "[DONE]" {
			return nil
		}
		var c chunk
		if err := json.Unmarshal(ev.Data, &c); err != nil {
			return fmt.Errorf("an event is no JSON: %w", err)
		}
		if c.Error != nil {
			return errors.New("the server reported an error in the stream")
		}
		if c.Usage != nil {
			s.Prompt, s.Output = c.Usage.Prompt, c.Usage.Completion
		}
		if !c.content() {
			continue
		}
		now := o.Now()
		if last.IsZero() {
			s.TTFT = now.Sub(began)
		} else {
			s.Gaps = append(s.Gaps, now.Sub(last))
		}
		last = now
	}
}

// chunk is what is read of a chat completion chunk.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content   string            `json:"content"`
			Reasoning string            `json:"reasoning_content"`
			Tools     []json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

func (c *chunk) content() bool {
	for i := range c.Choices {
		if d := &c.Choices[i].Delta; d.Content != "" || d.Reasoning != "" || len(d.Tools) > 0 {
			return true
		}
	}
	return false
}
