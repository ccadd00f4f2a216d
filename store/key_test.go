package store

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
)

func TestKeys(t *testing.T) {
	ctx := context.Background()
	clock := time.Date(2026, 11, 29, 10, 0, 30, 0, time.UTC)
	path := filepath.Join(tempDir(t), "h.db")
	s := openAt(t, path, Options{Now: func() time.Time { return clock }})
	k, err := s.CreateKey(ctx, Key{Tenant: "acme", Name: "ci", Expires: clock.Add(time.Hour), Models: []string{"m*"},
		Limits: Limits{Concurrency: 2}, Budgets: []KeyBudget{{Month, 5}}})
	if err != nil || !strings.HasPrefix(k.Secret, "hk_"+k.ID+"_") || len(k.Secret) != 3+12+1+52 {
		t.Fatalf("%+v, %v", k, err)
	}
	got, ok := s.Verify(k.Secret)
	if !ok || got.Name != "ci" || got.Limits.Concurrency != 2 || got.Budgets[0].CapNano != 5 {
		t.Fatalf("%+v, %t", got, ok)
	}
	other, err := s.CreateKey(ctx, Key{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	mixed := "hk_" + k.ID + "_" + other.Secret[16:]
	for _, bad := range []string{"", "hk_", k.Secret[1:], k.Secret + "a", mixed, strings.Replace(k.Secret, "hk_", "sk_", 1)} {
		if _, ok := s.Verify(bad); ok {
			t.Errorf("%q passed", bad)
		}
	}

	// A rotated key takes the old secret for the grace, then no longer.
	r, err := s.RotateKey(ctx, k.ID, 10*time.Minute)
	if err != nil || r.ID != k.ID || r.Secret == k.Secret {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, secret := range []string{k.Secret, r.Secret} {
		if _, ok := s.Verify(secret); !ok {
			t.Error("a secret within the grace is refused")
		}
	}
	clock = clock.Add(10 * time.Minute)
	if _, ok := s.Verify(k.Secret); ok {
		t.Error("the old secret passes after the grace")
	}
	if _, err := s.RotateKey(ctx, "nobody", 0); err == nil {
		t.Error("rotated nothing")
	} else {
		wantCode(t, err, infer.CodeNotFound)
	}

	// All of it survives, the hashes only.
	s.Close()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{k.Secret, r.Secret, other.Secret} {
		if strings.Contains(string(raw), secret[16:]) {
			t.Error("a secret is in the file")
		}
	}
	s = openAt(t, path, Options{Now: func() time.Time { return clock }})
	if got, ok := s.Verify(r.Secret); !ok || got.LastUsed != time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC) {
		t.Errorf("after reopening: %+v, %t", got, ok)
	}
	if keys, err := s.Keys(ctx); err != nil || len(keys) != 2 {
		t.Errorf("%+v, %v", keys, err)
	}

	got.Disabled, got.Tenant = true, "evil"
	if u, err := s.UpdateKey(ctx, got); err != nil || u.Tenant != "acme" {
		t.Errorf("%+v, %v", u, err)
	}
	if _, ok := s.Verify(r.Secret); ok {
		t.Error("a disabled key passes")
	}
	got.Disabled = false
	if _, err := s.UpdateKey(ctx, got); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Verify(r.Secret); !ok {
		t.Error("an enabled key is refused")
	}
	if _, err := s.RevokeKey(ctx, other.ID); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Verify(other.Secret); ok {
		t.Error("a revoked key passes")
	}
	if _, err := s.RotateKey(ctx, other.ID, 0); err == nil {
		t.Error("a revoked key came back")
	}
	clock = clock.Add(time.Hour)
	if _, ok := s.Verify(r.Secret); ok {
		t.Error("an expired key passes")
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	s := open(t, Options{})
	for name, k := range map[string]Key{
		"tenant": {},
		"spaces": {Tenant: "a b"},
		"name":   {Tenant: "a", Name: strings.Repeat("x", 300)},
		"line":   {Tenant: "a", Name: "x\ny"},
		"escape": {Tenant: "a", Name: "x\x1b[2Jy"},
		"c1":     {Tenant: "a", Name: "x\u009b2Jy"},
		"turned": {Tenant: "a", Name: "x\u202ey"},
		"model":  {Tenant: "a", Models: []string{""}},
		"models": {Tenant: "a", Models: []string{"a\x1b[2J"}},
		"limit":  {Tenant: "a", Limits: Limits{TokensPerMinute: -1}},
		"period": {Tenant: "a", Budgets: []KeyBudget{{"week", 1}}},
		"twice":  {Tenant: "a", Budgets: []KeyBudget{{Day, 1}, {Day, 2}}},
		"cap":    {Tenant: "a", Budgets: []KeyBudget{{Day, -1}}},
	} {
		if _, err := s.CreateKey(context.Background(), k); err == nil {
			t.Errorf("%s: created", name)
		} else {
			wantCode(t, err, infer.CodeInvalid)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	s := open(b, Options{})
	k, err := s.CreateKey(context.Background(), Key{Tenant: "acme"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := s.Verify(k.Secret); !ok {
			b.Fatal("refused")
		}
	}
}

// A record of what somebody else has named is one line, whatever they named it.
func TestAuditRecordsAreOneLine(t *testing.T) {
	s := open(t, Options{})
	ctx := As(context.Background(), "mal\nroot (owner)")
	if err := s.Audit(ctx, Audit{Action: "test", Subject: "a\x1b[2Jb\u202e", Detail: "ünï → one\r\ntwo"}); err != nil {
		t.Fatal(err)
	}
	p, err := s.Audits(ctx, 1, 0)
	if err != nil || len(p.Entries) != 1 {
		t.Fatal(p, err)
	}
	if e := p.Entries[0]; e.Actor != "mal root (owner)" || e.Subject != "a\ufffd[2Jb\ufffd" || e.Detail != "ünï → one  two" {
		t.Errorf("%q %q %q", e.Actor, e.Subject, e.Detail)
	}
}
