package accounts

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"hearth/appliance/reach"
	"hearth/engine/infer"
	"hearth/web/admin"
)

const (
	// providerTime bounds a request to the provider, providerAnswer its answer.
	providerTime   = 10 * time.Second
	providerAnswer = 1 << 20
	// A provider is asked for its endpoints again after discoverEvery, and after
	// retryEvery where it could not be asked.
	discoverEvery = 24 * time.Hour
	retryEvery    = 5 * time.Second
)

// provider is the OpenID provider of the settings, once it has told its endpoints.
type provider struct {
	*oidc.Provider
	verifier *oidc.IDTokenVerifier
	client   *http.Client
	style    oauth2.AuthStyle // how the client shows its secret
	at       time.Time
}

// providerHolder finds the provider when it is first needed.
type providerHolder struct {
	mu     sync.Mutex // guards what follows; held while the provider is asked
	of     *Settings  // that it was found for; a reload gives others
	p      *provider
	failed time.Time
	err    error
}

func (h *providerHolder) get(ctx context.Context, s *Settings, now func() time.Time) (*provider, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == s && h.p != nil && now().Sub(h.p.at) < discoverEvery {
		return h.p, nil
	}
	if h.of == s && h.err != nil && now().Sub(h.failed) < retryEvery {
		return nil, h.err
	}
	if h.of != s {
		h.p = nil
	}
	p, err := discover(ctx, s, now)
	h.of, h.err = s, err
	if err != nil {
		h.failed = now()
		if h.p != nil {
			return h.p, nil // what it said yesterday does
		}
		return nil, err
	}
	h.p = p
	return p, nil
}

// discover asks the provider for its endpoints (OpenID Connect Discovery §4).
func discover(ctx context.Context, s *Settings, now func() time.Time) (*provider, error) {
	var roots *x509.CertPool
	if s.OIDC.CAFile != "" {
		b, err := s.read(s.OIDC.CAFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read admin.oidc.ca_file: %w", err)
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(b) {
			return nil, errors.New("cannot use admin.oidc.ca_file: it has no PEM certificate")
		}
	}
	c := &http.Client{
		Timeout: providerTime,
		Transport: boundedAnswers{&http.Transport{
			DialContext: (&net.Dialer{Timeout: providerTime, Control: reach.DialConfigured}).DialContext,
			Proxy:       http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: providerTime, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 2,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("it answers with a redirect, which is not followed")
		},
	}
	// The provider keeps the client beyond this request.
	p, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), c), s.OIDC.Issuer)
	if err != nil {
		return nil, fmt.Errorf("cannot ask the provider: %w", err)
	}
	var ends struct {
		Auth  string   `json:"authorization_endpoint"`
		Token string   `json:"token_endpoint"`
		Keys  string   `json:"jwks_uri"`
		Ways  []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := p.Claims(&ends); err != nil {
		return nil, err
	}
	for _, e := range []string{ends.Auth, ends.Token, ends.Keys} {
		if u, err := url.Parse(e); err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, errors.New("cannot use the provider: an endpoint of it is not at https")
		}
	}
	// In the header, unless the provider leaves that out (Discovery §3); found out
	// by trying, the code would be spent at the first try.
	style := oauth2.AuthStyleInHeader
	if s.OIDC.ClientSecret == "" || len(ends.Ways) > 0 && !slices.Contains(ends.Ways, "client_secret_basic") {
		style = oauth2.AuthStyleInParams
	}
	return &provider{p, p.Verifier(&oidc.Config{ClientID: s.OIDC.ClientID, Now: now}), c, style, now()}, nil
}

// boundedAnswers cuts what a provider sends.
type boundedAnswers struct{ http.RoundTripper }

func (b boundedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, providerAnswer), resp.Body}
	}
	return resp, err
}

// authorization is a sign-in through the provider that is under way.
type authorization struct {
	settings *Settings
	nonce    string
	verifier string // of PKCE (RFC 7636)
	redirect string
	then     string
	again    bool
}

// OIDCLabel is what stands on the button of the provider, empty without one.
func (a *Accounts) OIDCLabel() string {
	if o := a.settings.Load().OIDC; o.Issuer != "" {
		return o.Label
	}
	return ""
}

var errProvider = infer.Errorf(infer.CodeUnavailable, "the sign-in provider cannot be reached at the moment; the log tells more")

func (s *Settings) oauth(p *provider, redirect string) (*oauth2.Config, error) {
	c := &oauth2.Config{ClientID: s.OIDC.ClientID, Endpoint: p.Endpoint(), RedirectURL: redirect, Scopes: []string{oidc.ScopeOpenID}}
	for _, scope := range s.OIDC.Scopes {
		if !slices.Contains(c.Scopes, scope) {
			c.Scopes = append(c.Scopes, scope)
		}
	}
	c.Endpoint.AuthStyle = p.style
	var err error
	if s.OIDC.ClientSecret != "" {
		c.ClientSecret, err = s.referenced(s.OIDC.ClientSecret)
	}
	return c, err
}

// BeginOIDC gives the provider's address to send a browser to, and the secret that
// binds the sign-in to it. redirect is our callback as the browser sees it; then
// is where to go on; again asks for a new proof.
func (a *Accounts) BeginOIDC(ctx context.Context, redirect, then string, again bool) (to, binder string, err error) {
	s := a.settings.Load()
	if s.OIDC.Issuer == "" {
		return "", "", infer.Errorf(infer.CodeNotFound, "no sign-in provider is configured")
	}
	p, err := a.oidc.get(ctx, s, a.o.Now)
	if err == nil {
		var c *oauth2.Config
		if c, err = s.oauth(p, redirect); err == nil {
			az := &authorization{settings: s, nonce: newSecret(), verifier: oauth2.GenerateVerifier(), redirect: redirect, then: then, again: again}
			state := newSecret()
			binder = newSecret()
			a.doors.begin(state, binder, az)
			o := []oauth2.AuthCodeOption{oidc.Nonce(az.nonce), oauth2.S256ChallengeOption(az.verifier)}
			if again {
				o = append(o, oauth2.SetAuthURLParam("prompt", "login"))
			}
			return c.AuthCodeURL(state, o...), binder, nil
		}
	}
	a.o.Log.Error("sign-in through the provider cannot begin", "error", err)
	return "", "", errProvider
}

// FinishOIDC takes what the provider sent the browser back with and opens a
// session. binder is what BeginOIDC gave to that browser, old the secret of the
// session that it had.
func (a *Accounts) FinishOIDC(ctx context.Context, query url.Values, binder, peer, old string) (s *admin.Session, then string, err error) {
	t, wait := a.damper.attempt(networkOf(peer), "", false, false)
	if wait > 0 {
		return nil, "", tooMany(wait)
	}
	az, err := end[*authorization](a.doors, query.Get("state"), binder)
	if err != nil {
		return nil, "", err
	}
	who, err := a.authorized(ctx, az, query)
	if err != nil {
		var e *infer.Error
		if !errors.As(err, &e) {
			a.o.Log.Warn("a sign-in through the provider was refused", "error", err)
			err = infer.Errorf(infer.CodeUnauthorized, "the provider's answer is not accepted")
		}
		a.refused(ctx, "oidc", "", peer, infer.AsError(err).Message)
		return nil, "", err
	}
	t.good()
	ses := &session{Method: "oidc", Peer: peer, Issuer: az.settings.OIDC.Issuer, User: who.name, Role: who.role, Tenant: who.tenant}
	if !az.settings.OIDC.RequireAccount {
		s, err = a.begin(ctx, ses, nil, old)
		return s, az.then, err
	}
	s, err = a.signInSubject(ctx, who, ses, old)
	return s, az.then, err
}

// subject is who the provider says it is.
type subject struct {
	id     string // issuer and sub, which never change hands
	name   string
	role   admin.Role
	tenant string
}

// authorized exchanges the code and checks the ID token (OpenID Connect Core
// §3.1.3.7). Errors that are no *infer.Error are for the log.
func (a *Accounts) authorized(ctx context.Context, az *authorization, query url.Values) (*subject, error) {
	s := az.settings
	if code := query.Get("error"); code != "" {
		return nil, infer.Errorf(infer.CodeUnauthorized, "the provider refused: %.64q", code)
	}
	if iss := query.Get("iss"); iss != "" && iss != s.OIDC.Issuer { // RFC 9207
		return nil, errors.New("the answer comes from another issuer")
	}
	p, err := a.oidc.get(ctx, s, a.o.Now)
	if err != nil {
		a.o.Log.Error("the sign-in provider cannot be asked", "error", err)
		return nil, errProvider
	}
	c, err := s.oauth(p, az.redirect)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	tokens, err := c.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(az.verifier))
	if err != nil {
		var r *oauth2.RetrieveError
		if errors.As(err, &r) { // its text has the whole answer
			return nil, fmt.Errorf("the provider did not take the code: %d %.64q", r.Response.StatusCode, r.ErrorCode)
		}
		return nil, fmt.Errorf("the code cannot be exchanged: %w", err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	if raw == "" {
		return nil, errors.New("the provider gave no ID token")
	}
	id, err := p.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("the ID token is not good: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(az.nonce)) != 1 {
		return nil, errors.New("the ID token was made for another sign-in")
	}
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return nil, fmt.Errorf("the claims cannot be read: %w", err)
	}
	if azp, ok := claims["azp"]; (ok || len(id.Audience) > 1) && azp != s.OIDC.ClientID {
		return nil, errors.New("the ID token was given to another client")
	}
	if at, ok := claims["auth_time"].(float64); az.again && ok && a.o.Now().Sub(time.Unix(int64(at), 0)) > ceremonyLife {
		return nil, infer.Errorf(infer.CodeUnauthorized, "the provider did not ask for a new proof")
	}
	return s.subject(id, claims)
}

// subject maps claims to who it is here.
func (s *Settings) subject(id *oidc.IDToken, claims map[string]any) (*subject, error) {
	if id.Subject == "" {
		return nil, errors.New("the ID token has no subject")
	}
	if err := s.emailAllowed(claims); err != nil {
		return nil, err
	}
	w := &subject{id: id.Issuer + " " + id.Subject, name: printable(claims, s.OIDC.NameClaim)}
	if w.name == "" {
		w.name = printable(claims, "email")
	}
	if w.name == "" {
		w.name = printable(claims, "sub")
	}
	if w.name == "" {
		return nil, errors.New("the ID token names nobody")
	}
	if s.OIDC.RequireAccount {
		return w, nil
	}
	var have []admin.Role
	for _, v := range texts(claim(claims, s.OIDC.RoleClaim)) {
		if r, ok := s.OIDC.Roles[v]; ok {
			have = append(have, admin.Role(r))
		}
	}
	for _, r := range admin.Roles() { // the one that may most comes first
		if slices.Contains(have, r) {
			w.role = r
			break
		}
	}
	if w.role == "" {
		return nil, infer.Errorf(infer.CodeForbidden, "%.64s has no role here: ask the owner of this appliance", w.name)
	}
	if w.role == admin.TenantAdmin {
		if w.tenant = printable(claims, s.OIDC.TenantClaim); !s.hasTenant(w.tenant) {
			return nil, infer.Errorf(infer.CodeForbidden, "%.64s has no tenant here: ask the owner of this appliance", w.name)
		}
	}
	return w, nil
}

func (s *Settings) emailAllowed(claims map[string]any) error {
	if len(s.OIDC.EmailDomains) == 0 {
		return nil
	}
	email, _ := claims["email"].(string)
	verified := claims["email_verified"] == true || claims["email_verified"] == "true"
	_, domain, ok := strings.Cut(email, "@")
	if !ok || !verified || !slices.ContainsFunc(s.OIDC.EmailDomains, func(d string) bool { return strings.EqualFold(d, domain) }) {
		return infer.Errorf(infer.CodeForbidden, "your e-mail address is not verified, or of a domain that is not let in")
	}
	return nil
}

// claim finds a claim by name, or by a dotted path into objects.
func claim(claims map[string]any, path string) any {
	if v, ok := claims[path]; ok {
		return v
	}
	var v any = claims
	for _, part := range strings.Split(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[part]
	}
	return v
}

// texts are the values of a claim that is a text or a list of them.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			if t, ok := e.(string); ok {
				out = append(out, t)
			}
		}
		return out
	}
	return nil
}

// printable is a claim that can stand in a record, else nothing.
func printable(claims map[string]any, path string) string {
	t, _ := claim(claims, path).(string)
	if len(t) > 128 || !legible(t) || strings.ContainsRune(t, unicode.ReplacementChar) {
		return ""
	}
	return t
}

// signInSubject opens the session of the account that a subject has here. An
// account belongs to the subject that first came with its name: names change
// hands at a provider, subjects do not (OpenID Connect Core §5.7).
func (a *Accounts) signInSubject(ctx context.Context, who *subject, s *session, old string) (*admin.Session, error) {
	no := infer.Errorf(infer.CodeForbidden, "%.64s has no account here: ask the owner of this appliance", who.name)
	var ac *account
	a.mu.RLock()
	for _, o := range a.byID {
		if o.Subject == who.id {
			ac = o
		}
	}
	if ac == nil {
		if ac = a.byName[fold(who.name)]; ac != nil && ac.Subject != "" {
			ac = nil
		}
	}
	a.mu.RUnlock()
	if ac == nil || ac.Disabled {
		a.refused(ctx, "oidc", "", s.Peer, "no account")
		return nil, no
	}
	return a.signedIn(ctx, ac, s, old, func(now *account) error {
		if now.Subject != "" && now.Subject != who.id {
			return no
		}
		now.Subject = who.id
		return nil
	})
}
