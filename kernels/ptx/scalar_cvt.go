package ptx

import "math"

// cvtMods are the modifiers of cvt.
type cvtMods struct {
	round          rounding
	integer        bool // .rni and its like
	ftz, sat, relu bool
	satfinite      bool
}

// decodeFloat gives a floating-point value's number.
func decodeFloat(v uint64, t typ) float64 {
	switch t {
	case tF16:
		return float64(halfToFloat(uint32(v & 0xffff)))
	case tBF16:
		return float64(bfloatToFloat(uint32(v & 0xffff)))
	case tF32, tTF32:
		return float64(f32(v))
	}
	return f64(v)
}

// encodeFloat rounds a number to a floating-point type.
func encodeFloat(x float64, t typ, mode rounding) uint64 {
	switch t {
	case tF16:
		return uint64(f16Bits(x, mode))
	case tBF16:
		return uint64(bf16Bits(x, mode))
	case tF32:
		return uint64(f32Bits(x, mode))
	case tTF32:
		if x != x {
			return nanF32
		}
		return uint64(math.Float32bits(float32(fmtTF32.round(x, mode))))
	}
	if x != x {
		return 0x7ff8000000000000
	}
	return math.Float64bits(x)
}

// toWhole rounds to a whole number.
func toWhole(x float64, mode rounding) float64 {
	switch mode {
	case rZero:
		return math.Trunc(x)
	case rDown:
		return math.Floor(x)
	case rUp:
		return math.Ceil(x)
	}
	return math.RoundToEven(x)
}

// cvtLane converts st to dt (ISA §9.7.9.21). Integer results fill regBits bits of
// the destination register.
func cvtLane(dt, st typ, m cvtMods, regBits uint) lane {
	switch {
	case dt.float() && st.float():
		return cvtFloatFloat(dt, st, m)
	case dt.float():
		return cvtIntFloat(dt, st, m)
	case st.float():
		return cvtFloatInt(dt, st, m, regBits)
	}
	return cvtIntInt(dt, st, m, regBits)
}

func cvtFloatFloat(dt, st typ, m cvtMods) lane {
	return func(a, _, _ uint64) uint64 {
		if m.ftz && st == tF32 {
			a = uint64(flush(uint32(a)))
		}
		x := decodeFloat(a, st)
		if m.integer {
			x = math.Copysign(toWhole(x, m.round), x)
		}
		if m.sat {
			if !(x > 0) {
				x = 0
			} else if x > 1 {
				x = 1
			}
		}
		if m.relu && x < 0 {
			x = 0
		}
		mode := m.round
		if m.integer {
			mode = rNearest
		}
		r := encodeFloat(x, dt, mode)
		if m.ftz && dt == tF32 {
			r = uint64(flush(uint32(r)))
		}
		return r
	}
}

func cvtIntFloat(dt, st typ, m cvtMods) lane {
	n, k := st.bits(), mask(st.bits())
	return func(a, _, _ uint64) uint64 {
		a &= k
		neg := st.signed() && sext(a, n) < 0
		if neg {
			a = -a & k
		}
		// 64 bits do not fit a float64: keep the top, and what is lost as a sticky bit
		x := float64(a)
		if dt != tF64 && a>>53 != 0 {
			s := a >> 11 << 11
			if s != a {
				s |= 1 << 11
			}
			x = float64(s)
		}
		if neg {
			x = -x
		}
		if m.sat {
			x = min(max(x, 0), 1)
		}
		return encodeFloat(x, dt, m.round)
	}
}

func cvtFloatInt(dt, st typ, m cvtMods, regBits uint) lane {
	lo, hi := 0.0, math.Ldexp(1, int(dt.bits()))
	if dt.signed() {
		lo, hi = -hi/2, hi/2
	}
	keep := mask(regBits)
	return func(a, _, _ uint64) uint64 {
		if m.ftz && st == tF32 {
			a = uint64(flush(uint32(a)))
		}
		x := toWhole(decodeFloat(a, st), m.round)
		switch { // out of range clamps, NaN gives zero (of 64 bits the sign's bit)
		case x != x:
			if dt.bits() == 64 {
				return 1 << 63
			}
			return 0
		case x <= lo:
			x = lo
		case x >= hi:
			if dt.signed() {
				return mask(dt.bits()-1) & keep
			}
			return mask(dt.bits()) & keep
		}
		if dt.signed() {
			return uint64(int64(x)) & keep
		}
		return uint64(x) & keep
	}
}

func cvtIntInt(dt, st typ, m cvtMods, regBits uint) lane {
	n, keep := st.bits(), mask(regBits)
	return func(a, _, _ uint64) uint64 {
		a &= mask(n)
		if m.sat {
			return saturate(a, dt, st) & keep
		}
		if st.signed() {
			a = uint64(sext(a, n))
		}
		if dt.signed() {
			return uint64(sext(a, dt.bits())) & keep
		}
		return a & mask(dt.bits()) & keep
	}
}

// saturate clamps an integer of type st to the range of dt.
func saturate(a uint64, dt, st typ) uint64 {
	top := mask(dt.bits())
	if dt.signed() {
		top >>= 1
	}
	if st.signed() && sext(a, st.bits()) < 0 {
		if !dt.signed() {
			return 0
		}
		return uint64(max(sext(a, st.bits()), -int64(top)-1))
	}
	return min(a, top)
}

// cvtPackLane is cvt.pack.sat: a above b, both saturated, above what of c remains.
func cvtPackLane(dt, st typ, hasC bool) lane {
	n := dt.bits()
	return func(a, b, c uint64) uint64 {
		r := saturate(a&mask(st.bits()), dt, st)&mask(n)<<n | saturate(b&mask(st.bits()), dt, st)&mask(n)
		if hasC {
			r |= c << (2 * n)
		}
		return r & 0xffffffff
	}
}

// fp8 is a format of eight bits: e4m3 without infinities, or e5m2.
type fp8 struct {
	format
	max, bias float64 // bias as the power of two of the least subnormal
}

var (
	fmtE4M3 = fp8{format{4, -6, 8}, 448, 0x1p9}
	fmtE5M2 = fp8{format{3, -14, 15}, 57344, 0x1p16}
)

// bits rounds to nearest even and keeps to the finite numbers; NaN is 0x7f.
func (f fp8) bits(x float64, relu bool) uint64 {
	if x != x {
		return 0x7f
	}
	if relu && !(x > 0) {
		return 0
	}
	sign := uint64(math.Float64bits(x)>>56) & 0x80
	a := min(f.round(min(math.Abs(x), f.max), rNearest), f.max)
	man := uint(f.prec - 1)
	if a < math.Ldexp(1, f.emin) { // subnormal
		return sign | uint64(a*f.bias)
	}
	b := math.Float64bits(a)
	exp := uint64(int(b>>52) - 1023 - f.emin + 1)
	return sign | exp<<man | b<<12>>(64-man)
}

// value is the number that eight bits stand for.
func (f fp8) value(b uint64) float64 {
	man := uint(f.prec - 1)
	exp, frac := int(b&0x7f>>man), float64(b&(1<<man-1))
	v := frac / f.bias
	if exp > 0 {
		v = math.Ldexp(1+frac/float64(uint64(1)<<man), exp+f.emin-1)
	}
	switch {
	case f.prec == 4 && b&0x7f == 0x7f, f.prec == 3 && b&0x7c == 0x7c && frac != 0:
		return math.NaN()
	case f.prec == 3 && b&0x7c == 0x7c:
		v = math.Inf(1)
	}
	if b&0x80 != 0 {
		v = -v
	}
	return v
}
