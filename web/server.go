package web

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
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
	// Access says whether exchanges without fault have a line in the log. Nil:
	// they have.
	Access func() bool
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
	Dialect   string // "openai", "web"
	Stream    bool
	Duration  time.Duration
	FirstByte time.Duration // until the first byte of the answer; 0 if none
	BytesIn   int64         // of the body
	BytesOut  int64         // of the body
}

// Server serves the HTTP surface. It is made by New and is safe for concurrent
// use.
type Server struct {
	opt    Options
	lim    atomic.Pointer[Limits]
	log    *slog.Logger
	http   *http.Server
	routes routeTable

	bodies    atomic.Int64 // bytes of bodies held
	lingering atomic.Int64
	open      atomic.Int64 // exchanges in flight
	conns     connCounter
	live      liveResponses // runs in the background

	// stopping is closed when Shutdown begins; endless streams end then.
	stopping chan struct{}
}

// New checks the options and returns a Server that listens nowhere yet.
func New(o Options) (*Server, error) {
	if o.Service == nil {
		return nil, errors.New("cannot make a web server: no service given")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{opt: o, log: o.Log, stopping: make(chan struct{})}
	if err := s.SetLimits(o.Limits); err != nil {
		return nil, err
	}
	s.conns = connCounter{max: s.limits().Conns, perAddr: s.limits().ConnsPerAddress, by: map[string]int{}}
	s.routes = s.makeRoutes()
	s.http = s.makeHTTP()
	return s, nil
}

// SetLimits puts other bounds in force while serving. Those of connections and
// of HTTP/2, which the library was given, stay: HeaderTime, HeaderBytes, IdleTime,
// Streams, Conns and ConnsPerAddress.
func (s *Server) SetLimits(l Limits) error {
	l = l.withDefaults()
	if err := l.check(); err != nil {
		return err
	}
	s.lim.Store(&l)
	return nil
}

func (s *Server) limits() *Limits { return s.lim.Load() }

// makeHTTP sets the bounds that the library enforces. There is no WriteTimeout:
// it would end long streams; every write has a deadline of its own instead.
func (s *Server) makeHTTP() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	h := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: s.limits().HeaderTime,
		IdleTimeout:       s.limits().IdleTime,
		MaxHeaderBytes:    s.limits().HeaderBytes,
		Protocols:         protocols,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          s.limits().Streams,
			MaxDecoderHeaderTableSize:     4 << 10,
			MaxEncoderHeaderTableSize:     4 << 10,
			MaxReadFrameSize:              64 << 10,
			MaxReceiveBufferPerConnection: 1 << 20,
			MaxReceiveBufferPerStream:     256 << 10,
			SendPingTimeout:               s.limits().WriteTime,
			PingTimeout:                   s.limits().HeaderTime,
			WriteByteTimeout:              s.limits().WriteTime,
		},
	}
	stopped := false
	h.RegisterOnShutdown(func() {
		if !stopped {
			stopped = true
			close(s.stopping)
		}
	})
	return h
}

// Handler is the whole surface as an http.Handler, without the connection
// bounds that Serve adds.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// Open is the number of exchanges in flight.
func (s *Server) Open() int { return int(s.open.Load()) }

// Conns is the number of open connections.
func (s *Server) Conns() int { return s.conns.total() }

// Serve accepts connections from l until Shutdown or Close; it then returns
// nil. With tc it speaks TLS with HTTP/2 and HTTP/1.1 (tc may select
// certificates by GetCertificate; ALPN is added), without it plain HTTP/1.1.
// It may be called for several listeners.
func (s *Server) Serve(l net.Listener, tc *tls.Config) error {
	l = &countedListener{l, &s.conns}
	var err error
	if tc == nil {
		err = s.http.Serve(l)
	} else {
		tc = tc.Clone()
		if len(tc.NextProtos) == 0 {
			tc.NextProtos = []string{"h2", "http/1.1"}
		}
		err = s.http.Serve(tls.NewListener(l, tc))
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown stops accepting, waits until open exchanges have ended or ctx is
// done, and closes idle connections. Admission is refused by the Service, not
// here: call it when draining has begun.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Close cuts every connection.
func (s *Server) Close() error { return s.http.Close() }
