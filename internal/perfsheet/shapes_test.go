package main

import (
	"strings"
	"testing"

	"hearth/kernels"
)

// The weights of every shape in every format are those of the published files,
// by parameter count; the program is what the engine builds.
func TestShapes(t *testing.T) {
	want := map[string]float64{"SmolLM2-135M": 134.5e6, "Gemma-3-270M": 268.1e6, "Qwen2.5-0.5B": 494.0e6, "Llama-3.2-1B": 1235.8e6, "Qwen2.5-7B": 7615.6e6, "Llama-3.1-8B": 8030.3e6}
	for i := range shapes {
		s := &shapes[i]
		f, p, err := s.open(t.TempDir())
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		defer f.Close()
		n := 0.0
		for _, x := range p.Tensors {
			n += float64(x.Rows) * float64(x.Cols)
		}
		if n < want[s.name]*0.999 || n > want[s.name]*1.001 {
			t.Errorf("%s: got %.1f M weights, wanted %.1f M", s.name, n/1e6, want[s.name]/1e6)
		}
		bytes := map[string]float64{}
		for _, form := range formats {
			q, err := retype(p, s, form.of)
			if err != nil {
				t.Fatalf("%s %s: %v", s.name, form.name, err)
			}
			size := 0.0
			for _, x := range q.Tensors {
				size += float64(fileBytes(x.Type, x.Rows, x.Cols))
			}
			bytes[form.name] = size / n
			t.Logf("%s %s: %.3f bytes a weight", s.name, form.name, bytes[form.name])
		}
		if b := bytes["BF16"]; b < 2 || b > 2.002 {
			t.Errorf("%s: BF16 has %.3f bytes a weight", s.name, b)
		}
		if b := bytes["Q8_0"]; b < 1.0625 || b > 1.064 {
			t.Errorf("%s: Q8_0 has %.3f bytes a weight", s.name, b)
		}
		if b := bytes["W4A16"]; b < 0.5 || b > 1.5 {
			t.Errorf("%s: W4A16 has %.3f bytes a weight", s.name, b)
		}
		if b := bytes["Q4_K_M"]; b < 0.6 || b > 0.95 {
			t.Errorf("%s: Q4_K_M has %.3f bytes a weight", s.name, b)
		}
	}
}

// Rows of the mixture against those of a published file of Qwen2.5-0.5B.
func TestMixture(t *testing.T) {
	small, large := &shapes[2], &shapes[5]
	for _, c := range []struct {
		s    *shape
		name string
		cols int
		want kernels.DType
	}{
		{small, "model.embed_tokens.weight", 896, kernels.Q8_0},
		{small, "model.layers.0.self_attn.q_proj.weight", 896, kernels.Q5_0},
		{small, "model.layers.0.self_attn.v_proj.weight", 896, kernels.Q8_0},
		{small, "model.layers.3.self_attn.v_proj.weight", 896, kernels.Q5_0},
		{small, "model.layers.0.mlp.down_proj.weight", 4864, kernels.Q6_K},
		{small, "model.layers.3.mlp.down_proj.weight", 4864, kernels.Q4_K},
		{large, "model.embed_tokens.weight", 4096, kernels.Q4_K},
		{large, "lm_head.weight", 4096, kernels.Q6_K},
		{large, "model.layers.31.mlp.down_proj.weight", 14336, kernels.Q6_K},
	} {
		got, err := mixture(&kernels.Tensor{Name: c.name, Cols: c.cols}, c.s)
		if err != nil || got != c.want {
			t.Errorf("%s %s: got %v, %v, wanted %v", c.s.name, c.name, got, err, c.want)
		}
	}
	if _, err := mixture(&kernels.Tensor{Name: "v_proj", Cols: 256}, small); err == nil || !strings.Contains(err.Error(), "layer") {
		t.Errorf("a projection of no layer: got %v", err)
	}
}
