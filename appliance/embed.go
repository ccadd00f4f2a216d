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
	for _, stage := range []func() error{c.validateEmbed, c.normalize, c.rules, c.route, c.countEmbed, c.hold} {
		if err := stage(); err != nil {
			return nil, c.fail(err)
		}
	}
	own := *r
	own.ID, own.Model, own.Tenant = c.request.ID, c.lease.model, g.Tenant
	out, err := c.lease.backend.Embed(c.ctx, &own)
	if err != nil {
		return nil, c.fail(err)
	}
	c.stream.usage, c.outcome = &out.Usage, store.OutcomeComplete
	c.finish()
	return out, nil
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

// countEmbed counts the tokens of all inputs.
func (c *call) countEmbed() error {
	var err error
	if c.lease, err = c.a.lease(c.path); err != nil {
		return err
	}
	c.grant.Contract = c.lease.info.Fingerprint
	for _, in := range c.embed.Inputs {
		if in.Tokens != nil {
			c.size.PromptTokens += len(in.Tokens)
			continue
		}
		ids, err := c.lease.backend.Tokenize(c.ctx, &infer.TokenizeRequest{Model: c.lease.model, Text: in.Text, AddSpecial: true})
		if err != nil {
			return err
		}
		c.size.PromptTokens += len(ids)
	}
	return nil
}
