package cuda

import (
	"math"
	"os"
	"slices"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/cudatest"
	"hearth/kernels/kerneltest"
	"hearth/kernels/ptx"
	"hearth/kernels/ref"
)

// interpreted opens devices whose kernels are the PTX that ships, run by the
// interpreter with all its checks.
func interpreted(o Options, g cudatest.Options) kerneltest.Open {
	if o.Rows == 0 {
		o.Rows, o.Sequences = 208, 40
	}
	g.Machine = ptx.Options{Checks: true, Workers: 2, Memory: 24 << 20}
	return func(t testing.TB) kernels.Device {
		d, err := New(cudatest.New(g), o)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// allCases, set to "all", asks for every case and model on both targets. Otherwise
// some take turns on them: package kernel's tests have every kernel by itself.
const allCases = "HEARTH_GPU_CASES"

func everyCase() bool { return os.Getenv(allCases) == "all" }

// one in n of a list, or all.
func one(n int) func(int) bool {
	return func(i int) bool { return everyCase() || i%n == 0 }
}

// turns opens devices of one kind, then the other, and so on.
func turns(a, b kerneltest.Open) kerneltest.Open {
	turn := 0
	return func(t testing.TB) kernels.Device {
		if turn++; turn%2 == 0 {
			return a(t)
		}
		return b(t)
	}
}

// The case table, on the kernels that ship, and on formulas in their place: the
// second tells what is compiled and planned wrongly from what is computed wrongly.
func TestCases(t *testing.T) {
	old := interpreted(Options{}, cudatest.Options{Compute: 80, Lazy: true})
	new := interpreted(Options{NoGraphs: true}, cudatest.Options{Compute: 90})
	all := []kerneltest.Candidate{{Name: "formulas", Open: turns(emulated(Options{}, true), emulated(Options{NoGraphs: true}, false))}}
	if everyCase() {
		all = append(all, kerneltest.Candidate{Name: "sm_80", Quantized: true, Open: old}, kerneltest.Candidate{Name: "sm_90", Quantized: true, Open: new})
	} else {
		all = append(all, kerneltest.Candidate{Name: "turns", Quantized: true, Open: turns(old, new)})
	}
	kerneltest.AgainstSome(t, one(5), all...)
}

// The same bits alone and in random batches, with graphs and without, at once and
// as late as may be, on both targets.
func TestInvariance(t *testing.T) {
	kerneltest.InvarianceOf(t, 11, one(5),
		interpreted(Options{}, cudatest.Options{Compute: 80, Lazy: true}),
		interpreted(Options{NoGraphs: true, Rows: 208, Sequences: 4}, cudatest.Options{Compute: 90, SMs: 132}))
}

// So with caches of 8 bits, however a prompt is cut.
func TestInvarianceOfCaches(t *testing.T) {
	p := kerneltest.Model(smallShape, 4)
	for _, kv := range []string{"fp8", "int8"} {
		var want []float32
		for _, cut := range [][]int32{{31}, {1, 9, 20, 1}, {5, 2, 3, 21}} {
			d := interpreted(Options{KV: kv, Rows: 64, Sequences: 4}, cudatest.Options{Compute: 90})(t)
			if err := d.Load(p, kernels.KVConfig{Blocks: 32, BlockSize: 16, Type: kernels.F16}); err != nil {
				t.Fatal(err)
			}
			var b *kernels.Batch
			at := int32(0)
			for _, n := range cut {
				b = some(p, at, n)
				for i := range b.Tokens {
					b.Tokens[i] = (at + int32(i)) * 7 % int32(p.Vocab)
				}
				if err := d.Step(b); err != nil {
					t.Fatal(err)
				}
				at += n
			}
			if want == nil {
				want = b.Logits
			} else if !slices.Equal(want, b.Logits) {
				t.Errorf("%s: a prompt cut as %v gives other bits", kv, cut)
			}
			d.Close()
		}
		if everyCase() {
			kerneltest.BatchInvariance(t, 12, interpreted(Options{KV: kv}, cudatest.Options{Compute: 90}),
				interpreted(Options{KV: kv, Rows: 208, Sequences: 4}, cudatest.Options{Compute: 80}))
		}
	}
}

func TestCopyBlocks(t *testing.T) {
	kerneltest.CopiedBlocks(t, interpreted(Options{}, cudatest.Options{Lazy: true}))
}

// Tokens are chosen as the reference chooses them from the same logits, in one
// pass and, where few logits fit at once, in several.
func TestChoose(t *testing.T) {
	shape := smallShape
	shape.Vocab = 70
	p := kerneltest.Model(shape, 9)
	for _, few := range []bool{false, true} {
		d := interpreted(Options{Rows: 64, Sequences: 16}, cudatest.Options{Lazy: true})(t).(*Device)
		if few {
			defer func(n int) { wantedBytes = n }(wantedBytes)
			wantedBytes = 4 * 72 * 4
		}
		if err := d.Load(p, kernels.KVConfig{Blocks: 128, BlockSize: 16, Type: kernels.F16}); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{false: 16, true: 4}[few]; d.wanted != want {
			t.Fatalf("%d rows of logits fit, this test wanted %d", d.wanted, want)
		}
		for _, lens := range [][]int32{{1, 1, 1, 1, 1, 1, 1}, {1, 20, 1, 9, 1}, {1}} {
			b := some(p, 0, lens...)
			if err := d.Step(b); err != nil {
				t.Fatal(err)
			}
			logits := b.Logits
			b.Logits = make([]float32, len(logits))
			b.Picks = make([]kernels.Pick, len(lens))
			b.Choices = make([]kernels.Choice, len(lens))
			b.Prepare = func() { prepareChoices(b, p.Vocab) }
			prepareChoices(b, p.Vocab) // which rows want logits is known before
			if err := d.Step(b); err != nil {
				t.Fatal(err)
			}
			checkChoices(t, b, logits, p.Vocab)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func prepareChoices(b *kernels.Batch, vocab int) {
	mask := make([]uint32, (vocab+31)/32)
	mask[1] = 0x0f0f0f
	for i := range b.Choices {
		c := kernels.Choice{TopP: 1, Uniform: float64(i) / 7}
		switch i % 5 {
		case 1:
			c.Logits = true
		case 2:
			c.Temperature, c.TopK, c.Logprob, c.Top = 0.8, 7, true, 3
		case 3:
			c.Allowed, c.Logprob = mask, true
		case 4:
			c.Temperature, c.TopP = 1.2, 0.9
			for v := range int32(vocab) {
				c.Adjust = append(c.Adjust, kernels.Adjust{Token: v, Divide: 1.1, Add: float32(v%3) / 2})
			}
		}
		b.Choices[i] = c
	}
}

func checkChoices(t *testing.T, b *kernels.Batch, logits []float32, vocab int) {
	t.Helper()
	given := 0
	for i := range b.Choices {
		c, row := &b.Choices[i], logits[i*vocab:(i+1)*vocab]
		if c.Logits {
			if !slices.Equal(b.Logits[given*vocab:(given+1)*vocab], row) {
				t.Errorf("choice %d: the logits are not those of the step before", i)
			}
			given++
			continue
		}
		var want kernels.Pick
		if err := ref.Choose(&want, c, row); err != nil {
			t.Fatal(err)
		}
		got := b.Picks[i]
		if got.Token != want.Token || c.Logprob && math.Abs(float64(got.Logprob-want.Logprob)) > 1e-5 {
			t.Errorf("choice %d: got token %d (%v), wanted %d (%v)", i, got.Token, got.Logprob, want.Token, want.Logprob)
		}
		for k := range c.Top {
			if got.Top[k].Token != want.Top[k].Token || math.Abs(float64(got.Top[k].Logprob-want.Top[k].Logprob)) > 1e-5 {
				t.Errorf("choice %d: alternative %d is %v, wanted %v", i, k, got.Top[k], want.Top[k])
			}
		}
	}
}
