package store

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// A compacted ledger begins after its base: the last record that was dropped.
// The base bucket then holds what that record had left behind, so that the rest
// can still be walked: balances under "b" + balance key, and under "h" + request
// id the whole hold records that were open.

// startAt gives the checker the state at the base.
func (c *checker) startAt(tx *bolt.Tx, base uint64) error {
	return readBase(tx, base, func(key string, b balance) { c.balances[key] = &b },
		func(r *Record) { c.open[r.RequestID] = r })
}

func readBase(tx *bolt.Tx, base uint64, bal func(key string, b balance), hold func(r *Record)) error {
	return tx.Bucket(bucketBase).ForEach(func(k, v []byte) error {
		if base == 0 || len(k) < 2 {
			return &DamageError{"the base of the ledger", fmt.Errorf("it has a stray entry %.64q", k)}
		}
		switch name := string(k[1:]); k[0] {
		case 'b':
			b, err := decodeBalance(name, v)
			if err != nil {
				return err
			}
			bal(name, b)
		case 'h':
			r, err := decodeRecord(v)
			if err != nil {
				return &DamageError{"the base of the ledger", err}
			}
			if r.Kind != KindHold || r.RequestID != name || r.Seq > base {
				return &DamageError{"the base of the ledger", fmt.Errorf("it has the %s of %q as hold of %q", r.Kind, r.RequestID, name)}
			}
			hold(r)
		default:
			return &DamageError{"the base of the ledger", fmt.Errorf("it has a stray entry %.64q", k)}
		}
		return nil
	})
}
