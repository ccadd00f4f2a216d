package appliance

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
	"hearth/store"
)

// shadowRun is one copy of a request on its way. It is used by one goroutine.
type shadowRun struct {
	a      *Appliance
	ctx    context.Context
	shadow *policy.Shadow
	place  *policy.ShadowRun
	size   int64

	// Of the request that is copied.
	of, trace, operation string
	stream               bool
	tenant               string
	request              *infer.Request
	embed                *infer.EmbedRequest

	id      string
	target  *target
	held    *policy.Reservation
	began   time.Time // the copy
	asked   time.Time // its attempt
	first   time.Time // of the first token
	got     stream
	sent    bool // the target has been asked
	outcome store.Outcome

	leftover *leftover // where the provider is read on
}

// run makes the copy. Whatever happens, the hold is ended and the place given
// back; a bug that a copy meets ends the copy and nothing else.
func (r *shadowRun) run() {
	ctx, cancel := context.WithTimeoutCause(r.ctx, r.shadow.Path.Deadline, errDeadline)
	defer cancel()
	r.ctx, r.began, r.id = ctx, r.a.now(), "shadow_"+randomHex(12)
	var err error
	defer func() {
		if p := recover(); p != nil {
			r.a.log.Error("a copy of a request met a bug", "route", r.shadow.Path.Name, "upstream", r.shadow.Candidate().Backend,
				"panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			err = infer.Errorf(infer.CodeInternal, "the copy met a bug")
		}
		r.end(err)
	}()
	if why := r.prepare(); why != "" {
		r.a.dropShadow(shadowNameOf(r.shadow), why)
		return
	}
	r.sent, r.asked = true, r.a.now()
	r.expectDrain()
	err = r.ask()
}

// expectDrain lets a copy that is ended from here be charged by the provider's
// count, where the upstream is read on for it; see call.expectDrain.
func (r *shadowRun) expectDrain() {
	if r.target.up != nil && r.target.up.config.OnCancel == "drain" && r.embed == nil {
		r.leftover = &leftover{settled: make(chan struct{})}
		r.a.leftovers.Store(r.id, r.leftover)
	}
}

// prepare takes the target, finds out whether the copy may go there, and makes
// the worst case durable; or it says why not.
func (r *shadowRun) prepare() string {
	r.target = r.a.target(r.shadow.Candidate())
	if r.target.err != nil {
		return shadowTarget
	}
	if why := r.weigh(); why != "" {
		return why
	}
	held, err := r.a.policy.ReserveShadow(r.ctx, r.shadow, policy.ReserveRequest{
		RequestID: r.id, TraceID: r.trace, Operation: r.operation, Model: r.shadow.Path.Name, Stream: r.stream, Started: r.began,
		PromptTokens: r.target.size.PromptTokens, MaxOutputTokens: r.target.size.MaxOutputTokens, Contract: r.target.contractOn(r.shadow.Path),
	})
	if err != nil {
		return refusedShadow(err)
	}
	r.held = held
	return ""
}

// weigh cuts the copy to its bound, and finds what it loses and how large it is.
func (r *shadowRun) weigh() string {
	t := r.target
	if r.embed != nil {
		own := *r.embed
		own.ID, own.Tenant, own.Model = r.id, r.salt(), t.model
		if t.local() {
			own.Wire, own.Uses, own.Hints = nil, nil, infer.Hints{}
		}
		c := &call{a: r.a, ctx: r.ctx, embed: r.embed, path: r.shadow.Path}
		t.weighEmbed(c)
		r.embed = &own
		return weighedShadow(t.err)
	}
	most := t.candidate.MaxOutputTokens
	if r.request.Thinking.Budget >= most {
		return shadowSize // providers refuse an answer that is shorter than its thoughts
	}
	own := *policy.Cap(r.request, most, t.provider())
	own.ID, own.Tenant, own.Class = r.id, r.salt(), policy.ClassShadow
	if t.local() {
		own.Priority = math.MaxInt32 // callers first
	}
	t.asked = &own
	t.losses = t.lost(t.asked)
	if slices.ContainsFunc(t.losses, func(l infer.Loss) bool { return l.Feature == infer.FeatureImageURL }) {
		return shadowMedia
	}
	reports := r.shadow.Path.Config.OnLoss == "report"
	if t.err = refuse(t.losses, t.local(), reports); t.err == nil {
		t.size, t.err = t.backend.Count(r.ctx, t.request(t.asked))
	}
	return weighedShadow(t.err)
}

func weighedShadow(err error) string {
	switch e := infer.AsError(err); {
	case err == nil:
		return ""
	case len(e.Losses) > 0 || e.Code == infer.CodeUnsupported:
		return shadowLoss
	case e.Code == infer.CodeInvalid:
		return shadowSize
	}
	return shadowTarget
}

// salt is whose the copy is at a target that shares work between requests of one
// owner: that of the caller's copies, not of the tenant who pays for those of
// many callers.
func (r *shadowRun) salt() string { return policy.ClassShadow + "/" + r.tenant }

// ask sends the copy and takes in the answer. Nothing of it is kept but counts.
func (r *shadowRun) ask() error {
	t, path := r.target, r.shadow.Path
	if r.embed != nil {
		out, err := t.backend.Embed(r.ctx, r.embed)
		if err == nil {
			r.got.usage, r.outcome = &out.Usage, store.OutcomeComplete
		}
		return err
	}
	q := t.asked
	r.got = stream{prompt: t.promptEstimate(), choices: q.Sampling.N * max(len(q.Prompts), 1)}
	served := infer.Served{Name: path.Name, Fingerprint: t.contractOn(path)}
	for ev, err := range r.got.normalize(t.backend.Generate(r.ctx, t.request(q)), served) {
		switch {
		case err != nil:
			return err
		case r.got.tokens > t.size.MaxOutputTokens:
			return &infer.Error{Code: infer.CodeUpstream, Message: "the target gave more than it was asked for", Cause: errFlooded}
		case ev.Kind == infer.EventUsage:
			r.outcome = store.OutcomeComplete
		case ev.Kind == infer.EventStart && ev.Model != nil && ev.Model.RequestID != "":
			t.requestID = ev.Model.RequestID
		}
		if ev.Tokens > 0 && r.first.IsZero() {
			r.first = r.a.now()
		}
	}
	return nil
}

// end settles the hold, gives everything back and counts what came.
func (r *shadowRun) end(err error) {
	var failed *infer.Error
	if err != nil {
		failed = infer.AsError(err)
	}
	ours := r.ctx.Err() != nil
	if r.held != nil {
		row := r.settle(failed)
		r.a.telemetry.shadows.ended(r, &row)
		r.a.log.LogAttrs(context.Background(), slog.LevelDebug, "copy of a request", slog.String("request", r.id), slog.String("of", r.of),
			slog.String("upstream", row.Backend), slog.String("outcome", string(row.Outcome)), slog.String("error_code", row.ErrorCode))
	}
	if r.target != nil {
		r.target.release()
	}
	r.place.Done(failed, r.sent && !ours)
}

// settle ends the hold exactly once, as that of any request: nothing is released
// that may have been spent.
func (r *shadowRun) settle(failed *infer.Error) store.Row {
	o := r.result(failed)
	finish := r.held.Settle
	switch {
	case o.Outcome == store.OutcomeAmbiguous:
		finish = r.held.Ambiguous
	case o.Outcome != store.OutcomeComplete && r.got.total().CompletionTokens == 0:
		finish = r.held.Release
	}
	row, err := finish(o)
	if err != nil {
		r.a.log.Error("cannot settle a copy of a request", "request_id", r.id, "error", err)
	}
	if row.RequestID == "" {
		row.Outcome = o.Outcome
	}
	if l := r.leftover; l != nil {
		if row.Outcome != store.OutcomeAmbiguous || r.ctx.Err() == nil {
			r.a.leftovers.Delete(r.id)
		}
		l.row = row
		if l.estimate, err = store.ChargeOf(row.Price, store.UsageOf(r.got.total())); err != nil {
			l.estimate = row.HoldNano
		}
		close(l.settled)
	}
	return row
}

// result is how the copy ended, for the ledger.
func (r *shadowRun) result(failed *infer.Error) policy.Outcome {
	t := r.target
	lost := failed != nil && (ambiguous(failed) || r.ctx.Err() != nil && !t.local() && (failed.Upstream == nil || !failed.Upstream.Unsent))
	switch {
	case r.outcome == store.OutcomeComplete:
		failed = nil
	case r.got.tokens > 0:
		r.outcome = store.OutcomePartial
	case r.sent && lost:
		r.outcome = store.OutcomeAmbiguous
	default:
		r.outcome = store.OutcomeError
	}
	o := policy.Outcome{Outcome: r.outcome, Finish: r.got.finishes(), Usage: r.got.total(), Contract: t.contractOn(r.shadow.Path),
		Decisions: []string{shadowOf + r.of}, Termination: terminationOf(r.outcome, context.Cause(r.ctx), failed)}
	if !r.first.IsZero() {
		o.TTFT = r.first.Sub(r.began)
	}
	for _, l := range t.losses {
		o.Losses = append(o.Losses, l.Path+"="+string(l.Class))
	}
	at := store.Attempt{Backend: t.candidate.Backend, Provider: t.provider(), Model: t.model, Started: r.asked, Took: r.a.now().Sub(r.asked),
		Outcome: r.outcome, UpstreamRequestID: t.requestID, Sent: r.sent}
	if failed != nil {
		switch context.Cause(r.ctx) {
		case errDeadline:
			o.ErrorCode = string(infer.CodeTimeout)
		case errStopping:
			o.ErrorCode = string(infer.CodeUnavailable)
		case errYielded:
			o.ErrorCode = string(infer.CodeOverloaded)
		default:
			o.ErrorCode = string(failed.Code)
		}
		at.ErrorCode = o.ErrorCode
		if u := failed.Upstream; u != nil {
			at.Failure, at.Status, at.Sent = string(u.Class), u.Status, !u.Unsent
			if u.RequestID != "" {
				at.UpstreamRequestID = u.RequestID
			}
		}
	}
	o.Attempts = []store.Attempt{at}
	return o
}

// shadowOf stands in front of the id of the copied request, among the decisions
// of a copy's row.
const shadowOf = "shadow-of="
