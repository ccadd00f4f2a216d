package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
)

// open opens a store in a fresh folder. At the end of the test every invariant
// of what it left is walked.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	return openAt(t, filepath.Join(tempDir(t), "hearth.db"), o)
}

func openAt(t testing.TB, path string, o Options) *Store {
	t.Helper()
	if o.BallastBytes == 0 {
		o.BallastBytes = -1
	}
	s, err := Open(path, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		s.file.RLock() // the committer may be opening it anew
		isOpen := s.db != nil
		s.file.RUnlock()
		if isOpen && s.failure.Load() == nil {
			checkOK(t, s)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func checkOK(t testing.TB, s *Store) Report {
	t.Helper()
	rep, err := s.Check(context.Background())
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	for i, f := range rep.Faults {
		if i < 10 {
			t.Errorf("check: %v", f)
		}
	}
	return rep
}

// unit is a price by which one output token costs one nano-USD.
var unit = Price{Version: "t1", Output: tokensPerPrice}

func opening(id string) Opening {
	return Opening{RequestID: id, Tenant: "acme", KeyID: "k1", Operation: "chat", Model: "m", Route: "m",
		Started: time.Unix(1_800_000_000, 0), Price: unit}
}

func hold(id string, amount int64, charges ...Charge) HoldRequest {
	return HoldRequest{Opening: opening(id), AmountNano: amount, Charges: charges}
}

// used is a complete answer that cost n nano-USD at the unit price.
func used(n int64) Result {
	return Result{Outcome: OutcomeComplete, Finish: "stop", Usage: Usage{FreshInput: 3, Output: n}}
}

func mustHold(t testing.TB, s *Store, h HoldRequest) Row {
	t.Helper()
	row, err := s.Hold(context.Background(), h)
	if err != nil {
		t.Fatalf("hold %s: %v", h.Opening.RequestID, err)
	}
	return row
}

func wantBalance(t testing.TB, s *Store, budget, window string, spent, held int64) {
	t.Helper()
	b, err := s.Balance(budget, window)
	if err != nil || b.SpentNano != spent || b.HeldNano != held {
		t.Errorf("balance %s %s: spent %d held %d (%v), want %d, %d", budget, window, b.SpentNano, b.HeldNano, err, spent, held)
	}
}

func wantCode(t testing.TB, err error, code infer.Code) {
	t.Helper()
	var e *infer.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("got error %v, want code %s", err, code)
	}
}

func TestHoldSettleRelease(t *testing.T) {
	s := open(t, Options{})
	day, total := Charge{"t/day", "2026-01-01", 100}, Charge{"t/total", "total", 150}
	mustHold(t, s, hold("a", 60, day, total))
	wantBalance(t, s, "t/day", "2026-01-01", 0, 60)
	if _, err := s.Hold(context.Background(), hold("b", 41, day, total)); err == nil {
		t.Fatal("held beyond the cap")
	} else {
		wantCode(t, err, infer.CodeQuota)
		var be *BudgetError
		if !errors.As(err, &be) || be.Budget != "t/day" || be.HeldNano != 60 || !infer.AsError(err).NoRetry {
			t.Errorf("budget error: %v", err)
		}
	}
	wantBalance(t, s, "t/total", "total", 0, 60) // nothing of b stayed behind
	mustHold(t, s, hold("c", 40, day, total))    // exactly full
	row, err := s.Settle("a", used(45))
	if err != nil || row.ChargeNano != 45 || row.OverdraftNano != 0 || row.Outcome != OutcomeComplete || row.HoldSeq != 1 {
		t.Fatalf("settle: %+v, %v", row, err)
	}
	if row, err = s.Release("c", Result{Outcome: OutcomeError, ErrorCode: "overloaded"}); err != nil || row.ChargeNano != 0 {
		t.Fatalf("release: %+v, %v", row, err)
	}
	wantBalance(t, s, "t/day", "2026-01-01", 45, 0)
	wantBalance(t, s, "t/total", "total", 45, 0)

	_, err = s.Settle("a", used(1))
	if wantCode(t, err, infer.CodeConflict); !errors.Is(err, ErrResolved) {
		t.Errorf("second settle: %v", err)
	}
	_, err = s.Settle("zzz", used(1))
	if wantCode(t, err, infer.CodeNotFound); !errors.Is(err, ErrNoHold) {
		t.Errorf("settle without hold: %v", err)
	}
	_, err = s.Hold(context.Background(), hold("a", 1))
	if wantCode(t, err, infer.CodeConflict); !errors.Is(err, ErrDuplicate) {
		t.Errorf("second hold: %v", err)
	}
}

func TestOverdraftIsExplicit(t *testing.T) {
	s := open(t, Options{})
	c := Charge{"b", "total", 100}
	mustHold(t, s, hold("a", 50, c))
	row, err := s.Settle("a", used(130))
	if err != nil || row.ChargeNano != 130 || row.OverdraftNano != 80 {
		t.Fatalf("settle: %+v, %v", row, err)
	}
	d, err := s.Show(context.Background(), "a")
	if err != nil || len(d.Records) != 3 || d.Records[2].Kind != KindOverdraft || d.Row.OverdraftNano != 80 {
		t.Fatalf("show: %+v, %v", d, err)
	}
	b, _ := s.Balance("b", "total")
	if b.SpentNano != 130 || b.OverdraftNano != 80 {
		t.Errorf("balance: %+v", b)
	}
	_, err = s.Hold(context.Background(), hold("b", 0, c))
	wantCode(t, err, infer.CodeQuota)
}

func TestOrphansAreSettledInFull(t *testing.T) {
	path := filepath.Join(tempDir(t), "h.db")
	s := openAt(t, path, Options{})
	mustHold(t, s, hold("a", 50, Charge{"b", "2026-01", 100}))
	mustHold(t, s, hold("free", 0))
	mustHold(t, s, hold("done", 10, Charge{"b", "2026-01", 100}))
	if _, err := s.Settle("done", used(4)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, Options{})
	if r := s.Recovery(); r.Orphans != 2 || r.Nano != 50 || !r.Clean || r.Created {
		t.Errorf("recovery: %+v", r)
	}
	wantBalance(t, s, "b", "2026-01", 54, 0)
	for id, charge := range map[string]int64{"a": 50, "free": 0} {
		d, err := s.Show(context.Background(), id)
		if err != nil || d.Row.Outcome != OutcomeUnknown || d.Row.ChargeNano != charge || d.Row.ErrorCode != "process_died" {
			t.Errorf("row of %s: %+v, %v", id, d.Row, err)
		}
	}
	if rep := checkOK(t, s); rep.OpenHolds != 0 || rep.Rows != 3 {
		t.Errorf("report: %+v", rep)
	}
}

func TestExpireAndNote(t *testing.T) {
	s := open(t, Options{})
	mustHold(t, s, hold("a", 7, Charge{"b", "total", 10}))
	if n, err := s.ExpireOlder(time.Hour, nil); n != 0 || err != nil {
		t.Errorf("expired %d, %v", n, err)
	}
	if n, err := s.ExpireOlder(-1, func(string) bool { return true }); n != 0 || err != nil {
		t.Errorf("expired %d of running requests, %v", n, err)
	}
	if n, err := s.ExpireOlder(-1, nil); n != 1 || err != nil {
		t.Errorf("expired %d, %v", n, err)
	}
	wantBalance(t, s, "b", "total", 7, 0)
	ctx := context.Background()
	row, err := s.Note(ctx, opening("n"), Result{Outcome: OutcomeRefused, ErrorCode: "insufficient_quota"})
	if err != nil || row.Outcome != OutcomeRefused {
		t.Fatalf("note: %+v, %v", row, err)
	}
	d, err := s.Show(ctx, "n")
	if err != nil || len(d.Records) != 1 || d.Row.ErrorCode != "insufficient_quota" {
		t.Errorf("show: %+v, %v", d, err)
	}
	_, err = s.Hold(ctx, hold("n", 1))
	wantCode(t, err, infer.CodeConflict)
}

func TestRefusedBeforeAnythingIsWritten(t *testing.T) {
	s := open(t, Options{})
	ctx := context.Background()
	many := make([]Charge, maxPostings+1)
	for i := range many {
		many[i] = Charge{fmt.Sprint("b", i), "total", 1}
	}
	for name, h := range map[string]HoldRequest{
		"negative":  hold("x", -1),
		"huge":      hold("x", MaxAmountNano+1),
		"no id":     hold("", 1),
		"long id":   hold(strings.Repeat("x", maxRequestID+1), 1),
		"control":   hold("a\nb", 1),
		"twice":     hold("x", 1, Charge{"b", "total", 9}, Charge{"b", "total", 9}),
		"many":      hold("x", 1, many...),
		"cap":       hold("x", 1, Charge{"b", "total", -1}),
		"separator": hold("x", 1, Charge{"b\x00c", "total", 1}),
	} {
		if _, err := s.Hold(ctx, h); err == nil {
			t.Errorf("%s: held", name)
		} else {
			wantCode(t, err, infer.CodeInvalid)
		}
	}
	mustHold(t, s, hold("y", 1))
	for name, r := range map[string]Result{
		"open":     {Outcome: OutcomeOpen},
		"none":     {},
		"negative": {Outcome: OutcomeComplete, Usage: Usage{Output: -1}},
		"overflow": {Outcome: OutcomeComplete, Usage: Usage{Output: 1 << 62}},
	} {
		if _, err := s.Settle("y", r); err == nil {
			t.Errorf("%s: settled", name)
		}
	}
	if st := s.Stats(); st.Seq != 1 || st.OpenHolds != 1 {
		t.Errorf("stats: %+v", st)
	}
}

func TestOneProcessOnly(t *testing.T) {
	path := filepath.Join(tempDir(t), "h.db")
	openAt(t, path, Options{})
	_, err := Open(path, Options{LockTimeout: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) {
		t.Fatalf("second open: %v", err)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(tempDir(t), "h.db")
	s := openAt(t, path, Options{migrations: append(slices.Clone(migrations), migration{From: Schema})})
	s.Close()
	_, err := Open(path, Options{})
	if err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Fatalf("open: %v", err)
	}
}

func TestCancelledHoldHoldsNothing(t *testing.T) {
	s := open(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	held := 0
	for i := range 50 {
		if _, err := s.Hold(ctx, hold(fmt.Sprint("r", i), 1, Charge{"b", "total", 100})); err == nil {
			held++
		}
	}
	wantBalance(t, s, "b", "total", 0, int64(held))
}

func TestClosedStoreRefuses(t *testing.T) {
	s := open(t, Options{})
	s.Close()
	_, err := s.Hold(context.Background(), hold("a", 1))
	wantCode(t, err, infer.CodeUnavailable)
	_, err = s.List(context.Background(), Filter{})
	wantCode(t, err, infer.CodeUnavailable)
}

// tempDir is a folder in memory where there is one: most tests make hundreds of
// commits and ask nothing of the disk. The benchmarks use the disk.
func tempDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "hearth-store-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
