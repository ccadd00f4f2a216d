package appliance

import (
	"slices"
	"sync"
	"time"
)

const (
	latencyWindow  = 5 * time.Minute
	latencySamples = 8192 // the latest, if there are more in the window
)

// latencyRing keeps the latest samples of one quantity, for exact quantiles on
// the status page. It is safe for concurrent use.
type latencyRing struct {
	mu   sync.Mutex // guards below
	at   []time.Time
	took []time.Duration
	next int // where the next sample goes, once the ring is full
}

func (r *latencyRing) add(at time.Time, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.at) < latencySamples {
		r.at, r.took = append(r.at, at), append(r.took, took)
		return
	}
	r.at[r.next], r.took[r.next] = at, took
	r.next = (r.next + 1) % latencySamples
}

// summary gives the quantiles of the samples that are younger than the window.
func (r *latencyRing) summary(name string, now time.Time) latencySummary {
	r.mu.Lock()
	var young []time.Duration
	for i, at := range r.at {
		if now.Sub(at) <= latencyWindow {
			young = append(young, r.took[i])
		}
	}
	r.mu.Unlock()
	out := latencySummary{Name: name, Count: len(young)}
	if len(young) > 0 {
		slices.Sort(young)
		out.P50, out.P95, out.P99 = quantile(young, 50), quantile(young, 95), quantile(young, 99)
	}
	return out
}

// quantile is the smallest sample that at least percent of the samples do not
// exceed (nearest rank). sorted is not empty.
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}

// latencySummary is a distribution over the last five minutes.
type latencySummary struct {
	Name          string // "ttft", "tpot", "e2e"
	Count         int
	P50, P95, P99 time.Duration
}
