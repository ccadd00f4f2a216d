package derive

import (
	"fmt"
	"math/big"
	"math/bits"
)

// integers are the integer and logic instructions (PTX ISA 9.7.1, 9.7.2, 9.7.7).
func integers() *set {
	s := &set{}
	for _, k := range []kind{"u16", "u32", "u64"} {
		s.bits("add."+string(k), k, 2, func(a []uint64) uint64 { return a[0] + a[1] })
		s.bits("sub."+string(k), k, 2, func(a []uint64) uint64 { return a[0] - a[1] })
		s.bits("mul.lo."+string(k), k, 2, func(a []uint64) uint64 { return a[0] * a[1] })
	}
	for _, k := range []kind{"s16", "s32", "s64"} {
		s.bits("add."+string(k), k, 2, func(a []uint64) uint64 { return a[0] + a[1] })
		s.bits("sub."+string(k), k, 2, func(a []uint64) uint64 { return a[0] - a[1] })
		s.bits("mul.lo."+string(k), k, 2, func(a []uint64) uint64 { return a[0] * a[1] })
		s.bits("neg."+string(k), k, 1, func(a []uint64) uint64 { return -a[0] })
	}
	for _, k := range []kind{"s32", "u32"} {
		less := func(a, b uint64) bool { return a < b }
		if k == "s32" {
			less = func(a, b uint64) bool { return k.sext(a) < k.sext(b) }
		}
		s.bits("max."+string(k), k, 2, func(a []uint64) uint64 {
			if less(a[0], a[1]) {
				return a[1]
			}
			return a[0]
		})
		s.bits("min."+string(k), k, 2, func(a []uint64) uint64 {
			if less(a[1], a[0]) {
				return a[1]
			}
			return a[0]
		})
	}
	for _, k := range []kind{"s32", "u32", "s64", "u64"} {
		s.bits("mad.lo."+string(k), k, 3, func(a []uint64) uint64 { return a[0]*a[1] + a[2] })
	}
	s.bits("mul.hi.s32", "s32", 2, func(a []uint64) uint64 { return uint64(kind("s32").sext(a[0]) * kind("s32").sext(a[1]) >> 32) })
	s.bits("mul.hi.u32", "u32", 2, func(a []uint64) uint64 { return a[0] * a[1] >> 32 })
	s.bits("mul.hi.u64", "u64", 2, func(a []uint64) uint64 {
		p := new(big.Int).Mul(new(big.Int).SetUint64(a[0]), new(big.Int).SetUint64(a[1]))
		return p.Rsh(p, 64).Uint64()
	})
	wide := func(src, dst kind, signed bool) {
		form := "mul.wide." + string(src)
		s.plain(plain{form: form, dst: dst, src: repeat(src, 2), vectors: vectors(form, count, src, src), eval: func(a []uint64) uint64 {
			if signed {
				return uint64(src.sext(a[0]) * src.sext(a[1]))
			}
			return a[0] * a[1]
		}})
		form = "mad.wide." + string(src)
		s.plain(plain{form: form, dst: dst, src: []kind{src, src, dst}, vectors: vectors(form, count, src, src, dst), eval: func(a []uint64) uint64 {
			if signed {
				return uint64(src.sext(a[0])*src.sext(a[1])) + a[2]
			}
			return a[0]*a[1] + a[2]
		}})
	}
	wide("s32", "s64", true)
	wide("u32", "u64", false)
	wide("u16", "u32", false)
	wide("s16", "s32", true)
	quotients(s)
	dots(s)
	s.bits("abs.s32", "s32", 1, func(a []uint64) uint64 {
		if kind("s32").sext(a[0]) < 0 {
			return -a[0]
		}
		return a[0]
	})
	logic(s)
	fields(s)
	shifts(s)
	permutes(s)
	return s
}

// quotients leave out what the manual does not define: a divisor of 0, and the
// quotient that does not fit.
func quotients(s *set) {
	for _, k := range []kind{"s32", "u32", "s64", "u64"} {
		var v [][]uint64
		for _, x := range vectors("div."+string(k), 2*count, k, k) {
			overflow := k[0] == 's' && x[0] == 1<<(k.width()-1) && k.sext(x[1]) == -1
			if x[1] != 0 && !overflow && len(v) < count {
				v = append(v, x)
			}
		}
		value := func(x uint64) *big.Int {
			if k[0] == 's' {
				return big.NewInt(k.sext(x))
			}
			return new(big.Int).SetUint64(x)
		}
		back := func(x *big.Int) uint64 {
			if x.Sign() < 0 {
				return uint64(x.Int64())
			}
			return x.Uint64()
		}
		s.plain(plain{form: "div." + string(k), dst: k, src: repeat(k, 2), vectors: v, eval: func(a []uint64) uint64 { return back(new(big.Int).Quo(value(a[0]), value(a[1]))) }})
		s.plain(plain{form: "rem." + string(k), dst: k, src: repeat(k, 2), vectors: v, eval: func(a []uint64) uint64 { return back(new(big.Int).Rem(value(a[0]), value(a[1]))) }})
	}
}

// dots is dp4a: four products of bytes and a sum, all modulo 2^32.
func dots(s *set) {
	for _, form := range []string{"dp4a.s32.s32", "dp4a.u32.u32", "dp4a.s32.u32"} {
		a, b := kind(form[5:8]), kind(form[9:12])
		byteOf := func(k kind, v uint64, i int) int64 {
			x := v >> (8 * i) & 0xff
			if k == "s32" {
				return kind("s8").sext(x)
			}
			return int64(x)
		}
		dst := kind("s32")
		s.plain(plain{form: form, dst: dst, src: []kind{"b32", "b32", dst}, vectors: vectors(form, count, "b32", "b32", dst), eval: func(v []uint64) uint64 {
			sum := int64(v[2])
			for i := range 4 {
				sum += byteOf(a, v[0], i) * byteOf(b, v[1], i)
			}
			return uint64(sum)
		}})
	}
}

func logic(s *set) {
	for _, k := range []kind{"b16", "b32", "b64", "pred"} {
		s.bits("and."+string(k), k, 2, func(a []uint64) uint64 { return a[0] & a[1] })
		s.bits("or."+string(k), k, 2, func(a []uint64) uint64 { return a[0] | a[1] })
		s.bits("xor."+string(k), k, 2, func(a []uint64) uint64 { return a[0] ^ a[1] })
		s.bits("not."+string(k), k, 1, func(a []uint64) uint64 {
			if k == "pred" {
				return 1 - a[0]
			}
			return ^a[0]
		})
	}
	tables(s)
}

// tables is lop3 (PTX ISA 9.7.7.6) with each of its 256 tables. Bit i of a table is
// the result where the bits of a, b and c, a highest, make i.
func tables(s *set) {
	const each = 32
	for first := 0; first < 256; first += each {
		in := vectors(fmt.Sprint("lop3", first), 8, "b32", "b32", "b32")
		for i := range in {
			in[i] = append(in[i], 0)
		}
		var body []string
		for i, k := range repeat("b32", 3) {
			body = append(body, k.load(i+1, i)...)
		}
		out := make([][]uint64, len(in))
		for i := range each {
			table := first + i
			body = append(body, fmt.Sprintf("lop3.b32 %%r0, %%r1, %%r2, %%r3, %d;", table), fmt.Sprintf("st.global.b32 [%%dst+%d], %%r0;", 8*i))
			for t, a := range in {
				var v uint64
				for bit := range 32 {
					at := a[0]>>bit&1<<2 | a[1]>>bit&1<<1 | a[2]>>bit&1
					v |= uint64(table) >> at & 1 << bit
				}
				out[t] = append(out[t], v)
			}
		}
		s.custom(fmt.Sprintf("lop3.b32 %d to %d", first, first+each-1), []string{"lop3.b32"}, 80, nil, nil, body, in, out, "bits")
	}
}

// fields are the instructions on parts of words.
func fields(s *set) {
	count32 := func(form string, src kind, f func(v uint64) int) {
		s.plain(plain{form: form, dst: "u32", src: []kind{src}, vectors: vectors(form, count, src), eval: func(a []uint64) uint64 { return uint64(f(a[0])) }})
	}
	count32("popc.b32", "b32", bits.OnesCount64)
	count32("popc.b64", "b64", bits.OnesCount64)
	count32("clz.b32", "b32", func(v uint64) int { return bits.LeadingZeros64(v) - 32 })
	count32("clz.b64", "b64", bits.LeadingZeros64)
	s.bits("brev.b32", "b32", 1, func(a []uint64) uint64 { return bits.Reverse64(a[0]) >> 32 })
	// Positions and lengths are of 0 to 255; the field ends with the word.
	at := func(form string, n int, k kind) (v [][]uint64) {
		rng := random(form)
		for i := range count {
			x := vectors(form, count, repeat(k, n)...)[i]
			pos, size := uint64(rng.IntN(33)), uint64(rng.IntN(33))
			switch i % 8 {
			case 0:
				pos, size = 32, 5
			case 1:
				pos, size = 28, 12
			case 2:
				size = 0
			case 3:
				pos, size = 255, 255
			case 4:
				pos, size = 0x10004, 0x10008 // only the low bytes count
			}
			v = append(v, append(x, pos, size))
		}
		return v
	}
	s.plain(plain{form: "bfi.b32", dst: "b32", src: []kind{"b32", "b32", "u32", "u32"}, vectors: at("bfi", 2, "b32"), eval: func(a []uint64) uint64 {
		v := a[1]
		pos, size := int(a[2]&0xff), int(a[3]&0xff)
		for i := 0; i < size && pos+i < 32; i++ {
			v = v&^(1<<(pos+i)) | a[0]>>i&1<<(pos+i)
		}
		return v
	}})
	masks(s)
	for _, k := range []kind{"u32", "s32"} {
		s.plain(plain{form: "bfe." + string(k), dst: k, src: []kind{k, "u32", "u32"}, vectors: at("bfe", 1, k), eval: func(a []uint64) (v uint64) {
			pos, size := int(a[1]&0xff), int(a[2]&0xff)
			fill := uint64(0)
			if k == "s32" && size > 0 {
				fill = a[0] >> min(pos+size-1, 31) & 1
			}
			for i := range 32 {
				bit := fill
				if i < size && pos+i < 32 {
					bit = a[0] >> (pos + i) & 1
				}
				v |= bit << i
			}
			return v
		}})
	}
}

// masks are bmsk and szext (PTX ISA 9.7.1.22, 9.7.1.23): .wrap takes positions and
// lengths modulo 32, .clamp holds them to 32.
func masks(s *set) {
	for _, how := range []string{"clamp", "wrap"} {
		at := func(v uint64) uint64 {
			if how == "wrap" {
				return v & 31
			}
			return min(v, 32)
		}
		var pairs, words [][]uint64
		for i, x := range vectors("bmsk", count, "u32") {
			n := []uint64{0, 1, 7, 31, 32, 33, 40, 64, 0xffffffff}
			pairs = append(pairs, []uint64{n[i%9], n[i/9%9]})
			words = append(words, []uint64{x[0], n[i%9]})
		}
		s.plain(plain{form: "bmsk." + how + ".b32", dst: "b32", src: []kind{"u32", "u32"}, vectors: pairs, eval: func(a []uint64) (v uint64) {
			for i := at(a[0]); i < min(at(a[0])+at(a[1]), 32); i++ {
				v |= 1 << i
			}
			return v
		}})
		for _, k := range []kind{"u32", "s32"} {
			s.plain(plain{form: "szext." + how + "." + string(k), dst: k, src: []kind{k, "u32"}, vectors: words, eval: func(a []uint64) uint64 {
				n := at(a[1])
				v := a[0] & (1<<n - 1)
				if k == "s32" && n > 0 && v>>(n-1) == 1 {
					v |= ^uint64(0) << n
				}
				return v
			}})
		}
	}
}

// shifts by more than the width clamp to it (PTX ISA 9.7.7.7, 9.7.7.8); shf has
// both behaviours by name.
func shifts(s *set) {
	amounts := func(form string, k kind) (v [][]uint64) {
		w := uint64(k.width())
		for i, x := range vectors(form, count, k) {
			v = append(v, append(x, []uint64{0, 1, 7, w/2 - 1, w - 1, w, w + 1, 255, 1 << 31, 31, 32, 33}[i%12]))
		}
		return v
	}
	for _, k := range []kind{"b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64"} {
		form := "shr." + string(k)
		if k[0] == 'b' {
			form = "shl." + string(k)
		}
		w := uint64(k.width())
		s.plain(plain{form: form, dst: k, src: []kind{k, "u32"}, vectors: amounts(form, k), eval: func(a []uint64) uint64 {
			n := min(a[1], w)
			switch k[0] {
			case 'b':
				return a[0] << n
			case 'u':
				return a[0] >> n
			}
			return uint64(k.sext(a[0]) >> n)
		}})
	}
	for _, side := range []string{"l", "r"} {
		for _, how := range []string{"wrap", "clamp"} {
			form := "shf." + side + "." + how + ".b32"
			var v [][]uint64
			for i, x := range vectors(form, count, "b32", "b32") {
				v = append(v, append(x, []uint64{0, 1, 5, 31, 32, 33, 40, 63, 64, 1 << 31}[i%10]))
			}
			s.plain(plain{form: form, dst: "b32", src: []kind{"b32", "b32", "u32"}, vectors: v, eval: func(a []uint64) uint64 {
				n := a[2] & 31
				if how == "clamp" {
					n = min(a[2], 32)
				}
				both := a[1]<<32 | a[0]
				if side == "l" {
					return both << n >> 32
				}
				return both >> n & 0xffffffff
			}})
		}
	}
}

// permutes is prmt (PTX ISA 9.7.8.7): the modes choose bytes by the selector's low
// two bits, the plain form by a nibble each, whose top bit spreads the sign.
func permutes(s *set) {
	selectors := []uint64{0x3210, 0x7654, 0x5140, 0x0123, 0xfedc, 0xb291, 0x8888, 0x4567, 0x1, 0x2, 0x3, 0x0}
	var v [][]uint64
	for i, x := range vectors("prmt", 48, "b32", "b32") {
		v = append(v, append(x, selectors[i%len(selectors)]))
	}
	byteOf := func(a []uint64, i uint64) uint64 { return (a[1]<<32 | a[0]) >> (8 * (i & 7)) & 0xff }
	s.plain(plain{form: "prmt.b32", dst: "b32", src: repeat("b32", 3), vectors: v, eval: func(a []uint64) (r uint64) {
		for i := range 4 {
			n := a[2] >> (4 * i) & 15
			b := byteOf(a, n)
			if n > 7 {
				b = 0xff * (b >> 7)
			}
			r |= b << (8 * i)
		}
		return r
	}})
	// By mode and selector, the bytes from the lowest up.
	for _, m := range []struct {
		mode  string
		table [4][4]uint64
	}{
		{"f4e", [4][4]uint64{{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}}},
		{"b4e", [4][4]uint64{{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}}},
		{"rc8", [4][4]uint64{{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}},
		{"ecl", [4][4]uint64{{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}}},
		{"ecr", [4][4]uint64{{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}}},
		{"rc16", [4][4]uint64{{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}}},
	} {
		s.plain(plain{form: "prmt.b32." + m.mode, dst: "b32", src: repeat("b32", 3), vectors: v, eval: func(a []uint64) (r uint64) {
			for i, n := range m.table[a[2]&3] {
				r |= byteOf(a, n) << (8 * i)
			}
			return r
		}})
	}
}

// choices are setp and selp (PTX ISA 9.7.6).
func choices() *set {
	s := &set{}
	compare := func(op string, k kind, holds func(a []uint64) bool) {
		form := "setp." + op + "." + string(k)
		v := vectors(form, count, k, k)
		for i := 0; i < len(v); i += 5 {
			v[i][1] = v[i][0]
		}
		s.plain(plain{form: form, dst: "pred", src: repeat(k, 2), vectors: v, eval: func(a []uint64) uint64 {
			if holds(a) {
				return 1
			}
			return 0
		}})
	}
	order := map[string]func(c int) bool{
		"eq": func(c int) bool { return c == 0 }, "ne": func(c int) bool { return c != 0 }, "lt": func(c int) bool { return c < 0 },
		"le": func(c int) bool { return c <= 0 }, "gt": func(c int) bool { return c > 0 }, "ge": func(c int) bool { return c >= 0 },
	}
	for _, op := range []string{"eq", "ne", "lt", "le", "gt", "ge"} {
		for _, k := range []kind{"s16", "u16", "b32", "s32", "u32", "s64", "u64"} {
			if k[0] == 'b' && op != "eq" && op != "ne" {
				continue
			}
			compare(op, k, func(a []uint64) bool {
				x, y := new(big.Int).SetUint64(a[0]), new(big.Int).SetUint64(a[1])
				if k[0] == 's' {
					x, y = big.NewInt(k.sext(a[0])), big.NewInt(k.sext(a[1]))
				}
				return order[op](x.Cmp(y))
			})
		}
		compare(op, "f32", func(a []uint64) bool {
			return !f32.isNaN(a[0]) && !f32.isNaN(a[1]) && order[op](f32.cmp(a[0], a[1]))
		})
		compare(op+"u", "f32", func(a []uint64) bool {
			return f32.isNaN(a[0]) || f32.isNaN(a[1]) || order[op](f32.cmp(a[0], a[1]))
		})
	}
	compare("num", "f32", func(a []uint64) bool { return !f32.isNaN(a[0]) && !f32.isNaN(a[1]) })
	compare("nan", "f32", func(a []uint64) bool { return f32.isNaN(a[0]) || f32.isNaN(a[1]) })
	for _, k := range []kind{"b32", "b64", "f32", "u16", "u32", "u64", "s32"} {
		form := "selp." + string(k)
		s.plain(plain{form: form, dst: k, src: []kind{k, k, "pred"}, vectors: vectors(form, 24, k, k, "pred"), eval: func(a []uint64) uint64 {
			if a[2] != 0 {
				return a[0]
			}
			return a[1]
		}})
	}
	return s
}
