package policy

import (
	"slices"
	"time"

	"hearth/engine/infer"
)

// maxFloor bounds how long a provider can have itself left alone.
const maxFloor = 24 * time.Hour

// Done gives the slot back, counts for the candidate's health, and decides
// whether another attempt may follow. A second call does nothing.
func (a *Attempt) Done(r AttemptResult) Verdict {
	f := a.d.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if a.finished {
		return Verdict{}
	}
	now := f.elapsed()
	a.leaveLocked()
	a.healthLocked(now, &r)
	v := a.d.judgeLocked(now, a, &r)
	f.serveLocked(now)
	return v
}

// giveBack undoes an attempt that was never made.
func (a *Attempt) giveBack() {
	f := a.d.f
	f.mu.Lock()
	defer f.mu.Unlock()
	a.leaveLocked()
	a.d.made--
	f.serveLocked(f.elapsed())
}

func (a *Attempt) leaveLocked() {
	l := &a.Candidate.live
	a.finished = true
	l.deployment.outstanding--
	l.upstream.outstanding--
	l.deployment.circuit.leave(a.epoch, a.trial)
	l.upstream.circuit.leave(a.upEpoch, a.upTrial)
}

// classOf is the failure class of an error; local errors are put among them.
func classOf(e *infer.Error) infer.FailureClass {
	if e.Upstream != nil {
		return e.Upstream.Class
	}
	switch e.Code {
	case infer.CodeOverloaded, infer.CodeUnavailable:
		return infer.FailOverload
	case infer.CodeRateLimited:
		return infer.FailRateLimit
	case infer.CodeTimeout:
		return infer.FailTimeout
	case infer.CodeInternal, infer.CodeUpstream:
		return infer.FailServer
	}
	return infer.FailRequest
}

// unhealthy are the classes that speak against the deployment, rather than
// against the request, our account or our pace.
func unhealthy(c infer.FailureClass) bool {
	switch c {
	case infer.FailConnect, infer.FailOverload, infer.FailServer, infer.FailTimeout, infer.FailLost, infer.FailMalformed:
		return true
	}
	return false
}

// healthLocked counts the result for the deployment and its quota domain.
func (a *Attempt) healthLocked(now time.Duration, r *AttemptResult) {
	l, u := &a.Candidate.live, a.Candidate.Upstream
	dep := l.deployment
	switch {
	case r.Left:
	case r.Err == nil:
		dep.successes++
		dep.circuit.succeed(a.epoch)
		l.upstream.circuit.succeed(a.upEpoch)
	default:
		class := classOf(r.Err)
		dep.failures++
		dep.last = class
		if fault := r.Err.Upstream; fault != nil && fault.RetryAfter > 0 {
			l.domain.until = max(l.domain.until, now+min(fault.RetryAfter, maxFloor))
		}
		switch {
		case u == nil:
		case unhealthy(class):
			h := &u.Health
			dep.circuit.fail(now, a.epoch, *h.EjectAfter, time.Duration(h.EjectFor), time.Duration(h.EjectMax))
		case a.trial && class != infer.FailAuth && class != infer.FailQuota:
			dep.circuit.succeed(a.epoch) // it answers
		}
	}
}

// judgeLocked decides whether another attempt may follow.
func (d *Dispatch) judgeLocked(now time.Duration, a *Attempt, r *AttemptResult) Verdict {
	s := &d.seats[a.Index]
	s.tries++
	if r.Left || r.Err == nil {
		d.over = true
		return Verdict{}
	}
	d.last = r.Err
	class, fault := classOf(r.Err), r.Err.Upstream
	v := Verdict{Ambiguous: fault != nil && !fault.Unsent && (class == infer.FailLost || class == infer.FailTimeout)}
	if r.Delivered || !d.listed(class) || !d.safe(a.Candidate, r.Err, class) {
		d.over = true
		return v
	}
	switch {
	case a.Candidate.Upstream == nil, class == infer.FailQuota, class == infer.FailAuth:
		s.out = true // the engine has its own queue; an account does not mend in seconds
	default:
		s.ready = now + d.backoff(s.tries)
	}
	v.Again = d.made < d.attempts()
	return v
}

// listed says that the route makes another attempt after this class.
func (d *Dispatch) listed(class infer.FailureClass) bool {
	c := d.route.Config
	return c != nil && class != infer.FailRequest && slices.Contains(c.Retry.On, string(class))
}

// safe says that the request may be sent again: it did no work, or repetition
// changes nothing. Our own engine has no effects.
func (d *Dispatch) safe(c *Candidate, e *infer.Error, class infer.FailureClass) bool {
	return c.Upstream == nil || e.Upstream == nil || e.Upstream.Unsent || class == infer.FailRateLimit ||
		d.req.Repeatable || d.route.Config != nil && d.route.Config.Effect == ReadOnly
}

// backoff is the wait before the same candidate is asked again: half of it
// certain, half by chance, so that many who failed together come back apart.
func (d *Dispatch) backoff(tries int) time.Duration {
	c := &d.route.Config.Retry
	span := time.Duration(c.MaxBackoff)
	if first := time.Duration(c.Backoff); first <= span>>(tries-1) {
		span = first << (tries - 1)
	}
	return span/2 + time.Duration(d.f.random()*float64(span/2))
}

// tellLocked is the error for a request that is not asked any further.
func (d *Dispatch) tellLocked(now time.Duration) error {
	if d.last == nil {
		return d.noneLocked(now)
	}
	e := *d.last
	switch class := classOf(&e); {
	case e.Upstream == nil: // of our own engine, which knows
	case class == infer.FailRateLimit, class == infer.FailOverload && e.Upstream.RetryAfter > 0:
		// Until then nobody reaches the provider through us: to come back is cheap.
		e.RetryAfter = d.recoveryLocked(now)
	case d.made > 1 || d.attempts() > 1 || !d.safe(&d.route.Candidates[d.at], &e, class) || class == infer.FailRequest || class == infer.FailAuth || class == infer.FailQuota:
		e.NoRetry, e.RetryAfter = true, 0 // what could be repeated has been
	}
	return &e
}

// noneLocked is the error for a request for which nobody could be asked.
func (d *Dispatch) noneLocked(now time.Duration) error {
	blocked, ejected, full, left := false, false, false, 0
	for i := range d.seats {
		if d.seats[i].out {
			continue
		}
		left++
		at, out, busy := d.standingLocked(i, now)
		ejected = ejected || out
		blocked = blocked || !out && at > now
		full = full || busy && at <= now
	}
	e := &infer.Error{RetryAfter: d.recoveryLocked(now)}
	switch {
	case left == 0 && d.unusable != nil:
		return d.unusable
	case now >= d.deadline:
		e.Code, e.RetryAfter, e.Message = infer.CodeTimeout, 0, "the deadline of the request passed before it could be served"
	case full:
		e.Code, e.Message = infer.CodeOverloaded, "what serves this model has no room now"
	case blocked:
		e.Code, e.Message = infer.CodeRateLimited, "what serves this model asks to be left alone for a while"
	case ejected:
		e.Code, e.Message = infer.CodeUnavailable, "what serves this model is out of service after repeated failures"
	default:
		e.Code, e.RetryAfter, e.Message = infer.CodeUnavailable, minRetryAfter, "nothing can serve this model now"
	}
	if d.unusable != nil && left > 0 && e.Code != infer.CodeTimeout {
		// To wait helps, and so does to ask without what the others do not take.
		why := infer.AsError(d.unusable)
		e.Message += ", and what else serves it does not take this request: " + why.Message
		e.Param, e.Losses = why.Param, why.Losses
	}
	return e
}

// recoveryLocked is the time until a candidate may be asked again, in whole
// seconds, at least one.
func (d *Dispatch) recoveryLocked(now time.Duration) time.Duration {
	first := never
	for i := range d.seats {
		if s := &d.seats[i]; !s.out {
			at, _, _ := d.standingLocked(i, now)
			first = min(first, max(at, now))
		}
	}
	if first == never {
		return minRetryAfter
	}
	return max((first-now+time.Second-1)/time.Second*time.Second, minRetryAfter)
}
