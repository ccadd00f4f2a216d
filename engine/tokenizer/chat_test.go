package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestChatIDs: rendered conversations of real families, with their special
// tokens recognized.
func TestChatIDs(t *testing.T) {
	dir := shared(t)
	total := 0
	for family, src := range map[string]string{
		"gemma3": "gemma3", "llama3.1": "llama3.1", "llama3.2": "llama3.1", "qwen2.5": "qwen2.5", "qwen3": "qwen3", "smollm2": "smollm2",
	} {
		b, err := os.ReadFile(filepath.Join(dir, "vectors", "chat", family+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Cases []struct {
				Name, Expected string
				IDs            []int32
			}
		}
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		tok := readJSONTokenizer(t, filepath.Join(dir, "models", "tokenizers", src))
		for _, c := range f.Cases {
			if c.IDs == nil {
				continue
			}
			total++
			if got := tok.Encode(nil, c.Expected, true); !slices.Equal(got, c.IDs) {
				t.Errorf("%s %s: got %v, want %v", family, c.Name, got, c.IDs)
			}
		}
	}
	t.Logf("%d conversations", total)
}

// TestPromptIDs: the prompts of the real models, from the models' own files.
func TestPromptIDs(t *testing.T) {
	dir := shared(t)
	for family, src := range map[string]string{
		"smollm2": "tokenizers/smollm2", "qwen2.5-coder": "vocab/vocab-qwen2.5.gguf", "gemma3": "vocab/vocab-gemma3.gguf",
		"stories260k": "stories260k/stories260K.F32.gguf",
	} {
		b, err := os.ReadFile(filepath.Join(dir, "vectors", "real", family+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Cases []struct {
				Prompt string
				IDs    []int32 `json:"prompt_ids"`
			}
		}
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		var tok *Tokenizer
		if path := filepath.Join(dir, "models", src); strings.HasSuffix(src, ".gguf") {
			tok = readGGUFTokenizer(t, path)
		} else {
			tok = readJSONTokenizer(t, path)
		}
		for _, c := range f.Cases {
			got := tok.Encode(nil, c.Prompt, true)
			if !slices.Equal(got, c.IDs) && !slices.Equal(append(slices.Clone(tok.Prefix()), got...), c.IDs) {
				t.Errorf("%s %.40q: got %v, want %v", family, c.Prompt, got, c.IDs)
			}
		}
	}
}
