//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"hearth/kernels/fakecuda/gpulist"
	"hearth/kernels/ptx"
)

// library is the state of the process. mu is held by every call.
type library struct {
	config
	mu      sync.Mutex
	inited  bool
	devices []*device
	current map[int]*context // by thread
	handles map[uintptr]any
	next    uintptr
	counts  map[string]int // calls by name; "launch": kernels that ran
	pinned  pinned
	capture []*capture // under way
	out     *os.File   // of FAKECUDA_TRACE
}

// device is one GPU. The context of a device that is dead stays so.
type device struct {
	gpulist.GPU
	ordinal int
	ctx     *context
	dead    result
}

// context is a device's primary context.
type context struct {
	*device
	handle  uintptr
	uses    int // retains that are not released
	machine *ptx.Machine
	used    int64
	sizes   map[uint64]int64 // of cuMemAlloc
	streams []*stream        // the first is the legacy default stream
}

// overhead is the device memory that a context takes by itself.
const overhead = 4 << 20

func newLibrary(c *config) (*library, error) {
	l := &library{config: *c, current: map[int]*context{}, handles: map[uintptr]any{}, next: 0x10000, counts: map[string]int{}}
	for i, d := range c.devices {
		l.devices = append(l.devices, &device{GPU: d, ordinal: i})
	}
	if c.trace != "" {
		var err error
		if l.out, err = os.OpenFile(c.trace, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return nil, fmt.Errorf("FAKECUDA_TRACE: %w", err)
		}
	}
	return l, nil
}

func (l *library) tracef(format string, args ...any) {
	if l.out != nil {
		fmt.Fprintf(l.out, format+"\n", args...)
	}
}

// need says what a call asks of the state.
type need uint8

const (
	needNothing need = iota
	needInit
	needContext // a current one that is alive
)

// unsafeInCapture are the calls that may wait for work, or be waited for, behind
// the caller's back: they are refused while this thread captures (CUDA Programming
// Guide, prohibited and unhandled operations).
var unsafeInCapture = map[string]bool{
	"cuMemAlloc_v2": true, "cuMemFree_v2": true, "cuMemHostAlloc": true, "cuMemFreeHost": true, "cuMemHostRegister_v2": true, "cuMemHostUnregister": true,
	"cuModuleLoadDataEx": true, "cuModuleUnload": true, "cuEventQuery": true, "cuEventSynchronize": true,
}

// call runs one entry point: what it needs, what is injected, then f.
func (l *library) call(name string, needs need, f func(c *context) result) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int32(l.judge(name, needs, f))
}

func (l *library) judge(name string, needs need, f func(c *context) result) (r result) {
	l.counts[name]++
	n := l.counts[name]
	defer func() {
		if e := recover(); e != nil {
			fmt.Fprintf(os.Stderr, "fakecuda: BUG: %s: %v\n%s", name, e, debug.Stack())
			r = unknown
		}
		l.tracef("%s = %d", name, r)
	}()
	for _, h := range l.hangs {
		if h.hits(name, n) {
			l.hang(name)
		}
	}
	c := l.current[syscall.Gettid()]
	for _, e := range l.errors {
		if e.hits(name, n) {
			if c != nil && e.result.sticky() {
				c.dead = e.result
			}
			return e.result
		}
	}
	switch {
	case needs >= needInit && !l.inited:
		return notInitialized
	case needs < needContext:
		return f(c)
	case c == nil:
		return invalidContext
	case c.dead != success:
		return c.dead
	}
	if unsafeInCapture[name] {
		if r := l.refuseInCapture(); r != success {
			return r
		}
	}
	return f(c)
}

// hang never returns. Other threads may go on.
func (l *library) hang(what string) {
	l.tracef("%s hangs", what)
	l.mu.Unlock()
	for {
		time.Sleep(time.Hour)
	}
}

// add makes a handle.
func (l *library) add(v any) uintptr {
	l.next += 0x10
	l.handles[l.next] = v
	return l.next
}

// of finds what a handle is of.
func of[T any](l *library, h uintptr) (v T, ok bool) {
	v, ok = l.handles[h].(T)
	return v, ok
}

func (l *library) init(flags uint32) result {
	if flags != 0 {
		return invalidValue
	}
	if len(l.devices) == 0 {
		return noDevice
	}
	l.inited = true
	return success
}

func (l *library) device(n int32) *device {
	if n < 0 || int(n) >= len(l.devices) {
		return nil
	}
	return l.devices[n]
}

// retain is cuDevicePrimaryCtxRetain.
func (l *library) retain(n int32) (uintptr, result) {
	d := l.device(n)
	switch {
	case d == nil:
		return 0, invalidDevice
	case d.dead != success:
		return 0, d.dead
	case d.ctx != nil:
		d.ctx.uses++
		return d.ctx.handle, success
	case d.Memory-d.Used < overhead:
		return 0, outOfMemory
	}
	// Red zones and gaps between allocations are the interpreter's own: what a GPU
	// would hold must fit beside them.
	room := d.Memory + d.Memory/4 + 16<<20
	c := &context{device: d, uses: 1, sizes: map[uint64]int64{}, used: overhead + d.Used,
		machine: ptx.NewMachine(ptx.Options{Checks: l.checks, Workers: l.workers, Memory: int(room)})}
	c.handle = l.add(c)
	c.streams = []*stream{{ctx: c}}
	d.ctx = c
	return c.handle, success
}

// release is cuDevicePrimaryCtxRelease: the last one destroys the context with
// everything that it has.
func (l *library) release(n int32) result {
	d := l.device(n)
	if d == nil {
		return invalidDevice
	}
	if d.ctx == nil {
		return invalidContext
	}
	if d.ctx.uses--; d.ctx.uses > 0 {
		return d.dead
	}
	if d.dead == success {
		l.drainAll(d.ctx)
	}
	for h, v := range l.handles {
		if o, ok := v.(owned); ok && o.owner() == d.ctx {
			delete(l.handles, h)
		}
	}
	for t, c := range l.current {
		if c == d.ctx {
			delete(l.current, t)
		}
	}
	d.ctx = nil
	return d.dead
}

// owned is what goes with its context.
type owned interface{ owner() *context }

func (c *context) owner() *context { return c }

// setCurrent is cuCtxSetCurrent.
func (l *library) setCurrent(h uintptr) result {
	t := syscall.Gettid()
	if h == 0 {
		delete(l.current, t)
		return success
	}
	c, ok := of[*context](l, h)
	if !ok {
		return invalidContext
	}
	l.current[t] = c
	return success
}

// entryPoints are the exported names.
var entryPoints = map[string]bool{
	"cuInit": true, "cuDriverGetVersion": true, "cuDeviceGetCount": true, "cuDeviceGet": true, "cuDeviceGetName": true, "cuDeviceGetAttribute": true,
	"cuDeviceTotalMem_v2": true, "cuDeviceGetUuid": true, "cuDevicePrimaryCtxRetain": true, "cuDevicePrimaryCtxRelease_v2": true, "cuCtxSetCurrent": true,
	"cuModuleLoadDataEx": true, "cuModuleUnload": true, "cuModuleGetFunction": true, "cuModuleGetGlobal_v2": true, "cuFuncGetAttribute": true, "cuFuncSetAttribute": true,
	"cuMemGetInfo_v2": true, "cuMemAlloc_v2": true, "cuMemFree_v2": true, "cuMemHostAlloc": true, "cuMemFreeHost": true, "cuMemHostRegister_v2": true, "cuMemHostUnregister": true,
	"cuMemcpyHtoDAsync_v2": true, "cuMemcpyDtoHAsync_v2": true, "cuMemcpyDtoDAsync_v2": true, "cuMemsetD8Async": true,
	"cuStreamCreate": true, "cuStreamDestroy_v2": true, "cuStreamSynchronize": true, "cuStreamWaitEvent": true,
	"cuEventCreate": true, "cuEventRecord": true, "cuEventQuery": true, "cuEventSynchronize": true, "cuEventElapsedTime": true, "cuEventDestroy_v2": true,
	"cuLaunchKernel": true, "cuOccupancyMaxActiveBlocksPerMultiprocessor": true,
	"cuStreamBeginCapture_v2": true, "cuStreamEndCapture": true, "cuGraphInstantiateWithFlags": true, "cuGraphLaunch": true, "cuGraphExecDestroy": true, "cuGraphDestroy": true,
	"cuGetErrorName": true, "cuGetErrorString": true,
}
