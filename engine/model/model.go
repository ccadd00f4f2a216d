// Package model turns a model file into a kernels.Program. An architecture is a
// description (data); one builder runs all of them.
package model

import (
	"fmt"

	"hearth/engine/weights"
	"hearth/kernels"
)

// Options adjust how a model is built.
type Options struct {
	// ContextLength is the longest sequence that will be served, in tokens.
	// 0 means what the model states. It must not exceed that. It also decides
	// which factors a longrope model uses: the short ones up to the original
	// context, the long ones beyond, for all positions, so that a result does
	// not depend on how long its sequence later grows.
	ContextLength int
}

// Config is what the rest of the engine needs to know of a model.
type Config struct {
	Architecture  string // "llama", "qwen2", "qwen3", "gemma3", "phi3"
	ContextLength int    // tokens of a sequence, prompt and answer
	ModelContext  int    // what the model states
	Vocab         int    // rows of the output matrix; may exceed the tokenizer's
	Hidden        int
	FeedForward   int
	Layers        int
	Heads         int
	KVHeads       int
	HeadDim       int
	Windows       []int   // per layer: sliding window in tokens, 0 where it has none or none that ContextLength reaches
	BOS           []int32 // as stated; empty if not
	EOS           []int32 // end tokens as stated, without duplicates; empty if none
	Pooling       Pooling
	Quantization  string // "Q4_K_M", "Q8_0", "BF16" …
	Parameters    int64  // number of weights, tied ones once
}

// Pooling says how a sequence becomes one embedding vector.
type Pooling string

const (
	// PoolLast takes the final hidden state of the last token. It is the
	// default where the model states nothing: only the last token of a causal
	// model has seen the whole text.
	PoolLast Pooling = "last"
	// PoolMean averages the final hidden states of all tokens.
	PoolMean Pooling = "mean"
)

// Build makes the program of a model. Tensors refer to f's mapping, so f must
// stay open as long as the program is in use. Norm weights and biases are always
// F32 in the program, whatever they are in the file.
func Build(f *weights.File, o Options) (*kernels.Program, *Config, error) {
	p, c, err := build(f, o)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot build model %s: %w", f.Path, err)
	}
	return p, c, nil
}

func build(f *weights.File, o Options) (*kernels.Program, *Config, error) {
	read := hfHyper
	if f.Format == weights.GGUF {
		read = ggufHyper
	}
	h, err := read(f)
	if err != nil {
		return nil, nil, err
	}
	if err := h.check(); err != nil {
		return nil, nil, err
	}
	served := o.ContextLength
	if served == 0 {
		served = h.context
	}
	if served < 1 || served > h.context {
		return nil, nil, fmt.Errorf("context length %d was asked for, wanted 1 to the model's %d", served, h.context)
	}
	b := &builder{binder: binder{f: f, h: h, p: &kernels.Program{}, used: map[string]bool{}}, served: served}
	if f.Format == weights.Safetensors {
		_, b.bare = f.Tensor("embed_tokens.weight")
	}
	if err := b.build(); err != nil {
		return nil, nil, err
	}
	if err := b.p.Validate(); err != nil {
		return nil, nil, err
	}
	c := &Config{
		Architecture: h.desc.name, ContextLength: served, ModelContext: h.context,
		Vocab: h.vocab, Hidden: h.hidden, FeedForward: h.ffn, Layers: h.layers,
		Heads: h.heads, KVHeads: h.kvHeads, HeadDim: h.headDim,
		BOS: h.bos, EOS: h.eos, Pooling: h.pooling,
		Quantization: quantization(f), Parameters: b.parameters,
	}
	for i := range h.windows {
		c.Windows = append(c.Windows, b.effectiveWindow(i))
	}
	return b.p, c, nil
}
