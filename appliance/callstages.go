package appliance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
	"hearth/store"
)

// codeClientGone marks a request whose caller left. No client sees it.
const codeClientGone infer.Code = "client_closed_request"

// Causes of a context that we end ourselves.
var (
	errDeadline = errors.New("deadline")
	errStopping = errors.New("stopping")
)

// validate refuses what no backend could serve, whichever dialect it came from.
func (c *call) validate() error {
	r := c.request
	switch {
	case r.Model == "":
		return infer.Invalid("model", "is missing")
	case r.Sampling.N < 1:
		return infer.Invalid("n", "must be at least 1, got %d", r.Sampling.N)
	case r.Kind == infer.Chat && len(r.Messages) == 0:
		return infer.Invalid("messages", "must have at least one message")
	case r.Kind == infer.Completion && len(r.Prompts) == 0:
		return infer.Invalid("prompt", "must have at least one prompt")
	}
	return nil
}

// normalize makes the request its caller's. The id that backends see is unique
// even where a caller sends the same x-request-id twice.
func (c *call) normalize() error {
	c.request.Tenant = c.grant.Tenant
	c.request.ID = c.grant.RequestID + "." + strconv.FormatUint(c.a.serial.Add(1), 36)
	return nil
}

// rules refuses what this caller or this appliance does not do.
func (c *call) rules() error {
	if c.adm == nil {
		return infer.Errorf(infer.CodeUnauthorized, "the request was not admitted")
	}
	if c.request.Class != "" {
		return infer.Unsupported("class", "the request class comes from the route")
	}
	return nil
}

// route finds what may serve the model's name, and until when.
func (c *call) route() error {
	path, err := c.a.policy.Route(&c.adm.ID, c.request.Model)
	if err != nil {
		return err
	}
	if len(path.Candidates) == 0 {
		panic("BUG: a route without candidates: " + path.Name)
	}
	c.path, c.request.Class = path, path.Class
	limit := c.a.config().Server.RequestTimeout.Std()
	if d := path.Deadline; d > 0 && (limit == 0 || d < limit) {
		limit = d
	}
	if limit > 0 {
		c.deadline(c.grant.Started.Add(limit))
	}
	return nil
}

// count asks the first candidate that can be asked how large the request is.
func (c *call) count() error {
	var err error
	if c.lease, err = c.a.lease(c.path); err != nil {
		return err
	}
	c.request.Model = c.lease.model
	c.grant.Contract = c.lease.info.Fingerprint
	c.size, err = c.lease.backend.Count(c.ctx, c.request)
	return err
}

// lease is a model that one request holds.
type lease struct {
	backend   infer.Backend
	release   func()
	candidate int // index into the route's candidates
	model     string
	info      infer.Model
	served    servedLabels
}

// lease takes the first candidate that can be asked. Only local models exist as
// backends so far; policy refuses others when the configuration is read.
func (a *Appliance) lease(path *policy.Route) (*lease, error) {
	var first error
	for i, cand := range path.Candidates {
		b, release, err := a.models.acquire(cand.Model)
		if err == nil {
			info := a.models.get(cand.Model).describe()
			return &lease{b, release, i, cand.Model, info, servedLabels{cand.Model, info.Device}}, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func (c *call) reserveRequest() policy.ReserveRequest {
	return policy.ReserveRequest{
		RequestID: c.grant.RequestID, TraceID: traceID(c.grant.Trace),
		Operation: c.operation(), Model: c.asked, Route: c.path,
		PromptTokens: c.size.PromptTokens, MaxOutputTokens: c.size.MaxOutputTokens,
		Stream: c.grant.Stream, Started: c.grant.Started, Contract: c.grant.Contract,
	}
}

func (c *call) operation() string {
	switch {
	case c.embed != nil:
		return "embeddings"
	case c.request.Kind == infer.Completion:
		return "completion"
	}
	return "chat"
}

// generate runs the request and puts what comes back in order: one start, one
// finish a choice, usage always.
func (c *call) generate() iter.Seq2[infer.Event, error] {
	c.stream = stream{prompt: infer.Usage{PromptTokens: c.size.PromptTokens}, choices: c.choices()}
	return c.stream.normalize(c.lease.backend.Generate(c.ctx, c.request), infer.Served{
		Name: c.lease.model, Fingerprint: c.lease.info.Fingerprint,
	})
}

func (c *call) choices() int { return c.request.Sampling.N * max(len(c.request.Prompts), 1) }

// result is how the request ended, for the ledger.
func (c *call) result() policy.Outcome {
	o := policy.Outcome{
		Outcome: c.outcome, Finish: c.stream.finishes(), Usage: c.stream.total(), Contract: c.grant.Contract,
	}
	if c.lease != nil {
		o.Candidate = c.lease.candidate
	}
	if c.err != nil {
		o.ErrorCode = string(c.err.Code)
	}
	if !c.first.IsZero() {
		o.TTFT = c.first.Sub(c.grant.Started)
	}
	if c.held != nil {
		o.Attempts = []store.Attempt{{
			Backend: "local", Model: c.lease.model, Started: c.held.Row.Started,
			Took: c.a.now().Sub(c.grant.Started), Outcome: c.outcome, ErrorCode: o.ErrorCode,
		}}
	}
	return o
}

// note writes the row of a request that ended before its hold. A refusal by the
// hold has written its own.
func (c *call) note(o policy.Outcome) store.Row {
	if c.refused || c.adm == nil {
		return store.Row{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), 5*time.Second)
	defer cancel()
	rr := c.reserveRequest()
	row, err := c.a.store.Note(ctx, store.Opening{
		RequestID: rr.RequestID, TraceID: rr.TraceID, Tenant: c.grant.Tenant, KeyID: c.grant.KeyID,
		Operation: rr.Operation, Model: rr.Model, Stream: rr.Stream, Started: rr.Started, Contract: rr.Contract,
	}, store.Result{Outcome: o.Outcome, ErrorCode: o.ErrorCode, Ended: c.a.now()})
	if err != nil {
		c.a.log.Warn("cannot note a refused request", "request_id", c.grant.RequestID, "error", err)
	}
	return row
}

// bound ends the call's context when other ends, for other's cause.
func (c *call) bound(other context.Context) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	c.ctx = ctx
	c.cancels = append(c.cancels, func() { stop(); cancel(nil) })
}

func (c *call) deadline(t time.Time) {
	ctx, cancel := context.WithDeadlineCause(c.ctx, t, errDeadline)
	c.ctx = ctx
	c.cancels = append(c.cancels, cancel)
}

// explain gives err as the caller may see it. An ended context is explained by
// who ended it.
func (c *call) explain(err error) *infer.Error {
	if c.ctx.Err() == nil {
		return infer.AsError(err)
	}
	var said *infer.Error
	switch cause := context.Cause(c.ctx); {
	case errors.As(err, &said) && said.Code != codeClientGone && !errors.Is(err, context.Canceled) && !errors.Is(err, cause):
		return said // it failed by itself, a moment before
	case errors.Is(cause, errDeadline) || errors.Is(cause, context.DeadlineExceeded):
		return infer.Errorf(infer.CodeTimeout, "the deadline of the request has passed")
	case errors.Is(cause, errStopping):
		e := infer.Errorf(infer.CodeUnavailable, "the server is shutting down")
		e.RetryAfter = 5 * time.Second
		return e
	}
	return &infer.Error{Code: codeClientGone, Message: "the caller left", Cause: err}
}

// log writes the one line of a request: who, what, how long, how much, never
// content.
func (c *call) log(row store.Row) {
	args := []any{
		"request_id", c.grant.RequestID, "trace_id", traceID(c.grant.Trace), "tenant", c.grant.Tenant, "key_id", c.grant.KeyID,
		"model", c.asked, "outcome", string(c.outcome), "took", c.a.now().Sub(c.grant.Started).Round(time.Microsecond),
	}
	if u := c.stream.total(); u.PromptTokens > 0 {
		args = append(args, "prompt_tokens", u.PromptTokens, "cached_tokens", u.CachedTokens, "completion_tokens", u.CompletionTokens)
	}
	if row.HoldSeq > 0 {
		args = append(args, "charge_usd", fmt.Sprintf("%.9f", float64(row.ChargeNano)/1e9))
	}
	if c.err == nil {
		c.a.log.Info("request", args...)
		return
	}
	args = append(args, "error_code", string(c.err.Code))
	if c.err.Cause != nil && c.err.Code != codeClientGone {
		args = append(args, "cause", c.err.Cause.Error())
	}
	c.a.log.Warn("request", args...)
}
