package cuda

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/kerneltest"
)

var testKV = kernels.KVConfig{Blocks: 64, BlockSize: 16, Type: kernels.F16}

// compiled is a device with a program and no GPU.
func compiled(t *testing.T, p *kernels.Program, o Options) *Device {
	t.Helper()
	d := &Device{o: o.withDefaults(), lib: kernelLibrary, target: kernel.Target{Compute: 90, SMs: 132, Shared: 227 << 10}}
	if err := d.program(p, testKV); err != nil {
		t.Fatal(err)
	}
	d.g = &addresses{next: 1 << 20}
	d.works = map[workKey]*cached{}
	if err := d.allocate(); err != nil {
		t.Fatal(err)
	}
	for i := range d.store.uploads {
		u := &d.store.uploads[i]
		*u.addr, _ = d.alloc(u.bytes)
	}
	return d
}

// addresses is a GPU that has nothing but an endless memory.
type addresses struct {
	kernel.GPU
	next kernel.Addr
}

func (a *addresses) Alloc(n int64) (kernel.Addr, error) {
	at := a.next
	a.next += kernel.Addr(n+255) &^ 255
	return at, nil
}
func (a *addresses) HostAlloc(n int) ([]byte, error)     { return make([]byte, n), nil }
func (a *addresses) Fill(kernel.Addr, byte, int64) error { return nil }

func decodeStep(rows int) shape {
	return shape{rows: bucket(rows), decode: bucket(rows), chunks: 1, blocks: kernel.ChunkKeys / testKV.BlockSize}
}

// withPostNorms puts norms behind both linears that end a sublayer, as Gemma 2 and
// 3 do.
func withPostNorms(p *kernels.Program) *kernels.Program {
	q := *p
	q.Ops = nil
	for i, o := range p.Ops {
		if o.Kind == kernels.OpAdd && i > 0 && p.Ops[i-1].Kind == kernels.OpLinear {
			q.Ops = append(q.Ops, kernels.Op{Kind: kernels.OpRMSNorm, Dst: o.A, A: o.A, W: p.Norm[0].W, Eps: 1e-6})
		}
		q.Ops = append(q.Ops, o)
	}
	return &q
}

// llama, Qwen 2 and 3 and Gemma by what their ops look like.
func families(typ, head kernels.DType) map[string]*kernels.Program {
	s := kerneltest.Shape{Vocab: 96, Width: 256, Layers: 3, Heads: 8, KVHeads: 2, HeadDim: 32, FFN: 512, Type: typ, Head: head}
	qwen2, qwen3, gemma := s, s, s
	qwen2.Bias, qwen3.QKNorm = true, true
	gemma.Gelu, gemma.QKNorm, gemma.Window = true, true, 128
	return map[string]*kernels.Program{"llama": kerneltest.Model(s, 1), "qwen2": kerneltest.Model(qwen2, 2),
		"qwen3": kerneltest.Model(qwen3, 3), "gemma": kerneltest.Model(gemma, 4), "gemma3": withPostNorms(kerneltest.Model(gemma, 5))}
}

// stepLaunches are the launches of a step of a number of rows, without the head's,
// of which there may be one.
func stepLaunches(t *testing.T, d *Device, rows int) []kernel.Launch {
	t.Helper()
	list, err := d.forward(decodeStep(rows))
	if err != nil {
		t.Fatal(err)
	}
	tail, err := d.finish(d.logits, bucket(rows), true)
	if err != nil {
		t.Fatal(err)
	}
	if len(tail) > 1 {
		t.Errorf("the head of %d rows is %d launches, wanted 1: %s", rows, len(tail), names(tail))
	}
	return list
}

// A decode step of up to eight rows is six launches a layer, and one to embed.
func TestLaunchesPerLayer(t *testing.T) {
	for _, typ := range []kernels.DType{kernels.BF16, kernels.F16, kernels.F32, kernels.Q8_0, kernels.Q4_0, kernels.Q4_K, kernels.Q6_K} {
		for name, p := range families(typ, typ) {
			d := compiled(t, p, Options{})
			for _, rows := range []int{1, 8} {
				list := stepLaunches(t, d, rows)
				if got, layers := len(list)-1, len(p.KV); got != 6*layers {
					t.Errorf("%s %v: a step of %d rows is %d launches, wanted 6 a layer of %d:\n%s", name, typ, rows, got, layers, names(list))
				}
			}
		}
	}
}

func names(list []kernel.Launch) string {
	var all []string
	for _, l := range list {
		all = append(all, l.Name)
	}
	return strings.Join(all, " ")
}

// Weights of several types among Q, K and V are one launch where GGUF's types with
// blocks of one size are mixed, as llama-quantize does, and else one more.
func TestMixedTypes(t *testing.T) {
	for _, c := range []struct {
		typ, k, v kernels.DType
		want      int // launches of a layer
	}{
		{kernels.Q4_K, kernels.Q4_K, kernels.Q6_K, 6},
		{kernels.Q4_K, kernels.Q5_K, kernels.Q6_K, 6},
		{kernels.Q5_0, kernels.Q5_0, kernels.Q8_0, 6},
		{kernels.Q4_K, kernels.Q4_K, kernels.Q8_0, 7},
		{kernels.BF16, kernels.BF16, kernels.F32, 7},
	} {
		p := families(c.typ, c.typ)["qwen2"]
		retypeOf(p, func(a *kernels.Op) kernels.Reg { return a.K }, c.k)
		retypeOf(p, func(a *kernels.Op) kernels.Reg { return a.V }, c.v)
		d := compiled(t, p, Options{})
		for _, rows := range []int{1, 8} {
			list := stepLaunches(t, d, rows)
			if got := len(list) - 1; got != c.want*len(p.KV) {
				t.Errorf("%v, %v, %v, %d rows: got %d launches, wanted %d a layer of %d: %s", c.typ, c.k, c.v, rows, got, c.want, len(p.KV), names(list))
			}
		}
	}
}

// retypeOf gives matrices that make a register of attention another type, and other
// values.
func retypeOf(p *kernels.Program, of func(*kernels.Op) kernels.Reg, typ kernels.DType) {
	for i := range p.Ops {
		if p.Ops[i].Kind != kernels.OpAttention {
			continue
		}
		for j := range p.Ops[:i] {
			if m := &p.Ops[j]; m.Kind == kernels.OpLinear && m.Dst == of(&p.Ops[i]) && p.Tensors[m.W].Type != typ {
				w := &p.Tensors[m.W]
				*w = kerneltest.Tensor(rand.New(rand.NewPCG(uint64(j), 1)), w.Name, typ, w.Rows, w.Cols, 0.05)
			}
		}
	}
}

// kinds lists nodes in a word: e embed, n norm, N norm and add, p pointwise, r
// rope, a attention, l linear, with n for a norm before, + for a sum after, N for
// the sum of a norm after, g for a gate, and the number of matrices.
func kinds(nodes []node) string {
	var s []string
	for _, n := range nodes {
		w := string("enNprla"[n.kind])
		for _, l := range n.lins {
			if l.norm != nil {
				w += "n"
			}
			w += fmt.Sprint(len(l.mats))
			if l.gated {
				w += "g"
			}
			if l.added {
				w += "+"
			}
			if l.post != nil {
				w += "N"
			}
		}
		s = append(s, w)
	}
	return strings.Join(s, " ")
}

// program makes ops over registers of one width; w is a square matrix, v a vector.
type sketch struct{ p *kernels.Program }

func newSketch(regs int) *sketch {
	p := &kernels.Program{Tensors: []kernels.Tensor{{Name: "w", Rows: 8, Cols: 8, Data: make([]byte, 256)}, {Name: "v", Rows: 1, Cols: 8, Data: make([]byte, 32)}}}
	for range regs {
		p.Regs = append(p.Regs, 8)
	}
	return &sketch{p}
}

func (s *sketch) norm(dst, a kernels.Reg) kernels.Op {
	return kernels.Op{Kind: kernels.OpRMSNorm, Dst: dst, A: a, W: 1}
}

func (s *sketch) linear(dst, a kernels.Reg) kernels.Op {
	return kernels.Op{Kind: kernels.OpLinear, Dst: dst, A: a, W: 0, Bias: kernels.NoTensor}
}

func (s *sketch) op(k kernels.OpKind, dst, a, b kernels.Reg) kernels.Op {
	return kernels.Op{Kind: k, Dst: dst, A: a, B: b}
}

// What is fused, and what must not be.
func TestFusion(t *testing.T) {
	s := newSketch(6)
	add, silu := kernels.OpAdd, kernels.OpSiluMul
	for _, c := range []struct {
		name, want string
		keep       []kernels.Reg
		ops        []kernels.Op
	}{
		{"norm into linear", "ln1", []kernels.Reg{2}, []kernels.Op{s.norm(1, 0), s.linear(2, 1)}},
		{"norm that is wanted", "n l1", []kernels.Reg{1, 2}, []kernels.Op{s.norm(1, 0), s.linear(2, 1)}},
		{"norm that another reads", "n l1 p", []kernels.Reg{2}, []kernels.Op{s.norm(1, 0), s.linear(2, 1), s.op(add, 2, 1, 0)}},
		{"norm in place", "n l1", []kernels.Reg{2}, []kernels.Op{s.norm(0, 0), s.linear(2, 0)}},
		{"linear onto what its norm reads", "n l1", []kernels.Reg{0}, []kernels.Op{s.norm(1, 0), s.linear(0, 1)}},
		{"three of one input", "ln3", []kernels.Reg{2, 3, 4}, []kernels.Op{s.norm(1, 0), s.linear(2, 1), s.linear(3, 1), s.linear(4, 1)}},
		{"one result twice", "l1 l1", []kernels.Reg{2}, []kernels.Op{s.linear(2, 1), s.linear(2, 1)}},
		{"gate", "ln2g", []kernels.Reg{2}, []kernels.Op{s.norm(1, 0), s.linear(2, 1), s.linear(3, 1), s.op(silu, 2, 2, 3)}},
		{"gate the other way round", "l2g", []kernels.Reg{2}, []kernels.Op{s.linear(2, 1), s.linear(3, 1), s.op(silu, 2, 3, 2)}},
		{"gate into a third", "l2g", []kernels.Reg{4}, []kernels.Op{s.linear(2, 1), s.linear(3, 1), s.op(silu, 4, 2, 3)}},
		{"gate whose half is wanted", "l2 p", []kernels.Reg{3, 2}, []kernels.Op{s.linear(2, 1), s.linear(3, 1), s.op(silu, 2, 2, 3)}},
		{"gate onto its input", "l2 p", []kernels.Reg{1}, []kernels.Op{s.linear(2, 1), s.linear(3, 1), s.op(silu, 1, 2, 3)}},
		{"gate and another", "ln2g ln1", []kernels.Reg{2, 4}, []kernels.Op{s.norm(1, 0), s.linear(2, 1), s.linear(3, 1), s.linear(4, 1), s.op(silu, 2, 2, 3)}},
		{"gate of one", "l1 p", []kernels.Reg{2}, []kernels.Op{s.linear(2, 1), s.op(silu, 2, 2, 2)}},
		{"residual", "l1+", []kernels.Reg{0}, []kernels.Op{s.linear(2, 1), s.op(add, 0, 2, 0)}},
		{"residual whose term is wanted", "l1 p", []kernels.Reg{0, 2}, []kernels.Op{s.linear(2, 1), s.op(add, 0, 2, 0)}},
		{"residual onto the input", "l1 p", []kernels.Reg{1}, []kernels.Op{s.linear(2, 1), s.op(add, 1, 2, 0)}},
		{"residual onto what the norm reads", "ln1 p", []kernels.Reg{0}, []kernels.Op{s.norm(1, 0), s.linear(2, 1), s.op(add, 0, 2, 0)}},
		{"residual onto the normed", "n l1 p", []kernels.Reg{1}, []kernels.Op{s.norm(1, 0), s.linear(2, 1), s.op(add, 1, 2, 0)}},
		{"gate onto what the norm reads", "ln2 p", []kernels.Reg{0}, []kernels.Op{s.norm(1, 0), s.linear(2, 1), s.linear(3, 1), s.op(silu, 0, 2, 3)}},
		{"gate onto the normed", "n l2 p", []kernels.Reg{1}, []kernels.Op{s.norm(1, 0), s.linear(2, 1), s.linear(3, 1), s.op(silu, 1, 2, 3)}},
		{"norm and add", "N", []kernels.Reg{0}, []kernels.Op{s.norm(2, 2), s.op(add, 0, 2, 0)}},
		{"norm and add of a wanted one", "n p", []kernels.Reg{0, 2}, []kernels.Op{s.norm(2, 2), s.op(add, 0, 2, 0)}},
		{"linear, norm and add", "l1N", []kernels.Reg{0}, []kernels.Op{s.linear(2, 1), s.norm(2, 2), s.op(add, 0, 2, 0)}},
		{"linear, norm into another and add", "l1N", []kernels.Reg{0}, []kernels.Op{s.linear(2, 1), s.norm(3, 2), s.op(add, 0, 3, 0)}},
		{"linear that is wanted, norm and add", "l1 N", []kernels.Reg{0, 2}, []kernels.Op{s.linear(2, 1), s.norm(3, 2), s.op(add, 0, 3, 0)}},
		{"linear, norm and add to its input", "l1 N", []kernels.Reg{1}, []kernels.Op{s.linear(2, 1), s.norm(2, 2), s.op(add, 1, 2, 0)}},
		{"linear, norm and add to what its norm reads", "ln1 N", []kernels.Reg{0}, []kernels.Op{s.norm(1, 0), s.linear(2, 1), s.norm(2, 2), s.op(add, 0, 2, 0)}},
		{"two linears, norm and add", "l2 N", []kernels.Reg{0, 2}, []kernels.Op{s.linear(2, 1), s.linear(3, 1), s.norm(3, 3), s.op(add, 0, 3, 0)}},
		{"norm of another and add", "l1 N", []kernels.Reg{0, 2}, []kernels.Op{s.linear(2, 1), s.norm(3, 3), s.op(add, 0, 3, 0)}},
		{"norm added to what it reads", "n p", []kernels.Reg{0}, []kernels.Op{s.norm(2, 0), s.op(add, 0, 2, 0)}},
	} {
		if got := kinds(compile(s.p, c.ops, nil, c.keep...)); got != c.want {
			t.Errorf("%s: got %q, wanted %q", c.name, got, c.want)
		}
	}
}

// Norms and rotations of heads go into attention where they come in its order.
func TestFusionOfHeads(t *testing.T) {
	s := newSketch(6)
	s.p.KV = []kernels.KVLayer{{KVHeads: 2, HeadDim: 4}}
	s.p.Tensors[1].Cols, s.p.Tensors[1].Data = 4, make([]byte, 16)
	rope, other := &kernels.Rope{HeadDim: 4, Dim: 4, InvFreq: []float32{1, 1}}, &kernels.Rope{HeadDim: 8, Dim: 4, InvFreq: []float32{1, 1}}
	turn := func(r kernels.Reg, by *kernels.Rope) kernels.Op {
		return kernels.Op{Kind: kernels.OpRope, Dst: r, Rope: by}
	}
	norm := func(r kernels.Reg, eps float32) kernels.Op {
		return kernels.Op{Kind: kernels.OpRMSNorm, Dst: r, A: r, W: 1, Group: 4, Eps: eps}
	}
	attn := kernels.Op{Kind: kernels.OpAttention, Dst: 3, A: 0, K: 1, V: 2, Attn: &kernels.Attention{Heads: 2, KVHeads: 2, HeadDim: 4, Scale: 1}}
	for _, c := range []struct {
		name, want string
		ops        []kernels.Op
	}{
		{"alone", "a", []kernels.Op{attn}},
		{"rotated", "a", []kernels.Op{turn(0, rope), turn(1, rope), attn}},
		{"normed and rotated", "a", []kernels.Op{norm(0, 1), norm(1, 1), turn(0, rope), turn(1, rope), attn}},
		{"of another order", "a", []kernels.Op{norm(1, 1), turn(1, rope), turn(0, rope), attn}},
		{"rotated before the norm", "r a", []kernels.Op{turn(0, rope), norm(0, 1), attn}},
		{"two epsilons", "n a", []kernels.Op{norm(0, 1), norm(1, 2), attn}},
		{"another head size", "r a", []kernels.Op{turn(0, other), turn(1, rope), attn}},
		{"values rotated", "r a", []kernels.Op{turn(2, rope), turn(1, rope), attn}},
		{"turned twice", "r a", []kernels.Op{turn(0, rope), turn(0, rope), attn}},
	} {
		got := kinds(compile(s.p, c.ops, nil, 3))
		if got != c.want {
			t.Errorf("%s: got %q, wanted %q", c.name, got, c.want)
		}
	}
}
