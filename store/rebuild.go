package store

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// Rebuild derives balances, open holds and the index anew from the records, in
// one transaction, and gives the report of a check after it. It changes nothing
// that is right. A chain that is itself damaged is refused: there is nothing to
// derive from but a backup. Requests wait meanwhile.
func (s *Store) Rebuild(ctx context.Context) (Report, error) {
	o := &op{kind: opControl, done: make(chan struct{})}
	o.control = func() error {
		if err := s.rebuild(ctx); err != nil {
			return readError(err)
		}
		return s.reopen()
	}
	if err := s.do(ctx, o); err != nil {
		return Report{}, err
	}
	return s.Check(ctx)
}

// rebuild runs in the committer, or before there is one.
func (s *Store) rebuild(ctx context.Context) error {
	return guard(func() error {
		return s.db.Update(func(tx *bolt.Tx) error { return rebuild(ctx, tx) })
	})
}

func rebuild(ctx context.Context, tx *bolt.Tx) error {
	c := newChecker(ctx)
	index := map[string]ends{}
	c.onEnd = func(id string, first, end uint64) { index[id] = ends{first, end} }
	if err := c.chain(tx); err != nil {
		return err
	}
	if !c.rep.OK() {
		return infer.Errorf(infer.CodeConflict, "cannot rebuild from a damaged chain (%v): restore a backup", c.rep.Faults[0])
	}
	for _, b := range [][]byte{bucketRequests, bucketOpen, bucketBalances, bucketCorrections} {
		if err := tx.DeleteBucket(b); err != nil {
			return fmt.Errorf("cannot drop %s: %w", b, err)
		}
		if _, err := tx.CreateBucket(b); err != nil {
			return fmt.Errorf("cannot make %s anew: %w", b, err)
		}
	}
	for id, r := range c.open {
		index[id] = ends{r.Seq, 0}
		if err := tx.Bucket(bucketOpen).Put([]byte(id), be64(r.Seq)); err != nil {
			return err
		}
	}
	for id, e := range index {
		if err := tx.Bucket(bucketRequests).Put([]byte(id), append(be64(e.first), be64(e.end)...)); err != nil {
			return err
		}
	}
	for id, seq := range c.corrections {
		if err := tx.Bucket(bucketCorrections).Put([]byte(id), be64(seq)); err != nil {
			return err
		}
	}
	for key, b := range c.balances {
		if err := tx.Bucket(bucketBalances).Put([]byte(key), b.encode(key)); err != nil {
			return err
		}
	}
	return nil
}
