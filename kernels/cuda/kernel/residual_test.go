package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx/ptxtest"
)

func near(t testing.TB, what string, got, want []float32, tol float64) {
	t.Helper()
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > tol*max(1, math.Abs(float64(want[i]))) {
			t.Fatalf("%s: value %d is %v, wanted %v", what, i, got[i], want[i])
		}
	}
}

// TestNormAdd: the norm of x is added to dst, and nothing else is written.
func TestNormAdd(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	ptxtest.Run(t, ptxtest.Options{}, func(t testing.TB, m *ptxtest.Machine) {
		for _, width := range []int{1, 7, 64, 1025, 2304} {
			const rows, eps = 3, 1e-6
			stride := (width+3)/4*4 + 8
			x, d, w := randomFloats(r, rows*stride), randomFloats(r, rows*stride), randomFloats(r, width)
			want := append([]float32(nil), d...)
			for row := range rows {
				var sum float64
				for _, v := range x[row*stride : row*stride+width] {
					sum += float64(v) * float64(v)
				}
				inv := 1 / math.Sqrt(sum/float64(width)+eps)
				for i := range width {
					want[row*stride+i] += float32(float64(x[row*stride+i]) * inv * float64(w[i]))
				}
			}
			dst := m.Floats(d)
			ls, err := kernel.NormAdd(rowsTarget, kernel.Mat{Addr: m.Floats(x), Stride: stride}, kernel.Mat{Addr: dst, Stride: stride}, m.Floats(w), rows, width, eps)
			m.Launch(launches(t, ls, err)...)
			near(t, "norm and add", m.ReadFloats(dst, rows*stride), want, 2e-6)
		}
	})
}

// TestRope: pairs of both kinds are turned, by the row's position; padding rows are
// left alone.
func TestRope(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 2))
	ptxtest.Run(t, ptxtest.Options{}, func(t testing.TB, m *ptxtest.Machine) {
		for _, c := range []struct{ heads, headDim, dim int }{{1, 2, 2}, {3, 20, 12}, {9, 64, 64}, {5, 128, 128}} {
			for _, neox := range []bool{false, true} {
				pos := []int32{4, -1, 0, 6}
				half, width := c.dim/2, c.heads*c.headDim
				stride := (width+3)/4*4 + 4
				x, table := randomFloats(r, len(pos)*stride), randomFloats(r, 7*c.dim)
				want := append([]float32(nil), x...)
				for row, p := range pos {
					for i := range c.heads * half {
						if p < 0 {
							continue
						}
						h, pair := row*stride+i/half*c.headDim, i%half
						a, b := h+2*pair, h+2*pair+1
						if neox {
							a, b = h+pair, h+pair+half
						}
						cos, sin := float64(table[2*(int(p)*half+pair)]), float64(table[2*(int(p)*half+pair)+1])
						u, v := float64(x[a]), float64(x[b])
						want[a], want[b] = float32(u*cos-v*sin), float32(u*sin+v*cos)
					}
				}
				mat := kernel.Mat{Addr: m.Floats(x), Stride: stride}
				ls, err := kernel.Rope(rowsTarget, mat, kernel.Plan{Pos: m.Ints(pos)}, kernel.Rotation{Table: m.Floats(table), Dim: c.dim, NeoX: neox}, len(pos), c.heads, c.headDim)
				m.Launch(launches(t, ls, err)...)
				near(t, "rotate", m.ReadFloats(mat.Addr, len(x)), want, 1e-6)
			}
		}
	})
}
