package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// Why an attempt is ended from our side.
var (
	errFirstByte = errors.New("the head of the answer did not come in time")
	errSilent    = errors.New("the answer fell silent for too long")
	errDone      = errors.New("the attempt is over")
	errDrained   = errors.New("the time to read on for the usage is over")
)

// attempt is one exchange with a provider, from its first byte to its last. Its
// context ends with the caller's, with Close, or with a timeout, and takes the
// connection with it.
type attempt struct {
	u      *Upstream
	ctx    context.Context
	cancel context.CancelCauseFunc
	unlink func() bool // from the caller's context

	timer   *time.Timer
	waiting atomic.Pointer[error] // what the timer stands for
	handed  bool                  // what is left to do has been handed to a goroutine

	// Of the connection, written by net/http's hooks.
	conn   *countedConn
	reused bool
	before int64       // bytes written on conn before this request
	shared bool        // HTTP/2: other requests write on it too
	headed atomic.Bool // HTTP/2: the head of the request has been written

	head      http.Header // of the request, credential included
	status    int
	requestID string
}

// start begins an attempt; finish must follow.
func (u *Upstream) start(ctx context.Context) (*attempt, error) {
	if ctx.Err() != nil {
		e := fault(infer.FailLost, "the request was ended before it was sent", context.Cause(ctx))
		e.Upstream.Unsent = true
		return nil, e
	}
	a := &attempt{u: u}
	a.ctx, a.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if !u.begin(a) {
		a.cancel(errClosed)
		e := fault(infer.FailConnect, "the server is shutting down", errClosed)
		e.Code, e.Upstream.Unsent = infer.CodeUnavailable, true
		return nil, e
	}
	a.unlink = context.AfterFunc(ctx, func() { a.cancel(context.Cause(ctx)) })
	return a, nil
}

// finish gives everything back, unless a goroutine does.
func (a *attempt) finish() {
	if !a.handed {
		a.over()
	}
}

func (a *attempt) over() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.unlink()
	a.cancel(errDone)
	a.u.forget(a)
}

// limit ends the attempt with why after d of silence; 0 is never.
func (a *attempt) limit(d time.Duration, why *error) {
	if a.timer != nil {
		a.timer.Stop()
	}
	if d <= 0 {
		a.timer = nil
		return
	}
	a.waiting.Store(why)
	if a.timer == nil {
		a.timer = time.AfterFunc(d, func() { a.cancel(*a.waiting.Load()) })
		return
	}
	a.timer.Reset(d)
}

// send makes the exchange up to the head of the answer.
func (a *attempt) send(client wire.Client, out *wire.Outgoing, w *infer.Wire, model string) (*http.Response, error) {
	u := a.u
	place, err := u.place(client.Dialect(), model, out)
	if err != nil {
		return nil, infer.AsError(err)
	}
	var theirs caller
	if native(client, w) {
		theirs = w.Header
	}
	head := u.header(a.ctx, client, out, theirs)
	body := out.Body
	if u.profile.rewrite != nil {
		if body, err = u.profile.rewrite(client.Dialect(), out, head); err != nil {
			return nil, err
		}
	}
	a.limit(time.Duration(u.c.FirstByteTimeout), &errFirstByte)
	// A kept connection may turn out to be closed before a byte of the request
	// is on it. Nothing has been sent then, so it is the same attempt still.
	for stale := 0; ; stale++ {
		resp, err := a.roundTrip(method(out), place, head, body)
		if err == nil {
			return resp, nil
		}
		failed := a.broken(err)
		if !a.reused || !failed.Upstream.Unsent || a.ctx.Err() != nil || stale == maxStale {
			return nil, failed
		}
	}
}

// maxStale is how many kept connections in a row may be found closed.
const maxStale = 8

func method(out *wire.Outgoing) string {
	if out.Method == "" {
		return http.MethodPost
	}
	return out.Method
}

func (a *attempt) roundTrip(method string, to *url.URL, head http.Header, body []byte) (*http.Response, error) {
	a.conn, a.reused, a.shared = nil, false, false
	a.headed.Store(false)
	req := &http.Request{
		Method: method, URL: to, Host: to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: head,
		ContentLength: int64(len(body)), Body: http.NoBody,
	}
	if len(body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(body)) // no GetBody: net/http cannot send it twice
	}
	if a.u.auth != nil {
		if err := a.u.auth.sign(a.ctx, req, body); err != nil {
			return nil, err
		}
	}
	a.head = req.Header
	if a.u.plain != nil && len(body) <= maxPlain {
		resp, err := a.plainly(method, to, head, body)
		return a.headCame(resp, err)
	}
	req = req.WithContext(httptrace.WithClientTrace(a.ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			a.conn, a.reused = counted(i.Conn), i.Reused
			if a.conn != nil {
				a.before = a.conn.written.Load()
			}
			a.shared = isHTTP2(i.Conn)
		},
		WroteHeaders: func() { a.headed.Store(true) },
	}))
	resp, err := a.u.pool.RoundTrip(req)
	return a.headCame(resp, err)
}

// headCame notes what the head of an answer says.
func (a *attempt) headCame(resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	a.status, a.requestID = resp.StatusCode, a.discreet(requestID(resp.Header))
	a.limit(a.u.idle(), &errSilent)
	return resp, nil
}

// idle is the longest silence inside an answer.
func (u *Upstream) idle() time.Duration {
	if d := time.Duration(u.c.IdleTimeout); d > 0 {
		return d
	}
	return defaultIdle
}

// unsent says that no byte of the request has reached a connection. Where
// connections are shared it is the head that counts: without it the provider
// has no request, and its body follows the head.
func (a *attempt) unsent() bool {
	switch {
	case a.conn == nil:
		return !a.headed.Load()
	case a.shared:
		return !a.headed.Load()
	}
	return a.conn.written.Load() == a.before
}

// reader reads a body under the idle limit.
type reader struct {
	a    *attempt
	body io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if n > 0 && r.a.timer != nil {
		r.a.timer.Reset(r.a.u.idle())
	}
	return n, err
}

// whole sends out and reads a whole 2xx answer that is not streamed.
func (a *attempt) whole(client wire.Client, out *wire.Outgoing, w *infer.Wire, model string) ([]byte, error) {
	resp, err := a.send(client, out, w, model)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return nil, a.refusal(client, resp)
	}
	ans, err := a.open(resp, client, false)
	if err != nil {
		return nil, err
	}
	if ans.framing != "" {
		return nil, a.malformed("a stream where one whole answer was asked for", nil)
	}
	return a.readAll(ans.body, resp.ContentLength)
}

// readAll reads a body of bounded size.
func (a *attempt) readAll(body io.Reader, size int64) ([]byte, error) {
	limit := a.u.o.MaxAnswer
	if size > limit {
		return nil, a.malformed("an answer beyond the size that is read", nil)
	}
	b := bytes.NewBuffer(make([]byte, 0, max(512, min(size, 1<<20)+bytes.MinRead)))
	n, err := b.ReadFrom(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, a.cut(err)
	case n > limit:
		return nil, a.malformed("an answer beyond the size that is read", nil)
	}
	return b.Bytes(), nil
}

// tail lets a connection be used again: what follows the end of an answer is
// read apart, briefly, so that neither the caller nor the connection waits.
func (a *attempt) tail(body io.ReadCloser) {
	a.handed = true
	a.unlink() // the caller may leave now
	go func() {
		defer a.over()
		defer body.Close()
		a.limit(tailTime, &errDone)
		io.CopyN(io.Discard, body, tailBytes)
	}()
}

const (
	tailTime  = 250 * time.Millisecond
	tailBytes = 64 << 10
)
