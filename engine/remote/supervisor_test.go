package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hearth/engine/infer"
)

// inProcess launches workers in this process, for tests with a clock of their
// own (testing/synctest).
type inProcess struct {
	mu       sync.Mutex
	launches []time.Time
	procs    []*inProcessWorker
	open     func(ctx context.Context, nth int) (infer.Backend, error)
	raw      func(conn net.Conn, nth int) // in place of a worker, if not nil
	fail     func(nth int) error
}

type inProcessWorker struct {
	ours, theirs net.Conn
	gone         chan struct{}
	err          error
}

func (l *inProcess) Launch(context.Context) (Process, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	nth := len(l.launches)
	l.launches = append(l.launches, time.Now())
	if l.fail != nil {
		if err := l.fail(nth); err != nil {
			return nil, err
		}
	}
	w := &inProcessWorker{gone: make(chan struct{})}
	w.ours, w.theirs = net.Pipe()
	l.procs = append(l.procs, w)
	go func() {
		defer close(w.gone)
		defer w.theirs.Close()
		if l.raw != nil {
			l.raw(w.theirs, nth)
			return
		}
		w.err = ServeOpen(context.Background(), w.theirs, func(ctx context.Context) (infer.Backend, error) { return l.open(ctx, nth) }, ServeOptions{Build: "b"})
	}()
	return w, nil
}

func (w *inProcessWorker) Conn() net.Conn { return w.ours }
func (w *inProcessWorker) Kill() error    { return w.theirs.Close() }
func (w *inProcessWorker) Wait() error    { <-w.gone; w.ours.Close(); return w.err }

func (l *inProcess) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.launches)
}

func (l *inProcess) last() *inProcessWorker {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.procs[len(l.procs)-1]
}

func supervise(t *testing.T, l Launcher, o SupervisorOptions) *Supervisor {
	o.Build = "b"
	s := Supervise(l, o)
	t.Cleanup(func() {
		s.Close()
		if h := s.Health(context.Background()); h.Ready {
			t.Error("ready after close")
		}
	})
	return s
}

func TestSupervisorRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const loading = 2*time.Second + DefaultBeat/2 // between two looks at the worker
		f := new(fake)
		l := &inProcess{open: func(ctx context.Context, nth int) (infer.Backend, error) {
			time.Sleep(loading)
			return f, nil
		}}
		began := time.Now()
		s := supervise(t, l, SupervisorOptions{})
		if e := infer.AsError(drain(s.Generate(t.Context(), request(""))).err); e.Code != infer.CodeUnavailable || e.RetryAfter <= 0 {
			t.Fatalf("before the worker is ready: %+v", e)
		}
		time.Sleep(time.Second)
		if h := s.Health(t.Context()); h.Ready || h.Reason != "the model is loading" {
			t.Fatalf("while loading: %+v", h)
		}
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != loading {
			t.Errorf("a model that loads for %v was ready after %v", loading, took)
		}
		for round := range 10 {
			var o outcome
			done := make(chan struct{})
			go func() {
				o = drain(s.Generate(context.Background(), request("n=5 every=100ms")))
				close(done)
			}()
			time.Sleep(350 * time.Millisecond)
			lost := time.Now()
			l.last().Kill()
			<-done
			if e := infer.AsError(o.err); e.Code != infer.CodeUnavailable || !e.NoRetry || o.tokens != 3 || time.Since(lost) > time.Second {
				t.Fatalf("round %d: %+v after %d tokens and %v", round, e, o.tokens, time.Since(lost))
			}
			synctest.Wait()
			if h := s.Health(t.Context()); h.Ready || h.Reason == "" {
				t.Fatalf("round %d: lost: %+v", round, h)
			}
			if err := s.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(lost); d > 5*time.Second {
				t.Errorf("round %d: ready again after %v", round, d)
			}
			h := s.Health(t.Context())
			if !h.Ready || h.Stats.WorkerRestarts != uint64(round+1) {
				t.Fatalf("round %d: %+v", round, h)
			}
			if n := f.open.Load(); n != 0 {
				t.Fatalf("round %d: %d streams are left in the worker", round, n)
			}
		}
	})
}

// TestSupervisorBackOff: starts that fail come slower and slower; after a
// settled worker they come at once.
func TestSupervisorBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &inProcess{
			fail: func(nth int) error {
				if nth < 14 {
					return errors.New("no such file")
				}
				return nil
			},
			open: func(context.Context, int) (infer.Backend, error) { return new(fake), nil },
		}
		s := supervise(t, l, SupervisorOptions{})
		time.Sleep(time.Minute)
		if h := s.Health(t.Context()); h.Ready || h.Reason != "no such file" {
			t.Fatalf("health: %+v", h)
		}
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(l.launches); i++ {
			gap := l.launches[i].Sub(l.launches[i-1])
			want := min(firstPause<<(i-1), maxStartPause)
			if gap != want {
				t.Errorf("start %d came after %v, want %v", i, gap, want)
			}
		}
		time.Sleep(time.Minute)
		n := l.count()
		l.last().Kill()
		time.Sleep(firstPause + time.Millisecond)
		if l.count() != n+1 {
			t.Error("a worker that had settled is not replaced at once")
		}
	})
}

func TestSupervisorOpenError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &inProcess{open: func(_ context.Context, nth int) (infer.Backend, error) {
			if nth < 2 {
				return nil, errors.New("cannot open model: got 3 bytes")
			}
			return new(fake), nil
		}}
		s := supervise(t, l, SupervisorOptions{})
		err := s.WaitReady(t.Context())
		var oe *OpenError
		if !errors.As(err, &oe) || err.Error() != "cannot open model: got 3 bytes" {
			t.Fatalf("got %v", err)
		}
		time.Sleep(time.Minute)
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatalf("third start: %v", err)
		}
	})
}

// sickBackend holds up Health, and with it the beats, like a stopped process.
type sickBackend struct {
	*fake
	isSick atomic.Bool
	block  chan struct{}
}

func (b *sickBackend) Health(ctx context.Context) infer.Health {
	if b.isSick.Load() {
		<-b.block
	}
	return b.fake.Health(ctx)
}

// TestSupervisorSilence: a worker that lives but says nothing is replaced, and
// health tells before that.
func TestSupervisorSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := &sickBackend{fake: new(fake), block: make(chan struct{})}
		l := &inProcess{open: func(_ context.Context, nth int) (infer.Backend, error) {
			if nth == 0 {
				return sick, nil
			}
			return new(fake), nil
		}}
		s := supervise(t, l, SupervisorOptions{})
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- drain(s.Generate(context.Background(), request("hang"))).err }()
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		sick.isSick.Store(true)
		time.AfterFunc(10*time.Second, func() { close(sick.block) })
		time.Sleep(2 * time.Second)
		if h := s.Health(t.Context()); h.Ready || !strings.Contains(h.Reason, "no sign of life") {
			t.Errorf("health while silent: %+v", h)
		}
		e := infer.AsError(<-done)
		if d := time.Since(began); e.Code != infer.CodeUnavailable || d > DefaultSilence+time.Second {
			t.Errorf("%+v after %v", e, d)
		}
		if err := s.WaitReady(t.Context()); err != nil || s.Health(t.Context()).Stats.WorkerRestarts != 1 {
			t.Errorf("%v, %+v", err, s.Health(t.Context()))
		}
	})
}

// TestSupervisorStall: a worker that beats but makes no step while work waits
// is replaced; one whose only reader stands still, or that is idle, is not.
func TestSupervisorStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var backends []*fake
		l := &inProcess{open: func(context.Context, int) (infer.Backend, error) {
			backends = append(backends, new(fake))
			return backends[len(backends)-1], nil
		}}
		s := supervise(t, l, SupervisorOptions{Stall: 5 * time.Second})
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // idle
		if o := drain(s.Generate(t.Context(), request("n=4 every=4s"))); o.err != nil {
			t.Fatalf("slow steps: %v", o.err)
		}
		for ev, err := range s.Generate(t.Context(), request("n=3000 size=100")) {
			if err != nil {
				t.Fatalf("slow reader: %v", err)
			}
			if ev.Tokens > 0 && strings.HasPrefix(ev.Text, "10;") {
				time.Sleep(time.Minute)
			}
		}
		if n := s.Health(t.Context()).Stats.WorkerRestarts; n != 0 {
			t.Fatalf("%d restarts of a worker that did well", n)
		}
		steps := s.Health(t.Context()).Stats.Steps
		began := time.Now()
		o := drain(s.Generate(t.Context(), request("hang")))
		if d := time.Since(began); infer.AsError(o.err).Code != infer.CodeUnavailable || d < 4*time.Second || d > 7*time.Second || o.tokens != 1 {
			t.Errorf("%+v after %v", o, d)
		}
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		h := s.Health(t.Context())
		if h.Stats.WorkerRestarts != 1 || h.Stats.Steps < steps || h.Stats.OutputTokens < steps {
			t.Errorf("counters went back: %+v, had %d steps", h.Stats, steps)
		}
	})
}

// TestHostileWorker: whatever a worker says, its streams end with an error and
// it is replaced.
func TestHostileWorker(t *testing.T) {
	good := appendFrame(nil, frameHello, 0, encodeValue(nil, hello{Version: Version, Build: "b", Schema: schema}))
	ready := appendFrame(nil, frameBeat, 0, encodeValue(nil, beat{Health: infer.Health{Ready: true}}))
	event := func(ev infer.Event) []byte {
		return appendFrame(nil, frameBatch, 0, appendItem(nil, 1, itemEvent, encodeValue(nil, ev)))
	}
	for name, say := range map[string][]byte{
		"garbage":          []byte("HTTP/1.1 200 OK\r\n\r\nabcdefghijklmnopqrstuvwxyz"),
		"half a frame":     event(infer.Event{Kind: infer.EventText, Text: "abc"})[:30],
		"too large":        {'H', 'W', 'P', '1', 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0},
		"second hello":     good,
		"stream of nobody": appendFrame(nil, frameBatch, 0, appendItem(nil, 99, itemEnd, nil)),
		"negative tokens":  event(infer.Event{Kind: infer.EventText, Tokens: -1}),
		"usage of nothing": event(infer.Event{Kind: infer.EventUsage}),
		"kind 77":          event(infer.Event{Kind: 77}),
		"gateway's frame":  appendFrame(nil, frameCancel, 1, nil),
		"item after end":   appendFrame(nil, frameBatch, 0, appendItem(appendItem(nil, 1, itemEnd, nil), 1, itemEnd, nil)),
		"flood":            nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &inProcess{raw: func(conn net.Conn, nth int) {
					r := frameReader{r: conn}
					r.next()
					conn.Write(good)
					conn.Write(ready)
					for {
						typ, _, _, err := r.next()
						if err != nil {
							return
						}
						if typ != frameCall {
							continue
						}
						if say != nil {
							conn.Write(say)
							for err == nil && name != "half a frame" { // until the gateway has had enough
								_, _, _, err = r.next()
							}
							return
						}
						for range 100 { // events that nobody asked for
							if _, err := conn.Write(event(infer.Event{Kind: infer.EventText, Text: strings.Repeat("x", 10000)})); err != nil {
								return
							}
						}
					}
				}}
				s := supervise(t, l, SupervisorOptions{})
				if err := s.WaitReady(t.Context()); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				var got error
				for _, err := range s.Generate(t.Context(), request("")) {
					got = err
					if say == nil && err == nil {
						time.Sleep(time.Second)
					}
				}
				if name == "item after end" && got == nil {
					return // the first end came before the fault was seen
				}
				e := infer.AsError(got)
				cut := name == "half a frame" && errors.Is(e, io.ErrClosedPipe) // seen by the writer first
				if e.Code != infer.CodeUnavailable || !errors.Is(e, ErrProtocol) && !cut {
					t.Errorf("got %v (%v)", e, e.Cause)
				}
				if d := time.Since(began); d > 2*time.Second && say != nil {
					t.Errorf("took %v", d)
				}
			})
		})
	}
}

func TestWrongBuild(t *testing.T) {
	ours, theirs := net.Pipe()
	go Serve(context.Background(), theirs, new(fake), ServeOptions{Build: "other"})
	if _, err := Dial(t.Context(), ours, ClientOptions{Build: "b"}); err == nil || !strings.Contains(err.Error(), `build "other"`) {
		t.Errorf("got %v", err)
	}
}

func TestDialDeadline(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, ours, ClientOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// A backend that says that it has failed is replaced, though its worker lives.
func TestSupervisorReplacesFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &inProcess{open: func(_ context.Context, nth int) (infer.Backend, error) {
			if nth == 0 {
				return &failing{after: time.Now().Add(5 * time.Second)}, nil
			}
			return new(fake), nil
		}}
		s := supervise(t, l, SupervisorOptions{})
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		if l.count() != 1 {
			t.Fatalf("%d workers were started", l.count())
		}
		time.Sleep(1200*time.Millisecond + 2*DefaultBeat)
		if err := s.WaitReady(t.Context()); err != nil { // the second may be starting
			t.Fatal(err)
		}
		if h := s.Health(t.Context()); !h.Ready || l.count() != 2 || h.Stats.WorkerRestarts != 1 {
			t.Errorf("%d workers were started; %+v", l.count(), h)
		}
	})
}

// failing is a backend that can do no more from a moment on.
type failing struct {
	fake
	after time.Time
}

func (f *failing) Health(ctx context.Context) infer.Health {
	if time.Now().After(f.after) {
		return infer.Health{Failed: true, Reason: "the device failed"}
	}
	return f.fake.Health(ctx)
}

// Workers that cannot open are followed by those of another kind: at once while
// none was ever ready, after a few in a row later; and the reason stays.
func TestSupervisorFallback(t *testing.T) {
	for name, begin := range map[string]bool{"never ready": false, "ready before": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gpu := &inProcess{open: func(_ context.Context, nth int) (infer.Backend, error) {
					if nth == 0 && begin {
						return &failing{after: time.Now().Add(time.Minute)}, nil
					}
					return nil, errors.New("out of memory on the device")
				}}
				cpu := &inProcess{open: func(context.Context, int) (infer.Backend, error) { return new(fake), nil }}
				s := supervise(t, gpu, SupervisorOptions{Fallback: cpu, FallbackAfter: 3})
				if err := s.WaitReady(t.Context()); err != nil {
					t.Fatal(err)
				}
				want := 1
				if begin {
					if h := s.Health(t.Context()); h.Degraded != "" || cpu.count() != 0 {
						t.Fatalf("fell before anything was lost: %+v", h)
					}
					time.Sleep(5 * time.Minute)
					want = 4
				}
				h := s.Health(t.Context())
				if !h.Ready || !strings.Contains(h.Degraded, "out of memory on the device") || gpu.count() != want || cpu.count() != 1 {
					t.Errorf("%d and %d workers were started; %+v", gpu.count(), cpu.count(), h)
				}
				if o := drain(s.Generate(t.Context(), request("n=3"))); o.err != nil || o.tokens != 3 {
					t.Errorf("got %+v", o)
				}
			})
		})
	}
}

// A start that fails without a worker falls back too.
func TestSupervisorFallbackOfStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpu := &inProcess{fail: func(int) error { return &StartError{Name: "x", Errs: []error{errors.New("noexec")}} }}
		cpu := &inProcess{open: func(context.Context, int) (infer.Backend, error) { return new(fake), nil }}
		s := supervise(t, gpu, SupervisorOptions{Fallback: cpu})
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h := s.Health(t.Context()); h.Degraded != "cannot start x: noexec" {
			t.Errorf("got %+v", h)
		}
	})
}
