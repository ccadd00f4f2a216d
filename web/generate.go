package web

import (
	"bytes"
	"net/http"
	"strconv"

	"hearth/engine/infer"
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
		x.limits = g.Limits
		if g.Trace != "" {
			x.set("Traceparent", g.Trace)
		}
	}
	if err != nil {
		x.fail(err)
		return false
	}
	x.grant, g.Line = g, true
	return true
}

// caller gathers who asks.
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
	if c.Timeout, e = timeoutHeader(x.r.Header); e != nil {
		return c, e
	}
	if c.Idempotency, e = idempotencyKey(x.r.Header); e != nil {
		return c, e
	}
	if c.Credential, c.Bearer, e = credential(x.r.Header); e != nil {
		return c, e
	}
	if x.r.TLS != nil {
		c.Certificates = x.r.TLS.PeerCertificates
	}
	if x.route.queryKey {
		if c.Credential, e = queryKey(x.r, c.Credential); e != nil {
			return c, e
		}
	}
	if p, ok := x.r.Context().Value(principalKey{}).(*Principal); ok {
		c.Principal, c.Credential, c.Bearer, c.Certificates = p, "", false, nil
	}
	return c, nil
}

// detacher is a dialect some of whose requests go on without their caller. If
// detach returns true it has answered.
type detacher interface {
	detach(r *infer.Request, o wire.Options) bool
}

// watcher is a stream encoder that looks at what a provider of its dialect has
// sent before it is passed on; wholeWatcher is a dialect that does so with whole
// answers.
type (
	watcher      interface{ Watch(ev *infer.Event) }
	wholeWatcher interface {
		watchWhole(o wire.Options, body []byte)
	}
)

// generate serves one generating route.
func (x *exchange) generate(d wire.Dialect) {
	if !x.admit() {
		return
	}
	// The body lives as long as the request: a provider of the same dialect is
	// sent it as it came.
	body, done, err := x.body()
	defer done()
	if err != nil {
		x.fail(err)
		return
	}
	r, o, err := d.DecodeRequest(x.r, body)
	if err != nil {
		x.fail(err)
		return
	}
	if err := x.claim(body); err != nil {
		x.fail(err)
		return
	}
	r.ID, r.Tenant = x.id, x.grant.Tenant
	r.Stream = o.Stream
	o.Created = x.s.opt.Now()
	if r.Sampling.ReturnTokenIDs {
		if o.PromptTokens, err = x.promptTokens(r); err != nil {
			x.fail(err)
			return
		}
	}
	if t, ok := d.(detacher); ok && t.detach(r, o) {
		return
	}
	if o.Stream {
		x.streamed(d, r, o)
		return
	}
	x.whole(d, r, o)
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

// whole collects the events and answers at once. A provider that speaks the
// caller's dialect has its body passed on as it is.
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
	var body []byte
	if a.Frame != nil {
		body = a.Frame.Data
		if w, ok := d.(wholeWatcher); ok {
			w.watchWhole(o, body)
		}
	} else {
		var buf bytes.Buffer
		if err := d.EncodeResponse(&buf, r, o, a); err != nil {
			x.fail(err)
			return
		}
		body = buf.Bytes()
	}
	x.answerHeaders(a.Model)
	if a.Usage.Estimated {
		x.set("X-Hearth-Usage", "estimated")
	}
	x.json(http.StatusOK, body)
}
