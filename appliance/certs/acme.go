package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"

	"hearth/appliance/config"
	"hearth/appliance/reach"
)

// acmeState is what mode acme has beside the local authority.
type acmeState struct {
	*managed
	issuer *certmagic.ACMEIssuer
	names  []string
	now    func() time.Time

	renewing sync.Mutex // one renewal by hand at a time

	mu   sync.Mutex         // guards below
	stop context.CancelFunc // ends what ManageAsync has going; nil: nothing yet
}

// order has certmagic obtain and renew what is missing, and go on trying.
func (a *acmeState) order(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx, a.stop = context.WithCancel(ctx)
	return a.ManageAsync(ctx, a.names)
}

// pause ends the attempts that go on in the background: between two of them
// certmagic holds the lock of the name, for hours in the end, and nobody who has
// mended what was wrong should have to wait.
func (a *acmeState) pause() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
}

// Ports are where the server can be reached for the challenges of ACME.
type Ports struct {
	TLS  int // of the server, for tls-alpn-01 (RFC 8737)
	HTTP int // of the redirecting listener, for http-01 (RFC 8555 §8.3); 0: there is none
}

// Begin starts what goes on in the background: renewal of files and authority
// and, in mode acme, orders. The listeners must be open, since otherwise the
// challenges would be answered on ports of their own. It returns at once: an
// ACME authority that hangs or fails delays nothing. It is called once.
func (m *Manager) Begin(p Ports) error {
	if m.opt.TLS.Mode == config.TLSACME {
		if err := m.beginACME(p); err != nil {
			return err
		}
	}
	m.done = make(chan struct{})
	go m.upkeep()
	return nil
}

// trusted is the pool behind tls.ca_file; nil: the system's.
func trusted(t config.TLS) (*x509.CertPool, error) {
	if t.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read tls.ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("cannot use tls.ca_file: %s has no PEM certificate", t.CAFile)
	}
	return roots, nil
}

func (m *Manager) beginACME(p Ports) error {
	t := m.opt.TLS
	roots, err := trusted(t)
	if err != nil {
		return err
	}
	a := &acmeState{now: m.opt.Now}
	for _, n := range t.Names {
		a.names = append(a.names, strings.ToLower(n))
	}
	a.managed = m.manage(config.TLSACME, time.Minute, certmagic.Config{
		Issuers: []certmagic.Issuer{nobody{}}, // replaced below: one needs the other
		// An air-gapped box reaches no responder.
		OCSP: certmagic.OCSPConfig{DisableStapling: !t.OCSP},
	})
	template := certmagic.ACMEIssuer{
		CA: t.Directory, Email: t.Email, Agreed: true, TrustedRoots: roots, Profile: t.Profile,
		ListenHost: m.opt.ListenHost, AltTLSALPNPort: p.TLS,
		DisableHTTPChallenge: p.HTTP == 0, AltHTTPPort: p.HTTP,
		DisableDistributedSolvers: true, // one process has the database
		HTTPProxy:                 reach.Requests(http.ProxyFromEnvironment),
		Logger:                    m.zlog,
	}
	if t.EABKeyID != "" {
		template.ExternalAccount = &acme.EAB{KeyID: t.EABKeyID, MACKey: m.opt.EABKey}
	}
	a.issuer = certmagic.NewACMEIssuer(a.Config, template)
	a.Issuers[0] = a.issuer
	plain := *a.Config
	plain.DisableARI = true
	plain.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(&plain, template)}
	a.second = &plain
	m.acme.Store(a)
	manage := func() error {
		for _, n := range a.names {
			m.discardUnreadable(m.background, a.managed, config.TLSACME, n)
		}
		return a.order(m.background)
	}
	if t.OCSP { // loading a certificate then asks its responder
		go func() {
			if err := manage(); err != nil && m.background.Err() == nil {
				m.events.add(m.background, Event{Kind: EventFailed, Source: config.TLSACME, Error: err.Error()})
			}
		}()
		return nil
	}
	return manage()
}

// nobody is an issuer that issues nothing.
type nobody struct{}

func (nobody) IssuerKey() string { return "nobody" }

func (nobody) Issue(context.Context, *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	return nil, errors.New("cannot issue a certificate: ACME is being set up")
}

// discardUnreadable removes what is stored for name if it cannot be used, so
// that it is issued anew: better than a server that does not start.
func (m *Manager) discardUnreadable(ctx context.Context, c *managed, source, name string) {
	for _, issuer := range c.Issuers {
		err := m.storage.usable(ctx, issuer.IssuerKey(), name)
		if err == nil || errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
			continue
		}
		m.events.add(ctx, Event{Kind: EventDiscarded, Source: source, Name: name, Error: err.Error()})
		if err := m.storage.Delete(ctx, certmagic.StorageKeys.CertsSitePrefix(issuer.IssuerKey(), name)); err != nil {
			m.log.Error("cannot discard a stored certificate", "name", name, "error", err)
		}
	}
}

// usable says why what is stored for a name cannot be used; fs.ErrNotExist if
// nothing is.
func (s *storage) usable(ctx context.Context, issuer, name string) error {
	cert, err := s.Load(ctx, certmagic.StorageKeys.SiteCert(issuer, name))
	if err != nil {
		return err
	}
	key, err := s.Load(ctx, certmagic.StorageKeys.SitePrivateKey(issuer, name))
	if err != nil {
		return err
	}
	meta, err := s.Load(ctx, certmagic.StorageKeys.SiteMeta(issuer, name))
	if err != nil {
		return err
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return err
	}
	if !json.Valid(meta) {
		return errors.New("what is stored with it is no JSON")
	}
	return nil
}

// certificate is the answer to hello, nil if the local authority should answer:
// nothing has been issued yet, or what was issued has expired.
func (a *acmeState) certificate(hello *tls.ClientHelloInfo, name string) *tls.Certificate {
	challenge := len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == acmez.ACMETLS1Protocol
	if !challenge && !slices.Contains(a.names, name) {
		return nil
	}
	c, err := a.GetCertificate(hello)
	if err != nil || c == nil || len(c.Certificate) == 0 {
		return nil
	}
	if !challenge && c.Leaf != nil && a.now().After(c.Leaf.NotAfter) {
		return nil
	}
	return c
}

// current is what is held for name, nil if nothing is.
func (a *acmeState) current(name string) *certmagic.Certificate {
	for _, c := range a.cache.AllMatchingCertificates(name) {
		if c.Leaf != nil {
			return &c
		}
	}
	return nil
}

// HTTPChallenge answers r if it is an http-01 challenge of an order of ours.
func (m *Manager) HTTPChallenge(w http.ResponseWriter, r *http.Request) bool {
	a := m.acme.Load()
	return a != nil && a.issuer.HandleHTTPChallenge(w, r)
}
