package weights_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hearth/engine/weights"
	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

func TestOpenGGUF(t *testing.T) {
	path := gguftest.WriteLlama(t, gguftest.Options{Type: kernels.Q8_0})
	f, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Format != weights.GGUF || len(f.Tensors) != 2+9*2 {
		t.Fatalf("format %s with %d tensors", f.Format, len(f.Tensors))
	}
	q, ok := f.Tensor("blk.1.attn_k.weight")
	if !ok || q.Rows != 32 || q.Cols != 64 || q.Type != kernels.Q8_0 || len(q.Data) != 32*2*34 {
		t.Errorf("blk.1.attn_k.weight is %d×%d %s in %d bytes", q.Rows, q.Cols, q.Type, len(q.Data))
	}
	v := f.Tokenizer.Vocabulary
	if v.Tokens[gguftest.IMEnd] != "<|im_end|>" || v.EOS != gguftest.IMEnd || v.EOT != weights.NoToken || v.AddBOS == nil || *v.AddBOS || v.AddEOS != nil {
		t.Errorf("vocabulary: eos %d, eot %d, add bos %v", v.EOS, v.EOT, v.AddBOS)
	}
	if text, ok := f.Template(""); !ok || text != gguftest.Template {
		t.Error("the chat template was not read")
	}
	if f.About.Licence != "cc0-1.0" || f.About.Name != "tiny test llama" {
		t.Errorf("about: %+v", f.About)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	var done int64
	got, err := f.Digest(context.Background(), func(d, _ int64) { done = d })
	if err != nil || got != hex.EncodeToString(sum[:]) || done != int64(len(raw)) || f.Size != done {
		t.Errorf("digest %s of %d bytes, %v", got, done, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.Digest(ctx, nil); err != context.Canceled {
		t.Errorf("cancelled digest: %v", err)
	}
}

func TestVersion2AndAlignment(t *testing.T) {
	g := gguftest.Llama(gguftest.Options{})
	g.Version, g.Alignment = 2, 128
	f, err := weights.Open(g.Write(t))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func TestNamedTemplates(t *testing.T) {
	g := gguftest.Llama(gguftest.Options{})
	g.Delete("tokenizer.chat_template")
	g.Set("tokenizer.chat_templates", []string{"tool_use"})
	g.Set("tokenizer.chat_template.tool_use", "tools")
	g.Set("tokenizer.chat_template", "plain")
	f, err := weights.Open(g.Write(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tool, _ := f.Template("tool_use")
	if len(f.Templates) != 2 || f.Templates[0].Name != weights.DefaultTemplate || tool != "tools" {
		t.Errorf("templates: %+v", f.Templates)
	}
}

// TestRefusedGGUF checks that the text of each refusal names what is wrong.
func TestRefusedGGUF(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(g *gguftest.File)
	}{
		{"version 1", "version 1 is not supported", func(g *gguftest.File) { g.Version = 1 }},
		{"big-endian", "big-endian", func(g *gguftest.File) { g.Version = 3 << 24 }},
		{"alignment", "general.alignment is 24", func(g *gguftest.File) { g.Alignment = 24 }},
		{"key twice", `"general.name" occurs twice`, func(g *gguftest.File) { g.KV = append(g.KV, gguftest.KV{Key: "general.name", Value: "x"}) }},
		{"tensor twice", `"token_embd.weight" occurs twice`, func(g *gguftest.File) { g.Tensors = append(g.Tensors, g.Tensors[0]) }},
		{"short data", "needs 73728 bytes", func(g *gguftest.File) { g.Tensors = g.Tensors[:1]; g.Tensors[0].Data = nil }},
		{"five dimensions", "has 5 dimensions", func(g *gguftest.File) { g.Tensors[0].Shape = []int{1, 1, 1, 288, 64} }},
		{"partial block", "wanted a multiple of 32", func(g *gguftest.File) { g.Tensors[0].Type = kernels.Q8_0; g.Tensors[0].Shape = []int{1, 33} }},
		{"scores", "scores has 3 elements, wanted 288", func(g *gguftest.File) { g.Set("tokenizer.ggml.scores", []float32{1, 2, 3}) }},
		{"token type", "element 0 is 9", func(g *gguftest.File) {
			types := make([]int32, gguftest.VocabSize)
			types[0] = 9
			g.Set("tokenizer.ggml.token_type", types)
		}},
		{"special token", "bos_token_id is 288", func(g *gguftest.File) { g.Set("tokenizer.ggml.bos_token_id", uint32(288)) }},
		{"wrong type", "got uint32, wanted string", func(g *gguftest.File) { g.Set("tokenizer.ggml.model", uint32(1)) }},
		{"second of two parts", "this is part 2", func(g *gguftest.File) { g.Set("split.count", uint32(2)); g.Set("split.no", uint32(1)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := gguftest.Llama(gguftest.Options{})
			c.change(g)
			path := filepath.Join(t.TempDir(), "m-00002-of-00002.gguf")
			if err := os.WriteFile(path, g.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := weights.Open(path)
			if err == nil {
				f.Close()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, wanted it to contain %q", err, c.want)
			}
		})
	}
}

// TestUnsupportedType names the tensor and the type.
func TestUnsupportedType(t *testing.T) {
	raw := gguftest.Llama(gguftest.Options{}).Bytes()
	name := "token_embd.weight"
	at := strings.Index(string(raw), name) + len(name) + 4 + 16
	raw[at] = 16 // IQ2_XXS
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := weights.Open(path); err == nil || !strings.Contains(err.Error(), `tensor "token_embd.weight" has type IQ2_XXS`) {
		t.Errorf("got %v", err)
	}
}

func TestSplitGGUF(t *testing.T) {
	whole := gguftest.Llama(gguftest.Options{})
	dir := t.TempDir()
	for i := range 2 {
		part := &gguftest.File{Tensors: whole.Tensors[10*i : 10*(i+1)]}
		if i == 0 {
			part.KV = append(part.KV, whole.KV...)
			part.Set("split.tensors.count", int32(20))
		}
		part.Set("split.no", uint32(i))
		part.Set("split.count", uint32(2))
		name := filepath.Join(dir, []string{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}[i])
		if err := os.WriteFile(name, part.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := filepath.Join(dir, "m-00001-of-00002.gguf")
	f, err := weights.Open(first)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Tensors) != 20 || len(f.Files) != 2 {
		t.Errorf("%d tensors in %d files", len(f.Tensors), len(f.Files))
	}
	if d, err := f.Digest(context.Background(), nil); err != nil || len(d) != 64 {
		t.Errorf("digest %q, %v", d, err)
	}
	f.Close()
	if err := os.Remove(filepath.Join(dir, "m-00002-of-00002.gguf")); err != nil {
		t.Fatal(err)
	}
	if _, err := weights.Open(first); err == nil || !strings.Contains(err.Error(), "part m-00002-of-00002.gguf") {
		t.Errorf("got %v", err)
	}
}

func TestNotModels(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "x.gguf")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		text:                            `not a GGUF file: it begins with "hell"`,
		filepath.Join(dir, "none.gguf"): "no such file",
		dir:                             "no config.json",
		"/dev/null":                     "neither a regular file nor a directory",
	} {
		if _, err := weights.Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, wanted %q", path, err, want)
		}
	}
}
