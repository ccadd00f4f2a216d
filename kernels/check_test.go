package kernels_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"hearth/kernels"
	"hearth/kernels/kerneltest"
)

func small() *kernels.Program {
	return kerneltest.Model(kerneltest.Shape{Vocab: 20, Width: 32, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 16, FFN: 64,
		Type: kernels.Q8_0, Head: kernels.Q8_0, QKNorm: true, Bias: true}, 1)
}

// Each change makes the program invalid; the error must name what is wrong.
func TestProgramValidate(t *testing.T) {
	if err := small().Validate(); err != nil {
		t.Fatal(err)
	}
	find := func(p *kernels.Program, k kernels.OpKind) *kernels.Op {
		for i := range p.Ops {
			if p.Ops[i].Kind == k {
				return &p.Ops[i]
			}
		}
		panic("BUG: no such op")
	}
	f := func(want string, change func(p *kernels.Program)) {
		t.Helper()
		p := small()
		change(p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	f("width", func(p *kernels.Program) { p.Regs[0] = 0 })
	f("32×32, want 33×32", func(p *kernels.Program) { p.Regs[2]++ })
	f("bytes", func(p *kernels.Program) { p.Tensors[0].Data = p.Tensors[0].Data[1:] })
	f("multiple of 32", func(p *kernels.Program) { p.Tensors[0].Cols = 33 })
	f("unknown type", func(p *kernels.Program) { p.Tensors[0].Type = 200 })
	f("does not exist", func(p *kernels.Program) { find(p, kernels.OpLinear).A = 99 })
	f("does not exist", func(p *kernels.Program) { find(p, kernels.OpLinear).W = -1 })
	f("does not exist", func(p *kernels.Program) { find(p, kernels.OpAttention).K = kernels.NoReg })
	order := func(kind kernels.OpKind, change func([]int32) []int32) func(p *kernels.Program) {
		return func(p *kernels.Program) {
			w := &p.Tensors[find(p, kind).W]
			list := make([]int32, w.Cols)
			for i := range list {
				list[i] = int32(w.Cols - 1 - i)
			}
			w.Order = change(list)
		}
	}
	f("has an order of 31 columns, want 32", order(kernels.OpLinear, func(o []int32) []int32 { return o[:31] }))
	f("column 5 multiplies value 32, want each of 0 to 31 once", order(kernels.OpLinear, func(o []int32) []int32 { o[5] = 32; return o }))
	f("column 5 multiplies value -1, want each of 0 to 31 once", order(kernels.OpLinear, func(o []int32) []int32 { o[5] = -1; return o }))
	f("column 5 multiplies value 31, want each of 0 to 31 once", order(kernels.OpLinear, func(o []int32) []int32 { o[5] = 31; return o }))
	f("only the weight of a linear may", order(kernels.OpRMSNorm, func(o []int32) []int32 { return o }))
	f("in place", func(p *kernels.Program) { o := find(p, kernels.OpLinear); o.Dst = o.A })
	f("frequencies", func(p *kernels.Program) {
		r := *find(p, kernels.OpRope).Rope
		r.Dim = 18
		find(p, kernels.OpRope).Rope = &r
	})
	f("missing", func(p *kernels.Program) { find(p, kernels.OpAttention).Attn = nil })
	f("kv layer", func(p *kernels.Program) { find(p, kernels.OpAttention).Layer = 1 })
	f("heads", func(p *kernels.Program) {
		a := *find(p, kernels.OpAttention).Attn
		a.KVHeads = 0
		find(p, kernels.OpAttention).Attn = &a
	})
	f("divide", func(p *kernels.Program) { find(p, kernels.OpRMSNorm).Group = 7 })
	f("unknown kind", func(p *kernels.Program) { find(p, kernels.OpAdd).Kind = 77 })
	f("logits", func(p *kernels.Program) { p.Vocab = 21 })
	f("tokens or positions", func(p *kernels.Program) { p.Norm = append(p.Norm, *find(p, kernels.OpEmbed)) })
}

func TestBatchValidate(t *testing.T) {
	p, kv := small(), kernels.KVConfig{Blocks: 4, BlockSize: 16, Type: kernels.F32}
	good := func() *kernels.Batch {
		return &kernels.Batch{Tokens: []int32{1, 2, 3}, LogitRows: []int32{0, 2}, Logits: make([]float32, 40),
			Spans: []kernels.Span{{Row: 0, Len: 2, Blocks: []int32{0}}, {Row: 2, Len: 1, Context: 16, Blocks: []int32{1, 2}}}}
	}
	if err := good().Validate(p, kv); err != nil {
		t.Fatal(err)
	}
	f := func(want string, change func(b *kernels.Batch)) {
		t.Helper()
		b := good()
		change(b)
		if err := b.Validate(p, kv); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	f("vocabulary", func(b *kernels.Batch) { b.Tokens[1] = 20 })
	f("vocabulary", func(b *kernels.Batch) { b.Tokens[1] = -1 })
	f("names block", func(b *kernels.Batch) { b.Spans[0].Blocks[0] = 4 })
	f("names block", func(b *kernels.Batch) { b.Spans[0].Blocks[0] = -1 })
	f("want 2", func(b *kernels.Batch) { b.Spans[1].Blocks = b.Spans[1].Blocks[:1] })
	f("next row", func(b *kernels.Batch) { b.Spans[1].Row = 1 })
	f("next row", func(b *kernels.Batch) { b.Spans[1].Len = 2 })
	f("next row", func(b *kernels.Batch) { b.Spans[1].Context = -1 })
	f("has 0 blocks", func(b *kernels.Batch) { b.Spans[1].Context, b.Spans[1].Blocks = 1<<31-1, nil })
	f("cover", func(b *kernels.Batch) { b.Spans = b.Spans[:1] })
	f("ascending", func(b *kernels.Batch) { b.LogitRows[1] = 0 })
	f("ascending", func(b *kernels.Batch) { b.LogitRows[1] = 3 })
	f("room for", func(b *kernels.Batch) { b.Logits = b.Logits[1:] })
}

// Any bytes of whole blocks stand for numbers.
func FuzzDequantize(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, t := range kernels.DTypes() {
		w := kerneltest.Tensor(rng, "w", t, 1, 256, 1)
		f.Add(uint8(t), w.Data)
	}
	f.Fuzz(func(t *testing.T, typ uint8, src []byte) {
		d := kernels.DType(typ)
		if int(typ) >= len(kernels.DTypes()) {
			if kernels.Dequantize(nil, d, src) == nil {
				t.Fatal("an unknown type was accepted")
			}
			return
		}
		whole := len(src) / d.BlockBytes() * d.BlockBytes()
		if whole < len(src) && kernels.Dequantize(make([]float32, whole/d.BlockBytes()*d.BlockValues()), d, src) == nil {
			t.Fatal("part of a block was accepted")
		}
		if err := kernels.Dequantize(make([]float32, whole/d.BlockBytes()*d.BlockValues()), d, src[:whole]); err != nil {
			t.Fatal(err)
		}
	})
}
