package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Kernels of AVX512_BF16: see bf16Kernels in the package above.

// bf16Cols is the most columns of a tile.
const bf16Cols = 16

// dotBF16 adds the products of the dword at x and of each of w to the lanes of acc,
// first of the high halves. The Go assembler does not know it: see encode.go.
func dotBF16(x Mem, w, acc reg.VecVirtual) {
	Instruction(&ir.Instruction{
		Opcode: "VDPBF16PS", Suffixes: []string{"BCST"}, Operands: []Op{x, w, acc},
		Inputs: []Op{x, w, acc}, Outputs: []Op{acc}, ISA: []string{"AVX512F", "AVX512_BF16"},
	})
}

// toBF16 rounds sixteen float32 to bf16.
func toBF16(x, dst reg.VecVirtual) {
	Instruction(&ir.Instruction{
		Opcode: "VCVTNEPS2BF16", Operands: []Op{x, dst},
		Inputs: []Op{x}, Outputs: []Op{dst}, ISA: []string{"AVX512F", "AVX512_BF16"},
	})
}

func zmms(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = ZMM()
	}
	return v
}

// bf16Matrix multiplies pairs of panels by cols columns, as many at once as it takes
// for enough independent sums.
type bf16Matrix struct {
	cols                       int
	dst, ldd, w, stride, ahead reg.GPVirtual
}

// wide lists how many pairs of panels are worked on at once.
func (m *bf16Matrix) wide() []int {
	switch {
	case m.cols <= 2:
		return []int{4, 2, 1}
	case m.cols <= 12:
		return []int{2, 1}
	}
	return []int{1}
}

func matBF16(cols int) {
	TEXT(label("bf16matx%d", cols), NOSPLIT, "func(dst *float32, ldd int, w *byte, stride int, x *byte, ldx, k, count, ahead int)")
	Pragma("noescape")
	get := func(n string) reg.GPVirtual { r := GP64(); Load(Param(n), r); return r }
	m := &bf16Matrix{cols: cols, dst: get("dst"), ldd: get("ldd"), w: get("w"), stride: get("stride"), ahead: get("ahead")}
	count := get("count")
	SHLQ(Imm(1), m.stride)
	for _, n := range m.wide() {
		tag := label("by%d", n)
		Label(tag)
		if n == 1 {
			TESTQ(count, count)
			JLE(LabelRef("done"))
			m.panels(tag, 1, pairRows(count))
		} else {
			CMPQ(count, Imm(uint64(2*n)))
			JL(LabelRef(tag + "end"))
			m.panels(tag, n, nil)
		}
		SUBQ(Imm(uint64(2*n)), count)
		JMP(LabelRef(tag))
		Label(tag + "end")
	}
	Label("done")
	VZEROUPPER()
	RET()
}

// pairRows is the mask of a pair's rows: of one panel if there is no second.
func pairRows(count reg.GPVirtual) reg.OpmaskVirtual {
	bits, one, k := GP32(), GP32(), K()
	MOVL(U32(0xffff), bits)
	MOVL(U32(0xff), one)
	CMPQ(count, Imm(1))
	CMOVLEQ(one, bits)
	KMOVW(bits, k)
	return k
}

// panels does n pairs of panels and advances dst and w past them.
func (m *bf16Matrix) panels(tag string, n int, mask reg.OpmaskVirtual) {
	acc := make([][]reg.VecVirtual, n)
	for p := range acc {
		acc[p] = zmms(m.cols)
		for _, v := range acc[p] {
			clearZ(v)
		}
	}
	ldx, left := GP64(), GP64()
	Load(Param("ldx"), ldx)
	Load(Param("k"), left)
	x := newLongColumns(m.cols, "x", ldx)
	ptr := make([]reg.GPVirtual, n)
	for p := range ptr {
		ptr[p] = GP64()
		if p == 0 {
			MOVQ(m.w, ptr[p])
		} else {
			LEAQ(Mem{Base: ptr[p-1], Index: m.stride, Scale: 1}, ptr[p])
		}
	}
	LEAQ(Mem{Base: ptr[n-1], Index: m.stride, Scale: 1}, m.w)
	const unroll = 4 // pairs of columns
	Label(tag + "loop")
	for i := range unroll {
		for p := range ptr {
			PREFETCHT0(Mem{Base: ptr[p], Index: m.ahead, Scale: 1, Disp: 64 * i})
		}
		m.pair(acc, ptr, x, i)
	}
	for _, p := range ptr {
		ADDQ(bytes(64*unroll), p)
	}
	x.advance(4 * unroll)
	SUBQ(Imm(2*unroll), left)
	JNZ(LabelRef(tag + "loop"))
	out := GP64()
	MOVQ(m.dst, out)
	for c := range m.cols {
		if c > 0 {
			ADDQ(m.ldd, out)
		}
		for p := range acc {
			to := Mem{Base: out, Disp: 64 * p}
			if mask != nil {
				VMOVUPS(acc[p][c], mask, to)
			} else {
				VMOVUPS(acc[p][c], to)
			}
		}
	}
	ADDQ(bytes(64*n), m.dst)
}

// pair multiplies columns 2i and 2i+1 from the pointers on.
func (m *bf16Matrix) pair(acc [][]reg.VecVirtual, ptr []reg.GPVirtual, x longColumns, i int) {
	w := zmms(len(ptr))
	for p := range ptr {
		VMOVDQU32(Mem{Base: ptr[p], Disp: 64 * i}, w[p])
	}
	for c := range m.cols {
		for p := range ptr {
			dotBF16(x.at(c, 4*i), w[p], acc[p][c])
		}
	}
}

// clearZ is zero of the whole register.
func clearZ(v reg.VecVirtual) {
	Instruction(&ir.Instruction{
		Opcode: "VPXORD", Operands: []Op{v, v, v}, Inputs: []Op{v, v}, Outputs: []Op{v},
		CancellingInputs: true, ISA: []string{"AVX512F"},
	})
}

// longColumns addresses any number of rows of inputs: three from each pointer.
type longColumns struct {
	base []reg.GPVirtual
	ld   reg.GPVirtual
}

func newLongColumns(cols int, param string, ld reg.GPVirtual) longColumns {
	c := longColumns{ld: ld}
	for i := 0; i < cols; i += 3 {
		p := GP64()
		if i == 0 {
			Load(Param(param), p)
		} else {
			last := c.base[len(c.base)-1]
			LEAQ(Mem{Base: last, Index: ld, Scale: 2}, p)
			ADDQ(ld, p)
		}
		c.base = append(c.base, p)
	}
	return c
}

func (c longColumns) at(col, disp int) Mem {
	m := Mem{Base: c.base[col/3], Disp: disp}
	if col%3 > 0 {
		m.Index, m.Scale = c.ld, uint8(col%3)
	}
	return m
}

func (c longColumns) advance(n int) {
	for _, p := range c.base {
		ADDQ(bytes(n), p)
	}
}

// roundBF16 writes pairs of 16·blocks inputs, the first of each in the high half.
func roundBF16() {
	TEXT("bf16round", NOSPLIT, "func(dst *byte, x *float32, blocks int)")
	Pragma("noescape")
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("blocks"), GP64())
	Label("block")
	v, pairs := ZMM(), YMM()
	VMOVUPS(Mem{Base: x}, v)
	toBF16(v, pairs)
	VPROLD(Imm(16), pairs, pairs)
	VMOVDQU32(pairs, Mem{Base: dst})
	ADDQ(bytes(64), x)
	ADDQ(bytes(32), dst)
	DECQ(n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// fmatFlush is fmat with columns of float32 that hold bf16, a BF16 panel, and results
// below 2⁻¹²⁶ flushed to zero.
func fmatFlush(cols int) {
	fmatIn(floatType{"BF16", 2}, cols, false, true, label("fmatFlushx%d", cols),
		"func(dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int)")
}

// roundFloats rounds 8·vecs float32 to bf16, to nearest even, subnormals to zero.
func roundFloats() {
	TEXT("roundFloatsAVX2", NOSPLIT, "func(dst, x *float32, vecs int)")
	Pragma("noescape")
	none := YMM()
	VPXOR(none, none, none)
	vectors([]string{"dst", "x"}, func(at []Mem) {
		v, odd, tiny, nan := YMM(), YMM(), YMM(), YMM()
		VMOVUPS(at[1], v)
		VPAND(words("exponent", 0x7f800000), v, tiny)
		VPCMPEQD(none, tiny, tiny)
		VCMPPS(Imm(3), v, v, nan) // unordered
		VPSRLD(Imm(16), v, odd)
		VPAND(words("oneInt", 1), odd, odd)
		VPADDD(words("belowHalf", 0x7fff), odd, odd)
		VPADDD(v, odd, odd)
		VPANDN(odd, tiny, odd)
		quiet := YMM()
		VPOR(words("quiet", 0x400000), v, quiet)
		VBLENDVPS(nan, quiet, odd, odd)
		// A subnormal keeps its sign.
		VPAND(words("signBit", 1<<31), v, v)
		VPAND(tiny, v, v)
		VPOR(v, odd, odd)
		VPAND(words("highHalf", 0xffff0000), odd, odd)
		VMOVUPS(odd, at[0])
	})
	VZEROUPPER()
	RET()
}
