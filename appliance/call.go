package appliance

import (
	"context"
	"iter"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
	"hearth/store"
	"hearth/web"
)

// Call is the path of every generation, top to bottom. Each stage before the
// hold may refuse; from the hold on exactly one of settle and release ends it,
// in finish, whatever happens in between.
func (a *Appliance) Call(ctx context.Context, g *web.Grant, r *infer.Request) iter.Seq2[infer.Event, error] {
	return func(yield func(infer.Event, error) bool) {
		c := a.newCall(ctx, g, r)
		defer c.close()
		defer c.finish()
		for _, stage := range []func() error{
			c.validate,  // is it a request at all
			c.normalize, // whose it is, under which id
			c.rules,     // may it be served here
			c.route,     // by which candidates, until when
			c.before,    // what the route's rules say of it, and change
			c.weigh,     // what would be lost, how large is it, can it ever fit
			c.hold,      // is there money for the worst case
		} {
			if err := stage(); err != nil {
				yield(infer.Event{}, c.fail(err))
				return
			}
		}
		if err := c.attempts(func(t *target) error { return c.generate(t, yield) }); err != nil {
			yield(infer.Event{}, c.fail(err))
		}
	}
}

// call is one request on its way. It is used by one goroutine.
type call struct {
	a       *Appliance
	ctx     context.Context
	cancels []context.CancelFunc
	grant   *web.Grant
	adm     *admission
	request *infer.Request      // our copy: the caller's is not changed
	embed   *infer.EmbedRequest // instead, for embeddings
	asked   string              // the model's name as the caller wrote it
	path    *policy.Route
	targets []*target // the route's candidates, from weigh on
	size    infer.Count

	media     *infer.Request // the request with its images fetched
	mediaErr  error
	decisions []policy.Decision    // of the rules on the request
	filter    *policy.AnswerFilter // of the rules on the answer, in this attempt

	held     *policy.Reservation
	leftover *leftover // where the provider is read on if the caller leaves
	refused  bool      // by the hold, which then has written the row

	target  *target // that is asked or was asked last
	trying  bool    // it is being asked
	began   time.Time
	tries   []store.Attempt // that have ended
	stream  stream          // what came back so far, of the last attempt
	passed  bool            // something of the answer was passed on
	unknown bool            // an attempt ended without our knowing what the provider did
	err     *infer.Error
	outcome store.Outcome
	first   time.Time // of the first token
	timing  timing
	gather  *gathered // its content, where that is to be kept
	last    time.Time // of the latest token
	done    bool
}

func (a *Appliance) newCall(ctx context.Context, g *web.Grant, r *infer.Request) *call {
	c := &call{a: a, ctx: ctx, grant: g, adm: a.admission(g), asked: r.Model}
	own := *r
	c.request = &own
	c.bound(a.hardStop)
	if c.adm != nil {
		c.bound(c.adm.ended)
	}
	a.telemetry.callBegins()
	return c
}

// hold makes the priced worst case durable before anything is generated.
func (c *call) hold() error {
	c.timing.holding = c.a.now()
	held, err := c.a.policy.Reserve(c.ctx, c.adm.Admission, c.reserveRequest())
	c.timing.held = c.a.now()
	if err != nil {
		c.refused = true
		return err
	}
	c.held, c.grant.Limits = held, limitStates(held.Limits)
	return nil
}

// fail notes why the request ends and gives the error as the caller sees it.
func (c *call) fail(err error) error {
	c.err, c.outcome = c.explain(err), store.OutcomeError
	switch {
	case c.err.Code == codeClientGone:
		c.outcome = store.OutcomeCancelled
	case c.held == nil:
		c.outcome = store.OutcomeRefused
	case c.stream.tokens > 0:
		c.outcome = store.OutcomePartial
		c.err = c.err.Final() // what was delivered is charged for
	case c.unknown:
		c.outcome = store.OutcomeAmbiguous
		c.err = c.err.Final()
	}
	return c.err
}

// finish ends the hold exactly once and writes the row. Without an outcome the
// caller has left the loop.
func (c *call) finish() {
	if c.done {
		return
	}
	c.done = true
	if c.outcome == "" {
		c.outcome = store.OutcomeCancelled
	}
	leaving := c.leaving()
	if leaving {
		c.outcome = store.OutcomeAmbiguous // until the provider's count is in
	}
	c.timing.ended = c.a.now()
	row := c.settle()
	estimate, _ := store.ChargeOf(row.Price, row.Usage)
	c.settledAs(row, estimate, leaving)
	c.a.telemetry.callEnds(c, &row)
	c.a.traces.callEnds(c, &row)
	c.retainEnds()
	c.saySlow(&row)
	c.log(row)
}

// settle charges what was made, or releases the hold if nothing was.
func (c *call) settle() store.Row {
	o := c.result()
	if c.held == nil {
		return c.note(o)
	}
	end := c.held.Settle
	switch {
	case c.outcome == store.OutcomeAmbiguous:
		end = c.held.Ambiguous
	case c.outcome != store.OutcomeComplete && !c.spent():
		end = c.held.Release
	}
	row, err := end(o)
	if err != nil {
		// The store keeps what it could not write and settles it when it is
		// reopened; until then it admits nothing.
		c.a.log.Error("cannot settle a request", "request_id", c.grant.RequestID, "error", err)
	}
	return row
}

// spent says whether an answer that is not whole has cost something: tokens were
// made, or a provider had begun on the prompt when the caller left.
func (c *call) spent() bool {
	if c.stream.total().CompletionTokens > 0 {
		return true
	}
	return c.outcome == store.OutcomeCancelled && c.target != nil && !c.target.local()
}

// close gives everything back, after the backends have been left.
func (c *call) close() {
	for _, t := range c.targets {
		t.release()
	}
	for _, cancel := range c.cancels {
		cancel()
	}
}
