package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"hearth/kernels"
)

// Shape describes a random decoder model of the usual form.
type Shape struct {
	Vocab, Width, Layers, Heads, KVHeads, HeadDim, FFN int
	Type                                               kernels.DType // of the matrices
	Head                                               kernels.DType // of the (tied) embedding
	QKNorm, Gelu, Bias                                 bool
	Window                                             int // of every second layer
}

// SmolLM2 is the shape of SmolLM2-135M.
func SmolLM2(t kernels.DType) Shape {
	return Shape{Vocab: 49152, Width: 576, Layers: 30, Heads: 9, KVHeads: 3, HeadDim: 64, FFN: 1536, Type: t, Head: t}
}

// Model builds the program of a shape with random weights.
func Model(s Shape, seed uint64) *kernels.Program {
	m := &modelBuilder{s: s, rng: rand.New(rand.NewPCG(seed, 1)), p: &kernels.Program{Vocab: s.Vocab, Width: s.Width}}
	x, n := m.reg(s.Width), m.reg(s.Width)
	q, k, v := m.reg(s.Heads*s.HeadDim), m.reg(s.KVHeads*s.HeadDim), m.reg(s.KVHeads*s.HeadDim)
	a, o := m.reg(s.Heads*s.HeadDim), m.reg(s.Width)
	gate, up := m.reg(s.FFN), m.reg(s.FFN)
	embed := m.matrix("embed", s.Head, s.Vocab, s.Width)
	m.op(kernels.Op{Kind: kernels.OpEmbed, Dst: x, W: embed, Factor: float32(math.Sqrt(float64(s.Width)))})
	rope := &kernels.Rope{HeadDim: s.HeadDim, Dim: s.HeadDim, NeoX: true, InvFreq: freqs(s.HeadDim, 10000), Scale: 1}
	for l := range s.Layers {
		m.norm(n, x, s.Width, 0)
		m.linear(q, n)
		m.linear(k, n)
		m.linear(v, n)
		if s.QKNorm {
			m.norm(q, q, s.HeadDim, s.HeadDim)
			m.norm(k, k, s.HeadDim, s.HeadDim)
		}
		m.op(kernels.Op{Kind: kernels.OpRope, Dst: q, Rope: rope})
		m.op(kernels.Op{Kind: kernels.OpRope, Dst: k, Rope: rope})
		m.attention(a, q, k, v, l)
		m.linear(o, a)
		m.op(kernels.Op{Kind: kernels.OpAdd, Dst: x, A: o})
		m.norm(n, x, s.Width, 0)
		m.linear(gate, n)
		m.linear(up, n)
		mul := kernels.OpSiluMul
		if s.Gelu {
			mul = kernels.OpGeluMul
		}
		m.op(kernels.Op{Kind: mul, Dst: gate, A: gate, B: up})
		m.linear(o, gate)
		m.op(kernels.Op{Kind: kernels.OpAdd, Dst: x, A: o})
	}
	m.p.Norm = []kernels.Op{{Kind: kernels.OpRMSNorm, Dst: n, A: x, W: m.vector("norm", s.Width), Eps: 1e-5}}
	m.p.Logits = m.reg(s.Vocab)
	m.p.Head = []kernels.Op{{Kind: kernels.OpLinear, Dst: m.p.Logits, A: n, W: embed, Bias: kernels.NoTensor}}
	m.p.Final = n
	return m.p
}

type modelBuilder struct {
	s   Shape
	rng *rand.Rand
	p   *kernels.Program
}

func (m *modelBuilder) reg(width int) kernels.Reg {
	m.p.Regs = append(m.p.Regs, width)
	return kernels.Reg(len(m.p.Regs) - 1)
}

func (m *modelBuilder) add(t kernels.Tensor) kernels.TensorID {
	m.p.Tensors = append(m.p.Tensors, t)
	return kernels.TensorID(len(m.p.Tensors) - 1)
}

func (m *modelBuilder) op(o kernels.Op) { m.p.Ops = append(m.p.Ops, o) }

func (m *modelBuilder) matrix(name string, t kernels.DType, rows, cols int) kernels.TensorID {
	if cols%t.BlockValues() != 0 { // as real files do: a type with smaller blocks
		t = kernels.Q8_0
	}
	if cols%t.BlockValues() != 0 {
		t = kernels.F16
	}
	return m.add(Tensor(m.rng, name, t, rows, cols, 1/float32(math.Sqrt(float64(cols)))))
}

func (m *modelBuilder) vector(name string, n int) kernels.TensorID {
	return m.add(Vector(m.rng, name, n, 1, 0.1))
}

func (m *modelBuilder) norm(dst, a kernels.Reg, width, group int) {
	m.op(kernels.Op{Kind: kernels.OpRMSNorm, Dst: dst, A: a, W: m.vector("norm", width), Group: group, Eps: 1e-5})
}

func (m *modelBuilder) linear(dst, a kernels.Reg) {
	rows, cols := m.p.Regs[dst], m.p.Regs[a]
	o := kernels.Op{Kind: kernels.OpLinear, Dst: dst, A: a, Bias: kernels.NoTensor}
	o.W = m.matrix(fmt.Sprintf("w%d", len(m.p.Tensors)), m.s.Type, rows, cols)
	if m.s.Bias {
		o.Bias = m.add(Vector(m.rng, "bias", rows, 0, 0.1))
	}
	m.op(o)
}

func (m *modelBuilder) attention(dst, q, k, v kernels.Reg, layer int) {
	a := &kernels.Attention{Heads: m.s.Heads, KVHeads: m.s.KVHeads, HeadDim: m.s.HeadDim, Scale: 1 / float32(math.Sqrt(float64(m.s.HeadDim)))}
	if layer%2 == 1 {
		a.Window = m.s.Window
	}
	m.p.KV = append(m.p.KV, kernels.KVLayer{KVHeads: a.KVHeads, HeadDim: a.HeadDim, Window: a.Window})
	m.op(kernels.Op{Kind: kernels.OpAttention, Dst: dst, A: q, K: k, V: v, Layer: layer, Attn: a})
}
