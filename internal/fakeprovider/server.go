package fakeprovider

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Options of New.
type Options struct {
	Addr   string      // default 127.0.0.1:0
	TLS    *tls.Config // nil: plain
	Prices Prices
	// Handle chooses the script of a request; nil, or a nil result: the queue
	// that Play filled.
	Handle func(*Request) *Script
}

// Server is one provider. It is safe for concurrent use.
type Server struct {
	o    Options
	l    net.Listener
	stop chan struct{}
	wait sync.WaitGroup

	mu      sync.Mutex // guards what follows, and the late fields of each Request
	scripts []Script
	handle  func(*Request) *Script
	reqs    []*Request
	conns   map[net.Conn]bool
	seen    int // scripts handed out
}

// Request is one request as it came. Times are set once the event has happened.
type Request struct {
	N       int // from 0, in the order of arrival
	ID      string
	Method  string
	Path    string
	Query   url.Values
	Header  http.Header
	Body    []byte // without content coding
	Dialect string
	Model   string
	Stream  bool
	Conn    int // number of the connection
	Arrived time.Time

	// Closed is when the peer was seen to leave before the answer's end.
	Closed time.Time
	Ended  time.Time // the answer was sent, or given up
	Sent   int       // events that left
	line   *Line
}

// New listens and serves.
func New(o Options) (*Server, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("cannot play a provider: %w", err)
	}
	if o.TLS != nil {
		l = tls.NewListener(l, o.TLS)
	}
	s := &Server{o: o, l: l, stop: make(chan struct{}), conns: map[net.Conn]bool{}, handle: o.Handle}
	s.wait.Go(s.accept)
	return s, nil
}

// URL is the server's address, without a path.
func (s *Server) URL() string {
	scheme := "http://"
	if s.o.TLS != nil {
		scheme = "https://"
	}
	return scheme + s.l.Addr().String()
}

// Play sets the scripts of the next requests; the last is for all that follow.
// What was recorded before is forgotten.
func (s *Server) Play(scripts ...Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts, s.seen, s.reqs = scripts, 0, nil
}

// Handle replaces Options.Handle.
func (s *Server) Handle(f func(*Request) *Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handle = f
}

// Requests are copies of all requests so far, without token exchanges and
// listings.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Request
	for _, r := range s.reqs {
		if r.Dialect != Token && r.Dialect != Listing {
			c := *r
			out = append(out, &c)
		}
	}
	return out
}

// All is Requests with token exchanges and listings.
func (s *Server) All() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Request
	for _, r := range s.reqs {
		c := *r
		out = append(out, &c)
	}
	return out
}

// Drop cuts every open connection at once, as a machine that dies does, and
// goes on listening.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		reset(c)
	}
}

// Close ends everything and waits for it.
func (s *Server) Close() error {
	close(s.stop)
	err := s.l.Close()
	s.mu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wait.Wait()
	return err
}

func (s *Server) accept() {
	for n := 0; ; n++ {
		c, err := s.l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.wait.Go(func() {
			defer func() {
				s.mu.Lock()
				delete(s.conns, c)
				s.mu.Unlock()
				c.Close()
			}()
			s.serve(c, n)
		})
	}
}

// serve answers the requests of one connection, one after the other.
func (s *Server) serve(c net.Conn, n int) {
	in := bufio.NewReaderSize(c, 64<<10)
	for {
		hr, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if hr.Header.Get("Expect") == "100-continue" {
			io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		}
		body, err := io.ReadAll(io.LimitReader(hr.Body, 256<<20))
		if err != nil {
			return
		}
		r := s.record(hr, body, n)
		// While the answer is made, a byte or an end on the connection is seen.
		left, peeked := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(peeked)
			if _, err := in.Peek(1); err != nil {
				close(left)
			}
		}()
		p := &player{s: s, c: c, r: r, left: left}
		keep := p.play(s.choose(r)) && !hr.Close
		s.finish(p)
		if !keep {
			c.Close()
			<-peeked
			return
		}
		<-peeked
	}
}

func (s *Server) record(hr *http.Request, body []byte, conn int) *Request {
	if hr.Header.Get("Content-Encoding") == "gzip" {
		if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, _ = io.ReadAll(io.LimitReader(z, 256<<20))
		}
	}
	hr.Header.Set("Host", hr.Host)
	r := &Request{Method: hr.Method, Path: hr.URL.EscapedPath(), Query: hr.URL.Query(), Header: hr.Header, Body: body, Conn: conn, Arrived: time.Now()}
	r.Dialect, r.Model, r.Stream = detect(r.Path, r.Query, body)
	s.mu.Lock()
	defer s.mu.Unlock()
	r.N = len(s.reqs)
	r.ID = fmt.Sprintf("req_fake_%d", r.N)
	s.reqs = append(s.reqs, r)
	return r
}

// choose takes the script for r.
func (s *Server) choose(r *Request) *Script {
	switch r.Dialect {
	case Token:
		return &Script{Text: tokenBody, Free: true}
	case Listing:
		return &Script{Text: listingBody, Free: true}
	}
	s.mu.Lock()
	handle := s.handle
	s.mu.Unlock()
	if handle != nil {
		if sc := handle(r); sc != nil {
			return sc
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.scripts) == 0 {
		return &Script{Answer: &Answer{Parts: []Part{{Text: "Hello from the fake provider."}}, Usage: Usage{Fresh: 7, Output: 5}}}
	}
	i := min(s.seen, len(s.scripts)-1)
	s.seen++
	return &s.scripts[i]
}

// finish notes how the answer to a request ended.
func (s *Server) finish(p *player) {
	p.charge()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := p.r
	r.Ended = time.Now()
	if r.Closed = p.gone; !r.Closed.IsZero() {
		return
	}
	select {
	case <-p.left:
		r.Closed = r.Ended
	default:
	}
}

// charge writes the request's line of the bill, as things stand.
func (p *player) charge() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	r := p.r
	r.Sent = p.sent
	if p.usage == nil {
		return
	}
	u := *p.usage
	if !p.complete {
		u.Output = min(u.Output, p.tokens)
		u.Reasoning = min(u.Reasoning, u.Output)
	}
	r.line = &Line{ID: r.ID, Model: r.Model, Usage: u, Complete: p.complete, Nano: p.s.o.Prices.Cost(u)}
}

// reset closes a connection so that its peer gets a reset instead of an end.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	} else if t, ok := c.(*tls.Conn); ok {
		if t, ok := t.NetConn().(*net.TCPConn); ok {
			t.SetLinger(0)
			t.Close()
		}
	}
	c.Close()
}

func headerLines(h http.Header) string {
	var b strings.Builder
	h.Write(&b)
	return b.String()
}
