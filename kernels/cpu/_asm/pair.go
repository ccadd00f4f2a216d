package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pairMat multiplies pairs of panels as they are stored by a few columns: vectors
// hold a quad of the first and one of the second panel, and every weight is unpacked
// once.
type pairMat struct {
	s          spec
	cols       int
	dst, ldd   reg.GPVirtual
	w, stride  reg.GPVirtual // the first panel's block, and how far the second's is
	a          columns
	none       wide
	magic      wide // where sums start from it
	mask       reg.VecVirtual
	sums, mins []wide // of a block of 256; mins nil if they come after it
	group, sc  reg.GPVirtual
}

// matPair generates the kernel for pairs that follow each other.
func matPair(s spec, cols int) {
	TEXT(label("%spair%sx%d", prefix, s.name, cols), NOSPLIT, "func(dst *float32, ldd int, w *byte, stride int, act *byte, lda, blocks, count int)")
	Pragma("noescape")
	get := func(n string) reg.GPVirtual { r := GP64(); Load(Param(n), r); return r }
	b := &pairMat{s: s, cols: cols, dst: get("dst"), ldd: get("ldd"), w: get("w"), stride: get("stride"), none: newWide()}
	lda, count, left := get("lda"), get("count"), GP64()
	b.none.zero()
	if s.sub == 32 {
		b.magic = newWide()
		VPBROADCASTD(magic(), b.magic[0])
	}
	if s.low < 8 && s.high == 0 {
		b.mask = newWide()[0]
		VPBROADCASTD(s.lowMaskMem(), b.mask)
	}
	Label("pair")
	b.a = newColumns(cols, get("act"), lda)
	Load(Param("blocks"), left)
	var results []wide
	if s.values == 32 {
		results = b.zeros()
	} else {
		b.each(func(_ int, at Mem) { b.none.store(at) })
	}
	Label("block")
	if s.values == 32 {
		prefetch(b.w, s.blockBytes(), b.stride)
		b.block32(results)
		b.a.advance(act32Bytes)
	} else {
		b.block256()
	}
	ADDQ(bytes(s.blockBytes()), b.w)
	DECQ(left)
	JNZ(LabelRef("block"))
	if s.values == 32 {
		b.each(func(c int, at Mem) { results[c].store(at) })
	}
	ADDQ(bytes(wideBytes), b.dst)
	ADDQ(b.stride, b.w)
	DECQ(count)
	JNZ(LabelRef("pair"))
	VZEROUPPER()
	RET()
}

// each visits the results of every column.
func (b *pairMat) each(visit func(c int, at Mem)) {
	p := GP64()
	MOVQ(b.dst, p)
	for c := range b.cols {
		if c > 0 {
			ADDQ(b.ldd, p)
		}
		visit(c, Mem{Base: p})
	}
}

func (b *pairMat) zeros() []wide {
	v := wides(b.cols)
	for _, w := range v {
		w.clear(b.none)
	}
	return v
}

func (b *pairMat) reader(base reg.GPVirtual, disp int) *reader {
	r := b.s.reader(base, disp, b.mask)
	r.stride = b.stride
	return r
}

// dot is the products of quads [from, to), added to what start gives.
func (b *pairMat) dot(r *reader, from, to int, start func(c int, v wide)) []wide {
	acc := wides(b.cols)
	b.s.dotQuadsVNNI(r, from, to, b.a, acc, b.none, start)
	for _, v := range acc {
		v.float()
	}
	return acc
}

func (b *pairMat) block32(results []wide) {
	s := b.s
	var start func(c int, v wide)
	if s.offset != 0 {
		start = func(c int, v wide) { v.spread(b.a.at(c, s.lessAt())) }
	}
	acc, d := b.dot(b.reader(b.w, s.groupAt()), 0, 8, start), newWide()
	d.loadF16(Mem{Base: b.w}, b.stride)
	for c, v := range acc {
		f := newWide()
		f.scaled(b.a.at(c, act32D), d)
		results[c].add(f, v)
	}
	if !s.min {
		return
	}
	m := newWide()
	m.loadF16(Mem{Base: b.w, Disp: 2 * panelRows}, b.stride)
	for c, v := range results {
		v.addScaled(b.a.at(c, act32DSum), m)
	}
}

// block256 does what wideTile.block256 does.
func (b *pairMat) block256() {
	s, rounds := b.s, GP64()
	b.group, b.sc = GP64(), GP64()
	b.sums, b.mins = b.zeros(), nil
	if s.min && s.sub == 32 {
		b.mins = b.zeros()
	}
	LEAQ(Mem{Base: b.w, Disp: s.groupAt()}, b.group)
	LEAQ(Mem{Base: b.w, Disp: s.scAt()}, b.sc)
	MOVQ(U32(uint32(s.rounds())), rounds)
	Label("groups")
	prefetch(b.group, s.sub/16*s.groupBytes(), b.stride)
	if s.sub == 32 {
		b.scalePair()
	} else {
		b.halves()
	}
	ADDQ(bytes(s.sub/16*s.groupBytes()), b.group)
	ADDQ(bytes(2*panelRows), b.sc)
	DECQ(rounds)
	JNZ(LabelRef("groups"))
	b.finish256()
}

// scales are the pair of scales at m, as float32.
func (b *pairMat) scales(m Mem) (first, second wide) {
	pair := newWide()
	b.loadScales(m, pair)
	first = newWide()
	for i, v := range pair {
		splitPair(v, first[i], v)
	}
	return first, pair
}

func (b *pairMat) loadScales(m Mem, pair wide) {
	pair.loadBytes(m, b.stride, b.s.signedSc)
	if b.s.nibble {
		pair.andConst(bytes32("nibble16", 15, 0), pair)
	}
}

// scalePair does 64 columns with a scale and a minimum for each 32.
func (b *pairMat) scalePair() {
	s := b.s
	one, two := b.scales(Mem{Base: b.sc})
	for i, sc := range []wide{one, two} {
		acc, less := wides(b.cols), newWide()
		s.dotQuadsVNNI(b.reader(b.group, i*s.groupBytes()), 0, 8, b.a, acc, b.none, func(_ int, v wide) { v.startMagic(b.magic) })
		less.magicTimes(sc)
		for c, v := range acc {
			v.scaleMagic(sc, less)
			b.sums[c].addScaled(b.a.at(c, act32D), v)
		}
		b.a.advance(act32Bytes)
	}
	pair, first := newWide(), newWide()
	pair.loadBytes(Mem{Base: b.sc, Disp: s.mnAt() - s.scAt()}, b.stride, false)
	for i, v := range pair {
		floatMins(v, first[i], v)
	}
	for i, m := range []wide{first, pair} {
		for c, v := range b.mins {
			v.addScaled(b.a.back(c, 2-i, act32DSum), m)
		}
	}
}

// halves does 32 columns with two scales.
func (b *pairMat) halves() {
	s := b.s
	var total []wide
	if s.offset != 0 && !s.startsHalves() {
		total = b.offset()
	}
	one, two := b.scales(Mem{Base: b.sc})
	r := b.reader(b.group, 0)
	for i, sc := range []wide{one, two} {
		acc := b.dot(r, 4*i, 4*i+4, s.startOfHalf(b.a, i))
		for c, v := range acc {
			if total == nil {
				v.times(sc)
			} else {
				total[c].add(v, sc)
			}
		}
		if total == nil {
			total = acc
		}
	}
	for c, v := range total {
		b.sums[c].addScaled(b.a.at(c, act32D), v)
	}
	b.a.advance(act32Bytes)
}

// offset is what the offset takes off a group.
func (b *pairMat) offset() []wide {
	off, total := newWide(), wides(b.cols)
	b.loadScales(Mem{Base: b.sc}, off)
	for i, v := range off {
		VPSUBW(v, b.none[i], v)
		VPSLLW(Imm(log2(b.s.offset)), v, v)
	}
	for c, v := range total {
		v.spread(b.a.at(c, act32Halves))
		for i, x := range v {
			VPMADDWD(off[i], x, x)
		}
		v.float()
	}
	return total
}

// finish256 folds the sums of a block, and of its minima, into the results.
func (b *pairMat) finish256() {
	s, d, m := b.s, newWide(), newWide()
	if s.min && s.sub == 16 {
		b.minima()
	}
	d.loadF16(Mem{Base: b.w}, b.stride)
	if s.min {
		m.loadF16(Mem{Base: b.w, Disp: 2 * panelRows}, b.stride)
	}
	b.each(func(c int, at Mem) {
		v := b.sums[c]
		v.timesAdd(d, at)
		if s.min {
			v.sub(b.mins[c], m)
		}
		v.store(at)
	})
}

// minima adds up those of a block with sub-blocks of 16, whose columns are the
// eight groups before the next.
func (b *pairMat) minima() {
	b.mins = b.zeros()
	for g := range 8 {
		pair := newWide()
		pair.loadBytes(Mem{Base: b.w, Disp: b.s.scAt() + 2*panelRows*g}, b.stride, false)
		for _, v := range pair {
			VPSRLW(Imm(4), v, v)
		}
		for c, v := range b.mins {
			n := newWide()
			n.spread(b.a.back(c, 8-g, act32Halves))
			for i, x := range n {
				VPMADDWD(pair[i], x, x)
			}
			n.float()
			v.addScaled(b.a.back(c, 8-g, act32D), n)
		}
	}
}
