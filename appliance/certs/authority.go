package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
)

const (
	rootLifetime = 10 * 365 * 24 * time.Hour
	// backdate lets a client whose clock is a little behind accept a new
	// certificate.
	backdate = 5 * time.Minute

	rootKey = "authority/root" // certificate and key, PEM, one value: never half
)

// Authority is the appliance's own certificate authority: one root (EC P-256)
// that signs server certificates directly. It implements certmagic.Issuer.
type Authority struct {
	root *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte // the root certificate
	now  func() time.Time

	mu       sync.Mutex // guards below
	lifetime time.Duration
	names    []string
}

// openAuthority loads the root from kv or makes one.
func openAuthority(ctx context.Context, kv KV, now func() time.Time) (*Authority, error) {
	stored, err := kv.Get(ctx, rootKey)
	if errors.Is(err, fs.ErrNotExist) {
		if stored, err = makeRoot(now()); err == nil {
			err = kv.Put(ctx, rootKey, stored)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot set up the certificate authority: %w", err)
	}
	a := &Authority{now: now}
	if err := a.parse(stored); err != nil {
		return nil, fmt.Errorf("cannot read the stored certificate authority: %w", err)
	}
	if now().After(a.root.NotAfter) {
		return nil, fmt.Errorf("the root certificate expired on %s, or the clock is wrong", a.root.NotAfter.Format(time.DateOnly))
	}
	return a, nil
}

func makeRoot(now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		// The serial sets the roots of two appliances apart in a trust store.
		Subject:               pkix.Name{Organization: []string{"Hearth"}, CommonName: fmt.Sprintf("Hearth local authority %x", serial.Bytes()[:4])},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(rootLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	out := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(out, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})...), nil
}

func (a *Authority) parse(stored []byte) error {
	block, rest := pem.Decode(stored)
	if block == nil || block.Type != "CERTIFICATE" {
		return errors.New("no certificate found")
	}
	a.pem = pem.EncodeToMemory(block)
	var err error
	if a.root, err = x509.ParseCertificate(block.Bytes); err != nil {
		return err
	}
	if block, _ = pem.Decode(rest); block == nil {
		return errors.New("no private key found")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return err
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok || !ec.PublicKey.Equal(a.root.PublicKey) {
		return errors.New("the private key does not belong to the certificate")
	}
	a.key = ec
	return nil
}

// cover sets what the next certificates are valid for, and how long.
func (a *Authority) cover(names []string, lifetime time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names, a.lifetime = names, lifetime
}

// IssuerKey names this issuer in storage.
func (a *Authority) IssuerKey() string { return "hearth-local" }

// Issue signs a certificate for the key of csr. It covers every name of the
// appliance, whichever the request names, so that one certificate is enough.
func (a *Authority) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("cannot issue a certificate: the request is not signed by its key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	names, lifetime := a.names, a.lifetime
	a.mu.Unlock()
	now := a.now()
	end := now.Add(lifetime)
	if end.After(a.root.NotAfter) {
		end = a.root.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Hearth"}},
		NotBefore:    now.Add(-min(backdate, lifetime/20)),
		NotAfter:     end,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, csr.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("cannot issue a certificate: %w", err)
	}
	// The root is not sent: a client that does not know it must not learn it here.
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// newSerial is 127 random bits, never zero (RFC 5280 §4.1.2.2).
func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, err
	}
	return n.Add(n, new(big.Int).Lsh(big.NewInt(1), 126)), nil
}
