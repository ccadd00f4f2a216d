package kernel_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
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
	{parts: []int{3}, k: 4640, norm: true}, // segments of more than a piece of one_row
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

// TestLinearOddTiles holds weights whose last block has one tile of the two that
// its others have: on a GPU of many multiprocessors only large ones have two.
func TestLinearOddTiles(t *testing.T) {
	s := shape{parts: []int{35}, k: 96, norm: true, bias: true}
	for i, typ := range []kernels.DType{kernels.BF16, kernels.F16, kernels.U4, kernels.U8, kernels.F8} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			g := newFloatGPU(t, 80+10*(i%2))
			g.target.SMs = 1
			tol := 8e-7
			if typ == kernels.BF16 {
				tol = 8e-6
			}
			g.hold(newProblem(typ, s, rand.New(rand.NewPCG(uint64(typ), 3))), tol)
			for name := range g.counts {
				if strings.HasSuffix(name, "_one_row_1") || strings.HasSuffix(name, "_direct_1") {
					t.Errorf("%s was launched, wanted two tiles a block", name)
				}
			}
		})
	}
}

// TestLinearOrder holds weights whose columns are in an order of their own.
func TestLinearOrder(t *testing.T) {
	for i, s := range []shape{
		{parts: []int{21, 14}, k: 160, norm: true, bias: true},
		{parts: []int{21, 21}, k: 96, gated: true, norm: true},
		{parts: []int{18}, k: 288, residual: true},
	} {
		typ := []kernels.DType{kernels.U4, kernels.U8, kernels.F8}[i]
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(typ), 7))
			p := newProblem(typ, s, rng)
			for _, w := range p.ts {
				w.Order = make([]int32, s.k)
				for c, k := range rand.New(rand.NewPCG(1, uint64(s.k))).Perm(s.k) {
					w.Order[c] = int32(k)
				}
			}
			newFloatGPU(t, 80+10*(i%2)).hold(p, 8e-7)
		})
	}
}

// TestOrderRefused: one weight has one order, and only packed ones have any.
func TestOrderRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		want string
		typ  kernels.DType
		same bool
	}{
		{"columns in different orders", kernels.U4, false},
		{"got BF16 with columns in an order of their own", kernels.BF16, true},
		{"got Q8_0 with columns in an order of their own", kernels.Q8_0, true},
	} {
		a, b := kerneltest.Tensor(rng, "a", c.typ, 16, 32, 1), kerneltest.Tensor(rng, "b", c.typ, 16, 32, 1)
		a.Order = make([]int32, 32)
		for k := range a.Order {
			a.Order[k] = int32(31 - k)
		}
		if c.same {
			b.Order = a.Order
		}
		if _, err := kernel.NewWeight([]*kernels.Tensor{&a, &b}, false, false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, wanted it to contain %q", err, c.want)
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
