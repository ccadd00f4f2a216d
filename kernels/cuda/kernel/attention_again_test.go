package kernel_test

import (
	"slices"
	"testing"

	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx/ptxtest"
)

// TestAttentionAgain: a decode launch leaves its counters as it found them, and
// blocks that take several chunks each give the bits of blocks that take one.
func TestAttentionAgain(t *testing.T) {
	for _, typ := range kvTypes {
		c := attnCase{spec: attnSpec(3, 1, 32), typ: typ, blockSize: 16, lengths: []int{600}, spans: [][3]int{{0, 598, 2}, {0, 300, 1}}}
		t.Run(typ.String(), func(t *testing.T) {
			ptxtest.Run(t, ptxtest.Options{Memory: 3 << 20}, func(t testing.TB, m *ptxtest.Machine) {
				r := startAttn(t, m, c)
				first, where, _ := r.decode()
				again := first
				again.Out.Addr = r.Room(4 * first.Rows * first.Out.Stride)
				for i, sms := range []int{4, 1, 1} { // three chunks by three blocks, then by two
					r.target.SMs = sms
					r.run(kernel.Decode(r.target, again))
					for row := range where {
						if !slices.Equal(attnBits(r.out(again, row)), attnBits(r.out(first, row))) {
							t.Fatalf("launch %d with %d multiprocessors: row %d has other bits than at first", i, sms, row)
						}
					}
				}
			})
		})
	}
}
