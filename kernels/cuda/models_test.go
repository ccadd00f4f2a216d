package cuda

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hearth/engine/model"
	"hearth/engine/weights"
	"hearth/kernels"
	"hearth/kernels/cpu"
	"hearth/kernels/cuda/cudatest"
	"hearth/kernels/kerneltest"
)

// tinyModels lists the model files of ../shared, or skips the test.
func tinyModels(t *testing.T) []string {
	root := filepath.Join("..", "..", "..", "shared", "models", "tiny")
	if _, err := os.Stat(root); err != nil {
		t.Skipf("SKIPPED: no test material at %s", root)
	}
	var paths []string
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (d.IsDir() && d.Name() == "hf" || strings.HasSuffix(path, ".gguf")) {
			paths = append(paths, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return paths
}

// Every tiny model computes the logits of the CPU, up to rounding, and chooses the
// same tokens: after a prompt in two chunks, then token by token.
func TestModels(t *testing.T) {
	for i, path := range tinyModels(t) {
		if !one(8)(i) {
			continue
		}
		t.Run(strings.TrimPrefix(path, "../../../shared/models/tiny/"), func(t *testing.T) {
			f, err := weights.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			p, _, err := model.Build(f, model.Options{ContextLength: 64})
			if err != nil {
				t.Fatal(err)
			}
			c, err := cpu.New(cpu.Options{Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			want := continuation(t, c, p)
			got := continuation(t, interpreted(Options{Rows: 64, Sequences: 4}, cudatest.Options{Compute: 80 + i%2*10, Lazy: true})(t), p)
			top, off := 1.0, 0.0
			for i, w := range want {
				top, off = max(top, math.Abs(float64(w))), max(off, math.Abs(float64(w-got[i])))
			}
			if !(off <= 2e-3*top) {
				t.Errorf("logits are up to %.3g off, the largest is %.3g", off, top)
			}
		})
	}
}

// continuation runs a prompt and the likeliest tokens after it, and returns the
// logits that each was chosen from.
func continuation(t *testing.T, d kernels.Device, p *kernels.Program) (all []float32) {
	defer d.Close()
	if err := d.Load(p, kernels.KVConfig{Blocks: 4, BlockSize: 16, Type: kernels.F32}); err != nil {
		t.Fatal(err)
	}
	context := 0
	step := func(tokens ...int32) int32 {
		b := &kernels.Batch{Tokens: tokens, Spans: []kernels.Span{{Len: int32(len(tokens)), Context: int32(context), Blocks: []int32{2, 0, 3, 1}}},
			LogitRows: []int32{int32(len(tokens)) - 1}, Logits: make([]float32, p.Vocab)}
		if err := d.Step(b); err != nil {
			t.Fatal(err)
		}
		context += len(tokens)
		all = append(all, b.Logits...)
		best := 0
		for i, x := range b.Logits {
			if x > b.Logits[best] {
				best = i
			}
		}
		return int32(best)
	}
	step(5, 9, 2, 40, 17, 8, 21, 33, 6, 11, 3)
	next := step(30, 4, 12)
	for range 4 {
		next = step(next)
	}
	return all
}

// Caches of fewer bits change logits by no more than they round.
func TestCacheTypes(t *testing.T) {
	p := kerneltest.Model(kerneltest.Shape{Vocab: 50, Width: 64, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 32, FFN: 96, Type: kernels.BF16, Head: kernels.F32}, 3)
	open := func(kv string) kernels.Device {
		return interpreted(Options{KV: kv, Rows: 64, Sequences: 4}, cudatest.Options{})(t)
	}
	want := continuation(t, open("f32"), p)
	for kv, tol := range map[string]float64{"f16": 1e-3, "bf16": 8e-3, "int8": 2e-2, "fp8": 8e-2} {
		off, top := 0.0, 1.0
		for i, x := range continuation(t, open(kv), p)[:p.Vocab] {
			off, top = max(off, math.Abs(float64(x-want[i]))), max(top, math.Abs(float64(want[i])))
		}
		if !(off <= tol*top) || off == 0 {
			t.Errorf("%s: logits are up to %.3g off, the largest is %.3g", kv, off, top)
		}
	}
}
