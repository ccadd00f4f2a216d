package remote

import (
	"context"
	"encoding/binary"
	"runtime"

	"hearth/engine/infer"
)

// joinAfter is how many events of a stream may wait before more are joined to
// the last: up to there every event arrives as it was made.
const joinAfter = 16

// serverStream is a generate call on the worker's side. Its events wait in
// pending until the writer takes them.
type serverStream struct {
	s      *server
	id     uint64
	cancel context.CancelFunc
	room   chan struct{} // 1: pending may have room

	// Guarded by server.mu.
	pending []infer.Event
	size    int // of pending
	credit  int // bytes that may still be sent; a single event may overdraw it
	queued  bool
	gone    bool       // cancelled: its events are dropped
	ended   bool       // its end waits behind pending, or is sent
	sent    bool       // its end is sent
	end     *wireError // with ended: nil for a complete stream
}

// abandonLocked stops the work and drops what nobody will read, so that the
// stream can end although it gets no more credit.
func (st *serverStream) abandonLocked() {
	st.cancel()
	st.gone, st.pending, st.size = true, nil, 0
	st.readyLocked()
	st.s.out.signal()
}

// generate runs the request and hands its events to the writer.
func (st *serverStream) generate(ctx context.Context, b infer.Backend, r *infer.Request) {
	for ev, err := range b.Generate(ctx, r) {
		if err != nil {
			st.finish(err)
			return
		}
		if !st.push(ctx, ev) {
			st.finish(context.Canceled)
			return
		}
	}
	if err := ctx.Err(); err != nil {
		st.finish(err)
		return
	}
	st.finish(nil)
}

// push queues an event; it waits while Window bytes of events wait. False: the
// stream was cancelled.
func (st *serverStream) push(ctx context.Context, ev infer.Event) bool {
	size := eventSize(&ev)
	for {
		s := st.s
		s.mu.Lock()
		if st.gone || st.ended {
			s.mu.Unlock()
			return false
		}
		if n := len(st.pending); st.size < windowBytes {
			if n < joinAfter || !join(&st.pending[n-1], &ev) {
				st.pending = append(st.pending, ev)
			}
			st.size += size
			st.readyLocked()
			s.mu.Unlock()
			s.out.signal()
			return ctx.Err() == nil
		}
		s.mu.Unlock()
		select {
		case <-st.room:
		case <-ctx.Done():
			return false
		}
	}
}

// finish queues the end of the stream.
func (st *serverStream) finish(err error) {
	s := st.s
	s.mu.Lock()
	if !st.ended {
		st.ended = true
		if err != nil {
			st.end = toWire(err)
		}
	}
	st.readyLocked()
	s.mu.Unlock()
	s.out.signal()
}

// readyLocked puts the stream into the writer's queue if it has something that
// may go out. An end needs no credit, but goes after the events.
func (st *serverStream) readyLocked() {
	if st.queued || st.sent || len(st.pending) > 0 && st.credit <= 0 || len(st.pending) == 0 && !st.ended {
		return
	}
	st.queued = true
	st.s.ready = append(st.s.ready, st)
}

// credit lets a stream send n bytes more.
func (s *server) credit(id uint64, n int) {
	s.mu.Lock()
	st := s.streams[id]
	if st != nil {
		st.credit = min(st.credit+n, windowBytes)
		st.readyLocked()
	}
	s.mu.Unlock()
	if st != nil {
		s.out.signal()
	}
}

// write sends what is queued until the connection ends. What became ready
// while the last write was under way goes out together.
func (s *server) write() {
	var buf []byte
	for {
		select {
		case <-s.out.wake:
		case <-s.ctx.Done():
			return
		}
		runtime.Gosched() // the other streams of this step are about to push
		for {
			buf = buf[:0]
			for _, f := range s.out.take() {
				buf = append(buf, f...)
			}
			buf = s.batch(buf)
			if len(buf) == 0 {
				break
			}
			if _, err := s.conn.Write(buf); err != nil {
				s.cancel()
				return
			}
			if cap(buf) > 4*maxBatch {
				buf = nil
			}
		}
	}
}

// batch appends a batch of what the ready streams may send, taking turns.
func (s *server) batch(dst []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ready) == 0 {
		return dst
	}
	dst, start := beginFrame(dst)
	turn := s.ready
	s.ready = nil
	for i, st := range turn {
		if len(dst)-start > maxBatch {
			s.ready = append(s.ready, turn[i:]...)
			break
		}
		st.queued = false
		dst = st.drainLocked(dst, start)
		st.readyLocked()
		select {
		case st.room <- struct{}{}:
		default:
		}
	}
	endFrame(dst, start, frameBatch, 0)
	return dst
}

// drainLocked appends the stream's items.
func (st *serverStream) drainLocked(dst []byte, start int) []byte {
	n := 0
	for n < len(st.pending) && st.credit > 0 && len(dst)-start <= maxBatch {
		payload := encodeValue(nil, st.pending[n])
		if len(payload) > maxPayload/2 {
			st.ended, st.end = true, toWire(infer.Errorf(infer.CodeTooLarge, "one part of the answer is too large to be given"))
			n = len(st.pending)
			st.cancel()
			continue
		}
		dst = appendItem(dst, st.id, itemEvent, payload)
		st.credit -= len(payload)
		n++
	}
	st.pending = append(st.pending[:0], st.pending[n:]...)
	clear(st.pending[len(st.pending):cap(st.pending)])
	st.size = 0
	for i := range st.pending {
		st.size += eventSize(&st.pending[i])
	}
	if len(st.pending) > 0 || !st.ended {
		return dst
	}
	delete(st.s.streams, st.id)
	st.sent = true
	if st.end != nil {
		return appendItem(dst, st.id, itemError, encodeValue(nil, *st.end))
	}
	return appendItem(dst, st.id, itemEnd, nil)
}

// appendItem appends stream, kind, length and payload.
func appendItem(dst []byte, stream uint64, kind itemKind, payload []byte) []byte {
	dst = binary.AppendUvarint(dst, stream)
	dst = append(dst, byte(kind))
	dst = binary.AppendUvarint(dst, uint64(len(payload)))
	return append(dst, payload...)
}
