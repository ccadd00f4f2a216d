package cuda

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/cudatest"
	"hearth/kernels/kerneltest"
	"hearth/kernels/ref"
)

// fusedModel has values of another type than queries and keys, and norms before
// each sum.
func fusedModel(typ, values kernels.DType, width int) *kernels.Program {
	p := withPostNorms(kerneltest.Model(kerneltest.Shape{Vocab: 40, Width: width, Layers: 1, Heads: 4, KVHeads: 2, HeadDim: width / 4, FFN: width, Type: typ, Head: kernels.F32}, 3))
	retypeOf(p, func(a *kernels.Op) kernels.Reg { return a.V }, values)
	return p
}

// TestFusedBits: a token that is computed alone, in six launches a layer, has the
// bits that it has among others, in many, and near those of the reference.
func TestFusedBits(t *testing.T) {
	for _, c := range []struct {
		typ, values kernels.DType
		width       int
	}{{kernels.Q5_0, kernels.Q8_0, 64}, {kernels.Q4_K, kernels.Q6_K, 256}, {kernels.BF16, kernels.F16, 64}} {
		t.Run(fmt.Sprint(c.typ, c.values), func(t *testing.T) {
			p := fusedModel(c.typ, c.values, c.width)
			var want []float32
			for i, cut := range [][]int32{{12}, {1, 10, 1}, {3, 8, 1}} {
				d := interpreted(Options{Rows: 64, Sequences: 4, NoGraphs: i == 1}, cudatest.Options{Compute: 80 + 10*(i%2), Lazy: i == 2})(t)
				got := prompt(t, d, p, cut)
				if want == nil {
					want = got
				} else if !slices.Equal(got, want) {
					t.Errorf("a prompt cut as %v gives other bits", cut)
				}
			}
			for i, v := range prompt(t, ref.New(), p, []int32{12}) {
				if math.Abs(float64(want[i]-v)) > 0.05*(1+math.Abs(float64(v))) {
					t.Errorf("logit %d is %v, the reference has %v", i, want[i], v)
				}
			}
		})
	}
}

// prompt is the logits after a prompt that is computed in pieces of some lengths.
func prompt(t *testing.T, d kernels.Device, p *kernels.Program, pieces []int32) []float32 {
	t.Helper()
	defer d.Close()
	if err := d.Load(p, kernels.KVConfig{Blocks: 8, BlockSize: 16, Type: kernels.F16}); err != nil {
		t.Fatal(err)
	}
	var b *kernels.Batch
	at := int32(0)
	for _, n := range pieces {
		b = some(p, at, n)
		for i := range b.Tokens {
			b.Tokens[i] = (at + int32(i)) * 7 % int32(p.Vocab)
		}
		if err := d.Step(b); err != nil {
			t.Fatal(err)
		}
		at += n
	}
	return b.Logits
}
