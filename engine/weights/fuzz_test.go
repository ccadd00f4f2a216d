package weights

import (
	"testing"

	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

// smallGGUF has one of everything in a few hundred bytes, so that the fuzzer's
// time goes into variety.
func smallGGUF() []byte {
	f := gguftest.File{Tensors: []gguftest.Tensor{
		{Name: "a", Type: kernels.F32, Shape: []int{4}, Data: make([]byte, 16)},
		{Name: "b", Type: kernels.Q8_0, Shape: []int{2, 32}, Data: make([]byte, 68)},
	}}
	f.Set("general.architecture", "llama")
	f.Set("split.count", uint32(1))
	f.Set("tokenizer.ggml.tokens", []string{"x", "y"})
	f.Set("tokenizer.ggml.scores", []float32{1, 2})
	f.Set("tokenizer.ggml.token_type", []int32{1, 3})
	f.Set("tokenizer.ggml.bos_token_id", uint32(1))
	f.Set("tokenizer.ggml.add_bos_token", true)
	f.Set("tokenizer.ggml.precompiled_charsmap", []uint8{1})
	f.Set("tokenizer.chat_template", "t")
	return f.Bytes()
}

// FuzzGGUF: parsing never panics, and every tensor that comes out lies within
// the input.
func FuzzGGUF(f *testing.F) {
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	f.Add(smallGGUF())
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parseGGUF(data)
		if err != nil {
			return
		}
		checkInside(t, h.tensors, len(data))
		readVocabulary(h.meta)
		ggufTemplates(h.meta)
		ggufAbout(h.meta)
	})
}

// FuzzSafetensors: the same for a safetensors file, an index and a model card.
func FuzzSafetensors(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Add([]byte("\x47\x00\x00\x00\x00\x00\x00\x00{\"a\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[0,12]},\"__metadata__\":{}}123456789012"))
	f.Add([]byte(`{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"../x.safetensors"}}`))
	f.Add([]byte("\x36\x00\x00\x00\x00\x00\x00\x00{\"a\":{\"dtype\":\"I32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}12345678"))
	f.Add([]byte(`{"quantization_config":{"quant_method":"awq","bits":4,"group_size":128,"version":"GEMM","zero_point":true}}`))
	f.Add([]byte("---\nlicense: mit\ntags:\n- x\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if tensors, raw, err := parseSafetensors(data, true); err == nil {
			checkInside(t, tensors, len(data))
			for _, r := range raw {
				if len(r.data) == 0 || len(r.data)%int(rawBytes[r.dtype]) != 0 {
					t.Fatalf("tensor %q of %s %v has %d bytes", r.name, r.dtype, r.shape, len(r.data))
				}
			}
		}
		readScheme(data)
		parseIndex(data)
		FrontMatter(data)
		var c templates
		c.fromJSON(data)
	})
}

func checkInside(t *testing.T, tensors []Tensor, size int) {
	total := 0
	for i := range tensors {
		x := &tensors[i]
		if want := x.Rows * x.Type.RowBytes(x.Cols); x.Rows < 1 || x.Cols < 1 || len(x.Data) != want {
			t.Fatalf("tensor %q is %d×%d %s in %d bytes", x.Name, x.Rows, x.Cols, x.Type, len(x.Data))
		}
		total += len(x.Data)
	}
	if total > size {
		t.Fatalf("tensors of %d bytes in a file of %d", total, size)
	}
}
