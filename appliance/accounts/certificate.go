package accounts

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/web/admin"
)

// certificateHolder keeps the authorities and revocation lists of client
// certificates, read when they are first needed and when their files change.
type certificateHolder struct {
	mu sync.Mutex // guards what follows
	of *Settings  // that they were read for; a reload gives others
	at [2]fileStamp
	ca *authorities
}

// fileStamp tells whether a file is still the one that was read.
type fileStamp struct {
	size int64
	time time.Time
}

func stampOf(path string) fileStamp {
	if st, err := os.Stat(path); err == nil {
		return fileStamp{st.Size(), st.ModTime()}
	}
	return fileStamp{}
}

// authorities are who certificates are taken from.
type authorities struct {
	pool  *x509.CertPool
	certs []*x509.Certificate
	lists []*x509.RevocationList
}

// get gives the authorities in force, nil where certificates are not asked for.
func (h *certificateHolder) get(s *Settings) (*authorities, error) {
	if s.Peers.CAFile == "" {
		return nil, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	at := [2]fileStamp{stampOf(s.path(s.Peers.CAFile))}
	if s.Peers.RevocationFile != "" {
		at[1] = stampOf(s.path(s.Peers.RevocationFile))
	}
	if h.of == s && h.at == at {
		return h.ca, nil
	}
	ca, err := readAuthorities(s)
	if err != nil {
		return nil, err
	}
	h.of, h.at, h.ca = s, at, ca
	return ca, nil
}

func readAuthorities(s *Settings) (*authorities, error) {
	b, err := s.read(s.Peers.CAFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the authorities of client certificates: %w", err)
	}
	ca := &authorities{pool: x509.NewCertPool()}
	for n := 0; n < 1000; n++ {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !c.IsCA {
			return nil, fmt.Errorf("cannot use certificate %d of %s as an authority: %w", n+1, s.Peers.CAFile, errors.Join(err, errors.New("it must say that it is a CA")))
		}
		ca.pool.AddCert(c)
		ca.certs = append(ca.certs, c)
	}
	if len(ca.certs) == 0 {
		return nil, fmt.Errorf("cannot use %s: it has no PEM certificate", s.Peers.CAFile)
	}
	if s.Peers.RevocationFile == "" {
		return ca, nil
	}
	b, err = s.read(s.Peers.RevocationFile)
	if err == nil {
		ca.lists, err = parseRevocations(b)
	}
	if err != nil {
		// A list that cannot be read must not let in whom it would keep out.
		return nil, fmt.Errorf("cannot read the revocation list of client certificates: %w", err)
	}
	return ca, nil
}

// parseRevocations reads one DER list or any number in PEM (RFC 5280 §5).
func parseRevocations(b []byte) ([]*x509.RevocationList, error) {
	if !bytes.Contains(b, []byte("-----BEGIN")) {
		l, err := x509.ParseRevocationList(b)
		return []*x509.RevocationList{l}, err
	}
	var out []*x509.RevocationList
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		l, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, err
		}
		if out = append(out, l); len(out) > 100 {
			return nil, errors.New("it has more than 100 lists")
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it has no list")
	}
	return out, nil
}

// revoked says whether c, issued by issuer, is on a list of that issuer's.
func (ca *authorities) revoked(c, issuer *x509.Certificate) bool {
	for _, l := range ca.lists {
		if !bytes.Equal(l.RawIssuer, issuer.RawSubject) || l.CheckSignatureFrom(issuer) != nil {
			continue
		}
		for i := range l.RevokedCertificateEntries {
			// Reason 8 takes a certificate off a list again, which base lists do not do.
			if l.RevokedCertificateEntries[i].SerialNumber.Cmp(c.SerialNumber) == 0 {
				return true
			}
		}
	}
	return false
}

// ClientAuthorities are the authorities whose certificates the listener of the
// control plane asks for, nil if it asks for none.
func (a *Accounts) ClientAuthorities() (*x509.CertPool, error) {
	ca, err := a.peers.get(a.settings.Load())
	if ca == nil || err != nil {
		return nil, err
	}
	return ca.pool, nil
}

// VerifyPeer says who a client certificate stands for: chain is as the TLS layer
// gave it, the leaf first, not verified. Nil without an error where certificates
// are not taken.
func (a *Accounts) VerifyPeer(ctx context.Context, chain []*x509.Certificate, peer string) (*admin.Caller, error) {
	s := a.settings.Load()
	ca, err := a.peers.get(s)
	if err != nil {
		a.o.Log.Error("client certificates cannot be checked", "error", err)
		return nil, infer.Errorf(infer.CodeUnauthorized, "client certificates cannot be checked at the moment")
	}
	if ca == nil || len(chain) == 0 {
		return nil, nil
	}
	user, why := ca.find(s.Peers.Users, chain, a.o.Now())
	if why != "" {
		a.refused(ctx, "certificate", "", peer, why+", serial "+chain[0].SerialNumber.Text(16))
		return nil, infer.Errorf(infer.CodeUnauthorized, "the client certificate is not accepted")
	}
	if user.Role == string(admin.TenantAdmin) && !s.hasTenant(user.Tenant) {
		return nil, infer.Errorf(infer.CodeUnauthorized, "the client certificate is not accepted")
	}
	// The private key took part in this connection: that is proof enough for anything.
	return &admin.Caller{User: user.Name, Role: admin.Role(user.Role), Tenant: user.Tenant, Method: "certificate", Peer: peer, Fresh: true}, nil
}

// find verifies a chain and gives the user that it matches, or why there is none.
func (ca *authorities) find(users []config.CertificateUser, chain []*x509.Certificate, now time.Time) (config.CertificateUser, string) {
	between := x509.NewCertPool()
	for _, c := range chain[1:min(len(chain), 10)] {
		between.AddCert(c)
	}
	leaf := chain[0]
	paths, err := leaf.Verify(x509.VerifyOptions{Roots: ca.pool, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return config.CertificateUser{}, "no authority of ours vouches for it"
	}
	good := false
	for _, path := range paths {
		ok := true
		for i := 0; i+1 < len(path); i++ {
			ok = ok && !ca.revoked(path[i], path[i+1])
		}
		good = good || ok
	}
	if !good {
		return config.CertificateUser{}, "it has been revoked"
	}
	for _, u := range users {
		if name, ok := matches(u.Match, leaf); ok {
			if u.Name == "" {
				u.Name = name
			}
			return u, ""
		}
	}
	return config.CertificateUser{}, "it matches no user"
}

// matches says whether a certificate is one of those that match names, and by
// what name.
func matches(match string, c *x509.Certificate) (string, bool) {
	kind, want, _ := strings.Cut(match, ":")
	var have []string
	switch kind {
	case "cn":
		have = []string{c.Subject.CommonName}
	case "email":
		have, want = c.EmailAddresses, strings.ToLower(want)
	case "uri":
		for _, u := range c.URIs {
			have = append(have, u.String())
		}
	}
	for _, h := range have {
		if len(h) > 512 || !legible(h) {
			continue
		}
		is := h
		if kind == "email" {
			is = strings.ToLower(h)
		}
		domain, any := strings.CutPrefix(want, "*")
		prefix, below := strings.CutSuffix(want, "*")
		switch {
		case want != "" && is == want,
			kind == "email" && any && strings.HasSuffix(is, domain) && strings.Count(is, "@") == 1,
			kind == "uri" && below && strings.HasPrefix(is, prefix) && !strings.Contains(is[len(prefix):], ".."):
			return h, true
		}
	}
	return "", false
}
