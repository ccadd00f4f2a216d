package accounts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/web/admin"
)

// issuer is an OpenID provider that says what a test tells it to.
type issuer struct {
	t      *testing.T
	server *httptest.Server
	key    *ecdsa.PrivateKey
	now    func() time.Time
	codes  map[string]url.Values // what the authorization request had, by code
	// What it does.
	claims  map[string]any              // added to, or in place of, what is right
	sign    func(claims []byte) string  // in place of its key
	token   func(w http.ResponseWriter) // in place of the token answer
	secret  string                      // that the client must show
	refused int
}

func newIssuer(t *testing.T, w *world) *issuer {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, key: k, now: w.now, codes: map[string]url.Values{}, claims: map[string]any{}, secret: "cAnArY-client-secret"}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.server.URL, "authorization_endpoint": i.server.URL + "/authorize",
			"token_endpoint": i.server.URL + "/token", "jwks_uri": i.server.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256", "none", "HS256"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &i.key.PublicKey, KeyID: "k1", Algorithm: "ES256", Use: "sig"}}})
	})
	mux.HandleFunc("POST /token", i.exchange)
	i.server = httptest.NewTLSServer(mux)
	t.Cleanup(i.server.Close)
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.server.Certificate().Raw})
	for name, text := range map[string]string{"idp.pem": string(ca), "secret": i.secret + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.Configure(Settings{Idle: time.Hour, Lifetime: 12 * time.Hour, Tenants: []string{"default", "lab"}, Folder: dir, OIDC: config.SignInOIDC{
		Issuer: i.server.URL, ClientID: "hearth", ClientSecret: "file:secret", CAFile: "idp.pem", Label: "Company sign-in",
		Scopes: []string{"profile", "email"}, NameClaim: "preferred_username", RoleClaim: "realm_access.roles", TenantClaim: "tenant",
		Roles: map[string]string{"ai-admins": "owner", "ai-read": "auditor", "ai-lab": "tenant-admin"},
	}})
	return i
}

// authorize is what the provider's page does: a code for what was asked.
func (i *issuer) authorize(to string) url.Values {
	u, err := url.Parse(to)
	if err != nil || !strings.HasPrefix(to, i.server.URL+"/authorize?") {
		i.t.Fatalf("sent to %q, %v", to, err)
	}
	q := u.Query()
	if q.Get("code_challenge_method") != "S256" || len(q.Get("nonce")) != 43 || len(q.Get("state")) != 43 || q.Get("scope") != "openid profile email" || q.Get("response_type") != "code" {
		i.t.Errorf("asked for %v", q)
	}
	code := fmt.Sprint("code-", len(i.codes))
	i.codes[code] = q
	return url.Values{"code": {code}, "state": {q.Get("state")}}
}

func (i *issuer) exchange(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	asked, ok := i.codes[r.PostFormValue("code")]
	user, secret, basic := r.BasicAuth()
	if !basic {
		user, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || user != "hearth" || secret != i.secret || asked.Get("redirect_uri") != r.PostFormValue("redirect_uri") ||
		asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(challenge[:]) {
		i.refused++
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant"}`)
		return
	}
	delete(i.codes, r.PostFormValue("code"))
	if i.token != nil {
		i.token(w)
		return
	}
	claims := map[string]any{"iss": i.server.URL, "aud": "hearth", "sub": "42", "nonce": asked.Get("nonce"), "preferred_username": "dora",
		"iat": i.now().Unix(), "exp": i.now().Add(time.Minute).Unix(), "realm_access": map[string]any{"roles": []string{"other", "ai-read"}}}
	for k, v := range i.claims {
		if claims[k] = v; v == nil {
			delete(claims, k)
		}
	}
	b, _ := json.Marshal(claims)
	sign := i.sign
	if sign == nil {
		sign = func(b []byte) string { return i.signed(jose.ES256, i.key, b) }
	}
	json.NewEncoder(w).Encode(map[string]any{"access_token": "cAnArY-access", "token_type": "Bearer", "id_token": sign(b)})
}

func (i *issuer) signed(alg jose.SignatureAlgorithm, key any, b []byte) string {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "k1"))
	if err != nil {
		i.t.Fatal(err)
	}
	j, err := s.Sign(b)
	if err != nil {
		i.t.Fatal(err)
	}
	out, _ := j.CompactSerialize()
	return out
}

const callback = "https://box.example:8444/signin/oidc/callback"

// through signs in at the provider; spoil changes what the browser brings back.
func (w *world) through(i *issuer, spoil func(q url.Values, binder *string)) (*admin.Session, error) {
	w.t.Helper()
	to, binder, err := w.BeginOIDC(w.ctx, callback, "/keys", false)
	if err != nil {
		w.t.Fatal(err)
	}
	q := i.authorize(to)
	if spoil != nil {
		spoil(q, &binder)
	}
	s, then, err := w.FinishOIDC(w.ctx, q, binder, peer, "")
	if err == nil && then != "/keys" {
		w.t.Errorf("goes on at %q", then)
	}
	return s, err
}

func TestOIDC(t *testing.T) {
	w := newWorld(t)
	i := newIssuer(t, w)
	if w.OIDCLabel() != "Company sign-in" {
		t.Error("no button")
	}
	s, err := w.through(i, nil)
	if err != nil || s.User != "dora" || s.Role != admin.Auditor || s.Method != "oidc" || s.Account != "" || !s.Fresh {
		t.Fatalf("%+v, %v", s, err)
	}
	i.claims["realm_access"] = map[string]any{"roles": []string{"ai-read", "ai-admins"}}
	if s, err := w.through(i, nil); err != nil || s.Role != admin.Owner {
		t.Errorf("%+v, %v", s, err)
	}
	i.claims["realm_access"], i.claims["tenant"] = map[string]any{"roles": "ai-lab"}, "lab"
	if s, err := w.through(i, nil); err != nil || s.Role != admin.TenantAdmin || s.Tenant != "lab" {
		t.Errorf("%+v, %v", s, err)
	}
	// Another key at the provider is fetched.
	i.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.pass(time.Hour / 2)
	if _, err := w.through(i, nil); err != nil {
		t.Errorf("after the provider's key has changed: %v", err)
	}
	w.reopen()
	if w.in(s) {
		t.Error("a session of a provider that is configured no more is good")
	}
	if all := w.mem.everything() + w.trail() + w.log.String(); strings.Contains(all, "cAnArY") {
		t.Errorf("a secret is kept or logged: %s", all)
	}
}

func TestOIDCRefusals(t *testing.T) {
	w := newWorld(t)
	i := newIssuer(t, w)
	other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	none := func(b []byte) string {
		return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(b) + "."
	}
	for name, c := range map[string]struct {
		claims map[string]any
		sign   func([]byte) string
		token  func(http.ResponseWriter)
		spoil  func(q url.Values, binder *string)
		want   infer.Code
	}{
		"another issuer":       {claims: map[string]any{"iss": "https://evil.example"}},
		"another audience":     {claims: map[string]any{"aud": "somebody"}},
		"no audience":          {claims: map[string]any{"aud": nil}},
		"two audiences":        {claims: map[string]any{"aud": []string{"hearth", "other"}}},
		"another party":        {claims: map[string]any{"azp": "other"}},
		"expired":              {claims: map[string]any{"exp": w.now().Add(-time.Second).Unix()}},
		"no expiry":            {claims: map[string]any{"exp": nil}},
		"not yet":              {claims: map[string]any{"nbf": w.now().Add(time.Hour).Unix()}},
		"another nonce":        {claims: map[string]any{"nonce": "x"}},
		"no nonce":             {claims: map[string]any{"nonce": nil}},
		"no subject":           {claims: map[string]any{"sub": nil}},
		"alg none":             {sign: none},
		"another key":          {sign: func(b []byte) string { return i.signed(jose.ES256, other, b) }},
		"HMAC by public key":   {sign: func(b []byte) string { return i.signed(jose.HS256, []byte(strings.Repeat("k", 32)), b) }},
		"no signature":         {sign: func(b []byte) string { s := i.signed(jose.ES256, i.key, b); return s[:strings.LastIndexByte(s, '.')+1] }},
		"no token":             {token: func(w http.ResponseWriter) { fmt.Fprint(w, `{"access_token":"x","token_type":"Bearer"}`) }},
		"junk":                 {token: func(w http.ResponseWriter) { fmt.Fprint(w, `<html>`) }},
		"a huge answer":        {token: func(w http.ResponseWriter) { fmt.Fprint(w, `{"access_token":"`, strings.Repeat("x", 4<<20), `"}`) }},
		"a redirect":           {token: func(w http.ResponseWriter) { w.Header().Set("Location", "https://evil.example/"); w.WriteHeader(307) }},
		"another state":        {spoil: func(q url.Values, _ *string) { q.Set("state", strings.Repeat("A", 43)) }},
		"no state":             {spoil: func(q url.Values, _ *string) { q.Del("state") }},
		"another browser":      {spoil: func(_ url.Values, b *string) { *b = "" }},
		"a planted browser":    {spoil: func(_ url.Values, b *string) { *b = newSecret() }},
		"another code":         {spoil: func(q url.Values, _ *string) { q.Set("code", "code-x") }},
		"another issuer's way": {spoil: func(q url.Values, _ *string) { q.Set("iss", "https://evil.example") }},
		"an error":             {spoil: func(q url.Values, _ *string) { q.Set("error", "access_denied") }},
		"too late":             {spoil: func(url.Values, *string) { w.pass(ceremonyLife) }},
		"no role":              {claims: map[string]any{"realm_access": nil}, want: infer.CodeForbidden},
		"unknown roles":        {claims: map[string]any{"realm_access": map[string]any{"roles": []any{"x", 1, nil}}}, want: infer.CodeForbidden},
		"no tenant":            {claims: map[string]any{"realm_access": map[string]any{"roles": "ai-lab"}}, want: infer.CodeForbidden},
		"unknown tenant":       {claims: map[string]any{"realm_access": map[string]any{"roles": "ai-lab"}, "tenant": "nowhere"}, want: infer.CodeForbidden},
	} {
		w.pass(time.Hour) // heals what the damper has counted
		if v, ok := c.claims["exp"]; ok && v != nil {
			c.claims["exp"] = w.now().Add(-time.Second).Unix()
		}
		if _, ok := c.claims["nbf"]; ok {
			c.claims["nbf"] = w.now().Add(time.Hour).Unix()
		}
		i.claims, i.sign, i.token = c.claims, c.sign, c.token
		if c.want == "" {
			c.want = infer.CodeUnauthorized
		}
		if _, err := w.through(i, c.spoil); code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(w.Sessions(nil)) != 0 {
		t.Error("somebody is in")
	}
	// What has been used is not good again.
	i.claims, i.sign, i.token = nil, nil, nil
	w.pass(time.Hour)
	to, binder, _ := w.BeginOIDC(w.ctx, callback, "/", false)
	q := i.authorize(to)
	if _, _, err := w.FinishOIDC(w.ctx, q, binder, peer, ""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.FinishOIDC(w.ctx, q, binder, peer, ""); err == nil {
		t.Error("a state works twice")
	}
	if all := w.mem.everything() + w.trail() + w.log.String(); strings.Contains(all, "cAnArY") {
		t.Error("a secret is kept or logged")
	}
}

func TestOIDCDomainsAndAccounts(t *testing.T) {
	w := newWorld(t)
	i := newIssuer(t, w)
	s := *w.settings.Load()
	s.OIDC.EmailDomains = []string{"company.example"}
	w.Configure(s)
	for email, c := range map[string]struct{ verified, ok bool }{
		"d@company.example": {true, true}, "d@COMPANY.example": {true, true}, "e@company.example": {false, false},
		"d@evil.example": {true, false}, "d@company.example@evil.example": {true, false}, "company.example": {true, false}, "d@sub.company.example": {true, false},
	} {
		w.pass(time.Hour)
		i.claims = map[string]any{"email": email, "email_verified": c.verified}
		if _, err := w.through(i, nil); (err == nil) != c.ok {
			t.Errorf("%s: %v", email, err)
		}
	}
	s.OIDC.EmailDomains, s.OIDC.RequireAccount, s.OIDC.Roles = nil, true, nil
	w.Configure(s)
	w.pass(time.Hour)
	i.claims = nil
	if _, err := w.through(i, nil); code(err) != infer.CodeForbidden {
		t.Errorf("without an account: %v", err)
	}
	if _, err := w.Create(w.ctx, "Dora", admin.Operator, ""); err != nil {
		t.Fatal(err)
	}
	if in, err := w.through(i, nil); err != nil || in.User != "Dora" || in.Role != admin.Operator || in.Account == "" {
		t.Fatalf("%+v, %v", in, err)
	}
	// The name has changed hands: the account stays with who had it first.
	i.claims = map[string]any{"sub": "43"}
	if _, err := w.through(i, nil); code(err) != infer.CodeForbidden {
		t.Errorf("another subject of the same name: %v", err)
	}
	i.claims = map[string]any{"preferred_username": "dora-married"}
	if in, err := w.through(i, nil); err != nil || in.User != "Dora" {
		t.Errorf("%+v, %v", in, err)
	}
	if _, err := w.Update(w.ctx, "Dora", Change{Disabled: ptr(true)}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.through(i, nil); code(err) != infer.CodeForbidden {
		t.Errorf("disabled: %v", err)
	}
}

// A provider that is away, or not who it says, keeps nobody else out.
func TestOIDCAway(t *testing.T) {
	w := newWorld(t)
	i := newIssuer(t, w)
	w.make("alice", admin.Owner, "")
	s := *w.settings.Load()
	for name, spoil := range map[string]func(o *config.SignInOIDC){
		"untrusted":  func(o *config.SignInOIDC) { o.CAFile = "" },
		"no roots":   func(o *config.SignInOIDC) { o.CAFile = "missing.pem" },
		"no secret":  func(o *config.SignInOIDC) { o.ClientSecret = "env:NOT_SET" },
		"elsewhere":  func(o *config.SignInOIDC) { o.Issuer += "/realm" },
		"not served": func(o *config.SignInOIDC) { o.Issuer = "https://127.0.0.1:1" },
	} {
		bad := s
		spoil(&bad.OIDC)
		w.Configure(bad)
		if _, _, err := w.BeginOIDC(w.ctx, callback, "/", false); code(err) != infer.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.signIn("alice")
	w.Configure(s)
	if _, err := w.through(i, nil); err != nil {
		t.Errorf("back again: %v", err)
	}
}
