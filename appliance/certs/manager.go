// Package certs gives the server its certificates: from the appliance's own
// authority, from files, or from an ACME authority with the own one standing in
// until that has answered. Certificates are renewed while serving; no
// connection is cut and the start never waits for the network.
package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	"go.uber.org/zap"

	"hearth/appliance/config"
)

// Options of Open.
type Options struct {
	TLS config.TLS // with files as absolute paths
	KV  KV
	Log *slog.Logger
	Now func() time.Time
	// Built is when this program was: a clock before it is wrong, and nothing is
	// issued. Zero: not known.
	Built time.Time
	// EABKey is the secret behind TLS.EABKey, base64url (RFC 8555 §7.3.4).
	EABKey string
	// ListenHost is where the server listens, for the challenges of ACME.
	ListenHost string
	// Roots is told what clients should trust, PEM, at the beginning and whenever
	// that changes.
	Roots func(pem []byte) error
	// Prior is the manager that this one takes over from. It must be of the same
	// KV, and serves until it is closed.
	Prior *Manager
}

// localSubject is the one name under which the local certificate is kept.
const localSubject = "localhost"

// renewalRatio is the part of a lifetime that is left when it is renewed.
const renewalRatio = 1.0 / 3

// Manager hands out certificates during handshakes. It is safe for concurrent
// use and must be closed.
type Manager struct {
	opt       Options
	log       *slog.Logger
	zlog      *zap.Logger
	storage   *storage
	events    *eventLog
	authority *Authority
	tls       *tls.Config

	local      *managed
	localNames []string
	acme       atomic.Pointer[acmeState]  // nil but in mode acme, and before Begin
	files      *watched[*tls.Certificate] // nil but in mode files
	issuer     *watched[*supplied]        // nil without a site's intermediate
	changing   sync.Mutex                 // one change of what needs no network at a time
	told       atomic.Pointer[string]     // what Roots was told last
	background context.Context            // ends with Close
	cancel     context.CancelFunc
	done       chan struct{} // closed when upkeep has ended; nil before it began
	closing    sync.Once
}

// managed is a certmagic configuration with a cache of its own, so that a name
// may be held by both authorities without a doubt which one is meant.
type managed struct {
	*certmagic.Config
	cache  *certmagic.Cache
	second *certmagic.Config // for a second attempt, nil: there is none
}

// Open loads or issues what the configuration asks for, and reaches for no
// network: in mode acme the local certificate stands in until Begin has brought
// another.
func Open(ctx context.Context, o Options) (*Manager, error) {
	m := &Manager{opt: o, log: o.Log, zlog: zapToSlog(o.Log)}
	m.background, m.cancel = context.WithCancel(context.Background())
	if p := o.Prior; p != nil {
		m.storage, m.events, m.authority = p.storage, p.events, p.authority
	} else {
		m.storage = newStorage(o.KV)
		m.events = openEvents(ctx, o.KV, o.Now, o.Log)
		var err error
		if m.authority, err = openAuthority(ctx, o.KV, o.Now, o.Built, m.events); err != nil {
			m.cancel()
			return nil, err
		}
	}
	m.opt.Prior = nil // not needed any more
	m.tls = m.newTLSConfig()
	before, err := m.openIssuer()
	if err == nil {
		err = m.openLocal(ctx)
	}
	if err == nil && o.TLS.Mode == config.TLSFiles {
		m.files, err = watch(o.TLS.Certificate, o.TLS.Key, config.TLSFiles, m.events, m.loadServer)
	}
	if err == nil {
		err = m.tellRoots()
	}
	if err != nil {
		m.authority.use(before)
		m.Close()
		return nil, err
	}
	return m, nil
}

// openIssuer takes a site's own intermediate, if there is one.
func (m *Manager) openIssuer() (before *supplied, err error) {
	t := m.opt.TLS
	if t.IssuerCertificate == "" {
		return m.authority.use(nil), nil
	}
	load := func(cert, key string) (*supplied, error) { return loadSupplied(cert, key, m.opt.Now()) }
	m.issuer, err = watch(t.IssuerCertificate, t.IssuerKey, sourceAuthority, m.events, load)
	if err != nil {
		m.authority.mu.Lock()
		defer m.authority.mu.Unlock()
		return m.authority.supplied, err
	}
	return m.authority.use(m.issuer.get()), nil
}

// loadServer reads a pair for mode files. One that has expired replaces nothing.
func (m *Manager) loadServer(cert, key string) (*tls.Certificate, error) {
	c, err := loadServer(cert, key)
	if err == nil && m.files != nil && m.opt.Now().After(c.Leaf.NotAfter) {
		return nil, fmt.Errorf("it expired on %s", c.Leaf.NotAfter.UTC().Format(time.DateTime))
	}
	return c, err
}

func (m *Manager) openLocal(ctx context.Context) error {
	t := m.opt.TLS
	m.localNames = localNames(t.Names)
	issuer := &localIssuer{m.authority, m.localNames, t.Lifetime.Std()}
	// Look about twenty times within the time that is left for a renewal.
	every := time.Duration(float64(t.Lifetime.Std()) * renewalRatio / 20)
	m.local = m.manage(config.TLSInternal, min(max(every, time.Second), 10*time.Minute), certmagic.Config{
		Issuers: []certmagic.Issuer{issuer}, DisableARI: true,
		DefaultServerName: localSubject, FallbackServerName: localSubject,
		// Our authority has no responder.
		OCSP: certmagic.OCSPConfig{DisableStapling: true},
	})
	m.discardUnreadable(ctx, m.local, config.TLSInternal, localSubject)
	if err := m.local.ManageSync(ctx, []string{localSubject}); err != nil {
		return fmt.Errorf("cannot issue the server certificate: %w", err)
	}
	return m.refit(ctx)
}

// refit issues the local certificate anew if it is not what the authority and
// the names of the day ask for.
func (m *Manager) refit(ctx context.Context) error {
	have, err := m.local.GetCertificate(&tls.ClientHelloInfo{ServerName: localSubject})
	if err != nil {
		return err
	}
	issuer := m.local.Issuers[0].(*localIssuer)
	why := issuer.fits(have.Certificate)
	if why == nil {
		return nil
	}
	if fault := m.authority.Clock(); fault != "" {
		m.log.Error("the certificate should be issued anew", "reason", why, "error", fault)
		return nil
	}
	m.log.Info("the certificate is issued anew", "reason", why)
	return m.renewOnce(ctx, m.local, localSubject)
}

// manage completes cfg and gives it a cache that looks for what is to be renewed
// once every so often.
func (m *Manager) manage(source string, every time.Duration, cfg certmagic.Config) *managed {
	out := &managed{}
	out.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return out.Config, nil },
		RenewCheckInterval: every,
		Logger:             m.zlog,
	})
	cfg.Storage, cfg.Logger, cfg.RenewalWindowRatio = m.storage, m.zlog, renewalRatio
	cfg.KeySource = certmagic.StandardKeyGenerator{KeyType: certmagic.P256}
	cfg.OnEvent = func(ctx context.Context, event string, data map[string]any) error {
		m.note(ctx, source, event, data)
		return nil
	}
	cfg.ShouldEmitFunc = func(event string) bool { return strings.HasPrefix(event, "cert_") }
	out.Config = certmagic.New(out.cache, cfg)
	return out
}

// localNames are what the local certificate covers.
func localNames(extra []string) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if h, err := os.Hostname(); err == nil && h != "" {
		names = append(names, strings.ToLower(h))
	}
	for _, n := range extra {
		if n = strings.ToLower(n); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// Names are the names and addresses under which clients can reach the server.
func (m *Manager) Names() []string { return slices.Clone(m.localNames) }

// Covers says whether a certificate in use is for name.
func (m *Manager) Covers(name string) bool {
	for _, s := range m.inUse() {
		if covers(s.chain[0], name) {
			return true
		}
	}
	return false
}

// RootPEM is what clients should trust: the roots of the appliance's own
// authority, or what a site has supplied.
func (m *Manager) RootPEM() []byte { return m.authority.rootPEM() }

// tellRoots passes on what clients should trust, if that has changed.
func (m *Manager) tellRoots() error {
	text := string(m.RootPEM())
	if had := m.told.Load(); m.opt.Roots == nil || had != nil && *had == text {
		return nil
	}
	if err := m.opt.Roots([]byte(text)); err != nil {
		return fmt.Errorf("cannot write the root certificate: %w", err)
	}
	m.told.Store(&text)
	return nil
}

// Same says whether o asks for what m gives already.
func (m *Manager) Same(o Options) bool {
	return reflect.DeepEqual(m.opt.TLS, o.TLS) && m.opt.EABKey == o.EABKey && m.opt.ListenHost == o.ListenHost
}

// newTLSConfig is TLS 1.2 or 1.3 with forward secrecy and authenticated
// encryption only; curves are Go's own choice, X25519MLKEM768 first. Keys of
// session tickets are Go's too, which changes them every day.
func (m *Manager) newTLSConfig() *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: m.GetCertificate,
		NextProtos: []string{"h2", "http/1.1"},
		CipherSuites: []uint16{ // of TLS 1.2; those of 1.3 are all of this kind
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
	}
	if m.opt.TLS.MinVersion == config.TLS13 {
		c.MinVersion = tls.VersionTLS13
	}
	if m.opt.TLS.Mode == config.TLSACME {
		c.NextProtos = append(c.NextProtos, acmez.ACMETLS1Protocol)
	}
	return c
}

// TLSConfig is what the server listens with. It must not be changed.
func (m *Manager) TLSConfig() *tls.Config { return m.tls }

// GetCertificate chooses the certificate of a handshake.
func (m *Manager) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := askedName(hello)
	if m.files != nil {
		if c := m.files.get(); covers(c.Leaf, name) || !isLoopback(hello) {
			return c, nil
		}
	}
	if a := m.acme.Load(); a != nil {
		if c := a.certificate(hello, name); c != nil {
			return c, nil
		}
	}
	return m.local.GetCertificate(hello)
}

// askedName is the name or, without SNI, the address that the client connected to.
func askedName(hello *tls.ClientHelloInfo) string {
	if hello.ServerName == "" && hello.Conn != nil {
		if addr, ok := hello.Conn.LocalAddr().(*net.TCPAddr); ok {
			return addr.IP.String()
		}
	}
	return strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
}

// isLoopback says whether the client is on this machine: its tools keep to the
// local authority, whatever the outside is shown.
func isLoopback(hello *tls.ClientHelloInfo) bool {
	if hello.Conn == nil {
		return false
	}
	addr, ok := hello.Conn.RemoteAddr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

func (m *Manager) localLeaf() (*x509.Certificate, error) {
	c, err := m.local.GetCertificate(&tls.ClientHelloInfo{ServerName: localSubject})
	if err != nil {
		return nil, err
	}
	if c.Leaf == nil {
		return nil, errors.New("the local certificate has not been parsed")
	}
	return c.Leaf, nil
}

// Close ends renewal. Handshakes go on with what is there. It may be called more
// than once.
func (m *Manager) Close() {
	m.closing.Do(func() {
		m.cancel()
		if m.done != nil {
			<-m.done
		}
		if m.local != nil {
			m.local.cache.Stop()
		}
		if a := m.acme.Load(); a != nil {
			a.cache.Stop()
		}
	})
}
