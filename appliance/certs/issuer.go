package certs

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/caddyserver/certmagic"
)

// localIssuer is the authority as certmagic knows it.
type localIssuer struct {
	authority *Authority
	names     []string
	lifetime  time.Duration
}

// IssuerKey names this issuer in storage.
func (*localIssuer) IssuerKey() string { return "hearth-local" }

// Issue signs a certificate for the key of csr. It covers every name of the
// appliance, whichever the request names, so that one certificate is enough.
func (l *localIssuer) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("cannot issue a certificate: the request is not signed by its key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := l.authority.now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Hearth"}},
		NotBefore:    now.Add(-min(backdate, l.lifetime/20)),
		NotAfter:     now.Add(l.lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range l.names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	chain, err := l.authority.issue(template, csr.PublicKey)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: chain}, nil
}

// fits says whether the chain der of a stored certificate is what the issuer
// would make now: for all its names, and good for clients that trust any one of
// the roots of the day.
func (l *localIssuer) fits(der [][]byte) error {
	chain, err := parseChain(der)
	if err != nil {
		return err
	}
	leaf := chain[0]
	for _, n := range l.names {
		if !covers(leaf, n) {
			return fmt.Errorf("it does not cover %s", n)
		}
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	for _, root := range l.authority.roots() {
		roots := x509.NewCertPool()
		roots.AddCert(root)
		_, err := leaf.Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: between,
			// Whether it has expired is the renewal's concern.
			CurrentTime: leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2),
		})
		var invalid x509.CertificateInvalidError
		if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
			continue // an old root that has ended helps nobody
		}
		if err != nil {
			return fmt.Errorf("%s does not vouch for it: %w", root.Subject.CommonName, err)
		}
	}
	return nil
}

func parseChain(der [][]byte) ([]*x509.Certificate, error) {
	if len(der) == 0 {
		return nil, errors.New("no certificate found")
	}
	var out []*x509.Certificate
	for _, d := range der {
		c, err := x509.ParseCertificate(d)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// parseChainPEM reads the certificates of a PEM text.
func parseChainPEM(text []byte) ([]*x509.Certificate, error) {
	var der [][]byte
	for len(der) <= maxChain {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		if block.Type == "CERTIFICATE" {
			der = append(der, block.Bytes)
		}
		text = rest
	}
	return parseChain(der)
}

// covers says whether a certificate is for name, which may have a wildcard.
func covers(leaf *x509.Certificate, name string) bool {
	if len(name) > 2 && name[:2] == "*." {
		return slices.Contains(leaf.DNSNames, name)
	}
	return leaf.VerifyHostname(name) == nil
}
