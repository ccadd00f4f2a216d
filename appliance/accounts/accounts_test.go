package accounts

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/web/admin"
)

func ptr[T any](v T) *T { return &v }

func TestAccountsOutliveARestart(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	w.make("Bob", admin.TenantAdmin, "lab")
	s := w.signIn("ALICE")
	token, err := w.CreateToken(w.ctx, "alice", "ci", admin.Auditor, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	w.reopen()
	if !w.in(s) || !w.HasOwner(w.ctx) {
		t.Error("the session or the owner is gone after a restart")
	}
	if c, err := w.Bearer(w.ctx, token.Secret, peer); err != nil || c.Role != admin.Auditor || c.User != "alice/ci" || c.Fresh {
		t.Errorf("token: %+v, %v", c, err)
	}
	list := w.List()
	if len(list) != 2 || list[0].Name != "alice" || list[1].Tenant != "lab" || list[0].Sessions != 1 || list[0].Tokens != 1 {
		t.Errorf("%+v", list)
	}
}

func TestNamesRolesAndPasswords(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	for _, c := range []struct {
		name, role, tenant, password string
		want                         infer.Code
		param                        string
	}{
		{"ALICE", "auditor", "", good, infer.CodeConflict, "name"},
		{"", "auditor", "", good, infer.CodeInvalid, "name"},
		{"a b", "auditor", "", good, infer.CodeInvalid, "name"},
		{"a\nb", "auditor", "", good, infer.CodeInvalid, "name"},
		{strings.Repeat("a", 65), "auditor", "", good, infer.CodeInvalid, "name"},
		{"x", "king", "", good, infer.CodeInvalid, "role"},
		{"x", "", "", good, infer.CodeInvalid, "role"},
		{"x", "tenant-admin", "", good, infer.CodeInvalid, "tenant"},
		{"x", "tenant-admin", "nowhere", good, infer.CodeInvalid, "tenant"},
		{"x", "operator", "lab", good, infer.CodeInvalid, "tenant"},
		{"x", "auditor", "", "elevenchars", infer.CodeInvalid, "password"},
		{"x", "auditor", "", "Password2026!", infer.CodeInvalid, "password"},
		{"x", "auditor", "", "passwordpassword", infer.CodeInvalid, "password"},
		{"x", "auditor", "", "aaaaaaaaaaaaaa", infer.CodeInvalid, "password"},
		{"x", "auditor", "", "123456789012", infer.CodeInvalid, "password"},
		{"x", "auditor", "", "987654321098", infer.CodeInvalid, "password"},
		{"x", "auditor", "", "abcdefghijklmnop", infer.CodeInvalid, "password"},
		{"margaret", "auditor", "", "Margaret1234", infer.CodeInvalid, "password"},
		{"x", "auditor", "", "hearthhearth1!", infer.CodeInvalid, "password"},
		{"x", "auditor", "", "qwertyuiop12", infer.CodeInvalid, "password"},
		{"x", "auditor", "", "a\x00bcdefghijklm", infer.CodeInvalid, "password"},
		{"x", "auditor", "", strings.Repeat("ä", 600), infer.CodeInvalid, "password"},
	} {
		_, err := w.CreateWith(w.ctx, c.name, admin.Role(c.role), c.tenant, c.password)
		if e := infer.AsError(err); err == nil || e.Code != c.want || e.Param != c.param {
			t.Errorf("%+v: got %v", c, err)
		} else if len(c.password) > 11 && strings.Contains(err.Error(), c.password) {
			t.Errorf("the error repeats the password: %v", err)
		}
	}
	for _, p := range []string{good, "ein Zwölfender?", "correct horse 9 staple", "日本語のパスワードです良い"} {
		if err := CheckPassword("x", p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// The last owner who can sign in stays, by whichever way they would go.
func TestLastOwner(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	if _, err := w.Create(w.ctx, "invited", admin.Owner, ""); err != nil { // cannot sign in yet
		t.Fatal(err)
	}
	_, err := w.Update(w.ctx, "alice", Change{Role: ptr(admin.Operator)})
	wantCode(t, err, infer.CodeConflict)
	_, err = w.Update(w.ctx, "alice", Change{Disabled: ptr(true)})
	wantCode(t, err, infer.CodeConflict)
	wantCode(t, w.Delete(w.ctx, "alice"), infer.CodeConflict)
	w.make("carol", admin.Owner, "")
	if err := w.Delete(w.ctx, "alice"); err != nil {
		t.Error(err)
	}
	if w.owned != 1 {
		t.Errorf("an owner came up %d times, wanted once", w.owned)
	}
}

// What takes rights away ends every session at once, also one that was just read.
func TestSessionsEndWithTheirRights(t *testing.T) {
	for name, act := range map[string]func(w *world) error{
		"role": func(w *world) error { _, err := w.Update(w.ctx, "bob", Change{Role: ptr(admin.Auditor)}); return err },
		"tenant": func(w *world) error {
			_, err := w.Update(w.ctx, "bob", Change{Role: ptr(admin.TenantAdmin), Tenant: ptr("lab")})
			return err
		},
		"disabled": func(w *world) error { _, err := w.Update(w.ctx, "bob", Change{Disabled: ptr(true)}); return err },
		"password": func(w *world) error { _, err := w.SetPassword(w.ctx, "bob", good+"!"); return err },
		"removal":  func(w *world) error { return w.Delete(w.ctx, "bob") },
		"sign-out": func(w *world) error {
			return errors.Join(w.Revoke(w.ctx, w.Sessions(nil)[0].ID, nil), w.Revoke(w.ctx, w.Sessions(nil)[0].ID, nil))
		},
	} {
		w := newWorld(t)
		w.make("bob", admin.Operator, "")
		one, two := w.signIn("bob"), w.signIn("bob")
		if !w.in(one) || !w.in(two) {
			t.Fatal("not signed in")
		}
		if err := act(w); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if w.in(one) || w.in(two) {
			t.Errorf("%s: a session lives on", name)
		}
		if w.reopen(); w.in(one) || w.in(two) {
			t.Errorf("%s: a session is back after a restart", name)
		}
		if strings.Contains(w.mem.everything(), atSession) {
			t.Errorf("%s: a session is still stored", name)
		}
	}
}

// The tenant goes with the role that has one, also where a form repeats it.
func TestTenantGoesWithItsRole(t *testing.T) {
	w := newWorld(t)
	for _, tenant := range []*string{nil, ptr("lab"), ptr("")} {
		w.make("tina", admin.TenantAdmin, "lab")
		if a, err := w.Update(w.ctx, "tina", Change{Role: ptr(admin.Auditor), Tenant: tenant}); err != nil || a.Tenant != "" {
			t.Errorf("%+v, %v", a, err)
		}
		_, err := w.Update(w.ctx, "tina", Change{Tenant: ptr("lab")})
		wantCode(t, err, infer.CodeInvalid)
		if err := w.Delete(w.ctx, "tina"); err != nil {
			t.Fatal(err)
		}
	}
}

// Nothing of a change is in force where it could not be written.
func TestUnwrittenChange(t *testing.T) {
	w := newWorld(t)
	w.make("bob", admin.Operator, "")
	s := w.signIn("bob")
	w.mem.fail = infer.Errorf(infer.CodeUnavailable, "the disk is full")
	if _, err := w.Update(w.ctx, "bob", Change{Role: ptr(admin.Owner)}); err == nil {
		t.Error("no error")
	}
	if a, _ := w.Find("bob"); a.Role != admin.Operator || !w.in(s) {
		t.Errorf("%+v", a)
	}
	if _, err := w.SignIn(w.ctx, "bob", good, peer, ""); err == nil {
		t.Error("signed in without a trace of it on disk")
	}
	w.pass(10 * time.Minute)
	if !w.in(s) {
		t.Error("a full disk signs people out")
	}
}

func TestSessionFixation(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	w.make("mallory", admin.Auditor, "")
	planted := w.signIn("mallory")
	s, err := w.SignIn(w.ctx, "alice", good, peer, planted.Secret)
	if err != nil {
		t.Fatal(err)
	}
	if s.Secret == planted.Secret || w.in(planted) {
		t.Error("the planted session is still good")
	}
	again, err := w.Confirm(w.ctx, s.Secret, good, peer)
	if err != nil || again.Secret == s.Secret || w.in(s) || !w.in(again) {
		t.Errorf("a new proof keeps the secret: %v", err)
	}
	// A secret that nobody was given opens nothing, however it looks.
	for _, x := range []string{"", "a", strings.Repeat("A", 43), strings.Repeat("A", 44), hashOf(again.Secret)} {
		if _, err := w.Session(w.ctx, x, peer); err == nil {
			t.Errorf("%q is a session", x)
		}
	}
}

func TestSessionTimes(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	s := w.signIn("alice")
	c, _ := w.Session(w.ctx, s.Secret, peer)
	if !c.Fresh {
		t.Error("not fresh right after the sign-in")
	}
	w.pass(16 * time.Minute)
	if c, _ = w.Session(w.ctx, s.Secret, peer); c == nil || c.Fresh {
		t.Errorf("%+v after 16 minutes", c)
	}
	w.pass(61 * time.Minute)
	if w.in(s) {
		t.Error("good after an idle hour")
	}
	s = w.signIn("alice")
	for range 15 {
		w.pass(50 * time.Minute)
		w.in(s)
	}
	if w.in(s) {
		t.Error("good beyond its lifetime")
	}
	// A page that keeps itself up to date is no use of it.
	s = w.signIn("alice")
	for range 7 {
		w.pass(10 * time.Minute)
		_, _ = w.Session(w.ctx, s.Secret, "")
	}
	if w.in(s) {
		t.Error("an open page keeps signed in")
	}
	// A shorter bound of the configuration counts at once.
	s = w.signIn("alice")
	w.pass(10 * time.Minute)
	w.Configure(Settings{Idle: 5 * time.Minute, Lifetime: time.Hour})
	if w.in(s) {
		t.Error("good after an idle time that is too long now")
	}
}

func TestManySessions(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	first := w.signIn("alice")
	for range maxSessionsAccount {
		w.pass(time.Second)
		w.signIn("alice")
	}
	if w.in(first) || len(w.Sessions(nil)) != maxSessionsAccount {
		t.Errorf("%d sessions, the oldest is in: %v", len(w.Sessions(nil)), w.in(first))
	}
}

func TestTokens(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	w.make("olaf", admin.Operator, "")
	w.make("tina", admin.TenantAdmin, "lab")
	for _, c := range []struct {
		of, role, tenant string
		ok               bool
	}{
		{"alice", "owner", "", true}, {"alice", "tenant-admin", "default", true}, {"olaf", "operator", "", true}, {"olaf", "auditor", "", true},
		{"olaf", "tenant-admin", "lab", true}, {"tina", "", "", true}, {"tina", "tenant-admin", "lab", true},
		{"olaf", "owner", "", false}, {"tina", "tenant-admin", "default", false}, {"tina", "auditor", "", false}, {"tina", "operator", "", false},
	} {
		n, err := w.CreateToken(w.ctx, c.of, "x", admin.Role(c.role), c.tenant, time.Hour)
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil && (!strings.HasPrefix(n.Secret, "ha_") || len(n.Secret) != 46) {
			t.Errorf("%+v: secret %q", c, n.Secret)
		}
	}
	n, err := w.CreateToken(w.ctx, "olaf", "ci", "", "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	good := func() bool { _, err := w.Bearer(w.ctx, n.Secret, peer); return err == nil }
	if !good() {
		t.Fatal("refused")
	}
	if _, err := w.SetPassword(w.ctx, "olaf", "another heron wades"); err != nil || !good() {
		t.Errorf("a new password ends tokens: %v", err)
	}
	if _, err := w.Update(w.ctx, "olaf", Change{Role: ptr(admin.Auditor)}); err != nil || good() {
		t.Errorf("may more than its account: %v", err)
	}
	if _, err := w.Update(w.ctx, "olaf", Change{Role: ptr(admin.Owner)}); err != nil || !good() {
		t.Errorf("its account may again: %v", err)
	}
	if _, err := w.Update(w.ctx, "olaf", Change{Disabled: ptr(true)}); err != nil || good() {
		t.Errorf("its account is disabled: %v", err)
	}
	if _, err := w.Update(w.ctx, "olaf", Change{Disabled: ptr(false)}); err != nil || !good() {
		t.Error(err)
	}
	if _, err := w.RevokeToken(w.ctx, n.ID, "somebody else"); err == nil {
		t.Error("another's token was revoked")
	}
	w.pass(2 * time.Hour)
	if good() {
		t.Error("good beyond its time")
	}
	for _, x := range []string{"", "ha_", "ha_" + strings.Repeat("A", 43), n.Secret + "x", "hk_" + n.Secret[3:]} {
		if _, err := w.Bearer(w.ctx, x, peer); code(err) != infer.CodeUnauthorized {
			t.Errorf("%q: %v", x, err)
		}
	}
}

// Of many who use the set-up link at once, one is let in; of those who make the
// first owner in its session, one does.
func TestSetUpOnce(t *testing.T) {
	w := newWorld(t)
	token, _, err := w.NewSetUp(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	var won atomic.Int32
	var s atomic.Pointer[admin.Session]
	race(8, func(int) {
		if got, err := w.Redeem(w.ctx, token, "127.0.0.1:1", ""); err == nil {
			won.Add(1)
			s.Store(got)
		}
	})
	if won.Load() != 1 {
		t.Fatalf("the link let %d in", won.Load())
	}
	if c := s.Load(); c.Role != admin.Owner || c.Method != "set-up" || !c.Fresh {
		t.Errorf("%+v", c.Caller)
	}
	other, _, err := w.NewSetUp(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	won.Store(0)
	var in atomic.Pointer[admin.Session]
	race(8, func(i int) {
		if got, err := w.Enrol(w.ctx, s.Load().Secret, "owner"+string(rune('a'+i)), good, peer); err == nil {
			won.Add(1)
			in.Store(got)
		}
	})
	if won.Load() != 1 || len(w.List()) != 1 || w.owned != 1 {
		t.Fatalf("%d made an owner, there are %d", won.Load(), len(w.List()))
	}
	if !w.in(in.Load()) || w.in(s.Load()) {
		t.Error("the owner is not in, or the link's session lives on")
	}
	if _, err := w.Redeem(w.ctx, other, peer, ""); err == nil {
		t.Error("a link to make the first owner works when there is one")
	}
	if w.audited("account/create") != 1 {
		t.Error("not in the audit trail")
	}
}

func race(n int, f func(int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() { <-start; f(i) })
	}
	close(start)
	wg.Wait()
}

func TestLinks(t *testing.T) {
	w := newWorld(t)
	first, _, _ := w.NewSetUp(w.ctx)
	second, _, _ := w.NewSetUp(w.ctx)
	if _, err := w.Redeem(w.ctx, first, peer, ""); err == nil {
		t.Error("an earlier link works")
	}
	w.pass(SetUpLifetime)
	if _, err := w.Redeem(w.ctx, second, peer, ""); err == nil {
		t.Error("an old link works")
	}
	w.make("alice", admin.Owner, "")
	// With an owner it is the way back in, and makes no second one.
	token, _, _ := w.NewSetUp(w.ctx)
	w.reopen()
	s, err := w.Redeem(w.ctx, token, peer, "")
	if err != nil || s.Role != admin.Owner {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, ok := w.Enrolment(s.Secret); ok {
		t.Error("the way back in would make an owner")
	}
	if _, err := w.Enrol(w.ctx, s.Secret, "eve", good, peer); err == nil {
		t.Error("the way back in made an owner")
	}
	w.pass(enrolLifetime)
	if w.in(s) {
		t.Error("the way back in stays open")
	}
	bob, err := w.Create(w.ctx, "bob", admin.Auditor, "")
	if err != nil {
		t.Fatal(err)
	}
	invitation, until, err := w.Invite(w.ctx, bob.ID)
	if err != nil || until.Sub(w.now()) != InvitationLifetime {
		t.Fatal(until, err)
	}
	if s, err = w.Redeem(w.ctx, invitation, peer, ""); err != nil || s.Role != admin.Auditor || s.User != "bob" {
		t.Fatalf("%+v, %v", s, err)
	}
	in, err := w.Enrol(w.ctx, s.Secret, "somebody-else", good, peer)
	if err != nil || in.User != "bob" || w.in(s) {
		t.Errorf("%+v, %v", in, err)
	}
	w.signIn("bob")
	// Disabling takes an open invitation with it.
	if invitation, _, err = w.Invite(w.ctx, "bob"); err != nil {
		t.Fatal(err)
	}
	for _, off := range []bool{true, false} {
		if _, err := w.Update(w.ctx, "bob", Change{Disabled: &off}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Redeem(w.ctx, invitation, peer, ""); err == nil {
		t.Error("the invitation works after the account was disabled")
	}
}

// No secret stands in what is stored, logged or audited.
func TestNoSecretsAtRest(t *testing.T) {
	w := newWorld(t)
	link, _, _ := w.NewSetUp(w.ctx)
	s1, err := w.Redeem(w.ctx, link, peer, "")
	if err != nil {
		t.Fatal(err)
	}
	s2, err := w.Enrol(w.ctx, s1.Secret, "alice", good, peer)
	if err != nil {
		t.Fatal(err)
	}
	n, err := w.CreateToken(w.ctx, "alice", "ci", "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.SignIn(w.ctx, "cAnArY-typed-as-a-name", "cAnArY-wrong-password", peer, "")
	_, _ = w.SignIn(w.ctx, "alice", "cAnArY-wrong-password", peer, "")
	_, _ = w.Bearer(w.ctx, TokenPrefix+strings.Repeat("c", 43), peer)
	_, _ = w.Redeem(w.ctx, "cAnArY-link", peer, "")
	invite, _, _ := w.Invite(w.ctx, "alice")
	all := w.mem.everything() + w.trail() + w.log.String()
	for _, secret := range []string{link, s1.Secret, s2.Secret, n.Secret, n.Secret[3:], good, invite, "cAnArY", strings.Repeat("c", 43)} {
		if strings.Contains(all, secret) {
			t.Errorf("%q stands in what is kept", secret)
		}
	}
	if w.audited("account/refused") != 4 {
		t.Errorf("wanted four refusals in the audit trail: %s", w.trail())
	}
}
