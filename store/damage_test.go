package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

var flips = flag.Int("flips", 100, "bit flips that TestBitFlips makes")

// TestBitFlips flips bits of a closed file. What comes back must be exact or
// refused: an error, or a fault of Check that names what is damaged, but never
// a different balance or row.
func TestBitFlips(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "h.db")
	s, err := Open(path, Options{BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		id := fmt.Sprintf("req-%d", i)
		mustHold(t, s, hold(id, 50, Charge{fmt.Sprint("b", i%5), "total", 10_000}))
		if _, err := s.Settle(id, used(int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.CreateKey(context.Background(), Key{Tenant: "acme", Name: "x"}); err != nil {
		t.Fatal(err)
	}
	want := everything(t, s)
	size := s.Stats().FileBytes
	s.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole = whole[:size]
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d, %d bytes", seed, size)
	results := map[string]int{}
	for i := range *flips {
		bit := r.Int64N(size * 8)
		b := bytes.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		p := filepath.Join(dir, fmt.Sprint("flip", i))
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		results[readBack(t, p, bit, want)]++
		os.Remove(p)
		os.Remove(p + ".lock")
	}
	t.Logf("%v", results)
	if results["refused to open"]+results["refused to read"] == 0 {
		t.Errorf("no flip was noticed: %v", results)
	}
}

// everything is all that a reader can see, as text.
func everything(t *testing.T, s *Store) string {
	ctx := context.Background()
	var b bytes.Buffer
	if _, err := s.Export(ctx, &b, JSONL, Filter{}); err != nil {
		return "error " + err.Error()
	}
	bal, err := s.Balances(ctx, "", 0)
	if err != nil {
		return "error " + err.Error()
	}
	keys, err := s.Keys(ctx)
	if err != nil {
		return "error " + err.Error()
	}
	for _, v := range []any{bal, keys} {
		j, _ := json.Marshal(v)
		b.Write(j)
	}
	for i := range 60 {
		row, err := s.rowOf(fmt.Sprintf("req-%d", i))
		if err != nil {
			return "error " + err.Error()
		}
		fmt.Fprintf(&b, "%d %d\n", row.Seq, row.ChargeNano)
	}
	return b.String()
}

func readBack(t *testing.T, path string, bit int64, want string) string {
	s, err := Open(path, Options{BallastBytes: -1})
	if err != nil {
		return "refused to open"
	}
	defer s.Close()
	rep, err := s.Check(context.Background())
	got := everything(t, s)
	switch {
	case got == want:
		return "exact"
	case strings.HasPrefix(got, "error "):
		if err == nil && rep.OK() {
			t.Errorf("bit %d: reading fails (%s), and the check finds nothing", bit, got)
		}
		return "refused to read"
	case err != nil || !rep.OK():
		return "noticed by the check only"
	}
	t.Errorf("bit %d: another content was served, and the check finds nothing", bit)
	return "wrong"
}

// TestDamagedRecordIsNamed changes one byte in the middle of a record.
func TestDamagedRecordIsNamed(t *testing.T) {
	s := open(t, Options{})
	for i := range 5 {
		mustHold(t, s, hold(fmt.Sprint("r", i), 1))
	}
	tamper(t, s, func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketLedger)
		v := bytes.Clone(b.Get(be64(3)))
		v[60] ^= 1
		return b.Put(be64(3), v)
	})
	_, err := s.List(context.Background(), Filter{})
	if err == nil || !strings.Contains(err.Error(), "ledger record 3 is damaged") {
		t.Errorf("list: %v", err)
	}
	rep, err := s.Check(context.Background())
	if err != nil || rep.OK() || !strings.Contains(fmt.Sprint(rep.Faults), "ledger record 3") {
		t.Errorf("check: %v, %v", rep.Faults, err)
	}
	tamper(t, s, func(tx *bolt.Tx) error { // so that the walk at the end is content
		b := tx.Bucket(bucketLedger)
		v := bytes.Clone(b.Get(be64(3)))
		v[60] ^= 1
		return b.Put(be64(3), v)
	})
}

// TestCheckFindsForgery makes changes that checksums alone do not show.
func TestCheckFindsForgery(t *testing.T) {
	for name, forge := range map[string]func(tx *bolt.Tx) error{
		"balance": func(tx *bolt.Tx) error {
			key := balanceKey("b", "total")
			return tx.Bucket(bucketBalances).Put([]byte(key), (&balance{spent: 1}).encode(key))
		},
		"balance of nobody": func(tx *bolt.Tx) error {
			return tx.Bucket(bucketBalances).Put([]byte("x\x00total"), (&balance{spent: 1}).encode("x\x00total"))
		},
		"open hold dropped": func(tx *bolt.Tx) error { return tx.Bucket(bucketOpen).Delete([]byte("open")) },
		"index dropped":     func(tx *bolt.Tx) error { return tx.Bucket(bucketRequests).Delete([]byte("a")) },
		"index moved": func(tx *bolt.Tx) error {
			return tx.Bucket(bucketRequests).Put([]byte("a"), append(be64(1), be64(1)...))
		},
		"last record dropped": func(tx *bolt.Tx) error {
			k, _ := tx.Bucket(bucketLedger).Cursor().Last()
			return tx.Bucket(bucketLedger).Delete(bytes.Clone(k))
		},
		"record dropped": func(tx *bolt.Tx) error { return tx.Bucket(bucketLedger).Delete(be64(2)) },
		"record rewritten": func(tx *bolt.Tx) error {
			r, _, err := readRecord(tx, 2)
			if err != nil {
				return err
			}
			r.Row.Usage.Output, r.Row.ChargeNano = 1, 1
			return tx.Bucket(bucketLedger).Put(be64(2), appendRecord(nil, r))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(filepath.Join(tempDir(t), "h.db"), Options{BallastBytes: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			mustHold(t, s, hold("a", 9, Charge{"b", "total", 100}))
			if _, err := s.Settle("a", used(5)); err != nil {
				t.Fatal(err)
			}
			mustHold(t, s, hold("open", 9, Charge{"b", "total", 100}))
			checkOK(t, s)
			tamper(t, s, forge)
			if rep, err := s.Check(context.Background()); err != nil || rep.OK() {
				t.Errorf("not found: %+v, %v", rep, err)
			}
		})
	}
}

// tamper writes behind the committer's back.
func tamper(t *testing.T, s *Store, f func(tx *bolt.Tx) error) {
	t.Helper()
	o := newOp(opOther, func(w *writer) error {
		w.mark(f(w.tx))
		return nil
	})
	if err := s.do(context.Background(), o); err != nil {
		t.Fatal(err)
	}
}

func TestTruncatedFileIsRefused(t *testing.T) {
	path := filepath.Join(tempDir(t), "h.db")
	s := openAt(t, path, Options{})
	for i := range 200 {
		mustHold(t, s, hold(fmt.Sprint("r", i), 1))
	}
	size := s.Stats().FileBytes
	s.Close()
	for _, n := range []int64{0, 10, 4096, 8192, size / 2, size - 1} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, n); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path, Options{BallastBytes: -1})
		var d *DamageError
		if !errors.As(err, &d) {
			t.Errorf("%d of %d bytes: %v", n, size, err)
		}
	}
}

// TestForeignFiles opens things that are no database of ours.
func TestForeignFiles(t *testing.T) {
	dir := tempDir(t)
	text := filepath.Join(dir, "text")
	os.WriteFile(text, bytes.Repeat([]byte("not a database "), 10_000), 0o600)
	other := filepath.Join(dir, "other")
	db, err := bolt.Open(other, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("x")); return err })
	db.Close()
	folder := filepath.Join(dir, "folder")
	os.Mkdir(folder, 0o700)
	for _, p := range []string{text, other, folder} {
		if _, err := Open(p, Options{BallastBytes: -1}); err == nil {
			t.Errorf("opened %s", p)
		}
	}
}

// TestUnfinishedCreation leaves what a power cut during the first start does.
func TestUnfinishedCreation(t *testing.T) {
	path := filepath.Join(tempDir(t), "h.db")
	os.WriteFile(path+".new", []byte("half a database"), 0o600)
	s := openAt(t, path, Options{})
	if !s.Recovery().Created {
		t.Error("not created")
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unfinished file is still there: %v", err)
	}
}
