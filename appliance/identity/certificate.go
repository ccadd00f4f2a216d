package identity

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"hearth/appliance/config"
	"hearth/policy"
)

// Bounds of what is read, in bytes and in number.
const (
	maxAuthorities     = 4 << 20
	maxRevocationLists = 64 << 20
	maxChain           = 8
)

// anchors are the authorities of one identity, with what they have revoked.
type anchors struct {
	now   atomic.Pointer[trust]
	cas   *watched
	lists *watched // nil: revocation is not looked at
}

// trust is what the files say, at one time.
type trust struct {
	pool    *x509.CertPool
	list    []*x509.Certificate
	revoked []*revocations // nil: not looked at
	strict  bool           // every authority must have a list
}

// revocations is one list, whose signature is checked by the authority's
// certificate in the chain at hand.
type revocations struct {
	list    *x509.RevocationList
	serials map[string]bool
}

func newAnchors(conf *config.Identity, o Options) (*anchors, error) {
	a := &anchors{cas: &watched{path: o.Resolve(conf.CAFile), most: maxAuthorities}}
	if conf.RevocationFile != "" {
		a.lists = &watched{path: o.Resolve(conf.RevocationFile), most: maxRevocationLists}
	}
	t, err := a.read()
	if err != nil {
		return nil, err
	}
	a.now.Store(t)
	return a, nil
}

// reread takes files that have changed.
func (a *anchors) reread() (bool, error) {
	if !a.cas.changed() && (a.lists == nil || !a.lists.changed()) {
		return false, nil
	}
	t, err := a.read()
	if err != nil {
		return false, err
	}
	a.now.Store(t)
	return true, nil
}

func (a *anchors) read() (*trust, error) {
	t := &trust{pool: x509.NewCertPool()}
	data, err := a.cas.read()
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("cannot read ca_file: %w", err)
		}
		if !c.IsCA {
			return nil, fmt.Errorf("cannot use ca_file: %.128q is no authority", c.Subject)
		}
		t.list = append(t.list, c)
		t.pool.AddCert(c)
	}
	if len(t.list) == 0 {
		return nil, errors.New("cannot use ca_file: no certificate is in it")
	}
	if a.lists == nil {
		return t, nil
	}
	t.strict = true
	if data, err = a.lists.read(); err != nil {
		return nil, err
	}
	t.revoked, err = readRevocations(data)
	return t, err
}

// readRevocations reads lists in PEM, or one in DER.
func readRevocations(data []byte) ([]*revocations, error) {
	var out []*revocations
	add := func(der []byte) error {
		l, err := x509.ParseRevocationList(der)
		if err != nil {
			return fmt.Errorf("cannot read revocation_file: %w", err)
		}
		r := &revocations{l, make(map[string]bool, len(l.RevokedCertificateEntries))}
		for i := range l.RevokedCertificateEntries {
			r.serials[l.RevokedCertificateEntries[i].SerialNumber.String()] = true
		}
		out = append(out, r)
		return nil
	}
	if !bytes.Contains(data, []byte("-----BEGIN")) {
		return out, add(data)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "X509 CRL" {
			if err := add(block.Bytes); err != nil {
				return nil, err
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("cannot use revocation_file: no list is in it")
	}
	return out, nil
}

// verify finds a chain to an authority in which nothing is revoked. It gives the
// time until which that holds.
func (t *trust) verify(chain []*x509.Certificate, at time.Time, dated bool) (until time.Time, ok bool) {
	if len(chain) == 0 || len(chain) > maxChain || chain[0].IsCA {
		return until, false
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	found, err := chain[0].Verify(x509.VerifyOptions{
		Roots: t.pool, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return until, false
	}
	for _, path := range found {
		if until, ok = t.unrevoked(path, at, dated); ok {
			return until, true
		}
	}
	return until, false
}

// unrevoked judges one chain, its end first.
func (t *trust) unrevoked(path []*x509.Certificate, at time.Time, dated bool) (until time.Time, ok bool) {
	until = path[0].NotAfter
	for i, c := range path {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
		if i+1 == len(path) || !t.strict {
			continue
		}
		listed := false
		for _, r := range t.revoked {
			if !bytes.Equal(r.list.RawIssuer, c.RawIssuer) || r.list.CheckSignatureFrom(path[i+1]) != nil {
				continue
			}
			if r.serials[c.SerialNumber.String()] {
				return until, false
			}
			// A list without an end holds until another one comes.
			if end := r.list.NextUpdate; end.IsZero() || !dated || at.Before(end) {
				listed = true
				if dated && !end.IsZero() && end.Before(until) {
					until = end
				}
			}
		}
		if !listed {
			return until, false
		}
	}
	return until, true
}

// Certificate finds the caller behind the certificates that a peer has sent, its
// own first, and has proved to hold the key of. Errors are those of Token.
func (s *Set) Certificate(chain []*x509.Certificate) (*policy.Identity, error) {
	if len(chain) == 0 {
		return nil, ErrRefused
	}
	digest, now := sha256.Sum256(chain[0].Raw), s.o.Now()
	if v := s.certs.get(digest); v != nil && now.Before(v.until) && v.trust == v.src.anchors.now.Load() && v.id.Live() {
		return v.id, nil
	}
	gen := s.certs.generation()
	worst := error(ErrRefused)
	for _, src := range *s.sources.Load() {
		if src.anchors == nil {
			continue
		}
		v, err := src.certified(chain, now)
		if err == nil {
			s.certs.put(gen, digest, v, now)
			return v.id, nil
		}
		if !errors.Is(err, ErrRefused) {
			worst = err
		}
	}
	return nil, worst
}

func (src *source) certified(chain []*x509.Certificate, now time.Time) (*verified, error) {
	t := src.anchors.now.Load()
	until, ok := t.verify(chain, now, true)
	if !ok {
		return nil, ErrRefused
	}
	f, subject, ok := src.describe(chain[0])
	if !ok {
		return nil, errForbidden()
	}
	tenant, grants, ok := src.rules.apply(f)
	if !ok {
		return nil, errForbidden()
	}
	id := src.identity(policy.KindCertificate, tenant, subject, grants)
	id.Live = src.vouches(chain, t)
	return &verified{id: id, until: until, trust: t, src: src}, nil
}

// vouches gives the question whether a certificate is still good, which is judged
// anew when the files have changed. That it has run out meanwhile ends nothing
// that has begun.
func (src *source) vouches(chain []*x509.Certificate, t *trust) func() bool {
	type judged struct {
		by *trust
		ok bool
	}
	var last atomic.Pointer[judged]
	last.Store(&judged{t, true})
	return func() bool {
		if src.closed.Load() {
			return false
		}
		present := src.anchors.now.Load()
		if l := last.Load(); l.by == present {
			return l.ok
		}
		_, ok := present.verify(chain, chain[0].NotAfter, false)
		last.Store(&judged{present, ok})
		return ok
	}
}

// describe gives what a certificate says of its holder, and the one name that
// stays the same when it is renewed.
func (src *source) describe(c *x509.Certificate) (f attributes, subject string, ok bool) {
	f = attributes{"o": c.Subject.Organization, "ou": c.Subject.OrganizationalUnit, "serial": {hex.EncodeToString(c.SerialNumber.Bytes())},
		"email": c.EmailAddresses}
	if c.Subject.CommonName != "" {
		f["cn"] = []string{c.Subject.CommonName}
	}
	for _, d := range c.DNSNames {
		f["dns"] = append(f["dns"], strings.ToLower(d))
	}
	for _, u := range c.URIs {
		f["uri"] = append(f["uri"], u.String())
	}
	if src.conf.TrustDomain != "" {
		// X.509-SVID, section 2: one URI, which is the SPIFFE ID; section 4.3: it is
		// used to sign.
		if len(c.URIs) != 1 || c.KeyUsage&x509.KeyUsageDigitalSignature == 0 || c.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0 {
			return nil, "", false
		}
		path, ok := spiffePath(f["uri"][0], src.conf.TrustDomain)
		f["spiffe"] = []string{path}
		return f, f["uri"][0], ok
	}
	for _, name := range []string{"uri", "dns", "email", "cn"} {
		if len(f[name]) > 0 && f[name][0] != "" && len(f[name][0]) <= maxSubject {
			return f, name + ":" + f[name][0], true
		}
	}
	return nil, "", false
}

func (a *anchors) state(st *State, now time.Time) {
	t := a.now.Load()
	for _, c := range t.list {
		st.Authorities = append(st.Authorities, Authority{c.Subject.String(), c.NotAfter})
		st.Usable = st.Usable || now.Before(c.NotAfter)
	}
	for _, r := range t.revoked {
		if end := r.list.NextUpdate; !end.IsZero() && (st.RevocationUntil.IsZero() || end.Before(st.RevocationUntil)) {
			st.RevocationUntil = end
		}
	}
}
