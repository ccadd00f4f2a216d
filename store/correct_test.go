package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

func resolve(id string, charge int64) Correction {
	return Correction{RequestID: id, ChargeNano: charge, Reason: "the invoice has it", Actor: "test"}
}

// TestAmbiguousIsCorrected keeps the hold as the charge until somebody knows
// better, in both directions, and keeps every word of it.
func TestAmbiguousIsCorrected(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(tempDir(t), "h.db")
	s := openAt(t, path, Options{})
	c := Charge{"b", "total", 1000}
	mustHold(t, s, hold("lost", 100, c))
	row, err := s.Ambiguous("lost", Result{Termination: TermUpstreamLost, ErrorCode: "upstream_error",
		Attempts: []Attempt{{Backend: "east", Provider: "openai", Outcome: OutcomeAmbiguous, Sent: true, Failure: "lost"}}})
	if err != nil || row.ChargeNano != 100 || row.Outcome != OutcomeAmbiguous {
		t.Fatalf("ambiguous: %+v, %v", row, err)
	}
	wantBalance(t, s, "b", "total", 100, 0)
	for _, step := range []struct{ charge, over int64 }{{30, 0}, {250, 220}, {240, 210}, {0, 0}, {7, 7}} {
		if row, err = s.Correct(ctx, resolve("lost", step.charge)); err != nil || row.ChargeNano != step.charge || row.OverdraftNano != step.over {
			t.Fatalf("correct to %d: %+v, %v", step.charge, row, err)
		}
		wantBalance(t, s, "b", "total", step.charge, 0)
		if b, _ := s.Balance("b", "total"); b.OverdraftNano != step.over {
			t.Errorf("overdraft %d, want %d", b.OverdraftNano, step.over)
		}
		if d, err := s.Show(ctx, "lost"); err != nil || d.Row.ChargeNano != step.charge || d.Records[0].Kind != KindHold {
			t.Errorf("show: %+v, %v", d, err)
		}
		checkOK(t, s)
	}
	p, err := s.List(ctx, Filter{})
	if err != nil || len(p.Rows) != 1 || p.Rows[0].ChargeNano != 7 || p.Rows[0].Outcome != OutcomeComplete || p.Rows[0].Corrected == nil {
		t.Errorf("list: %+v, %v", p, err)
	}
	var csv strings.Builder
	if n, err := s.Export(ctx, &csv, CSV, Filter{}); n != 1 || err != nil {
		t.Errorf("export: %d, %v", n, err)
	}
	a, err := s.Audits(ctx, 0, 0)
	if err != nil || len(a.Entries) != 5 || a.Entries[0].Subject != "lost" || a.Entries[0].Detail != "the invoice has it" {
		t.Errorf("audits: %+v, %v", a, err)
	}
	if rep, err := s.Rebuild(ctx); err != nil || !rep.OK() || rep.Corrections != 1 {
		t.Errorf("rebuild: %+v, %v", rep, err)
	}
	s.Close()
	s = openAt(t, path, Options{})
	if _, err := s.Compact(ctx, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	wantBalance(t, s, "b", "total", 7, 0)
}

func TestOnlyTheUnknownIsCorrected(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	mustHold(t, s, hold("known", 100))
	_, err := s.Correct(ctx, resolve("known", 1))
	wantCode(t, err, infer.CodeConflict)
	if _, err := s.Settle("known", used(5)); err != nil {
		t.Fatal(err)
	}
	_, err = s.Correct(ctx, resolve("known", 1))
	wantCode(t, err, infer.CodeConflict)
	_, err = s.Correct(ctx, resolve("none", 1))
	wantCode(t, err, infer.CodeNotFound)
	mustHold(t, s, hold("lost", 100))
	if _, err := s.Expire("lost", "hold_expired"); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []Correction{{RequestID: "lost", ChargeNano: -1, Reason: "x"}, {RequestID: "lost"},
		{RequestID: "lost", ChargeNano: MaxAmountNano + 1, Reason: "x"}, {RequestID: "lost", Outcome: OutcomeOpen, Reason: "x"},
		{RequestID: "lost", Outcome: OutcomeUnknown, Reason: "x"}} {
		_, err := s.Correct(ctx, bad)
		wantCode(t, err, infer.CodeInvalid)
	}
	if _, err := s.Note(ctx, opening("turned-away"), Result{Outcome: OutcomeRefused}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Correct(ctx, resolve("turned-away", 1))
	wantCode(t, err, infer.CodeConflict)
}

// TestCorrectionsOverTheCut compacts between corrections of the same request,
// at random, and expects the balances of a plain model.
func TestCorrectionsOverTheCut(t *testing.T) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(1, 2))
	clock := time.Unix(1_000_000, 0)
	s := open(t, Options{Now: func() time.Time { clock = clock.Add(time.Second); return clock }})
	want := map[string]int64{}
	for i := range 300 {
		id := fmt.Sprint("r", r.IntN(12))
		switch _, ok := want[id]; {
		case !ok:
			mustHold(t, s, hold(id, 50, Charge{"b", "total", 1 << 40}))
			if _, err := s.Ambiguous(id, Result{}); err != nil {
				t.Fatal(err)
			}
			want[id] = 50
		case r.IntN(20) == 0:
			if _, err := s.Compact(ctx, clock.Add(-time.Duration(r.IntN(60))*time.Second)); err != nil {
				t.Fatal(err)
			}
		default:
			n := r.Int64N(120)
			if _, err := s.Correct(ctx, resolve(id, n)); err == nil {
				want[id] = n
			} else if infer.AsError(err).Code != infer.CodeNotFound { // its row was dropped
				t.Fatal(i, err)
			}
		}
	}
	sum := int64(0)
	for _, n := range want {
		sum += n
	}
	wantBalance(t, s, "b", "total", sum, 0)
	checkOK(t, s)
}

// TestDamagedCorrectionIsFound changes the list that leads to corrections.
func TestDamagedCorrectionIsFound(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	mustHold(t, s, hold("lost", 100, Charge{"b", "total", 1000}))
	if _, err := s.Ambiguous("lost", Result{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Correct(ctx, resolve("lost", 10)); err != nil {
		t.Fatal(err)
	}
	change := func(f func(b *bolt.Bucket) error) {
		t.Helper()
		if err := s.db.Update(func(tx *bolt.Tx) error { return f(tx.Bucket(bucketCorrections)) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range [][]byte{be64(2), be64(1), {1}} {
		change(func(b *bolt.Bucket) error { return b.Put([]byte("lost"), v) })
		if rep, err := s.Check(ctx); err != nil || rep.OK() {
			t.Errorf("a list that leads to %x passes: %v", v, err)
		}
	}
	change(func(b *bolt.Bucket) error { return b.Delete([]byte("lost")) })
	if rep, err := s.Check(ctx); err != nil || rep.OK() {
		t.Errorf("a missing entry passes: %v", err)
	}
	if _, err := s.Rebuild(ctx); err != nil {
		t.Fatal(err)
	}
	checkOK(t, s)
}

// TestKeyChangesAreAudited finds each change of a key in the chain, with who
// made it and without a secret.
func TestKeyChangesAreAudited(t *testing.T) {
	ctx := As(context.Background(), "somebody")
	s := open(t, Options{})
	k, err := s.CreateKey(ctx, Key{Tenant: "acme", Tools: []string{"get_*"}, Effects: []string{EffectReadOnly}, Regions: []string{"eu"}, DataClasses: []string{"public"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Key(k.ID); len(got.Tools) != 1 || len(got.Effects) != 1 || len(got.Regions) != 1 || len(got.DataClasses) != 1 {
		t.Errorf("the key: %+v", got)
	}
	n, err := s.RotateKey(ctx, k.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.UpdateKey(ctx, Key{ID: k.ID, Name: "new"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RevokeKey(ctx, k.ID); err != nil {
		t.Fatal(err)
	}
	p, err := s.Audits(ctx, 2, 0)
	if err != nil || len(p.Entries) != 2 || p.Next == 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	rest, err := s.Audits(ctx, 0, p.Next)
	if err != nil || len(rest.Entries) != 2 {
		t.Fatalf("%+v, %v", rest, err)
	}
	for i, want := range []string{"key/revoke", "key/update", "key/rotate", "key/create"} {
		e := append(p.Entries, rest.Entries...)[i]
		if e.Action != want || e.Actor != "somebody" || e.Subject != k.ID || strings.Contains(fmt.Sprint(e), n.Secret[20:]) {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	for _, bad := range []Key{{Tenant: "acme", Effects: []string{"all"}}, {Tenant: "acme", Tools: []string{""}}} {
		_, err := s.CreateKey(ctx, bad)
		wantCode(t, err, infer.CodeInvalid)
	}
}
