package ptx

import (
	"math/bits"
	"sync/atomic"
)

// admitGlobal judges an access to device memory and returns the lanes that may
// make it. Reads of unwritten bytes and races are reported and made.
//
//go:norace
func (w *warp) admitGlobal(in *inst, m uint32, size int, write bool) (ok uint32) {
	b := w.b
	a := &b.access
	hint := &b.ranges[in.pc]
	if a.dense {
		lo := a.addr[0] - globalBase
		hi := lo + uint64(32*size)
		if lo%uint64(size) == 0 && lo >= uint64(hint.lo) && hi <= uint64(hint.hi) && hi > lo {
			if b.checks {
				w.admitDense(in, int(lo), int(hi), write)
			}
			return m
		}
	}
	watch := readWatch{page: -1}
	words := b.checks && !write && size >= 4 && in.flags&flagStrong == 0 && b.linear < maxRaceBlock
	if words {
		watch.key = uint32(b.m.race.launch)<<25 | uint32(b.linear)<<5 | 15
	}
	need := uint32(1)<<size - 1
	for mm := m; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm) & 31
		off := a.addr[i] - globalBase
		if off&uint64(size-1) != 0 {
			w.fault(in, i, Misaligned, "address %#x, %d bytes", a.addr[i], size)
			continue
		}
		if off < uint64(hint.lo) || off+uint64(size) > uint64(hint.hi) || off+uint64(size) < off {
			if !w.locate(in, i, off, size, write, hint) {
				continue
			}
		}
		ok |= 1 << i
		if !b.checks {
			continue
		}
		o := int(off)
		if write {
			if word := &b.m.init[o>>5]; *word>>(o&31)&need != need {
				atomic.OrUint32(word, need<<(o&31))
			}
		} else if b.m.init[o>>5]>>(o&31)&need != need {
			w.unwritten(in, i, o, size)
		}
		if !words || !watch.read(b.m.race, o, size) {
			w.raceGlobal(in, i, o, size, write)
		}
	}
	return ok
}

// readWatch notes the reads of one instruction in the race table, with the page
// that it used last.
type readWatch struct {
	key     uint32
	page    int
	readers *[pageWords]uint32
	quiet   bool // nobody has written to the page
}

// read notes a read of whole words; false where the word's writer must be looked at.
//
//go:norace
func (r *readWatch) read(t *raceTable, off, size int) bool {
	if p := off >> pageShift; p != r.page {
		r.page, r.readers, r.quiet = p, page(t, t.readers, p), t.writers[p].Load() == nil
	}
	if !r.quiet {
		return false
	}
	for k := off >> 2 & (pageWords - 1); size > 0; k, size = k+1, size-4 {
		if c := &r.readers[k&(pageWords-1)]; *c != r.key {
			*c = joinReader(*c, r.key&^15, 15)
		}
	}
	return true
}

// admitDense judges 32 neighbouring accesses as one range.
//
//go:norace
func (w *warp) admitDense(in *inst, lo, hi int, write bool) {
	init := w.b.m.init
	for o := lo; o < hi; {
		n := min(32-o&31, hi-o)
		need := uint32(uint64(1)<<n-1) << (o & 31)
		if word := &init[o>>5]; *word&need != need {
			if write {
				atomic.OrUint32(word, need)
			} else {
				size := (hi - lo) / 32
				at := w.b.m.unwritten(o, hi)
				i := (at - lo) / size
				w.unwritten(in, i, lo+i*size, size)
			}
		}
		o += n
	}
	size := (hi - lo) / 32
	if size >= 4 {
		w.raceRange(in, lo, hi, size, write)
		return
	}
	for i := range 32 {
		w.raceGlobal(in, i, lo+i*size, size, write)
	}
}

// locate looks for the allocation of an access that the hint does not hold.
func (w *warp) locate(in *inst, lane int, off uint64, size int, write bool, hint *rangeHint) bool {
	m := w.b.m
	if !w.b.checks {
		hint.lo, hint.hi = 0, len(m.mem)
		if off < uint64(len(m.mem)) && off+uint64(size) <= uint64(len(m.mem)) {
			return true
		}
		w.fault(in, lane, OutOfBounds, "%d bytes at %#x are no device memory", size, off+globalBase)
		return false
	}
	var a *alloc
	if off < uint64(len(m.mem)) {
		a = m.find(int(off))
	}
	switch {
	case a != nil && int(off)+size <= a.hi && !(write && a.readOnly):
		hint.lo, hint.hi = a.lo, a.hi
		return true
	case w.b.seen(in, OutOfBounds):
	case a != nil && int(off)+size <= a.hi:
		w.fault(in, lane, ReadOnly, "writes to %s, which is constant", a.name)
	case off >= uint64(len(m.mem)):
		w.fault(in, lane, OutOfBounds, "%d bytes at %#x are no device memory", size, off+globalBase)
	default:
		w.fault(in, lane, OutOfBounds, "%d bytes at %#x: %s", size, off+globalBase, m.where(int(off), size))
	}
	return false
}

func (w *warp) unwritten(in *inst, lane, off, size int) {
	if w.b.seen(in, Uninitialised) {
		return
	}
	at := w.b.m.unwritten(off, off+size)
	if at < 0 {
		at = off
	}
	a := w.b.m.find(off)
	w.fault(in, lane, Uninitialised, "byte %d of an allocation of %d bytes was never written (%d bytes at %#x)", at-a.lo, a.hi-a.lo, size, off+globalBase)
}
