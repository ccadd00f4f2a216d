package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// TestCompactWhileServing drops the first half of a ledger under running
// writers. Balances stay, what was acknowledged stays, the rest checks, also
// after a restart and a second compaction.
func TestCompactWhileServing(t *testing.T) {
	ctx := context.Background()
	var mu sync.Mutex
	clock := time.Unix(1_000_000, 0)
	now := func() time.Time { mu.Lock(); defer mu.Unlock(); return clock }
	path := filepath.Join(tempDir(t), "h.db")
	s := openAt(t, path, Options{Now: now})
	c := Charge{"b", "total", 1 << 50}
	var wg sync.WaitGroup
	for w := range 50 {
		wg.Go(func() {
			for i := range 12 {
				id := fmt.Sprintf("old%d-%d", w, i)
				mustHold(t, s, hold(id, 10, c))
				charge := int64(7)
				if i == 0 && w < 12 {
					charge = 13 // with an overdraft
				}
				if _, err := s.Settle(id, used(charge)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	mustHold(t, s, hold("long", 10, c)) // open at the cut: it must survive
	mustHold(t, s, hold("edge", 10, c))
	k, err := s.CreateKey(ctx, Key{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Blobs("certs").Put(ctx, "a/b", []byte("c")); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	clock = clock.Add(time.Hour)
	mu.Unlock()
	if _, err := s.Settle("edge", used(3)); err != nil {
		t.Fatal(err)
	}
	var written [8]int
	stop := make(chan struct{})
	for w := range written {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					written[w] = i
					return
				default:
				}
				id := fmt.Sprintf("new%d-%d", w, i)
				mustHold(t, s, hold(id, 1, c))
				if _, err := s.Settle(id, used(1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	rep, err := s.Compact(ctx, time.Unix(1_000_000, 0).Add(time.Minute))
	if err != nil || rep.Dropped == 0 || rep.Base < 1200 || rep.BytesAfter >= rep.BytesBefore {
		t.Errorf("%+v, %v", rep, err)
	}
	time.Sleep(20 * time.Millisecond)
	close(stop)
	wg.Wait()
	total := 0
	for w, n := range written {
		total += n
		if n > 0 {
			if row, err := s.rowOf(fmt.Sprintf("new%d-%d", w, n-1)); err != nil || row.ChargeNano != 1 {
				t.Errorf("%+v, %v", row, err)
			}
		}
	}
	spent := int64(588*7 + 12*13 + 3 + total)
	wantBalance(t, s, "b", "total", spent, 10)
	_, err = s.Show(ctx, "old3-3")
	wantCode(t, err, infer.CodeNotFound)
	if d, err := s.Show(ctx, "edge"); err != nil || d.Row.ChargeNano != 3 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, ok := s.Verify(k.Secret); !ok {
		t.Error("the key is gone")
	}
	if b, err := s.Blobs("certs").Get(ctx, "a/b"); err != nil || string(b.Value) != "c" {
		t.Errorf("%+v, %v", b, err)
	}
	checkOK(t, s)
	s.Close()

	s = openAt(t, path, Options{Now: now})
	if r := s.Recovery(); r.Orphans != 1 || !r.Clean {
		t.Errorf("%+v", r)
	}
	wantBalance(t, s, "b", "total", spent+10, 0)
	mu.Lock()
	clock = clock.Add(time.Hour)
	mu.Unlock()
	mustHold(t, s, hold("last", 1, c))
	if rep, err = s.Compact(ctx, clock); err != nil || rep.Dropped == 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	if p, err := s.List(ctx, Filter{}); err != nil || len(p.Rows) != 1 {
		t.Errorf("%d rows, %v", len(p.Rows), err)
	}
	if _, err := s.Settle("last", used(1)); err != nil {
		t.Error(err)
	}
	if rep, err = s.Compact(ctx, time.Time{}); err != nil || rep.Dropped != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	if _, err := os.Stat(path + ".compact"); err == nil {
		t.Error("the working file was left")
	}
}

// TestRebuild loses everything that is derived, and gets it back.
func TestRebuild(t *testing.T) {
	path := filepath.Join(tempDir(t), "h.db")
	s := openAt(t, path, Options{})
	ledgerOf(t, s)
	before := everything(t, s)
	lose := func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketBalances).Cursor()
		k, _ := c.First()
		if err := tx.Bucket(bucketBalances).Put([]byte(string(k)), []byte("damaged")); err != nil {
			return err
		}
		if err := tx.Bucket(bucketRequests).Delete([]byte("r3")); err != nil {
			return err
		}
		return tx.Bucket(bucketOpen).Delete([]byte("r10"))
	}
	tamper(t, s, lose)
	if rep, err := s.Check(context.Background()); err != nil || rep.OK() {
		t.Fatalf("%+v, %v", rep, err)
	}
	if rep, err := s.Rebuild(context.Background()); err != nil || !rep.OK() {
		t.Fatalf("%+v, %v", rep, err)
	}
	if after := everything(t, s); after != before {
		t.Errorf("got\n%s\nwant\n%s", after, before)
	}
	if _, err := s.Settle("r10", used(1)); err != nil {
		t.Error(err)
	}
	// The same when the damage keeps the store from opening.
	mustHold(t, s, hold("r11", 10, Charge{"b", "total", 1 << 40}))
	tamper(t, s, func(tx *bolt.Tx) error {
		return tx.Bucket(bucketBalances).Put([]byte(balanceKey("b", "total")), []byte("damaged"))
	})
	s.Close()
	if _, err := Open(path, Options{BallastBytes: -1}); err == nil || !strings.Contains(err.Error(), "balance b total is damaged") {
		t.Fatalf("open: %v", err)
	}
	s = openAt(t, path, Options{Rebuild: true})
	if r := s.Recovery(); r.Orphans != 1 || r.Nano != 10 {
		t.Errorf("%+v", r)
	}
}
