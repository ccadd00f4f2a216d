package appliance

import (
	"context"
	"sync"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/policy"
	"hearth/web"
)

// The appliance is what the web serves.
var _ web.Service = (*Appliance)(nil)

// admission is what a grant stands for on our side.
type admission struct {
	*policy.Admission
	parent [8]byte         // the caller's span; zero: none
	ended  context.Context // once its caller may ask no more
	end    context.CancelCauseFunc
}

// Admit lets a caller in before the body of its request is read: is the server
// taking work, whose key is it, is there room within its limits.
func (a *Appliance) Admit(ctx context.Context, c web.Caller) (_ *web.Grant, err error) {
	g := &web.Grant{RequestID: c.RequestID, Started: a.now(), Trace: newSpan(c.TraceParent, a.traces.ratio()), TraceState: c.TraceState}
	defer func() {
		if err != nil {
			a.traces.refused(g.Trace, c.TraceParent, g.TraceState, g.Started, a.now(), g.RequestID, err)
		}
	}()
	if err := a.takesWork(); err != nil {
		a.telemetry.denied(infer.AsError(err).Code)
		return g, err
	}
	id, err := a.identify(ctx, c)
	if err != nil {
		return g, err
	}
	return a.admitAs(g, c, id)
}

// admitAs takes a limit's place for a caller who is known.
func (a *Appliance) admitAs(g *web.Grant, c web.Caller, id *policy.Identity) (*web.Grant, error) {
	g.Tenant, g.KeyID, g.Idempotency = id.Tenant, id.KeyID, c.Idempotency
	if c.Timeout > 0 {
		g.Deadline = g.Started.Add(c.Timeout)
	}
	if !a.enter() {
		e := infer.Errorf(infer.CodeOverloaded, "the server has as many open requests as it may, try again")
		e.RetryAfter = time.Second
		a.telemetry.denied(e.Code)
		return g, e
	}
	adm, err := a.policy.Admit(id)
	if adm != nil {
		g.Limits = limitStates(adm.Limits)
	}
	if err != nil {
		a.leave()
		a.telemetry.denied(infer.AsError(err).Code)
		return g, err
	}
	own := &admission{Admission: adm, parent: spanIDOf(c.TraceParent)}
	own.ended, own.end = context.WithCancelCause(context.Background())
	a.grants.Store(g, own)
	g.Ended = own.ended.Done()
	var once sync.Once
	g.Release = func() {
		once.Do(func() {
			a.grants.Delete(g)
			own.end(nil)
			adm.Release()
			a.leave()
		})
	}
	return g, nil
}

// takesWork says why no new request may begin: draining, or a ledger that
// cannot write.
func (a *Appliance) takesWork() error {
	if a.draining.Load() {
		e := infer.Errorf(infer.CodeUnavailable, "the server is shutting down")
		e.RetryAfter = 5 * time.Second
		return e
	}
	return a.store.Err()
}

// enter counts a request in, unless there are as many as there may be.
func (a *Appliance) enter() bool {
	limit := int64(a.config().Server.MaxRequests)
	if n := a.open.Add(1); limit > 0 && n > limit {
		a.open.Add(-1)
		return false
	}
	return true
}

func (a *Appliance) leave() { a.open.Add(-1) }

// admission finds what Admit stored for a grant; nil if it was never admitted
// or is released.
func (a *Appliance) admission(g *web.Grant) *admission {
	if v, ok := a.grants.Load(g); ok {
		return v.(*admission)
	}
	return nil
}

func limitStates(in []policy.LimitState) []web.LimitState {
	out := make([]web.LimitState, len(in))
	for i, l := range in {
		out[i] = web.LimitState(l)
	}
	return out
}

// Models lists what the caller may ask for, by public name.
func (a *Appliance) Models(ctx context.Context, g *web.Grant) ([]infer.Model, error) {
	adm := a.admission(g)
	if adm == nil {
		return nil, infer.Errorf(infer.CodeUnauthorized, "the request was not admitted")
	}
	// Clients without a choice of their own take the first: the built-in model,
	// which knows this appliance only, comes last.
	var out, last []infer.Model
	for _, name := range a.policy.Models(&adm.ID) {
		path, err := a.policy.Route(&adm.ID, name)
		if err != nil {
			continue // a reload came between
		}
		info, embedded, ok := a.describe(path)
		if info.Name = name; !ok {
			continue
		}
		if embedded {
			last = append(last, info)
		} else {
			out = append(out, info)
		}
	}
	return append(out, last...), nil
}

// describe says what is known of a route: the first candidate that is there.
// Providers are not asked; the list must not wait for them.
func (a *Appliance) describe(path *policy.Route) (info infer.Model, embedded, ok bool) {
	for i := range path.Candidates {
		c := &path.Candidates[i]
		if c.Backend != policy.Local {
			return infer.Model{Created: a.started.Unix(), Tools: true, Device: c.Backend}, false, true
		}
		if lm := a.models.get(c.Model); lm != nil {
			return lm.describe(), lm.spec.Path == config.EmbeddedPath, true
		}
	}
	return infer.Model{}, false, false
}

// Count gives the size of a request without running it.
func (a *Appliance) Count(ctx context.Context, g *web.Grant, r *infer.Request) (infer.Count, error) {
	t, err := a.targetFor(g, r.Model)
	if err != nil {
		return infer.Count{}, err
	}
	defer t.release()
	own := t.request(r)
	own.ID, own.Tenant = "", g.Tenant // no id: nothing is kept for a generation
	if t.up != nil {
		return t.up.CountTokens(ctx, own, t.model, t.candidate.MaxOutputTokens)
	}
	return t.backend.Count(ctx, own)
}

// Tokenize gives the ids of a text or of a rendered chat.
func (a *Appliance) Tokenize(ctx context.Context, g *web.Grant, r *infer.TokenizeRequest) ([]int32, error) {
	t, err := a.targetFor(g, r.Model)
	if err != nil {
		return nil, err
	}
	defer t.release()
	own := *r
	own.Model = t.model
	if r.Chat != nil {
		own.Chat = t.request(r.Chat)
		own.Chat.ID, own.Chat.Tenant = "", g.Tenant
	}
	return t.backend.Tokenize(ctx, &own)
}

// Detokenize gives the bytes of ids.
func (a *Appliance) Detokenize(ctx context.Context, g *web.Grant, model string, ids []int32) ([]byte, error) {
	t, err := a.targetFor(g, model)
	if err != nil {
		return nil, err
	}
	defer t.release()
	return t.backend.Detokenize(ctx, t.model, ids)
}

// targetFor takes the first candidate of a model that can be asked.
func (a *Appliance) targetFor(g *web.Grant, model string) (*target, error) {
	adm := a.admission(g)
	if adm == nil {
		return nil, infer.Errorf(infer.CodeUnauthorized, "the request was not admitted")
	}
	path, err := a.policy.Route(&adm.ID, model)
	if err != nil {
		return nil, err
	}
	var first error
	for i := range path.Candidates {
		t := a.target(&path.Candidates[i])
		if t.err == nil {
			return t, nil
		}
		if first == nil {
			first = t.err
		}
	}
	return nil, first
}

// Notes are what an operator should know of an appliance that is ready.
func (a *Appliance) Notes() (notes []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, s := range a.models.states(ctx) {
		if s.health.Degraded != "" {
			notes = append(notes, degradedText(&s))
		}
	}
	return notes
}

// Ready says whether new work is admitted: every model has answered and answers
// still, the ledger writes, and the server is not ending.
func (a *Appliance) Ready() (bool, string) {
	if a.draining.Load() {
		return false, "draining"
	}
	if err := a.store.Err(); err != nil {
		return false, "ledger: " + infer.AsError(err).Message
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return a.models.ready(ctx)
}
