package ptx

import (
	"encoding/binary"
	"math/bits"
)

var le = binary.LittleEndian

// access is the addresses of one memory instruction.
type access struct {
	addr [32]uint64
	// dense says that all 32 lanes run and lane i's address is lane 0's plus i
	// times the size: most of what is well coalesced.
	dense bool
}

// addresses computes the lanes' addresses.
func (w *warp) addresses(in *inst, m uint32) {
	a := &w.b.access
	off := uint64(in.off)
	if in.flags&flagAddr32 != 0 {
		for i, v := range &w.r32[in.a] {
			a.addr[i] = uint64(v + uint32(off))
		}
		return
	}
	for i, v := range &w.r64[in.a] {
		a.addr[i] = v + off
	}
}

// isDense sets access.dense for accesses of size bytes.
func (a *access) isDense(m uint32, size int) {
	a.dense = false
	if m != ^uint32(0) {
		return
	}
	v := a.addr[0]
	for _, x := range &a.addr {
		if x != v {
			return
		}
		v += uint64(size)
	}
	a.dense = true
}

// window is the state space of a generic address.
func window(addr uint64) space {
	switch addr & windowMask {
	case sharedWindow:
		return spaceShared
	case localWindow:
		return spaceLocal
	case paramWindow:
		return spaceParam
	}
	return spaceGlobal
}

// eachWindow calls f for the lanes of each space that generic addresses name,
// with the addresses made those of the space.
func (w *warp) eachWindow(m uint32, f func(sp space, m uint32)) {
	a := &w.b.access
	for m != 0 {
		sp := window(a.addr[bits.TrailingZeros32(m)])
		var sub uint32
		for mm := m; mm != 0; mm &= mm - 1 {
			if i := bits.TrailingZeros32(mm); window(a.addr[i]) == sp {
				sub |= 1 << i
				if sp != spaceGlobal {
					a.addr[i] &^= windowMask
				}
			}
		}
		f(sp, sub)
		m &^= sub
	}
}

func (w *warp) load(in *inst, m uint32) {
	w.addresses(in, m)
	if in.space != spaceGeneric {
		w.loadFrom(in, in.space, m)
		return
	}
	w.eachWindow(m, func(sp space, m uint32) { w.loadFrom(in, sp, m) })
}

func (w *warp) loadFrom(in *inst, sp space, m uint32) {
	size := in.typ.size() * int(in.n)
	a := &w.b.access
	var mem []byte
	var base uint64
	var ok uint32
	switch sp {
	case spaceShared:
		ok = w.admitShared(in, m, size, false)
		mem, base = w.b.sh.data, sharedBase
		if w.b.count {
			w.countShared(in, m, size)
		}
	case spaceLocal:
		w.loadLocal(in, m, size)
		return
	case spaceParam:
		w.paramLanes(in, m, size)
		return
	default:
		a.isDense(m, size)
		ok = w.admitGlobal(in, m, size, false)
		mem, base = w.b.m.mem, globalBase
		if w.b.count {
			w.countGlobal(in, ok, size, false)
		}
	}
	if bad := m &^ ok; bad != 0 {
		w.zeroRegs(in, bad)
	}
	w.loadRegs(in, mem, base, ok)
	if in.flags&flagStrong != 0 && w.b.checks && base == globalBase { // after the data: what it saw was released before
		w.acquire(ok)
	}
}

var zeroes [8]byte

func (w *warp) zeroRegs(in *inst, m uint32) {
	for _, r := range in.x.regs {
		for mm := m; mm != 0; mm &= mm - 1 {
			w.put(in, r, bits.TrailingZeros32(mm), zeroes[:])
		}
	}
}

// loadRegs moves admitted data to registers.
//
//go:norace
func (w *warp) loadRegs(in *inst, mem []byte, base uint64, m uint32) {
	a := &w.b.access
	size := uint64(in.typ.size())
	for k, reg := range in.x.regs {
		at := uint64(k)*size - base
		switch {
		case in.x.wide:
			for mm := m; mm != 0; mm &= mm - 1 {
				i := bits.TrailingZeros32(mm) & 31
				w.put(in, reg, i, mem[a.addr[i]+at:])
			}
		case size == 4:
			r := &w.r32[reg]
			if m == ^uint32(0) {
				for i := range r {
					r[i] = le.Uint32(mem[a.addr[i]+at:])
				}
				continue
			}
			for mm := m; mm != 0; mm &= mm - 1 {
				i := bits.TrailingZeros32(mm) & 31
				r[i] = le.Uint32(mem[a.addr[i]+at:])
			}
		case size == 8:
			r := &w.r64[reg]
			for mm := m; mm != 0; mm &= mm - 1 {
				i := bits.TrailingZeros32(mm) & 31
				r[i] = le.Uint64(mem[a.addr[i]+at:])
			}
		case size == 2 && in.flags&flagSigned == 0 && in.x.width <= 32:
			r := &w.r32[reg]
			for mm := m; mm != 0; mm &= mm - 1 {
				i := bits.TrailingZeros32(mm) & 31
				r[i] = uint32(le.Uint16(mem[a.addr[i]+at:]))
			}
		default:
			for mm := m; mm != 0; mm &= mm - 1 {
				i := bits.TrailingZeros32(mm) & 31
				w.put(in, reg, i, mem[a.addr[i]+at:])
			}
		}
	}
}

// put brings one loaded element to a register's width.
//
//go:norace
func (w *warp) put(in *inst, reg int32, lane int, b []byte) {
	var v uint64
	switch in.typ.size() {
	case 8:
		v = le.Uint64(b)
	case 4:
		v = uint64(le.Uint32(b))
	case 2:
		v = uint64(le.Uint16(b))
	default:
		v = uint64(b[0])
	}
	if in.flags&flagSigned != 0 {
		v = uint64(sext(v, in.typ.bits())) & mask(uint(in.x.width))
	}
	if in.x.wide || in.typ.size() == 8 {
		w.r64[reg][lane] = v
	} else {
		w.r32[reg][lane] = uint32(v)
	}
}

// take writes one register's element.
//
//go:norace
func (w *warp) take(in *inst, reg int32, lane int, b []byte) {
	var v uint64
	if in.x.wide || in.typ.size() == 8 {
		v = w.r64[reg][lane]
	} else {
		v = uint64(w.r32[reg][lane])
	}
	switch in.typ.size() {
	case 8:
		le.PutUint64(b, v)
	case 4:
		le.PutUint32(b, uint32(v))
	case 2:
		le.PutUint16(b, uint16(v))
	default:
		b[0] = byte(v)
	}
}

func (w *warp) store(in *inst, m uint32) {
	w.addresses(in, m)
	if in.space != spaceGeneric {
		w.storeTo(in, in.space, m)
		return
	}
	w.eachWindow(m, func(sp space, m uint32) { w.storeTo(in, sp, m) })
}

func (w *warp) storeTo(in *inst, sp space, m uint32) {
	size := in.typ.size() * int(in.n)
	a := &w.b.access
	switch sp {
	case spaceShared:
		ok := w.admitShared(in, m, size, true)
		if w.b.count {
			w.countShared(in, m, size)
		}
		w.storeRegs(in, w.b.sh.data, sharedBase, ok)
	case spaceLocal:
		w.storeLocal(in, m, size)
	case spaceParam:
		w.fault(in, bits.TrailingZeros32(m), ReadOnly, "writes to a parameter")
	default:
		a.isDense(m, size)
		ok := w.admitGlobal(in, m, size, true)
		if w.b.count {
			w.countGlobal(in, ok, size, true)
		}
		if in.flags&flagRelease != 0 {
			w.b.order.fence(w.id)
		}
		if in.flags&flagStrong != 0 && w.b.checks { // before the data: who sees it may rely on this
			w.release(ok)
		}
		w.storeRegs(in, w.b.m.mem, globalBase, ok)
	}
}

// storeRegs moves registers to admitted places. Of several lanes at one address
// the last wins.
//
//go:norace
func (w *warp) storeRegs(in *inst, mem []byte, base uint64, m uint32) {
	a := &w.b.access
	size := uint64(in.typ.size())
	for k, reg := range in.x.regs {
		at := uint64(k)*size - base
		switch {
		case in.x.wide || size == 1:
			for mm := m; mm != 0; mm &= mm - 1 {
				i := bits.TrailingZeros32(mm) & 31
				w.take(in, reg, i, mem[a.addr[i]+at:])
			}
		case size == 8:
			r := &w.r64[reg]
			for mm := m; mm != 0; mm &= mm - 1 {
				i := bits.TrailingZeros32(mm) & 31
				le.PutUint64(mem[a.addr[i]+at:], r[i])
			}
		case size == 4:
			r := &w.r32[reg]
			for mm := m; mm != 0; mm &= mm - 1 {
				i := bits.TrailingZeros32(mm) & 31
				le.PutUint32(mem[a.addr[i]+at:], r[i])
			}
		default:
			r := &w.r32[reg]
			for mm := m; mm != 0; mm &= mm - 1 {
				i := bits.TrailingZeros32(mm) & 31
				le.PutUint16(mem[a.addr[i]+at:], uint16(r[i]))
			}
		}
	}
}

// loadParam reads a kernel's parameters, which are the same in all lanes.
func (w *warp) loadParam(in *inst, m uint32) {
	if in.flags&flagUniform != 0 && m == ^uint32(0) && !in.x.wide && w.loadUniform(in) {
		return
	}
	w.addresses(in, m)
	w.paramLanes(in, m, in.typ.size()*int(in.n))
}

// loadUniform loads what all 32 lanes take from one place; false where it is not
// to be had, or not this way.
func (w *warp) loadUniform(in *inst) bool {
	params, elem := w.b.r.params, uint64(in.typ.size())
	at := w.r64[in.a][0] + uint64(in.off)
	if n := elem * uint64(in.n); at > uint64(len(params)) || uint64(len(params))-at < n || at%n != 0 {
		return false
	}
	for k, r := range in.x.regs {
		b := params[at+uint64(k)*elem:]
		switch elem {
		case 8:
			v := le.Uint64(b)
			d := &w.r64[r]
			for i := range d {
				d[i] = v
			}
		case 4:
			v := le.Uint32(b)
			d := &w.r32[r]
			for i := range d {
				d[i] = v
			}
		default:
			w.put(in, r, 0, b)
			d := &w.r32[r]
			for i := range d {
				d[i] = d[0]
			}
		}
	}
	return true
}

func (w *warp) paramLanes(in *inst, m uint32, size int) {
	a, params := &w.b.access, w.b.r.params
	elem := in.typ.size()
	for mm := m; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm)
		at := a.addr[i]
		if at >= uint64(len(params)) || uint64(size) > uint64(len(params))-at {
			w.fault(in, i, OutOfBounds, "reads %d bytes at %d of %d bytes of parameters", size, int64(at), len(params))
			w.zeroRegs(in, 1<<i)
			continue
		}
		if at%uint64(size) != 0 {
			w.fault(in, i, Misaligned, "reads %d bytes at %d of the parameters", size, at)
		}
		for k, r := range in.x.regs {
			w.put(in, r, i, params[int(at)+k*elem:])
		}
	}
}

// localSpan checks one lane's access to local memory and gives its place.
func (w *warp) localSpan(in *inst, lane, size int) (int, bool) {
	at := w.b.access.addr[lane]
	if at%uint64(size) != 0 {
		w.fault(in, lane, Misaligned, "address %#x of local memory, %d bytes", at, size)
		return 0, false
	}
	p := w.b.p
	for _, s := range p.localVars {
		if at >= uint64(s.lo) && at+uint64(size) <= uint64(s.hi) {
			return lane*p.localBytes + int(at), true
		}
	}
	w.fault(in, lane, OutOfBounds, "%d bytes at %#x of local memory lie in no variable", size, at)
	return 0, false
}

func (w *warp) loadLocal(in *inst, m uint32, size int) {
	elem := in.typ.size()
	for mm := m; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm)
		at, ok := w.localSpan(in, i, size)
		if !ok {
			w.zeroRegs(in, 1<<i)
			continue
		}
		if w.b.checks {
			for k, on := range w.localInit[at : at+size] {
				if !on {
					w.fault(in, i, Uninitialised, "byte %#x of local memory was never written", int(w.b.access.addr[i])+k)
					break
				}
			}
		}
		for k, r := range in.x.regs {
			w.put(in, r, i, w.local[at+k*elem:])
		}
	}
}

func (w *warp) storeLocal(in *inst, m uint32, size int) {
	elem := in.typ.size()
	for mm := m; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm)
		at, ok := w.localSpan(in, i, size)
		if !ok {
			continue
		}
		for k := range size {
			w.localInit[at+k] = true
		}
		for k, r := range in.x.regs {
			w.take(in, r, i, w.local[at+k*elem:])
		}
	}
}

// spaceTest is isspacep.
func (w *warp) spaceTest(in *inst, m uint32) {
	for mm := m; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm)
		sp := window(w.r64[in.a][i])
		ok := sp == in.space
		if in.space == spaceConst || in.space == spaceGlobal {
			a := w.b.m.find(int(w.r64[in.a][i] - globalBase))
			ok = sp == spaceGlobal && (a != nil && a.readOnly) == (in.space == spaceConst)
		}
		w.setPred(in.d, 1<<i, ok)
	}
}
