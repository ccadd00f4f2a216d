package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// crashCopy copies the files of an open store as a crash would leave them.
func crashCopy(t testing.TB, path string) string {
	t.Helper()
	to := filepath.Join(tempDir(t), "h.db")
	for _, name := range []string{".journal-a", ".journal-b", ""} {
		b, err := os.ReadFile(path + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// still is a store that flushes nothing for being idle.
var still = Options{fault: func(point string) error {
	if point == "tick" {
		return errors.New("not now")
	}
	return nil
}}

// some makes n requests that have ended, and one that runs; each is a commit.
func some(t testing.TB, s *Store, prefix string, n int) {
	t.Helper()
	c := Charge{"b", "total", 1 << 40}
	for i := range n {
		id := fmt.Sprint(prefix, i)
		mustHold(t, s, hold(id, 10, c))
		if _, err := s.Settle(id, used(int64(5+i%10))); err != nil { // some with overdraft
			t.Fatal(err)
		}
	}
	mustHold(t, s, hold(prefix+"open", 10, c))
	if _, err := s.Note(context.Background(), opening(prefix+"note"), Result{Outcome: OutcomeRefused}); err != nil {
		t.Fatal(err)
	}
}

func TestJournalIsReplayed(t *testing.T) {
	path := filepath.Join(tempDir(t), "h.db")
	s := openAt(t, path, still)
	some(t, s, "a", 20)
	if !s.unflushed.Load() {
		t.Fatal("nothing is in the journal alone")
	}
	want := s.Stats().Seq
	for id, n := range map[string]int{"a0": 2, "a9": 3, "aopen": 1, "anote": 1} { // without a flush
		if d, err := s.Show(context.Background(), id); err != nil || len(d.Records) != n || d.Row.RequestID != id || d.Row.Seq == 0 {
			t.Errorf("%s: %+v, %v", id, d, err)
		}
	}
	if _, err := s.Show(context.Background(), "none"); err == nil || !s.unflushed.Load() {
		t.Errorf("a look flushed, or found nothing: %v", err)
	}
	for range 2 { // once more from the same files: a crash just after the replay
		c := openAt(t, crashCopy(t, path), Options{})
		if r := c.Recovery(); r.Seq != want || r.Orphans != 1 || r.Clean {
			t.Errorf("recovery: %+v, want record %d", r, want)
		}
		if d, err := c.Show(context.Background(), "a19"); err != nil || d.Row.Outcome != OutcomeComplete || len(d.Records) != 3 {
			t.Errorf("a19: %+v, %v", d, err)
		}
		some(t, c, "b", 3)
	}
	// A read flushes; the journal then has only what the database has too.
	if p, err := s.List(context.Background(), Filter{Outcome: OutcomeRefused}); err != nil || len(p.Rows) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if s.unflushed.Load() {
		t.Error("a read did not flush")
	}
	c := openAt(t, crashCopy(t, path), Options{})
	if r := c.Recovery(); r.Seq != want {
		t.Errorf("recovery: %+v, want record %d", r, want)
	}
}

// TestBrokenJournals cuts and changes journals. The end of one may be missing,
// as after a write that was cut short; anything before that is named.
func TestBrokenJournals(t *testing.T) {
	path := filepath.Join(tempDir(t), "h.db")
	s := openAt(t, path, still)
	if err := s.Blobs("x").Put(context.Background(), "k", nil); err != nil { // all before is flushed
		t.Fatal(err)
	}
	some(t, s, "a", 3)
	all, err := os.ReadFile(path + ".journal-a")
	if err != nil {
		t.Fatal(err)
	}
	frames := 0
	var starts []int
	for off := 0; ; frames++ {
		_, n, err := parseFrame(all[off:])
		if err != nil {
			break
		}
		starts = append(starts, off)
		off += int(aligned(int64(n)))
	}
	if frames != 8 {
		t.Fatalf("%d frames", frames)
	}
	for i, start := range starts {
		for _, at := range []int{0, 9, 17, 21, 25, frameHeader + 7, frameHeader + 100} {
			to := crashCopy(t, path)
			b := bytes.Clone(all)
			b[start+at] ^= 0x10
			if err := os.WriteFile(to+".journal-a", b, 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := Open(to, Options{BallastBytes: -1})
			var d *DamageError
			switch {
			case i == frames-1 && err != nil:
				t.Errorf("a torn end is not healed: %v", err)
			case i < frames-1 && !errors.As(err, &d):
				t.Errorf("frame %d, byte %d: %v", i, at, err)
			}
			if err == nil {
				checkOK(t, c)
				c.Close()
			}
		}
	}
	other := filepath.Join(tempDir(t), "h.db")
	o := openAt(t, other, still)
	some(t, o, "o", 20)
	for _, from := range []string{crashCopy(t, other)} { // the journal of another ledger
		to := crashCopy(t, path)
		b, _ := os.ReadFile(from + ".journal-a")
		if err := os.WriteFile(to+".journal-a", b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(to, Options{BallastBytes: -1}); err == nil || !strings.Contains(err.Error(), "the journal") {
			t.Errorf("a foreign journal: %v", err)
		}
	}
	to := crashCopy(t, path) // a database from before, with the journal of later
	checkOK(t, s)            // which flushes
	some(t, s, "later", 3)
	b, _ := os.ReadFile(path + ".journal-a")
	if err := os.WriteFile(to+".journal-a", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(to, Options{BallastBytes: -1}); err == nil || !strings.Contains(err.Error(), "the database ends with") {
		t.Errorf("a journal with a gap before it: %v", err)
	}
}

// TestFlushFails has nothing lost if writing into the database fails behind the
// back of requests, for whatever reason, and nobody notices.
func TestFlushFails(t *testing.T) {
	for _, why := range []error{syscall.EIO, syscall.ENOSPC} {
		var fails atomic.Bool
		var met atomic.Int32
		s := open(t, Options{fault: func(point string) error {
			if point == "flush" && fails.Load() {
				met.Add(1)
				return why
			}
			return nil
		}})
		c := Charge{"b", "total", 1 << 40}
		fails.Store(true)
		done := 0
		for i := 0; met.Load() < 3 && i < 10_000; i++ {
			id := fmt.Sprint("r", i)
			s.full.Store(false)
			if _, err := s.Hold(context.Background(), hold(id, 10, c)); err != nil {
				continue // the disk is said to be full until the next second
			}
			if _, err := s.Settle(id, used(1)); err != nil {
				t.Fatal(err)
			}
			done++
		}
		fails.Store(false)
		if met.Load() < 3 {
			t.Fatalf("%v: %d flushes failed", why, met.Load())
		}
		for limit := time.Now().Add(5 * time.Second); s.Err() != nil && time.Now().Before(limit); {
			time.Sleep(time.Millisecond)
		}
		wantBalance(t, s, "b", "total", int64(done), 0)
	}
}

// TestWithoutJournals works on as before, on a disk that has no room for them.
func TestWithoutJournals(t *testing.T) {
	path := filepath.Join(tempDir(t), "h.db")
	s := openAt(t, path, Options{})
	s.Close()
	s, err := Open(path, Options{BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.closeJournals()
	some(t, s, "a", 5)
	checkOK(t, s)
	if s.unflushed.Load() {
		t.Error("something is in no file")
	}
	s.Close()
}

// FuzzFrame parses arbitrary bytes, which must not claim more than they have.
func FuzzFrame(f *testing.F) {
	b := addToFrame(addToFrame(beginFrame(nil, [8]byte{1}), []byte("one")), []byte("two"))
	f.Add(endFrame(b, 2, 7))
	f.Add([]byte(frameMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, n, err := parseFrame(b)
		if err != nil {
			return
		}
		again := beginFrame(nil, fr.mark)
		for _, r := range fr.records {
			again = addToFrame(again, r)
		}
		if again = endFrame(again, len(fr.records), fr.first); !bytes.Equal(again[8:], b[8:n]) {
			t.Fatalf("it encodes differently: %x, %x", again, b[:n])
		}
	})
}
