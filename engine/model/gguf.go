package model

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"hearth/engine/weights"
	"hearth/kernels"
)

// ggufKeys reads the keys of one architecture. The first error sticks; every key
// that was asked for is remembered, so that what was not can be refused.
type ggufKeys struct {
	meta *weights.Metadata
	arch string
	seen map[string]bool
	err  error
}

func (k *ggufKeys) key(name string) string {
	full := k.arch + "." + name
	k.seen[full] = true
	return full
}

func (k *ggufKeys) note(err error) {
	if k.err == nil {
		k.err = err
	}
}

// count reads an integer that must be there. An array with one element a layer
// is accepted where all are equal.
func (k *ggufKeys) count(name string) int {
	if !k.meta.Has(k.key(name)) {
		k.note(fmt.Errorf("metadata %s.%s is missing", k.arch, name))
		return 0
	}
	return k.countOr(name, 0)
}

func (k *ggufKeys) countOr(name string, def int) int {
	key := k.key(name)
	var n int64
	var err error
	if k.meta.Len(key) > 0 {
		var all []int64
		if all, err = k.meta.Ints(key); err == nil {
			n = all[0]
			if slices.Min(all) != slices.Max(all) {
				err = fmt.Errorf("metadata %s differs from layer to layer, which is not supported", key)
			}
		}
	} else {
		n, err = k.meta.Int(key, int64(def))
	}
	if err == nil && (n < 0 || n > math.MaxInt32) {
		err = fmt.Errorf("metadata %s is %d, wanted 0 to %d", key, n, math.MaxInt32)
	}
	k.note(err)
	return int(n)
}

func (k *ggufKeys) float(name string, def float64) float64 {
	x, err := k.meta.Float(k.key(name), def)
	if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
		err = fmt.Errorf("metadata %s.%s is %v", k.arch, name, x)
	}
	k.note(err)
	return shortest(x)
}

// shortest undoes the widening of a float32 to the decimal it was written as:
// 9.99999974e-06 comes from a configuration that says 1e-05, and norm epsilons
// and rope bases are computed with in other precisions than float32.
func shortest(x float64) float64 {
	if float64(float32(x)) != x {
		return x
	}
	var d float64
	if _, err := fmt.Sscan(fmt.Sprint(float32(x)), &d); err != nil {
		return x
	}
	return d
}

func (k *ggufKeys) text(name, def string) string {
	s, err := k.meta.String(k.key(name), def)
	k.note(err)
	return s
}

// ggufHyper reads the hyperparameters of a GGUF file.
func ggufHyper(f *weights.File) (*hyper, error) {
	arch, err := f.Meta.String("general.architecture", "")
	if err != nil {
		return nil, err
	}
	d := describe(arch, "")
	if d == nil {
		return nil, fmt.Errorf("architecture %q is not supported, wanted one of %s", arch, strings.Join(supported(false), ", "))
	}
	k := &ggufKeys{meta: f.Meta, arch: arch, seen: map[string]bool{}}
	h := &hyper{
		desc:   d,
		hidden: k.count("embedding_length"), ffn: k.count("feed_forward_length"), layers: k.count("block_count"),
		heads: k.count("attention.head_count"), context: k.count("context_length"),
		eps: k.float("attention.layer_norm_rms_epsilon", 0),
	}
	h.kvHeads = k.countOr("attention.head_count_kv", h.heads)
	if k.err == nil && (h.heads < 1 || h.layers < 1 || h.layers > maxLayers) {
		k.note(fmt.Errorf("%d heads in %d layers, wanted 1 or more heads and 1 to %d layers", h.heads, h.layers, maxLayers))
	}
	if k.err != nil {
		return nil, k.err
	}
	h.headDim = k.countOr("attention.key_length", h.hidden/h.heads)
	if v := k.countOr("attention.value_length", h.headDim); v != h.headDim {
		k.note(fmt.Errorf("metadata %s.attention.value_length is %d, wanted the key length %d", arch, v, h.headDim))
	}
	h.attnScale = ggufScale(k, h)
	h.attnCap, h.logitCap = k.float("attn_logit_softcapping", 0), k.float("final_logit_softcapping", 0)
	ggufVocabulary(f, k, h)
	ggufBiases(f, h)
	ggufWindows(k, h)
	ggufRope(f, k, h)
	h.pooling = ggufPooling(k)
	if k.err == nil {
		k.note(k.refuseOthers())
	}
	return h, k.err
}

// ggufScale is the factor on query-key products.
func ggufScale(k *ggufKeys, h *hyper) float64 {
	if s := k.float("attention.scale", 0); s != 0 {
		return s
	}
	width := float64(h.headDim)
	if h.desc.name == "gemma3" && h.layers == 62 {
		// The 27 billion parameter model scales by its hidden size over its heads
		// (query_pre_attn_scalar 168), which the format has no key for; its
		// number of layers tells it apart.
		width = float64(h.hidden) / float64(h.heads)
	}
	return 1 / math.Sqrt(width)
}

// ggufVocabulary takes the vocabulary size and the special tokens.
func ggufVocabulary(f *weights.File, k *ggufKeys, h *hyper) {
	h.vocab = k.countOr("vocab_size", 0)
	if v := f.Tokenizer.Vocabulary; v != nil {
		h.vocab = len(v.Tokens)
		h.bos = stated(v.BOS)
		h.eos = stated(v.EOS, v.EOT, v.EOM)
	}
	if t, ok := f.Tensor("token_embd.weight"); ok && h.vocab == 0 {
		h.vocab = t.Rows
	}
	_, untied := f.Tensor("output.weight")
	h.tied = !untied
}

// stated drops ids that are absent or repeated.
func stated(ids ...int32) []int32 {
	var out []int32
	for _, id := range ids {
		if id >= 0 && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// ggufBiases looks which biases the first layer has; the others must agree.
func ggufBiases(f *weights.File, h *hyper) {
	exists := func(name string) bool { _, ok := f.Tensor(name); return ok }
	h.qkvBias = h.desc.qkvBias == biasAlways || h.desc.qkvBias == biasStated && exists("blk.0.attn_q.bias")
	if h.desc.otherBias == biasStated {
		h.outBias = exists("blk.0.attn_output.bias")
		h.mlpBias = exists("blk.0.ffn_gate.bias")
	}
}

// ggufWindows reads the sliding window. Where the architecture alternates, the
// pattern is a number n (every n-th layer is full), or one flag a layer.
func ggufWindows(k *ggufKeys, h *hyper) {
	h.windows = make([]int, h.layers)
	window := k.countOr("attention.sliding_window", 0)
	key := k.key("attention.sliding_window_pattern")
	if k.meta.Len(key) > 0 {
		flags, err := k.meta.Ints(key)
		k.note(err)
		if err == nil && len(flags) != h.layers {
			k.note(fmt.Errorf("metadata %s has %d elements, wanted %d, one a layer", key, len(flags), h.layers))
		}
		for i := range h.windows {
			if k.err == nil && flags[i] != 0 {
				h.windows[i] = window
			}
		}
		return
	}
	every := 0
	if h.desc.windows == windowPattern {
		every = 6
	}
	every = k.countOr("attention.sliding_window_pattern", every)
	for i := range h.windows {
		if every == 0 || (i+1)%every != 0 {
			h.windows[i] = window
		}
	}
}

func ggufRope(f *weights.File, k *ggufKeys, h *hyper) {
	r := &h.rope
	r.dim = k.countOr("rope.dimension_count", h.headDim)
	r.base = k.float("rope.freq_base", 10000)
	r.kind = k.text("rope.scaling.type", "")
	r.factor = k.float("rope.scaling.factor", 1)
	r.original = k.countOr("rope.scaling.original_context_length", h.context)
	r.expanded = h.context
	r.attention = k.float("rope.scaling.attn_factor", 0)
	r.attentionMultiplies = true
	r.betaFast, r.betaSlow = k.float("rope.scaling.yarn_beta_fast", 0), k.float("rope.scaling.yarn_beta_slow", 0)
	k.key("rope.scaling.finetuned") // says how the weights came to be
	if h.desc.localRope {
		h.local = &rotary{dim: r.dim, base: k.float("rope.freq_base_swa", 10000)}
	}
	r.divisors = ropeFactors(f, k, "rope_freqs.weight")
	r.shortDiv = ropeFactors(f, k, "rope_factors_short.weight")
	r.longDiv = ropeFactors(f, k, "rope_factors_long.weight")
	switch {
	case (r.shortDiv != nil) != (r.longDiv != nil):
		k.note(errors.New("only one of the tensors rope_factors_short.weight and rope_factors_long.weight is there"))
	case r.shortDiv != nil && (r.kind == "" || r.kind == "none" || r.kind == "longrope"):
		r.kind, r.factor = "longrope", 0
	case r.shortDiv != nil:
		k.note(fmt.Errorf("rope scaling %q with longrope factors is not supported", r.kind))
	case r.kind == "longrope":
		k.note(errors.New("rope scaling is longrope, but the tensors rope_factors_short.weight and rope_factors_long.weight are missing"))
	case r.kind == "none" || r.kind == "linear" && r.factor == 1:
		r.kind = ""
	case r.kind == "" && r.factor != 1:
		r.kind = "linear" // what the key means where no type is given
	case r.kind != "" && r.kind != "linear" && r.kind != "yarn":
		k.note(fmt.Errorf("metadata %s.rope.scaling.type is %q, wanted none, linear, yarn or longrope", k.arch, r.kind))
	}
	if r.attention != 0 && r.attention != 1 && r.kind != "yarn" && r.kind != "longrope" {
		k.note(fmt.Errorf("metadata %s.rope.scaling.attn_factor is %v, but the scaling is not yarn or longrope", k.arch, r.attention))
	}
}

// ropeFactors reads a small tensor of float32 factors, nil if there is none.
func ropeFactors(f *weights.File, k *ggufKeys, name string) []float32 {
	t, ok := f.Tensor(name)
	if !ok {
		return nil
	}
	if t.Type != kernels.F32 || t.Rows != 1 || t.Cols > maxHeadDim {
		k.note(fmt.Errorf("tensor %q is %s %v, wanted one row of F32", name, t.Type, t.Shape))
		return nil
	}
	factors := make([]float32, t.Cols)
	if err := kernels.Dequantize(factors, t.Type, t.Data); err != nil {
		k.note(fmt.Errorf("tensor %q: %w", name, err))
	}
	return factors
}

// ggufPooling reads the pooling type, numbered as in the format.
func ggufPooling(k *ggufKeys) Pooling {
	switch n := k.countOr("pooling_type", 0); n {
	case 0, 3:
		return PoolLast
	case 1:
		return PoolMean
	default:
		k.note(fmt.Errorf("metadata %s.pooling_type is %d, wanted 0 (none), 1 (mean) or 3 (last)", k.arch, n))
		return ""
	}
}

// refuseOthers fails on a key of the architecture that was not read and is not
// neutral: it belongs to a variant whose arithmetic differs.
func (k *ggufKeys) refuseOthers() error {
	k.key("tensor_data_layout") // a description in words
	for _, key := range k.meta.Keys() {
		name, ok := strings.CutPrefix(key, k.arch+".")
		if !ok || k.seen[key] {
			continue
		}
		if !k.neutral(key, name) {
			return fmt.Errorf("metadata %s (%s) is not supported for architecture %s", key, k.meta.TypeName(key), k.arch)
		}
	}
	return nil
}

// neutral tells whether a value leaves the arithmetic as it is: zero, false, and
// one where the key is a factor.
func (k *ggufKeys) neutral(key, name string) bool {
	switch k.meta.TypeName(key) {
	case "bool":
		b, _ := k.meta.Bool(key, false)
		return b == (name == "attention.causal")
	case "float32", "float64":
		x, _ := k.meta.Float(key, 0)
		return x == 0 || x == 1 && (strings.HasSuffix(name, "scale") || strings.HasSuffix(name, "factor")) || x == -1 && strings.Contains(name, "yarn_")
	case "string":
		s, _ := k.meta.String(key, "")
		return s == ""
	}
	n, err := k.meta.Int(key, 0)
	return err == nil && n == 0
}
