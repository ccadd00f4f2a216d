package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"hearth/kernels"
	"hearth/kernels/kerneltest"
)

// BenchmarkFmat runs the kernels for float panels on 8 panels of 64 columns, which is a
// tile of keys or values: GFLOPS counts a multiply and an add as two.
func BenchmarkFmat(b *testing.B) {
	const rows, k = 64, 64
	rng := rand.New(rand.NewPCG(1, 1))
	x, alpha := make([]float32, maxFloatCols*k), make([]float32, maxFloatCols)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for _, t := range []kernels.DType{kernels.F32, kernels.F16, kernels.BF16} {
		w := kerneltest.Tensor(rng, "w", t, rows, k, 1)
		wt := weight{t: &w, stride: panelBytes(&w), panels: make([]byte, rows/panelRows*panelBytes(&w))}
		wt.fill(&w, 0, 1)
		for _, path := range Paths() {
			ks, _ := choose(path)
			dst := make([]float32, maxFloatCols*rows)
			for _, cols := range []int{1, 3, maxCols, ks.floatCols} {
				for _, acc := range []bool{false, true} {
					b.Run(fmt.Sprintf("%v/%s/cols=%d/acc=%v", t, path, cols, acc), func(b *testing.B) {
						best := fastest(b, func() {
							for range 16 {
								if acc {
									ks.fmatAcc(t, cols, &dst[0], 4*rows, &wt.panels[0], wt.stride, &x[0], 4*k, k, rows/panelRows, 0, &alpha[0])
								} else {
									ks.fmat(t, cols, &dst[0], 4*rows, &wt.panels[0], wt.stride, &x[0], 4*k, k, rows/panelRows, 0)
								}
							}
						})
						b.ReportMetric(16*2*rows*k*float64(cols)/best/1e9, "best-GFLOPS")
					})
				}
			}
		}
	}
}

// BenchmarkVectors runs the kernels for vectors on one that fits the cache.
func BenchmarkVectors(b *testing.B) {
	const n = 1536
	rng := rand.New(rand.NewPCG(1, 1))
	var x, y, z [n]float32
	for i := range x {
		x[i], y[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
	}
	var (
		act   [n / 32 * act32Bytes]byte
		h     [n]uint16
		st    [n / keyTile]softState
		alpha [n / keyTile]float32
		sink  float32
	)
	for _, path := range Paths() {
		ks, _ := choose(path)
		for _, c := range []struct {
			name string
			f    func()
		}{
			{"softmax", func() {
				ks.softmax(&z[0], len(st), keyTile/8, 0, keyTile, 1, &st[0], &alpha[0])
			}},
			{"siluMul", func() { ks.siluMul(z[:], x[:], y[:]) }},
			{"geluMul", func() { ks.geluMul(z[:], x[:], y[:]) }},
			{"quantize32", func() { ks.quantize32(act[:], x[:]) }},
			{"scaleMul", func() { ks.scaleMul(z[:], x[:], y[:], 2) }},
			{"add", func() { ks.add(z[:], x[:]) }},
			{"sumSquares", func() { sink += ks.sumSquares(x[:]) }},
			{"powers", func() { sink += ks.powers(z[:], x[:], 3, 1) }},
			{"largest", func() { sink += ks.largest(x[:]) }},
			{"half", func() { ks.half(kernels.F16, h[:], x[:]) }},
			{"widenF16", func() { ks.widen(kernels.F16, &z[0], (*byte)(unsafe.Pointer(&h)), n/8) }},
			{"widenBF16", func() { ks.widen(kernels.BF16, &z[0], (*byte)(unsafe.Pointer(&h)), n/8) }},
		} {
			b.Run(c.name+"/"+path, func(b *testing.B) {
				best := fastest(b, func() {
					for range 8 {
						c.f()
					}
				})
				b.ReportMetric(8*n/best/1e9, "best-values/ns")
			})
		}
	}
}
