package cpu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"hearth/kernels"
	"hearth/kernels/kerneltest"
)

func open(o Options) kerneltest.Open {
	return func(t testing.TB) kernels.Device {
		d, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

func TestCases(t *testing.T) {
	var all []kerneltest.Candidate
	for _, path := range Paths() {
		for _, act := range []string{"f32", "q8"} {
			all = append(all, kerneltest.Candidate{Name: path + "/" + act, Quantized: act == "q8",
				Open: open(Options{Threads: 2, Path: path, Activations: act})})
		}
	}
	kerneltest.Against(t, all...)
}

// Packing loses nothing.
func TestPanelRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, typ := range kernels.DTypes() {
		s := spec(typ)
		if s == nil {
			continue
		}
		w := kerneltest.Tensor(rng, "w", typ, 11, 2*s.values, 1)
		for p := range panels(11) {
			dst := make([]byte, 2*s.blockBytes())
			repack(dst, &w, p)
			for r := range min(panelRows, 11-p*panelRows) {
				for b := range 2 {
					var want, got levels
					n, row := typ.BlockBytes(), typ.RowBytes(w.Cols)
					readers[typ](&want, w.Data[(p*panelRows+r)*row+b*n:][:n])
					s.unpack(dst[b*s.blockBytes():], r, &got)
					if got != want {
						t.Fatalf("%v panel %d row %d block %d: got %v, want %v", typ, p, r, b, got, want)
					}
				}
			}
		}
	}
}

// Floats lie in panels column by column, whatever their number.
func TestInterleave(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, typ := range []kernels.DType{kernels.F32, kernels.F16, kernels.BF16} {
		for _, cols := range []int{1, 2, 3, 4, 7, 64, 67} {
			for _, rows := range []int{8, 11} {
				w := kerneltest.Tensor(rng, "w", typ, rows, cols, 1)
				n := typ.BlockBytes()
				for p := range panels(rows) {
					panel := make([]byte, panelBytes(&w))
					interleave(panel, &w, p)
					for at := range cols * panelRows {
						r, k := p*panelRows+at%panelRows, at/panelRows
						want := make([]byte, n)
						if r < rows {
							want = w.Data[(r*cols+k)*n:][:n]
						}
						if got := panel[at*n:][:n]; !bytes.Equal(got, want) {
							t.Fatalf("%v, %d columns: row %d column %d: got %x, want %x", typ, cols, r, k, got, want)
						}
					}
				}
			}
		}
	}
}

// The same bits alone and in random batches, with 1, 2 and 3 threads, on every
// path.
func TestBatchInvariance(t *testing.T) {
	for _, act := range []string{"q8", "f32"} {
		var opens []kerneltest.Open
		for i, path := range Paths() {
			for threads := 1; threads <= 3; threads++ {
				if i == 0 && act == "q8" || threads == 2 {
					opens = append(opens, open(Options{Threads: threads, Path: path, Activations: act}))
				}
			}
		}
		t.Run(act, func(t *testing.T) { kerneltest.BatchInvariance(t, 42, opens...) })
	}
}

// Dequantized panels hold the bits that kernels.Dequantize gives.
func TestPanelFloats(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, typ := range kernels.DTypes() {
		s := spec(typ)
		if s == nil {
			continue
		}
		w := kerneltest.Tensor(rng, "w", typ, panelRows, 2*s.values, 1)
		panel := make([]byte, panelBytes(&w))
		repack(panel, &w, 0)
		want := make([]float32, w.Rows*w.Cols)
		if err := kernels.Dequantize(want, typ, w.Data); err != nil {
			t.Fatal(err)
		}
		for _, path := range Paths() {
			ks, _ := choose(path)
			got := make([]float32, len(want))
			ks.floats(typ, &got[0], &panel[0], 2)
			for i, g := range got {
				if v := want[i%panelRows*w.Cols+i/panelRows]; g != v {
					t.Fatalf("%v on %s: row %d column %d: got %v, want %v", typ, path, i%panelRows, i/panelRows, g, v)
				}
			}
		}
	}
}

// What a set must show before it is used, every other set shows here too.
func TestSetsAgree(t *testing.T) {
	for _, path := range Paths() {
		ks, _ := choose(path)
		if !agree(ks, &portable) {
			t.Errorf("%s does not agree with the portable kernels", path)
		}
	}
	broken := portable
	broken.mat = func(t kernels.DType, cols int, dst *float32, ldd int, w, act *byte, lda, blocks, count int) {
		portable.mat(t, cols, dst, ldd, w, act, lda, blocks, count)
		if t == kernels.Q6_K {
			*dst += 1
		}
	}
	if agree(&broken, &portable) {
		t.Error("a wrong kernel goes unnoticed")
	}
}

func TestCopyBlocks(t *testing.T) { kerneltest.CopiedBlocks(t, open(Options{Threads: 2})) }

// A step in steady state does not allocate.
func TestStepAllocs(t *testing.T) {
	p := kerneltest.Model(kerneltest.Shape{Vocab: 64, Width: 256, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 64, FFN: 512,
		Type: kernels.Q4_K, Head: kernels.Q8_0, QKNorm: true, Bias: true}, 3)
	d, err := New(Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Load(p, kernels.KVConfig{Blocks: 8, BlockSize: 16, Type: kernels.F16}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 7, 40} {
		s := kerneltest.Step{Tokens: make([]int32, n), Spans: []kernels.Span{{Len: int32(n), Blocks: []int32{3, 1, 2, 0}}}}
		b := s.Batch(p)
		if n == 7 {
			b.Picks, b.Choices = make([]kernels.Pick, len(b.LogitRows)), make([]kernels.Choice, len(b.LogitRows))
			for i := range b.Choices {
				b.Choices[i] = kernels.Choice{Temperature: 1, TopP: 0.9, Uniform: float64(i) / 7, Logprob: true, Top: 3}
			}
		}
		if a := kerneltest.Allocs(func() {
			if err := d.Step(b); err != nil {
				t.Fatal(err)
			}
		}); a != 0 {
			t.Errorf("a step of %d rows allocates %v times", n, a)
		}
	}
}

// Every path gives the bits of the portable one.
func TestPathsAgree(t *testing.T) {
	for _, path := range Paths() {
		if path == "portable" {
			continue
		}
		t.Run(path, func(t *testing.T) {
			kerneltest.Same(t, open(Options{Threads: 1, Path: path}), open(Options{Threads: 1, Path: "portable"}))
		})
	}
}
