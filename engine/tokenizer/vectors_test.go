package tokenizer

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// shared finds the test material beside the repository, or skips.
func shared(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		t.Fatal("no go.mod above the test")
	}
	dir = filepath.Join(dir, "..", "shared")
	if _, err := os.Stat(filepath.Join(dir, "vectors", "tokenizer")); err != nil {
		t.Skip("SKIPPED: ../shared/vectors is not there; the golden ids of real vocabularies were NOT checked")
	}
	return dir
}

type vectorFile struct {
	Prefix []int32 `json:"add_special_ids_prefix"`
	Vocab  int     `json:"vocab"`
	Cases  []vectorCase
}

type vectorCase struct {
	Name        string
	Text        string
	BytesHex    string   `json:"bytes_hex"`
	IDs         []int32  `json:"ids"`
	IDsPlain    []int32  `json:"ids_plain"`
	IDsLlamaCpp []int32  `json:"ids_llama_cpp"`
	DecodedHex  string   `json:"decoded_hex"`
	PiecesHex   []string `json:"pieces_hex"`
}

func readVectors(t testing.TB, path string) vectorFile {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f vectorFile
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func (c *vectorCase) text(t testing.TB) string {
	if c.BytesHex == "" {
		return c.Text
	}
	b, err := hex.DecodeString(c.BytesHex)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// loaded keeps the large vocabularies for all tests: path to func.
var loaded sync.Map

func once(path string, load func() (*Tokenizer, error)) (*Tokenizer, error) {
	f, _ := loaded.LoadOrStore(path, sync.OnceValues(load))
	return f.(func() (*Tokenizer, error))()
}

// readJSONTokenizer reads a directory, with added tokens verbatim as the
// vectors have them.
func readJSONTokenizer(t testing.TB, dir string) *Tokenizer {
	tok, err := once(dir, func() (*Tokenizer, error) {
		tj, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
		if err != nil {
			return nil, err
		}
		cj, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
		if err != nil {
			return nil, err
		}
		return FromJSON(tj, cj, WithVerbatimAdded())
	})
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return tok
}

func readGGUFTokenizer(t testing.TB, path string) *Tokenizer {
	tok, err := once(path, func() (*Tokenizer, error) {
		v, err := readVocab(path)
		if err != nil {
			return nil, err
		}
		return FromGGUF(v)
	})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return tok
}

// vectorSources says which vocabularies each vector file holds for.
var vectorSources = map[string][]string{
	"gemma3":          {"tokenizers/gemma3", "vocab/vocab-gemma3.gguf"},
	"llama3.1":        {"tokenizers/llama3.1", "vocab/ggml-vocab-llama-bpe.gguf"},
	"qwen2.5":         {"tokenizers/qwen2.5", "vocab/vocab-qwen2.5.gguf"},
	"qwen3":           {"tokenizers/qwen3"},
	"smollm2":         {"tokenizers/smollm2"},
	"stories260k":     {"stories260k/hf", "stories260k/stories260K.F32.gguf"},
	"tiny-bpe-llama3": {"tiny/llama/hf", "tiny/llama3/hf", "tiny/llama-sharded/hf", "tiny/llama/llama.F32.gguf", "tiny/llama3/llama3.Q8_0.gguf"},
	"tiny-bpe-qwen2":  {"tiny/qwen2/hf", "tiny/qwen3/hf", "tiny/qwen2-bf16/hf", "tiny/qwen2/qwen2.F32.gguf", "tiny/qwen3/qwen3.F32.gguf"},
	"tiny-spm-gemma":  {"tiny/gemma3/hf", "tiny/gemma3/gemma3.F32.gguf"},
	"tiny-spm-llama":  {"tiny/mistral/hf", "tiny/phi3/hf", "tiny/mistral-swa/hf", "tiny/mistral/mistral.F32.gguf", "tiny/phi3/phi3.F32.gguf"},
}

func TestVectors(t *testing.T) {
	dir := shared(t)
	files, err := filepath.Glob(filepath.Join(dir, "vectors", "tokenizer", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no vectors", err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		f := readVectors(t, path)
		sources, ok := vectorSources[name]
		if !ok {
			t.Errorf("%s: no vocabulary known", name)
		}
		for _, src := range sources {
			full := filepath.Join(dir, "models", src)
			gguf := strings.HasSuffix(src, ".gguf")
			t.Run(name+"/"+src, func(t *testing.T) {
				t.Parallel()
				var tok *Tokenizer
				if gguf {
					tok = readGGUFTokenizer(t, full)
				} else {
					tok = readJSONTokenizer(t, full)
				}
				checkVectors(t, tok, &f, gguf, name)
			})
		}
	}
}

func checkVectors(t *testing.T, tok *Tokenizer, f *vectorFile, gguf bool, name string) {
	if !slices.Equal(tok.Prefix(), f.Prefix) {
		t.Errorf("prefix: got %v, want %v", tok.Prefix(), f.Prefix)
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		text := c.text(t)
		// The scores in Gemma's GGUF file do not say that U+2581 in the text
		// may be part of a run of spaces (see the vectors' README).
		if gguf && name == "gemma3" && c.Name == "meta-space" {
			if got := tok.Encode(nil, text, true); !slices.Equal(got, c.IDsLlamaCpp) {
				t.Errorf("%s: got %v, want %v", c.Name, got, c.IDsLlamaCpp)
			}
			continue
		}
		if got := tok.Encode(nil, text, true); !slices.Equal(got, c.IDs) {
			t.Errorf("%s: %.60q\n got %v\nwant %v", c.Name, text, got, c.IDs)
		}
		if got := tok.EncodeSegments([]Segment{{text, true}}); !slices.Equal(got, c.IDs) {
			t.Errorf("%s: trusted segment: got %v, want %v", c.Name, got, c.IDs)
		}
		plain := c.IDsPlain
		if plain == nil {
			plain = c.IDs
		}
		if got := tok.Encode(nil, text, false); !slices.Equal(got, plain) {
			t.Errorf("%s: plain %.60q\n got %v\nwant %v", c.Name, text, got, plain)
		}
		if got := tok.EncodeSegments([]Segment{{text, false}}); !slices.Equal(got, plain) {
			t.Errorf("%s: untrusted segment: got %v, want %v", c.Name, got, plain)
		}
		// In GGUF the spaces of Gemma's tokens are spaces.
		spaces := func(b []byte) []byte {
			if gguf && name == "gemma3" {
				return bytes.ReplaceAll(b, []byte(meta), []byte(" "))
			}
			return b
		}
		want := []byte(string([]rune(text)))
		if c.DecodedHex != "" {
			want, _ = hex.DecodeString(c.DecodedHex)
		}
		if got := tok.Decode(c.IDs); !bytes.Equal(spaces(got), spaces(want)) {
			t.Errorf("%s: decoded\n got %q\nwant %q", c.Name, got, want)
		}
		for k, p := range c.PiecesHex {
			want, _ := hex.DecodeString(p)
			if got := tok.Piece(c.IDs[k]); !bytes.Equal(spaces(got), spaces(want)) {
				t.Errorf("%s: piece %d of id %d: got %q, want %q", c.Name, k, c.IDs[k], got, want)
			}
		}
	}
}

// TestLlamaCppCases runs llama.cpp's own cases, kept beside its vocabularies.
func TestLlamaCppCases(t *testing.T) {
	dir := filepath.Join(shared(t), "models", "vocab")
	files, _ := filepath.Glob(filepath.Join(dir, "*.inp"))
	if len(files) == 0 {
		t.Fatal("no cases")
	}
	for _, inp := range files {
		path := strings.TrimSuffix(inp, ".inp")
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			tok := readGGUFTokenizer(t, path)
			in, err := os.ReadFile(inp)
			if err != nil {
				t.Fatal(err)
			}
			out, err := os.ReadFile(path + ".out")
			if err != nil {
				t.Fatal(err)
			}
			texts := strings.Split(strings.TrimSuffix(string(in), "\n__ggml_vocab_test__\n"), "\n__ggml_vocab_test__\n")
			lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			if len(texts) != len(lines) {
				t.Fatalf("got %d texts and %d results", len(texts), len(lines))
			}
			for i, text := range texts {
				var want []int32
				for _, f := range strings.Fields(lines[i]) {
					n, err := strconv.Atoi(f)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, int32(n))
				}
				if got := tok.Encode(nil, text, false); !slices.Equal(got, want) {
					t.Errorf("%q:\n got %v\nwant %v", text, got, want)
				}
			}
		})
	}
}
