package derive

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
)

// matrices are ldmatrix and mma (PTX ISA 9.7.13), with the places of elements in
// lanes as the manual's figures give them.
func matrices() *set {
	s := &set{}
	for _, n := range []int{1, 2, 4} {
		for _, trans := range []bool{false, true} {
			ldmatrix(s, n, trans)
		}
	}
	half := func(f format, name string) {
		multiply(s, "mma.sync.aligned.m16n8k16.row.col.f32."+name+"."+name+".f32", 16, 16, f)
		multiply(s, "mma.sync.aligned.m16n8k8.row.col.f32."+name+"."+name+".f32", 8, 16, f)
	}
	half(f16, "f16")
	// Subnormal elements count (9.7.13: subnormals of .f16 are supported).
	scaled(s, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 16, f16, -24)
	half(bf16, "bf16")
	multiply(s, "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", 16, 8, format{})
	multiply(s, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 32, 8, format{})
	return s
}

// ldmatrix: lane 8m+r gives the address of row r of matrix m; lane l gets from each
// matrix the elements 2(l%4) and 2(l%4)+1 of row l/4, or of that column.
func ldmatrix(s *set, n int, trans bool) {
	form := fmt.Sprintf("ldmatrix.sync.aligned.m8n8.x%d", n)
	if trans {
		form += ".trans"
	}
	form += ".shared.b16"
	in := rows(form, 32, 2)
	place := func(i int) int { return (5*i + 3) % 32 } // rows lie in any order
	element := func(m, row, col int) uint64 { return in[place(8*m+row)][col/4] >> (16 * (col % 4)) & 0xffff }
	var out [][]uint64
	for l := range 32 {
		var slots []uint64
		for m := range n {
			a, b := element(m, l/4, 2*(l%4)), element(m, l/4, 2*(l%4)+1)
			if trans {
				a, b = element(m, 2*(l%4), l/4), element(m, 2*(l%4)+1, l/4)
			}
			slots = append(slots, b<<16|a)
		}
		out = append(out, slots)
	}
	var regs, stores []string
	for i := range n {
		regs = append(regs, fmt.Sprintf("%%r%d", i))
		stores = append(stores, kind("b32").store(i, i)...)
	}
	body := append(append([]string{}, sharedBegin...), "ld.global.b64 %d10, [%src];", "ld.global.b64 %d11, [%src+8];", "st.shared.b64 [%r20], %d10;", "st.shared.b64 [%r20+8], %d11;", "bar.sync 0;",
		"mov.u32 %r22, memory;", "mad.lo.u32 %r23, %t, 5, 3;", "and.b32 %r23, %r23, 31;", "mad.lo.u32 %r22, %r23, 16, %r22;",
		form+" {"+strings.Join(regs, ", ")+"}, [%r22];")
	s.custom(form, []string{form}, 80, nil, sharedLocals, append(body, stores...), in, out, "bits")
}

// multiply makes D = A·B + C of 16×k by k×8. Elements are of 16 or 8 bits, 32/bits
// to a register. Their values are such that every sum is exact in float32, whatever
// its order.
func multiply(s *set, form string, k, width int, f format) { scaled(s, form, k, width, f, -2) }

// scaled is multiply with elements of A that are multiples of 2^unit, of B that are
// quarters and of C that are multiples of 2^(unit-2).
func scaled(s *set, form string, k, width int, f format, unit int) {
	rng := random(fmt.Sprint(form, unit))
	a, b, c := fillMatrix(rng, 16, k, width), fillMatrix(rng, k, 8, width), fillMatrix(rng, 16, 8, 32)
	encode := func(v int64, unit int) uint64 {
		if width == 8 {
			return uint64(v) & 0xff
		}
		return f.round(new(big.Float).SetMantExp(new(big.Float).SetInt64(v), unit), rn, false)
	}
	// C is in the unit of the products, as is the result.
	result := func(v int64) uint64 {
		if width == 8 {
			return uint64(uint32(v))
		}
		return f32.round(new(big.Float).SetMantExp(new(big.Float).SetInt64(v), unit-2), rn, false)
	}
	per := 32 / width
	var in, out [][]uint64
	var na, nb int
	for l := range 32 {
		group, inGroup := l/4, l%4
		var row []uint64
		regs := func(n, unit int, at func(i int) int64) (count int) {
			for r := 0; r < n; r += per {
				var v uint64
				for j := range per {
					v |= encode(at(r+j), unit) << (width * j)
				}
				row = append(row, v)
				count++
			}
			return count
		}
		// Registers run over the two halves of the rows, then over the halves of k; a
		// register holds neighbours along k (9.7.13.4.7 to 9.7.13.4.10).
		span := 4 * per // of k that one register of all lanes covers
		na = regs(16*k/32, unit, func(i int) int64 {
			r := i / per
			return a[group+8*(r%2)][inGroup*per+i%per+span*(r/2)]
		})
		nb = regs(8*k/32, -2, func(i int) int64 { return b[inGroup*per+i%per+span*(i/per)][group] })
		var d []uint64
		for i := range 4 {
			r, n := group+8*(i/2), 2*inGroup+i%2
			row = append(row, result(c[r][n]))
			sum := c[r][n]
			for j := range k {
				sum += a[r][j] * b[j][n]
			}
			d = append(d, result(sum))
		}
		in, out = append(in, row), append(out, d)
	}
	list := func(from, n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("%%r%d", from+i))
		}
		return "{" + strings.Join(names, ", ") + "}"
	}
	var body []string
	for i := range in[0] {
		body = append(body, kind("b32").load(i, i)...)
	}
	body = append(body, fmt.Sprintf("%s %s, %s, %s, %s;", form, list(20, 4), list(0, na), list(na, nb), list(na+nb, 4)))
	for i := range 4 {
		body = append(body, fmt.Sprintf("st.global.b32 [%%dst+%d], %%r%d;", 8*i, 20+i))
	}
	typ := "bits"
	if width == 16 {
		typ = "f32"
	}
	name := form
	if unit != -2 {
		name += " of small numbers"
	}
	s.custom(name, []string{form}, 80, nil, nil, body, in, out, typ)
}

// fillMatrix draws whole numbers: any of 8 bits, for 16 bits small ones, for 32
// bits what fits beside the products.
func fillMatrix(rng *rand.Rand, rows, cols, width int) [][]int64 {
	m := make([][]int64, rows)
	for r := range m {
		for range cols {
			v := rng.Int64N(256) - 128
			if width == 32 {
				v = rng.Int64N(1<<18) - 1<<17
			}
			m[r] = append(m[r], v)
		}
	}
	return m
}
