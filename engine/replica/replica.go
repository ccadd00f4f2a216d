// Package replica makes one infer.Backend of several that serve the same model,
// for instance one on each GPU of a box. A request goes to the replica that has
// most of its beginning in its cache, unless that one is much busier than
// another; without a common beginning to the least busy.
package replica

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"hearth/engine/infer"
)

// Bounds on what is remembered.
const (
	maxPrefixes = 1 << 15 // pieces of prompts
	maxRequests = 1 << 12 // requests that were counted and not generated yet
)

// slack is how many requests more than the least busy replica one may have and
// still be chosen for what it has in its cache: the queue that a saved prompt is
// worth.
const slack = 4

// Set is several replicas. It implements infer.Backend and owns them.
type Set struct {
	members []infer.Backend

	mu       sync.Mutex // guards below
	open     []int      // requests that each serves
	prefixes *recent[uint64, int]
	asked    *recent[string, int] // request → the replica that counted it
}

var _ infer.Backend = (*Set)(nil)

// New makes a set of one or more.
func New(members []infer.Backend) *Set {
	return &Set{
		members: members, open: make([]int, len(members)),
		prefixes: newRecent[uint64, int](maxPrefixes), asked: newRecent[string, int](maxRequests),
	}
}

// ready lists the replicas that answer.
func (s *Set) ready(ctx context.Context) (list []int) {
	for i, m := range s.members {
		if m.Health(ctx).Ready {
			list = append(list, i)
		}
	}
	return list
}

// choose gives the replica for r, and the pieces of its beginning. from are
// those that may be chosen.
func (s *Set) choose(from []int, r *infer.Request, pieces []uint64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := from[0]
	for _, i := range from {
		if s.open[i] < s.open[least] {
			least = i
		}
	}
	allowed := func(i int) bool {
		for _, j := range from {
			if i == j {
				return s.open[i] <= s.open[least]+slack
			}
		}
		return false
	}
	if i, ok := s.asked.get(r.ID); ok && r.ID != "" && allowed(i) {
		return i // it holds the rendered prompt
	}
	for n := len(pieces) - 1; n >= 0; n-- { // the longest beginning first
		if i, ok := s.prefixes.get(pieces[n]); ok && allowed(i) {
			return i
		}
	}
	return least
}

// note remembers what replica i will have in its cache.
func (s *Set) note(i int, r *infer.Request, pieces []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.ID != "" {
		s.asked.put(r.ID, i)
	}
	for _, p := range pieces {
		s.prefixes.put(p, i)
	}
}

func (s *Set) enter(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[i]++
}

func (s *Set) leave(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[i]--
}

// unavailable is the answer while no replica is ready.
func unavailable() *infer.Error {
	e := infer.Errorf(infer.CodeUnavailable, "the engine is not ready")
	e.RetryAfter = 1e9
	e.Cause = errors.New("no replica is ready")
	return e
}

// movable says whether a request that failed so may be sent to another replica:
// the one asked has not begun on it.
func movable(err error) bool {
	e := infer.AsError(err)
	return (e.Code == infer.CodeUnavailable || e.Code == infer.CodeOverloaded) && !e.NoRetry
}

// Generate implements infer.Backend. A replica that is lost before the first
// event is followed by another.
func (s *Set) Generate(ctx context.Context, r *infer.Request) iter.Seq2[infer.Event, error] {
	return func(yield func(infer.Event, error) bool) {
		left := s.ready(ctx)
		pieces := beginning(r)
		var last error = unavailable()
		for len(left) > 0 && ctx.Err() == nil {
			i := s.choose(left, r, pieces)
			s.note(i, r, pieces)
			again, err := s.generate(ctx, i, r, yield)
			if !again {
				return
			}
			last, left = err, without(left, i)
		}
		yield(infer.Event{}, last)
	}
}

// generate runs r on one replica; again says that nothing has come of it.
func (s *Set) generate(ctx context.Context, i int, r *infer.Request, yield func(infer.Event, error) bool) (again bool, _ error) {
	s.enter(i)
	defer s.leave(i)
	begun := false
	for ev, err := range s.members[i].Generate(ctx, r) {
		if err != nil && !begun && movable(err) {
			return true, err
		}
		begun = true
		if !yield(ev, err) {
			return false, nil
		}
	}
	return false, nil
}

func without(list []int, i int) []int {
	var out []int
	for _, j := range list {
		if j != i {
			out = append(out, j)
		}
	}
	return out
}

// on calls f with one replica after the other until one answers.
func on[A any](ctx context.Context, s *Set, pick func(left []int) int, f func(b infer.Backend) (A, error)) (A, error) {
	var none A
	var last error = unavailable()
	for left := s.ready(ctx); len(left) > 0; {
		i := pick(left)
		a, err := f(s.members[i])
		if err == nil || !movable(err) {
			return a, err
		}
		last, left = err, without(left, i)
	}
	return none, last
}

func first(left []int) int { return left[0] }

// Count implements infer.Backend; the Generate that follows goes to the same
// replica, which keeps the work.
func (s *Set) Count(ctx context.Context, r *infer.Request) (infer.Count, error) {
	pieces := beginning(r)
	return on(ctx, s, func(left []int) int {
		i := s.choose(left, r, pieces)
		s.note(i, r, nil)
		return i
	}, func(b infer.Backend) (infer.Count, error) { return b.Count(ctx, r) })
}

// Embed implements infer.Backend.
func (s *Set) Embed(ctx context.Context, r *infer.EmbedRequest) (*infer.EmbedResult, error) {
	var i int
	return on(ctx, s, func(left []int) int {
		i = s.choose(left, &infer.Request{}, nil)
		return i
	}, func(b infer.Backend) (*infer.EmbedResult, error) {
		s.enter(i)
		defer s.leave(i)
		return b.Embed(ctx, r)
	})
}

// Tokenize implements infer.Backend.
func (s *Set) Tokenize(ctx context.Context, r *infer.TokenizeRequest) ([]int32, error) {
	return on(ctx, s, first, func(b infer.Backend) ([]int32, error) { return b.Tokenize(ctx, r) })
}

// Detokenize implements infer.Backend.
func (s *Set) Detokenize(ctx context.Context, model string, ids []int32) ([]byte, error) {
	return on(ctx, s, first, func(b infer.Backend) ([]byte, error) { return b.Detokenize(ctx, model, ids) })
}

// Models implements infer.Backend: what the first says, on the devices of all.
func (s *Set) Models(ctx context.Context) ([]infer.Model, error) {
	list, err := on(ctx, s, first, func(b infer.Backend) ([]infer.Model, error) { return b.Models(ctx) })
	if err == nil && len(list) > 0 {
		if d := s.Health(ctx).Device; d != "" {
			list[0].Device = d
		}
	}
	return list, err
}

// Health implements infer.Backend. The set is ready while one replica is; one
// that is not makes it degraded. Counters are sums.
func (s *Set) Health(ctx context.Context) infer.Health {
	var out infer.Health
	var devices, reasons, degraded []string
	var progress float64
	for i, m := range s.members {
		h := m.Health(ctx)
		out.Ready = out.Ready || h.Ready
		if h.Device != "" {
			devices = append(devices, h.Device)
		}
		if h.Ready {
			progress++
		} else {
			progress += h.Progress
			reasons = append(reasons, fmt.Sprintf("replica %d: %s", i, h.Reason))
		}
		if h.Degraded != "" {
			degraded = append(degraded, fmt.Sprintf("replica %d: %s", i, h.Degraded))
		}
		out.Stats = sum(out.Stats, h.Stats)
	}
	out.Device = strings.Join(devices, ",")
	if !out.Ready {
		out.Reason, out.Progress = strings.Join(reasons, "; "), progress/float64(len(s.members))
	} else {
		degraded = append(reasons, degraded...)
	}
	out.Degraded = strings.Join(degraded, "; ")
	return out
}

// PID is the process of the first replica that has one.
func (s *Set) PID() int {
	for _, m := range s.members {
		if w, ok := m.(interface{ PID() int }); ok {
			return w.PID()
		}
	}
	return 0
}

// Note is what the replicas say to the operator, each thing once.
func (s *Set) Note() string {
	var notes []string
	seen := map[string]bool{}
	for _, m := range s.members {
		if w, ok := m.(interface{ Note() string }); ok && w.Note() != "" && !seen[w.Note()] {
			seen[w.Note()] = true
			notes = append(notes, w.Note())
		}
	}
	return strings.Join(notes, "; ")
}

// Close closes every replica.
func (s *Set) Close() error {
	errs := make([]error, len(s.members))
	var wg sync.WaitGroup
	for i, m := range s.members {
		wg.Go(func() { errs[i] = m.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
