package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantize512 is quantize32 of four blocks at a time: their largest magnitudes are
// found together, and what follows the levels of two blocks is made in one register.
func quantize512() {
	TEXT("quantize512", NOSPLIT, "func(dst *byte, x *float32, fours int)")
	Pragma("noescape")
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("fours"), GP64())
	// Which lanes of a block's last eight dwords are d, d·Σ, the halves, the lower half
	// and what is not of one half.
	lane := func(bits uint8) reg.OpmaskVirtual {
		g, k := GP32(), K()
		MOVL(U32(uint32(bits)*0x101), g)
		KMOVW(g, k)
		return k
	}
	isD, isDSum, isHalves, isLow, isSum := lane(1), lane(1<<1), lane(1<<3), lane(1<<6), lane(0x3f)
	dwords := func(name string, v ...byte) reg.VecVirtual {
		z := ZMM()
		VPMOVZXBD(bytes32(name, v...), z)
		return z
	}
	order := dwords("recordOrder", 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
	shifts := dwords("lessShifts", 0, 0, 3, 0, 4, 7, 5, 5)
	ones, none, top := ZMM(), ZMM(), XMM()
	VBROADCASTI64X4(bytes32("ones8", 1), ones)
	clearZ(none)
	VBROADCASTSS(f32("top", 127), top)
	ofPair := [2]reg.VecVirtual{dwords("firstTwo", 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
		dwords("lastTwo", 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3)}
	Label("loop")
	v, m := zmms(8), zmms(4)
	for i := range v {
		VMOVUPS(Mem{Base: x, Disp: 64 * i}, v[i])
	}
	for i := range m {
		VRANGEPS(Imm(0b1011), v[2*i], v[2*i+1], m[i]) // the larger magnitude
	}
	// Lane i of four becomes the largest of block i, first within and then across fours.
	for i := 0; i < 4; i += 2 {
		high := ZMM()
		VUNPCKHPS(m[i+1], m[i], high)
		VUNPCKLPS(m[i+1], m[i], m[i])
		VMAXPS(high, m[i], m[i])
	}
	VUNPCKHPD(m[2], m[0], m[1])
	VUNPCKLPD(m[2], m[0], m[0])
	VMAXPS(m[1], m[0], m[0])
	for _, across := range []uint64{0b01001110, 0b10110001} {
		VSHUFF32X4(Imm(across), m[0], m[0], m[1])
		VMAXPS(m[1], m[0], m[0])
	}
	d, inv, some := XMM(), XMM(), K()
	VCMPPS_BCST(Imm(13), f32("tiny", 1e-30), m[0].AsX(), some)
	VDIVPS_Z(top, m[0].AsX(), some, d)
	VDIVPS_Z(m[0].AsX(), top, some, inv)
	invs := ZMM()
	VSHUFF32X4(Imm(0), inv.AsZ(), inv.AsZ(), invs)
	for i := range 4 {
		by := ZMM()
		VPERMILPS(Imm(uint64(i*0b01010101)), invs, by)
		for _, q := range v[2*i : 2*i+2] {
			VMULPS(by, q, q)
			VCVTPS2DQ(q, q)
		}
		VPACKSSDW(v[2*i+1], v[2*i], v[2*i])
	}
	for i, pair := range ofPair {
		q, ds, sum, other, rest := v[4*i], ZMM(), ZMM(), ZMM(), ZMM()
		VPACKSSWB(v[4*i+2], q, q)
		VPERMD(q, order, q)
		VMOVDQA32(none, sum)
		vpdpbusd(q, ones, sum)
		for _, shuffle := range []uint64{0b01001110, 0b10110001} {
			VPSHUFD(Imm(shuffle), sum, other)
			VPADDD(other, sum, sum)
		}
		VSHUFI32X4(Imm(0b10110001), sum, sum, other) // of the other half
		halves := ZMM()
		VPUNPCKLWD(other, sum, halves)
		VPADDD(other, sum, isSum, sum)
		VMOVDQA32(other, isLow, sum)
		VPSLLVD(shifts, sum, rest)
		VPSUBD(rest, none, rest)
		VPERMPS(d.AsZ(), pair, ds)
		VMOVAPS(ds, isD, rest)
		VCVTDQ2PS(sum, sum)
		VMULPS(ds, sum, isDSum, rest)
		VPSHUFD(Imm(0), halves, isHalves, rest)
		record := ZMM()
		VINSERTI64X4(Imm(1), rest.AsY(), q, record)
		VMOVDQU32(record, Mem{Base: dst, Disp: 2 * i * act32Bytes})
		VSHUFI64X2(Imm(0b11101110), rest, q, record)
		VMOVDQU32(record, Mem{Base: dst, Disp: (2*i + 1) * act32Bytes})
	}
	ADDQ(bytes(4*act32Bytes), dst)
	ADDQ(U32(4*128), x)
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
