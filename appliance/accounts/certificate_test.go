package accounts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/web/admin"
)

type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

var serial int64

func (w *world) issue(by *signer, change func(*x509.Certificate)) *signer {
	w.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	serial++
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: w.now().Add(-time.Hour), NotAfter: w.now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if by == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign, nil
		c.Subject.CommonName = "authority"
	}
	if change != nil {
		change(c)
	}
	parent, key := c, k
	if by != nil {
		parent, key = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &k.PublicKey, key)
	if err != nil {
		w.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		w.t.Fatal(err)
	}
	return &signer{cert, k}
}

func (w *world) revoke(by *signer, path string, revoked ...*signer) {
	w.t.Helper()
	l := &x509.RevocationList{Number: big.NewInt(int64(len(revoked)) + 1), ThisUpdate: w.now(), NextUpdate: w.now().Add(time.Hour)}
	for _, r := range revoked {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: r.cert.SerialNumber, RevocationTime: w.now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, l, by.cert, by.key)
	if err == nil {
		err = os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func uris(s string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { u, _ := url.Parse(s); c.URIs = []*url.URL{u} }
}

func TestClientCertificates(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	root := w.issue(nil, nil)
	middle := w.issue(root, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.Subject.CommonName = true, true, x509.KeyUsageCertSign, "middle"
	})
	evil := w.issue(nil, nil)
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	crl := filepath.Join(dir, "crl.pem")
	w.revoke(root, crl)
	w.Configure(Settings{Idle: time.Hour, Lifetime: time.Hour, Tenants: []string{"lab"}, Folder: dir, Peers: config.SignInCertificate{
		CAFile: "ca.pem", RevocationFile: "crl.pem",
		Users: []config.CertificateUser{
			{Match: "cn:alice", Role: "owner"},
			{Match: "email:*@ops.example", Role: "operator"},
			{Match: "email:carol@lab.example", Name: "carol", Role: "tenant-admin", Tenant: "lab"},
			{Match: "uri:spiffe://box/admin/*", Role: "auditor"},
			{Match: "cn:gone", Role: "tenant-admin", Tenant: "gone"},
		},
	}})
	if pool, err := w.ClientAuthorities(); err != nil || pool == nil {
		t.Fatal(err)
	}
	name := func(cn string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: cn} }
	}
	mail := func(a string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.EmailAddresses = []string{a} }
	}
	for what, c := range map[string]struct {
		chain []*x509.Certificate
		user  string // empty: refused
		role  admin.Role
	}{
		"by name":         {[]*x509.Certificate{w.issue(root, name("alice")).cert}, "alice", admin.Owner},
		"by domain":       {[]*x509.Certificate{w.issue(root, mail("Olaf@OPS.example")).cert}, "Olaf@OPS.example", admin.Operator},
		"by address":      {[]*x509.Certificate{w.issue(root, mail("carol@lab.example")).cert}, "carol", admin.TenantAdmin},
		"by URI":          {[]*x509.Certificate{w.issue(root, uris("spiffe://box/admin/x")).cert}, "spiffe://box/admin/x", admin.Auditor},
		"by an issuer":    {[]*x509.Certificate{w.issue(middle, name("alice")).cert, middle.cert}, "alice", admin.Owner},
		"issuer missing":  {[]*x509.Certificate{w.issue(middle, name("alice")).cert}, "", ""},
		"unknown root":    {[]*x509.Certificate{w.issue(evil, name("alice")).cert, evil.cert}, "", ""},
		"self-signed":     {[]*x509.Certificate{w.issue(nil, name("alice")).cert}, "", ""},
		"nobody":          {[]*x509.Certificate{w.issue(root, name("mallory")).cert}, "", ""},
		"case of a name":  {[]*x509.Certificate{w.issue(root, name("Alice")).cert}, "", ""},
		"a longer domain": {[]*x509.Certificate{w.issue(root, mail("x@evil.ops.example")).cert}, "", ""},
		"two at signs":    {[]*x509.Certificate{w.issue(root, mail(`"a@b"@ops.example`)).cert}, "", ""},
		"URI beside":      {[]*x509.Certificate{w.issue(root, uris("spiffe://box/administrator")).cert}, "", ""},
		"URI above":       {[]*x509.Certificate{w.issue(root, uris("spiffe://box/admin/../x")).cert}, "", ""},
		"no tenant":       {[]*x509.Certificate{w.issue(root, name("gone")).cert}, "", ""},
		"expired":         {[]*x509.Certificate{w.issue(root, func(c *x509.Certificate) { name("alice")(c); c.NotAfter = w.now().Add(-time.Second) }).cert}, "", ""},
		"not yet":         {[]*x509.Certificate{w.issue(root, func(c *x509.Certificate) { name("alice")(c); c.NotBefore = w.now().Add(time.Hour) }).cert}, "", ""},
		"of a server": {[]*x509.Certificate{w.issue(root, func(c *x509.Certificate) {
			name("alice")(c)
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}).cert}, "", ""},
	} {
		got, err := w.VerifyPeer(w.ctx, c.chain, peer)
		switch {
		case c.user == "" && code(err) != infer.CodeUnauthorized:
			t.Errorf("%s: %+v, %v", what, got, err)
		case c.user != "" && (err != nil || got.User != c.user || got.Role != c.role || got.Method != "certificate" || !got.Fresh):
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	// A list that names it counts at once, one of another authority never.
	alice := w.issue(root, name("alice"))
	in := func() bool { _, err := w.VerifyPeer(w.ctx, []*x509.Certificate{alice.cert}, peer); return err == nil }
	w.revoke(evil, crl, alice)
	if !in() {
		t.Error("a list of another authority keeps it out")
	}
	w.revoke(root, crl, alice, evil)
	if in() {
		t.Error("it is let in though it was revoked")
	}
	if err := os.WriteFile(crl, []byte("-----BEGIN X509 CRL-----\nAA==\n-----END X509 CRL-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if in() {
		t.Error("it is let in though the list cannot be read")
	}
	w.Configure(Settings{Idle: time.Hour, Lifetime: time.Hour})
	if c, err := w.VerifyPeer(w.ctx, []*x509.Certificate{alice.cert}, peer); c != nil || err != nil {
		t.Errorf("certificates are not asked for: %v, %v", c, err)
	}
}

func FuzzRevocations(f *testing.F) {
	f.Add([]byte("-----BEGIN X509 CRL-----\nAA==\n-----END X509 CRL-----\n"))
	f.Add([]byte{0x30, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := parseRevocations(b); err == nil && len(l) == 0 {
			t.Error("no list and no error")
		}
	})
}
