package ptx

import (
	"fmt"
	"math/bits"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// asyncLane is a lane's copies under way: groups committed, and the open one.
type asyncLane struct {
	groups [][]asyncCopy // oldest first; the last is open
}

// asyncCopy is one cp.async: its data lands when it is waited for.
type asyncCopy struct {
	at   int32 // in shared memory, from sharedBase
	n    int32
	data [16]byte
	pc   int32
}

func (l *asyncLane) reset() { l.groups = l.groups[:0] }

func (l *asyncLane) open() *[]asyncCopy {
	if len(l.groups) == 0 {
		l.groups = append(l.groups, nil)
	}
	return &l.groups[len(l.groups)-1]
}

// copyAsync starts cp.async: the source is read now, the destination is closed
// to everybody until the wait.
func (w *warp) copyAsync(in *inst, m uint32) {
	b := w.b
	a := &b.access
	size := int(in.n)
	var from [32]uint64
	for i, v := range &w.r64[in.b] {
		from[i] = v + uint64(int64(in.x.width))
	}
	// the destination, as a write of whoever issues it
	w.addresses(in, m)
	ok := w.admitShared(in, m, size, true)
	if b.count {
		w.countShared(in, m, size)
	}
	dst := a.addr
	// the source, of which srcSize bytes are read and the rest is zero
	var copies [32]asyncCopy
	srcSize := func(i int) int { return size }
	read := ok
	if in.flags&flagSrcSize != 0 {
		srcSize = func(i int) int { return int(w.r32[in.c][i]) }
		for mm := ok; mm != 0; mm &= mm - 1 {
			i := bits.TrailingZeros32(mm)
			if n := w.r32[in.c][i]; n > uint32(size) {
				w.fault(in, i, AsyncMisuse, "got a source size of %d bytes, wanted at most %d", n, size)
				read &^= 1 << i
			} else if n == 0 {
				read &^= 1 << i
			}
		}
	}
	a.addr = from
	read = w.readAsync(in, read, size, srcSize, &copies)
	if b.count {
		w.countGlobal(in, read, size, false)
	}
	for mm := ok; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm) & 31
		c := &copies[i]
		c.at, c.n, c.pc = int32(dst[i]-sharedBase), int32(size), in.pc
		if b.checks {
			for k := c.at >> 2; k < (c.at+c.n)>>2; k++ {
				b.sh.state[k] = 0xf0
			}
		}
		g := w.async[i].open()
		*g = append(*g, *c)
	}
}

// readAsync reads the sources. Whole copies go the quick way.
//
//go:norace
func (w *warp) readAsync(in *inst, m uint32, size int, srcSize func(int) int, copies *[32]asyncCopy) uint32 {
	a := &w.b.access
	var whole, parts, bad uint32
	for mm := m; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm)
		if a.addr[i]&uint64(size-1) != 0 {
			w.fault(in, i, Misaligned, "source %#x, %d bytes", a.addr[i], size)
			bad |= 1 << i
		} else if srcSize(i) == size {
			whole |= 1 << i
		} else {
			parts |= 1 << i
		}
	}
	a.isDense(whole, size)
	ok := w.admitGlobal(in, whole, size, false)
	mem := w.b.m.mem
	for mm := ok; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm) & 31
		copy(copies[i].data[:size], mem[a.addr[i]-globalBase:])
	}
	for mm := parts; mm != 0; mm &= mm - 1 { // byte by byte
		i := bits.TrailingZeros32(mm) & 31
		start := a.addr[i]
		good := true
		for k := range srcSize(i) {
			a.addr[i], a.dense = start+uint64(k), false
			if w.admitGlobal(in, 1<<i, 1, false) == 0 {
				good = false
				break
			}
			copies[i].data[k] = mem[a.addr[i]-globalBase]
		}
		if a.addr[i] = start; good {
			ok |= 1 << i
		}
	}
	return ok
}

// commitAsync closes the lanes' open groups.
func (w *warp) commitAsync(m uint32) {
	for ; m != 0; m &= m - 1 {
		l := &w.async[bits.TrailingZeros32(m)]
		l.open()
		l.groups = append(l.groups, nil)
	}
}

// waitAsync lands all but the newest n groups committed; n -1 is everything,
// uncommitted copies too.
func (w *warp) waitAsync(in *inst, m uint32) {
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m)
		l := &w.async[i]
		l.open()
		done := len(l.groups) - 1 - int(in.off)
		if in.off < 0 {
			done = len(l.groups)
		}
		if done <= 0 {
			continue
		}
		for _, g := range l.groups[:done] {
			for k := range g {
				w.land(i, &g[k])
			}
		}
		l.groups = append(l.groups[:0], l.groups[done:]...)
	}
}

// land writes a copy's data, as its lane at this time.
func (w *warp) land(lane int, c *asyncCopy) {
	b := w.b
	copy(b.sh.data[c.at:c.at+c.n], c.data[:c.n])
	if !b.checks {
		return
	}
	now := uint64(b.order.clock)<<32 | 15<<10 | uint64(w.id<<5|lane)
	for k := c.at >> 2; k < (c.at+c.n)>>2; k++ {
		b.sh.state[k] = 15
		b.sh.writer[k] = now
	}
}
