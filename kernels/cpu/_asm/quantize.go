package main

import (
	"encoding/binary"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// scalesOf turns lane 0 of m (the largest magnitude) into d = m/127 (a scalar)
// and 127/m in all lanes; both 0 if m is tiny.
func scalesOf(m reg.VecVirtual) (d reg.VecVirtual, inv reg.VecVirtual) {
	d, inv = XMM(), YMM()
	ok, c := XMM(), XMM()
	VMOVSS(f32("tiny", 1e-30), c)
	VCMPSS(Imm(13), c, m.AsX(), ok) // m ≥ tiny, false for NaN
	VMOVSS(f32("top", 127), c)
	VDIVSS(c, m.AsX(), d)
	VDIVSS(m.AsX(), c, c)
	VANDPS(ok, d, d)
	VANDPS(ok, c, c)
	VBROADCASTSS(c, inv)
	return d, inv
}

// roundBytes rounds 32 floats at x times inv to bytes in order.
func roundBytes(x Mem, inv reg.VecVirtual) reg.VecVirtual {
	v := ymms(4)
	for i := range v {
		VMULPS(x.Offset(32*i), inv, v[i])
		VCVTPS2DQ(v[i], v[i])
	}
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], v[0])
	order := bytes32("packOrder", 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0,
		2, 0, 0, 0, 6, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0)
	idx := YMM()
	VMOVDQU(order, idx)
	VPERMD(v[0], idx, v[0])
	return v[0]
}

// sums16 adds bytes 0–15 into the dwords of the low half, 16–31 of the high.
func sums16(q reg.VecVirtual) reg.VecVirtual {
	s := YMM()
	VMOVDQU(bytes32("ones8", 1), s)
	VPMADDUBSW(q, s, s)
	VPMADDWD(ones16(), s, s)
	VPHADDD(s, s, s)
	VPHADDD(s, s, s)
	return s
}

func maxAbs(x Mem, m, t reg.VecVirtual) {
	VMOVUPS(x, t)
	VANDPS(absMask(), t, t)
	VMAXPS(t, m, m)
}

// less32 are −n as int32.
func less32(n ...int32) (b []byte) {
	for _, v := range n {
		b = binary.LittleEndian.AppendUint32(b, uint32(-v))
	}
	return b
}

func quantize32() {
	TEXT("quantize32AVX2", NOSPLIT, "func(dst *byte, x *float32, blocks int)")
	Pragma("noescape")
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("blocks"), GP64())
	Label("block")
	m, t := YMM(), YMM()
	VXORPS(m, m, m)
	for i := range 4 {
		maxAbs(Mem{Base: x, Disp: 32 * i}, m, t)
	}
	horizontal(m, max4)
	d, inv := scalesOf(m)
	q := roundBytes(Mem{Base: x}, inv)
	VMOVDQU(q, Mem{Base: dst})
	s, h, f, less := sums16(q), XMM(), XMM(), XMM()
	VEXTRACTI128(Imm(1), s, h)
	VPUNPCKLWD(h, s.AsX(), f)
	VMOVD(f, Mem{Base: dst, Disp: act32Halves})
	VPUNPCKLDQ(h, s.AsX(), f)
	VPADDD(h, s.AsX(), h)
	VPBLENDD(Imm(0b1100), f, h, f) // Σ, Σ, and of the halves
	VPMULLD(bytes32("less", less32(16, 128, 32, 32)...), f, f)
	VMOVDQU(f, Mem{Base: dst, Disp: act32Less16})
	VPSRAD(Imm(1), f, less)
	VMOVD(less, Mem{Base: dst, Disp: act32Less8})
	VCVTDQ2PS(h, f)
	VMULSS(d, f, f)
	VMOVSS(d, Mem{Base: dst, Disp: act32D})
	VMOVSS(f, Mem{Base: dst, Disp: act32DSum})
	ADDQ(bytes(act32Bytes), dst)
	ADDQ(bytes(128), x)
	DECQ(n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}
