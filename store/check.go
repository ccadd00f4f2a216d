package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Report is the result of a walk over the whole ledger.
type Report struct {
	Records       uint64        `json:"records"`
	First         uint64        `json:"first"` // sequence of the oldest record kept
	Last          uint64        `json:"last"`
	Head          string        `json:"head"` // SHA-256 of the last record, hex
	Rows          uint64        `json:"rows"`
	OpenHolds     int           `json:"open_holds"`
	HeldNano      int64         `json:"held_nano"` // sum of the open holds
	Balances      int           `json:"balances"`
	OverdraftNano int64         `json:"overdraft_nano"` // over all requests
	Keys          int           `json:"keys"`
	Once          int           `json:"once"`        // claims to idempotency keys
	Corrections   int           `json:"corrections"` // requests whose charge was corrected
	Audits        uint64        `json:"audits"`
	Faults        []Fault       `json:"faults"`
	More          int           `json:"more_faults,omitempty"` // beyond the first 100
	Took          time.Duration `json:"took_ns"`
}

// OK says that no fault was found.
func (r *Report) OK() bool { return len(r.Faults) == 0 && r.More == 0 }

// Fault is one broken invariant.
type Fault struct {
	Seq       uint64 `json:"seq,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	What      string `json:"what"`
}

func (f Fault) String() string {
	return fmt.Sprintf("record %d, request %q: %s", f.Seq, f.RequestID, f.What)
}

const maxFaults = 100

// Check walks every record in one read transaction and proves: the chain
// (sequence, checksum, hash of predecessor), that each hold has at most one end
// and each end a hold, that postings sum to the cached balances, that every
// grant kept committed + held ≤ cap, that each charge is its usage at its price,
// and that rows of ended holds are terminal. Writers go on meanwhile. The error
// is about not being able to look; what was found is in the report.
func (s *Store) Check(ctx context.Context) (Report, error) {
	began := time.Now()
	c := newChecker(ctx)
	err := s.viewLedger(ctx, c.run)
	c.rep.Took = time.Since(began)
	var d *DamageError
	if errors.As(err, &d) {
		c.fault(0, "", "%v", err)
		err = nil
	}
	if err == nil && c.rep.OK() {
		s.checked.Store(c.rep.Last)
	}
	return c.rep, readError(err)
}

// checker recomputes everything that the ledger believes.
type checker struct {
	ctx      context.Context
	rep      Report
	open     map[string]*Record  // holds without end so far
	balances map[string]*balance // by balanceKey
	settled  *Record             // the last record, if an overdraft must follow it
	index    *bolt.Bucket        // nil: not compared
	indexed  int                 // requests that must be in the index
	until    uint64              // walk no further; 0: to the end
	onEnd    func(id string, first, end uint64)

	report      func(done, total uint64) // nil: nobody asked
	tx          *bolt.Tx
	base        uint64
	corrections map[string]uint64 // request id -> its last correction
}

// reportKey is where a context says whom to tell of a check's progress.
type reportKey struct{}

// Reporting has a Check under the context that it returns tell f how many of the
// records it has seen.
func Reporting(ctx context.Context, f func(done, total uint64)) context.Context {
	return context.WithValue(ctx, reportKey{}, f)
}

func newChecker(ctx context.Context) *checker {
	report, _ := ctx.Value(reportKey{}).(func(done, total uint64))
	return &checker{ctx: ctx, report: report, rep: Report{Faults: []Fault{}}, open: map[string]*Record{}, balances: map[string]*balance{},
		corrections: map[string]uint64{}}
}

func (c *checker) fault(seq uint64, id, format string, args ...any) {
	if len(c.rep.Faults) == maxFaults {
		c.rep.More++
		return
	}
	c.rep.Faults = append(c.rep.Faults, Fault{seq, id, fmt.Sprintf(format, args...)})
}

func (c *checker) run(tx *bolt.Tx) error {
	if err := c.pages(tx); err != nil {
		c.fault(0, "", "the file's pages are inconsistent: %v", err)
		return nil // what a broken tree shows means nothing
	}
	c.index = tx.Bucket(bucketRequests)
	if err := c.chain(tx); err != nil {
		return err
	}
	c.compareOpen(tx)
	c.compareBalances(tx)
	c.compareIndex(tx)
	c.compareCorrections(tx)
	keys, err := loadKeys(tx)
	if err != nil {
		c.fault(0, "", "%v", err)
	}
	c.rep.Keys = len(keys)
	c.once(tx)
	c.responses(tx)
	return nil
}

// pages walks the tree of each bucket as it is in this transaction; no writer
// can reuse its pages before the transaction ends.
func (c *checker) pages(tx *bolt.Tx) error {
	f, err := os.Open(tx.DB().Path())
	if err != nil {
		return err
	}
	defer f.Close()
	size := uint64(tx.DB().Info().PageSize)
	w := newPageWalk(f, size, uint64(tx.Size())/size)
	return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		if b == nil || b.Root() == 0 {
			return nil // in place, within the root page
		}
		if err := w.tree(uint64(b.Root()), nil, nil, 0); err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
		return nil
	})
}

// chain walks the records in order.
func (c *checker) chain(tx *bolt.Tx) error {
	m := tx.Bucket(bucketMeta)
	seq, prev, err := decodePoint("the base of the ledger", m.Get(metaBase))
	if err != nil {
		return err
	}
	if err := c.startAt(tx, seq); err != nil {
		return err
	}
	c.tx, c.base = tx, seq
	c.rep.First = seq + 1
	cur := tx.Bucket(bucketLedger).Cursor()
	total := uint64(0)
	if last, _ := cur.Last(); len(last) == 8 {
		total = binary.BigEndian.Uint64(last) - seq
	}
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		if c.rep.Records%4096 == 0 {
			if c.ctx.Err() != nil {
				return c.ctx.Err()
			}
			if c.report != nil {
				c.report(uint64(c.rep.Records), total)
			}
		}
		if c.until != 0 && binary.BigEndian.Uint64(pad8(k)) > c.until {
			break
		}
		c.rep.Records++
		if got := binary.BigEndian.Uint64(pad8(k)); len(k) != 8 || got != seq+1 {
			c.fault(got, "", "it follows record %d: records are missing or doubled", seq)
			seq = got - 1
		}
		seq++
		r, err := parseRecord(seq, v)
		if err != nil {
			c.fault(seq, "", "%v", err)
			prev = recordHash(v)
			continue
		}
		if r.Prev != prev {
			c.fault(seq, r.RequestID, "the hash of its predecessor does not match: one of the two was changed")
		}
		prev = recordHash(v)
		c.record(r)
	}
	if c.settled != nil {
		c.fault(seq, c.settled.RequestID, "its overdraft is not recorded")
	}
	c.rep.Last, c.rep.Head = seq, hexHash(prev)
	if c.until != 0 {
		return nil
	}
	head, hash, err := decodePoint("the head of the ledger", m.Get(metaHead))
	if err != nil {
		return err
	}
	if head != seq || hash != prev {
		c.fault(seq, "", "the head of the ledger names record %d with another hash", head)
	}
	return nil
}

// record checks one record against all before it.
func (c *checker) record(r *Record) {
	if prev := c.settled; prev != nil {
		c.settled = nil
		if r.Kind != KindOverdraft || r.RequestID != prev.RequestID {
			c.fault(prev.Seq, prev.RequestID, "its overdraft is not recorded")
		} else {
			c.overdraft(prev, r)
			c.post(r)
			return
		}
	}
	switch {
	case r.Kind == KindHold:
		c.hold(r)
	case r.Kind.ends():
		c.end(r)
	case r.Kind == KindOverdraft:
		c.fault(r.Seq, r.RequestID, "it is an overdraft without the settle that made it")
	case r.Kind == KindNote:
		c.note(r)
	case r.Kind == KindCorrect:
		c.correct(r)
	case r.Kind == KindAudit:
		c.audit(r)
	}
	c.post(r)
}

func (c *checker) hold(r *Record) {
	if c.open[r.RequestID] != nil {
		c.fault(r.Seq, r.RequestID, "the request id is in use")
	}
	if r.Row.Outcome != OutcomeOpen {
		c.fault(r.Seq, r.RequestID, "it is a hold with outcome %s", r.Row.Outcome)
	}
	for _, p := range r.Postings {
		if p.HeldNano != r.Row.HoldNano || p.SpentNano != 0 || p.HeldNano < 0 {
			c.fault(r.Seq, r.RequestID, "its postings are not its amount")
		}
		b := c.balances[balanceKey(p.Budget, p.Window)]
		if b == nil {
			b = &balance{}
		}
		if !b.fits(p.HeldNano, p.CapNano) {
			c.fault(r.Seq, r.RequestID, "it was granted beyond budget %s, window %s: cap %d, spent %d, held %d, wanted %d nano-USD",
				p.Budget, p.Window, p.CapNano, b.spent, b.held, p.HeldNano)
		}
	}
	c.open[r.RequestID] = r
}

func (c *checker) end(r *Record) {
	c.rep.Rows++
	h := c.open[r.RequestID]
	if h == nil {
		c.fault(r.Seq, r.RequestID, "it ends a hold that is not open")
		return
	}
	delete(c.open, r.RequestID)
	c.pointed(r.RequestID, h.Seq, r.Seq)
	row := r.Row
	if row.Outcome == OutcomeOpen {
		c.fault(r.Seq, r.RequestID, "the row of an ended hold is still open")
	}
	if row.HoldSeq != h.Seq || row.HoldNano != h.Row.HoldNano || row.Tenant != h.Row.Tenant || row.KeyID != h.Row.KeyID {
		c.fault(r.Seq, r.RequestID, "its row is not that of its hold")
	}
	want, err := dueCharge(r.Kind, row)
	if err != nil || row.ChargeNano != want {
		c.fault(r.Seq, r.RequestID, "it charges %d nano-USD, its usage at its price is %d", row.ChargeNano, want)
	}
	if row.OverdraftNano != max(0, row.ChargeNano-row.HoldNano) {
		c.fault(r.Seq, r.RequestID, "its overdraft of %d nano-USD is not charge less hold", row.OverdraftNano)
	}
	same := func(a, b Posting) bool {
		return a.Budget == b.Budget && a.Window == b.Window && a.HeldNano == -b.HeldNano
	}
	if !slices.EqualFunc(r.Postings, h.Postings, same) {
		c.fault(r.Seq, r.RequestID, "it does not undo the postings of its hold")
	}
	for _, p := range r.Postings {
		if p.SpentNano != row.ChargeNano-row.OverdraftNano {
			c.fault(r.Seq, r.RequestID, "it posts %d nano-USD to budget %s for a charge of %d", p.SpentNano, p.Budget, row.ChargeNano)
		}
	}
	if row.OverdraftNano > 0 {
		c.settled = r
	}
}

// dueCharge is what a row that ended so must be charged.
func dueCharge(kind Kind, row *Row) (int64, error) {
	switch {
	case kind == KindRelease:
		return 0, nil
	case kind == KindExpire || row.Outcome.atHold():
		return row.HoldNano, nil
	}
	return ChargeOf(row.Price, row.Usage)
}

func (c *checker) overdraft(settle, r *Record) {
	more := settle.Row.OverdraftNano
	if was := settle.Row.Corrected; was != nil {
		more -= was.OverdraftNano
	}
	c.rep.OverdraftNano += more
	same := func(a, b Posting) bool {
		return a.Budget == b.Budget && a.Window == b.Window && a.HeldNano == 0 && a.SpentNano == more
	}
	if !slices.EqualFunc(r.Postings, settle.Postings, same) {
		c.fault(r.Seq, r.RequestID, "the overdraft is not that of its settle")
	}
}

func (c *checker) note(r *Record) {
	c.rep.Rows++
	if c.open[r.RequestID] != nil {
		c.fault(r.Seq, r.RequestID, "the request id is in use")
	}
	if len(r.Postings) > 0 || r.Row.ChargeNano != 0 || r.Row.HoldNano != 0 || r.Row.Outcome == OutcomeOpen {
		c.fault(r.Seq, r.RequestID, "it is a note that moves money or is still open")
	}
	c.pointed(r.RequestID, r.Seq, r.Seq)
}

// post books the postings of a record.
func (c *checker) post(r *Record) {
	for i := range r.Postings {
		p := &r.Postings[i]
		key := balanceKey(p.Budget, p.Window)
		b := c.balances[key]
		if b == nil {
			b = &balance{}
			c.balances[key] = b
		}
		if err := b.apply(r.Kind, p); err != nil {
			c.fault(r.Seq, r.RequestID, "it cannot be booked: %v", err)
		}
	}
}

func (c *checker) compareOpen(tx *bolt.Tx) {
	c.rep.OpenHolds = len(c.open)
	n := 0
	cur := tx.Bucket(bucketOpen).Cursor()
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		n++
		r := c.open[string(k)]
		if r == nil || len(v) != 8 || binary.BigEndian.Uint64(v) != r.Seq {
			c.fault(0, string(k), "it is listed as open, which the records deny")
		}
	}
	for id, r := range c.open {
		c.rep.HeldNano += r.Row.HoldNano
		if tx.Bucket(bucketOpen).Get([]byte(id)) == nil {
			c.fault(r.Seq, id, "its hold is open, but not listed as such")
		}
	}
	if n != len(c.open) {
		c.fault(0, "", "%d holds are listed as open, the records have %d", n, len(c.open))
	}
}

func (c *checker) compareBalances(tx *bolt.Tx) {
	cur := tx.Bucket(bucketBalances).Cursor()
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		c.rep.Balances++
		key := string(k)
		got, err := decodeBalance(key, v)
		if err != nil {
			c.fault(0, "", "%v", err)
			delete(c.balances, key)
			continue
		}
		want := c.balances[key]
		if want == nil {
			want = &balance{}
		}
		if got.spent != want.spent || got.held != want.held || got.overdraft != want.overdraft {
			c.fault(0, "", "%s says spent %d, held %d, overdraft %d nano-USD; the records sum to %d, %d, %d",
				balanceName(key), got.spent, got.held, got.overdraft, want.spent, want.held, want.overdraft)
		}
		delete(c.balances, key)
	}
	for key, b := range c.balances {
		if *b != (balance{}) {
			c.fault(0, "", "%s is missing", balanceName(key))
		}
	}
}

// pointed checks that the index leads from a request to its records. A request
// id used twice cannot pass: the index has room for one.
func (c *checker) pointed(id string, first, end uint64) {
	c.indexed++
	if c.onEnd != nil {
		c.onEnd(id, first, end)
	}
	if c.index == nil {
		return
	}
	v := c.index.Get([]byte(id))
	if len(v) != 16 || binary.BigEndian.Uint64(v) != first {
		c.fault(first, id, "the index does not lead to it, or the request id was used twice")
	} else if got := binary.BigEndian.Uint64(v[8:]); got != end {
		c.fault(end, id, "the index says that the request ended at record %d", got)
	}
}

func (c *checker) compareIndex(tx *bolt.Tx) {
	for id, r := range c.open {
		c.pointed(id, r.Seq, 0)
	}
	n := 0
	_ = c.index.ForEach(func(_, _ []byte) error { n++; return nil })
	if n != c.indexed {
		c.fault(0, "", "the index has %d requests, the records have %d", n, c.indexed)
	}
}

func cutBalanceKey(key string) (budget, window string, ok bool) { return strings.Cut(key, "\x00") }
