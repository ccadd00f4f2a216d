package conform

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net"
	"sync"

	"hearth/appliance/upstream"
	"hearth/engine/infer"
	"hearth/policy"
	"hearth/web"
)

// Bridge is a server of all inbound dialects before upstreams: decoders,
// encoders and adapters as they are in the appliance, without tenants, budgets
// and retries. Each upstream is a model under its own name.
type Bridge struct {
	web.Service // the parts that no case asks for
	key         string
	up          map[string]*bridged
	srv         *web.Server
	l           net.Listener
	done        sync.WaitGroup
}

type bridged struct {
	u       *upstream.Upstream
	backend infer.Backend
}

// Deployment is an upstream, and the model to ask for there.
type Deployment struct {
	Config policy.UpstreamConfig
	Model  string
}

// maxOutput is asked for where a case sets no bound.
const maxOutput = 1024

// NewBridge serves deployments on a port of loopback. Callers must have key.
func NewBridge(ds []Deployment, key string, o upstream.Options) (*Bridge, error) {
	b := &Bridge{key: key, up: map[string]*bridged{}}
	for i := range ds {
		u, err := upstream.New(&ds[i].Config, o)
		if err != nil {
			b.Close()
			return nil, err
		}
		b.up[ds[i].Config.Name] = &bridged{u, u.Backend(ds[i].Model, maxOutput)}
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var err error
	if b.srv, err = web.New(web.Options{Service: b, Log: log}); err != nil {
		b.Close()
		return nil, err
	}
	if b.l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		b.Close()
		return nil, err
	}
	b.done.Go(func() { b.srv.Serve(b.l, nil) })
	return b, nil
}

// URL is where the bridge listens.
func (b *Bridge) URL() string { return "http://" + b.l.Addr().String() }

// Close ends the server and its upstreams.
func (b *Bridge) Close() error {
	var errs []error
	if b.srv != nil {
		errs = append(errs, b.srv.Close())
	}
	b.done.Wait()
	for _, u := range b.up {
		errs = append(errs, u.u.Close())
	}
	return errors.Join(errs...)
}

// Admit knows the one key.
func (b *Bridge) Admit(_ context.Context, c web.Caller) (*web.Grant, error) {
	if c.Credential != b.key {
		return nil, infer.Errorf(infer.CodeUnauthorized, "the API key is missing or wrong")
	}
	return &web.Grant{RequestID: c.RequestID, Tenant: "conform", KeyID: "conform", Release: func() {}}, nil
}

func (b *Bridge) find(model string) (*bridged, error) {
	if u := b.up[model]; u != nil {
		return u, nil
	}
	e := infer.Errorf(infer.CodeModelNotFound, "the model %.64q does not exist", model)
	e.Param = "model"
	return nil, e
}

// Call refuses what would lose meaning, reports the rest, and makes one attempt.
func (b *Bridge) Call(ctx context.Context, g *web.Grant, r *infer.Request) iter.Seq2[infer.Event, error] {
	return func(yield func(infer.Event, error) bool) {
		u, err := b.find(r.Model)
		if err != nil {
			yield(infer.Event{}, err)
			return
		}
		g.Losses = u.u.Losses(r, maxOutput)
		for _, l := range g.Losses {
			if l.Refusable() {
				e := infer.Unsupported(l.Path, "the model's provider has no counterpart for this field")
				e.Losses = g.Losses
				yield(infer.Event{}, e)
				return
			}
		}
		for ev, err := range u.backend.Generate(ctx, r) {
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// Embed makes one attempt.
func (b *Bridge) Embed(ctx context.Context, _ *web.Grant, r *infer.EmbedRequest) (*infer.EmbedResult, error) {
	u, err := b.find(r.Model)
	if err != nil {
		return nil, err
	}
	return u.backend.Embed(ctx, r)
}

// Models lists the upstreams.
func (b *Bridge) Models(context.Context, *web.Grant) ([]infer.Model, error) {
	var out []infer.Model
	for name := range b.up {
		out = append(out, infer.Model{Name: name})
	}
	return out, nil
}

// Ready is always so.
func (b *Bridge) Ready() (bool, string) { return true, "" }

// SaveResponse keeps nothing: cases ask for store: false.
func (b *Bridge) SaveResponse(context.Context, *web.Grant, *web.StoredResponse) error { return nil }

// KeepsResponses is false.
func (b *Bridge) KeepsResponses() bool { return false }
