package ptx

// Operations that run a whole warp in one loop. Each must agree with the lane
// of its opcode; a test compares them.
const (
	fMov32 uint8 = iota
	fAdd32
	fSub32
	fMulLo32
	fMadLo32
	fAnd32
	fOr32
	fXor32
	fNot32
	fShl32
	fShrU32
	fShrS32
	fMinU32
	fMaxU32
	fMinS32
	fMaxS32
	fNeg32
	fLop3
	fBfeU32
	fBfeS32
	fPrmt
	fShfL
	fShfR
	fDp4aS
	fAddF
	fSubF
	fMulF
	fFmaF
	fNegF
	fAbsF
	fMinF
	fMaxF
	fEx2F
	fEx2FtzF
	fRcpF
	fRsqrtF
	fSqrtF
	fDivF
	fLow16
	fLow8
	fSext16
	fSext8
	fU32ToF
	fS32ToF
	fFToS32Rz
	fFToS32Rn
	fHToF
	fBToF
	fFToH
	fFToB
	fFToHH
	fFToBB
	fFmaHH
	fMulHH
	fAddHH
	fSubHH
	fFmaBB
	fMulBB
	fAddBB
	fSubBB
	fMov64
	fAdd64
	fSub64
	fAnd64
	fOr64
	fXor64
	fMulLo64
	fMulWideU
	fMulWideS
	fMadWideU
	fMadWideS
	fZext64
	fSext64
	fShl64
	fShrU64
	fShrS64
)

type quickOp struct {
	class class
	op    uint8
}

// quick names the opcodes, as nvcc writes them, that have a loop.
var quick = map[string]quickOp{
	"add.s32": {c32, fAdd32}, "add.u32": {c32, fAdd32}, "sub.s32": {c32, fSub32}, "sub.u32": {c32, fSub32},
	"mul.lo.s32": {c32, fMulLo32}, "mul.lo.u32": {c32, fMulLo32}, "mad.lo.s32": {c32, fMadLo32}, "mad.lo.u32": {c32, fMadLo32},
	"and.b32": {c32, fAnd32}, "or.b32": {c32, fOr32}, "xor.b32": {c32, fXor32}, "not.b32": {c32, fNot32},
	"and.b16": {c32, fAnd32}, "or.b16": {c32, fOr32}, "xor.b16": {c32, fXor32},
	"shl.b32": {c32, fShl32}, "shr.u32": {c32, fShrU32}, "shr.b32": {c32, fShrU32}, "shr.s32": {c32, fShrS32}, "shr.u16": {c32, fShrU32},
	"min.u32": {c32, fMinU32}, "max.u32": {c32, fMaxU32}, "min.s32": {c32, fMinS32}, "max.s32": {c32, fMaxS32}, "neg.s32": {c32, fNeg32},
	"bfe.u32": {c32, fBfeU32}, "bfe.s32": {c32, fBfeS32}, "prmt.b32": {c32, fPrmt},
	"shf.l.wrap.b32": {c32, fShfL}, "shf.r.wrap.b32": {c32, fShfR}, "dp4a.s32.s32": {c32, fDp4aS},
	"add.f32": {c32, fAddF}, "add.rn.f32": {c32, fAddF}, "sub.f32": {c32, fSubF}, "sub.rn.f32": {c32, fSubF}, "mul.f32": {c32, fMulF}, "mul.rn.f32": {c32, fMulF},
	"fma.rn.f32": {c32, fFmaF}, "neg.f32": {c32, fNegF}, "abs.f32": {c32, fAbsF}, "min.f32": {c32, fMinF}, "max.f32": {c32, fMaxF},
	"ex2.approx.f32": {c32, fEx2F}, "ex2.approx.ftz.f32": {c32, fEx2FtzF}, "rcp.rn.f32": {c32, fRcpF}, "rcp.approx.f32": {c32, fRcpF},
	"rsqrt.approx.f32": {c32, fRsqrtF}, "sqrt.rn.f32": {c32, fSqrtF}, "sqrt.approx.f32": {c32, fSqrtF},
	"div.rn.f32": {c32, fDivF}, "div.full.f32": {c32, fDivF}, "div.approx.f32": {c32, fDivF},
	"cvt.u32.u16": {c32, fLow16}, "cvt.u16.u32": {c32, fLow16}, "cvt.u32.u8": {c32, fLow8}, "cvt.u16.u8": {c32, fLow8}, "cvt.u8.u32": {c32, fLow8}, "cvt.u8.u16": {c32, fLow8},
	"cvt.s32.s16": {c32, fSext16}, "cvt.s32.s8": {c32, fSext8},
	"cvt.rn.f32.u32": {c32, fU32ToF}, "cvt.rn.f32.s32": {c32, fS32ToF}, "cvt.rzi.s32.f32": {c32, fFToS32Rz}, "cvt.rni.s32.f32": {c32, fFToS32Rn},
	"cvt.f32.f16": {c32, fHToF}, "cvt.f32.bf16": {c32, fBToF}, "cvt.rn.f16.f32": {c32, fFToH}, "cvt.rn.bf16.f32": {c32, fFToB},
	"cvt.rn.f16x2.f32": {c32, fFToHH}, "cvt.rn.bf16x2.f32": {c32, fFToBB},
	"fma.rn.f16x2": {c32, fFmaHH}, "mul.f16x2": {c32, fMulHH}, "mul.rn.f16x2": {c32, fMulHH}, "add.f16x2": {c32, fAddHH}, "add.rn.f16x2": {c32, fAddHH},
	"sub.f16x2": {c32, fSubHH}, "sub.rn.f16x2": {c32, fSubHH},
	"fma.rn.bf16x2": {c32, fFmaBB}, "mul.bf16x2": {c32, fMulBB}, "mul.rn.bf16x2": {c32, fMulBB}, "add.bf16x2": {c32, fAddBB}, "add.rn.bf16x2": {c32, fAddBB},
	"sub.bf16x2": {c32, fSubBB}, "sub.rn.bf16x2": {c32, fSubBB},
	"add.s64": {c64, fAdd64}, "add.u64": {c64, fAdd64}, "sub.s64": {c64, fSub64}, "sub.u64": {c64, fSub64},
	"and.b64": {c64, fAnd64}, "or.b64": {c64, fOr64}, "xor.b64": {c64, fXor64}, "mul.lo.s64": {c64, fMulLo64}, "mul.lo.u64": {c64, fMulLo64},
	"cvta.to.global.u64": {c64, fMov64}, "cvta.global.u64": {c64, fMov64},
	"mul.wide.u32": {cWide, fMulWideU}, "mul.wide.s32": {cWide, fMulWideS}, "mad.wide.u32": {cWide, fMadWideU}, "mad.wide.s32": {cWide, fMadWideS},
	"cvt.u64.u32": {cWide, fZext64}, "cvt.s64.s32": {cWide, fSext64},
	"shl.b64": {cShift64, fShl64}, "shr.u64": {cShift64, fShrU64}, "shr.b64": {cShift64, fShrU64}, "shr.s64": {cShift64, fShrS64},
	"cvt.u32.u64": {cNarrow, 0},
}

// quickSetp names comparisons with a loop: signed and unsigned integers, f32.
var quickSetp = map[string]uint8{}

const (
	qEq uint8 = iota
	qNe
	qLt
	qLe
	qGt
	qGe
	qS32
	qU32 = 16
	qF32 = 32
	qS64 = 48
	qU64 = 64
)

func init() {
	names := []string{"eq", "ne", "lt", "le", "gt", "ge"}
	for i, n := range names {
		for t, base := range map[string]uint8{"s32": 0, "u32": qU32, "f32": qF32, "s64": qS64, "u64": qU64} {
			if n == "ne" && t == "f32" { // ordered: false for NaN, unlike Go's
				continue
			}
			quickSetp[n+"."+t] = base + uint8(i)
		}
	}
	for i, n := range names[:2] {
		quickSetp[n+".b32"], quickSetp[n+".b64"] = qU32+uint8(i), qU64+uint8(i)
	}
	for i, n := range []string{"lo", "ls", "hi", "hs"} {
		quickSetp[n+".u32"], quickSetp[n+".u64"] = qU32+qLt+uint8(i), qU64+qLt+uint8(i)
	}
	quickSetp["neu.f32"] = qF32 + qNe
}

type ordered interface {
	~int32 | ~uint32 | ~float32 | ~int64 | ~uint64
}

func compareLoop[T ordered](op uint8, a, b *[32]T) (r uint32) {
	switch op & 15 {
	case qEq:
		for i := range a {
			r |= bit(a[i] == b[i]) << (i & 31)
		}
	case qNe:
		for i := range a {
			r |= bit(a[i] != b[i]) << (i & 31)
		}
	case qLt:
		for i := range a {
			r |= bit(a[i] < b[i]) << (i & 31)
		}
	case qLe:
		for i := range a {
			r |= bit(a[i] <= b[i]) << (i & 31)
		}
	case qGt:
		for i := range a {
			r |= bit(a[i] > b[i]) << (i & 31)
		}
	case qGe:
		for i := range a {
			r |= bit(a[i] >= b[i]) << (i & 31)
		}
	}
	return r
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
