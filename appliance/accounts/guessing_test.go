package accounts

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/web/admin"
)

// guess tries a wrong password and says how long to wait, 0 if it was looked at.
func (w *world) guess(name, from string) time.Duration {
	w.t.Helper()
	_, err := w.SignIn(w.ctx, name, "not the password", from, "")
	switch e := infer.AsError(err); {
	case err == nil:
		w.t.Fatal("a wrong password was taken")
	case e.Code == infer.CodeRateLimited && e.RetryAfter > 0:
		return e.RetryAfter
	case e.Code != infer.CodeUnauthorized:
		w.t.Fatal(err)
	}
	return 0
}

func TestWaitsDouble(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	var waits []time.Duration
	looked := 0
	for begin := w.now(); w.now().Sub(begin) < 24*time.Hour; {
		if d := w.guess("alice", stranger); d > 0 {
			waits = append(waits, d)
			w.pass(d)
		} else {
			looked++
		}
	}
	if waits[0] != time.Second || waits[1] != 2*time.Second || waits[4] != 16*time.Second {
		t.Errorf("the waits begin with %v", waits[:5])
	}
	if looked > 520 {
		t.Errorf("%d guesses a day from one network", looked)
	}
}

// Guessing from everywhere at once is bounded by the account.
func TestManyNetworks(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	looked := 0
	for begin, i := w.now(), 0; w.now().Sub(begin) < time.Hour; i++ {
		if w.guess("alice", fmt.Sprintf("10.%d.%d.%d:1", i>>16&255, i>>8&255, i&255)) == 0 {
			looked++
		} else {
			w.pass(time.Second)
		}
	}
	if looked > 80 {
		t.Errorf("%d guesses an hour at one account", looked)
	}
}

// A stranger can keep nobody out: not from where the owner was before, nor for
// more than a minute from elsewhere.
func TestNoLockOut(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	w.signIn("alice")
	for i := range 2000 {
		w.guess("alice", fmt.Sprintf("10.1.%d.%d:1", i>>8, i&255))
	}
	if _, err := w.SignIn(w.ctx, "alice", good, peer, ""); err != nil {
		t.Errorf("from a network that was good before: %v", err)
	}
	_, err := w.SignIn(w.ctx, "alice", good, "203.0.113.5:1", "")
	if e := infer.AsError(err); err != nil && (e.Code != infer.CodeRateLimited || e.RetryAfter > accountMost) {
		t.Errorf("from elsewhere: %v, %v", err, e.RetryAfter)
	}
	w.pass(accountMost)
	if _, err := w.SignIn(w.ctx, "alice", good, "203.0.113.5:1", ""); err != nil {
		t.Errorf("from elsewhere after a minute: %v", err)
	}
}

// An account of one's own does not buy guesses at others'.
func TestOwnAccountBuysNoGuesses(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	w.make("mallory", admin.Auditor, "")
	looked := 0
	for range 200 {
		if w.guess("alice", stranger) == 0 {
			looked++
		}
		_, _ = w.SignIn(w.ctx, "mallory", good, stranger, "")
	}
	if looked > freeFailures+2 {
		t.Errorf("%d guesses at once", looked)
	}
}

// Many guesses at the same time are held like one after the other.
func TestGuessesAtOnce(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	var looked atomic.Int32
	race(60, func(int) {
		_, err := w.SignIn(w.ctx, "alice", "not the password", stranger, "")
		if code(err) == infer.CodeUnauthorized {
			looked.Add(1)
		}
	})
	if n := looked.Load(); n > freeFailures+1 {
		t.Errorf("%d guesses were looked at", n)
	}
}

// Names that are not there look and behave like those that are: the same error,
// the same wait, and one hash for each password that is looked at.
func TestUnknownNamesLookAlike(t *testing.T) {
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	w.make("off", admin.Auditor, "")
	if _, err := w.Update(w.ctx, "off", Change{Disabled: ptr(true)}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Create(w.ctx, "empty", admin.Auditor, ""); err != nil {
		t.Fatal(err)
	}
	var hashes int
	w.hasher.hook = func() { hashes++ }
	texts := map[string]string{}
	for i, name := range []string{"alice", "off", "empty", "nobody", "", strings.Repeat("x", 5000)} {
		from := fmt.Sprintf("10.9.9.%d:1", i)
		var tries []string
		for _, p := range []string{"wrong password one", "", good + " no", strings.Repeat("y", 5000)} {
			before := hashes
			_, err := w.SignIn(w.ctx, name, p, from, "")
			if hashes-before != 1 {
				t.Errorf("%.10q took %d hashes", name, hashes-before)
			}
			tries = append(tries, fmt.Sprint(err))
		}
		for range 6 {
			tries = append(tries, w.guess(name, from).String())
		}
		texts[strings.Join(tries, ";")] += fmt.Sprintf("%.10q ", name)
	}
	if len(texts) != 1 {
		t.Errorf("names can be told apart: %v", texts)
	}
	w.pass(time.Hour)
	// With their right passwords the disabled one is refused like any other.
	if _, err := w.SignIn(w.ctx, "off", good, "10.8.8.8:1", ""); err != errWrong {
		t.Errorf("disabled: %v", err)
	}
}

func TestRefusalsDoNotFillTheTrail(t *testing.T) {
	w := newWorld(t)
	for i := range 5000 {
		_, _ = w.Bearer(w.ctx, TokenPrefix+strings.Repeat("A", 43), fmt.Sprintf("10.%d.%d.1:1", i>>8, i&255))
	}
	if n := w.audited("account/refused"); n != refusalsAtMax {
		t.Errorf("%d records of 5000 refusals in a minute, wanted %d", n, refusalsAtMax)
	}
	w.pass(2 * time.Minute)
	_, _ = w.Bearer(w.ctx, TokenPrefix+strings.Repeat("A", 43), peer)
	if !strings.Contains(w.trail(), "4970 more refusals were not written down") {
		t.Error("what was left out is not counted")
	}
}

func TestTablesAreBounded(t *testing.T) {
	w := newWorld(t)
	for i := range 3 * maxCounters {
		_, _ = w.damper.attempt(fmt.Sprint("net", i), fmt.Sprint("name", i), false, false)
	}
	if len(w.damper.networks) > maxCounters || len(w.damper.unknown) > maxCounters {
		t.Errorf("%d networks, %d names", len(w.damper.networks), len(w.damper.unknown))
	}
	for i := range 2 * maxCeremonies {
		w.pending.begin(fmt.Sprint(i), "", i)
	}
	if len(w.pending.open) > maxCeremonies+1 || len(w.pending.order) > maxCeremonies+1 {
		t.Errorf("%d ceremonies", len(w.pending.open))
	}
}

func TestNetworks(t *testing.T) {
	for peer, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1::/56", "[2001:db8:1:ff::1]:1": "2001:db8:1::/56",
		"[::ffff:192.0.2.1]:9": "192.0.2.1", "127.0.0.1:1": loopbackNetwork, "[::1]:1": loopbackNetwork, "[fe80::1%eth0]:1": "fe80::/56", "": "unknown", "x": "unknown", "@": "unknown",
	} {
		if got := networkOf(peer); got != want {
			t.Errorf("%s is of %s, wanted %s", peer, got, want)
		}
	}
}

// The parameters of RFC 9106 hold, few hashes run at once, and old ones are
// renewed at the next sign-in.
func TestHashes(t *testing.T) {
	h := newHasher(rfc9106)
	phc, err := h.hash(t.Context(), good)
	if err != nil || !strings.HasPrefix(phc, "$argon2id$v=19$m=65536,t=3,p=4$") {
		t.Fatal(phc, err)
	}
	if right, stale, err := h.check(t.Context(), phc, good); !right || stale || err != nil {
		t.Error(right, stale, err)
	}
	if right, _, _ := h.check(t.Context(), phc, good+" "); right {
		t.Error("a wrong one is right")
	}
	w := newWorld(t)
	w.make("alice", admin.Owner, "")
	w.hasher.p.time = 2
	w.signIn("alice")
	if p := w.get("alice").Password; !strings.Contains(p, "t=2") {
		t.Errorf("not renewed: %s", p)
	}
	w.signIn("alice")
	var now, most atomic.Int32
	w.hasher.hook = func() {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		now.Add(-1)
	}
	race(20, func(i int) { _, _ = w.SignIn(w.ctx, "alice", good, peer, "") })
	if most.Load() > hashesAtOnce {
		t.Errorf("%d hashes at once", most.Load())
	}
}

func FuzzPHC(f *testing.F) {
	f.Add("$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA")
	f.Add("$argon2id$v=19$m=4294967295,t=3,p=4$AA$AA")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		p, salt, key, err := parsePHC(s)
		if err == nil && (p.memory > 1<<20 || p.time > 16 || p.threads == 0 || len(salt) < 8 || len(key) < 16) {
			t.Errorf("%q asks for %+v", s, p)
		}
	})
}
