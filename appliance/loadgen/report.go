package loadgen

import (
	"slices"
	"strings"
	"time"
)

// Report sums samples up. Latencies are of finished requests only: read them
// beside the share that was finished.
type Report struct {
	Requests int     `json:"requests"`
	Done     int     `json:"done"`
	Rejected int     `json:"rejected"`
	TimedOut int     `json:"timed_out"`
	Failed   int     `json:"failed"`
	Seconds  float64 `json:"seconds"`

	PromptTokens int     `json:"prompt_tokens"`
	OutputTokens int     `json:"output_tokens"`
	OutputTokS   float64 `json:"output_tok_s"`
	TotalTokS    float64 `json:"total_tok_s"`

	TTFT Quantiles `json:"ttft_ms"`
	ITL  Quantiles `json:"itl_ms"`
	TPOT Quantiles `json:"tpot_ms"`
	E2E  Quantiles `json:"e2e_ms"`

	Errors map[string]int `json:"errors,omitempty"`
}

// Quantiles of a set of times, in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Summarize makes a Report of samples that took so long in all.
func Summarize(samples []Sample, took time.Duration) Report {
	r := Report{Requests: len(samples), Seconds: took.Seconds(), Errors: map[string]int{}}
	var ttft, itl, tpot, e2e []time.Duration
	for i := range samples {
		s := &samples[i]
		switch s.Outcome {
		case Done:
			r.Done++
			r.PromptTokens += s.Prompt
			r.OutputTokens += s.Output
			ttft, e2e, itl = append(ttft, s.TTFT), append(e2e, s.E2E), append(itl, s.Gaps...)
			if s.Output > 1 {
				tpot = append(tpot, s.TPOT())
			}
			continue
		case Rejected:
			r.Rejected++
		case TimedOut:
			r.TimedOut++
		default:
			r.Failed++
		}
		r.Errors[s.Error]++
	}
	if took > 0 {
		r.OutputTokS = float64(r.OutputTokens) / took.Seconds()
		r.TotalTokS = float64(r.OutputTokens+r.PromptTokens) / took.Seconds()
	}
	r.TTFT, r.ITL, r.TPOT, r.E2E = quantiles(ttft), quantiles(itl), quantiles(tpot), quantiles(e2e)
	return r
}

// quantiles by the nearest rank.
func quantiles(x []time.Duration) Quantiles {
	if len(x) == 0 {
		return Quantiles{}
	}
	slices.Sort(x)
	at := func(q float64) float64 {
		i := min(int(q*float64(len(x))), len(x)-1)
		return float64(x[i].Microseconds()) / 1000
	}
	return Quantiles{at(0.50), at(0.95), at(0.99)}
}

// endpoint is the chat route under a base URL with or without /v1.
func endpoint(base string) string {
	base = strings.TrimSuffix(strings.TrimSuffix(base, "/"), "/v1")
	return base + "/v1/chat/completions"
}
