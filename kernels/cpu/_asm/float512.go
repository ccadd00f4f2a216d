package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fmatCols512 is the most columns of fmat512.
const fmatCols512 = 12

// floatPairs is fmat and fmatAcc with AVX-512: a register holds eight rows of each of two
// panels.
type floatPairs struct {
	t                            floatType
	cols                         int
	dst, w, stride, ahead, count reg.GPVirtual
	aheadOdd                     reg.GPVirtual     // what is fetched of the second panel
	high                         reg.OpmaskVirtual // the lanes of the second panel
	order                        reg.VecVirtual    // of the bytes of a BF16 column
}

// fmat512 is fmat where alpha is nil, else fmatAcc.
func fmat512(t floatType, cols int) {
	TEXT(label("fmat512%sx%d", t.name, cols), NOSPLIT, "func(dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int, alpha *float32)")
	Pragma("noescape")
	get := func(n string) reg.GPVirtual { r := GP64(); Load(Param(n), r); return r }
	m := &floatPairs{t: t, cols: cols, dst: get("dst"), w: get("w"), stride: get("stride"), ahead: get("ahead"), count: get("count"), aheadOdd: GP64()}
	LEAQ(Mem{Base: m.ahead, Index: m.stride, Scale: 1}, m.aheadOdd)
	m.prepare()
	for _, n := range m.wide() {
		tag := label("by%d", n)
		Label(tag)
		if n == 1 {
			TESTQ(m.count, m.count)
			JLE(LabelRef("done"))
			rows := pairRows(m.count)
			none := GP64() // the second panel is the first, if there is only one
			XORQ(none, none)
			CMPQ(m.count, Imm(1))
			CMOVQEQ(none, m.stride)
			m.panels(tag, 1, rows)
		} else {
			CMPQ(m.count, Imm(uint64(2*n)))
			JL(LabelRef(tag + "end"))
			m.panels(tag, n, nil)
		}
		SUBQ(Imm(uint64(2*n)), m.count)
		JMP(LabelRef(tag))
		Label(tag + "end")
	}
	Label("done")
	VZEROUPPER()
	RET()
}

// wide lists how many pairs of panels are worked on at once.
func (m *floatPairs) wide() []int {
	if m.cols <= 6 {
		return []int{4, 2, 1}
	}
	return []int{2, 1}
}

// prepare sets what load takes.
func (m *floatPairs) prepare() {
	if m.t.name != "BF16" {
		return
	}
	bits := GP32()
	m.high, m.order = K(), ZMM()
	MOVL(U32(0xff00), bits)
	KMOVW(bits, m.high)
	VBROADCASTI64X4(bytes32("highHalves", 0x80, 0x80, 0, 1, 0x80, 0x80, 2, 3, 0x80, 0x80, 4, 5, 0x80, 0x80, 6, 7,
		0x80, 0x80, 8, 9, 0x80, 0x80, 10, 11, 0x80, 0x80, 12, 13, 0x80, 0x80, 14, 15), m.order)
}

// load reads column i of the panels at p and stride bytes after it.
func (m *floatPairs) load(p reg.GPVirtual, i int, dst reg.VecVirtual) {
	even := Mem{Base: p, Disp: panelRows * m.t.size * i}
	odd := Mem{Base: p, Index: m.stride, Scale: 1, Disp: even.Disp}
	switch m.t.name {
	case "F16":
		h := YMM()
		loadPart("VMOVDQU32", even, h.AsX(), h)
		VINSERTI32X4(Imm(1), odd, h, h)
		VCVTPH2PS(h, dst)
	case "BF16":
		VBROADCASTI32X4(even, dst)
		VBROADCASTI32X4(odd, m.high, dst)
		VPSHUFB(m.order, dst, dst)
	default:
		loadPart("VMOVUPS", even, dst.AsY(), dst)
		VINSERTF32X8(Imm(1), odd, dst, dst)
	}
}

// loadPart is an instruction that writes a part of a register and clears the rest.
func loadPart(opcode string, m Mem, dst Op, whole reg.VecVirtual) {
	Instruction(&ir.Instruction{Opcode: opcode, Operands: []Op{m, dst}, Inputs: []Op{m}, Outputs: []Op{whole}, ISA: []string{"AVX512F"}})
}

// panels does n pairs of panels and advances dst and w past them.
func (m *floatPairs) panels(tag string, n int, rows reg.OpmaskVirtual) {
	acc := make([][]reg.VecVirtual, n)
	for p := range acc {
		acc[p] = zmms(m.cols)
	}
	m.start(tag, acc, rows)
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
			LEAQ(Mem{Base: ptr[p-1], Index: m.stride, Scale: 2}, ptr[p])
		}
	}
	LEAQ(Mem{Base: ptr[n-1], Index: m.stride, Scale: 2}, m.w)
	unroll := 64 / (panelRows * m.t.size) // a cache line of each panel
	next := func(n int) {
		for _, p := range ptr {
			ADDQ(bytes(panelRows*m.t.size*n), p)
		}
		x.advance(4 * n)
	}
	Label(tag + "some")
	CMPQ(left, Imm(uint64(unroll)))
	JL(LabelRef(tag + "one"))
	for _, p := range ptr {
		PREFETCHT0(Mem{Base: p, Index: m.ahead, Scale: 1})
		PREFETCHT0(Mem{Base: p, Index: m.aheadOdd, Scale: 1})
	}
	for i := range unroll {
		m.column(acc, ptr, x, i)
	}
	next(unroll)
	SUBQ(Imm(uint64(unroll)), left)
	JMP(LabelRef(tag + "some"))
	Label(tag + "one")
	TESTQ(left, left)
	JZ(LabelRef(tag + "out"))
	m.column(acc, ptr, x, 0)
	next(1)
	DECQ(left)
	JMP(LabelRef(tag + "one"))
	Label(tag + "out")
	m.sums(acc, func(c int, sum reg.VecVirtual, at Mem) {
		if rows != nil {
			VMOVUPS(sum, rows, at)
		} else {
			VMOVUPS(sum, at)
		}
	})
	ADDQ(bytes(64*n), m.dst)
}

// sums walks the sums and where they are to be, column by column.
func (m *floatPairs) sums(acc [][]reg.VecVirtual, do func(c int, sum reg.VecVirtual, at Mem)) {
	ldd, p := GP64(), GP64()
	Load(Param("ldd"), ldd)
	MOVQ(m.dst, p)
	for c := range m.cols {
		if c > 0 {
			ADDQ(ldd, p)
		}
		for i := range acc {
			do(c, acc[i][c], Mem{Base: p, Disp: 64 * i})
		}
	}
}

// start sets the sums to 0 or dst·alpha.
func (m *floatPairs) start(tag string, acc [][]reg.VecVirtual, rows reg.OpmaskVirtual) {
	alpha, al := GP64(), ZMM()
	for p := range acc {
		for _, v := range acc[p] {
			clearZ(v)
		}
	}
	Load(Param("alpha"), alpha)
	TESTQ(alpha, alpha)
	JZ(LabelRef(tag + "zero"))
	m.sums(acc, func(c int, sum reg.VecVirtual, at Mem) {
		if sum == acc[0][c] {
			VBROADCASTSS(Mem{Base: alpha, Disp: 4 * c}, al)
		}
		if rows != nil {
			VMULPS_Z(at, al, rows, sum)
		} else {
			VMULPS(at, al, sum)
		}
	})
	Label(tag + "zero")
}

// column multiplies column i from the pointers on.
func (m *floatPairs) column(acc [][]reg.VecVirtual, ptr []reg.GPVirtual, x longColumns, i int) {
	w := zmms(len(ptr))
	for p := range ptr {
		m.load(ptr[p], i, w[p])
	}
	for c := range m.cols {
		if len(ptr) == 1 {
			VFMADD231PS_BCST(x.at(c, 4*i), w[0], acc[0][c])
			continue
		}
		b := ZMM()
		VBROADCASTSS(x.at(c, 4*i), b)
		for p := range ptr {
			VFMADD231PS(b, w[p], acc[p][c])
		}
	}
}
