package cuda

import (
	"errors"
	"math"
	"slices"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/cudatest"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/kerneltest"
	"hearth/kernels/ref"
)

// emulated opens devices over an emulator.
func emulated(o Options, lazy bool) kerneltest.Open {
	if o.Rows == 0 {
		o.Rows, o.Sequences = 208, 40
	}
	return func(t testing.TB) kernels.Device { return openEmulated(t, o, newEmulator(lazy)) }
}

func openEmulated(t testing.TB, o Options, e *emulator) *Device {
	d, err := New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	d.lib = e.kernels()
	d.images = map[string][]byte{"emulated": nil, "sample": nil} // the latter is never run
	return d
}

func TestEmulatedInvariance(t *testing.T) {
	kerneltest.InvarianceOf(t, 7, one(2), emulated(Options{}, true), emulated(Options{NoGraphs: true}, false),
		emulated(Options{Rows: 208, Sequences: 4}, true))
}

func TestEmulatedCopyBlocks(t *testing.T) { kerneltest.CopiedBlocks(t, emulated(Options{}, true)) }

var smallShape = kerneltest.Shape{Vocab: 50, Width: 64, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16, FFN: 96, Type: kernels.BF16, Head: kernels.F32, QKNorm: true, Bias: true}

// some makes a batch: sequences of the given lengths, all at context, of which the
// last rows' logits are wanted.
func some(p *kernels.Program, context int32, lens ...int32) *kernels.Batch {
	b := &kernels.Batch{}
	for i, n := range lens {
		first := int32(len(b.Tokens))
		for j := range n {
			b.Tokens = append(b.Tokens, (7*int32(i)+3*j)%int32(p.Vocab))
		}
		var blocks []int32
		for k := range (context + n + 15) / 16 {
			blocks = append(blocks, int32(i)*8+k)
		}
		b.Spans = append(b.Spans, kernels.Span{Row: first, Len: n, Context: context, Blocks: blocks})
		b.LogitRows = append(b.LogitRows, first+n-1)
	}
	b.Logits = make([]float32, len(b.LogitRows)*p.Vocab)
	return b
}

// idle is a GPU that does nothing with what is queued.
type idle struct{ addresses }

type idleWork struct{}

func (idleWork) Capture() error { return nil }
func (idleWork) Run() error     { return nil }
func (idleWork) Release() error { return nil }

func (g *idle) Name() string                                 { return "cuda:9" }
func (g *idle) Target() kernel.Target                        { return kernel.Target{Compute: 80, SMs: 8, Shared: 100 << 10} }
func (g *idle) Do(f func() error) error                      { return f() }
func (g *idle) Upload(kernel.Addr, []byte) error             { return nil }
func (g *idle) Download([]byte, kernel.Addr) error           { return nil }
func (g *idle) Mark(int) error                               { return nil }
func (g *idle) Wait(int) error                               { return nil }
func (g *idle) HostFree([]byte) error                        { return nil }
func (g *idle) Free(kernel.Addr) error                       { return nil }
func (g *idle) Load(string, []byte) error                    { return nil }
func (g *idle) Prepare([]kernel.Launch) (kernel.Work, error) { return idleWork{}, nil }
func (g *idle) Close() error                                 { return nil }

// A step in steady state does not allocate, whether it decodes, prefills or both,
// and whether logits come back or tokens are chosen.
func TestStepAllocs(t *testing.T) {
	p := kerneltest.Model(smallShape, 1)
	d, err := New(&idle{addresses{next: 1 << 20}}, Options{Rows: 256, Sequences: 32})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Load(p, kernels.KVConfig{Blocks: 256, BlockSize: 16, Type: kernels.F16}); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*kernels.Batch{"decode": some(p, 20, 1, 1, 1), "prefill": some(p, 0, 90), "both": some(p, 5, 1, 70, 1, 30, 9)} {
		for _, chosen := range []bool{false, true} {
			if chosen {
				b.Choices, b.Picks = make([]kernels.Choice, len(b.LogitRows)), make([]kernels.Pick, len(b.LogitRows))
				b.Choices[0] = kernels.Choice{Temperature: 1, TopP: 0.5, Uniform: 0.3, Adjust: []kernels.Adjust{{Token: 3, Divide: 1, Add: 2}}, Logprob: true}
			}
			if n := kerneltest.Allocs(func() {
				if err := d.Step(b); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%s, tokens chosen %v: a step allocates %v times", name, chosen, n)
			}
		}
	}
}

// What the program needs is what Load takes; all of it comes back. Every tensor is
// let go of once, and progress ends at the whole.
func TestMemory(t *testing.T) {
	p := kerneltest.Model(smallShape, 1)
	released := map[*byte]int{}
	var done, total int64
	o := Options{Rows: 64, Sequences: 8, Release: func(b []byte) { released[&b[0]]++ }, Progress: func(d, n int64) {
		if d < done || d > n {
			t.Errorf("progress went from %d to %d of %d", done, d, n)
		}
		done, total = d, n
	}}
	e := newEmulator(true)
	d := openEmulated(t, o, e)
	kv := kernels.KVConfig{Blocks: 20, BlockSize: 16, Type: kernels.F32}
	if err := d.Load(p, kv); err != nil {
		t.Fatal(err)
	}
	got := int64(0)
	for _, b := range e.blocks {
		got += int64(len(b.data))
	}
	n := d.needs()
	if want := n.WeightBytes + n.ScratchBytes + 20*n.BlockBytes; got != want {
		t.Errorf("the device holds %d bytes, its needs are %d", got, want)
	}
	st := d.Stats()
	if st.WeightBytes != n.WeightBytes || st.ScratchBytes != n.ScratchBytes || st.KVBytes != 20*n.BlockBytes || st.Path != "sm_80 ptx compute_80" {
		t.Errorf("got %+v, wanted %+v", st, n)
	}
	if done != total || total != n.WeightBytes {
		t.Errorf("progress ended at %d of %d, wanted %d", done, total, n.WeightBytes)
	}
	for i := range p.Tensors {
		if k := released[&p.Tensors[i].Data[0]]; k != 1 {
			t.Errorf("tensor %s was let go of %d times", p.Tensors[i].Name, k)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if len(e.blocks) != 0 || e.hosts != 0 || !e.closed {
		t.Errorf("%d allocations and %d of the host are left after Close", len(e.blocks), e.hosts)
	}
}

// An error of the GPU is told, and is the device's end; what was allocated comes
// back whenever it happens.
func TestFailures(t *testing.T) {
	p := kerneltest.Model(smallShape, 1)
	kv := kernels.KVConfig{Blocks: 20, BlockSize: 16, Type: kernels.F32}
	broken := errors.New("broken")
	for _, what := range []string{"alloc", "load", "run", "wait"} {
		for at := 1; ; at += 3 {
			e := newEmulator(true)
			count, failed := 0, false
			e.fail = func(w string) error {
				if w == what {
					count++
				}
				if w == what && count == at {
					failed = true
					return broken
				}
				return nil
			}
			d := openEmulated(t, Options{Rows: 64, Sequences: 8}, e)
			err := d.Load(p, kv)
			for i := 0; i < 3 && err == nil; i++ {
				err = d.Step(some(p, int32(i), 1, 1, 9))
			}
			if failed != errors.Is(err, broken) {
				t.Fatalf("%s %d: got %v", what, at, err)
			}
			if failed {
				if again := d.Step(some(p, 0, 1)); again == nil || !errors.Is(again, broken) {
					t.Errorf("%s %d: the step after a failure: got %v", what, at, again)
				}
			}
			if err := d.Close(); err != nil || len(e.blocks) != 0 || e.hosts != 0 {
				t.Errorf("%s %d: close: %v; %d allocations and %d of the host are left", what, at, err, len(e.blocks), e.hosts)
			}
			if !failed {
				break
			}
		}
	}
}

// A batch that does not fit is refused, and the device goes on.
func TestLimits(t *testing.T) {
	p := kerneltest.Model(smallShape, 1)
	d := openEmulated(t, Options{Rows: 64, Sequences: 3, Context: 256}, newEmulator(false))
	defer d.Close()
	if err := d.Load(p, kernels.KVConfig{Blocks: 40, BlockSize: 16, Type: kernels.F32}); err != nil {
		t.Fatal(err)
	}
	long := some(p, 300, 1)
	for name, b := range map[string]*kernels.Batch{"rows": some(p, 0, 65), "sequences": some(p, 0, 1, 1, 1, 1), "context": long} {
		if d.Step(b) == nil {
			t.Errorf("a batch with too many %s was accepted", name)
		}
	}
	if err := d.Step(some(p, 0, 1, 62, 1)); err != nil {
		t.Errorf("after what was refused: %v", err)
	}
}

// A step of single tokens is one graph; with other rows, or without graphs, it is
// launches.
func TestGraphs(t *testing.T) {
	p := kerneltest.Model(smallShape, 1)
	for _, off := range []bool{false, true} {
		e := newEmulator(true)
		d := openEmulated(t, Options{Rows: 64, Sequences: 8, NoGraphs: off}, e)
		if err := d.Load(p, kernels.KVConfig{Blocks: 40, BlockSize: 16, Type: kernels.F32}); err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct {
			lens   []int32
			graphs int
		}{{[]int32{1, 1, 1}, 1}, {[]int32{1}, 1}, {[]int32{20}, 0}, {[]int32{1, 20}, 0}} {
			e.graphs, e.runs = 0, nil
			if err := d.Step(some(p, 0, c.lens...)); err != nil {
				t.Fatal(err)
			}
			want := c.graphs
			if off {
				want = 0
			}
			if e.graphs != want || (len(e.runs) == 0) != (want == 1) {
				t.Errorf("graphs off %v, step %d: %d graphs and %d launches, wanted %d graphs", off, i, e.graphs, len(e.runs), want)
			}
		}
		d.Close()
	}
}

// A cache as large as Room says can be loaded, also where no context is set and
// tables grow with it.
func TestRoom(t *testing.T) {
	p := kerneltest.Model(smallShape, 1)
	for _, context := range []int{0, 512} {
		e := newEmulator(false)
		e.total = spare + 64<<20
		d := openEmulated(t, Options{Rows: 64, Sequences: 8, Context: context}, e)
		room, err := d.Room(p, 64)
		if err != nil {
			t.Fatal(err)
		}
		block := d.BlockBytes(p, 16)
		blocks := int(room / block)
		if blocks < 1000 {
			t.Fatalf("context %d: there is room for %d blocks of %d bytes", context, blocks, block)
		}
		if err := d.Load(p, kernels.KVConfig{Blocks: blocks, BlockSize: 16, Type: kernels.F32}); err != nil {
			t.Fatal(err)
		}
		held := int64(0)
		for _, b := range e.blocks {
			held += int64(len(b.data))
		}
		if held > e.total-spare || held < (e.total-spare)/2 {
			t.Errorf("context %d: the device holds %d of %d bytes", context, held, e.total-spare)
		}
		d.Close()
	}
}

// Sequences of several chunks of keys, in steps that mix them: attention in more
// launches than one where its scratch is small, and lists that are dropped and made
// again. What comes out is the reference's, and does not depend on how prompts were
// cut.
func TestLongContexts(t *testing.T) {
	defer func(units, works int) { decodeUnits, maxWorks = units, works }(decodeUnits, maxWorks)
	decodeUnits, maxWorks = 4, 4
	p := kerneltest.Model(kerneltest.Shape{Vocab: 40, Width: 32, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 16, FFN: 32, Type: kernels.F32, Head: kernels.F32, Window: 100}, 6)
	want := longRun(t, ref.New(), p, [][3]int32{{200, 10, 240}, {0, 0, 30}, {80, 3, 0}})
	cuts := [][3]int32{{16, 10, 270}, {264, 1, 0}, {0, 2, 0}}
	for name, d := range map[string]kernels.Device{"formulas": openEmulated(t, Options{Rows: 300, Sequences: 4}, newEmulator(true)),
		"kernels": interpreted(Options{Rows: 300, Sequences: 4}, cudatest.Options{Lazy: true})(t)} {
		got := longRun(t, d, p, cuts)
		for i, w := range want {
			if e := math.Abs(float64(w - got[i])); !(e <= 1e-3*max(1, math.Abs(float64(w)))) {
				t.Fatalf("%s: value %d is %v, wanted %v", name, i, got[i], w)
			}
		}
	}
}

// longRun feeds three sequences as cut, then three tokens of each in one step,
// then one of each, whose logits it returns.
func longRun(t *testing.T, d kernels.Device, p *kernels.Program, cut [][3]int32) (all []float32) {
	defer d.Close()
	if err := d.Load(p, kernels.KVConfig{Blocks: 120, BlockSize: 16, Type: kernels.F16}); err != nil {
		t.Fatal(err)
	}
	var done [3]int32
	for _, lens := range append(slices.Clone(cut), [3]int32{3, 3, 3}, [3]int32{1, 1, 1}) {
		b := &kernels.Batch{}
		for q, n := range lens {
			if n == 0 {
				continue
			}
			s := kernels.Span{Row: int32(len(b.Tokens)), Len: n, Context: done[q]}
			for k := range int32(20) {
				s.Blocks = append(s.Blocks, 3*k+int32(q))
			}
			for range n {
				b.Tokens = append(b.Tokens, (done[q]*5+int32(q))%40)
				done[q]++
			}
			b.Spans = append(b.Spans, s)
			b.LogitRows = append(b.LogitRows, int32(len(b.Tokens))-1)
		}
		b.Logits = make([]float32, len(b.LogitRows)*p.Vocab)
		if err := d.Step(b); err != nil {
			t.Fatal(err)
		}
		if len(b.Spans) == 3 && lens[0] <= 3 {
			all = append(all, b.Logits...)
		}
	}
	return all
}

// Where all rows are wanted they come in the batch's order, whatever the order of
// the registers is.
func TestAllRows(t *testing.T) {
	p := kerneltest.Model(smallShape, 8)
	step := func(d kernels.Device, lens ...int32) []float32 {
		defer d.Close()
		if err := d.Load(p, kernels.KVConfig{Blocks: 40, BlockSize: 16, Type: kernels.F32}); err != nil {
			t.Fatal(err)
		}
		b := some(p, 0, lens...)
		b.LogitRows = b.LogitRows[:0]
		for r := range b.Tokens {
			b.LogitRows = append(b.LogitRows, int32(r))
		}
		b.Logits = make([]float32, len(b.Tokens)*p.Vocab)
		if err := d.Step(b); err != nil {
			t.Fatal(err)
		}
		return b.Logits
	}
	for _, lens := range [][]int32{{20}, {20, 1, 1}, {1, 20, 3, 11}, {2, 1, 3}} {
		got, want := step(openEmulated(t, Options{Rows: 64, Sequences: 64}, newEmulator(true)), lens...), step(ref.New(), lens...)
		for i, w := range want {
			if math.Abs(float64(got[i]-w)) > 1e-4 {
				t.Fatalf("%v: row %d: value %d is %v, wanted %v", lens, i/p.Vocab, i%p.Vocab, got[i], w)
			}
		}
	}
}
