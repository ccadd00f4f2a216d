package admin

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base32"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"hearth/engine/infer"
)

// Bounds of the control plane. Few people use it; what they send is small, but
// for a configuration and pieces of uploads.
const (
	maxBody      = 16 << 20
	maxHeader    = 32 << 10
	headerTime   = 10 * time.Second
	idleTime     = 2 * time.Minute
	bodyTime     = 2 * time.Minute
	streamsAConn = 100
)

// Server serves the control plane. It is made by New and is safe for concurrent
// use.
type Server struct {
	opt      Options
	log      *slog.Logger
	http     *http.Server
	mux      *http.ServeMux
	pages    *pages
	cross    *http.CrossOriginProtection
	routes   []Route
	watching atomic.Int64 // open live streams
	scenes   scenes       // what they show
	stopping chan struct{}
}

// Route is one pattern of the surface with who may use it, for tests that go
// over all of them.
type Route struct {
	Method, Path string
	// Operation that it carries out, empty for pages and the rest.
	Operation string
	// Access needed; Nobody: open to all, where Open is set.
	Access Access
	Open   bool
}

// New checks the options and returns a Server that listens nowhere yet.
func New(o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Server{opt: o, log: o.Log, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(), stopping: make(chan struct{})}
	var err error
	if s.pages, err = loadPages(); err != nil {
		return nil, err
	}
	s.apiRoutes()
	s.pageRoutes()
	s.sessionRoutes()
	s.http = s.makeHTTP()
	return s, nil
}

func (s *Server) makeHTTP() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: streamsAConn},
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// Serve accepts connections of l, with TLS unless tc is nil, until Shutdown.
func (s *Server) Serve(l net.Listener, tc *tls.Config) error {
	l = &boundedListener{Listener: l}
	if tc != nil {
		tc = tc.Clone()
		tc.NextProtos = []string{"h2", "http/1.1"}
		l = tls.NewListener(l, tc)
	}
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown ends live streams at once and lets other answers go out.
func (s *Server) Shutdown(ctx context.Context) error {
	close(s.stopping)
	return s.http.Shutdown(ctx)
}

// Close cuts what is left.
func (s *Server) Close() error { return s.http.Close() }

// Routes lists the whole surface.
func (s *Server) Routes() []Route { return s.routes }

// handle adds a pattern.
func (s *Server) handle(rt Route, h func(x *exchange) error) {
	s.routes = append(s.routes, rt)
	s.mux.HandleFunc(rt.Method+" "+rt.Path, func(w http.ResponseWriter, r *http.Request) {
		x := r.Context().Value(exchangeKey{}).(*exchange)
		x.w, x.r, x.route = w, r, rt
		err := x.admit()
		if err == nil && x.caller == nil {
			err = x.limitBody(maxStranger)
		}
		if err == nil {
			err = h(x)
		}
		if err != nil {
			x.fail(err)
		}
	})
}

type exchangeKey struct{}

// exchange is one request and its answer.
type exchange struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	route   Route
	rec     *recorder // below w
	id      string
	session *Session                               // nil without a cookie that is good
	secret  string                                 // of the session
	caller  *Caller                                // nil on open routes without a credential
	again   func(context.Context) (*Caller, error) // looks for the caller anew
	was     map[string]string                      // fields of a form that failed
}

// pagePolicy lets a page load from us alone: no inline script or style, no
// frame, no foreign origin, no string turned into code. The library that swaps
// parts of a page parses HTML that we have rendered; the policy by which it may
// is in app.js and lets nothing else become a script.
const pagePolicy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'; trusted-types default"

// serve sets what every answer has and finds the route.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	began := s.opt.Now()
	x := &exchange{s: s, w: w, r: r, id: newID()}
	rec := &recorder{ResponseWriter: w, rc: http.NewResponseController(w)}
	x.rec = rec
	h := rec.Header()
	h.Set("X-Request-Id", x.id)
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=()")
	h.Set("Cache-Control", "no-store")
	if r.TLS != nil {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v)
			}
			s.log.Error("a handler of the control plane panicked", "request_id", x.id, "path", x.route.Path, "panic", v)
			if rec.status != 0 {
				panic(http.ErrAbortHandler)
			}
			x.w, x.r = rec, r
			x.fail(infer.Errorf(infer.CodeInternal, "an internal fault happened; the log tells more under the id %s", x.id))
		}
		s.log.Debug("control plane", "method", r.Method, "path", x.route.Path, "status", rec.status, "duration", s.opt.Now().Sub(began), "request_id", x.id, "user", x.user())
	}()
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	_ = rec.rc.SetReadDeadline(time.Time{}) // of the request before this one
	if r.Body != nil && r.Body != http.NoBody {
		_ = rec.rc.SetReadDeadline(time.Now().Add(bodyTime))
		r.Body = &timedBody{r.Body, rec.rc}
	}
	_ = rec.rc.SetWriteDeadline(time.Time{}) // of the answer before this one
	x.w, x.r = rec, r
	if err := x.ours(); err != nil {
		x.fail(err)
		return
	}
	if _, pattern := s.mux.Handler(r); pattern == "" {
		x.fail(s.missing(r))
		return
	}
	s.mux.ServeHTTP(rec, r)
}

func (x *exchange) user() string {
	if x.caller == nil {
		return ""
	}
	return x.caller.User
}

// missing is the error for a path, or a method, that is not there.
func (s *Server) missing(r *http.Request) error {
	var takes []string
	for _, m := range []string{"GET", "POST", "PUT", "DELETE"} {
		probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := s.mux.Handler(probe); pattern != "" && !strings.HasSuffix(pattern, " /") {
			takes = append(takes, m)
		}
	}
	if len(takes) > 0 && !slices.Contains(takes, r.Method) {
		return infer.Errorf(infer.CodeMethod, "cannot use this method here: wanted %s", strings.Join(takes, " or "))
	}
	return infer.Errorf(infer.CodeNotFound, "there is nothing at this path")
}

func newID() string {
	var b [10]byte
	rand.Read(b[:])
	return "adm_" + strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// timedBody takes the deadline of a body away when it was read. Over HTTP/1 the
// server goes on reading, to see the client leave, and a deadline that passes
// then would end the request.
type timedBody struct {
	io.ReadCloser
	rc *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// recorder notes the status of an answer, and bounds how long its reader may take.
type recorder struct {
	http.ResponseWriter
	rc      *http.ResponseController
	status  int
	patient bool // who writes sees to that by themselves
}

// Unwrap lets http.ResponseController through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader notes the first status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write is an answer of status 200 where none was said.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	if !r.patient {
		_ = r.rc.SetWriteDeadline(time.Now().Add(writeTime)) // also for what is still in a buffer afterwards
	}
	return r.ResponseWriter.Write(b)
}

// Handler is the whole surface, without the bounds of connections that Serve
// adds.
func (s *Server) Handler() http.Handler { return s.http.Handler }
