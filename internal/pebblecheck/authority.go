package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// authority is a Pebble with the places at which it validates.
type authority struct {
	c          *check
	dir        string
	api, admin string // addresses
	http, tls  string // where challenges are answered
	eab        map[string]string
	process    *process
	client     *http.Client
}

// newAuthority starts a Pebble on free ports. 30 % of its nonces are bad.
func (c *check) newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	addrs, err := freeAddrs(4)
	if err != nil {
		return nil, err
	}
	a := &authority{c: c, dir: dir, api: addrs[0], admin: addrs[1], http: addrs[2], tls: addrs[3]}
	root, err := a.ownCertificate()
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	a.client = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true,
	}}
	return a, a.run()
}

// run starts the program, anew after it was killed: it then knows nothing of
// earlier accounts and has another root.
func (a *authority) run() error {
	httpPort, _ := strconv.Atoi(portOf(a.http))
	tlsPort, _ := strconv.Atoi(portOf(a.tls))
	conf := map[string]any{
		"listenAddress": a.api, "managementListenAddress": a.admin,
		"certificate": filepath.Join(a.dir, "api.pem"), "privateKey": filepath.Join(a.dir, "api.key"),
		"httpPort": httpPort, "tlsPort": tlsPort, "ocspResponderURL": "",
		"externalAccountBindingRequired": len(a.eab) > 0, "externalAccountMACKeys": a.eab,
		"retryAfter": map[string]int{"authz": 1, "order": 1}, "keyAlgorithm": "ecdsa",
		"profiles": map[string]any{
			"default":    map[string]any{"description": "ninety days", "validityPeriod": 90 * 86400},
			"shortlived": map[string]any{"description": "six days", "validityPeriod": 6 * 86400},
		},
	}
	text, err := json.Marshal(map[string]any{"pebble": conf})
	if err != nil {
		return err
	}
	file := filepath.Join(a.dir, "pebble.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	env := []string{"PEBBLE_WFE_NONCEREJECT=30", "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0"}
	if a.process, err = a.c.start(filepath.Join(a.dir, "pebble.log"), env, a.c.pebble, "-config", file, "-dnsserver", a.c.dns); err != nil {
		return err
	}
	return until(10*time.Second, func() error {
		if a.process.ended() {
			return errors.New("pebble ended")
		}
		_, err := a.roots()
		return err
	})
}

// roots is what it issues below.
func (a *authority) roots() (*x509.CertPool, error) {
	r, err := a.client.Get("https://" + a.admin + "/roots/0")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("pebble gave no root: %.200s", text)
	}
	return pool, nil
}

func (a *authority) directory() string { return "https://" + a.api + "/dir" }
func (a *authority) caFile() string    { return filepath.Join(a.dir, "root.pem") }

// ownCertificate makes what Pebble's own API is served with.
func (a *authority) ownCertificate() (root *x509.Certificate, err error) {
	make := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		if parent == nil {
			parent, signer = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
		if err != nil {
			return nil, nil, err
		}
		cert, err := x509.ParseCertificate(der)
		return cert, key, err
	}
	root, rootKey, err := make(&x509.Certificate{
		Subject: pkix.Name{CommonName: "of the API of Pebble"}, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}, nil, nil)
	if err != nil {
		return nil, err
	}
	cert, key, err := make(&x509.Certificate{
		Subject: pkix.Name{CommonName: "API of Pebble"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, root, rootKey)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	for file, block := range map[string]*pem.Block{
		"root.pem": {Type: "CERTIFICATE", Bytes: root.Raw},
		"api.pem":  {Type: "CERTIFICATE", Bytes: cert.Raw},
		"api.key":  {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, err
		}
	}
	return root, nil
}
