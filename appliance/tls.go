package appliance

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"hearth/appliance/certs"
	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/store"
)

// certificateKV keeps certificates in the database, so that a power cut leaves
// the old one or the new one, never half of one.
type certificateKV struct{ blobs *store.Blobs }

func (k certificateKV) Get(ctx context.Context, key string) ([]byte, error) {
	b, err := k.blobs.Get(ctx, key)
	return b.Value, absent(err)
}

func (k certificateKV) Put(ctx context.Context, key string, value []byte) error {
	return k.blobs.Put(ctx, key, value)
}

func (k certificateKV) Delete(ctx context.Context, key string) error {
	return absent(k.blobs.Delete(ctx, key))
}

// absent gives fs.ErrNotExist for what the store calls not found.
func absent(err error) error {
	var e *infer.Error
	if errors.As(err, &e) && e.Code == infer.CodeNotFound {
		return fs.ErrNotExist
	}
	return err
}

func (k certificateKV) List(ctx context.Context, prefix string) ([]certs.Entry, error) {
	var out []certs.Entry
	after := ""
	for {
		page, err := k.blobs.List(ctx, prefix, after, 1000)
		if err != nil {
			return nil, err
		}
		for _, b := range page {
			out = append(out, certs.Entry{Key: b.Key, Size: int64(b.Size), Modified: b.Modified})
			after = b.Key
		}
		if len(page) < 1000 {
			return out, nil
		}
	}
}

func (a *Appliance) openCertificates(ctx context.Context) error {
	o, err := a.certificateOptions(a.config())
	if err != nil {
		return err
	}
	m, err := certs.Open(ctx, o)
	if err != nil {
		return err
	}
	a.certs.Store(m)
	a.onClose(func() error {
		a.certs.Load().Close()
		return a.redirect.Swap(nil).close()
	})
	return nil
}

// beginCertificates starts renewal and the redirect, once the server listens.
func (a *Appliance) beginCertificates() error {
	r, err := a.openRedirect(a.config().TLS.RedirectListen)
	if err != nil {
		return err
	}
	a.redirect.Store(r)
	return a.certs.Load().Begin(certs.Ports{TLS: a.port(), HTTP: r.port()})
}

// port is where the server listens.
func (a *Appliance) port() int {
	return a.listeners[0].Addr().(*net.TCPAddr).Port
}

func (a *Appliance) certificateOptions(c *config.Config) (certs.Options, error) {
	t := c.TLS
	for _, file := range []*string{&t.Certificate, &t.Key, &t.CAFile, &t.IssuerCertificate, &t.IssuerKey} {
		if *file != "" {
			*file = a.dir.resolve(*file)
		}
	}
	host, _, _ := net.SplitHostPort(c.Server.Listen)
	ip := net.ParseIP(host)
	everywhere := host == "" || ip != nil && ip.IsUnspecified()
	if !everywhere && t.Mode != config.TLSACME {
		t.Names = append(slices.Clone(t.Names), host)
	}
	o := certs.Options{
		TLS: t, KV: certificateKV{a.store.Blobs(certificateBlobs)}, ListenHost: host,
		Log: a.log, Now: a.now, Built: buildTime(), Roots: a.writeRoots,
	}
	if t.EABKey != "" {
		secret, err := readReference(t.EABKey, a.dir, a.env.Getenv)
		if err != nil {
			return o, fmt.Errorf("cannot use tls.eab_key: %w", err)
		}
		o.EABKey = secret
	}
	return o, nil
}

// certificateBlobs is where certificates, the authority and its events lie.
const certificateBlobs = "certificates"

// writeRoots keeps ca.pem in step with what clients should trust.
func (a *Appliance) writeRoots(text []byte) error {
	if have, err := os.ReadFile(a.dir.rootPEM()); err == nil && bytes.Equal(have, text) {
		return nil
	}
	return writeFile(a.dir.rootPEM(), text, 0o644)
}

// buildTime is when the source of this binary was committed, zero if that is not
// known: a clock before it is wrong.
func buildTime() time.Time {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return time.Time{}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			t, _ := time.Parse(time.RFC3339, s.Value) // zero if it is none
			return t
		}
	}
	return time.Time{}
}

// maxReference bounds a secret that is read by reference.
const maxReference = 16 << 10

// readReference reads the secret behind "env:NAME", "file:PATH" or
// "systemd:NAME". The reference has been checked; the error tells no secret.
func readReference(ref string, dir dataDir, getenv func(string) string) (string, error) {
	kind, name, _ := strings.Cut(ref, ":")
	var text string
	switch kind {
	case "env":
		text = getenv(name)
	case "systemd": // systemd.exec(5): one file a credential
		name = filepath.Join(getenv("CREDENTIALS_DIRECTORY"), filepath.Base(name))
		fallthrough
	case "file":
		f, err := os.Open(dir.resolve(name))
		if err != nil {
			return "", err
		}
		defer f.Close()
		raw, err := io.ReadAll(io.LimitReader(f, maxReference))
		if err != nil {
			return "", err
		}
		text = string(raw)
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", errors.New("there is nothing behind the reference")
	}
	return text, nil
}

// tlsChange is what a reload makes of [tls]. It serves once it is taken.
type tlsChange struct {
	a        *Appliance
	certs    *certs.Manager // nil: as it is
	redirect *redirect      // that of the new configuration
}

// prepareTLS opens the certificates and the redirect of a new configuration as
// far as they differ; the old ones serve until the change is taken.
func (a *Appliance) prepareTLS(ctx context.Context, c *config.Config) (*tlsChange, error) {
	o, err := a.certificateOptions(c)
	if err != nil {
		return nil, err
	}
	change := &tlsChange{a: a, redirect: a.redirect.Load()}
	if change.redirect.address() != c.TLS.RedirectListen {
		if change.redirect, err = a.openRedirect(c.TLS.RedirectListen); err != nil {
			return nil, err
		}
	}
	now := a.certs.Load()
	if now.Same(o) {
		return change, nil
	}
	o.Prior = now
	if change.certs, err = certs.Open(ctx, o); err == nil {
		err = change.certs.Begin(certs.Ports{TLS: a.port(), HTTP: change.redirect.port()})
	}
	if err != nil {
		change.drop()
		return nil, err
	}
	return change, nil
}

// take has the change serve. No connection is cut.
func (t *tlsChange) take() {
	if t.certs != nil {
		t.a.certs.Swap(t.certs).Close()
		t.certs = nil
	}
	if old := t.a.redirect.Swap(t.redirect); old != t.redirect {
		if err := old.close(); err != nil {
			t.a.log.Warn("cannot close the redirect of before", "error", err)
		}
	}
}

// drop gives up a change that was not taken; after take it does nothing.
func (t *tlsChange) drop() {
	if t.certs != nil {
		t.certs.Close()
		t.a.certs.Load().Restore()
	}
	if t.redirect != t.a.redirect.Load() {
		_ = t.redirect.close()
	}
}

// tlsConfig has the certificates of the day answer each handshake. Of adapt, one
// may change the configuration of a handshake, for instance ask for a client
// certificate; it gets a copy of its own.
func (a *Appliance) tlsConfig(adapt ...func(*tls.Config)) *tls.Config {
	base := a.certs.Load().TLSConfig().Clone()
	for _, f := range adapt {
		f(base)
	}
	// Keys of session tickets are those of base, whichever is given here.
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := a.certs.Load().TLSConfig()
		if len(adapt) > 0 {
			c = c.Clone()
			for _, f := range adapt {
				f(c)
			}
		}
		return c, nil
	}
	return base
}

// certificates lists those in use.
func (a *Appliance) certificates() []certs.Status { return a.certs.Load().Status() }
