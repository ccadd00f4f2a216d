package web

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestTraceParent(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		h := http.Header{}
		if in != "" {
			h.Set("Traceparent", in)
		}
		if got := traceParent(h); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	const ok = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	f(ok, ok)
	f("", "")
	f("cc"+ok[2:], ok)
	f("cc"+ok[2:]+"-more", ok)
	f(ok+"-more", "")
	f("cc"+ok[2:]+"more", "")
	f("ff"+ok[2:], "")
	f(strings.ToUpper(ok), "")
	f("00-00000000000000000000000000000000-b7ad6b7169203331-01", "")
	f("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "")
	f(ok[:54], "")
	f(strings.Replace(ok, "-", "_", 1), "")
}

func TestCredential(t *testing.T) {
	f := func(want string, ok bool, pairs ...string) {
		t.Helper()
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		got, _, e := credential(h)
		if got != want || (e == nil) != ok {
			t.Errorf("%v: got %q, %v", pairs, got, e)
		}
	}
	f("", true)
	f("k", true, "Authorization", "Bearer k")
	f("k", true, "Authorization", "bearer  k ")
	f("k", true, "X-Api-Key", "k")
	f("k", true, "Authorization", "Bearer k", "X-Api-Key", "k")
	f("k", true, "Authorization", "", "X-Api-Key", "k")
	f("", true, "Authorization", "Bearer ")
	f("", false, "Authorization", "Bearer k", "X-Api-Key", "j")
	f("", false, "Authorization", "Bearer k", "Authorization", "Bearer k")
	f("", false, "Authorization", "Basic k")
	f("", false, "Authorization", "k")
	f("", false, "Authorization", "Bearer "+strings.Repeat("x", 13000))
}

func TestTexts(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(resetText(12*time.Millisecond), "12ms")
	f(resetText(6*time.Minute), "6m0s")
	f(resetText(1500*time.Millisecond), "1.5s")
	f(resetText(-time.Second), "0s")
}

func TestOnLoopback(t *testing.T) {
	f := func(addr string, want bool, header ...string) {
		t.Helper()
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = addr
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if onLoopback(r) != want {
			t.Errorf("%s %v: want %v", addr, header, want)
		}
	}
	f("127.0.0.1:5", true)
	f("[::1]:5", true)
	f("[::ffff:127.0.0.1]:5", true)
	f("192.0.2.1:5", false)
	f("pipe", false)
	f("127.0.0.1:5", false, "X-Forwarded-For", "192.0.2.1")
	f("127.0.0.1:5", false, "Forwarded", "for=192.0.2.1")
}

type addr string

func (a addr) Network() string { return "tcp" }
func (a addr) String() string  { return string(a) }

func TestConnCounter(t *testing.T) {
	c := connCounter{max: 5, perAddr: 2, by: map[string]int{}}
	in := func(a string, want bool) func() {
		t.Helper()
		leave, ok := c.enter(addr(a))
		if ok != want {
			t.Errorf("%s: got %v", a, ok)
		}
		return leave
	}
	first := in("192.0.2.1:1", true)
	in("192.0.2.1:2", true)
	in("192.0.2.1:3", false)
	first()
	first() // counted once
	in("192.0.2.1:3", true)
	in("[2001:db8::1]:1", true)
	in("[2001:db8::2]:1", true)
	in("[2001:db8::3]:1", false) // one /64 is one peer
	last := in("127.0.0.1:1", true)
	in("127.0.0.1:2", false) // all are taken
	last()
	in("127.0.0.1:2", true)
	var _ net.Addr = addr("")
}

// FuzzHeaders holds that no head makes the header readers panic, and that what
// they let through is clean.
func FuzzHeaders(f *testing.F) {
	f.Add("Bearer k", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "id")
	f.Fuzz(func(t *testing.T, auth, trace, id string) {
		h := http.Header{"Authorization": {auth}, "Traceparent": {trace}}
		if k, _, e := credential(h); e != nil && strings.Contains(e.Message, "\n") || len(k) > maxCredential {
			t.Fatalf("%q %v", k, e)
		}
		if p := traceParent(h); p != "" && (len(p) != 55 || strings.ToLower(p) != p) {
			t.Fatalf("%q", p)
		}
		if validLabel(id) && strings.ContainsAny(id, "\r\n \x00<>\"") {
			t.Fatalf("%q", id)
		}
	})
}
