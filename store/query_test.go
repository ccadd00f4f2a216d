package store

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// ledgerOf makes rows r0 … r9: the even ones of tenant acme and complete, the
// odd ones of tenant umbrella and cancelled; r10 runs.
func ledgerOf(t *testing.T, s *Store) {
	ctx := context.Background()
	for i := range 11 {
		h := hold(fmt.Sprint("r", i), 10, Charge{"b", "total", 1 << 40})
		h.Opening.Started = time.Unix(int64(1000+i), 0)
		r := used(int64(i))
		if i%2 == 1 {
			h.Opening.Tenant, h.Opening.Model, r.Outcome = "umbrella", "=cmd|' /C calc'!A0", OutcomeCancelled
		}
		if _, err := s.Hold(ctx, h); err != nil {
			t.Fatal(err)
		}
		if i < 10 {
			if _, err := s.Settle(h.Opening.RequestID, r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestListPages(t *testing.T) {
	s := open(t, Options{})
	ledgerOf(t, s)
	f := func(filter Filter, want string) {
		t.Helper()
		var ids []string
		for pages := 0; ; pages++ {
			p, err := s.List(context.Background(), filter)
			if err != nil || pages > 20 {
				t.Fatalf("page %d: %v", pages, err)
			}
			for _, r := range p.Rows {
				ids = append(ids, r.RequestID)
			}
			if filter.Cursor = p.Next; p.Next == 0 {
				break
			}
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%+v: got %s, want %s", filter, got, want)
		}
	}
	f(Filter{}, "r10 r9 r8 r7 r6 r5 r4 r3 r2 r1 r0")
	f(Filter{Limit: 1}, "r10 r9 r8 r7 r6 r5 r4 r3 r2 r1 r0")
	f(Filter{Limit: 3}, "r10 r9 r8 r7 r6 r5 r4 r3 r2 r1 r0")
	f(Filter{Tenant: "umbrella", Limit: 2}, "r9 r7 r5 r3 r1")
	f(Filter{Outcome: OutcomeOpen}, "r10")
	f(Filter{Outcome: OutcomeComplete, Since: time.Unix(1002, 0), Until: time.Unix(1006, 0)}, "r4 r2")
	f(Filter{Model: "m", KeyID: "k1"}, "r10 r8 r6 r4 r2 r0")
	f(Filter{KeyID: "k2"}, "")
	_, err := s.List(context.Background(), Filter{Limit: 1001})
	wantCode(t, err, infer.CodeInvalid)
	_, err = s.List(context.Background(), Filter{Outcome: "fine"})
	wantCode(t, err, infer.CodeInvalid)
	_, err = s.Show(context.Background(), "nobody")
	wantCode(t, err, infer.CodeNotFound)
	if d, err := s.Show(context.Background(), "r10"); err != nil || d.Row.Outcome != OutcomeOpen || len(d.Records) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestExport(t *testing.T) {
	s := open(t, Options{})
	ledgerOf(t, s)
	var b bytes.Buffer
	n, err := s.Export(context.Background(), &b, JSONL, Filter{})
	if err != nil || n != 10 {
		t.Fatalf("%d, %v", n, err)
	}
	dec := json.NewDecoder(&b)
	for i := range 10 {
		var r Row
		if err := dec.Decode(&r); err != nil || r.RequestID != fmt.Sprint("r", i) || r.ChargeNano != int64(i) {
			t.Errorf("%+v, %v", r, err)
		}
	}
	b.Reset()
	if n, err = s.Export(context.Background(), &b, CSV, Filter{Tenant: "umbrella"}); err != nil || n != 5 {
		t.Fatalf("%d, %v", n, err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(lines) != 6 || len(lines[1]) != len(csvHeader) {
		t.Fatalf("%v, %v", lines, err)
	}
	if m := lines[1][7]; !strings.HasPrefix(m, "'=") {
		t.Errorf("a spreadsheet would run %q", m)
	}
	if _, err = s.Export(context.Background(), &b, "xml", Filter{}); err == nil {
		t.Error("exported as xml")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err = s.Export(ctx, &b, CSV, Filter{}); err == nil {
		t.Error("exported for nobody")
	}
}

// TestBackup copies the file under writers; the copy opens, checks, and is the
// ledger up to a point.
func TestBackup(t *testing.T) {
	s := open(t, Options{})
	ledgerOf(t, s)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				mustHold(t, s, hold(fmt.Sprint("w", i), 1))
			}
		}
	}()
	path := filepath.Join(tempDir(t), "copy.db")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Backup(context.Background(), f)
	f.Close()
	close(stop)
	<-done
	if st, _ := os.Stat(path); err != nil || st.Size() != info.Bytes {
		t.Fatalf("%+v, %v", info, err)
	}
	c := openAt(t, path, Options{})
	if r := c.Recovery(); r.Seq != info.Seq || r.Head != info.Head || r.Clean || r.Orphans == 0 {
		t.Errorf("recovery: %+v, backup: %+v", r, info)
	}
}

func TestMigration(t *testing.T) {
	path := filepath.Join(tempDir(t), "h.db")
	s := openAt(t, path, Options{})
	ledgerOf(t, s)
	s.Close()
	fails := true
	ms := append(slices.Clone(migrations), migration{From: Schema, Do: func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("new"))
		if fails {
			return fmt.Errorf("the power went")
		}
		return err
	}})
	if _, err := Open(path, Options{BallastBytes: -1, migrations: ms}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("from schema %d to %d", Schema, Schema+1)) {
		t.Fatalf("open: %v", err)
	}
	fails = false
	s = openAt(t, path, Options{migrations: ms})
	if r := s.Recovery(); r.Migrated != Schema {
		t.Errorf("%+v", r)
	}
	s.Close()
	old := openAt(t, fmt.Sprintf("%s.schema-%d", path, Schema), Options{}) // the copy opens with the old build
	if p, err := old.List(context.Background(), Filter{}); err != nil || len(p.Rows) != 11 {
		t.Errorf("%d rows, %v", len(p.Rows), err)
	}
}
