package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// maxChain bounds the certificates that are read from one file.
const maxChain = 16

// supplied is an intermediate that the site's own authority made for this
// appliance: it signs in place of ours, and what clients trust is the site's.
type supplied struct {
	pair
	chain []*x509.Certificate // itself and what lies between it and a root
	roots []*x509.Certificate // what is to be trusted, as far as the file tells
}

// loadSupplied reads a PEM file with the intermediate first and what is above it
// behind, and the intermediate's key.
func loadSupplied(certFile, keyFile string, now time.Time) (*supplied, error) {
	c, err := tls.LoadX509KeyPair(certFile, keyFile) // checks that they belong together
	if err != nil {
		return nil, err
	}
	if len(c.Certificate) > maxChain {
		return nil, fmt.Errorf("%s has %d certificates, wanted at most %d", certFile, len(c.Certificate), maxChain)
	}
	signer, ok := c.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key in %s cannot sign", keyFile)
	}
	s := &supplied{}
	for _, der := range c.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		if s.cert == nil {
			s.pair = pair{cert, signer}
		}
		if bytes.Equal(cert.RawIssuer, cert.RawSubject) && cert.CheckSignatureFrom(cert) == nil {
			s.roots = append(s.roots, cert)
		} else {
			s.chain = append(s.chain, cert)
		}
	}
	if err := mayIssue(s.cert, now); err != nil {
		return nil, fmt.Errorf("the first certificate in %s %w", certFile, err)
	}
	for i := 1; i < len(s.chain); i++ {
		if err := s.chain[i-1].CheckSignatureFrom(s.chain[i]); err != nil {
			return nil, fmt.Errorf("certificate %d in %s did not sign the one before it: %w", i+1, certFile, err)
		}
	}
	if len(s.roots) == 0 { // the best there is to trust
		s.roots = s.chain[len(s.chain)-1:]
	}
	return s, nil
}

// mayIssue says why c cannot sign server certificates, if so.
func mayIssue(c *x509.Certificate, now time.Time) error {
	switch {
	case !c.BasicConstraintsValid || !c.IsCA:
		return errors.New("is no certificate authority")
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return errors.New("may not sign certificates")
	case now.After(c.NotAfter):
		return fmt.Errorf("expired on %s", c.NotAfter.UTC().Format(time.DateTime))
	case now.Before(c.NotBefore):
		return fmt.Errorf("is not valid before %s, and the clock says %s", c.NotBefore.UTC().Format(time.DateTime), now.UTC().Format(time.DateTime))
	}
	return nil
}
