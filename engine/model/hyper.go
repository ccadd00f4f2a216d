package model

import (
	"fmt"
	"math"
)

// hyper holds a model's hyperparameters, whatever kind of file stated them.
type hyper struct {
	desc    *description
	wrapper *wrapper // of a model that is more than this one; nil for most

	vocab, hidden, ffn, layers int
	heads, kvHeads, headDim    int
	context                    int // what the model states
	eps                        float64

	tied                      bool // the output matrix is the embedding
	qkvBias, outBias, mlpBias bool
	attnScale                 float64
	attnCap, logitCap         float64 // soft caps; 0 is off
	windows                   []int   // per layer; 0: full attention

	rope  rotary
	local *rotary // for layers with a window; nil: the same

	bos, eos []int32
	pooling  Pooling
}

// Bounds of hyperparameters: generous, but small enough that no product of two
// of them overflows and nothing absurd is allocated before tensors are checked.
const (
	maxLayers  = 1 << 12
	maxWidth   = 1 << 20
	maxHeads   = 1 << 12
	maxHeadDim = 1 << 12
	maxContext = 1 << 28
)

// check makes sure that the numbers make sense together.
func (h *hyper) check() error {
	for _, n := range []struct {
		what       string
		got, limit int
	}{
		{"number of layers", h.layers, maxLayers},
		{"hidden size", h.hidden, maxWidth},
		{"feed-forward size", h.ffn, maxWidth},
		{"number of heads", h.heads, maxHeads},
		{"number of key-value heads", h.kvHeads, maxHeads},
		{"head size", h.headDim, maxHeadDim},
		{"context length", h.context, maxContext},
		{"vocabulary size", h.vocab, maxWidth * 16},
	} {
		if n.got < 1 || n.got > n.limit {
			return fmt.Errorf("%s is %d, wanted 1 to %d", n.what, n.got, n.limit)
		}
	}
	switch {
	case h.heads%h.kvHeads != 0:
		return fmt.Errorf("%d heads cannot share %d key-value heads evenly", h.heads, h.kvHeads)
	case h.heads*h.headDim > maxWidth*4:
		return fmt.Errorf("%d heads of %d are too wide", h.heads, h.headDim)
	case !(h.eps > 0 && h.eps < 1):
		return fmt.Errorf("norm epsilon is %v, wanted between 0 and 1", h.eps)
	case !(h.attnScale > 0) || math.IsInf(h.attnScale, 0):
		return fmt.Errorf("attention scale is %v, wanted a positive number", h.attnScale)
	case !(h.attnCap >= 0) || !(h.logitCap >= 0) || math.IsInf(h.attnCap+h.logitCap, 0):
		return fmt.Errorf("soft caps are %v and %v, wanted numbers of 0 or more", h.attnCap, h.logitCap)
	}
	for i, w := range h.windows {
		if w < 0 {
			return fmt.Errorf("sliding window of layer %d is %d, wanted 0 or more", i, w)
		}
	}
	return nil
}

// size resolves a dimension.
func (h *hyper) size(d dim) int {
	switch d {
	case dimHidden:
		return h.hidden
	case dimQuery:
		return h.heads * h.headDim
	case dimKV:
		return h.kvHeads * h.headDim
	case dimQKV:
		return (h.heads + 2*h.kvHeads) * h.headDim
	case dimFFN:
		return h.ffn
	case dimFFN2:
		return 2 * h.ffn
	case dimHead:
		return h.headDim
	case dimVocab:
		return h.vocab
	}
	return 1
}

// has tells whether a tensor of the list exists in this model.
func (h *hyper) has(c condition) bool {
	switch c {
	case withQKVBias:
		return h.qkvBias
	case withOutBias:
		return h.outBias
	case withMLPBias:
		return h.mlpBias
	case whenUntied:
		return !h.tied
	}
	return true
}
