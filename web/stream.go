package web

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"hearth/engine/infer"
	"hearth/web/sse"
	"hearth/web/wire"
)

// maxBatch is how many bytes of frames are collected, at most, while further
// events follow at once.
const maxBatch = 32 << 10

// announced is how long a batch waits, at most, for the event that was announced
// to follow at once.
const announced = 2 * time.Millisecond

// streaming is one streamed answer on its way out. The handler's goroutine takes
// the events as they are made; a timer watches the clock beside it.
type streaming struct {
	x      *exchange
	enc    wire.StreamEncoder
	framed wire.Framed // nil: SSE
	native bool        // frames are passed on as the provider sent them
	watch  watcher     // looks at them on their way; nil: nobody
	cancel context.CancelFunc

	mu    sync.Mutex // guards below, and all writing
	out   *sse.Writer
	ev    infer.Event // that is being encoded
	batch *[]byte     // from batches, while there is something in it
	buf   []byte
	begun time.Time
	timer *time.Timer
	short bool // the timer stands for what was announced
	done  bool // the usage has been seen: the answer is complete
	over  bool
}

// streamed sends events as they come. The head is sent with the first event;
// until then an error has a status of its own. Only where the first event lets
// wait longer than a heartbeat does the stream begin without it, and errors are
// told inside the stream from there on. A reader that is slow holds up its own
// generation, not memory.
func (x *exchange) streamed(d wire.Dialect, r *infer.Request, o wire.Options) {
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	s := &streaming{x: x, enc: d.NewStream(r, o), out: sse.NewWriter(x.w, x.s.limits().WriteTime), cancel: cancel, begun: time.Now()}
	s.watch, _ = s.enc.(watcher)
	if s.framed, _ = s.enc.(wire.Framed); s.framed != nil {
		s.out.SetContentType(s.framed.ContentType())
	}
	x.grant.Stream, x.stream = true, true
	s.watchClock()
	defer s.stop()
	err := s.run(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ctx.Err() != nil && !s.done:
	case err != nil:
		s.fail(err)
	case !s.done:
		s.fail(fmt.Errorf("BUG: a stream without usage"))
	case len(s.buf) == 0 || s.send() == nil:
		x.w.ended()
	}
}

// run takes the events of the call to its end, or until the reader has left. A
// call that panics is one that fails.
func (s *streaming) run(ctx context.Context, r *infer.Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.x.s.log.Error("BUG: a call panicked", "request", s.x.id, "panic", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
			err = fmt.Errorf("BUG: a call panicked")
		}
	}()
	for ev, err := range s.x.s.opt.Service.Call(ctx, s.x.grant, r) {
		if err != nil {
			return err
		}
		if err := s.take(ev); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// take encodes an event and sends it, together with those before it; one that
// another follows at once waits for that.
func (s *streaming) take(ev infer.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return fmt.Errorf("BUG: an event after the usage")
	}
	if s.batch == nil {
		s.batch = batches.Get().(*[]byte)
		s.buf = (*s.batch)[:0]
	}
	s.ev = ev
	if err := s.add(&s.ev); err != nil {
		return err
	}
	if ev.More && !s.done && len(s.buf) < maxBatch {
		if !s.short {
			s.short = true
			s.timer.Reset(announced)
		}
		return nil
	}
	if len(s.buf) == 0 && s.out.Started() {
		return nil // the batch is kept for the next event
	}
	if s.send() != nil {
		s.cancel() // the reader has left
	}
	return nil
}

// watchClock begins to watch for silence.
func (s *streaming) watchClock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(s.x.s.limits().Heartbeat, s.tick)
}

// tick sends what waits in vain for an event that was announced, and keeps a
// silent stream alive.
func (s *streaming) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.done {
		return
	}
	last, beat := s.out.Last(), s.x.s.limits().Heartbeat
	if last.IsZero() {
		last = s.begun
	}
	var err error
	switch left := beat - time.Since(last); {
	case len(s.buf) > 0:
		err = s.send()
	case left > 0:
		beat = left
	case s.framed == nil:
		err = heartbeat(s.out, s.enc)
	}
	if err != nil {
		s.cancel() // the reader has left
		return
	}
	s.short = false
	s.timer.Reset(beat)
}

// stop ends the watch: nothing is written from here on.
func (s *streaming) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.timer.Stop()
}

// add appends the frames of one event to the batch.
func (s *streaming) add(ev *infer.Event) error {
	s.done = s.done || ev.Kind == infer.EventUsage
	if ev.Kind == infer.EventStart && ev.Model != nil {
		s.native = ev.Model.Native
	}
	if ev.Kind == infer.EventStart && !s.out.Started() {
		m := infer.Served{}
		if ev.Model != nil {
			m = *ev.Model
		}
		s.x.answerHeaders(m)
	}
	if s.native && s.watch != nil {
		s.watch.Watch(ev)
	}
	switch {
	case !s.native:
		var err error
		if s.buf, err = s.enc.Event(s.buf, *ev); err != nil {
			return err
		}
	case ev.Frame == nil:
	case s.framed != nil:
		s.buf = s.framed.Frame(s.buf, ev.Frame)
	default:
		s.buf = wire.AppendSSE(s.buf, ev.Frame)
	}
	// Usage is the last event, and what the answer costs is settled by then. A
	// native answer has brought its own end mark.
	if s.done && (!s.native || s.framed != nil) {
		s.buf = s.enc.End(s.buf)
	}
	return nil
}

// send writes the batch.
func (s *streaming) send() error {
	if s.done {
		s.x.w.ending()
	}
	if s.short {
		s.short = false
		s.timer.Reset(s.x.s.limits().Heartbeat)
	}
	err := s.out.Send(s.buf)
	if s.batch != nil && cap(s.buf) <= maxBatch {
		*s.batch = s.buf
		batches.Put(s.batch)
	}
	s.batch, s.buf = nil, nil
	return err
}

// batches are kept between writes, so that a silent stream holds none.
var batches = sync.Pool{New: func() any { return new([]byte) }}

// fail tells an error: by status while nothing was sent, else by a frame that
// nothing follows, not even an end mark.
func (s *streaming) fail(err error) {
	if len(s.buf) > 0 {
		if s.send() != nil {
			return
		}
	}
	if !s.out.Started() {
		s.x.fail(err)
		return
	}
	e := infer.AsError(err)
	s.x.note(e)
	_ = s.out.Send(s.enc.Error(nil, e))
}

// heartbeat keeps a silent SSE stream alive, in the dialect's own way if it has
// one.
func heartbeat(out *sse.Writer, enc wire.StreamEncoder) error {
	if p, ok := enc.(wire.Pinger); ok {
		return out.Send(p.Ping(nil))
	}
	return out.Ping()
}
