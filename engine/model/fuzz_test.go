package model

import (
	"os"
	"testing"

	"hearth/engine/weights"
	"hearth/engine/weights/gguftest"
)

// FuzzConfig: no configuration makes the reader panic, and what it accepts has
// sizes within bounds.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(gguftest.Directory(gguftest.Options{}, 1)["config.json"]), []byte(`{"eos_token_id":[1,2]}`))
	f.Add([]byte(`{"architectures":["Gemma3ForCausalLM"],"layer_types":["sliding_attention"],"num_hidden_layers":1,
		"rope_parameters":{"full_attention":{"rope_type":"linear","factor":8},"sliding_attention":{}}}`), []byte(`{}`))
	f.Add([]byte(`{"architectures":["Phi3ForCausalLM"],"hidden_size":64,"intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":4,
		"vocab_size":9,"rope_scaling":{"type":"su","short_factor":[1],"long_factor":[1,2]},"partial_rotary_factor":0.75}`), []byte(`{}`))
	f.Add([]byte(`{"architectures":["Qwen2ForCausalLM"],"use_sliding_window":true,"rope_scaling":{"type":"yarn","factor":4,"beta_fast":1e99}}`), []byte(`null`))
	f.Add([]byte(`{"architectures":["Gemma3ForConditionalGeneration"],"text_config":{"num_hidden_layers":2}}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, config, generation []byte) {
		h, err := hfHyper(&weights.File{Format: weights.Safetensors, HF: &weights.HF{Config: config, GenerationConfig: generation}})
		if err != nil || h.check() != nil {
			return
		}
		for d := dimOne; d <= dimVocab; d++ {
			if n := h.size(d); n < 1 || n > maxWidth*16 {
				t.Errorf("dimension %d is %d", d, n)
			}
		}
		if len(h.windows) != h.layers {
			t.Errorf("%d windows for %d layers", len(h.windows), h.layers)
		}
		h.rope.build(h, true, h.context)
		if h.local != nil {
			h.local.build(h, true, h.context)
		}
	})
}

// TestHostileMetadata sets every number of a GGUF file's metadata to hostile
// values: an error or a sound program, never a panic.
func TestHostileMetadata(t *testing.T) {
	good := gguftest.Llama(gguftest.Options{Layers: 1, Hidden: 32, FFN: 32, Heads: 2, KVHeads: 1})
	path := t.TempDir() + "/m.gguf"
	tried, built := 0, 0
	for _, kv := range good.KV {
		if _, ok := kv.Value.(uint32); !ok {
			continue
		}
		for _, v := range []any{uint32(0), uint32(1), uint32(1<<31 - 1), uint32(1 << 31), uint32(1<<32 - 1), uint64(1 << 32), uint64(1 << 63), int64(-1), int32(-1 << 31), float32(2), []int32{}, []int32{-1}, true, ""} {
			g := *good
			g.KV = append([]gguftest.KV{}, good.KV...)
			g.Set(kv.Key, v)
			if err := os.WriteFile(path, g.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			tried++
			f, err := weights.Open(path)
			if err != nil {
				continue
			}
			if p, _, err := Build(f, Options{}); err == nil {
				built++
				if err := p.Validate(); err != nil {
					t.Errorf("%s = %v: %v", kv.Key, v, err)
				}
			}
			f.Close()
		}
	}
	t.Logf("%d files, %d built", tried, built)
	if tried < 100 || built > tried/2 {
		t.Errorf("%d files, %d built: the values miss", tried, built)
	}
}
