package ptx

import "math"

// rounding is a rounding mode of the ISA.
type rounding uint8

const (
	rNone rounding = iota
	rNearest
	rZero
	rDown
	rUp
	rAway // nearest, ties away from zero (.rna)
)

// format is a binary floating-point format narrower than float64.
type format struct {
	prec       int // bits of the significand with the hidden one
	emin, emax int // exponents of normal numbers
}

var (
	fmtF32  = format{24, -126, 127}
	fmtF16  = format{11, -14, 15}
	fmtBF16 = format{8, -126, 127}
	fmtTF32 = format{11, -126, 127}
)

const (
	nanF32  = 0x7fffffff // the NaN that single precision instructions give
	nanF16  = 0x7fff
	nanBF16 = 0x7fff
	infF32  = 0x7f800000
)

// odd rounds the exact sum s+err to odd: such a value may be rounded once more
// to a format with at most 51 bits as if it had been exact (Boldo, Melquiond
// 2008). s must be the nearest float64 to the exact value.
func odd(s, err float64) float64 {
	b := math.Float64bits(s)
	if err == 0 || err != err || b&1 == 1 || s-s != 0 {
		return s
	}
	if s == 0 {
		return math.Copysign(math.SmallestNonzeroFloat64, err)
	}
	if (err > 0) == (s > 0) {
		return math.Float64frombits(b | 1)
	}
	return math.Float64frombits(b - 1)
}

// addOdd is a+b rounded to odd.
func addOdd(a, b float64) float64 {
	s := a + b
	t := s - a
	return odd(s, (a-(s-t))+(b-t))
}

// fmaOdd is a*b+c rounded to odd for a and b whose product float64 holds exactly.
func fmaOdd(a, b, c float64) float64 { return addOdd(a*b, c) }

// divOdd is a/b rounded to odd.
func divOdd(a, b float64) float64 {
	q := a / b
	if q-q != 0 || b-b != 0 {
		return q
	}
	r := math.FMA(-q, b, a)
	if b < 0 {
		r = -r
	}
	return odd(q, r)
}

func sqrtOdd(a float64) float64 {
	q := math.Sqrt(a)
	if q-q != 0 {
		return q
	}
	return odd(q, math.FMA(-q, q, a))
}

// round brings v to a format; the result is exact in float64.
func (f format) round(v float64, mode rounding) float64 {
	if v == 0 || v-v != 0 {
		return v
	}
	_, e := math.Frexp(v) // v = m·2^e, 0.5 ≤ |m| < 1
	ulp := max(e, f.emin+1) - f.prec
	x := math.Ldexp(v, -ulp)
	switch mode {
	case rZero:
		x = math.Trunc(x)
	case rDown:
		x = math.Floor(x)
	case rUp:
		x = math.Ceil(x)
	case rAway:
		x = math.Round(x)
	default:
		x = math.RoundToEven(x)
	}
	r := math.Copysign(math.Ldexp(x, ulp), v)
	if math.Abs(r) < math.Ldexp(2, f.emax) {
		return r
	}
	if mode == rZero || mode == rDown && v > 0 || mode == rUp && v < 0 {
		return math.Copysign(math.Ldexp(2-math.Ldexp(1, 1-f.prec), f.emax), v)
	}
	return math.Inf(int(math.Copysign(1, v)))
}

// f32Bits is the float32 nearest to v under mode, NaNs made canonical.
func f32Bits(v float64, mode rounding) uint32 {
	if v != v {
		return nanF32
	}
	f := float32(v)
	b := math.Float32bits(f)
	if mode <= rNearest || float64(f) == v {
		return b
	}
	// the nearest is one of the two neighbours: take the other where mode wants it
	larger := math.Abs(float64(f)) > math.Abs(v)
	switch away := mode == rUp && v > 0 || mode == rDown && v < 0; {
	case mode == rAway:
		return math.Float32bits(float32(fmtF32.round(v, mode)))
	case larger && !away:
		return b - 1
	case !larger && away:
		return b + 1
	}
	return b
}

// f16Bits is v in binary16 under mode.
func f16Bits(v float64, mode rounding) uint32 {
	if v != v {
		return nanF16
	}
	v = fmtF16.round(v, mode)
	b := math.Float64bits(v)
	sign := uint32(b>>48) & 0x8000
	switch a := math.Abs(v); {
	case a == 0:
		return sign
	case a > 65504:
		return sign | 0x7c00
	case a < 0x1p-14:
		return sign | uint32(a*0x1p24)
	}
	return sign | uint32(int(b>>52)&0x7ff-1023+15)<<10 | uint32(b>>42)&0x3ff
}

// bf16Bits is v in bfloat16 under mode.
func bf16Bits(v float64, mode rounding) uint32 {
	if v != v {
		return nanBF16
	}
	return math.Float32bits(float32(fmtBF16.round(v, mode))) >> 16
}

// halfToFloat widens binary16.
func halfToFloat(h uint32) float32 {
	b := math.Float32bits(math.Float32frombits((h&0x7fff)<<13) * 0x1p112)
	if h&0x7c00 == 0x7c00 {
		b |= infF32
		if h&0x3ff != 0 {
			return math.Float32frombits(nanF32)
		}
	}
	return math.Float32frombits(b | h&0x8000<<16)
}

// floatToHalf rounds to nearest even.
func floatToHalf(b uint32) uint32 {
	sign := b >> 16 & 0x8000
	b &= 0x7fffffff
	switch {
	case b >= 0x477ff000: // at least 65520, infinite or NaN
		if b > infF32 {
			return nanF16
		}
		return sign | 0x7c00
	case b >= 0x38800000: // normal
		b += 0xfff + b>>13&1
		return sign | (b-0x38000000)>>13
	}
	// adding 0.5 aligns the subnormal's last place with float32's
	return sign | (math.Float32bits(math.Float32frombits(b)+0.5) - 0x3f000000)
}

func bfloatToFloat(h uint32) float32 { return math.Float32frombits(h << 16) }

// floatToBfloat rounds to nearest even.
func floatToBfloat(b uint32) uint32 {
	if b&0x7fffffff > infF32 {
		return nanBF16
	}
	return (b + 0x7fff + b>>16&1) >> 16
}

// fma32 is a*b+c rounded once. The product is exact in float64; the sum there
// is rounded twice only where its low bits say exactly half, or where the
// result is neither normal nor zero.
func fma32(a, b, c uint32) uint32 {
	p := float64(math.Float32frombits(a)) * float64(math.Float32frombits(b))
	z := float64(math.Float32frombits(c))
	s := p + z
	u := math.Float64bits(s)
	if u&0x1fffffff == 0x10000000 || u<<1-1 < 897<<53-1 {
		s = addOdd(p, z)
	}
	r := math.Float32bits(float32(s))
	if r&0x7fffffff > infF32 {
		return nanF32
	}
	return r
}

// canon makes every NaN the canonical one.
func canon(f float32) uint32 {
	b := math.Float32bits(f)
	if b&0x7fffffff > infF32 {
		return nanF32
	}
	return b
}

// flush replaces a subnormal by a zero of its sign (.ftz).
func flush(b uint32) uint32 {
	if b&infF32 == 0 {
		return b & 0x80000000
	}
	return b
}

// exp2 is 2^x to about 2^-32, rounded to float32.
func exp2(x float32) float32 {
	switch {
	case x != x:
		return x
	case x >= 128:
		return float32(math.Inf(1))
	case x < -150:
		return 0
	}
	v := float64(x)
	i := math.Floor(v + 0.5)
	f := (v - i) * math.Ln2
	p := 1 + f*(1+f*(1./2+f*(1./6+f*(1./24+f*(1./120+f*(1./720+f*(1./5040+f*(1./40320))))))))
	return float32(p * math.Float64frombits(uint64(int64(i)+1023)<<52))
}
