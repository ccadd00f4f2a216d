package tokenizer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func opticks(t testing.TB, dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "vectors", "real", "*.txt"))
	if len(files) == 0 {
		t.Skip("SKIPPED: no text in ../shared/vectors/real")
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func BenchmarkEncode(b *testing.B) {
	dir := shared(b)
	text := opticks(b, dir)
	for _, src := range []string{
		"tokenizers/smollm2", "tokenizers/llama3.1", "tokenizers/qwen2.5", "tokenizers/gemma3",
		"vocab/vocab-gemma3.gguf", "vocab/ggml-vocab-llama-spm.gguf",
	} {
		b.Run(src, func(b *testing.B) {
			var tok *Tokenizer
			if path := filepath.Join(dir, "models", src); strings.HasSuffix(src, ".gguf") {
				tok = readGGUFTokenizer(b, path)
			} else {
				tok = readJSONTokenizer(b, path)
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var ids []int32
			for b.Loop() {
				ids = tok.Encode(ids[:0], text, true)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	dir := shared(b)
	for _, fam := range []string{"llama3.1", "qwen3", "gemma3"} {
		b.Run(fam+"-json", func(b *testing.B) {
			tj, err := os.ReadFile(filepath.Join(dir, "models/tokenizers", fam, "tokenizer.json"))
			if err != nil {
				b.Fatal(err)
			}
			cj, err := os.ReadFile(filepath.Join(dir, "models/tokenizers", fam, "tokenizer_config.json"))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := FromJSON(tj, cj); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, file := range []string{"ggml-vocab-llama-bpe", "vocab-qwen2.5", "vocab-gemma3"} {
		b.Run(file, func(b *testing.B) {
			v, err := readVocab(filepath.Join(dir, "models/vocab", file+".gguf"))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := FromGGUF(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestLongRuns shows that a megabyte without a border takes no more than a
// second, whatever the vocabulary.
func TestLongRuns(t *testing.T) {
	dir := shared(t)
	texts := map[string]string{
		"letter":  strings.Repeat("a", 1<<20),
		"space":   strings.Repeat(" ", 1<<20),
		"newline": strings.Repeat("\n", 1<<20),
		"accent":  "e" + strings.Repeat("\u0301", 1<<19),
		"bad":     strings.Repeat("\xff", 1<<18),
		"less":    strings.Repeat("<|", 1<<19),
	}
	for src, names := range map[string][]string{
		"tokenizers/qwen2.5":              {"letter", "newline", "accent", "bad"},
		"vocab/vocab-gemma3.gguf":         {"letter", "space", "less"},
		"vocab/ggml-vocab-llama-spm.gguf": {"space"},
	} {
		var tok *Tokenizer
		if path := filepath.Join(dir, "models", src); strings.HasSuffix(src, ".gguf") {
			tok = readGGUFTokenizer(t, path)
		} else {
			tok = readJSONTokenizer(t, path)
		}
		for _, name := range names {
			text := texts[name]
			n := 0
			d := cpuTime(t, func() { n = len(tok.Encode(nil, text, true)) })
			t.Logf("%s %s: %d tokens in %v", src, name, n, d.Round(time.Millisecond))
			if d > time.Second && !raceEnabled {
				t.Errorf("%s %s: took %v, want at most 1 s", src, name, d)
			}
		}
	}
}
