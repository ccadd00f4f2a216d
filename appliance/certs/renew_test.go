package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearth/appliance/config"
)

// load dials until stop is closed, from eight clients, and counts.
func load(addr string, conf *tls.Config, stop <-chan struct{}) (done, failed *atomic.Int64, wait func()) {
	done, failed = new(atomic.Int64), new(atomic.Int64)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := tls.Dial("tcp", addr, conf)
				if err != nil {
					failed.Add(1)
					continue
				}
				_, err = io.ReadAll(c) // until the server closes: no reset
				c.Close()
				if err != nil {
					failed.Add(1)
				}
				done.Add(1)
			}
		})
	}
	return done, failed, all.Wait
}

// Twenty renewals under load, a rotation and its end among them: no handshake fails.
func TestRenewUnderLoad(t *testing.T) {
	m := open(t, options(newMemory()))
	port := serve(t, m, "127.0.0.1:0")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(m.RootPEM())
	stop := make(chan struct{})
	done, failed, wait := load("127.0.0.1:"+port, &tls.Config{RootCAs: pool, ServerName: "localhost"}, stop)
	seen := map[string]bool{}
	ctx := context.Background()
	for i := range 20 {
		var err error
		if i == 10 {
			err = m.Rotate(ctx)
		} else {
			err = m.Renew(ctx, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		leaf, _ := m.localLeaf()
		seen[leaf.SerialNumber.String()] = true
		time.Sleep(20 * time.Millisecond)
	}
	close(stop)
	wait()
	if len(seen) != 20 {
		t.Errorf("saw %d certificates after 20 renewals", len(seen))
	}
	if failed.Load() > 0 || done.Load() < 20 {
		t.Errorf("%d of %d handshakes failed", failed.Load(), done.Load())
	}
	t.Logf("%d handshakes", done.Load())
	renewed := 0
	for _, e := range m.Events() {
		if e.Kind == EventRenewed {
			renewed++
		}
	}
	if renewed != 20 {
		t.Errorf("%d renewals are in the log", renewed)
	}
}

// A manager takes over from another under load.
func TestTakeOverUnderLoad(t *testing.T) {
	o := options(newMemory())
	var current atomic.Pointer[Manager]
	current.Store(open(t, o))
	front := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return current.Load().TLSConfig(), nil }}
	l, err := tls.Listen("tcp", "127.0.0.1:0", front)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _ = c.(*tls.Conn).Handshake() }()
		}
	}()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(current.Load().RootPEM())
	stop := make(chan struct{})
	done, failed, wait := load(l.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(8)}, stop)
	for i := range 20 {
		o.TLS.Names = []string{"a.example", "b.example"}[i%2 : i%2+1]
		o.Prior = current.Load()
		next := open(t, o)
		begin(t, next, "0")
		current.Swap(next).Close()
		time.Sleep(20 * time.Millisecond)
	}
	close(stop)
	wait()
	// Session tickets outlive the managers.
	resumed := false
	again := &tls.Config{RootCAs: pool, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	for range 2 {
		c, err := tls.Dial("tcp", l.Addr().String(), again)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(c) // the ticket comes behind the handshake
		resumed = c.ConnectionState().DidResume
		c.Close()
		o.Prior = current.Load()
		next := open(t, o)
		current.Swap(next).Close()
	}
	if !resumed {
		t.Error("a session was not resumed after a change of managers")
	}
	if failed.Load() > 0 || done.Load() < 20 {
		t.Errorf("%d of %d handshakes failed", failed.Load(), done.Load())
	}
	if !current.Load().Covers("b.example") || current.Load().Covers("a.example") {
		t.Error("the names of the last one do not hold")
	}
}

func writePair(t *testing.T, cert, key, name string) (write func(what string)) {
	t.Helper()
	o := options(newMemory())
	o.TLS.Names = []string{name}
	m := open(t, o)
	c, err := m.local.GetCertificate(&tls.ClientHelloInfo{ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return func(what string) {
		if strings.Contains(what, "cert") {
			writeChain(t, cert, c.Certificate)
		}
		if strings.Contains(what, "key") {
			if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Changed files are taken once both fit; until then the old pair serves, and what
// is wrong is shown.
func TestFilesReload(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	o := options(newMemory())
	o.TLS.Mode, o.TLS.Certificate, o.TLS.Key = config.TLSFiles, filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	writePair(t, o.TLS.Certificate, o.TLS.Key, "one.example")("cert key")
	m := open(t, o)
	two := writePair(t, o.TLS.Certificate, o.TLS.Key, "two.example")
	serves := func(name string) bool {
		c, err := m.GetCertificate(&tls.ClientHelloInfo{ServerName: name})
		return err == nil && c.Leaf.VerifyHostname(name) == nil
	}
	fault := func() string { return m.Report().Certificates[1].LastError }
	if fault() != "" || !serves("one.example") {
		t.Fatal("the first pair does not serve")
	}
	two("cert")
	m.checkAll(ctx)
	m.checkAll(ctx)
	if !serves("one.example") || serves("two.example") || fault() == "" {
		t.Errorf("half of a pair: %q", fault())
	}
	two("key")
	m.checkAll(ctx)
	if !serves("two.example") || serves("one.example") || fault() != "" {
		t.Errorf("the whole pair: %q", fault())
	}
	os.Remove(o.TLS.Key)
	m.checkAll(ctx)
	if !serves("two.example") || fault() == "" {
		t.Errorf("a key that has gone: %q", fault())
	}
	if err := m.Renew(ctx, "two.example"); err == nil {
		t.Error("reading absent files succeeded")
	}
	two("cert key")
	if err := m.Renew(ctx, "two.example"); err != nil || fault() != "" {
		t.Errorf("back again: %v, %q", err, fault())
	}
	os.WriteFile(o.TLS.Certificate, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n"), 0o600)
	m.checkAll(ctx)
	if !serves("two.example") || fault() == "" {
		t.Errorf("a cut file: %q", fault())
	}
	var failed, reloaded int
	for _, e := range m.Events() {
		switch e.Kind {
		case EventFailed:
			failed++
		case EventReloaded:
			reloaded++
		}
	}
	if failed != 3 || reloaded < 1 {
		t.Errorf("%d failures and %d reloads are in the log", failed, reloaded)
	}
}

func TestEventsAreKept(t *testing.T) {
	ctx := context.Background()
	kv := newMemory()
	m := open(t, options(kv))
	for range keptEvents + 20 {
		m.events.add(ctx, Event{Kind: EventFailed, Source: "acme", Name: "x.example", Error: strings.Repeat("e", 5000)})
	}
	kept, err := Events(ctx, kv)
	if err != nil || len(kept) != keptEvents || len(kept[0].Error) > maxErrorBytes+8 {
		t.Errorf("%d events are kept, %v", len(kept), err)
	}
	if text, _ := m.events.lastError("acme", "x.example"); text == "" {
		t.Error("the last failure is not known")
	}
	m.events.add(ctx, Event{Kind: EventRenewed, Source: "acme", Name: "x.example"})
	if text, _ := m.events.lastError("acme", "x.example"); text != "" {
		t.Error("a failure stays after a success")
	}
}

func TestMinVersion(t *testing.T) {
	o := options(newMemory())
	o.TLS.MinVersion = config.TLS13
	m := open(t, o)
	port := serve(t, m, "127.0.0.1:0")
	if _, err := dial(t, m, "localhost", port, tls.VersionTLS12); err == nil {
		t.Error("TLS 1.2 was accepted")
	}
	if _, err := dial(t, m, "localhost", port, tls.VersionTLS13); err != nil {
		t.Error(err)
	}
}

func TestStored(t *testing.T) {
	kv := newMemory()
	r, err := Stored(context.Background(), kv, time.Now)
	if err != nil || len(r.Roots) != 0 {
		t.Errorf("an empty store: %+v, %v", r, err)
	}
	m := open(t, options(kv))
	r, err = Stored(context.Background(), kv, time.Now)
	if err != nil || len(r.Roots) != 1 || len(r.Certificates) != 1 || r.Roots[0].Fingerprint != m.Roots()[0].Fingerprint {
		t.Errorf("%+v, %v", r, err)
	}
}

// A certificate that lapsed while the box was off is renewed at the start.
func TestLapsed(t *testing.T) {
	o := options(newMemory())
	o.TLS.Lifetime = config.Duration(time.Second)
	m := open(t, o)
	m.Close()
	old, _ := m.localLeaf()
	time.Sleep(time.Until(old.NotAfter) + 10*time.Millisecond)
	o.TLS.Lifetime = config.Duration(time.Hour)
	again := open(t, o)
	if err := accepts(t, again, again.authority.root.cert); err != nil {
		t.Error(err)
	}
}

// Nothing that stands in a file or in the store makes the readers fall over, and
// what they accept is whole.
func FuzzPEM(f *testing.F) {
	root, err := makeRoot(time.Now())
	if err != nil {
		f.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(root.key)
	if err != nil {
		f.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	f.Add(append(pemOf(root.cert), key...))
	f.Add(append(key, pemOf(root.cert)...))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\nPRIVATE KEY-----"))
	f.Fuzz(func(t *testing.T, text []byte) {
		cert, private := splitPair(text)
		if string(cert)+string(private) != string(text) {
			t.Error("splitting lost something")
		}
		if chain, err := parseChainPEM(text); err == nil && (len(chain) == 0 || len(chain) > maxChain+1) {
			t.Errorf("a chain of %d", len(chain))
		}
		if p, err := parsePair(text); err == nil && (p.cert == nil || p.key == nil) {
			t.Error("half of a pair")
		}
	})
}
