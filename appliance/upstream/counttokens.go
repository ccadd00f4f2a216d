package upstream

import (
	"context"
	"math"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// Bound gives the tokens that n bytes of text have at most.
func (u *Upstream) Bound(n int) int {
	per := u.c.BytesPerToken
	if per <= 0 || math.IsNaN(per) {
		per = 1
	}
	return int(math.Ceil(float64(n) / per))
}

// CountTokens counts the prompt of r at the provider, where it counts tokens,
// and estimates it by its bytes where it does not. Unlike Count it may ask the
// provider.
func (u *Upstream) CountTokens(ctx context.Context, r *infer.Request, model string, maxOutput int) (infer.Count, error) {
	b := &backend{u: u, target: wire.Target{Model: model, MaxOutput: maxOutput, Profile: u.profile.kind}}
	bound, err := b.Count(ctx, r)
	if err != nil {
		return infer.Count{}, err
	}
	client, err := u.client(r, model)
	if err != nil {
		return infer.Count{}, err
	}
	counter, ok := client.(wire.CountClient)
	if !ok {
		bytes := float64(bound.PromptTokens) * max(u.c.BytesPerToken, 1)
		return infer.Count{PromptTokens: int(bytes/bytesPerToken) + 1, MaxOutputTokens: bound.MaxOutputTokens}, nil
	}
	out, err := counter.EncodeCount(r, b.target)
	if err != nil {
		return infer.Count{}, err
	}
	a, err := u.start(ctx)
	if err != nil {
		return infer.Count{}, err
	}
	defer a.finish()
	body, err := a.whole(client, out, r.Wire, model)
	if err != nil {
		return infer.Count{}, err
	}
	n, err := counter.DecodeCount(body)
	if err != nil {
		return infer.Count{}, a.unreadable(err)
	}
	return infer.Count{PromptTokens: n, MaxOutputTokens: bound.MaxOutputTokens}, nil
}

// bytesPerToken is what text has about, where nobody counts.
const bytesPerToken = 4
