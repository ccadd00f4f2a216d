package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// Compaction is the result of Compact.
type Compaction struct {
	Dropped     uint64        `json:"dropped"` // records older than asked for
	Base        uint64        `json:"base"`    // the last of them
	BytesBefore int64         `json:"bytes_before"`
	BytesAfter  int64         `json:"bytes_after"`
	Stalled     time.Duration `json:"stalled_ns"` // how long writers waited
	Took        time.Duration `json:"took_ns"`
}

// copyBatch is how many records one transaction of the new file takes.
const copyBatch = 10_000

// Compact writes a new file without the records written before keepSince and
// without free pages, and puts it in place of the old one while serving. What
// the dropped records had led to (balances, holds that were open) is kept as the
// base from which the rest can still be walked. Most of the copy is made beside
// running writers; at its end they wait (Stalled). The chain must be whole up to
// the cut.
func (s *Store) Compact(ctx context.Context, keepSince time.Time) (Compaction, error) {
	began := time.Now()
	n := &newFile{path: s.path + ".compact"}
	defer n.discard()
	err := s.viewLedger(ctx, func(tx *bolt.Tx) error {
		n.report.BytesBefore = tx.Size()
		if err := n.begin(ctx, tx, keepSince); err != nil {
			return err
		}
		return n.records(ctx, tx)
	})
	if err != nil {
		return n.report, readError(err)
	}
	o := &op{kind: opControl, done: make(chan struct{})}
	o.control = func() error {
		stall := time.Now()
		defer func() { n.report.Stalled = time.Since(stall) }()
		if e := s.failure.Load(); e != nil {
			return e
		}
		if err := guard(func() error { return s.db.View(func(tx *bolt.Tx) error { return n.finish(ctx, tx) }) }); err != nil {
			return readError(err)
		}
		return s.swap(n)
	}
	err = s.do(ctx, o)
	n.report.Took = time.Since(began)
	return n.report, err
}

// newFile is the file that a compaction writes.
type newFile struct {
	path   string
	db     *bolt.DB
	last   uint64 // record copied last
	report Compaction
}

// begin finds the cut and writes the base.
func (n *newFile) begin(ctx context.Context, tx *bolt.Tx, keepSince time.Time) error {
	m := tx.Bucket(bucketMeta)
	base, hash, err := decodePoint("the base of the ledger", m.Get(metaBase))
	if err != nil {
		return err
	}
	cut, err := findCut(tx, base, keepSince)
	if err != nil {
		return err
	}
	c := newChecker(ctx)
	if c.until = cut; cut > base {
		if err := c.chain(tx); err != nil {
			return err
		}
		if _, hash, err = readRecord(tx, cut); err != nil {
			return err
		}
	} else if err := c.startAt(tx, base); err != nil {
		return err
	}
	if !c.rep.OK() {
		return infer.Errorf(infer.CodeConflict, "cannot compact a damaged ledger: %v", c.rep.Faults[0])
	}
	schema, err := readSchema(tx)
	if err != nil {
		return err
	}
	n.report.Dropped, n.report.Base, n.last = cut-base, cut, cut
	if err := os.Remove(n.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// Not synced until finish: a crash before leaves the old file in place.
	if n.db, err = bolt.Open(n.path, 0o600, &bolt.Options{Timeout: time.Second, NoSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType}); err != nil {
		return err
	}
	return n.db.Update(func(to *bolt.Tx) error {
		if err := initSchema(to, schema, time.Time{}); err != nil {
			return err
		}
		if err := copyBucket(to.Bucket(bucketMeta), m); err != nil {
			return err
		}
		if err := to.Bucket(bucketMeta).Put(metaBase, encodePoint(cut, hash)); err != nil {
			return err
		}
		return writeBase(to.Bucket(bucketBase), c)
	})
}

// findCut gives the last record before the first one written at keepSince or
// later.
func findCut(tx *bolt.Tx, base uint64, keepSince time.Time) (uint64, error) {
	cut := base
	oldest := ^uint64(0) // open hold: it and all after it stay
	err := tx.Bucket(bucketOpen).ForEach(func(_, v []byte) error {
		if len(v) == 8 {
			oldest = min(oldest, beUint64(v))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	c := tx.Bucket(bucketLedger).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		r, err := parseRecord(cut+1, v)
		if err != nil {
			return 0, err
		}
		if !r.At.Before(keepSince) || r.Seq >= oldest {
			break
		}
		cut++
	}
	// An overdraft is not parted from its settle.
	if b := tx.Bucket(bucketLedger).Get(be64(cut + 1)); b != nil && cut > base {
		if r, err := parseRecord(cut+1, b); err != nil {
			return 0, err
		} else if r.Kind == KindOverdraft {
			cut--
		}
	}
	return cut, nil
}

func writeBase(to *bolt.Bucket, c *checker) error {
	if c.until == 0 {
		return nil // nothing is or was dropped
	}
	for key, b := range c.balances {
		if err := to.Put([]byte("b"+key), b.encode(key)); err != nil {
			return err
		}
	}
	for id, r := range c.open {
		if err := to.Put([]byte("h"+id), appendRecord(nil, r)); err != nil {
			return err
		}
	}
	return nil
}

// records copies the records that n does not have yet.
func (n *newFile) records(ctx context.Context, tx *bolt.Tx) error {
	c := tx.Bucket(bucketLedger).Cursor()
	k, v := c.Seek(be64(n.last + 1))
	for k != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := n.db.Update(func(to *bolt.Tx) error {
			b := to.Bucket(bucketLedger)
			b.FillPercent = 1
			for i := 0; k != nil && i < copyBatch; i++ {
				n.last++
				if _, err := parseRecord(n.last, v); err != nil {
					return err
				}
				if err := b.Put(k, v); err != nil {
					return err
				}
				k, v = c.Next()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// finish copies, while nobody writes, what has come since and all that changes
// in place.
func (n *newFile) finish(ctx context.Context, tx *bolt.Tx) error {
	if err := n.records(ctx, tx); err != nil {
		return err
	}
	err := n.db.Update(func(to *bolt.Tx) error {
		m := tx.Bucket(bucketMeta)
		for _, k := range [][]byte{metaHead, metaPepper} {
			if err := to.Bucket(bucketMeta).Put(k, m.Get(k)); err != nil {
				return err
			}
		}
		if err := to.Bucket(bucketMeta).Delete(metaClean); err != nil {
			return err
		}
		for _, b := range [][]byte{bucketOpen, bucketBalances, bucketKeys, bucketBlobs, bucketOnce, bucketOnceDue, bucketResponses, bucketResponsesDue, bucketResponseTotals} {
			if err := copyBucket(to.Bucket(b), tx.Bucket(b)); err != nil {
				return err
			}
		}
		if err := n.corrections(to.Bucket(bucketCorrections), tx.Bucket(bucketCorrections)); err != nil {
			return err
		}
		return n.index(to.Bucket(bucketRequests), tx.Bucket(bucketRequests))
	})
	if err == nil {
		err = n.db.Sync()
	}
	if err == nil {
		err = n.db.View(func(t *bolt.Tx) error { n.report.BytesAfter = t.Size(); return nil })
	}
	return err
}

// index copies the entries of requests that still have a row.
func (n *newFile) index(to, from *bolt.Bucket) error {
	to.FillPercent = 0.9
	return from.ForEach(func(k, v []byte) error {
		if len(v) != 16 {
			return &DamageError{"the index entry of request " + clip(string(k), maxRequestID), errShort}
		}
		if end := beUint64(v[8:]); end != 0 && end <= n.report.Base {
			return nil
		}
		return to.Put(k, v)
	})
}

// corrections copies the entries of corrections that are kept.
func (n *newFile) corrections(to, from *bolt.Bucket) error {
	return from.ForEach(func(k, v []byte) error {
		if len(v) == 8 && beUint64(v) <= n.report.Base {
			return nil
		}
		return to.Put(k, v)
	})
}

// copyBucket copies a bucket with the buckets in it.
func copyBucket(to, from *bolt.Bucket) error {
	return from.ForEach(func(k, v []byte) error {
		if v != nil {
			return to.Put(k, v)
		}
		b, err := to.CreateBucketIfNotExists(k)
		if err != nil {
			return err
		}
		return copyBucket(b, from.Bucket(k))
	})
}

// discard removes what was not put in place.
func (n *newFile) discard() {
	if n.db != nil {
		n.db.Close()
		n.db = nil
	}
	os.Remove(n.path)
}

// swap puts the finished file in place of the open one. It runs in the
// committer; readers wait.
func (s *Store) swap(n *newFile) error {
	err := n.db.Close()
	n.db = nil
	if err == nil {
		err = inspect(n.path)
	}
	if err != nil {
		return readError(fmt.Errorf("cannot finish the new file: %w", err))
	}
	s.file.Lock()
	if err = os.Rename(n.path, s.path); err == nil {
		err = syncDir(filepath.Dir(s.path))
	}
	s.file.Unlock()
	if err != nil {
		return readError(fmt.Errorf("cannot put the new file in place: %w", err))
	}
	// From here on the old file has no name. reopen closes it.
	if err := s.reopen(); err != nil {
		s.failure.Store(infer.AsError(err))
		return err
	}
	return nil
}
