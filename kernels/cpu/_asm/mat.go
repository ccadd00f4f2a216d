package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Blocks of activations, as in the package above.
const (
	act32Bytes, act32D, act32DSum, act32Sum = 48, 32, 36, 40
	// Offsets from the end of the 256 bytes, where the column pointers then are.
	act256Sum16, act256Sum32, act256D, act256Rest = 0, 32, 48, 64
)

// reader loads quads of a group and keeps what neighbouring quads share.
type reader struct {
	s       spec
	w       reg.GPVirtual
	disp    int
	mask    reg.VecVirtual // of the low bits; nil: in memory
	raw     reg.VecVirtual
	rawVec  int
	high    reg.VecVirtual
	highVec int
}

func (s spec) reader(w reg.GPVirtual, disp int, mask reg.VecVirtual) *reader {
	return &reader{s: s, w: w, disp: disp, mask: mask, rawVec: -1, highVec: -1}
}

// lowMask loads the mask of the low bits, if the type has one.
func (s spec) lowMask() reg.VecVirtual {
	if s.low == 8 {
		return nil
	}
	m := YMM()
	load(s.lowMaskMem(), m)
	return m
}

func (s spec) lowMaskMem() Mem { return bytes32(label("mask%d", s.low), byte(1<<s.low-1)) }

// quad loads the levels of quad j into dst.
func (r *reader) quad(j int, dst reg.VecVirtual) {
	s := r.s
	vec, shift := quadAt(s.low, j)
	low := Mem{Base: r.w, Disp: r.disp + s.highBytes() + 32*vec}
	if s.low == 8 {
		load(low, dst)
		if s.biased {
			xor(bytes32("bias", 128), dst, dst)
		}
		return
	}
	if vec != r.rawVec {
		r.raw, r.rawVec = YMM(), vec
		load(low, r.raw)
	}
	src := r.raw
	if shift > 0 {
		VPSRLW(Imm(uint64(shift)), src, dst)
		src = dst
	}
	if r.mask != nil {
		and(r.mask, src, dst)
	} else {
		and(s.lowMaskMem(), src, dst)
	}
	if s.table {
		t := YMM()
		levels := bytes32("iq4nl", 129, 152, 173, 191, 207, 221, 234, 246, 1, 13, 25, 38, 53, 69, 89, 113)
		if s.biased {
			levels = bytes32("iq4nlBiased", 1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241)
		}
		load(levels, t)
		VPSHUFB(dst, t, dst)
	}
	if s.high == 0 {
		return
	}
	vec, shift = quadAt(s.high, j)
	if vec != r.highVec {
		r.high, r.highVec = YMM(), vec
		load(Mem{Base: r.w, Disp: r.disp + 32*vec}, r.high)
	}
	h, from := YMM(), r.high
	switch {
	case shift < s.low:
		VPSLLW(Imm(uint64(s.low-shift)), from, h)
		from = h
	case shift > s.low:
		VPSRLW(Imm(uint64(shift-s.low)), from, h)
		from = h
	}
	and(bytes32(label("high%d_%d", s.low, s.high), byte((1<<s.high-1)<<s.low)), from, h)
	or(h, dst, dst)
}

// order lists quads [from, to) so that those in one vector follow each other.
func (s spec) order(from, to int) (js []int) {
	if s.low == 4 && to-from == 8 {
		return []int{0, 4, 1, 5, 2, 6, 3, 7}
	}
	for j := from; j < to; j++ {
		js = append(js, j)
	}
	return js
}

// dotQuads multiplies quads [from, to) of a group by all columns (whose
// pointers are at the group's bytes) and folds the sums of pairs, times factor
// (two int16 a lane), into sums; the first time it sets them if fresh.
func (s spec) dotQuads(r *reader, from, to int, a columns, cols int, factor Op, sums []reg.VecVirtual, fresh bool) {
	if vnni {
		s.dotQuadsVNNI(r, from, to, a, cols, factor, sums, fresh)
		return
	}
	acc := ymms(cols)
	for i, j := range s.order(from, to) {
		q := YMM()
		r.quad(j, q)
		first := i%s.adds() == 0
		var abs reg.VecVirtual
		if s.signed {
			abs = YMM()
			VPABSB(q, abs)
			first = true
		}
		for c := range cols {
			t := acc[c]
			if !first {
				t = YMM()
			}
			VPBROADCASTD(a.at(c, 4*j), t)
			if s.signed {
				VPSIGNB(q, t, t)
				VPMADDUBSW(t, abs, t)
			} else {
				VPMADDUBSW(t, q, t)
			}
			if !first {
				VPADDW(t, acc[c], acc[c])
			}
		}
		if s.signed || i%s.adds() == s.adds()-1 || i == to-from-1 {
			for c := range cols {
				if fresh {
					VPMADDWD(factor, acc[c], sums[c])
					continue
				}
				VPMADDWD(factor, acc[c], acc[c])
				VPADDD(acc[c], sums[c], sums[c])
			}
			fresh = false
		}
	}
}

// matParams loads the parameters that all integer kernels share.
func matParams(name string, cols int) (dst, ldd, w, act, lda, blocks, count reg.GPVirtual) {
	TEXT(label("%smat%sx%d", prefix, name, cols), NOSPLIT, "func(dst *float32, ldd int, w, act *byte, lda, blocks, count int)")
	Pragma("noescape")
	get := func(n string) reg.GPVirtual { r := GP64(); Load(Param(n), r); return r }
	return get("dst"), get("ldd"), get("w"), get("act"), get("lda"), get("blocks"), get("count")
}

// mat32: types with blocks of 32. For each block: an exact integer sum, then
// acc += float(sum)·(d·da) and acc += m·(da·Σa).
func mat32(s spec, cols int) {
	dst, ldd, w, act, lda, blocks, count := matParams(s.name, cols)
	base, left := GP64(), GP64()
	var mask reg.VecVirtual
	if cols < maxCols || s.high == 0 || vnni && !emulated { // else registers run out
		mask = s.lowMask()
	}
	Label("panel")
	acc := ymms(cols)
	for _, v := range acc {
		zero(v)
	}
	MOVQ(act, base)
	a := newColumns(cols, base, lda)
	MOVQ(blocks, left)
	Label("block")
	prefetch(w, s.blockBytes())
	sums := ymms(cols)
	s.dotQuads(s.reader(w, s.groupAt(), mask), 0, 8, a, cols, ones16(), sums, true)
	d := YMM()
	VCVTPH2PS(Mem{Base: w}, d)
	for c := range cols {
		if s.offset != 0 {
			o := YMM()
			VPBROADCASTD(a.at(c, act32Sum), o)
			VPSLLD(Imm(log2(s.offset)), o, o)
			VPSUBD(o, sums[c], sums[c])
		}
		f := YMM()
		VBROADCASTSS(a.at(c, act32D), f)
		VMULPS(f, d, f)
		VCVTDQ2PS(sums[c], sums[c])
		VMULPS(f, sums[c], sums[c])
		VADDPS(sums[c], acc[c], acc[c])
	}
	if s.min {
		m := YMM()
		VCVTPH2PS(Mem{Base: w, Disp: 2 * panelRows}, m)
		for c := range cols {
			f := YMM()
			VBROADCASTSS(a.at(c, act32DSum), f)
			VMULPS(f, m, f)
			VADDPS(f, acc[c], acc[c])
		}
	}
	ADDQ(bytes(s.blockBytes()), w)
	a.advance(act32Bytes)
	DECQ(left)
	JNZ(LabelRef("block"))
	output(dst, ldd, acc)
	ADDQ(bytes(4*panelRows), dst)
	DECQ(count)
	JNZ(LabelRef("panel"))
	VZEROUPPER()
	RET()
}

// ahead is how far before its use memory is asked for, in bytes: weights are read
// once a step, so a kernel for few columns waits for little else.
const ahead = 2048

// prefetch asks for the lines of n bytes ahead of p.
func prefetch(p reg.GPVirtual, n int) {
	for at := 0; at < n; at += 64 {
		PREFETCHT0(Mem{Base: p, Disp: ahead + at})
	}
}

func log2(n int) (k uint64) {
	for ; n > 1; n >>= 1 {
		k++
	}
	return k
}

// mat256: types with blocks of 256. Sub-block scales are applied to the integer
// sums; the float accumulators live on the stack.
func mat256(s spec, cols int) {
	dst, ldd, w, act, lda, blocks, count := matParams(s.name, cols)
	accs := AllocLocal(32 * cols)
	base, left := GP64(), GP64()
	group, sc, rounds := GP64(), GP64(), GP64()
	var mask reg.VecVirtual
	if cols < maxCols || s.high == 0 || vnni && !emulated {
		mask = s.lowMask()
	}
	Label("panel")
	none := YMM()
	zero(none)
	for c := range cols {
		VMOVUPS(none, accs.Offset(32*c))
	}
	MOVQ(act, base)
	a := newColumns(cols, base, lda)
	MOVQ(blocks, left)
	Label("block")
	sums := ymms(cols)
	for _, v := range sums {
		zero(v)
	}
	LEAQ(Mem{Base: w, Disp: s.groupAt()}, group)
	LEAQ(Mem{Base: w, Disp: s.scAt()}, sc)
	MOVQ(U32(uint32(s.rounds())), rounds)
	Label("groups")
	s.scalePair(group, sc, mask, a, cols, sums)
	ADDQ(bytes(2*panelRows), sc)
	DECQ(rounds)
	JNZ(LabelRef("groups"))
	s.finish256(w, a, cols, sums, accs)
	ADDQ(bytes(s.blockBytes()), w)
	a.advance(act256Rest)
	DECQ(left)
	JNZ(LabelRef("block"))
	out := GP64()
	MOVQ(dst, out)
	for c := range cols {
		v := YMM()
		VMOVUPS(accs.Offset(32*c), v)
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

// scalePair does the columns of two sub-blocks and advances group and a.
func (s spec) scalePair(group, sc reg.GPVirtual, mask reg.VecVirtual, a columns, cols int, sums []reg.VecVirtual) {
	pair, one := YMM(), YMM()
	s.loadScales(Mem{Base: sc}, pair)
	splitPair(pair, one, pair)
	prefetch(group, s.sub/16*s.groupBytes())
	if s.sub == 16 {
		r := s.reader(group, 0, mask)
		s.dotQuads(r, 0, 4, a, cols, one, sums, false)
		s.dotQuads(r, 4, 8, a, cols, pair, sums, false)
		ADDQ(bytes(s.groupBytes()), group)
		a.advance(32)
		return
	}
	s.dotQuads(s.reader(group, 0, mask), 0, 8, a, cols, one, sums, false)
	a.advance(32)
	s.dotQuads(s.reader(group, s.groupBytes(), mask), 0, 8, a, cols, pair, sums, false)
	a.advance(32)
	ADDQ(bytes(2*s.groupBytes()), group)
}

// finish256 takes offsets off, and folds sums and minima into accs.
func (s spec) finish256(w reg.GPVirtual, a columns, cols int, sums []reg.VecVirtual, accs Mem) {
	if s.offset != 0 {
		t := s.bySums(w, a, cols, false)
		for c := range cols {
			VPSLLD(Imm(log2(s.offset)), t[c], t[c])
			VPSUBD(t[c], sums[c], sums[c])
		}
	}
	d := YMM()
	VCVTPH2PS(Mem{Base: w}, d)
	for c := range cols {
		f := YMM()
		VBROADCASTSS(a.at(c, act256D), f)
		VMULPS(f, d, f)
		VCVTDQ2PS(sums[c], sums[c])
		VMULPS(f, sums[c], sums[c])
		VADDPS(accs.Offset(32*c), sums[c], sums[c])
		if !s.min {
			VMOVUPS(sums[c], accs.Offset(32*c))
		}
	}
	if !s.min {
		return
	}
	t := s.bySums(w, a, cols, true)
	VCVTPH2PS(Mem{Base: w, Disp: 2 * panelRows}, d)
	for c := range cols {
		f := YMM()
		VBROADCASTSS(a.at(c, act256D), f)
		VMULPS(f, d, f)
		VCVTDQ2PS(t[c], t[c])
		VMULPS(f, t[c], t[c])
		VSUBPS(t[c], sums[c], sums[c])
		VMOVUPS(sums[c], accs.Offset(32*c))
	}
}

// bySums is Σ over sub-blocks of scale (or minimum) times the sum of the
// activations.
func (s spec) bySums(w reg.GPVirtual, a columns, cols int, mins bool) []reg.VecVirtual {
	sumsAt := act256Sum16
	if s.sub == 32 {
		sumsAt = act256Sum32
	}
	t := ymms(cols)
	for p := range s.rounds() {
		pair := YMM()
		if mins {
			s.loadMins(w, p, pair)
		} else {
			s.loadScales(Mem{Base: w, Disp: s.scAt() + 2*panelRows*p}, pair)
		}
		for c := range cols {
			v := t[c]
			if p > 0 {
				v = YMM()
			}
			VPBROADCASTD(a.at(c, sumsAt+4*p), v)
			VPMADDWD(v, pair, v)
			if p > 0 {
				VPADDD(v, t[c], t[c])
			}
		}
	}
	return t
}
