package appliance

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearth/appliance/config"
)

func (b *testbed) configure(tlsTable string) {
	b.t.Helper()
	if err := os.WriteFile(b.configPath(), []byte(testConfig+"[tls]\n"+tlsTable+"\n"), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *testbed) pool() *x509.CertPool {
	b.t.Helper()
	text, err := os.ReadFile(b.dir.rootPEM())
	if err != nil {
		b.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

func (b *testbed) addr() string { return b.listeners[0].Addr().String() }

// A changed [tls] is taken while clients shake hands and a connection stands: none
// fails, and the connection goes on.
func TestReloadOfTLS(t *testing.T) {
	b := newTestbed(t)
	pool := b.pool()
	standing := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer standing.CloseIdleConnections()
	ask := func() (port string) {
		r, err := standing.Get("https://" + b.addr() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		if r.ProtoMajor != 2 {
			t.Errorf("got HTTP/%d", r.ProtoMajor)
		}
		return fmt.Sprint(b.web.Conns())
	}
	ask()
	var done, failed atomic.Int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := tls.Dial("tcp", b.addr(), &tls.Config{RootCAs: pool})
				if err != nil {
					failed.Add(1)
					continue
				}
				c.Close()
				done.Add(1)
			}
		})
	}
	for i := range 20 {
		b.configure(fmt.Sprintf("names = [\"n%d.example\"]\nmin_version = %q", i, []string{"1.2", "1.3"}[i%2]))
		if err := b.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
		ask()
	}
	b.configure(`mode = "files"` + "\ncertificate = \"absent.pem\"\nkey = \"absent.pem\"")
	if err := b.Reload(context.Background()); err == nil {
		t.Error("absent files were taken")
	}
	ask()
	close(stop)
	all.Wait()
	if failed.Load() > 0 || done.Load() < 20 {
		t.Errorf("%d of %d handshakes failed", failed.Load(), done.Load())
	}
	if !b.certs.Load().Covers("n19.example") {
		t.Error("the last names do not hold")
	}
	if _, err := tls.Dial("tcp", b.addr(), &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 is still accepted")
	}
}

func TestRedirect(t *testing.T) {
	b := newTestbed(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	b.configure(fmt.Sprintf("redirect_listen = %q", addr))
	if err := b.Reload(context.Background()); err == nil {
		t.Error("a port that is taken was accepted")
	}
	l.Close()
	if err := b.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(method, target, host, key string) (int, string) {
		r, err := http.NewRequest(method, "http://"+addr+target, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Location")
	}
	port := fmt.Sprint(b.port())
	for _, c := range []struct {
		method, target, host, key string
		status                    int
		location                  string
	}{
		{"GET", "/v1/models?a=b%20c", "localhost", "", 308, "https://localhost:" + port + "/v1/models?a=b%20c"},
		{"POST", "/v1/chat/completions", "127.0.0.1:80", "", 308, "https://127.0.0.1:" + port + "/v1/chat/completions"},
		{"GET", "//evil.example/%2e%2e", "[::1]", "", 308, "https://[::1]:" + port + "//evil.example/%2e%2e"},
		{"GET", "/", "evil.example", "", 421, ""},
		{"GET", "/", "localhost@evil.example", "", 421, ""},
		{"POST", "/v1/chat/completions", "localhost", "hearth_key", 403, ""},
		{"GET", "/.well-known/acme-challenge/token", "localhost", "", 308, "https://localhost:" + port + "/.well-known/acme-challenge/token"},
		{"GET", "/metrics", "localhost", "", 308, "https://localhost:" + port + "/metrics"},
	} {
		if status, location := ask(c.method, c.target, c.host, c.key); status != c.status || location != c.location {
			t.Errorf("%s %s at %s: got %d %q, wanted %d %q", c.method, c.target, c.host, status, location, c.status, c.location)
		}
	}
	b.configure("")
	if err := b.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		c.Close()
		t.Error("the redirect still listens")
	}
}

func TestCertificateOperations(t *testing.T) {
	b := newTestbed(t)
	ctx := context.Background()
	c := &connection{local: &control{store: b.store, server: b.Appliance, config: func() (*config.Config, error) { return b.config(), nil }}}
	old := b.pool()
	r, err := opCertShow.call(ctx, c, none{})
	if err != nil || !r.Running || len(r.Certificates) != 1 || len(r.Certificates[0].Chain) != 2 || len(r.Trust) < 9 {
		t.Fatalf("show: %+v, %v", r, err)
	}
	before := r.Certificates[0].Chain[0].Serial
	if r, err = opCertRenew.call(ctx, c, renewInput{Name: "localhost"}); err != nil || r.Certificates[0].Chain[0].Serial == before {
		t.Errorf("renew: %v", err)
	}
	if _, err := opCertRenew.call(ctx, c, renewInput{Name: "other.example"}); err == nil {
		t.Error("a certificate that is not there was renewed")
	}
	if r, err = opCertRotate.call(ctx, c, none{}); err != nil || len(r.Roots) != 2 || r.Overlap == nil {
		t.Fatalf("rotate: %+v, %v", r, err)
	}
	file, _ := os.ReadFile(b.dir.rootPEM())
	if bytes.Count(file, []byte("BEGIN CERTIFICATE")) != 2 {
		t.Errorf("ca.pem after a rotation:\n%s", file)
	}
	for name, pool := range map[string]*x509.CertPool{"old": old, "both": b.pool()} {
		conn, err := tls.Dial("tcp", b.addr(), &tls.Config{RootCAs: pool})
		if err != nil {
			t.Errorf("a client that trusts the %s root: %v", name, err)
			continue
		}
		conn.Close()
	}
	var der, text bytes.Buffer
	if err := opCertDownload.call(ctx, c, rootDownload{Format: "der"}, &der); err != nil {
		t.Error(err)
	} else if root, err := x509.ParseCertificate(der.Bytes()); err != nil || root.Subject.String() != r.Roots[0].Subject {
		t.Errorf("the download: %v", err)
	}
	if err := opCertDownload.call(ctx, c, rootDownload{}, &text); err != nil || !bytes.Equal(text.Bytes(), file) {
		t.Errorf("the download as PEM: %v", err)
	}
	if err := opCertDownload.call(ctx, c, rootDownload{Format: "p7b"}, &text); err == nil {
		t.Error("an unknown format was accepted")
	}
	if r, err = opCertRetire.call(ctx, c, none{}); err != nil || len(r.Roots) != 1 || r.Overlap != nil {
		t.Fatalf("retire: %+v, %v", r, err)
	}
	if _, err := opCertRetire.call(ctx, c, none{}); err == nil {
		t.Error("the last root was retired")
	}
	events, err := opCertEvents.call(ctx, c, none{})
	var kinds []string
	for _, e := range events.Events {
		kinds = append(kinds, e.Kind)
	}
	if want := "renewed retired renewed rotated renewed issued issued"; err != nil || strings.Join(kinds, " ") != want {
		t.Errorf("events: got %q, wanted %q", kinds, want)
	}
	// Without a server: what is stored, and nothing that would change it.
	away := &connection{local: &control{store: b.store, config: c.local.config}}
	stored, err := opCertShow.call(ctx, away, none{})
	if err != nil || stored.Running || len(stored.Certificates) != 1 || stored.Roots[0].Fingerprint != r.Roots[0].Fingerprint {
		t.Errorf("show without a server: %+v, %v", stored, err)
	}
	if _, err := opCertRotate.call(ctx, away, none{}); err == nil {
		t.Error("a root was rotated without a server")
	}
	if kept, err := opCertEvents.call(ctx, away, none{}); err != nil || len(kept.Events) != len(events.Events) {
		t.Errorf("events without a server: %v", err)
	}
}
