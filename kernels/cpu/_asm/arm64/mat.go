package main

import "fmt"

// The general registers of mat. Those of columns follow each other.
const (
	rDst, rLdd, rW, rAct, rLda, rBlocks, rCount r = 0, 1, 2, 3, 4, 5, 6

	rLeft   r = 7
	rRounds r = 8
	rX      r = 9 // … 12: activations of each column
	rGroup  r = 13
	rScales r = 14
	rConst  r = 15
	rOut    r = 19 // … 22: results of each column
)

// The vector registers of mat. A kernel does four rows of a panel at a time, the
// half of them, so that four columns fit.
const (
	vX      v = 0  // … 3: activations of each column, then the block's tail
	vAcc    v = 4  // … 11: results, half 0 then half 1 (blocks of 32)
	vSum    v = 4  // … 7: float sums of a block of 256
	vMin    v = 8  // … 11: those of its minima
	vOffset v = 8  // the offset as bytes, where there are none
	vDot    v = 12 // … 15: integer sums; without SDOT 12 … 19, pairs of lanes to be added
	vScaled v = 20 // … 23: those of halves, scaled
	vTaken  v = 20 // an eighth of the offset of blocks of 32, as int32
	vQ      v = 24 // 24, 25: levels; scales
	vTemp   v = 26
	vLow    v = 27 // what is loaded of low and high bits, with SDOT
	vHigh   v = 28
	vA      v = 27 // 27, 28: a quad of activations, without
	vProd   v = 29
	vMask   v = 30
	vAbove  v = 31 // mask of the high bits
	vTable  v = 31
)

// matrix generates one kernel.
type matrix struct {
	*function
	spec
	cols   int
	half   int       // of the panel's rows
	loaded map[v]int // what vLow and vHigh hold: offsets from rGroup
}

// table is IQ4_NL's levels.
func (f *file) table() {
	levels := [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	fmt.Fprintln(&f.asm)
	for i, l := range levels {
		fmt.Fprintf(&f.asm, "DATA iq4nl<>+%d(SB)/1, $0x%02x\n", i, uint8(l))
	}
	fmt.Fprintln(&f.asm, "GLOBL iq4nl<>(SB), RODATA|NOPTR, $16")
}

// mat generates the kernel of one type for a number of columns.
func (f *file) mat(s spec, cols int) {
	name := fmt.Sprintf("mat%sx%d%s", s.name, cols, f.suffix)
	m := &matrix{spec: s, cols: cols}
	m.function = f.begin(name, "dst *float32, ldd int, w, act *byte, lda, blocks, count int", []param{
		{"dst", rDst}, {"ldd", rLdd}, {"w", rW}, {"act", rAct}, {"lda", rLda}, {"blocks", rBlocks}, {"count", rCount}})
	m.constants()
	m.label("panel")
	m.columns(rX, rAct, rLda)
	m.columns(rOut, rDst, rLdd)
	m.clear()
	m.op("MOVD R%d, R%d", rBlocks, rLeft)
	m.label("block")
	for m.half = range 2 {
		if s.values == 32 {
			m.block32()
		} else {
			m.block256()
		}
	}
	m.move(rW, s.blockBytes())
	if s.values == 32 {
		m.advance(act32Bytes)
	}
	m.op("SUBS $1, R%d", rLeft)
	m.op("BNE block")
	if s.values == 32 {
		for c := range cols {
			m.strQ(m.acc(c, 0), rOut+r(c), 0)
			m.strQ(m.acc(c, 1), rOut+r(c), 16)
		}
	}
	m.move(rDst, vecBytes)
	m.op("SUBS $1, R%d", rCount)
	m.op("BNE panel")
	m.op("RET")
}

// constants loads what all blocks need.
func (m *matrix) constants() {
	if m.low < 8 {
		m.moviB(vMask, 1<<m.low-1)
	}
	if m.high > 0 {
		m.moviB(vAbove, (1<<m.high-1)<<m.low)
	}
	if m.table {
		m.op("MOVD $iq4nl<>(SB), R%d", rConst)
		m.ldrQ(vTable, rConst, 0)
	}
	switch {
	case m.offset > 0 && m.sub > 0:
		m.moviB(vOffset, byte(m.offset))
	case m.offset > 0:
		m.moviS(vTaken, byte(m.offset/8))
	}
}

// columns points first and those after it to rows of a matrix.
func (m *matrix) columns(first, base, ld r) {
	m.op("MOVD R%d, R%d", base, first)
	for c := 1; c < m.cols; c++ {
		m.op("ADD R%d, R%d, R%d", ld, first+r(c)-1, first+r(c))
	}
}

func (m *matrix) advance(n int) {
	for c := range m.cols {
		m.move(rX+r(c), n)
	}
}

// acc is the result of a column, of blocks of 32; those of 256 have theirs in
// memory.
func (m *matrix) acc(c, half int) v { return vAcc + v(2*c+half) }

func (m *matrix) clear() {
	if m.values == 256 {
		m.zero(vTemp)
	}
	for c := range m.cols {
		for half := range 2 {
			if m.values == 32 {
				m.zero(m.acc(c, half))
			} else {
				m.strQ(vTemp, rOut+r(c), 16*half)
			}
		}
	}
}

// block32: acc += float(sum)·(d·da), then m·(da·Σa).
func (m *matrix) block32() {
	m.op("ADD $%d, R%d, R%d", m.groupAt(), rW, rGroup)
	m.fresh()
	m.dot(0, 0)
	m.dot(0, 1)
	m.total()
	m.blockScale(vQ, 0)
	if m.min {
		m.blockScale(vQ+1, 2*panelRows)
	}
	m.tails()
	for c := range v(m.cols) {
		acc, sum := m.acc(int(c), m.half), vDot+c
		if m.offset > 0 {
			m.mlaLane(sum, vTaken, vX+c, 2)
		}
		m.fmulLane(vTemp, vQ, vX+c, 0)
		m.scvtf(sum, sum)
		m.fmla(acc, vTemp, sum)
		if m.min {
			m.fmlaLane(acc, vQ+1, vX+c, 1)
		}
	}
}

// block256 sums over groups of 32 columns, then acc = fma(d, s, acc) and
// acc = fma(−m, t, acc).
func (m *matrix) block256() {
	for c := range v(m.cols) {
		m.zero(vSum + c)
		if m.min {
			m.zero(vMin + c)
		}
	}
	m.op("ADD $%d, R%d, R%d", m.groupAt(), rW, rGroup)
	m.op("ADD $%d, R%d, R%d", m.scAt(), rW, rScales)
	m.op("MOVD $%d, R%d", m.values/m.sub/2, rRounds)
	loop := fmt.Sprintf("half%d", m.half)
	m.label(loop)
	if m.sub == 32 {
		m.group32(0)
		m.group32(1)
		m.move(rGroup, 2*m.groupBytes())
	} else {
		m.group16()
		m.move(rGroup, m.groupBytes())
	}
	m.move(rScales, 2*panelRows)
	m.op("SUBS $1, R%d", rRounds)
	m.op("BNE %s", loop)
	if m.half == 0 {
		m.advance(-8 * act32Bytes)
	}
	m.blockScale(vQ, 0)
	if m.min {
		m.blockScale(vQ+1, 2*panelRows)
	}
	for c := range v(m.cols) {
		acc := vDot + c
		m.ldrQ(acc, rOut+r(c), 16*m.half)
		m.fmla(acc, vQ, vSum+c)
		if m.min {
			m.fmls(acc, vQ+1, vMin+c)
		}
		m.strQ(acc, rOut+r(c), 16*m.half)
	}
}

// group32: group i of a pair, with a scale for all of its columns.
func (m *matrix) group32(i int) {
	m.fresh()
	m.dot(i, 0)
	m.dot(i, 1)
	m.total()
	m.tails()
	m.scale(vQ, i, false)
	m.sxtlH(vQ, vQ)
	if m.min {
		m.scale(vQ+1, i, true)
		m.sxtlH(vQ+1, vQ+1)
		m.scvtf(vQ+1, vQ+1)
	}
	for c := range v(m.cols) {
		m.mulS(vDot+c, vDot+c, vQ)
		m.scvtf(vDot+c, vDot+c)
		m.fmlaLane(vSum+c, vDot+c, vX+c, 0)
		if m.min {
			m.fmlaLane(vMin+c, vQ+1, vX+c, 1)
		}
	}
	m.advance(act32Bytes)
}

// group16: a group with a scale for each half of its columns.
func (m *matrix) group16() {
	for i := range 2 {
		m.fresh()
		m.dot(0, i)
		m.total()
		m.scale(vQ, i, false)
		m.sxtlH(vQ, vQ)
		for c := range v(m.cols) {
			if i == 0 {
				m.mulS(vScaled+c, vDot+c, vQ)
			} else {
				m.mlaS(vScaled+c, vDot+c, vQ)
			}
		}
	}
	m.tails()
	if m.min {
		m.scale(vQ, 0, true)
		m.scale(vQ+1, 1, true)
	}
	for c := range v(m.cols) {
		m.scvtf(vScaled+c, vScaled+c)
		m.fmlaLane(vSum+c, vScaled+c, vX+c, 0)
		if m.min {
			m.smullLane(vDot+c, vQ, vX+c, 6)
			m.smlalLane(vDot+c, vQ+1, vX+c, 7)
			m.scvtf(vDot+c, vDot+c)
			m.fmlaLane(vMin+c, vDot+c, vX+c, 0)
		}
	}
	m.advance(act32Bytes)
}

// scale reads the scale or minimum of sub-block i of a pair, as int16.
func (m *matrix) scale(d v, i int, min bool) {
	at := 8 * m.half
	if min && !m.nibble {
		at += m.scaleBytes()
	}
	m.ldrD(d, rScales, at)
	if m.nibble { // four fields of four bits: scale and minimum of 0, of 1
		field := 2 * i
		if min {
			field++
		}
		if field < 3 {
			m.shlH(d, d, 12-4*field)
		}
		m.ushrH(d, d, 12)
		return
	}
	if i == 0 {
		m.shlH(d, d, 8)
	}
	if m.signedSc {
		m.sshrH(d, d, 8)
	} else {
		m.ushrH(d, d, 8)
	}
}

// blockScale reads four binary16 of a block.
func (m *matrix) blockScale(d v, at int) {
	m.ldrD(d, rW, at+8*m.half)
	m.fcvtl(d, d)
}

// tails reads the scales and sums of each column's activations.
func (m *matrix) tails() {
	for c := range v(m.cols) {
		m.ldrQ(vX+c, rX+r(c), act32Tail)
	}
}

// fresh clears the integer sums.
func (m *matrix) fresh() {
	n := m.cols
	if !m.function.dot {
		n *= 2
	}
	for i := range v(n) {
		m.zero(vDot + i)
	}
}

// dot adds the products of 16 columns, the first or second of a group, to the
// integer sums.
func (m *matrix) dot(group, second int) {
	m.loaded = map[v]int{vLow: -1, vHigh: -1}
	for c := range v(m.cols) {
		m.ldrQ(vX+c, rX+r(c), 16*second)
	}
	for i := 0; i < 4; i += 2 {
		m.quad(vQ, group, 4*second+i)
		if m.function.dot {
			for c := range v(m.cols) {
				m.sdot(vDot+c, vQ, vX+c, i)
			}
		}
		m.quad(vQ+1, group, 4*second+i+1)
		for c := range v(m.cols) {
			if m.function.dot {
				m.sdot(vDot+c, vQ+1, vX+c, i+1)
			} else {
				m.products(c, i)
			}
		}
	}
}

// products adds those of two quads with column c. Two of them fit 16 bits: levels
// are at most 128 in magnitude, activations 127.
func (m *matrix) products(c v, i int) {
	m.dupS(vA, vX+c, i)
	m.dupS(vA+1, vX+c, i+1)
	m.smull(vProd, vQ, vA)
	m.smlal(vProd, vQ+1, vA+1)
	m.sadalp(vDot+2*c, vProd)
	m.smull2(vProd, vQ, vA)
	m.smlal2(vProd, vQ+1, vA+1)
	m.sadalp(vDot+2*c+1, vProd)
}

// total leaves the sum of each row in a lane of vDot+c.
func (m *matrix) total() {
	if m.function.dot {
		return
	}
	for c := range v(m.cols) {
		m.addpS(vDot+c, vDot+2*c, vDot+2*c+1)
	}
}

// quad makes the levels of quad j of a group bytes.
func (m *matrix) quad(d v, group, j int) {
	at := group*m.groupBytes() + 16*m.half
	vec, shift := quadAt(m.low, j)
	low := at + m.highBytes() + vecBytes*vec
	if m.low == 8 {
		m.ldrQ(d, rGroup, low)
		return
	}
	from := m.load(vLow, low)
	if shift > 0 {
		m.ushrB(d, from, shift)
		from = d
	}
	if shift+m.low < 8 {
		m.and(d, from, vMask)
	}
	if m.table {
		m.tbl(d, vTable, d)
	}
	if m.high > 0 {
		vec, shift = quadAt(m.high, j)
		from = m.load(vHigh, at+vecBytes*vec)
		switch {
		case shift < m.low:
			m.shlB(vTemp, from, m.low-shift)
			from = vTemp
		case shift > m.low:
			m.ushrB(vTemp, from, shift-m.low)
			from = vTemp
		}
		m.bit(d, from, vAbove)
	}
	if m.offset > 0 && m.sub > 0 {
		m.subB(d, d, vOffset)
	}
}

// load reads 16 bytes of a group and returns where they are. With SDOT there are
// registers to keep them in for the next quads.
func (m *matrix) load(keep v, at int) v {
	if !m.function.dot {
		m.ldrQ(vTemp, rGroup, at)
		return vTemp
	}
	if m.loaded[keep] != at {
		m.ldrQ(keep, rGroup, at)
		m.loaded[keep] = at
	}
	return keep
}
