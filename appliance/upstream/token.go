package upstream

import (
	"context"
	"errors"
	"sync"
	"time"
)

var errNotOneLine = errors.New("cannot use the credential: want one line of printable characters")

// Times of tokens.
const (
	tokenTimeout = 10 * time.Second // for one exchange
	tokenSkew    = 10 * time.Second // a token this close to its end is not used
	tokenPause   = time.Second      // after a failed exchange
	tokenShort   = 5 * time.Minute  // lifetime where the issuer names none
)

// tokens keeps one value that is fetched, valid for a while. At most one fetch
// runs at a time; while the old value is good, nobody waits for the new one.
type tokens[T any] struct {
	fetch func(ctx context.Context) (T, time.Time, error) // value and its end
	now   func() time.Time

	mu      sync.Mutex
	value   T
	renew   time.Time // when a new one is fetched
	end     time.Time // when this one is no longer used; zero: there is none
	err     error     // of the last fetch
	after   time.Time // no fetch before
	flight  chan struct{}
	dropped time.Time // when a value was last forgotten
	closed  bool
	stop    context.CancelFunc
	work    sync.WaitGroup
}

// get returns the value, waiting for a fetch if there is none that is good.
func (t *tokens[T]) get(ctx context.Context) (T, error) {
	t.mu.Lock()
	for {
		now := t.now()
		good := now.Before(t.end)
		if good && (now.Before(t.renew) || t.flight != nil || now.Before(t.after)) {
			defer t.mu.Unlock()
			return t.value, nil
		}
		var none T
		if t.closed {
			t.mu.Unlock()
			return none, unavailable(errClosed)
		}
		if t.flight == nil {
			if now.Before(t.after) {
				defer t.mu.Unlock()
				return none, unavailable(t.err)
			}
			t.launch()
			if good {
				continue
			}
		}
		flight := t.flight
		t.mu.Unlock()
		select {
		case <-flight:
		case <-ctx.Done():
			return none, unavailable(context.Cause(ctx))
		}
		t.mu.Lock()
	}
}

// launch begins a fetch. t.mu is held.
func (t *tokens[T]) launch() {
	ctx, cancel := context.WithTimeout(context.Background(), tokenTimeout)
	flight := make(chan struct{})
	t.flight, t.stop = flight, cancel
	t.work.Go(func() {
		defer cancel()
		value, end, err := t.fetch(ctx)
		t.mu.Lock()
		defer t.mu.Unlock()
		defer close(flight)
		t.flight, t.err = nil, err
		now := t.now()
		if err == nil && !end.Add(-tokenSkew).After(now) {
			err = errors.New("cannot use the token: it ends at once")
			t.err = err
		}
		if err != nil {
			t.after = now.Add(tokenPause)
			return
		}
		life := end.Sub(now)
		t.value, t.end = value, end.Add(-tokenSkew)
		t.renew = end.Add(-max(tokenSkew, min(life/5, 5*time.Minute)))
		t.after = time.Time{}
	})
}

// forget drops the value, at most once in ten seconds: a provider that turns
// every token down must not make us ask for one for each request.
func (t *tokens[T]) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); now.Sub(t.dropped) >= 10*time.Second {
		t.dropped, t.end = now, time.Time{}
	}
}

// renewNow makes the next get fetch a new value; the old one serves meanwhile.
func (t *tokens[T]) renewNow() {
	t.mu.Lock()
	t.renew = time.Time{}
	t.mu.Unlock()
}

func (t *tokens[T]) close() {
	t.mu.Lock()
	t.closed = true
	if t.flight != nil {
		t.stop()
	}
	t.mu.Unlock()
	t.work.Wait()
}
