package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"hearth/appliance/reach"
	"hearth/policy"
)

const (
	maxHead         = 128 << 10 // bytes of a response's head
	maxIdlePerHost  = 512
	defaultConnect  = 5 * time.Second
	defaultIdle     = 2 * time.Minute // longest silence inside an answer
	pingAfter       = 15 * time.Second
	maxCertificates = 1 << 20 // bytes of ca_file
)

var osGetenv = os.Getenv

// newPool makes the connection pool of one upstream. It asks no environment for
// proxies, follows no redirects (RoundTrip does not) and repeats nothing:
// net/http repeats a request only if it can rewind its body, and ours cannot be
// rewound.
func newPool(c *policy.UpstreamConfig, p *profile, o Options) (*http.Transport, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		roots, err := readRoots(c.CAFile)
		if err != nil {
			return nil, err
		}
		trust.RootCAs = roots
	}
	connect := time.Duration(c.ConnectTimeout)
	if connect == 0 {
		connect = defaultConnect
	}
	return &http.Transport{
		DialContext:            dialer(connect, o),
		TLSClientConfig:        trust,
		TLSHandshakeTimeout:    connect,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
		DisableCompression:     true,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        p.idle,
		MaxResponseHeaderBytes: maxHead,
	}, nil
}

// dialer opens counted connections, each within connect.
func dialer(connect time.Duration, o Options) func(ctx context.Context, network, address string) (net.Conn, error) {
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Control: reach.DialConfigured, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingAfter, Interval: pingAfter, Count: 4}}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connect)
		defer cancel()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: conn}, nil
	}
}

func readRoots(path string) (*x509.CertPool, error) {
	pem, err := readBounded(path, maxCertificates)
	if err != nil {
		return nil, fmt.Errorf("cannot read ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("cannot use ca_file: it holds no certificate in PEM form")
	}
	return roots, nil
}

// countedConn counts what is written, as proof that nothing was.
type countedConn struct {
	net.Conn
	written atomic.Int64
}

// Write counts before it writes: what is on its way counts as written.
func (c *countedConn) Write(b []byte) (int, error) {
	c.written.Add(int64(len(b)))
	n, err := c.Conn.Write(b)
	if n < len(b) {
		c.written.Add(int64(n - len(b)))
	}
	return n, err
}

// counted finds the counting connection below TLS.
func counted(c net.Conn) *countedConn {
	for {
		switch t := c.(type) {
		case *countedConn:
			return t
		case *tls.Conn:
			c = t.NetConn()
		default:
			return nil
		}
	}
}

// isHTTP2 says that requests share the connection.
func isHTTP2(c net.Conn) bool {
	t, ok := c.(*tls.Conn)
	return ok && t.ConnectionState().NegotiatedProtocol == "h2"
}
