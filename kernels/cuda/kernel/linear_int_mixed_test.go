package kernel_test

import (
	"fmt"
	"math"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx/ptxtest"
)

// mixes are types that stand beside each other in one layer: Q, K and V of the
// files that llama-quantize's mixtures make, and more, so that each type is there.
var mixes = []struct {
	types []kernels.DType
	k     int
}{
	{[]kernels.DType{kernels.Q4_K, kernels.Q6_K}, 512},               // Q4_K_M
	{[]kernels.DType{kernels.Q2_K, kernels.Q5_K, kernels.Q3_K}, 768}, // Q3_K_M and Q5_K_M
	{[]kernels.DType{kernels.Q5_0, kernels.Q8_0}, 416},               // Q4_K_M where rows are no multiple of 256
	{[]kernels.DType{kernels.Q5_1, kernels.IQ4_NL, kernels.Q4_1}, 96},
	{[]kernels.DType{kernels.Q4_0, kernels.Q5_0}, 256},
}

// uploadMix puts linears of one x on the machine, of types and a number of outputs
// each.
func uploadMix(t testing.TB, m *ptxtest.Machine, types []kernels.DType, k int, outs []int) (ws []*kernel.Weight, cs []kernel.LinearCall) {
	for i, typ := range types {
		c := &intCase{typ: typ, parts: []int{outs[i]}, k: k, norm: true, bias: i%2 == 0}
		c.make()
		w, call := c.upload(t, m)
		if i > 0 {
			call.X, call.Norm = cs[0].X, cs[0].Norm
		}
		ws, cs = append(ws, w), append(cs, call)
	}
	return ws, cs
}

// TestIntMixed: one launch of several types gives each result the bits that a
// launch of its own does.
func TestIntMixed(t *testing.T) {
	for _, mix := range mixes {
		t.Run(fmt.Sprint(mix.types), func(t *testing.T) {
			ptxtest.Run(t, ptxtest.Options{Memory: 16 << 20}, func(t testing.TB, m *ptxtest.Machine) {
				ws, cs := uploadMix(t, m, mix.types, mix.k, []int{230, 35, 17})
				for _, rows := range []int{1, 2, 5, 8} {
					for i := range cs {
						cs[i].Rows = rows
						ls, err := kernel.Linear(intTarget(m), ws[i], cs[i])
						m.Launch(launches(t, ls, err)...)
					}
					var want [][]float32
					for i := range cs {
						want = append(want, m.ReadFloats(cs[i].Y.Addr, rows*cs[i].Y.Stride))
						cs[i].Y.Addr = m.Room(4 * 8 * cs[i].Y.Stride)
					}
					ls, err := kernel.Linears(intTarget(m), ws, cs)
					if len(ls) != 1 && err == nil {
						t.Fatalf("%d rows: got %d launches, wanted 1", rows, len(ls))
					}
					m.Launch(launches(t, ls, err)...)
					for i := range cs {
						for j, v := range m.ReadFloats(cs[i].Y.Addr, rows*cs[i].Y.Stride) {
							if math.Float32bits(v) != math.Float32bits(want[i][j]) {
								t.Fatalf("%d rows of %v: value %d is %v, alone %v", rows, mix.types[i], j, v, want[i][j])
							}
						}
					}
				}
			})
		})
	}
}

// TestIntMixedApart: what one launch cannot do is several, and none is lost.
func TestIntMixedApart(t *testing.T) {
	q4, q6, q5, q8, half := &kernel.Weight{Type: kernels.Q4_K}, &kernel.Weight{Type: kernels.Q6_K}, &kernel.Weight{Type: kernels.Q5_0},
		&kernel.Weight{Type: kernels.Q8_0}, &kernel.Weight{Type: kernels.F16}
	for _, c := range []struct {
		ws   []*kernel.Weight
		rows int
		want int
	}{
		{[]*kernel.Weight{q4, q6}, 1, 1},
		{[]*kernel.Weight{q4, q6}, 8, 1},
		{[]*kernel.Weight{q4, q6}, 9, 4}, // rounded and multiplied each
		{[]*kernel.Weight{q4, q6, q4}, 1, 1},
		{[]*kernel.Weight{q4, q6, q4, q6}, 1, 2},
		{[]*kernel.Weight{q4, q8}, 1, 2}, // blocks of 256 and of 32
		{[]*kernel.Weight{q5, q8, q6}, 1, 2},
		{[]*kernel.Weight{q4, half, q6}, 1, 3},
	} {
		var cs []kernel.LinearCall
		for _, w := range c.ws {
			w.N, w.K = 64, 1024
			cs = append(cs, kernel.LinearCall{Rows: c.rows, X: kernel.Mat{Addr: 256, Stride: 1024}, Y: kernel.Mat{Addr: 65536, Stride: 64}})
		}
		ls, err := kernel.Linears(kernel.Target{Compute: 80, SMs: 8, Shared: 99 << 10}, c.ws, cs)
		if err != nil || len(ls) != c.want {
			t.Errorf("%d weights, %d rows: got %d launches and %v, wanted %d", len(c.ws), c.rows, len(ls), err, c.want)
		}
	}
}

// TestIntShare: blocks of several types get about as many bytes each, and there
// are no more of them than there is room for.
func TestIntShare(t *testing.T) {
	for _, c := range []struct {
		outs  []int
		types []kernels.DType
		slots int
		want  string // blocks
	}{
		{[]int{160}, []kernels.DType{kernels.Q4_K}, 4, "[4]"}, // 3 strips each
		{[]int{160}, []kernels.DType{kernels.Q4_K}, 7, "[5]"}, // 2
		{[]int{16}, []kernels.DType{kernels.Q4_K}, 7, "[1]"},  // no more blocks than strips
		{[]int{5120, 1024}, []kernels.DType{kernels.Q4_K, kernels.Q6_K}, 132, "[80 32]"},
		{[]int{160, 160, 160}, []kernels.DType{kernels.Q4_0, kernels.Q5_0, kernels.Q8_0}, 2, "[1 1 1]"}, // at least one each
	} {
		var ws []*kernel.Weight
		for i, typ := range c.types {
			ws = append(ws, &kernel.Weight{Type: typ, N: c.outs[i], K: 4096})
		}
		if got := fmt.Sprint(kernel.IntShare(ws, c.slots)); got != c.want {
			t.Errorf("%v outputs of %v in %d blocks: got %s, wanted %s", c.outs, c.types, c.slots, got, c.want)
		}
	}
}
