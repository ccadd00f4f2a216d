package cuda

import (
	"fmt"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
)

// library gives the launches of nodes, and what they need; package kernel's
// functions, but for tests.
type library struct {
	weight           func(ts []*kernels.Tensor, gated, fast bool) (*kernel.Weight, error)
	linearScratch    func(w *kernel.Weight, rows int) int64
	attentionScratch func(a kernels.Attention, rows, chunks int) int64
	blockBytes       func(c kernel.Cache) int64

	embed       func(t kernel.Target, w kernel.Addr, typ kernels.DType, vocab, width int, p kernel.Plan, dst kernel.Mat, rows int, factor float32) ([]kernel.Launch, error)
	norm        func(t kernel.Target, x, dst kernel.Mat, w kernel.Addr, rows, width, group int, eps float32) ([]kernel.Launch, error)
	normAdd     func(t kernel.Target, x, dst kernel.Mat, w kernel.Addr, rows, width int, eps float32) ([]kernel.Launch, error)
	rope        func(t kernel.Target, x kernel.Mat, p kernel.Plan, r kernel.Rotation, rows, heads, headDim int) ([]kernel.Launch, error)
	elementwise func(t kernel.Target, op kernels.OpKind, dst, a, b kernel.Mat, rows, width int, factor float32) ([]kernel.Launch, error)
	gather      func(t kernel.Target, src, dst kernel.Mat, p kernel.Plan, rows, width int) ([]kernel.Launch, error)
	linears     func(t kernel.Target, ws []*kernel.Weight, cs []kernel.LinearCall) ([]kernel.Launch, error)
	appendKV    func(t kernel.Target, c kernel.AttentionCall) ([]kernel.Launch, error)
	decode      func(t kernel.Target, c kernel.AttentionCall) ([]kernel.Launch, error)
	prefill     func(t kernel.Target, c kernel.AttentionCall) ([]kernel.Launch, error)
	sample      func(t kernel.Target, c kernel.SampleCall) ([]kernel.Launch, error)
}

var kernelLibrary = library{
	weight: kernel.NewWeight, linearScratch: kernel.ScratchBytes, attentionScratch: kernel.AttentionScratch,
	blockBytes: func(c kernel.Cache) int64 { return c.BlockBytes() },
	embed:      kernel.Embed, norm: kernel.RMSNorm, normAdd: kernel.NormAdd, rope: kernel.Rope, elementwise: kernel.Elementwise,
	gather: kernel.Gather, linears: kernel.Linears, appendKV: kernel.AppendKV, decode: kernel.Decode, prefill: kernel.Prefill,
	sample: kernel.Sample,
}

// emitter turns nodes into launches over the first rows of some registers.
type emitter struct {
	d    *Device
	rows int
	plan kernel.Plan
	mat  func(r kernels.Reg) kernel.Mat
	step shape // of attention
	out  []kernel.Launch
}

func (e *emitter) add(ls []kernel.Launch, err error) error {
	e.out = append(e.out, ls...)
	return err
}

func (e *emitter) nodes(nodes []node) error {
	for i := range nodes {
		if err := e.node(&nodes[i]); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
	}
	return nil
}

func (e *emitter) node(n *node) error {
	d, lib, t := e.d, &e.d.lib, e.d.target
	o := &n.op
	switch n.kind {
	case nodeEmbed:
		w, table := &d.p.Tensors[o.W], d.store.tables[o.W]
		return e.add(lib.embed(t, table.addr, table.typ, w.Rows, w.Cols, e.plan, e.mat(o.Dst), e.rows, o.Factor))
	case nodeNorm:
		return e.add(lib.norm(t, e.mat(o.A), e.mat(o.Dst), d.store.norm(o.W), e.rows, d.p.Regs[o.Dst], o.Group, o.Eps))
	case nodeNormAdd:
		return e.add(lib.normAdd(t, e.mat(o.A), e.mat(o.Dst), d.store.norm(o.W), e.rows, d.p.Regs[o.Dst], o.Eps))
	case nodeRope:
		return e.add(lib.rope(t, e.mat(o.Dst), e.plan, *d.rotation(o.Rope), e.rows, d.p.Regs[o.Dst]/o.Rope.HeadDim, o.Rope.HeadDim))
	case nodePointwise:
		var a, b kernel.Mat
		switch o.Kind {
		case kernels.OpAdd:
			a = e.mat(o.A)
		case kernels.OpSiluMul, kernels.OpGeluMul:
			a, b = e.mat(o.A), e.mat(o.B)
		}
		return e.add(lib.elementwise(t, o.Kind, e.mat(o.Dst), a, b, e.rows, d.p.Regs[o.Dst], o.Factor))
	case nodeLinear:
		return e.linears(n.lins)
	}
	return e.attention(n.attn)
}

func (e *emitter) linears(ls []*linearNode) error {
	d := e.d
	var ws []*kernel.Weight
	var cs []kernel.LinearCall
	for _, l := range ls {
		ws, cs = append(ws, d.store.weight(l)), append(cs, e.linear(l))
	}
	return e.add(d.lib.linears(d.target, ws, cs))
}

func (e *emitter) linear(l *linearNode) kernel.LinearCall {
	d := e.d
	c := kernel.LinearCall{Rows: e.rows, X: e.mat(l.input), Y: e.mat(l.dst), Bias: d.store.bias(l), Residual: l.added,
		Scratch: d.linearScratch, Counters: d.counters}
	if l.norm != nil {
		c.Norm, c.Eps = d.store.norm(l.norm.W), l.norm.Eps
	}
	if l.gated {
		c.Act = kernel.SiluMul
		if l.act == kernels.OpGeluMul {
			c.Act = kernel.GeluMul
		}
	}
	if o := l.post; o != nil {
		c.Post = &kernel.PostNorm{W: d.store.norm(o.W), Eps: o.Eps, Sum: e.mat(o.Dst)}
	}
	return c
}

// attention writes keys and values of all rows, then attends for the rows that
// are single tokens and for the tiles of longer runs.
func (e *emitter) attention(n *attnNode) error {
	d, o := e.d, &n.op
	c := kernel.AttentionCall{Rows: e.rows, Q: e.mat(o.A), K: e.mat(o.K), V: e.mat(o.V), Out: e.mat(o.Dst), Plan: e.plan,
		Cache: d.cache(o.Layer), Spec: *o.Attn, QNorm: d.store.norm(n.qNorm), KNorm: d.store.norm(n.kNorm), Eps: n.eps,
		QRope: d.rotation(n.qRope), KRope: d.rotation(n.kRope), Scratch: d.attnScratch[heads(o.Attn)]}
	if err := e.add(d.lib.appendKV(d.target, c)); err != nil {
		return err
	}
	all := c
	c.MaxChunks = e.step.chunks
	for from := 0; from < e.step.decode; from += c.Rows {
		c.Rows = min(e.step.decode-from, decodeRows(e.step.chunks))
		c.Q, c.Out = e.mat(o.A), e.mat(o.Dst)
		c.Q.Addr += kernel.Addr(4 * from * c.Q.Stride)
		c.Out.Addr += kernel.Addr(4 * from * c.Out.Stride)
		c.Plan.Pos, c.Plan.Seq = e.plan.Pos+kernel.Addr(4*from), e.plan.Seq+kernel.Addr(4*from)
		if err := e.add(d.lib.decode(d.target, c)); err != nil {
			return err
		}
	}
	if e.step.tiles == 0 {
		return nil
	}
	all.Tiles, all.MaxChunks = e.step.tiles, e.step.blocks*d.kv.BlockSize/kernel.ChunkKeys
	return e.add(d.lib.prefill(d.target, all))
}

// rotation is what kernels need of a rotation; nil for none.
func (d *Device) rotation(r *kernels.Rope) *kernel.Rotation {
	if r == nil {
		return nil
	}
	return &kernel.Rotation{Table: d.store.angles(r).addr, Dim: r.Dim, NeoX: r.NeoX}
}

// decodeUnits bounds the rows times chunks of keys of one launch of attention, and
// with them its scratch. Tests lower it.
var decodeUnits = 2048

// decodeRows is the most rows of one launch of attention over chunks of keys each.
func decodeRows(chunks int) int { return max(1, decodeUnits/max(1, chunks)) }

// headShape names the scratch that layers of attention share.
type headShape struct{ heads, kvHeads, headDim int }

func heads(a *kernels.Attention) headShape { return headShape{a.Heads, a.KVHeads, a.HeadDim} }

// forward gives the launches of the program's ops for a shape of step.
func (d *Device) forward(s shape) ([]kernel.Launch, error) {
	e := &emitter{d: d, rows: s.rows, plan: d.plan(s), step: s, mat: func(r kernels.Reg) kernel.Mat { return d.regs.mat(r, 0) }}
	return e.out2(e.nodes(d.ops))
}

func (e *emitter) out2(err error) ([]kernel.Launch, error) {
	if err != nil {
		return nil, fmt.Errorf("cannot compile a step of %d rows: %w", e.rows, err)
	}
	return e.out, nil
}

// finish gives the launches of a tail for rows: over the first rows of the step as
// they are, or over those that the plan gathers.
func (d *Device) finish(t *tail, rows int, direct bool) ([]kernel.Launch, error) {
	e := &emitter{d: d, rows: rows, plan: kernel.Plan{Gather: d.planAddr}}
	e.mat = func(r kernels.Reg) kernel.Mat {
		if direct && t.isInput(r) {
			return d.regs.mat(r, 0)
		}
		return t.regs.mat(r, 0)
	}
	if !direct {
		for _, r := range t.inputs {
			if err := e.add(d.lib.gather(d.target, d.regs.mat(r, 0), t.regs.mat(r, 0), e.plan, rows, d.p.Regs[r])); err != nil {
				return nil, err
			}
		}
	}
	return e.out2(e.nodes(t.nodes))
}
