package store

import (
	"context"
	"encoding/binary"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Scanned says how far a Scan came.
type Scanned struct {
	Records  int       `json:"records"` // that were looked at
	From     time.Time `json:"from"`    // when the oldest of them was written
	Complete bool      `json:"complete"`
}

// Scan gives the rows of requests that have ended, newest record first, as far as
// records were written at since or later, at most so many. It holds no
// transaction open for long. Rows of requests that run are left out.
func (s *Store) Scan(ctx context.Context, since time.Time, most int, each func(written time.Time, r *Row)) (Scanned, error) {
	out := Scanned{From: s.now()}
	for next := uint64(0); ; {
		more, err := s.scanStep(ctx, next, since, most, &out, each)
		if err != nil || more == 0 {
			return out, readError(err)
		}
		next = more
	}
}

// scanStep looks at records before `before`, 0: at the newest on; it gives where
// to go on, 0 at the end.
func (s *Store) scanStep(ctx context.Context, before uint64, since time.Time, most int, out *Scanned, each func(time.Time, *Row)) (next uint64, err error) {
	err = s.viewLedger(ctx, func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketLedger).Cursor()
		k, v := c.Last()
		if before != 0 {
			c.Seek(be64(before))
			k, v = c.Prev()
		}
		for n := 0; k != nil; k, v = c.Prev() {
			at := writtenAt(v)
			if out.Records >= most || n == maxScan || at.Before(since) {
				if out.Complete = at.Before(since); n == maxScan && out.Records < most {
					next = binary.BigEndian.Uint64(pad8(k)) + 1
				}
				return nil
			}
			n++
			out.Records++
			out.From = at
			row, err := rowAt(tx, k, v)
			if err != nil {
				return err
			}
			if row != nil && row.Outcome != OutcomeOpen {
				each(at, row)
			}
		}
		out.Complete = true
		return nil
	})
	return next, err
}

// writtenAt is the time of an encoded record, not checked; the zero time if it is
// too short to have one.
func writtenAt(b []byte) time.Time {
	if len(b) < recordHeader {
		return time.Time{}
	}
	return time.Unix(0, int64(binary.LittleEndian.Uint64(b[16:]))).UTC()
}
