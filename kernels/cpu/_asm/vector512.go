package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// each512 is how many vectors the kernels with exponentials work on together: an
// exponential is a chain of 24 operations, of which the processor can look ahead at
// about four.
const each512 = 4

// exp512 is exp32 of the package above on each of v. The lanes of a mask that is not
// nil are kept, the others become zero.
func exp512(v []reg.VecVirtual, masks []reg.OpmaskVirtual) {
	t, n, y := zmms(len(v)), zmms(len(v)), zmms(len(v))
	each := func(f func(x, t, n, y reg.VecVirtual)) {
		for i := range v {
			f(v[i], t[i], n[i], y[i])
		}
	}
	each(func(x, _, _, _ reg.VecVirtual) { VMAXPS_BCST(f32("expMin", -87), x, x) })
	each(func(x, _, _, _ reg.VecVirtual) { VMINPS_BCST(f32("expMax", 88), x, x) })
	each(func(x, t, _, _ reg.VecVirtual) { VMULPS_BCST(f32("log2e", 1.44269504088896341), x, t) })
	each(func(_, t, _, _ reg.VecVirtual) { VADDPS_BCST(toInt(), t, t) })
	each(func(_, t, n, _ reg.VecVirtual) { VSUBPS_BCST(toInt(), t, n) })
	each(func(x, _, n, _ reg.VecVirtual) { VFNMADD231PS_BCST(f32("ln2hi", 0.693359375), n, x) }) // an exact product
	each(func(_, _, n, y reg.VecVirtual) { VMULPS_BCST(f32("ln2lo", -2.12194440e-4), n, y) })
	each(func(x, _, _, y reg.VecVirtual) { VSUBPS(y, x, x) })
	each(func(x, _, _, y reg.VecVirtual) { VMULPS_BCST(f32("expC0", 1.9875691500e-4), x, y) })
	for i, c := range []Mem{f32("expC1", 1.3981999507e-3), f32("expC2", 8.3334519073e-3), f32("expC3", 4.1665795894e-2),
		f32("expC4", 1.6666665459e-1), f32("expC5", 5.0000001201e-1)} {
		if i > 0 {
			each(func(x, _, _, y reg.VecVirtual) { VMULPS(x, y, y) })
		}
		each(func(_, _, _, y reg.VecVirtual) { VADDPS_BCST(c, y, y) })
	}
	each(func(x, _, n, _ reg.VecVirtual) { VMULPS(x, x, n) })
	each(func(_, _, n, y reg.VecVirtual) { VMULPS(n, y, y) })
	each(func(x, _, _, y reg.VecVirtual) { VADDPS(x, y, y) })
	each(func(_, _, _, y reg.VecVirtual) { VADDPS_BCST(f32("one", 1), y, y) })
	each(func(_, t, _, _ reg.VecVirtual) { VPSLLD(Imm(23), t, t) })
	for i, x := range v {
		if i < len(masks) {
			VPADDD_Z(t[i], y[i], masks[i], x)
		} else {
			VPADDD(t[i], y[i], x)
		}
	}
}

// pointer is a parameter that points to values of size bytes.
type pointer struct {
	name string
	size int
}

// vectors512 walks 16·vecs values of the pointers, each512 vectors at a time.
func vectors512(pointers []pointer, body func(at []Mem, n int)) {
	var ptrs []reg.GPVirtual
	var at []Mem
	for _, s := range pointers {
		p := Load(Param(s.name), GP64()).(reg.GPVirtual)
		ptrs, at = append(ptrs, p), append(at, Mem{Base: p})
	}
	left := Load(Param("vecs"), GP64())
	for _, n := range []int{each512, 1} {
		tag := label("by%d", n)
		Label(tag)
		CMPQ(left, Imm(uint64(n)))
		JL(LabelRef(tag + "end"))
		body(at, n)
		for i, p := range ptrs {
			ADDQ(bytes(16*pointers[i].size*n), p)
		}
		SUBQ(Imm(uint64(n)), left)
		JMP(LabelRef(tag))
		Label(tag + "end")
	}
	VZEROUPPER()
	RET()
}

// gated512: see gated.
func gated512(name string, gelu bool) {
	TEXT(name+"512", NOSPLIT, "func(dst, a, b *float32, vecs int)")
	Pragma("noescape")
	vectors512([]pointer{{"dst", 4}, {"a", 4}, {"b", 4}}, func(at []Mem, n int) {
		v, e := zmms(n), zmms(n)
		for i := range v {
			VMOVUPS(at[1].Offset(64*i), v[i])
			if gelu {
				VMULPS(v[i], v[i], e[i])
				VMULPS(v[i], e[i], e[i])
				VMULPS_BCST(f32("geluCubic", 0.044715), e[i], e[i])
				VADDPS(v[i], e[i], e[i])
				VMULPS_BCST(f32("geluScale", -1.5957691216057308), e[i], e[i])
			} else {
				VXORPS_BCST(words("signBit", 1<<31), v[i], e[i])
			}
		}
		exp512(e, nil)
		for i := range v {
			VADDPS_BCST(f32("one", 1), e[i], e[i])
			VDIVPS(e[i], v[i], v[i])
			VMULPS(at[2].Offset(64*i), v[i], v[i])
			VMOVUPS(v[i], at[0].Offset(64*i))
		}
	})
}

func scaleMul512() {
	TEXT("scaleMul512", NOSPLIT, "func(dst, a, w *float32, f float32, vecs int)")
	Pragma("noescape")
	f := ZMM()
	VBROADCASTSS(paramMem("f"), f)
	vectors512([]pointer{{"dst", 4}, {"a", 4}, {"w", 4}}, func(at []Mem, n int) {
		for i, v := range zmms(n) {
			VMULPS(at[1].Offset(64*i), f, v)
			VMULPS(at[2].Offset(64*i), v, v)
			VMOVUPS(v, at[0].Offset(64*i))
		}
	})
}

func add512() {
	TEXT("add512", NOSPLIT, "func(dst, a *float32, vecs int)")
	Pragma("noescape")
	vectors512([]pointer{{"dst", 4}, {"a", 4}}, func(at []Mem, n int) {
		for i, v := range zmms(n) {
			VMOVUPS(at[0].Offset(64*i), v)
			VADDPS(at[1].Offset(64*i), v, v)
			VMOVUPS(v, at[0].Offset(64*i))
		}
	})
}

// half512: see half.
func half512() {
	TEXT("half512", NOSPLIT, "func(dst *uint16, x *float32, vecs int)")
	Pragma("noescape")
	vectors512([]pointer{{"dst", 2}, {"x", 4}}, func(at []Mem, n int) {
		for i, v := range zmms(n) {
			VMOVUPS(at[1].Offset(64*i), v)
			VCVTPS2PH(Imm(0), v, at[0].Offset(32*i))
		}
	})
}

// widen512: see widen; vecs are of sixteen values.
func widen512(t floatType) {
	TEXT(label("widen512%s", t.name), NOSPLIT, "func(dst *float32, src *byte, vecs int)")
	Pragma("noescape")
	vectors512([]pointer{{"dst", 4}, {"src", t.size}}, func(at []Mem, n int) {
		for i, v := range zmms(n) {
			loadFloats(t, at[1].Offset(16*t.size*i), v)
			VMOVUPS(v, at[0].Offset(64*i))
		}
	})
}

// softmax512: see kernelSet. All keyTile scores of a column are worked on at once, the
// maxima of all columns first, so that their alphas are vectors too.
func softmax512() {
	TEXT("softmax512", NOSPLIT, "func(s *float32, cols, lo, hi int, scale float32, st, alpha *float32)")
	Pragma("noescape")
	lo, hi := Load(Param("lo"), GP64()), Load(Param("hi"), GP64())
	// The lanes below hi, then without those below lo.
	bits, below := GP64(), GP64()
	MOVQ(I32(-1), bits)
	BZHIQ(hi, bits, bits)
	MOVQ(I32(-1), below)
	BZHIQ(lo, below, below)
	ANDNQ(bits, below, bits)
	masks := make([]reg.OpmaskVirtual, 4)
	for i := range masks {
		masks[i] = K()
		if i > 0 {
			SHRQ(Imm(16), bits)
		}
		KMOVW(bits.As32(), masks[i])
	}
	scale, none := ZMM(), ZMM()
	VBROADCASTSS(paramMem("scale"), scale)
	VBROADCASTSS(f32("softNegInf", -3e38), none)
	each := func(tag string, body func(s, st, alpha reg.Register)) {
		s, st, alpha, left := Load(Param("s"), GP64()), Load(Param("st"), GP64()), Load(Param("alpha"), GP64()), Load(Param("cols"), GP64())
		Label(tag)
		body(s, st, alpha)
		ADDQ(U32(256), s)
		ADDQ(Imm(64), st)
		ADDQ(Imm(4), alpha)
		DECQ(left)
		JNZ(LabelRef(tag))
	}
	each("tops", func(s, st, alpha reg.Register) {
		v, top, high, old := zmms(len(masks)), ZMM(), YMM(), XMM()
		for i := range v {
			VMOVAPS(none, v[i])
			VMULPS(Mem{Base: s, Disp: 64 * i}, scale, masks[i], v[i])
		}
		VBROADCASTSS(Mem{Base: st}, top)
		VMAXPS(v[0], v[1], v[1])
		VMAXPS(v[2], top, top)
		VMAXPS(v[3], v[1], v[1])
		VMAXPS(v[1], top, top)
		VEXTRACTF32X8(Imm(1), top, high)
		VMAXPS(top.AsY(), high, high)
		horizontal(high, max4)
		VMOVSS(Mem{Base: st}, old)
		VMOVSS(high.AsX(), Mem{Base: st})
		VSUBSS(high.AsX(), old, old)
		VMOVSS(old, Mem{Base: alpha})
	})
	alpha, left := Load(Param("alpha"), GP64()), Load(Param("cols"), GP64())
	Label("alphas")
	some, v := K(), ZMM()
	MOVQ(I32(0xffff), bits)
	BZHIQ(left, bits, bits)
	KMOVW(bits.As32(), some)
	VMOVUPS_Z(Mem{Base: alpha}, some, v)
	exp512([]reg.VecVirtual{v}, nil)
	VMOVUPS(v, some, Mem{Base: alpha})
	ADDQ(Imm(64), alpha)
	SUBQ(Imm(16), left)
	JG(LabelRef("alphas"))
	each("weights", func(s, st, alpha reg.Register) {
		v, top, sum := zmms(len(masks)), ZMM(), YMM()
		VBROADCASTSS(Mem{Base: st}, top)
		for i, x := range v {
			VMULPS_Z(Mem{Base: s, Disp: 64 * i}, scale, masks[i], x)
			VSUBPS(top, x, x)
		}
		exp512(v, masks)
		VBROADCASTSS(Mem{Base: alpha}, sum)
		VMULPS(Mem{Base: st, Disp: 32}, sum, sum)
		for i, x := range v {
			VMOVUPS(x, Mem{Base: s, Disp: 64 * i})
			addHalves(x, sum)
		}
		VMOVUPS(sum, Mem{Base: st, Disp: 32})
	})
	VZEROUPPER()
	RET()
}

// powers512: see powers; vecs are of eight values.
func powers512() {
	TEXT("powers512", NOSPLIT, "func(dst, x *float32, top, scale float32, vecs int) float32")
	Pragma("noescape")
	dst, p, left := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("vecs"), GP64()).(reg.GPVirtual)
	top, scale, sum := ZMM(), ZMM(), YMM()
	VBROADCASTSS(paramMem("top"), top)
	VBROADCASTSS(paramMem("scale"), scale)
	VXORPS(sum, sum, sum)
	body := func(n int, rows reg.OpmaskVirtual) {
		v, some := zmms(n), make([]reg.OpmaskVirtual, n)
		for i := range v {
			some[i] = K()
			at := Mem{Base: p, Disp: 64 * i}
			if rows != nil {
				VMOVUPS_Z(at, rows, v[i])
			} else {
				VMOVUPS(at, v[i])
			}
			VSUBPS(top, v[i], v[i])
			VMULPS(scale, v[i], v[i])
			if rows != nil {
				VCMPPS_BCST(Imm(0x1e), f32("expMin", -87), v[i], rows, some[i]) // greater, and a number
			} else {
				VCMPPS_BCST(Imm(0x1e), f32("expMin", -87), v[i], some[i])
			}
		}
		exp512(v, some)
		for i, x := range v {
			if rows != nil {
				VMOVUPS(x, rows, Mem{Base: dst})
			} else {
				VMOVUPS(x, Mem{Base: dst, Disp: 64 * i})
			}
			addHalves(x, sum)
		}
		ADDQ(bytes(64*n), p)
		ADDQ(bytes(64*n), dst)
		SUBQ(Imm(uint64(2*n)), left)
	}
	Label("all")
	CMPQ(left, Imm(2*each512))
	JL(LabelRef("rest"))
	body(each512, nil)
	JMP(LabelRef("all"))
	Label("rest")
	TESTQ(left, left)
	JLE(LabelRef("done"))
	body(1, pairRows(left))
	JMP(LabelRef("rest"))
	Label("done")
	horizontal(sum, add4)
	Store(sum.AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// addHalves adds the lower half of x to sum, then the upper one.
func addHalves(x, sum reg.VecVirtual) {
	high := YMM()
	VEXTRACTF32X8(Imm(1), x, high)
	VADDPS(x.AsY(), sum, sum)
	VADDPS(high, sum, sum)
}
