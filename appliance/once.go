package appliance

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/store"
	"hearth/web"
)

// Claim implements web.Once. The scope of a key is the API key and the value.
// The claim is durable before the request is served; if the process dies the
// ledger tells the repeat what became of the first request.
func (a *Appliance) Claim(ctx context.Context, g *web.Grant, key, route string, body [32]byte) (web.Recording, *web.Replay, error) {
	conf := &a.config().Idempotency
	if !conf.Enabled {
		return nil, nil, infer.Unsupported("idempotency-key", "idempotency keys are switched off on this server")
	}
	c := store.Once{ID: store.OnceID(g.KeyID, key), RequestID: g.RequestID, Route: route, Body: body, Expires: a.now().Add(conf.Keep.Std())}
	rec := &recording{a: a, id: c.ID, request: g.RequestID, conf: conf}
	first, err := a.store.ClaimOnce(ctx, c, "", int64(conf.MaxBytes))
	if err != nil || first == nil {
		return rec, nil, err
	}
	if first.Body != body {
		return nil, nil, conflict("the idempotency key was used before for another request")
	}
	switch first.State {
	case store.OnceKept:
		return nil, replayOf(first), nil
	case store.OnceLost:
		return nil, nil, conflict("the first request with this idempotency key was answered, and its answer could not be kept: see request " + first.RequestID)
	}
	if err := a.unfinished(ctx, first); err != nil {
		return nil, nil, err
	}
	// Nothing was charged for the first request: this one takes its place,
	// unless another was faster.
	if first, err = a.store.ClaimOnce(ctx, c, first.RequestID, int64(conf.MaxBytes)); err == nil && first != nil {
		err = stillOpen()
	}
	return rec, nil, err
}

// unfinished says why a claim without an answer stands: its request runs, or its
// process died and the ledger has what was charged. Nil: nothing was.
func (a *Appliance) unfinished(ctx context.Context, first *store.Once) error {
	if a.running(first.RequestID) {
		return stillOpen()
	}
	d, err := a.store.Show(ctx, first.RequestID)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err != nil && infer.AsError(err).Code == infer.CodeNotFound:
		return nil // it never came as far as a hold
	case err != nil:
		return err
	}
	switch row := &d.Row; {
	case row.Outcome == store.OutcomeOpen:
		return stillOpen()
	case row.Outcome == store.OutcomeUnknown || row.Outcome == store.OutcomeAmbiguous:
		return conflict("the outcome of the first request with this idempotency key is not known, and it was charged: see request " + first.RequestID)
	case served(row):
		return conflict("the first request with this idempotency key was served, and its answer was lost: see request " + first.RequestID)
	}
	return nil
}

// served says that a request made something, so that its repeat must not.
func served(r *store.Row) bool {
	switch r.Outcome {
	case store.OutcomeComplete, store.OutcomePartial, store.OutcomeUnknown, store.OutcomeAmbiguous:
		return true
	}
	return r.ChargeNano > 0 || r.Usage.Output > 0
}

func conflict(message string) *infer.Error {
	return &infer.Error{Code: infer.CodeConflict, NoRetry: true, Param: "idempotency-key", Message: message}
}

func stillOpen() *infer.Error {
	return &infer.Error{Code: infer.CodeConflict, RetryAfter: time.Second, Param: "idempotency-key",
		Message: "the first request with this idempotency key is still open"}
}

// running says whether a request is open in this process.
func (a *Appliance) running(requestID string) bool {
	found := false
	a.grants.Range(func(g, _ any) bool {
		found = g.(*web.Grant).RequestID == requestID
		return !found
	})
	return found
}

// recording is the claim of one request.
type recording struct {
	a       *Appliance
	id      [32]byte
	request string
	conf    *config.Idempotency
}

// Limit implements web.Recording.
func (r *recording) Limit() int { return int(r.conf.MaxAnswer) }

// Keep implements web.Recording. The call is over, so the ledger has its row.
func (r *recording) Keep(a web.Replay) error {
	d, err := r.a.store.Show(context.Background(), r.request)
	if err != nil && infer.AsError(err).Code != infer.CodeNotFound {
		return err
	}
	keep := served(&d.Row)
	if err != nil || d.Row.Outcome == store.OutcomeOpen { // it goes on without its caller
		keep = a.Status >= 200 && a.Status < 300
	}
	if !keep {
		return r.a.store.ForgetOnce(r.id, r.request)
	}
	if a.TooLarge || a.Status == 0 {
		return r.a.store.KeepOnce(r.id, r.request, nil, 0)
	}
	kept := &store.OnceAnswer{Status: a.Status, ContentType: a.ContentType, Body: a.Body, Cut: a.Cut}
	for _, k := range slices.Sorted(maps.Keys(a.Header)) {
		kept.Header = append(kept.Header, [2]string{k, a.Header[k]})
	}
	return r.a.store.KeepOnce(r.id, r.request, kept, int64(r.conf.MaxBytes))
}

func replayOf(o *store.Once) *web.Replay {
	a := o.Answer
	r := &web.Replay{RequestID: o.RequestID, Status: a.Status, ContentType: a.ContentType, Header: map[string]string{}, Body: a.Body, Cut: a.Cut}
	for _, h := range a.Header {
		r.Header[h[0]] = h[1]
	}
	return r
}
