package appliance

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"hearth/store"
)

// sums are what charts and the overview are made of: counters since the start,
// beside the metrics, which cannot be read back.
type sums struct {
	requests, failed, refused, cancelled atomic.Uint64
	repeated, repeatedWell               atomic.Uint64 // requests with more than one attempt; those of them that succeeded
	priced                               atomic.Uint64 // requests with a charge of their own
	input, output                        atomic.Uint64 // tokens
	nano                                 atomic.Int64  // charges
}

func (s *sums) call(c *call, row *store.Row) {
	s.requests.Add(1)
	switch c.outcome {
	case store.OutcomeComplete:
	case store.OutcomeCancelled:
		s.cancelled.Add(1)
	case store.OutcomeRefused:
		s.refused.Add(1)
	default:
		s.failed.Add(1)
	}
	if c.repeated() && c.outcome != store.OutcomeCancelled {
		s.repeated.Add(1)
		if c.outcome == store.OutcomeComplete {
			s.repeatedWell.Add(1)
		}
	}
	if row.HoldSeq > 0 {
		s.priced.Add(1)
		s.nano.Add(row.ChargeNano)
	}
	if c.target != nil {
		u := c.stream.total()
		s.input.Add(uint64(max(0, u.PromptTokens)))
		s.output.Add(uint64(max(0, u.CompletionTokens)))
	}
}

// repeated says that the request took more than one attempt.
func (c *call) repeated() bool { return len(c.tries) > 1 || c.trying && len(c.tries) > 0 }

// reasons counts by a few names, since the start. Safe for concurrent use.
type reasons struct {
	mu sync.Mutex // guards n
	n  map[string]uint64
}

func (r *reasons) add(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = map[string]uint64{}
	}
	r.n[name]++ // names are codes of ours
}

func (r *reasons) all() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.n)
}

// perSecond is the rate of a counter between two readings.
func perSecond(before, after uint64, span time.Duration) float64 {
	if after < before || span <= 0 {
		return 0
	}
	return float64(after-before) / span.Seconds()
}
