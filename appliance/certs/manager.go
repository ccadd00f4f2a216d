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
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	"go.uber.org/zap"

	"hearth/appliance/config"
)

// Options of Open.
type Options struct {
	TLS  config.TLS
	KV   KV
	Port int // where the server listens, for the tls-alpn-01 challenge
	Log  *slog.Logger
	Now  func() time.Time
}

// localSubject is the one name under which the local certificate is kept.
const localSubject = "localhost"

// renewalRatio is the part of a lifetime that is left when it is renewed.
const renewalRatio = 1.0 / 3

// Manager hands out certificates during handshakes. It is safe for concurrent
// use and must be closed.
type Manager struct {
	authority *Authority
	caches    []*certmagic.Cache
	local     *certmagic.Config
	acme      *certmagic.Config // nil but in mode acme
	acmeNames []string
	files     *filePair // nil but in mode files
	log       *slog.Logger
	cancel    context.CancelFunc
}

// Open loads or issues what the configuration asks for. In mode acme it returns
// with a local certificate and goes on in the background.
func Open(ctx context.Context, o Options) (*Manager, error) {
	a, err := openAuthority(ctx, o.KV, o.Now)
	if err != nil {
		return nil, err
	}
	bg, cancel := context.WithCancel(context.Background())
	m := &Manager{authority: a, log: o.Log, cancel: cancel}
	s := newStorage(o.KV)
	zlog := zapToSlog(o.Log)
	err = m.openLocal(ctx, o, s, zlog)
	if err == nil {
		switch o.TLS.Mode {
		case config.TLSFiles:
			m.files, err = openFilePair(o.TLS.Certificate, o.TLS.Key, o.Log)
		case config.TLSACME:
			err = m.openACME(bg, o, s, zlog)
		}
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *Manager) openLocal(ctx context.Context, o Options, s *storage, zlog *zap.Logger) error {
	m.authority.cover(localNames(o.TLS.Names), o.TLS.Lifetime.Std())
	// Look about twenty times within the time that is left for a renewal.
	every := time.Duration(float64(o.TLS.Lifetime.Std()) * renewalRatio / 20)
	m.local = m.newConfig(s, zlog, min(max(every, time.Second), 10*time.Minute), m.authority)
	m.local.DefaultServerName = localSubject
	m.local.FallbackServerName = localSubject
	if err := m.local.ManageSync(ctx, []string{localSubject}); err != nil {
		return fmt.Errorf("cannot issue the server certificate: %w", err)
	}
	leaf, err := m.localLeaf()
	if err == nil && (!covers(leaf, localNames(o.TLS.Names)) || leaf.CheckSignatureFrom(m.authority.root) != nil) {
		if err = m.local.RenewCertSync(ctx, localSubject, true); err == nil {
			m.caches[0].RemoveManaged([]certmagic.SubjectIssuer{{Subject: localSubject}})
			err = m.local.ManageSync(ctx, []string{localSubject})
		}
	}
	if err != nil {
		return fmt.Errorf("cannot issue the server certificate anew: %w", err)
	}
	return nil
}

func (m *Manager) openACME(bg context.Context, o Options, s *storage, zlog *zap.Logger) error {
	var roots *x509.CertPool
	if o.TLS.CAFile != "" {
		pem, err := os.ReadFile(o.TLS.CAFile)
		if err != nil {
			return fmt.Errorf("cannot read tls.ca_file: %w", err)
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(pem) {
			return fmt.Errorf("cannot use tls.ca_file: %s has no PEM certificate", o.TLS.CAFile)
		}
	}
	m.acmeNames = o.TLS.Names
	m.acme = m.newConfig(s, zlog, 10*time.Minute)
	m.acme.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(m.acme, certmagic.ACMEIssuer{
		CA: o.TLS.Directory, Email: o.TLS.Email, Agreed: true, TrustedRoots: roots,
		// Only the port that we listen on is ours to answer challenges on.
		DisableHTTPChallenge: true, AltTLSALPNPort: o.Port, Logger: zlog,
	})}
	return m.acme.ManageAsync(bg, o.TLS.Names)
}

// newConfig makes a certmagic configuration with a cache of its own, so that a
// name may be held by both authorities without a doubt which one is meant.
func (m *Manager) newConfig(s *storage, zlog *zap.Logger, every time.Duration, issuers ...certmagic.Issuer) *certmagic.Config {
	var cfg *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return cfg, nil },
		RenewCheckInterval: every,
		Logger:             zlog,
	})
	m.caches = append(m.caches, cache)
	cfg = certmagic.New(cache, certmagic.Config{
		Storage: s, Issuers: issuers, Logger: zlog,
		RenewalWindowRatio: renewalRatio,
		KeySource:          certmagic.StandardKeyGenerator{KeyType: certmagic.P256},
		// Our authority has no responder, and an air-gapped box reaches none.
		OCSP:       certmagic.OCSPConfig{DisableStapling: true},
		DisableARI: len(issuers) > 0,
	})
	return cfg
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

func covers(leaf *x509.Certificate, names []string) bool {
	for _, n := range names {
		if strings.HasPrefix(n, "*.") {
			if !slices.Contains(leaf.DNSNames, n) {
				return false
			}
		} else if leaf.VerifyHostname(n) != nil {
			return false
		}
	}
	return true
}

// Names are the names and addresses under which clients can reach the server.
func (m *Manager) Names() []string {
	leaf, err := m.localLeaf()
	if err != nil {
		return nil
	}
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// RootPEM is the certificate of the appliance's own authority.
func (m *Manager) RootPEM() []byte { return m.authority.pem }

// TLSConfig is what the server listens with.
func (m *Manager) TLSConfig() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: m.GetCertificate}
	if m.acme != nil {
		c.NextProtos = []string{"h2", "http/1.1", acmez.ACMETLS1Protocol}
	}
	return c
}

// GetCertificate chooses the certificate of a handshake.
func (m *Manager) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if m.files != nil && (m.files.covers(askedName(hello)) || !isLoopback(hello)) {
		return m.files.get(), nil
	}
	if m.acme != nil && (len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == acmez.ACMETLS1Protocol ||
		slices.Contains(m.acmeNames, strings.ToLower(hello.ServerName))) {
		if c, err := m.acme.GetCertificate(hello); err == nil && c != nil && len(c.Certificate) > 0 {
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
	return hello.ServerName
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

// Status is one certificate in use.
type Status struct {
	Source   string // "internal", "files", "acme"
	Names    []string
	NotAfter time.Time
}

// Status lists the certificates in use.
func (m *Manager) Status() []Status {
	var all []Status
	add := func(source string, leaf *x509.Certificate) {
		all = append(all, Status{Source: source, Names: leaf.DNSNames, NotAfter: leaf.NotAfter})
	}
	if leaf, err := m.localLeaf(); err == nil {
		add(config.TLSInternal, leaf)
	}
	if m.files != nil {
		add(config.TLSFiles, m.files.get().Leaf)
	}
	for _, n := range m.acmeNames {
		if c, err := m.acme.GetCertificate(&tls.ClientHelloInfo{ServerName: n}); err == nil && c.Leaf != nil {
			add(config.TLSACME, c.Leaf)
		}
	}
	return all
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

// Close ends renewal. Handshakes go on with what is there.
func (m *Manager) Close() {
	m.cancel()
	for _, c := range m.caches {
		c.Stop()
	}
	m.caches = nil
}
