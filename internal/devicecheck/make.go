package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

// shapes are published models' configurations, as far as they decide speed, and
// one that an interpreter can run.
var shapes = map[string]struct {
	gguftest.Options
	vocab int
}{
	"tiny":      {gguftest.Options{Layers: 2, Hidden: 64, FFN: 192, Heads: 4, KVHeads: 2, Type: kernels.Q8_0, Context: 1024}, 512},
	"135m-q4_1": {gguftest.Options{Layers: 30, Hidden: 576, FFN: 1536, Heads: 9, KVHeads: 3, Type: kernels.Q4_1, Context: 8192}, 49152},
	"135m-bf16": {gguftest.Options{Layers: 30, Hidden: 576, FFN: 1536, Heads: 9, KVHeads: 3, Type: kernels.BF16, Context: 8192}, 49152},
	"1b-bf16":   {gguftest.Options{Layers: 16, Hidden: 2048, FFN: 8192, Heads: 32, KVHeads: 8, Type: kernels.BF16, Context: 8192}, 128256},
	"8b-q4_0":   {gguftest.Options{Layers: 32, Hidden: 4096, FFN: 14336, Heads: 32, KVHeads: 8, Type: kernels.Q4_0, Context: 8192, Untied: true}, 128256},
	"8b-q8_0":   {gguftest.Options{Layers: 32, Hidden: 4096, FFN: 14336, Heads: 32, KVHeads: 8, Type: kernels.Q8_0, Context: 8192, Untied: true}, 128256},
}

// makeModel writes a model of random weights. All layers have those of the first,
// and the rows of the vocabulary repeat: a step takes as long as with others.
func makeModel(name, file string) error {
	s, ok := shapes[name]
	if !ok {
		names := make([]string, 0, len(shapes))
		for n := range shapes {
			names = append(names, n)
		}
		slices.Sort(names)
		return fmt.Errorf("cannot make a model: got shape %q, wanted %s", name, strings.Join(names, ", "))
	}
	o, layers := s.Options, s.Layers
	o.Layers = 1
	f := gguftest.Llama(o)
	f.Set("general.name", "random weights in the shape "+name)
	f.Set("llama.block_count", uint32(layers))
	repeatLayers(f, layers)
	widen(f, s.vocab)
	return os.WriteFile(file, f.Bytes(), 0o644)
}

// repeatLayers gives the model more layers, which share the bytes of the first.
func repeatLayers(f *gguftest.File, layers int) {
	first := slices.Clone(f.Tensors)
	for i := 1; i < layers; i++ {
		for _, t := range first {
			if rest, ok := strings.CutPrefix(t.Name, "blk.0."); ok {
				t.Name = fmt.Sprintf("blk.%d.%s", i, rest)
				f.Tensors = append(f.Tensors, t)
			}
		}
	}
}

// widen gives the model a larger vocabulary of tokens that no text has.
func widen(f *gguftest.File, vocab int) {
	f.Set("llama.vocab_size", uint32(vocab))
	for i := range f.KV {
		switch v := f.KV[i].Value.(type) {
		case []string:
			if f.KV[i].Key != "tokenizer.ggml.tokens" {
				continue
			}
			for n := len(v); n < vocab; n++ {
				v = append(v, fmt.Sprintf("<|more_%d|>", n))
			}
			f.KV[i].Value = v
		case []int32:
			for len(v) < vocab {
				v = append(v, 5) // unused
			}
			f.KV[i].Value = v
		}
	}
	for _, name := range []string{"token_embd.weight", "output.weight"} {
		if t := f.Find(name); t != nil {
			row := len(t.Data) / t.Shape[0]
			data := make([]byte, 0, row*vocab)
			for len(data) < row*vocab {
				data = append(data, t.Data[:min(len(t.Data), row*vocab-len(data))]...)
			}
			t.Data, t.Shape = data, []int{vocab, t.Shape[1]}
		}
	}
}
