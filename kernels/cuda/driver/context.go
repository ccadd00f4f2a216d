package driver

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// Context is the primary context of a GPU, current on a thread of its own. Do may
// be called from any goroutine; every other method, and those of what a context
// makes, are for functions that Do runs.
type Context struct {
	d   *Driver
	gpu Device

	mu   sync.Mutex // held while a function runs
	in   chan func() error
	out  chan error
	gone bool // guarded by mu

	args [11]uintptr // of the calls of a launch, reused
	dead error       // the first sticky error
}

// ErrClosed says that a context was closed.
var ErrClosed = errors.New("the GPU's context is closed")

// Context retains the primary context of g, which must be Supported.
func (d *Driver) Context(g Device) (*Context, error) {
	if err := g.Supported(); err != nil {
		return nil, err
	}
	c := &Context{d: d, gpu: g, in: make(chan func() error), out: make(chan error)}
	go c.thread()
	err := c.Do(func() error {
		var handle uintptr
		if err := d.call(callDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&handle)), uintptr(g.handle)); err != nil {
			return err
		}
		return d.call(callCtxSetCurrent, handle)
	})
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("cannot open GPU %d (%s): %w", g.Ordinal, g.Name, err)
	}
	return c, nil
}

// thread runs what Do is given. It is never unlocked, so the system thread ends
// with it and takes the current context along.
func (c *Context) thread() {
	runtime.LockOSThread()
	for f := range c.in {
		c.out <- f()
	}
}

// Do runs f on the context's thread and returns its error. f must not call Do.
func (c *Context) Do(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return ErrClosed
	}
	c.in <- f
	return <-c.out
}

func (c *Context) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		c.gone = true
		close(c.in)
	}
}

// GPU is the device that the context is of.
func (c *Context) GPU() Device { return c.gpu }

// Dead is the error that destroyed the context, or nil.
func (c *Context) Dead() error { return c.dead }

// Close releases the primary context; the driver frees what it still holds.
func (c *Context) Close() error {
	err := c.Do(func() error {
		return c.d.call(callDevicePrimaryCtxRelease, uintptr(c.gpu.handle))
	})
	c.stop()
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// call runs an entry point and remembers an error that destroys the context.
//
//go:uintptrescapes
func (c *Context) call(n call, args ...uintptr) error {
	return c.note(c.d.call(n, args...))
}

func (c *Context) note(err error) error {
	if err != nil && c.dead == nil {
		var e *Error
		if errors.As(err, &e) && e.Sticky() {
			c.dead = err
		}
	}
	return err
}
