package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"hearth/engine/infer"
)

// ServeOptions are the worker's side of the connection.
type ServeOptions struct {
	Build string // of this program; the gateway wants its own
	// Note is for the operator, for instance what the sandbox could not do. It
	// is asked for when the backend is open.
	Note func() string
	// Progress, if not nil, says how much of opening the backend is done, 0 to 1.
	Progress func() float64
}

// Serve answers calls on conn with backend until the connection ends, which it
// reports as nil if it ended between frames. It does not close the backend.
func Serve(ctx context.Context, conn net.Conn, backend infer.Backend, o ServeOptions) error {
	s := newServer(ctx, conn, o)
	s.backend = backend
	return s.serve(nil)
}

// ServeOpen is Serve for a backend that takes time to open: the gateway sees a
// live worker that is not ready meanwhile, and is told the reason if open
// fails. The backend is closed at the end.
func ServeOpen(ctx context.Context, conn net.Conn, open func(context.Context) (infer.Backend, error), o ServeOptions) error {
	s := newServer(ctx, conn, o)
	s.reason = "the model is loading"
	err := s.serve(open)
	if b := s.getBackend(); b != nil {
		err = errors.Join(err, b.Close())
	}
	return err
}

// server is one connection of a worker.
type server struct {
	conn   net.Conn
	out    *outbox // all frames but batches
	opts   ServeOptions
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // every goroutine of the connection
	beat   time.Duration

	mu      sync.Mutex // guards below
	backend infer.Backend
	streams map[uint64]*serverStream
	last    uint64 // highest stream seen
	ready   []*serverStream
	reason  string // why there is no backend
}

func (s *server) getBackend() infer.Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backend
}

func newServer(ctx context.Context, conn net.Conn, o ServeOptions) *server {
	s := &server{conn: conn, out: newOutbox(), streams: map[uint64]*serverStream{}, opts: o, beat: DefaultBeat}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// serve runs the connection and waits for all that it started.
func (s *server) serve(open func(context.Context) (infer.Backend, error)) error {
	stop := context.AfterFunc(s.ctx, func() { s.conn.Close() })
	defer stop()
	err := s.run(open)
	s.out.close()
	s.cancel()
	s.conn.Close()
	s.wg.Wait()
	return err
}

// run shakes hands, opens the backend beside, and reads until the end.
func (s *server) run(open func(context.Context) (infer.Backend, error)) error {
	r := frameReader{r: s.conn}
	typ, _, payload, err := r.next()
	if err != nil {
		return ended(err)
	}
	var h hello
	if typ != frameHello {
		return protocolError("got frame type %d, want hello", typ)
	}
	if err := decodeValue(payload, &h); err != nil {
		return err
	}
	if h.Beat > 0 {
		s.beat = max(h.Beat, 10*time.Millisecond)
	}
	mine := hello{Version: Version, Build: s.opts.Build, Schema: schema, PID: os.Getpid()}
	if _, err := s.conn.Write(appendFrame(nil, frameHello, 0, encodeValue(nil, mine))); err != nil {
		return ended(err)
	}
	if h.Version != Version || h.Schema != schema {
		return protocolError("the gateway speaks version %d, schema %s; want %d, %s", h.Version, h.Schema, Version, schema)
	}
	s.wg.Go(s.write)
	s.wg.Go(s.beats)
	if open != nil {
		s.wg.Go(func() { s.open(open) })
	}
	for {
		typ, stream, payload, err := r.next()
		if err != nil {
			return ended(err)
		}
		if err := s.handle(typ, stream, payload); err != nil {
			return err
		}
	}
}

// ended makes a connection that was closed between frames no error.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

func (s *server) open(open func(context.Context) (infer.Backend, error)) {
	b, err := open(s.ctx)
	s.mu.Lock()
	if err == nil {
		s.backend, s.reason = b, ""
	} else {
		s.reason = err.Error()
	}
	s.mu.Unlock()
	if err != nil {
		w := toWire(err)
		if w.Cause == "" {
			w.Cause = w.Message
		}
		s.out.push(appendFrame(nil, frameFailed, 0, encodeValue(nil, *w)))
		return
	}
	s.sendBeat(0)
}

// beats shows life; the step counter in it shows progress.
func (s *server) beats() {
	t := time.NewTicker(s.beat)
	defer t.Stop()
	for seq := uint64(1); ; seq++ {
		s.sendBeat(seq)
		select {
		case <-t.C:
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *server) sendBeat(seq uint64) {
	s.mu.Lock()
	backend, reason, open := s.backend, s.reason, len(s.streams)
	s.mu.Unlock()
	b := beat{Seq: seq, Open: open, Health: infer.Health{Reason: cut(reason)}}
	if backend == nil && s.opts.Progress != nil {
		b.Health.Progress = s.opts.Progress()
	}
	if backend != nil {
		ctx, cancel := context.WithTimeout(s.ctx, s.beat)
		b.Health = backend.Health(ctx)
		cancel()
		b.Health.Reason = cut(b.Health.Reason)
		if s.opts.Note != nil {
			b.Note = cut(s.opts.Note())
		}
	}
	if s.out.queued() > maxBatch {
		return // the gateway does not read: beats are no use to it
	}
	s.out.push(appendFrame(nil, frameBeat, 0, encodeValue(nil, b)))
}

func (s *server) handle(typ frameType, stream uint64, payload []byte) error {
	switch typ {
	case framePing:
		var p ping
		return decodeValue(payload, &p)
	case frameCall:
		var c call
		if err := decodeValue(payload, &c); err != nil {
			return err
		}
		return s.call(stream, &c)
	case frameCancel:
		s.mu.Lock()
		st := s.streams[stream]
		if st != nil {
			st.abandonLocked()
		}
		s.mu.Unlock()
		return nil
	case frameCredit:
		n, w := binary.Uvarint(payload)
		if w <= 0 || w != len(payload) || n > maxPayload {
			return protocolError("got a credit of %d bytes", n)
		}
		s.credit(stream, int(n))
		return nil
	}
	return protocolError("got frame type %d from the gateway", typ)
}

// call starts the work of a stream.
func (s *server) call(id uint64, c *call) error {
	ctx, cancel := context.WithCancel(s.ctx)
	st := &serverStream{s: s, id: id, cancel: cancel, credit: windowBytes, room: make(chan struct{}, 1)}
	s.mu.Lock()
	if id <= s.last {
		s.mu.Unlock()
		cancel()
		return protocolError("got stream %d after %d", id, s.last)
	}
	s.last = id
	backend, reason, full := s.backend, s.reason, len(s.streams) >= maxStreams
	s.streams[id] = st
	s.mu.Unlock()
	refuse := ""
	switch {
	case backend == nil:
		refuse = reason
	case full:
		refuse = fmt.Sprintf("the engine has %d requests open", maxStreams)
	}
	s.wg.Go(func() {
		defer cancel()
		switch {
		case refuse != "":
			e := infer.Errorf(infer.CodeUnavailable, "the model is not ready")
			e.RetryAfter, e.Cause = time.Second, errors.New(refuse)
			s.refuse(st, c.Op, e)
		case c.Op == opGenerate && c.Generate != nil:
			st.generate(ctx, backend, c.Generate)
		default:
			s.answer(ctx, st, backend, c)
		}
	})
	return nil
}

func (s *server) refuse(st *serverStream, o op, err error) {
	if o == opGenerate {
		st.finish(err)
		return
	}
	s.result(st, result{Error: toWire(err)})
}

// answer runs a call that is no generate.
func (s *server) answer(ctx context.Context, st *serverStream, b infer.Backend, c *call) {
	var r result
	var err error
	switch {
	case c.Op == opCount && c.Generate != nil:
		r.Count, err = b.Count(ctx, c.Generate)
	case c.Op == opEmbed && c.Embed != nil:
		r.Embed, err = b.Embed(ctx, c.Embed)
	case c.Op == opTokenize && c.Tokenize != nil:
		r.IDs, err = b.Tokenize(ctx, c.Tokenize)
	case c.Op == opDetokenize && c.Detokenize != nil:
		r.Bytes, err = b.Detokenize(ctx, c.Detokenize.Model, c.Detokenize.IDs)
	case c.Op == opModels:
		r.Models, err = b.Models(ctx)
	default:
		err = infer.Errorf(infer.CodeInternal, "the engine does not know operation %d", c.Op)
	}
	if err != nil {
		r = result{Error: toWire(err)}
	}
	s.result(st, r)
}

func (s *server) result(st *serverStream, r result) {
	payload := encodeValue(nil, r)
	if len(payload) > maxPayload {
		e := infer.Errorf(infer.CodeTooLarge, "the answer has %d bytes, at most %d can be given", len(payload), maxPayload)
		payload = encodeValue(nil, result{Error: toWire(e)})
	}
	s.mu.Lock()
	delete(s.streams, st.id)
	s.mu.Unlock()
	s.out.push(appendFrame(nil, frameResult, st.id, payload))
}
