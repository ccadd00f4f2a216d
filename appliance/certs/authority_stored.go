package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// storedPair and storedAuthority are how it is kept.
type storedPair struct {
	Certificate string `json:"certificate"` // PEM
	Key         string `json:"key"`         // PEM, PKCS 8
}

type storedAuthority struct {
	Version      int         `json:"version"`
	Root         storedPair  `json:"root"`
	Intermediate *storedPair `json:"intermediate,omitempty"`
	Old          *storedPair `json:"old,omitempty"`
	Link         string      `json:"link,omitempty"` // PEM
	Rotated      time.Time   `json:"rotated,omitzero"`
}

func (a *Authority) load(ctx context.Context) error {
	raw, err := a.kv.Get(ctx, stateKey)
	if err != nil {
		return err
	}
	var st storedAuthority
	if err := json.Unmarshal(raw, &st); err != nil {
		return fmt.Errorf("cannot read what is stored: %w", err)
	}
	if st.Version != 1 {
		return fmt.Errorf("cannot read what is stored: got version %d, wanted 1", st.Version)
	}
	optional := func(p *storedPair) (*pair, error) {
		if p == nil {
			return nil, nil
		}
		out, err := p.parse()
		return &out, err
	}
	var errs [3]error
	a.root, errs[0] = st.Root.parse()
	a.intermediate, errs[1] = optional(st.Intermediate)
	a.old, errs[2] = optional(st.Old)
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("cannot read what is stored: %w", err)
	}
	a.rotated = st.Rotated
	if st.Link != "" {
		if a.link, err = parseCertificate([]byte(st.Link)); err != nil {
			return fmt.Errorf("cannot read what is stored: %w", err)
		}
	}
	return nil
}

func (a *Authority) save(ctx context.Context) error {
	st := storedAuthority{Version: 1, Rotated: a.rotated}
	var err error
	keep := func(p *pair) *storedPair {
		if p == nil || err != nil {
			return nil
		}
		var der []byte
		if der, err = x509.MarshalPKCS8PrivateKey(p.key); err != nil {
			return nil
		}
		return &storedPair{
			Certificate: string(pemOf(p.cert)),
			Key:         string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		}
	}
	root := keep(&a.root)
	st.Intermediate, st.Old = keep(a.intermediate), keep(a.old)
	if err != nil {
		return err
	}
	st.Root = *root
	if a.link != nil {
		st.Link = string(pemOf(a.link))
	}
	raw, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return a.kv.Put(ctx, stateKey, raw)
}

func (p storedPair) parse() (pair, error) { return parsePair([]byte(p.Certificate + p.Key)) }

// parsePair reads a certificate with its EC key behind it.
func parsePair(stored []byte) (pair, error) {
	block, rest := pem.Decode(stored)
	if block == nil || block.Type != "CERTIFICATE" {
		return pair{}, errors.New("no certificate found")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return pair{}, err
	}
	if block, _ = pem.Decode(rest); block == nil {
		return pair{}, errors.New("no private key found")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return pair{}, err
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok || !ec.PublicKey.Equal(cert.PublicKey) {
		return pair{}, errors.New("the private key does not belong to the certificate")
	}
	return pair{cert, ec}, nil
}

func parseCertificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no certificate found")
	}
	return x509.ParseCertificate(block.Bytes)
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
