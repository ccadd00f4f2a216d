package appliance

import (
	"context"
	"time"

	"hearth/appliance/upstream"
	"hearth/engine/infer"
	"hearth/policy"
	"hearth/store"
)

// attempts asks candidates until one has answered, something of an answer has
// been passed on, or the policy allows no further attempt. run asks one; nil
// means that the answer is complete or that the caller has left.
func (c *call) attempts(run func(*target) error) error {
	d := c.a.policy.Dispatch(c.path, policy.DispatchRequest{
		Identity: &c.adm.ID, Prefix: c.prefix(), Usable: func(i int) error { return c.targets[i].err },
		Repeatable: c.grant.Idempotency != "" || c.embed != nil, Deadline: c.until(),
	})
	for {
		at, err := d.Next(c.ctx)
		switch {
		case err != nil && c.ctx.Err() != nil:
			return context.Cause(c.ctx)
		case err != nil:
			return err
		}
		if len(c.tries) == 0 {
			c.mirror()
		}
		if err := c.try(at, run); err == nil || c.passed {
			return err
		}
	}
}

func (c *call) until() time.Time {
	t, _ := c.ctx.Deadline()
	return t
}

// try is one attempt. Its slot is given back whatever run does.
func (c *call) try(at *policy.Attempt, run func(*target) error) (err error) {
	c.begin(c.targets[at.Index])
	c.expectDrain()
	whole := false
	defer func() {
		r := policy.AttemptResult{Delivered: c.passed || !whole, Took: c.a.now().Sub(c.began)}
		if !c.first.IsZero() {
			r.TTFT = c.first.Sub(c.began)
		}
		if err != nil {
			e := infer.AsError(err)
			if c.ctx.Err() == nil {
				r.Err = e
			} else { // it was ended from here: no fault of the candidate
				r.Left = true
				c.unknown = c.unknown || !c.target.local() && (e.Upstream == nil || !e.Upstream.Unsent)
			}
		}
		c.unknown = at.Done(r).Ambiguous || c.unknown
		made, failure := c.attempted(err)
		c.tries, c.trying = append(c.tries, made), false
		c.a.telemetry.attempt(&made, failure)
	}()
	err = run(c.target)
	whole = true
	return err
}

// ambiguous says that the provider may have done the work: it had the request,
// and no answer tells what became of it.
func ambiguous(e *infer.Error) bool {
	u := e.Upstream
	return u != nil && !u.Unsent && (u.Class == infer.FailLost || u.Class == infer.FailTimeout)
}

// begin makes t the target that is asked.
func (c *call) begin(t *target) {
	c.target, c.trying, c.began, c.first, c.last = t, true, c.a.now(), time.Time{}, time.Time{}
	c.grant.Contract, c.grant.Losses, c.grant.Upstream = c.contract(t), t.losses, t.candidate.Backend
	c.grant.Route, c.grant.Revision = c.path.Name, c.path.Revision
	c.timing.attempt(c)
	c.gather.restart()
	c.stream = stream{prompt: t.promptEstimate(), choices: c.choices()}
}

// generate runs the request on t and passes the events on, in order: one start,
// one finish a choice, usage always. What says nothing yet waits for the first
// content, so that until then another candidate can still be asked.
func (c *call) generate(t *target, yield func(infer.Event, error) bool) error {
	var waiting []infer.Event
	wait := !t.local() || len(c.targets) > 1
	served := infer.Served{Name: c.path.Name, Fingerprint: c.grant.Contract}
	if !t.local() && len(c.held.Row.Budgets) > 0 {
		t.asked = policy.Bound(t.asked, t.candidate.MaxOutputTokens, t.provider())
	}
	c.filter = c.path.Rules.After(t.asked)
	events := c.stream.normalize(t.backend.Generate(c.traced(t), t.request(t.asked)), served)
	for ev, err := range c.filter.Filter(events) {
		if err != nil {
			return err
		}
		c.observe(ev)
		if wait && len(waiting) < maxWaiting && !content(&ev) {
			waiting = append(waiting, ev)
			continue
		}
		wait = false
		if ev.Kind == infer.EventUsage {
			c.finish() // the row is in the ledger before the caller sees the end
		}
		for _, w := range waiting {
			c.passed, w.More = true, true
			if !yield(w, nil) {
				return nil
			}
		}
		waiting = waiting[:0]
		c.passed = true
		if !yield(ev, nil) {
			return nil
		}
	}
	return nil
}

// traced is the context of an attempt; a provider is told the trace.
func (c *call) traced(t *target) context.Context {
	if t.local() {
		return c.ctx
	}
	return upstream.WithTrace(c.ctx, c.attemptTrace(), c.grant.TraceState)
}

// maxWaiting bounds the events that are kept back before the first content.
const maxWaiting = 64

// content says that ev carries a piece of the answer, or ends one.
func content(ev *infer.Event) bool {
	switch ev.Kind {
	case infer.EventText:
		return ev.Text != ""
	case infer.EventReasoning:
		return ev.Text != "" || ev.Signature != "" || ev.Redacted != ""
	case infer.EventTool, infer.EventFinish, infer.EventUsage:
		return true
	}
	return false
}

// observe counts what an event carries and times it.
func (c *call) observe(ev infer.Event) {
	if ev.Kind == infer.EventUsage {
		c.outcome = store.OutcomeComplete
	}
	c.gather.add(&ev)
	if ev.Kind == infer.EventStart && ev.Model != nil {
		c.timing.queued = ev.Model.Queued
		if ev.Model.RequestID != "" {
			c.target.requestID = ev.Model.RequestID
		}
	}
	if ev.Tokens == 0 {
		return
	}
	now := c.a.now()
	if c.first.IsZero() {
		c.first = now
		c.a.telemetry.firstToken(c, now.Sub(c.grant.Started))
	} else {
		c.a.telemetry.nextTokens(c.target.served, now.Sub(c.last), ev.Tokens)
	}
	c.last = now
}

// attempted is the ledger's record of the attempt that is being made, or that
// has ended with err.
func (c *call) attempted(err error) (store.Attempt, infer.FailureClass) {
	t := c.target
	at := store.Attempt{
		Backend: t.candidate.Backend, Provider: t.provider(), Model: t.model, Started: c.began, Took: c.a.now().Sub(c.began),
		Outcome: store.OutcomeComplete, UpstreamRequestID: t.requestID, Sent: true,
	}
	if err == nil {
		if c.outcome != store.OutcomeComplete {
			at.Outcome = store.OutcomeCancelled
		}
		return at, ""
	}
	failed, told := infer.AsError(err), c.explain(err)
	at.Outcome, at.ErrorCode = store.OutcomeError, string(told.Code)
	u := failed.Upstream
	if u == nil {
		u = &infer.UpstreamFault{}
	}
	at.Failure, at.Status, at.Sent = string(u.Class), u.Status, !u.Unsent
	if u.RequestID != "" {
		at.UpstreamRequestID = u.RequestID
	}
	switch {
	case told.Code == codeClientGone:
		at.Outcome = store.OutcomeCancelled
	case c.stream.tokens > 0:
		at.Outcome = store.OutcomePartial
	case ambiguous(failed):
		at.Outcome = store.OutcomeAmbiguous
	}
	return at, u.Class
}
