package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/kerneltest"
	"hearth/kernels/ptx/ptxtest"
)

// postTypes are one type of each family of linears.
var postTypes = []kernels.DType{kernels.Q8_0, kernels.Q4_K, kernels.BF16, kernels.F32}

// TestPostNorm: a linear that ends with a norm and a sum gives the bits that
// three launches give, the first time and again.
func TestPostNorm(t *testing.T) {
	for _, typ := range postTypes {
		for _, n := range []int{35, 1064} {
			t.Run(fmt.Sprintf("%v/%d", typ, n), func(t *testing.T) {
				ptxtest.Run(t, ptxtest.Options{Memory: 16 << 20}, func(t testing.TB, m *ptxtest.Machine) { runPost(t, m, typ, n) })
			})
		}
	}
}

func runPost(t testing.TB, m *ptxtest.Machine, typ kernels.DType, n int) {
	const k, most, eps = 256, 9, 1e-6
	rng := rand.New(rand.NewPCG(uint64(typ), uint64(n)))
	w := kerneltest.Tensor(rng, "w", typ, n, k, 1/16.0)
	weight, err := kernel.NewWeight([]*kernels.Tensor{&w}, false, false)
	if err != nil {
		t.Fatal(err)
	}
	packed := make([]byte, weight.Bytes)
	weight.Pack(packed, 0)
	weight.Addr = m.Bytes(packed)
	stride := (n+3)/4*4 + 4
	call := kernel.LinearCall{X: kernel.Mat{Addr: m.Floats(randomFloats(rng, most*k)), Stride: k},
		Scratch: m.Room(int(kernel.ScratchBytes(weight, most))), Counters: m.Bytes(make([]byte, kernel.CounterBytes))}
	norm, residual := m.Floats(randomFloats(rng, n)), randomFloats(rng, most*stride)
	before := randomFloats(rng, most*stride) // what lies beside a row must not count
	room := func() kernel.Mat { return kernel.Mat{Addr: m.Floats(before), Stride: stride} }
	for _, rows := range []int{1, 3, 8, most} {
		call.Rows, call.Post = rows, nil
		sums := [3]kernel.Mat{}
		for i := range sums {
			sums[i] = kernel.Mat{Addr: m.Floats(residual), Stride: stride}
		}
		call.Y = room()
		ls, err := kernel.Linear(intTarget(m), weight, call)
		m.Launch(launches(t, ls, err)...)
		ls, err = kernel.NormAdd(rowsTarget, call.Y, sums[0], norm, rows, n, eps)
		m.Launch(launches(t, ls, err)...)
		y, want := m.ReadFloats(call.Y.Addr, most*stride), m.ReadFloats(sums[0].Addr, most*stride)
		for _, sum := range sums[1:] {
			call.Y, call.Post = room(), &kernel.PostNorm{W: norm, Eps: eps, Sum: sum}
			ls, err := kernel.Linear(intTarget(m), weight, call)
			if rows <= 8 && len(ls) > 1 {
				t.Fatalf("%d rows: got %d launches, wanted 1", rows, len(ls))
			}
			m.Launch(launches(t, ls, err)...)
			equal(t, fmt.Sprint(rows, " rows, y"), m.ReadFloats(call.Y.Addr, most*stride), y)
			equal(t, fmt.Sprint(rows, " rows, the sum"), m.ReadFloats(sum.Addr, most*stride), want)
		}
	}
}

// equal compares bits.
func equal(t testing.TB, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %v, wanted %v", what, i, got[i], want[i])
		}
	}
}

// TestPostNormRefused: what cannot be normed and added is not.
func TestPostNormRefused(t *testing.T) {
	good := kernel.LinearCall{Rows: 1, X: kernel.Mat{Addr: 256, Stride: 256}, Y: kernel.Mat{Addr: 65536, Stride: 64},
		Post: &kernel.PostNorm{W: 256, Sum: kernel.Mat{Addr: 4096, Stride: 64}}}
	for name, bad := range map[string]func(*kernel.Weight, *kernel.LinearCall){
		"":         func(*kernel.Weight, *kernel.LinearCall) {},
		"residual": func(_ *kernel.Weight, c *kernel.LinearCall) { c.Residual = true },
		"gated":    func(w *kernel.Weight, c *kernel.LinearCall) { w.Gated, c.Act = true, kernel.SiluMul },
		"y":        func(_ *kernel.Weight, c *kernel.LinearCall) { c.Y.Stride = 63 },
		"weights":  func(_ *kernel.Weight, c *kernel.LinearCall) { c.Post = &kernel.PostNorm{W: 4, Sum: c.Post.Sum} },
	} {
		w, c := &kernel.Weight{Type: kernels.Q8_0, N: 64, K: 256}, good
		bad(w, &c)
		if _, err := kernel.Linear(kernel.Target{Compute: 80, SMs: 8, Shared: 99 << 10}, w, c); (err != nil) != (name != "") {
			t.Errorf("%q: got %v", name, err)
		}
	}
}
