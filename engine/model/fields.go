package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// fields reads a JSON object of a configuration. The first error sticks; every
// field that was asked for is remembered, so that what was not can be judged.
type fields struct {
	file string
	m    map[string]any
	seen map[string]bool
	err  error
}

func newFields(file string, object []byte) (*fields, error) {
	c := &fields{file: file, seen: map[string]bool{}}
	if err := json.Unmarshal(object, &c.m); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if c.m == nil {
		return nil, fmt.Errorf("%s: got null, wanted an object", file)
	}
	return c, nil
}

// defaults adds fields that are absent. A field that is null stays null.
func (c *fields) defaults(object string) error {
	var d map[string]any
	if err := json.Unmarshal([]byte(object), &d); err != nil {
		return fmt.Errorf("BUG: defaults of an architecture: %w", err)
	}
	for key, v := range d {
		if _, ok := c.m[key]; !ok {
			c.m[key] = v
		}
	}
	return nil
}

func (c *fields) note(err error) {
	if c.err == nil {
		c.err = err
	}
}

// get finds a field; null counts as absent.
func (c *fields) get(key string) (any, bool) {
	c.seen[key] = true
	v := c.m[key]
	return v, v != nil
}

func (c *fields) mismatch(key string, got any, want string) {
	text, _ := json.Marshal(got)
	if len(text) > 60 {
		text = append(text[:60:60], "…"...)
	}
	c.note(fmt.Errorf("%s: %s is %s, wanted %s", c.file, key, text, want))
}

// count reads a whole number that must be there.
func (c *fields) count(key string) int {
	if _, ok := c.get(key); !ok {
		c.note(fmt.Errorf("%s: %s is missing", c.file, key))
		return 0
	}
	return c.countOr(key, 0)
}

func (c *fields) countOr(key string, def int) int {
	v, ok := c.get(key)
	if !ok {
		return def
	}
	x, ok := v.(float64)
	if !ok || x != math.Trunc(x) || x < 0 || x > math.MaxInt32 {
		c.mismatch(key, v, "a whole number from 0 to 2^31-1")
		return def
	}
	return int(x)
}

func (c *fields) number(key string, def float64) float64 {
	v, ok := c.get(key)
	if !ok {
		return def
	}
	x, ok := v.(float64)
	if !ok {
		c.mismatch(key, v, "a number")
		return def
	}
	return x
}

func (c *fields) flag(key string, def bool) bool {
	v, ok := c.get(key)
	if !ok {
		return def
	}
	b, ok := v.(bool)
	if !ok {
		c.mismatch(key, v, "true or false")
		return def
	}
	return b
}

func (c *fields) text(key, def string) string {
	v, ok := c.get(key)
	if !ok {
		return def
	}
	s, ok := v.(string)
	if !ok {
		c.mismatch(key, v, "a text")
		return def
	}
	return s
}

func (c *fields) list(key string) []any {
	v, ok := c.get(key)
	if !ok {
		return nil
	}
	l, ok := v.([]any)
	if !ok {
		c.mismatch(key, v, "a list")
	}
	return l
}

func (c *fields) texts(key string) []string {
	var out []string
	for _, v := range c.list(key) {
		s, ok := v.(string)
		if !ok {
			c.mismatch(key, v, "a list of texts")
			return nil
		}
		out = append(out, s)
	}
	return out
}

func (c *fields) floats(key string) []float32 {
	var out []float32
	for _, v := range c.list(key) {
		x, ok := v.(float64)
		if !ok {
			c.mismatch(key, v, "a list of numbers")
			return nil
		}
		out = append(out, float32(x))
	}
	return out
}

// ids reads a token id or a list of them. -1 stands for none.
func (c *fields) ids(key string) []int32 {
	v, ok := c.get(key)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var out []int32
	for _, v := range list {
		x, ok := v.(float64)
		if !ok || x != math.Trunc(x) || x < -1 || x > math.MaxInt32 {
			c.mismatch(key, v, "token ids")
			return nil
		}
		if x >= 0 && !slices.Contains(out, int32(x)) {
			out = append(out, int32(x))
		}
	}
	return out
}

// object reads a nested object, nil if absent.
func (c *fields) object(key string) *fields {
	v, ok := c.get(key)
	if !ok {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		c.mismatch(key, v, "an object")
		return nil
	}
	return &fields{file: c.file + ": " + key, m: m, seen: map[string]bool{}}
}

// refuseAll fails on any field that was not read and is not null: for objects
// where every field bears on the arithmetic.
func (c *fields) refuseAll() error {
	for _, key := range slices.Sorted(maps.Keys(c.m)) {
		if !c.seen[key] && c.m[key] != nil {
			return fmt.Errorf("%s: %s is not supported here", c.file, key)
		}
	}
	return nil
}

// harmless are fields of published configurations that say nothing about the
// arithmetic of inference, though their names might.
var harmless = []string{
	"attention_dropout", "hidden_dropout", "embd_pdrop", "resid_pdrop", "initializer_range", "use_cache", "pretraining_tp",
	"architectures", "model_type", "torch_dtype", "dtype", "transformers_version", "attn_implementation", "output_attentions",
	"output_hidden_states", "full_attn_mod", "is_llama_config", "num_logits_to_keep", "max_window_layers", "tie_encoder_decoder",
	"chunk_size_feed_forward", "cross_attention_hidden_size", "transformers.js_config", "unsloth_fixed", "eos_token_id",
	"bos_token_id", "pad_token_id", "use_sliding_window",
	"quantization_config", "compression_config", // read with the weights
}

// telling are parts of names by which a field that is not known here may be
// recognized as one that changes the arithmetic.
var telling = []string{
	"scal", "multiplier", "cap", "bias", "norm", "rope", "rotary", "alibi", "window", "expert", "moe", "clip", "clamp",
	"act", "head", "layer", "logit", "attn", "attention", "residual", "embed", "tie", "mup", "quant", "sparse",
	"position", "hidden", "ffn", "mlp", "parallel", "router", "mamba", "ssm", "conv", "temperature_tuning",
}

// refuseOthers fails on a field that was not read, is not neutral, and by its
// name seems to change the arithmetic. Better a model refused than one that
// answers wrongly.
func (c *fields) refuseOthers() error {
	for _, key := range slices.Sorted(maps.Keys(c.m)) {
		if c.seen[key] || strings.HasPrefix(key, "_") || slices.Contains(harmless, key) || neutral(key, c.m[key]) {
			continue
		}
		for _, part := range telling {
			if strings.Contains(strings.ToLower(key), part) {
				c.mismatch(key, c.m[key], "it absent: it is not supported for this architecture")
				return c.err
			}
		}
	}
	return nil
}

// neutral tells whether a value switches something off: null, false, zero,
// empty, and one where the name is that of a factor.
func neutral(key string, v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case float64:
		factor := strings.Contains(key, "scal") || strings.Contains(key, "multiplier") || strings.Contains(key, "factor")
		return v == 0 || v == 1 && factor
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
