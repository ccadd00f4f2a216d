package remote

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"hearth/engine/infer"
)

// SupervisorOptions say how a worker is kept alive. A zero period is the
// default that its constant names.
type SupervisorOptions struct {
	Build   string        // what the worker must be; "" takes any
	Beat    time.Duration // DefaultBeat
	Silence time.Duration // DefaultSilence: a worker without a beat for so long is replaced
	Stall   time.Duration // DefaultStall: so is one that makes no step for so long while work waits
	Start   time.Duration // DefaultStart: so is one that is not ready after so long
	Settled time.Duration // DefaultSettled: after so long the next loss counts as the first
	// Fallback starts workers of another kind once FallbackAfter workers in a row
	// were lost before they were ready; nil: there is no other kind.
	Fallback      Launcher
	FallbackAfter int // 0: 1; while none has ever been ready it is 1
	// Degraded is why workers of a lesser kind are started from the beginning; "":
	// they are not.
	Degraded string
	Log      *slog.Logger // nil drops
}

// Pauses before a new worker: short after one that had been ready, so that an
// outage is short; longer and longer after one that never was, which will most
// likely fail again.
const (
	firstPause    = 20 * time.Millisecond
	maxReadyPause = 2 * time.Second
	maxStartPause = 30 * time.Second
	closeGrace    = 2 * time.Second // for a worker to end by itself when its connection is closed
)

// Supervisor keeps a worker running and is the infer.Backend in front of it.
// While there is no ready worker, calls fail with CodeUnavailable. Close ends
// it.
type Supervisor struct {
	launch Launcher
	opts   SupervisorOptions
	log    *slog.Logger
	stop   chan struct{} // closed by Close
	once   sync.Once
	done   chan struct{} // closed when the last worker is gone

	mu       sync.Mutex    // guards below
	client   *Client       // of the ready worker, else nil
	latest   *Client       // of the worker that is alive, ready or not
	reason   string        // why there is no ready worker
	openErr  error         // the last worker could not open its model
	retryAt  time.Time     // of the next start
	restarts uint64        // workers started after the first
	ready    bool          // a worker has once been
	fallen   string        // why workers of the other kind are started; "": they are not
	base     infer.Stats   // counters of earlier workers
	changed  chan struct{} // closed and renewed when one of the above changes
}

// Supervise starts a worker and keeps one running until Close.
func Supervise(l Launcher, o SupervisorOptions) *Supervisor {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Beat, DefaultBeat)
	def(&o.Silence, DefaultSilence)
	def(&o.Stall, DefaultStall)
	def(&o.Start, DefaultStart)
	def(&o.Settled, DefaultSettled)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Supervisor{
		launch: l, opts: o, log: o.Log, stop: make(chan struct{}), done: make(chan struct{}),
		reason: "the worker is starting", changed: make(chan struct{}), fallen: o.Degraded,
	}
	go s.run()
	return s
}

// run starts one worker after the other.
func (s *Supervisor) run() {
	defer close(s.done)
	pause, failures := firstPause, 0
	for first := true; ; first = false {
		if !first {
			s.update(func() { s.restarts++ })
		}
		began := time.Now()
		wasReady, err := s.life()
		if failures++; wasReady {
			failures = 0
		}
		select {
		case <-s.stop:
			s.update(func() { s.reason = "the engine is shutting down" })
			return
		default:
		}
		limit := maxStartPause
		if wasReady {
			limit = maxReadyPause
			if time.Since(began) >= s.opts.Settled {
				pause = firstPause
			}
		}
		pause = min(pause, limit)
		if s.fall(failures, err) {
			pause = firstPause
			continue
		}
		s.log.Error("worker lost", "error", err, "was_ready", wasReady, "restart_in", pause)
		s.update(func() { s.reason, s.retryAt = err.Error(), time.Now().Add(pause) })
		select {
		case <-time.After(pause):
		case <-s.stop:
			return
		}
		pause *= 2
	}
}

// fall goes over to workers of the other kind, once and for good: what could not
// be opened so often needs an operator, and answers must come meanwhile.
func (s *Supervisor) fall(failures int, why error) bool {
	limit := max(1, s.opts.FallbackAfter)
	if !s.everReady() {
		limit = 1
	}
	if s.opts.Fallback == nil || failures < limit || s.launch == s.opts.Fallback {
		return false
	}
	s.log.Error("worker given up, another kind is started", "error", why, "failures", failures)
	s.launch = s.opts.Fallback
	s.update(func() { s.fallen, s.openErr, s.reason = why.Error(), nil, "the worker is starting" })
	return true
}

func (s *Supervisor) everReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// willFall says whether the loss of a worker that was never ready is not the
// last word. The caller holds mu.
func (s *Supervisor) willFall() bool { return s.opts.Fallback != nil && s.fallen == "" }

// update changes the guarded fields and tells who waits.
func (s *Supervisor) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// life runs one worker from start to end, and says why it ended.
func (s *Supervisor) life() (wasReady bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Start)
	defer cancel()
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	began := time.Now()
	p, err := s.launch.Launch(ctx)
	if err != nil {
		return false, err
	}
	c, err := Dial(ctx, p.Conn(), ClientOptions{Build: s.opts.Build, Beat: s.opts.Beat})
	if err != nil {
		return false, s.end(p, nil, err)
	}
	s.update(func() { s.latest = c })
	err = s.watch(c, began, &wasReady)
	stopping := errors.Is(err, errClosed)
	c.fail(err)
	s.update(func() {
		s.client, s.latest = nil, nil
		s.base = addCounters(s.base, c.Health(context.Background()).Stats)
		s.openErr = nil
		var oe *OpenError
		if errors.As(err, &oe) && !s.willFall() {
			s.openErr = oe
		}
		s.reason = err.Error()
	})
	if stopping {
		s.leave(p)
	}
	return wasReady, s.end(p, c, err)
}

var errClosed = errors.New("the engine is shutting down")

// end makes sure that a worker is gone, and adds how it ended to why.
func (s *Supervisor) end(p Process, c *Client, why error) error {
	if err := p.Kill(); err != nil {
		s.log.Error("cannot kill the worker", "error", err)
	}
	how := p.Wait()
	if c != nil {
		c.Close()
	}
	if how != nil && !errors.As(why, new(*OpenError)) { // one that told its reason was ended by us
		return fmt.Errorf("%w (%v)", why, how)
	}
	return why
}

// leave gives the worker, whose connection is closed, time to end by itself.
func (s *Supervisor) leave(p Process) {
	gone := make(chan struct{})
	go func() {
		p.Wait()
		close(gone)
	}()
	t := time.NewTimer(closeGrace)
	defer t.Stop()
	select {
	case <-gone:
	case <-t.C:
	}
}

// watch returns why the worker must be replaced. Time is counted in looks at
// the worker, each worth at most two periods: when this process itself was
// stopped for a while, nothing is held against the worker.
func (s *Supervisor) watch(c *Client, began time.Time, wasReady *bool) error {
	t := time.NewTicker(s.opts.Beat)
	defer t.Stop()
	var silent, still time.Duration
	last, seen, able := vitals{}, time.Now(), c.able
	for {
		select {
		case <-s.stop:
			return errClosed
		case <-c.Done():
			return c.Err()
		case <-able:
			s.publish(c, true, wasReady)
			able = nil
			continue
		case <-t.C:
		}
		now := time.Now()
		passed := min(now.Sub(seen), 2*s.opts.Beat)
		seen = now
		v := c.vitals()
		silent += passed
		if v.beats != last.beats {
			silent = 0
		}
		still += passed
		if v.moves != last.moves || !v.waiting || !last.waiting {
			still = 0
		}
		last = v
		h := c.Health(context.Background())
		s.publish(c, h.Ready, wasReady)
		switch {
		case silent > s.opts.Silence:
			return fmt.Errorf("the worker gave no sign of life for %v", silent.Round(time.Millisecond))
		case *wasReady && v.failed != "":
			return fmt.Errorf("the worker cannot go on: %s", v.failed)
		case *wasReady && still > s.opts.Stall:
			return fmt.Errorf("the worker made no step for %v while work waited", still.Round(time.Millisecond))
		case !*wasReady && now.Sub(began) > s.opts.Start:
			return fmt.Errorf("the worker was not ready after %v: %s", s.opts.Start, h.Reason)
		}
	}
}

// publish gives calls to the worker once it is ready; it keeps them when it
// says later that it is not, since it answers for itself then.
func (s *Supervisor) publish(c *Client, ready bool, wasReady *bool) {
	if !ready || *wasReady {
		return
	}
	*wasReady = true
	s.log.Info("worker ready", "pid", c.PID(), "note", c.Note())
	s.update(func() { s.client, s.reason, s.openErr, s.ready = c, "", nil, true })
}

// addCounters adds what only grows.
func addCounters(a, b infer.Stats) infer.Stats {
	a.Steps += b.Steps
	a.Preemptions += b.Preemptions
	a.PrefixQueries += b.PrefixQueries
	a.PrefixHits += b.PrefixHits
	a.PromptTokens += b.PromptTokens
	a.OutputTokens += b.OutputTokens
	a.DraftTokens += b.DraftTokens
	a.AcceptedTokens += b.AcceptedTokens
	a.StepTokenSum += b.StepTokenSum
	if len(a.StepTokens) == len(b.StepTokens) {
		a.StepTokens = slices.Clone(a.StepTokens)
		for i, n := range b.StepTokens {
			a.StepTokens[i] += n
		}
	} else if a.StepTokens == nil {
		a.StepTokens = b.StepTokens
	}
	return a
}

// WaitReady returns when a worker is ready, or with the reason when one could
// not open its model, or when ctx or the supervisor ends.
func (s *Supervisor) WaitReady(ctx context.Context) error {
	for {
		s.mu.Lock()
		ready, openErr, changed := s.client != nil && s.client.Err() == nil, s.openErr, s.changed
		s.mu.Unlock()
		if ready {
			return nil
		}
		if openErr != nil {
			return openErr
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("cannot wait for the worker: %w: %s", ctx.Err(), s.Health(ctx).Reason)
		case <-s.done:
			return errClosed
		}
	}
}

// current gives the ready worker's client, or an error that says when to try
// again.
func (s *Supervisor) current() (*Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reason := s.reason
	if s.client != nil {
		err := s.client.Err()
		if err == nil {
			return s.client, nil
		}
		reason = err.Error() // watch is about to take note
	}
	e := infer.Errorf(infer.CodeUnavailable, "the engine is not ready")
	e.RetryAfter = max(time.Until(s.retryAt), time.Second)
	e.Cause = errors.New(reason)
	return nil, e
}

// Generate implements infer.Backend.
func (s *Supervisor) Generate(ctx context.Context, r *infer.Request) iter.Seq2[infer.Event, error] {
	return func(yield func(infer.Event, error) bool) {
		c, err := s.current()
		if err != nil {
			yield(infer.Event{}, err)
			return
		}
		c.Generate(ctx, r)(yield)
	}
}

// Count implements infer.Backend.
func (s *Supervisor) Count(ctx context.Context, r *infer.Request) (infer.Count, error) {
	c, err := s.current()
	if err != nil {
		return infer.Count{}, err
	}
	return c.Count(ctx, r)
}

// Embed implements infer.Backend.
func (s *Supervisor) Embed(ctx context.Context, r *infer.EmbedRequest) (*infer.EmbedResult, error) {
	c, err := s.current()
	if err != nil {
		return nil, err
	}
	return c.Embed(ctx, r)
}

// Tokenize implements infer.Backend.
func (s *Supervisor) Tokenize(ctx context.Context, r *infer.TokenizeRequest) ([]int32, error) {
	c, err := s.current()
	if err != nil {
		return nil, err
	}
	return c.Tokenize(ctx, r)
}

// Detokenize implements infer.Backend.
func (s *Supervisor) Detokenize(ctx context.Context, model string, ids []int32) ([]byte, error) {
	c, err := s.current()
	if err != nil {
		return nil, err
	}
	return c.Detokenize(ctx, model, ids)
}

// Models implements infer.Backend.
func (s *Supervisor) Models(ctx context.Context) ([]infer.Model, error) {
	c, err := s.current()
	if err != nil {
		return nil, err
	}
	return c.Models(ctx)
}

// Health implements infer.Backend. Counters go on from worker to worker.
func (s *Supervisor) Health(ctx context.Context) infer.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	var h infer.Health
	switch {
	case s.client != nil:
		h = s.client.Health(ctx)
	case s.latest != nil:
		h = s.latest.Health(ctx)
		h.Ready = false
	default:
		h.Reason = s.reason
	}
	if !h.Ready && h.Reason == "" {
		h.Reason = "the worker is starting"
	}
	steps := h.Stats
	h.Stats = addCounters(steps, s.base)
	h.Stats.WorkerRestarts = s.restarts
	if s.fallen != "" {
		h.Degraded = s.fallen
	}
	return h
}

// Note is what the worker says to the operator, for instance of its sandbox.
func (s *Supervisor) Note() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil {
		return ""
	}
	return s.latest.Note()
}

// PID is the worker's process id, 0 while there is none.
func (s *Supervisor) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil {
		return 0
	}
	return s.latest.PID()
}

// Close ends the worker and every stream.
func (s *Supervisor) Close() error {
	s.once.Do(func() { close(s.stop) })
	<-s.done
	return nil
}
