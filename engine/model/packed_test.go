package model

import (
	"fmt"
	"slices"
	"testing"

	"hearth/engine/weights/gguftest"
	"hearth/kernels"
	"hearth/kernels/cpu"
)

var packings = []gguftest.Packing{
	{Method: "awq", Bits: 4, Group: 32},
	{Method: "awq", Bits: 4, Group: 64},
	{Method: "awq", Bits: 4, Group: -1},
	{Method: "gptq", Bits: 4, Group: 64},
	{Method: "gptq", Bits: 4, Group: 32, Symmetric: true},
	{Method: "gptq", Bits: 4, Group: 32, V2: true},
	{Method: "gptq", Bits: 8, Group: 32, Symmetric: true},
	{Method: "gptq", Bits: 8, Group: -1, V2: true},
	{Method: "pack", Bits: 4, Group: 32, Symmetric: true},
	{Method: "pack", Bits: 4, Group: 64},
	{Method: "pack", Bits: 8, Group: -1, Symmetric: true},
	{Method: "gptq", Bits: 4, Group: 32, Activated: true},
	{Method: "gptq", Bits: 8, Group: 32, Activated: true, Apart: true},
	{Method: "pack", Bits: 4, Group: 32, Activated: true},
	{Method: "fp8"},
	{Method: "fp8", Rows: true},
	{Method: "fp8", Block: 32},
	{Method: "fp8", Block: 96},
}

// TestPackedModels: a quantized directory is the same model as one with the
// numbers that it stands for: bit for bit on the reference device, and near to it
// on the CPU.
func TestPackedModels(t *testing.T) {
	ids := []int32{1, 17, 200, 42, 9, 256, 3}
	for i, p := range packings {
		t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) {
			packed, plain := gguftest.Packed(gguftest.Options{Seed: uint64(i), Untied: i%2 == 1}, p)
			a, ca := open(t, gguftest.WriteFiles(t, packed))
			b, cb := open(t, gguftest.WriteFiles(t, plain))
			want := newRunner(t, b).feed(ids, len(ids))
			if got := newRunner(t, a).feed(ids, len(ids)); !slices.Equal(got, want) {
				t.Errorf("logits differ by %g", worst(got, want))
			}
			name := map[string]string{"awq": "AWQ", "gptq": fmt.Sprintf("GPTQ-INT%d", p.Bits), "pack": fmt.Sprintf("INT%d", p.Bits), "fp8": "FP8"}[p.Method]
			if ca.Quantization != name || ca.Parameters != cb.Parameters {
				t.Errorf("got %s with %d parameters, wanted %s with %d", ca.Quantization, ca.Parameters, name, cb.Parameters)
			}
			for _, act := range []string{"f32", "q8"} {
				d, err := cpu.New(cpu.Options{Threads: 2, Activations: act})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				if err := d.Load(a, kernels.KVConfig{Blocks: 16, BlockSize: 16, Type: kernels.F32}); err != nil {
					t.Fatal(err)
				}
				r := &runner{t: t, p: a, dev: d}
				tol := map[string]float64{"f32": 1e-4, "q8": 0.2}[act]
				if off := worst(r.feed(ids, len(ids)), want); !(off <= tol) {
					t.Errorf("cpu with %s activations: logits differ by %g", act, off)
				}
			}
		})
	}
}
