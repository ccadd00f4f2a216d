package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// For many rows of activations two panels are expanded once to plain bytes and
// then multiplied by tiles of two or three columns. An expanded block is
//
//	d       8 × float32
//	m       8 × float32 (types with minima)
//	sc      for each sub-block 8 × (scale, scale) int16, or int32 with VNNI
//	pairs   for each pair of sub-blocks 8 × (minimum or, for types with an
//	        offset, scale of the first, of the second) int16
//	quads   8 × 32 bytes for every 32 columns

func (s spec) subs() int {
	if s.sub == 0 {
		return 0
	}
	return s.values / s.sub
}

func (s spec) xmAt() int { return 32 }
func (s spec) xscAt() int {
	if s.min {
		return 64
	}
	return 32
}
func (s spec) xpairsAt() int { return s.xscAt() + 32*s.subs() }
func (s spec) xquadsAt() int { return s.xpairsAt() + 32*s.subs()/2 }
func (s spec) xbytes() int   { return s.xquadsAt() + panelRows*s.values }

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
	for p := range s.subs() / 2 {
		s.expandScales(dst, w, p)
	}
	for g := range s.values / 32 {
		r := s.reader(w, s.groupAt()+g*s.groupBytes(), mask)
		for _, j := range s.order(0, 8) {
			q := YMM()
			r.quad(j, q)
			store(q, Mem{Base: dst, Disp: s.xquadsAt() + 256*g + 32*j})
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
	pair, one := YMM(), YMM()
	s.loadScales(Mem{Base: w, Disp: s.scAt() + 2*panelRows*p}, pair)
	two := YMM()
	splitPair(pair, one, two)
	store(one, Mem{Base: dst, Disp: s.xscAt() + 64*p})
	store(two, Mem{Base: dst, Disp: s.xscAt() + 64*p + 32})
	if s.min {
		s.loadMins(w, p, pair)
	}
	store(pair, Mem{Base: dst, Disp: s.xpairsAt() + 32*p})
}

// loadMins reads pair p of the minima as int16.
func (s spec) loadMins(w reg.GPVirtual, p int, dst reg.VecVirtual) {
	if s.nibble {
		VPMOVZXBW(Mem{Base: w, Disp: s.scAt() + 2*panelRows*p}, dst)
		VPSRLW(Imm(4), dst, dst)
		return
	}
	VPMOVZXBW(Mem{Base: w, Disp: s.mnAt() + 2*panelRows*p}, dst)
}

// tile multiplies two expanded panels by cols columns.
type tile struct {
	s       spec
	cols    int
	x       [2]reg.GPVirtual
	a       columns
	sums    [2][]reg.VecVirtual // exact sums of the block
	facc    [2][]reg.VecVirtual // results so far, if in registers
	stack   Mem                 // else here
	onStack bool
}

func tileMat(s spec, cols int) {
	TEXT(label("%stile%sx%d", prefix, s.name, cols), NOSPLIT, "func(dst *float32, ldd int, x *byte, stride int, act *byte, lda, blocks int)")
	Pragma("noescape")
	get := func(n string) reg.GPVirtual { r := GP64(); Load(Param(n), r); return r }
	t := &tile{s: s, cols: cols, onStack: s.values == 256 || s.adds() < 8 || s.signed}
	if vnni {
		t.onStack = s.values == 256 || emulated
	}
	t.x[0], t.x[1] = get("x"), get("stride")
	ADDQ(t.x[0], t.x[1])
	base, lda, blocks := get("act"), get("lda"), get("blocks")
	t.a = newColumns(cols, base, lda)
	if t.onStack {
		t.stack = AllocLocal(64 * cols)
	}
	none := YMM()
	zero(none)
	for p := range 2 {
		if !t.onStack {
			t.facc[p] = ymms(cols)
		}
		for c := range cols {
			if t.onStack {
				VMOVUPS(none, t.stack.Offset(32*(p*cols+c)))
			} else {
				zero(t.facc[p][c])
			}
		}
	}
	Label("block")
	t.sums = [2][]reg.VecVirtual{ymms(cols), ymms(cols)}
	if s.values == 32 {
		t.dot(s.xquadsAt(), 0, 8, ones16(), ones16(), true)
		t.finish32()
		t.a.advance(act32Bytes)
	} else {
		t.block256()
		t.a.advance(act256Rest)
	}
	for p := range 2 {
		ADDQ(bytes(s.xbytes()), t.x[p])
	}
	DECQ(blocks)
	JNZ(LabelRef("block"))
	dst, ldd := get("dst"), get("ldd")
	for c := range cols {
		if c > 0 {
			ADDQ(ldd, dst)
		}
		for p := range 2 {
			v := YMM()
			if t.onStack {
				VMOVUPS(t.stack.Offset(32*(p*cols+c)), v)
			} else {
				v = t.facc[p][c]
			}
			VMOVUPS(v, Mem{Base: dst, Disp: 32 * p})
		}
	}
	VZEROUPPER()
	RET()
}

// dot adds quads [from, to), at disp of the panels, times the factors to sums.
func (t *tile) dot(disp, from, to int, f0, f1 Op, fresh bool) {
	factor := [2]Op{f0, f1}
	if vnni {
		t.dotVNNI(disp, from, to, factor, fresh)
		return
	}
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
		}
		if last && !t.s.signed {
			for p := range 2 {
				for c := range t.cols {
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

// accumulate adds v to (or takes it from) the result of panel p, column c.
func (t *tile) accumulate(p, c int, v reg.VecVirtual, sub bool) {
	if !t.onStack {
		if sub {
			VSUBPS(v, t.facc[p][c], t.facc[p][c])
		} else {
			VADDPS(v, t.facc[p][c], t.facc[p][c])
		}
		return
	}
	at := t.stack.Offset(32 * (p*t.cols + c))
	if sub {
		u := YMM()
		VMOVUPS(at, u)
		VSUBPS(v, u, v)
	} else {
		VADDPS(at, v, v)
	}
	VMOVUPS(v, at)
}

func (t *tile) finish32() {
	for c := range t.cols {
		if t.s.offset != 0 {
			o := YMM()
			VPBROADCASTD(t.a.at(c, act32Sum), o)
			VPSLLD(Imm(log2(t.s.offset)), o, o)
			for p := range 2 {
				VPSUBD(o, t.sums[p][c], t.sums[p][c])
			}
		}
		t.scale(c, 0, act32D, t.sums, false)
		if t.s.min {
			f := YMM()
			VBROADCASTSS(t.a.at(c, act32DSum), f)
			for p := range 2 {
				v := YMM()
				VMULPS(Mem{Base: t.x[p], Disp: t.s.xmAt()}, f, v)
				t.accumulate(p, c, v, false)
			}
		}
	}
}

// scale: results += (or −=) float(sums)·(scale at disp · d of the column).
func (t *tile) scale(c, disp, dAt int, sums [2][]reg.VecVirtual, sub bool) {
	f := YMM()
	VBROADCASTSS(t.a.at(c, dAt), f)
	for p := range 2 {
		v, u := sums[p][c], YMM()
		VCVTDQ2PS(v, v)
		VMULPS(Mem{Base: t.x[p], Disp: disp}, f, u)
		VMULPS(u, v, v)
		t.accumulate(p, c, v, sub)
	}
}

func (t *tile) block256() {
	s := t.s
	for p := range 2 {
		for _, v := range t.sums[p] {
			zero(v)
		}
	}
	var q [2]reg.GPVirtual // walks by groups
	x := t.x
	for p := range q {
		q[p] = GP64()
		MOVQ(x[p], q[p])
	}
	// Scales of a group are fs bytes further for each group, quads 256.
	sc := [2]reg.GPVirtual{GP64(), GP64()}
	for p := range sc {
		MOVQ(x[p], sc[p])
	}
	left := GP32()
	MOVL(U32(8), left)
	Label("groups")
	t.x = q
	per := 32 / s.sub
	for i := range per {
		at := s.xscAt() + 32*i
		t.dot(s.xquadsAt(), i*8/per, (i+1)*8/per, Mem{Base: sc[0], Disp: at}, Mem{Base: sc[1], Disp: at}, false)
	}
	for p := range q {
		ADDQ(bytes(256), q[p])
		ADDQ(bytes(32*per), sc[p])
	}
	t.a.advance(32)
	DECL(left)
	JNZ(LabelRef("groups"))
	t.x = x
	if s.offset != 0 {
		v := t.bySums()
		for p := range 2 {
			for c := range t.cols {
				VPSLLD(Imm(log2(s.offset)), v[p][c], v[p][c])
				VPSUBD(v[p][c], t.sums[p][c], t.sums[p][c])
			}
		}
	}
	for c := range t.cols {
		t.scale(c, 0, act256D, t.sums, false)
	}
	if s.min {
		v := t.bySums()
		for c := range t.cols {
			t.scale(c, s.xmAt(), act256D, v, true)
		}
	}
}

// bySums is Σ over pairs of sub-blocks of the pair's values times the sums of
// the activations.
func (t *tile) bySums() (v [2][]reg.VecVirtual) {
	sumsAt := act256Sum16
	if t.s.sub == 32 {
		sumsAt = act256Sum32
	}
	v[0], v[1] = ymms(t.cols), ymms(t.cols)
	for i := range t.s.rounds() {
		for c := range t.cols {
			b := YMM()
			VPBROADCASTD(t.a.at(c, sumsAt+4*i), b)
			for p := range 2 {
				m := Mem{Base: t.x[p], Disp: t.s.xpairsAt() + 32*i}
				if i == 0 {
					VPMADDWD(m, b, v[p][c])
					continue
				}
				u := YMM()
				VPMADDWD(m, b, u)
				VPADDD(u, v[p][c], v[p][c])
			}
		}
	}
	return v
}
