package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Bitwise operations and moves have other names where registers 16 to 31 are
// allowed.
func evex() bool { return vnni && !emulated }

func load(m Mem, dst reg.VecVirtual) {
	if evex() {
		VMOVDQU32(m, dst)
	} else {
		VMOVDQU(m, dst)
	}
}

func store(v reg.VecVirtual, m Mem) {
	if evex() {
		VMOVDQU32(v, m)
	} else {
		VMOVDQU(v, m)
	}
}

func and(a Op, b, dst reg.VecVirtual) {
	if evex() {
		VPANDD(a, b, dst)
	} else {
		VPAND(a, b, dst)
	}
}

func or(a Op, b, dst reg.VecVirtual) {
	if evex() {
		VPORD(a, b, dst)
	} else {
		VPOR(a, b, dst)
	}
}

func xor(a Op, b, dst reg.VecVirtual) {
	if evex() {
		VPXORD(a, b, dst)
	} else {
		VPXOR(a, b, dst)
	}
}

// zero clears v. (The library does not know that VPXORD of a register with
// itself reads nothing, and would keep v alive before.)
func zero(v reg.VecVirtual) {
	if !evex() {
		VPXOR(v, v, v)
		return
	}
	Instruction(&ir.Instruction{
		Opcode: "VPXORD", Operands: []Op{v, v, v}, Inputs: []Op{v, v}, Outputs: []Op{v},
		CancellingInputs: true, ISA: []string{"AVX512F", "AVX512VL"},
	})
}

// splitPair spreads pairs of int16 scales: for the first and the second of each
// pair, (scale, scale) int16 for VPMADDWD, or int32 for VPMULLD with VNNI. second
// may be pair.
func splitPair(pair, first, second reg.VecVirtual) {
	if vnni {
		VPSLLD(Imm(16), pair, first)
		VPSRAD(Imm(16), first, first)
		VPSRAD(Imm(16), pair, second)
		return
	}
	VPSHUFB(dupLow(), pair, first)
	VPSHUFB(dupHigh(), pair, second)
}

// vpdpbusd is VPDPBUSD, which the library does not know: acc += four products of
// signed a and unsigned w (Intel SDM vol. 2; operands in Go's order).
func vpdpbusd(a Op, w, acc reg.VecVirtual, suffix ...string) {
	Instruction(&ir.Instruction{
		Opcode: "VPDPBUSD", Suffixes: suffix, Operands: []Op{a, w, acc},
		Inputs: []Op{a, w, acc}, Outputs: []Op{acc}, ISA: []string{"AVX512VL", "AVX512_VNNI"},
	})
}

// dp adds four products of unsigned w and signed a to each lane of acc.
func dp(a, w, acc reg.VecVirtual) {
	if !emulated {
		vpdpbusd(a, w, acc)
		return
	}
	x, y := YMM(), YMM()
	VPAND(bytes32("evenBytes", 255, 0), w, x)
	VPSLLW(Imm(8), a, y)
	VPSRAW(Imm(8), y, y)
	VPMADDWD(x, y, x)
	VPADDD(x, acc, acc)
	VPSRLW(Imm(8), w, x)
	VPSRAW(Imm(8), a, y)
	VPMADDWD(x, y, x)
	VPADDD(x, acc, acc)
}

// dpBroadcast is dp with the four bytes at m for every lane.
func dpBroadcast(m Mem, w, acc reg.VecVirtual) {
	if !emulated {
		vpdpbusd(m, w, acc, "BCST")
		return
	}
	a := YMM()
	VPBROADCASTD(m, a)
	dp(a, w, acc)
}

// dotQuadsVNNI is dotQuads; factor is one int32 a lane and only for types with
// sub-blocks.
func (s spec) dotQuadsVNNI(r *reader, from, to int, a columns, cols int, factor Op, sums []reg.VecVirtual, fresh bool) {
	acc := sums
	if s.sub > 0 {
		acc = ymms(cols)
	}
	if s.sub > 0 || fresh {
		for _, v := range acc {
			zero(v)
		}
	}
	for i, j := range s.order(from, to) {
		if i == 2 && r.late != nil {
			r.late()
		}
		q := YMM()
		r.quad(j, q)
		for c := range cols {
			dpBroadcast(a.at(c, 4*j), q, acc[c])
		}
	}
	if s.sub > 0 {
		for c := range cols {
			if fresh {
				VPMULLD(factor, acc[c], sums[c])
				continue
			}
			VPMULLD(factor, acc[c], acc[c])
			VPADDD(acc[c], sums[c], sums[c])
		}
	}
}
