package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx/ptxtest"
)

// target is what launches are made for; its fields do not change these kernels.
var rowsTarget = kernel.Target{Compute: 80, SMs: 8, Shared: 99 << 10}

func launches(t testing.TB, ls []kernel.Launch, err error) []kernel.Launch {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return ls
}

func randomFloats(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// TestEmbed: rows of every type have the bits of kernels.Dequantize.
func TestEmbed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	ptxtest.Run(t, ptxtest.Options{}, func(t testing.TB, m *ptxtest.Machine) {
		for typ := kernels.F32; typ <= kernels.IQ4_NL; typ++ {
			const vocab = 7
			width := 3 * typ.BlockValues()
			if typ.BlockValues() == 1 {
				width = 301
			}
			data := make([]byte, vocab*typ.RowBytes(width))
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			want := make([]float32, vocab*width)
			if err := kernels.Dequantize(want, typ, data); err != nil {
				t.Fatal(err)
			}
			tokens := []int32{3, 0, 6, -1, 3, vocab}
			stride := width + 5
			dst := m.Room(4 * stride * len(tokens))
			p := kernel.Plan{Tokens: m.Ints(tokens)}
			ls, err := kernel.Embed(rowsTarget, m.Bytes(data), typ, vocab, width, p, kernel.Mat{Addr: dst, Stride: stride}, len(tokens), 1.5)
			m.Launch(launches(t, ls, err)...)
			for i, tok := range tokens {
				got := m.ReadFloats(dst+kernel.Addr(4*stride*i), width)
				for k, g := range got {
					w := float32(0)
					if tok >= 0 && tok < vocab {
						w = float32(want[int(tok)*width+k] * 1.5)
					}
					if g != w && !(g != g && w != w) {
						t.Fatalf("%v: value %d of token %d is %v, want %v", typ, k, tok, g, w)
					}
				}
			}
		}
	})
}

func TestRMSNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	ptxtest.Run(t, ptxtest.Options{}, func(t testing.TB, m *ptxtest.Machine) {
		for _, c := range []struct{ rows, width, group int }{{1, 1, 0}, {3, 576, 0}, {2, 257, 0}, {5, 1000, 0}, {2, 640, 64}, {3, 72, 8}, {1, 99, 33}} {
			group := c.group
			if group == 0 {
				group = c.width
			}
			x, w := randomFloats(r, c.rows*c.width), randomFloats(r, group)
			dst := m.Room(4 * len(x))
			ls, err := kernel.RMSNorm(rowsTarget, kernel.Mat{Addr: m.Floats(x), Stride: c.width}, kernel.Mat{Addr: dst, Stride: c.width}, m.Floats(w), c.rows, c.width, c.group, 1e-5)
			m.Launch(launches(t, ls, err)...)
			got := m.ReadFloats(dst, len(x))
			for g := 0; g < len(x); g += group {
				var sum float64
				for _, v := range x[g : g+group] {
					sum += float64(v) * float64(v)
				}
				inv := 1 / math.Sqrt(sum/float64(group)+1e-5)
				for i := range group {
					want := float64(x[g+i]) * inv * float64(w[i])
					if math.Abs(float64(got[g+i])-want) > 1e-6*(1+math.Abs(want)) {
						t.Fatalf("%+v: value %d is %v, want %v", c, g+i, got[g+i], want)
					}
				}
			}
		}
		if _, err := kernel.RMSNorm(rowsTarget, kernel.Mat{}, kernel.Mat{}, 0, 1, 10, 3, 0); err == nil {
			t.Error("groups that do not divide a row are taken")
		}
	})
}

func TestElementwise(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	ops := map[kernels.OpKind]func(d, a, b float64) float64{
		kernels.OpAdd:     func(d, a, _ float64) float64 { return d + a },
		kernels.OpScale:   func(d, _, _ float64) float64 { return d * 2.5 },
		kernels.OpSoftCap: func(d, _, _ float64) float64 { return 2.5 * math.Tanh(d/2.5) },
		kernels.OpSiluMul: func(_, a, b float64) float64 { return a / (1 + math.Exp(-a)) * b },
		kernels.OpGeluMul: func(_, a, b float64) float64 {
			return 0.5 * a * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(a+0.044715*a*a*a))) * b
		},
	}
	ptxtest.Run(t, ptxtest.Options{}, func(t testing.TB, m *ptxtest.Machine) {
		for op, f := range ops {
			const rows, width, stride = 3, 1111, 1200
			d, a, b := randomFloats(r, rows*stride), randomFloats(r, rows*stride), randomFloats(r, rows*stride)
			for i := range 40 { // far out
				a[i], d[i] = float32(i-20)*5, float32(i-20)*5
			}
			dst := m.Floats(d)
			mat := func(x kernel.Addr) kernel.Mat { return kernel.Mat{Addr: x, Stride: stride} }
			ls, err := kernel.Elementwise(rowsTarget, op, mat(dst), mat(m.Floats(a)), mat(m.Floats(b)), rows, width, 2.5)
			m.Launch(launches(t, ls, err)...)
			got := m.ReadFloats(dst, rows*stride)
			for i, g := range got {
				want := float64(d[i])
				if i%stride < width {
					want = f(float64(d[i]), float64(a[i]), float64(b[i]))
				}
				if math.Abs(float64(g)-want) > 3e-6*(1e-3+math.Abs(want)) {
					t.Fatalf("op %d: value %d is %v, want %v", op, i, g, want)
				}
			}
		}
		if _, err := kernel.Elementwise(rowsTarget, kernels.OpLinear, kernel.Mat{}, kernel.Mat{}, kernel.Mat{}, 1, 1, 0); err == nil {
			t.Error("a linear is taken for an elementwise op")
		}
	})
}

func TestGather(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	ptxtest.Run(t, ptxtest.Options{}, func(t testing.TB, m *ptxtest.Machine) {
		const width = 1030
		src := randomFloats(r, 4*width)
		rows := []int32{2, -1, 0, 3, 3}
		dst := m.Room(4 * width * len(rows))
		ls, err := kernel.Gather(rowsTarget, kernel.Mat{Addr: m.Floats(src), Stride: width}, kernel.Mat{Addr: dst, Stride: width}, kernel.Plan{Gather: m.Ints(rows)}, len(rows), width)
		m.Launch(launches(t, ls, err)...)
		got := m.ReadFloats(dst, width*len(rows))
		for i, row := range rows {
			for k := range width {
				want := float32(0)
				if row >= 0 {
					want = src[int(row)*width+k]
				}
				if got[i*width+k] != want {
					t.Fatalf("row %d value %d is %v, want %v", i, k, got[i*width+k], want)
				}
			}
		}
	})
}
