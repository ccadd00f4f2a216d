package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// blocks256 are the blocks of 256 columns of a panel times some columns of
// activations. Results are on the stack; so are, where registers are few, the
// blocks' sums.
type blocks256 struct {
	s       spec
	w       reg.GPVirtual
	mask    reg.VecVirtual
	a       columns // at the group that is next
	cols    int
	none    wide             // of noneVNNI
	sums    []reg.VecVirtual // Σ da·float(exact sum of a group), or nil
	mins    []reg.VecVirtual // the same of minima, or nil if there are none
	results Mem
	stack   Mem // sums if not in registers
}

// mat256: types with blocks of 256. For every 32 columns an exact integer sum
// with the sub-block scales in it, less the offset; then s += da·float(sum); after
// the block acc += d·s and acc −= m·t, where t is likewise of the minima.
func mat256(s spec, cols int) {
	dst, ldd, w, act, lda, blocks, count := matParams(s.name, cols)
	b := &blocks256{s: s, w: w, cols: cols, results: aligned(32 * cols), none: noneVNNI()}
	inRegisters := cols <= 2 || evex()
	if !inRegisters {
		b.stack = aligned(32 * cols)
	}
	base, left := GP64(), GP64()
	group, sc, rounds := GP64(), GP64(), GP64()
	if cols < maxCols || s.high == 0 || evex() {
		b.mask = s.lowMask()
	}
	Label("panel")
	clearStack(b.results, cols)
	MOVQ(act, base)
	b.a = newColumns(cols, base, lda)
	MOVQ(blocks, left)
	Label("block")
	if inRegisters {
		b.sums = b.zeros()
		if s.min {
			b.mins = b.zeros()
		}
	} else {
		clearStack(b.stack, cols)
	}
	LEAQ(Mem{Base: w, Disp: s.groupAt()}, group)
	LEAQ(Mem{Base: w, Disp: s.scAt()}, sc)
	MOVQ(U32(uint32(s.rounds())), rounds)
	Label("groups")
	if vnni {
		b.scalePairVNNI(group, sc)
	} else {
		b.scalePair(group, sc)
	}
	ADDQ(bytes(2*panelRows), sc)
	DECQ(rounds)
	JNZ(LabelRef("groups"))
	b.finish()
	ADDQ(bytes(s.blockBytes()), w)
	DECQ(left)
	JNZ(LabelRef("block"))
	out := GP64()
	MOVQ(dst, out)
	for c := range cols {
		v := YMM()
		VMOVUPS(b.results.Offset(32*c), v)
		VMOVUPS(v, Mem{Base: out})
		if c < cols-1 {
			ADDQ(ldd, out)
		}
	}
	ADDQ(bytes(4*panelRows), dst)
	DECQ(count)
	JNZ(LabelRef("panel"))
	VZEROUPPER()
	RET()
}

// zeros is a vector of zeros for every column.
func (b *blocks256) zeros() []reg.VecVirtual {
	if !vnni {
		return zeros(b.cols)
	}
	v := ymms(b.cols)
	for _, x := range v {
		wide{x}.clear(b.none)
	}
	return v
}

// zeros are n vectors of zeros.
func zeros(n int) []reg.VecVirtual {
	v := ymms(n)
	for _, x := range v {
		zero(x)
	}
	return v
}

// aligned is room for vectors on the stack that no line of memory ends in.
func aligned(bytes int) Mem {
	p := GP64()
	LEAQ(AllocLocal(bytes+32).Offset(31), p)
	ANDQ(I8(-32), p)
	return Mem{Base: p}
}

// clearStack zeroes n vectors at m.
func clearStack(m Mem, n int) {
	none := YMM()
	zero(none)
	for i := range n {
		VMOVUPS(none, m.Offset(32*i))
	}
}

// rounds is the number of pairs of scales.
func (s spec) rounds() int { return s.values / s.sub / 2 }

// loadScales reads the pair of scales at m as int16.
func (s spec) loadScales(m Mem, dst reg.VecVirtual) {
	if s.signedSc {
		VPMOVSXBW(m, dst)
		return
	}
	VPMOVZXBW(m, dst)
	if s.nibble {
		and(bytes32("nibble16", 15, 0), dst, dst)
	}
}

// negated is −offset times int16 scales.
func (s spec) negated(scales, dst reg.VecVirtual) {
	none := YMM()
	zero(none)
	VPSUBW(scales, none, dst)
	VPSLLW(Imm(log2(s.offset)), dst, dst)
}

// loadMins reads the pair of minima of the scales at m as int16.
func (s spec) loadMins(m Mem, dst reg.VecVirtual) {
	if s.nibble {
		VPMOVZXBW(m, dst)
		VPSRLW(Imm(4), dst, dst)
		return
	}
	VPMOVZXBW(m.Offset(s.mnAt()-s.scAt()), dst)
}

// floatMins makes float32 of a pair of minima; second may be pair.
func floatMins(pair, first, second reg.VecVirtual) {
	wide{first}.andConst(words("low16", 0xffff), wide{pair})
	VCVTDQ2PS(first, first)
	VPSRLD(Imm(16), pair, second)
	VCVTDQ2PS(second, second)
}

// scalePair does the columns of two sub-blocks and advances group and the
// columns.
func (b *blocks256) scalePair(group, sc reg.GPVirtual) {
	s, pair, one := b.s, YMM(), YMM()
	s.loadScales(Mem{Base: sc}, pair)
	prefetch(group, s.sub/16*s.groupBytes(), nil)
	if s.sub == 16 {
		b.halves(group, pair, one)
	} else {
		splitPair(pair, one, pair)
		first, second := ymms(b.cols), ymms(b.cols)
		s.dotQuads(s.reader(group, 0, b.mask), 0, 8, b.a, b.cols, one, first, true)
		b.a.advance(act32Bytes)
		r := s.reader(group, s.groupBytes(), b.mask)
		r.late = func() { b.add(first, 1) }
		s.dotQuads(r, 0, 8, b.a, b.cols, pair, second, true)
		b.add(second, 0)
		b.a.advance(act32Bytes)
	}
	ADDQ(bytes(s.sub/16*s.groupBytes()), group)
	if b.mins != nil {
		b.minima(Mem{Base: sc}, 0)
	}
}

// halves does a group with two scales.
func (b *blocks256) halves(group reg.GPVirtual, pair, one reg.VecVirtual) {
	s, off := b.s, pair
	if s.offset != 0 {
		off = YMM()
		s.negated(pair, off)
	}
	splitPair(pair, one, pair)
	ints, r := ymms(b.cols), s.reader(group, 0, b.mask)
	for c := range b.cols {
		if s.offset != 0 {
			VPBROADCASTD(b.a.at(c, act32Halves), ints[c])
			VPMADDWD(off, ints[c], ints[c])
		}
	}
	s.dotQuads(r, 0, 4, b.a, b.cols, one, ints, s.offset == 0)
	s.dotQuads(r, 4, 8, b.a, b.cols, pair, ints, false)
	b.add(ints, 0)
	b.a.advance(act32Bytes)
}

// add folds the integers of a group, that n before the columns, into the sums.
func (b *blocks256) add(ints []reg.VecVirtual, n int) {
	for c, v := range ints {
		da := YMM()
		VBROADCASTSS(b.a.back(c, n, act32D), da)
		VCVTDQ2PS(v, v)
		if b.sums != nil {
			VFMADD231PS(v, da, b.sums[c])
			continue
		}
		at := b.stack.Offset(32 * c)
		VFMADD213PS(at, da, v)
		VMOVUPS(v, at)
	}
}

// finish folds the sums of a block, and of its minima, into the results.
func (b *blocks256) finish() {
	if b.s.min && b.mins == nil {
		b.mins = zeros(b.cols)
		for p := range b.s.rounds() {
			b.minima(Mem{Base: b.w, Disp: b.s.scAt() + 2*panelRows*p}, b.s.rounds()-1-p)
		}
	}
	d, m := YMM(), YMM()
	VCVTPH2PS(Mem{Base: b.w}, d)
	if b.s.min {
		VCVTPH2PS(Mem{Base: b.w, Disp: 2 * panelRows}, m)
	}
	for c := range b.cols {
		v, at := YMM(), b.results.Offset(32*c)
		if b.sums != nil {
			v = b.sums[c]
		} else {
			VMOVUPS(b.stack.Offset(32*c), v)
		}
		VFMADD213PS(at, d, v)
		if b.s.min {
			VFNMADD231PS(b.mins[c], m, v)
		}
		VMOVUPS(v, at)
	}
}

// minima adds those of the pair of sub-blocks whose scales are at sc; the columns
// are pairs past the next pair.
func (b *blocks256) minima(sc Mem, pairs int) {
	s, pair := b.s, YMM()
	s.loadMins(sc, pair)
	if s.sub == 16 {
		for c := range b.cols {
			v, da := YMM(), YMM()
			VPBROADCASTD(b.a.back(c, pairs+1, act32Halves), v)
			VPMADDWD(v, pair, v)
			VCVTDQ2PS(v, v)
			VBROADCASTSS(b.a.back(c, pairs+1, act32D), da)
			VFMADD231PS(v, da, b.mins[c])
		}
		return
	}
	one := YMM()
	floatMins(pair, one, pair)
	for i, m := range []reg.VecVirtual{one, pair} {
		for c := range b.cols {
			v := YMM()
			VBROADCASTSS(b.a.back(c, 2*pairs+2-i, act32DSum), v)
			VFMADD231PS(v, m, b.mins[c])
		}
	}
}

// back addresses the block of activations that is n before the next.
func (c columns) back(col, n, disp int) Mem { return c.at(col, disp-n*act32Bytes) }
