package cpu

import (
	"math"
	"math/rand/v2"

	"hearth/kernels"
)

// agree compares two sets, bit by bit: the integer kernels on two panels of every type,
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
	s := spec(t)
	size := agreeBlocks * s.blockBytes()
	w := make([]byte, 2*size)
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
	var want [maxTileCols * 2 * panelRows]float32
	for c := range maxTileCols {
		b.mat(t, 1, &want[c*2*panelRows], 0, &w[0], &act[c*lda], lda, agreeBlocks, 2)
	}
	for cols := 1; cols <= maxCols; cols++ {
		var got [maxTileCols * 2 * panelRows]float32
		a.mat(t, cols, &got[0], 4*2*panelRows, &w[0], &act[0], lda, agreeBlocks, 2)
		if !sameBits(got[:cols*2*panelRows], want[:]) {
			return false
		}
	}
	for cols := maxCols; a.pair != nil && cols <= a.tileCols; cols++ {
		var got [maxTileCols * 2 * panelRows]float32
		a.pair(t, cols, &got[0], 4*2*panelRows, &w[0], size, &act[0], lda, agreeBlocks, 1)
		if !sameBits(got[:cols*2*panelRows], want[:]) {
			return false
		}
	}
	if a.tile == nil {
		return true
	}
	exp := make([]byte, 2*agreeBlocks*s.expandedBytes())
	pair := a.expand(t, &exp[0], &w[0], size, agreeBlocks)
	rest := pair
	rest.at = at(pair.at, pair.size)
	for cols := (a.tileCols + 1) / 2; cols <= a.tileCols; cols++ {
		var got [maxTileCols * 2 * panelRows]float32
		a.tile(t, cols, &got[0], 4*2*panelRows, pair, &act[0], lda, 1, 0, &w[0], size)
		a.tile(t, cols, &got[0], 4*2*panelRows, rest, &act[lda/agreeBlocks], lda, agreeBlocks-1, 1, &w[0], size)
		if !sameBits(got[:cols*2*panelRows], want[:]) {
			return false
		}
	}
	return true
}

func sameBits(a, b []float32) bool {
	for i, v := range a {
		if math.Float32bits(v) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}
