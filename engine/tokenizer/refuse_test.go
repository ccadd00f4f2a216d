package tokenizer

import (
	"math"
	"strings"
	"testing"
)

// TestRefusals: hostile vocabularies get an error that names what is wrong.
func TestRefusals(t *testing.T) {
	base := func() Vocab {
		v := NewVocab()
		v.Model, v.Pre = "gpt2", "qwen2"
		v.Tokens = []string{"a", "b", "ab", "<|end|>"}
		v.Types = []int32{1, 1, 1, 3}
		v.Merges = []string{"a b"}
		return v
	}
	for _, c := range []struct {
		want   string
		change func(v *Vocab)
	}{
		{"no tokens", func(v *Vocab) { v.Tokens = nil }},
		{"token types, want 4", func(v *Vocab) { v.Types = v.Types[:2] }},
		{"got type 9", func(v *Vocab) { v.Types[1] = 9 }},
		{"got type -1", func(v *Vocab) { v.Types[1] = -1 }},
		{"eos token: got id 4", func(v *Vocab) { v.EOS = 4 }},
		{"bos token: got id -2", func(v *Vocab) { v.BOS = -2 }},
		{"merge 0: the right token", func(v *Vocab) { v.Merges[0] = "a c" }},
		{"merge 0: the result", func(v *Vocab) { v.Merges[0] = "b a" }},
		{"with a space between", func(v *Vocab) { v.Merges[0] = "ab" }},
		{"with a space between", func(v *Vocab) { v.Merges[0] = "" }},
		{"with a space between", func(v *Vocab) { v.Merges[0] = "a " }},
		{"pre-tokenizer \"x\"", func(v *Vocab) { v.Pre = "x" }},
		{"tokenizer model \"x\"", func(v *Vocab) { v.Model = "x" }},
		{"byte token 1", func(v *Vocab) { v.Tokens[1], v.Types[1] = "<0x-1>", 6 }},
		{"got 65537 bytes", func(v *Vocab) { v.Tokens[1] = strings.Repeat("b", 65537) }},
		{"added token 3", func(v *Vocab) { v.Tokens[3] = strings.Repeat("b", 5000) }},
		{"scores, want 4", func(v *Vocab) { v.Model = "llama" }},
		{"not a number", func(v *Vocab) { v.Model, v.Scores = "llama", []float32{0, 0, float32(math.NaN()), 0} }},
		{"no unknown token", func(v *Vocab) { v.Model, v.Scores = "t5", make([]float32, 4) }},
		{"score of token 1", func(v *Vocab) {
			v.Model, v.UNK, v.Scores = "t5", 0, []float32{0, float32(math.Inf(1)), 0, 0}
		}},
		{"charsmap", func(v *Vocab) {
			v.Model, v.UNK, v.Scores, v.PrecompiledCharsmap = "t5", 0, make([]float32, 4), []byte{255, 255, 255, 255, 0}
		}},
	} {
		v := base()
		c.change(&v)
		if _, err := FromGGUF(v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
	for _, c := range []struct{ json, want string }{
		{``, "at byte 0"},
		{`{}`, "no model"},
		{`{"model":{}}`, "no vocabulary"},
		{`{"model":{"vocab":{}}}`, "no tokens"},
		{`{"model":{"vocab":{"a":-1}}}`, "got id -1"},
		{`{"model":{"vocab":{"a":99999999}}}`, "got id 99999999"},
		{`{"model":{"vocab":{"a":0,"b":0}}}`, "id 0 is that of"},
		{`{"model":{"vocab":{"a":1.5}}}`, "an integer"},
		{`{"model":{"vocab":{"a":0},"type":"WordPiece"}}`, `"WordPiece"`},
		{`{"model":{"vocab":{"a":0},"dropout":0.1}}`, "dropout"},
		{`{"model":{"vocab":{"a":0},"merges":["a b"]}}`, "merge 0"},
		{`{"model":{"vocab":{"a":0},"merges":[["a"]]}}`, "two tokens"},
		{`{"model":{"vocab":{"a":0}},"added_tokens":[{"id":0,"content":"x"}]}`, "id 0 is that of"},
		{`{"model":{"vocab":{"a":0}},"added_tokens":[{"id":1,"content":""}]}`, "its text is empty"},
		{`{"model":{"vocab":{"a":0}},"normalizer":{"type":"Nmt"}}`, `"Nmt"`},
		{`{"model":{"vocab":{"a":0}},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?<=a)b"},"behavior":"Isolated"}}`, "expression"},
		{`{"model":{"vocab":{"a":0}},"decoder":{"type":"CTC"}}`, `"CTC"`},
		{`{"model":{"vocab":{"a":0}},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{"x":{"ids":[7]}}}}`, "got id 7"},
		{strings.Repeat("[", 100), "{"},
		{`{"a":` + strings.Repeat("[", 100), "levels"},
	} {
		if _, err := FromJSON([]byte(c.json), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: want %q, got %v", c.json, c.want, err)
		}
	}
}

// TestDuplicates: of equal names the first id is used, and both decode.
func TestDuplicates(t *testing.T) {
	v := NewVocab()
	v.Model, v.Pre = "gpt2", "gpt-2"
	v.Tokens = []string{"a", "a", "b", "", "ab"}
	v.Merges = []string{"a b", "a b"}
	tok, err := FromGGUF(v)
	if err != nil {
		t.Fatal(err)
	}
	if ids := tok.Encode(nil, "aab", true); len(ids) != 2 || ids[0] != 0 || ids[1] != 4 {
		t.Errorf("got %v, want [0 4]", ids)
	}
	if got := string(tok.Decode([]int32{1, 3, 2, 99, -1})); got != "ab" {
		t.Errorf("got %q, want ab", got)
	}
}
