package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hearth/kernels"
	"hearth/kernels/kerneltest"
)

// fastest is the shortest time of one call, in seconds: what the code can do
// when nothing else disturbs the processor.
func fastest(b *testing.B, f func()) float64 {
	best := math.Inf(1)
	for b.Loop() {
		start := time.Now()
		f()
		best = min(best, time.Since(start).Seconds())
	}
	return best
}

// BenchmarkPeak is what the figures below are to be held against.
func BenchmarkPeak(b *testing.B) {
	for b.Loop() {
		p, err := MeasurePeak()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(p.IntGOPS, "GOPS")
		b.ReportMetric(p.ReadGBs, "read-GB/s")
	}
}

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
		lda := cols / 32 * act32Bytes
		dst := make([]float32, maxTileCols*rows)
		for _, path := range Paths() {
			ks, _ := choose(path)
			act := make([]byte, maxTileCols*lda)
			for c := range maxTileCols {
				ks.quantize32(act[c*lda:(c+1)*lda], x)
			}
			for _, n := range []int{1, maxCols, maxTileCols} {
				run := func() {
					ks.mat(t, n, &dst[0], 4*rows, &panel[0], &act[0], lda, cols/s.values, rows/panelRows)
				}
				if n > maxCols {
					if ks.pair == nil {
						continue
					}
					run = func() {
						ks.pair(t, n, &dst[0], 4*rows, &panel[0], size, &act[0], lda, cols/s.values, rows/panelRows/2)
					}
				}
				b.Run(fmt.Sprintf("%v/%s/cols=%d", t, path, n), func(b *testing.B) {
					best := fastest(b, run)
					b.ReportMetric(2*rows*cols*float64(n)/best/1e9, "best-GOPS")
					b.ReportMetric(float64(len(panel))/best/1e9, "best-GB/s")
				})
			}
		}
	}
}

// BenchmarkTile runs the kernels for many rows: four panels, 96 rows of
// activations, expanding included.
func BenchmarkTile(b *testing.B) {
	const rows, cols, n = maxTilePanels * panelRows, 1536, 96
	rng := rand.New(rand.NewPCG(1, 1))
	for _, t := range kernels.DTypes() {
		s := spec(t)
		if s == nil {
			continue
		}
		w := kerneltest.Tensor(rng, "w", t, rows, cols, 1)
		wt := weight{t: &w, stride: panelBytes(&w)}
		wt.panels = make([]byte, maxTilePanels*wt.stride)
		for p := range maxTilePanels {
			repack(wt.panels[p*wt.stride:], &w, p)
		}
		x := make([]float32, cols)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		blocks, lda := cols/s.values, cols/32*act32Bytes
		dst, exp, act := make([]float32, n*rows), make([]byte, maxTilePanels*blocks*s.expandedBytes()), make([]byte, n*lda)
		for _, path := range Paths() {
			ks, _ := choose(path)
			if ks.tileRows == 0 {
				continue
			}
			for c := range n {
				ks.quantize32(act[c*lda:(c+1)*lda], x)
			}
			d := &Device{ks: ks}
			b.Run(fmt.Sprintf("%v/%s", t, path), func(b *testing.B) {
				best := fastest(b, func() {
					d.multiplyTiles(&wt, exp, &dst[0], 4*rows, 0, maxTilePanels, &act[0], lda, blocks, n)
				})
				b.ReportMetric(2*rows*cols*n/best/1e9, "best-GOPS")
			})
		}
	}
}

// BenchmarkRepack turns files' rows into panels.
func BenchmarkRepack(b *testing.B) {
	for _, t := range kernels.DTypes() {
		w := kerneltest.Tensor(rand.New(rand.NewPCG(1, 1)), "w", t, 64, 2048, 1)
		if stored(&w) != t {
			continue
		}
		dst := weight{t: &w, stride: panelBytes(&w)}
		dst.panels = make([]byte, panels(w.Rows)*dst.stride)
		b.Run(t.String(), func(b *testing.B) {
			b.SetBytes(int64(len(w.Data)))
			for range b.N {
				dst.fill(&w, 0, 1)
			}
		})
	}
}
