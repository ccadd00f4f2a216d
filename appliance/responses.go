package appliance

import (
	"context"
	"errors"
	"sync"
	"time"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web"
)

// responsesSweep is how often responses that have expired are dropped.
const responsesSweep = time.Minute

// errCancelled ends a run in the background that its caller has cancelled.
var errCancelled = errors.New("the response was cancelled")

// detachedRuns are the runs that go on without their caller.
type detachedRuns struct {
	mu   sync.Mutex
	by   map[runKey]context.CancelCauseFunc
	wait sync.WaitGroup
}

type runKey struct{ tenant, id string }

// openResponses begins to drop stored responses that have expired.
func (a *Appliance) openResponses(context.Context) error {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(responsesSweep)
		defer tick.Stop()
		for {
			a.sweepResponses(ctx)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	a.onClose(func() error {
		cancel()
		<-done
		a.detached.wait.Wait() // hardStop has ended them
		return nil
	})
	return nil
}

func (a *Appliance) sweepResponses(ctx context.Context) {
	n, err := a.store.SweepResponses(ctx)
	if err != nil && ctx.Err() == nil && a.store.Err() == nil {
		a.log.Warn("cannot drop stored responses that have expired", "error", err.Error())
	}
	if n > 0 {
		a.log.Debug("dropped stored responses that have expired", "responses", n)
	}
}

// KeepsResponses implements web.Responses.
func (a *Appliance) KeepsResponses() bool { return a.config().Responses.Enabled }

// keepsResponses is an error where responses are not kept.
func (a *Appliance) keepsResponses(g *web.Grant) error {
	if a.admission(g) == nil {
		return infer.Errorf(infer.CodeUnauthorized, "the request was not admitted")
	}
	if !a.KeepsResponses() {
		return infer.Errorf(infer.CodeUnsupported, "responses are not kept on this server")
	}
	return nil
}

// SaveResponse implements web.Responses.
func (a *Appliance) SaveResponse(ctx context.Context, g *web.Grant, r *web.StoredResponse) error {
	if err := a.keepsResponses(g); err != nil {
		return err
	}
	conf := &a.config().Responses
	return a.store.PutResponse(ctx, store.Response{
		Tenant: g.Tenant, ID: r.ID, Created: r.Created, Expires: a.now().Add(conf.Keep.Std()), Body: r.Body, Input: r.Input,
	}, store.ResponseLimits{Count: conf.MaxCount, Bytes: int64(conf.MaxBytes)})
}

// LoadResponse implements web.Responses.
func (a *Appliance) LoadResponse(ctx context.Context, g *web.Grant, id string) (*web.StoredResponse, error) {
	if err := a.keepsResponses(g); err != nil {
		return nil, err
	}
	// A run ends after it has saved: asked in this order, one that is found
	// neither running nor ended has died with its process.
	running := a.detached.find(g.Tenant, id) != nil
	r, err := a.store.Response(ctx, g.Tenant, id)
	if err != nil {
		return nil, err
	}
	return &web.StoredResponse{ID: r.ID, Created: r.Created, Body: r.Body, Input: r.Input, Expires: r.Expires, Running: running}, nil
}

// DeleteResponse implements web.Responses.
func (a *Appliance) DeleteResponse(ctx context.Context, g *web.Grant, id string) error {
	if err := a.keepsResponses(g); err != nil {
		return err
	}
	return a.store.DeleteResponse(ctx, g.Tenant, id)
}

// Detach implements web.Responses. The admission goes over to the run, so that
// it counts against the caller's limits, and holds up a drain, until it ends.
func (a *Appliance) Detach(g *web.Grant, id string, f func(ctx context.Context, g *web.Grant)) error {
	if err := a.keepsResponses(g); err != nil {
		return err
	}
	adm := a.admission(g)
	ctx, cancel := context.WithCancelCause(a.hardStop)
	key := runKey{g.Tenant, id}
	if !a.detached.add(key, cancel) {
		cancel(nil)
		return infer.Errorf(infer.CodeConflict, "a run with this id goes on already")
	}
	own, release := *g, g.Release
	own.Line = false // it outlives the exchange
	a.grants.Store(&own, adm)
	own.Release = func() {
		a.grants.Delete(&own)
		release()
	}
	g.Release = func() {}
	a.detached.wait.Add(1)
	go func() {
		defer a.detached.wait.Done()
		defer own.Release()
		defer cancel(nil)
		defer a.detached.remove(key)
		f(ctx, &own)
	}()
	return nil
}

// CancelResponse implements web.Responses.
func (a *Appliance) CancelResponse(_ context.Context, g *web.Grant, id string) (bool, error) {
	if err := a.keepsResponses(g); err != nil {
		return false, err
	}
	cancel := a.detached.find(g.Tenant, id)
	if cancel == nil {
		return false, nil
	}
	cancel(errCancelled)
	return true, nil
}

func (d *detachedRuns) add(key runKey, cancel context.CancelCauseFunc) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[runKey]context.CancelCauseFunc{}
	}
	if d.by[key] != nil {
		return false
	}
	d.by[key] = cancel
	return true
}

func (d *detachedRuns) remove(key runKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.by, key)
}

func (d *detachedRuns) find(tenant, id string) context.CancelCauseFunc {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.by[runKey{tenant, id}]
}
