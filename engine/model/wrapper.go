package model

import (
	"strings"

	"hearth/engine/weights"
)

// wrapper is a model with more than text around a text model that we can run.
// Only the text model is built; inputs of other kinds cannot be served.
type wrapper struct {
	class string // of the whole
	inner string // of the text model
	field string // of config.json that configures it

	// prefixes are those that published files have in the place of "model."
	// before the text model's tensors, and of "" before lm_head.
	prefixes, headPrefixes []string
	others                 []string // prefixes of tensors that do not belong to it
}

var wrappers = []wrapper{{
	class: "Gemma3ForConditionalGeneration", inner: "Gemma3ForCausalLM", field: "text_config",
	prefixes:     []string{"language_model.model.", "model.language_model."},
	headPrefixes: []string{"language_model.", ""},
	others: []string{
		"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector.",
	},
}}

func wrapperOf(class string) *wrapper {
	for i := range wrappers {
		if wrappers[i].class == class {
			return &wrappers[i]
		}
	}
	return nil
}

// unwrap gives the configuration of the text model. Special tokens and tying are
// stated for the whole.
func (w *wrapper) unwrap(c *fields) *fields {
	inner := c.object(w.field)
	if inner == nil {
		return &fields{file: c.file, m: map[string]any{}, seen: map[string]bool{}}
	}
	for _, key := range []string{"bos_token_id", "eos_token_id", "tie_word_embeddings"} {
		if v := c.m[key]; v != nil {
			inner.m[key] = v
		}
	}
	delete(inner.m, "architectures")
	return inner
}

// name turns the plain name of a tensor into the one that this file has.
func (w *wrapper) name(f *weights.File, plain string) string {
	rest, inside := strings.CutPrefix(plain, "model.")
	prefixes := w.prefixes
	if !inside {
		prefixes, rest = w.headPrefixes, plain
	}
	for _, p := range prefixes {
		if _, ok := f.Tensor(p + rest); ok {
			return p + rest
		}
	}
	return prefixes[0] + rest
}

// foreign tells a tensor of another part of the whole.
func (w *wrapper) foreign(name string) bool {
	for _, p := range w.others {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
