package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"hearth/engine/infer"
)

// Sentinels of the ledger calls.
var (
	// ErrResolved: the hold has already been settled, released or expired.
	ErrResolved = errors.New("the hold has already ended")
	// ErrNoHold: no hold was ever made under this request id.
	ErrNoHold = errors.New("no hold under this request id")
	// ErrDuplicate: the request id has been used before.
	ErrDuplicate = errors.New("the request id has been used before")
	// ErrUnknownOutcome: the commit failed and may or may not be visible. The
	// store settles it by request id when it is next opened or reopened.
	ErrUnknownOutcome = errors.New("the commit failed with unknown outcome")
)

// BudgetError says which budget a hold did not fit into. It is wrapped by an
// *infer.Error of CodeQuota with NoRetry set.
type BudgetError struct {
	Budget, Window                         string
	CapNano, SpentNano, HeldNano, WantNano int64
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("budget %s, window %s: cannot hold %d nano-USD: cap %d, spent %d, held %d",
		e.Budget, e.Window, e.WantNano, e.CapNano, e.SpentNano, e.HeldNano)
}

// Charge names one budget window that a hold counts against, with the cap that
// is in force now.
type Charge struct {
	Budget  string `json:"budget"` // opaque, stable, at most 200 bytes; policy uses "tenant/acme/day"
	Window  string `json:"window"` // Window.ID
	CapNano int64  `json:"cap_nano"`
}

// HoldRequest asks for AmountNano to be held against every budget in Charges,
// all or nothing. No charges is allowed: the request then only gets its row.
type HoldRequest struct {
	Opening    Opening  `json:"opening"`
	AmountNano int64    `json:"amount_nano"`
	Charges    []Charge `json:"charges,omitempty"`
}

// MaxAmountNano bounds one hold and one charge: four million dollars. It keeps
// sums far from the end of int64.
const MaxAmountNano = 1 << 52

// Hold makes the hold durable before it returns. Errors: CodeQuota wrapping a
// *BudgetError, CodeConflict wrapping ErrDuplicate, CodeInvalid for a malformed
// request, CodeUnavailable if the store cannot take new work (failed, full,
// closed). If ctx ends before the committer has taken the operation nothing is
// held; after that Hold waits for the commit and reports what happened.
func (s *Store) Hold(ctx context.Context, h HoldRequest) (Row, error) {
	if err := s.Err(); err != nil {
		return Row{}, err
	}
	if err := h.check(); err != nil {
		return Row{}, err
	}
	var o *op
	o = newOp(opHold, func(w *writer) error { return w.hold(o, &h) })
	o.requestID = h.Opening.RequestID
	return o.result(s.do(ctx, o))
}

// check refuses what could not be written, before anything is.
func (h *HoldRequest) check() error {
	if err := h.Opening.check(); err != nil {
		return err
	}
	if h.AmountNano < 0 || h.AmountNano > MaxAmountNano {
		return infer.Errorf(infer.CodeInvalid, "cannot hold %d nano-USD: want 0 to %d", h.AmountNano, int64(MaxAmountNano))
	}
	if len(h.Charges) > maxPostings {
		return infer.Errorf(infer.CodeInvalid, "cannot hold against %d budgets: want at most %d", len(h.Charges), maxPostings)
	}
	for i, c := range h.Charges {
		if !plain(c.Budget, maxBudgetID) || !plain(c.Window, maxWindowID) || c.CapNano < 0 {
			return infer.Errorf(infer.CodeInvalid, "cannot hold against budget %.64q, window %.64q, cap %d", c.Budget, c.Window, c.CapNano)
		}
		for _, d := range h.Charges[:i] {
			if d.Budget == c.Budget && d.Window == c.Window {
				return infer.Errorf(infer.CodeInvalid, "cannot hold against budget %s twice", c.Budget)
			}
		}
	}
	return nil
}

// check refuses an opening without identity and trims the rest to its fields.
func (o *Opening) check() error {
	if !plain(o.RequestID, maxRequestID) {
		return infer.Errorf(infer.CodeInvalid, "cannot use request id %.32q: want 1 to %d printable ASCII characters", o.RequestID, maxRequestID)
	}
	for _, p := range []*string{&o.TraceID, &o.Tenant, &o.KeyID, &o.Operation, &o.Model, &o.Route, &o.Class, &o.Contract,
		&o.Revision, &o.Idempotency, &o.Price.Version} {
		*p = clip(*p, maxString)
	}
	for _, v := range []int64{o.Price.Input, o.Price.Cached, o.Price.CacheWrite, o.Price.CacheWriteHour, o.Price.Output} {
		if v < 0 {
			return infer.Errorf(infer.CodeInvalid, "cannot use a negative price")
		}
	}
	o.Started = stamp(o.Started)
	return nil
}

// stamp is a time as the ledger will give it back.
func stamp(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(0, t.UnixNano()).UTC()
}

// plain says whether s is 1 to n printable ASCII characters.
func plain(s string, n int) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= utf8.RuneSelf-1 {
			return false
		}
	}
	return s != "" && len(s) <= n
}

func (w *writer) hold(o *op, h *HoldRequest) error {
	if err := w.unused(h.Opening.RequestID); err != nil {
		return err
	}
	r := &Record{Kind: KindHold, RequestID: h.Opening.RequestID}
	r.Row = &Row{Opening: h.Opening, Result: Result{Outcome: OutcomeOpen}, HoldNano: h.AmountNano}
	for _, c := range h.Charges {
		b, err := w.balance(balanceKey(c.Budget, c.Window))
		if err != nil {
			return &infer.Error{Code: infer.CodeUnavailable, Message: "a budget cannot be read", Cause: err}
		}
		if !b.fits(h.AmountNano, c.CapNano) {
			be := &BudgetError{c.Budget, c.Window, c.CapNano, b.spent, b.held, h.AmountNano}
			return &infer.Error{Code: infer.CodeQuota, NoRetry: true, Cause: be,
				Message: "the budget does not cover the most that this request could cost"}
		}
		r.Postings = append(r.Postings, Posting{Budget: c.Budget, Window: c.Window, CapNano: c.CapNano, HeldNano: h.AmountNano})
	}
	if w.append(r); w.fatal != nil {
		return nil
	}
	if err := w.led.addOpen(r, time.Now()); err != nil {
		w.mark(err)
		return nil
	}
	w.s.active.setOpen(r.RequestID, r.Seq)
	w.s.active.index[r.RequestID] = ends{r.Seq, 0}
	o.row = r.Row
	return nil
}

// unused refuses a request id that the ledger knows.
func (w *writer) unused(id string) error {
	_, known := w.led.open[id]
	if !known {
		_, known = w.indexed(id)
	}
	if known {
		return &infer.Error{Code: infer.CodeConflict, Message: "the request id has been used before", Cause: ErrDuplicate}
	}
	return nil
}

// balance gives the cached balance, read from the file at first use.
func (w *writer) balance(key string) (*balance, error) {
	if b := w.led.balances[key]; b != nil {
		return b, nil
	}
	b := &balance{}
	if f := w.s.flushing; f != nil && f.dirty[key] != nil {
		*b = *f.dirty[key]
	} else if v := w.tx.Bucket(bucketBalances).Get([]byte(key)); v != nil {
		var err error
		if *b, err = decodeBalance(key, v); err != nil {
			return nil, err
		}
	}
	w.led.balances[key] = b
	return b, nil
}

// append links r to the chain, books its postings and puts it.
func (w *writer) append(r *Record) {
	r.Seq, r.Prev, r.At = w.led.seq+1, w.led.head, stamp(w.now)
	r.Row.place(r)
	for i := range r.Postings {
		key := balanceKey(r.Postings[i].Budget, r.Postings[i].Window)
		b, err := w.balance(key)
		if err == nil {
			err = b.apply(r.Kind, &r.Postings[i])
		}
		if err != nil {
			w.mark(fmt.Errorf("record %d: %w", r.Seq, err))
			return
		}
		if !b.dirty {
			b.dirty = true
			w.s.active.dirty[key] = b
		}
	}
	w.s.scratch = appendRecord(w.s.scratch[:0], r)
	data := bytes.Clone(w.s.scratch)
	w.led.seq, w.led.head = r.Seq, recordHash(data)
	w.s.active.add(r.Seq, data, w.led.head)
	w.mark(nil)
}

// place tells a row where it is kept. A nil row is left alone.
func (r *Row) place(rec *Record) {
	if r == nil {
		return
	}
	r.Seq, r.Budgets = rec.Seq, rec.Postings
	if rec.Kind == KindHold {
		r.HoldSeq = rec.Seq
	}
}

// Settle ends the hold of a request with what was used at its price, which may
// come to more than the hold: the excess becomes an overdraft record in the same
// transaction. With OutcomeUnknown the hold is charged in full. It returns the
// finished row. Errors: ErrNoHold, ErrResolved, CodeUnavailable wrapping
// ErrUnknownOutcome. A settle that could not be written is kept and written by
// Reopen; after a crash the hold is settled in full instead.
//
// Settle takes no context: a charge is recorded whether or not anybody waits.
func (s *Store) Settle(requestID string, r Result) (Row, error) {
	return s.finish(KindSettle, requestID, r)
}

// Release ends the hold of a request without charge. Errors as of Settle.
func (s *Store) Release(requestID string, r Result) (Row, error) {
	return s.finish(KindRelease, requestID, r)
}

// Expire ends the hold of a request whose outcome nobody knows: it is charged
// in full, its row says OutcomeUnknown. Errors as of Settle.
func (s *Store) Expire(requestID, errorCode string) (Row, error) {
	return s.finish(KindExpire, requestID, Result{Outcome: OutcomeUnknown, ErrorCode: errorCode})
}

// Ambiguous ends the hold of a request of which nobody here can tell whether the
// provider served and charged it: it is charged in full, its row says
// OutcomeAmbiguous, and Correct may replace the charge once it is known. Errors
// as of Settle.
func (s *Store) Ambiguous(requestID string, r Result) (Row, error) {
	r.Outcome = OutcomeAmbiguous
	return s.finish(KindSettle, requestID, r)
}

// endRequest is what is needed to end a hold, now or after Reopen.
type endRequest struct {
	kind   Kind
	result Result
}

func (s *Store) finish(kind Kind, id string, r Result) (Row, error) {
	if err := r.check(); err != nil {
		return Row{}, err
	}
	o := s.endOp(kind, id, r)
	return o.result(s.do(context.Background(), o))
}

func (s *Store) endOp(kind Kind, id string, r Result) *op {
	var o *op
	o = newOp(opEnd, func(w *writer) error { return w.end(o) })
	o.requestID, o.end = id, &endRequest{kind, r}
	return o
}

// check refuses a result that is none, and trims the rest to its fields.
func (r *Result) check() error {
	switch r.Outcome {
	case OutcomeComplete, OutcomePartial, OutcomeCancelled, OutcomeError, OutcomeUnknown, OutcomeAmbiguous, OutcomeRefused:
	default:
		return infer.Errorf(infer.CodeInvalid, "cannot end a request with outcome %.32q", r.Outcome)
	}
	for _, v := range []int64{r.Usage.FreshInput, r.Usage.CachedInput, r.Usage.CacheWrite,
		r.Usage.CacheWriteHour, r.Usage.Output, r.Usage.Reasoning} {
		if v < 0 {
			return infer.Errorf(infer.CodeInvalid, "cannot settle a negative number of tokens")
		}
	}
	for _, p := range []*string{&r.Finish, &r.ErrorCode, &r.Backend, &r.ServedContract} {
		*p = clip(*p, maxString)
	}
	r.Termination = Termination(clip(string(r.Termination), maxMark))
	r.Losses, r.Decisions = clipAll(r.Losses), clipAll(r.Decisions)
	r.Ended = stamp(r.Ended)
	r.Attempts = append([]Attempt(nil), r.Attempts[max(0, len(r.Attempts)-maxAttempts):]...)
	for i := range r.Attempts {
		a := &r.Attempts[i]
		a.Backend, a.Model, a.ErrorCode = clip(a.Backend, maxString), clip(a.Model, maxString), clip(a.ErrorCode, maxString)
		a.Provider, a.Failure = clip(a.Provider, maxString), clip(a.Failure, maxString)
		a.UpstreamRequestID = printable(a.UpstreamRequestID, maxUpstream)
		a.Status = min(max(a.Status, 0), maxStatus)
		a.Started = stamp(a.Started)
		if _, ok := outcomeCode(a.Outcome); !ok {
			a.Outcome = OutcomeUnknown
		}
	}
	return nil
}

// finished is the whole row of a hold that ends with e, and its charge.
func (e *endRequest) finished(h *openHold, now time.Time) (*Row, error) {
	row := *h.row
	row.Result = e.result
	if e.result.ServedContract != "" {
		row.Contract = e.result.ServedContract
	}
	if p := e.result.ServedPrice; p != nil {
		row.Price = *p
		row.Price.Version = clip(p.Version, maxString)
	}
	row.ServedContract, row.ServedPrice = "", nil
	if row.Ended.IsZero() {
		row.Ended = stamp(now)
	}
	switch {
	case e.kind == KindRelease:
		row.ChargeNano = 0
	case e.kind == KindExpire || row.Outcome.atHold():
		row.ChargeNano = h.amount
	default:
		var err error
		if row.ChargeNano, err = ChargeOf(row.Price, row.Usage); err != nil {
			return nil, err
		}
	}
	if row.ChargeNano > MaxAmountNano {
		return nil, ErrOverflow
	}
	row.OverdraftNano = max(0, row.ChargeNano-h.amount)
	return &row, nil
}

func (w *writer) end(o *op) error {
	h := w.led.open[o.requestID]
	if h == nil {
		return w.notOpen(o)
	}
	row, err := o.end.finished(h, w.now)
	if err != nil {
		return &infer.Error{Code: infer.CodeInvalid, Message: "the usage cannot be priced", Cause: err}
	}
	r := &Record{Kind: o.end.kind, RequestID: o.requestID, Row: row}
	excess := &Record{Kind: KindOverdraft, RequestID: o.requestID}
	for _, p := range h.postings {
		r.Postings = append(r.Postings, Posting{Budget: p.Budget, Window: p.Window, CapNano: p.CapNano,
			HeldNano: -h.amount, SpentNano: row.ChargeNano - row.OverdraftNano})
		excess.Postings = append(excess.Postings, Posting{Budget: p.Budget, Window: p.Window, CapNano: p.CapNano,
			SpentNano: row.OverdraftNano})
	}
	w.append(r)
	if row.OverdraftNano > 0 && w.fatal == nil {
		w.append(excess)
	}
	delete(w.led.open, o.requestID)
	w.led.heldNano -= h.amount
	w.s.active.setOpen(o.requestID, 0)
	w.s.active.index[o.requestID] = ends{row.HoldSeq, r.Seq}
	o.row = row
	return nil
}

// notOpen says why a request has no open hold.
func (w *writer) notOpen(o *op) error {
	e, ok := w.indexed(o.requestID)
	if !ok {
		return &infer.Error{Code: infer.CodeNotFound, Message: "there is no such hold", Cause: ErrNoHold}
	}
	if e.end != 0 {
		if rec, err := w.recordAt(e.end); err == nil && rec.Row != nil {
			o.row = rec.Row
		}
	}
	return &infer.Error{Code: infer.CodeConflict, Message: "the hold has already ended", Cause: ErrResolved}
}

// Note writes the row of a request that ended before it could be held. It
// touches no balance. Errors as of Hold.
func (s *Store) Note(ctx context.Context, op Opening, r Result) (Row, error) {
	if err := s.Err(); err != nil {
		return Row{}, err
	}
	if err := errors.Join(op.check(), r.check()); err != nil {
		return Row{}, infer.AsError(err)
	}
	o := newOp(opNote, nil)
	o.put = func(w *writer) error {
		if err := w.unused(op.RequestID); err != nil {
			return err
		}
		rec := &Record{Kind: KindNote, RequestID: op.RequestID, Row: &Row{Opening: op, Result: r}}
		rec.Row.ServedContract, rec.Row.ServedPrice = "", nil
		if rec.Row.Ended.IsZero() {
			rec.Row.Ended = stamp(w.now)
		}
		w.append(rec)
		w.s.active.index[rec.RequestID] = ends{rec.Seq, rec.Seq}
		o.row = rec.Row
		return nil
	}
	return o.result(s.do(ctx, o))
}

// ExpireOlder ends, as Expire does, every hold that has been open for longer than
// age, by the monotonic clock, and gives their number. Holds of requests that
// running knows are left alone, however old. It is the net under requests whose
// owner forgot them; age must be longer than any request.
func (s *Store) ExpireOlder(age time.Duration, running func(requestID string) bool) (int, error) {
	s.mu.Lock()
	var ids []string
	for _, id := range s.led.openIDs() {
		if time.Since(s.led.open[id].since) > age && (running == nil || !running(id)) {
			ids = append(ids, id)
		}
	}
	s.mu.Unlock()
	n := 0
	for _, id := range ids {
		switch _, err := s.Expire(id, "hold_expired"); {
		case err == nil:
			n++
		case !errors.Is(err, ErrResolved):
			return n, err
		}
	}
	return n, nil
}

// Balance is the position of one budget window.
type Balance struct {
	Budget        string `json:"budget"`
	Window        string `json:"window"`
	SpentNano     int64  `json:"spent_nano"` // committed, overdrafts included
	HeldNano      int64  `json:"held_nano"`
	OverdraftNano int64  `json:"overdraft_nano"` // the part of SpentNano booked as overdraft
}
