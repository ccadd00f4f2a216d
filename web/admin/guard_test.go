package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
)

type passport struct{ Service }

func (passport) HasOwner(context.Context) bool { return true }
func (passport) OIDCLabel() string             { return "" }
func (passport) Session(context.Context, string, string) (*Session, error) {
	return nil, infer.Errorf(infer.CodeUnauthorized, "no such session")
}
func (passport) SignIn(context.Context, string, string, string, string) (*Session, error) {
	return nil, infer.Errorf(infer.CodeUnauthorized, "wrong")
}

// tokens are good until they are taken away.
type tokens struct {
	passport
	gone *bool
}

func (t tokens) Bearer(context.Context, string, string) (*Caller, error) {
	if *t.gone {
		return nil, infer.Errorf(infer.CodeUnauthorized, "the token is not valid")
	}
	return &Caller{User: "ada/t", Role: Owner, Method: "token"}, nil
}

func guarded(t *testing.T, s Service, host func(string) bool) *Server {
	t.Helper()
	type nothing struct{}
	out, err := New(Options{Service: s, Host: host, Operations: NewRegistry(&Operation{Name: "test/change", Method: "POST", Path: "/test", Summary: "x", Access: Own,
		In: reflect.TypeFor[nothing](), Out: reflect.TypeFor[nothing](), Run: func(context.Context, any) (any, error) { return nothing{}, nil }})})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A page whose name somebody has pointed at us must not pass for ours.
func TestForeignHostNames(t *testing.T) {
	s := guarded(t, passport{}, func(name string) bool { return name == "localhost" || net.ParseIP(name) != nil })
	for host, want := range map[string]int{"localhost": 200, "LOCALHOST:8444": 200, "localhost.:1": 200, "127.0.0.1:1": 200, "[::1]:1": 200, "[::1]": 200,
		"evil.example": 403, "evil.example:8444": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403} {
		r := httptest.NewRequest("GET", "/signin", nil)
		r.Host, r.RemoteAddr = host, "127.0.0.1:9"
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != want || w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d, wanted %d", host, w.Code, want)
		}
	}
}

// What strangers send is small; who has a credential sends more.
func TestBodiesOfStrangers(t *testing.T) {
	gone := false
	s := guarded(t, tokens{gone: &gone}, nil)
	ask := func(path, kind, token string, body io.Reader) int {
		r := httptest.NewRequest("POST", "https://localhost"+path, body)
		r.Header.Set("Content-Type", kind)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.Code
	}
	form := "name=a&password=" + strings.Repeat("x", maxStranger)
	if got := ask("/signin", "application/x-www-form-urlencoded", "", strings.NewReader(form)); got != http.StatusRequestEntityTooLarge {
		t.Errorf("a long form of a stranger: %d", got)
	}
	unsaid := struct{ io.Reader }{strings.NewReader(form)} // of no length that is told
	if got := ask("/signin", "application/x-www-form-urlencoded", "", unsaid); got != http.StatusRequestEntityTooLarge {
		t.Errorf("a long form in pieces: %d", got)
	}
	if got := ask("/signin", "application/x-www-form-urlencoded", "", strings.NewReader("name=a&password=b")); got != http.StatusUnauthorized {
		t.Errorf("a form of a stranger: %d", got)
	}
	if got := ask("/api/test", "application/json", "t", strings.NewReader("{"+strings.Repeat(" ", maxStranger)+"}")); got != http.StatusOK {
		t.Errorf("a long body with a token: %d", got)
	}
}

// Over TLS a page without it is another origin, also where its host is ours.
func TestPlainOrigin(t *testing.T) {
	gone := false
	s := guarded(t, tokens{gone: &gone}, nil)
	for origin, want := range map[string]int{"https://localhost": 200, "http://localhost": 403, "HTTP://localhost": 403, "": 200} {
		r := httptest.NewRequest("POST", "https://localhost/api/test", nil)
		r.Header.Set("Authorization", "Bearer t")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%q: %d, wanted %d", origin, w.Code, want)
		}
	}
}

// A live page ends with the token that it was opened with.
func TestLiveEndsWithTheToken(t *testing.T) {
	gone := false
	s := guarded(t, tokens{gone: &gone}, nil)
	x := &exchange{s: s, caller: &Caller{Role: Owner}}
	if x.still(t.Context()) {
		t.Error("nothing to look at counts as good")
	}
	r := httptest.NewRequest("GET", "https://localhost/live", nil)
	r.Header.Set("Authorization", "Bearer t")
	x = &exchange{s: s, r: r, route: Route{Access: Read}}
	if err := x.admit(); err != nil || !x.still(t.Context()) {
		t.Fatalf("%v, still %v", err, x.still(t.Context()))
	}
	x.caller.Role = Operator // it was another one
	if x.still(t.Context()) {
		t.Error("a role that has changed counts as the same")
	}
	x.caller.Role = Owner
	if gone = true; x.still(t.Context()) {
		t.Error("a token that has been revoked counts as good")
	}
}

func TestConnectionsOfOnePeer(t *testing.T) {
	l := &boundedListener{}
	a, b := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	var leave func()
	for range maxConnsPeer {
		var ok bool
		if leave, ok = l.enter(a); !ok {
			t.Fatal("refused too early")
		}
	}
	if _, ok := l.enter(a); ok {
		t.Error("one peer has more than its share")
	}
	if _, ok := l.enter(b); !ok {
		t.Error("another peer is kept out")
	}
	leave()
	leave() // counts once
	if _, ok := l.enter(a); !ok {
		t.Error("a connection that has ended still counts")
	}
	if _, ok := l.enter(a); ok {
		t.Error("one that ended twice counts twice")
	}
	for l.open < maxConns {
		if _, ok := l.enter(netip.Prefix{}); !ok {
			t.Fatal("this machine is bounded by peer")
		}
	}
	if _, ok := l.enter(netip.Prefix{}); ok {
		t.Error("there is no bound over all")
	}
	for addr, want := range map[string]string{"192.0.2.7:1": "192.0.2.7/32", "[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64", "[::ffff:192.0.2.7]:1": "192.0.2.7/32", "127.0.0.1:1": "invalid Prefix", "[::1]:1": "invalid Prefix"} {
		if got := peerOf(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))).String(); got != want {
			t.Errorf("%s counts for %s, wanted %s", addr, got, want)
		}
	}
}

// deadlines notes what a handler sets.
type deadlines struct {
	*httptest.ResponseRecorder
	write time.Time
	reads []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }
func (d *deadlines) SetReadDeadline(t time.Time) error  { d.reads = append(d.reads, t); return nil }

// Who reads nothing holds a connection for a while only.
func TestSlowReaders(t *testing.T) {
	s := guarded(t, passport{}, nil)
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "https://localhost/signin", nil))
	if left := time.Until(w.write); left <= 0 || left > writeTime {
		t.Errorf("the answer may take %v", left)
	}
}

// Sending a body has a bound; what follows it has none: over HTTP/1 the server
// goes on reading, and a long answer would end with the body's deadline.
func TestBodyDeadline(t *testing.T) {
	s := guarded(t, passport{}, nil)
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "https://localhost/signin", nil))
	if len(w.reads) != 1 || !w.reads[0].IsZero() {
		t.Errorf("without a body: %v", w.reads)
	}
	w = &deadlines{ResponseRecorder: httptest.NewRecorder()}
	b := &timedBody{io.NopCloser(strings.NewReader("abc")), http.NewResponseController(w)}
	if _, err := io.ReadFull(b, make([]byte, 3)); err != nil || len(w.reads) != 0 {
		t.Errorf("within the body: %v, %v", w.reads, err)
	}
	if _, err := b.Read(make([]byte, 1)); err != io.EOF || len(w.reads) != 1 || !w.reads[0].IsZero() {
		t.Errorf("behind the body: %v, %v", w.reads, err)
	}
}
