package derive

import "math/big"

// format is a binary floating point format of IEEE 754's kind. largest is its
// greatest finite number where infinity is none of its values: what is beyond it
// saturates.
type format struct {
	bits, mantissa int
	largest        uint64
}

var (
	f32  = format{bits: 32, mantissa: 23}
	f16  = format{bits: 16, mantissa: 10}
	bf16 = format{bits: 16, mantissa: 7}
	// What .satfinite makes of the 8-bit formats (PTX ISA 5.2.3).
	e4m3 = format{bits: 8, mantissa: 3, largest: 0x7e}
	e5m2 = format{bits: 8, mantissa: 2, largest: 0x7b}
)

// Directions of rounding, as PTX writes them.
const (
	rn = 'n' // to nearest, to even where there are two
	rz = 'z' // towards zero
	rm = 'm' // down
	rp = 'p' // up
)

func (f format) exponentBits() int { return f.bits - 1 - f.mantissa }
func (f format) emin() int         { return 2 - 1<<(f.exponentBits()-1) }
func (f format) inf() uint64       { return (1<<f.exponentBits() - 1) << f.mantissa }
func (f format) sign() uint64      { return 1 << (f.bits - 1) }
func (f format) nan() uint64       { return f.sign() - 1 }

func (f format) isNaN(v uint64) bool  { return v&^f.sign() > f.inf() }
func (f format) isInf(v uint64) bool  { return v&^f.sign() == f.inf() }
func (f format) isZero(v uint64) bool { return v&^f.sign() == 0 }
func (f format) neg(v uint64) bool    { return v&f.sign() != 0 }

// exact gives a finite value.
func (f format) exact(v uint64) *big.Float {
	e := int(v >> f.mantissa & (1<<f.exponentBits() - 1))
	m := v & (1<<f.mantissa - 1)
	if e > 0 {
		m |= 1 << f.mantissa
	} else {
		e = 1
	}
	x := number().SetUint64(m)
	x.SetMantExp(x, e-1+f.emin()-f.mantissa)
	if f.neg(v) {
		x.Neg(x)
	}
	return x
}

// number is wide enough for every exact sum and product here.
func number() *big.Float { return new(big.Float).SetPrec(1200) }

// round gives the bits of x. A zero has the sign asked for.
func (f format) round(x *big.Float, mode byte, negZero bool) uint64 {
	if x.Sign() == 0 {
		if negZero {
			return f.sign()
		}
		return 0
	}
	sign := uint64(0)
	if x.Sign() < 0 {
		sign = f.sign()
	}
	abs := number().Abs(x)
	e := max(abs.MantExp(nil)-1, f.emin())
	scaled := number().SetMantExp(abs, f.mantissa-e)
	whole, _ := scaled.Int(nil)
	rest := number().Sub(scaled, number().SetInt(whole))
	up := false
	switch half := rest.Cmp(big.NewFloat(0.5)); {
	case mode == rn:
		up = half > 0 || half == 0 && whole.Bit(0) == 1
	case mode == rm:
		up = sign != 0 && rest.Sign() > 0
	case mode == rp:
		up = sign == 0 && rest.Sign() > 0
	}
	n := whole.Uint64()
	if up {
		n++
	}
	bits := uint64(e-f.emin())<<f.mantissa + n
	if f.largest > 0 {
		return sign | min(bits, f.largest)
	}
	if bits >= f.inf() {
		bits = f.inf()
		if mode == rz || mode == rm && sign == 0 || mode == rp && sign != 0 {
			bits--
		}
	}
	return sign | bits
}

// fma is a·b+c with one rounding.
func (f format) fma(a, b, c uint64, mode byte) uint64 {
	negative := f.neg(a) != f.neg(b)
	switch {
	case f.isNaN(a) || f.isNaN(b) || f.isNaN(c):
		return f.nan()
	case f.isInf(a) || f.isInf(b):
		if f.isZero(a) || f.isZero(b) || f.isInf(c) && f.neg(c) != negative {
			return f.nan()
		}
		if negative {
			return f.sign() | f.inf()
		}
		return f.inf()
	case f.isInf(c):
		return c
	}
	p := number().Mul(f.exact(a), f.exact(b))
	x := number().Add(p, f.exact(c))
	// The sum of two zeros of one sign keeps it; another exact zero is positive, or
	// negative where one rounds down.
	zero := mode == rm
	if p.Sign() == 0 && f.isZero(c) && negative == f.neg(c) {
		zero = negative
	}
	return f.round(x, mode, zero)
}

// one of the format.
func (f format) one() uint64 { return f.round(big.NewFloat(1), rn, false) }

func (f format) add(a, b uint64, mode byte) uint64 { return f.fma(a, f.one(), b, mode) }

func (f format) sub(a, b uint64, mode byte) uint64 {
	if f.isNaN(b) {
		return f.nan()
	}
	return f.fma(a, f.one(), b^f.sign(), mode)
}

// mul is fma with a zero that does not change the product's sign.
func (f format) mul(a, b uint64, mode byte) uint64 {
	c := uint64(0)
	if f.neg(a) != f.neg(b) {
		c = f.sign()
	}
	return f.fma(a, b, c, mode)
}

// div is a/b.
func (f format) div(a, b uint64, mode byte) uint64 {
	sign := (a ^ b) & f.sign()
	switch {
	case f.isNaN(a) || f.isNaN(b) || f.isInf(a) && f.isInf(b) || f.isZero(a) && f.isZero(b):
		return f.nan()
	case f.isInf(a) || f.isZero(b):
		return sign | f.inf()
	case f.isInf(b) || f.isZero(a):
		return sign
	}
	// 1200 bits of quotient: with the bit after them it cannot be a tie by accident.
	return f.round(number().Quo(f.exact(a), f.exact(b)), mode, sign != 0)
}

func (f format) sqrt(a uint64, mode byte) uint64 {
	switch {
	case f.isZero(a):
		return a
	case f.isNaN(a) || f.neg(a):
		return f.nan()
	case f.isInf(a):
		return a
	}
	return f.round(number().Sqrt(f.exact(a)), mode, false)
}

// maximum is max: a number before a NaN, +0 above -0.
func (f format) maximum(a, b uint64) uint64 {
	switch {
	case f.isNaN(a) && f.isNaN(b):
		return f.nan()
	case f.isNaN(a):
		return b
	case f.isNaN(b):
		return a
	}
	if f.order(a) >= f.order(b) {
		return a
	}
	return b
}

func (f format) minimum(a, b uint64) uint64 {
	switch {
	case f.isNaN(a) && f.isNaN(b):
		return f.nan()
	case f.isNaN(a):
		return b
	case f.isNaN(b):
		return a
	}
	if f.order(a) <= f.order(b) {
		return a
	}
	return b
}

// order is rising with the value of what is no NaN; -0 is below +0.
func (f format) order(v uint64) int64 {
	if f.neg(v) {
		return -int64(v&^f.sign()) - 1
	}
	return int64(v)
}

// cmp compares numbers.
func (f format) cmp(a, b uint64) int {
	if f.isZero(a) && f.isZero(b) {
		return 0
	}
	switch x, y := f.order(a), f.order(b); {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// convert brings a value into another format.
func (f format) convert(v uint64, to format, mode byte) uint64 {
	switch {
	case f.isNaN(v):
		return to.nan()
	case f.isInf(v):
		top := to.inf()
		if to.largest > 0 {
			top = to.largest
		}
		if f.neg(v) {
			top |= to.sign()
		}
		return top
	}
	return to.round(f.exact(v), mode, f.neg(v))
}

// integer rounds to a whole number, held to [lo, hi]; NaN gives 0 (PTX ISA, cvt).
func (f format) integer(v uint64, mode byte, lo, hi *big.Int) *big.Int {
	switch {
	case f.isNaN(v):
		return new(big.Int)
	case f.isInf(v) && f.neg(v):
		return lo
	case f.isInf(v):
		return hi
	}
	x := f.exact(v)
	whole, _ := x.Int(nil) // towards zero
	rest := number().Sub(x, number().SetInt(whole))
	half := number().Abs(rest).Cmp(big.NewFloat(0.5))
	step := int64(rest.Sign())
	switch {
	case mode == rn && (half > 0 || half == 0 && whole.Bit(0) == 1), mode == rm && step < 0, mode == rp && step > 0:
		whole.Add(whole, big.NewInt(step))
	}
	if whole.Cmp(lo) < 0 {
		return lo
	}
	if whole.Cmp(hi) > 0 {
		return hi
	}
	return whole
}

// flushed is a value as .ftz takes and gives it: a subnormal is a zero of its sign.
func (f format) flushed(v uint64) uint64 {
	if v&f.inf() == 0 {
		return v & f.sign()
	}
	return v
}
