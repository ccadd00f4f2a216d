package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// pending is what commits have made durable in a journal and the database does
// not have yet. Records are all; the rest is what they lead to.
type pending struct {
	first   uint64   // sequence of records[0]
	records [][]byte // encoded; not changed afterwards
	index   map[string]ends
	open    map[string]uint64   // request id -> its hold; 0: it has ended
	dirty   map[string]*balance // by balanceKey; copies once it is frozen
	head    [32]byte            // of the last record
}

// ends are the records that the index leads to.
type ends struct{ first, end uint64 }

func newPending() *pending {
	return &pending{index: map[string]ends{}, open: map[string]uint64{}, dirty: map[string]*balance{}}
}

func (p *pending) last() uint64 { return p.first + uint64(len(p.records)) - 1 }

func (p *pending) empty() bool { return p == nil || len(p.records) == 0 }

// record gives a pending record.
func (p *pending) record(seq uint64) []byte {
	if p.empty() || seq < p.first || seq > p.last() {
		return nil
	}
	return p.records[seq-p.first]
}

func (p *pending) add(seq uint64, data []byte, hash [32]byte) {
	if len(p.records) == 0 {
		p.first = seq
	}
	p.records, p.head = append(p.records, data), hash
}

// freeze takes copies of the balances, since the committer goes on with its own.
func (p *pending) freeze() {
	for key, b := range p.dirty {
		b.dirty = false
		c := *b
		p.dirty[key] = &c
	}
}

// put writes all of it into the database.
func (p *pending) put(tx *bolt.Tx) error {
	if p.empty() {
		return nil
	}
	b := tx.Bucket(bucketLedger)
	b.FillPercent = 1 // records are only ever added at the end
	for i, data := range p.records {
		if err := b.Put(be64(p.first+uint64(i)), data); err != nil {
			return err
		}
	}
	b = tx.Bucket(bucketRequests)
	for _, id := range sortedKeys(p.index) { // in order, they share pages
		if err := b.Put([]byte(id), append(be64(p.index[id].first), be64(p.index[id].end)...)); err != nil {
			return err
		}
	}
	b = tx.Bucket(bucketOpen)
	for _, id := range sortedKeys(p.open) {
		var err error
		if seq := p.open[id]; seq != 0 {
			err = b.Put([]byte(id), be64(seq))
		} else {
			err = b.Delete([]byte(id))
		}
		if err != nil {
			return err
		}
	}
	b = tx.Bucket(bucketBalances)
	for _, key := range sortedKeys(p.dirty) {
		if err := b.Put([]byte(key), p.dirty[key].encode(key)); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketMeta).Put(metaHead, encodePoint(p.last(), p.head))
}

// setOpen notes the hold of a request; seq 0: that it has ended. What was made
// and ended here never goes into the database's list.
func (p *pending) setOpen(id string, seq uint64) {
	if seq == 0 && p.open[id] != 0 {
		delete(p.open, id)
		return
	}
	p.open[id] = seq
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// restored is what an operator must know who has put a backup in place.
const restored = ": if a backup was restored, remove the files that end in .journal-a and .journal-b"

// markOf tells databases apart; it stays through compactions and backups.
func markOf(tx *bolt.Tx) [8]byte {
	sum := sha256.Sum256(append([]byte("journal mark 1\x00"), tx.Bucket(bucketMeta).Get(metaPepper)...))
	return [8]byte(sum[:8])
}

// replay brings the database up to what the journals have. Without derive only
// the records are put, for Rebuild to derive the rest.
func replay(tx *bolt.Tx, journals []*journal, derive bool) (int, error) {
	seq, head, err := decodePoint("the head of the ledger", tx.Bucket(bucketMeta).Get(metaHead))
	if err != nil {
		return 0, err
	}
	mark := markOf(tx)
	var frames []frame
	for _, j := range journals {
		f, err := j.read()
		if err != nil {
			return 0, err
		}
		frames = append(frames, f...)
	}
	slices.SortStableFunc(frames, func(a, b frame) int { return cmp.Compare(a.first, b.first) })
	l := &ledger{balances: map[string]*balance{}}
	p := newPending()
	for _, f := range frames {
		if f.mark != mark {
			return 0, &DamageError{"the journal", fmt.Errorf("it is of another database%s", restored)}
		}
		for i, data := range f.records {
			at := f.first + uint64(i)
			if at <= seq {
				continue // the database has it, or it is of an earlier round
			}
			if at != seq+1 {
				return 0, &DamageError{"the journal", fmt.Errorf("it goes on with record %d, the database ends with %d%s", at, seq, restored)}
			}
			r, err := parseRecord(at, data)
			if err != nil {
				return 0, &DamageError{"the journal", err}
			}
			if r.Prev != head {
				return 0, &DamageError{"the journal", fmt.Errorf("record %d does not follow the last one of the database%s", at, restored)}
			}
			seq, head = at, recordHash(data)
			p.add(seq, data, head)
			if derive {
				if err := p.derive(tx, l, r); err != nil {
					return 0, err
				}
			}
		}
	}
	for _, j := range journals {
		if err := j.nothingAfter(seq, mark); err != nil {
			return 0, err
		}
	}
	return len(p.records), p.put(tx)
}

// derive notes what a record leads to, as the committer did when it was made.
func (p *pending) derive(tx *bolt.Tx, l *ledger, r *Record) error {
	w := &writer{tx: tx, led: l, s: &Store{}}
	for i := range r.Postings {
		key := balanceKey(r.Postings[i].Budget, r.Postings[i].Window)
		b, err := w.balance(key)
		if err == nil {
			err = b.apply(r.Kind, &r.Postings[i])
		}
		if err != nil {
			return &DamageError{recordName(r.Seq), err}
		}
		p.dirty[key] = b
	}
	switch {
	case r.Kind == KindHold:
		p.index[r.RequestID] = ends{r.Seq, 0}
		p.setOpen(r.RequestID, r.Seq)
	case r.Kind.ends():
		p.index[r.RequestID] = ends{r.Row.HoldSeq, r.Seq}
		p.setOpen(r.RequestID, 0)
	case r.Kind == KindNote:
		p.index[r.RequestID] = ends{r.Seq, r.Seq}
	case r.Kind == KindOverdraft:
	default:
		return &DamageError{"the journal", fmt.Errorf("record %d is a %s, which is not written there", r.Seq, r.Kind)}
	}
	return nil
}

// indexed finds the records of a request, pending or not.
func (w *writer) indexed(id string) (ends, bool) {
	for _, p := range []*pending{w.s.active, w.s.flushing} {
		if p != nil {
			if e, ok := p.index[id]; ok {
				return e, true
			}
		}
	}
	v := w.tx.Bucket(bucketRequests).Get([]byte(id))
	if len(v) != 16 {
		return ends{}, v != nil
	}
	return ends{binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])}, true
}

// recordAt reads a record, pending or not.
func (w *writer) recordAt(seq uint64) (*Record, error) {
	for _, p := range []*pending{w.s.active, w.s.flushing} {
		if data := p.record(seq); data != nil {
			return parseRecord(seq, data)
		}
	}
	r, _, err := readRecord(w.tx, seq)
	return r, err
}
