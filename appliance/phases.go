package appliance

import (
	"log/slog"
	"time"

	"hearth/store"
)

// timing is when what happened to a request.
type timing struct {
	holding, held time.Time     // the hold began, was durable
	asked         time.Time     // the first attempt began
	queued        time.Duration // before the first step, as the engine told it
	span          [8]byte       // id of the span of the running attempt; zero: none was made
	spans         [][8]byte     // of the attempts that have ended, as c.tries
	ended         time.Time     // the answer was over, the charge not yet written
}

// attempt notes that one begins.
func (t *timing) attempt(c *call) {
	if t.asked.IsZero() {
		t.asked = c.began
	}
	for len(t.spans) < len(c.tries) {
		t.spans = append(t.spans, t.span)
	}
	t.span, t.queued = [8]byte{}, 0
}

// phases are the times of a request at the candidate that answered it.
type phases struct {
	queue   time.Duration // for a place at a candidate, and for the first step there
	prefill time.Duration // from then on, or from the sending to a provider, to the first token
	decode  time.Duration // from the first token to the last
}

// phases measures the last attempt; meaningful once a token has come.
func (c *call) phases() phases {
	queued := min(c.timing.queued, max(0, c.first.Sub(c.began)))
	return phases{
		queue:   c.timing.asked.Sub(c.timing.held) + queued,
		prefill: c.first.Sub(c.began) - queued, decode: c.last.Sub(c.first),
	}
}

// saySlow writes a line about a request that took long: what took the time,
// never content.
func (c *call) saySlow(row *store.Row) {
	slow := time.Duration(c.a.logs.slow.Load())
	took := c.a.now().Sub(c.grant.Started)
	if slow == 0 || took < slow {
		return
	}
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	attrs := []any{
		"request", c.grant.RequestID, "trace_id", traceID(c.grant.Trace), "tenant", c.grant.Tenant, "model", c.asked,
		"outcome", string(c.outcome), "took", ms(took), "attempts", len(row.Attempts),
	}
	if !c.timing.held.IsZero() {
		attrs = append(attrs, "before_hold", ms(c.timing.holding.Sub(c.grant.Started)), "hold", ms(c.timing.held.Sub(c.timing.holding)))
	}
	if c.target != nil {
		attrs = append(attrs, "served_by", c.target.candidate.Backend, "served_model", c.target.model)
	}
	if !c.first.IsZero() {
		p := c.phases()
		attrs = append(attrs, "queue", ms(p.queue), "prefill", ms(p.prefill), "ttft", ms(c.first.Sub(c.grant.Started)), "decode", ms(p.decode))
	}
	u := c.stream.total()
	attrs = append(attrs, "prompt_tokens", u.PromptTokens, "completion_tokens", u.CompletionTokens)
	if n := c.stream.tokens; n > 1 {
		attrs = append(attrs, slog.Duration("per_token", ms(c.last.Sub(c.first)/time.Duration(n-1))))
	}
	c.a.log.Warn("slow request", attrs...)
}

// parentSpan is the caller's span; zero: it sent none.
func (c *call) parentSpan() [8]byte {
	if c.adm == nil {
		return [8]byte{}
	}
	return c.adm.parent
}
