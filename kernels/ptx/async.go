package ptx

import (
	"fmt"
	"math/bits"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// asyncCopies is what one cp.async of a warp has under way: its data lands, lane
// by lane, when it is waited for.
type asyncCopies struct {
	lanes uint32
	size  int
	at    [32]int32 // in shared memory, from sharedBase
	group [32]int32 // by lane: which of its groups
	data  [32][16]byte
}

// asyncQueue holds a warp's copies in the order of their issue.
type asyncQueue struct {
	open    [32]int32 // by lane: the number of groups committed, which the open one has
	pending []*asyncCopies
	free    []*asyncCopies
}

func (q *asyncQueue) reset() {
	q.open = [32]int32{}
	q.free = append(q.free, q.pending...)
	q.pending = q.pending[:0]
}

func (q *asyncQueue) take() *asyncCopies {
	if n := len(q.free); n > 0 {
		c := q.free[n-1]
		q.free = q.free[:n-1]
		return c
	}
	return new(asyncCopies)
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
	c := w.async.take()
	c.lanes, c.size, c.group = ok, size, w.async.open
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
	c.data = [32][16]byte{}
	read = w.readAsync(in, read, size, srcSize, &c.data)
	if b.count {
		w.countGlobal(in, read, size, false)
	}
	for mm := ok; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm) & 31
		at := int32(dst[i] - sharedBase)
		if c.at[i] = at; b.checks {
			for k := at >> 2; k < (at+int32(size))>>2; k++ {
				b.sh.state[k] = 0xf0
			}
		}
	}
	w.async.pending = append(w.async.pending, c)
}

// readAsync reads the sources. Whole copies go the quick way.
//
//go:norace
func (w *warp) readAsync(in *inst, m uint32, size int, srcSize func(int) int, data *[32][16]byte) uint32 {
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
		copy(data[i][:size], mem[a.addr[i]-globalBase:])
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
			data[i][k] = mem[a.addr[i]-globalBase]
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
		w.async.open[bits.TrailingZeros32(m)]++
	}
}

// waitAsync lands all but the newest n groups committed; n -1 is everything,
// uncommitted copies too.
func (w *warp) waitAsync(in *inst, m uint32) {
	q := &w.async
	left := q.pending[:0]
	for _, c := range q.pending {
		var done uint32
		for mm := c.lanes & m; mm != 0; mm &= mm - 1 {
			if i := bits.TrailingZeros32(mm) & 31; in.off < 0 || int64(c.group[i]) < int64(q.open[i])-in.off {
				done |= 1 << i
			}
		}
		w.land(c, done)
		if c.lanes &^= done; c.lanes != 0 {
			left = append(left, c)
		} else {
			q.free = append(q.free, c)
		}
	}
	q.pending = left
}

// land writes the data of lanes m, as those lanes at this time.
func (w *warp) land(c *asyncCopies, m uint32) {
	b := w.b
	now := uint64(b.order.clock)<<32 | 15<<10 | uint64(w.id<<5)
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		at := int(c.at[i])
		copy(b.sh.data[at:at+c.size], c.data[i][:])
		if !b.checks {
			continue
		}
		for k := at >> 2; k < (at+c.size)>>2; k++ {
			b.sh.state[k] = 15
			b.sh.writer[k] = now | uint64(i)
		}
	}
}
