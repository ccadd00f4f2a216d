package weights_test

import (
	"context"
	"encoding/binary"
	"maps"
	"strings"
	"testing"

	"hearth/engine/weights"
	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

func TestOpenDirectory(t *testing.T) {
	var digests []string
	for _, shards := range []int{1, 3} {
		dir := gguftest.WriteDirectory(t, gguftest.Options{Type: kernels.BF16}, shards)
		f, err := weights.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if f.Format != weights.Safetensors || len(f.Tensors) != 20 || f.HF.Config == nil || f.Tokenizer.JSON == nil {
			t.Errorf("%d shards: format %s with %d tensors", shards, f.Format, len(f.Tensors))
		}
		k, ok := f.Tensor("model.layers.1.self_attn.k_proj.weight")
		if !ok || k.Rows != 32 || k.Cols != 64 || k.Type != kernels.BF16 {
			t.Errorf("%d shards: k_proj %+v", shards, k.Shape)
		}
		if text, _ := f.Template(""); text != gguftest.Template {
			t.Errorf("%d shards: no template", shards)
		}
		if f.About.Licence != "cc0-1.0" {
			t.Errorf("%d shards: licence %q", shards, f.About.Licence)
		}
		d, err := f.Digest(context.Background(), nil)
		if err != nil {
			t.Error(err)
		}
		digests = append(digests, d)
		f.Close()
	}
	if digests[0] == digests[1] {
		t.Error("different files have the same digest")
	}
}

func TestTemplatePlaces(t *testing.T) {
	files := gguftest.Directory(gguftest.Options{}, 1)
	files["tokenizer_config.json"] = []byte(`{"chat_template":[{"name":"default","template":"old"},{"name":"rag","template":"r"}]}`)
	files["chat_template.jinja"] = []byte("new")
	files["additional_chat_templates/tool_use.jinja"] = []byte("t")
	f, err := weights.Open(gguftest.WriteFiles(t, files))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	for _, x := range f.Templates {
		got = append(got, x.Name+"="+x.Text)
	}
	if s := strings.Join(got, " "); s != "default=new rag=r tool_use=t" {
		t.Errorf("got %s", s)
	}
}

func TestRefusedDirectory(t *testing.T) {
	base := gguftest.Directory(gguftest.Options{}, 2)
	const first, index = "model-00001-of-00002.safetensors", "model.safetensors.index.json"
	for _, c := range []struct {
		name, want string
		change     func(files map[string][]byte)
	}{
		{"no config", "no config.json", func(m map[string][]byte) { delete(m, "config.json") }},
		{"broken config", "config.json is not valid JSON", func(m map[string][]byte) { m["config.json"] = []byte("{") }},
		{"quantized", `method "bitsandbytes": that method is not supported`, func(m map[string][]byte) {
			m["config.json"] = []byte(`{"quantization_config":{"quant_method":"bitsandbytes"}}`)
		}},
		{"no weights", "has neither model.safetensors", func(m map[string][]byte) { delete(m, index) }},
		{"pickle", "only pickled weights (pytorch_model.bin)", func(m map[string][]byte) { delete(m, index); m["pytorch_model.bin"] = nil }},
		{"missing shard", "no such file", func(m map[string][]byte) { delete(m, first) }},
		{"shard elsewhere", "wanted the name of a .safetensors file in the same directory", func(m map[string][]byte) {
			m[index] = []byte(strings.ReplaceAll(string(m[index]), first, "../"+first))
		}},
		{"no map", "no weight_map", func(m map[string][]byte) { m[index] = []byte(`{}`) }},
		{"tensor not in index", "but the index says", func(m map[string][]byte) {
			m[index] = []byte(strings.Replace(string(m[index]), "model.norm.weight", "model.norm.bias", 1))
		}},
		{"short header", "8 bytes of header length", func(m map[string][]byte) { m[first] = []byte("abc") }},
		{"long header", "but only", func(m map[string][]byte) { binary.LittleEndian.PutUint64(m[first], 1<<63) }},
		{"type", `has type "I64"`, func(m map[string][]byte) { header(m, first, `"F32"`, `"I64"`) }},
		{"range", "wanted a range within", func(m map[string][]byte) { header(m, first, `"data_offsets":[0,`, `"data_offsets":[99999999,`) }},
		{"shape", "wanted 294912", func(m map[string][]byte) { header(m, first, `[288,64]`, `[288,256]`) }},
		{"overflow", "more values than the file has bytes", func(m map[string][]byte) { header(m, first, `[288,64]`, `[18446744073709551615,64]`) }},
		{"bytes left over", "of the data, which has", func(m map[string][]byte) { m[first] = append(m[first], 0) }},
		{"twice", "occurs twice", func(m map[string][]byte) {
			header(m, first, `"model.layers.0.input_layernorm.weight"`, `"model.embed_tokens.weight"`)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := maps.Clone(base)
			for k, v := range files {
				files[k] = append([]byte{}, v...)
			}
			c.change(files)
			f, err := weights.Open(gguftest.WriteFiles(t, files))
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

// header replaces text in a safetensors header and sets its length anew.
func header(files map[string][]byte, name, old, now string) {
	b := files[name]
	n := 8 + binary.LittleEndian.Uint64(b)
	head := strings.Replace(string(b[8:n]), old, now, 1)
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	files[name] = append(append(out, head...), b[n:]...)
}

func TestFrontMatter(t *testing.T) {
	for _, c := range []struct{ card, key, want string }{
		{"---\nlicense: mit\n---\n", "license", "mit"},
		{"---\r\nlicense: \"apache-2.0\"\r\n---\r\n", "license", "apache-2.0"},
		{"---\ntags:\n- a\n- b\nlicense:\n  - mit\n---\n", "license", "mit"},
		{"license: mit\n", "license", ""},
		{"---\nlicense: mit\n", "license", ""},
		{"---\nx:\n  license: mit\n---\n", "license", ""},
	} {
		if got := weights.FrontMatter([]byte(c.card))[c.key]; got != c.want {
			t.Errorf("%q: got %q, wanted %q", c.card, got, c.want)
		}
	}
}
