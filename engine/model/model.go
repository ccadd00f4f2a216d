// Package model turns a model file into a kernels.Program. An architecture is a
// description (data); one builder runs all of them.
package model

import (
	"errors"

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
	Windows       []int   // per layer: sliding window in tokens, 0 for full attention
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
// stay open as long as the program is in use.
func Build(f *weights.File, opts Options) (*kernels.Program, *Config, error) {
	return nil, nil, errors.New("not implemented")
}
