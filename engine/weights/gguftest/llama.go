package gguftest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"hearth/kernels"
)

// Options size the llama. The zero value is usable everywhere.
type Options struct {
	Seed    uint64
	Layers  int           // 0: 2
	Hidden  int           // 0: 64
	FFN     int           // 0: 128
	Heads   int           // 0: 4
	KVHeads int           // 0: 2
	HeadDim int           // 0: Hidden/Heads
	Context int           // 0: 256
	Type    kernels.DType // of the matrices; one that kernels.Quantize can make
	Untied  bool          // with an output matrix of its own
}

func (o Options) filled() Options {
	def := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&o.Layers, 2)
	def(&o.Hidden, 64)
	def(&o.FFN, 128)
	def(&o.Heads, 4)
	def(&o.KVHeads, 2)
	def(&o.HeadDim, o.Hidden/o.Heads)
	def(&o.Context, 256)
	return o
}

// matrix is a weight before encoding, under both of its names, in the row order
// of safetensors. heads is set for q and k, whose rows GGUF permutes.
type matrix struct {
	gguf, hf   string
	rows, cols int // rows 0: a vector
	heads      int
	x          []float32
}

// weights draws all weights from the seed.
func (o Options) weights() []matrix {
	rng := rand.New(rand.NewPCG(o.Seed, 0x68656172746821))
	var all []matrix
	add := func(gguf, hf string, rows, cols, heads int) {
		m := matrix{gguf: gguf, hf: hf, rows: rows, cols: cols, heads: heads}
		m.x = make([]float32, max(rows, 1)*cols)
		for i := range m.x {
			if rows == 0 {
				m.x[i] = 1 + 0.1*float32(rng.NormFloat64())
			} else {
				m.x[i] = float32(rng.NormFloat64() / math.Sqrt(float64(cols)))
			}
		}
		all = append(all, m)
	}
	q, kv := o.Heads*o.HeadDim, o.KVHeads*o.HeadDim
	add("token_embd", "model.embed_tokens", VocabSize, o.Hidden, 0)
	for i := range o.Layers {
		g, h := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("model.layers.%d.", i)
		add(g+"attn_norm", h+"input_layernorm", 0, o.Hidden, 0)
		add(g+"attn_q", h+"self_attn.q_proj", q, o.Hidden, o.Heads)
		add(g+"attn_k", h+"self_attn.k_proj", kv, o.Hidden, o.KVHeads)
		add(g+"attn_v", h+"self_attn.v_proj", kv, o.Hidden, 0)
		add(g+"attn_output", h+"self_attn.o_proj", o.Hidden, q, 0)
		add(g+"ffn_norm", h+"post_attention_layernorm", 0, o.Hidden, 0)
		add(g+"ffn_gate", h+"mlp.gate_proj", o.FFN, o.Hidden, 0)
		add(g+"ffn_up", h+"mlp.up_proj", o.FFN, o.Hidden, 0)
		add(g+"ffn_down", h+"mlp.down_proj", o.Hidden, o.FFN, 0)
	}
	add("output_norm", "model.norm", 0, o.Hidden, 0)
	if o.Untied {
		add("output", "lm_head", VocabSize, o.Hidden, 0)
	}
	return all
}

// permuted is the row order of GGUF: within a head, row i of the first half and
// row i of the second become neighbours.
func (m *matrix) permuted() []float32 {
	if m.heads == 0 {
		return m.x
	}
	out := make([]float32, 0, len(m.x))
	size := m.rows / m.heads
	for h := range m.heads {
		for i := range size / 2 {
			for _, r := range []int{h*size + i, h*size + size/2 + i} {
				out = append(out, m.x[r*m.cols:(r+1)*m.cols]...)
			}
		}
	}
	return out
}

// encode stores a matrix as type t and a vector as F32.
func (m *matrix) encode(name string, t kernels.DType, x []float32) Tensor {
	shape := []int{m.rows, m.cols}
	if m.rows == 0 {
		shape, t = shape[1:], kernels.F32
	}
	data := make([]byte, len(x)/t.BlockValues()*t.BlockBytes())
	if err := kernels.Quantize(data, t, x); err != nil {
		panic(fmt.Sprintf("BUG: %v", err))
	}
	return Tensor{name + ".weight", t, shape, data}
}

// Llama makes a model, so that a test can change it before it encodes it.
func Llama(o Options) *File {
	o = o.filled()
	f := &File{KV: []KV{
		{"general.architecture", "llama"},
		{"general.name", "tiny test llama"},
		{"general.license", "cc0-1.0"},
		{"llama.block_count", uint32(o.Layers)},
		{"llama.context_length", uint32(o.Context)},
		{"llama.embedding_length", uint32(o.Hidden)},
		{"llama.feed_forward_length", uint32(o.FFN)},
		{"llama.attention.head_count", uint32(o.Heads)},
		{"llama.attention.head_count_kv", uint32(o.KVHeads)},
		{"llama.attention.key_length", uint32(o.HeadDim)},
		{"llama.attention.value_length", uint32(o.HeadDim)},
		{"llama.attention.layer_norm_rms_epsilon", float32(1e-5)},
		{"llama.rope.dimension_count", uint32(o.HeadDim)},
		{"llama.rope.freq_base", float32(10000)},
		{"llama.vocab_size", uint32(VocabSize)},
	}}
	f.KV = append(f.KV, vocabularyKV()...)
	for _, m := range o.weights() {
		f.Tensors = append(f.Tensors, m.encode(m.gguf, o.Type, m.permuted()))
	}
	return f
}

// Write puts the encoded file into the test's temporary directory and gives its
// path.
func (f *File) Write(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := os.WriteFile(path, f.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// WriteLlama is Llama and Write.
func WriteLlama(t testing.TB, o Options) string {
	t.Helper()
	return Llama(o).Write(t)
}
