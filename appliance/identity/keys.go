package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Bounds of a key set (RFC 7517) and of the keys in it.
const (
	maxKeySet   = 1 << 20
	maxKeys     = 256
	maxKeyID    = 512
	minRSA      = 2048
	maxRSA      = 8192
	maxSameName = 4 // keys of one id that are tried
)

// key verifies tokens.
type key struct {
	id, alg string
	public  crypto.PublicKey
	thumb   string // RFC 7638
}

// keySet is what an issuer published, at one time.
type keySet struct {
	list    []*key
	thumbs  map[string]bool
	fetched time.Time
	local   bool // of a file
}

// find gives the keys that a token with this header may be signed by. A token
// that names none may be by the only one that fits.
func (s *keySet) find(id, alg string) []*key {
	var out []*key
	for _, k := range s.list {
		if (id == "" || k.id == id) && k.fits(alg) {
			out = append(out, k)
		}
	}
	if id == "" && len(out) != 1 || len(out) > maxSameName {
		return nil
	}
	return out
}

// fits says whether k can have made a signature of alg: each curve goes with one
// (RFC 7518 section 3.4), and a key that names its algorithm keeps to it.
func (k *key) fits(alg string) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	switch p := k.public.(type) {
	case *rsa.PublicKey:
		return alg[:2] == "RS" || alg[:2] == "PS"
	case *ecdsa.PublicKey:
		switch p.Curve {
		case elliptic.P256():
			return alg == "ES256"
		case elliptic.P384():
			return alg == "ES384"
		case elliptic.P521():
			return alg == "ES512"
		}
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// readKeySet reads a JWK set. A key that cannot be used is left out: sets hold
// others for other purposes. A private one is left out too, since everybody has
// it who can read the set.
func readKeySet(data []byte, now time.Time) (*keySet, error) {
	if len(data) > maxKeySet {
		return nil, fmt.Errorf("cannot read the key set: it has more than %d bytes", maxKeySet)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("cannot read the key set: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("cannot read the key set: it has %d keys, wanted at most %d", len(set.Keys), maxKeys)
	}
	out := &keySet{thumbs: map[string]bool{}, fetched: now}
	for _, raw := range set.Keys {
		if k := readKey(raw); k != nil && !out.thumbs[k.thumb+"\x00"+k.id] {
			out.list = append(out.list, k)
			out.thumbs[k.thumb], out.thumbs[k.thumb+"\x00"+k.id] = true, true
		}
	}
	if len(out.list) == 0 {
		return nil, errors.New("cannot use the key set: no key in it verifies signatures")
	}
	return out, nil
}

// readKey gives nil for a key that is not to be used.
func readKey(raw []byte) *key {
	var about struct {
		Kty string   `json:"kty"`
		Ops []string `json:"key_ops"`
	}
	if json.Unmarshal(raw, &about) != nil || about.Kty == "oct" || about.Ops != nil && !slices.Contains(about.Ops, "verify") {
		return nil
	}
	var k jose.JSONWebKey
	if err := k.UnmarshalJSON(raw); err != nil || !k.Valid() || !k.IsPublic() || len(k.KeyID) > maxKeyID {
		return nil
	}
	switch k.Use {
	case "", "sig", "jwt-svid": // the last of the SPIFFE trust domain and bundle specification, section 4.2.2
	default:
		return nil
	}
	switch p := k.Key.(type) {
	case *rsa.PublicKey:
		if n := p.N.BitLen(); n < minRSA || n > maxRSA || p.E < 3 || p.E&1 == 0 {
			return nil
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return nil
	}
	thumb, err := k.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil
	}
	return &key{id: k.KeyID, alg: k.Algorithm, public: k.Key, thumb: string(thumb)}
}
