package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net"
	"sync"
	"time"

	"hearth/engine/infer"
)

// ClientOptions are the gateway's side of a connection.
type ClientOptions struct {
	Build string        // what the worker must be; "" takes any
	Beat  time.Duration // how often to show life; 0: DefaultBeat
}

// Client is the gateway's end of a connection to a worker. It implements
// infer.Backend. When the connection fails, every stream ends with a
// CodeUnavailable error, and so does every later call.
type Client struct {
	conn net.Conn
	opts ClientOptions
	peer hello
	out  *outbox
	done chan struct{} // closed when the connection has failed
	able chan struct{} // closed when the worker has first said that it is ready
	wg   sync.WaitGroup

	mu      sync.Mutex // guards below
	err     error      // why done is closed
	next    uint64
	streams map[uint64]*clientStream
	calls   map[uint64]chan *result
	last    beat
	beatAt  time.Time // of last
	beats   uint64    // how many have come
	wasAble bool      // able is closed
	moves   uint64    // how often a step was made or an event came
}

// Dial shakes hands with a worker. ctx bounds the handshake only; on failure
// the connection is closed.
func Dial(ctx context.Context, conn net.Conn, o ClientOptions) (*Client, error) {
	if o.Beat == 0 {
		o.Beat = DefaultBeat
	}
	c := &Client{
		conn: conn, opts: o, out: newOutbox(), done: make(chan struct{}), able: make(chan struct{}),
		streams: map[uint64]*clientStream{}, calls: map[uint64]chan *result{},
	}
	r := frameReader{r: conn}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err := c.shake(&r)
	if !stop() || err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("cannot reach the worker: %w", ctx.Err())
		}
		return nil, err
	}
	c.wg.Go(func() { c.read(&r) })
	c.wg.Go(c.write)
	c.wg.Go(c.pings)
	return c, nil
}

func (c *Client) shake(r *frameReader) error {
	mine := hello{Version: Version, Build: c.opts.Build, Schema: schema, Beat: c.opts.Beat}
	// Both ends write first: the write must not wait for the read.
	sent := make(chan error, 1)
	go func() {
		_, err := c.conn.Write(appendFrame(nil, frameHello, 0, encodeValue(nil, mine)))
		sent <- err
	}()
	typ, _, payload, err := r.next()
	if err != nil {
		c.conn.Close()
		<-sent
		return fmt.Errorf("cannot shake hands with the worker: %w", err)
	}
	if err := <-sent; err != nil {
		return fmt.Errorf("cannot shake hands with the worker: %w", err)
	}
	if typ != frameHello {
		return protocolError("got frame type %d, want hello", typ)
	}
	if err := decodeValue(payload, &c.peer); err != nil {
		return err
	}
	if c.peer.Version != Version || c.peer.Schema != schema || c.opts.Build != "" && c.peer.Build != c.opts.Build {
		return protocolError("the worker is build %.40q, version %d, schema %.16s; want %q, %d, %s",
			c.peer.Build, c.peer.Version, c.peer.Schema, c.opts.Build, Version, schema)
	}
	return nil
}

// Done is closed when the connection has failed; Err says why.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err is why the connection failed, nil while it has not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// PID is the worker's own process id.
func (c *Client) PID() int { return c.peer.PID }

// Note is what the worker says to the operator.
func (c *Client) Note() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.Note
}

// fail ends the connection; the first reason stays.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	close(c.done)
	c.conn.Close()
	c.out.close()
}

// Close ends the connection; open streams end with an error.
func (c *Client) Close() error {
	c.fail(errors.New("the engine is shutting down"))
	c.wg.Wait()
	return nil
}

func (c *Client) read(r *frameReader) {
	for {
		typ, stream, payload, err := r.next()
		if err == nil {
			err = c.handle(typ, stream, payload)
		}
		var oe *OpenError
		if err != nil && !errors.As(err, &oe) {
			err = fmt.Errorf("lost the worker: %w", err)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *Client) write() {
	for {
		select {
		case <-c.out.wake:
		case <-c.done:
			return
		}
		for frames := c.out.take(); len(frames) > 0; frames = c.out.take() {
			bufs := net.Buffers(frames)
			if _, err := bufs.WriteTo(c.conn); err != nil {
				c.fail(fmt.Errorf("lost the worker: %w", err))
				return
			}
		}
	}
}

func (c *Client) pings() {
	t := time.NewTicker(c.opts.Beat)
	defer t.Stop()
	for seq := uint64(1); ; seq++ {
		select {
		case <-t.C:
		case <-c.done:
			return
		}
		c.mu.Lock()
		open := len(c.streams) + len(c.calls)
		c.mu.Unlock()
		if c.out.queued() < maxBatch {
			c.out.push(appendFrame(nil, framePing, 0, encodeValue(nil, ping{Seq: seq, Open: open})))
		}
	}
}

func (c *Client) handle(typ frameType, stream uint64, payload []byte) error {
	switch typ {
	case frameBeat:
		var b beat
		if err := decodeValue(payload, &b); err != nil {
			return err
		}
		c.mu.Lock()
		if b.Health.Stats.Steps != c.last.Health.Stats.Steps {
			c.moves++
		}
		c.last, c.beatAt = b, time.Now()
		c.beats++
		if b.Health.Ready && !c.wasAble {
			c.wasAble = true
			close(c.able)
		}
		c.mu.Unlock()
		return nil
	case frameBatch:
		return c.batch(payload)
	case frameResult:
		r := new(result)
		if err := decodeValue(payload, r); err != nil {
			return err
		}
		return c.result(stream, r)
	case frameFailed:
		var w wireError
		if err := decodeValue(payload, &w); err != nil {
			return err
		}
		return &OpenError{w.err()}
	}
	return protocolError("got frame type %d from the worker", typ)
}

// OpenError says that the worker lives but cannot open its backend.
type OpenError struct{ Reason *infer.Error }

func (e *OpenError) Error() string {
	if e.Reason.Cause != nil {
		return e.Reason.Cause.Error()
	}
	return e.Reason.Message
}

// Unwrap gives the reason.
func (e *OpenError) Unwrap() error { return e.Reason }

func (c *Client) result(id uint64, r *result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == 0 || id > c.next {
		return protocolError("got a result of stream %d, the last is %d", id, c.next)
	}
	c.moves++
	if ch, ok := c.calls[id]; ok {
		delete(c.calls, id)
		ch <- r // has room for the one
	}
	return nil
}

// batch hands items to their streams. Items of streams that were cancelled are
// dropped.
func (c *Client) batch(payload []byte) error {
	d := decoder{b: payload}
	for len(d.b) > 0 {
		id := d.uvarint()
		kind := d.take(1)
		body := d.take(d.uvarint())
		if d.bad || itemKind(kind[0]) >= itemKinds {
			return protocolError("got a malformed batch")
		}
		c.mu.Lock()
		if id == 0 || id > c.next {
			c.mu.Unlock()
			return protocolError("got an event of stream %d, the last is %d", id, c.next)
		}
		st := c.streams[id]
		c.moves++
		c.mu.Unlock()
		if st == nil {
			continue
		}
		if err := st.receive(itemKind(kind[0]), body); err != nil {
			return err
		}
	}
	return nil
}

// start sends a call on a new stream, which register puts into its table.
func (c *Client) start(ca *call, register func(id uint64)) (uint64, error) {
	payload := encodeValue(nil, *ca)
	if len(payload) > maxPayload {
		return 0, infer.Errorf(infer.CodeTooLarge, "the request has %d bytes, at most %d can be taken", len(payload), maxPayload)
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return 0, c.lost(false)
	}
	if len(c.streams)+len(c.calls) >= maxStreams || c.out.queued() > maxQueued {
		c.mu.Unlock()
		e := infer.Errorf(infer.CodeOverloaded, "the engine has too many requests open")
		e.RetryAfter = time.Second
		return 0, e
	}
	// The id and the place in the queue are taken together, since the worker
	// wants ids to go up.
	c.next++
	id := c.next
	register(id)
	c.out.push(appendFrame(nil, frameCall, id, payload))
	c.mu.Unlock()
	return id, nil
}

// cancel tells the worker that nobody waits for a stream.
func (c *Client) cancel(id uint64) {
	c.out.push(appendFrame(nil, frameCancel, id, nil))
}

// lost is the error of what was under way when the connection failed. A client
// that has seen part of an answer must not be told to repeat the request.
func (c *Client) lost(delivered bool) *infer.Error {
	e := infer.Errorf(infer.CodeUnavailable, "the engine stopped and is being restarted")
	e.RetryAfter, e.NoRetry, e.Cause = time.Second, delivered, c.Err()
	return e
}

// roundTrip makes a call with one answer.
func (c *Client) roundTrip(ctx context.Context, ca *call) (*result, error) {
	ch := make(chan *result, 1)
	id, err := c.start(ca, func(id uint64) { c.calls[id] = ch })
	if err != nil {
		return nil, err
	}
	forget := func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}
	select {
	case r := <-ch:
		if r.Error != nil {
			return nil, r.Error.err()
		}
		return r, nil
	case <-ctx.Done():
		forget()
		c.cancel(id)
		return nil, ctx.Err()
	case <-c.done:
		forget()
		return nil, c.lost(false)
	}
}

// Generate implements infer.Backend.
func (c *Client) Generate(ctx context.Context, r *infer.Request) iter.Seq2[infer.Event, error] {
	return func(yield func(infer.Event, error) bool) {
		st := &clientStream{c: c, wake: make(chan struct{}, 1)}
		id, err := c.start(&call{Op: opGenerate, Generate: r}, func(id uint64) {
			st.id = id
			c.streams[id] = st
		})
		if err != nil {
			yield(infer.Event{}, err)
			return
		}
		defer st.close(id)
		delivered := false
		for {
			ev, ok, err := st.next(ctx, delivered)
			if err != nil {
				yield(infer.Event{}, err)
				return
			}
			if !ok {
				return
			}
			delivered = delivered || ev.Tokens > 0 || ev.Kind != infer.EventStart
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// Count implements infer.Backend.
func (c *Client) Count(ctx context.Context, r *infer.Request) (infer.Count, error) {
	res, err := c.roundTrip(ctx, &call{Op: opCount, Generate: r})
	if err != nil {
		return infer.Count{}, err
	}
	return res.Count, nil
}

// Embed implements infer.Backend.
func (c *Client) Embed(ctx context.Context, r *infer.EmbedRequest) (*infer.EmbedResult, error) {
	res, err := c.roundTrip(ctx, &call{Op: opEmbed, Embed: r})
	if err != nil {
		return nil, err
	}
	if res.Embed == nil {
		return nil, infer.AsError(protocolError("the answer has no vectors"))
	}
	return res.Embed, nil
}

// Tokenize implements infer.Backend.
func (c *Client) Tokenize(ctx context.Context, r *infer.TokenizeRequest) ([]int32, error) {
	res, err := c.roundTrip(ctx, &call{Op: opTokenize, Tokenize: r})
	if err != nil {
		return nil, err
	}
	return res.IDs, nil
}

// Detokenize implements infer.Backend.
func (c *Client) Detokenize(ctx context.Context, model string, ids []int32) ([]byte, error) {
	res, err := c.roundTrip(ctx, &call{Op: opDetokenize, Detokenize: &detokenize{model, ids}})
	if err != nil {
		return nil, err
	}
	return res.Bytes, nil
}

// Models implements infer.Backend.
func (c *Client) Models(ctx context.Context) ([]infer.Model, error) {
	res, err := c.roundTrip(ctx, &call{Op: opModels})
	if err != nil {
		return nil, err
	}
	return res.Models, nil
}

// Health is what the worker said last, without asking it.
func (c *Client) Health(context.Context) infer.Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.last.Health
	switch {
	case c.err != nil:
		h.Ready, h.Reason = false, c.err.Error()
	case c.beats == 0:
		h.Reason = "the worker has not said anything yet"
	case time.Since(c.beatAt) > max(4*c.opts.Beat, minDoubt):
		h.Ready = false
		h.Reason = fmt.Sprintf("the worker has given no sign of life for %v", time.Since(c.beatAt).Round(100*time.Millisecond))
	}
	return h
}

// vitals is what a watcher compares from one look to the next.
type vitals struct {
	beats, moves uint64
	waiting      bool   // work waits that a step would serve
	failed       string // why the backend can do no more work; "": it can
}

func (c *Client) vitals() vitals {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := vitals{beats: c.beats, moves: c.moves}
	free := len(c.calls) // streams whose consumer keeps up
	for _, st := range c.streams {
		if !st.full() {
			free++
		}
	}
	s := c.last.Health.Stats
	v.waiting = free > 0 || s.Running+s.Waiting > 0 && len(c.streams) == 0
	if h := c.last.Health; h.Failed {
		v.failed = h.Reason
	}
	return v
}

// creditPayload is the payload of a credit.
func creditPayload(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }
