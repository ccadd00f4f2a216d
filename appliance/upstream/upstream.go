// Package upstream serves inference from providers: it puts a dialect's client
// (web/wire.Client), a profile of the provider (paths, authentication, known
// departures), a credential and a connection pool together into an
// infer.Backend. It makes one attempt; who is asked again is the policy's
// concern.
package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"hearth/engine/infer"
	"hearth/policy"
	"hearth/web/wire"
)

// Options of New. The zero value will do.
type Options struct {
	Log *slog.Logger
	// Version of this program, for the user-agent that providers see.
	Version string
	// Dial opens connections to providers; nil: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// OnDrained is told the usage of an answer that its caller had left, where
	// the upstream is configured to be read on. It is called once for each such
	// answer, from another goroutine, at the latest DrainTimeout after the caller
	// left.
	OnDrained func(Drained)
	// OnProbe is told what each probe found, from the prober's goroutine.
	OnProbe func(upstream string, ok bool)
	// MaxAnswer bounds a whole answer in bytes, decompressed; default 64 MiB.
	MaxAnswer int64
	// Getenv and Now are os.Getenv and time.Now unless a test says otherwise.
	Getenv func(string) string
	Now    func() time.Time
}

// Drained is what became of an answer after its caller had left.
type Drained struct {
	Upstream  string
	Request   string // infer.Request.ID
	RequestID string // the provider's own
	// Usage is what the provider counted; nil if the end did not come in time.
	Usage *infer.Usage
}

// Upstream is one deployment at a provider. It is safe for concurrent use.
type Upstream struct {
	c       *policy.UpstreamConfig
	o       Options
	log     *slog.Logger
	profile *profile
	target  endpoint
	clients []wire.Client // in the order in which the profile prefers them
	auth    signer        // nil: none
	fixed   http.Header   // sent with every request; never changed
	pool    *http.Transport
	plain   *plainPool // beside pool, for a host without TLS; nil: none
	probe   *probe
	manual  probe // those that people asked for

	work sync.WaitGroup // attempts, drains and probes
	ctx  context.Context
	stop context.CancelCauseFunc

	mu     sync.Mutex
	live   map[*attempt]struct{}
	closed bool
}

var errClosed = errors.New("the upstream was closed")

// New prepares an upstream. Its probes, if it has any, begin at once; nothing
// else is sent before a request comes.
func New(c *policy.UpstreamConfig, o Options) (*Upstream, error) {
	return build(c, o, newClient)
}

// build is New with the makers of clients given.
func build(c *policy.UpstreamConfig, o Options, maker func(dialect, kind string) wire.Client) (*Upstream, error) {
	o.defaults()
	p, err := profileOf(c.Kind)
	if err != nil {
		return nil, err
	}
	u := &Upstream{c: c, o: o, log: o.Log, profile: p, live: map[*attempt]struct{}{}}
	if u.target, err = p.endpoint(c); err != nil {
		return nil, err
	}
	if u.fixed, err = fixedHeaders(c, o.Version); err != nil {
		return nil, err
	}
	if u.clients, err = p.clientsFor(c, u.target, maker); err != nil {
		return nil, err
	}
	if u.pool, err = newPool(c, p, o); err != nil {
		return nil, err
	}
	u.plain = newPlainPool(u)
	u.ctx, u.stop = context.WithCancelCause(context.Background())
	if u.auth, err = newSigner(u); err != nil {
		u.stop(errClosed)
		return nil, err
	}
	u.startProbe()
	return u, nil
}

func (o *Options) defaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = 64 << 20
	}
	if o.Getenv == nil {
		o.Getenv = osGetenv
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Name is that of the configuration.
func (u *Upstream) Name() string { return u.c.Name }

// Backend serves one model of the upstream. A request's Model is ignored in
// favour of model; maxOutput bounds answers where a bound is needed and the
// request has none. Closing it does nothing: connections belong to the upstream.
func (u *Upstream) Backend(model string, maxOutput int) infer.Backend {
	return &backend{u: u, target: wire.Target{Model: model, MaxOutput: maxOutput, Profile: u.profile.kind}}
}

// Losses is what r would lose here; none if its dialect is spoken here. maxOutput
// is as with Backend.
func (u *Upstream) Losses(r *infer.Request, maxOutput int) []infer.Loss {
	if len(r.Uses) == 0 {
		return nil
	}
	c, err := u.client(r, r.Model)
	if err != nil || native(c, r.Wire) {
		return nil
	}
	losses := infer.Losses(r.Uses, c.Class)
	if v, ok := c.(wire.ValueClient); ok {
		losses = append(losses, v.ValueLosses(r, wire.Target{Model: r.Model, MaxOutput: maxOutput, Profile: u.profile.kind})...)
	}
	return losses
}

// EmbedLosses is Losses for a request for embeddings.
func (u *Upstream) EmbedLosses(r *infer.EmbedRequest) []infer.Loss {
	c, _ := u.embedClient(r)
	if c == nil || native(c, r.Wire) {
		return nil
	}
	return infer.Losses(r.Uses, c.Class)
}

// begin admits one piece of work, which ends with work.Done, if it says true. a
// is the attempt that it is, or nil.
func (u *Upstream) begin(a *attempt) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.work.Add(1)
	if a != nil {
		u.live[a] = struct{}{}
	}
	return true
}

// forget ends what begin admitted.
func (u *Upstream) forget(a *attempt) {
	u.mu.Lock()
	delete(u.live, a)
	u.mu.Unlock()
	u.work.Done()
}

// Close ends what runs, waits for it, and closes every connection.
func (u *Upstream) Close() error {
	u.mu.Lock()
	u.closed = true
	for a := range u.live {
		a.cancel(errClosed)
	}
	u.mu.Unlock()
	u.stop(errClosed)
	u.work.Wait()
	u.pool.CloseIdleConnections()
	if u.plain != nil {
		u.plain.close()
	}
	if u.auth != nil {
		u.auth.close()
	}
	return nil
}
