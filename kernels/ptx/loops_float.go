package ptx

import "math"

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
