package kernel_test

import (
	"bytes"
	"testing"

	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx/ptxtest"
)

// Blocks of one and of several parts, the last of them not full; pairs of padding.
func TestBlocks(t *testing.T) {
	ptxtest.Run(t, ptxtest.Options{Memory: 2 << 20}, func(t testing.TB, m *ptxtest.Machine) {
		for _, size := range []int{16, 4096 + 48, 16384, 3*16384 + 16} {
			const n = 6
			want := make([]byte, n*size)
			for i := range want {
				want[i] = byte(i*7 + i>>8 + i>>16)
			}
			cache := m.Bytes(want)
			run := func(ls []kernel.Launch, err error) {
				must(t, err)
				m.Launch(ls...)
			}
			block := func(i int) []byte { return want[i*size:][:size] }
			run(kernel.CopyBlocks(kernel.Target{}, cache, int64(size), m.Ints([]int32{1, 5, -1, 2, 3, 0, 3, -1}), 4))
			copy(block(5), block(1))
			copy(block(0), block(3))
			run(kernel.ZeroBlocks(kernel.Target{}, cache, int64(size), m.Ints([]int32{2, -1, 4}), 3))
			clear(block(2))
			clear(block(4))
			if got := m.ReadBytes(cache, len(want)); !bytes.Equal(got, want) {
				t.Errorf("blocks of %d bytes are not as they should be", size)
			}
		}
		if m.Counts.Sectors > m.Counts.IdealSectors*11/10 {
			t.Errorf("%d sectors, wanted %d", m.Counts.Sectors, m.Counts.IdealSectors)
		}
	})
	for _, f := range []func() ([]kernel.Launch, error){
		func() ([]kernel.Launch, error) { return kernel.CopyBlocks(kernel.Target{}, 256, 24, 256, 1) },
		func() ([]kernel.Launch, error) { return kernel.CopyBlocks(kernel.Target{}, 8, 32, 256, 1) },
		func() ([]kernel.Launch, error) { return kernel.ZeroBlocks(kernel.Target{}, 256, 32, 256, 0) },
	} {
		if _, err := f(); err == nil {
			t.Error("a bad call was taken")
		}
	}
}
