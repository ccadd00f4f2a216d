package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// wide is sixteen lanes, eight rows of one panel and eight of the next: a 512-bit
// register or, narrow, two of 256 bits.
type wide []reg.VecVirtual

const wideBytes = 64

func newWide() wide {
	if narrow {
		return ymms(2)
	}
	return wide{ZMM()}
}

func wides(n int) []wide {
	v := make([]wide, n)
	for i := range v {
		v[i] = newWide()
	}
	return v
}

// part is the operand in memory of half i of a wide, or of all of it.
func part(m Mem, i int) Mem { return m.Offset(32 * i) }

func (w wide) load(m Mem) {
	for i, v := range w {
		VMOVUPS(part(m, i), v)
	}
}

// load2 loads 32 bytes at m and the 32 that are stride after them.
func (w wide) load2(m Mem, stride reg.GPVirtual) {
	if narrow {
		load(m, w[0])
		load(beyond(m, stride), w[1])
		return
	}
	loadLow(m, w[0], w[0].AsY())
	VINSERTI64X4(Imm(1), beyond(m, stride), w[0], w[0])
}

// halves loads 16 bytes at m and the 16 that are stride after them, for
// instructions that make lanes twice as wide.
func halves(m Mem, stride reg.GPVirtual) reg.VecVirtual {
	v := YMM()
	loadLow(m, v, v.AsX())
	VINSERTI32X4(Imm(1), beyond(m, stride), v, v)
	return v
}

// loadLow loads part of v, which makes the rest 0. (The library does not know the
// latter, and would keep v alive before.)
func loadLow(m Mem, v, part reg.Register) {
	Instruction(&ir.Instruction{
		Opcode: "VMOVDQU32", Operands: []Op{m, part}, Inputs: []Op{m}, Outputs: []Op{v},
		ISA: []string{"AVX512F", "AVX512VL"},
	})
}

// beyond is what is stride after m.
func beyond(m Mem, stride reg.GPVirtual) Mem {
	m.Index, m.Scale = stride, 1
	return m
}

// loadF16 makes float32 of eight binary16 at m and eight that are stride after them.
func (w wide) loadF16(m Mem, stride reg.GPVirtual) {
	if narrow {
		VCVTPH2PS(m, w[0])
		VCVTPH2PS(beyond(m, stride), w[1])
		return
	}
	VCVTPH2PS(halves(m, stride), w[0])
}

// loadBytes makes int16 of 16 bytes at m and 16 that are stride after them.
func (w wide) loadBytes(m Mem, stride reg.GPVirtual, signed bool) {
	widen := VPMOVZXBW
	if signed {
		widen = VPMOVSXBW
	}
	if narrow {
		widen(m, w[0])
		widen(beyond(m, stride), w[1])
		return
	}
	widen(halves(m, stride), w[0])
}

func (w wide) store(m Mem) {
	for i, v := range w {
		VMOVUPS(v, part(m, i))
	}
}

// zero clears w. Not every processor knows the forms that AVX-512 has of this for
// what they are: use clear in loops.
func (w wide) zero() {
	for _, v := range w {
		zero(v)
	}
}

// clear makes w a copy of none, which is zero: that is done by the renaming of
// registers. Narrow ones need no copy.
func (w wide) clear(none wide) {
	for i, v := range w {
		if narrow {
			zero(v)
		} else {
			VMOVDQA64(none[i], v)
		}
	}
}

// spread fills w with the four bytes at m.
func (w wide) spread(m Mem) {
	for _, v := range w {
		VPBROADCASTD(m, v)
	}
}

// spreadOnce is a wide of the four bytes at m, in one register if narrow.
func spreadOnce(m Mem) wide {
	if narrow {
		v := YMM()
		VPBROADCASTD(m, v)
		return wide{v, v}
	}
	v := newWide()
	v.spread(m)
	return v
}

// dot adds four products of unsigned q and the signed bytes at m to each lane.
func (w wide) dot(m Mem, q wide) {
	for i, v := range w {
		dpBroadcast(m, q[i], v)
	}
}

// pairs multiplies pairs of int16 by those of a and adds the two products.
func (w wide) pairs(a wide) {
	for i, v := range w {
		VPMADDWD(a[i], v, v)
	}
}

// float converts int32.
func (w wide) float() {
	for _, v := range w {
		VCVTDQ2PS(v, v)
	}
}

// timesAt multiplies by what is at m.
func (w wide) timesAt(m Mem) {
	for i, v := range w {
		VMULPS(part(m, i), v, v)
	}
}

// addAt adds a times what is at m, rounded once.
func (w wide) addAt(a wide, m Mem) {
	for i, v := range w {
		VFMADD231PS(part(m, i), a[i], v)
	}
}

// An int32 sum of magnitude below 2²² that starts from the bits of the float32 magic,
// 1.5·2²³, is magic plus that sum when it is taken for a float32. Its product with a
// scale, of at most 24 bits, is then one operation, rounded once: magic is taken off
// in it, times the scale.
func magic() Mem     { return words("magic", 0x4b400000) }
func lessMagic() Mem { return words("lessMagic", 0xcb400000) }

// startMagic makes w magic, a copy of m or, where that is nil, from memory.
func (w wide) startMagic(m wide) {
	for i, v := range w {
		if m == nil {
			VMOVUPS(magic(), v)
		} else {
			VMOVDQA64(m[i], v)
		}
	}
}

// magicTimes makes w what magic adds to a product with sc, negated.
func (w wide) magicTimes(sc wide) {
	for i, v := range w {
		if w.full() {
			VMULPS_BCST(lessMagic(), sc[i], v)
		} else {
			VMULPS(lessMagic(), sc[i], v)
		}
	}
}

// scaleMagic makes w, a sum from magic, its product with sc; less is of magicTimes.
func (w wide) scaleMagic(sc, less wide) {
	for i, v := range w {
		VFMADD213PS(less[i], sc[i], v)
	}
}

// times multiplies by a.
func (w wide) times(a wide) {
	for i, v := range w {
		VMULPS(a[i], v, v)
	}
}

// scaled is a times the float32 at m.
func (w wide) scaled(m Mem, a wide) {
	for i, v := range w {
		if narrow {
			VBROADCASTSS(m, v)
			VMULPS(a[i], v, v)
		} else {
			VMULPS_BCST(m, a[i], v)
		}
	}
}

// add adds a·b, rounded once.
func (w wide) add(a, b wide) {
	for i, v := range w {
		VFMADD231PS(a[i], b[i], v)
	}
}

// addScaled adds a times the float32 at m, rounded once.
func (w wide) addScaled(m Mem, a wide) {
	if narrow {
		w.add(spreadOnce(m)[:len(w)], a)
		return
	}
	for i, v := range w {
		VFMADD231PS_BCST(m, a[i], v)
	}
}

// subScaled takes off a times the float32 at m, rounded once.
func (w wide) subScaled(m Mem, a wide) {
	if narrow {
		w.sub(spreadOnce(m)[:len(w)], a)
		return
	}
	for i, v := range w {
		VFNMADD231PS_BCST(m, a[i], v)
	}
}

// timesAdd makes w what is at m and w·a, rounded once.
func (w wide) timesAdd(a wide, m Mem) {
	for i, v := range w {
		VFMADD213PS(part(m, i), a[i], v)
	}
}

// sub takes a·b off, rounded once.
func (w wide) sub(a, b wide) {
	for i, v := range w {
		VFNMADD231PS(a[i], b[i], v)
	}
}

// full tells whether w is one register of 512 bits.
func (w wide) full() bool { return len(w) == 1 && w[0].Size() == wideBytes }

// andConst makes w the bits of from that are in the constant m, which repeats four
// bytes.
func (w wide) andConst(m Mem, from wide) {
	for i, v := range w {
		if w.full() {
			VPANDD_BCST(m, from[i], v)
		} else {
			and(m, from[i], v)
		}
	}
}

// xorConst turns the bits of the constant m, which repeats four bytes.
func (w wide) xorConst(m Mem) {
	for _, v := range w {
		if w.full() {
			VPXORD_BCST(m, v, v)
		} else {
			xor(m, v, v)
		}
	}
}

// lookUp replaces bytes below 16 by what is there in the constant m, which repeats 16
// bytes.
func (w wide) lookUp(m Mem) {
	if w.full() {
		t := ZMM()
		VBROADCASTI32X4(m, t)
		VPSHUFB(w[0], t, w[0])
		return
	}
	t := YMM()
	load(m, t)
	for _, v := range w {
		VPSHUFB(v, t, v)
	}
}

// shuffle picks bytes of from by the constant m, which repeats 16 bytes.
func (w wide) shuffle(m Mem, from wide) {
	order := newWide()
	if w.full() {
		VBROADCASTI32X4(m, order[0])
	}
	for i, v := range w {
		if w.full() {
			VPSHUFB(order[0], from[i], v)
		} else {
			VPSHUFB(m, from[i], v)
		}
	}
}

// addConst adds the constant m, which repeats four bytes, to 16-bit lanes.
func (w wide) addConst(m Mem) {
	for _, v := range w {
		if w.full() {
			c := ZMM()
			VPBROADCASTD(m, c)
			VPADDW(c, v, v)
		} else {
			VPADDW(m, v, v)
		}
	}
}

// shiftRight and shiftLeft shift 16-bit lanes.
func (w wide) shiftRight(n uint64, from wide) {
	for i, v := range w {
		VPSRLW(Imm(n), from[i], v)
	}
}

func (w wide) shiftLeft(n uint64, from wide) {
	for i, v := range w {
		VPSLLW(Imm(n), from[i], v)
	}
}
