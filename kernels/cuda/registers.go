package cuda

import (
	"slices"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
)

// registers are matrices in device memory, one row a token. Registers that one
// linear writes together are columns of one matrix.
type registers struct {
	widths   []int   // by register
	at       []place // by register
	matrices []matrix
}

type place struct{ matrix, col int } // matrix -1: the register is not needed

type matrix struct {
	width int // values of a row, a multiple of rowAlign
	addr  kernel.Addr
}

// rowAlign is the number of values that a row, and a column of joined registers,
// is aligned to: 16 bytes, as kernel.Mat promises.
const rowAlign = 4

func newRegisters(p *kernels.Program, nodes []node, more ...kernels.Reg) *registers {
	g := &registers{widths: p.Regs, at: make([]place, len(p.Regs))}
	for i := range g.at {
		g.at[i].matrix = -1
	}
	for i := range nodes {
		for _, l := range nodes[i].lins {
			if !l.gated && !l.added {
				g.join(l.mats)
			}
		}
	}
	for i := range nodes {
		for _, r := range nodes[i].registers() {
			g.need(r)
		}
	}
	for _, r := range more {
		if r >= 0 {
			g.need(r)
		}
	}
	return g
}

// join places the results of linears side by side, if none has a place yet and
// each begins aligned.
func (g *registers) join(mats []kernels.Op) {
	if slices.ContainsFunc(mats, func(o kernels.Op) bool { return g.at[o.Dst].matrix >= 0 }) {
		return
	}
	for len(mats) > 0 {
		n, width := 0, 0
		for n < len(mats) && width%rowAlign == 0 {
			g.at[mats[n].Dst] = place{len(g.matrices), width}
			width += g.widths[mats[n].Dst]
			n++
		}
		g.add(width)
		mats = mats[n:]
	}
}

// need places a register alone if it has no place.
func (g *registers) need(r kernels.Reg) {
	if g.at[r].matrix < 0 {
		g.at[r] = place{len(g.matrices), 0}
		g.add(g.widths[r])
	}
}

func (g *registers) add(width int) {
	g.matrices = append(g.matrices, matrix{width: (width + rowAlign - 1) / rowAlign * rowAlign})
}

// mat is register r from row on.
func (g *registers) mat(r kernels.Reg, row int) kernel.Mat {
	p := g.at[r]
	m := &g.matrices[p.matrix]
	return kernel.Mat{Addr: m.addr + kernel.Addr(4*(p.col+row*m.width)), Stride: m.width}
}

// adjacent tells whether b's columns follow a's.
func (g *registers) adjacent(a, b kernels.Reg) bool {
	p, q := g.at[a], g.at[b]
	return p.matrix == q.matrix && q.col == p.col+g.widths[a]
}

// registers lists what a node needs a place for.
func (n *node) registers() []kernels.Reg {
	switch {
	case n.attn != nil:
		o := &n.attn.op
		return []kernels.Reg{o.A, o.K, o.V, o.Dst}
	case n.lins == nil:
		return append(reads(&n.op), n.op.Dst)
	}
	var rs []kernels.Reg
	for _, l := range n.lins {
		rs = append(rs, l.input, l.dst)
		if !l.gated && !l.added {
			for i := range l.mats {
				rs = append(rs, l.mats[i].Dst)
			}
		}
		if l.post != nil {
			rs = append(rs, l.post.Dst)
		}
	}
	return rs
}

// split cuts linears into those that one weight can hold: matrices that go together
// whose results lie side by side.
func split(p *kernels.Program, g *registers, nodes []node) []node {
	var out []node
	for _, n := range nodes {
		if n.lins != nil {
			n.lins = splitLinear(p, g, n.lins[0])
		}
		out = append(out, n)
	}
	return out
}

// together tells whether one weight may hold both: they are of one type, and their
// columns in one order.
func together(a, b *kernels.Tensor) bool { return a.Type == b.Type && slices.Equal(a.Order, b.Order) }

func splitLinear(p *kernels.Program, g *registers, l *linearNode) (parts []*linearNode) {
	if l.gated || l.added {
		return []*linearNode{l}
	}
	for at := 0; at < len(l.mats); {
		end := at + 1
		for end < len(l.mats) && together(&p.Tensors[l.mats[end].W], &p.Tensors[l.mats[at].W]) && g.adjacent(l.mats[end-1].Dst, l.mats[end].Dst) {
			end++
		}
		part := *l
		part.mats, part.dst = l.mats[at:end], l.mats[at].Dst
		parts = append(parts, &part)
		at = end
	}
	return parts
}
