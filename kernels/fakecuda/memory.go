//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"unsafe"
)

// grain is what sizes of device memory are rounded up to.
const grain = 512

func (c *context) memInfo() (free, total uint64) {
	return uint64(c.Memory - c.used), uint64(c.Memory)
}

// alloc is cuMemAlloc.
func (c *context) alloc(n uint64) (uint64, result) {
	if n == 0 {
		return 0, invalidValue
	}
	if n > uint64(c.Memory) {
		return 0, outOfMemory
	}
	size := (int64(n) + grain - 1) &^ (grain - 1)
	if size > c.Memory-c.used {
		return 0, outOfMemory
	}
	a, err := c.machine.Alloc(int(n))
	if err != nil {
		return 0, outOfMemory
	}
	c.used += size
	c.sizes[a] = size
	return a, success
}

// free is cuMemFree: it waits for the device first.
func (l *library) free(c *context, a uint64) result {
	size, ok := c.sizes[a]
	if !ok {
		return invalidValue
	}
	if r := l.drainAll(c); r != success {
		return r
	}
	if err := c.machine.Free(a); err != nil {
		return invalidValue
	}
	delete(c.sizes, a)
	c.used -= size
	return success
}

// pinned are the page-locked ranges of the host, by address.
type pinned struct {
	ranges []hostRange
	maps   map[uintptr][]byte // what cuMemHostAlloc mapped
}

type hostRange struct {
	at, n uintptr
	own   bool // of cuMemHostAlloc
}

func (p *pinned) find(at uintptr) (int, bool) {
	return slices.BinarySearchFunc(p.ranges, at, func(r hostRange, at uintptr) int {
		if r.at < at {
			return -1
		}
		return int(min(r.at-at, 1))
	})
}

// has tells whether all of a range is page-locked.
func (p *pinned) has(at, n uintptr) bool {
	i, exact := p.find(at)
	if !exact {
		i--
	}
	return i >= 0 && at-p.ranges[i].at <= p.ranges[i].n && n <= p.ranges[i].n-(at-p.ranges[i].at)
}

func (p *pinned) add(r hostRange) result {
	i, exact := p.find(r.at)
	if exact || i > 0 && p.ranges[i-1].at+p.ranges[i-1].n > r.at || i < len(p.ranges) && p.ranges[i].at < r.at+r.n {
		return alreadyRegistered
	}
	p.ranges = slices.Insert(p.ranges, i, r)
	return success
}

// hostAlloc is cuMemHostAlloc. Pages of their own make an access after
// cuMemFreeHost a fault.
func (l *library) hostAlloc(n uintptr) (uintptr, result) {
	if n == 0 || n > 1<<40 {
		return 0, invalidValue
	}
	b, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS)
	if err != nil {
		return 0, outOfMemory
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	if l.pinned.maps == nil {
		l.pinned.maps = map[uintptr][]byte{}
	}
	l.pinned.maps[at] = b
	return at, l.pinned.add(hostRange{at, n, true})
}

// drop is cuMemFreeHost (own) and cuMemHostUnregister. Work that uses the range
// ends first, as the driver sees to.
func (l *library) drop(c *context, at uintptr, own bool) result {
	i, ok := l.pinned.find(at)
	if !ok || l.pinned.ranges[i].own != own {
		if own {
			return invalidValue
		}
		return notRegistered
	}
	if r := l.drainAll(c); r != success {
		return r
	}
	l.pinned.ranges = slices.Delete(l.pinned.ranges, i, i+1)
	if own {
		b := l.pinned.maps[at]
		delete(l.pinned.maps, at)
		if err := syscall.Munmap(b); err != nil {
			return unknown
		}
	}
	return success
}

// host is n bytes of the process's memory.
func host(at, n uintptr) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), n)
}

// device memory: failures are those of bad addresses.

func (c *context) check(call string, err error) result {
	if err == nil {
		return success
	}
	complain("%s: %v", call, err)
	return illegalAddress
}

// inside tells whether a range of device memory is all in one allocation or
// variable, which the driver sees when a copy is queued.
func (c *context) inside(a uint64, n uintptr) bool {
	return c.machine.Contains(a, int(n))
}

// upload is cuMemcpyHtoDAsync: of page-locked memory the bytes are those at the
// time of the copy, of other memory those at the time of the call.
func (l *library) upload(s *stream, dst uint64, src, n uintptr) result {
	if n == 0 {
		return success
	}
	if src == 0 || !s.ctx.inside(dst, n) {
		return invalidValue
	}
	if s.capture == nil && !l.pinned.has(src, n) {
		data := slices.Clone(host(src, n))
		return l.enqueue(s, op{name: "HtoD", run: func() result { return s.ctx.check("cuMemcpyHtoDAsync_v2", s.ctx.machine.Write(dst, data)) }})
	}
	return l.enqueue(s, op{name: "HtoD", run: func() result {
		return s.ctx.check("cuMemcpyHtoDAsync_v2", s.ctx.machine.Write(dst, host(src, n)))
	}})
}

// download is cuMemcpyDtoHAsync; to memory that is not page-locked it waits.
func (l *library) download(s *stream, dst uintptr, src uint64, n uintptr) result {
	if n == 0 {
		return success
	}
	if dst == 0 || !s.ctx.inside(src, n) {
		return invalidValue
	}
	r := l.enqueue(s, op{name: "DtoH", run: func() result {
		return s.ctx.check("cuMemcpyDtoHAsync_v2", s.ctx.machine.ReadRaw(src, host(dst, n)))
	}})
	if r == success && s.capture == nil && !l.pinned.has(dst, n) {
		return l.wait(s, nil)
	}
	return r
}

// copy is cuMemcpyDtoDAsync.
func (l *library) copy(s *stream, dst, src uint64, n uintptr) result {
	if n == 0 {
		return success
	}
	if !s.ctx.inside(dst, n) || !s.ctx.inside(src, n) {
		return invalidValue
	}
	return l.enqueue(s, op{name: "DtoD", run: func() result { return s.ctx.check("cuMemcpyDtoDAsync_v2", s.ctx.machine.Copy(dst, src, int(n))) }})
}

// fill is cuMemsetD8Async.
func (l *library) fill(s *stream, dst uint64, v byte, n uintptr) result {
	if n == 0 {
		return success
	}
	if !s.ctx.inside(dst, n) {
		return invalidValue
	}
	return l.enqueue(s, op{name: "memset", run: func() result { return s.ctx.check("cuMemsetD8Async", s.ctx.machine.Fill(dst, v, int(n))) }})
}

var complained sync.Mutex

// complain tells a person what went wrong.
func complain(format string, args ...any) {
	complained.Lock()
	defer complained.Unlock()
	fmt.Fprintf(os.Stderr, "fakecuda: "+format+"\n", args...)
}
