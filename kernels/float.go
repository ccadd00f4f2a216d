package kernels

import "math"

// FromF16 converts an IEEE 754 binary16 to float32, exactly.
func FromF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h) & 0x3ff
	switch exp {
	case 0: // zero or subnormal: frac · 2^-24, exact in float32
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1f: // infinity, NaN (payload kept)
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// ToF16 rounds to binary16, to nearest, ties to even; a NaN stays a NaN.
func ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN, made quiet
		return sign | 0x7e00 | uint16(b>>13)&0x1ff
	case b >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: subnormal, or zero
		// Adding 0.5 leaves the value as a multiple of 2^-24 in the low bits,
		// rounded to even by the addition itself.
		s := math.Float32frombits(b) + 0.5
		return sign | uint16(math.Float32bits(s)-0x3f000000)
	}
	b += 0xfff + b>>13&1
	return sign | uint16((b-0x38000000)>>13)
}

// FromBF16 converts a bfloat16 to float32, exactly.
func FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// ToBF16 rounds to bfloat16, to nearest, ties to even; a NaN stays a NaN.
func ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// FromE4M3 converts an 8-bit float with 4 bits of exponent (bias 7) and 3 of
// mantissa to float32, exactly. It has no infinities: all ones is NaN, and 0x7e
// is 448 (OCP 8-bit Floating Point Specification, section 5).
func FromE4M3(b byte) float32 {
	if b&0x7f == 0x7f {
		return float32(math.NaN())
	}
	// The bits in the place of a binary16's are the number times 2^-8.
	return FromF16(uint16(b&0x80)<<8|uint16(b&0x7f)<<7) * 256
}
