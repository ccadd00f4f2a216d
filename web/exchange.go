package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"hearth/engine/infer"
)

// exchange is one request and its answer on their way through the server. It
// lives in one goroutine.
type exchange struct {
	s     *Server
	r     *http.Request
	w     *response
	id    string
	route *route
	param string // what a pattern's {id} matched
	start time.Time
	grant *Grant

	limits []LimitState // to be told with the head
	values []string     // of headers, see set
	readBy time.Time    // when what is left of the body must have gone on

	code     infer.Code // of the error that was told, if any
	fault    error      // its cause, for the log
	stream   bool
	bodyIn   int64 // bytes read
	bodyDone bool  // the body was read to its end, or there is none
}

// response counts what is sent and gives each write a deadline of its own. The
// library does not: without a WriteTimeout a deadline set for one answer would
// still stand for the next on the same connection.
type response struct {
	http.ResponseWriter
	x        *exchange
	rc       *http.ResponseController
	timeout  time.Duration
	start    time.Time
	status   int
	n        int64
	first    time.Duration
	failed   bool
	multi    bool      // HTTP/2: a deadline that passes ends the stream
	extended time.Time // when the deadline was set last
	once     *onceTee  // records the answer; nil: nobody asked for that
}

// Unwrap lets a ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// extend gives the next write its time. Over HTTP/1 a deadline that passes
// between writes does no harm, so one that is fresh enough is left standing: to
// set it costs as much as a small write.
func (w *response) extend() {
	now := time.Now()
	if !w.multi && now.Sub(w.extended) < w.timeout/16 {
		return
	}
	w.extended = now
	_ = w.rc.SetWriteDeadline(now.Add(w.timeout))
}

// SetWriteDeadline is what a ResponseController calls; the time of a write is
// ours to say.
func (w *response) SetWriteDeadline(time.Time) error {
	w.extend()
	return nil
}

func (w *response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.extend()
	w.status = status
	w.first = time.Since(w.start)
	w.x.lastHeaders(w.first)
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.once != nil {
		w.once.add(b)
		return len(b), nil
	}
	return w.pass(b)
}

// pass sends b.
func (w *response) pass(b []byte) (int, error) {
	w.extend()
	n, err := w.ResponseWriter.Write(b)
	w.n += int64(n)
	w.failed = w.failed || err != nil
	return n, err
}

// FlushError is what a ResponseController calls to send what is buffered.
func (w *response) FlushError() error {
	if w.once != nil {
		if w.once.last {
			return nil // it waits for keepOnce
		}
		if _, err := w.pass(w.once.pass()); err != nil {
			return err
		}
	}
	w.extend()
	err := w.rc.Flush()
	w.failed = w.failed || err != nil
	if w.multi {
		_ = w.rc.SetWriteDeadline(time.Time{}) // the next piece may be long in coming
	}
	return err
}

// serve is the handler of everything.
func (s *Server) serve(rw http.ResponseWriter, r *http.Request) {
	now := s.opt.Now()
	x := &exchange{s: s, r: r, id: newRequestID(), start: now}
	x.w = &response{ResponseWriter: rw, x: x, rc: http.NewResponseController(rw), timeout: s.limits().WriteTime, start: now, multi: r.ProtoMajor > 1}
	x.bodyDone = r.Body == nil || r.Body == http.NoBody
	// No deadline stands while an answer is being made: over HTTP/2 one that
	// passes ends the stream even if nothing is written. Over HTTP/1 one of the
	// answer before harms only what the library writes of its own accord.
	if x.w.multi || r.Header["Expect"] != nil {
		_ = x.w.rc.SetWriteDeadline(time.Time{})
	}
	if !x.bodyDone {
		x.readBy = time.Now().Add(s.limits().BodyStall)
		_ = x.w.rc.SetReadDeadline(x.readBy)
	}
	s.open.Add(1)
	defer x.finish()
	x.commonHeaders()
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// The library drops a Content-Length that stood beside the chunks, so
		// nobody here can tell; RFC 9112 section 6.1 wants such a connection
		// closed. Clients with whole bodies send a length.
		x.w.Header().Set("Connection", "close")
	}
	x.route = s.routes.fallback(r)
	if e := s.overHeaders(r.Header); e != nil {
		x.fail(e)
		return
	}
	route, param, e := s.routes.find(r)
	if route != nil {
		x.route, x.param = route, param
	}
	if e != nil {
		if e.Code == infer.CodeMethod {
			x.w.Header().Set("Allow", s.routes.allowed(r.URL.Path))
		}
		x.fail(e)
		return
	}
	route.handle(x)
}

// overHeaders counts header values, which a byte limit does not.
func (s *Server) overHeaders(h http.Header) *infer.Error {
	n := 0
	for _, v := range h {
		n += len(v)
	}
	if n > s.limits().HeaderValues {
		return infer.Errorf(infer.CodeHeaders, "cannot read the request: got %d header values, wanted at most %d", n, s.limits().HeaderValues)
	}
	return nil
}

// newRequestID makes an id of 128 random bits. It is always ours: ids that
// clients choose may repeat, and ours is the key of a ledger row.
func newRequestID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return "req_" + hex.EncodeToString(b[:])
}

// commonHeaders sets what every answer carries. Both SDK families read their
// own name for the id.
func (x *exchange) commonHeaders() {
	x.set("X-Request-Id", x.id)
	x.set("Request-Id", x.id)
	x.set("Cache-Control", "no-store")
	x.set("X-Content-Type-Options", "nosniff")
	for _, name := range []string{"X-Client-Request-Id", "X-Request-Id"} {
		if v := x.r.Header.Get(name); validLabel(v) {
			x.set("X-Client-Request-Id", v)
			break
		}
	}
}

// validLabel tells whether a client's own id may be sent back to it.
func validLabel(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._:-/+=", c) >= 0) {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

// fail answers with an error in the dialect of the route. After the head has
// been sent it can only cut the connection.
func (x *exchange) fail(err error) {
	if err == errAnswered {
		return
	}
	e := infer.AsError(err)
	x.note(e)
	if x.w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	// Reading a body past its deadline counts as leaving to the library, but the
	// peer is there and shall be told. To return in silence would be a 200.
	if x.gone() && e.Code != infer.CodeSlowBody {
		panic(http.ErrAbortHandler)
	}
	x.retryHeaders(e)
	x.lossHeader(e.Losses)
	if x.grant != nil {
		x.routeHeaders()
	}
	status, body := x.route.encodeError(e, x.id)
	x.set("Content-Type", "application/json")
	x.set("Content-Length", strconv.Itoa(len(body)))
	x.refuse(status, body)
}

// note keeps an error for the log.
func (x *exchange) note(e *infer.Error) { x.code, x.fault = e.Code, e.Cause }

// gone tells whether the client has left.
func (x *exchange) gone() bool { return x.r.Context().Err() != nil || x.w.failed }

// json answers with a body.
func (x *exchange) json(status int, body []byte) {
	x.set("Content-Type", "application/json")
	x.set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(body)
	}
}

// text answers with a line.
func (x *exchange) text(status int, body string) {
	h := x.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write([]byte(body))
	}
}

// finish ends every exchange: it catches what was thrown, gives the grant back,
// and tells the log and the metrics.
func (x *exchange) finish() {
	v := recover()
	if v != nil && v != http.ErrAbortHandler {
		x.caught(v)
		if x.w.status != 0 {
			v = http.ErrAbortHandler // the answer has begun: it must not look whole
		} else {
			v = nil
			func() {
				defer func() { _ = recover() }() // a peer that is gone
				x.fail(&infer.Error{Code: infer.CodeInternal, Message: "the server failed to handle the request"})
			}()
		}
	}
	x.keepOnce(v != nil)
	if x.grant != nil && x.grant.Release != nil {
		x.grant.Release()
	}
	x.s.open.Add(-1)
	x.report()
	x.w.extend() // for what the library has yet to send
	if v == http.ErrAbortHandler {
		panic(v)
	}
}

// caught logs a panic. Its text is shown only where it is ours or the
// runtime's: others may quote content.
func (x *exchange) caught(v any) {
	what := fmt.Sprintf("a value of type %T", v)
	if err, ok := v.(runtime.Error); ok {
		what = err.Error()
	} else if s := fmt.Sprint(v); strings.HasPrefix(s, "BUG") {
		what = s
	}
	x.s.log.Error("BUG: a handler panicked", "request", x.id, "route", x.route.pattern, "panic", what, "stack", string(debug.Stack()))
}

// report writes the access log and tells the observer.
func (x *exchange) report() {
	took := x.s.opt.Now().Sub(x.start)
	status := x.w.status
	if status == 0 {
		status = 499 // the client left before any answer
	}
	ev := Exchange{
		Route: x.route.pattern, Method: knownMethod(x.r.Method), Status: status, Code: x.code, Dialect: x.route.dialect,
		Stream: x.stream, Duration: took, FirstByte: x.w.first, BytesIn: x.bodyIn, BytesOut: x.w.n,
	}
	if x.s.opt.Observe != nil {
		x.s.opt.Observe(ev)
	}
	level := slog.LevelInfo
	switch {
	case status >= 500, x.grant != nil && x.grant.Warn:
		level = slog.LevelWarn
	case x.route.quiet && status < 400:
		level = slog.LevelDebug
	}
	if !x.s.log.Enabled(context.Background(), level) || level == slog.LevelInfo && x.s.opt.Access != nil && !x.s.opt.Access() {
		return
	}
	var room [24]slog.Attr
	attrs := append(room[:0],
		slog.String("request", x.id), slog.String("route", ev.Route), slog.Int("status", status),
		slog.Duration("took", took), slog.Int64("in", ev.BytesIn), slog.Int64("out", ev.BytesOut),
		slog.String("peer", x.r.RemoteAddr), slog.String("proto", x.r.Proto),
	)
	if ev.Stream {
		attrs = append(attrs, slog.Bool("stream", true), slog.Duration("first_byte", ev.FirstByte))
	}
	if x.code != "" {
		attrs = append(attrs, slog.String("code", string(x.code)))
	}
	if x.grant != nil {
		attrs = append(attrs, slog.String("tenant", x.grant.Tenant), slog.String("key", x.grant.KeyID))
		attrs = append(attrs, x.grant.Said...)
	}
	if x.fault != nil && !errors.Is(x.fault, context.Canceled) {
		attrs = append(attrs, slog.String("cause", x.fault.Error()))
	}
	if x.gone() {
		attrs = append(attrs, slog.Bool("left", true))
	}
	x.s.log.LogAttrs(context.Background(), level, "http", attrs...)
}

func knownMethod(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT":
		return m
	}
	return "OTHER"
}
