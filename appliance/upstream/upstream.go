// Package upstream serves inference from providers: it puts a dialect's client
// (web/wire.Client), a profile of the provider (paths, authentication, known
// departures), a credential and a connection pool together into an
// infer.Backend. It makes one attempt; who is asked again is the policy's
// concern.
package upstream

import (
	"log/slog"

	"hearth/engine/infer"
	"hearth/policy"
)

// Options of New.
type Options struct {
	Log *slog.Logger
}

// Upstream is one deployment at a provider.
type Upstream struct {
	c *policy.UpstreamConfig
	o Options
}

// New prepares an upstream; nothing is sent yet.
func New(c *policy.UpstreamConfig, o Options) (*Upstream, error) { return &Upstream{c, o}, nil }

// Backend serves one model of the upstream. A request's Model is ignored in
// favour of model; maxOutput bounds answers where a bound is needed and the
// request has none.
func (u *Upstream) Backend(model string, maxOutput int) infer.Backend { panic("not yet") }

// Losses is what r would lose here; none if its dialect is spoken here.
func (u *Upstream) Losses(r *infer.Request) []infer.Loss { panic("not yet") }

// Close ends what runs and closes every connection.
func (u *Upstream) Close() error { return nil }
