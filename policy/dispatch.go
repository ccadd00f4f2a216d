package policy

import (
	"context"
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

// Dispatch chooses, attempt by attempt, which candidate of a route is asked for
// one request. It is the only owner of retries. Not safe for concurrent use.
type Dispatch struct {
	p     *Policy
	route *Route
	req   DispatchRequest
	next  int
	last  *infer.Error
	over  bool
}

// Dispatch begins the choice for one request.
func (p *Policy) Dispatch(route *Route, r DispatchRequest) *Dispatch {
	return &Dispatch{p: p, route: route, req: r}
}

// Attempt is one candidate's turn. Done ends it, exactly once.
type Attempt struct {
	Number    int // from 1
	Index     int // into Route.Candidates
	Candidate *Candidate

	d *Dispatch
}

// AttemptResult is how an attempt ended.
type AttemptResult struct {
	Err *infer.Error // nil: the answer was complete, or the caller left
	// Delivered says that something of the answer has been passed on: there is
	// no further attempt.
	Delivered bool
	TTFT      time.Duration // 0: no content came
	Took      time.Duration
}

// Next waits until a candidate may be asked and takes its slot. When there is no
// further attempt it returns the error to be told: that of the last attempt, or
// why none was made. ctx ends the wait.
func (d *Dispatch) Next(ctx context.Context) (*Attempt, error) {
	for !d.over && d.next < len(d.route.Candidates) {
		i := d.next
		d.next++
		if err := d.req.Usable(i); err != nil {
			d.last = infer.AsError(err)
			continue
		}
		return &Attempt{Number: i + 1, Index: i, Candidate: &d.route.Candidates[i], d: d}, nil
	}
	return nil, d.last
}

// Done gives the slot back, counts for the candidate's health, and decides
// whether another attempt may follow.
func (a *Attempt) Done(r AttemptResult) {
	a.d.last = r.Err
	a.d.over = r.Err == nil || r.Delivered
}
