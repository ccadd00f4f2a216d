package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Blocks of activations, as in the package above.
const (
	act32Bytes                    = 64
	act32D, act32DSum             = 32, 36
	act32Halves                   = 44
	act32Less8, act32Less16       = 40, 48
	act32Less128, act32LessHalves = 52, 56
)

// lessAt is where a block of activations has what the offset takes off.
func (s spec) lessAt() int {
	return map[int]int{8: act32Less8, 16: act32Less16, 128: act32Less128}[s.offset]
}

// reader loads quads of a group and keeps what neighbouring quads share.
type reader struct {
	s       spec
	w       reg.GPVirtual
	disp    int
	stride  reg.GPVirtual  // to a second panel, whose quads are in the upper halves; or nil
	mask    reg.VecVirtual // of the low bits; nil: in memory
	raw     wide
	rawVec  int
	high    wide
	highVec int
	late    func() // emitted among the quads: what waits for results of the group before
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
func (r *reader) quad(j int, dst wide) {
	s := r.s
	vec, shift := quadAt(s.low, j)
	low := Mem{Base: r.w, Disp: r.disp + s.highBytes() + 32*vec}
	if s.low == 8 {
		r.load(low, dst)
		if s.biased {
			dst.xorConst(bytes32("bias", 128))
		}
		return
	}
	if vec != r.rawVec {
		r.raw, r.rawVec = r.vector(), vec
		r.load(low, r.raw)
	}
	src := r.raw
	if shift > 0 {
		dst.shiftRight(uint64(shift), src)
		src = dst
	}
	if r.mask != nil {
		for i, v := range dst {
			and(r.mask, src[i], v)
		}
	} else {
		dst.andConst(s.lowMaskMem(), src)
	}
	if s.table {
		levels := bytes32("iq4nl", 129, 152, 173, 191, 207, 221, 234, 246, 1, 13, 25, 38, 53, 69, 89, 113)
		if s.biased {
			levels = bytes32("iq4nlBiased", 1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241)
		}
		dst.lookUp(levels)
	}
	if s.high > 0 {
		r.addHigh(j, dst)
	}
}

// addHigh puts the high bits of quad j over the low ones in dst.
func (r *reader) addHigh(j int, dst wide) {
	s := r.s
	vec, shift := quadAt(s.high, j)
	if vec != r.highVec {
		r.high, r.highVec = r.vector(), vec
		r.load(Mem{Base: r.w, Disp: r.disp + 32*vec}, r.high)
	}
	h, from := r.vector(), r.high
	switch {
	case shift < s.low:
		h.shiftLeft(uint64(s.low-shift), from)
		from = h
	case shift > s.low:
		h.shiftRight(uint64(shift-s.low), from)
		from = h
	}
	h.andConst(bytes32(label("high%d_%d", s.low, s.high), byte((1<<s.high-1)<<s.low)), from)
	for i, v := range dst {
		or(h[i], v, v)
	}
}

// vector is room for a quad.
func (r *reader) vector() wide {
	if r.stride == nil {
		return wide{YMM()}
	}
	return newWide()
}

// load loads 32 bytes of each panel.
func (r *reader) load(m Mem, dst wide) {
	if r.stride == nil {
		load(m, dst[0])
	} else {
		dst.load2(m, r.stride)
	}
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
	acc := make([]partial, cols)
	for i, j := range s.order(from, to) {
		if i == 2 && r.late != nil {
			r.late()
		}
		q := YMM()
		r.quad(j, wide{q})
		var abs reg.VecVirtual
		if s.signed {
			abs = YMM()
			VPABSB(q, abs)
		}
		for c := range cols {
			t := YMM()
			VPBROADCASTD(a.at(c, 4*j), t)
			if s.signed {
				VPSIGNB(q, t, t)
				VPMADDUBSW(t, abs, t)
			} else {
				VPMADDUBSW(t, q, t)
			}
			acc[c].add(t, cols <= 2)
		}
		if s.signed || i%s.adds() == s.adds()-1 || i == to-from-1 {
			for c := range cols {
				v := acc[c].total()
				if fresh {
					VPMADDWD(factor, v, sums[c])
					continue
				}
				VPMADDWD(factor, v, v)
				VPADDD(v, sums[c], sums[c])
			}
			fresh = false
		}
	}
}

// partial sums 16-bit vectors: one after the other, or pairs, then pairs of those,
// so that fewer wait for each other, where registers are many.
type partial struct {
	v []reg.VecVirtual
	n int
}

func (p *partial) add(t reg.VecVirtual, tree bool) {
	p.v = append(p.v, t)
	p.n++
	for k := p.n; len(p.v) > 1 && (!tree || k%2 == 0); k /= 2 {
		p.fold()
	}
}

func (p *partial) fold() {
	last := len(p.v) - 1
	VPADDW(p.v[last], p.v[last-1], p.v[last-1])
	p.v = p.v[:last]
}

// total is the sum so far; the next starts anew.
func (p *partial) total() reg.VecVirtual {
	for len(p.v) > 1 {
		p.fold()
	}
	v := p.v[0]
	*p = partial{}
	return v
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
	if cols < maxCols || s.high == 0 || evex() { // else registers run out
		mask = s.lowMask()
	}
	none := noneVNNI()
	Label("panel")
	acc := ymms(cols)
	for _, v := range acc {
		zero(v)
	}
	MOVQ(act, base)
	a := newColumns(cols, base, lda)
	MOVQ(blocks, left)
	Label("block")
	prefetch(w, s.blockBytes(), nil)
	if vnni {
		s.block32VNNI(w, a, mask, none, acc)
	} else {
		s.block32(w, a, mask, acc)
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

// block32 adds a block of 32 columns to acc.
func (s spec) block32(w reg.GPVirtual, a columns, mask reg.VecVirtual, acc []reg.VecVirtual) {
	cols := len(acc)
	sums := ymms(cols)
	s.dotQuads(s.reader(w, s.groupAt(), mask), 0, 8, a, cols, ones16(), sums, true)
	d := YMM()
	VCVTPH2PS(Mem{Base: w}, d)
	for c := range cols {
		if s.offset != 0 {
			o := YMM()
			VPBROADCASTD(a.at(c, s.lessAt()), o)
			VPADDD(o, sums[c], sums[c])
		}
		f := YMM()
		VBROADCASTSS(a.at(c, act32D), f)
		VMULPS(f, d, f)
		VCVTDQ2PS(sums[c], sums[c])
		VFMADD231PS(f, sums[c], acc[c])
	}
	if s.min {
		m := YMM()
		VCVTPH2PS(Mem{Base: w, Disp: 2 * panelRows}, m)
		for c := range cols {
			f := YMM()
			VBROADCASTSS(a.at(c, act32DSum), f)
			VFMADD231PS(f, m, acc[c])
		}
	}
}

// ahead is how far before its use memory is asked for, in bytes: weights are read
// once a step, so a kernel for few columns waits for little else. It is what a core
// reads while one access to memory takes, which was measured to be twice as much on
// those that have VNNI.
func ahead() int {
	if vnni {
		return 2048
	}
	return 1024
}

// farAhead is how far before that weights are asked for into the second-level cache, from
// which more reads of memory may be under way than from the first; 0: not at all. It
// evens out what is computed and what is waited for.
func farAhead() int {
	if vnni {
		return 32 << 10
	}
	return 0
}

// prefetch asks for the lines of n bytes ahead of p, and where there is stride those
// that are so much after them.
func prefetch(p reg.GPVirtual, n int, stride reg.GPVirtual) {
	ask := func(fetch func(Op), m Mem) {
		fetch(m)
		if stride != nil {
			fetch(beyond(m, stride))
		}
	}
	for at := 0; at < n; at += 64 {
		ask(PREFETCHT0, Mem{Base: p, Disp: ahead() + at})
		if far := farAhead(); far > 0 {
			ask(PREFETCHT1, Mem{Base: p, Disp: far + at})
		}
	}
}

func log2(n int) (k uint64) {
	for ; n > 1; n >>= 1 {
		k++
	}
	return k
}
