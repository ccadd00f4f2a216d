package driver

import (
	"unsafe"

	"github.com/ebitengine/purego"
)

// Stream is a queue of work that the GPU does in order.
type Stream struct {
	c      *Context
	handle uintptr
}

// streamNonBlocking keeps a stream from waiting for the legacy default one.
const streamNonBlocking = 1

// NewStream makes an empty queue.
func (c *Context) NewStream() (*Stream, error) {
	s := &Stream{c: c}
	if err := c.call(callStreamCreate, uintptr(unsafe.Pointer(&s.handle)), streamNonBlocking); err != nil {
		return nil, err
	}
	return s, nil
}

// Sync waits until the GPU has done all that is queued. Errors of kernels show
// here.
func (s *Stream) Sync() error { return s.c.call(callStreamSynchronize, s.handle) }

// WaitFor makes what is queued later wait for e.
func (s *Stream) WaitFor(e *Event) error { return s.c.call(callStreamWaitEvent, s.handle, e.handle, 0) }

// Destroy gives the queue back.
func (s *Stream) Destroy() error { return s.c.call(callStreamDestroy, s.handle) }

// Event is a mark in a stream.
type Event struct {
	c      *Context
	handle uintptr
}

const eventDisableTiming = 2

// NewEvent makes a mark; with timed, Elapsed can be asked of it.
func (c *Context) NewEvent(timed bool) (*Event, error) {
	flags := uintptr(eventDisableTiming)
	if timed {
		flags = 0
	}
	e := &Event{c: c}
	if err := c.call(callEventCreate, uintptr(unsafe.Pointer(&e.handle)), flags); err != nil {
		return nil, err
	}
	return e, nil
}

// Record puts the mark behind what is queued in s.
func (e *Event) Record(s *Stream) error {
	args := e.c.args[:2]
	args[0], args[1] = e.handle, s.handle
	return e.c.raw(callEventRecord, args)
}

// Wait blocks until the GPU has come to the mark.
func (e *Event) Wait() error {
	args := e.c.args[:1]
	args[0] = e.handle
	return e.c.raw(callEventSynchronize, args)
}

// Done tells whether the GPU has come to the mark.
func (e *Event) Done() (bool, error) {
	r, _, _ := purego.SyscallN(e.c.d.addr[callEventQuery], e.handle)
	switch int32(r) {
	case 0:
		return true, nil
	case codeNotReady:
		return false, nil
	}
	return false, e.c.note(e.c.d.fail(callEventQuery, int32(r)))
}

// Elapsed is the time in milliseconds from e, which is timed, to later.
func (e *Event) Elapsed(later *Event) (float64, error) {
	var ms float32
	err := e.c.call(callEventElapsedTime, uintptr(unsafe.Pointer(&ms)), e.handle, later.handle)
	return float64(ms), err
}

// Destroy gives the mark back.
func (e *Event) Destroy() error { return e.c.call(callEventDestroy, e.handle) }

// raw runs an entry point without allocating. args hold no Go pointer.
func (c *Context) raw(n call, args []uintptr) error {
	r, _, _ := purego.SyscallN(c.d.addr[n], args...)
	if int32(r) == 0 {
		return nil
	}
	return c.note(c.d.fail(n, int32(r)))
}
