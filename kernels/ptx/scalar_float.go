package ptx

import "math"

func f32(v uint64) float32 { return math.Float32frombits(uint32(v)) }
func f64(v uint64) float64 { return math.Float64frombits(v) }

// floatMods are the modifiers of a floating-point instruction.
type floatMods struct {
	round         rounding
	ftz, sat, nan bool // nan: min and max give NaN if an operand is
	relu, xorsign bool
	approx, full  bool
}

// f32Lane is a single precision instruction (ISA §9.7.3).
func f32Lane(base string, m floatMods) lane {
	op := f32Plain(base, m)
	if op == nil || !m.ftz && !m.sat {
		return op
	}
	return func(a, b, c uint64) uint64 {
		if m.ftz {
			a, b, c = uint64(flush(uint32(a))), uint64(flush(uint32(b))), uint64(flush(uint32(c)))
		}
		r := uint32(op(a, b, c))
		if m.ftz {
			r = flush(r)
		}
		if m.sat {
			if v := math.Float32frombits(r); !(v > 0) {
				r = 0
			} else if v > 1 {
				r = 0x3f800000
			}
		}
		return uint64(r)
	}
}

func f32Plain(base string, m floatMods) lane {
	directed := m.round > rNearest
	two := func(plain func(a, b float32) float32, exact func(a, b float64) float64) lane {
		if directed {
			return func(a, b, _ uint64) uint64 {
				return uint64(f32Bits(exact(float64(f32(a)), float64(f32(b))), m.round))
			}
		}
		return func(a, b, _ uint64) uint64 { return uint64(canon(plain(f32(a), f32(b)))) }
	}
	switch base {
	case "add":
		return two(func(a, b float32) float32 { return a + b }, addOdd)
	case "sub":
		return two(func(a, b float32) float32 { return a - b }, func(a, b float64) float64 { return addOdd(a, -b) })
	case "mul":
		return two(func(a, b float32) float32 { return a * b }, func(a, b float64) float64 { return a * b })
	case "div":
		return two(func(a, b float32) float32 { return a / b }, divOdd)
	case "fma", "mad":
		if directed {
			return func(a, b, c uint64) uint64 {
				return uint64(f32Bits(fmaOdd(float64(f32(a)), float64(f32(b)), float64(f32(c))), m.round))
			}
		}
		return func(a, b, c uint64) uint64 { return uint64(fma32(uint32(a), uint32(b), uint32(c))) }
	case "neg":
		return func(a, _, _ uint64) uint64 { return a ^ 1<<31 }
	case "abs":
		return func(a, _, _ uint64) uint64 { return a &^ (1 << 31) }
	case "copysign":
		return func(a, b, _ uint64) uint64 { return a&(1<<31) | b&0x7fffffff }
	case "min", "max":
		return func(a, b, _ uint64) uint64 {
			sign := (a ^ b) & (1 << 31)
			if m.xorsign {
				a, b = a&0x7fffffff, b&0x7fffffff
			}
			r := uint64(minMax32(uint32(a), uint32(b), base == "max", m.nan))
			if m.xorsign && r != nanF32 {
				r = r&0x7fffffff | sign
			}
			return r
		}
	}
	return f32Unary(base, m)
}

// f32Unary is a function of one value. The approximate ones give the nearest
// float32 (ex2 nearly so): the ISA bounds their error, it does not fix their bits.
func f32Unary(base string, m floatMods) lane {
	one := func(fn func(float64) float64) lane {
		return func(a, _, _ uint64) uint64 { return uint64(f32Bits(fn(float64(f32(a))), m.round)) }
	}
	switch base {
	case "rcp":
		return one(func(a float64) float64 { return divOdd(1, a) })
	case "sqrt":
		return one(sqrtOdd)
	case "rsqrt":
		return one(func(a float64) float64 {
			if a == 0 {
				return math.Inf(int(math.Copysign(1, a)))
			}
			return 1 / math.Sqrt(a)
		})
	case "ex2":
		return func(a, _, _ uint64) uint64 { return uint64(canon(exp2(f32(a)))) }
	case "lg2":
		return one(math.Log2)
	case "sin":
		return one(math.Sin)
	case "cos":
		return one(math.Cos)
	case "tanh":
		return one(math.Tanh)
	}
	return nil
}

// minMax32 picks one of two float32: a NaN loses, minus zero is less than zero.
func minMax32(a, b uint32, isMax, nan bool) uint32 {
	aNaN, bNaN := a&0x7fffffff > infF32, b&0x7fffffff > infF32
	switch {
	case aNaN && bNaN || nan && (aNaN || bNaN):
		return nanF32
	case aNaN:
		return b
	case bNaN:
		return a
	}
	x, y := math.Float32frombits(a), math.Float32frombits(b)
	less := x < y || x == y && int32(a) < int32(b)
	if less != isMax {
		return a
	}
	return b
}

// f64Lane is a double precision instruction (ISA §9.7.3); only rounding to nearest.
func f64Lane(base string, m floatMods) lane {
	if m.round > rNearest {
		return nil
	}
	u := math.Float64bits
	switch base {
	case "add":
		return func(a, b, _ uint64) uint64 { return u(f64(a) + f64(b)) }
	case "sub":
		return func(a, b, _ uint64) uint64 { return u(f64(a) - f64(b)) }
	case "mul":
		return func(a, b, _ uint64) uint64 { return u(f64(a) * f64(b)) }
	case "div":
		return func(a, b, _ uint64) uint64 { return u(f64(a) / f64(b)) }
	case "fma", "mad":
		return func(a, b, c uint64) uint64 { return u(math.FMA(f64(a), f64(b), f64(c))) }
	case "neg":
		return func(a, _, _ uint64) uint64 { return a ^ 1<<63 }
	case "abs":
		return func(a, _, _ uint64) uint64 { return a &^ (1 << 63) }
	case "copysign":
		return func(a, b, _ uint64) uint64 { return a&(1<<63) | b&^(1<<63) }
	case "rcp":
		return func(a, _, _ uint64) uint64 { return u(1 / f64(a)) }
	case "sqrt":
		return func(a, _, _ uint64) uint64 { return u(math.Sqrt(f64(a))) }
	case "rsqrt":
		return func(a, _, _ uint64) uint64 { return u(1 / math.Sqrt(f64(a))) }
	case "min", "max":
		return func(a, b, _ uint64) uint64 {
			x, y := f64(a), f64(b)
			switch {
			case x != x:
				return b
			case y != y:
				return a
			case (x < y || x == y && int64(a) < int64(b)) != (base == "max"):
				return a
			}
			return b
		}
	}
	return nil
}

// testpLane is testp (ISA §9.7.3.2): one where the property holds.
func testpLane(prop string, t typ) lane {
	exp, frac := uint64(infF32), uint64(0x7fffff)
	if t == tF64 {
		exp, frac = 0x7ff<<52, 1<<52-1
	}
	var f func(a uint64) bool
	switch prop {
	case "finite":
		f = func(a uint64) bool { return a&exp != exp }
	case "infinite":
		f = func(a uint64) bool { return a&exp == exp && a&frac == 0 }
	case "number":
		f = func(a uint64) bool { return a&exp != exp || a&frac == 0 }
	case "notanumber":
		f = func(a uint64) bool { return a&exp == exp && a&frac != 0 }
	case "normal":
		f = func(a uint64) bool { return a&exp != exp && a&exp != 0 }
	case "subnormal":
		f = func(a uint64) bool { return a&exp == 0 && a&frac != 0 }
	default:
		return nil
	}
	return func(a, _, _ uint64) uint64 {
		if f(a) {
			return 1
		}
		return 0
	}
}

// halfLane is an instruction on f16 or bf16 (ISA §9.7.4).
func halfLane(base string, bf bool, m floatMods) lane {
	wide, narrow := halfToFloat, f16Bits
	one, inf, nan := uint32(0x3c00), uint32(0x7c00), uint32(nanF16)
	if bf {
		wide, narrow = bfloatToFloat, bf16Bits
		one, inf = 0x3f80, 0x7f80
	}
	x := func(v uint64) float64 { return float64(wide(uint32(v & 0xffff))) }
	var op func(a, b, c uint64) uint32
	switch base {
	case "add":
		op = func(a, b, _ uint64) uint32 { return narrow(addOdd(x(a), x(b)), rNearest) }
	case "sub":
		op = func(a, b, _ uint64) uint32 { return narrow(addOdd(x(a), -x(b)), rNearest) }
	case "mul":
		op = func(a, b, _ uint64) uint32 { return narrow(x(a)*x(b), rNearest) }
	case "fma":
		op = func(a, b, c uint64) uint32 { return narrow(fmaOdd(x(a), x(b), x(c)), rNearest) }
	case "neg":
		op = func(a, _, _ uint64) uint32 { return uint32(a&0xffff) ^ 0x8000 }
	case "abs":
		op = func(a, _, _ uint64) uint32 { return uint32(a & 0x7fff) }
	case "ex2":
		op = func(a, _, _ uint64) uint32 { return narrow(math.Exp2(x(a)), rNearest) }
	case "tanh":
		op = func(a, _, _ uint64) uint32 { return narrow(math.Tanh(x(a)), rNearest) }
	case "min", "max":
		op = func(a, b, _ uint64) uint32 {
			sign := uint32(a^b) & 0x8000
			if m.xorsign {
				a, b = a&0x7fff, b&0x7fff
			}
			r := minMax32(math.Float32bits(wide(uint32(a&0xffff))), math.Float32bits(wide(uint32(b&0xffff))), base == "max", m.nan)
			if r == nanF32 {
				return nan
			}
			h := narrow(float64(math.Float32frombits(r)), rNearest)
			if m.xorsign {
				h = h&0x7fff | sign
			}
			return h
		}
	default:
		return nil
	}
	flushHalf := func(v uint64) uint64 {
		if v&uint64(inf) == 0 {
			return v & 0x8000
		}
		return v & 0xffff
	}
	return func(a, b, c uint64) uint64 {
		if m.ftz {
			a, b, c = flushHalf(a), flushHalf(b), flushHalf(c)
		}
		r := op(a, b, c)
		if m.ftz {
			r = uint32(flushHalf(uint64(r)))
		}
		isNaN := r&0x7fff > inf
		switch {
		case m.sat && (isNaN || r&0x8000 != 0):
			r = 0
		case m.sat && r > one:
			r = one
		case m.relu && !isNaN && r&0x8000 != 0:
			r = 0
		}
		return uint64(r)
	}
}

// pairLane does op in both halves of packed registers.
func pairLane(op lane) lane {
	return func(a, b, c uint64) uint64 {
		return op(a&0xffff, b&0xffff, c&0xffff) | op(a>>16&0xffff, b>>16&0xffff, c>>16&0xffff)<<16
	}
}
