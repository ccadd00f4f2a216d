package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"hearth/appliance/config"
)

var b64 = base64.RawURLEncoding

// testKeys are made once: RSA keys take their time.
var testKeys = sync.OnceValue(func() map[string]crypto.Signer {
	out := map[string]crypto.Signer{}
	rsaKey := func(name string, bits int) {
		k, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			panic(err)
		}
		out[name] = k
	}
	rsaKey("rsa", 2048)
	rsaKey("small", 1024)
	for name, c := range map[string]elliptic.Curve{"p256": elliptic.P256(), "p384": elliptic.P384(), "p521": elliptic.P521(), "other": elliptic.P256()} {
		k, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			panic(err)
		}
		out[name] = k
	}
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	out["ed"] = k
	return out
})

// jwk writes the public half of a key.
func jwk(name string, more map[string]any) map[string]any {
	m := map[string]any{"kid": name, "use": "sig"}
	switch k := testKeys()[name].Public().(type) {
	case *rsa.PublicKey:
		m["kty"], m["n"], m["e"] = "RSA", b64.EncodeToString(k.N.Bytes()), b64.EncodeToString(big.NewInt(int64(k.E)).Bytes())
	case *ecdsa.PublicKey:
		size := (k.Curve.Params().BitSize + 7) / 8
		x, y := make([]byte, size), make([]byte, size)
		raw, err := k.Bytes()
		if err != nil {
			panic(err)
		}
		copy(x, raw[1:1+size])
		copy(y, raw[1+size:])
		m["kty"], m["crv"] = "EC", k.Curve.Params().Name
		m["x"], m["y"] = b64.EncodeToString(x), b64.EncodeToString(y)
	case ed25519.PublicKey:
		m["kty"], m["crv"], m["x"] = "OKP", "Ed25519", b64.EncodeToString(k)
	}
	for k, v := range more {
		if m[k] = v; v == nil {
			delete(m, k)
		}
	}
	return m
}

func keySetJSON(keys ...map[string]any) []byte {
	b, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		panic(err)
	}
	return b
}

func allKeys() []byte {
	return keySetJSON(jwk("rsa", nil), jwk("p256", nil), jwk("p384", nil), jwk("p521", nil), jwk("ed", nil), jwk("small", nil))
}

// sign makes the signature of alg over what is signed.
func sign(alg, name, input string) []byte {
	k := testKeys()[name]
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[alg[len(alg)-3:]]
	digest := func() []byte {
		h := hash.New()
		h.Write([]byte(input))
		return h.Sum(nil)
	}
	var out []byte
	var err error
	switch alg[:2] {
	case "RS":
		out, err = k.Sign(rand.Reader, digest(), hash)
	case "PS":
		out, err = k.Sign(rand.Reader, digest(), &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash})
	case "ES":
		p := k.(*ecdsa.PrivateKey)
		r, s, e := ecdsa.Sign(rand.Reader, p, digest())
		size := (p.Curve.Params().BitSize + 7) / 8
		out, err = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...), e
	default:
		out, err = k.Sign(rand.Reader, []byte(input), crypto.Hash(0))
	}
	if err != nil {
		panic(err)
	}
	return out
}

func hs256(secret []byte, input string) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(input))
	return m.Sum(nil)
}

func hs512(secret []byte, input string) []byte {
	m := hmac.New(sha512.New, secret)
	m.Write([]byte(input))
	return m.Sum(nil)
}

// testNow is when the tests are.
var testNow = time.Unix(1_800_000_000, 0)

// goodClaims are those of a token that is taken.
func goodClaims() map[string]any {
	return map[string]any{"iss": "https://login.example.com", "aud": "hearth", "sub": "alice", "exp": testNow.Unix() + 600, "iat": testNow.Unix() - 10, "org": "acme"}
}

func with(m map[string]any, pairs ...any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		if out[pairs[i].(string)] = pairs[i+1]; pairs[i+1] == nil {
			delete(out, pairs[i].(string))
		}
	}
	return out
}

// compact signs header and claims, which are JSON text or what becomes it.
func compact(alg, name string, header, claims any) string {
	text := func(v any) string {
		if s, ok := v.(string); ok {
			return s
		}
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	input := b64.EncodeToString([]byte(text(header))) + "." + b64.EncodeToString([]byte(text(claims)))
	return input + "." + b64.EncodeToString(sign(alg, name, input))
}

func header(alg, name string) map[string]any {
	return map[string]any{"alg": alg, "kid": name, "typ": "JWT"}
}

// good is a token that is taken.
func good(pairs ...any) string {
	return compact("ES256", "p256", header("ES256", "p256"), with(goodClaims(), pairs...))
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func writeTemp(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// jwtTable is an identity of tokens whose keys are in a file.
func jwtTable(t testing.TB, keys []byte, change func(*config.Identity)) config.Identity {
	t.Helper()
	c := config.NewIdentity("staff", config.IdentityJWT)
	c.Issuer, c.Audiences, c.JWKSFile = "https://login.example.com", []string{"hearth"}, writeTemp(t, "jwks.json", keys)
	c.TenantClaim = "org"
	if change != nil {
		change(&c)
	}
	return c
}

func open(t testing.TB, tables ...config.Identity) *Set {
	t.Helper()
	s, err := Open(tables, Options{Log: quiet(), Now: func() time.Time { return testNow }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
