package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// firstRelease is a root as the first release made and kept it: a path length of
// zero, certificate and key in one PEM value.
func firstRelease(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{Organization: []string{"Hearth"}, CommonName: "Hearth local authority 00c0ffee"},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(24 * 365 * time.Hour * 9),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	out := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(out, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
}

func writeChain(t *testing.T, file string, chain [][]byte) {
	t.Helper()
	var out []byte
	for _, der := range chain {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
}

// accepts says whether a client that trusts root alone accepts what m serves, as
// Go and, if it is there, as OpenSSL see it.
func accepts(t *testing.T, m *Manager, root *x509.Certificate) error {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(root)
	port := serve(t, m, "127.0.0.1:0")
	c, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{RootCAs: pool, ServerName: "localhost"})
	if err != nil {
		return err
	}
	chain := c.ConnectionState().PeerCertificates
	c.Close()
	tool, err := exec.LookPath("openssl")
	if err != nil {
		return nil
	}
	dir := t.TempDir()
	ca, leaf, rest := filepath.Join(dir, "ca"), filepath.Join(dir, "leaf"), filepath.Join(dir, "rest")
	writeChain(t, ca, [][]byte{root.Raw})
	writeChain(t, leaf, [][]byte{chain[0].Raw})
	args := []string{"verify", "-no-CApath", "-no-CAstore", "-CAfile", ca, "-x509_strict", "-purpose", "sslserver", "-verify_hostname", "localhost"}
	if len(chain) > 1 {
		var der [][]byte
		for _, c := range chain[1:] {
			der = append(der, c.Raw)
		}
		writeChain(t, rest, der)
		args = append(args, "-untrusted", rest)
	}
	if out, err := exec.Command(tool, append(args, leaf)...).CombinedOutput(); err != nil {
		t.Errorf("OpenSSL does not accept it: %s", out)
	}
	return nil
}

func TestChainHasIntermediate(t *testing.T) {
	m := open(t, options(newMemory()))
	r := m.Report()
	if len(r.Certificates) != 1 || len(r.Certificates[0].Chain) != 2 || len(r.Roots) != 1 {
		t.Fatalf("the report: %+v", r)
	}
	if err := accepts(t, m, m.authority.root.cert); err != nil {
		t.Error(err)
	}
}

// Clients that trust only the old root and clients that trust only the new one
// are both served while roots are changed; after that only the new one counts.
// A root of the first release is rotated too, although it may vouch for nothing.
func TestRotation(t *testing.T) {
	ctx := context.Background()
	for name, first := range map[string][]byte{"own": nil, "first release": firstRelease(t)} {
		t.Run(name, func(t *testing.T) {
			kv := newMemory()
			if first != nil {
				kv.m[firstRootKey] = first
			}
			var told []byte
			o := options(kv)
			o.Roots = func(text []byte) error { told = text; return nil }
			m := open(t, o)
			old := m.authority.root.cert
			if err := m.Retire(ctx); err == nil {
				t.Error("the only root was retired")
			}
			if err := m.Rotate(ctx); err != nil {
				t.Fatal(err)
			}
			now := m.authority.root.cert
			if err := m.Rotate(ctx); err == nil {
				t.Error("a second rotation began within the first")
			}
			if strings.Count(string(told), "BEGIN CERTIFICATE") != 2 {
				t.Errorf("clients were told to trust %s", told)
			}
			for _, root := range []*x509.Certificate{old, now} {
				if err := accepts(t, m, root); err != nil {
					t.Errorf("during the overlap a client that trusts only %s: %v", root.Subject, err)
				}
			}
			again := open(t, o) // what was made is kept
			if err := accepts(t, again, old); err != nil {
				t.Errorf("after a restart: %v", err)
			}
			if err := again.Retire(ctx); err != nil {
				t.Fatal(err)
			}
			if err := accepts(t, again, now); err != nil {
				t.Errorf("after the overlap: %v", err)
			}
			if err := accepts(t, again, old); err == nil {
				t.Error("a retired root is still of use")
			}
			if _, ok := kv.m[firstRootKey]; ok {
				t.Error("the key of the first root is still there")
			}
			// A root of ours may be rotated as often as one likes.
			if err := again.Rotate(ctx); err != nil {
				t.Fatal(err)
			}
			if err := accepts(t, again, now); err != nil {
				t.Errorf("in the second overlap: %v", err)
			}
		})
	}
}

// The root of an earlier release stays: people have trusted it.
func TestMigration(t *testing.T) {
	kv := newMemory()
	kv.m[firstRootKey] = firstRelease(t)
	old, err := parsePair(kv.m[firstRootKey])
	if err != nil {
		t.Fatal(err)
	}
	m := open(t, options(kv))
	if !m.authority.root.cert.Equal(old.cert) || string(m.RootPEM()) != string(pemOf(old.cert)) {
		t.Fatal("another root was made")
	}
	if err := accepts(t, m, old.cert); err != nil {
		t.Error(err)
	}
	leaf, _ := m.localLeaf()
	// Certificate and key as they were stored one beside the other.
	site := certmagicPrefix + "certificates/hearth-local/localhost/localhost"
	cert, private := splitPair(kv.m[site+certSuffix])
	if private == nil {
		t.Fatal("certificate and key are not kept together")
	}
	kv.m[site+certSuffix], kv.m[site+keySuffix] = cert, private
	again := open(t, options(kv))
	if second, _ := again.localLeaf(); !second.Equal(leaf) {
		t.Error("a certificate of the earlier layout was not taken")
	}
	// A pair that a crash has torn apart is issued anew.
	other := open(t, options(newMemory()))
	c, _ := other.local.GetCertificate(&tls.ClientHelloInfo{ServerName: "localhost"})
	der, _ := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	kv.m[site+keySuffix] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	third := open(t, options(kv))
	if err := accepts(t, third, old.cert); err != nil {
		t.Error(err)
	}
	if e := third.Events(); !hasEvent(e, EventDiscarded) {
		t.Errorf("events: %+v", e)
	}
}

func hasEvent(all []Event, kind string) bool {
	for _, e := range all {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

func TestIntermediateIsRenewed(t *testing.T) {
	ctx := context.Background()
	kv := newMemory()
	o := options(kv)
	now := time.Now()
	o.Now = func() time.Time { return now }
	m := open(t, o)
	first := m.authority.intermediate.cert
	now = now.Add(intermediateLifetime * 3 / 4)
	if err := m.authority.upkeep(ctx, m.events); err != nil {
		t.Fatal(err)
	}
	if m.authority.intermediate.cert.Equal(first) || !hasEvent(m.Events(), EventIntermediate) {
		t.Error("the intermediate was not renewed")
	}
}

// A root that has expired is replaced; the server goes on.
func TestExpiredRoot(t *testing.T) {
	kv := newMemory()
	o := options(kv)
	past := time.Now().Add(-rootLifetime - time.Hour)
	o.Now = func() time.Time { return past }
	a := &Authority{kv: kv, now: o.Now}
	if err := a.begin(context.Background(), openEvents(context.Background(), kv, o.Now, o.Log)); err != nil {
		t.Fatal(err)
	}
	m := open(t, options(kv))
	if err := accepts(t, m, m.authority.root.cert); err != nil {
		t.Error(err)
	}
}

func TestClock(t *testing.T) {
	o := options(newMemory())
	o.Built = time.Now().Add(time.Hour)
	if _, err := Open(context.Background(), o); err == nil || !strings.Contains(err.Error(), "set the clock") {
		t.Errorf("a first start with a clock before the build: %v", err)
	}
	kv := newMemory()
	open(t, options(kv))
	o = options(kv)
	o.Now = func() time.Time { return time.Now().Add(-48 * time.Hour) }
	m := open(t, o) // what is there still serves
	if w := m.Report().Warnings; len(w) == 0 || !strings.Contains(w[0], "set the clock") {
		t.Errorf("warnings: %q", w)
	}
	if err := m.Renew(context.Background(), ""); err == nil || !strings.Contains(err.Error(), "set the clock") {
		t.Errorf("a renewal: %v", err)
	}
	if err := m.Rotate(context.Background()); err == nil {
		t.Error("a rotation with a wrong clock was accepted")
	}
}

// A site's own intermediate signs in place of ours.
func TestSuppliedIntermediate(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	site, err := makeRoot(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	write := func() {
		a := &Authority{root: site, now: time.Now}
		if err := a.makeIntermediate(); err != nil {
			t.Fatal(err)
		}
		der, _ := x509.MarshalPKCS8PrivateKey(a.intermediate.key)
		writeChain(t, cert, [][]byte{a.intermediate.cert.Raw, site.cert.Raw})
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
	}
	write()
	o := options(newMemory())
	plain := open(t, o)
	o.TLS.IssuerCertificate, o.TLS.IssuerKey = cert, key
	o.Prior = plain
	m := open(t, o)
	if err := accepts(t, m, site.cert); err != nil {
		t.Error(err)
	}
	if string(m.RootPEM()) != string(pemOf(site.cert)) {
		t.Error("clients are not told to trust the site's root")
	}
	if err := m.Rotate(context.Background()); err == nil {
		t.Error("a root that is not ours was rotated")
	}
	before, _ := m.localLeaf()
	write()
	m.checkAll(context.Background())
	after, _ := m.localLeaf()
	if before.Issuer.String() == after.Issuer.String() {
		t.Error("a changed intermediate was not taken")
	}
	if err := accepts(t, m, site.cert); err != nil {
		t.Error(err)
	}
	os.WriteFile(cert, []byte("nothing"), 0o600)
	m.checkAll(context.Background())
	if w := m.Report().Warnings; len(w) != 1 {
		t.Errorf("warnings: %q", w)
	}
	o.TLS.IssuerCertificate, o.TLS.IssuerKey, o.Prior = "", "", m
	if err := accepts(t, open(t, o), plain.authority.root.cert); err != nil {
		t.Errorf("back with our own: %v", err)
	}
}
