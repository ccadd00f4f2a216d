package ptx

import "math/bits"

// atomic runs atom and red lane by lane, in lane order.
func (w *warp) atomic(in *inst, m uint32) {
	w.addresses(in, m)
	if in.space != spaceGeneric {
		w.atomicIn(in, in.space, m)
		return
	}
	w.eachWindow(m, func(sp space, m uint32) { w.atomicIn(in, sp, m) })
}

func (w *warp) atomicIn(in *inst, sp space, m uint32) {
	size := in.typ.size()
	b := w.b
	a := &b.access
	switch sp {
	case spaceShared:
		ok := w.admitShared(in, m, size, false)
		if b.checks { // reads first: what is unwritten is reported
			ok &= w.admitShared(in, ok, size, true)
		}
		if b.count {
			w.countShared(in, m, size)
		}
		for ; ok != 0; ok &= ok - 1 {
			i := bits.TrailingZeros32(ok)
			w.modify(in, i, b.sh.data[a.addr[i]-sharedBase:])
		}
	case spaceGlobal:
		w.atomicGlobal(in, m, size)
	default:
		w.fault(in, bits.TrailingZeros32(m), ReadOnly, "an atomic in .%v", sp)
	}
}

//go:norace
func (w *warp) atomicGlobal(in *inst, m uint32, size int) {
	b := w.b
	a := &b.access
	a.dense = false
	ok := w.admitAtomic(in, m, size)
	if b.count {
		w.countGlobal(in, ok, size, true)
	}
	if in.flags&flagRelease != 0 && b.checks {
		b.order.fence(w.id)
	}
	for ; ok != 0; ok &= ok - 1 {
		i := bits.TrailingZeros32(ok)
		off := a.addr[i] - globalBase
		mu := &b.m.locks[off>>3&63]
		mu.Lock()
		if b.checks {
			w.acquire(1 << i)
		}
		w.modify(in, i, b.m.mem[off:])
		if b.checks {
			w.release(1 << i)
		}
		mu.Unlock()
	}
}

// admitAtomic judges an atomic as a read of written bytes and a strong write.
//
//go:norace
func (w *warp) admitAtomic(in *inst, m uint32, size int) uint32 {
	b := w.b
	if !b.checks {
		return w.admitGlobal(in, m, size, true)
	}
	// unwritten bytes are looked for before the write marks them
	for mm := m; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm)
		off := b.access.addr[i] - globalBase
		if off&uint64(size-1) != 0 || off >= uint64(len(b.m.mem)-16) {
			continue
		}
		o := int(off)
		if need := uint32(1)<<size - 1; b.m.init[o>>5]>>(o&31)&need != need {
			if al := b.m.find(o); al != nil && o+size <= al.hi {
				w.unwritten(in, i, o, size)
			}
		}
	}
	return w.admitGlobal(in, m, size, true)
}

// modify is the operation on memory at the head of mem.
//
//go:norace
func (w *warp) modify(in *inst, lane int, mem []byte) {
	f := in.typ.file()
	var old uint64
	switch in.typ.size() {
	case 8:
		old = le.Uint64(mem)
	case 4:
		old = uint64(le.Uint32(mem))
	default:
		old = uint64(le.Uint16(mem))
	}
	var c uint64
	if in.c >= 0 {
		c = w.get(f, in.c, lane)
	}
	v := in.x.atom(old, w.get(f, in.b, lane), c)
	switch in.typ.size() {
	case 8:
		le.PutUint64(mem, v)
	case 4:
		le.PutUint32(mem, uint32(v))
	default:
		le.PutUint16(mem, uint16(v))
	}
	if in.d >= 0 {
		w.set(f, in.d, lane, old)
	}
}
