//go:build linux

package main

import "time"

// stream is a queue of work.
type stream struct {
	ctx      *context
	handle   uintptr // 0 of the legacy default stream
	blocking bool    // waits for the legacy default stream, and it for this one
	queue    []op
	stuck    bool // a kernel in it never ends
	capture  *capture
}

func (s *stream) owner() *context { return s.ctx }

// op is one piece of queued work: something to run, a mark to set or one to wait
// for.
type op struct {
	name string
	run  func() result
	set  *mark
	wait *mark
}

// mark is where an event was recorded.
type mark struct {
	s    *stream
	done bool
	at   time.Time
}

// event is cuEvent. Its mark is that of the last record.
type event struct {
	ctx      *context
	timed    bool
	mark     *mark // nil: never recorded
	captured *capture
	from     *stream // captured: the stream that recorded it
	nodes    int     // captured: of that stream before it
	asked    bool    // cuEventQuery has said once that the mark is not there
}

func (e *event) owner() *context { return e.ctx }

// stream finds a stream of the context. 0 and 1 are the legacy default stream.
func (l *library) stream(c *context, h uintptr) (*stream, bool) {
	if h <= 1 {
		return c.streams[0], true
	}
	s, ok := of[*stream](l, h)
	return s, ok && s.ctx == c
}

func (l *library) newStream(c *context, flags uint32) (uintptr, result) {
	if flags > 1 {
		return 0, invalidValue
	}
	s := &stream{ctx: c, blocking: flags == 0}
	s.handle = l.add(s)
	c.streams = append(c.streams, s)
	return s.handle, success
}

// destroyStream lets the work end. What it was capturing is lost.
func (l *library) destroyStream(c *context, h uintptr) result {
	s, ok := l.stream(c, h)
	if !ok || s.handle == 0 {
		return invalidHandle
	}
	if s.capture != nil {
		s.capture.broken = true
	}
	r := l.wait(s, nil)
	delete(l.handles, h)
	for i, o := range c.streams {
		if o == s {
			c.streams = append(c.streams[:i:i], c.streams[i+1:]...)
		}
	}
	return r
}

// enqueue puts work behind what is in a stream, or into its capture.
func (l *library) enqueue(s *stream, o op) result {
	if s.capture != nil {
		return s.capture.add(s, o)
	}
	if r := l.legacy(s); r != success {
		return r
	}
	s.queue = append(s.queue, o)
	if !l.eager {
		return success
	}
	return l.drain(s, nil)
}

// legacy has the streams done that the new work has to wait for: all blocking
// ones for the legacy default stream, and it for them.
func (l *library) legacy(s *stream) result {
	if s.handle != 0 {
		if !s.blocking {
			return success
		}
		return l.drain(s.ctx.streams[0], nil)
	}
	for _, o := range s.ctx.streams[1:] {
		if !o.blocking {
			continue
		}
		if o.capture != nil {
			o.capture.broken = true
			return captureImplicit
		}
		if r := l.drain(o, nil); r != success {
			return r
		}
	}
	return success
}

// drain runs the work of a stream, up to a mark if one is given, or to where it
// is stuck.
func (l *library) drain(s *stream, upTo *mark) result {
	for len(s.queue) > 0 && !s.stuck && (upTo == nil || !upTo.done) {
		if r := s.ctx.dead; r != success {
			return r
		}
		o := s.queue[0]
		if o.wait != nil && !o.wait.done {
			if r := l.drain(o.wait.s, o.wait); r != success {
				return r
			}
			if !o.wait.done {
				s.stuck = true // behind a stream that is
				return success
			}
		}
		s.queue[0] = op{}
		s.queue = s.queue[1:]
		if o.run != nil {
			if r := o.run(); r != success {
				s.ctx.dead = r
				return r
			}
		}
		if o.set != nil && !s.stuck {
			o.set.done, o.set.at = true, time.Now()
		}
	}
	return s.ctx.dead
}

// wait is drain for somebody who cannot go on before: where it is stuck it does
// not return.
func (l *library) wait(s *stream, upTo *mark) result {
	r := l.drain(s, upTo)
	if r == success && s.stuck && (upTo == nil || !upTo.done) {
		l.hang("the wait for a kernel that never ends")
	}
	return r
}

func (l *library) drainAll(c *context) result {
	for _, s := range c.streams {
		if r := l.wait(s, nil); r != success {
			return r
		}
	}
	return success
}

// synchronize is cuStreamSynchronize.
func (l *library) synchronize(s *stream) result {
	if s.capture != nil {
		s.capture.broken = true
		return captureUnsupported
	}
	if r := l.legacy(s); r != success {
		return r
	}
	return l.wait(s, nil)
}

// waitEvent is cuStreamWaitEvent.
func (l *library) waitEvent(s *stream, e *event) result {
	switch {
	case e.captured != nil && e.captured.ended:
		return invalidValue
	case e.captured != nil:
		return e.captured.join(s, e)
	case s.capture != nil && (e.mark == nil || !e.mark.done):
		s.capture.broken = true
		return captureIsolation
	case e.mark == nil || s.capture != nil:
		return success
	}
	return l.enqueue(s, op{name: "wait", wait: e.mark})
}

// Flags of cuEventCreate.
const (
	eventBlockingSync  = 1
	eventDisableTiming = 2
)

func (l *library) newEvent(c *context, flags uint32) (uintptr, result) {
	if flags&^(eventBlockingSync|eventDisableTiming) != 0 {
		return 0, invalidValue
	}
	return l.add(&event{ctx: c, timed: flags&eventDisableTiming == 0}), success
}

// record is cuEventRecord.
func (l *library) record(s *stream, e *event) result {
	if s.ctx != e.ctx {
		return invalidHandle
	}
	e.asked = false
	if s.capture != nil {
		if s.capture.broken {
			return captureInvalidated
		}
		e.captured, e.from, e.nodes = s.capture, s, s.capture.streams[s].nodes
		return success
	}
	e.captured, e.mark = nil, &mark{s: s}
	return l.enqueue(s, op{name: "record", set: e.mark})
}

// query is cuEventQuery. Where there is work before the mark the first query says
// so, so that callers see both answers; the next one has it done.
func (l *library) query(e *event) result {
	switch {
	case e.captured != nil:
		e.captured.broken = true
		return capturedEvent
	case e.mark == nil || e.mark.done:
		return success
	case !e.asked:
		e.asked = true
		return notReady
	}
	if r := l.drain(e.mark.s, e.mark); r != success || e.mark.done {
		return r
	}
	return notReady
}

// await is cuEventSynchronize.
func (l *library) await(e *event) result {
	switch {
	case e.captured != nil:
		e.captured.broken = true
		return capturedEvent
	case e.mark == nil || e.mark.done:
		return success
	}
	return l.wait(e.mark.s, e.mark)
}

// elapsed is cuEventElapsedTime, in milliseconds.
func (l *library) elapsed(from, to *event) (float32, result) {
	switch {
	case !from.timed || !to.timed || from.mark == nil || to.mark == nil:
		return 0, invalidHandle
	case !from.mark.done || !to.mark.done:
		return 0, notReady
	}
	return float32(to.mark.at.Sub(from.mark.at).Seconds() * 1000), success
}
