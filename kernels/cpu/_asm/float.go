package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var floatTypes = []struct {
	name string
	size int
}{{"F32", 4}, {"F16", 2}, {"BF16", 2}}

type floatType = struct {
	name string
	size int
}

// loadFloats reads the values of a vector as float32.
func loadFloats(t floatType, m Mem, dst reg.VecVirtual) {
	switch t.name {
	case "F16":
		VCVTPH2PS(m, dst)
	case "BF16":
		VPMOVZXWD(m, dst)
		VPSLLD(Imm(16), dst, dst)
	default:
		VMOVUPS(m, dst)
	}
}

// fmat: acc (0, or dst·alpha) += w·x, k in order. Several panels are worked on
// at once so that enough independent sums are in flight. What is ahead bytes
// after the weights is fetched meanwhile.
func fmat(t floatType, cols int, accumulate bool) {
	name, sig := "fmat", "func(dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int)"
	if accumulate {
		name, sig = "fmatAcc", "func(dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int, alpha *float32)"
	}
	fmatIn(t, cols, accumulate, false, label("%s%sx%d", name, t.name, cols), sig)
}

// fmatIn is fmat by a name; flush makes results below 2⁻¹²⁶ zero.
func fmatIn(t floatType, cols int, accumulate, flush bool, name, sig string) {
	TEXT(name, NOSPLIT, sig)
	Pragma("noescape")
	var mode Mem
	if flush {
		mode = AllocLocal(8)
		bits := GP32()
		STMXCSR(mode)
		MOVL(mode, bits)
		ORL(U32(1<<15), bits)
		MOVL(bits, mode.Offset(4))
		LDMXCSR(mode.Offset(4))
	}
	get := func(n string) reg.GPVirtual { r := GP64(); Load(Param(n), r); return r }
	f := floatMat{t: t, cols: cols, dst: get("dst"), ldd: get("ldd"), w: get("w"), stride: get("stride"), x: get("x"), ldx: get("ldx"), ahead: get("ahead")}
	count := get("count")
	if accumulate {
		f.alpha = get("alpha")
	}
	wide := 2
	if cols == 1 {
		wide = 4
	}
	Label("wide")
	CMPQ(count, Imm(uint64(wide)))
	JL(LabelRef("single"))
	f.panels("wide", wide)
	SUBQ(Imm(uint64(wide)), count)
	JMP(LabelRef("wide"))
	Label("single")
	TESTQ(count, count)
	JZ(LabelRef("done"))
	f.panels("single", 1)
	DECQ(count)
	JMP(LabelRef("single"))
	Label("done")
	if flush {
		LDMXCSR(mode)
	}
	VZEROUPPER()
	RET()
}

type floatMat struct {
	t                           floatType
	cols                        int
	dst, ldd, w, stride, x, ldx reg.GPVirtual
	alpha, ahead                reg.GPVirtual
}

// panels does n panels and advances dst and w past them.
func (f *floatMat) panels(tag string, n int) {
	acc := make([][]reg.VecVirtual, n)
	for p := range acc {
		acc[p] = ymms(f.cols)
	}
	f.start(acc)
	base, left := GP64(), GP64()
	MOVQ(f.x, base)
	x := newColumns(f.cols, base, f.ldx)
	Load(Param("k"), left)
	ptr := make([]reg.GPVirtual, n)
	for p := range ptr {
		ptr[p] = GP64()
		if p == 0 {
			MOVQ(f.w, ptr[p])
		} else {
			LEAQ(Mem{Base: ptr[p-1], Index: f.stride, Scale: 1}, ptr[p])
		}
	}
	LEAQ(Mem{Base: ptr[n-1], Index: f.stride, Scale: 1}, f.w)
	const unroll = 4
	Label(tag + "four")
	CMPQ(left, Imm(unroll))
	JL(LabelRef(tag + "one"))
	for p := range ptr {
		for at := 0; at < unroll*panelRows*f.t.size; at += 64 {
			PREFETCHT0(Mem{Base: ptr[p], Index: f.ahead, Scale: 1, Disp: at})
		}
	}
	for i := range unroll {
		f.column(acc, ptr, x, i)
	}
	f.next(ptr, x, unroll)
	SUBQ(Imm(unroll), left)
	JMP(LabelRef(tag + "four"))
	Label(tag + "one")
	TESTQ(left, left)
	JZ(LabelRef(tag + "out"))
	f.column(acc, ptr, x, 0)
	f.next(ptr, x, 1)
	DECQ(left)
	JMP(LabelRef(tag + "one"))
	Label(tag + "out")
	out := GP64()
	MOVQ(f.dst, out)
	for c := range f.cols {
		if c > 0 {
			ADDQ(f.ldd, out)
		}
		for p := range acc {
			VMOVUPS(acc[p][c], Mem{Base: out, Disp: 32 * p})
		}
	}
	ADDQ(bytes(32*n), f.dst)
}

// start sets the sums to 0 or dst·alpha.
func (f *floatMat) start(acc [][]reg.VecVirtual) {
	if f.alpha == nil {
		for p := range acc {
			for _, v := range acc[p] {
				VXORPS(v, v, v)
			}
		}
		return
	}
	in := GP64()
	MOVQ(f.dst, in)
	for c := range f.cols {
		if c > 0 {
			ADDQ(f.ldd, in)
		}
		al := YMM()
		VBROADCASTSS(Mem{Base: f.alpha, Disp: 4 * c}, al)
		for p := range acc {
			VMULPS(Mem{Base: in, Disp: 32 * p}, al, acc[p][c])
		}
	}
}

// column multiplies column i from the pointers on.
func (f *floatMat) column(acc [][]reg.VecVirtual, ptr []reg.GPVirtual, x columns, i int) {
	w := ymms(len(ptr))
	for p := range ptr {
		loadFloats(f.t, Mem{Base: ptr[p], Disp: panelRows * f.t.size * i}, w[p])
	}
	for c := range f.cols {
		b := YMM()
		VBROADCASTSS(x.at(c, 4*i), b)
		for p := range ptr {
			VFMADD231PS(b, w[p], acc[p][c])
		}
	}
}

func (f *floatMat) next(ptr []reg.GPVirtual, x columns, n int) {
	for _, p := range ptr {
		ADDQ(bytes(panelRows*f.t.size*n), p)
	}
	x.advance(4 * n)
}

// widen turns 8·vecs values into float32.
func widen(t floatType) {
	TEXT(label("widen%s", t.name), NOSPLIT, "func(dst *float32, src *byte, vecs int)")
	Pragma("noescape")
	dst, src, left := Load(Param("dst"), GP64()).(reg.GPVirtual), Load(Param("src"), GP64()).(reg.GPVirtual), Load(Param("vecs"), GP64())
	Label("vec")
	v := YMM()
	loadFloats(t, Mem{Base: src}, v)
	VMOVUPS(v, Mem{Base: dst})
	ADDQ(bytes(panelRows*t.size), src)
	ADDQ(bytes(4*panelRows), dst)
	DECQ(left)
	JNZ(LabelRef("vec"))
	VZEROUPPER()
	RET()
}
