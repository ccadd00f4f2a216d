package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/appliance/config"
)

// memory is a KV for tests.
type memory struct {
	mu sync.Mutex
	m  map[string][]byte
}

func newMemory() *memory { return &memory{m: map[string][]byte{}} }

func (k *memory) Get(_ context.Context, key string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.m[key]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return slices.Clone(v), nil
}

func (k *memory) Put(_ context.Context, key string, v []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.m[key] = slices.Clone(v)
	return nil
}

func (k *memory) Delete(_ context.Context, key string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.m[key]; !ok {
		return fs.ErrNotExist
	}
	delete(k.m, key)
	return nil
}

func (k *memory) List(_ context.Context, prefix string) ([]Entry, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []Entry
	for key, v := range k.m {
		if strings.HasPrefix(key, prefix) {
			out = append(out, Entry{Key: key, Size: int64(len(v))})
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

func options(kv KV) Options {
	return Options{
		TLS: config.Default().TLS, KV: kv, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func open(t *testing.T, o Options) *Manager {
	t.Helper()
	m, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// begin starts what m does in the background.
func begin(t *testing.T, m *Manager, port string) {
	t.Helper()
	n, _ := strconv.Atoi(port)
	if err := m.Begin(Ports{TLS: n}); err != nil {
		t.Fatal(err)
	}
}

// serve accepts TLS connections until the test ends.
func serve(t *testing.T, m *Manager, addr string) string {
	t.Helper()
	l, err := tls.Listen("tcp", addr, m.TLSConfig())
	if err != nil && strings.HasPrefix(addr, "[") {
		t.Skipf("SKIPPED: no IPv6 here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = c.(*tls.Conn).Handshake()
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func dial(t *testing.T, m *Manager, host, port string, max uint16) (*x509.Certificate, error) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(m.RootPEM())
	c, err := tls.Dial("tcp", net.JoinHostPort(host, port), &tls.Config{RootCAs: pool, MaxVersion: max, MinVersion: tls.VersionTLS10})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0], nil
}

func TestLocalAuthority(t *testing.T) {
	kv := newMemory()
	m := open(t, options(kv))
	for _, host := range []string{"localhost", "127.0.0.1"} {
		if _, err := dial(t, m, host, serve(t, m, "127.0.0.1:0"), tls.VersionTLS13); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := dial(t, m, "::1", serve(t, m, "[::1]:0"), tls.VersionTLS12); err != nil {
		t.Errorf("::1: %v", err)
	}
	if _, err := dial(t, m, "127.0.0.1", serve(t, m, "127.0.0.1:0"), tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	first, _ := m.localLeaf()
	again := open(t, options(kv))
	second, _ := again.localLeaf()
	if string(again.RootPEM()) != string(m.RootPEM()) || !second.Equal(first) {
		t.Error("a second start made new certificates")
	}

	o := options(kv)
	o.TLS.Names = []string{"hearth.example", "192.0.2.7"}
	named := open(t, o)
	leaf, _ := named.localLeaf()
	for _, n := range append(o.TLS.Names, "localhost") {
		if err := leaf.VerifyHostname(n); err != nil {
			t.Errorf("after a change of names: %v", err)
		}
	}
}

// A certificate is replaced while serving, before it ends, and no handshake fails.
func TestRenewal(t *testing.T) {
	o := options(newMemory())
	o.TLS.Lifetime = config.Duration(4 * time.Second) // validated elsewhere
	m := open(t, o)
	port := serve(t, m, "127.0.0.1:0")
	seen := map[string]bool{}
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end) && len(seen) < 2; time.Sleep(50 * time.Millisecond) {
		leaf, err := dial(t, m, "localhost", port, tls.VersionTLS13)
		if err != nil {
			t.Fatal(err)
		}
		seen[leaf.SerialNumber.String()] = true
	}
	if len(seen) < 2 {
		t.Errorf("saw %d certificates in six seconds of four-second ones", len(seen))
	}
}

// With an ACME authority that does not answer the start does not wait: the local
// certificate stands in, and ordinary clients are spoken to.
func TestACMEDoesNotBlock(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := options(newMemory())
	o.TLS.Mode, o.TLS.Names, o.TLS.Directory = config.TLSACME, []string{"localhost"}, "https://"+l.Addr().String()+"/dir"
	began := time.Now()
	m := open(t, o)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the start took %s", took)
	}
	if !slices.Contains(m.TLSConfig().NextProtos, "h2") {
		t.Error("HTTP/2 is not offered")
	}
	port := serve(t, m, "127.0.0.1:0")
	begin(t, m, port)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the beginning took %s", took)
	}
	if _, err := dial(t, m, "localhost", port, tls.VersionTLS13); err != nil {
		t.Error(err)
	}
	// Whoever renews by hand is told, and not left to wait for the background.
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := m.Renew(ctx, ""); err == nil {
		t.Error("a renewal by an authority that hangs succeeded")
	}
	r := m.Report()
	if len(r.Certificates) != 2 || r.Certificates[1].State != "waiting" {
		t.Errorf("the report: %+v", r.Certificates)
	}
}

func TestDamagedAuthorityIsRefused(t *testing.T) {
	for _, key := range []string{stateKey, firstRootKey} {
		kv := newMemory()
		if key == stateKey {
			open(t, options(kv))
		} else {
			kv.m[key] = firstRelease(t)
		}
		kv.m[key] = kv.m[key][:100]
		if _, err := Open(context.Background(), options(kv)); err == nil {
			t.Errorf("a cut %s was accepted", key)
		}
	}
}

// In mode files the given certificate answers for its own names and to the
// outside; tools on this machine still reach the server by the local authority.
func TestFilesMode(t *testing.T) {
	other := open(t, func() Options { // another authority plays the site's own
		o := options(newMemory())
		o.TLS.Names = []string{"hearth.example"}
		return o
	}())
	c, err := other.local.GetCertificate(&tls.ClientHelloInfo{ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := options(newMemory())
	o.TLS.Mode, o.TLS.Certificate, o.TLS.Key = config.TLSFiles, filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	if _, err := Open(context.Background(), o); err == nil {
		t.Fatal("absent files were accepted")
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	writeChain(t, o.TLS.Certificate, c.Certificate)
	os.WriteFile(o.TLS.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
	m := open(t, o)
	got := func(name string) string {
		c, err := m.GetCertificate(&tls.ClientHelloInfo{ServerName: name})
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.Issuer.CommonName
	}
	if got("hearth.example") != other.authority.intermediate.cert.Subject.CommonName {
		t.Error("the given certificate does not answer for its name")
	}
	port := serve(t, other, "127.0.0.1:0")
	if _, err := dial(t, other, "localhost", port, tls.VersionTLS13); err != nil {
		t.Error(err)
	}
	if st := m.Status(); len(st) != 2 || st[1].Source != config.TLSFiles {
		t.Errorf("status: %+v", st)
	}
}

func TestStorageFolders(t *testing.T) {
	ctx := context.Background()
	s := newStorage(newMemory())
	for _, k := range []string{"a/b/c", "a/b/d", "a/e", "ab"} {
		if err := s.Store(ctx, k, []byte(k)); err != nil {
			t.Fatal(err)
		}
	}
	flat, _ := s.List(ctx, "a", false)
	deep, _ := s.List(ctx, "a", true)
	if !slices.Equal(flat, []string{"a/b", "a/e"}) || !slices.Equal(deep, []string{"a/b/c", "a/b/d", "a/e"}) {
		t.Errorf("got %q and %q", flat, deep)
	}
	if st, err := s.Stat(ctx, "a/b"); err != nil || st.IsTerminal {
		t.Errorf("a folder: %+v, %v", st, err)
	}
	if err := s.Delete(ctx, "a"); err != nil || s.Exists(ctx, "a/e") || !s.Exists(ctx, "ab") {
		t.Errorf("delete of a folder: %v", err)
	}
	if _, err := s.Load(ctx, "a/b/c"); err == nil {
		t.Error("a deleted value was loaded")
	}
}

func TestStorageLock(t *testing.T) {
	ctx := context.Background()
	s := newStorage(newMemory())
	if err := s.Lock(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if s.Lock(short, "x") == nil {
		t.Fatal("a held lock was taken")
	}
	got := make(chan error)
	go func() { got <- s.Lock(ctx, "x") }()
	s.Unlock(ctx, "x")
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}
