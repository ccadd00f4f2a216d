package cuda

import (
	"slices"

	"hearth/kernels"
)

// A node is a part of a step that one launch computes, or as many as its weights
// need.
type node struct {
	kind nodeKind
	op   kernels.Op    // the op itself, except of linears
	lins []*linearNode // of one input and norm; one, until split cuts it
	attn *attnNode
}

type nodeKind uint8

const (
	nodeEmbed nodeKind = iota
	nodeNorm
	nodeNormAdd   // op.A normed by op, added to op.Dst, where no linear ends with it
	nodePointwise // one of the ops element by element
	nodeRope      // a rotation that no attention takes
	nodeLinear
	nodeAttention
)

// linearNode is y = x·Wᵀ of matrices that share their input, with what is fused
// before and after.
type linearNode struct {
	input kernels.Reg  // of the linears, or what norm reads
	norm  *kernels.Op  // an OpRMSNorm whose result only these linears read
	mats  []kernels.Op // OpLinear
	dst   kernels.Reg  // where the result goes; of several matrices, the first's
	act   kernels.OpKind
	gated bool        // mats are gate and up, joined by act
	added bool        // the result is added to dst
	post  *kernels.Op // an OpRMSNorm of dst, added to its Dst
}

// attnNode is attention with what happens to single heads of Q and K before it.
type attnNode struct {
	op           kernels.Op
	qNorm, kNorm kernels.TensorID
	eps          float32
	qRope, kRope *kernels.Rope
}

// compiler makes nodes of one list of ops.
type compiler struct {
	p     *kernels.Program
	ops   []kernels.Op
	later []kernels.Op // what runs after the list
	keep  []kernels.Reg
}

// compile finds the nodes of ops. later are the ops that run afterwards, keep the
// registers that are read after those.
func compile(p *kernels.Program, ops, later []kernels.Op, keep ...kernels.Reg) []node {
	c := &compiler{p: p, ops: ops, later: later, keep: keep}
	var nodes []node
	for i := 0; i < len(ops); {
		var found []node
		found, i = c.take(i)
		nodes = append(nodes, found...)
	}
	return nodes
}

// take makes the nodes that begin with op i and returns the index of the next op.
func (c *compiler) take(i int) ([]node, int) {
	o := &c.ops[i]
	switch o.Kind {
	case kernels.OpLinear:
		if nodes, next, ok := c.takeLinear(nil, i); ok {
			return nodes, next
		}
	case kernels.OpRMSNorm:
		if nodes, next, ok := c.takeNormed(i); ok {
			return nodes, next
		}
		if op, ok := c.takeNormAdd(i); ok {
			return []node{{kind: nodeNormAdd, op: op}}, i + 2
		}
		if n, next, ok := c.takeAttention(i); ok {
			return []node{n}, next
		}
		return []node{{kind: nodeNorm, op: *o}}, i + 1
	case kernels.OpRope, kernels.OpAttention:
		if n, next, ok := c.takeAttention(i); ok {
			return []node{n}, next
		}
		return []node{{kind: nodeRope, op: *o}}, i + 1
	case kernels.OpEmbed:
		return []node{{kind: nodeEmbed, op: *o}}, i + 1
	}
	return []node{{kind: nodePointwise, op: *o}}, i + 1
}

// wholeRow tells whether a norm is over whole rows.
func (c *compiler) wholeRow(o *kernels.Op) bool {
	return o.Group == 0 || o.Group == c.p.Regs[o.Dst]
}

// takeNormed fuses the norm at i with the linears after it, if only they read its
// result.
func (c *compiler) takeNormed(i int) ([]node, int, bool) {
	o := &c.ops[i]
	if !c.wholeRow(o) || o.Dst == o.A || i+1 >= len(c.ops) || c.ops[i+1].Kind != kernels.OpLinear || c.ops[i+1].A != o.Dst {
		return nil, 0, false
	}
	return c.takeLinear(o, i+1)
}

// takeLinear collects the linears from i on that read one input, and the op after
// them that joins two of them, or adds the only one to the residual, as it is or
// normed. It fails only where norm cannot be fused.
func (c *compiler) takeLinear(norm *kernels.Op, i int) ([]node, int, bool) {
	input := c.ops[i].A
	next := i
	for next < len(c.ops) && c.ops[next].Kind == kernels.OpLinear && c.ops[next].A == input && !writes(c.ops[i:next], c.ops[next].Dst) {
		next++
	}
	mats := c.ops[i:next]
	l := linearNode{input: input, norm: norm, mats: mats, dst: mats[0].Dst}
	if norm != nil {
		l.input = norm.A
	}
	var nodes []node
	if gated, rest, ok := c.takeGate(l, next); ok {
		nodes = append(nodes, linearNodes(gated))
		l.mats = rest
		next++
	} else if c.addable(&l, next) {
		l.dst, l.added = c.ops[next].Dst, true
		next++
	} else if post, ok := c.takePost(&l, next); ok {
		l.post = post
		next += 2
	}
	if len(l.mats) > 0 {
		l.dst = mainDst(&l)
		rest := l
		nodes = append(nodes, linearNodes(&rest))
	}
	if norm == nil {
		return nodes, next, true
	}
	// All blocks read what the norm reads, so none may write it; and nobody else
	// may want the normed row.
	for _, n := range nodes {
		if l := n.lins[0]; !l.gated && !l.added && writes(l.mats, norm.A) { // takeGate, addable and takePost see to the others
			return nil, 0, false
		}
	}
	return nodes, next, c.dead(norm.Dst, next)
}

func linearNodes(ls ...*linearNode) node { return node{kind: nodeLinear, lins: ls} }

func mainDst(l *linearNode) kernels.Reg {
	if l.added {
		return l.dst
	}
	return l.mats[0].Dst
}

// takeGate finds op i to be act(gate)·up of two of l's matrices, alike in type and
// shape, that nobody else reads.
func (c *compiler) takeGate(l linearNode, i int) (*linearNode, []kernels.Op, bool) {
	if i >= len(c.ops) || c.ops[i].Kind != kernels.OpSiluMul && c.ops[i].Kind != kernels.OpGeluMul {
		return nil, nil, false
	}
	o := &c.ops[i]
	var gate, up *kernels.Op
	var rest []kernels.Op
	for k := range l.mats {
		switch m := &l.mats[k]; m.Dst {
		case o.A:
			gate = m
		case o.B:
			up = m
		default:
			rest = append(rest, *m)
		}
	}
	if gate == nil || up == nil {
		return nil, nil, false
	}
	a, b := &c.p.Tensors[gate.W], &c.p.Tensors[up.W]
	if !together(a, b) || a.Rows != b.Rows || o.Dst == l.input || writes(rest, o.Dst) ||
		o.A != o.Dst && !c.dead(o.A, i+1) || o.B != o.Dst && !c.dead(o.B, i+1) {
		return nil, nil, false
	}
	l.mats, l.dst, l.act, l.gated = []kernels.Op{*gate, *up}, o.Dst, o.Kind, true
	return &l, rest, true
}

// addable tells whether op i adds l's only result, which nobody else reads, to a
// register that l does not read.
func (c *compiler) addable(l *linearNode, i int) bool {
	if len(l.mats) != 1 || i >= len(c.ops) || c.ops[i].Kind != kernels.OpAdd {
		return false
	}
	o, m := &c.ops[i], &l.mats[0]
	return o.A == m.Dst && o.Dst != m.Dst && o.Dst != m.A && o.Dst != l.input && c.dead(m.Dst, i+1)
}

// takePost finds the norm of l's only result at op i, which is added to a register
// that l does not read.
func (c *compiler) takePost(l *linearNode, i int) (*kernels.Op, bool) {
	if len(l.mats) != 1 || i >= len(c.ops) || c.ops[i].Kind != kernels.OpRMSNorm || c.ops[i].A != l.mats[0].Dst {
		return nil, false
	}
	o, ok := c.takeNormAdd(i)
	m := &l.mats[0]
	if !ok || o.Dst == m.A || o.Dst == l.input || !c.dead(m.Dst, i+2) {
		return nil, false
	}
	return &o, true
}

// takeNormAdd finds a norm whose result is only added to another register, which
// is then the op's Dst.
func (c *compiler) takeNormAdd(i int) (kernels.Op, bool) {
	if i+1 >= len(c.ops) || c.ops[i+1].Kind != kernels.OpAdd {
		return kernels.Op{}, false
	}
	o, add := c.ops[i], &c.ops[i+1]
	if !c.wholeRow(&o) || add.A != o.Dst || add.Dst == o.Dst || add.Dst == o.A || !c.dead(o.Dst, i+2) {
		return kernels.Op{}, false
	}
	o.Dst = add.Dst
	return o, true
}

// takeAttention finds attention at i, or norms and rotations of single heads of
// its Q and K from i on: of each at most one norm, then at most one rotation.
func (c *compiler) takeAttention(i int) (node, int, bool) {
	j := i
	for j < len(c.ops) && (c.ops[j].Kind == kernels.OpRope || c.ops[j].Kind == kernels.OpRMSNorm) {
		j++
	}
	if j == len(c.ops) || c.ops[j].Kind != kernels.OpAttention {
		return node{}, 0, false
	}
	n := &attnNode{op: c.ops[j], qNorm: kernels.NoTensor, kNorm: kernels.NoTensor}
	at := &n.op
	if j > i && (at.A == at.K || !c.dead(at.K, j+1)) {
		return node{}, 0, false
	}
	for k := i; k < j; k++ {
		o := &c.ops[k]
		norm, rope := &n.qNorm, &n.qRope
		switch o.Dst {
		case at.K:
			norm, rope = &n.kNorm, &n.kRope
		case at.A:
		default:
			return node{}, 0, false
		}
		if *rope != nil || !n.takeHead(o, norm, rope, c.p) {
			return node{}, 0, false
		}
	}
	return node{kind: nodeAttention, attn: n}, j + 1, true
}

// takeHead notes one op on heads.
func (n *attnNode) takeHead(o *kernels.Op, norm *kernels.TensorID, rope **kernels.Rope, p *kernels.Program) bool {
	dim := n.op.Attn.HeadDim
	if o.Kind == kernels.OpRope {
		*rope = o.Rope
		return o.Rope.HeadDim == dim
	}
	group := o.Group
	if group == 0 {
		group = p.Regs[o.Dst]
	}
	if group != dim || o.A != o.Dst || *norm != kernels.NoTensor {
		return false
	}
	if (n.qNorm != kernels.NoTensor || n.kNorm != kernels.NoTensor) && n.eps != o.Eps {
		return false
	}
	*norm, n.eps = o.W, o.Eps
	return true
}

// dead tells whether nobody reads r, as it is before op i, from there on.
func (c *compiler) dead(r kernels.Reg, i int) bool {
	for _, ops := range [][]kernels.Op{c.ops[i:], c.later} {
		for k := range ops {
			if slices.Contains(reads(&ops[k]), r) {
				return false
			}
			if ops[k].Dst == r {
				return true
			}
		}
	}
	return !slices.Contains(c.keep, r)
}

func writes(ops []kernels.Op, r kernels.Reg) bool {
	return slices.ContainsFunc(ops, func(o kernels.Op) bool { return o.Dst == r })
}

// reads lists the registers that an op reads.
func reads(o *kernels.Op) []kernels.Reg {
	switch o.Kind {
	case kernels.OpRMSNorm, kernels.OpLinear:
		return []kernels.Reg{o.A}
	case kernels.OpAttention:
		return []kernels.Reg{o.A, o.K, o.V}
	case kernels.OpAdd:
		return []kernels.Reg{o.A, o.Dst}
	case kernels.OpRope, kernels.OpScale, kernels.OpSoftCap:
		return []kernels.Reg{o.Dst}
	case kernels.OpSiluMul, kernels.OpGeluMul:
		return []kernels.Reg{o.A, o.B}
	}
	return nil
}

// inputs are the registers that ops read before they write them, and those of
// keep that they do not write.
func inputs(ops []kernels.Op, keep ...kernels.Reg) (in []kernels.Reg) {
	add := func(r kernels.Reg) {
		if !slices.Contains(in, r) {
			in = append(in, r)
		}
	}
	for i := range ops {
		for _, r := range reads(&ops[i]) {
			if !writes(ops[:i], r) {
				add(r)
			}
		}
	}
	for _, r := range keep {
		if r >= 0 && !writes(ops, r) {
			add(r)
		}
	}
	return in
}
