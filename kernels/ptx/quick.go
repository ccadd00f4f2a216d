package ptx

import "math"

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

// fast32 is d = op(a, b, c) in 32 lanes of 32 bits.
func fast32(in *inst, d, a, b, c *[32]uint32) {
	switch in.op {
	case fMov32:
		*d = *a
	case fAdd32:
		for i := range d {
			d[i] = a[i] + b[i]
		}
	case fSub32:
		for i := range d {
			d[i] = a[i] - b[i]
		}
	case fMulLo32:
		for i := range d {
			d[i] = a[i] * b[i]
		}
	case fMadLo32:
		for i := range d {
			d[i] = a[i]*b[i] + c[i]
		}
	case fAnd32:
		for i := range d {
			d[i] = a[i] & b[i]
		}
	case fOr32:
		for i := range d {
			d[i] = a[i] | b[i]
		}
	case fXor32:
		for i := range d {
			d[i] = a[i] ^ b[i]
		}
	case fNot32:
		for i := range d {
			d[i] = ^a[i]
		}
	case fShl32:
		for i := range d {
			d[i] = a[i] << b[i]
		}
	case fShrU32:
		for i := range d {
			d[i] = a[i] >> b[i]
		}
	case fShrS32:
		for i := range d {
			d[i] = uint32(int32(a[i]) >> b[i])
		}
	case fMinU32:
		for i := range d {
			d[i] = min(a[i], b[i])
		}
	case fMaxU32:
		for i := range d {
			d[i] = max(a[i], b[i])
		}
	case fMinS32:
		for i := range d {
			d[i] = uint32(min(int32(a[i]), int32(b[i])))
		}
	case fMaxS32:
		for i := range d {
			d[i] = uint32(max(int32(a[i]), int32(b[i])))
		}
	case fNeg32:
		for i := range d {
			d[i] = -a[i]
		}
	case fLop3:
		lop3Loop(uint8(in.off), d, a, b, c)
	default:
		if in.op < fAddF {
			bits32(in.op, d, a, b, c)
		} else if in.op < fLow16 {
			float32s(in.op, d, a, b, c)
		} else if in.op < fFmaHH {
			convert32(in.op, d, a, b)
		} else {
			halves(in.op, d, a, b, c)
		}
	}
}

// lop3Loop has short forms of the tables that compilers write most.
func lop3Loop(table uint8, d, a, b, c *[32]uint32) {
	switch table {
	case 0xea: // a&b | c
		for i := range d {
			d[i] = a[i]&b[i] | c[i]
		}
	case 0xf8: // a | b&c
		for i := range d {
			d[i] = a[i] | b[i]&c[i]
		}
	case 0x6a: // a&b ^ c
		for i := range d {
			d[i] = a[i]&b[i] ^ c[i]
		}
	case 0x96:
		for i := range d {
			d[i] = a[i] ^ b[i] ^ c[i]
		}
	case 0xfe:
		for i := range d {
			d[i] = a[i] | b[i] | c[i]
		}
	case 0x80:
		for i := range d {
			d[i] = a[i] & b[i] & c[i]
		}
	default:
		for i := range d {
			d[i] = uint32(lop3(uint64(a[i]), uint64(b[i]), uint64(c[i]), table))
		}
	}
}

func bits32(op uint8, d, a, b, c *[32]uint32) {
	switch op {
	case fBfeU32:
		for i := range d {
			pos, n := b[i]&0xff, min(c[i]&0xff, 32)
			d[i] = a[i] >> pos & uint32(uint64(1)<<n-1)
		}
	case fBfeS32:
		for i := range d {
			d[i] = bfeS32(a[i], b[i]&0xff, c[i]&0xff)
		}
	case fPrmt:
		for i := range d {
			d[i] = prmt(a[i], b[i], c[i])
		}
	case fShfL:
		for i := range d {
			d[i] = uint32((uint64(b[i])<<32 | uint64(a[i])) << (c[i] & 31) >> 32)
		}
	case fShfR:
		for i := range d {
			d[i] = uint32((uint64(b[i])<<32 | uint64(a[i])) >> (c[i] & 31))
		}
	case fDp4aS:
		for i := range d {
			x, y := a[i], b[i]
			d[i] = c[i] + uint32(int32(int8(x))*int32(int8(y))+int32(int8(x>>8))*int32(int8(y>>8))+int32(int8(x>>16))*int32(int8(y>>16))+int32(int8(x>>24))*int32(int8(y>>24)))
		}
	}
}

func bfeS32(a, pos, n uint32) uint32 {
	if n == 0 {
		return 0
	}
	v := int64(int32(a)) >> min(pos, 31) // bits past the top repeat the sign
	if n < 32 && pos+n <= 32 {
		return uint32(v<<(64-n)) | uint32(v<<(64-n)>>(64-n))
	}
	return uint32(v)
}

func prmt(a, b, s uint32) uint32 {
	v := uint64(b)<<32 | uint64(a)
	r := uint32(v>>(s&7*8))&0xff | uint32(v>>(s>>4&7*8))&0xff<<8 | uint32(v>>(s>>8&7*8))&0xff<<16 | uint32(v>>(s>>12&7*8))&0xff<<24
	if s&0x8888 != 0 {
		for k := range uint32(4) {
			if s>>(4*k+3)&1 == 1 {
				if r>>(8*k+7)&1 == 1 {
					r |= 0xff << (8 * k)
				} else {
					r &^= 0xff << (8 * k)
				}
			}
		}
	}
	return r
}

func float32s(op uint8, d, a, b, c *[32]uint32) {
	from := math.Float32frombits
	switch op {
	case fAddF:
		for i := range d {
			d[i] = canon(from(a[i]) + from(b[i]))
		}
	case fSubF:
		for i := range d {
			d[i] = canon(from(a[i]) - from(b[i]))
		}
	case fMulF:
		for i := range d {
			d[i] = canon(from(a[i]) * from(b[i]))
		}
	case fFmaF:
		fmaLoop(d, a, b, c)
	case fNegF:
		for i := range d {
			d[i] = a[i] ^ 1<<31
		}
	case fAbsF:
		for i := range d {
			d[i] = a[i] &^ (1 << 31)
		}
	case fMinF:
		for i := range d {
			d[i] = minMax32(a[i], b[i], false, false)
		}
	case fMaxF:
		for i := range d {
			d[i] = minMax32(a[i], b[i], true, false)
		}
	case fEx2F:
		for i := range d {
			d[i] = canon(exp2(from(a[i])))
		}
	case fEx2FtzF:
		for i := range d {
			d[i] = flush(canon(exp2(from(flush(a[i])))))
		}
	case fRcpF:
		for i := range d {
			d[i] = canon(1 / from(a[i]))
		}
	case fRsqrtF:
		for i := range d {
			x := float64(from(a[i]))
			if x == 0 {
				d[i] = a[i] | infF32
			} else {
				d[i] = canon(float32(1 / math.Sqrt(x)))
			}
		}
	case fSqrtF:
		for i := range d {
			d[i] = canon(float32(math.Sqrt(float64(from(a[i])))))
		}
	case fDivF:
		for i := range d {
			d[i] = canon(from(a[i]) / from(b[i]))
		}
	}
}

func fmaLoop(d, a, b, c *[32]uint32) {
	for i := range d {
		s := float64(math.Float32frombits(a[i]))*float64(math.Float32frombits(b[i])) + float64(math.Float32frombits(c[i]))
		u := math.Float64bits(s)
		r := math.Float32bits(float32(s))
		if u&0x1fffffff == 0x10000000 || u<<1-1 < 897<<53-1 || r&0x7fffffff > infF32 {
			r = fma32(a[i], b[i], c[i])
		}
		d[i] = r
	}
}

func convert32(op uint8, d, a, b *[32]uint32) {
	switch op {
	case fLow16:
		for i := range d {
			d[i] = a[i] & 0xffff
		}
	case fLow8:
		for i := range d {
			d[i] = a[i] & 0xff
		}
	case fSext16:
		for i := range d {
			d[i] = uint32(int32(int16(a[i])))
		}
	case fSext8:
		for i := range d {
			d[i] = uint32(int32(int8(a[i])))
		}
	case fU32ToF:
		for i := range d {
			d[i] = math.Float32bits(float32(a[i]))
		}
	case fS32ToF:
		for i := range d {
			d[i] = math.Float32bits(float32(int32(a[i])))
		}
	case fFToS32Rz, fFToS32Rn:
		for i := range d {
			x := float64(math.Float32frombits(a[i]))
			if op == fFToS32Rn {
				x = math.RoundToEven(x)
			}
			switch {
			case x != x:
				d[i] = 0
			case x >= 1<<31:
				d[i] = math.MaxInt32
			case x <= -1<<31:
				d[i] = 1 << 31
			default:
				d[i] = uint32(int32(x))
			}
		}
	case fHToF:
		for i := range d {
			d[i] = math.Float32bits(halfToFloat(a[i] & 0xffff))
		}
	case fBToF:
		for i := range d {
			d[i] = canon(math.Float32frombits(a[i] << 16))
		}
	case fFToH:
		for i := range d {
			d[i] = floatToHalf(a[i])
		}
	case fFToB:
		for i := range d {
			d[i] = floatToBfloat(a[i])
		}
	case fFToHH:
		for i := range d {
			d[i] = floatToHalf(a[i])<<16 | floatToHalf(b[i])
		}
	case fFToBB:
		for i := range d {
			d[i] = floatToBfloat(a[i])<<16 | floatToBfloat(b[i])
		}
	}
}

// halves is packed arithmetic. float32 holds the exact product of two f16 or
// bf16 numbers and float64 nearly every sum: see halfFma.
func halves(op uint8, d, a, b, c *[32]uint32) {
	for i := range d {
		x, y, z := a[i], b[i], c[i]
		switch op {
		case fFmaHH:
			d[i] = halfFma(x, y, z) | halfFma(x>>16, y>>16, z>>16)<<16
		case fMulHH:
			d[i] = halfFma(x, y, 0x8000) | halfFma(x>>16, y>>16, 0x8000)<<16
		case fAddHH:
			d[i] = halfFma(x, 0x3c00, y) | halfFma(x>>16, 0x3c00, y>>16)<<16
		case fSubHH:
			d[i] = halfFma(y, 0xbc00, x) | halfFma(y>>16, 0xbc00, x>>16)<<16
		case fFmaBB:
			d[i] = bfloatFma(x, y, z) | bfloatFma(x>>16, y>>16, z>>16)<<16
		case fMulBB:
			d[i] = bfloatFma(x, y, 0x8000) | bfloatFma(x>>16, y>>16, 0x8000)<<16
		case fAddBB:
			d[i] = bfloatFma(x, 0x3f80, y) | bfloatFma(x>>16, 0x3f80, y>>16)<<16
		case fSubBB:
			d[i] = bfloatFma(y, 0xbf80, x) | bfloatFma(y>>16, 0xbf80, x>>16)<<16
		}
	}
}

// halfFma is a*b+c in binary16. The sum is rounded to odd in float32, which
// leaves enough bits to round once more.
func halfFma(a, b, c uint32) uint32 {
	p := float64(halfToFloat(a&0xffff)) * float64(halfToFloat(b&0xffff))
	return floatToHalf(oddFloat32(p, float64(halfToFloat(c&0xffff)), c))
}

func bfloatFma(a, b, c uint32) uint32 {
	p := float64(bfloatToFloat(a&0xffff)) * float64(bfloatToFloat(b&0xffff))
	return floatToBfloat(oddFloat32(p, float64(bfloatToFloat(c&0xffff)), c))
}

// oddFloat32 is p+z rounded to odd in float32.
func oddFloat32(p, z float64, _ uint32) uint32 {
	s := addOdd(p, z)
	f := float32(s)
	b := math.Float32bits(f)
	if r := float64(f); r != s && r == r && b&0x7fffffff < infF32 && b&1 == 0 {
		// rounded: move to the neighbour with an odd last place, towards s
		if (r < s) == (b>>31 == 0) {
			return b + 1
		}
		if b&0x7fffffff == 0 {
			return b | 1
		}
		return b - 1
	}
	return b
}

// fast64 is d = op(a, b) in 32 lanes of 64 bits.
func fast64(op uint8, d, a, b *[32]uint64) {
	switch op {
	case fMov64:
		*d = *a
	case fAdd64:
		for i := range d {
			d[i] = a[i] + b[i]
		}
	case fSub64:
		for i := range d {
			d[i] = a[i] - b[i]
		}
	case fAnd64:
		for i := range d {
			d[i] = a[i] & b[i]
		}
	case fOr64:
		for i := range d {
			d[i] = a[i] | b[i]
		}
	case fXor64:
		for i := range d {
			d[i] = a[i] ^ b[i]
		}
	case fMulLo64:
		for i := range d {
			d[i] = a[i] * b[i]
		}
	}
}

// fastWide is d = op(a, b, c) where a and b have 32 bits.
func fastWide(op uint8, d *[32]uint64, a, b *[32]uint32, c *[32]uint64) {
	switch op {
	case fMulWideU:
		for i := range d {
			d[i] = uint64(a[i]) * uint64(b[i])
		}
	case fMulWideS:
		for i := range d {
			d[i] = uint64(int64(int32(a[i])) * int64(int32(b[i])))
		}
	case fMadWideU:
		for i := range d {
			d[i] = uint64(a[i])*uint64(b[i]) + c[i]
		}
	case fMadWideS:
		for i := range d {
			d[i] = uint64(int64(int32(a[i]))*int64(int32(b[i]))) + c[i]
		}
	case fZext64:
		for i := range d {
			d[i] = uint64(a[i])
		}
	case fSext64:
		for i := range d {
			d[i] = uint64(int64(int32(a[i])))
		}
	}
}

func fastShift(op uint8, d, a *[32]uint64, b *[32]uint32) {
	switch op {
	case fShl64:
		for i := range d {
			d[i] = a[i] << b[i]
		}
	case fShrU64:
		for i := range d {
			d[i] = a[i] >> b[i]
		}
	case fShrS64:
		for i := range d {
			d[i] = uint64(int64(a[i]) >> b[i])
		}
	}
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
