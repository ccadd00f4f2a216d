package webtest

import (
	"context"
	"sync"

	"hearth/engine/infer"
	"hearth/web"
)

// responses keeps stored responses in memory, by tenant and id, and runs what
// is detached.
type responses struct {
	mu   sync.Mutex
	kept map[[2]string]*web.StoredResponse
	runs map[[2]string]context.CancelFunc
	wait sync.WaitGroup
}

var errNoResponse = infer.Errorf(infer.CodeNotFound, "there is no such response")

// KeepsResponses follows NoState.
func (s *Service) KeepsResponses() bool { return !s.NoState }

// SaveResponse implements web.Responses.
func (s *Service) SaveResponse(_ context.Context, g *web.Grant, r *web.StoredResponse) error {
	if s.NoState {
		return infer.Errorf(infer.CodeUnsupported, "responses are not kept here")
	}
	s.responses.mu.Lock()
	defer s.responses.mu.Unlock()
	if s.responses.kept == nil {
		s.responses.kept = map[[2]string]*web.StoredResponse{}
	}
	own := *r
	s.responses.kept[[2]string{g.Tenant, r.ID}] = &own
	return nil
}

// LoadResponse implements web.Responses.
func (s *Service) LoadResponse(_ context.Context, g *web.Grant, id string) (*web.StoredResponse, error) {
	s.responses.mu.Lock()
	defer s.responses.mu.Unlock()
	r := s.responses.kept[[2]string{g.Tenant, id}]
	if r == nil {
		return nil, errNoResponse
	}
	own := *r
	_, own.Running = s.responses.runs[[2]string{g.Tenant, id}]
	return &own, nil
}

// DeleteResponse implements web.Responses.
func (s *Service) DeleteResponse(_ context.Context, g *web.Grant, id string) error {
	s.responses.mu.Lock()
	defer s.responses.mu.Unlock()
	key := [2]string{g.Tenant, id}
	if s.responses.kept[key] == nil {
		return errNoResponse
	}
	delete(s.responses.kept, key)
	return nil
}

// Detach implements web.Responses.
func (s *Service) Detach(g *web.Grant, id string, f func(ctx context.Context, g *web.Grant)) error {
	own := *g
	g.Release = func() {}
	ctx, cancel := context.WithCancel(context.Background())
	key := [2]string{g.Tenant, id}
	s.responses.mu.Lock()
	if s.responses.runs == nil {
		s.responses.runs = map[[2]string]context.CancelFunc{}
	}
	s.responses.runs[key] = cancel
	s.responses.mu.Unlock()
	s.responses.wait.Add(1)
	go func() {
		defer s.responses.wait.Done()
		defer own.Release()
		defer cancel()
		f(ctx, &own)
		s.responses.mu.Lock()
		delete(s.responses.runs, key)
		s.responses.mu.Unlock()
	}()
	return nil
}

// CancelResponse implements web.Responses.
func (s *Service) CancelResponse(_ context.Context, g *web.Grant, id string) (bool, error) {
	s.responses.mu.Lock()
	defer s.responses.mu.Unlock()
	cancel := s.responses.runs[[2]string{g.Tenant, id}]
	if cancel == nil {
		return false, nil
	}
	cancel()
	return true, nil
}

// Wait returns when every detached run has ended.
func (s *Service) Wait() { s.responses.wait.Wait() }

// StoredResponses is how many responses are kept.
func (s *Service) StoredResponses() int {
	s.responses.mu.Lock()
	defer s.responses.mu.Unlock()
	return len(s.responses.kept)
}
