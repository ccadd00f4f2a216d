package cpu

import (
	"math"
	"math/rand/v2"

	"hearth/kernels"
)

// agree compares two sets, bit by bit: the integer kernels on four panels of every type,
// random levels, then the extremes that show saturation; those for floats and vectors
// on few values. It takes a few milliseconds.
func agree(a, b *kernelSet) bool {
	rng := rand.New(rand.NewPCG(1, 1))
	for t := range kernels.DTypes() {
		if spec(kernels.DType(t)) == nil {
			continue
		}
		for round := range 2 {
			if !agreeOn(a, b, kernels.DType(t), rng, round == 1) {
				return false
			}
		}
	}
	for _, t := range []kernels.DType{kernels.F32, kernels.F16, kernels.BF16} {
		if !agreeOnFloats(a, b, t, rng) {
			return false
		}
	}
	return agreeOnVectors(a, b, rng)
}

const agreeBlocks = 2

func agreeOn(a, b *kernelSet, t kernels.DType, rng *rand.Rand, extreme bool) bool {
	const rows = maxTilePanels * panelRows
	s := spec(t)
	size := agreeBlocks * s.blockBytes()
	w := make([]byte, maxTilePanels*size)
	for i := range w {
		w[i] = byte(rng.Uint32())
		if extreme {
			w[i] = 0xff
		}
	}
	for at := 0; at < len(w); at += s.blockBytes() {
		for i := range 2 * panelRows { // scales of ordinary size
			if i < panelRows || s.min {
				h := kernels.ToF16(0.01 + rng.Float32()/100)
				w[at+2*i], w[at+2*i+1] = byte(h), byte(h>>8)
			}
		}
		if t == kernels.Q3_K { // whose other scales have six bits
			for i, v := range w[at+s.scAt() : at+s.groupAt()] {
				w[at+s.scAt()+i] = byte(int8(v) >> 2)
			}
		}
	}
	x := make([]float32, agreeBlocks*s.values)
	lda := len(x) / 32 * act32Bytes
	act := make([]byte, maxTileCols*lda)
	for c := range maxTileCols {
		for i := range x {
			x[i] = float32(rng.NormFloat64())
			if extreme {
				x[i] = -3
			}
		}
		portable.quantize32(act[c*lda:(c+1)*lda], x)
	}
	var want [maxTileCols * rows]float32
	for c := 0; c < maxTileCols; c += maxCols {
		b.mat(t, maxCols, &want[c*rows], 4*rows, &w[0], &act[c*lda], lda, agreeBlocks, maxTilePanels)
	}
	// same runs kernels for some columns and holds the first rows of their results against those.
	same := func(cols, rows int, run func(dst *float32, ldd int)) bool {
		var got [len(want)]float32
		const ld = len(want) / maxTileCols
		run(&got[0], 4*ld)
		for c := range cols {
			if !sameBits(got[c*ld:][:rows], want[c*ld:]) {
				return false
			}
		}
		return true
	}
	ok := true
	for cols := 1; cols <= maxCols; cols++ {
		ok = ok && same(cols, 2*panelRows, func(dst *float32, ldd int) { a.mat(t, cols, dst, ldd, &w[0], &act[0], lda, agreeBlocks, 2) })
	}
	for cols := maxCols; a.pair != nil && cols < a.tileRows; cols++ {
		ok = ok && same(cols, 2*panelRows, func(dst *float32, ldd int) { a.pair(t, cols, dst, ldd, &w[0], size, &act[0], lda, agreeBlocks, 1) })
	}
	for panels := 2; a.tile != nil && panels <= maxTilePanels; panels += 2 {
		most := a.tileCols(t, panels)
		if most == 0 {
			continue
		}
		// A block, and those after it, as if they were of more columns.
		first, rest := make([]byte, panels*s.expandedBytes()), make([]byte, panels*(agreeBlocks-1)*s.expandedBytes())
		e, f := a.expand(t, panels, &first[0], &w[0], size, 1), a.expand(t, panels, &rest[0], &w[s.blockBytes()], size, agreeBlocks-1)
		for cols := (most + 1) / 2; cols <= most; cols++ {
			ok = ok && same(cols, panels*panelRows, func(dst *float32, ldd int) {
				a.tile(t, panels, cols, dst, ldd, e, &act[0], lda, 1, 0, &w[0], size)
				a.tile(t, panels, cols, dst, ldd, f, &act[lda/agreeBlocks], lda, agreeBlocks-1, 1, &w[0], size)
			})
		}
	}
	return ok
}

func sameBits(a, b []float32) bool {
	for i, v := range a {
		if math.Float32bits(v) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}
