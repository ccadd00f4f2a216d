package remote

import "sync"

// outbox is the queue of frames before a connection. Whoever pushes what may
// pile up asks first how much is queued.
type outbox struct {
	mu     sync.Mutex
	frames [][]byte
	bytes  int
	closed bool
	wake   chan struct{} // 1: something to write
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1)}
}

// push queues a frame.
func (o *outbox) push(frame []byte) {
	o.mu.Lock()
	if !o.closed {
		o.frames = append(o.frames, frame)
		o.bytes += len(frame)
	}
	o.mu.Unlock()
	o.signal()
}

// signal wakes the writer.
func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// queued is how many bytes wait.
func (o *outbox) queued() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// take empties the queue.
func (o *outbox) take() [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	frames := o.frames
	o.frames, o.bytes = nil, 0
	return frames
}

// close drops what is queued and whatever comes later.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frames, o.bytes, o.closed = nil, 0, true
}
