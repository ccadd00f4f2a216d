package cpu

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"unsafe"

	"hearth/kernels"
)

// agreeOnFloats compares the kernels for float panels: as many panels as take every
// way through a kernel, and every number of columns.
func agreeOnFloats(a, b *kernelSet, t kernels.DType, rng *rand.Rand) bool {
	const count, k = 8 + 4 + 2 + 1, 4 + 2 + 1
	const rows = count * panelRows
	w := make([]byte, rows*k*t.BlockBytes())
	size := len(w) / count
	values := normal(rng, rows*k)
	switch t {
	case kernels.F32:
		copy(w, unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), len(w)))
	default:
		half(t, unsafe.Slice((*uint16)(unsafe.Pointer(&w[0])), len(values)), values)
	}
	x, first, alpha := normal(rng, maxFloatCols*k), normal(rng, maxFloatCols*rows), normal(rng, maxFloatCols)
	want, wantAcc := make([]float32, len(first)), slices.Clone(first)
	for c := 0; c < maxFloatCols; c += b.floatCols {
		n := min(b.floatCols, maxFloatCols-c)
		b.fmat(t, n, &want[c*rows], 4*rows, &w[0], size, &x[c*k], 4*k, k, count, 0)
		b.fmatAcc(t, n, &wantAcc[c*rows], 4*rows, &w[0], size, &x[c*k], 4*k, k, count, 0, &alpha[c])
	}
	got := make([]float32, len(first))
	for cols := 1; cols <= a.floatCols; cols++ {
		clear(got)
		a.fmat(t, cols, &got[0], 4*rows, &w[0], size, &x[0], 4*k, k, count, 0)
		if !sameBits(got[:cols*rows], want) {
			return false
		}
		copy(got, first)
		a.fmatAcc(t, cols, &got[0], 4*rows, &w[0], size, &x[0], 4*k, k, count, 0, &alpha[0])
		if !sameBits(got[:cols*rows], wantAcc) || !sameBits(got[cols*rows:], first[cols*rows:]) {
			return false
		}
	}
	wide, wideWant := make([]float32, rows*k), make([]float32, rows*k)
	a.widen(t, &wide[0], &w[0], count*k)
	b.widen(t, &wideWant[0], &w[0], count*k)
	return sameBits(wide, wideWant)
}

// agreeOnVectors compares the kernels for vectors.
func agreeOnVectors(a, b *kernelSet, rng *rand.Rand) bool {
	const n = 64 + 2*16 + 8 + 3
	x, y, z := normal(rng, n), normal(rng, n), normal(rng, n)
	for i := range x {
		x[i] *= 20
	}
	run := func(ks *kernelSet) (all []float32) {
		dst := make([]float32, n)
		keep := func(v ...float32) { all = append(append(all, dst...), v...) }
		ks.siluMul(dst, x, y)
		keep()
		ks.geluMul(dst, x, y)
		keep()
		ks.scaleMul(dst, x, y, 3)
		keep()
		ks.add(dst, z)
		keep(ks.sumSquares(x), ks.largest(x), ks.powers(dst, x, 5, 1.5))
		keep()
		const cols = 17
		var st [cols]softState
		for c := range st {
			st[c].reset()
		}
		scores, alpha := make([]float32, cols*keyTile), make([]float32, cols)
		for _, seen := range [][2]int{{0, keyTile}, {0, 5}, {7, 24}, {33, keyTile}, {15, 49}} {
			for c := range cols {
				copy(scores[c*keyTile:], x[c:][:keyTile])
			}
			ks.softmax(&scores[0], cols, panels(seen[1]), seen[0], seen[1], 0.3, &st[0], &alpha[0])
			for c := range cols {
				all = append(append(append(all, scores[c*keyTile:][:seen[1]]...), st[c].max, alpha[c]), st[c].sum[:]...)
			}
		}
		return all
	}
	if got, want := run(a), run(b); len(got) != len(want) || !sameBits(got, want) {
		return false
	}
	var h, hWant [n]uint16
	for _, t := range []kernels.DType{kernels.F16, kernels.BF16} {
		a.half(t, h[:], x)
		b.half(t, hWant[:], x)
		if h != hWant {
			return false
		}
	}
	const blocks = 7
	x = normal(rng, 32*blocks)
	clear(x[64:96])
	for i := range x {
		x[i] *= float32(1 + i/32*i/32)
	}
	var act, actWant [blocks * act32Bytes]byte
	a.quantize32(act[:], x)
	b.quantize32(actWant[:], x)
	return bytes.Equal(act[:], actWant[:])
}

// normal is n normally distributed values.
func normal(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}
