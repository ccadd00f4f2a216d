package policy

import (
	"slices"
	"time"
)

// waiter is a request that waits for a candidate. It is served by whoever makes
// room: the place is handed over, so that nobody who comes later takes it.
type waiter struct {
	d *Dispatch
	// turn orders the queue. Each tenant's requests take turns of their own, so
	// that one tenant's thousand do not stand before another one's first.
	turn, joined uint64
	wake         time.Duration // it looks by itself then
	served       chan *Attempt // has room for one, and so has
	look         chan struct{} // what it planned by is no longer so
}

// joinLocked puts a request into the queue of its route.
func (f *fleet) joinLocked(d *Dispatch) *waiter {
	l, tenant := d.route.lane, d.tenant()
	f.joined++
	w := &waiter{d: d, turn: max(l.served, l.last[tenant]) + 1, joined: f.joined, served: make(chan *Attempt, 1), look: make(chan struct{}, 1)}
	l.last[tenant] = w.turn
	at, _ := slices.BinarySearchFunc(l.waiting, w, func(a, b *waiter) int {
		if a.turn < b.turn || a.turn == b.turn && a.joined < b.joined {
			return -1
		}
		return 1
	})
	if len(l.waiting) == 0 {
		f.busy = append(f.busy, l)
	}
	l.waiting = slices.Insert(l.waiting, at, w)
	return w
}

// leaveLocked takes a request out of the queue, if it is still there.
func (f *fleet) leaveLocked(w *waiter) {
	if i := slices.Index(w.d.route.lane.waiting, w); i >= 0 {
		f.removeLocked(w.d.route.lane, i)
		f.serveLocked(f.elapsed()) // the next one keeps time now
	}
}

func (f *fleet) removeLocked(l *lane, i int) {
	l.waiting = slices.Delete(l.waiting, i, i+1)
	if len(l.waiting) == 0 {
		l.waiting, l.served = nil, 0
		clear(l.last)
		at := slices.Index(f.busy, l)
		f.busy = slices.Delete(f.busy, at, at+1)
	}
}

// serveLocked gives what is free to those who wait: of several routes to the one
// whose next request has waited for longest, within a route in order.
func (f *fleet) serveLocked(now time.Duration) {
	if len(f.busy) == 0 {
		return
	}
	for lanes := slices.Clone(f.busy); len(lanes) > 0; {
		i := 0
		for k := range lanes {
			if lanes[k].waiting[0].joined < lanes[i].waiting[0].joined {
				i = k
			}
		}
		if l := lanes[i]; !f.serveNextLocked(l, now) || len(l.waiting) == 0 {
			lanes = slices.Delete(lanes, i, i+1)
		}
	}
}

// serveNextLocked serves the first request of a route that can be served.
func (f *fleet) serveNextLocked(l *lane, now time.Duration) bool {
	for i, w := range l.waiting {
		if a := w.d.takeLocked(now); a != nil {
			l.served = max(l.served, w.turn)
			f.removeLocked(l, i)
			w.served <- a
			return true
		}
		w.lookLocked(now)
		if w.d.plainLocked() {
			return false // it would take any candidate: there is none for those behind it
		}
	}
	return false
}

// lookLocked makes a request look again that could be served earlier than it
// planned for: what was full may have become free, but not before some time.
func (w *waiter) lookLocked(now time.Duration) {
	if wake, _ := w.d.planLocked(now, true); wake < w.wake {
		select {
		case w.look <- struct{}{}:
		default:
		}
	}
}

// taken gives the attempt that w was served, if it was.
func (w *waiter) taken() *Attempt {
	if w == nil {
		return nil
	}
	select {
	case a := <-w.served:
		return a
	default:
		return nil
	}
}
