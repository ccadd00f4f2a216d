package store

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// Filter selects rows. Zero fields select everything. Rows come newest first
// by their place in the ledger.
type Filter struct {
	Since   time.Time `json:"since,omitzero"` // of Started, inclusive
	Until   time.Time `json:"until,omitzero"` // of Started, exclusive
	Tenant  string    `json:"tenant,omitempty"`
	KeyID   string    `json:"key_id,omitempty"`
	Model   string    `json:"model,omitempty"`
	Outcome Outcome   `json:"outcome,omitempty"`
	// Request, Trace and Route are ids and the route's name; Upstream is the
	// backend that served it, or that any attempt was made at; Error the code of
	// an error. MinNano and MaxNano bound the charge; 0: no bound.
	Request  string `json:"request_id,omitempty"`
	Trace    string `json:"trace_id,omitempty"`
	Route    string `json:"route,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	Error    string `json:"error_code,omitempty"`
	MinNano  int64  `json:"min_nano,omitempty"`
	MaxNano  int64  `json:"max_nano,omitempty"`
	// Limit is the most rows of one page, 1 to 1000; 0 means 100.
	Limit int `json:"limit,omitempty"`
	// Cursor continues after an earlier page: its Next.
	Cursor uint64 `json:"cursor,omitempty"`
}

// Page is a piece of a listing. Next is the cursor of the following page, 0 at
// the end. A page may be short, even empty, and still have a Next: a call looks
// at a bounded number of records.
type Page struct {
	Rows []Row  `json:"rows"`
	Next uint64 `json:"next,omitempty"`
}

// maxScan is how many records one List or one step of Export looks at, so that
// no read transaction stays open for long.
const maxScan = 20_000

func (f *Filter) match(r *Row) bool {
	return (f.Since.IsZero() || !r.Started.Before(f.Since)) &&
		(f.Until.IsZero() || r.Started.Before(f.Until)) &&
		(f.Tenant == "" || r.Tenant == f.Tenant) &&
		(f.KeyID == "" || r.KeyID == f.KeyID) &&
		(f.Model == "" || r.Model == f.Model) &&
		(f.Outcome == "" || r.Outcome == f.Outcome) &&
		(f.Request == "" || r.RequestID == f.Request) &&
		(f.Trace == "" || r.TraceID == f.Trace) &&
		(f.Route == "" || r.Route == f.Route) &&
		(f.Upstream == "" || r.at(f.Upstream)) &&
		(f.Error == "" || r.ErrorCode == f.Error) &&
		r.ChargeNano >= f.MinNano &&
		(f.MaxNano == 0 || r.ChargeNano <= f.MaxNano)
}

// at says that a backend served the request or was asked to.
func (r *Row) at(backend string) bool {
	return r.Backend == backend || slices.ContainsFunc(r.Attempts, func(a Attempt) bool { return a.Backend == backend })
}

// List gives one page of rows, those of running requests included. A damaged
// record ends it with an error that names the record.
func (s *Store) List(ctx context.Context, f Filter) (Page, error) {
	if f.Limit < 0 || f.Limit > 1000 {
		return Page{}, infer.Invalid("limit", "cannot list %d rows at once: want 1 to 1000", f.Limit)
	}
	if f.Outcome != "" {
		if _, ok := outcomeCode(f.Outcome); !ok {
			return Page{}, infer.Invalid("outcome", "cannot list outcome %.32q: there is none of that name", f.Outcome)
		}
	}
	limit := f.Limit
	if limit == 0 {
		limit = 100
	}
	if f.Request != "" {
		return s.listOne(ctx, &f)
	}
	p := Page{Rows: []Row{}}
	err := s.viewLedger(ctx, func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketLedger).Cursor()
		k, v := c.Last()
		if f.Cursor != 0 {
			c.Seek(be64(f.Cursor)) // the first not yet seen is just before
			k, v = c.Prev()
		}
		for n := 0; k != nil; k, v = c.Prev() {
			row, err := rowAt(tx, k, v)
			if err != nil {
				return err
			}
			if n++; row != nil && f.match(row) {
				p.Rows = append(p.Rows, *row)
			}
			if len(p.Rows) == limit || n == maxScan {
				if p.Next = binary.BigEndian.Uint64(k); p.Next <= 1 {
					p.Next = 0
				}
				return nil
			}
		}
		return nil
	})
	return p, readError(err)
}

// listOne is List for one request id, which the index finds.
func (s *Store) listOne(ctx context.Context, f *Filter) (Page, error) {
	p := Page{Rows: []Row{}}
	d, err := s.Show(ctx, f.Request)
	if err == nil && f.match(&d.Row) && (f.Cursor == 0 || d.Row.Seq < f.Cursor) {
		p.Rows = append(p.Rows, d.Row)
	}
	var e *infer.Error
	if errors.As(err, &e) && e.Code == infer.CodeNotFound {
		err = nil
	}
	return p, err
}

// rowAt gives the row that the record stands for: a whole one, or the opening
// of a request that still runs. The same request has no other.
func rowAt(tx *bolt.Tx, k, v []byte) (*Row, error) {
	if len(k) != 8 {
		return nil, &DamageError{"the ledger", errors.New("it has a key that is no sequence number")}
	}
	r, err := parseRecord(binary.BigEndian.Uint64(k), v)
	if err != nil {
		return nil, err
	}
	if r.Kind == KindHold && tx.Bucket(bucketOpen).Get([]byte(r.RequestID)) == nil {
		return nil, nil
	}
	if r.Kind != KindHold && r.Row != nil {
		if last, err := correctionOf(tx, r.RequestID); err != nil || last > r.Seq {
			return nil, err // the correction has the row
		}
	}
	return r.Row, nil
}

// readError turns what reading met into an *infer.Error.
func readError(err error) error {
	var d *DamageError
	var e *infer.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.As(err, &d):
		return &infer.Error{Code: infer.CodeInternal, Message: d.What + " is damaged: run a check, and restore a backup", Cause: err}
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return &infer.Error{Code: infer.CodeTimeout, Message: "the request ended before the answer was read", Cause: err}
	}
	return &infer.Error{Code: infer.CodeUnavailable, Message: "the database cannot be read", Cause: err}
}

// Detail is all that the ledger knows of one request.
type Detail struct {
	Row     Row      `json:"row"`
	Records []Record `json:"records"`
}

// Show gives the row of one request and every ledger record about it. The error
// is CodeNotFound if there is none.
func (s *Store) Show(ctx context.Context, requestID string) (Detail, error) {
	var d Detail
	if s.unflushed.Load() && s.failure.Load() == nil && ctx.Err() == nil {
		err := s.do(ctx, newOp(opRead, func(w *writer) (err error) {
			d, err = w.pendingDetail(requestID)
			return err
		}))
		if err == nil && len(d.Records) > 0 {
			return d, nil
		}
	}
	err := s.view(ctx, func(tx *bolt.Tx) (err error) {
		d, err = detail(tx, requestID)
		return err
	})
	return d, readError(err)
}

// pendingDetail is detail for a request that was changed a moment ago; it is
// empty for others, which the database has all of.
func (w *writer) pendingDetail(id string) (Detail, error) {
	var d Detail
	e, ok := w.s.active.index[id]
	if f := w.s.flushing; !ok && f != nil {
		e, ok = f.index[id]
	}
	if !ok {
		return d, nil
	}
	seqs := []uint64{e.first, e.end, e.end + 1} // an overdraft follows its settle
	if e.end == 0 || e.end == e.first {
		seqs = seqs[:1]
	}
	for i, seq := range seqs {
		if seq > w.led.seq {
			break
		}
		r, err := w.recordAt(seq)
		if err != nil {
			return Detail{}, err
		}
		if i == 2 && (r.Kind != KindOverdraft || r.RequestID != id) {
			break
		}
		d.Records = append(d.Records, *r)
		if r.Row != nil {
			d.Row = *r.Row
		}
	}
	return d, nil
}

// detail collects the records of a request: hold, end and overdraft as the index
// has them, and its corrections, which each name the one before.
func detail(tx *bolt.Tx, id string) (Detail, error) {
	d, err := ended(tx, id)
	if err != nil {
		return d, err
	}
	last, err := correctionOf(tx, id)
	if err != nil || last == 0 {
		return d, err
	}
	return d, d.correct(tx, id, last)
}

// maxCorrections bounds what Show lists of one request: the newest.
const maxCorrections = 100

func (d *Detail) correct(tx *bolt.Tx, id string, last uint64) error {
	first := uint64(0)
	if n := len(d.Records); n > 0 {
		first = d.Records[n-1].Seq
	}
	var found []Record
	for seq := last; seq > first && len(found) < 2*maxCorrections; {
		r, _, err := readRecord(tx, seq)
		if err != nil && len(found) > 0 && len(d.Records) == 0 {
			break // what it corrects was dropped by a compaction
		}
		if err != nil {
			return err
		}
		if r.Kind != KindCorrect || r.RequestID != id || r.Row.Corrected == nil || r.Row.Corrected.Record >= seq {
			return &DamageError{recordName(seq), errors.New("the list of corrections says that it corrects request " + id)}
		}
		if o, _, err := readRecord(tx, seq+1); err == nil && o.Kind == KindOverdraft && o.RequestID == id {
			found = append(found, *o)
		}
		found = append(found, *r)
		if seq == last {
			d.Row = *r.Row
		}
		seq = r.Row.Corrected.Record
	}
	slices.Reverse(found)
	d.Records = append(d.Records, found...)
	return nil
}

func ended(tx *bolt.Tx, id string) (Detail, error) {
	var d Detail
	v := tx.Bucket(bucketRequests).Get([]byte(id))
	if v == nil {
		if last, err := correctionOf(tx, id); err != nil || last != 0 {
			return d, err // all before its correction was dropped by a compaction
		}
		return d, infer.Errorf(infer.CodeNotFound, "the ledger has no request %.64q", id)
	}
	if len(v) != 16 {
		return d, &DamageError{"the index entry of request " + clip(id, maxRequestID), errShort}
	}
	first, end := binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])
	base, _, err := decodePoint("the base of the ledger", tx.Bucket(bucketMeta).Get(metaBase))
	if err != nil {
		return d, err
	}
	seqs := []uint64{first, end, end + 1} // an overdraft follows its settle
	if end == 0 {
		seqs = seqs[:1]
	} else if end == first {
		seqs = seqs[1:2]
	}
	for i, seq := range seqs {
		if seq <= base {
			continue // dropped by a compaction; the end has it all
		}
		if i == 2 && tx.Bucket(bucketLedger).Get(be64(seq)) == nil {
			break
		}
		r, _, err := readRecord(tx, seq)
		if err != nil {
			return d, err
		}
		if i == 2 && (r.Kind != KindOverdraft || r.RequestID != id) {
			break
		}
		if r.RequestID != id {
			return d, &DamageError{recordName(seq), errors.New("the index says that it belongs to another request")}
		}
		d.Records = append(d.Records, *r)
		if r.Row != nil {
			d.Row = *r.Row
		}
	}
	return d, nil
}

// rowOf is the present row of a request.
func (s *Store) rowOf(id string) (Row, error) {
	d, err := s.Show(context.Background(), id)
	return d.Row, err
}

// Balance gives the position of one budget window; all zero if never used. It may
// be ahead of the disk by the commit that runs.
func (s *Store) Balance(budget, window string) (Balance, error) {
	key := balanceKey(budget, window)
	out := Balance{Budget: budget, Window: window}
	s.mu.Lock()
	if b := s.led.balances[key]; b != nil && s.failure.Load() == nil {
		out.SpentNano, out.HeldNano, out.OverdraftNano = b.spent, b.held, b.overdraft
		s.mu.Unlock()
		return out, nil
	}
	s.mu.Unlock()
	err := s.viewLedger(context.Background(), func(tx *bolt.Tx) error {
		v := tx.Bucket(bucketBalances).Get([]byte(key))
		if v == nil {
			return nil
		}
		b, err := decodeBalance(key, v)
		out.SpentNano, out.HeldNano, out.OverdraftNano = b.spent, b.held, b.overdraft
		return err
	})
	return out, readError(err)
}

// Balances lists the positions of all windows of the budgets whose id begins
// with prefix, at most limit (0: 1000), after the given budget and window.
func (s *Store) Balances(ctx context.Context, prefix string, limit int) ([]Balance, error) {
	if limit <= 0 {
		limit = 1000
	}
	out := []Balance{}
	err := s.viewLedger(ctx, func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketBalances).Cursor()
		for k, v := c.Seek([]byte(prefix)); k != nil && len(out) < limit; k, v = c.Next() {
			if len(k) < len(prefix) || string(k[:len(prefix)]) != prefix {
				break
			}
			b, err := decodeBalance(string(k), v)
			if err != nil {
				return err
			}
			budget, window, _ := cutBalanceKey(string(k))
			out = append(out, Balance{budget, window, b.spent, b.held, b.overdraft})
		}
		return nil
	})
	return out, readError(err)
}

// Format of an export.
type Format string

const (
	JSONL Format = "jsonl" // one Row a line
	CSV   Format = "csv"   // a header, then one row a line; amounts in nano-USD
)

// Export streams the rows that f selects, oldest first, ignoring Limit and
// Cursor, and returns their number. It holds no transaction open while it
// writes, so that a slow reader pins nothing. Requests that still run are left
// out: a later export has them.
func (s *Store) Export(ctx context.Context, w io.Writer, format Format, f Filter) (int, error) {
	e, err := newExporter(w, format)
	if err != nil {
		return 0, err
	}
	n := 0
	for next := uint64(0); ; {
		rows, more, err := s.exportStep(ctx, next, &f)
		if err != nil {
			return n, readError(err)
		}
		for i := range rows {
			if err := e.row(&rows[i]); err != nil {
				return n, infer.AsError(err)
			}
			n++
		}
		if more == 0 {
			if err := e.flush(); err != nil {
				return n, infer.AsError(err)
			}
			return n, nil
		}
		next = more
	}
}

// exportStep collects rows from the record `from` on.
func (s *Store) exportStep(ctx context.Context, from uint64, f *Filter) (rows []Row, next uint64, err error) {
	err = s.viewLedger(ctx, func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketLedger).Cursor()
		n := 0
		for k, v := c.Seek(be64(from)); k != nil; k, v = c.Next() {
			if n++; n > maxScan || len(rows) == 1000 {
				next = binary.BigEndian.Uint64(pad8(k))
				return nil
			}
			row, err := rowAt(tx, k, v)
			if err != nil {
				return err
			}
			if row != nil && row.Outcome != OutcomeOpen && f.match(row) {
				rows = append(rows, *row)
			}
		}
		return nil
	})
	return rows, next, err
}

func hexHash(h [32]byte) string { return hex.EncodeToString(h[:]) }
