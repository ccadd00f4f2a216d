package kernel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/kerneltest"
)

// packedShapes are shapes with K in whole blocks of 32, some with an odd number
// of them; scales change every 4 blocks, or every 2 or 1.
var packedShapes = []shape{
	{parts: []int{35}, k: 96, norm: true, bias: true},
	{parts: []int{16, 5, 7}, k: 160, residual: true},
	{parts: []int{21, 21}, k: 224, gated: true, norm: true, bias: true},
	{parts: []int{64, 64}, k: 128, gated: true, gelu: true, residual: true},
	{parts: []int{33}, k: 800, norm: true},
	{parts: []int{35}, k: 96, norm: true, fast: true},
}

func TestLinearPacked(t *testing.T) {
	for _, typ := range []kernels.DType{kernels.U4, kernels.U8, kernels.F8} {
		for _, compute := range []int{80, 90} {
			g := newFloatGPU(t, compute)
			for i, s := range packedShapes {
				if compute == 90 && i%2 == 0 {
					continue // the PTX for 8.0 has run them
				}
				t.Run(fmt.Sprintf("%v/%d/%v", typ, compute, s), func(t *testing.T) {
					g.t = t
					tol := 8e-7
					if s.fast {
						tol = 5e-4
					}
					g.hold(newProblem(typ, s, rand.New(rand.NewPCG(uint64(typ), uint64(s.k)))), tol)
				})
			}
		}
	}
}

// TestLinearShared holds FP8 with a scale for a block of outputs and K.
func TestLinearShared(t *testing.T) {
	s := shape{parts: []int{48, 16}, k: 288, bias: true}
	p := newProblem(kernels.F8, s, rand.New(rand.NewPCG(1, 2)))
	for _, w := range p.ts {
		row := w.Type.RowBytes(w.Cols)
		for r := range w.Rows {
			for at := 0; at < row; at += w.Type.BlockBytes() {
				copy(w.Data[r*row+at:][:4], w.Data[r/16*16*row+at:][:4])
			}
		}
	}
	g := newFloatGPU(t, 80)
	g.hold(p, 8e-7)
	if w, _ := kernel.NewWeight(p.ts, false, false); w.Bytes > 64*288+512 {
		t.Errorf("%d bytes for 64 × 288 numbers and %d scales", w.Bytes, 4*3)
	}
}

// TestPackedBytes: a weight takes no more than 1.03 of what its file has.
func TestPackedBytes(t *testing.T) {
	const n, k = 256, 2048
	for _, typ := range []kernels.DType{kernels.U4, kernels.U8, kernels.F8} {
		w := kerneltest.Tensor(rand.New(rand.NewPCG(1, 2)), "w", typ, n, k, 1)
		got, err := kernel.NewWeight([]*kernels.Tensor{&w}, false, false)
		if err != nil {
			t.Fatal(err)
		}
		bits := map[kernels.DType]float64{kernels.U4: 4 + (16+4)/128., kernels.U8: 8 + (16+8)/128., kernels.F8: 8 + 32/128.}[typ]
		if file := bits * n * k / 8; float64(got.Bytes) > 1.03*file {
			t.Errorf("%v: %d bytes, and the file has %.0f", typ, got.Bytes, file)
		}
	}
}
