package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"hearth/appliance/reach"
	"hearth/policy"
	"hearth/web/jsonread"
)

// Words of OAuth 2.0: RFC 8693 (token exchange) and RFC 7523 (JWT bearer).
const (
	grantExchange  = "urn:ietf:params:oauth:grant-type:token-exchange"
	grantJWT       = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	typeJWT        = "urn:ietf:params:oauth:token-type:jwt"
	typeAccess     = "urn:ietf:params:oauth:token-type:access_token"
	assertionJWT   = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	maxTokenAnswer = 1 << 20
)

// issuer asks token endpoints. It has connections of its own: they lead
// elsewhere than to the provider, and are rare.
type issuer struct{ client *http.Client }

func newIssuer(u *Upstream) *issuer {
	dial := u.o.Dial
	if dial == nil {
		dial = (&net.Dialer{Control: reach.DialConfigured}).DialContext
	}
	return &issuer{&http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: defaultConnect, MaxResponseHeaderBytes: maxHead},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       tokenTimeout,
	}}
}

// configuredURL checks token_url, whose scheme the policy has judged.
func configuredURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", errors.New("cannot use token_url: want https:// with a host")
	}
	return s, nil
}

// tokenURL checks the address of a token endpoint that a credential names:
// secrets go there, so it is HTTPS or this machine.
func tokenURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return "", errors.New("cannot use token_url: want https:// with a host")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
		return s, nil
	}
	return "", errors.New("cannot use token_url: want https://; plain http only to this machine")
}

// post sends a form, or a JSON body with a bearer, and reads a JSON object. The
// error names the status and OAuth's error word, nothing else of the answer.
func (i *issuer) post(ctx context.Context, to, contentType, bearer string, body string) (jsonread.Value, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return jsonread.Value{}, errors.New("cannot make a request to the token endpoint")
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := i.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the address and its query
		}
		return jsonread.Value{}, fmt.Errorf("cannot reach the token endpoint: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenAnswer+1))
	if err != nil || len(text) > maxTokenAnswer {
		return jsonread.Value{}, errors.New("cannot read the answer of the token endpoint")
	}
	v, perr := jsonread.Parse(text, jsonread.Limits{})
	if resp.StatusCode != http.StatusOK {
		word := ""
		if perr == nil {
			word = errorWord(v)
		}
		return jsonread.Value{}, fmt.Errorf("the token endpoint refused: status %d%s", resp.StatusCode, word)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); perr != nil || v.Kind() != jsonread.Object {
		return jsonread.Value{}, fmt.Errorf("cannot read the answer of the token endpoint: got %.40q, want a JSON object", kind)
	}
	return v, nil
}

// errorWord is OAuth's error code (RFC 6749, section 5.2), which is one of a few
// words and holds nothing of the request.
func errorWord(v jsonread.Value) string {
	m, ok := v.Get("error")
	if !ok {
		return ""
	}
	s, err := m.Str()
	if err != nil || len(s) > 64 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return ""
	}
	return ", " + s
}

// grant asks for an access token with a form.
func (i *issuer) grant(ctx context.Context, to string, form url.Values, now time.Time) (Secret, time.Time, error) {
	v, err := i.post(ctx, to, "application/x-www-form-urlencoded", "", form.Encode())
	if err != nil {
		return Secret{}, time.Time{}, err
	}
	return accessToken(v, "access_token", now)
}

// accessToken reads a token and how long it lives (RFC 6749, section 5.1).
func accessToken(v jsonread.Value, name string, now time.Time) (Secret, time.Time, error) {
	m, ok := v.Get(name)
	if !ok {
		return Secret{}, time.Time{}, fmt.Errorf("cannot read the answer of the token endpoint: it has no %s", name)
	}
	text, err := m.Str()
	if err != nil {
		return Secret{}, time.Time{}, fmt.Errorf("cannot read the answer of the token endpoint: its %s is no string", name)
	}
	s, err := newSecret([]byte(text))
	if err != nil {
		return Secret{}, time.Time{}, fmt.Errorf("cannot use the token: %w", err)
	}
	life := tokenShort
	if m, ok := v.Get("expires_in"); ok {
		if n, err := m.Int(1, 30*24*3600); err == nil {
			life = time.Duration(n) * time.Second
		}
	}
	if m, ok := v.Get("expireTime"); ok { // Google's way
		if text, err := m.Str(); err == nil {
			if t, err := time.Parse(time.RFC3339, text); err == nil {
				return s, t, nil
			}
		}
	}
	return s, now.Add(life), nil
}

// tokenSource is a source of tokens that are exchanged and kept.
type tokenSource struct {
	tokens[Secret]
	from   source // what is exchanged
	mu     sync.Mutex
	raised Secret // the value of from that the kept token was got for
}

func (t *tokenSource) get(ctx context.Context) (Secret, error) {
	s, err := t.from.get(ctx)
	if err != nil {
		// The identity may be away for a moment while it is replaced.
		return t.tokens.get(ctx)
	}
	t.mu.Lock()
	if t.raised != (Secret{}) && t.raised != s {
		t.tokens.renewNow() // it was rotated
	}
	t.raised = s
	t.mu.Unlock()
	return t.tokens.get(ctx)
}

func (t *tokenSource) forget() { t.from.forget(); t.tokens.forget() }
func (t *tokenSource) close()  { t.tokens.close(); t.from.close() }

// exchanged trades the identity token in src for an access token.
func exchanged(u *Upstream, c *policy.UpstreamConfig, src source) (source, error) {
	if c.TokenURL == "" {
		return nil, errors.New("cannot exchange an identity token without token_url")
	}
	to, err := configuredURL(c.TokenURL)
	if err != nil {
		return nil, err
	}
	issue := newIssuer(u)
	return newTokenSource(u, src, func(ctx context.Context, subject Secret) (Secret, time.Time, error) {
		form := url.Values{
			"grant_type": {grantExchange}, "subject_token": {subject.value}, "subject_token_type": {typeJWT}, "requested_token_type": {typeAccess},
		}
		set(form, "audience", c.Audience)
		set(form, "scope", c.Scope)
		set(form, "client_id", c.ClientID)
		return issue.grant(ctx, to, form, u.o.Now())
	}), nil
}

func set(form url.Values, key, value string) {
	if value != "" {
		form.Set(key, value)
	}
}

// newTokenSource keeps what fetch makes of the value of src.
func newTokenSource(u *Upstream, src source, fetch func(context.Context, Secret) (Secret, time.Time, error)) *tokenSource {
	t := &tokenSource{from: src}
	t.now = u.o.Now
	t.fetch = func(ctx context.Context) (Secret, time.Time, error) {
		s, err := src.get(ctx)
		if err != nil {
			return Secret{}, time.Time{}, err
		}
		return fetch(ctx, s)
	}
	return t
}
