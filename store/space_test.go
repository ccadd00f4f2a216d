package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"hearth/engine/infer"
)

// TestDiskFull fills a real, small file system. New holds are refused, every
// running request still settles, reading goes on, and when space returns so
// does service, without a restart.
func TestDiskFull(t *testing.T) {
	dir := tempDir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=12m"); err != nil {
		t.Skipf("NOT TESTED: a full disk needs the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	s := openAt(t, filepath.Join(dir, "h.db"), Options{BallastBytes: 2 << 20})
	ctx := context.Background()
	const running = 300
	c := Charge{"b", "total", 1 << 50}
	for i := range running {
		mustHold(t, s, hold(fmt.Sprint("run", i), 100, c))
	}
	filler := filepath.Join(dir, "filler")
	for chunk := int64(1 << 20); chunk >= 4096; chunk /= 2 {
		for fillDisk(filler, chunk) == nil {
		}
	}
	refused := 0
	for i := 0; refused < 20; i++ {
		if i > 20_000 {
			t.Fatal("the disk is full and holds go on")
		}
		_, err := s.Hold(ctx, hold(fmt.Sprint("new", i), 1, c))
		if err == nil {
			if _, err := s.Settle(fmt.Sprint("new", i), used(1)); err != nil {
				t.Fatalf("settle on a full disk: %v", err)
			}
			continue
		}
		wantCode(t, err, infer.CodeUnavailable)
		refused++
	}
	for i := range running {
		if row, err := s.Settle(fmt.Sprint("run", i), used(7)); err != nil || row.ChargeNano != 7 {
			t.Fatalf("settle of a running request: %+v, %v", row, err)
		}
	}
	if st := s.Stats(); !st.Full || st.Failed || st.OpenHolds != 0 {
		t.Errorf("stats: %+v", st)
	}
	checkOK(t, s)
	if _, err := s.List(ctx, Filter{}); err != nil {
		t.Errorf("list: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for i := 0; ; i++ {
		if _, err := s.Hold(ctx, hold(fmt.Sprint("after", i), 1, c)); err == nil {
			break
		}
		if time.Since(began) > 5*time.Second {
			t.Fatalf("space returned, service did not: %v", s.Err())
		}
		time.Sleep(20 * time.Millisecond)
	}
	if st, err := os.Stat(s.ballastPath()); err != nil || st.Size() != 2<<20 {
		t.Errorf("the reserve was not set aside again: %v", err)
	}
}

// fillDisk appends n bytes to path.
func fillDisk(path string, n int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(make([]byte, n))
	return err
}

func TestNoSpaceIsRecognized(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.ENOSPC:                      true,
		fmt.Errorf("x: %w", syscall.EDQUOT): true,
		errors.New("file resize error: no space left on device"): true,
		syscall.EIO: false,
	} {
		if noSpace(err) != want {
			t.Errorf("%v: want %t", err, want)
		}
	}
}

// TestEveryCrashPoint fails the commit at its Nth point, for N = 1, 2, … until
// the whole run passes none, and demands after each the same as the simulation:
// an operation that failed is undone or done by Reopen, and nothing is lost.
func TestEveryCrashPoint(t *testing.T) {
	for _, kind := range []error{syscall.EIO, syscall.ENOSPC} {
		for n := 1; ; n++ {
			if !crashAt(t, n, kind) {
				if n < 10 {
					t.Errorf("only %d points were met", n)
				}
				break
			}
		}
	}
}

// TestFailedStoreHealsItself: after a failed commit the store comes back without
// being asked, and a settle that was refused meanwhile has been done.
func TestFailedStoreHealsItself(t *testing.T) {
	bad := false
	s := open(t, Options{retryAfter: time.Millisecond, fault: func(point string) error {
		if bad {
			bad = false
			return syscall.EIO
		}
		return nil
	}})
	c := Charge{"b", "total", 100}
	mustHold(t, s, hold("a", 10, c))
	mustHold(t, s, hold("b", 10, c))
	bad = true
	_, err := s.Settle("a", used(4))
	if wantCode(t, err, infer.CodeUnavailable); !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("settle: %v", err)
	}
	_, err = s.Settle("b", used(5)) // while it has failed, or just after
	if err != nil && infer.AsError(err).Code != infer.CodeUnavailable {
		t.Errorf("settle: %v", err)
	}
	for began := time.Now(); s.Err() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("still failed: %v", s.Err())
		}
	}
	wantBalance(t, s, "b", "total", 9, 0)
}

// crashAt runs a fixed little history and says whether the nth point was met.
func crashAt(t *testing.T, n int, fault error) (met bool) {
	count := 0
	s, err := Open(filepath.Join(tempDir(t), "h.db"), Options{BallastBytes: -1, fault: func(string) error {
		if count++; count == n {
			met = true
			return fault
		}
		return nil
	}})
	if err != nil {
		if !met {
			t.Fatalf("open: %v", err)
		}
		return met
	}
	defer s.Close()
	spent := int64(0)
	for i := range 4 {
		id := fmt.Sprint("r", i)
		_, err := s.Hold(context.Background(), hold(id, 10, Charge{"b", "total", 1000}))
		if err == nil {
			if _, err = s.Settle(id, used(3)); err == nil || errors.Is(err, ErrUnknownOutcome) {
				spent += 3
			}
		}
		if err != nil {
			if infer.AsError(err).Code != infer.CodeUnavailable {
				t.Errorf("point %d: %v", n, err)
			}
			if err := s.Reopen(); err != nil {
				t.Fatalf("point %d: reopen: %v", n, err)
			}
		}
		s.full.Store(false)
	}
	wantBalance(t, s, "b", "total", spent, 0)
	if rep := checkOK(t, s); rep.OpenHolds != 0 {
		t.Errorf("point %d: %d open holds", n, rep.OpenHolds)
	}
	return met
}
