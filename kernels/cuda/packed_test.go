package cuda

import (
	"testing"

	"hearth/engine/model"
	"hearth/engine/weights"
	"hearth/engine/weights/gguftest"
	"hearth/kernels/cuda/cudatest"
	"hearth/kernels/ref"
)

// A quantized safetensors model computes what the reference device computes, whose
// linears are not rounded either.
func TestPackedModels(t *testing.T) {
	for name, p := range map[string]gguftest.Packing{
		"awq":   {Method: "awq", Bits: 4, Group: 32},
		"gptq":  {Method: "gptq", Bits: 4, Group: 64, Symmetric: true},
		"order": {Method: "gptq", Bits: 4, Group: 32, Activated: true},
		"apart": {Method: "pack", Bits: 8, Group: 32, Activated: true, Apart: true},
		"gptq8": {Method: "gptq", Bits: 8, Group: 32},
		"fp8":   {Method: "fp8", Rows: true},
		"block": {Method: "fp8", Block: 32},
	} {
		t.Run(name, func(t *testing.T) {
			files, _ := gguftest.Packed(gguftest.Options{Untied: true, Layers: 1}, p)
			f, err := weights.Open(gguftest.WriteFiles(t, files))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			prog, _, err := model.Build(f, model.Options{ContextLength: 64})
			if err != nil {
				t.Fatal(err)
			}
			tokens, want := continuation(t, ref.New(), prog, nil)
			_, got := continuation(t, interpreted(Options{Rows: 64, Sequences: 4}, cudatest.Options{Compute: 80, Lazy: true})(t), prog, tokens)
			if off, top := distance(got, want); !(off <= 1e-5*top) {
				t.Errorf("logits are up to %.3g off, the largest is %.3g", off, top)
			}
		})
	}
}
