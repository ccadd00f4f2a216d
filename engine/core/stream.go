package core

import (
	"sync"

	"hearth/engine/infer"
)

// Stream carries the events of one job from the loop to its consumer. The loop
// never blocks on it: what it holds is bounded by the job's own token limits.
type Stream struct {
	mu     sync.Mutex
	events []infer.Event
	spare  []infer.Event // the batch that the consumer is done with
	err    error
	closed bool
	ready  chan struct{} // has room for one signal
}

func newStream() *Stream { return &Stream{ready: make(chan struct{}, 1)} }

// Ready receives when Take has something to give.
func (s *Stream) Ready() <-chan struct{} { return s.ready }

// Take returns the events since the last call and whether the stream is over,
// with its error. The slice is valid until the next call.
func (s *Stream) Take() (events []infer.Event, done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events = s.events
	s.events, s.spare = s.spare[:0], events
	return events, s.closed, s.err
}

func (s *Stream) push(ev infer.Event) {
	s.mu.Lock()
	s.events = append(s.events, ev)
	s.mu.Unlock()
}

// end closes the stream; the first call counts.
func (s *Stream) end(err error) {
	s.mu.Lock()
	if !s.closed {
		s.closed, s.err = true, err
	}
	s.mu.Unlock()
	s.signal()
}

func (s *Stream) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}
