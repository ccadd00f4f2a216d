package upstream

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

const (
	googleScope = "https://www.googleapis.com/auth/cloud-platform"
	googleGrant = "https://oauth2.googleapis.com/token"
	googleSTS   = "https://sts.googleapis.com/v1/token"
	googleIAM   = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
)

// placeVertex gives the paths of Vertex AI. Google's own models and Anthropic's
// are below their publishers; a model "vendor/name" is spoken to in OpenAI's
// dialect.
func placeVertex(e *endpoint, dialect, model string, o *wire.Outgoing) (string, error) {
	base := e.path
	if i := strings.Index(base, "/projects/"); i >= 0 {
		base = base[:i]
	}
	if base == "" {
		base = "/v1"
	}
	base += "/projects/" + e.project + "/locations/" + or(e.region, "global")
	switch dialect {
	case dialectAnthropic:
		verb := ":rawPredict"
		if strings.Contains(o.Path, "count_tokens") {
			return base + "/publishers/anthropic/models/count-tokens" + verb, nil
		}
		if o.Stream {
			verb = ":streamRawPredict"
		}
		return base + "/publishers/anthropic/models/" + url.PathEscape(model) + verb, nil
	case dialectGemini:
		return base + o.Path, nil // the client writes it relative to the region
	}
	return base + "/endpoints/openapi" + strings.TrimPrefix(o.Path, "/v1"), nil
}

// rewriteVertex moves what Anthropic's dialect has elsewhere on Vertex AI: the
// model is in the path, the version in the body.
func rewriteVertex(dialect string, o *wire.Outgoing, _ http.Header) ([]byte, error) {
	if dialect != dialectAnthropic {
		return o.Body, nil
	}
	drop := []string{"model"}
	if strings.Contains(o.Path, "count_tokens") {
		drop = nil // there the path names no model
	}
	return restated(o.Body, `"anthropic_version":"vertex-2023-10-16"`, drop)
}

// restated is a body with other members at its head, without those of drop and
// without those that are put in.
func restated(body []byte, head string, drop []string) ([]byte, error) {
	var c jsonread.Cursor
	c.Reset(body)
	if k, ok := c.Kind(); !ok || k != jsonread.Object {
		return nil, infer.Invalid("", "cannot pass the request on: its body is not an object")
	}
	out := append(append(make([]byte, 0, len(body)+len(head)+2), '{'), head...)
	for ok := c.Object(); ok && c.More(); {
		raw := c.Key()
		key := jsonread.Unescape(raw)
		value := c.Raw()
		if key == "anthropic_version" || slices.Contains(drop, key) {
			continue
		}
		out = jsonwrite.String(append(out, ','), key)
		out = append(append(out, ':'), value...)
	}
	if !c.End() {
		return nil, infer.Invalid("", "cannot pass the request on: its body is not an object")
	}
	return append(out, '}'), nil
}

// vertexClient chooses by the model's name, which tells its publisher.
func (u *Upstream) vertexClient(model string, r *infer.Request) (wire.Client, error) {
	dialect := dialectGemini
	switch {
	case strings.HasPrefix(model, "claude"):
		dialect = dialectAnthropic
	case strings.Contains(model, "/"):
		dialect = dialectChat
	}
	for _, c := range u.clients {
		if c.Dialect() == dialect && serves(dialect, r.Kind) {
			return c, nil
		}
	}
	return nil, infer.Unsupported("model", "the provider of this model does not serve this kind of request")
}

// googleToken sends an access token of Google Cloud as a bearer. The credential
// is a service account's key (JSON), an external account's configuration (JSON),
// an access token, or an identity token to be exchanged (oidc-file).
func googleToken(u *Upstream, c *policy.UpstreamConfig, ref string, src source) (signer, error) {
	g := &google{u: u, c: c, issue: newIssuer(u), identity: ref == "oidc-file"}
	if g.identity && c.Audience == "" {
		return nil, errors.New("cannot exchange an identity token without audience: the full name of the workload identity provider, //iam.googleapis.com/projects/…")
	}
	if c.TokenURL != "" {
		if _, err := configuredURL(c.TokenURL); err != nil {
			return nil, err
		}
	}
	return &keyHeader{name: "Authorization", before: "Bearer ", source: newTokenSource(u, src, g.fetch)}, nil
}

type google struct {
	u        *Upstream
	c        *policy.UpstreamConfig
	issue    *issuer
	identity bool
}

func (g *google) fetch(ctx context.Context, s Secret) (Secret, time.Time, error) {
	if g.identity {
		return g.federated(ctx, s, g.c.Audience, googleSTS, typeJWT, g.c.ClientID)
	}
	if !strings.HasPrefix(s.value, "{") {
		return s, g.u.o.Now().Add(tokenShort), nil // a token as it is; read again when it changes
	}
	v, err := jsonread.Parse([]byte(s.value), jsonread.Limits{})
	if err != nil {
		return Secret{}, time.Time{}, errors.New("cannot read the credential as JSON")
	}
	switch kind := member(v, "type"); kind {
	case "service_account":
		return g.serviceAccount(ctx, v)
	case "external_account":
		return g.externalAccount(ctx, v)
	default:
		return Secret{}, time.Time{}, fmt.Errorf("cannot use a credential of type %.32q: want service_account or external_account", kind)
	}
}

// member is a string member of a credential file, or empty.
func member(v jsonread.Value, name string) string {
	m, ok := v.Get(name)
	if !ok {
		return ""
	}
	s, _ := m.Str()
	return s
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// serviceAccount signs a JWT with the account's key and trades it for a token
// (RFC 7523, section 2.1).
func (g *google) serviceAccount(ctx context.Context, v jsonread.Value) (Secret, time.Time, error) {
	to, err := g.endpoint(or(member(v, "token_uri"), googleGrant))
	if err != nil {
		return Secret{}, time.Time{}, err
	}
	key, err := rsaKey(member(v, "private_key"))
	if err != nil {
		return Secret{}, time.Time{}, err
	}
	now := g.u.o.Now()
	jwt, err := signJWT(key, member(v, "private_key_id"), claims{
		issuer: member(v, "client_email"), scope: or(g.c.Scope, googleScope), audience: or(g.c.Audience, to), issued: now.Unix(), expires: now.Add(time.Hour).Unix(),
	})
	if err != nil {
		return Secret{}, time.Time{}, err
	}
	return g.issue.grant(ctx, to, url.Values{"grant_type": {grantJWT}, "assertion": {jwt}}, now)
}

// externalAccount trades the identity token of a file that the configuration
// names. Other sources of it (URLs, programs) are not used: they would let a
// credential file start programs and ask addresses.
func (g *google) externalAccount(ctx context.Context, v jsonread.Value) (Secret, time.Time, error) {
	none := func(format string, args ...any) (Secret, time.Time, error) {
		return Secret{}, time.Time{}, fmt.Errorf("cannot use the external account: "+format, args...)
	}
	from, ok := v.Get("credential_source")
	if !ok || member(from, "file") == "" {
		return none("want credential_source.file")
	}
	path := member(from, "file")
	if !filepath.IsAbs(path) {
		return none("want an absolute path in credential_source.file")
	}
	raw, err := readBounded(path, maxSecret)
	if err != nil {
		return none("%w", err)
	}
	if form, ok := from.Get("format"); ok && member(form, "type") == "json" {
		inner, err := jsonread.Parse(raw, jsonread.Limits{})
		if err != nil {
			return none("its file is no JSON")
		}
		raw = []byte(member(inner, member(form, "subject_token_field_name")))
	}
	subject, err := newSecret(raw)
	if err != nil {
		return none("its token: %w", err)
	}
	account := ""
	if url := member(v, "service_account_impersonation_url"); url != "" {
		// Only the account's name is taken out of the address.
		_, rest, _ := strings.Cut(url, "/serviceAccounts/")
		if account, _, _ = strings.Cut(rest, ":"); account == "" {
			return none("cannot read service_account_impersonation_url")
		}
	}
	to := or(member(v, "token_url"), googleSTS)
	return g.federated(ctx, subject, or(g.c.Audience, member(v, "audience")), to, or(member(v, "subject_token_type"), typeJWT), or(g.c.ClientID, account))
}

// endpoint is the configured token endpoint, or else the one that the credential
// names.
func (g *google) endpoint(named string) (string, error) {
	if g.c.TokenURL != "" {
		return configuredURL(g.c.TokenURL)
	}
	return tokenURL(named)
}

// federated trades an identity token at Google's token service (RFC 8693), then,
// if an account is named, that for a token of the account.
func (g *google) federated(ctx context.Context, subject Secret, audience, to, kind, account string) (Secret, time.Time, error) {
	to, err := g.endpoint(to)
	if err != nil {
		return Secret{}, time.Time{}, err
	}
	now := g.u.o.Now()
	form := url.Values{
		"grant_type": {grantExchange}, "requested_token_type": {typeAccess}, "subject_token_type": {kind}, "subject_token": {subject.value},
		"audience": {audience}, "scope": {or(g.c.Scope, googleScope)},
	}
	s, end, err := g.issue.grant(ctx, to, form, now)
	if err != nil || account == "" {
		return s, end, err
	}
	body := jsonwrite.String([]byte(`{"scope":[`), or(g.c.Scope, googleScope))
	body = append(body, `],"lifetime":"3600s"}`...)
	at := googleIAM
	if i := strings.Index(to, "/v1/token"); i > 0 && !strings.HasPrefix(to, "https://sts.googleapis.com/") {
		at = to[:i] + "/v1/projects/-/serviceAccounts/" // a private endpoint serves both
	}
	v, err := g.issue.post(ctx, at+url.PathEscape(account)+":generateAccessToken", "application/json", s.value, string(body))
	if err != nil {
		return Secret{}, time.Time{}, err
	}
	return accessToken(v, "accessToken", now)
}

func rsaKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("cannot read private_key: want PEM")
	}
	if k, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return k, nil
	}
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if k, ok := any.(*rsa.PrivateKey); err == nil && ok {
		return k, nil
	}
	return nil, errors.New("cannot read private_key: want an RSA key")
}

type claims struct {
	issuer, scope, audience string
	issued, expires         int64
}

// signJWT makes a JWT signed with RS256 (RFC 7515, RFC 7518 section 3.3).
func signJWT(key *rsa.PrivateKey, id string, c claims) (string, error) {
	head := []byte(`{"alg":"RS256","typ":"JWT"`)
	if id != "" {
		head = jsonwrite.String(append(head, `,"kid":`...), id)
	}
	head = append(head, '}')
	body := jsonwrite.String([]byte(`{"iss":`), c.issuer)
	body = jsonwrite.String(append(body, `,"scope":`...), c.scope)
	body = jsonwrite.String(append(body, `,"aud":`...), c.audience)
	body = jsonwrite.Int(append(body, `,"iat":`...), c.issued)
	body = jsonwrite.Int(append(body, `,"exp":`...), c.expires)
	body = append(body, '}')
	enc := base64.RawURLEncoding
	text := enc.EncodeToString(head) + "." + enc.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", errors.New("cannot sign with the private key")
	}
	return text + "." + enc.EncodeToString(sig), nil
}

// geminiKey sends the key in Google's header, or as a bearer on the routes of
// OpenAI's dialect, which the Gemini API has too.
func geminiKey(u *Upstream, c *policy.UpstreamConfig, ref string, src source) (signer, error) {
	if ref == "oidc-file" {
		return googleToken(u, c, ref, src)
	}
	return &geminiSigner{keyHeader{name: "X-Goog-Api-Key", source: src}, keyHeader{name: "Authorization", before: "Bearer ", source: src}}, nil
}

type geminiSigner struct{ own, openAI keyHeader }

func (g *geminiSigner) sign(ctx context.Context, req *http.Request, body []byte) error {
	if strings.Contains(req.URL.Path, "/openai/") {
		return g.openAI.sign(ctx, req, body)
	}
	return g.own.sign(ctx, req, body)
}

func (g *geminiSigner) refused() { g.own.refused() }
func (g *geminiSigner) close()   { g.own.close() }

// placeGemini gives the paths of the Gemini API.
func placeGemini(e *endpoint, dialect, _ string, o *wire.Outgoing) (string, error) {
	if dialect == dialectGemini {
		return join(e.path, "", dialect, o.Path), nil
	}
	base := strings.TrimSuffix(strings.TrimSuffix(e.path, "/openai"), "/v1beta")
	return base + "/v1beta/openai" + o.Path, nil
}
