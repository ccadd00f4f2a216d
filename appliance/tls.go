package appliance

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"

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
	m, err := a.newCertificates(ctx, a.config())
	if err != nil {
		return err
	}
	a.certs.Store(m)
	a.onClose(func() error {
		a.certs.Load().Close()
		return nil
	})
	if have, err := os.ReadFile(a.dir.rootPEM()); err != nil || !bytes.Equal(have, m.RootPEM()) {
		return writeFile(a.dir.rootPEM(), m.RootPEM(), 0o644)
	}
	return nil
}

func (a *Appliance) newCertificates(ctx context.Context, c *config.Config) (*certs.Manager, error) {
	t := c.TLS
	for _, file := range []*string{&t.Certificate, &t.Key, &t.CAFile} {
		if *file != "" {
			*file = a.dir.resolve(*file)
		}
	}
	host, port, _ := net.SplitHostPort(c.Server.Listen)
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) && t.Mode != config.TLSACME {
		t.Names = append(slices.Clone(t.Names), host)
	}
	n, _ := strconv.Atoi(port)
	return certs.Open(ctx, certs.Options{TLS: t, KV: certificateKV{a.store.Blobs("certificates")}, Port: n, Log: a.log, Now: a.now})
}

// reloadCertificates opens the certificates of a new configuration if they
// differ; the old ones serve until it has succeeded.
func (a *Appliance) reloadCertificates(ctx context.Context, old, c *config.Config) error {
	if reflect.DeepEqual(old.TLS, c.TLS) {
		return nil
	}
	m, err := a.newCertificates(ctx, c)
	if err != nil {
		return err
	}
	a.certs.Swap(m).Close()
	return nil
}

// tlsConfig asks the manager of the day for each handshake.
func (a *Appliance) tlsConfig() *tls.Config {
	c := a.certs.Load().TLSConfig()
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return a.certs.Load().GetCertificate(hello)
	}
	return c
}

// certificates lists those in use.
func (a *Appliance) certificates() []certs.Status { return a.certs.Load().Status() }
