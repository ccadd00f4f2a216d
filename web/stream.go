package web

import (
	"context"
	"fmt"
	"time"

	"hearth/engine/infer"
	"hearth/web/sse"
	"hearth/web/wire"
)

// maxBatch is how many bytes of frames are collected, at most, while further
// events wait already.
const maxBatch = 32 << 10

// streaming is one streamed answer on its way out.
type streaming struct {
	x      *exchange
	enc    wire.StreamEncoder
	framed wire.Framed // nil: SSE
	out    *sse.Writer
	native bool    // frames are passed on as the provider sent them
	watch  watcher // looks at them on their way; nil: nobody
	done   bool    // the usage has been seen: the answer is complete
	buf    []byte
}

// streamed sends events as they come. The head is sent with the first event;
// until then an error has a status of its own. Only where the first event lets
// wait longer than a heartbeat does the stream begin without it, and errors are
// told inside the stream from there on.
func (x *exchange) streamed(d wire.Dialect, r *infer.Request, o wire.Options) {
	ctx, cancel := context.WithCancel(x.r.Context())
	s := &streaming{x: x, enc: d.NewStream(r, o), out: sse.NewWriter(x.w, x.s.lim.WriteTime)}
	s.watch, _ = s.enc.(watcher)
	if s.framed, _ = s.enc.(wire.Framed); s.framed != nil {
		s.out.SetContentType(s.framed.ContentType())
	}
	x.grant.Stream, x.stream = true, true
	ch := x.pump(ctx, x.s.opt.Service.Call(ctx, x.grant, r))
	// The grant is given back by finish, so the call must be over before.
	defer func() {
		cancel()
		for range ch {
		}
	}()
	beat := time.NewTimer(x.s.lim.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case it, ok := <-ch:
			if s.batch(ch, it, ok) {
				return
			}
		case <-beat.C:
			if s.framed == nil && heartbeat(s.out, s.enc) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
		beat.Reset(x.s.lim.Heartbeat)
	}
}

// batch encodes an event and those that wait behind it already, and sends them
// in one write. Nothing is waited for. It returns true when the stream is over.
func (s *streaming) batch(ch <-chan item, it item, ok bool) bool {
	s.buf = s.buf[:0]
	for {
		err := it.err
		switch {
		case !ok && s.done:
			if len(s.buf) > 0 {
				_ = s.send()
			}
			s.x.w.ended()
			return true
		case err == nil && s.done:
			err = fmt.Errorf("BUG: an event after the usage")
		case !ok:
			err = fmt.Errorf("BUG: a stream without usage")
		case err == nil:
			err = s.add(&it.ev)
		}
		if err != nil {
			s.fail(err)
			return true
		}
		if len(s.buf) > maxBatch {
			break
		}
		more := false
		select {
		case it, ok = <-ch:
			more = true
		default:
		}
		if !more {
			break
		}
	}
	if len(s.buf) == 0 && s.out.Started() {
		return false
	}
	return s.send() != nil
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
	return s.out.Send(s.buf)
}

// fail tells an error: by status while nothing was sent, else by a frame that
// nothing follows, not even an end mark.
func (s *streaming) fail(err error) {
	if len(s.buf) > 0 {
		if s.send() != nil {
			return
		}
		s.buf = s.buf[:0]
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
