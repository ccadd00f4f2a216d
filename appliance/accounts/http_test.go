package accounts

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"hearth/appliance/config"
	"hearth/web/admin"
)

// service is the accounts as the control plane stands on them.
type service struct{ *Accounts }

func (service) Play(http.ResponseWriter, *http.Request, *admin.Caller, string) {}

// site is the control plane over TLS with two operations.
type site struct {
	*world
	base string
	done int // changes made
}

type nothing struct{}

func newSite(t *testing.T) *site {
	s := &site{world: newWorld(t)}
	op := func(name, method string, access admin.Access, fresh bool, run func()) *admin.Operation {
		return &admin.Operation{Name: name, Method: method, Path: "/" + name, Summary: name, Access: access, Fresh: fresh,
			In: reflect.TypeFor[nothing](), Out: reflect.TypeFor[nothing](), Run: func(context.Context, any) (any, error) { run(); return nothing{}, nil }}
	}
	web, err := admin.New(admin.Options{Service: service{s.Accounts}, Now: s.now, API: func() string { return "" }, Operations: admin.NewRegistry(
		op("test/change", "POST", admin.Own, true, func() { s.done++ }), op("test/read", "GET", admin.Read, false, func() {}))})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := s.issue(nil, nil)
	served := make(chan error)
	go func() {
		served <- web.Serve(l, &tls.Config{ClientAuth: tls.RequestClientCert, Certificates: []tls.Certificate{{Certificate: [][]byte{own.cert.Raw}, PrivateKey: own.key}}})
	}()
	t.Cleanup(func() { web.Close(); <-served })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s.base = "https://localhost:" + port
	return s
}

// browser keeps cookies as they are given and follows nothing.
type browser struct {
	s       *site
	cookies map[string]*http.Cookie
	head    map[string]string
	cert    *signer
}

func (s *site) browser() *browser {
	return &browser{s: s, cookies: map[string]*http.Cookie{}, head: map[string]string{"Sec-Fetch-Site": "same-origin"}}
}

type reply struct {
	*http.Response
	body string
}

func (b *browser) send(method, path, kind, body string) reply {
	b.s.t.Helper()
	r, err := http.NewRequest(method, b.s.base+path, strings.NewReader(body))
	if err != nil {
		b.s.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	if kind != "" {
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Origin", b.s.base)
	}
	if kind == "application/json" {
		r.Header.Set("Accept", kind)
	}
	for k, v := range b.head {
		r.Header.Set(k, v)
	}
	for _, c := range b.cookies {
		r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
	}
	tc := &tls.Config{InsecureSkipVerify: true}
	if b.cert != nil {
		tc.Certificates = []tls.Certificate{{Certificate: [][]byte{b.cert.cert.Raw}, PrivateKey: b.cert.key}}
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: tc, DialContext: func(ctx context.Context, n, _ string) (net.Conn, error) {
		u, _ := url.Parse(b.s.base)
		return (&net.Dialer{}).DialContext(ctx, n, "127.0.0.1:"+u.Port())
	}}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer c.CloseIdleConnections()
	resp, err := c.Do(r)
	if err != nil {
		b.s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.s.t.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c
		}
		if !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" || !strings.HasPrefix(c.Name, "__Host-") {
			b.s.t.Errorf("cookie %s", c.Raw)
		}
	}
	return reply{resp, string(text)}
}

func (b *browser) get(path string) reply { return b.send("GET", path, "", "") }

func (b *browser) post(path string, fields ...string) reply {
	v := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		v.Set(fields[i], fields[i+1])
	}
	return b.send("POST", path, "application/x-www-form-urlencoded", v.Encode())
}

func (b *browser) json(path string, v any) reply {
	body, err := json.Marshal(v)
	if err != nil {
		b.s.t.Fatal(err)
	}
	return b.send("POST", path, "application/json", string(body))
}

const sessionCookie = "__Host-hearth-admin"

func (b *browser) secret() string {
	if c := b.cookies[sessionCookie]; c != nil {
		return c.Value
	}
	return ""
}

// in says whether the browser is signed in.
func (b *browser) in() bool { return b.get("/api/test/read").StatusCode == http.StatusOK }

func (r reply) want(t *testing.T, what string, status int, location string) {
	t.Helper()
	if r.StatusCode != status || r.Header.Get("Location") != location {
		t.Errorf("%s: got %d to %q, wanted %d to %q: %.300s", what, r.StatusCode, r.Header.Get("Location"), status, location, r.body)
	}
}

// From the link on the console to an owner, without a script.
func TestFirstRunInABrowser(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	b.get("/").want(t, "nobody owns it", 303, "/setup")
	b.get("/signin").want(t, "nobody can sign in", 303, "/setup")
	if r := b.get("/setup"); r.StatusCode != 200 || !strings.Contains(r.body, `name="token"`) {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	b.post("/setup", "token", "wrong").want(t, "a wrong token", 401, "")
	b.post("/setup", "name", "eve", "password", good, "repeated", good).want(t, "an owner without a link", 401, "")
	token, _, err := s.NewSetUp(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	planted := s.browser()
	planted.cookies[sessionCookie] = &http.Cookie{Name: sessionCookie, Value: strings.Repeat("A", 43)}
	planted.post("/setup", "token", token).want(t, "the link", 303, "/setup")
	b = planted
	link := b.secret()
	if link == strings.Repeat("A", 43) || b.cookies[sessionCookie].SameSite != http.SameSiteStrictMode {
		t.Error("a planted secret was kept, or the cookie is not strict")
	}
	s.browser().post("/setup", "token", token).want(t, "the link again", 401, "")
	if r := b.get("/setup"); !strings.Contains(r.body, `name="password"`) || strings.Contains(r.body, `name="token"`) {
		t.Error("the page does not ask who the owner is")
	}
	if r := b.post("/setup", "name", "alice", "password", "short", "repeated", "short"); r.StatusCode != 400 || !strings.Contains(r.body, "at least 12") || !strings.Contains(r.body, `value="alice"`) {
		t.Errorf("a short password: %d", r.StatusCode)
	}
	b.post("/setup", "name", "alice", "password", good, "repeated", good+"x").want(t, "two passwords", 400, "")
	b.post("/setup", "name", "alice", "password", good, "repeated", good).want(t, "the owner", 303, "/setup/certificate")
	if b.secret() == link || !b.in() {
		t.Error("the secret stayed the same, or is not good")
	}
	b.cookies[sessionCookie].Value = link
	if b.in() {
		t.Error("the link's session lives on")
	}
	b.post("/signout").want(t, "sign-out of what is gone", 303, "/signin")
}

func TestSignInInABrowser(t *testing.T) {
	s := newSite(t)
	s.make("alice", admin.Owner, "")
	b := s.browser()
	b.get("/?x=1").want(t, "not in", 303, "/signin?then=%2F%3Fx%3D1")
	r := b.post("/signin", "name", "alice", "password", "wrong and secret")
	if r.StatusCode != 401 || strings.Contains(r.body, "wrong and secret") || !strings.Contains(r.body, `value="alice"`) {
		t.Errorf("a wrong password: %d %s", r.StatusCode, r.body)
	}
	for then, want := range map[string]string{
		"/keys?a=b": "/keys?a=b", "": "/", "https://evil.example/": "/", "//evil.example": "/", `/\evil.example`: "/", "/\t/evil.example": "/",
		"javascript:alert(1)": "/", "keys": "/", "/%0d%0aSet-Cookie:x": "/%0d%0aSet-Cookie:x",
	} {
		s.browser().post("/signin", "name", "alice", "password", good, "then", then).want(t, "then "+then, 303, want)
		b := s.browser()
		b.post("/signin", "name", "alice", "password", good)
		b.get("/signin?then="+url.QueryEscape(then)).want(t, "in already, then "+then, 303, want)
	}
	mallory := s.browser()
	mallory.post("/signin", "name", "alice", "password", good)
	planted := mallory.secret()
	b.cookies[sessionCookie] = &http.Cookie{Name: sessionCookie, Value: planted}
	b.post("/signin", "name", "alice", "password", good).want(t, "sign-in", 303, "/")
	if b.secret() == planted || !b.in() || mallory.in() {
		t.Error("a session from before the sign-in is good after it")
	}
	secret := b.secret()
	b.post("/signout").want(t, "sign-out", 303, "/signin")
	b.cookies[sessionCookie] = &http.Cookie{Name: sessionCookie, Value: secret}
	if b.in() {
		t.Error("good after the sign-out")
	}
	for _, path := range []string{"/signin", "/setup"} {
		h := s.browser().get(path).Header
		if !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") || h.Get("X-Frame-Options") != "DENY" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s may be framed or kept: %v", path, h)
		}
	}
}

// Other sites, and others on the same site, can change nothing.
func TestCrossSite(t *testing.T) {
	s := newSite(t)
	s.make("alice", admin.Owner, "")
	b := s.browser()
	b.post("/signin", "name", "alice", "password", good)
	token, _, _ := s.NewSetUp(s.ctx)
	for _, head := range []map[string]string{
		{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "cross-site", "Origin": "null"},
		{"Sec-Fetch-Site": "", "Origin": "https://evil.example"}, {"Sec-Fetch-Site": "", "Origin": "null"},
	} {
		b.head = head
		for _, r := range []reply{
			b.post("/signin", "name", "alice", "password", good), b.post("/setup", "token", token), b.post("/signout"),
			b.json("/signin/passkey/begin", nothing{}), b.json("/signin/passkey/finish", nothing{}), b.json("/setup/passkey/begin", nothing{}), b.json("/setup/passkey/finish", nothing{}),
			b.post("/do/test/change"), b.json("/api/test/change", nothing{}),
		} {
			if r.StatusCode != http.StatusForbidden {
				t.Errorf("%v: %s answers %d", head, r.Request.URL.Path, r.StatusCode)
			}
		}
	}
	b.head = map[string]string{"Sec-Fetch-Site": "same-origin"}
	if !b.in() || s.done != 0 {
		t.Errorf("signed in: %v, %d changes", b.in(), s.done)
	}
	if _, err := s.Redeem(s.ctx, token, peer, ""); err != nil {
		t.Error("the link was spent by another site")
	}
	b.post("/do/test/change").want(t, "our own page", 303, "/?done=test%2Fchange")
}

func TestGuessingInABrowser(t *testing.T) {
	s := newSite(t)
	s.make("alice", admin.Owner, "")
	b := s.browser()
	last := 0
	for range 12 {
		r := b.post("/signin", "name", "alice", "password", "not the password")
		if last = r.StatusCode; last == http.StatusTooManyRequests {
			if n := r.Header.Get("Retry-After"); n == "" || n == "0" {
				t.Errorf("Retry-After: %q", n)
			}
			break
		}
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("the twelfth guess answers %d", last)
	}
}

// What would let a thief of a session stay asks for a new proof, which changes
// the secret.
func TestProofAgain(t *testing.T) {
	s := newSite(t)
	s.make("alice", admin.Owner, "")
	b := s.browser()
	b.post("/signin", "name", "alice", "password", good)
	s.pass(20 * time.Minute)
	b.post("/do/test/change", "_back", "/keys").want(t, "after a while", 303, "/signin?again=1&then=%2Fkeys")
	if r := b.json("/api/test/change", nothing{}); r.StatusCode != 403 || !strings.Contains(r.body, `"reauthenticate"`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := b.get("/signin?again=1&then=/keys"); r.StatusCode != 200 || !strings.Contains(r.body, "alice") || !strings.Contains(r.body, `name="again"`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	before := b.secret()
	b.post("/signin", "again", "1", "password", "wrong", "then", "/keys").want(t, "a wrong proof", 401, "")
	b.post("/signin", "again", "1", "password", good, "then", "/keys").want(t, "the proof", 303, "/keys")
	if b.secret() == before {
		t.Error("the secret is the same")
	}
	b.post("/do/test/change", "_back", "/keys").want(t, "right after", 303, "/keys?done=test%2Fchange")
	n, err := s.CreateToken(s.ctx, "alice", "ci", "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	script := s.browser()
	script.head = map[string]string{"Authorization": "Bearer " + n.Secret}
	if !script.in() {
		t.Error("the token is refused")
	}
	if r := script.json("/api/test/change", nothing{}); r.StatusCode != 403 || s.done != 1 {
		t.Errorf("a token did it: %d", r.StatusCode)
	}
	script.head = map[string]string{"Authorization": "Bearer " + n.Secret + "x"}
	if script.in() {
		t.Error("a wrong token is taken")
	}
}

func TestPasskeyInABrowser(t *testing.T) {
	s := newSite(t)
	token, _, _ := s.NewSetUp(s.ctx)
	b := s.browser()
	b.post("/setup", "token", token)
	a := newAuthenticator(t)
	a.origin, a.rp = s.base, "localhost"
	challenge := func(r reply) (c admin.Challenge) {
		t.Helper()
		if err := json.Unmarshal([]byte(r.body), &c); err != nil || c.Ticket == "" {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
		c.Options = bytes.Replace(c.Options, []byte(`"id":"localhost"`), []byte(`"id":"box.example"`), 1)
		return c
	}
	c := challenge(b.json("/setup/passkey/begin", map[string]string{"name": "alice"}))
	r := b.json("/setup/passkey/finish", map[string]any{"ticket": c.Ticket, "credential": json.RawMessage(a.create(c))})
	if r.StatusCode != 200 || !strings.Contains(r.body, `"/setup/certificate"`) || !b.in() {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	b = s.browser()
	c = challenge(b.json("/signin/passkey/begin", nothing{}))
	r = b.json("/signin/passkey/finish", map[string]any{"ticket": c.Ticket, "credential": json.RawMessage(a.get(c)), "then": "https://evil.example"})
	if r.StatusCode != 200 || !strings.Contains(r.body, `{"to":"/"}`) || !b.in() {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	b.head = map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}
	b.json("/signin/passkey/begin", nothing{}).want(t, "another origin", 403, "")
	b.head = map[string]string{}
	b.send("POST", "/signin/passkey/finish", "application/x-www-form-urlencoded", "ticket=x").want(t, "a form", 415, "")
}

func TestOIDCInABrowser(t *testing.T) {
	s := newSite(t)
	i := newIssuer(t, s.world)
	i.claims = map[string]any{"realm_access": map[string]any{"roles": "ai-admins"}}
	b := s.browser()
	if r := b.get("/signin"); !strings.Contains(r.body, "Company sign-in") {
		t.Error("no button")
	}
	r := b.get("/signin/oidc?then=//evil.example")
	binder := b.cookies["__Host-hearth-oidc"]
	if r.StatusCode != 303 || binder == nil || binder.SameSite != http.SameSiteLaxMode || binder.MaxAge != 300 {
		t.Fatalf("%d, %v", r.StatusCode, binder)
	}
	to := r.Header.Get("Location")
	if !strings.Contains(to, url.QueryEscape(s.base+"/signin/oidc/callback")) {
		t.Errorf("sent to %s", to)
	}
	q := i.authorize(to).Encode()
	// The provider's page leads back: another site, and no strict cookie with it.
	b.head = map[string]string{"Sec-Fetch-Site": "cross-site"}
	s.browser().get("/signin/oidc/callback?"+q).want(t, "another browser", 401, "")
	b.get("/signin/oidc/callback?"+q).want(t, "a state that was spent", 401, "")
	b.head = map[string]string{"Sec-Fetch-Site": "same-origin"}
	q = i.authorize(b.get("/signin/oidc?then=/keys").Header.Get("Location")).Encode()
	b.head = map[string]string{"Sec-Fetch-Site": "cross-site"}
	r = b.get("/signin/oidc/callback?" + q)
	if r.StatusCode != 200 || !strings.Contains(r.body, `http-equiv="refresh" content="0;url=/keys"`) || b.cookies["__Host-hearth-oidc"] != nil {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if !b.in() {
		t.Error("not in")
	}
}

func TestCertificateInABrowser(t *testing.T) {
	s := newSite(t)
	s.make("alice", admin.Owner, "")
	dir := t.TempDir()
	ca := s.issue(nil, nil)
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Configure(Settings{Idle: time.Hour, Lifetime: time.Hour, Folder: dir, Peers: config.SignInCertificate{CAFile: "ca.pem",
		Users: []config.CertificateUser{{Match: "uri:spiffe://box/ops", Name: "ops", Role: "owner"}}}})
	b := s.browser()
	if b.in() {
		t.Error("in without a certificate")
	}
	b.cert = s.issue(ca, uris("spiffe://box/ops"))
	if !b.in() {
		t.Error("not in with a certificate")
	}
	b.json("/api/test/change", nothing{}).want(t, "a change", 200, "")
	b.head = map[string]string{"Sec-Fetch-Site": "cross-site"}
	b.json("/api/test/change", nothing{}).want(t, "a change from another site", 403, "")
	b.head = nil
	b.cert = s.issue(ca, uris("spiffe://box/other"))
	b.json("/api/test/change", nothing{}).want(t, "another's certificate", 401, "")
	if r := b.get("/signin"); r.StatusCode != 200 {
		t.Errorf("a certificate that is not taken keeps out of the sign-in: %d", r.StatusCode)
	}
	if s.done != 1 {
		t.Errorf("%d changes", s.done)
	}
}
