package chattmpl

import "embed"

//go:embed builtin/*.jinja
var builtins embed.FS

// Builtin is a built-in template by name: chatml, llama2, llama3, gemma, phi3 or
// plain.
func Builtin(name string) (src string, ok bool) {
	raw, err := builtins.ReadFile("builtin/" + name + ".jinja")
	return string(raw), err == nil
}

// fallbacks are tried in order: a vocabulary with all the tokens was trained
// with the template. Llama 2 spells its marks in plain text, so only vocabularies
// that made them tokens (Mistral's) can be told; it can be asked for by name.
var fallbacks = []struct {
	name   string
	tokens []string
}{
	{"llama3", []string{"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
	{"chatml", []string{"<|im_start|>", "<|im_end|>"}},
	{"gemma", []string{"<start_of_turn>", "<end_of_turn>"}},
	{"phi3", []string{"<|user|>", "<|assistant|>", "<|end|>"}},
	{"llama2", []string{"[INST]", "[/INST]"}},
}

// Fallback chooses a built-in template for a model that ships none, by the
// control tokens its vocabulary has. Base models get "plain", a transcript.
func Fallback(hasToken func(string) bool) (name, src string) {
	name = "plain"
next:
	for _, f := range fallbacks {
		for _, t := range f.tokens {
			if !hasToken(t) {
				continue next
			}
		}
		name = f.name
		break
	}
	src, _ = Builtin(name)
	return name, src
}
