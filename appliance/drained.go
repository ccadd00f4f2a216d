package appliance

import (
	"context"
	"time"

	"hearth/appliance/upstream"
	"hearth/store"
)

// leftover is an answer whose provider is read on for its count if the caller
// leaves. Until the count comes nobody knows what it cost: the row is charged at
// its hold, and corrected then.
type leftover struct {
	settled  chan struct{} // closed when the row is written
	row      store.Row
	estimate int64 // what was delivered is worth, nano-USD
}

// expectDrain prepares for the caller's leaving an upstream that is read on.
func (c *call) expectDrain() {
	if c.target.local() || c.target.up.config.OnCancel != "drain" || c.held == nil || c.embed != nil {
		return
	}
	if c.leftover == nil {
		c.leftover = &leftover{settled: make(chan struct{})}
		c.a.leftovers.Store(c.request.ID, c.leftover)
	}
}

// leaving says that the request ends while its provider is still being read.
func (c *call) leaving() bool {
	return c.leftover != nil && c.outcome == store.OutcomeCancelled && c.target.up != nil && c.target.up.config.OnCancel == "drain"
}

// settledAs hands the row to whoever reads on, or calls that off.
func (c *call) settledAs(row store.Row, estimate int64, leaving bool) {
	if c.leftover == nil {
		return
	}
	if !leaving {
		c.a.leftovers.Delete(c.request.ID)
	}
	c.leftover.row, c.leftover.estimate = row, estimate
	close(c.leftover.settled)
}

// drained takes the count of an answer that its caller had left.
func (a *Appliance) drained(d upstream.Drained) {
	v, ok := a.leftovers.LoadAndDelete(d.Request)
	if !ok {
		return
	}
	l := v.(*leftover)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	select {
	case <-l.settled:
	case <-ctx.Done():
		return
	}
	if l.row.Outcome != store.OutcomeAmbiguous {
		return
	}
	charge, reason := l.estimate, "the provider's count did not come in time: charged by what was delivered"
	if d.Usage != nil {
		n, err := store.ChargeOf(l.row.Price, store.UsageOf(*d.Usage))
		if err != nil {
			a.log.Warn("cannot price what a provider counted", "request_id", l.row.RequestID, "error", err)
			return
		}
		charge, reason = n, "the provider's count, read after the caller had left"
	}
	_, err := a.store.Correct(ctx, store.Correction{
		RequestID: l.row.RequestID, ChargeNano: charge, Outcome: store.OutcomeCancelled, Reason: reason, Actor: "appliance",
	})
	if err != nil {
		a.log.Warn("cannot correct the charge of a request", "request_id", l.row.RequestID, "error", err)
	}
}
