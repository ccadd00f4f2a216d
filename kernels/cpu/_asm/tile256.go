package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// block256 is what blocks256 does, on expanded panels.
func (t *tile) block256() {
	s := t.s
	clearStack(t.stack, 2*t.cols)
	x := t.x
	for p := range t.x { // walks by groups
		t.x[p] = GP64()
		LEAQ(Mem{Base: x[p], Disp: s.xgroupAt()}, t.x[p])
	}
	if s.min && s.minsInRegisters() {
		t.mins = [2][]reg.VecVirtual{zeros(t.cols), zeros(t.cols)}
	}
	left := GP32()
	MOVL(U32(8), left)
	Label("groups")
	t.group()
	DECL(left)
	JNZ(LabelRef("groups"))
	t.x = x
	t.finish256()
}

// startWithOffset makes sums what the offset takes off.
func (t *tile) startWithOffset() {
	for c := range t.cols {
		b := YMM()
		VPBROADCASTD(t.a.at(c, act32Halves), b)
		for p := range 2 {
			VPMADDWD(Mem{Base: t.x[p], Disp: t.s.xfoldAt()}, b, t.sums[p][c])
		}
	}
}

// group folds 32 columns into the sums of the block and advances.
func (t *tile) group() {
	s := t.s
	t.sums = t.vectors()
	if s.offset != 0 {
		t.startWithOffset()
	}
	if t.mins[0] != nil {
		t.minima(0, s.xfoldAt())
	}
	per := 32 / s.sub
	for i := range per {
		t.dot(s.xquadsAt(), i*8/per, (i+1)*8/per, Mem{Base: t.x[0], Disp: 32 * i}, Mem{Base: t.x[1], Disp: 32 * i}, i == 0 && s.offset == 0)
	}
	for c := range t.cols {
		t.add(c)
	}
	for p := range t.x {
		ADDQ(bytes(s.xgroupBytes()), t.x[p])
	}
	t.a.advance(act32Bytes)
}

// add folds the sums of column c into those of the block.
func (t *tile) add(c int) {
	da := YMM()
	VBROADCASTSS(t.a.at(c, act32D), da)
	for p := range 2 {
		v, at := t.sums[p][c], t.stack.Offset(32*(p*t.cols+c))
		VCVTDQ2PS(v, v)
		VFMADD213PS(at, da, v)
		VMOVUPS(v, at)
	}
}

// finish256 folds the sums of a block, and of its minima, into the results.
func (t *tile) finish256() {
	for p := range 2 {
		d := YMM()
		VMOVUPS(Mem{Base: t.x[p]}, d)
		for c := range t.cols {
			v := YMM()
			VMOVUPS(t.stack.Offset(32*(p*t.cols+c)), v)
			VFMADD213PS(t.result(p, c), d, v)
			VMOVUPS(v, t.result(p, c))
		}
	}
	if !t.s.min {
		return
	}
	if t.mins[0] == nil {
		t.mins = [2][]reg.VecVirtual{zeros(t.cols), zeros(t.cols)}
		for g := range 8 {
			t.minima(8-g, t.s.xgroupAt()+g*t.s.xgroupBytes()+t.s.xfoldAt())
		}
	}
	for p := range 2 {
		m := YMM()
		VMOVUPS(Mem{Base: t.x[p], Disp: t.s.xmAt()}, m)
		for c := range t.cols {
			v := YMM()
			VMOVUPS(t.result(p, c), v)
			VFNMADD231PS(t.mins[p][c], m, v)
			VMOVUPS(v, t.result(p, c))
		}
	}
}

// minsInRegisters tells whether those of a block find room beside the products.
func (s spec) minsInRegisters() bool { return s.sub == 32 && s.adds() >= 8 }

// minima adds those of a group, whose fold is at disp of the panels and whose
// activations are n groups before the next.
func (t *tile) minima(n, disp int) {
	for c := range t.cols {
		b := YMM()
		if t.s.sub == 32 {
			VBROADCASTSS(t.a.back(c, n, act32DSum), b)
			for p := range 2 {
				VFMADD231PS(Mem{Base: t.x[p], Disp: disp}, b, t.mins[p][c])
			}
			continue
		}
		da := YMM()
		VPBROADCASTD(t.a.back(c, n, act32Halves), b)
		VBROADCASTSS(t.a.back(c, n, act32D), da)
		for p := range 2 {
			v := YMM()
			VPMADDWD(Mem{Base: t.x[p], Disp: disp}, b, v)
			VCVTDQ2PS(v, v)
			VFMADD231PS(v, da, t.mins[p][c])
		}
	}
}
