package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Bitwise operations and moves have other names where registers 16 to 31 are
// allowed.
func evex() bool { return vnni && !narrow }

func load(m Mem, dst reg.VecVirtual) {
	if evex() {
		VMOVDQU32(m, dst)
	} else {
		VMOVDQU(m, dst)
	}
}

func store(v reg.VecVirtual, m Mem) {
	if evex() {
		VMOVDQU32(v, m)
	} else {
		VMOVDQU(v, m)
	}
}

func and(a Op, b, dst reg.VecVirtual) {
	if evex() {
		VPANDD(a, b, dst)
	} else {
		VPAND(a, b, dst)
	}
}

func or(a Op, b, dst reg.VecVirtual) {
	if evex() {
		VPORD(a, b, dst)
	} else {
		VPOR(a, b, dst)
	}
}

func xor(a Op, b, dst reg.VecVirtual) {
	if evex() {
		VPXORD(a, b, dst)
	} else {
		VPXOR(a, b, dst)
	}
}

// zero clears v. (The library does not know that VPXORD of a register with
// itself reads nothing, and would keep v alive before.)
func zero(v reg.VecVirtual) {
	if !evex() {
		VPXOR(v, v, v)
		return
	}
	Instruction(&ir.Instruction{
		Opcode: "VPXORD", Operands: []Op{v, v, v}, Inputs: []Op{v, v}, Outputs: []Op{v},
		CancellingInputs: true, ISA: []string{"AVX512F", "AVX512VL"},
	})
}

// splitPair spreads pairs of int16 scales: for the first and the second of each
// pair, (scale, scale) int16 for VPMADDWD, or float32 with VNNI. second may be
// pair.
func splitPair(pair, first, second reg.VecVirtual) {
	if vnni {
		VPSLLD(Imm(16), pair, first)
		VPSRAD(Imm(16), first, first)
		VPSRAD(Imm(16), pair, second)
		VCVTDQ2PS(first, first)
		VCVTDQ2PS(second, second)
		return
	}
	VPSHUFB(dupLow(), pair, first)
	VPSHUFB(dupHigh(), pair, second)
}

// vpdpbusd is VPDPBUSD, which the library does not know: acc += four products of
// signed a and unsigned w (Intel SDM vol. 2; operands in Go's order). The Go assembler
// does not know that of AVX-VNNI: see encode.go.
func vpdpbusd(a Op, w, acc reg.VecVirtual, suffix ...string) {
	opcode, isa := "VPDPBUSD", []string{"AVX512VL", "AVX512_VNNI"}
	if narrow {
		opcode, isa = vexDot, []string{"AVXVNNI"}
	}
	Instruction(&ir.Instruction{
		Opcode: opcode, Suffixes: suffix, Operands: []Op{a, w, acc},
		Inputs: []Op{a, w, acc}, Outputs: []Op{acc}, ISA: isa,
	})
}

// dp adds four products of unsigned w and signed a to each lane of acc.
func dp(a, w, acc reg.VecVirtual) {
	if !emulated {
		vpdpbusd(a, w, acc)
		return
	}
	x, y := YMM(), YMM()
	VPAND(bytes32("evenBytes", 255, 0), w, x)
	VPSLLW(Imm(8), a, y)
	VPSRAW(Imm(8), y, y)
	VPMADDWD(x, y, x)
	VPADDD(x, acc, acc)
	VPSRLW(Imm(8), w, x)
	VPSRAW(Imm(8), a, y)
	VPMADDWD(x, y, x)
	VPADDD(x, acc, acc)
}

// dpBroadcast is dp with the four bytes at m for every lane.
func dpBroadcast(m Mem, w, acc reg.VecVirtual) {
	if !narrow {
		vpdpbusd(m, w, acc, "BCST")
		return
	}
	a := YMM()
	VPBROADCASTD(m, a)
	dp(a, w, acc)
}

// chains is how many sums a column's products of that many quads are added up in:
// where columns are few, long chains would wait for themselves.
func chains(cols, quads int) int {
	if cols < maxCols && quads == 8 && (!narrow || cols == 1 && !emulated) {
		return 2
	}
	return 1
}

// dotQuadsVNNI is dotQuads but for factors: it makes sums the products of quads
// [from, to), and start, if not nil, what they start from; none is zero.
func (s spec) dotQuadsVNNI(r *reader, from, to int, a columns, sums []wide, none wide, start func(c int, v wide)) {
	acc := sums
	n := chains(len(sums), to-from)
	for k := 1; k < n; k++ {
		acc = append(acc[:len(acc):len(acc)], r.vectors(len(sums))...)
	}
	for i, v := range acc {
		if i < len(sums) && start != nil {
			start(i, v)
		} else {
			v.clear(none)
		}
	}
	for i, j := range s.order(from, to) {
		q := r.vector()
		r.quad(j, q)
		for c := range sums {
			acc[i%n*len(sums)+c].dot(a.at(c, 4*j), q)
		}
	}
	for i, v := range acc[len(sums):] {
		for h, x := range sums[i%len(sums)] {
			VPADDD(v[h], x, x)
		}
	}
}

// vectors are n times room for a quad.
func (r *reader) vectors(n int) []wide {
	v := make([]wide, n)
	for i := range v {
		v[i] = r.vector()
	}
	return v
}

// singles are n vectors of one panel.
func singles(n int) []wide {
	v := make([]wide, n)
	for i := range v {
		v[i] = wide{YMM()}
	}
	return v
}

// noneVNNI is a zero that loops copy, or nil where they need none.
func noneVNNI() wide {
	if !evex() {
		return nil
	}
	v := wide{YMM()}
	v.zero()
	return v
}

// block32VNNI adds a block of 32 columns to acc.
func (s spec) block32VNNI(w reg.GPVirtual, a columns, mask reg.VecVirtual, none wide, acc []reg.VecVirtual) {
	sums := singles(len(acc))
	var start func(c int, v wide)
	if s.offset != 0 {
		start = func(c int, v wide) { v.spread(a.at(c, s.lessAt())) }
	}
	s.dotQuadsVNNI(s.reader(w, s.groupAt(), mask), 0, 8, a, sums, none, start)
	d := wide{YMM()}
	VCVTPH2PS(Mem{Base: w}, d[0])
	for c, v := range sums {
		f := wide{YMM()}
		f.scaled(a.at(c, act32D), d)
		v.float()
		wide{acc[c]}.add(f, v)
	}
	if !s.min {
		return
	}
	m := wide{YMM()}
	VCVTPH2PS(Mem{Base: w, Disp: 2 * panelRows}, m[0])
	for c, v := range acc {
		wide{v}.addScaled(a.at(c, act32DSum), m)
	}
}

// scalePairVNNI is scalePair with scales in float32 (see widetile.go).
func (b *blocks256) scalePairVNNI(group, sc reg.GPVirtual) {
	s, pair, one := b.s, YMM(), YMM()
	s.loadScales(Mem{Base: sc}, pair)
	prefetch(group, s.sub/16*s.groupBytes(), nil)
	if s.sub == 16 {
		b.halvesVNNI(group, pair, one)
	} else {
		splitPair(pair, one, pair)
		for i, scale := range []reg.VecVirtual{one, pair} {
			acc, less := singles(b.cols), wide{YMM()}
			s.dotQuadsVNNI(s.reader(group, i*s.groupBytes(), b.mask), 0, 8, b.a, acc, b.none, func(_ int, v wide) { v.startMagic(nil) })
			less.magicTimes(wide{scale})
			for c, v := range acc {
				v.scaleMagic(wide{scale}, less)
				b.addFloat(c, v)
			}
			b.a.advance(act32Bytes)
		}
	}
	ADDQ(bytes(s.sub/16*s.groupBytes()), group)
	if b.mins != nil {
		b.minima(Mem{Base: sc}, 0)
	}
}

// startsHalves tells whether blocks of activations hold what the offset takes off the
// sums of their halves.
func (s spec) startsHalves() bool { return s.offset == 32 }

// startOfHalf makes what the sums of half i of a group start from; or it is nil.
func (s spec) startOfHalf(a columns, i int) func(c int, v wide) {
	if !s.startsHalves() {
		return nil
	}
	return func(c int, v wide) { v.spread(a.at(c, act32LessHalves+4*i)) }
}

// halvesVNNI does a group with two scales.
func (b *blocks256) halvesVNNI(group reg.GPVirtual, pair, one reg.VecVirtual) {
	s := b.s
	var total []wide
	if s.offset != 0 && !s.startsHalves() {
		off := YMM()
		s.negated(pair, off)
		total = singles(b.cols)
		for c, v := range total {
			v.spread(b.a.at(c, act32Halves))
			VPMADDWD(off, v[0], v[0])
			v.float()
		}
	}
	splitPair(pair, one, pair)
	r := s.reader(group, 0, b.mask)
	for i, scale := range []reg.VecVirtual{one, pair} {
		acc := b.floatSums(r, 4*i, 4*i+4, s.startOfHalf(b.a, i))
		for c, v := range acc {
			if total == nil {
				v.times(wide{scale})
			} else {
				total[c].add(v, wide{scale})
			}
		}
		if total == nil {
			total = acc
		}
	}
	for c, v := range total {
		b.addFloat(c, v)
	}
	b.a.advance(act32Bytes)
}

// floatSums are the sums of quads [from, to) in float32, with what start gives.
func (b *blocks256) floatSums(r *reader, from, to int, start func(c int, v wide)) []wide {
	acc := singles(b.cols)
	b.s.dotQuadsVNNI(r, from, to, b.a, acc, b.none, start)
	for _, v := range acc {
		v.float()
	}
	return acc
}

// addFloat folds the sum of a group into that of the block.
func (b *blocks256) addFloat(c int, v wide) {
	if b.sums != nil {
		wide{b.sums[c]}.addScaled(b.a.at(c, act32D), v)
		return
	}
	da, at := YMM(), b.stack.Offset(32*c)
	VBROADCASTSS(b.a.at(c, act32D), da)
	VFMADD213PS(at, da, v[0])
	VMOVUPS(v[0], at)
}
