package policy

import (
	"context"
	"math"
	"slices"
	"time"

	"hearth/engine/infer"
)

// DispatchRequest is what the choice of a candidate depends on.
type DispatchRequest struct {
	Identity *Identity
	// Prefix is a hash of the request's beginning: with split "prefix" the same
	// one goes to the same candidate.
	Prefix uint64
	// Usable says why candidate i may not be asked for this request; nil: it
	// may. It is called before each attempt.
	Usable func(i int) error
	// Repeatable says that the caller made repetition safe, beyond what the
	// route's effect class says.
	Repeatable bool
	Deadline   time.Time // zero: none
}

// never is later than any time of the monotonic clock.
const never = time.Duration(math.MaxInt64)

// patience bounds the wait for a provider's recovery where a request has no
// deadline of its own.
const patience = time.Minute

// Dispatch chooses, attempt by attempt, which candidate of a route is asked for
// one request. It is the only owner of retries:
//
//   - Attempts are bounded over all candidates, and made only after the failure
//     classes that the route lists.
//   - What may have been begun elsewhere is repeated only if that is safe: the
//     provider has not begun on it, the route is read-only, or the caller sent
//     an idempotency key. Nothing follows once something has been delivered.
//   - A candidate that has not been asked yet is asked at once; the same one
//     again only after a backoff. No attempt is made in a quota domain before
//     the time that the provider named, and none that would have to wait beyond
//     the deadline.
//
// Not safe for concurrent use.
type Dispatch struct {
	f        *fleet
	route    *Route
	req      DispatchRequest
	seats    []seat
	made     int           // attempts
	at       int           // candidate of the last one
	deadline time.Duration // of the monotonic clock
	queueEnd time.Duration // of waiting in the queue; 0: not waited yet
	last     *infer.Error
	unusable error // why the first candidate that is not usable is not
	over     bool
}

// seat is one candidate as one request sees it.
type seat struct {
	tries int
	ready time.Duration // not again before
	out   bool          // not again at all
}

// Dispatch begins the choice for one request.
func (p *Policy) Dispatch(route *Route, r DispatchRequest) *Dispatch {
	d := &Dispatch{f: p.fleet, route: route, req: r, seats: make([]seat, len(route.Candidates)), at: -1, deadline: never}
	if !r.Deadline.IsZero() {
		d.deadline = p.fleet.elapsed() + r.Deadline.Sub(p.now())
	}
	return d
}

// Attempt is one candidate's turn. Done ends it, exactly once.
type Attempt struct {
	Number    int // from 1
	Index     int // into Route.Candidates
	Candidate *Candidate

	d        *Dispatch
	epoch    uint64
	trial    bool // it tries a candidate that was out
	upTrial  bool
	upEpoch  uint64
	finished bool
}

// AttemptResult is how an attempt ended.
type AttemptResult struct {
	Err *infer.Error // nil: the answer was complete, or the caller left
	// Left says that it was ended from our side: it tells nothing of the
	// candidate's health.
	Left bool
	// Delivered says that something of the answer has been passed on: there is
	// no further attempt.
	Delivered bool
	TTFT      time.Duration // 0: no content came
	Took      time.Duration
}

// Verdict is what follows from the end of an attempt.
type Verdict struct {
	// Again: another attempt may follow, if there is somebody to ask in time.
	Again bool
	// Ambiguous: the provider had the request and gave no answer. Nobody here can
	// tell what it did, and charged.
	Ambiguous bool
}

// Next waits until a candidate may be asked and takes its slot. When there is no
// further attempt it returns the error to be told: that of the last attempt, or
// why none was made. ctx ends the wait.
func (d *Dispatch) Next(ctx context.Context) (*Attempt, error) {
	if ctx.Err() != nil {
		return nil, d.ended(ctx)
	}
	d.askUsable()
	var w *waiter // its place in the queue, kept until it is served
	for {
		a, place, wake, err := d.step(w)
		if a != nil || err != nil {
			return a, err
		}
		w = place
		if a, err = d.wait(ctx, w, wake); a != nil || err != nil {
			return a, err
		}
	}
}

// askUsable asks of each candidate whether it may be asked for this request.
func (d *Dispatch) askUsable() {
	if d.req.Usable == nil {
		return
	}
	for i := range d.seats {
		if s := &d.seats[i]; !s.out {
			if err := d.req.Usable(i); err != nil {
				s.out = true
				if d.unusable == nil {
					d.unusable = err
				}
			}
		}
	}
}

// step takes a candidate that is free, or says how to wait: in the queue (place)
// or not, until wake at most; or that there is nothing to wait for.
func (d *Dispatch) step(w *waiter) (a *Attempt, place *waiter, wake time.Duration, err error) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	now := d.f.elapsed()
	if !d.over && d.made < d.attempts() && now < d.deadline || w != nil {
		d.f.serveLocked(now) // those who wait come first, the request itself maybe among them
		if a = w.taken(); a == nil && w == nil {
			a = d.takeLocked(now)
		}
		if a != nil {
			return a, nil, 0, nil
		}
		wake, queue := d.planLocked(now, w != nil)
		switch {
		case queue && w == nil:
			w = d.f.joinLocked(d)
		case !queue && w != nil:
			d.f.leaveLocked(w)
			w = nil
		}
		if w != nil {
			w.wake = wake
		}
		if w != nil || wake != never {
			return nil, w, wake, nil
		}
	}
	return nil, nil, 0, d.tellLocked(now)
}

// wait waits until wake, or until the queue serves the request.
func (d *Dispatch) wait(ctx context.Context, w *waiter, wake time.Duration) (*Attempt, error) {
	var fired <-chan time.Time
	if wake != never {
		var stop func()
		fired, stop = d.f.timer(max(wake-d.f.elapsed(), 0))
		defer stop()
	}
	var served chan *Attempt
	var look chan struct{}
	if w != nil {
		served, look = w.served, w.look
	}
	select {
	case a := <-served:
		return a, nil
	case <-look:
		return nil, nil
	case <-fired:
		return nil, nil
	case <-ctx.Done():
	}
	if w != nil {
		d.f.mu.Lock()
		d.f.leaveLocked(w)
		d.f.mu.Unlock()
		if a := w.taken(); a != nil { // in the same moment
			a.giveBack()
		}
	}
	return nil, d.ended(ctx)
}

// ended is the error for a request that was ended while it waited. Its cause says
// by whom; what had failed before is no longer the reason.
func (d *Dispatch) ended(ctx context.Context) error {
	return &infer.Error{Code: infer.CodeTimeout, Message: "the request ended before it could be served", Cause: context.Cause(ctx)}
}

// takeLocked takes a slot of the candidate that is to be asked now; nil: there is
// none. Those that were asked least often come first.
func (d *Dispatch) takeLocked(now time.Duration) *Attempt {
	if now >= d.deadline {
		return nil
	}
	var room [8]int
	group, tries := room[:0], math.MaxInt
	for i := range d.seats {
		if s := &d.seats[i]; s.out || s.tries > tries {
			continue
		}
		if at, _, full := d.standingLocked(i, now); at > now || full {
			continue
		}
		if d.seats[i].tries < tries {
			group, tries = group[:0], d.seats[i].tries
		}
		group = append(group, i)
	}
	if len(group) == 0 {
		return nil
	}
	return d.enterLocked(d.pickLocked(group))
}

func (d *Dispatch) enterLocked(i int) *Attempt {
	c := &d.route.Candidates[i]
	dep, up := c.live.deployment, c.live.upstream
	d.made++
	a := &Attempt{Number: d.made, Index: i, Candidate: c, d: d}
	dep.outstanding++
	up.outstanding++
	c.displaceLocked()
	if c.ejects() {
		a.epoch, a.trial = dep.circuit.enter()
		a.upEpoch, a.upTrial = up.circuit.enter()
	}
	d.f.picks++
	dep.picked = d.f.picks
	switch {
	case d.made > 1 && i == d.at:
		dep.retries++
	case d.made > 1, d.split() == SplitOrdered && i != slices.IndexFunc(d.seats, func(s seat) bool { return !s.out }):
		dep.fallbacks++
	}
	d.at = i
	return a
}

// standingLocked says when candidate i may be asked: at a time by itself (ejected:
// because it was taken out), or only when somebody leaves.
func (d *Dispatch) standingLocked(i int, now time.Duration) (at time.Duration, ejected, full bool) {
	c := &d.route.Candidates[i]
	l := &c.live
	at = max(d.seats[i].ready, l.domain.until)
	full = c.MaxConcurrent > 0 && l.deployment.outstanding >= c.MaxConcurrent ||
		c.Upstream != nil && c.Upstream.MaxConcurrent > 0 && l.upstream.outstanding >= c.Upstream.MaxConcurrent
	if c.ejects() {
		for _, circuit := range [...]*circuit{&l.deployment.circuit, &l.upstream.circuit} {
			until, busy := circuit.wait(now)
			full = full || busy
			if until > now {
				at, ejected = max(at, until), true
			}
		}
	}
	return at, ejected, full
}

// ejects says that failures take the candidate out.
func (c *Candidate) ejects() bool { return c.Upstream != nil && *c.Upstream.Health.EjectAfter > 0 }

// planLocked says how to wait when nobody is free. A backoff and a provider's own
// wait are waited out wherever the deadline allows; room and the return of one
// that was taken out are waited for only in a queue.
func (d *Dispatch) planLocked(now time.Duration, queued bool) (wake time.Duration, queue bool) {
	end, limit := d.queueEndLocked(now, queued), d.deadline
	if limit == never {
		limit = now + patience
	}
	if now >= d.deadline {
		return never, false
	}
	wake, later := never, never
	for i := range d.seats {
		if d.seats[i].out {
			continue
		}
		switch at, ejected, full := d.standingLocked(i, now); {
		case ejected && at < end:
			wake, queue = min(wake, at), true
		case ejected:
			later = min(later, at)
		case at > now && at < limit:
			if at == d.route.Candidates[i].live.domain.until { // a backoff is spread already
				at = d.spread(now, at, limit)
			}
			wake = min(wake, at)
		case at <= now && full && now < end:
			queue = true
		}
	}
	if wake != never {
		wake = min(wake, later)
	}
	if queue {
		wake = min(wake, end)
	}
	return wake, queue
}

// spread moves a time by chance, a little later and not to the limit: those who
// wait for the same moment shall not come in it together.
func (d *Dispatch) spread(now, at, limit time.Duration) time.Duration {
	later := at + time.Duration(d.f.random()*float64(min((at-now)/8, maxSpread)))
	if later >= limit {
		return at
	}
	return later
}

const maxSpread = 500 * time.Millisecond

// queueEndLocked is when waiting in the queue ends; now: there is no place in it.
func (d *Dispatch) queueEndLocked(now time.Duration, queued bool) time.Duration {
	c := d.route.Config
	if c == nil || c.Queue.Depth == 0 || !queued && len(d.route.lane.waiting) >= c.Queue.Depth {
		return now
	}
	if d.queueEnd == 0 {
		d.queueEnd = d.deadline
		if w := time.Duration(c.Queue.Wait); w > 0 {
			d.queueEnd = min(d.queueEnd, now+w)
		}
	}
	return d.queueEnd
}

// plainLocked says that the request takes any candidate of its route.
func (d *Dispatch) plainLocked() bool {
	return len(d.seats) == d.route.lane.size && !slices.ContainsFunc(d.seats, func(s seat) bool { return s.out || s.tries > 0 })
}

func (d *Dispatch) attempts() int {
	if c := d.route.Config; c != nil {
		return c.Retry.Attempts
	}
	return 1
}

func (d *Dispatch) tenant() string {
	if d.req.Identity == nil {
		return ""
	}
	return d.req.Identity.Tenant
}
