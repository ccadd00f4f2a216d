package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// recheck is how often a handshake may look for changed files.
const recheck = 5 * time.Second

// filePair is a certificate and key in files, read again when they change. A
// changed pair that cannot be used is logged and the old one stays.
type filePair struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex // guards below
	pair    *tls.Certificate
	stamp   string // sizes and times of the files that were read last
	checked time.Time
}

func openFilePair(cert, key string, log *slog.Logger) (*filePair, error) {
	p := &filePair{cert: cert, key: key, log: log, checked: time.Now()}
	stamp, err := p.readStamp()
	if err == nil {
		p.pair, err = loadPair(cert, key)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use tls.certificate and tls.key: %w", err)
	}
	p.stamp = stamp
	return p, nil
}

func loadPair(cert, key string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err
		}
	}
	return &pair, nil
}

func (p *filePair) readStamp() (string, error) {
	stamp := ""
	for _, f := range []string{p.cert, p.key} {
		st, err := os.Stat(f)
		if err != nil {
			return "", err
		}
		stamp += fmt.Sprintf("%d %d;", st.Size(), st.ModTime().UnixNano())
	}
	return stamp, nil
}

func (p *filePair) get() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.checked) < recheck {
		return p.pair
	}
	p.checked = time.Now()
	stamp, err := p.readStamp()
	if err == nil && stamp == p.stamp {
		return p.pair
	}
	var pair *tls.Certificate
	if err == nil {
		pair, err = loadPair(p.cert, p.key)
	}
	if err != nil {
		p.log.Error("cannot use the changed certificate, the old one stays", "error", err)
		return p.pair
	}
	p.pair, p.stamp = pair, stamp
	p.log.Info("the certificate files were read anew", "not_after", pair.Leaf.NotAfter)
	return p.pair
}

func (p *filePair) covers(name string) bool { return p.get().Leaf.VerifyHostname(name) == nil }
