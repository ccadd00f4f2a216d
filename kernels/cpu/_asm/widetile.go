package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// With VNNI, the vectors of two expanded panels lie side by side: one of 64
// bytes holds a quad of sixteen rows, and scales of sub-blocks are float32. A
// product of a sum and its scale, and of 32 columns the sum of two such, has at
// most 24 bits, so that float32 operations on them are exact.

// wideTile multiplies two panels by cols columns.
type wideTile struct {
	s      spec
	cols   int
	x      reg.GPVirtual // the block, or with 256 columns the group
	a, out columns
	none   wide
	next   [2]reg.GPVirtual // what is expanded next
	sums   []wide           // results so far, or what a block of 256 has added up
	mins   []wide           // the same of minima, where there is room
}

// tileVNNI generates a tile whose next, and what is stride bytes after it, are the
// panels to be fetched meanwhile.
func tileVNNI(s spec, cols int) {
	TEXT(label("%stile%sx%d", prefix, s.name, cols), NOSPLIT, "func(dst *float32, ldd int, x *byte, act *byte, lda, blocks, more int, next *byte, stride int)")
	Pragma("noescape")
	get := func(n string) reg.GPVirtual { r := GP64(); Load(Param(n), r); return r }
	t := &wideTile{s: s, cols: cols, none: newWide(), x: get("x")}
	t.a = newColumns(cols, get("act"), get("lda"))
	t.out = newColumns(cols, get("dst"), get("ldd"))
	blocks, more := get("blocks"), get("more")
	t.next[0], t.next[1] = get("next"), get("stride")
	ADDQ(t.next[0], t.next[1])
	t.none.zero()
	if s.values == 32 {
		t.sums = wides(cols)
	}
	TESTQ(more, more)
	JNZ(LabelRef("more"))
	for c := range cols {
		if s.values == 32 {
			t.sums[c].zero()
		} else {
			t.none.store(t.out.at(c, 0))
		}
	}
	JMP(LabelRef("block"))
	Label("more")
	if s.values == 32 {
		for c, v := range t.sums {
			v.load(t.out.at(c, 0))
		}
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
		for c, v := range t.sums {
			v.store(t.out.at(c, 0))
		}
	}
	VZEROUPPER()
	RET()
}

// at addresses a vector that is n bytes into an expanded panel.
func (t *wideTile) at(n int) Mem { return Mem{Base: t.x, Disp: 2 * n} }

// fetch asks the outer cache for n bytes of what is next.
func (t *wideTile) fetch(n int) {
	for _, p := range t.next {
		for at := 0; at < n; at += 64 {
			PREFETCHT1(Mem{Base: p, Disp: at})
		}
		ADDQ(bytes(n), p)
	}
}

// dot adds quads [from, to), the first of a group being disp bytes into a panel.
func (t *wideTile) dot(disp, from, to int, acc []wide) {
	for j := from; j < to; j++ {
		q := newWide()
		q.load(t.at(disp + 32*j))
		for c, v := range acc {
			v.dot(t.a.at(c, 4*j), q)
		}
	}
}

// zeros are accumulators, one for each column.
func (t *wideTile) zeros() []wide {
	v := wides(t.cols)
	for _, w := range v {
		w.clear(t.none)
	}
	return v
}

func (t *wideTile) block32() {
	s := t.s
	var acc []wide
	if s.offset == 0 {
		acc = t.zeros()
	} else {
		acc = wides(t.cols)
		for c, v := range acc {
			v.spread(t.a.at(c, s.lessAt()))
		}
	}
	t.fetch(s.blockBytes())
	t.dot(s.xgroupAt(), 0, 8, acc)
	d := newWide()
	d.load(t.at(0))
	for c, v := range acc {
		f := newWide()
		f.scaled(t.a.at(c, act32D), d)
		v.float()
		t.sums[c].add(f, v)
	}
	if s.min {
		m := newWide()
		m.load(t.at(s.xmAt()))
		for c, v := range t.sums {
			v.addScaled(t.a.at(c, act32DSum), m)
		}
	}
	ADDQ(bytes(2*s.xbytes()), t.x)
	t.a.advance(act32Bytes)
}

func (t *wideTile) block256() {
	s, block := t.s, t.x
	t.sums = t.zeros()
	if s.min && s.sub == 32 {
		t.mins = t.zeros()
	}
	t.x = GP64()
	LEAQ(Mem{Base: block, Disp: 2 * s.xgroupAt()}, t.x)
	left := GP32()
	MOVL(U32(8), left)
	Label("groups")
	if s.sub == 32 {
		t.group()
	} else {
		t.halves()
	}
	t.fetch(s.blockBytes() / 8)
	ADDQ(bytes(2*s.xgroupBytes()), t.x)
	t.a.advance(act32Bytes)
	DECL(left)
	JNZ(LabelRef("groups"))
	t.x = block
	t.finish256()
	ADDQ(bytes(2*s.xbytes()), t.x)
}

// group adds 32 columns with one scale: sums += da·(scale·products) and
// mins += minimum·(da·Σa).
func (t *wideTile) group() {
	acc := t.zeros()
	t.dot(t.s.xquadsAt(), 0, 8, acc)
	sc, m := newWide(), newWide()
	sc.load(t.at(0))
	m.load(t.at(t.s.xfoldAt()))
	for c, v := range acc {
		v.float()
		v.times(sc)
		t.sums[c].addScaled(t.a.at(c, act32D), v)
		t.mins[c].addScaled(t.a.at(c, act32DSum), m)
	}
}

// halves adds 32 columns with two scales, less the offset.
func (t *wideTile) halves() {
	var total []wide
	if t.s.offset != 0 {
		total = wides(t.cols)
		for c, v := range total {
			v.spread(t.a.at(c, act32Halves))
			v.pairs(t.at(t.s.xfoldAt()))
			v.float()
		}
	}
	for i := range 2 {
		acc, sc := t.zeros(), newWide()
		t.dot(t.s.xquadsAt(), 4*i, 4*i+4, acc)
		sc.load(t.at(32 * i))
		for c, v := range acc {
			v.float()
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
		t.sums[c].addScaled(t.a.at(c, act32D), v)
	}
}

// finish256 folds the sums of a block, and of its minima, into the results.
func (t *wideTile) finish256() {
	d := newWide()
	d.load(t.at(0))
	for c, v := range t.sums {
		v.timesAdd(d, t.out.at(c, 0))
		if !t.s.min {
			v.store(t.out.at(c, 0))
		}
	}
	if !t.s.min {
		return
	}
	if t.s.sub == 16 {
		t.minima()
	}
	m := newWide()
	m.load(t.at(t.s.xmAt()))
	for c, v := range t.sums {
		v.sub(t.mins[c], m)
		v.store(t.out.at(c, 0))
	}
}

// minima adds up those of a block with sub-blocks of 16; its columns are the
// eight groups before the next.
func (t *wideTile) minima() {
	t.mins = t.zeros()
	for g := range 8 {
		for c, v := range t.mins {
			n := newWide()
			n.spread(t.a.back(c, 8-g, act32Halves))
			n.pairs(t.at(t.s.xgroupAt() + g*t.s.xgroupBytes() + t.s.xfoldAt()))
			n.float()
			v.addScaled(t.a.back(c, 8-g, act32D), n)
		}
	}
}
