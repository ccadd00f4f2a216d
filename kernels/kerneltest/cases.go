package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"hearth/kernels"
)

// Case is a small program, the steps to run and how close the final states must
// be to the reference.
type Case struct {
	Name    string
	Program *kernels.Program
	KV      kernels.KVConfig
	Steps   []Step
	// Tol bounds the error of every value, relative to the largest of the step (or
	// 1), when activations stay in float32; TolQ8 when linear inputs are 8-bit.
	Tol, TolQ8 float64
}

// Step is the input of one batch; hidden states and, if the program has a
// head, logits of all rows are wanted.
type Step struct {
	Tokens []int32
	Spans  []kernels.Span
}

// Batch makes the batch of a step, with room for the outputs.
func (s Step) Batch(p *kernels.Program) *kernels.Batch {
	b := &kernels.Batch{Tokens: s.Tokens, Spans: s.Spans}
	for r := range s.Tokens {
		b.HiddenRows = append(b.HiddenRows, int32(r))
		if len(p.Head) > 0 {
			b.LogitRows = append(b.LogitRows, int32(r))
		}
	}
	b.Hidden = make([]float32, len(b.HiddenRows)*p.Width)
	b.Logits = make([]float32, len(b.LogitRows)*p.Vocab)
	return b
}

const vocab = 40 // tokens of the embeddings that feed the cases

// Row counts: one, a pair, one past common tiles, and a large odd one.
var rowCounts = []int{1, 2, 3, 5, 9, 37}

// Cases is the table. It is made anew at every call and always the same.
func Cases() []Case {
	var cs []Case
	add := func(c Case) { cs = append(cs, c) }
	linears(add)
	embeds(add)
	norms(add)
	pointwise(add)
	ropes(add)
	attentions(add)
	return cs
}

// flat is a step of n independent one-token sequences at position 0.
func flat(rng *rand.Rand, n int) Step {
	s := Step{}
	for i := range n {
		s.Tokens = append(s.Tokens, int32(rng.IntN(vocab)))
		s.Spans = append(s.Spans, kernels.Span{Row: int32(i), Len: 1, Blocks: []int32{int32(i)}})
	}
	return s
}

func flats(rng *rand.Rand) (steps []Step) {
	for _, n := range rowCounts {
		steps = append(steps, flat(rng, n))
	}
	return steps
}

var smallKV = kernels.KVConfig{Blocks: 40, BlockSize: 16, Type: kernels.F32}

// program starts with embeddings of the given widths into registers 0, 1, …;
// values have deviation dev.
func program(rng *rand.Rand, dev float32, widths ...int) *kernels.Program {
	p := &kernels.Program{}
	for i, w := range widths {
		p.Regs = append(p.Regs, w)
		p.Tensors = append(p.Tensors, Tensor(rng, fmt.Sprint("in", i), kernels.F32, vocab, w, dev))
		p.Ops = append(p.Ops, kernels.Op{Kind: kernels.OpEmbed, Dst: kernels.Reg(i), W: kernels.TensorID(i), Factor: 1})
	}
	return p
}

// output makes register r the final state.
func output(p *kernels.Program, r kernels.Reg) *kernels.Program {
	p.Final, p.Width = r, p.Regs[r]
	return p
}

func linears(add func(Case)) {
	for _, t := range kernels.DTypes() {
		shapes := [][2]int{{1, 32}, {8, 64}, {13, 96}, {40, 576}, {67, 160}}
		if t.BlockValues() == 256 {
			shapes = [][2]int{{1, 256}, {8, 512}, {13, 768}, {67, 256}}
		}
		if t.BlockValues() == 1 {
			shapes = append(shapes, [2]int{5, 1}, [2]int{11, 37}, [2]int{64, 67})
		}
		for _, s := range shapes {
			for _, bias := range []bool{false, true} {
				rng := rand.New(rand.NewPCG(uint64(t), uint64(s[0]*10000+s[1])))
				p := program(rng, 1, s[1])
				p.Regs = append(p.Regs, s[0])
				p.Tensors = append(p.Tensors, Tensor(rng, "w", t, s[0], s[1], 1/float32(math.Sqrt(float64(s[1])))))
				op := kernels.Op{Kind: kernels.OpLinear, Dst: 1, A: 0, W: 1, Bias: kernels.NoTensor}
				if bias {
					p.Tensors = append(p.Tensors, Vector(rng, "b", s[0], 0, 1))
					op.Bias = 2
				}
				p.Ops = append(p.Ops, op)
				add(Case{Name: fmt.Sprintf("linear/%v/%dx%d/bias=%v", t, s[0], s[1], bias), Program: output(p, 1),
					KV: smallKV, Steps: flats(rng), Tol: 1e-5, TolQ8: 0.05})
			}
		}
	}
}

func embeds(add func(Case)) {
	for _, t := range kernels.DTypes() {
		rng := rand.New(rand.NewPCG(uint64(t), 7))
		p := program(rng, 1, 768)
		p.Tensors[0] = Tensor(rng, "e", t, vocab, 768, 1)
		p.Ops[0].Factor = 27.712812
		add(Case{Name: fmt.Sprintf("embed/%v", t), Program: output(p, 0), KV: smallKV, Steps: flats(rng), Tol: 1e-6, TolQ8: 1e-6})
		add(Case{Name: fmt.Sprintf("embed/%v/tied", t), Program: tied(p), KV: smallKV, Steps: flats(rng), Tol: 1e-6, TolQ8: 1e-6})
	}
}

// tied is p, whose first op embeds by its first tensor, with a multiplication by
// that tensor, too; what was the final state stays it.
func tied(p *kernels.Program) *kernels.Program {
	q := *p
	q.Regs = append(slices.Clone(p.Regs), p.Tensors[0].Rows)
	q.Ops = append(slices.Clone(p.Ops), kernels.Op{Kind: kernels.OpLinear, Dst: kernels.Reg(len(p.Regs)), A: p.Ops[0].Dst, W: 0, Bias: kernels.NoTensor})
	return &q
}

func norms(add func(Case)) {
	for _, c := range [][2]int{{1, 0}, {7, 0}, {64, 0}, {100, 0}, {576, 0}, {1025, 0}, {96, 16}, {120, 12}, {256, 128}} {
		rng := rand.New(rand.NewPCG(uint64(c[0]), uint64(c[1])))
		p := program(rng, 3, c[0])
		p.Regs = append(p.Regs, c[0])
		n := c[1]
		if n == 0 {
			n = c[0]
		}
		p.Tensors = append(p.Tensors, Vector(rng, "n", n, 1, 0.3))
		p.Ops = append(p.Ops, kernels.Op{Kind: kernels.OpRMSNorm, Dst: 1, A: 0, W: 1, Group: c[1], Eps: 1e-5})
		add(Case{Name: fmt.Sprintf("norm/%d/%d", c[0], c[1]), Program: output(p, 1), KV: smallKV, Steps: flats(rng), Tol: 2e-6, TolQ8: 2e-6})
		q := *p
		q.Ops = append([]kernels.Op(nil), p.Ops...)
		q.Ops[1].Dst = 0
		add(Case{Name: fmt.Sprintf("norm/%d/%d/in-place", c[0], c[1]), Program: output(&q, 0), KV: smallKV, Steps: flats(rng), Tol: 2e-6, TolQ8: 2e-6})
	}
}

func pointwise(add func(Case)) {
	ops := []struct {
		name string
		op   kernels.Op
	}{
		{"add", kernels.Op{Kind: kernels.OpAdd, Dst: 0, A: 1}},
		{"scale", kernels.Op{Kind: kernels.OpScale, Dst: 0, Factor: -1.25}},
		{"silu", kernels.Op{Kind: kernels.OpSiluMul, Dst: 0, A: 0, B: 1}},
		{"silu-swapped", kernels.Op{Kind: kernels.OpSiluMul, Dst: 0, A: 1, B: 0}},
		{"gelu", kernels.Op{Kind: kernels.OpGeluMul, Dst: 0, A: 0, B: 1}},
		{"softcap", kernels.Op{Kind: kernels.OpSoftCap, Dst: 0, Factor: 5}},
	}
	for _, o := range ops {
		for _, w := range []int{1, 8, 31, 100} {
			for _, dev := range []float32{0.1, 4, 60} {
				rng := rand.New(rand.NewPCG(uint64(w), uint64(dev*10)))
				p := program(rng, dev, w, w)
				p.Ops = append(p.Ops, o.op)
				add(Case{Name: fmt.Sprintf("%s/%d/%v", o.name, w, dev), Program: output(p, 0), KV: smallKV, Steps: flats(rng), Tol: 2e-6, TolQ8: 2e-6})
			}
		}
	}
}

// freqs are the usual rotary frequencies.
func freqs(dim int, base float64) []float32 {
	f := make([]float32, dim/2)
	for i := range f {
		f[i] = float32(math.Pow(base, -2*float64(i)/float64(dim)))
	}
	return f
}

// prompts is a history of two sequences: chunks of several lengths, then single
// tokens of both in one step. Blocks are scattered over the cache.
func prompts(rng *rand.Rand) []Step {
	blocks := rng.Perm(smallKV.Blocks)
	tables := [2][]int32{}
	for i, b := range blocks[:smallKV.Blocks/2*2] {
		tables[i%2] = append(tables[i%2], int32(b))
	}
	var steps []Step
	var ctx [2]int32
	for _, lens := range [][2]int{{5, 0}, {30, 1}, {0, 17}, {1, 1}, {1, 9}, {21, 40}, {1, 1}, {1, 1}} {
		s := Step{}
		for q, n := range lens {
			if n == 0 {
				continue
			}
			row := int32(len(s.Tokens))
			for range n {
				s.Tokens = append(s.Tokens, int32(rng.IntN(vocab)))
			}
			s.Spans = append(s.Spans, kernels.Span{Row: row, Len: int32(n), Context: ctx[q], Blocks: tables[q]})
			ctx[q] += int32(n)
		}
		steps = append(steps, s)
	}
	return steps
}

func ropes(add func(Case)) {
	for _, c := range []struct {
		width, head, dim int
		neox             bool
		scale            float32
	}{{64, 16, 16, true, 1}, {64, 16, 16, false, 1}, {60, 20, 12, true, 1.19}, {60, 20, 12, false, 1.19}, {192, 64, 64, true, 1}} {
		rng := rand.New(rand.NewPCG(uint64(c.width), uint64(c.dim)))
		p := program(rng, 1, c.width)
		r := &kernels.Rope{HeadDim: c.head, Dim: c.dim, NeoX: c.neox, InvFreq: freqs(c.dim, 10000), Scale: c.scale}
		p.Ops = append(p.Ops, kernels.Op{Kind: kernels.OpRope, Dst: 0, Rope: r})
		add(Case{Name: fmt.Sprintf("rope/%d/%d/neox=%v", c.head, c.dim, c.neox), Program: output(p, 0), KV: smallKV, Steps: prompts(rng), Tol: 1e-5, TolQ8: 1e-5})
	}
}

func attentions(add func(Case)) {
	for _, c := range []kernels.Attention{
		{Heads: 1, KVHeads: 1, HeadDim: 8}, {Heads: 4, KVHeads: 4, HeadDim: 16}, {Heads: 9, KVHeads: 3, HeadDim: 64},
		{Heads: 8, KVHeads: 1, HeadDim: 24}, {Heads: 10, KVHeads: 2, HeadDim: 12, Window: 8}, {Heads: 4, KVHeads: 1, HeadDim: 256, Window: 16},
		{Heads: 6, KVHeads: 2, HeadDim: 32, SoftCap: 2}, {Heads: 3, KVHeads: 3, HeadDim: 40, Window: 1}, {Heads: 2, KVHeads: 2, HeadDim: 128, Window: 33},
	} {
		for _, t := range []kernels.DType{kernels.F32, kernels.F16, kernels.BF16} {
			for _, size := range []int{16, 32} {
				c := c
				c.Scale = 1 / float32(math.Sqrt(float64(c.HeadDim)))
				rng := rand.New(rand.NewPCG(uint64(c.Heads), uint64(c.HeadDim)))
				q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
				p := program(rng, 1, q, kv, kv)
				p.Regs = append(p.Regs, q)
				p.KV = []kernels.KVLayer{{KVHeads: c.KVHeads, HeadDim: c.HeadDim, Window: c.Window}}
				r := &kernels.Rope{HeadDim: c.HeadDim, Dim: c.HeadDim, NeoX: true, InvFreq: freqs(c.HeadDim, 10000), Scale: 1}
				p.Ops = append(p.Ops, kernels.Op{Kind: kernels.OpRope, Dst: 0, Rope: r}, kernels.Op{Kind: kernels.OpRope, Dst: 1, Rope: r},
					kernels.Op{Kind: kernels.OpAttention, Dst: 3, A: 0, K: 1, V: 2, Attn: &c})
				kvc := kernels.KVConfig{Blocks: 40, BlockSize: size, Type: t}
				// The two devices may round a key on either side of a tie.
				tol := map[kernels.DType]float64{kernels.F32: 2e-5, kernels.F16: 1e-3, kernels.BF16: 8e-3}[t]
				add(Case{Name: fmt.Sprintf("attention/%dof%dx%d/window=%d/cap=%v/%v/%d", c.KVHeads, c.Heads, c.HeadDim, c.Window, c.SoftCap, t, size),
					Program: output(p, 3), KV: kvc, Steps: prompts(rng), Tol: tol, TolQ8: tol})
			}
		}
	}
}
