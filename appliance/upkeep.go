package appliance

import (
	"context"
	"time"

	"hearth/web"
)

const (
	upkeepEvery = time.Minute
	// holdMargin is how much longer than any request a hold may stand that no
	// running request has.
	holdMargin = time.Hour
)

// openUpkeep starts what cleans up behind requests while serving.
func (a *Appliance) openUpkeep(context.Context) error {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(upkeepEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				a.upkeep(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	a.onClose(func() error { stop(); <-done; return nil })
	return nil
}

// upkeep is one round: holds that nobody will end are charged in full, and keys
// of repeats that have expired are forgotten. It is the net under faults of our
// own: a request ends its hold by itself.
func (a *Appliance) upkeep(ctx context.Context) {
	if a.store.Err() != nil {
		return // it is being healed
	}
	n, err := a.store.ExpireOlder(a.longest()+holdMargin, a.runningNow())
	switch {
	case err != nil:
		a.log.Warn("cannot expire holds", "error", err)
	case n > 0:
		a.log.Error("BUG: holds without a request were charged in full", "holds", n)
	}
	if n, err := a.store.SweepOnce(ctx); err != nil && ctx.Err() == nil {
		a.log.Warn("cannot forget idempotency keys", "error", err)
	} else if n > 0 {
		a.log.Debug("idempotency keys have expired", "keys", n)
	}
}

// longest is the longest time that a request may take by configuration.
func (a *Appliance) longest() time.Duration {
	c := a.config()
	most := c.Server.RequestTimeout.Std()
	for i := range c.Routes {
		most = max(most, time.Duration(c.Routes[i].Deadline))
	}
	return most
}

// runningNow says of request ids whether they were open when it was called.
func (a *Appliance) runningNow() func(requestID string) bool {
	open := map[string]bool{}
	a.grants.Range(func(g, _ any) bool {
		open[g.(*web.Grant).RequestID] = true
		return true
	})
	return func(id string) bool { return open[id] }
}
