package upstream

import (
	"context"
	"time"

	"hearth/engine/infer"
)

const defaultDrain = 5 * time.Second

// drainable makes one attempt that outlives its caller: when the caller leaves,
// Generate returns at once, and the answer is read on apart for the usage that
// the provider counts, up to the drain timeout.
func (b *backend) drainable(ctx context.Context, r *infer.Request, yield func(infer.Event, error) bool) {
	u := b.u
	if !u.begin(nil) {
		yield(infer.Event{}, fault(infer.FailConnect, "the server is shutting down", errClosed))
		return
	}
	// What the attempt runs under: it does not end with the caller.
	own, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	events, left, over := make(chan infer.Event), make(chan struct{}), make(chan error, 1)
	go func() {
		defer u.work.Done()
		defer stop(errDone)
		d := Drained{Upstream: u.c.Name, Request: r.ID}
		gone := false
		err := b.attempt(own, r, func(ev infer.Event) bool {
			if ev.Kind == infer.EventStart && ev.Model != nil {
				d.RequestID = ev.Model.RequestID
			}
			if !gone {
				select {
				case events <- ev:
					return true
				case <-left:
					gone = true
				}
			}
			if ev.Kind == infer.EventUsage {
				d.Usage = ev.Usage
			}
			return true
		})
		over <- err
		close(events)
		select {
		case <-left:
			if u.o.OnDrained != nil {
				u.o.OnDrained(d)
			}
		default:
		}
	}()
	b.follow(ctx, yield, events, over, func() {
		wait := time.Duration(u.c.DrainTimeout)
		if wait <= 0 {
			wait = defaultDrain
		}
		close(left)
		timer := time.AfterFunc(wait, func() { stop(errDrained) })
		context.AfterFunc(own, func() { timer.Stop() })
	})
}

// follow passes events on until they end or the caller leaves.
func (b *backend) follow(ctx context.Context, yield func(infer.Event, error) bool, events <-chan infer.Event, over <-chan error, leave func()) {
	for {
		select {
		case ev, ok := <-events:
			if !ok {
				if err := <-over; err != nil {
					yield(infer.Event{}, err)
				}
				return
			}
			if !yield(ev, nil) {
				if ev.Kind != infer.EventUsage { // the end has been seen
					leave()
				}
				return
			}
		case <-ctx.Done():
			leave()
			e := fault(infer.FailLost, "the request was ended", context.Cause(ctx))
			if ctx.Err() == context.DeadlineExceeded {
				e = fault(infer.FailTimeout, "the provider did not answer in time", context.Cause(ctx))
			}
			yield(infer.Event{}, e)
			return
		}
	}
}
