package ptx

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
