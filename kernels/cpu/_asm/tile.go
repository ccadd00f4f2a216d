package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// For many rows of activations two panels are expanded once to plain bytes and
// then multiplied by tiles of two or three columns (with VNNI, see widetile.go). An
// expanded block is
//
//	d       8 × float32
//	m       8 × float32 (types with minima)
//	groups  one for every 32 columns:
//	sc      for each sub-block 8 × (scale, scale) int16
//	fold    of sub-blocks of 16: 8 × (minimum or −offset·scale of the first, of the
//	        second) int16; of 32: 8 × minimum float32
//	quads   8 × 32 bytes

// asStored tells whether tiles take panels as they are: their levels are bytes.
func (s spec) asStored() bool { return s.low == 8 }

func (s spec) xmAt() int { return 32 }
func (s spec) xgroupAt() int {
	if s.asStored() {
		return s.groupAt()
	}
	if s.min {
		return 64
	}
	return 32
}

// xfoldAt and xquadsAt are offsets in a group.
func (s spec) xfoldAt() int { return 32 * (32 / s.sub) }
func (s spec) xquadsAt() int {
	if s.sub == 0 {
		return 0
	}
	return s.xfoldAt() + 32
}
func (s spec) xgroupBytes() int { return s.xquadsAt() + 32*panelRows }
func (s spec) xbytes() int      { return s.xgroupAt() + s.values/32*s.xgroupBytes() }

// expand writes blocks in expanded form.
func expand(s spec) {
	TEXT(label("%sexpand%s", prefix, s.name), NOSPLIT, "func(dst, w *byte, blocks int)")
	Pragma("noescape")
	dst, w, blocks := GP64(), GP64(), GP64()
	Load(Param("dst"), dst)
	Load(Param("w"), w)
	Load(Param("blocks"), blocks)
	mask := s.lowMask()
	Label("block")
	v := YMM()
	VCVTPH2PS(Mem{Base: w}, v)
	VMOVUPS(v, Mem{Base: dst})
	if s.min {
		v := YMM()
		VCVTPH2PS(Mem{Base: w, Disp: 2 * panelRows}, v)
		VMOVUPS(v, Mem{Base: dst, Disp: s.xmAt()})
	}
	if s.sub > 0 {
		for p := range s.rounds() {
			s.expandScales(dst, w, p)
		}
	}
	for g := range s.values / 32 {
		r := s.reader(w, s.groupAt()+g*s.groupBytes(), mask)
		for _, j := range s.order(0, 8) {
			q := YMM()
			r.quad(j, wide{q})
			store(q, Mem{Base: dst, Disp: s.xgroupAt() + g*s.xgroupBytes() + s.xquadsAt() + 32*j})
		}
	}
	ADDQ(bytes(s.xbytes()), dst)
	ADDQ(bytes(s.blockBytes()), w)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

func (s spec) expandScales(dst, w reg.GPVirtual, p int) {
	pair, one, two := YMM(), YMM(), YMM()
	sc := Mem{Base: w, Disp: s.scAt() + 2*panelRows*p}
	s.loadScales(sc, pair)
	splitPair(pair, one, two)
	at := func(g, disp int) Mem {
		return Mem{Base: dst, Disp: s.xgroupAt() + g*s.xgroupBytes() + disp}
	}
	if s.sub == 32 {
		store(one, at(2*p, 0))
		store(two, at(2*p+1, 0))
		s.loadMins(sc, pair)
		floatMins(pair, one, two)
		store(one, at(2*p, s.xfoldAt()))
		store(two, at(2*p+1, s.xfoldAt()))
		return
	}
	store(one, at(p, 0))
	store(two, at(p, 32))
	if s.min {
		s.loadMins(sc, pair)
	} else {
		s.negated(pair, pair)
	}
	store(pair, at(p, s.xfoldAt()))
}

// tile multiplies two expanded panels by cols columns.
type tile struct {
	s    spec
	cols int
	x    [2]reg.GPVirtual
	a    columns
	sums [2][]reg.VecVirtual // exact sums of 32 columns
	out  columns             // results
	facc [2][]reg.VecVirtual // results so far, or nil: in their place

	// Of types with blocks of 256:
	stack Mem                 // the sums of a block, as in blocks256
	mins  [2][]reg.VecVirtual // and of its minima
}

func tileMat(s spec, cols int) {
	TEXT(label("%stile%sx%d", prefix, s.name, cols), NOSPLIT, "func(dst *float32, ldd int, x *byte, stride int, act *byte, lda, blocks, more int)")
	Pragma("noescape")
	get := func(n string) reg.GPVirtual { r := GP64(); Load(Param(n), r); return r }
	t := &tile{s: s, cols: cols}
	t.x[0], t.x[1] = get("x"), get("stride")
	ADDQ(t.x[0], t.x[1])
	base, lda, blocks := get("act"), get("lda"), get("blocks")
	t.a = newColumns(cols, base, lda)
	t.out = newColumns(cols, get("dst"), get("ldd"))
	inRegisters := s.resultsInRegisters()
	if inRegisters {
		t.facc = t.vectors()
	}
	more := get("more")
	TESTQ(more, more)
	JNZ(LabelRef("more"))
	t.start()
	JMP(LabelRef("begin"))
	Label("more")
	if inRegisters {
		for c := range 2 * cols {
			VMOVUPS(t.result(c%2, c/2), t.facc[c%2][c/2])
		}
	}
	Label("begin")
	if s.values == 256 {
		t.stack = aligned(64 * cols)
	}
	var ones Op = ones16()
	if s.signed {
		v := YMM()
		VMOVDQU(ones16(), v)
		ones = v
	}
	Label("block")
	if s.values == 32 {
		t.sums = t.vectors()
		t.dot(s.xgroupAt(), 0, 8, ones, ones, true)
		t.finish32()
		t.a.advance(act32Bytes)
	} else {
		t.block256()
	}
	for p := range 2 {
		ADDQ(bytes(s.xbytes()), t.x[p])
	}
	DECQ(blocks)
	JNZ(LabelRef("block"))
	for c := range 2 * cols {
		if inRegisters {
			VMOVUPS(t.facc[c%2][c/2], t.result(c%2, c/2))
		}
	}
	VZEROUPPER()
	RET()
}

// start makes the results 0.
func (t *tile) start() {
	if t.facc[0] != nil {
		for _, v := range append(t.facc[0][:t.cols:t.cols], t.facc[1]...) {
			zero(v)
		}
		return
	}
	none := YMM()
	zero(none)
	for c := range 2 * t.cols {
		VMOVUPS(none, t.result(c%2, c/2))
	}
}

// resultsInRegisters tells whether results find room beside sums.
func (s spec) resultsInRegisters() bool {
	return s.values == 32 && s.adds() >= 8 && !s.signed
}

// result is where that of panel p, column c goes.
func (t *tile) result(p, c int) Mem { return t.out.at(c, 32*p) }

// vectors are as many as there are results.
func (t *tile) vectors() [2][]reg.VecVirtual { return [2][]reg.VecVirtual{ymms(t.cols), ymms(t.cols)} }

// dot adds quads [from, to), at disp of the panels, times the factors to sums.
func (t *tile) dot(disp, from, to int, f0, f1 Op, fresh bool) {
	factor := [2]Op{f0, f1}
	var acc [2][]reg.VecVirtual
	for p := range acc {
		acc[p] = ymms(t.cols)
	}
	n := t.s.adds()
	if t.s.signed {
		n = 1
	}
	for i := range to - from {
		j := from + i
		first, last := i%n == 0, i%n == n-1 || i == to-from-1
		w, abs := ymms(2), ymms(2)
		for p := range 2 {
			VMOVDQU(Mem{Base: t.x[p], Disp: disp + 32*j}, w[p])
			if t.s.signed {
				VPABSB(w[p], abs[p])
			}
		}
		for c := range t.cols {
			b := YMM()
			VPBROADCASTD(t.a.at(c, 4*j), b)
			for p := range 2 {
				v := acc[p][c]
				if !first {
					v = YMM()
				}
				if t.s.signed {
					VPSIGNB(w[p], b, v)
					VPMADDUBSW(v, abs[p], v)
				} else {
					VPMADDUBSW(b, w[p], v)
				}
				if !first {
					VPADDW(v, acc[p][c], acc[p][c])
				}
				if t.s.signed {
					t.widen(factor[p], acc[p][c], t.sums[p][c], fresh)
				}
			}
			for p := range 2 {
				if last && !t.s.signed {
					t.widen(factor[p], acc[p][c], t.sums[p][c], fresh)
				}
			}
		}
		if last {
			fresh = false
		}
	}
}

func (t *tile) widen(factor Op, acc, sum reg.VecVirtual, fresh bool) {
	if fresh {
		VPMADDWD(factor, acc, sum)
		return
	}
	VPMADDWD(factor, acc, acc)
	VPADDD(acc, sum, sum)
}

// accumulate adds a·b to the result of panel p, column c; b is lost.
func (t *tile) accumulate(p, c int, a Op, b reg.VecVirtual) {
	if t.facc[p] != nil {
		VFMADD231PS(a, b, t.facc[p][c])
		return
	}
	at := t.result(p, c)
	if _, ok := a.(Mem); ok {
		v := YMM()
		VMOVUPS(at, v)
		VFMADD231PS(a, b, v)
		b = v
	} else {
		VFMADD213PS(at, a, b)
	}
	VMOVUPS(b, at)
}

func (t *tile) finish32() {
	scale := [2]Op{Mem{Base: t.x[0]}, Mem{Base: t.x[1]}}
	if t.s.asStored() {
		for p := range scale {
			v := YMM()
			VCVTPH2PS(Mem{Base: t.x[p]}, v)
			scale[p] = v
		}
	}
	for c := range t.cols {
		if t.s.offset != 0 {
			o := YMM()
			VPBROADCASTD(t.a.at(c, t.s.lessAt()), o)
			for p := range 2 {
				VPADDD(o, t.sums[p][c], t.sums[p][c])
			}
		}
		f := YMM()
		VBROADCASTSS(t.a.at(c, act32D), f)
		for p := range 2 {
			v, u := t.sums[p][c], YMM()
			VCVTDQ2PS(v, v)
			VMULPS(scale[p], f, u)
			t.accumulate(p, c, u, v)
		}
		if t.s.min {
			f := YMM()
			VBROADCASTSS(t.a.at(c, act32DSum), f)
			for p := range 2 {
				t.accumulate(p, c, Mem{Base: t.x[p], Disp: t.s.xmAt()}, f)
			}
		}
	}
}
