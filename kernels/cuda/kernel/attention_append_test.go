package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx/ptxtest"
)

// appended puts rows of keys into an empty cache of one head and reads them back.
func appended(t testing.TB, m *ptxtest.Machine, typ kernel.KVType, x []float32, dim int) []float32 {
	rows := len(x) / dim
	c := attnCase{spec: attnSpec(1, 1, dim), typ: typ, blockSize: 16, lengths: []int{rows}}
	r := &attnRun{attnCase: c, Machine: m, t: t}
	r.lay(rand.New(rand.NewPCG(1, 2)))
	at := kernel.Mat{Addr: m.Floats(x), Stride: dim}
	r.call.Rows, r.call.Q, r.call.K, r.call.V, r.call.Out = rows, at, at, at, at
	r.place(r.at, 0, &r.call.Plan)
	r.run(kernel.AppendKV(kernel.Target{}, r.call))
	var out []float32
	for i := range rows {
		k, _ := r.cached(0, i)
		out = append(out, k...)
	}
	return out
}

// TestAppendRounds: every number between neighbours goes to the nearer one, ties
// to the even one, as the formats' rules say.
func TestAppendRounds(t *testing.T) {
	var codes []float32 // e4m3, rising; the index is the code
	for i := range 127 {
		codes = append(codes, decodeKV(kernel.KVFP8, []byte{byte(i)}))
	}
	var x []float32
	var fp8 []float32
	for i := range codes[:126] {
		lo, hi := codes[i], codes[i+1]
		mid, even := (lo+hi)/2, lo
		if i&1 == 1 {
			even = hi
		}
		x = append(x, lo, mid, math.Nextafter32(mid, 0), -math.Nextafter32(mid, 1e9))
		fp8 = append(fp8, lo, even, lo, -hi)
	}
	for len(x) < 512 {
		x, fp8 = append(x, 0.001), append(fp8, 0.001953125)
	}
	ptxtest.Run(t, ptxtest.Options{Memory: 1 << 20}, func(t testing.TB, m *ptxtest.Machine) {
		for i, got := range appended(t, m, kernel.KVFP8, x, 64) {
			if got != fp8[i] {
				t.Fatalf("e4m3 of %v: got %v, wanted %v", x[i], got, fp8[i])
			}
		}
		for i, got := range appended(t, m, kernel.KVF16, x, 64) {
			if want := kernels.FromF16(kernels.ToF16(x[i])); got != want {
				t.Fatalf("f16 of %v: got %v, wanted %v", x[i], got, want)
			}
		}
		for i, got := range appended(t, m, kernel.KVBF16, x, 64) {
			if want := kernels.FromBF16(kernels.ToBF16(x[i])); got != want {
				t.Fatalf("bf16 of %v: got %v, wanted %v", x[i], got, want)
			}
		}
	})
}

// TestAppendBounds: what is too large becomes the largest number, since 0 times
// infinity would spoil rows that do not see it; what is no number stays none.
func TestAppendBounds(t *testing.T) {
	inf := float32(math.Inf(1))
	x := make([]float32, 16)
	copy(x, []float32{1e6, -1e6, inf, -inf, float32(math.NaN()), 1})
	largest := map[kernel.KVType]float32{kernel.KVF16: 65504, kernel.KVBF16: math.Float32frombits(0x7f7f0000), kernel.KVF32: math.MaxFloat32, kernel.KVFP8: 448}
	ptxtest.Run(t, ptxtest.Options{Memory: 1 << 20}, func(t testing.TB, m *ptxtest.Machine) {
		for typ, top := range largest {
			got := appended(t, m, typ, x, 16)
			if got[2] != top || got[3] != -top || (top < 1e6 && (got[0] != top || got[1] != -top)) || got[5] != 1 {
				t.Errorf("%v: got %v", typ, got)
			}
			if nan := got[4]; nan == nan && typ != kernel.KVFP8 || typ == kernel.KVFP8 && nan != 480 { // 0x7f, which decodeKV reads as a number
				t.Errorf("%v: no number became %v", typ, nan)
			}
		}
		for _, v := range appended(t, m, kernel.KVInt8, []float32{1e38, -inf, 5, 0, 1e38, -inf, 5, 0, 1e38, -inf, 5, 0, 1e38, -inf, 5, 0}, 16) {
			if math.IsInf(float64(v), 0) || v != v {
				t.Errorf("int8: got %v", v)
			}
		}
	})
}
