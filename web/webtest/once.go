package webtest

import (
	"context"
	"sync"
	"time"

	"hearth/engine/infer"
	"hearth/web"
)

// onces is the memory of claims. As there is no ledger, an answer counts as
// charged if it did not fail by status.
type onces struct {
	mu   sync.Mutex
	kept map[string]*recording
}

type recording struct {
	o     *onces
	key   string
	body  [32]byte
	ended bool
	a     web.Replay
}

// OnceLimit is how many bytes of an answer are kept.
const OnceLimit = 4096

// Claim implements web.Once.
func (s *Service) Claim(_ context.Context, g *web.Grant, key, _ string, body [32]byte) (web.Recording, *web.Replay, error) {
	o := &s.onces
	o.mu.Lock()
	defer o.mu.Unlock()
	key = g.KeyID + "\x00" + key
	r := o.kept[key]
	switch {
	case r == nil:
		r = &recording{o: o, key: key, body: body}
		if o.kept == nil {
			o.kept = map[string]*recording{}
		}
		o.kept[key] = r
		return r, nil, nil
	case r.body != body:
		return nil, nil, &infer.Error{Code: infer.CodeConflict, NoRetry: true, Message: "the key was used with another body"}
	case !r.ended:
		return nil, nil, &infer.Error{Code: infer.CodeConflict, RetryAfter: time.Second, Message: "the first request is still open"}
	case r.a.TooLarge:
		return nil, nil, &infer.Error{Code: infer.CodeConflict, NoRetry: true, Message: "the first answer was too large to keep"}
	}
	a := r.a
	return nil, &a, nil
}

// Limit implements web.Recording.
func (r *recording) Limit() int { return OnceLimit }

// Keep implements web.Recording.
func (r *recording) Keep(a web.Replay) error {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	if a.Status >= 400 || a.Status == 0 {
		delete(r.o.kept, r.key)
		return nil
	}
	r.ended, r.a = true, a
	return nil
}
