package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"hearth/engine/weights"
)

// hfHyper reads the hyperparameters of a Hugging Face directory.
func hfHyper(f *weights.File) (*hyper, error) {
	c, err := newFields("config.json", f.HF.Config)
	if err != nil {
		return nil, err
	}
	c, d, w, err := hfArchitecture(c)
	if err != nil {
		return nil, err
	}
	if err := c.defaults(d.defaults); err != nil {
		return nil, err
	}
	h := &hyper{
		desc: d, wrapper: w,
		hidden: c.count("hidden_size"), ffn: c.count("intermediate_size"), layers: c.count("num_hidden_layers"),
		heads: c.count("num_attention_heads"), context: c.count("max_position_embeddings"), vocab: c.count("vocab_size"),
		eps:  c.number("rms_norm_eps", 0),
		tied: c.flag("tie_word_embeddings", false),
	}
	h.kvHeads = c.countOr("num_key_value_heads", h.heads)
	if c.err == nil && (h.heads < 1 || h.layers < 1 || h.layers > maxLayers) {
		c.note(fmt.Errorf("%d heads in %d layers, wanted 1 or more heads and 1 to %d layers", h.heads, h.layers, maxLayers))
	}
	if c.err != nil {
		return nil, c.err
	}
	h.headDim = c.countOr("head_dim", h.hidden/h.heads)
	h.attnScale = 1 / math.Sqrt(float64(h.headDim))
	if d.name == "gemma3" {
		h.attnScale = 1 / math.Sqrt(c.number("query_pre_attn_scalar", 0))
	}
	h.attnCap, h.logitCap = c.number("attn_logit_softcapping", 0), c.number("final_logit_softcapping", 0)
	hfActivation(c, d)
	hfBiases(c, h)
	hfWindows(c, h)
	hfRope(c, h)
	if c.err == nil {
		c.note(c.refuseOthers())
	}
	if c.err != nil {
		return nil, c.err
	}
	if err := hfTokens(c, f, h); err != nil {
		return nil, err
	}
	h.pooling, err = hfPooling(f.HF.Pooling)
	return h, err
}

// hfArchitecture finds the description by the class, or by model_type where a
// configuration names no class, and the object that configures it.
func hfArchitecture(c *fields) (*fields, *description, *wrapper, error) {
	classes := c.texts("architectures")
	kind := c.text("model_type", "")
	switch {
	case c.err != nil:
		return nil, nil, nil, c.err
	case len(classes) > 1:
		return nil, nil, nil, fmt.Errorf("config.json names %d architectures, wanted 1", len(classes))
	case len(classes) == 0:
		d := describe("", classOf[kind])
		if d == nil {
			return nil, nil, nil, fmt.Errorf("config.json names no architecture, and model_type %q is not supported", kind)
		}
		return c, d, nil, nil
	}
	if w := wrapperOf(classes[0]); w != nil {
		inner := w.unwrap(c)
		return inner, describe("", w.inner), w, c.err
	}
	d := describe("", classes[0])
	if d == nil {
		return nil, nil, nil, fmt.Errorf("architecture %q is not supported, wanted one of %s", classes[0], strings.Join(supported(true), ", "))
	}
	return c, d, nil, nil
}

// classOf is the class of a model_type.
var classOf = map[string]string{
	"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
	"qwen3": "Qwen3ForCausalLM", "gemma3_text": "Gemma3ForCausalLM", "phi3": "Phi3ForCausalLM",
}

func hfActivation(c *fields, d *description) {
	for _, key := range []string{"hidden_act", "hidden_activation"} {
		if got := c.text(key, ""); got != "" && !slices.Contains(d.activationNames, got) {
			c.note(fmt.Errorf("config.json: %s is %q, wanted %s", key, got, d.activationNames[0]))
		}
	}
}

func hfBiases(c *fields, h *hyper) {
	attention, mlp := c.flag("attention_bias", false), c.flag("mlp_bias", false)
	d := h.desc
	if attention && d.qkvBias == biasNever || attention && d.otherBias == biasNever || mlp && d.otherBias == biasNever {
		c.note(fmt.Errorf("config.json: attention_bias %v and mlp_bias %v are not supported for %s", attention, mlp, d.class))
	}
	h.qkvBias = d.qkvBias == biasAlways || attention
	h.outBias, h.mlpBias = attention, mlp
}

// hfWindows works out the sliding window of each layer: by layer_types if given,
// else by the rule of the family.
func hfWindows(c *fields, h *hyper) {
	h.windows = make([]int, h.layers)
	window := c.countOr("sliding_window", 0)
	use := c.flag("use_sliding_window", true)
	from := c.countOr("max_window_layers", 0)
	every := c.countOr("_sliding_window_pattern", 6)
	every = c.countOr("sliding_window_pattern", every)
	types := c.texts("layer_types")
	if !use {
		window = 0
	}
	switch {
	case h.desc.windows == windowNever && window != 0:
		c.note(fmt.Errorf("config.json: sliding_window %d is not supported for %s", window, h.desc.class))
	case types != nil:
		hfLayerTypes(c, h, types, window)
		return
	case h.desc.windows == windowPattern && every < 1:
		c.note(fmt.Errorf("config.json: sliding_window_pattern is %d, wanted 1 or more", every))
	}
	if c.err != nil {
		return
	}
	for i := range h.windows {
		full := h.desc.windows == windowUpper && i < from || h.desc.windows == windowPattern && (i+1)%every == 0
		if !full {
			h.windows[i] = window
		}
	}
}

func hfLayerTypes(c *fields, h *hyper, types []string, window int) {
	if len(types) != h.layers {
		c.note(fmt.Errorf("config.json: layer_types has %d elements, wanted %d, one a layer", len(types), h.layers))
		return
	}
	for i, t := range types {
		switch {
		case t == "full_attention":
		case t == "sliding_attention" && window > 0:
			h.windows[i] = window
		case t == "sliding_attention":
			c.note(errors.New("config.json: layer_types has sliding_attention, but there is no sliding_window"))
		default:
			c.note(fmt.Errorf("config.json: layer_types has %q, wanted full_attention or sliding_attention", t))
		}
	}
}

// hfTokens takes the end and start tokens, from generation_config.json where it
// states them, since that is what the model's authors generate with.
func hfTokens(c *fields, f *weights.File, h *hyper) error {
	sources := []*fields{c}
	if f.HF.GenerationConfig != nil {
		g, err := newFields("generation_config.json", f.HF.GenerationConfig)
		if err != nil {
			return err
		}
		sources = []*fields{g, c}
	}
	for _, s := range sources {
		if h.bos == nil {
			h.bos = s.ids("bos_token_id")
		}
		if h.eos == nil {
			h.eos = s.ids("eos_token_id")
		}
		if s.err != nil {
			return s.err
		}
	}
	for _, id := range slices.Concat(h.bos, h.eos) {
		if int(id) >= h.vocab {
			return fmt.Errorf("special token %d is outside the vocabulary of %d", id, h.vocab)
		}
	}
	return nil
}

// hfPooling reads the pooling module of a sentence-transformers model.
func hfPooling(config []byte) (Pooling, error) {
	if config == nil {
		return PoolLast, nil
	}
	var p map[string]any
	if err := json.Unmarshal(config, &p); err != nil {
		return "", fmt.Errorf("1_Pooling/config.json: %w", err)
	}
	switch {
	case p["pooling_mode_lasttoken"] == true:
		return PoolLast, nil
	case p["pooling_mode_mean_tokens"] == true:
		return PoolMean, nil
	}
	return "", errors.New("1_Pooling/config.json: wanted pooling_mode_lasttoken or pooling_mode_mean_tokens")
}
