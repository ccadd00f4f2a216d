package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// With VNNI, panels are expanded in pairs, whose vectors lie side by side: one of 64
// bytes holds a quad of sixteen rows. A block is
//
//	d       16 × float32
//	m       16 × float32 (types with minima)
//	groups  one for every 32 columns:
//	sc      for each sub-block 16 × float32, unless they are folded
//	min     of sub-blocks of 32: 16 × float32; of 16: 16 × (that of the first, of the
//	        second) int16
//	quads   8 × 64 bytes
//
// A product of a sum and its scale, and of 32 columns the sum of two such, has at
// most 24 bits, so that float32 operations on them are exact.

// folded tells whether levels times the scale of their sub-block fit a byte, and are
// expanded to that; those with an offset as 128 − scale · (level − offset).
func (s spec) folded() bool { return s.sub == 16 && s.low+s.high <= 3 }

// wideScales is the number of scales of a group.
func (s spec) wideScales() int {
	if s.sub == 0 || s.folded() {
		return 0
	}
	return 32 / s.sub
}

// Offsets in a block, and in a group.
func (s spec) wideGroupAt() int {
	if s.min {
		return 2 * wideBytes
	}
	return wideBytes
}
func (s spec) wideMinAt() int { return wideBytes * s.wideScales() }
func (s spec) wideQuadsAt() int {
	if s.sub > 0 && s.min {
		return s.wideMinAt() + wideBytes
	}
	return s.wideMinAt()
}
func (s spec) wideGroupBytes() int { return s.wideQuadsAt() + 8*wideBytes }
func (s spec) wideBlockBytes() int { return s.wideGroupAt() + s.values/32*s.wideGroupBytes() }

// wideExpand expands blocks of two panels.
type wideExpand struct {
	s              spec
	dst, w, stride reg.GPVirtual
	mask           reg.VecVirtual
}

func expandWide(s spec) {
	TEXT(label("%sexpand%s", prefix, s.name), NOSPLIT, "func(dst, w *byte, stride, blocks int)")
	Pragma("noescape")
	get := func(n string) reg.GPVirtual { r := GP64(); Load(Param(n), r); return r }
	e := &wideExpand{s: s, dst: get("dst"), w: get("w"), stride: get("stride")}
	blocks := get("blocks")
	if s.low < 8 && s.high == 0 {
		e.mask = newWide()[0]
		VPBROADCASTD(s.lowMaskMem(), e.mask)
	}
	Label("block")
	d := newWide()
	d.loadF16(Mem{Base: e.w}, e.stride)
	d.store(Mem{Base: e.dst})
	if s.min {
		m := newWide()
		m.loadF16(Mem{Base: e.w, Disp: 2 * panelRows}, e.stride)
		m.store(Mem{Base: e.dst, Disp: wideBytes})
	}
	for g := range s.values / 32 {
		e.group(g)
	}
	ADDQ(bytes(s.wideBlockBytes()), e.dst)
	ADDQ(bytes(s.blockBytes()), e.w)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// at addresses what is n bytes into a group.
func (e *wideExpand) at(group, n int) Mem {
	return Mem{Base: e.dst, Disp: e.s.wideGroupAt() + group*e.s.wideGroupBytes() + n}
}

func (e *wideExpand) group(g int) {
	s := e.s
	var fold []func(q wide)
	switch {
	case s.sub == 32 && g%2 == 0:
		first, second := e.scales(g / 2)
		first.store(e.at(g, 0))
		second.store(e.at(g+1, 0))
		first, second = e.mins(g / 2)
		first.store(e.at(g, s.wideMinAt()))
		second.store(e.at(g+1, s.wideMinAt()))
	case s.folded():
		fold = e.fold(g)
	case s.sub == 16:
		first, second := e.scales(g)
		first.store(e.at(g, 0))
		second.store(e.at(g, wideBytes))
	}
	r := s.reader(e.w, s.groupAt()+g*s.groupBytes(), e.mask)
	r.stride = e.stride
	for _, j := range s.order(0, 8) {
		q := newWide()
		r.quad(j, q)
		if fold != nil {
			fold[j/4](q)
		}
		q.store(e.at(g, s.wideQuadsAt()+wideBytes*j))
	}
}

// pair loads pair p of scales, or minima, as int16.
func (e *wideExpand) pair(p int, mins bool) wide {
	s, v := e.s, newWide()
	m := Mem{Base: e.w, Disp: s.scAt() + 2*panelRows*p}
	if mins && !s.nibble {
		m.Disp += s.mnAt() - s.scAt()
	}
	v.loadBytes(m, e.stride, s.signedSc)
	switch {
	case s.nibble && mins:
		v.shiftRight(4, v)
	case s.nibble:
		v.andConst(bytes32("nibble16", 15, 0), v)
	}
	return v
}

func (e *wideExpand) scales(p int) (first, second wide) {
	pair := e.pair(p, false)
	first = newWide()
	for i, v := range pair {
		splitPair(v, first[i], v)
	}
	return first, pair
}

func (e *wideExpand) mins(p int) (first, second wide) {
	pair := e.pair(p, true)
	first = newWide()
	for i, v := range pair {
		floatMins(v, first[i], v)
	}
	return first, pair
}

// fold stores the minima of a group and returns what multiplies its quads by the scale
// of the first and of the second half. A pair of bytes, taken as an int16, is
// multiplied at once: no result takes more than its byte.
func (e *wideExpand) fold(g int) (half []func(q wide)) {
	s := e.s
	if s.min {
		e.pair(g, true).store(e.at(g, s.wideMinAt()))
	}
	pair := e.pair(g, false)
	for _, dup := range []Mem{dupLow(), dupHigh()} {
		sc := newWide()
		sc.shuffle(dup, pair)
		if s.offset == 0 {
			half = append(half, func(q wide) {
				for i, v := range q {
					VPMULLW(sc[i], v, v)
				}
			})
			continue
		}
		base, high := newWide(), newWide()
		base.shiftLeft(log2(s.offset), sc)
		high.shiftLeft(8, base)
		for i, v := range base {
			VPADDW(high[i], v, v)
		}
		base.addConst(bytes32("bias", 128))
		half = append(half, func(q wide) {
			for i, v := range q {
				VPMULLW(sc[i], v, v)
				VPSUBW(v, base[i], v)
			}
		})
	}
	return half
}

// wideTile multiplies one or two pairs of panels by cols columns. What there is for
// every result is in the order of columns, the pairs of one after each other.
type wideTile struct {
	s           spec
	pairs, cols int
	x, stride   reg.GPVirtual // the block, or with 256 columns the group, and from a pair to the next
	a           columns
	none        wide
	magic       wide   // where sums start from it
	next        []Mem  // of each panel, what is to be fetched
	sums        []wide // results so far, or what a block of 256 has added up
}

func tileVNNI(s spec, pairs, cols int) {
	TEXT(label("%stile%d%sx%d", prefix, 2*pairs, s.name, cols), NOSPLIT, "func(dst *float32, ldd int, x *byte, stride int, act *byte, lda, blocks, more int, next *byte, apart int)")
	Pragma("noescape")
	t := &wideTile{s: s, pairs: pairs, cols: cols, none: newWide(), x: param("x")}
	if pairs > 1 {
		t.stride = param("stride")
	}
	t.a = newColumns(cols, param("act"), param("lda"))
	blocks := param("blocks")
	t.fetchNext()
	t.fetched()
	t.none.zero()
	if s.sub == 32 && !narrow {
		t.magic = newWide()
		VPBROADCASTD(magic(), t.magic[0])
	}
	if s.values == 32 {
		t.sums = wides(pairs * cols)
	}
	more := param("more")
	TESTQ(more, more)
	JNZ(LabelRef("more"))
	for i := range pairs * cols {
		if s.values == 32 {
			t.sums[i].zero()
		}
	}
	if s.values == 256 {
		t.results(func(_ int, at Mem) { t.none.store(at) })
	}
	JMP(LabelRef("block"))
	Label("more")
	if s.values == 32 {
		t.results(func(i int, at Mem) { t.sums[i].load(at) })
	}
	Label("block")
	if s.values == 32 {
		t.block32()
	} else {
		t.block256()
	}
	DECQ(blocks)
	JNZ(LabelRef("block"))
	if s.values == 32 {
		t.results(func(i int, at Mem) { t.sums[i].store(at) })
	}
	VZEROUPPER()
	RET()
}

func param(name string) reg.GPVirtual {
	r := GP64()
	Load(Param(name), r)
	return r
}

// results visits where every result goes.
func (t *wideTile) results(visit func(i int, at Mem)) {
	out := newColumns(t.cols, param("dst"), param("ldd"))
	for i := range t.pairs * t.cols {
		visit(i, out.at(i/t.pairs, wideBytes*(i%t.pairs)))
	}
}

// at addresses what is n bytes after t.x in a pair.
func (t *wideTile) at(pair, n int) Mem {
	m := Mem{Base: t.x, Disp: n}
	if pair > 0 {
		m.Index, m.Scale = t.stride, 1
	}
	return m
}

// aheadBlocks is how many blocks of activations of each column of the next tile are
// fetched: those after them the processor foresees.
const aheadBlocks = 3

// fetchNext fetches the results so far and the first activations of the tile that
// follows, of as many columns.
func (t *wideTile) fetchNext() {
	each := func(base, ld string, lines int) {
		p, step := param(base), param(ld)
		for range t.cols {
			ADDQ(step, p)
		}
		for c := range t.cols {
			if c > 0 {
				ADDQ(step, p)
			}
			for i := range lines {
				PREFETCHT0(Mem{Base: p, Disp: 64 * i})
			}
		}
	}
	each("dst", "ldd", t.pairs)
	each("act", "lda", aheadBlocks)
}

// fetched finds the panels that are to be fetched.
func (t *wideTile) fetched() {
	next, apart := param("next"), param("apart")
	t.next = []Mem{{Base: next}, {Base: next, Index: apart, Scale: 1}}
	if t.pairs > 1 {
		second := GP64()
		LEAQ(t.next[1], second)
		t.next = append(t.next, Mem{Base: next, Index: apart, Scale: 2}, Mem{Base: second, Index: apart, Scale: 2})
	}
}

// fetch asks the outer cache for 64 bytes of each panel.
func (t *wideTile) fetch() {
	for _, m := range t.next {
		PREFETCHT1(m)
	}
	ADDQ(bytes(64), t.next[0].Base)
	if t.pairs > 1 {
		ADDQ(bytes(64), t.next[3].Base)
	}
}

// zeros are as many accumulators as there are results.
func (t *wideTile) zeros() []wide {
	v := wides(t.pairs * t.cols)
	for _, w := range v {
		w.clear(t.none)
	}
	return v
}

// starts are as many that hold the int32 at disp of the columns.
func (t *wideTile) starts(disp int) []wide {
	v := wides(t.pairs * t.cols)
	for i, w := range v {
		w.spread(t.a.at(i/t.pairs, disp))
	}
	return v
}

// vectors loads what is n bytes after t.x in every pair.
func (t *wideTile) vectors(n int) []wide {
	v := wides(t.pairs)
	for p, w := range v {
		w.load(t.at(p, n))
	}
	return v
}

// dot adds quad j of a group.
func (t *wideTile) dot(j int, acc []wide) {
	q := t.vectors(t.quadsAt() + wideBytes*j)
	for c := range t.cols {
		m := t.a.at(c, 4*j)
		if t.pairs == 1 && !narrow {
			acc[c].dot(m, q[0])
			continue
		}
		a := spreadOnce(m)
		for p, w := range q {
			for i, v := range acc[t.pairs*c+p] {
				dp(a[i], w[i], v)
			}
		}
	}
}

func (t *wideTile) quadsAt() int {
	if t.s.values == 32 {
		return t.s.wideGroupAt()
	}
	return t.s.wideQuadsAt()
}

// each visits every result with its column and that of the vectors of each pair.
func (t *wideTile) each(v []wide, pair []wide, visit func(c int, v, pair wide)) {
	for i, w := range v {
		visit(i/t.pairs, w, pair[i%t.pairs])
	}
}

func (t *wideTile) block32() {
	s := t.s
	var acc []wide
	if s.offset == 0 {
		acc = t.zeros()
	} else {
		acc = t.starts(s.lessAt())
	}
	t.fetch()
	for j := range 8 {
		t.dot(j, acc)
	}
	d := t.vectors(0)
	for i, v := range acc {
		f := newWide()
		f.scaled(t.a.at(i/t.pairs, act32D), d[i%t.pairs])
		v.float()
		t.sums[i].add(f, v)
	}
	if s.min {
		t.each(t.sums, t.vectors(wideBytes), func(c int, v, m wide) { v.addScaled(t.a.at(c, act32DSum), m) })
	}
	ADDQ(bytes(s.wideBlockBytes()), t.x)
	t.a.advance(act32Bytes)
}

func (t *wideTile) block256() {
	s := t.s
	t.sums = t.zeros()
	ADDQ(bytes(s.wideGroupAt()), t.x)
	left := GP32()
	MOVL(U32(8), left)
	Label("groups")
	t.fetch()
	switch {
	case s.folded():
		t.products()
	case s.sub == 32:
		t.group()
	default:
		t.halves()
	}
	ADDQ(bytes(s.wideGroupBytes()), t.x)
	t.a.advance(act32Bytes)
	DECL(left)
	JNZ(LabelRef("groups"))
	t.finish256()
}

// products adds 32 columns of levels times scales: sums += da·products.
func (t *wideTile) products() {
	var acc []wide
	if t.s.offset == 0 {
		acc = t.zeros()
	} else {
		acc = t.starts(act32Less128)
	}
	for j := range 8 {
		t.dot(j, acc)
	}
	for i, v := range acc {
		v.float()
		if m := t.a.at(i/t.pairs, act32D); t.s.offset == 0 {
			t.sums[i].addScaled(m, v)
		} else {
			t.sums[i].subScaled(m, v)
		}
	}
}

// group adds 32 columns with one scale: sums += da·(scale·products).
func (t *wideTile) group() {
	acc := wides(t.pairs * t.cols)
	for _, v := range acc {
		v.startMagic(t.magic)
	}
	for j := range 8 {
		t.dot(j, acc)
	}
	sc, less := t.vectors(0), wides(t.pairs)
	for p, v := range less {
		v.magicTimes(sc[p])
	}
	for i, v := range acc {
		v.scaleMagic(sc[i%t.pairs], less[i%t.pairs])
	}
	for i, v := range acc {
		t.sums[i].addScaled(t.a.at(i/t.pairs, act32D), v)
	}
}

// halves adds 32 columns with two scales.
func (t *wideTile) halves() {
	first, second := t.starts(act32LessHalves), t.starts(act32LessHalves+4)
	for j := range 4 {
		t.dot(j, first)
		t.dot(4+j, second)
	}
	if narrow { // registers run out
		for i, v := range first {
			v.float()
			second[i].float()
			v.timesAt(t.at(i%t.pairs, 0))
			v.addAt(second[i], t.at(i%t.pairs, wideBytes))
			t.sums[i].addScaled(t.a.at(i/t.pairs, act32D), v)
		}
		return
	}
	one, two := t.vectors(0), t.vectors(wideBytes)
	for i, v := range first {
		v.float()
		second[i].float()
		v.times(one[i%t.pairs])
		v.add(second[i], two[i%t.pairs])
		t.sums[i].addScaled(t.a.at(i/t.pairs, act32D), v)
	}
}

// finish256 folds the sums of a block, which is before t.x, and of its minima into the
// results.
func (t *wideTile) finish256() {
	block := -t.s.wideBlockBytes()
	var mins, m []wide
	if t.s.min {
		mins = t.minima()
		m = t.vectors(block + wideBytes)
	}
	d := t.vectors(block)
	t.results(func(i int, at Mem) {
		v := t.sums[i]
		v.timesAdd(d[i%t.pairs], at)
		if mins != nil {
			v.sub(mins[i], m[i%t.pairs])
		}
		v.store(at)
	})
}

// minima adds up those of a block: minimum·(da·Σa), or da·(minima·Σa) of sub-blocks of
// 16. Its groups are the eight before t.x.
func (t *wideTile) minima() []wide {
	s, mins := t.s, t.zeros()
	for g := range 8 {
		m := t.vectors(s.wideMinAt() - (8-g)*s.wideGroupBytes())
		t.each(mins, m, func(c int, v, m wide) {
			if s.sub == 32 {
				v.addScaled(t.a.back(c, 8-g, act32DSum), m)
				return
			}
			n := newWide()
			n.spread(t.a.back(c, 8-g, act32Halves))
			n.pairs(m)
			n.float()
			v.addScaled(t.a.back(c, 8-g, act32D), n)
		})
	}
	return mins
}

// tileCols is the most columns of a tile of one or two pairs of panels that registers
// have room for, or 0.
func (s spec) tileCols(pairs int) int {
	switch {
	case narrow && pairs == 2:
		return 0
	case narrow:
		most := 3
		if s.wideScales() == 2 || s.folded() && s.min {
			most = 2
		}
		if emulated {
			most--
		}
		return most
	case pairs == 1:
		return 8
	case s.wideScales() == 2:
		return 4
	}
	return 6
}
