package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// floats turns blocks of a panel into float32, eight rows of column 0, then of
// column 1, …: the values that kernels.Dequantize gives.
func floats(s spec) {
	TEXT(label("floats%s", s.name), NOSPLIT, "func(dst *float32, w *byte, blocks int)")
	Pragma("noescape")
	dst, w, blocks := GP64(), GP64(), GP64()
	Load(Param("dst"), dst)
	Load(Param("w"), w)
	Load(Param("blocks"), blocks)
	mask := s.lowMask()
	Label("block")
	d, m := YMM(), YMM()
	VCVTPH2PS(Mem{Base: w}, d)
	if s.min {
		VCVTPH2PS(Mem{Base: w, Disp: 2 * panelRows}, m)
	}
	if s.values == 32 {
		s.floatQuads(s.reader(w, s.groupAt(), mask), 0, 8, dst, d, m)
		ADDQ(bytes(1024), dst)
	} else {
		s.floatBlock256(dst, w, mask, d, m)
	}
	ADDQ(bytes(s.blockBytes()), w)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// floatBlock256 walks the pairs of sub-blocks and advances dst.
func (s spec) floatBlock256(dst, w reg.GPVirtual, mask, d, m reg.VecVirtual) {
	group, sc, left := GP64(), GP64(), GP64()
	LEAQ(Mem{Base: w, Disp: s.groupAt()}, group)
	LEAQ(Mem{Base: w, Disp: s.scAt()}, sc)
	MOVQ(U32(uint32(s.rounds())), left)
	Label("pair")
	groups := s.sub / 16
	var r *reader
	for i := range 2 {
		dl, ml := s.subScale(Mem{Base: sc}, i, false, d), YMM()
		if s.min {
			at := Mem{Base: sc, Disp: s.mnAt() - s.scAt()}
			if s.nibble {
				at = Mem{Base: sc}
			}
			ml = s.subScale(at, i, true, m)
		}
		if s.sub == 32 {
			s.floatQuads(s.reader(group, i*s.groupBytes(), mask), 0, 8, dst, dl, ml)
			ADDQ(bytes(1024), dst)
			continue
		}
		if i == 0 {
			r = s.reader(group, 0, mask)
		}
		s.floatQuads(r, 4*i, 4*i+4, dst, dl, ml)
	}
	if s.sub == 16 {
		ADDQ(bytes(1024), dst)
	}
	ADDQ(bytes(2*panelRows), sc)
	ADDQ(bytes(groups*s.groupBytes()), group)
	DECQ(left)
	JNZ(LabelRef("pair"))
}

// subScale is scale (or minimum) i of the pair at m, times d.
func (s spec) subScale(m Mem, i int, isMin bool, d reg.VecVirtual) reg.VecVirtual {
	v := YMM()
	if s.signedSc {
		VPMOVSXBW(m, v)
	} else {
		VPMOVZXBW(m, v)
	}
	switch {
	case s.nibble && isMin:
		VPSRLW(Imm(4), v, v)
	case s.nibble:
		VPAND(bytes32("nibble16", 15, 0), v, v)
	}
	if i == 0 {
		VPSLLD(Imm(16), v, v)
	}
	VPSRAD(Imm(16), v, v)
	VCVTDQ2PS(v, v)
	VMULPS(d, v, v)
	return v
}

// floatQuads: value = d·(level − offset) (+ or, with sub-blocks, − m).
func (s spec) floatQuads(r *reader, from, to int, dst reg.GPVirtual, d, m reg.VecVirtual) {
	for _, j := range s.order(from, to) {
		q := YMM()
		r.quad(j, wide{q})
		for i := range 4 {
			v := YMM()
			switch {
			case s.signed && i == 3:
				VPSRAD(Imm(24), q, v)
			case s.signed:
				VPSLLD(Imm(uint64(24-8*i)), q, v)
				VPSRAD(Imm(24), v, v)
			case i == 3:
				VPSRLD(Imm(24), q, v)
			case i == 0:
				VPAND(words("lowByte", 255), q, v)
			default:
				VPSRLD(Imm(uint64(8*i)), q, v)
				VPAND(words("lowByte", 255), v, v)
			}
			if s.offset != 0 {
				VPSUBD(words(label("offset%d", s.offset), uint32(s.offset)), v, v)
			}
			VCVTDQ2PS(v, v)
			VMULPS(d, v, v)
			switch {
			case s.min && s.sub > 0:
				VSUBPS(m, v, v)
			case s.min:
				VADDPS(m, v, v)
			}
			VMOVUPS(v, Mem{Base: dst, Disp: 128*j + 32*i})
		}
	}
}
