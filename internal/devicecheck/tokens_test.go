package main

import (
	"testing"

	"hearth/kernels"
	"hearth/kernels/cpu"
	"hearth/kernels/kerneltest"
	"hearth/kernels/ref"
)

// wrong gives token 5 more weight every second step.
type wrong struct {
	kernels.Device
	by    float32
	steps int
}

func (w *wrong) Step(b *kernels.Batch) error {
	err := w.Device.Step(b)
	if w.steps++; w.steps%2 == 0 {
		b.Logits[5] += w.by
	}
	return err
}

// The same program on two devices gives the same tokens; what is wrong is told,
// and is not carried on into the next step.
func TestFollow(t *testing.T) {
	s := kerneltest.SmolLM2(kernels.F32)
	s.Layers, s.Vocab, s.Width, s.FFN = 1, 512, 64, 128
	s.Heads, s.KVHeads, s.HeadDim = 2, 1, 32
	load := func(d kernels.Device) kernels.Device {
		if err := d.Load(kerneltest.Model(s, 1), kernels.KVConfig{Blocks: 8, BlockSize: blockSize, Type: kernels.F32}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	host := func() kernels.Device {
		d, err := cpu.New(cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		return load(d)
	}
	p := kerneltest.Model(s, 1)
	f, err := follow(host(), load(ref.New()), p, 6, 8)
	if err != nil || f.equal != 6 || f.worst > 1e-3 {
		t.Errorf("one program: %+v, %v", f, err)
	}
	f, err = follow(host(), &wrong{Device: load(ref.New()), by: 1000}, p, 6, 8)
	if err != nil || f.equal != 3 || f.ties != 0 || f.worst < 999 {
		t.Errorf("every second wrong: %+v, %v", f, err)
	}
}
