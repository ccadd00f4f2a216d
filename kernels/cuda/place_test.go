package cuda

import (
	"errors"
	"slices"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/kerneltest"
)

// picky is a GPU whose driver refuses one module.
type picky struct {
	idle
	refused string
	loads   []string
	uploads int
}

var errRefused = errors.New("refused")

func (g *picky) Load(name string, _ []byte) error {
	g.loads = append(g.loads, name)
	if name == g.refused {
		return errRefused
	}
	return nil
}

func (g *picky) Upload(kernel.Addr, []byte) error { g.uploads++; return nil }

// Kernels are compiled before weights are sent, all that steps need, so that what
// the driver refuses is told at once and no request waits for its compiler.
func TestKernelsFirst(t *testing.T) {
	s := smallShape
	s.Type = kernels.Q4_K
	s.Width, s.FFN, s.HeadDim = 256, 512, 64
	p := kerneltest.Model(s, 1)
	open := func(refused string) (*picky, *Device, error) {
		g := &picky{idle: idle{addresses{next: 1 << 20}}, refused: refused}
		d, err := New(g, Options{Rows: 256, Sequences: 32})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return g, d, d.Load(p, kernels.KVConfig{Blocks: 256, BlockSize: 16, Type: kernels.F16})
	}
	g, d, err := open("")
	if err != nil || g.uploads == 0 {
		t.Fatalf("%d uploads, %v", g.uploads, err)
	}
	needed := slices.Clone(g.loads)
	for _, b := range []*kernels.Batch{some(p, 20, 1, 1, 1), some(p, 0, 90), some(p, 5, 1, 70, 1, 30, 9), some(p, 500, 1, 1)} {
		for range 2 { // logits, then chosen tokens
			if err := d.Step(b); err != nil {
				t.Fatal(err)
			}
			b.Choices, b.Picks = make([]kernels.Choice, len(b.LogitRows)), make([]kernels.Pick, len(b.LogitRows))
		}
	}
	if len(g.loads) != len(needed) || len(needed) < 5 {
		t.Errorf("loaded %q first, and %q for steps", needed, g.loads[len(needed):])
	}
	for _, name := range needed {
		if g, _, err := open(name); !errors.Is(err, errRefused) || g.uploads != 0 {
			t.Errorf("%s refused: %d pieces of weights were sent, error %v", name, g.uploads, err)
		}
	}
}
