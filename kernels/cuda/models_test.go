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

// Every tiny model computes the logits of the CPU, after a prompt in two chunks and
// token by token. Both round a linear's input to 8 bits alike, so that most rows of
// quantized models are the same but for the order of sums; in some that order tips a
// value to the next level, and then all rows of that model may be off by a little.
func TestModels(t *testing.T) {
	alike, rounded := 0, 0 // rows of quantized models
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
			tol := 2e-3
			if cpu.Rounds(p) {
				tol = 0.02
			}
			tokens, want := continuation(t, c, p, nil)
			_, got := continuation(t, interpreted(Options{Rows: 64, Sequences: 4}, cudatest.Options{Compute: 80 + i%2*10, Lazy: true})(t), p, tokens)
			same := 0
			for at := 0; at < len(want); at += p.Vocab {
				off, top := distance(got[at:at+p.Vocab], want[at:at+p.Vocab])
				if !(off <= tol*top) {
					t.Errorf("row %d: logits are up to %.3g off, the largest is %.3g", at/p.Vocab, off, top)
				}
				if off <= 1e-5*top {
					same++
				}
			}
			t.Logf("%d of %d rows are the CPU's but for the order of sums", same, len(want)/p.Vocab)
			if cpu.Rounds(p) {
				alike, rounded = alike+same, rounded+len(want)/p.Vocab
			}
		})
	}
	if alike*2 < rounded || rounded == 0 && !t.Failed() {
		t.Errorf("%d of %d rows of quantized models are the CPU's but for the order of sums, wanted half", alike, rounded)
	}
	t.Logf("%d of %d rows of quantized models are the CPU's but for the order of sums", alike, rounded)
}

// distance is the largest difference, and the largest number or 1.
func distance(got, want []float32) (off, top float64) {
	top = 1
	for i, w := range want {
		top, off = max(top, math.Abs(float64(w))), max(off, math.Abs(float64(w-got[i])))
	}
	return off, top
}

// continuation runs a prompt and the tokens after it, the likeliest ones if none
// are given, and returns them with the logits that each was chosen from.
func continuation(t *testing.T, d kernels.Device, p *kernels.Program, follow []int32) (tokens []int32, all []float32) {
	defer d.Close()
	if err := d.Load(p, kernels.KVConfig{Blocks: 4, BlockSize: 16, Type: kernels.F32}); err != nil {
		t.Fatal(err)
	}
	context := 0
	step := func(in ...int32) int32 {
		b := &kernels.Batch{Tokens: in, Spans: []kernels.Span{{Len: int32(len(in)), Context: int32(context), Blocks: []int32{2, 0, 3, 1}}},
			LogitRows: []int32{int32(len(in)) - 1}, Logits: make([]float32, p.Vocab)}
		if err := d.Step(b); err != nil {
			t.Fatal(err)
		}
		context += len(in)
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
	for i := range 4 {
		if follow != nil {
			next = follow[i]
		}
		tokens = append(tokens, next)
		next = step(next)
	}
	return tokens, all
}

// Caches of fewer bits change logits by no more than they round.
func TestCacheTypes(t *testing.T) {
	p := kerneltest.Model(kerneltest.Shape{Vocab: 50, Width: 64, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 32, FFN: 96, Type: kernels.BF16, Head: kernels.F32}, 3)
	open := func(kv string) kernels.Device {
		return interpreted(Options{KV: kv, Rows: 64, Sequences: 4}, cudatest.Options{})(t)
	}
	tokens, want := continuation(t, open("f32"), p, nil)
	for kv, tol := range map[string]float64{"f16": 1e-3, "bf16": 8e-3, "int8": 2e-2, "fp8": 8e-2} {
		_, got := continuation(t, open(kv), p, tokens)
		off, top := distance(got, want)
		if !(off <= tol*top) || off == 0 {
			t.Errorf("%s: logits are up to %.3g off, the largest is %.3g", kv, off, top)
		}
	}
}

// Fast drops the lower half of what linears of 16-bit weights read, and no more.
func TestFast(t *testing.T) {
	shape := smallShape
	for _, typ := range []kernels.DType{kernels.BF16, kernels.F16} {
		shape.Type, shape.Head = typ, typ
		p := kerneltest.Model(shape, 3)
		open := func(fast bool) kernels.Device {
			return interpreted(Options{Fast: fast, Rows: 64, Sequences: 4}, cudatest.Options{})(t)
		}
		tokens, want := continuation(t, open(false), p, nil)
		_, got := continuation(t, open(true), p, tokens)
		if off, top := distance(got, want); !(off <= 0.05*top) || off == 0 {
			t.Errorf("%v: logits are up to %.3g off, the largest is %.3g", typ, off, top)
		}
	}
}
