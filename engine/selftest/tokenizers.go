package selftest

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"hearth/engine/tokenizer"
)

type tokenizerCase struct {
	Name       string   `json:"name"`
	Text       string   `json:"text"`
	BytesHex   string   `json:"bytes_hex"` // instead of text, where it is not UTF-8
	IDs        []int32  `json:"ids"`       // special tokens in the text recognized
	IDsPlain   []int32  `json:"ids_plain"` // taken as text, where that differs
	DecodedHex string   `json:"decoded_hex"`
	PiecesHex  []string `json:"pieces_hex"`
}

// tinyTokenizers says which model has the tokenizer of a tiny family.
var tinyTokenizers = map[string]string{
	"tiny-bpe-llama3": "tiny/llama3/hf", "tiny-bpe-qwen2": "tiny/qwen2/hf",
	"tiny-spm-gemma": "tiny/gemma3/hf", "tiny-spm-llama": "tiny/mistral/hf",
	"llama3.2": "tokenizers/llama3.1", // the same vocabulary
}

// openTokenizer finds the tokenizer of a family.
func (t *run) openTokenizer(family string) (*tokenizer.Tokenizer, error) {
	places := []string{"tokenizers/" + family, tinyTokenizers[family], family + "/hf", family}
	for _, place := range places {
		dir := filepath.Join(t.opt.Models, filepath.FromSlash(place))
		text, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
		if err != nil || place == "" {
			continue
		}
		conf, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
		if err != nil {
			conf = nil
		}
		return tokenizer.FromJSON(text, conf, tokenizer.WithVerbatimAdded())
	}
	return nil, skipf("the tokenizer %s is not in %s", family, t.opt.Models)
}

func runTokenizer(_ context.Context, t *run, path string) error {
	var f struct {
		Tokenizer string          `json:"tokenizer"`
		Prefix    []int32         `json:"add_special_ids_prefix"`
		Cases     []tokenizerCase `json:"cases"`
	}
	if err := readJSON(path, &f); err != nil {
		return err
	}
	tok, err := t.openTokenizer(f.Tokenizer)
	if err != nil {
		return err
	}
	fault := ""
	if !slices.Equal(tok.Prefix(), f.Prefix) {
		fault = fmt.Sprintf("got %v, wanted %v", tok.Prefix(), f.Prefix)
	}
	t.check("(prefix)", fault)
	for i := range f.Cases {
		t.check(f.Cases[i].Name, f.Cases[i].run(tok))
	}
	return nil
}

func (c *tokenizerCase) run(tok *tokenizer.Tokenizer) string {
	text := c.Text
	if c.BytesHex != "" {
		b, err := hex.DecodeString(c.BytesHex)
		if err != nil {
			return err.Error()
		}
		text = string(b)
	}
	if got := tok.Encode(nil, text, true); !slices.Equal(got, c.IDs) {
		return fmt.Sprintf("encoded as %v, wanted %v", got, c.IDs)
	}
	plain := c.IDsPlain
	if plain == nil {
		plain = c.IDs
	}
	if got := tok.Encode(nil, text, false); !slices.Equal(got, plain) {
		return fmt.Sprintf("plain text encoded as %v, wanted %v", got, plain)
	}
	want := []byte(string([]rune(text))) // bytes that are not UTF-8 count as U+FFFD
	if c.DecodedHex != "" {
		b, err := hex.DecodeString(c.DecodedHex)
		if err != nil {
			return err.Error()
		}
		want = b
	}
	if got := tok.Decode(c.IDs); !bytes.Equal(got, want) {
		return fmt.Sprintf("decoded as %q, wanted %q", got, want)
	}
	if len(c.PiecesHex) > len(c.IDs) {
		return "more pieces than ids"
	}
	for i, p := range c.PiecesHex {
		want, err := hex.DecodeString(p)
		if err != nil {
			return err.Error()
		}
		if got := tok.Piece(c.IDs[i]); !bytes.Equal(got, want) {
			return fmt.Sprintf("token %d is %q, wanted %q", c.IDs[i], got, want)
		}
	}
	return ""
}
