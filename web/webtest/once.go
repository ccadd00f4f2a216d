package webtest

import (
	"context"

	"hearth/engine/infer"
	"hearth/web"
)

// Claim implements web.Once.
func (a *Service) Claim(ctx context.Context, g *web.Grant, key, route string, body [32]byte) (web.Recording, *web.Replay, error) {
	return nil, nil, infer.Errorf(infer.CodeUnsupported, "not yet")
}
