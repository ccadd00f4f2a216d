package ptx

import "math/bits"

// sharedMemory is one block's, with what is known of each word of four bytes.
type sharedMemory struct {
	data []byte // from sharedBase
	vars []span // addresses that may be used
	hint span
	// state of a word: four bits of written bytes, four of bytes that a cp.async
	// under way will write.
	state []uint8
	// Who touched a word last, as clock<<32 | lanes<<16 | mask<<10 | thread; of
	// readers the last two of different warps. lanes says that other lanes of
	// that warp read it too.
	writer, reader, reader2 []uint64
}

const manyLanes = 1 << 16

func (s *sharedMemory) init(r *launch) {
	size := r.p.sharedBytes + r.dynamic
	s.data = make([]byte, size+16)
	for _, v := range r.p.sharedVars {
		if v.v.size > 0 && !v.v.extern {
			s.vars = append(s.vars, span{v.at, v.at + v.v.size, v.v.name})
		}
	}
	if r.dynamic > 0 {
		s.vars = append(s.vars, span{sharedBase + r.p.sharedBytes, sharedBase + size, "dynamic shared memory"})
	}
	if r.checks {
		n := size/4 + 8
		s.state, s.writer, s.reader, s.reader2 = make([]uint8, n), make([]uint64, n), make([]uint64, n), make([]uint64, n)
	}
}

// begin starts a block: everything is unwritten.
func (s *sharedMemory) begin() { clear(s.state) }

// admitShared judges an access to shared memory and returns the lanes that may
// make it.
func (w *warp) admitShared(in *inst, m uint32, size int, write bool) (ok uint32) {
	b := w.b
	s := &b.sh
	a := &b.access
	reads := b.checks && !write && size >= 4 && in.class != cAtom
	floor := uint32(0)
	if reads {
		floor = b.order.floor(w.id)
	}
	for mm := m; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm) & 31
		at := a.addr[i]
		if at&uint64(size-1) != 0 {
			w.fault(in, i, Misaligned, "address %#x of shared memory, %d bytes", at, size)
			continue
		}
		if at < uint64(s.hint.lo) || at+uint64(size) > uint64(s.hint.hi) {
			if !w.locateShared(in, i, at, size) {
				continue
			}
		}
		ok |= 1 << i
		if reads {
			w.watchReads(in, i, int(at-sharedBase), size, floor)
		} else if b.checks {
			w.watchShared(in, i, int(at-sharedBase), size, write)
		}
	}
	return ok
}

func (w *warp) locateShared(in *inst, lane int, at uint64, size int) bool {
	s := &w.b.sh
	for _, v := range s.vars {
		if at >= uint64(v.lo) && at < uint64(v.hi) && at+uint64(size) <= uint64(v.hi) {
			s.hint = v
			return true
		}
	}
	if w.b.seen(in, OutOfBounds) {
		return false
	}
	detail, best := "there is none", uint64(1)<<63
	for _, v := range s.vars {
		if d := at + uint64(size) - uint64(v.hi); at >= uint64(v.lo) && d < best {
			best = d
			w.b.sh.hint = span{}
			detail = sprintf("ends %d bytes past %s (%d bytes)", d, v.name, v.hi-v.lo)
		}
		if d := uint64(v.lo) - at; at < uint64(v.lo) && d < best {
			best = d
			detail = sprintf("begins %d bytes before %s (%d bytes)", d, v.name, v.hi-v.lo)
		}
	}
	w.fault(in, lane, OutOfBounds, "%d bytes at %#x of shared memory: %s", size, at, detail)
	return false
}

// watchReads is watchShared for reads of whole words, nearly all of which are of
// words that were written before a barrier: floor is the clock of the last that
// orders this warp after everybody.
func (w *warp) watchReads(in *inst, lane, off, size int, floor uint32) {
	s := &w.b.sh
	thread := uint64(w.id<<5 | lane)
	now := uint64(w.b.order.clock) << 32
	for k := off >> 2; k < (off+size)>>2; k++ {
		if s.state[k] != 15 || uint32(s.writer[k]>>32) > floor {
			w.watchShared(in, lane, 4*k, 4, false)
			continue
		}
		if c := s.reader[k]; c != now|15<<10|thread {
			s.read(k, thread, 15, now)
		}
	}
}

// watchShared judges one lane's access word by word. off counts from sharedBase.
func (w *warp) watchShared(in *inst, lane, off, size int, write bool) {
	b := w.b
	s := &b.sh
	thread := uint64(w.id<<5 | lane)
	now := uint64(b.order.clock) << 32
	for at := off &^ 3; at < off+size; at += 4 {
		mask := uint8(15)
		if size < 4 {
			mask = (1<<size - 1) << (off & 3)
		}
		k := at >> 2
		if st := s.state[k]; st>>4&mask != 0 {
			w.inFlight(in, lane, at, write)
		} else if write {
			s.state[k] = st | mask
		} else if st&mask != mask {
			w.unwrittenShared(in, lane, at)
		}
		if c := s.writer[k]; c != 0 && c&1023 != thread && uint8(c>>10)&mask != 0 {
			w.raceShared(in, lane, at, c, "written", write)
		}
		if !write {
			if in.class != cAtom { // an atomic counts as the write that it is
				s.read(k, thread, mask, now)
			}
			continue
		}
		for _, c := range [2]uint64{s.reader[k], s.reader2[k]} {
			if c != 0 && (c&1023 != thread || c&manyLanes != 0) && uint8(c>>10)&mask != 0 {
				w.raceShared(in, lane, at, c, "read", write)
			}
		}
		c := s.writer[k]
		if in.class == cAtom {
			s.writer[k] = now | uint64(mask)<<10 | thread | atomicBit
		} else if c&^(15<<10) == now|thread {
			s.writer[k] = c | uint64(mask)<<10
		} else {
			s.writer[k] = now | uint64(mask)<<10 | thread
		}
	}
}

// atomicBit marks a writer that was an atomic.
const atomicBit = 1 << 17

// read adds a reader to a word.
func (s *sharedMemory) read(k int, thread uint64, mask uint8, now uint64) {
	c := s.reader[k]
	if c&1023>>5 == thread>>5 && c>>32 == now>>32 { // the same warp, the same interval
		if c&1023 != thread {
			c |= manyLanes
		}
		s.reader[k] = c | uint64(mask)<<10
		return
	}
	if c&1023>>5 != thread>>5 {
		s.reader2[k] = c
	}
	s.reader[k] = now | uint64(mask)<<10 | thread
}

// raceShared reports an access that nothing orders after an earlier one.
func (w *warp) raceShared(in *inst, lane, at int, c uint64, what string, write bool) {
	b := w.b
	other := int(c & 1023)
	clock := uint32(c >> 32)
	if in.class == cAtom && c&atomicBit != 0 {
		return
	}
	verb := "reads"
	if write {
		verb = "writes"
	}
	if other>>5 == w.id {
		if clock <= b.order.synced[w.id] || b.seen(in, SharedRace) || write && what == "written" && w.sameValue(in, lane, other&31) {
			return
		}
		w.fault(in, lane, SharedRace, "%s %#x of shared memory, which lane %d of this warp has %s with no warp barrier between", verb, at+sharedBase, other&31, what)
		return
	}
	if clock <= b.order.before[w.id][other>>5] || b.seen(in, SharedRace) {
		return
	}
	w.fault(in, lane, SharedRace, "%s %#x of shared memory, which thread %v has %s with no barrier between", verb, at+sharedBase, b.r.block.at(uint64(other)), what)
}

// sameValue says whether two lanes store the same at the same address in one
// instruction, which is harmless.
func (w *warp) sameValue(in *inst, lane, other int) bool {
	a := &w.b.access
	if in.class != cSt || a.addr[lane] != a.addr[other] {
		return false
	}
	for _, r := range in.x.regs {
		f := in.typ.file()
		if in.x.wide {
			f = file64
		}
		if w.get(f, r, lane) != w.get(f, r, other) {
			return false
		}
	}
	return true
}

func (w *warp) inFlight(in *inst, lane, at int, write bool) {
	if w.b.seen(in, AsyncInFlight) {
		return
	}
	verb := "reads"
	if write {
		verb = "writes"
	}
	w.fault(in, lane, AsyncInFlight, "%s %#x of shared memory while a cp.async to it is under way", verb, at+sharedBase)
}

func (w *warp) unwrittenShared(in *inst, lane, at int) {
	if w.b.seen(in, Uninitialised) {
		return
	}
	w.fault(in, lane, Uninitialised, "%#x of shared memory was never written in this block", at+sharedBase)
}
