package appliance

import (
	"context"
	"errors"
	"sync"

	"hearth/engine/infer"
	"hearth/policy"
	"hearth/store"
)

// Copies of a route's requests run beside it, at deployments whose answers are
// counted and thrown away. A copy shares nothing with the request but what it
// asks for, which nobody changes: it has a context, a deadline, a target and a
// hold of its own, and everything that could take time is done on its own
// goroutine, after a candidate was found for the request itself.

// Bounds of all copies together.
const (
	maxShadowRuns  = 1024
	maxShadowBytes = 256 << 20 // of requests that only copies may hold in memory
)

// Reasons why no copy was made, beside those of the policy.
const (
	shadowMemory   = "memory"   // too much is copied at once
	shadowDraining = "draining" // the server is ending
	shadowTarget   = "target"   // the target is not there
	shadowLoss     = "loss"     // something would be lost that the route does not let pass
	shadowMedia    = "media"    // images would have to be fetched for it
	shadowSize     = "size"     // it cannot be cut to max_output_tokens, or is too large
	shadowBudget   = "budget"   // the tenant's budget does not have the worst case
	shadowTenant   = "tenant"   // the tenant is disabled or gone
	shadowLedger   = "ledger"   // the ledger takes no new work
)

// What ends a copy from our side.
var (
	errYielded = errors.New("a caller needed the place")
	errFlooded = errors.New("more came than was asked for")
)

// shadows are the copies that run.
type shadows struct {
	ctx  context.Context // ends them all
	stop context.CancelCauseFunc

	mu      sync.Mutex // guards below
	ended   bool
	open    int
	bytes   int64
	dropped map[shadowName]map[string]uint64 // since the start, by reason
	wait    sync.WaitGroup
}

// shadowName is one [[route.shadow]].
type shadowName struct{ route, upstream, model string }

func shadowNameOf(s *policy.Shadow) shadowName {
	c := s.Candidate()
	return shadowName{s.Path.Name, c.Backend, c.Model}
}

func (a *Appliance) openShadows(context.Context) error {
	s := &a.shadows
	s.ctx, s.stop = context.WithCancelCause(a.hardStop)
	s.dropped = map[shadowName]map[string]uint64{}
	a.onClose(func() error {
		s.drain()
		s.wait.Wait()
		return nil
	})
	return nil
}

// drain ends all copies and lets none begin: what is left of the time belongs to
// callers.
func (s *shadows) drain() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	if s.stop != nil {
		s.stop(errStopping)
	}
}

// enter takes room for a copy, or says why there is none.
func (s *shadows) enter(size int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended || s.ctx == nil:
		return shadowDraining
	case s.open >= maxShadowRuns || s.bytes+size > maxShadowBytes:
		return shadowMemory
	}
	s.open++
	s.bytes += size
	s.wait.Add(1)
	return ""
}

func (s *shadows) leave(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.bytes -= size
	s.wait.Done()
}

// drop counts a copy that is not made.
func (a *Appliance) dropShadow(n shadowName, reason string) {
	a.telemetry.shadows.dropped.WithLabelValues(n.route, n.upstream, n.model, reason).Inc()
	a.shadows.mu.Lock()
	defer a.shadows.mu.Unlock()
	if a.shadows.dropped[n] == nil {
		a.shadows.dropped[n] = map[string]uint64{}
	}
	a.shadows.dropped[n][reason]++
}

// drops tells why copies were not made since the start.
func (s *shadows) drops(n shadowName) map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]uint64{}
	for reason, k := range s.dropped[n] {
		out[reason] = k
	}
	return out
}

// mirror starts the copies of the request, whose first attempt has its place and
// is about to be made.
func (c *call) mirror() {
	for _, s := range c.path.Shadows {
		if s.Samples(c.grant.RequestID) {
			c.copyTo(s)
		}
	}
}

func (c *call) copyTo(s *policy.Shadow) {
	a, size := c.a, requestSize(c.request, c.embed)
	if a.draining.Load() {
		a.dropShadow(shadowNameOf(s), shadowDraining)
		return
	}
	if why := a.shadows.enter(size); why != "" {
		a.dropShadow(shadowNameOf(s), why)
		return
	}
	r := &shadowRun{a: a, shadow: s, size: size, of: c.grant.RequestID, trace: traceID(c.grant.Trace), operation: c.operation(),
		stream: c.grant.Stream, tenant: c.grant.Tenant, request: c.request, embed: c.embed}
	ctx, cancel := context.WithCancelCause(a.shadows.ctx)
	place, why := a.policy.EnterShadow(s, func() { cancel(errYielded) })
	if why != "" {
		cancel(nil)
		a.shadows.leave(size)
		a.dropShadow(shadowNameOf(s), why)
		return
	}
	r.ctx, r.place = ctx, place
	go func() {
		defer a.shadows.leave(size)
		defer cancel(nil)
		r.run()
	}()
}

// requestSize is about what a request keeps in memory.
func requestSize(r *infer.Request, e *infer.EmbedRequest) int64 {
	n := int64(1 << 10)
	prompts := func(list []infer.Prompt) {
		for i := range list {
			n += int64(len(list[i].Text) + 4*len(list[i].Tokens))
		}
	}
	if e != nil {
		prompts(e.Inputs)
		if e.Wire != nil {
			n += int64(len(e.Wire.Body))
		}
		return n
	}
	prompts(r.Prompts)
	for i := range r.Messages {
		m := &r.Messages[i]
		n += int64(len(m.Reasoning)) + 256
		for k := range m.Content {
			n += int64(len(m.Content[k].Text) + len(m.Content[k].Data) + len(m.Content[k].URL))
		}
		for k := range m.ToolCalls {
			n += int64(len(m.ToolCalls[k].Arguments))
		}
	}
	for i := range r.Tools {
		n += int64(len(r.Tools[i].Description) + len(r.Tools[i].Parameters))
	}
	if r.Wire != nil {
		n += int64(len(r.Wire.Body))
	}
	return n
}

// refusedShadow names the reason of an error by the hold.
func refusedShadow(err error) string {
	switch infer.AsError(err).Code {
	case infer.CodeQuota:
		return shadowBudget
	case infer.CodeForbidden, infer.CodeUnauthorized:
		return shadowTenant
	case infer.CodeInvalid:
		return shadowSize
	}
	return shadowLedger
}

// terminationOf says what ended a copy.
func terminationOf(outcome store.Outcome, cause error, e *infer.Error) store.Termination {
	switch {
	case outcome == store.OutcomeComplete:
		return store.TermComplete
	case errors.Is(cause, errDeadline):
		return store.TermDeadline
	case errors.Is(cause, errStopping):
		return store.TermDrained
	case e != nil && e.Upstream != nil && e.Upstream.Class == infer.FailTimeout:
		return store.TermStalled
	case e != nil && e.Upstream != nil && e.Upstream.Class == infer.FailLost:
		return store.TermUpstreamLost
	}
	return store.TermError
}
