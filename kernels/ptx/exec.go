package ptx

import (
	"fmt"
	"math/bits"
	"unsafe"
)

// get reads a register of any file in one lane.
func (w *warp) get(f file, i int32, lane int) uint64 {
	switch f {
	case file64:
		return w.r64[i][lane]
	case filePred:
		return uint64(w.p[i] >> lane & 1)
	}
	return uint64(w.r32[i][lane])
}

func (w *warp) set(f file, i int32, lane int, v uint64) {
	switch f {
	case file64:
		w.r64[i][lane] = v
	case filePred:
		w.p[i] = w.p[i]&^(1<<lane) | uint32(v&1)<<lane
	default:
		w.r32[i][lane] = uint32(v)
	}
}

// laneOp runs an instruction lane by lane.
func (w *warp) laneOp(in *inst, m uint32) {
	x := in.x
	if x.files == [4]file{} && in.b < 0 && in.c < 0 {
		d, a := &w.r32[in.d], &w.r32[in.a]
		for ; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			d[i] = uint32(x.lane(uint64(a[i]), 0, 0))
		}
		return
	}
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		var a, b, c uint64
		if in.a >= 0 {
			a = w.get(x.files[1], in.a, i)
		}
		if in.b >= 0 {
			b = w.get(x.files[2], in.b, i)
		}
		if in.c >= 0 {
			c = w.get(x.files[3], in.c, i)
		}
		w.set(x.files[0], in.d, i, x.lane(a, b, c))
	}
}

// compareFast compares in all lanes.
func (w *warp) compareFast(in *inst) uint32 {
	op := uint8(in.off)
	switch op &^ 15 {
	case qS64:
		return compareLoop(op, (*[32]int64)(unsafe.Pointer(&w.r64[in.a])), (*[32]int64)(unsafe.Pointer(&w.r64[in.b])))
	case qU64:
		return compareLoop(op, &w.r64[in.a], &w.r64[in.b])
	case qU32:
		return compareLoop(op, &w.r32[in.a], &w.r32[in.b])
	case qF32:
		return compareLoop(op, (*[32]float32)(unsafe.Pointer(&w.r32[in.a])), (*[32]float32)(unsafe.Pointer(&w.r32[in.b])))
	}
	return compareLoop(op, (*[32]int32)(unsafe.Pointer(&w.r32[in.a])), (*[32]int32)(unsafe.Pointer(&w.r32[in.b])))
}

// compareLanes compares lane by lane. Of a packed comparison the upper half goes
// to the upper word of the result's second predicate: see setPreds.
func (w *warp) compareLanes(in *inst, m uint32) (r uint32) {
	f := in.typ.file()
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m)
		if in.x.cmp(w.get(f, in.a, i)&mask(min(in.typ.bits(), 64)), w.get(f, in.b, i)&mask(min(in.typ.bits(), 64))) {
			r |= 1 << i
		}
	}
	return r
}

// setPreds combines a comparison with the predicate c and writes p and q.
func (w *warp) setPreds(in *inst, m, r uint32) {
	if in.typ == tF16x2 || in.typ == tBF16x2 {
		w.setHalfPreds(in, m)
		return
	}
	q := ^r
	if in.op != 255 {
		c := w.p[in.c]
		if in.flags&flagNegC != 0 {
			c = ^c
		}
		r, q = boolOp(in.op, r, c), boolOp(in.op, q, c)
	}
	w.p[in.d] = w.p[in.d]&^m | r&m
	if in.e >= 0 {
		w.p[in.e] = w.p[in.e]&^m | q&m
	}
}

func boolOp(op uint8, a, b uint32) uint32 {
	switch op {
	case 0:
		return a & b
	case 1:
		return a | b
	}
	return a ^ b
}

// setHalfPreds compares both halves: p is of the lower, q of the upper.
func (w *warp) setHalfPreds(in *inst, m uint32) {
	var lo, hi uint32
	for mm := m; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm)
		a, b := uint64(w.r32[in.a][i]), uint64(w.r32[in.b][i])
		lo |= bit(in.x.cmp(a&0xffff, b&0xffff)) << i
		hi |= bit(in.x.cmp(a>>16, b>>16)) << i
	}
	if in.op != 255 {
		c := w.p[in.c]
		if in.flags&flagNegC != 0 {
			c = ^c
		}
		lo, hi = boolOp(in.op, lo, c), boolOp(in.op, hi, c)
	}
	w.p[in.d] = w.p[in.d]&^m | lo&m
	w.p[in.e] = w.p[in.e]&^m | hi&m
}

func (w *warp) predOp(in *inst, m uint32) {
	a := w.p[in.a]
	if in.flags&flagNegA != 0 {
		a = ^a
	}
	switch in.op {
	case 3:
		a = ^a
	case 4:
	default:
		b := w.p[in.b]
		if in.flags&flagNegB != 0 {
			b = ^b
		}
		a = boolOp(in.op, a, b)
	}
	w.p[in.d] = w.p[in.d]&^m | a&m
}

// carry runs the extended-precision instructions on the lanes' carry flags.
func (w *warp) carry(in *inst, m uint32) {
	f, n := in.typ.file(), in.typ.bits()
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m)
		a, b := w.get(f, in.a, i), w.get(f, in.b, i)
		cin := uint64(0)
		if in.op&carryIn != 0 {
			cin = uint64(w.cc >> i & 1)
		}
		var r, out uint64
		switch in.op & 15 {
		case carrySub:
			r, out = bits.Sub64(a, b, cin)
			out &= 1
			if n == 32 {
				out = r >> 32 & 1
			}
		default:
			if op := in.op & 15; op != carryAdd {
				p := a * b
				if op == carryMadHi {
					p = mulHigh(a, b, in.typ)
				}
				a, b = p&mask(n), w.get(f, in.c, i)
			}
			r, out = bits.Add64(a, b, cin)
			if n == 32 {
				out = r >> 32 & 1
			}
		}
		w.set(f, in.d, i, r&mask(n))
		if in.op&carryOut != 0 {
			w.cc = w.cc&^(1<<i) | uint32(out)<<i
		}
	}
}

func (w *warp) pack(in *inst, m uint32) {
	r := in.x.regs
	if in.n == 2 && !in.x.wide && m == ^uint32(0) {
		lo, hi := &w.r32[r[0]], &w.r32[r[1]]
		if in.typ.size() == 4 {
			for i, v := range hi {
				w.blend32[i] = v<<16 | lo[i]&0xffff
			}
			w.r32[in.d] = w.blend32
			return
		} else if in.typ.size() == 8 {
			d := &w.r64[in.d]
			for i, v := range hi {
				d[i] = uint64(v)<<32 | uint64(lo[i])
			}
			return
		}
	}
	n := in.typ.bits() / uint(in.n)
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m)
		var v uint64
		for k, r := range r {
			v |= w.get(in.x.files[1], r, i) & mask(n) << (uint(k) * n)
		}
		w.set(in.typ.file(), in.d, i, v)
	}
}

func (w *warp) unpack(in *inst, m uint32) {
	r := in.x.regs
	if in.n == 2 && m == ^uint32(0) {
		lo, hi := &w.r32[r[0]], &w.r32[r[1]]
		if in.typ.size() == 4 {
			for i, v := range w.r32[in.a] {
				lo[i], hi[i] = v&0xffff, v>>16
			}
			return
		} else if in.typ.size() == 8 {
			for i, v := range w.r64[in.a] {
				lo[i], hi[i] = uint32(v), uint32(v>>32)
			}
			return
		}
	}
	f, n := in.typ.file(), in.typ.bits()/uint(in.n)
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m)
		v := w.get(f, in.a, i)
		for k, r := range r {
			w.r32[r][i] = uint32(v >> (uint(k) * n) & mask(n))
		}
	}
}

// clock gives the block's count of instructions.
func (w *warp) clock(in *inst, m uint32) {
	v := uint64(w.b.steps)
	if special(in.op) == spClockHi {
		v >>= 32
	}
	for ; m != 0; m &= m - 1 {
		w.set(in.typ.file(), in.d, bits.TrailingZeros32(m), v&mask(in.typ.bits()))
	}
}

func (w *warp) trap(in *inst, m uint32) {
	w.b.dead = true
	w.b.r.fail(fmt.Errorf("ptx line %d: trap: block %v thread %v", in.line, w.b.cta, w.thread(m)))
}
