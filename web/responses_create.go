package web

import (
	"context"
	"io"
	"net/http"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/openai"
	"hearth/web/responses"
	"hearth/web/wire"
)

// createResponse serves POST /v1/responses.
func (x *exchange) createResponse() { x.generate(&responsesDialect{x: x}) }

// responsesDialect is the dialect as this server speaks it to one caller: with
// the errors that all of OpenAI's routes share, with the caller's earlier
// responses, and with its answers kept.
type responsesDialect struct {
	x    *exchange
	turn *responses.Turn
}

// DecodeRequest implements wire.Dialect.
func (d *responsesDialect) DecodeRequest(h *http.Request, body []byte) (*infer.Request, wire.Options, error) {
	state := &responseState{ctx: d.x.r.Context(), s: d.x.s.opt.Service, g: d.x.grant}
	r, o, err := responses.Dialect{State: state}.DecodeRequest(h, body)
	if err != nil {
		return nil, o, err
	}
	d.turn = o.Own.(*responses.Turn)
	if !state.Keeps() {
		if d.turn.Background {
			return nil, o, infer.Unsupported("background", "cannot run in the background: responses are not kept here")
		}
		d.turn.Store = false
	}
	return r, o, nil
}

// EncodeError implements wire.Dialect.
func (d *responsesDialect) EncodeError(e *infer.Error, requestID string) (int, []byte) {
	return openai.EncodeError(e, requestID)
}

// EncodeResponse implements wire.Dialect.
func (d *responsesDialect) EncodeResponse(w io.Writer, r *infer.Request, o wire.Options, a *wire.Answer) error {
	id := responses.ResponseID(r.ID)
	body, err := responses.Whole(r, o, a, func(body []byte) error { return d.save(d.x.r.Context(), d.x.grant, id, body) })
	if err == nil {
		_, err = w.Write(append(body, '\n'))
	}
	return err
}

// NewStream implements wire.Dialect.
func (d *responsesDialect) NewStream(r *infer.Request, o wire.Options) wire.StreamEncoder {
	s := responses.NewStream(r, o)
	s.Save = func(body []byte) error { return d.save(d.x.r.Context(), d.x.grant, s.ID(), body) }
	return s
}

// watchWhole keeps the answer of a provider that speaks the dialect, under the
// provider's id.
func (d *responsesDialect) watchWhole(_ wire.Options, body []byte) {
	v, err := jsonread.Parse(body, jsonread.Limits{})
	if err != nil || !d.turn.Store {
		return
	}
	if m, ok := v.Get("id"); ok {
		if id, err := m.Str(); err == nil {
			_ = d.save(d.x.r.Context(), d.x.grant, id, v.Raw()) // the provider has it
		}
	}
}

// save keeps a response with what led to it. A caller that has left does not
// keep it from being kept: it is charged for.
func (d *responsesDialect) save(ctx context.Context, g *Grant, id string, body []byte) error {
	items := append([][]byte(nil), d.turn.Items...)
	responses.SetIDs(items, id)
	err := d.x.s.opt.Service.SaveResponse(context.WithoutCancel(ctx), g, &StoredResponse{
		ID: id, Created: d.x.s.opt.Now(), Body: append([]byte(nil), body...), Input: responses.Join(items),
	})
	if err != nil {
		d.x.s.log.Warn("cannot keep a response", "request", g.RequestID, "error", err.Error())
	}
	return err
}

// responseState gives the decoder the caller's earlier responses.
type responseState struct {
	ctx context.Context
	s   Service
	g   *Grant
}

func (s *responseState) Keeps() bool { return s.s.KeepsResponses() }

// Earlier implements responses.State.
func (s *responseState) Earlier(id string) (items [][]byte, native bool, err error) {
	r, err := s.s.LoadResponse(s.ctx, s.g, id)
	if err != nil {
		return nil, false, err
	}
	if responses.Open(r.Body) {
		return nil, false, infer.Errorf(infer.CodeConflict, "cannot go on from a response that has not come to its end")
	}
	items = append(responses.Items(r.Input), responses.Output(r.Body)...)
	_, own := responses.Own(id)
	return items, !own, nil
}

// responseInputTokens serves POST /v1/responses/input_tokens.
func (x *exchange) responseInputTokens() {
	if !x.admit() {
		return
	}
	body, done, err := x.body()
	defer done()
	if err != nil {
		x.fail(err)
		return
	}
	d := &responsesDialect{x: x}
	r, _, err := d.DecodeRequest(x.r, body)
	if err != nil {
		x.fail(err)
		return
	}
	r.ID, r.Tenant = x.id, x.grant.Tenant
	n, err := x.s.opt.Service.Count(x.r.Context(), x.grant, r)
	if err != nil {
		x.fail(err)
		return
	}
	x.answerHeaders(infer.Served{})
	x.json(http.StatusOK, responses.InputTokens(n.PromptTokens))
}
