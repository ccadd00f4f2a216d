package web

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"hearth/engine/infer"
	"hearth/web/sse"
	"hearth/web/wire"
)

// admit takes the caller in before the body is read. It answers itself where
// the caller is refused.
func (x *exchange) admit() bool {
	c, e := x.caller()
	if e != nil {
		x.fail(e)
		return false
	}
	g, err := x.s.opt.Service.Admit(x.r.Context(), c)
	if g != nil {
		x.limitHeaders(g.Limits)
		if g.Trace != "" {
			x.w.Header().Set("Traceparent", g.Trace)
		}
	}
	if err != nil {
		x.fail(err)
		return false
	}
	x.grant = g
	return true
}

// caller gathers who asks. The cookie of a browser counts only where there is
// no key and the request comes from our own pages.
func (x *exchange) caller() (Caller, *infer.Error) {
	c := Caller{
		RequestID: x.id, RemoteAddr: x.r.RemoteAddr, Route: x.route.pattern,
		TraceParent: traceParent(x.r.Header),
	}
	if c.TraceParent != "" {
		c.TraceState = traceState(x.r.Header)
	}
	if n, err := strconv.Atoi(x.r.Header.Get("X-Stainless-Retry-Count")); err == nil && n >= 0 && n <= 100 {
		c.Retry = n
	}
	var e *infer.Error
	if c.Credential, e = credential(x.r.Header); e != nil {
		return c, e
	}
	if x.route.queryKey {
		if c.Credential, e = queryKey(x.r, c.Credential); e != nil {
			return c, e
		}
	}
	if c.Credential == "" && x.s.cross.Check(x.r) == nil {
		c.Session = x.cookie()
	}
	return c, nil
}

// generate serves one generating route.
func (x *exchange) generate(d wire.Dialect) {
	if !x.admit() {
		return
	}
	r, o, err := x.decode(d)
	if err != nil {
		x.fail(err)
		return
	}
	r.ID, r.Tenant = x.id, x.grant.Tenant
	o.Created = x.s.opt.Now()
	if r.Sampling.ReturnTokenIDs {
		if o.PromptTokens, err = x.promptTokens(r); err != nil {
			x.fail(err)
			return
		}
	}
	if o.Stream {
		x.streamed(d, r, o)
		return
	}
	x.whole(d, r, o)
}

func (x *exchange) decode(d wire.Dialect) (*infer.Request, wire.Options, error) {
	body, done, err := x.body()
	defer done()
	if err != nil {
		return nil, wire.Options{}, err
	}
	return d.DecodeRequest(x.r, body)
}

// promptTokens are the ids that the engine will make of each prompt.
func (x *exchange) promptTokens(r *infer.Request) ([][]int32, error) {
	ctx, svc := x.r.Context(), x.s.opt.Service
	if r.Kind == infer.Chat {
		ids, err := svc.Tokenize(ctx, x.grant, &infer.TokenizeRequest{Model: r.Model, Chat: r})
		return [][]int32{ids}, err
	}
	out := make([][]int32, len(r.Prompts))
	for i, p := range r.Prompts {
		if out[i] = p.Tokens; p.Tokens != nil {
			continue
		}
		var err error
		if out[i], err = svc.Tokenize(ctx, x.grant, &infer.TokenizeRequest{Model: r.Model, Text: p.Text, AddSpecial: true}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// whole collects the events and answers at once.
func (x *exchange) whole(d wire.Dialect, r *infer.Request, o wire.Options) {
	c := wire.NewCollector(r)
	for ev, err := range x.s.opt.Service.Call(x.r.Context(), x.grant, r) {
		if err == nil {
			err = c.Add(ev)
		}
		if err != nil {
			x.fail(err)
			return
		}
	}
	a, err := c.Answer()
	if err != nil {
		x.fail(err)
		return
	}
	var buf bytes.Buffer
	if err := d.EncodeResponse(&buf, r, o, a); err != nil {
		x.fail(err)
		return
	}
	x.answerHeaders(a.Model)
	x.json(http.StatusOK, buf.Bytes())
}

// answerHeaders sets what is known once the answer begins.
func (x *exchange) answerHeaders(m infer.Served) {
	x.limitHeaders(x.grant.Limits)
	contract := x.grant.Contract
	if contract == "" {
		contract = m.Fingerprint
	}
	if contract != "" {
		x.w.Header().Set("X-Hearth-Contract", contract)
	}
}

// item is one step of a generation on its way to the writer.
type item struct {
	ev  infer.Event
	err error
}

// pump runs the events of a call in a goroutine of its own, so that the writer
// can also watch the clock. The channel is bounded: a reader that is slow holds
// up its own generation, not memory. The goroutine ends when the call does,
// when ctx ends, or after an error; the channel is closed then.
func (x *exchange) pump(ctx context.Context, seq iter.Seq2[infer.Event, error]) <-chan item {
	ch := make(chan item, x.s.lim.EventQueue)
	go func() {
		defer close(ch)
		defer func() {
			if v := recover(); v != nil {
				x.s.log.Error("BUG: a call panicked", "request", x.id, "panic", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
				select {
				case ch <- item{err: fmt.Errorf("BUG: a call panicked")}:
				case <-ctx.Done():
				}
			}
		}()
		for ev, err := range seq {
			select {
			case ch <- item{ev, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return ch
}

// streamed sends events as they come. The head is sent with the first event;
// until then an error has a status of its own. Only where the first event lets
// wait longer than a heartbeat does the stream begin without it, and errors are
// told inside the stream from there on.
func (x *exchange) streamed(d wire.Dialect, r *infer.Request, o wire.Options) {
	ctx, cancel := context.WithCancel(x.r.Context())
	out := sse.NewWriter(x.w, x.s.lim.WriteTime)
	enc := d.NewStream(r, o)
	framed, _ := enc.(wire.Framed)
	if framed != nil {
		out.SetContentType(framed.ContentType())
	}
	x.grant.Stream = true
	ch := x.pump(ctx, x.s.opt.Service.Call(ctx, x.grant, r))
	// The grant is given back by finish, so the call must be over before.
	defer func() {
		cancel()
		for range ch {
		}
	}()
	x.stream = true
	beat := time.NewTimer(x.s.lim.Heartbeat)
	defer beat.Stop()
	var buf []byte
	complete := false
	for {
		var it item
		var ok bool
		select {
		case it, ok = <-ch:
		case <-beat.C:
			if framed == nil && heartbeat(out, enc) != nil {
				return
			}
			beat.Reset(x.s.lim.Heartbeat)
			continue
		case <-ctx.Done():
			return
		}
		switch {
		case !ok && complete:
			_ = out.Send(enc.End(buf[:0]))
			return
		case !ok:
			it.err = fmt.Errorf("BUG: a stream without usage")
		case it.err == nil:
			buf, it.err = enc.Event(buf[:0], it.ev)
		}
		if it.err != nil {
			x.failStream(out, enc, it.err)
			return
		}
		complete = complete || it.ev.Kind == infer.EventUsage
		if it.ev.Kind == infer.EventStart && !out.Started() {
			m := infer.Served{}
			if it.ev.Model != nil {
				m = *it.ev.Model
			}
			x.answerHeaders(m)
		}
		if len(buf) == 0 && out.Started() {
			continue
		}
		if out.Send(buf) != nil {
			return
		}
		beat.Reset(x.s.lim.Heartbeat)
	}
}

// heartbeat keeps a silent SSE stream alive, in the dialect's own way if it has
// one.
func heartbeat(out *sse.Writer, enc wire.StreamEncoder) error {
	if p, ok := enc.(wire.Pinger); ok {
		return out.Send(p.Ping(nil))
	}
	return out.Ping()
}

// failStream tells an error: by status while nothing was sent, else by a frame
// that nothing follows, not even an end mark.
func (x *exchange) failStream(out *sse.Writer, enc wire.StreamEncoder, err error) {
	if !out.Started() {
		x.fail(err)
		return
	}
	e := infer.AsError(err)
	x.note(e)
	_ = out.Send(enc.Error(nil, e))
}
