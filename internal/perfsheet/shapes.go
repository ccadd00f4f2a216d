package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hearth/engine/model"
	"hearth/engine/weights"
	"hearth/kernels"
)

// shape is a published model's configuration, as far as it decides cost.
type shape struct {
	name              string
	class             string
	hidden, ffn       int
	layers            int
	heads, kv, dim    int
	vocab             int
	tied, bias        bool
	ropeTheta         float64
	context           int
	normEps           float64
	ropeScalingLlama3 bool
	window            int // of all layers but every sixth; 0: none
}

// sandwiched is whether norms stand behind attention and MLP too, and queries and
// keys are normed.
func (s *shape) sandwiched() bool { return s.class == "Gemma3ForCausalLM" }

// windowOf is the number of positions that a layer's attention sees, 0 for all.
func (s *shape) windowOf(layer int) int {
	if layer%6 == 5 {
		return 0
	}
	return s.window
}

// shapes are as their config.json says.
var shapes = []shape{
	{name: "SmolLM2-135M", class: "LlamaForCausalLM", hidden: 576, ffn: 1536, layers: 30, heads: 9, kv: 3, dim: 64, vocab: 49152, tied: true, ropeTheta: 1e5, context: 8192, normEps: 1e-5},
	{name: "Gemma-3-270M", class: "Gemma3ForCausalLM", hidden: 640, ffn: 2048, layers: 18, heads: 4, kv: 1, dim: 256, vocab: 262144, tied: true, ropeTheta: 1e6, context: 32768, normEps: 1e-6, window: 512},
	{name: "Qwen2.5-0.5B", class: "Qwen2ForCausalLM", hidden: 896, ffn: 4864, layers: 24, heads: 14, kv: 2, dim: 64, vocab: 151936, tied: true, bias: true, ropeTheta: 1e6, context: 32768, normEps: 1e-6},
	{name: "Llama-3.2-1B", class: "LlamaForCausalLM", hidden: 2048, ffn: 8192, layers: 16, heads: 32, kv: 8, dim: 64, vocab: 128256, tied: true, ropeTheta: 5e5, context: 131072, normEps: 1e-5, ropeScalingLlama3: true},
	{name: "Qwen2.5-7B", class: "Qwen2ForCausalLM", hidden: 3584, ffn: 18944, layers: 28, heads: 28, kv: 4, dim: 128, vocab: 152064, bias: true, ropeTheta: 1e6, context: 32768, normEps: 1e-6},
	{name: "Llama-3.1-8B", class: "LlamaForCausalLM", hidden: 4096, ffn: 14336, layers: 32, heads: 32, kv: 8, dim: 128, vocab: 128256, ropeTheta: 5e5, context: 131072, normEps: 1e-5, ropeScalingLlama3: true},
}

// open makes a directory whose weights file has a header and a hole, and builds
// the program of it: the real loader and builder, and no weights. The result
// refers to the file's mapping.
func (s *shape) open(dir string) (*weights.File, *kernels.Program, error) {
	dir = filepath.Join(dir, s.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	config, err := json.Marshal(s.config())
	if err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil {
		return nil, nil, err
	}
	if err := s.hollow(filepath.Join(dir, "model.safetensors")); err != nil {
		return nil, nil, err
	}
	f, err := weights.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	p, _, err := model.Build(f, model.Options{ContextLength: min(s.context, 8192)})
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, p, nil
}

func (s *shape) config() map[string]any {
	c := map[string]any{
		"architectures": []string{s.class}, "model_type": strings.ToLower(strings.TrimSuffix(s.class, "ForCausalLM")),
		"hidden_size": s.hidden, "intermediate_size": s.ffn, "num_hidden_layers": s.layers, "num_attention_heads": s.heads,
		"num_key_value_heads": s.kv, "head_dim": s.dim, "vocab_size": s.vocab, "tie_word_embeddings": s.tied, "rope_theta": s.ropeTheta,
		"max_position_embeddings": s.context, "rms_norm_eps": s.normEps, "hidden_act": "silu", "torch_dtype": "bfloat16",
	}
	if s.sandwiched() {
		c["model_type"], c["hidden_act"] = "gemma3_text", "gelu_pytorch_tanh"
		c["query_pre_attn_scalar"], c["sliding_window"], c["rope_local_base_freq"] = s.dim, s.window, 1e4
	}
	if s.ropeScalingLlama3 {
		c["rope_scaling"] = map[string]any{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
	}
	return c
}

// hollow writes a safetensors file of the model's tensors in BF16, all a hole.
func (s *shape) hollow(path string) error {
	type tensor struct {
		Type    string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	header, end := map[string]tensor{}, int64(0)
	add := func(name string, dims ...int) {
		n := int64(2)
		for _, d := range dims {
			n *= int64(d)
		}
		header[name] = tensor{"BF16", dims, [2]int64{end, end + n}}
		end += n
	}
	add("model.embed_tokens.weight", s.vocab, s.hidden)
	for i := range s.layers {
		at := fmt.Sprintf("model.layers.%d.", i)
		for _, p := range []struct {
			name string
			rows int
		}{{"q", s.heads * s.dim}, {"k", s.kv * s.dim}, {"v", s.kv * s.dim}} {
			add(at+"self_attn."+p.name+"_proj.weight", p.rows, s.hidden)
			if s.bias {
				add(at+"self_attn."+p.name+"_proj.bias", p.rows)
			}
		}
		add(at+"self_attn.o_proj.weight", s.hidden, s.heads*s.dim)
		add(at+"mlp.gate_proj.weight", s.ffn, s.hidden)
		add(at+"mlp.up_proj.weight", s.ffn, s.hidden)
		add(at+"mlp.down_proj.weight", s.hidden, s.ffn)
		add(at+"input_layernorm.weight", s.hidden)
		add(at+"post_attention_layernorm.weight", s.hidden)
		if s.sandwiched() {
			add(at+"pre_feedforward_layernorm.weight", s.hidden)
			add(at+"post_feedforward_layernorm.weight", s.hidden)
			add(at+"self_attn.q_norm.weight", s.dim)
			add(at+"self_attn.k_norm.weight", s.dim)
		}
	}
	add("model.norm.weight", s.hidden)
	if !s.tied {
		add("lm_head.weight", s.vocab, s.hidden)
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)); err != nil {
		return err
	}
	if err := f.Truncate(int64(8+len(text)) + end); err != nil {
		return err
	}
	return f.Close()
}

// weightMatrix is one that every token is multiplied with.
type weightMatrix struct {
	name       string
	rows, cols int
}

// matrices lists them. An embedding that is only looked up is none of them.
func (s *shape) matrices() []weightMatrix {
	var all []weightMatrix
	q, kv := s.heads*s.dim, s.kv*s.dim
	for i := range s.layers {
		at := fmt.Sprintf("model.layers.%d.", i)
		all = append(all,
			weightMatrix{at + "self_attn.q_proj.weight", q, s.hidden}, weightMatrix{at + "self_attn.k_proj.weight", kv, s.hidden},
			weightMatrix{at + "self_attn.v_proj.weight", kv, s.hidden}, weightMatrix{at + "self_attn.o_proj.weight", s.hidden, q},
			weightMatrix{at + "mlp.gate_proj.weight", s.ffn, s.hidden}, weightMatrix{at + "mlp.up_proj.weight", s.ffn, s.hidden},
			weightMatrix{at + "mlp.down_proj.weight", s.hidden, s.ffn})
	}
	if s.tied {
		return append(all, weightMatrix{"model.embed_tokens.weight", s.vocab, s.hidden})
	}
	return append(all, weightMatrix{"lm_head.weight", s.vocab, s.hidden})
}

// weights is the number of their entries.
func (s *shape) weights() (n int64) {
	for _, m := range s.matrices() {
		n += int64(m.rows) * int64(m.cols)
	}
	return n
}
