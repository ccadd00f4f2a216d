package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

func claim(s *Store, key, request string) Once {
	return Once{ID: OnceID("k1", key), RequestID: request, Route: "POST /v1/chat/completions", Body: [32]byte{1}, Expires: s.now().Add(time.Hour)}
}

func mustClaim(t testing.TB, s *Store, o Once) *Once {
	t.Helper()
	first, err := s.ClaimOnce(context.Background(), o, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

var someAnswer = &OnceAnswer{Status: 200, ContentType: "application/json", Header: [][2]string{{"X-Hearth-Contract", "c"}}, Body: []byte("{}")}

func TestOnceIsKept(t *testing.T) {
	path := filepath.Join(tempDir(t), "h.db")
	s := openAt(t, path, Options{})
	a := claim(s, "a", "r1")
	if first := mustClaim(t, s, a); first != nil {
		t.Fatalf("claimed before: %+v", first)
	}
	twin := claim(s, "a", "r2")
	if first := mustClaim(t, s, twin); first == nil || first.State != OnceOpen || first.RequestID != "r1" || first.Body != a.Body {
		t.Fatalf("the twin got %+v", first)
	}
	if err := s.KeepOnce(a.ID, "r2", someAnswer, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another request kept it: %v", err)
	}
	if err := s.KeepOnce(a.ID, "r1", someAnswer, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.ForgetOnce(a.ID, "r1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a kept answer was forgotten: %v", err)
	}
	b := claim(s, "b", "r3")
	mustClaim(t, s, b)
	if err := s.ForgetOnce(b.ID, "r3"); err != nil {
		t.Fatal(err)
	}
	if first := mustClaim(t, s, b); first != nil {
		t.Errorf("what was forgotten is still claimed: %+v", first)
	}
	was := s.Stats()
	s.Close()
	s = openAt(t, path, Options{})
	if st := s.Stats(); st.Once != 2 || st.OnceBytes != was.OnceBytes {
		t.Errorf("after reopening %d claims of %d bytes, want 2 of %d", st.Once, st.OnceBytes, was.OnceBytes)
	}
	first := mustClaim(t, s, twin)
	if first == nil || first.State != OnceKept || !reflect.DeepEqual(first.Answer, someAnswer) {
		t.Fatalf("the replay is %+v", first)
	}
	if _, err := s.Compact(context.Background(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if first := mustClaim(t, s, twin); first == nil || first.State != OnceKept {
		t.Errorf("after a compaction: %+v", first)
	}
	// The claim of a request that died may be taken over, by its name only.
	if first, err := s.ClaimOnce(context.Background(), claim(s, "b", "r5"), "r4", 0); err != nil || first == nil {
		t.Errorf("taken over from a request that lives: %v", err)
	}
	if first, err := s.ClaimOnce(context.Background(), claim(s, "b", "r5"), "r3", 0); err != nil || first != nil {
		t.Errorf("not taken over: %+v, %v", first, err)
	}
}

func TestOnceHasBounds(t *testing.T) {
	ctx := context.Background()
	clock := time.Unix(1_000_000, 0)
	var mu sync.Mutex
	s := open(t, Options{Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return clock }})
	big := &OnceAnswer{Status: 200, Body: bytes.Repeat([]byte("x"), 10_000)}
	for i := range 3 {
		o := claim(s, fmt.Sprint(i), fmt.Sprint("r", i))
		if _, err := s.ClaimOnce(ctx, o, "", 25_000); err != nil {
			t.Fatal(err)
		}
		if err := s.KeepOnce(o.ID, o.RequestID, big, 25_000); err != nil {
			t.Fatal(err)
		}
	}
	if first := mustClaim(t, s, claim(s, "2", "again")); first == nil || first.State != OnceLost {
		t.Errorf("the third of 10 kB below 25 kB is %+v", first)
	}
	if _, err := s.ClaimOnce(ctx, claim(s, "more", "r9"), "", 20_000); err == nil {
		t.Error("claimed beyond the bound")
	} else {
		wantCode(t, err, infer.CodeOverloaded)
	}
	o := claim(s, "huge", "r10")
	mustClaim(t, s, o)
	if err := s.KeepOnce(o.ID, "r10", &OnceAnswer{Body: make([]byte, MaxOnceAnswer+1)}, 0); err != nil {
		t.Fatal(err)
	}
	if first := mustClaim(t, s, o); first == nil || first.State != OnceLost {
		t.Errorf("a huge answer is %+v", first)
	}
	if n, err := s.SweepOnce(ctx); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	mu.Lock()
	clock = clock.Add(time.Hour)
	mu.Unlock()
	late := claim(s, "0", "late")
	if first := mustClaim(t, s, late); first != nil {
		t.Errorf("an expired claim stands: %+v", first)
	}
	if n, err := s.SweepOnce(ctx); n != 3 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if st := s.Stats(); st.Once != 1 {
		t.Errorf("%d left", st.Once)
	}
	checkOK(t, s)
}

// TestOnceOneWins races claims of the same key.
func TestOnceOneWins(t *testing.T) {
	s := open(t, Options{})
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			first, err := s.ClaimOnce(context.Background(), claim(s, "k", fmt.Sprint("r", i)), "", 0)
			if err != nil {
				t.Error(err)
			}
			if first == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d claimed it", won.Load())
	}
}

// TestOnceAfterAFailedCommit has the claim or not, as the file has it, and
// counts what is there.
func TestOnceAfterAFailedCommit(t *testing.T) {
	for _, at := range []string{"before commit", "after commit"} {
		fails := atomic.Bool{}
		s := open(t, Options{fault: func(p string) error {
			if p == at && fails.Load() {
				return errors.New("the disk went")
			}
			return nil
		}, retryAfter: time.Hour})
		o := claim(s, "k", "r1")
		fails.Store(true)
		if _, err := s.ClaimOnce(context.Background(), o, "", 0); !errors.Is(err, ErrUnknownOutcome) {
			t.Fatalf("%s: %v", at, err)
		}
		fails.Store(false)
		if err := s.Reopen(); err != nil {
			t.Fatal(err)
		}
		want := 0
		if at == "after commit" {
			want = 1
		}
		if st := s.Stats(); st.Once != want {
			t.Errorf("%s: %d claims", at, st.Once)
		}
		if first := mustClaim(t, s, o); (first != nil) != (want == 1) {
			t.Errorf("%s: %+v", at, first)
		}
	}
}

// TestDamagedOnceIsFound flips bytes of a kept answer and of its listing.
func TestDamagedOnceIsFound(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	o := claim(s, "k", "r1")
	mustClaim(t, s, o)
	if err := s.KeepOnce(o.ID, "r1", someAnswer, 0); err != nil {
		t.Fatal(err)
	}
	for _, bucket := range [][]byte{bucketOnce, bucketOnceDue} {
		var key, was []byte
		set := func(v []byte) {
			t.Helper()
			err := s.db.Update(func(tx *bolt.Tx) error {
				b := tx.Bucket(bucket)
				if key == nil {
					k, v := b.Cursor().First()
					key, was = bytes.Clone(k), bytes.Clone(v)
				}
				if v == nil {
					return b.Delete(key)
				}
				return b.Put(key, v)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		set(nil)
		for i := range len(was) + 1 {
			bad := bytes.Clone(was)
			if i < len(was) {
				bad[i] ^= 1
			} else {
				bad = nil
			}
			set(bad)
			if rep, err := s.Check(ctx); err != nil || rep.OK() {
				t.Fatalf("%s: a change of byte %d passes (%v)", bucket, i, err)
			}
		}
		set(was)
	}
	checkOK(t, s)
}

// One answer may be kept for several requests at the same time: it is read, and
// what is too long is clipped in a copy.
func TestOnceLeavesItsAnswer(t *testing.T) {
	s := openAt(t, filepath.Join(tempDir(t), "h.db"), Options{})
	long := strings.Repeat("x", 2*maxString)
	a := &OnceAnswer{Status: 200, ContentType: long, Header: [][2]string{{"X-Hearth-Contract", long}}, Body: []byte("{}")}
	var wait sync.WaitGroup
	for i := range 8 {
		o := claim(s, fmt.Sprint(i), fmt.Sprint("r", i))
		mustClaim(t, s, o)
		wait.Go(func() {
			if err := s.KeepOnce(o.ID, o.RequestID, a, 0); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if a.ContentType != long || a.Header[0][1] != long {
		t.Error("the answer was changed")
	}
}
