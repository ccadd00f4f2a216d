package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"hearth/appliance/config"
)

// Certificate describes one certificate.
type Certificate struct {
	Subject     string    `json:"subject"`
	Issuer      string    `json:"issuer"`
	Serial      string    `json:"serial"`             // hexadecimal
	Fingerprint string    `json:"fingerprint_sha256"` // of the DER, "AB:CD:…"
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
	KeyType     string    `json:"key_type"` // "ECDSA P-256", "RSA 2048", "Ed25519"
	Authority   bool      `json:"authority"`
}

// Held is a certificate that the server uses, or waits for.
type Held struct {
	Source      string        `json:"source"` // "internal", "files", "acme"
	Name        string        `json:"name"`   // what to renew it by
	State       string        `json:"state"`  // "in use", "expired", "waiting", "stored"
	Names       []string      `json:"names"`
	Issuer      string        `json:"issuer,omitempty"`
	NotAfter    time.Time     `json:"not_after,omitzero"`
	DaysLeft    int           `json:"days_left"`
	NextRenewal time.Time     `json:"next_renewal,omitzero"` // absent: it is not renewed by us
	Chain       []Certificate `json:"chain"`
	LastError   string        `json:"last_error,omitempty"`
	FailedAt    time.Time     `json:"failed_at,omitzero"`
}

// Overlap tells of two roots that are trusted side by side.
type Overlap struct {
	Since time.Time `json:"since"`
	Old   string    `json:"old_fingerprint_sha256"`
}

// Report is everything about the certificates of the server.
type Report struct {
	Mode         string        `json:"mode"`
	MinVersion   string        `json:"min_version"`
	Certificates []Held        `json:"certificates"`
	Roots        []Certificate `json:"roots"` // what clients should trust, the newest first
	Overlap      *Overlap      `json:"overlap,omitempty"`
	Signer       string        `json:"signer"` // subject of what signs our certificates
	Directory    string        `json:"directory,omitempty"`
	Profile      string        `json:"profile,omitempty"`
	Warnings     []string      `json:"warnings"`
}

// fingerprint is the SHA-256 of c as browsers and tools show it.
func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	var b strings.Builder
	for i, x := range sum {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(strings.ToUpper(hex.EncodeToString([]byte{x})))
	}
	return b.String()
}

func describe(c *x509.Certificate) Certificate {
	return Certificate{
		Subject: c.Subject.String(), Issuer: c.Issuer.String(), Serial: c.SerialNumber.Text(16),
		Fingerprint: fingerprint(c), NotBefore: c.NotBefore.UTC(), NotAfter: c.NotAfter.UTC(),
		KeyType: keyType(c.PublicKey), Authority: c.IsCA,
	}
}

func describeAll(list []*x509.Certificate) []Certificate {
	out := make([]Certificate, len(list))
	for i, c := range list {
		out[i] = describe(c)
	}
	return out
}

func keyType(pub any) string {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		return "ECDSA " + k.Curve.Params().Name
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", k.N.BitLen())
	case ed25519.PublicKey:
		return "Ed25519"
	}
	return fmt.Sprintf("%T", pub)
}

// subjects are the names and addresses that a certificate is for.
func subjects(leaf *x509.Certificate) []string {
	names := append([]string{}, leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// used is a certificate in use.
type used struct {
	source, name string
	chain        []*x509.Certificate
	renewal      time.Time
}

// inUse lists what the server uses, the local one first; nothing where somebody
// else speaks TLS for it.
func (m *Manager) inUse() []used {
	if m.opt.TLS.Mode == config.TLSOff {
		return nil
	}
	var all []used
	add := func(source, name string, der [][]byte, renewed bool) {
		chain, err := parseChain(der)
		if err != nil {
			return
		}
		u := used{source: source, name: name, chain: chain}
		if renewed {
			u.renewal = renewalTime(chain[0]).UTC()
		}
		all = append(all, u)
	}
	if c, err := m.local.GetCertificate(&tls.ClientHelloInfo{ServerName: localSubject}); err == nil {
		add(config.TLSInternal, localSubject, c.Certificate, true)
	}
	if m.files != nil {
		c := m.files.get()
		name := m.files.cert
		if names := subjects(c.Leaf); len(names) > 0 {
			name = names[0]
		}
		add(config.TLSFiles, name, c.Certificate, false)
	}
	if a := m.acme.Load(); a != nil {
		for _, n := range a.names {
			if c := a.current(n); c != nil {
				add(config.TLSACME, n, c.Certificate.Certificate, true)
			}
		}
	}
	return all
}

// Status is one certificate in use, in short.
type Status struct {
	Source   string // "internal", "files", "acme"
	Names    []string
	NotAfter time.Time
}

// Status lists the certificates in use.
func (m *Manager) Status() []Status {
	var all []Status
	for _, u := range m.inUse() {
		all = append(all, Status{Source: u.source, Names: subjects(u.chain[0]), NotAfter: u.chain[0].NotAfter})
	}
	return all
}

// Report tells everything about the certificates.
func (m *Manager) Report() Report {
	t := m.opt.TLS
	r := Report{Mode: t.Mode, MinVersion: t.MinVersion, Certificates: []Held{}, Warnings: []string{}}
	r.authority(m.authority)
	now := m.opt.Now()
	waiting := map[string]bool{}
	if a := m.acme.Load(); a != nil {
		r.Directory, r.Profile = t.Directory, t.Profile
		for _, n := range a.names {
			waiting[n] = true
		}
	}
	for _, u := range m.inUse() {
		leaf := u.chain[0]
		e := Held{
			Source: u.source, Name: u.name, State: "in use", Names: subjects(leaf), Issuer: leaf.Issuer.String(),
			NotAfter: leaf.NotAfter.UTC(), DaysLeft: daysLeft(leaf, now), NextRenewal: u.renewal, Chain: describeAll(u.chain),
		}
		if now.After(leaf.NotAfter) {
			e.State = "expired"
		}
		e.LastError, e.FailedAt = m.lastError(u.source, u.name)
		if u.source == config.TLSACME {
			delete(waiting, u.name)
		}
		r.Certificates = append(r.Certificates, e)
		if w := expiryWarning(u, now); w != "" {
			r.Warnings = append(r.Warnings, w)
		}
	}
	for _, n := range t.Names {
		if n = strings.ToLower(n); waiting[n] {
			e := Held{Source: config.TLSACME, Name: n, State: "waiting", Names: []string{n}, Chain: []Certificate{}}
			e.LastError, e.FailedAt = m.events.lastError(config.TLSACME, n)
			r.Certificates = append(r.Certificates, e)
		}
	}
	if m.issuer != nil {
		if fault := m.issuer.refused(); fault != "" {
			r.Warnings = append(r.Warnings, fault)
		}
	}
	return r
}

// lastError is what failed last for a certificate and has not succeeded since.
func (m *Manager) lastError(source, name string) (string, time.Time) {
	if source == config.TLSFiles {
		fault := m.files.refused()
		if fault == "" {
			return "", time.Time{}
		}
		_, at := m.events.lastError(source, m.files.cert)
		return fault, at
	}
	return m.events.lastError(source, name)
}

func daysLeft(c *x509.Certificate, now time.Time) int {
	return int(c.NotAfter.Sub(now) / (24 * time.Hour))
}

// expiryWarning tells of a certificate that should have been renewed, or that
// nobody renews by itself.
func expiryWarning(u used, now time.Time) string {
	leaf := u.chain[0]
	ends := leaf.NotAfter.UTC().Format(time.DateTime)
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Sprintf("the certificate for %s (%s) expired at %s", u.name, u.source, ends)
	case u.renewal.IsZero() && leaf.NotAfter.Sub(now) < 30*24*time.Hour:
		return fmt.Sprintf("the certificate for %s in the files ends at %s: put a new one in its place", u.name, ends)
	case !u.renewal.IsZero() && now.After(u.renewal.Add(leaf.NotAfter.Sub(u.renewal)/2)):
		return fmt.Sprintf("the certificate for %s (%s) ends at %s and could not be renewed yet", u.name, u.source, ends)
	}
	return ""
}

// authority fills in what is known of the authority.
func (r *Report) authority(a *Authority) {
	r.Roots = describeAll(a.roots())
	now := a.now()
	for i, c := range r.Roots {
		if left := c.NotAfter.Sub(now); i == 0 && left < 365*24*time.Hour {
			r.Warnings = append(r.Warnings, fmt.Sprintf("the root certificate ends on %s: rotate it, so that clients can trust the next one in time", c.NotAfter.Format(time.DateOnly)))
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if fault := a.clockFault(); fault != "" {
		r.Warnings = append(r.Warnings, "nothing is issued: "+fault)
	}
	by, _ := a.signer()
	r.Signer = by.cert.Subject.String()
	if a.old != nil {
		r.Overlap = &Overlap{Since: a.rotated.UTC(), Old: fingerprint(a.old.cert)}
	}
}

// Events lists what happened to the certificates, the newest first.
func (m *Manager) Events() []Event { return m.events.list() }

// Root is what clients should trust, in the forms that they take.
type Root struct {
	Certificate
	PEM string `json:"pem"`
	DER []byte `json:"der"` // base64 in JSON
}

func rootsOf(list []*x509.Certificate) []Root {
	out := []Root{}
	for _, c := range list {
		out = append(out, Root{describe(c), string(pemOf(c)), c.Raw})
	}
	return out
}

// Roots lists what clients should trust, the newest first.
func (m *Manager) Roots() []Root { return rootsOf(m.authority.roots()) }

// StoredRoots reads the roots of our own authority from kv, without a running
// server; there are none before its first start.
func StoredRoots(ctx context.Context, kv KV, now func() time.Time) ([]Root, error) {
	a := &Authority{kv: kv, now: now}
	err := a.load(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		var first []byte
		if first, err = kv.Get(ctx, firstRootKey); err == nil {
			a.root, err = parsePair(first)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return []Root{}, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate authority: %w", err)
	}
	return rootsOf(a.roots()), nil
}

// Stored reads a report of what lies in kv, without a running server.
func Stored(ctx context.Context, kv KV, now func() time.Time) (Report, error) {
	r := Report{Certificates: []Held{}, Roots: []Certificate{}, Warnings: []string{}}
	roots, err := StoredRoots(ctx, kv, now)
	if err != nil {
		return r, err
	}
	for _, root := range roots {
		r.Roots = append(r.Roots, root.Certificate)
	}
	found, err := kv.List(ctx, certmagicPrefix+sitePrefix)
	if err != nil {
		return r, err
	}
	for _, f := range found {
		if !strings.HasSuffix(f.Key, certSuffix) {
			continue
		}
		text, err := kv.Get(ctx, f.Key)
		if err != nil {
			return r, err
		}
		chain, err := parseChainPEM(text)
		if err != nil {
			r.Warnings = append(r.Warnings, fmt.Sprintf("a stored certificate cannot be read: %v", err))
			continue
		}
		u := used{source: config.TLSACME, chain: chain, renewal: renewalTime(chain[0]).UTC()}
		if strings.Contains(f.Key, (*localIssuer)(nil).IssuerKey()) {
			u.source = config.TLSInternal
		}
		if names := subjects(chain[0]); len(names) > 0 {
			u.name = names[0]
		}
		r.Certificates = append(r.Certificates, Held{
			Source: u.source, Name: u.name, State: "stored", Names: subjects(chain[0]), Issuer: chain[0].Issuer.String(),
			NotAfter: chain[0].NotAfter.UTC(), DaysLeft: daysLeft(chain[0], now()), NextRenewal: u.renewal, Chain: describeAll(chain),
		})
		if w := expiryWarning(u, now()); w != "" {
			r.Warnings = append(r.Warnings, w)
		}
	}
	return r, nil
}
