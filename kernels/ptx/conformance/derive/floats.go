package derive

import (
	"math"
	"math/big"
	"strings"
)

func repeat(k kind, n int) []kind {
	list := make([]kind, n)
	for i := range list {
		list[i] = k
	}
	return list
}

// bits is a plain instruction whose operands are all of one kind.
func (s *set) bits(form string, k kind, n int, eval func(a []uint64) uint64) {
	s.plain(plain{form: form, dst: k, src: repeat(k, n), vectors: vectors(form, count, repeat(k, n)...), eval: eval})
}

// floats are the float32 instructions (PTX ISA 9.7.3) that are exact or rounded once.
func floats() *set {
	s := &set{}
	for _, form := range []string{"add.f32", "add.rn.f32"} {
		s.bits(form, "f32", 2, func(a []uint64) uint64 { return f32.add(a[0], a[1], rn) })
	}
	for _, form := range []string{"sub.f32", "sub.rn.f32"} {
		s.bits(form, "f32", 2, func(a []uint64) uint64 { return f32.sub(a[0], a[1], rn) })
	}
	for _, form := range []string{"mul.f32", "mul.rn.f32"} {
		s.bits(form, "f32", 2, func(a []uint64) uint64 { return f32.mul(a[0], a[1], rn) })
	}
	for _, m := range []byte{rn, rz, rm, rp} {
		r := "r" + string(m)
		s.bits("fma."+r+".f32", "f32", 3, func(a []uint64) uint64 { return f32.fma(a[0], a[1], a[2], m) })
		if m != rn {
			s.bits("add."+r+".f32", "f32", 2, func(a []uint64) uint64 { return f32.add(a[0], a[1], m) })
			s.bits("mul."+r+".f32", "f32", 2, func(a []uint64) uint64 { return f32.mul(a[0], a[1], m) })
		}
	}
	s.bits("div.rn.f32", "f32", 2, func(a []uint64) uint64 { return f32.div(a[0], a[1], rn) })
	s.bits("rcp.rn.f32", "f32", 1, func(a []uint64) uint64 { return f32.div(f32.one(), a[0], rn) })
	s.bits("sqrt.rn.f32", "f32", 1, func(a []uint64) uint64 { return f32.sqrt(a[0], rn) })
	s.bits("abs.f32", "f32", 1, func(a []uint64) uint64 { return a[0] &^ f32.sign() })
	s.bits("neg.f32", "f32", 1, func(a []uint64) uint64 { return a[0] ^ f32.sign() })
	s.bits("copysign.f32", "f32", 2, func(a []uint64) uint64 { return a[1]&^f32.sign() | a[0]&f32.sign() })
	s.bits("max.f32", "f32", 2, func(a []uint64) uint64 { return f32.maximum(a[0], a[1]) })
	s.bits("min.f32", "f32", 2, func(a []uint64) uint64 { return f32.minimum(a[0], a[1]) })
	nan := func(f func(a, b uint64) uint64) func(a []uint64) uint64 {
		return func(a []uint64) uint64 {
			if f32.isNaN(a[0]) || f32.isNaN(a[1]) {
				return f32.nan()
			}
			return f(a[0], a[1])
		}
	}
	s.bits("max.NaN.f32", "f32", 2, nan(f32.maximum))
	s.bits("min.NaN.f32", "f32", 2, nan(f32.minimum))
	ftz := func(form string, n int, f func(a []uint64) uint64) {
		s.bits(form, "f32", n, func(a []uint64) uint64 {
			var flat []uint64
			for _, v := range a {
				flat = append(flat, f32.flushed(v))
			}
			return f32.flushed(f(flat))
		})
	}
	ftz("add.ftz.f32", 2, func(a []uint64) uint64 { return f32.add(a[0], a[1], rn) })
	ftz("mul.ftz.f32", 2, func(a []uint64) uint64 { return f32.mul(a[0], a[1], rn) })
	ftz("fma.rn.ftz.f32", 3, func(a []uint64) uint64 { return f32.fma(a[0], a[1], a[2], rn) })
	ftz("max.ftz.f32", 2, func(a []uint64) uint64 { return f32.maximum(a[0], a[1]) })
	s.bits("cvt.sat.f32.f32", "f32", 1, func(a []uint64) uint64 { // to [0, 1], NaN to +0 (9.7.9.20)
		switch {
		case f32.isNaN(a[0]), f32.neg(a[0]), f32.isZero(a[0]):
			return 0
		case f32.cmp(a[0], f32.one()) > 0:
			return f32.one()
		}
		return a[0]
	})
	return s
}

// halves are the instructions on pairs of 16-bit floats (PTX ISA 9.7.4).
func halves() *set {
	s := &set{}
	pair := func(form string, n int, f func(a []uint64) uint64) {
		s.bits(form, kind(form[strings.LastIndexByte(form, '.')+1:]), n, func(a []uint64) uint64 {
			lo, hi := make([]uint64, n), make([]uint64, n)
			for i, v := range a {
				lo[i], hi[i] = v&0xffff, v>>16
			}
			return f(lo) | f(hi)<<16
		})
	}
	pair("fma.rn.f16x2", 3, func(a []uint64) uint64 { return f16.fma(a[0], a[1], a[2], rn) })
	pair("fma.rn.bf16x2", 3, func(a []uint64) uint64 { return bf16.fma(a[0], a[1], a[2], rn) })
	pair("neg.f16x2", 1, func(a []uint64) uint64 { return a[0] ^ f16.sign() })
	pair("abs.f16x2", 1, func(a []uint64) uint64 { return a[0] &^ f16.sign() })
	pair("max.f16x2", 2, func(a []uint64) uint64 { return f16.maximum(a[0], a[1]) })
	pair("min.f16x2", 2, func(a []uint64) uint64 { return f16.minimum(a[0], a[1]) })
	pair("max.bf16x2", 2, func(a []uint64) uint64 { return bf16.maximum(a[0], a[1]) })
	for _, r := range []string{"", ".rn"} {
		pair("add"+r+".f16x2", 2, func(a []uint64) uint64 { return f16.add(a[0], a[1], rn) })
		pair("sub"+r+".f16x2", 2, func(a []uint64) uint64 { return f16.sub(a[0], a[1], rn) })
		pair("mul"+r+".f16x2", 2, func(a []uint64) uint64 { return f16.mul(a[0], a[1], rn) })
	}
	return s
}

// approximations have the errors that the manual states for each.
func approximations() *set {
	s := &set{}
	value := func(v uint64) float64 { return float64(math.Float32frombits(uint32(v))) }
	// flushed is value where subnormal operands count as zeros of their sign.
	flushed := func(v uint64) float64 {
		if v&0x7f800000 == 0 {
			return value(v & 0x80000000)
		}
		return value(v)
	}
	// flush is a result that is no subnormal.
	flush := func(x float64) float64 {
		if math.Abs(x) < 0x1p-126 {
			return math.Copysign(0, x)
		}
		return x
	}
	// range32 turns what no float32 can hold into an infinity.
	range32 := func(x float64) float64 {
		if math.Abs(x) > math.MaxFloat32*(1+0x1p-25) {
			return math.Copysign(math.Inf(1), x)
		}
		return x
	}
	approx := func(form, near string, bound float64, in [][]uint64, f func(a []uint64) float64) {
		s.plain(plain{form: form, dst: "f32", src: repeat("f32", len(in[0])), vectors: in, near: near, bound: bound, exact: f})
	}
	// within draws arguments between two numbers, besides some given.
	within := func(name string, lo, hi float64, more ...float32) (out [][]uint64) {
		for _, v := range more {
			out = append(out, []uint64{uint64(math.Float32bits(v))})
		}
		for rng := random(name); len(out) < count; {
			out = append(out, []uint64{uint64(math.Float32bits(float32(lo + (hi-lo)*rng.Float64())))})
		}
		return out
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	tiny := math.Float32frombits(1)
	// Arguments stay clear of where the bound lets a result be subnormal or not.
	exps := within("ex2", -125.5, 127.5, 0, float32(math.Copysign(0, -1)), 1, -1, 0.5, 127, -125, 128, 300, inf, -inf, nan, tiny, -tiny)
	approx("ex2.approx.ftz.f32", "relative", 0x1p-22, append(exps, []uint64{0xc3480000}, []uint64{0xc3020000}), func(a []uint64) float64 { return range32(flush(math.Exp2(flushed(a[0])))) })
	approx("ex2.approx.f32", "relative", 0x1p-22, exps, func(a []uint64) float64 { return range32(math.Exp2(flushed(a[0]))) })
	signed := append(vectors("rcp", count-8, "f32"), within("rcp", -100, 100)[:8]...)
	approx("rcp.approx.ftz.f32", "ulp", 1, signed, func(a []uint64) float64 { return flush(1 / flushed(a[0])) })
	var positive [][]uint64
	for _, v := range signed {
		positive = append(positive, []uint64{v[0] &^ 0x80000000})
	}
	positive = append(positive, []uint64{0x80000000}, []uint64{0xbf800000}, []uint64{0xff800000})
	approx("rsqrt.approx.ftz.f32", "relative", 0x1p-22, positive, func(a []uint64) float64 { return 1 / math.Sqrt(flushed(a[0])) })
	approx("rsqrt.approx.f32", "relative", 0x1p-22, positive, func(a []uint64) float64 { return 1 / math.Sqrt(value(a[0])) })
	approx("sqrt.approx.ftz.f32", "relative", 0x1p-22, positive, func(a []uint64) float64 { return math.Sqrt(flushed(a[0])) })
	approx("sqrt.approx.f32", "relative", 0x1p-22, positive, func(a []uint64) float64 { return math.Sqrt(value(a[0])) })
	approx("tanh.approx.f32", "relative", 0x1p-11, within("tanh", -9, 9, 0, 1, -1, 20, -20, inf, -inf, nan), func(a []uint64) float64 { return math.Tanh(value(a[0])) })
	approx("sin.approx.f32", "absolute", 0x1p-20, within("sin", -3.1, 3.1, nan, inf, 1, -1), func(a []uint64) float64 { return math.Sin(value(a[0])) })
	approx("cos.approx.f32", "absolute", 0x1p-20, within("cos", -3.1, 3.1, nan, inf, 0, 1, -1), func(a []uint64) float64 { return math.Cos(value(a[0])) })
	approx("lg2.approx.f32", "absolute", 0x1p-21, within("lg2", 0.5, 2, 0.5, 2), func(a []uint64) float64 { return math.Log2(value(a[0])) })
	var quotients [][]uint64
	for rng := random("div.full"); len(quotients) < count; {
		a, b := math.Ldexp(1+rng.Float64(), rng.IntN(60)-30), math.Ldexp(1+rng.Float64(), rng.IntN(60)-30)
		quotients = append(quotients, []uint64{uint64(math.Float32bits(float32(-a))), uint64(math.Float32bits(float32(b)))})
	}
	quotient := func(a []uint64) float64 { return value(a[0]) / value(a[1]) }
	approx("div.full.f32", "ulp", 2, quotients, quotient)
	approx("div.approx.f32", "ulp", 2, quotients, quotient)
	return s
}

// conversions are cvt (PTX ISA 9.7.9.20).
func conversions() *set {
	s := &set{}
	one := func(form string, dst, src kind, target int, f func(v uint64) uint64) {
		s.plain(plain{form: form, target: target, dst: dst, src: []kind{src}, vectors: vectors(form, count, src), eval: func(a []uint64) uint64 { return f(a[0]) }})
	}
	one("cvt.f32.f16", "f32", "f16", 80, func(v uint64) uint64 { return f16.convert(v, f32, rn) })
	one("cvt.f32.bf16", "f32", "bf16", 90, func(v uint64) uint64 { return bf16.convert(v, f32, rn) })
	one("cvt.rn.f16.f32", "f16", "f32", 80, func(v uint64) uint64 { return f32.convert(v, f16, rn) })
	one("cvt.rz.f16.f32", "f16", "f32", 80, func(v uint64) uint64 { return f32.convert(v, f16, rz) })
	one("cvt.rn.bf16.f32", "bf16", "f32", 80, func(v uint64) uint64 { return f32.convert(v, bf16, rn) })
	// The first source is the upper half.
	halves := func(form string, dst kind, f format) {
		s.plain(plain{form: form, dst: dst, src: repeat("f32", 2), vectors: vectors(form, count, "f32", "f32"),
			eval: func(a []uint64) uint64 { return f32.convert(a[0], f, rn)<<16 | f32.convert(a[1], f, rn) }})
	}
	halves("cvt.rn.f16x2.f32", "f16x2", f16)
	halves("cvt.rn.bf16x2.f32", "bf16x2", bf16)
	for _, e := range []struct {
		name string
		f    format
	}{{"e4m3x2", e4m3}, {"e5m2x2", e5m2}} {
		form := "cvt.rn.satfinite." + e.name + ".f32"
		v := vectors(form, count, "f32", "f32")
		for i := 8; i < count; i++ { // most near what 8 bits can hold
			for j := range v[i] {
				v[i][j] = v[i][j]&0x807fffff | uint64(112+(i*5+j*3)%32)<<23
			}
		}
		s.plain(plain{form: form, target: 90, dst: "b16", src: repeat("f32", 2), vectors: v, eval: func(a []uint64) uint64 { return f32.convert(a[0], e.f, rn)<<8 | f32.convert(a[1], e.f, rn) }})
		// Every one of the 256 values is in a half of some pair.
		back := "cvt.rn.f16x2." + e.name
		v = nil
		for i := range uint64(256) {
			v = append(v, []uint64{i<<8 | (i*37+11)&0xff})
		}
		s.plain(plain{form: back, target: 90, dst: "f16x2", src: []kind{"b16"}, vectors: v, eval: func(a []uint64) uint64 {
			half := func(v uint64) uint64 {
				if e.f == e5m2 { // f16 with a shorter mantissa
					return v << 8
				}
				if v&0x7f == 0x7f {
					return f16.nan()
				}
				return f16.round(e.f.exact(v), rn, e.f.neg(v))
			}
			return half(a[0]>>8)<<16 | half(a[0]&0xff)
		}})
	}
	fromInt := func(form string, src kind, signed bool, to format, dst kind) {
		one(form, dst, src, 80, func(v uint64) uint64 {
			x := new(big.Int).SetUint64(v)
			if signed {
				x.SetInt64(src.sext(v))
			}
			return to.round(number().SetInt(x), rn, false)
		})
	}
	fromInt("cvt.rn.f32.s8", "s8", true, f32, "f32")
	fromInt("cvt.rn.f32.u8", "u8", false, f32, "f32")
	fromInt("cvt.rn.f16.s32", "s32", true, f16, "f16")
	fromInt("cvt.rn.f16.u32", "u32", false, f16, "f16")
	fromInt("cvt.rn.f32.s16", "s16", true, f32, "f32")
	fromInt("cvt.rn.f32.u16", "u16", false, f32, "f32")
	fromInt("cvt.rn.f32.s32", "s32", true, f32, "f32")
	fromInt("cvt.rn.f32.u32", "u32", false, f32, "f32")
	fromInt("cvt.rn.f32.s64", "s64", true, f32, "f32")
	fromInt("cvt.rn.f32.u64", "u64", false, f32, "f32")
	toInt := func(form string, dst kind, signed bool, mode byte) {
		w := dst.width()
		lo, hi := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(w))
		if signed {
			hi.Rsh(hi, 1)
			lo.Neg(hi)
		}
		hi.Sub(hi, big.NewInt(1))
		v := vectors(form, count, "f32")
		for _, x := range []float32{0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, 2147483648, -2147483648, 4294967296, 12345.678} {
			v = append(v, []uint64{uint64(math.Float32bits(x))})
		}
		clean := v[:0]
		for _, x := range v {
			if !f32.isNaN(x[0]) || w == 32 { // of NaN the manual says 0 for 32 bits only
				clean = append(clean, x)
			}
		}
		s.plain(plain{form: form, dst: dst, src: []kind{"f32"}, vectors: clean, eval: func(a []uint64) uint64 {
			n := f32.integer(a[0], mode, lo, hi)
			if n.Sign() < 0 {
				return uint64(n.Int64())
			}
			return n.Uint64()
		}})
	}
	toInt("cvt.rni.s32.f32", "s32", true, rn)
	toInt("cvt.rzi.s32.f32", "s32", true, rz)
	toInt("cvt.rmi.s32.f32", "s32", true, rm)
	toInt("cvt.rpi.s32.f32", "s32", true, rp)
	toInt("cvt.rzi.u32.f32", "u32", false, rz)
	toInt("cvt.rzi.u64.f32", "u64", false, rz)
	toInt("cvt.rzi.s64.f32", "s64", true, rz)
	whole := func(form string, dst, src kind, f func(v uint64) uint64) { one(form, dst, src, 80, f) }
	whole("cvt.s16.s8", "s16", "s8", func(v uint64) uint64 { return uint64(kind("s8").sext(v)) })
	whole("cvt.s64.s32", "s64", "s32", func(v uint64) uint64 { return uint64(kind("s32").sext(v)) })
	whole("cvt.u16.u32", "u16", "u32", func(v uint64) uint64 { return v })
	whole("cvt.u32.u16", "u32", "u16", func(v uint64) uint64 { return v })
	whole("cvt.u32.u64", "u32", "u64", func(v uint64) uint64 { return v })
	whole("cvt.u64.u32", "u64", "u32", func(v uint64) uint64 { return v })
	whole("cvt.u32.u8", "u32", "u8", func(v uint64) uint64 { return v })
	whole("cvt.u16.u8", "u16", "u8", func(v uint64) uint64 { return v })
	whole("cvt.s32.s64", "s32", "s64", func(v uint64) uint64 { return v })
	whole("cvt.s32.s8", "s32", "s8", func(v uint64) uint64 { return uint64(kind("s8").sext(v)) })
	whole("cvt.s32.s16", "s32", "s16", func(v uint64) uint64 { return uint64(kind("s16").sext(v)) })
	whole("cvt.sat.s8.s32", "s8", "s32", func(v uint64) uint64 { return uint64(max(-128, min(127, kind("s32").sext(v)))) })
	whole("cvt.sat.u8.s32", "u8", "s32", func(v uint64) uint64 { return uint64(max(0, min(255, kind("s32").sext(v)))) })
	whole("cvt.sat.s16.s32", "s16", "s32", func(v uint64) uint64 {
		return uint64(max(-1<<15, min(1<<15-1, kind("s32").sext(v))))
	})
	whole("cvt.sat.u16.s32", "u16", "s32", func(v uint64) uint64 { return uint64(max(0, min(1<<16-1, kind("s32").sext(v)))) })
	return s
}
