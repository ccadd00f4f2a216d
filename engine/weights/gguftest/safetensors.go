package gguftest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hearth/kernels"
)

// Safetensors encodes tensors of type F32, F16 or BF16 as one file.
func Safetensors(tensors []Tensor) []byte {
	var parts []Part
	for _, t := range tensors {
		parts = append(parts, Part{t.Name, t.Type.String(), t.Shape, t.Data})
	}
	return Parts(parts)
}

// Part is a tensor of any type that safetensors has, by its name there.
type Part struct {
	Name, DType string
	Shape       []int
	Data        []byte
}

// Parts encodes tensors as one file.
func Parts(tensors []Part) []byte {
	var head strings.Builder
	head.WriteString(`{"__metadata__":{"format":"pt"}`)
	offset := 0
	for _, t := range tensors {
		shape, _ := json.Marshal(append([]int{}, t.Shape...))
		fmt.Fprintf(&head, `,%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, t.Name, t.DType, shape, offset, offset+len(t.Data))
		offset += len(t.Data)
	}
	head.WriteString("}")
	for head.Len()%8 != 0 {
		head.WriteByte(' ')
	}
	b := append(u64(uint64(head.Len())), head.String()...)
	for _, t := range tensors {
		b = append(b, t.Data...)
	}
	return b
}

// Directory makes the files of a Hugging Face directory with the same model that
// Llama gives for the same options; Type must be F32, F16 or BF16. With shards
// above 1 the weights are split and have an index.
func Directory(o Options, shards int) map[string][]byte {
	o = o.filled()
	files := map[string][]byte{
		"config.json":            o.config(),
		"tokenizer.json":         tokenizerJSON(),
		"generation_config.json": []byte(fmt.Sprintf(`{"bos_token_id":%d,"eos_token_id":%d,"pad_token_id":%d}`, IMStart, IMEnd, Pad)),
		"README.md":              []byte("---\nlicense: cc0-1.0\n---\n# tiny test llama\n"),
	}
	tc, _ := json.Marshal(map[string]any{
		"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|pad|>",
		"add_bos_token": false, "model_max_length": o.Context, "chat_template": Template,
	})
	files["tokenizer_config.json"] = tc
	var tensors []Tensor
	for _, m := range o.weights() {
		tensors = append(tensors, m.encode(m.hf, o.Type, m.x))
	}
	if shards <= 1 {
		files["model.safetensors"] = Safetensors(tensors)
		return files
	}
	owner := map[string]string{}
	for i := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, shards)
		part := tensors[len(tensors)*i/shards : len(tensors)*(i+1)/shards]
		files[name] = Safetensors(part)
		for _, t := range part {
			owner[t.Name] = name
		}
	}
	index, _ := json.Marshal(map[string]any{"metadata": map[string]any{}, "weight_map": owner})
	files["model.safetensors.index.json"] = index
	return files
}

// WriteDirectory is Directory, written to a temporary directory.
func WriteDirectory(t testing.TB, o Options, shards int) string {
	t.Helper()
	return WriteFiles(t, Directory(o, shards))
}

// WriteFiles writes files, by relative name, to a temporary directory.
func WriteFiles(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (o Options) config() []byte {
	dtype := map[kernels.DType]string{kernels.F32: "float32", kernels.F16: "float16", kernels.BF16: "bfloat16"}[o.Type]
	b, _ := json.Marshal(map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "torch_dtype": dtype,
		"vocab_size": VocabSize, "hidden_size": o.Hidden, "intermediate_size": o.FFN, "num_hidden_layers": o.Layers,
		"num_attention_heads": o.Heads, "num_key_value_heads": o.KVHeads, "head_dim": o.HeadDim,
		"max_position_embeddings": o.Context, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": nil,
		"hidden_act": "silu", "tie_word_embeddings": !o.Untied, "attention_bias": false, "mlp_bias": false,
		"bos_token_id": IMStart, "eos_token_id": IMEnd, "pad_token_id": Pad,
	})
	return b
}

// tokenizerJSON is the same vocabulary in the form of Hugging Face tokenizers.
func tokenizerJSON() []byte {
	texts, types := tokens()
	vocab := map[string]int{}
	var added []map[string]any
	for i, text := range texts {
		if types[i] == 1 {
			vocab[text] = i
			continue
		}
		added = append(added, map[string]any{
			"id": i, "content": text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true,
		})
	}
	var pairs [][]string
	for _, m := range Merges {
		pairs = append(pairs, strings.Split(m, " "))
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	b, _ := json.Marshal(map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "normalizer": nil,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Digits", "individual_digits": true}, byteLevel,
		}},
		"post_processor": nil,
		"decoder":        map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
		"model": map[string]any{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocab, "merges": pairs,
		},
	})
	return b
}
