package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/policy"
)

func TestGoodTokens(t *testing.T) {
	s := open(t, jwtTable(t, allKeys(), nil))
	for _, c := range []struct{ alg, key string }{
		{"RS256", "rsa"}, {"RS384", "rsa"}, {"RS512", "rsa"}, {"PS256", "rsa"}, {"PS384", "rsa"}, {"PS512", "rsa"},
		{"ES256", "p256"}, {"ES384", "p384"}, {"ES512", "p521"}, {"EdDSA", "ed"},
	} {
		id, err := s.Token(t.Context(), compact(c.alg, c.key, header(c.alg, c.key), goodClaims()), nil)
		if err != nil || id.KeyID != "jwt/staff/acme/alice" || id.Tenant != "acme" || id.Kind != policy.KindToken || !id.Live() {
			t.Errorf("%s: got %+v, %v", c.alg, id, err)
		}
	}
	for what, token := range map[string]string{
		"no typ":              compact("ES256", "p256", with(header("ES256", "p256"), "typ", nil), goodClaims()),
		"access token":        compact("ES256", "p256", with(header("ES256", "p256"), "typ", "application/AT+JWT"), goodClaims()),
		"several audiences":   good("aud", []string{"other", "hearth"}),
		"no kid, one fits":    compact("ES384", "p384", with(header("ES384", "p384"), "kid", nil), goodClaims()),
		"expired by less":     good("exp", testNow.Unix()-29, "iat", testNow.Unix()-700),
		"not before, by less": good("nbf", testNow.Unix()+29),
		"fraction":            good("exp", float64(testNow.Unix())+60.5),
		"no iat":              good("iat", nil),
		"other members":       good("groups", []string{"a", "b"}, "realm_access", map[string]any{"roles": []string{"x"}}),
	} {
		if _, err := s.Token(t.Context(), token, nil); err != nil {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// badTokens are tokens that must be refused, each for one reason.
func badTokens() map[string]string {
	claims := goodClaims()
	token := good()
	part := strings.Split(token, ".")
	raw := func(header, claims string) string { return compact("ES256", "p256", header, claims) }
	head := func(pairs ...any) string {
		return compact("ES256", "p256", with(header("ES256", "p256"), pairs...), claims)
	}
	js, _ := json.Marshal(claims)
	cut := strings.TrimSuffix(string(js), "}")
	p256 := testKeys()["p256"].Public().(*ecdsa.PublicKey)
	spki, _ := x509.MarshalPKIXPublicKey(testKeys()["rsa"].Public())
	rsaPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki})
	mac := func(alg string, secret []byte, by func([]byte, string) []byte) string {
		in := b64.EncodeToString([]byte(`{"alg":"`+alg+`","kid":"rsa"}`)) + "." + part[1]
		return in + "." + b64.EncodeToString(by(secret, in))
	}
	withSig := func(sig []byte) string { return part[0] + "." + part[1] + "." + b64.EncodeToString(sig) }
	sig, _ := b64.DecodeString(part[2])
	flipped := bytes.Clone(sig)
	flipped[40] ^= 1
	n := p256.Curve.Params().N.Bytes()
	zero, one := make([]byte, 32), append(make([]byte, 31), 1)
	now := testNow.Unix()
	return map[string]string{
		// Algorithms.
		"alg none":               b64.EncodeToString([]byte(`{"alg":"none"}`)) + "." + part[1] + ".",
		"alg None":               b64.EncodeToString([]byte(`{"alg":"None"}`)) + "." + part[1] + "." + part[2],
		"alg nOnE with kid":      b64.EncodeToString([]byte(`{"alg":"nOnE","kid":"p256"}`)) + "." + part[1] + ".",
		"alg empty":              head("alg", ""),
		"alg missing":            head("alg", nil),
		"alg null":               raw(`{"alg":null,"kid":"p256"}`, string(js)),
		"alg list":               raw(`{"alg":["ES256"],"kid":"p256"}`, string(js)),
		"alg lower case":         head("alg", "es256"),
		"alg with a space":       head("alg", "ES256 "),
		"alg unknown":            head("alg", "ES256K"),
		"HS256 with the RSA PEM": mac("HS256", rsaPEM, hs256),
		"HS256 with the DER":     mac("HS256", spki, hs256),
		"HS256 with the modulus": mac("HS256", testKeys()["rsa"].Public().(*rsa.PublicKey).N.Bytes(), hs256),
		"HS256 with nothing":     mac("HS256", nil, hs256),
		"HS512 with the PEM":     mac("HS512", rsaPEM, hs512),
		"A128KW":                 head("alg", "A128KW"),
		"RSA1_5":                 head("alg", "RSA1_5"),
		"dir":                    head("alg", "dir", "enc", "A128GCM"),
		"ES384 header on P-256":  head("alg", "ES384"),
		"ES256 by P-384":         compact("ES256", "p384", with(header("ES256", "p384")), claims),
		"ES256 by P-521 key":     compact("ES256", "p521", header("ES256", "p521"), claims),
		"RS256 names an EC key":  compact("RS256", "rsa", header("RS256", "p256"), claims),
		"ES256 names an RSA key": compact("ES256", "p256", header("ES256", "rsa"), claims),
		"PS256 signed as RS256":  compact("RS256", "rsa", header("PS256", "rsa"), claims),
		"RS256 signed as PS256":  compact("PS256", "rsa", header("RS256", "rsa"), claims),
		"RS384 signed as RS256":  compact("RS256", "rsa", header("RS384", "rsa"), claims),
		"EdDSA names an EC key":  compact("EdDSA", "ed", header("EdDSA", "p256"), claims),
		"RSA of 1024 bits":       compact("RS256", "small", header("RS256", "small"), claims),
		// Keys.
		"kid of nobody":        head("kid", "p257"),
		"kid of another key":   compact("ES256", "other", header("ES256", "p256"), claims),
		"kid empty":            head("kid", ""),
		"kid number":           raw(`{"alg":"ES256","kid":256}`, string(js)),
		"kid path":             head("kid", "../../../../dev/null"),
		"kid SQL":              head("kid", "x' UNION SELECT 'key"),
		"kid oversized":        head("kid", strings.Repeat("p", 600)),
		"kid in another case":  head("kid", "P256"),
		"no kid, several fit":  compact("RS256", "small", map[string]any{"alg": "RS256"}, claims),
		"own key, embedded":    compact("ES256", "other", with(header("ES256", "other"), "jwk", jwk("other", nil)), claims),
		"good key, with jwk":   head("jwk", jwk("p256", nil)),
		"jku":                  head("jku", "https://login.example.com/jwks"),
		"jku of somebody else": compact("ES256", "other", with(header("ES256", "other"), "jku", "https://evil.example/jwks"), claims),
		"x5u":                  head("x5u", "https://login.example.com/c.pem"),
		"x5c":                  head("x5c", []string{"MIIB"}),
		// Headers.
		"crit":                 head("crit", []string{"exp"}),
		"crit empty":           head("crit", []string{}),
		"crit of b64":          head("crit", []string{"b64"}, "b64", true),
		"b64 false":            head("b64", false),
		"zip":                  head("zip", "DEF"),
		"cty: nested":          head("cty", "JWT"),
		"enc":                  head("enc", "A256GCM"),
		"typ of another kind":  head("typ", "logout+jwt"),
		"typ DPoP":             head("typ", "dpop+jwt"),
		"typ number":           raw(`{"alg":"ES256","kid":"p256","typ":1}`, string(js)),
		"header twice":         raw(`{"alg":"none","alg":"ES256","kid":"p256"}`, string(js)),
		"header escaped twice": raw(`{"alg":"ES256","\u0061lg":"none","kid":"p256"}`, string(js)),
		"header in capitals":   raw(`{"ALG":"ES256","KID":"p256"}`, string(js)),
		"header list":          raw(`["ES256"]`, string(js)),
		"header text":          raw(`"ES256"`, string(js)),
		"header empty":         raw(`{}`, string(js)),
		"header trailing":      raw(`{"alg":"ES256","kid":"p256"}{}`, string(js)),
		"header huge":          head("x", strings.Repeat("x", 4000)),
		"header deep":          raw(`{"alg":"ES256","kid":"p256","x":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}`, string(js)),
		"header no UTF-8":      raw("{\"alg\":\"ES256\",\"kid\":\"p256\",\"x\":\"\xff\"}", string(js)),
		"header BOM":           raw("\ufeff"+`{"alg":"ES256","kid":"p256"}`, string(js)),
		// Who and for whom.
		"issuer other":          good("iss", "https://evil.example"),
		"issuer missing":        good("iss", nil),
		"issuer with a slash":   good("iss", "https://login.example.com/"),
		"issuer in capitals":    good("iss", "https://LOGIN.example.com"),
		"issuer list":           good("iss", []string{"https://login.example.com"}),
		"issuer of look-alikes": good("iss", "https://login.ехample.com"),
		"audience other":        good("aud", "other"),
		"audience missing":      good("aud", nil),
		"audience empty":        good("aud", []string{}),
		"audience in an object": good("aud", map[string]any{"hearth": true}),
		"audience prefix":       good("aud", "hearth2"),
		"audience with numbers": good("aud", []any{"hearth", 1}),
		"audience null":         good("aud", []any{nil}),
		"subject missing":       good("sub", nil),
		"subject empty":         good("sub", ""),
		"subject number":        good("sub", 7),
		"subject list":          good("sub", []string{"alice"}),
		"subject oversized":     good("sub", strings.Repeat("a", 2000)),
		"subject with NUL":      good("sub", "alice\x00"),
		"subject with newline":  good("sub", "alice\nbob"),
		"subject half a letter": raw(`{"alg":"ES256","kid":"p256"}`, strings.Replace(string(js), "alice", `\ud800`, 1)),
		// When.
		"expired":          good("exp", now-31, "iat", now-600),
		"exp missing":      good("exp", nil),
		"exp null":         raw(`{"alg":"ES256","kid":"p256"}`, strings.Replace(string(js), fmt.Sprint(now+600), "null", 1)),
		"exp text":         good("exp", fmt.Sprint(now+600)),
		"exp negative":     good("exp", -1),
		"exp far":          good("exp", now+10*365*86400),
		"exp endless":      raw(`{"alg":"ES256","kid":"p256"}`, strings.Replace(string(js), fmt.Sprint(now+600), "1e400", 1)),
		"exp in an array":  good("exp", []int64{now + 600}),
		"nbf in future":    good("nbf", now+31),
		"nbf text":         good("nbf", "now"),
		"iat in future":    good("iat", now+31),
		"iat too long ago": good("iat", now-2*86400),
		// Claims.
		"claims twice":         raw(`{"alg":"ES256","kid":"p256"}`, cut+`,"sub":"bob"}`),
		"claims escaped twice": raw(`{"alg":"ES256","kid":"p256"}`, cut+`,"\u0073ub":"bob"}`),
		"claims twice, deep":   raw(`{"alg":"ES256","kid":"p256"}`, cut+`,"x":{"a":1,"a":2}}`),
		"claims list":          raw(`{"alg":"ES256","kid":"p256"}`, `[]`),
		"claims text":          raw(`{"alg":"ES256","kid":"p256"}`, `"alice"`),
		"claims none":          raw(`{"alg":"ES256","kid":"p256"}`, ``),
		"claims trailing":      raw(`{"alg":"ES256","kid":"p256"}`, string(js)+"x"),
		"claims many":          raw(`{"alg":"ES256","kid":"p256"}`, cut+`,"x":[`+strings.Repeat("1,", 2000)+`1]}`),
		"bound to a key":       good("cnf", map[string]any{"jkt": "x"}),
		"bound to no cert":     good("cnf", map[string]any{"x5t#S256": "x"}),
		"bound to text":        good("cnf", "x"),
		// Shapes.
		"empty":                "",
		"dots":                 "..",
		"one part":             part[0],
		"two parts":            part[0] + "." + part[1],
		"four parts":           token + ".",
		"five parts: a JWE":    part[0] + "." + part[1] + "." + part[2] + "." + part[2] + "." + part[2],
		"JSON serialization":   `{"protected":"` + part[0] + `","payload":"` + part[1] + `","signature":"` + part[2] + `"}`,
		"nested":               compact("ES256", "p256", header("ES256", "p256"), token),
		"oversized":            good("x", strings.Repeat("x", 13000)),
		"padding":              part[0] + "=." + part[1] + "." + part[2],
		"padded signature":     token + "==",
		"standard base64":      part[0] + "." + part[1] + "." + strings.Repeat("+/", 43),
		"space before":         " " + token,
		"newline within":       part[0] + "." + part[1][:10] + "\n" + part[1][10:] + "." + part[2],
		"newline in signature": part[0] + "." + part[1] + "." + part[2] + "\r\n",
		"NUL after":            token + "\x00",
		"bad characters":       part[0] + "." + part[1] + "!." + part[2],
		"full-width dot":       strings.Replace(token, ".", "．", 1),
		"loose last bits":      loosen(token),
		// Signatures.
		"signature stripped":   part[0] + "." + part[1] + ".",
		"signature of another": withSig(sign("ES256", "p256", "other")),
		"signature flipped":    withSig(flipped),
		"signature short":      withSig(sig[:63]),
		"signature long":       withSig(append(bytes.Clone(sig), 0)),
		"signature in DER":     withSig(derSignature(sig)),
		"r and s zero":         withSig(append(bytes.Clone(zero), zero...)),
		"r one, s zero":        withSig(append(bytes.Clone(one), zero...)),
		"r and s the order":    withSig(append(bytes.Clone(n), n...)),
		"r and s swapped":      withSig(append(bytes.Clone(sig[32:]), sig[:32]...)),
		"signature huge":       withSig(bytes.Repeat([]byte{1}, 2000)),
		"claims changed":       part[0] + "." + b64.EncodeToString([]byte(strings.Replace(string(js), "acme", "evil", 1))) + "." + part[2],
		"header changed":       b64.EncodeToString([]byte(`{"alg":"ES256","kid":"p256","typ":"at+jwt"}`)) + "." + part[1] + "." + part[2],
		"an API key":           "hk_abcdefghijkl_" + strings.Repeat("a", 52),
	}
}

// loosen changes bits of the last character of the signature that stand for
// nothing.
func loosen(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	return token[:len(token)-1] + string(alphabet[last|1])
}

func derSignature(sig []byte) []byte {
	r, s := new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])
	part := func(n *big.Int) []byte {
		b := append([]byte{0}, n.Bytes()...)
		return append([]byte{2, byte(len(b))}, b...)
	}
	body := append(part(r), part(s)...)
	return append([]byte{0x30, byte(len(body))}, body...)
}

// Every bad token is refused in the same words, cold and warm, and the log says
// nothing of it.
func TestBadTokens(t *testing.T) {
	var log bytes.Buffer
	s, err := Open([]config.Identity{jwtTable(t, allKeys(), nil)}, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return testNow }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Token(t.Context(), good(), nil); err != nil {
		t.Fatal(err)
	}
	bad := badTokens()
	for what, token := range bad {
		for range 2 {
			if id, err := s.Token(t.Context(), token, nil); err != ErrRefused {
				t.Errorf("%s: got %+v, %v", what, id, err)
			}
		}
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", log.String())
	}
	if t.Logf("%d bad tokens", len(bad)); len(bad) < 80 {
		t.Error("want 80")
	}
}

// A caller that is genuine and belongs nowhere is told so: 403.
func TestNoTenant(t *testing.T) {
	s := open(t, jwtTable(t, allKeys(), func(c *config.Identity) {
		c.Tenants = map[string]string{"acme": "default"}
		c.Require = []string{"groups=ml-*", "groups=ops", "realm_access.roles=user"}
	}))
	in := []any{"groups", []string{"ml-a"}, "realm_access", map[string]any{"roles": []string{"user"}}}
	id, err := s.Token(t.Context(), good(in...), nil)
	if err != nil || id.Tenant != "default" {
		t.Fatalf("got %+v, %v", id, err)
	}
	for what, more := range map[string][]any{
		"missing": {"org", nil}, "unknown": {"org", "other"}, "list of two": {"org", []string{"acme", "acme"}}, "empty": {"org", ""},
		"object": {"org", map[string]any{"acme": 1}}, "null": {"org", []any{nil}}, "number": {"org", 1},
		"wrong group": {"groups", []string{"sales"}}, "no group": {"groups", nil}, "group in text": {"groups", "xml-a"},
		"no role": {"realm_access", nil}, "role elsewhere": {"realm_access", "user"},
	} {
		_, err := s.Token(t.Context(), good(append(append([]any{}, in...), more...)...), nil)
		var e *infer.Error
		if !errors.As(err, &e) || e.Code != infer.CodeForbidden {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestGrants(t *testing.T) {
	s := open(t, jwtTable(t, allKeys(), func(c *config.Identity) {
		c.Models, c.ModelsClaim, c.ToolsClaim, c.EffectsClaim = []string{"chat-*", "embed"}, "scope", "tools", "scope"
		c.Grants = []config.IdentityGrant{
			{Match: []string{"groups=ops"}, Tenant: "ops", Regions: []string{"eu"}},
			{Match: []string{"sub=alice", "sub=bob"}, DataClasses: []string{"public"}},
		}
	}))
	for _, c := range []struct {
		claims []any
		tenant string
		want   policy.Grants
	}{
		{[]any{"scope", "openid models:chat-a models:embed models:other", "tools", []string{"search", "calc*"}}, "acme",
			policy.Grants{Models: []string{"chat-a", "embed"}, Tools: []string{"search", "calc*"}, DataClasses: []string{"public"}, Effects: nothing}},
		{[]any{"scope", "models:* effects:read-only", "tools", "search", "groups", "ops"}, "ops",
			policy.Grants{Models: []string{"chat-*", "embed"}, Tools: []string{"search"}, Regions: []string{"eu"}, Effects: []string{"read-only"}}},
		{[]any{"scope", "openid", "sub", "bob"}, "acme",
			policy.Grants{Models: nothing, Tools: nothing, DataClasses: []string{"public"}, Effects: nothing}},
	} {
		id, err := s.Token(t.Context(), good(c.claims...), nil)
		if err != nil || id.Tenant != c.tenant || fmt.Sprintf("%q", id.Grants) != fmt.Sprintf("%q", c.want) {
			t.Errorf("%v: got %+v, %v, want %+v", c.claims, id, err, c.want)
		}
	}
	if _, err := s.Token(t.Context(), good("sub", "carol"), nil); err == nil || err == ErrRefused {
		t.Errorf("got %v", err)
	}
}

// A JWT-SVID needs no issuer; its path is matched.
func TestWorkloadToken(t *testing.T) {
	c := jwtTable(t, keySetJSON(jwk("p256", map[string]any{"use": "jwt-svid"})), func(c *config.Identity) {
		c.Issuer, c.TrustDomain, c.TenantClaim = "", "prod.example", ""
		c.Grants = []config.IdentityGrant{
			{Match: []string{"spiffe=/ns/*/sa/batch"}, Tenant: "batch"}, {Match: []string{"spiffe=/web/**"}, Tenant: "web"},
		}
	})
	s := open(t, c)
	for sub, want := range map[string]string{
		"spiffe://prod.example/ns/a/sa/batch": "batch", "spiffe://prod.example/web/a/b": "web", "spiffe://prod.example/ns/a/b/sa/batch": "403",
		"spiffe://prod.example/db": "403", "spiffe://prod.example": "401", "spiffe://prod.example/": "401", "spiffe://prod.example.evil/web/a": "401",
		"spiffe://test.example/web/a": "401", "spiffe://prod.example/web/../db": "401", "spiffe://prod.example/web//a": "401",
		"spiffe://prod.example/web/a/": "401", "SPIFFE://prod.example/web/a": "401", "spiffe://prod.example/web/%61": "401", "alice": "401",
	} {
		got := "401"
		id, err := s.Token(t.Context(), good("iss", nil, "sub", sub), nil)
		switch {
		case err == nil:
			got = id.Tenant
		case err != ErrRefused:
			got = "403"
		}
		if got != want {
			t.Errorf("%s: got %s, want %s (%v)", sub, got, want, err)
		}
	}
}

// One caller is one caller, however it is named: no two subjects share an id.
func TestSubjects(t *testing.T) {
	s := open(t, jwtTable(t, allKeys(), nil))
	seen := map[string]string{}
	for _, sub := range []string{"alice", "alice@example.com", "a/b", "a/../b", "\u00e4", "a\u0308", "~x", strings.Repeat("a", 500), strings.Repeat("a", 501), "hk_1", "key id"} {
		id, err := s.Token(t.Context(), good("sub", sub), nil)
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := seen[id.KeyID]; twice {
			t.Errorf("%q and %q are both %s", sub, other, id.KeyID)
		}
		if len(id.KeyID) > 180 || strings.Count(id.KeyID, "/") != 3 {
			t.Errorf("%q: got %s", sub, id.KeyID)
		}
		seen[id.KeyID] = sub
	}
}

func FuzzToken(f *testing.F) {
	s := open(f, jwtTable(f, allKeys(), nil))
	f.Add(good())
	f.Add("..")
	f.Add(`eyJhbGciOiJub25lIn0.e30.`)
	f.Fuzz(func(t *testing.T, token string) {
		if id, err := s.Token(t.Context(), token, nil); err == nil && id.Tenant != "acme" {
			t.Fatalf("%q is %+v", token, id)
		}
	})
}

func FuzzKeySet(f *testing.F) {
	f.Add(allKeys())
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"","y":""}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		set, err := readKeySet(b, testNow)
		if err == nil && len(set.list) == 0 {
			t.Fatal("a set without keys")
		}
		if set != nil {
			set.find("", "ES256")
			set.find("x", "EdDSA")
		}
	})
}

func BenchmarkTokenWarm(b *testing.B) {
	s := open(b, jwtTable(b, allKeys(), nil))
	token := good("groups", []string{"ml-a", "ml-b", "everybody"}, "email", "alice@example.com", "name", "Alice Example", "jti", strings.Repeat("x", 36))
	if _, err := s.Token(b.Context(), token, nil); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Token(b.Context(), token, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func benchCold(b *testing.B, alg, name string) {
	s := open(b, jwtTable(b, allKeys(), nil))
	token := compact(alg, name, header(alg, name), goodClaims())
	b.ReportAllocs()
	for b.Loop() {
		s.tokens.clear()
		if _, err := s.Token(b.Context(), token, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTokenColdES256(b *testing.B) { benchCold(b, "ES256", "p256") }
func BenchmarkTokenColdRS256(b *testing.B) { benchCold(b, "RS256", "rsa") }
