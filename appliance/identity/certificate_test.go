package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"os"
	"slices"
	"testing"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/policy"
)

// authority signs certificates of a test.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

var serial int64

func issue(t testing.TB, by *authority, change func(*x509.Certificate)) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial++
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: testNow.Add(-time.Hour), NotAfter: testNow.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	change(c)
	parent, signer := c, crypto.Signer(key)
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return out, key
}

func newAuthority(t testing.TB, name string, by *authority) *authority {
	c, k := issue(t, by, func(c *x509.Certificate) {
		c.Subject, c.IsCA, c.ExtKeyUsage = pkix.Name{CommonName: name}, true, nil
		c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	})
	return &authority{c, k}
}

func (a *authority) leaf(t testing.TB, change func(*x509.Certificate)) *x509.Certificate {
	c, _ := issue(t, a, change)
	return c
}

func (a *authority) list(t testing.TB, until time.Time, revoked ...*x509.Certificate) []byte {
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: testNow.Add(-time.Hour), NextUpdate: until}
	for _, c := range revoked {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: testNow.Add(-time.Minute)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, l, a.cert, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

func bundle(cas ...*authority) (out []byte) {
	for _, a := range cas {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})...)
	}
	return out
}

func dns(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = names }
}

func uri(s string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		u, err := url.Parse(s)
		if err != nil {
			panic(err)
		}
		c.URIs = append(c.URIs, u)
	}
}

func certTable(t testing.TB, cas []byte, change func(*config.Identity)) config.Identity {
	c := config.NewIdentity("mesh", config.IdentityCertificate)
	c.CAFile, c.Tenant, c.Require = writeTemp(t, "ca.pem", cas), "acme", []string{"dns=*.svc.example", "uri=spiffe://prod.example/**"}
	if change != nil {
		change(&c)
	}
	return c
}

func outcome(id *policy.Identity, err error) string {
	var e *infer.Error
	switch {
	case err == nil:
		return id.KeyID
	case errors.Is(err, ErrRefused):
		return "401"
	case errors.As(err, &e) && e.Code == infer.CodeForbidden:
		return "403"
	}
	return err.Error()
}

func TestCertificates(t *testing.T) {
	ca, evil := newAuthority(t, "ca", nil), newAuthority(t, "ca", nil)
	between := newAuthority(t, "between", ca)
	s := open(t, certTable(t, bundle(ca), func(c *config.Identity) {
		c.Require = nil
		c.Grants = []config.IdentityGrant{
			{Match: []string{"dns=*.svc.example"}, Models: []string{"chat"}}, {Match: []string{"cn=batch-*", "ou=ml"}}, {Match: []string{"email=*@ops.example"}},
			{Match: []string{"uri=urn:x:**"}},
		}
	}))
	all := func(f ...func(*x509.Certificate)) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			for _, g := range f {
				g(c)
			}
		}
	}
	ok := dns("a.svc.example")
	for _, c := range []struct {
		what  string
		chain []*x509.Certificate
		want  string
	}{
		{"by name", []*x509.Certificate{ca.leaf(t, ok)}, "certificate/mesh/acme/dns:a.svc.example"},
		{"in capitals", []*x509.Certificate{ca.leaf(t, dns("A.SVC.example"))}, "certificate/mesh/acme/dns:a.svc.example"},
		{"two labels", []*x509.Certificate{ca.leaf(t, dns("a.b.svc.example"))}, "403"},
		{"suffix", []*x509.Certificate{ca.leaf(t, dns("a.svc.example.evil"))}, "403"},
		{"by common name", []*x509.Certificate{ca.leaf(t, func(c *x509.Certificate) {
			c.Subject = pkix.Name{CommonName: "batch-7", OrganizationalUnit: []string{"x", "ml"}}
		})}, "certificate/mesh/acme/cn:batch-7"},
		{"common name alone", []*x509.Certificate{ca.leaf(t, func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "batch-7"} })}, "403"},
		{"by address", []*x509.Certificate{ca.leaf(t, func(c *x509.Certificate) { c.EmailAddresses = []string{"a@ops.example"} })}, "certificate/mesh/acme/email:a@ops.example"},
		{"nameless", []*x509.Certificate{ca.leaf(t, func(*x509.Certificate) {})}, "403"},
		{"by an intermediate", []*x509.Certificate{between.leaf(t, ok), between.cert}, "certificate/mesh/acme/dns:a.svc.example"},
		{"intermediate missing", []*x509.Certificate{between.leaf(t, ok)}, "401"},
		{"another authority of that name", []*x509.Certificate{evil.leaf(t, ok)}, "401"},
		{"another authority, sent along", []*x509.Certificate{evil.leaf(t, ok), evil.cert}, "401"},
		{"self-signed", []*x509.Certificate{func() *x509.Certificate { c, _ := issue(t, nil, ok); return c }()}, "401"},
		{"the authority itself", []*x509.Certificate{ca.cert}, "401"},
		{"expired", []*x509.Certificate{ca.leaf(t, all(ok, func(c *x509.Certificate) { c.NotAfter = testNow.Add(-time.Second) }))}, "401"},
		{"not yet", []*x509.Certificate{ca.leaf(t, all(ok, func(c *x509.Certificate) { c.NotBefore = testNow.Add(time.Second) }))}, "401"},
		{"for servers", []*x509.Certificate{ca.leaf(t, all(ok, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }))}, "401"},
		{"for nothing in particular", []*x509.Certificate{ca.leaf(t, all(ok, func(c *x509.Certificate) { c.ExtKeyUsage = nil }))}, "certificate/mesh/acme/dns:a.svc.example"},
		{"by a leaf", func() []*x509.Certificate {
			c, k := issue(t, ca, ok)
			return []*x509.Certificate{(&authority{c, k}).leaf(t, ok), c}
		}(), "401"},
		{"long chain", slices.Repeat([]*x509.Certificate{ca.leaf(t, ok)}, 9), "401"},
		{"none", nil, "401"},
	} {
		for range 2 {
			if got := outcome(s.Certificate(c.chain)); got != c.want {
				t.Errorf("%s: got %s, want %s", c.what, got, c.want)
			}
		}
	}
	if id, err := s.Certificate([]*x509.Certificate{ca.leaf(t, ok)}); err != nil || !slices.Equal(id.Grants.Models, []string{"chat"}) || id.Kind != policy.KindCertificate {
		t.Errorf("got %+v, %v", id, err)
	}
}

func TestWorkloadCertificate(t *testing.T) {
	ca := newAuthority(t, "ca", nil)
	s := open(t, certTable(t, bundle(ca), func(c *config.Identity) {
		c.TrustDomain, c.Require, c.Tenant = "prod.example", nil, ""
		c.Grants = []config.IdentityGrant{{Match: []string{"spiffe=/ns/*/sa/batch"}, Tenant: "batch"}}
	}))
	both := func(c *x509.Certificate) {
		uri("spiffe://prod.example/ns/a/sa/batch")(c)
		uri("https://prod.example/")(c)
	}
	signs := func(c *x509.Certificate) {
		uri("spiffe://prod.example/ns/a/sa/batch")(c)
		c.KeyUsage |= x509.KeyUsageCRLSign
	}
	for _, c := range []struct {
		leaf *x509.Certificate
		want string
	}{
		{ca.leaf(t, uri("spiffe://prod.example/ns/a/sa/batch")), policy.CallerID(policy.KindCertificate, "mesh", "batch", policy.Subject("spiffe://prod.example/ns/a/sa/batch"))},
		{ca.leaf(t, uri("spiffe://prod.example/ns/a/b/sa/batch")), "403"},
		{ca.leaf(t, uri("spiffe://other.example/ns/a/sa/batch")), "403"},
		{ca.leaf(t, uri("spiffe://prod.example/ns/../sa/batch")), "403"},
		{ca.leaf(t, uri("spiffe://prod.example")), "403"},
		{ca.leaf(t, dns("a.svc.example")), "403"},
		{ca.leaf(t, both), "403"}, {ca.leaf(t, signs), "403"},
	} {
		if got := outcome(s.Certificate([]*x509.Certificate{c.leaf})); got != c.want {
			t.Errorf("%v: got %s, want %s", c.leaf.URIs, got, c.want)
		}
	}
}

// While one authority follows another both count; when the old one is taken out
// of the file its callers are out.
func TestRotationOfAuthorities(t *testing.T) {
	old, next := newAuthority(t, "ca", nil), newAuthority(t, "ca 2", nil)
	table := certTable(t, bundle(old), func(c *config.Identity) { c.Require = []string{"dns=**"} })
	s := open(t, table)
	a, b := []*x509.Certificate{old.leaf(t, dns("a.example"))}, []*x509.Certificate{next.leaf(t, dns("a.example"))}
	id, err := s.Certificate(a)
	if err != nil || outcome(s.Certificate(b)) != "401" {
		t.Fatal(id, err)
	}
	replace(t, table.CAFile, bundle(old, next))
	reread(t, s)
	id2, err := s.Certificate(b)
	if err != nil || id2.KeyID != id.KeyID || !id.Live() || outcome(s.Certificate(a)) != id.KeyID {
		t.Fatalf("in the overlap: %+v, %v", id2, err)
	}
	replace(t, table.CAFile, bundle(next))
	reread(t, s)
	if id.Live() || !id2.Live() || outcome(s.Certificate(a)) != "401" || outcome(s.Certificate(b)) != id.KeyID {
		t.Error("after the overlap the old authority counts, or the new one does not")
	}
	replace(t, table.CAFile, []byte("broken"))
	if _, err := (*s.sources.Load())[0].reread(); err == nil {
		t.Error("a broken file was taken")
	}
	if outcome(s.Certificate(b)) != id.KeyID {
		t.Error("a broken file has cost the old one")
	}
}

func TestRevocationLists(t *testing.T) {
	ca := newAuthority(t, "ca", nil)
	between := newAuthority(t, "between", ca)
	good, gone := ca.leaf(t, dns("good.example")), ca.leaf(t, dns("gone.example"))
	deep := between.leaf(t, dns("deep.example"))
	hour := testNow.Add(time.Hour)
	table := certTable(t, bundle(ca), func(c *config.Identity) {
		c.Require, c.RevocationFile = []string{"dns=**"}, writeTemp(t, "crl.pem", slices.Concat(ca.list(t, hour), between.list(t, hour)))
	})
	s := open(t, table)
	ask := func(c ...*x509.Certificate) string { return outcome(s.Certificate(c)) }
	id, err := s.Certificate([]*x509.Certificate{gone})
	if err != nil || ask(good) == "401" || ask(deep, between.cert) == "401" {
		t.Fatal(err)
	}
	step := func(what string, lists []byte, wantGood, wantDeep bool) {
		t.Helper()
		replace(t, table.RevocationFile, lists)
		reread(t, s)
		if (ask(good) != "401") != wantGood || (ask(deep, between.cert) != "401") != wantDeep || ask(gone) != "401" {
			t.Errorf("%s: got %s, %s, %s", what, ask(good), ask(deep, between.cert), ask(gone))
		}
	}
	step("revoked", slices.Concat(ca.list(t, hour, gone), between.list(t, hour)), true, true)
	if id.Live() {
		t.Error("a revoked caller is live")
	}
	step("the intermediate revoked", slices.Concat(ca.list(t, hour, gone, between.cert), between.list(t, hour)), true, false)
	step("a list is missing", ca.list(t, hour, gone), true, false)
	step("a list is over", slices.Concat(ca.list(t, testNow.Add(-time.Second), gone), between.list(t, hour)), false, false)
	step("a list of somebody else", newAuthority(t, "ca", nil).list(t, hour), false, false)
}

func replace(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	serial++ // so that each file has another time
	at := testNow.Add(time.Duration(serial) * time.Second)
	if err := os.Chtimes(path+".new", at, at); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// reread does now what watch does each second.
func reread(t testing.TB, s *Set) {
	t.Helper()
	for _, src := range *s.sources.Load() {
		if _, err := src.reread(); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkCertificateWarm(b *testing.B) {
	ca := newAuthority(b, "ca", nil)
	s := open(b, certTable(b, bundle(ca), nil))
	chain := []*x509.Certificate{ca.leaf(b, func(c *x509.Certificate) {
		dns("a.svc.example")(c)
		uri("spiffe://prod.example/a")(c)
	})}
	if _, err := s.Certificate(chain); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Certificate(chain); err != nil {
			b.Fatal(err)
		}
	}
}
