package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hearth/kernels"
)

// Small shapes that reach every kind of stage.
func smallShapes() []Shape {
	return []Shape{
		{Vocab: 50, Width: 64, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16, FFN: 96, Type: kernels.Q8_0, Head: kernels.Q4_0},
		{Vocab: 64, Width: 96, Layers: 2, Heads: 3, KVHeads: 1, HeadDim: 24, FFN: 160, Type: kernels.Q4_1, Head: kernels.Q8_0, QKNorm: true, Bias: true},
		{Vocab: 48, Width: 256, Layers: 2, Heads: 8, KVHeads: 2, HeadDim: 32, FFN: 512, Type: kernels.Q4_K, Head: kernels.Q6_K, Gelu: true, Window: 20},
		{Vocab: 33, Width: 72, Layers: 2, Heads: 2, KVHeads: 2, HeadDim: 40, FFN: 100, Type: kernels.BF16, Head: kernels.F32, Window: 7},
		{Vocab: 41, Width: 64, Layers: 2, Heads: 4, KVHeads: 1, HeadDim: 16, FFN: 64, Type: kernels.Q5_0, Head: kernels.IQ4_NL, Bias: true},
	}
}

// sequence is a prompt on its way through random batches.
type sequence struct {
	tokens []int32
	done   int
	blocks []int32
	logits [][]float32 // by position
	hidden [][]float32
}

const sequenceLen = 52

func newSequences(rng *rand.Rand, n, vocab int) []*sequence {
	var seqs []*sequence
	for range n {
		s := &sequence{}
		for range sequenceLen {
			s.tokens = append(s.tokens, int32(rng.IntN(vocab)))
		}
		seqs = append(seqs, s)
	}
	return seqs
}

// assign gives every sequence scattered blocks of its own.
func assign(rng *rand.Rand, seqs []*sequence, kv kernels.KVConfig) {
	free := rng.Perm(kv.Blocks)
	need := (sequenceLen + kv.BlockSize - 1) / kv.BlockSize
	for _, s := range seqs {
		s.done, s.logits, s.hidden, s.blocks = 0, nil, nil, nil
		for _, b := range free[:need] {
			s.blocks = append(s.blocks, int32(b))
		}
		free = free[need:]
	}
}

// BatchInvariance runs sequences one token at a time, each alone, and then in
// random batches with random chunks, on devices of one kind (open may differ in
// threads or path from call to call). All states and logits must be the same bits.
func BatchInvariance(t *testing.T, seed uint64, open ...Open) {
	InvarianceOf(t, seed, func(int) bool { return true }, open...)
}

// InvarianceOf is BatchInvariance on the models whose numbers are wanted.
func InvarianceOf(t *testing.T, seed uint64, wanted func(i int) bool, open ...Open) {
	for i, shape := range smallShapes() {
		if !wanted(i) {
			continue
		}
		typ := []kernels.DType{kernels.F16, kernels.F32, kernels.BF16}[i%3]
		t.Run(fmt.Sprintf("shape%d/kv=%v", i, typ), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			p := Model(shape, seed+uint64(i))
			kv := kernels.KVConfig{Blocks: 40, BlockSize: 16 << (i % 2), Type: typ}
			seqs := newSequences(rng, 4, shape.Vocab)
			assign(rng, seqs, kv)
			d := load(t, open[0], p, kv)
			for _, s := range seqs {
				for s.done < sequenceLen {
					stepBatch(t, d, p, []*sequence{s}, []int{1}, rng)
				}
			}
			d.Close()
			for _, o := range open {
				d := load(t, o, p, kv)
				again := clone(seqs)
				assign(rng, again, kv)
				for batch(t, d, p, again, rng) {
				}
				d.Close()
				sameSequences(t, seqs, again)
			}
		})
	}
}

func load(t *testing.T, open Open, p *kernels.Program, kv kernels.KVConfig) kernels.Device {
	d := open(t)
	if err := d.Load(p, kv); err != nil {
		t.Fatal(err)
	}
	return d
}

func clone(seqs []*sequence) (out []*sequence) {
	for _, s := range seqs {
		out = append(out, &sequence{tokens: s.tokens})
	}
	return out
}

// batch runs one random step; false when all sequences are done.
func batch(t *testing.T, d kernels.Device, p *kernels.Program, seqs []*sequence, rng *rand.Rand) bool {
	var in []*sequence
	var lens []int
	left := false
	for _, i := range rng.Perm(len(seqs)) {
		s := seqs[i]
		if s.done == sequenceLen {
			continue
		}
		left = true
		if rng.IntN(3) > 0 {
			n := 1
			if rng.IntN(2) == 0 {
				n = 1 + rng.IntN(sequenceLen-s.done)
			}
			in, lens = append(in, s), append(lens, n)
		}
	}
	if len(in) > 0 {
		stepBatch(t, d, p, in, lens, rng)
	}
	return left
}

// stepBatch advances sequences by the given numbers of tokens. All logits are
// wanted, the hidden state of a random half of the rows.
func stepBatch(t *testing.T, d kernels.Device, p *kernels.Program, seqs []*sequence, lens []int, rng *rand.Rand) {
	b := &kernels.Batch{}
	for i, s := range seqs {
		n := lens[i]
		b.Spans = append(b.Spans, kernels.Span{Row: int32(len(b.Tokens)), Len: int32(n), Context: int32(s.done), Blocks: s.blocks})
		b.Tokens = append(b.Tokens, s.tokens[s.done:s.done+n]...)
	}
	for r := range b.Tokens {
		b.LogitRows = append(b.LogitRows, int32(r))
		if rng.IntN(2) == 0 {
			b.HiddenRows = append(b.HiddenRows, int32(r))
		}
	}
	b.Logits = make([]float32, len(b.LogitRows)*p.Vocab)
	b.Hidden = make([]float32, len(b.HiddenRows)*p.Width)
	if err := d.Step(b); err != nil {
		t.Fatal(err)
	}
	hidden := map[int32][]float32{}
	for i, r := range b.HiddenRows {
		hidden[r] = b.Hidden[i*p.Width : (i+1)*p.Width]
	}
	row := 0
	for i, s := range seqs {
		for range lens[i] {
			s.logits = append(s.logits, b.Logits[row*p.Vocab:(row+1)*p.Vocab])
			s.hidden = append(s.hidden, hidden[int32(row)])
			row++
		}
		s.done += lens[i]
	}
}

func sameSequences(t *testing.T, a, b []*sequence) {
	t.Helper()
	for i := range a {
		for pos := range a[i].logits {
			sameBits(t, i, pos, "logits", a[i].logits[pos], b[i].logits[pos])
			if a[i].hidden[pos] != nil && b[i].hidden[pos] != nil {
				sameBits(t, i, pos, "hidden", a[i].hidden[pos], b[i].hidden[pos])
			}
		}
	}
}

func sameBits(t *testing.T, seq, pos int, what string, a, b []float32) {
	t.Helper()
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) || a[i] != a[i] {
			t.Fatalf("sequence %d position %d %s %d: alone %v, in a batch %v", seq, pos, what, i, a[i], b[i])
		}
	}
}

// CopiedBlocks continues a sequence from copies of its blocks: the results must
// be the same bits, also when the originals have been overwritten.
func CopiedBlocks(t *testing.T, open Open) {
	for _, typ := range []kernels.DType{kernels.F32, kernels.BF16} {
		rng := rand.New(rand.NewPCG(5, 5))
		shape := smallShapes()[0]
		p := Model(shape, 5)
		d := load(t, open, p, kernels.KVConfig{Blocks: 12, BlockSize: 16, Type: typ})
		seqs := newSequences(rng, 2, shape.Vocab)
		a, other := seqs[0], seqs[1]
		a.blocks = []int32{3, 0, 7, 9}
		stepBatch(t, d, p, []*sequence{a}, []int{sequenceLen}, rng)
		b := &sequence{tokens: a.tokens, blocks: a.blocks}
		stepBatch(t, d, p, []*sequence{b}, []int{40}, rng)
		if err := d.CopyBlocks([][2]int32{{3, 1}, {0, 5}, {7, 11}}); err != nil {
			t.Fatal(err)
		}
		other.blocks = []int32{0, 7, 3, 2}
		stepBatch(t, d, p, []*sequence{other}, []int{sequenceLen}, rng)
		b.blocks = []int32{1, 5, 11, 4}
		stepBatch(t, d, p, []*sequence{b}, []int{sequenceLen - 40}, rng)
		sameSequences(t, []*sequence{a}, []*sequence{b})
		if d.CopyBlocks([][2]int32{{0, 12}}) == nil || d.CopyBlocks([][2]int32{{-1, 0}}) == nil {
			t.Error("a copy to or from no block was accepted")
		}
		d.Close()
	}
}
