package cpu

import (
	"math"
	"math/rand/v2"
	"slices"

	"hearth/kernels"
)

// agreeBF16 compares bf16 kernels with the portable ones, bit by bit: every number of
// columns, an odd number of panels, values of all magnitudes, so that sums round,
// cancel, and fall below what a float32 holds.
func agreeBF16(b *bf16Kernels) bool {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, exponents := range [][2]int{{-4, 4}, {-40, 40}, {-67, -61}, {-126, 3}} {
		value := func() float32 {
			return float32(math.Ldexp(rng.NormFloat64(), exponents[0]+rng.IntN(exponents[1]-exponents[0])))
		}
		for _, count := range []int{1, 3, 10} {
			if !agreeBF16On(b, &portable.bf16, count, value) {
				return false
			}
		}
	}
	return true
}

// agreeBF16On compares count panels of 40 columns, the last of them padding if count
// is odd.
func agreeBF16On(a, b *bf16Kernels, count int, value func() float32) bool {
	cols, k := 40-count%2, 40
	t := kernels.Tensor{Type: kernels.BF16, Rows: count*panelRows - 1, Cols: cols, Data: make([]byte, 2*cols*count*panelRows)}
	for i := 0; i < len(t.Data); i += 2 {
		h := kernels.ToBF16(value())
		t.Data[i], t.Data[i+1] = byte(h), byte(h>>8)
	}
	x := make([][]float32, a.cols)
	for c := range x {
		x[c] = make([]float32, cols)
		for i := range x[c] {
			x[c][i] = value()
		}
	}
	ldd := (count + 1) * panelRows
	run := func(s *bf16Kernels, n int) []float32 {
		stride := 2 * panelRows * k
		w, ldx, dst := make([]byte, (count+1)&^1*stride), s.rowBytes(cols), make([]float32, n*ldd)
		for p := range count {
			s.pack(w, stride, &t, p)
		}
		in := make([]byte, n*ldx)
		for c := range n {
			s.round(&in[c*ldx], x[c])
		}
		for c := 0; c < n; c += s.cols {
			s.mat(min(n-c, s.cols), &dst[c*ldd], 4*ldd, &w[0], stride, &in[c*ldx], ldx, k, count, 0)
		}
		return dst
	}
	want := run(b, a.cols)
	for n := 1; n <= a.cols; n++ {
		if !sameBits(run(a, n), want[:n*ldd]) {
			return false
		}
	}
	return slices.ContainsFunc(want, func(v float32) bool { return v != 0 })
}
