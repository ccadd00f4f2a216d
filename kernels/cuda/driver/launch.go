package driver

import (
	"fmt"
	"runtime"
	"unsafe"

	"hearth/kernels/cuda/kernel"
)

// Call is a launch made ready: its function is known and its parameters lie where
// the driver reads them.
type Call struct {
	f           *Function
	grid, block kernel.Dim
	shared      uint32
	data        []byte
	pointers    []unsafe.Pointer // into data
	pin         runtime.Pinner
}

// NewCall prepares a launch of f. Release gives it back.
func NewCall(f *Function, l *kernel.Launch) (*Call, error) {
	threads := int64(l.Block.X) * int64(l.Block.Y) * int64(l.Block.Z)
	if threads < 1 || threads > int64(f.MaxThreads) || l.Grid.X < 1 || l.Grid.Y < 1 || l.Grid.Z < 1 {
		return nil, fmt.Errorf("cannot launch %s: got a grid of %v and blocks of %v, wanted 1 or more each and %d threads at most", l.Name, l.Grid, l.Block, f.MaxThreads)
	}
	if err := f.AllowShared(int(l.Shared)); err != nil {
		return nil, err
	}
	c := &Call{f: f, grid: l.Grid, block: l.Block, shared: l.Shared,
		data: append([]byte(nil), l.Params.Data...), pointers: make([]unsafe.Pointer, len(l.Params.Offsets))}
	for i, at := range l.Params.Offsets {
		c.pointers[i] = unsafe.Pointer(&c.data[at])
	}
	if len(c.pointers) > 0 {
		c.pin.Pin(&c.data[0])
		c.pin.Pin(&c.pointers[0])
	}
	return c, nil
}

// Release lets go of the parameters. Work that was queued or captured with them
// has its own copies.
func (c *Call) Release() { c.pin.Unpin() }

// Launch queues the call. It does not allocate.
func (s *Stream) Launch(c *Call) error {
	a := &s.c.args
	a[0] = c.f.handle
	a[1], a[2], a[3] = uintptr(c.grid.X), uintptr(c.grid.Y), uintptr(c.grid.Z)
	a[4], a[5], a[6] = uintptr(c.block.X), uintptr(c.block.Y), uintptr(c.block.Z)
	a[7], a[8] = uintptr(c.shared), s.handle
	a[9], a[10] = uintptr(unsafe.Pointer(unsafe.SliceData(c.pointers))), 0
	err := s.c.raw(callLaunchKernel, a[:])
	runtime.KeepAlive(c)
	if err != nil {
		return detail(err, "kernel %s", c.f.name)
	}
	return nil
}
