package identity

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"hearth/appliance/config"
	"hearth/policy"
)

// Bounds of a token, in bytes.
const (
	maxToken     = 12 << 10
	maxHeader    = 2 << 10
	maxSignature = 1 << 10
	maxSubject   = 1 << 10
)

// Token finds the caller behind a bearer token. peer is the client certificate of
// the connection, nil if there is none. The error is ErrRefused, or an
// *infer.Error: CodeForbidden for who has proved who it is and is nobody here,
// CodeUnavailable where keys are not to be had. The identity is shared.
func (s *Set) Token(ctx context.Context, token string, peer *x509.Certificate) (*policy.Identity, error) {
	if len(token) > maxToken {
		return nil, ErrRefused
	}
	digest, now := sha256.Sum256([]byte(token)), s.o.Now()
	if v := s.tokens.get(digest); v != nil {
		if now.Before(v.until) && v.comesWith(peer) && v.src.keys.usable() != nil && v.id.Live() {
			return v.id, nil
		}
		// It may be good still by another key or another identity.
	}
	t, err := parse(token)
	if err != nil {
		return nil, ErrRefused
	}
	gen := s.tokens.generation()
	worst := error(ErrRefused)
	for _, src := range *s.sources.Load() {
		if src.keys == nil || !src.issued(t) {
			continue
		}
		v, err := src.verify(ctx, t, now)
		if err == nil && !v.comesWith(peer) {
			err = ErrRefused
		}
		if err == nil {
			s.tokens.put(gen, digest, v, now)
			return v.id, nil
		}
		if !errors.Is(err, ErrRefused) {
			worst = err
		}
	}
	return nil, worst
}

// comesWith holds a token to the certificate that it is bound to (RFC 8705
// section 3.1).
func (v *verified) comesWith(peer *x509.Certificate) bool {
	return v.bound == "" || peer != nil && v.bound == thumbprint(peer)
}

func thumbprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// signed is a token whose signature nobody has looked at yet.
type signed struct {
	compact       string
	alg, kid, typ string
	claims        map[string]any
}

// strict refuses what other readers of base64 read in another way.
var strict = base64.RawURLEncoding.Strict()

// misleading are members of a header (RFC 7515, 7516, 7797) that bring a key
// along, or say where one is, or change what is signed. None is needed, and none
// is followed.
var misleading = []string{"crit", "b64", "jwk", "jku", "x5u", "x5c", "zip", "enc", "cty", "epk", "p2s", "p2c"}

// parse takes a token in compact form apart (RFC 7515 section 3.1).
func parse(token string) (*signed, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(parts[0]) > maxHeader || len(parts[2]) > maxSignature || parts[2] == "" {
		return nil, ErrRefused
	}
	var raw [3][]byte
	for i, p := range parts {
		if strings.ContainsAny(p, "\r\n") { // which the decoder would skip
			return nil, ErrRefused
		}
		var err error
		if raw[i], err = strict.DecodeString(p); err != nil {
			return nil, err
		}
	}
	head, err := readObject(raw[0])
	if err != nil {
		return nil, err
	}
	for _, name := range misleading {
		if _, ok := head[name]; ok {
			return nil, ErrRefused
		}
	}
	t := &signed{compact: token}
	for name, into := range map[string]*string{"alg": &t.alg, "kid": &t.kid, "typ": &t.typ} {
		v, ok := head[name]
		if !ok {
			continue
		}
		if *into, ok = v.(string); !ok || *into == "" || len(*into) > maxKeyID {
			return nil, ErrRefused
		}
	}
	if !slices.Contains(config.TokenAlgorithms(), t.alg) {
		return nil, ErrRefused
	}
	t.claims, err = readObject(raw[1])
	return t, err
}

// text gives a claim that must be text; empty where it is absent.
func (t *signed) text(name string) (string, error) {
	v, ok := t.claims[name]
	if !ok {
		return "", nil
	}
	s, ok := v.(string)
	if !ok || s == "" {
		return "", ErrRefused
	}
	return s, nil
}

// issued says whether a token claims to be of this issuer. It is not proved.
func (src *source) issued(t *signed) bool {
	if src.conf.Issuer != "" {
		iss, _ := t.claims["iss"].(string)
		return iss == src.conf.Issuer
	}
	sub, _ := t.claims["sub"].(string)
	_, ok := spiffePath(sub, src.conf.TrustDomain)
	return ok
}

// verify proves that a token is the issuer's, that it is for us and good now, and
// finds whose it is.
func (src *source) verify(ctx context.Context, t *signed, now time.Time) (*verified, error) {
	if !slices.Contains(src.conf.Algorithms, t.alg) || !src.typed(t.typ) {
		return nil, ErrRefused
	}
	// What needs no key comes first: it costs less than a signature.
	until, err := src.timely(t, now)
	if err != nil {
		return nil, err
	}
	if !src.addressed(t) {
		return nil, ErrRefused
	}
	by, err := src.signature(ctx, t)
	if err != nil {
		return nil, err
	}
	bound, err := t.binding()
	if err != nil {
		return nil, err
	}
	id, err := src.subject(t)
	if err != nil {
		return nil, err
	}
	id.Live = func() bool { return !src.closed.Load() && src.keys.trusts(by) }
	return &verified{id: id, until: until, bound: bound, src: src}, nil
}

// typed judges the typ, so that a token of the issuer for another purpose does
// not count (RFC 8725 section 3.11).
func (src *source) typed(typ string) bool {
	short := func(s string) string { return strings.TrimPrefix(strings.ToLower(s), "application/") }
	typ = short(typ)
	if src.conf.Type != "" {
		return typ == short(src.conf.Type)
	}
	return slices.Contains([]string{"", "jwt", "jose", "at+jwt"}, typ)
}

// timely gives the time at which a token ends, which must be told (RFC 8725
// section 3.10 leaves it open; who cannot be revoked must expire).
func (src *source) timely(t *signed, now time.Time) (until time.Time, err error) {
	leeway := src.conf.Leeway.Std()
	exp, ok, err := t.date("exp")
	if err != nil || !ok || !now.Before(exp.Add(leeway)) {
		return until, ErrRefused
	}
	nbf, ok, err := t.date("nbf")
	if err != nil || ok && now.Add(leeway).Before(nbf) {
		return until, ErrRefused
	}
	iat, ok, err := t.date("iat")
	if err != nil || ok && now.Add(leeway).Before(iat) {
		return until, ErrRefused
	}
	if !ok {
		iat = now
	}
	if exp.Sub(iat) > src.conf.MaxLifetime.Std() {
		return until, ErrRefused
	}
	return exp.Add(leeway), nil
}

// date reads a NumericDate (RFC 7519 section 2).
func (t *signed) date(name string) (at time.Time, ok bool, err error) {
	v, ok := t.claims[name]
	if !ok {
		return at, false, nil
	}
	n, ok := v.(json.Number)
	if !ok {
		return at, false, ErrRefused
	}
	f, err := n.Float64()
	if err != nil || f < 0 || f > 1<<36 {
		return at, false, ErrRefused
	}
	whole, part := math.Modf(f)
	return time.Unix(int64(whole), int64(part*1e9)), true, nil
}

// addressed says whether one of the audiences is ours.
func (src *source) addressed(t *signed) bool {
	var list []any
	switch aud := t.claims["aud"].(type) {
	case string:
		list = []any{aud}
	case []any:
		list = aud
	}
	ours := false
	for _, a := range list {
		s, ok := a.(string)
		if !ok {
			return false
		}
		ours = ours || slices.Contains(src.conf.Audiences, s)
	}
	return ours
}

// signature finds the key that a token is signed by.
func (src *source) signature(ctx context.Context, t *signed) (*key, error) {
	candidates, err := src.keys.find(ctx, t.kid, t.alg)
	if err != nil {
		return nil, err
	}
	jws, err := jose.ParseSignedCompact(t.compact, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(t.alg)})
	if err != nil {
		return nil, ErrRefused
	}
	for _, k := range candidates {
		if _, err := jws.Verify(k.public); err == nil {
			return k, nil
		}
	}
	return nil, ErrRefused
}

// binding is the thumbprint of the certificate that a token is bound to. A token
// that is bound to something else cannot be used: the proof would not be asked
// for (RFC 7800 section 3.1).
func (t *signed) binding() (string, error) {
	cnf, ok := t.claims["cnf"]
	if !ok {
		return "", nil
	}
	m, ok := cnf.(map[string]any)
	bound, text := m["x5t#S256"].(string)
	if !ok || !text || bound == "" || len(m) != 1 {
		return "", ErrRefused
	}
	return bound, nil
}

// subject finds out who a token that is genuine speaks of.
func (src *source) subject(t *signed) (*policy.Identity, error) {
	sub, err := t.text(src.conf.SubjectClaim)
	if err != nil || sub == "" || len(sub) > maxSubject || strings.ContainsFunc(sub, control) {
		return nil, ErrRefused
	}
	f := &claims{members: t.claims}
	if src.conf.TrustDomain != "" {
		id, err := t.text("sub")
		if err != nil {
			return nil, err
		}
		var ok bool
		if f.path, ok = spiffePath(id, src.conf.TrustDomain); !ok {
			return nil, errForbidden()
		}
	}
	tenant, grants, ok := src.rules.apply(f)
	if !ok {
		return nil, errForbidden()
	}
	return src.identity(policy.KindToken, tenant, sub, grants), nil
}

func (src *source) identity(kind policy.Kind, tenant, subject string, g policy.Grants) *policy.Identity {
	segment := policy.Subject(subject)
	return &policy.Identity{
		KeyID: policy.CallerID(kind, src.conf.Name, tenant, segment), Name: src.conf.Name + ":" + segment,
		Tenant: tenant, Kind: kind, Source: src.conf.Name, Grants: g,
	}
}

// control are characters that no subject has which a person has seen.
func control(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' }
