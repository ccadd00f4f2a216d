package main

import (
	"path/filepath"
	"strings"
	"testing"

	"hearth/engine/model"
	"hearth/engine/weights"
	"hearth/kernels"
)

// A model that is made is read, has the shape and gives finite results.
func TestMake(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.gguf")
	if err := makeModel("tiny", file); err != nil {
		t.Fatal(err)
	}
	f, err := weights.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, cfg, err := model.Build(f, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Vocab != 512 || len(p.KV) != 2 || p.Width != 64 || cfg.ContextLength != 1024 {
		t.Errorf("vocabulary %d, %d layers, width %d, %d tokens of context", p.Vocab, len(p.KV), p.Width, cfg.ContextLength)
	}
	for i := range p.Tensors {
		if p.Tensors[i].Rows > 1 && p.Tensors[i].Type != kernels.Q8_0 {
			t.Errorf("%s is %v", p.Tensors[i].Name, p.Tensors[i].Type)
		}
	}
	if err := makeModel("70b", file); err == nil || !strings.Contains(err.Error(), "8b-q4_0") {
		t.Errorf("an unknown shape: %v", err)
	}
}
