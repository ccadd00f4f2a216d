package ptx

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// interesting values of 64 bits: numbers at the edges of every type, then noise.
func interesting(n int) []uint64 {
	f := func(x float64) uint64 { return uint64(math.Float32bits(float32(x))) }
	v := []uint64{0, 1, 2, 31, 32, 33, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 63, math.MaxUint64, 0x8000800080008000, 0x7c007c00, 0x7c01fc01, 0x7f807f81, 0x00010001, 0x03ff0400, 0x007f0080,
		f(1), f(-1), f(0.5), f(1.5), f(2.5), f(1e-40), f(-1e-45), f(3e38), f(65519), f(65520), f(6e-8), f(2.9e-8), f(2147483648), f(-2147483649), f(4294967296), f(math.Inf(1)), f(math.Inf(-1)), 0x7fc00001, 0xff800001, f(math.Copysign(0, -1)), 0x33000001, 0x33000000, 0x3f808000, 0x3f818000}
	rng := noise(11)
	for len(v) < n {
		x := uint64(rng.next())<<33 ^ uint64(rng.next())<<2 ^ uint64(rng.next())
		switch rng.next() % 4 {
		case 0:
			x &= 0xff00000000ff
		case 1: // a float32 of a moderate size, in both halves and as halves
			x = x&^0x4000000040000000 | 0x3000000030000000
		}
		v = append(v, x)
	}
	return v
}

// threeOperands is the PTX that applies an opcode to thirds of a row of values.
func threeOperands(op string, dt typ, st []typ, setp bool) string {
	var b strings.Builder
	b.WriteString(".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 y)\n{\n.reg .b16 %h<8>;\n.reg .b32 %r<8>;\n.reg .b64 %d<16>;\n.reg .pred %p<2>;\n" +
		"ld.param.u64 %d1, [x];\nld.param.u64 %d2, [y];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmad.lo.u32 %r1, %r2, 32, %r1;\nmul.wide.u32 %d3, %r1, 24;\nadd.u64 %d1, %d1, %d3;\nmul.wide.u32 %d3, %r1, 8;\nadd.u64 %d2, %d2, %d3;\n")
	args := ""
	for i, t := range st {
		fmt.Fprintf(&b, "ld.global.u64 %%d%d, [%%d1+%d];\n", 4+i, 8*i)
		switch t.size() {
		case 8:
			args += fmt.Sprintf(", %%d%d", 4+i)
		case 4:
			fmt.Fprintf(&b, "cvt.u32.u64 %%r%d, %%d%d;\n", 3+i, 4+i)
			args += fmt.Sprintf(", %%r%d", 3+i)
		default:
			fmt.Fprintf(&b, "cvt.u16.u64 %%h%d, %%d%d;\n", 3+i, 4+i)
			args += fmt.Sprintf(", %%h%d", 3+i)
		}
	}
	switch {
	case setp:
		fmt.Fprintf(&b, "%s %%p1%s;\nselp.u64 %%d8, 1, 0, %%p1;\n", op, args)
	case dt.size() == 8:
		fmt.Fprintf(&b, "%s %%d8%s;\n", op, args)
	case dt.size() == 4:
		fmt.Fprintf(&b, "%s %%r7%s;\ncvt.u64.u32 %%d8, %%r7;\n", op, args)
	default:
		fmt.Fprintf(&b, "%s %%h7%s;\ncvt.u64.u16 %%d8, %%h7;\n", op, args)
	}
	b.WriteString("st.global.u64 [%d2], %d8;\nret;\n}\n")
	return b.String()
}

// shapeOf says which types an opcode of the table quick takes.
func shapeOf(op string) (dt typ, st []typ) {
	parts := strings.Split(op, ".")
	t := typeNames[parts[len(parts)-1]]
	base := parts[0]
	switch {
	case strings.HasPrefix(op, "cvta"):
		return tU64, []typ{tU64}
	case base == "cvt":
		dt = typeNames[parts[len(parts)-2]]
		if dt == tF16x2 || dt == tBF16x2 {
			return dt, []typ{t, t}
		}
		return dt, []typ{t}
	case strings.Contains(op, ".wide."):
		st = []typ{t, t}
		if base == "mad" {
			st = append(st, tU64)
		}
		return tU64, st
	case base == "shl" || base == "shr":
		return t, []typ{t, tU32}
	case base == "bfe":
		return t, []typ{t, tU32, tU32}
	case base == "prmt" || base == "shf" || base == "fma" || base == "mad" || base == "dp4a":
		return t, []typ{t, t, t}
	case arity[base] == 1:
		return t, []typ{t}
	}
	return t, []typ{t, t}
}

// What runs a warp at a time gives what its lane gives.
func TestQuick(t *testing.T) {
	const blocks = 24
	values := interesting(blocks * 32 * 3)
	rng := noise(5)
	for i := len(values) - 1; i > 0; i-- {
		j := int(rng.next()) % (i + 1)
		values[i], values[j] = values[j], values[i]
	}
	try := func(op, text string) []uint64 {
		mod, err := Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		b := load(t, mod, Options{Checks: true, Memory: 1 << 20})
		out := b.room(8 * blocks * 32)
		b.clean("k", Dim{X: blocks}, Dim{X: 32}, 0, b.put(values), out)
		got := make([]uint64, blocks*32)
		b.get(out, got)
		return got
	}
	both := func(op, text string) {
		fast := try(op, text)
		slowOnly = true
		slow := try(op, text)
		slowOnly = false
		for i := range fast {
			if fast[i] != slow[i] {
				t.Errorf("%s of %#x: %#x a warp at a time, %#x a lane at a time", op, values[3*i:3*i+3], fast[i], slow[i])
				break
			}
		}
	}
	for op := range quick {
		dt, st := shapeOf(op)
		both(op, threeOperands(op, dt, st, false))
	}
	for name := range quickSetp {
		ty := typeNames[name[strings.IndexByte(name, '.')+1:]]
		both("setp."+name, threeOperands("setp."+name, tPred, []typ{ty, ty}, true))
	}
	for _, table := range []int{0xea, 0xf8, 0x6a, 0x96, 0xfe, 0x80, 0xca, 0x00, 0xff, 0x1b} {
		text := threeOperands("lop3.b32", tB32, slices.Repeat([]typ{tB32}, 3), false)
		both(fmt.Sprintf("lop3 %#x", table), strings.Replace(text, ", %r5;\ncvt.u64.u32 %d8", fmt.Sprintf(", %%r5, %d;\ncvt.u64.u32 %%d8", table), 1))
	}
}

// The sums of mma are the same with and without AVX, in every form.
func TestMmaForms(t *testing.T) {
	for _, f := range []struct {
		op         string
		nc, na, nb int
	}{
		{"m16n8k16.row.col.f32.bf16.bf16.f32", 4, 4, 2}, {"m16n8k16.row.col.f32.f16.f16.f32", 4, 4, 2}, {"m16n8k16.row.col.f16.f16.f16.f16", 2, 4, 2},
		{"m16n8k8.row.col.f32.bf16.bf16.f32", 4, 2, 1}, {"m16n8k8.row.col.f32.f16.f16.f32", 4, 2, 1}, {"m16n8k8.row.col.f32.tf32.tf32.f32", 4, 4, 2}, {"m16n8k4.row.col.f32.tf32.tf32.f32", 4, 2, 1},
		{"m16n8k32.row.col.s32.s8.s8.s32", 4, 4, 2}, {"m16n8k32.row.col.s32.u8.s8.s32", 4, 4, 2}, {"m16n8k16.row.col.satfinite.s32.s8.u8.s32", 4, 2, 1},
	} {
		regs := func(from, n int) string {
			var s []string
			for i := range n {
				s = append(s, fmt.Sprintf("%%r%d", from+i))
			}
			return "{" + strings.Join(s, ",") + "}"
		}
		body := ""
		for i := range f.na + f.nb + f.nc {
			body += fmt.Sprintf("ld.global.u32 %%r%d, [%%rd2+%d];\n", 4+i, 128*i)
		}
		body += fmt.Sprintf("mma.sync.aligned.%s %s, %s, %s, %s;\n", f.op, regs(4+f.na+f.nb, f.nc), regs(4, f.na), regs(4+f.na, f.nb), regs(4+f.na+f.nb, f.nc))
		for i := range f.nc {
			body += fmt.Sprintf("st.global.u32 [%%rd2+%d], %%r%d;\n", 128*i, 4+f.na+f.nb+i)
		}
		words := make([]uint32, 32*(f.na+f.nb+f.nc))
		rng := noise(9)
		for i := range words {
			words[i] = rng.next() ^ rng.next()<<7
			if !strings.Contains(f.op, "s32") { // moderate numbers
				words[i] = words[i]&0x8fff8fff | 0x30003000
			}
		}
		r, fast, err := run(t, body, words, watched)
		if err != nil || len(r.Findings) > 0 || r.Counts.MMA != 1 {
			t.Fatalf("%s: %v %v", f.op, r.Findings, err)
		}
		slowOnly = true
		_, slow, _ := run(t, body, words, watched)
		slowOnly = false
		if !slices.Equal(fast, slow) || slices.Equal(fast[:64], words[:64]) {
			t.Errorf("%s: AVX and plain sums differ, or there is none", f.op)
		}
	}
}
