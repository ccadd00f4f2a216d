package kernel_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hearth/kernels"
)

// TestLinearGroups holds packed weights whose scales and zero points change
// every 1, 2 and 4 runs of 32 values, in segments of K that hold several groups
// and end inside of one.
func TestLinearGroups(t *testing.T) {
	for _, typ := range []kernels.DType{kernels.U4, kernels.U8, kernels.F8} {
		for _, compute := range []int{80, 90} {
			g := newFloatGPU(t, compute)
			for _, runs := range []int{1, 2, 4} {
				if compute == 90 && runs > 1 {
					continue // the PTX for 8.0 has run them
				}
				t.Run(fmt.Sprintf("%v/%d/%d", typ, compute, runs), func(t *testing.T) {
					g.t = t
					rng := rand.New(rand.NewPCG(uint64(typ), uint64(runs)))
					p := newProblem(typ, shape{parts: []int{9}, k: 2592}, rng)
					for _, w := range p.ts {
						regroup(rng, w, runs)
					}
					g.hold(p, 8e-7)
				})
			}
		}
	}
}

// regroup gives a weight new scales and zero points that hold for runs blocks.
func regroup(rng *rand.Rand, w *kernels.Tensor, runs int) {
	n, row := w.Type.BlockBytes(), w.Type.RowBytes(w.Cols)
	for at := 0; at < len(w.Data); at += n {
		block := w.Data[at : at+n]
		if at%row/n%runs != 0 {
			copy(block[:n%16], w.Data[at-n:])
			continue
		}
		scale := 0.01 * (0.5 + rng.Float32())
		switch w.Type {
		case kernels.F8:
			binary.LittleEndian.PutUint32(block, math.Float32bits(scale))
		case kernels.U4:
			binary.LittleEndian.PutUint16(block, kernels.ToF16(scale))
			block[2] = byte(4 + rng.IntN(8))
		default:
			binary.LittleEndian.PutUint16(block, kernels.ToF16(scale))
			block[2] = byte(100 + rng.IntN(56))
		}
	}
}
