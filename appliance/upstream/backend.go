package upstream

import (
	"context"
	"iter"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// backend is one model of an upstream.
type backend struct {
	u      *Upstream
	target wire.Target
}

var _ infer.Backend = (*backend)(nil)

// Generate makes one attempt. When ctx ends, the connection is closed (or read
// on apart, see drain) and the error carries the cause of ctx.
func (b *backend) Generate(ctx context.Context, r *infer.Request) iter.Seq2[infer.Event, error] {
	return func(yield func(infer.Event, error) bool) {
		if b.u.c.OnCancel == "drain" {
			b.drainable(ctx, r, yield)
			return
		}
		left := false
		err := b.attempt(ctx, r, func(ev infer.Event) bool {
			left = left || !yield(ev, nil)
			return !left
		})
		if err != nil && !left {
			yield(infer.Event{}, err)
		}
	}
}

// attempt runs r once. emit says whether to go on.
func (b *backend) attempt(ctx context.Context, r *infer.Request, emit func(infer.Event) bool) error {
	client, err := b.u.client(r, b.target.Model)
	if err != nil {
		return err
	}
	out, err := client.EncodeRequest(r, b.target)
	if err != nil {
		return err
	}
	a, err := b.u.start(ctx)
	if err != nil {
		return err
	}
	defer a.finish()
	x := exchange{attempt: a, client: client, request: r, out: out, model: b.target.Model, emit: emit}
	return x.run()
}

// Embed computes vectors in one attempt.
func (b *backend) Embed(ctx context.Context, r *infer.EmbedRequest) (*infer.EmbedResult, error) {
	client, embed := b.u.embedClient(r)
	if embed == nil {
		return nil, infer.Unsupported("model", "the provider of this model has no embeddings")
	}
	out, err := embed.EncodeEmbed(r, b.target)
	if err != nil {
		return nil, err
	}
	a, err := b.u.start(ctx)
	if err != nil {
		return nil, err
	}
	defer a.finish()
	body, err := a.whole(client, out, r.Wire, b.target.Model)
	if err != nil {
		return nil, err
	}
	res, err := embed.DecodeEmbed(r, out, body)
	if err != nil {
		return nil, a.unreadable(err)
	}
	return res, nil
}

// Tokenize is not offered: providers keep their tokenizers.
func (b *backend) Tokenize(context.Context, *infer.TokenizeRequest) ([]int32, error) {
	return nil, infer.Unsupported("model", "the provider of this model offers no tokenizer")
}

// Detokenize is not offered.
func (b *backend) Detokenize(context.Context, string, []int32) ([]byte, error) {
	return nil, infer.Unsupported("model", "the provider of this model offers no tokenizer")
}

// Models lists the one model.
func (b *backend) Models(context.Context) ([]infer.Model, error) {
	return []infer.Model{{Name: b.target.Model, Architecture: b.u.profile.kind, Device: "upstream", Tools: true}}, nil
}

// Health tells of the last probe; without probes an upstream counts as ready,
// and the policy ejects it by what its requests meet.
func (b *backend) Health(context.Context) infer.Health { return b.u.Health() }

// Close does nothing: see Upstream.Close.
func (b *backend) Close() error { return nil }
