package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"hearth/appliance/config"
	"hearth/appliance/reach"
)

const (
	fetchTimeout = 10 * time.Second
	maxHead      = 64 << 10
	maxRedirects = 3
)

// newClients makes the client for the addresses of the configuration, and that
// for what an issuer's document names: it leads to the public network only.
func newClients(conf *config.Identity, o Options) (own, foreign *http.Client, err error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if conf.CAFile != "" {
		w := &watched{path: o.Resolve(conf.CAFile), most: maxKeySet}
		data, err := w.read()
		if err != nil {
			return nil, nil, err
		}
		if trust.RootCAs = x509.NewCertPool(); !trust.RootCAs.AppendCertsFromPEM(data) {
			return nil, nil, errors.New("cannot use ca_file: no certificate is in it")
		}
	}
	client := func(d *net.Dialer) *http.Client {
		d.Timeout = 5 * time.Second
		return &http.Client{
			Timeout: fetchTimeout, CheckRedirect: sameHost,
			Transport: &http.Transport{DialContext: d.DialContext, TLSClientConfig: trust.Clone(), DisableKeepAlives: true,
				ForceAttemptHTTP2: true, TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: maxHead},
		}
	}
	return client(&net.Dialer{Control: reach.DialConfigured}), client(&net.Dialer{Control: reach.DialPublic}), nil
}

// sameHost follows a redirect only to the host and scheme that was asked.
func sameHost(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("it is redirected too often")
	}
	if r.URL.Scheme != via[0].URL.Scheme || r.URL.Host != via[0].URL.Host || r.URL.User != nil {
		return errors.New("it is redirected to another host")
	}
	return nil
}

// fetch has the keys from where the configuration says.
func (k *keyring) fetch(ctx context.Context) (*keySet, error) {
	address, client := k.conf.JWKSURL, k.client
	if address == "" {
		var err error
		if address, client, err = k.discover(ctx); err != nil {
			return nil, err
		}
	}
	data, err := get(ctx, client, address)
	if err != nil {
		return nil, err
	}
	return readKeySet(data, k.o.Now())
}

// discover asks the issuer where its keys are (OpenID Connect Discovery 1.0,
// section 4). Its document must name the same issuer. An address on another host
// is foreign: it must be https, and public.
func (k *keyring) discover(ctx context.Context) (string, *http.Client, error) {
	data, err := get(ctx, k.client, strings.TrimSuffix(k.conf.Issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return "", nil, err
	}
	var doc struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return "", nil, fmt.Errorf("cannot read the issuer's configuration: %w", err)
	}
	if doc.Issuer != k.conf.Issuer {
		return "", nil, errors.New("cannot use the issuer's configuration: it names another issuer")
	}
	own, err := url.Parse(k.conf.Issuer)
	if err != nil {
		return "", nil, err
	}
	u, err := url.Parse(doc.JWKSURI)
	if err != nil || u.Host == "" || u.User != nil || u.Opaque != "" || len(doc.JWKSURI) > 2048 {
		return "", nil, errors.New("cannot use the issuer's configuration: its jwks_uri is malformed")
	}
	if u.Scheme == own.Scheme && u.Host == own.Host {
		return u.String(), k.client, nil
	}
	if u.Scheme != "https" {
		return "", nil, errors.New("cannot use the issuer's configuration: its jwks_uri is not https")
	}
	return u.String(), k.foreign, nil
}

// get reads a document that is not larger than a key set may be.
func get(ctx context.Context, c *http.Client, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "hearth")
	r, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with status %d", r.Request.URL.Host, r.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, maxKeySet+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxKeySet {
		return nil, fmt.Errorf("%s answers with more than %d bytes", r.Request.URL.Host, maxKeySet)
	}
	return data, nil
}

func readFile(path string, st os.FileInfo, most int64) ([]byte, error) {
	switch {
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("cannot read %s: it is not a regular file", path)
	case st.Size() > most:
		return nil, fmt.Errorf("cannot read %s: it has %d bytes, wanted at most %d", path, st.Size(), most)
	}
	return os.ReadFile(path)
}
