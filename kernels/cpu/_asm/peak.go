package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// peakInts is nothing but the multiply-adds of the integer kernels: twelve
// independent sums, 32 products each or, of 512 bits, 64, n times.
func peakInts() {
	TEXT(prefix+"peakInts", NOSPLIT, "func(n int)")
	n := Load(Param("n"), GP64())
	vector := YMM
	if evex() {
		vector = ZMM
	}
	w, a := vector(), vector()
	zero(w)
	zero(a)
	acc := make([]reg.VecVirtual, 12)
	for i := range acc {
		acc[i] = vector()
		zero(acc[i])
	}
	t := ymms(2)
	Label("loop")
	for i, v := range acc {
		if vnni {
			vpdpbusd(a, w, v)
			continue
		}
		VPMADDUBSW(a, w, t[i%2])
		VPADDW(t[i%2], v, v)
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// readBytes loads n times 256 bytes.
func readBytes() {
	TEXT("readBytesAVX2", NOSPLIT, "func(p *byte, n int)")
	Pragma("noescape")
	p, n := Load(Param("p"), GP64()), Load(Param("n"), GP64())
	acc := ymms(8)
	for _, v := range acc {
		VPXOR(v, v, v)
	}
	Label("loop")
	for i, v := range acc {
		VPOR(Mem{Base: p, Disp: 32 * i}, v, v)
	}
	ADDQ(bytes(256), p)
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
