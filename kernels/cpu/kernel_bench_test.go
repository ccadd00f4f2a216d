package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hearth/kernels"
	"hearth/kernels/kerneltest"
)

// BenchmarkMat runs the integer kernels over a matrix that fits the cache:
// GOPS counts a multiply and an add as two.
func BenchmarkMat(b *testing.B) {
	const rows, cols = 64, 1536
	rng := rand.New(rand.NewPCG(1, 1))
	for _, t := range kernels.DTypes() {
		s := spec(t)
		if s == nil {
			continue
		}
		w := kerneltest.Tensor(rng, "w", t, rows, cols, 1)
		size := panelBytes(&w)
		panel := make([]byte, rows/panelRows*size)
		for p := range rows / panelRows {
			repack(panel[p*size:(p+1)*size], &w, p)
		}
		x := make([]float32, cols)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		lda := cols / s.values * map[int]int{32: act32Bytes, 256: act256Bytes}[s.values]
		dst := make([]float32, maxCols*rows)
		for _, path := range Paths() {
			ks, _ := choose(path)
			act := make([]byte, maxCols*lda)
			for c := range maxCols {
				if s.values == 32 {
					ks.quantize32(act[c*lda:(c+1)*lda], x)
				} else {
					ks.quantize256(act[c*lda:(c+1)*lda], x)
				}
			}
			for _, n := range []int{1, maxCols} {
				b.Run(fmt.Sprintf("%v/%s/cols=%d", t, path, n), func(b *testing.B) {
					before := cpuSeconds()
					for b.Loop() {
						ks.mat(t, n, &dst[0], 4*rows, &panel[0], &act[0], lda, cols/s.values, rows/panelRows)
					}
					if used := cpuSeconds() - before; used > 0 {
						b.ReportMetric(2*rows*cols*float64(n)*float64(b.N)/used/1e9, "GOPS/cpu-s")
						b.ReportMetric(float64(len(panel))*float64(b.N)/used/1e9, "GB/cpu-s")
					}
				})
			}
		}
	}
}
