package appliance

import (
	"context"

	"hearth/engine/infer"
	"hearth/web"
)

var errNotYet = infer.Errorf(infer.CodeUnsupported, "not yet")

// SaveResponse implements web.Responses.
func (a *Appliance) SaveResponse(ctx context.Context, g *web.Grant, r *web.StoredResponse) error {
	return errNotYet
}

// LoadResponse implements web.Responses.
func (a *Appliance) LoadResponse(ctx context.Context, g *web.Grant, id string) (*web.StoredResponse, error) {
	return nil, errNotYet
}

// DeleteResponse implements web.Responses.
func (a *Appliance) DeleteResponse(ctx context.Context, g *web.Grant, id string) error {
	return errNotYet
}

// Detach implements web.Responses.
func (a *Appliance) Detach(g *web.Grant, id string, f func(ctx context.Context, g *web.Grant)) error {
	return errNotYet
}

// CancelResponse implements web.Responses.
func (a *Appliance) CancelResponse(ctx context.Context, g *web.Grant, id string) (bool, error) {
	return false, errNotYet
}
