package store

import (
	"context"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// Correction replaces the charge of an ended request by what is known now, from
// an invoice for instance.
type Correction struct {
	RequestID  string `json:"request_id"`
	ChargeNano int64  `json:"charge_nano"` // what the request cost in all
	// Outcome of the row from now on; empty: complete if something is charged,
	// else error.
	Outcome Outcome `json:"outcome,omitempty"`
	Reason  string  `json:"reason"` // required
	Actor   string  `json:"actor"`  // who says so
}

// Correct appends a correction of a request that was charged at its hold
// because its outcome was not known, or that has been corrected before. The
// budget windows of its hold are adjusted: what is charged beyond what they
// have been charged so far is an overdraft, since nobody asked them. Errors:
// CodeNotFound, CodeConflict if the request runs or its outcome is known,
// CodeInvalid, CodeUnavailable.
func (s *Store) Correct(ctx context.Context, c Correction) (Row, error) {
	if err := s.Err(); err != nil {
		return Row{}, err
	}
	if err := c.check(); err != nil {
		return Row{}, err
	}
	o := newOp(opOther, nil)
	o.put = func(w *writer) error { return w.correct(o, &c) }
	return o.result(s.do(ctx, o))
}

func (c *Correction) check() error {
	if c.ChargeNano < 0 || c.ChargeNano > MaxAmountNano {
		return infer.Errorf(infer.CodeInvalid, "cannot charge %d nano-USD: want 0 to %d", c.ChargeNano, int64(MaxAmountNano))
	}
	if c.Outcome == "" {
		if c.Outcome = OutcomeError; c.ChargeNano > 0 {
			c.Outcome = OutcomeComplete
		}
	}
	switch c.Outcome {
	case OutcomeComplete, OutcomePartial, OutcomeCancelled, OutcomeError:
	default:
		return infer.Errorf(infer.CodeInvalid, "cannot correct a request to outcome %.32q: want complete, partial, cancelled or error", c.Outcome)
	}
	if c.Reason == "" || clip(c.Reason, maxString) != c.Reason {
		return infer.Errorf(infer.CodeInvalid, "a correction needs a reason of 1 to %d bytes", maxString)
	}
	return nil
}

func (w *writer) correct(o *op, c *Correction) error {
	d, err := detail(w.tx, c.RequestID)
	if err != nil {
		return readError(err)
	}
	old := d.Row
	switch {
	case old.Outcome == OutcomeOpen:
		return infer.Errorf(infer.CodeConflict, "cannot correct request %s: it is still open", c.RequestID)
	case old.HoldSeq == 0 || !old.Outcome.atHold() && old.Corrected == nil:
		return infer.Errorf(infer.CodeConflict, "cannot correct request %s: its outcome is %s and its charge is that of its usage", c.RequestID, old.Outcome)
	}
	row := old
	row.Outcome, row.ChargeNano = c.Outcome, c.ChargeNano
	row.Corrected = &Corrected{Record: old.Seq, Outcome: old.Outcome, ChargeNano: old.ChargeNano, OverdraftNano: old.OverdraftNano}
	inHold := min(c.ChargeNano, old.ChargeNano-old.OverdraftNano)
	row.OverdraftNano = c.ChargeNano - inHold
	r := &Record{Kind: KindCorrect, RequestID: c.RequestID, Row: &row,
		Audit: &Audit{Actor: clip(c.Actor, maxString), Action: "ledger/resolve", Subject: c.RequestID, Detail: c.Reason}}
	excess := &Record{Kind: KindOverdraft, RequestID: c.RequestID}
	for _, p := range old.Budgets {
		r.Postings = append(r.Postings, Posting{Budget: p.Budget, Window: p.Window, CapNano: p.CapNano,
			SpentNano: inHold - (old.ChargeNano - old.OverdraftNano)})
		excess.Postings = append(excess.Postings, Posting{Budget: p.Budget, Window: p.Window, CapNano: p.CapNano,
			SpentNano: row.OverdraftNano - old.OverdraftNano})
	}
	w.append(r)
	if row.OverdraftNano != old.OverdraftNano && w.fatal == nil {
		w.append(excess)
	}
	w.mark(w.tx.Bucket(bucketCorrections).Put([]byte(c.RequestID), be64(r.Seq)))
	o.row = &row
	return nil
}

// correctionOf is the place of the last correction of a request; 0: none.
func correctionOf(tx *bolt.Tx, id string) (uint64, error) {
	v := tx.Bucket(bucketCorrections).Get([]byte(id))
	if v == nil {
		return 0, nil
	}
	if len(v) != 8 {
		return 0, &DamageError{"the correction entry of request " + clip(id, maxRequestID), errShort}
	}
	return binary.BigEndian.Uint64(v), nil
}

// correct checks a correction against the row that it replaces.
func (c *checker) correct(r *Record) {
	row := r.Row
	if row.Corrected == nil {
		c.fault(r.Seq, r.RequestID, "it is a correction that does not say of what")
		return
	}
	was := row.Corrected
	if c.open[r.RequestID] != nil || row.Outcome == OutcomeOpen || row.Outcome.atHold() || row.HoldSeq == 0 {
		c.fault(r.Seq, r.RequestID, "it corrects a request that is open, or leaves its outcome unknown")
	}
	if last, ok := c.corrections[r.RequestID]; ok && last != was.Record {
		c.fault(r.Seq, r.RequestID, "it corrects record %d, the last about it is %d", was.Record, last)
	}
	if c.tx != nil && was.Record > c.base {
		old, _, err := readRecord(c.tx, was.Record)
		switch {
		case err != nil:
			c.fault(r.Seq, r.RequestID, "what it corrects: %v", err)
		case old.Row == nil || old.RequestID != r.RequestID || old.Seq >= r.Seq || !old.Row.Outcome.atHold() && old.Kind != KindCorrect:
			c.fault(r.Seq, r.RequestID, "record %d is nothing that it can correct", was.Record)
		case old.Row.ChargeNano != was.ChargeNano || old.Row.OverdraftNano != was.OverdraftNano || old.Row.Outcome != was.Outcome ||
			old.Row.HoldSeq != row.HoldSeq || old.Row.HoldNano != row.HoldNano || old.Row.Tenant != row.Tenant || len(old.Postings) != len(r.Postings):
			c.fault(r.Seq, r.RequestID, "what it says of record %d is not so", was.Record)
		}
	}
	before, after := was.ChargeNano-was.OverdraftNano, row.ChargeNano-row.OverdraftNano
	if row.ChargeNano < 0 || after != min(row.ChargeNano, before) {
		c.fault(r.Seq, r.RequestID, "its charge of %d nano-USD with overdraft %d does not follow from %d", row.ChargeNano, row.OverdraftNano, before)
	}
	for _, p := range r.Postings {
		if p.HeldNano != 0 || p.SpentNano != after-before {
			c.fault(r.Seq, r.RequestID, "it posts %d nano-USD to budget %s for a change of %d", p.SpentNano, p.Budget, after-before)
		}
	}
	if row.OverdraftNano != was.OverdraftNano {
		c.settled = r
	}
	c.corrections[r.RequestID] = r.Seq
}

// compareCorrections checks the list of corrected requests.
func (c *checker) compareCorrections(tx *bolt.Tx) {
	c.rep.Corrections = len(c.corrections)
	n := 0
	err := tx.Bucket(bucketCorrections).ForEach(func(k, v []byte) error {
		n++
		if len(v) != 8 || c.corrections[string(k)] != binary.BigEndian.Uint64(v) {
			c.fault(0, string(k), "the list of corrections does not lead to its last one")
		}
		return nil
	})
	if err != nil || n != len(c.corrections) {
		c.fault(0, "", "%d corrections are listed, the records have %d (%v)", n, len(c.corrections), err)
	}
}
