package policy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"hearth/engine/infer"
	"hearth/store"
)

// ReserveRequest says what a request may use at most.
type ReserveRequest struct {
	RequestID       string
	TraceID         string
	Operation       string // "chat", "completion", "embeddings"
	Model           string // as the caller wrote it
	Route           *Route
	PromptTokens    int
	MaxOutputTokens int
	Stream          bool
	Started         time.Time
	Contract        string
	// IdempotencyKey is the caller's; only its hash is kept.
	IdempotencyKey string
}

// Reservation is a durable hold. Exactly one of Settle and Release ends it;
// later calls return store.ErrResolved.
type Reservation struct {
	Row    store.Row    // as held
	Limits []LimitState // after the token limits were charged

	p      *Policy
	route  *Route
	tokens []limit
	taken  int // tokens charged to the limits
	ended  atomic.Bool
}

// Reserve charges the token limits with prompt + maximum output, then holds the
// priced worst case against every budget of the key and its tenant. Errors:
// CodeRateLimited with RetryAfter ≤ 60 s (NoRetry if the request alone is larger
// than the limit), CodeQuota with NoRetry if a budget is exhausted or if there
// is a budget but no price, CodeUnavailable if the ledger takes no new work. A
// refusal writes its row, unless the request id was used or the ledger cannot.
func (p *Policy) Reserve(ctx context.Context, a *Admission, r ReserveRequest) (*Reservation, error) {
	res, open, err := p.reserve(ctx, a, &r)
	if err == nil {
		return res, nil
	}
	e := infer.AsError(err)
	if e.Code == infer.CodeQuota || e.Code == infer.CodeRateLimited {
		// Best effort: the refusal stands whether or not its row can be written.
		_, _ = p.store.Note(ctx, open, store.Result{Outcome: store.OutcomeRefused, ErrorCode: string(e.Code)})
	}
	return nil, e
}

func (p *Policy) reserve(ctx context.Context, a *Admission, r *ReserveRequest) (*Reservation, store.Opening, error) {
	open := store.Opening{RequestID: r.RequestID, TraceID: r.TraceID, Tenant: a.ID.Tenant, KeyID: a.ID.KeyID,
		Operation: r.Operation, Model: r.Model, Stream: r.Stream, Started: r.Started, Contract: r.Contract,
		Idempotency: store.IdempotencyMark(a.ID.KeyID, r.IdempotencyKey)}
	if r.Route == nil || len(r.Route.Candidates) == 0 {
		return nil, open, infer.Errorf(infer.CodeInternal, "the request has no route")
	}
	open.Route, open.Class, open.Price = r.Route.Name, r.Route.Class, r.Route.Candidates[0].Price
	open.Revision = r.Route.Revision
	if open.Started.IsZero() {
		open.Started = p.now()
	}
	if r.PromptTokens < 0 || r.MaxOutputTokens < 0 {
		return nil, open, infer.Errorf(infer.CodeInternal, "cannot reserve a negative number of tokens")
	}
	var k store.Key
	_, t, err := p.caller(&a.ID, &k)
	if err != nil {
		return nil, open, err
	}
	charges, err := p.charges(t, &k)
	if err != nil {
		return nil, open, err
	}
	amount, err := r.amount(len(charges) > 0)
	if err != nil {
		return nil, open, err
	}
	res := &Reservation{p: p, route: r.Route, taken: r.PromptTokens + r.MaxOutputTokens,
		tokens: []limit{{"key/" + k.ID, t.limitsOf(&k).TokensPerMinute}, {t.owner, t.limits.TokensPerMinute}}}
	if a.ID.Kind == KindShadow {
		res.tokens = nil
	}
	if err := res.takeTokens(); err != nil {
		return nil, open, err
	}
	res.Row, err = p.store.Hold(ctx, store.HoldRequest{Opening: open, AmountNano: amount, Charges: charges})
	if err != nil {
		p.limits.correct("tokens", -res.taken, res.tokens)
		return nil, open, err
	}
	return res, open, nil
}

// charges gives every budget window that a request of this key counts against
// now.
func (p *Policy) charges(t *tenant, k *store.Key) ([]store.Charge, error) {
	now := p.now()
	own, keys := t.charges, t.keys(k)
	if len(own)+len(keys) == 0 {
		return nil, nil
	}
	out := make([]store.Charge, 0, len(own)+len(keys))
	for _, list := range [...][]charge{own, keys} {
		for i := range list {
			c := &list[i]
			w, err := t.window(c.period, now)
			if err != nil {
				return nil, &infer.Error{Code: infer.CodeInternal, Message: "a budget's window cannot be found", Cause: err}
			}
			out = append(out, store.Charge{Budget: c.id, Window: w.ID, CapNano: c.cap})
		}
	}
	return out, nil
}

// amount is the most that the request can cost at any of its candidates.
func (r *ReserveRequest) amount(budgeted bool) (int64, error) {
	most := int64(0)
	for i := range r.Route.Candidates {
		c := &r.Route.Candidates[i]
		if !c.Priced {
			if budgeted {
				return 0, &infer.Error{Code: infer.CodeQuota, NoRetry: true, Param: "model",
					Message: "the model has no price and a budget applies to this api key: ask the operator to set one"}
			}
			continue
		}
		n, err := worstCase(c.Price, r.PromptTokens, r.MaxOutputTokens)
		if err != nil || n > store.MaxAmountNano {
			return 0, &infer.Error{Code: infer.CodeQuota, NoRetry: true, Cause: err,
				Message: "the most that this request could cost is beyond what can be held: lower its maximum output"}
		}
		most = max(most, n)
	}
	return most, nil
}

func (r *Reservation) takeTokens() error {
	l := r.p.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.takeLocked("tokens", r.taken, r.tokens); err != nil {
		return err
	}
	r.Limits = l.statesLocked(nil, "tokens", r.tokens)
	return nil
}

// Outcome is how a reserved request ended.
type Outcome struct {
	Outcome   store.Outcome
	Finish    string
	ErrorCode string
	Candidate int // index into Route.Candidates of what served it
	Attempts  []store.Attempt
	Usage     infer.Usage
	TTFT      time.Duration
	Contract  string // replaces that of the reservation if set
	// Termination says what ended the answer; Losses what translation lost,
	// "path=class"; Decisions what rules did, "rule=action", and who was passed over.
	Termination store.Termination
	Losses      []string
	Decisions   []string
}

func (r *Reservation) result(o *Outcome) store.Result {
	c := &r.route.Candidates[min(max(o.Candidate, 0), len(r.route.Candidates)-1)]
	return store.Result{Outcome: o.Outcome, Finish: o.Finish, ErrorCode: o.ErrorCode, Backend: c.Backend,
		Attempts: o.Attempts, Usage: store.UsageOf(o.Usage), TTFT: o.TTFT, Ended: r.p.now(),
		Termination: o.Termination, Losses: o.Losses, Decisions: o.Decisions,
		ServedContract: o.Contract, ServedPrice: &c.Price}
}

// Settle charges what was used and corrects the token limits by what was not.
// An unpriceable usage (one that overflows) is charged at the hold.
func (r *Reservation) Settle(o Outcome) (store.Row, error) {
	if !r.ended.CompareAndSwap(false, true) {
		return store.Row{}, resolved()
	}
	res := r.result(&o)
	u := res.Usage
	r.correct(u.Prompt() + u.Output)
	row, err := r.p.store.Settle(r.Row.RequestID, res)
	if errors.Is(err, store.ErrOverflow) {
		return r.p.store.Expire(r.Row.RequestID, "usage_overflow")
	}
	return row, err
}

// Release ends the reservation without charge: nothing was delivered.
func (r *Reservation) Release(o Outcome) (store.Row, error) {
	if !r.ended.CompareAndSwap(false, true) {
		return store.Row{}, resolved()
	}
	r.correct(0)
	return r.p.store.Release(r.Row.RequestID, r.result(&o))
}

// Ambiguous ends the reservation of a request of which nobody here can tell what
// the provider did: the hold is charged in full, and the tokens stay taken.
func (r *Reservation) Ambiguous(o Outcome) (store.Row, error) {
	if !r.ended.CompareAndSwap(false, true) {
		return store.Row{}, resolved()
	}
	return r.p.store.Ambiguous(r.Row.RequestID, r.result(&o))
}

// correct replaces the tokens taken by those used.
func (r *Reservation) correct(used int64) {
	const most = maxLimit // more than any limit
	r.p.limits.correct("tokens", int(min(used, most))-r.taken, r.tokens)
}

func resolved() error {
	return &infer.Error{Code: infer.CodeConflict, Message: "the reservation has already ended", Cause: store.ErrResolved}
}
