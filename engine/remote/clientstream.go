package remote

import (
	"context"
	"sync"

	"hearth/engine/infer"
)

// clientStream is a generate call on the gateway's side: events that have come
// and were not read yet. Lock order: Client.mu, then clientStream.mu.
type clientStream struct {
	c    *Client
	id   uint64
	wake chan struct{} // 1: something has come

	mu     sync.Mutex // guards below
	events []received
	read   int // of events
	size   int // bytes that wait
	owed   int // bytes read for which no credit was given yet
	ended  bool
	err    error // with ended: nil for a complete stream
}

type received struct {
	ev   infer.Event
	size int
}

// Sane bounds on what a worker says, since tokens are billed.
const (
	maxEventTokens = 1 << 24
	maxChoice      = 1 << 20
)

// receive takes an item from the connection's reader. It never waits.
func (st *clientStream) receive(kind itemKind, body []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return protocolError("got an item of stream %d after its end", st.id)
	}
	switch kind {
	case itemEvent:
		var ev infer.Event
		if err := decodeValue(body, &ev); err != nil {
			return err
		}
		if err := checkEvent(&ev); err != nil {
			return err
		}
		if st.size > 2*windowBytes {
			return protocolError("stream %d has %d bytes on the way, want at most %d", st.id, st.size, windowBytes)
		}
		st.events = append(st.events, received{ev, len(body)})
		st.size += len(body)
	case itemEnd:
		st.ended = true
	case itemError:
		var w wireError
		if err := decodeValue(body, &w); err != nil {
			return err
		}
		st.ended, st.err = true, w.err()
	}
	select {
	case st.wake <- struct{}{}:
	default:
	}
	return nil
}

func checkEvent(ev *infer.Event) error {
	if ev.Kind > infer.EventUsage || ev.Choice < 0 || ev.Choice > maxChoice || ev.Tokens < 0 || ev.Tokens > maxEventTokens {
		return protocolError("got an event of kind %d, choice %d, %d tokens", ev.Kind, ev.Choice, ev.Tokens)
	}
	if u := ev.Usage; u != nil && min(u.PromptTokens, u.CachedTokens, u.CacheWriteTokens, u.CompletionTokens, u.ReasoningTokens) < 0 {
		return protocolError("got a negative number of tokens")
	}
	if ev.Kind == infer.EventTool && ev.Tool == nil || ev.Kind == infer.EventUsage && ev.Usage == nil {
		return protocolError("got an event of kind %d without its part", ev.Kind)
	}
	return nil
}

// next waits for the next event; ok is false at the end of a complete stream.
func (st *clientStream) next(ctx context.Context, delivered bool) (ev infer.Event, ok bool, err error) {
	for {
		st.mu.Lock()
		if ctx.Err() == nil && st.read < len(st.events) {
			ev := st.popLocked()
			st.mu.Unlock()
			return ev, true, nil
		}
		ended, end := st.ended, st.err
		st.mu.Unlock()
		if err := ctx.Err(); err != nil {
			return ev, false, err
		}
		if ended {
			return ev, false, end
		}
		select {
		case <-st.wake:
		case <-ctx.Done():
		case <-st.c.done:
			st.mu.Lock()
			rest := st.read < len(st.events) || st.ended
			st.mu.Unlock()
			if !rest {
				return ev, false, st.c.lost(delivered)
			}
		}
	}
}

// popLocked takes the oldest event and gives credit now and then.
func (st *clientStream) popLocked() infer.Event {
	r := st.events[st.read]
	st.events[st.read] = received{}
	if st.read++; st.read == len(st.events) {
		st.events, st.read = st.events[:0], 0
	}
	st.size -= r.size
	st.owed += r.size
	if st.owed >= windowBytes/2 && !st.ended {
		st.c.out.push(appendFrame(nil, frameCredit, st.id, creditPayload(st.owed)))
		st.owed = 0
	}
	return r.ev
}

// full says whether the worker waits for this stream's consumer.
func (st *clientStream) full() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.size >= windowBytes/2
}

// close forgets the stream, and has the worker stop if it has not ended.
func (st *clientStream) close(id uint64) {
	st.c.mu.Lock()
	delete(st.c.streams, id)
	st.c.mu.Unlock()
	st.mu.Lock()
	ended := st.ended
	st.mu.Unlock()
	if !ended {
		st.c.cancel(id)
	}
}
