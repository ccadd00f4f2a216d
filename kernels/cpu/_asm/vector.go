package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func f32(name string, v float32) Mem { return words(name, math.Float32bits(v)) }

func toInt() Mem   { return f32("toInt", 12582912) }
func absMask() Mem { return words("absMask", 0x7fffffff) }

// expInPlace is exp32 of the package above on eight lanes.
func expInPlace(x reg.VecVirtual) {
	t, n, y := YMM(), YMM(), YMM()
	VMAXPS(f32("expMin", -87), x, x)
	VMINPS(f32("expMax", 88), x, x)
	VMULPS(f32("log2e", 1.44269504088896341), x, t)
	VADDPS(toInt(), t, t)
	VSUBPS(toInt(), t, n)
	VMULPS(f32("ln2hi", 0.693359375), n, y)
	VSUBPS(y, x, x)
	VMULPS(f32("ln2lo", -2.12194440e-4), n, y)
	VSUBPS(y, x, x)
	VMULPS(f32("expC0", 1.9875691500e-4), x, y)
	VADDPS(f32("expC1", 1.3981999507e-3), y, y)
	for _, c := range []struct {
		name string
		v    float32
	}{{"expC2", 8.3334519073e-3}, {"expC3", 4.1665795894e-2}, {"expC4", 1.6666665459e-1}, {"expC5", 5.0000001201e-1}} {
		VMULPS(x, y, y)
		VADDPS(f32(c.name, c.v), y, y)
	}
	VMULPS(x, x, n)
	VMULPS(n, y, y)
	VADDPS(x, y, y)
	VADDPS(f32("one", 1), y, y)
	VPSLLD(Imm(23), t, t)
	VPADDD(t, y, x)
}

// horizontal folds eight lanes into lane 0: halves, then pairs two apart, then
// neighbours.
func horizontal(v reg.VecVirtual, op func(a, b, dst Op)) reg.VecVirtual {
	h, l := XMM(), v.AsX()
	VEXTRACTF128(Imm(1), v, h)
	op(h, l, l)
	VMOVHLPS(l, l, h)
	op(h, l, l)
	VMOVSHDUP(l, h)
	op(h, l, l)
	return v
}

func add4(a, b, dst Op) { VADDPS(a, b, dst) }
func max4(a, b, dst Op) { VMAXPS(a, b, dst) }

// softmax: see kernelSet.
func softmax() {
	TEXT("softmaxAVX2", NOSPLIT, "func(s *float32, vecs, lo, hi int, scale float32, st *float32) float32")
	Pragma("noescape")
	s, vecs, st := Load(Param("s"), GP64()), Load(Param("vecs"), GP64()), Load(Param("st"), GP64())
	lo, hi, scale, index := YMM(), YMM(), YMM(), YMM()
	for _, p := range []struct {
		name string
		v    reg.VecVirtual
		less uint64
	}{{"lo", lo, 1}, {"hi", hi, 0}} {
		g := Load(Param(p.name), GP64())
		if p.less > 0 {
			DECQ(g)
		}
		VMOVD(g.(reg.GPVirtual).As32(), p.v.AsX())
		VPBROADCASTD(p.v.AsX(), p.v)
	}
	VBROADCASTSS(paramMem("scale"), scale)
	iota := GLOBL("iota", RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(i))
	}
	// valid = index > lo−1 and hi > index
	valid := func(m reg.VecVirtual) {
		t := YMM()
		VPCMPGTD(lo, index, m)
		VPCMPGTD(index, hi, t)
		VPAND(t, m, m)
	}
	loop := func(tag string, body func(at Mem)) {
		p, left := GP64(), GP64()
		MOVQ(s, p)
		MOVQ(vecs, left)
		VMOVDQU(iota, index)
		Label(tag)
		body(Mem{Base: p})
		VPADDD(words("eight", 8), index, index)
		ADDQ(bytes(32), p)
		DECQ(left)
		JNZ(LabelRef(tag))
	}
	top := YMM()
	VBROADCASTSS(Mem{Base: st}, top)
	loop("first", func(at Mem) {
		v, m := YMM(), YMM()
		VMULPS(at, scale, v)
		VMOVUPS(v, at)
		valid(m)
		low := YMM()
		VMOVUPS(f32("softNegInf", -3e38), low)
		VBLENDVPS(m, v, low, v)
		VMAXPS(v, top, top)
	})
	horizontal(top, max4)
	alpha, sum := YMM(), YMM()
	VBROADCASTSS(top.AsX(), top)
	VBROADCASTSS(Mem{Base: st}, alpha)
	VMOVSS(top.AsX(), Mem{Base: st})
	VSUBPS(top, alpha, alpha)
	expInPlace(alpha)
	VMULPS(Mem{Base: st, Disp: 32}, alpha, sum)
	loop("second", func(at Mem) {
		v, m := YMM(), YMM()
		VMOVUPS(at, v)
		VSUBPS(top, v, v)
		expInPlace(v)
		valid(m)
		VPAND(m, v, v)
		VMOVUPS(v, at)
		VADDPS(v, sum, sum)
	})
	VMOVUPS(sum, Mem{Base: st, Disp: 32})
	Store(alpha.AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func paramMem(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// vectors walks n vectors of the named pointers.
func vectors(names []string, body func(at []Mem)) {
	var ptrs []reg.GPVirtual
	var at []Mem
	for _, n := range names {
		p := Load(Param(n), GP64()).(reg.GPVirtual)
		ptrs, at = append(ptrs, p), append(at, Mem{Base: p})
	}
	n := Load(Param("vecs"), GP64())
	Label("loop")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	body(at)
	for _, p := range ptrs {
		ADDQ(bytes(32), p)
	}
	DECQ(n)
	JMP(LabelRef("loop"))
	Label("done")
}

func sumSquares() {
	TEXT("sumSquaresAVX2", NOSPLIT, "func(x *float32, vecs int) float32")
	Pragma("noescape")
	sum := YMM()
	VXORPS(sum, sum, sum)
	vectors([]string{"x"}, func(at []Mem) {
		v := YMM()
		VMOVUPS(at[0], v)
		VMULPS(v, v, v)
		VADDPS(v, sum, sum)
	})
	horizontal(sum, add4)
	Store(sum.AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// largest: pairs of vectors. What is no number loses against what was before it.
func largest() {
	TEXT("largestAVX2", NOSPLIT, "func(x *float32, pairs int) float32")
	Pragma("noescape")
	p, n := Load(Param("x"), GP64()), Load(Param("pairs"), GP64())
	var tops [2]reg.VecVirtual
	for i := range tops {
		tops[i] = YMM()
		VMOVUPS(f32("negInf", float32(math.Inf(-1))), tops[i])
	}
	Label("loop")
	for i, t := range tops {
		v := YMM()
		VMOVUPS(Mem{Base: p, Disp: 32 * i}, v)
		VMAXPS(t, v, t)
	}
	ADDQ(Imm(64), p)
	DECQ(n)
	JNZ(LabelRef("loop"))
	VMAXPS(tops[1], tops[0], tops[0])
	horizontal(tops[0], max4)
	Store(tops[0].AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// powers: dst = e^((x−top)·scale), or 0, and their sum.
func powers() {
	TEXT("powersAVX2", NOSPLIT, "func(dst, x *float32, top, scale float32, vecs int) float32")
	Pragma("noescape")
	top, scale, sum := YMM(), YMM(), YMM()
	VBROADCASTSS(paramMem("top"), top)
	VBROADCASTSS(paramMem("scale"), scale)
	VXORPS(sum, sum, sum)
	vectors([]string{"dst", "x"}, func(at []Mem) {
		v, some := YMM(), YMM()
		VMOVUPS(at[1], v)
		VSUBPS(top, v, v)
		VMULPS(scale, v, v)
		VCMPPS(Imm(0x1e), f32("expMin", -87), v, some) // greater, and a number
		expInPlace(v)
		VANDPS(some, v, v)
		VMOVUPS(v, at[0])
		VADDPS(v, sum, sum)
	})
	horizontal(sum, add4)
	Store(sum.AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func scaleMul() {
	TEXT("scaleMulAVX2", NOSPLIT, "func(dst, a, w *float32, f float32, vecs int)")
	Pragma("noescape")
	f := YMM()
	VBROADCASTSS(paramMem("f"), f)
	vectors([]string{"dst", "a", "w"}, func(at []Mem) {
		v := YMM()
		VMULPS(at[1], f, v)
		VMULPS(at[2], v, v)
		VMOVUPS(v, at[0])
	})
	VZEROUPPER()
	RET()
}

func addTo() {
	TEXT("addAVX2", NOSPLIT, "func(dst, a *float32, vecs int)")
	Pragma("noescape")
	vectors([]string{"dst", "a"}, func(at []Mem) {
		v := YMM()
		VMOVUPS(at[0], v)
		VADDPS(at[1], v, v)
		VMOVUPS(v, at[0])
	})
	VZEROUPPER()
	RET()
}

// gated: dst = a / (1 + e^−u) · b, u = a, or 2√(2/π)·(a + 0.044715 a³).
func gated(name string, gelu bool) {
	TEXT(name+"AVX2", NOSPLIT, "func(dst, a, b *float32, vecs int)")
	Pragma("noescape")
	vectors([]string{"dst", "a", "b"}, func(at []Mem) {
		v, e := YMM(), YMM()
		VMOVUPS(at[1], v)
		if gelu {
			VMULPS(v, v, e)
			VMULPS(v, e, e)
			VMULPS(f32("geluCubic", 0.044715), e, e)
			VADDPS(v, e, e)
			VMULPS(f32("geluScale", -1.5957691216057308), e, e)
		} else {
			VXORPS(words("signBit", 1<<31), v, e)
		}
		expInPlace(e)
		VADDPS(f32("one", 1), e, e)
		VDIVPS(e, v, v)
		VMULPS(at[2], v, v)
		VMOVUPS(v, at[0])
	})
	VZEROUPPER()
	RET()
}

// half rounds to binary16, to nearest even.
func half() {
	TEXT("halfAVX2", NOSPLIT, "func(dst *uint16, x *float32, vecs int)")
	Pragma("noescape")
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("vecs"), GP64())
	Label("loop")
	v := YMM()
	VMOVUPS(Mem{Base: x}, v)
	VCVTPS2PH(Imm(0), v, Mem{Base: dst})
	ADDQ(bytes(32), x)
	ADDQ(bytes(16), dst)
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func pause() {
	TEXT("pause", NOSPLIT, "func()")
	Doc("pause tells the processor that a loop waits for memory to change.")
	PAUSE()
	RET()
}
