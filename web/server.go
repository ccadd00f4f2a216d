package web

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"hearth/engine/infer"
)

// Options are what a Server is made of. Service is required; every other field
// has a working zero value.
type Options struct {
	Service Service
	// Log receives the access log and faults, without content. Nil: discarded.
	Log *slog.Logger
	// Metrics answers GET and HEAD /metrics. Nil: 404. It is open to loopback;
	// other peers need a credential.
	Metrics http.Handler
	// Observe is told of every finished exchange. It must not block.
	Observe func(Exchange)
	// Version and Build are what /version tells.
	Version string
	Build   map[string]string
	// Limits bound everything a peer can make us hold. Zero fields take the
	// defaults of DefaultLimits.
	Limits Limits
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Exchange describes one finished HTTP exchange, without content.
type Exchange struct {
	Route     string // pattern, or "other" where no route matched
	Method    string // one of the methods we know, or "OTHER"
	Status    int    // as sent; 499 where the client left before any answer
	Code      infer.Code
	Dialect   string // "openai", "anthropic", "web"
	Stream    bool
	Duration  time.Duration
	FirstByte time.Duration // until the first byte of the answer; 0 if none
	BytesIn   int64
	BytesOut  int64
}

// Server serves the HTTP surface. It is made by New and is safe for concurrent
// use.
type Server struct {
	opt  Options
	http *http.Server
}

// New checks the options and returns a Server that listens nowhere yet.
func New(o Options) (*Server, error) {
	if o.Service == nil {
		return nil, errors.New("cannot make a web server: no service given")
	}
	return nil, errors.New("not yet")
}

// Handler is the whole surface as an http.Handler, without the connection
// bounds that Serve adds.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// Serve accepts connections from l until Shutdown or Close; it then returns
// nil. With tc it speaks TLS with HTTP/2 and HTTP/1.1 (tc may select
// certificates by GetCertificate; ALPN is added), without it plain HTTP/1.1.
// It may be called for several listeners.
func (s *Server) Serve(l net.Listener, tc *tls.Config) error {
	return errors.New("not yet")
}

// Shutdown stops accepting, waits until open exchanges have ended or ctx is
// done, and closes idle connections. Admission is refused by the Service, not
// here: call it when draining has begun.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Close cuts every connection.
func (s *Server) Close() error { return s.http.Close() }
