package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"log/slog"
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
	until := c.grant.Deadline
	if limit > 0 {
		if t := c.grant.Started.Add(limit); until.IsZero() || t.Before(until) {
			until = t
		}
	}
	if !until.IsZero() {
		c.deadline(until)
	}
	return nil
}

// before asks the rules of the route, which may change the request or refuse it.
func (c *call) before() error {
	if err := c.a.policy.AllowTools(&c.adm.ID, c.request); err != nil {
		return err
	}
	changed, decisions, err := c.path.Rules.Before(c.request)
	c.decisions = decisions
	if err != nil {
		return err
	}
	c.request = changed
	c.retain()
	return nil
}

// weigh takes the candidates and finds out what each would lose, whether it may
// be asked, and how large the request is at most. It fails if none is left.
func (c *call) weigh() error { return c.weighEach((*target).weigh) }

func (c *call) weighEach(weigh func(t *target, c *call)) error {
	var first error
	usable := false
	for i := range c.path.Candidates {
		t := c.a.target(&c.path.Candidates[i])
		c.targets = append(c.targets, t)
		if t.err == nil {
			t.err = c.a.unqualified(c.path, t)
		}
		if t.err == nil {
			weigh(t, c)
		}
		if t.err != nil {
			if first == nil {
				first = t.err
			}
			continue
		}
		if !usable {
			usable, c.grant.Contract = true, c.contract(t)
		}
		c.size.PromptTokens = max(c.size.PromptTokens, t.size.PromptTokens)
		c.size.MaxOutputTokens = max(c.size.MaxOutputTokens, t.size.MaxOutputTokens)
	}
	if !usable {
		return first
	}
	return nil
}

// reports says that the route lets losses pass that it reports.
func (c *call) reports() bool { return c.path.Config != nil && c.path.Config.OnLoss == "report" }

// contract is the fingerprint of what would answer: the engine's own, or that of
// the route's revision at this candidate.
func (c *call) contract(t *target) string { return t.contractOn(c.path) }

func (t *target) contractOn(path *policy.Route) string {
	if t.local() {
		return t.info.Fingerprint
	}
	if t.contract == "" {
		var room [512]byte
		b := room[:0]
		for _, s := range [...]string{Version, path.Contract, path.Revision, t.candidate.Backend, t.up.config.Kind, t.model} {
			b = append(append(b, s...), 0)
		}
		sum := sha256.Sum256(b)
		t.contract = "fp_" + hex.EncodeToString(sum[:8])
	}
	return t.contract
}

// prefix hashes the beginning of the conversation, for routes that send the same
// prefix to the same replica.
func (c *call) prefix() uint64 {
	if c.path.Config == nil || c.path.Config.Split != "prefix" {
		return 0
	}
	h := fnv.New64a()
	left := 4096
	add := func(s string) {
		s = s[:min(len(s), left)]
		left -= len(s)
		_, _ = h.Write([]byte(s))
		_, _ = h.Write([]byte{0})
	}
	for i := range c.request.Messages {
		add(string(c.request.Messages[i].Role))
		for _, p := range c.request.Messages[i].Content {
			add(p.Text)
		}
	}
	for _, p := range c.request.Prompts {
		add(p.Text)
	}
	return h.Sum64()
}

func (c *call) reserveRequest() policy.ReserveRequest {
	return policy.ReserveRequest{
		RequestID: c.grant.RequestID, TraceID: traceID(c.grant.Trace),
		Operation: c.operation(), Model: c.asked, Route: c.path,
		PromptTokens: c.size.PromptTokens, MaxOutputTokens: c.size.MaxOutputTokens,
		Stream: c.grant.Stream, Started: c.grant.Started, Contract: c.grant.Contract,
		IdempotencyKey: c.grant.Idempotency,
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

func (c *call) choices() int { return c.request.Sampling.N * max(len(c.request.Prompts), 1) }

// result is how the request ended, for the ledger.
func (c *call) result() policy.Outcome {
	o := policy.Outcome{
		Outcome: c.outcome, Finish: c.stream.finishes(), Usage: c.stream.total(), Contract: c.grant.Contract,
	}
	for i, t := range c.targets {
		if t == c.target {
			o.Candidate = i
		}
	}
	if c.err != nil {
		o.ErrorCode = string(c.err.Code)
	}
	if !c.first.IsZero() {
		o.TTFT = c.first.Sub(c.grant.Started)
	}
	if o.Attempts = c.tries; c.trying {
		made, _ := c.attempted(nil)
		o.Attempts = append(o.Attempts, made)
	}
	for _, d := range c.decisions {
		o.Decisions = append(o.Decisions, d.String())
	}
	for _, d := range c.filter.Decisions() {
		o.Decisions = append(o.Decisions, d.String())
	}
	o.Decisions = append(o.Decisions, passedOver(c.targets)...)
	if s := c.retains(); s != "" {
		o.Decisions = append(o.Decisions, s)
	}
	o.Termination = c.termination()
	for _, l := range c.grant.Losses {
		o.Losses = append(o.Losses, l.Path+"="+string(l.Class))
	}
	return o
}

// termination says what ended the answer.
func (c *call) termination() store.Termination {
	var u infer.UpstreamFault
	if c.err != nil && c.err.Upstream != nil {
		u = *c.err.Upstream
	}
	switch cause := context.Cause(c.ctx); {
	case c.outcome == store.OutcomeComplete:
		return store.TermComplete
	case c.outcome == store.OutcomeRefused:
		return store.TermRefused
	case c.err != nil && errors.Is(c.err, policy.ErrDenied):
		return store.TermDenied
	case errors.Is(cause, errDeadline), errors.Is(cause, context.DeadlineExceeded):
		return store.TermDeadline
	case errors.Is(cause, errStopping):
		return store.TermDrained
	case errors.Is(cause, errRevoked):
		return store.TermRevoked
	case c.outcome == store.OutcomeCancelled:
		return store.TermClientLeft
	case u.Class == infer.FailTimeout:
		return store.TermStalled
	case u.Class == infer.FailLost:
		return store.TermUpstreamLost
	}
	return store.TermError
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
	case errors.Is(cause, errRevoked):
		return revokedError()
	}
	return &infer.Error{Code: codeClientGone, Message: "the caller left", Cause: err}
}

// log says what there is to say of a request: who, what, how long, how much,
// never content. It stands in the line of the exchange where there is one.
func (c *call) log(row store.Row) {
	g := c.grant
	attrs := make([]slog.Attr, 0, 16)
	if !g.Line {
		attrs = append(attrs, slog.String("request", g.RequestID), slog.String("tenant", g.Tenant), slog.String("key", g.KeyID),
			slog.Duration("took", c.a.now().Sub(g.Started).Round(time.Microsecond)))
	}
	attrs = append(attrs, slog.String("trace_id", traceID(g.Trace)), slog.String("model", c.asked), slog.String("outcome", string(c.outcome)))
	if u := c.stream.total(); u.PromptTokens > 0 {
		attrs = append(attrs, slog.Int("prompt_tokens", u.PromptTokens), slog.Int("cached_tokens", u.CachedTokens), slog.Int("completion_tokens", u.CompletionTokens))
	}
	if row.HoldSeq > 0 {
		attrs = append(attrs, slog.String("charge_usd", strconv.FormatFloat(float64(row.ChargeNano)/1e9, 'f', 9, 64)))
	}
	if row.Backend != "" && row.Backend != policy.Local {
		attrs = append(attrs, slog.String("upstream", row.Backend))
	}
	if n := len(row.Losses); n > 0 {
		attrs = append(attrs, slog.Int("lost_fields", n))
	}
	if n := len(row.Attempts); n > 1 {
		attrs = append(attrs, slog.Int("attempts", n))
	}
	level := slog.LevelInfo
	if c.err != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("error_code", string(c.err.Code)))
		attrs = append(attrs, lastFailure(row.Attempts)...)
		if c.err.Cause != nil && c.err.Code != codeClientGone {
			attrs = append(attrs, slog.String("error_cause", c.err.Cause.Error()))
		}
	}
	if g.Line {
		g.Said, g.Warn = append(g.Said, attrs...), g.Warn || c.err != nil
		return
	}
	c.a.log.LogAttrs(context.Background(), level, "request", attrs...)
}

// lastFailure tells how the last attempt failed; nil if it did not.
func lastFailure(tries []store.Attempt) []slog.Attr {
	if len(tries) == 0 || tries[len(tries)-1].Failure == "" {
		return nil
	}
	a := &tries[len(tries)-1]
	out := []slog.Attr{slog.String("failed_model", a.Model), slog.String("failure", a.Failure)}
	if a.Status != 0 {
		out = append(out, slog.Int("upstream_status", a.Status))
	}
	return out
}
