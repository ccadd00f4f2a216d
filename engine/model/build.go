package model

import (
	"fmt"
	"math"

	"hearth/engine/weights"
	"hearth/kernels"
)

// builder emits the ops of a model. The registers are, for one token:
type builder struct {
	binder
	served int

	x           kernels.Reg // residual stream (hidden)
	norm        kernels.Reg // normalized input of a sublayer (hidden)
	q, k, v     kernels.Reg // (heads, head size), (kv heads, head size) twice
	attn        kernels.Reg // attention's result (heads, head size)
	out         kernels.Reg // result of a sublayer (hidden)
	gate, up    kernels.Reg // (feed-forward)
	final       kernels.Reg // (hidden)
	logits      kernels.Reg // (vocab)
	rope, local *kernels.Rope
}

func (b *builder) reg(width int) kernels.Reg {
	b.p.Regs = append(b.p.Regs, width)
	return kernels.Reg(len(b.p.Regs) - 1)
}

// op makes an op whose unused operands are marked so.
func op(kind kernels.OpKind, dst, a kernels.Reg) kernels.Op {
	return kernels.Op{
		Kind: kind, Dst: dst, A: a, B: kernels.NoReg, K: kernels.NoReg, V: kernels.NoReg,
		W: kernels.NoTensor, Bias: kernels.NoTensor,
	}
}

func (b *builder) emit(o kernels.Op) { b.p.Ops = append(b.p.Ops, o) }

func (b *builder) rmsNorm(dst, a kernels.Reg, w kernels.TensorID, group int) kernels.Op {
	o := op(kernels.OpRMSNorm, dst, a)
	o.W, o.Group, o.Eps = w, group, float32(b.h.eps)
	return o
}

func linear(dst, a kernels.Reg, w, bias kernels.TensorID) kernels.Op {
	o := op(kernels.OpLinear, dst, a)
	o.W, o.Bias = w, bias
	return o
}

// build writes the whole program.
func (b *builder) build() error {
	if err := b.prepare(); err != nil {
		return err
	}
	var top [slotCount]kernels.TensorID
	for i := range topTensors {
		s := &topTensors[i]
		if !b.h.has(s.when) {
			top[s.slot] = top[slotEmbed] // tied: the embedding is the output matrix
			continue
		}
		var err error
		if top[s.slot], err = b.take(s, 0); err != nil {
			return err
		}
	}
	embed := op(kernels.OpEmbed, b.x, kernels.NoReg)
	embed.W, embed.Factor = top[slotEmbed], 1
	if b.h.desc.scaledEmbedding {
		embed.Factor = float32(math.Sqrt(float64(b.h.hidden)))
	}
	b.emit(embed)
	for i := range b.h.layers {
		if err := b.layer(i); err != nil {
			return err
		}
	}
	b.p.Norm = []kernels.Op{b.rmsNorm(b.final, b.x, top[slotOutNorm], 0)}
	b.p.Head = []kernels.Op{linear(b.logits, b.final, top[slotOutput], kernels.NoTensor)}
	if b.h.logitCap > 0 {
		o := op(kernels.OpSoftCap, b.logits, kernels.NoReg)
		o.Factor = float32(b.h.logitCap)
		b.p.Head = append(b.p.Head, o)
	}
	b.p.Final, b.p.Logits, b.p.Vocab, b.p.Width = b.final, b.logits, b.h.vocab, b.h.hidden
	return b.leftover()
}

// prepare allots registers and computes what all layers share.
func (b *builder) prepare() error {
	h := b.h
	b.x, b.norm = b.reg(h.hidden), b.reg(h.hidden)
	b.q, b.k, b.v = b.reg(h.size(dimQuery)), b.reg(h.size(dimKV)), b.reg(h.size(dimKV))
	b.attn, b.out = b.reg(h.size(dimQuery)), b.reg(h.hidden)
	b.gate, b.up = b.reg(h.ffn), b.reg(h.ffn)
	b.final, b.logits = b.reg(h.hidden), b.reg(h.vocab)

	neoX := !(h.desc.interleaved && b.f.Format == weights.GGUF)
	var err error
	if b.rope, err = h.rope.build(h, neoX, b.served); err != nil {
		return err
	}
	b.local = b.rope
	if h.local != nil {
		if b.local, err = h.local.build(h, neoX, b.served); err != nil {
			return fmt.Errorf("of windowed layers: %w", err)
		}
	}
	return nil
}

// layer emits one block.
func (b *builder) layer(i int) error {
	t, err := b.binder.layer(i)
	if err != nil {
		return err
	}
	h := b.h
	b.emit(b.rmsNorm(b.norm, b.x, t[slotAttnNorm], 0))
	b.emit(linear(b.q, b.norm, t[slotQ], t[slotQBias]))
	b.emit(linear(b.k, b.norm, t[slotK], t[slotKBias]))
	b.emit(linear(b.v, b.norm, t[slotV], t[slotVBias]))
	if w := t[slotQNorm]; w != kernels.NoTensor {
		b.emit(b.rmsNorm(b.q, b.q, w, h.headDim))
	}
	if w := t[slotKNorm]; w != kernels.NoTensor {
		b.emit(b.rmsNorm(b.k, b.k, w, h.headDim))
	}
	rope := b.rope
	if h.windows[i] > 0 {
		rope = b.local
	}
	for _, r := range []kernels.Reg{b.q, b.k} {
		o := op(kernels.OpRope, r, kernels.NoReg)
		o.Rope = rope
		b.emit(o)
	}
	b.emit(b.attention(i))
	b.emit(linear(b.out, b.attn, t[slotO], t[slotOBias]))
	b.residual(t[slotPostAttnNorm])

	b.emit(b.rmsNorm(b.norm, b.x, t[slotFFNNorm], 0))
	b.emit(linear(b.gate, b.norm, t[slotGate], t[slotGateBias]))
	b.emit(linear(b.up, b.norm, t[slotUp], t[slotUpBias]))
	o := op(h.desc.activation, b.gate, b.gate)
	o.B = b.up
	b.emit(o)
	b.emit(linear(b.out, b.gate, t[slotDown], t[slotDownBias]))
	b.residual(t[slotPostFFNNorm])
	return nil
}

// residual adds a sublayer's result to the stream, after a norm where the
// architecture has one there.
func (b *builder) residual(norm kernels.TensorID) {
	if norm != kernels.NoTensor {
		b.emit(b.rmsNorm(b.out, b.out, norm, 0))
	}
	b.emit(op(kernels.OpAdd, b.x, b.out))
}

// attention makes the op of layer i and its cache.
func (b *builder) attention(i int) kernels.Op {
	h := b.h
	window := b.effectiveWindow(i)
	b.p.KV = append(b.p.KV, kernels.KVLayer{KVHeads: h.kvHeads, HeadDim: h.headDim, Window: window})
	o := op(kernels.OpAttention, b.attn, b.q)
	o.K, o.V, o.Layer = b.k, b.v, i
	o.Attn = &kernels.Attention{
		Heads: h.heads, KVHeads: h.kvHeads, HeadDim: h.headDim,
		Scale: float32(h.attnScale), Window: window, SoftCap: float32(h.attnCap),
	}
	return o
}

// effectiveWindow is 0 for a window that no served sequence can outgrow.
func (b *builder) effectiveWindow(i int) int {
	if w := b.h.windows[i]; w < b.served {
		return w
	}
	return 0
}
