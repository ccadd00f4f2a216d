package model

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hearth/engine/weights"
	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

// TestFormatsAgree builds the same weights from GGUF (rows permuted, pairs side
// by side) and from safetensors (pairs half a head apart): the logits must agree.
func TestFormatsAgree(t *testing.T) {
	ids := []int32{1, 17, 200, 42, 9, 256, 3}
	for _, o := range []gguftest.Options{{}, {HeadDim: 32, Untied: true, Seed: 7, Type: kernels.BF16}, {KVHeads: 4, Layers: 1, Type: kernels.F16}} {
		a, ca := open(t, gguftest.WriteLlama(t, o))
		b, cb := open(t, gguftest.WriteDirectory(t, o, 2))
		x, y := newRunner(t, a).feed(ids, len(ids)), newRunner(t, b).feed(ids, len(ids))
		if d := worst(x, y); d > 1e-5 {
			t.Errorf("%+v: logits differ by %g", o, d)
		}
		if ca.Parameters != cb.Parameters || ca.Vocab != cb.Vocab || !slices.Equal(ca.EOS, cb.EOS) || ca.HeadDim != cb.HeadDim {
			t.Errorf("configurations differ: %+v and %+v", ca, cb)
		}
	}
}

func TestConfig(t *testing.T) {
	_, c := open(t, gguftest.WriteLlama(t, gguftest.Options{Type: kernels.Q8_0}))
	want := Config{
		Architecture: "llama", ContextLength: 256, ModelContext: 256, Vocab: gguftest.VocabSize, Hidden: 64, FeedForward: 128,
		Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16, Windows: []int{0, 0}, BOS: []int32{gguftest.IMStart}, EOS: []int32{gguftest.IMEnd},
		Pooling: PoolLast, Quantization: "Q8_0", Parameters: 288*64 + 2*(64+64*64+2*32*64+64*64+64+3*64*128) + 64,
	}
	if fmt.Sprint(*c) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", *c, want)
	}
}

func TestContextLength(t *testing.T) {
	f, err := weights.Open(gguftest.WriteLlama(t, gguftest.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, c, err := Build(f, Options{ContextLength: 100}); err != nil || c.ContextLength != 100 || c.ModelContext != 256 {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, _, err := Build(f, Options{ContextLength: 257}); err == nil || !strings.Contains(err.Error(), "257 was asked for, wanted 1 to the model's 256") {
		t.Errorf("got %v", err)
	}
}

// TestRefusedGGUF: what would change the arithmetic is refused by name.
func TestRefusedGGUF(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(g *gguftest.File)
	}{
		{`architecture "gpt2" is not supported, wanted one of llama`, func(g *gguftest.File) { g.Set("general.architecture", "gpt2") }},
		{"llama.block_count is missing", func(g *gguftest.File) { g.Delete("llama.block_count") }},
		{"got string, wanted an integer", func(g *gguftest.File) { g.Set("llama.block_count", "two") }},
		{"block_count is -1", func(g *gguftest.File) { g.Set("llama.block_count", int32(-1)) }},
		{"1 to 4096 layers", func(g *gguftest.File) { g.Set("llama.block_count", uint32(1<<31-1)) }},
		{"4 heads cannot share 3", func(g *gguftest.File) { g.Set("llama.attention.head_count_kv", uint32(3)) }},
		{"head_count_kv differs from layer to layer", func(g *gguftest.File) { g.Set("llama.attention.head_count_kv", []int32{2, 1}) }},
		{"value_length is 8, wanted the key length 16", func(g *gguftest.File) { g.Set("llama.attention.value_length", uint32(8)) }},
		{"norm epsilon is 0", func(g *gguftest.File) { g.Delete("llama.attention.layer_norm_rms_epsilon") }},
		{"llama.expert_count (uint32) is not supported", func(g *gguftest.File) { g.Set("llama.expert_count", uint32(8)) }},
		{"llama.logit_scale (float32) is not supported", func(g *gguftest.File) { g.Set("llama.logit_scale", float32(0.5)) }},
		{"llama.attention.causal (bool) is not supported", func(g *gguftest.File) { g.Set("llama.attention.causal", false) }},
		{`rope.scaling.type is "ntk"`, func(g *gguftest.File) { g.Set("llama.rope.scaling.type", "ntk") }},
		{"longrope, but the tensors", func(g *gguftest.File) { g.Set("llama.rope.scaling.type", "longrope") }},
		{"attn_factor is 0.5, but the scaling is not yarn", func(g *gguftest.File) { g.Set("llama.rope.scaling.attn_factor", float32(0.5)) }},
		{"pooling_type is 2", func(g *gguftest.File) { g.Set("llama.pooling_type", uint32(2)) }},
		{`tensor "blk.1.ffn_up.weight" is missing, wanted shape [128 64]`, func(g *gguftest.File) { g.Find("blk.1.ffn_up.weight").Name = "x" }},
		{`tensor "extra.weight" [64] is not known`, func(g *gguftest.File) {
			x := *g.Find("output_norm.weight")
			x.Name = "extra.weight"
			g.Tensors = append(g.Tensors, x)
		}},
		{`tensor "blk.0.attn_q.weight" has shape [32 128], wanted [64 64]`, func(g *gguftest.File) { g.Find("blk.0.attn_q.weight").Shape = []int{32, 128} }},
		{`tensor "output_norm.weight" has shape [1 64], wanted [64]`, func(g *gguftest.File) { g.Find("output_norm.weight").Shape = []int{1, 64} }},
		{`tensor "token_embd.weight" has shape [288 64], wanted [1 64]`, func(g *gguftest.File) {
			g.KV = slices.DeleteFunc(g.KV, func(kv gguftest.KV) bool { return strings.HasPrefix(kv.Key, "tokenizer.") })
			g.Set("llama.vocab_size", uint32(1))
		}},
		{"is F16 [8], wanted one row of F32", func(g *gguftest.File) {
			g.Tensors = append(g.Tensors, gguftest.Tensor{Name: "rope_freqs.weight", Type: kernels.F16, Shape: []int{8}, Data: make([]byte, 16)})
		}},
	} {
		g := gguftest.Llama(gguftest.Options{})
		c.change(g)
		refused(t, g.Write(t), c.want)
	}
}

func refused(t *testing.T, path, want string) {
	t.Helper()
	f, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, _, err := Build(f, Options{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, wanted it to contain %q", err, want)
	}
}

// TestNeutralGGUF: keys that change nothing are accepted.
func TestNeutralGGUF(t *testing.T) {
	g := gguftest.Llama(gguftest.Options{})
	g.Set("llama.expert_count", uint32(0))
	g.Set("llama.logit_scale", float32(1))
	g.Set("llama.attention.causal", true)
	g.Set("llama.rope.scaling.type", "none")
	g.Set("llama.attention.head_count_kv", []int32{2, 2})
	g.Set("llama.tensor_data_layout", "Meta AI original pth")
	open(t, g.Write(t))
}

// changed gives the files of a directory with fields of config.json set; the
// value "" of a field deletes it.
func changed(set map[string]any) map[string][]byte {
	files := maps.Clone(gguftest.Directory(gguftest.Options{}, 1))
	var c map[string]any
	if err := json.Unmarshal(files["config.json"], &c); err != nil {
		panic(err)
	}
	for key, v := range set {
		if v == "" {
			delete(c, key)
		} else {
			c[key] = v
		}
	}
	files["config.json"], _ = json.Marshal(c)
	return files
}

func TestRefusedConfig(t *testing.T) {
	type object = map[string]any
	for _, c := range []struct {
		want string
		set  object
	}{
		{`architecture "BertModel" is not supported, wanted one of LlamaForCausalLM`, object{"architectures": []string{"BertModel"}}},
		{"names 2 architectures", object{"architectures": []string{"a", "b"}}},
		{`model_type "mixtral" is not supported`, object{"architectures": "", "model_type": "mixtral"}},
		{"hidden_size is missing", object{"hidden_size": ""}},
		{`hidden_size is 64.5, wanted a whole number`, object{"hidden_size": 64.5}},
		{`hidden_size is -1, wanted a whole number`, object{"hidden_size": -1}},
		{`hidden_size is 1e+300, wanted a whole number`, object{"hidden_size": 1e300}},
		{`"sixty"`, object{"hidden_size": "sixty"}},
		{`hidden_act is "gelu", wanted silu`, object{"hidden_act": "gelu"}},
		{"sliding_window 8 is not supported for LlamaForCausalLM", object{"sliding_window": 8}},
		{`q_proj.bias" is missing`, object{"attention_bias": true}},
		{`gate_proj.bias" is missing`, object{"mlp_bias": true}},
		{"attention_bias true and mlp_bias false are not supported for MistralForCausalLM", object{"architectures": []string{"MistralForCausalLM"}, "attention_bias": true}},
		{"rope_interleaved is not supported", object{"rope_interleaved": true}},
		{`rope type "dynamic" is not supported`, object{"rope_scaling": object{"type": "dynamic", "factor": 2}}},
		{"rope_scaling: alpha is not supported", object{"rope_scaling": object{"type": "linear", "factor": 2, "alpha": 1}}},
		{"rope scaling factor is 0", object{"rope_scaling": object{"type": "linear"}}},
		{"rope_parameters: full_attention is not supported", object{"rope_parameters": object{"full_attention": object{}}}},
		{"partial_rotary_factor is 2", object{"partial_rotary_factor": 2}},
		{`logit_scale is 0.5, wanted it absent`, object{"logit_scale": 0.5}},
		{`residual_multiplier is 0.22, wanted it absent`, object{"residual_multiplier": 0.22}},
		{`num_local_experts is 8, wanted it absent`, object{"num_local_experts": 8}},
		{`qk_layernorm is true, wanted it absent`, object{"qk_layernorm": true}},
		{`tensor "lm_head.weight" is missing`, object{"tie_word_embeddings": false}},
		{`has shape [288 64], wanted [300 64]`, object{"vocab_size": 300}},
		{"special token 288 is outside", object{"eos_token_id": 1}},
	} {
		files := changed(c.set)
		if strings.HasPrefix(c.want, "special token") {
			files["generation_config.json"] = []byte(`{"eos_token_id":[1,288]}`)
		}
		refused(t, gguftest.WriteFiles(t, files), c.want)
	}
}

// TestAcceptedConfig: fields that change nothing, or whose meaning is known.
func TestAcceptedConfig(t *testing.T) {
	type object = map[string]any
	for _, set := range []object{
		{"logit_scale": 1.0, "residual_multiplier": 1, "num_local_experts": 0, "qk_layernorm": false, "unknown_thing": 5, "_attn_implementation_autoset": true},
		{"architectures": "", "dtype": "float32", "torch_dtype": ""},
		{"rope_theta": "", "rope_scaling": "", "rope_parameters": object{"rope_theta": 10000.0, "rope_type": "default"}},
		{"rope_scaling": object{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}},
		{"rope_scaling": object{"type": "linear", "factor": 4.0}},
		{"num_key_value_heads": 2, "pretraining_tp": 2, "attention_dropout": 0.1, "initializer_range": 0.02},
	} {
		open(t, gguftest.WriteFiles(t, changed(set)))
	}
}

func TestEndTokensAndPooling(t *testing.T) {
	files := changed(map[string]any{"eos_token_id": []int{5, 6}})
	files["1_Pooling/config.json"] = []byte(`{"pooling_mode_mean_tokens":true}`)
	_, c := open(t, gguftest.WriteFiles(t, files))
	if !slices.Equal(c.EOS, []int32{gguftest.IMEnd}) || c.Pooling != PoolMean {
		t.Errorf("end tokens %v, pooling %s", c.EOS, c.Pooling)
	}
	delete(files, "generation_config.json")
	files["1_Pooling/config.json"] = []byte(`{"pooling_mode_lasttoken":true,"pooling_mode_mean_tokens":false}`)
	_, c = open(t, gguftest.WriteFiles(t, files))
	if !slices.Equal(c.EOS, []int32{5, 6}) || c.Pooling != PoolLast {
		t.Errorf("end tokens %v, pooling %s", c.EOS, c.Pooling)
	}
	files["1_Pooling/config.json"] = []byte(`{"pooling_mode_cls_token":true}`)
	refused(t, gguftest.WriteFiles(t, files), "wanted pooling_mode_lasttoken")
}

// TestMistralWindow: absent means the class's default, null means none, and a
// window that the context cannot reach is none.
func TestMistralWindow(t *testing.T) {
	for _, c := range []struct {
		set  any
		want int
	}{{8, 8}, {nil, 0}, {"", 0}, {256, 0}, {255, 255}} {
		set := map[string]any{"architectures": []string{"MistralForCausalLM"}, "sliding_window": c.set}
		p, cfg := open(t, gguftest.WriteFiles(t, changed(set)))
		if cfg.Windows[1] != c.want || p.KV[1].Window != c.want {
			t.Errorf("sliding_window %v gives %d, wanted %d", c.set, cfg.Windows[1], c.want)
		}
	}
}

// TestTextOfMultimodal builds the text model inside a vision model, under both
// names that its tensors have in published files.
func TestTextOfMultimodal(t *testing.T) {
	f, err := weights.Open(filepath.Join(shared(t), "models", "tiny", "gemma3", "hf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, _, err := Build(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := []int32{2, 30, 31}
	want := newRunner(t, plain).feed(ids, len(ids))
	for _, prefix := range []string{"language_model.model.", "model.language_model."} {
		var tensors []gguftest.Tensor
		for i := range f.Tensors {
			x := &f.Tensors[i]
			tensors = append(tensors, gguftest.Tensor{Name: prefix + strings.TrimPrefix(x.Name, "model."), Type: x.Type, Shape: x.Shape, Data: x.Data})
		}
		vision := []gguftest.Tensor{{Name: "vision_tower.x", Type: kernels.F32, Shape: []int{1}, Data: make([]byte, 4)}}
		config := fmt.Sprintf(`{"architectures":["Gemma3ForConditionalGeneration"],"model_type":"gemma3","eos_token_id":[1,106],"text_config":%s,"vision_config":{"hidden_size":8}}`, f.HF.Config)
		dir := gguftest.WriteFiles(t, map[string][]byte{
			"config.json":       []byte(config),
			"model.safetensors": gguftest.Safetensors(append(tensors, vision...)),
		})
		p, c := open(t, dir)
		if d := worst(newRunner(t, p).feed(ids, len(ids)), want); d != 0 {
			t.Errorf("%s: logits differ by %g", prefix, d)
		}
		if c.Architecture != "gemma3" || !slices.Equal(c.EOS, []int32{1, 106}) {
			t.Errorf("%s: %+v", prefix, c)
		}
	}
}

// TestBareNames: embedding models are published without the head and without
// the prefix that comes with it.
func TestBareNames(t *testing.T) {
	o := gguftest.Options{}
	want, _ := open(t, gguftest.WriteDirectory(t, o, 1))
	files := gguftest.Directory(o, 1)
	raw := files["model.safetensors"]
	size := binary.LittleEndian.Uint64(raw)
	head := strings.ReplaceAll(string(raw[8:8+size]), `"model.`, `"`)
	files["model.safetensors"] = append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...), raw[8+size:]...)
	got, _ := open(t, gguftest.WriteFiles(t, files))
	ids := []int32{4, 5}
	if d := worst(newRunner(t, got).feed(ids, 2), newRunner(t, want).feed(ids, 2)); d != 0 {
		t.Errorf("logits differ by %g", d)
	}
}
