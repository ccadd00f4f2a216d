package appliance

import (
	"context"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web"
)

// Embed is the path of embeddings: the same door, the same stages, no stream.
// Input tokens are held and charged; there is no output.
func (a *Appliance) Embed(ctx context.Context, g *web.Grant, r *infer.EmbedRequest) (*infer.EmbedResult, error) {
	c := a.newCall(ctx, g, &infer.Request{Model: r.Model, Sampling: infer.Sampling{N: 1}})
	c.embed = r
	defer c.close()
	defer c.finish()
	for _, stage := range []func() error{c.validateEmbed, c.normalize, c.rules, c.route, c.beforeEmbed, c.weighEmbed, c.hold} {
		if err := stage(); err != nil {
			return nil, c.fail(err)
		}
	}
	var out *infer.EmbedResult
	err := c.attempts(func(t *target) (err error) {
		if out, err = t.backend.Embed(c.traced(t), c.embedRequest(t)); err == nil {
			c.stream.usage, c.outcome = &out.Usage, store.OutcomeComplete
		}
		return err
	})
	if err != nil {
		return nil, c.fail(err)
	}
	c.finish()
	return out, nil
}

// embedRequest is the request for one target.
func (c *call) embedRequest(t *target) *infer.EmbedRequest {
	own := *c.embed
	own.ID, own.Model, own.Tenant = c.request.ID, t.model, c.grant.Tenant
	if t.local() {
		own.Wire, own.Uses, own.Hints = nil, nil, infer.Hints{}
	}
	return &own
}

func (c *call) validateEmbed() error {
	switch {
	case c.embed.Model == "":
		return infer.Invalid("model", "is missing")
	case len(c.embed.Inputs) == 0:
		return infer.Invalid("input", "must have at least one input")
	case c.embed.Dimensions < 0:
		return infer.Invalid("dimensions", "must not be negative, got %d", c.embed.Dimensions)
	}
	return nil
}

// beforeEmbed is before for embeddings.
func (c *call) beforeEmbed() error {
	changed, decisions, err := c.path.Rules.BeforeEmbed(c.embed)
	c.decisions = decisions
	if err != nil {
		return err
	}
	c.embed = changed
	c.retain()
	return nil
}

// weighEmbed is weigh for embeddings.
func (c *call) weighEmbed() error { return c.weighEach((*target).weighEmbed) }

// weighEmbed finds losses and size of a request for embeddings.
func (t *target) weighEmbed(c *call) {
	if t.local() {
		t.losses = infer.Losses(c.embed.Uses, localClassOf(t.info))
	} else {
		t.losses = t.up.EmbedLosses(c.embed)
	}
	if t.err = refuse(t.losses, t.local(), c.reports()); t.err != nil {
		return
	}
	for _, in := range c.embed.Inputs {
		switch {
		case in.Tokens != nil:
			t.size.PromptTokens += len(in.Tokens)
		case !t.local():
			t.size.PromptTokens += t.up.Bound(len(in.Text))
		default:
			var ids []int32
			if ids, t.err = t.backend.Tokenize(c.ctx, &infer.TokenizeRequest{Model: t.model, Text: in.Text, AddSpecial: true}); t.err != nil {
				return
			}
			t.size.PromptTokens += len(ids)
		}
	}
}
