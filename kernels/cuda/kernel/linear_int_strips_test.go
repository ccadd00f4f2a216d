package kernel_test

import (
	"math"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx/ptxtest"
)

// TestIntStrips: a block of gemv that goes through many strips keeps their sums
// apart.
func TestIntStrips(t *testing.T) {
	c := &intCase{typ: kernels.Q4_0, parts: []int{131}, k: 13 * 32}
	c.make()
	want, tol := c.reference(t, 5)
	ptxtest.Run(t, ptxtest.Options{Memory: 16 << 20}, func(t testing.TB, m *ptxtest.Machine) {
		w, call := c.upload(t, m)
		for _, call.Rows = range []int{1, 5} {
			ls, err := kernel.IntGemv(kernel.Target{Compute: m.Target, SMs: 1, Shared: 99 << 10}, w, call)
			if err != nil {
				t.Fatal(err)
			}
			m.Launch(ls...)
			for i, v := range m.ReadFloats(call.Y.Addr, call.Rows*c.out) {
				if !(math.Abs(float64(v)-want[i]) <= tol[i]) {
					t.Fatalf("%d rows: row %d, output %d: got %g, wanted %g ± %g", call.Rows, i/c.out, i%c.out, v, want[i], tol[i])
				}
			}
		}
	})
}

// TestIntWaves holds small calls to whole sectors and to shared memory without
// bank conflicts; TestIntTraffic measures large ones.
func TestIntWaves(t *testing.T) {
	for _, typ := range []kernels.DType{kernels.Q4_0} {
		c := &intCase{typ: typ, parts: []int{128}, k: 512}
		c.make()
		t.Run(typ.String(), func(t *testing.T) {
			ptxtest.Run(t, ptxtest.Options{Memory: 16 << 20}, func(t testing.TB, m *ptxtest.Machine) {
				w, call := c.upload(t, m)
				for _, call.Rows = range []int{1, 8, 32} {
					ls, err := kernel.IntTile(intTarget(m), w, call, true)
					if call.Rows <= 8 {
						ls, err = kernel.IntGemv(kernel.Target{Compute: m.Target, SMs: 2, Shared: 99 << 10}, w, call)
					}
					if err != nil {
						t.Fatal(err)
					}
					reps := m.Launch(ls...)
					n := reps[len(reps)-1].Counts
					sectors, waves := float64(n.Sectors)/float64(n.IdealSectors), float64(n.SharedWaves)/float64(n.IdealWaves)
					if sectors > 1.1 || waves > 1.05 {
						t.Errorf("%d rows: got sectors/ideal %.3f, waves/ideal %.3f, wanted at most 1.1 and 1.05", call.Rows, sectors, waves)
					}
				}
			})
		})
	}
}
