package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// Summary is what a database holds, in counts and sums: a copy of it has the
// same. Sums are over the records that are kept.
type Summary struct {
	Schema        int            `json:"schema"`
	Seq           uint64         `json:"seq"`  // last ledger record
	Head          string         `json:"head"` // its SHA-256, hex
	Records       uint64         `json:"records"`
	Rows          uint64         `json:"rows"`
	OpenHolds     int            `json:"open_holds"`
	HeldNano      int64          `json:"held_nano"`      // of the open holds
	ChargeNano    int64          `json:"charge_nano"`    // of all rows
	OverdraftNano int64          `json:"overdraft_nano"` // the part of it above the holds
	SpentNano     int64          `json:"spent_nano"`     // of all budget windows; a charge counts in each of its own
	Balances      int            `json:"balances"`
	Keys          int            `json:"keys"`
	Audits        uint64         `json:"audits"`
	Corrections   int            `json:"corrections"`
	Once          int            `json:"once"`
	Responses     int            `json:"responses"`
	Blobs         map[string]int `json:"blobs"` // values by bucket: accounts, certificates…
}

// summarize walks the records of one transaction.
func summarize(ctx context.Context, tx *bolt.Tx) (Summary, error) {
	s := Summary{Blobs: map[string]int{}}
	var err error
	if s.Schema, err = readSchema(tx); err != nil {
		return s, err
	}
	if s.Schema > Schema {
		return s, infer.Errorf(infer.CodeConflict, "cannot read this database: its schema is %d, this build knows up to %d", s.Schema, Schema)
	}
	head, hash, err := decodePoint("the head of the ledger", tx.Bucket(bucketMeta).Get(metaHead))
	if err != nil {
		return s, err
	}
	s.Seq, s.Head = head, hexHash(hash)
	cur := tx.Bucket(bucketLedger).Cursor()
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		if s.Records%4096 == 0 && ctx.Err() != nil {
			return s, ctx.Err()
		}
		s.Records++
		if err := s.record(tx, k, v); err != nil {
			return s, err
		}
	}
	for _, n := range []struct {
		bucket []byte
		into   *int
	}{{bucketKeys, &s.Keys}, {bucketCorrections, &s.Corrections}, {bucketOnce, &s.Once}, {bucketResponses, &s.Responses}} {
		*n.into = count(tx.Bucket(n.bucket))
	}
	if err := s.budgets(tx); err != nil {
		return s, err
	}
	blobs := tx.Bucket(bucketBlobs)
	return s, blobs.ForEachBucket(func(name []byte) error {
		s.Blobs[string(name)] = count(blobs.Bucket(name))
		return nil
	})
}

func (s *Summary) record(tx *bolt.Tx, k, v []byte) error {
	if kindAt(v).hasAudit() {
		s.Audits++
	}
	row, err := rowAt(tx, k, v)
	if err != nil || row == nil {
		return err
	}
	s.Rows++
	if row.Outcome == OutcomeOpen {
		s.OpenHolds++
		return s.add(&s.HeldNano, row.HoldNano)
	}
	if err := s.add(&s.OverdraftNano, row.OverdraftNano); err != nil {
		return err
	}
	return s.add(&s.ChargeNano, row.ChargeNano)
}

func (s *Summary) add(to *int64, n int64) error {
	sum, ok := addNano(*to, n)
	if !ok {
		return ErrOverflow
	}
	*to = sum
	return nil
}

func (s *Summary) budgets(tx *bolt.Tx) error {
	return tx.Bucket(bucketBalances).ForEach(func(k, v []byte) error {
		b, err := decodeBalance(string(k), v)
		if err != nil {
			return err
		}
		s.Balances++
		return s.add(&s.SpentNano, b.spent)
	})
}

func count(b *bolt.Bucket) int {
	n := 0
	if b != nil {
		_ = b.ForEach(func(_, _ []byte) error { n++; return nil })
	}
	return n
}

// Differences says in words where two summaries differ; empty: nowhere.
func (s *Summary) Differences(other *Summary) []string {
	var out []string
	differ := func(what string, a, b any) {
		if a != b {
			out = append(out, fmt.Sprintf("%s: %v and %v", what, a, b))
		}
	}
	differ("schema", s.Schema, other.Schema)
	differ("ledger position", s.Seq, other.Seq)
	differ("hash of the last record", s.Head, other.Head)
	differ("records", s.Records, other.Records)
	differ("rows", s.Rows, other.Rows)
	differ("open holds", s.OpenHolds, other.OpenHolds)
	differ("held nano-USD", s.HeldNano, other.HeldNano)
	differ("charged nano-USD", s.ChargeNano, other.ChargeNano)
	differ("overdraft nano-USD", s.OverdraftNano, other.OverdraftNano)
	differ("spent nano-USD over all windows", s.SpentNano, other.SpentNano)
	differ("budget windows", s.Balances, other.Balances)
	differ("api keys", s.Keys, other.Keys)
	differ("audit records", s.Audits, other.Audits)
	differ("corrections", s.Corrections, other.Corrections)
	differ("idempotency keys", s.Once, other.Once)
	differ("stored responses", s.Responses, other.Responses)
	names := map[string]bool{}
	for _, m := range []map[string]int{s.Blobs, other.Blobs} {
		for n := range m {
			names[n] = true
		}
	}
	for n := range names {
		differ("stored values of "+n, s.Blobs[n], other.Blobs[n])
	}
	return out
}

// Copy writes a consistent copy of the whole database while serving, as Backup
// does, after it has told begin what is in it and how many bytes will come. It
// goes to the writer that begin gives.
func (s *Store) Copy(ctx context.Context, begin func(Summary, int64) (io.Writer, error)) error {
	var failed error // of the writer, which is not the database's fault
	err := s.viewLedger(ctx, func(tx *bolt.Tx) error {
		sum, err := summarize(ctx, tx)
		if err != nil {
			return err
		}
		w, err := begin(sum, tx.Size())
		if err != nil {
			failed = err
			return err
		}
		_, err = tx.WriteTo(&ctxWriter{ctx, &noteError{w, &failed}})
		return err
	})
	if failed != nil {
		return failed
	}
	return readError(err)
}

// noteError keeps the error of a writer apart from those around it.
type noteError struct {
	w   io.Writer
	err *error
}

func (n *noteError) Write(b []byte) (int, error) {
	k, err := n.w.Write(b)
	if err != nil {
		*n.err = err
	}
	return k, err
}

// Inspect reads a database file that no process has open, without changing it or
// its journals: what it holds, and what a walk over its ledger finds. A file that
// is an older schema is summed up and not walked.
func Inspect(ctx context.Context, path string) (Summary, Report, error) {
	var s Summary
	rep := Report{Faults: []Fault{}}
	began := time.Now()
	if err := inspect(path); err != nil {
		return s, rep, err
	}
	err := guard(func() error {
		db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
		if err != nil {
			return fmt.Errorf("cannot open %s: %w", path, err)
		}
		defer db.Close()
		return db.View(func(tx *bolt.Tx) (err error) {
			if s, err = summarize(ctx, tx); err != nil || s.Schema < Schema {
				return err
			}
			c := newChecker(ctx)
			err = c.run(tx)
			rep = c.rep
			return err
		})
	})
	rep.Took = time.Since(began)
	return s, rep, err
}

// Exclusive runs f while nobody has the database at path open, nor can open it.
// The folder must exist; the database need not.
func Exclusive(path string, f func() error) error {
	l, err := lockFile(path+".lock", time.Second)
	if err != nil {
		return err
	}
	return errors.Join(f(), l.unlock())
}

// Files lists the files beside the database at path that belong to it, besides
// itself: journals, which hold what is durable and not in it yet. Whoever puts
// another database in its place has to take them away, or their records would be
// added to that.
func Files(path string) []string {
	var out []string
	for _, name := range []string{".journal-a", ".journal-b"} {
		if _, err := os.Lstat(path + name); err == nil {
			out = append(out, filepath.Base(path)+name)
		}
	}
	return out
}

// Position is how far the ledger goes, and how far it has been proven.
type Position struct {
	Seq       uint64 `json:"seq"`
	Head      string `json:"head"`      // SHA-256 of the last record, hex
	Base      uint64 `json:"base"`      // last record that a compaction dropped; 0: none
	BaseHash  string `json:"base_hash"` // its SHA-256, hex
	Checked   uint64 `json:"checked"`   // position of the last check of this process without fault; 0: none
	FileBytes int64  `json:"file_bytes"`
}

// Position tells where the ledger stands.
func (s *Store) Position(ctx context.Context) (Position, error) {
	p := Position{Checked: s.checked.Load()}
	err := s.viewLedger(ctx, func(tx *bolt.Tx) error {
		m := tx.Bucket(bucketMeta)
		seq, head, err := decodePoint("the head of the ledger", m.Get(metaHead))
		if err != nil {
			return err
		}
		base, hash, err := decodePoint("the base of the ledger", m.Get(metaBase))
		if err != nil {
			return err
		}
		p.Seq, p.Head, p.Base, p.BaseHash, p.FileBytes = seq, hexHash(head), base, hexHash(hash), tx.Size()
		return nil
	})
	return p, readError(err)
}

// HashAt is the SHA-256 of a record, hex: what somebody who wrote it down earlier
// compares with. CodeNotFound if the ledger has no such record.
func (s *Store) HashAt(ctx context.Context, seq uint64) (string, error) {
	var out string
	err := s.viewLedger(ctx, func(tx *bolt.Tx) error {
		v := tx.Bucket(bucketLedger).Get(binary.BigEndian.AppendUint64(nil, seq))
		if v == nil {
			return infer.Errorf(infer.CodeNotFound, "the ledger has no record %d", seq)
		}
		out = hexHash(recordHash(v))
		return nil
	})
	return out, readError(err)
}
