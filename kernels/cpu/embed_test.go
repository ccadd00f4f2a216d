package cpu

import (
	"slices"
	"testing"

	"hearth/kernels"
	"hearth/kernels/kerneltest"
	"hearth/kernels/ref"
)

// A matrix that embeds as well is held once: its bytes in the file are given
// back, and what becomes of them changes nothing.
func TestTiedEmbedding(t *testing.T) {
	for _, c := range kerneltest.Cases() {
		o, w := &c.Program.Ops[0], &c.Program.Tensors[0]
		if o.Kind != kernels.OpEmbed || len(c.Program.Ops) != 2 || c.Program.Ops[1].Kind != kernels.OpLinear || c.Program.Ops[1].W != o.W || stored(w) != w.Type {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			want := kerneltest.Outputs(t, ref.New(), &c)
			if n, err := Need(c.Program, 1, Options{}); err != nil || n.MappedBytes != 0 {
				t.Errorf("%d bytes stay mapped, %v", n.MappedBytes, err)
			}
			w.Data = slices.Clone(w.Data)
			given := 0
			d, err := New(Options{Threads: 2, Release: func(b []byte) { given += len(b); clear(b) }})
			if err != nil {
				t.Fatal(err)
			}
			got := kerneltest.Outputs(t, d, &c)
			if given != len(w.Data) {
				t.Errorf("%d of %d bytes were given back", given, len(w.Data))
			}
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Fatalf("step %d: got %v, want %v", i, got[i][:8], want[i][:8])
				}
			}
		})
	}
}
