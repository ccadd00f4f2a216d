// Command asm generates the amd64 kernels of package cpu with avo: AVX2's or, by the
// environment variable ISA, those of another set. Run it through go generate in the
// package above. The float32 operations of every kernel are
// those of its portable twin, in the same order and fused where that fuses, so that
// the two give the same bits.
package main

import (
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	switch os.Getenv("ISA") {
	case "vnni":
		ConstraintExpr("amd64,!purego")
		vnni, prefix, pairCols = true, "vnni", 8
		integers()
		peakInts()
	case "avxvnni":
		ConstraintExpr("amd64,!purego")
		vnni, narrow, prefix = true, true, "avxvnni"
		integers()
		peakInts()
	case "bf16":
		ConstraintExpr("amd64,!purego")
		for cols := 1; cols <= bf16Cols; cols++ {
			matBF16(cols)
		}
		roundBF16()
	case "avx512":
		ConstraintExpr("amd64,!purego")
		for _, t := range floatTypes {
			for cols := 1; cols <= fmatCols512; cols++ {
				fmat512(t, cols)
			}
		}
		softmax512()
		gated512("siluMul", false)
		gated512("geluMul", true)
		powers512()
		quantize512()
		scaleMul512()
		add512()
		half512()
		for _, t := range floatTypes {
			widen512(t)
		}
	case "vnniemu":
		ConstraintExpr("amd64,!purego,vnniemu")
		vnni, narrow, emulated, prefix = true, true, true, "emu"
		integers()
	default:
		ConstraintExpr("amd64,!purego")
		integers()
		others()
	}
	Generate()
	encodeFile()
}

// Which instructions the integer kernels use. With vnni, VPDPBUSD: of AVX-512
// (256-bit forms, in tiles 512) and up to 32 registers, or, narrow, of AVX-VNNI, 256
// bits and 16 registers; emulated is the latter with AVX2 instructions in its place,
// so that the rest can be tested without either.
var (
	vnni, narrow, emulated bool
	prefix                 string // of function names
	pairCols               = 0    // the widest kernel for pairs of panels, of which maxCols is the narrowest
)

// integers generates the kernels for quantized matrices, and a table of them.
func integers() {
	writeTable()
	for _, s := range specs {
		s = s.forISA()
		for cols := 1; cols <= maxCols; cols++ {
			if s.values == 32 {
				mat32(s, cols)
			} else {
				mat256(s, cols)
			}
		}
	}
	for _, s := range specs {
		for cols := maxCols; cols <= pairCols; cols++ {
			matPair(s.forISA(), cols)
		}
	}
	for _, s := range specs {
		s = s.forISA()
		if vnni {
			expandWide(s)
			for pairs := 1; pairs <= 2; pairs++ {
				most := s.tileCols(pairs)
				for cols := (most + 1) / 2; cols > 0 && cols <= most; cols++ {
					tileVNNI(s, pairs, cols)
				}
			}
			continue
		}
		if !s.asStored() {
			expand(s)
		}
		for cols := 2; cols <= 3; cols++ {
			tileMat(s, cols)
		}
	}
}

// others generates everything else.
func others() {
	for _, s := range specs {
		floats(s)
	}
	for _, t := range floatTypes {
		for cols := 1; cols <= maxCols; cols++ {
			fmat(t, cols, false)
			fmat(t, cols, true)
		}
		widen(t)
	}
	quantize32()
	softmax()
	sumSquares()
	largest()
	powers()
	scaleMul()
	addTo()
	gated("siluMul", false)
	gated("geluMul", true)
	half()
	peakInts()
	readBytes()
	pause()
	for cols := 1; cols <= maxCols; cols++ {
		fmatFlush(cols)
	}
	roundFloats()
}

const (
	maxCols   = 4
	panelRows = 8
)

// spec repeats panelSpec of the package above: what a panel block looks like.
type spec struct {
	name      string
	values    int
	low, high int
	min       bool
	sub       int
	nibble    bool
	offset    int // a power of two
	signed    bool
	biased    bool // signed levels plus 128
	table     bool // low bits index IQ4_NL's levels
	signedSc  bool
}

var specs = []spec{
	{name: "Q4_0", values: 32, low: 4, offset: 8},
	{name: "Q4_1", values: 32, low: 4, min: true},
	{name: "Q5_0", values: 32, low: 4, high: 1, offset: 16},
	{name: "Q5_1", values: 32, low: 4, high: 1, min: true},
	{name: "Q8_0", values: 32, low: 8, signed: true},
	{name: "IQ4_NL", values: 32, low: 4, signed: true, table: true},
	{name: "Q2_K", values: 256, low: 2, min: true, sub: 16, nibble: true},
	{name: "Q3_K", values: 256, low: 2, high: 1, sub: 16, offset: 4, signedSc: true},
	{name: "Q4_K", values: 256, low: 4, min: true, sub: 32},
	{name: "Q5_K", values: 256, low: 4, high: 1, min: true, sub: 32},
	{name: "Q6_K", values: 256, low: 4, high: 2, sub: 16, offset: 32, signedSc: true},
}

// forISA makes signed levels unsigned where the instruction takes those.
func (s spec) forISA() spec {
	if vnni && s.signed {
		s.signed, s.biased, s.offset = false, true, 128
	}
	return s
}

func (s spec) scAt() int {
	if s.min {
		return 4 * panelRows
	}
	return 2 * panelRows
}

func (s spec) scaleBytes() int {
	if s.sub == 0 {
		return 0
	}
	return s.values / s.sub * panelRows
}
func (s spec) mnAt() int { return s.scAt() + s.scaleBytes() }
func (s spec) groupAt() int {
	if s.sub > 0 && s.min && !s.nibble {
		return s.mnAt() + s.scaleBytes()
	}
	return s.mnAt()
}
func (s spec) highBytes() int  { return 4 * panelRows * s.high }
func (s spec) groupBytes() int { return 4 * panelRows * (s.high + s.low) }
func (s spec) blockBytes() int { return s.groupAt() + s.values/32*s.groupBytes() }

// quadAt tells in which vector of a field of that many bits quad j is, and at
// which bit.
func quadAt(bits, j int) (vec, shift int) {
	switch bits {
	case 8:
		return j, 0
	case 4:
		return j % 4, j / 4 * 4
	case 2:
		return j / 4, j % 4 * 2
	}
	return 0, j
}

// adds is how many products of pairs may be summed in 16 bits.
func (s spec) adds() int {
	top := 1<<(s.low+s.high) - 1
	n := 1
	for n < 8 && 2*n*top*127*2 <= 32767 {
		n *= 2
	}
	return n
}

var consts = map[string]Mem{}

// bytes32 is a constant vector that repeats the given pattern.
func bytes32(name string, pattern ...byte) Mem {
	if m, ok := consts[name]; ok {
		return m
	}
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 32 {
		DATA(i, U8(pattern[i%len(pattern)]))
	}
	consts[name] = m
	return m
}

// floats is a constant vector of one float32, given by its bits.
func words(name string, bits uint32) Mem {
	return bytes32(name, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
}

func dupLow() Mem {
	return bytes32("dupLow", 0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13)
}

func dupHigh() Mem {
	return bytes32("dupHigh", 2, 3, 2, 3, 6, 7, 6, 7, 10, 11, 10, 11, 14, 15, 14, 15)
}

func ones16() Mem { return bytes32("ones16", 1, 0) }

// columns addresses up to eight rows of activations or results, by a pointer for
// every three.
type columns struct {
	base, ld, third, sixth reg.GPVirtual
}

func newColumns(cols int, base, ld reg.GPVirtual) columns {
	c := columns{base: base, ld: ld}
	if cols > 3 {
		c.third = GP64()
		LEAQ(Mem{Base: base, Index: ld, Scale: 2}, c.third)
		ADDQ(ld, c.third)
	}
	if cols > 6 {
		c.sixth = GP64()
		LEAQ(Mem{Base: c.third, Index: ld, Scale: 2}, c.sixth)
		ADDQ(ld, c.sixth)
	}
	return c
}

func (c columns) at(col, disp int) Mem {
	m := Mem{Base: [...]reg.GPVirtual{c.base, c.third, c.sixth}[col/3], Disp: disp}
	if col%3 > 0 {
		m.Index, m.Scale = c.ld, uint8(col%3)
	}
	return m
}

func (c columns) advance(n int) {
	for _, p := range []reg.GPVirtual{c.base, c.third, c.sixth} {
		if p != nil {
			ADDQ(bytes(n), p)
		}
	}
}

// output stores one vector for every column.
func output(dst, ldd reg.GPVirtual, v []reg.VecVirtual) {
	p := GP64()
	MOVQ(dst, p)
	for i, x := range v {
		if i > 0 {
			ADDQ(ldd, p)
		}
		VMOVUPS(x, Mem{Base: p})
	}
}

func ymms(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = YMM()
	}
	return v
}

func label(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// bytes is an immediate number of bytes.
func bytes(n int) Constant {
	if n < 128 {
		return U8(n)
	}
	return U32(n)
}
