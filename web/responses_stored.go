package web

import (
	"net/http"
	"strconv"
	"time"

	"hearth/engine/infer"
	"hearth/web/responses"
	"hearth/web/sse"
)

// cancelWait is how long a cancellation waits for the run to end.
const cancelWait = 5 * time.Second

// stored finds the response that a route names; it answers where there is none.
func (x *exchange) stored() *StoredResponse {
	if !x.admit() {
		return nil
	}
	r, err := x.loadResponse()
	if err != nil {
		x.fail(err)
		return nil
	}
	return r
}

// loadResponse loads the response that the path names. One that was running
// when its server went away has failed.
func (x *exchange) loadResponse() (*StoredResponse, error) {
	svc := x.s.opt.Service
	if !svc.KeepsResponses() {
		return nil, infer.Errorf(infer.CodeNotFound, "there is no such response: responses are not kept here")
	}
	r, err := svc.LoadResponse(x.r.Context(), x.grant, x.param)
	if err != nil {
		return nil, err
	}
	if responses.Open(r.Body) && !r.Running {
		// It may have ended since it was read.
		if r, err = svc.LoadResponse(x.r.Context(), x.grant, x.param); err != nil {
			return nil, err
		}
		if responses.Open(r.Body) && !r.Running {
			r.Body = responses.Failed(r.Body, infer.Errorf(infer.CodeUnavailable, "the server was restarted while the response was being made"))
		}
	}
	return r, nil
}

// response serves GET /v1/responses/{id}, whole or as a stream.
func (x *exchange) response() {
	r := x.stored()
	if r == nil {
		return
	}
	q := x.r.URL.Query()
	if q.Get("stream") != "true" {
		x.json(http.StatusOK, append(r.Body, '\n'))
		return
	}
	from := 0
	after := q.Get("starting_after")
	if after != "" {
		n, err := strconv.ParseUint(after, 10, 31)
		if err != nil {
			x.fail(infer.Invalid("starting_after", "cannot use starting_after: wanted the number of an event"))
			return
		}
		from = int(n) + 1
	}
	if run := x.s.live.find(x.grant.Tenant, x.param); run != nil {
		x.follow(run, from)
		return
	}
	if from > 0 {
		x.fail(infer.Invalid("starting_after", "cannot go on within the stream: its events are no longer kept, fetch the response instead"))
		return
	}
	frames, err := responses.Replay(r.Body)
	if err != nil {
		x.fail(err)
		return
	}
	x.stream = true
	_ = sse.NewWriter(x.w, x.s.limits().WriteTime).Send(frames)
}

// deleteResponse serves DELETE /v1/responses/{id}. A run in the background is
// ended with it.
func (x *exchange) deleteResponse() {
	r := x.stored()
	if r == nil {
		return
	}
	if run := x.s.live.find(x.grant.Tenant, x.param); run != nil {
		run.drop()
	}
	svc := x.s.opt.Service
	if _, err := svc.CancelResponse(x.r.Context(), x.grant, x.param); err != nil {
		x.fail(err)
		return
	}
	if err := svc.DeleteResponse(x.r.Context(), x.grant, x.param); err != nil {
		x.fail(err)
		return
	}
	x.json(http.StatusOK, responses.Deleted(x.param))
}

// cancelResponse serves POST /v1/responses/{id}/cancel. One that has ended is
// answered as it is.
func (x *exchange) cancelResponse() {
	r := x.stored()
	if r == nil {
		return
	}
	if !responses.Background(r.Body) {
		x.fail(infer.Invalid("response_id", "cannot cancel the response: it does not run in the background"))
		return
	}
	running, err := x.s.opt.Service.CancelResponse(x.r.Context(), x.grant, x.param)
	if err != nil {
		x.fail(err)
		return
	}
	if run := x.s.live.find(x.grant.Tenant, x.param); running && run != nil {
		x.await(run)
	}
	if r, err = x.loadResponse(); err != nil {
		x.fail(err)
		return
	}
	x.json(http.StatusOK, append(r.Body, '\n'))
}

// await waits for a run that was told to end.
func (x *exchange) await(run *liveResponse) {
	late := time.After(cancelWait)
	for {
		_, ended, _, wake := run.since(0)
		if ended {
			return
		}
		select {
		case <-wake:
		case <-late:
			return
		case <-x.grant.Ended:
			return
		case <-x.r.Context().Done():
			return
		}
	}
}

// responseInputItems serves GET /v1/responses/{id}/input_items.
func (x *exchange) responseInputItems() {
	r := x.stored()
	if r == nil {
		return
	}
	q := x.r.URL.Query()
	p := responses.Page{Limit: 20, After: q.Get("after")}
	if v := q.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 100 {
			x.fail(infer.Invalid("limit", "cannot use limit: wanted a whole number from 1 to 100"))
			return
		}
		p.Limit = n
	}
	switch v := q.Get("order"); v {
	case "", "desc":
	case "asc":
		p.Ascending = true
	default:
		x.fail(infer.Invalid("order", "cannot use order: wanted asc or desc"))
		return
	}
	list, err := p.List(responses.Items(r.Input))
	if err != nil {
		x.fail(err)
		return
	}
	x.json(http.StatusOK, list)
}
