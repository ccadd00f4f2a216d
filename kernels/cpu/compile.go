package cpu

import (
	"slices"

	"hearth/kernels"
)

// A stage is what all threads do between two barriers.
type stage struct {
	kind stageKind
	rows []kernels.Op // stageRows: ops over whole rows, each thread some rows
	lin  *linearStage
	attn *attnStage
}

type stageKind uint8

const (
	stageRows   stageKind = iota
	stageLinear           // matrices that share an input, and what follows column by column
	stageAttn             // per-head ops, cache write; attention
)

// linearStage: act = quantize(norm(input)); dst_i = act·W_iᵀ; then post.
// Thread th owns the same share of the columns of every matrix, so that ops
// which combine columns of equal index need no barrier.
type linearStage struct {
	norm  *kernels.Op // an OpRMSNorm whose result only this stage reads; may be nil
	input kernels.Reg
	mats  []kernels.Op // OpLinear
	post  []kernels.Op

	needInt, needFloat, needBF16 bool // which forms of the input the matrices read
}

// attnStage: ops turn heads of Q and K (norms of one head, rotations), then the
// keys and values go to the cache, then attention.
type attnStage struct {
	heads []kernels.Op
	op    kernels.Op
}

// part is a compiled op list.
type part struct {
	stages []stage
	regs   []kernels.Reg // used by it
	inputs []kernels.Reg // read before they are written
}

// compile makes the stages of the three op lists.
func (d *Device) compile() error {
	p := d.p
	ops := slices.Clone(p.Ops)
	for i := range ops {
		if ops[i].Kind == kernels.OpRope {
			ops[i].Rope = d.sameRope(ops[i].Rope)
		}
	}
	d.ops = d.compilePart(ops, append(append([]kernels.Op(nil), p.Norm...), p.Head...))
	d.norm = d.compilePart(p.Norm, p.Head)
	d.head = d.compilePart(p.Head, nil)
	// The norm part must keep what comes after it: the final state, and what the
	// head reads.
	for _, r := range append([]kernels.Reg{p.Final}, d.head.inputs...) {
		if r >= 0 && int(r) < len(p.Regs) && (len(p.Norm) == 0 || !writes(p.Norm, r)) {
			d.norm.inputs = addReg(d.norm.inputs, r)
		}
	}
	return nil
}

// sameRope returns the first rotation met that equals r, so that layers share a
// table of angles.
func (d *Device) sameRope(r *kernels.Rope) *kernels.Rope {
	for i := range d.ropes {
		o := d.ropes[i].r
		if o.HeadDim == r.HeadDim && o.Dim == r.Dim && o.NeoX == r.NeoX && o.Scale == r.Scale && slices.Equal(o.InvFreq, r.InvFreq) {
			return o
		}
	}
	d.ropes = append(d.ropes, ropeTable{r: r})
	return r
}

// rope finds the table of r.
func (d *Device) rope(r *kernels.Rope) *ropeTable {
	for i := range d.ropes {
		if d.ropes[i].r == r {
			return &d.ropes[i]
		}
	}
	return nil
}

func writes(ops []kernels.Op, r kernels.Reg) bool {
	for i := range ops {
		if ops[i].Dst == r {
			return true
		}
	}
	return false
}

func addReg(l []kernels.Reg, r kernels.Reg) []kernels.Reg {
	for _, x := range l {
		if x == r {
			return l
		}
	}
	return append(l, r)
}

// reads lists the registers an op reads; up to four.
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

func readsReg(o *kernels.Op, r kernels.Reg) bool {
	for _, x := range reads(o) {
		if x == r {
			return true
		}
	}
	return false
}

func (d *Device) compilePart(ops, later []kernels.Op) part {
	var pt part
	written := map[kernels.Reg]bool{}
	for i := range ops {
		for _, r := range reads(&ops[i]) {
			if !written[r] {
				pt.inputs = addReg(pt.inputs, r)
			}
			pt.regs = addReg(pt.regs, r)
		}
		written[ops[i].Dst] = true
		pt.regs = addReg(pt.regs, ops[i].Dst)
	}
	for i := 0; i < len(ops); {
		switch o := &ops[i]; o.Kind {
		case kernels.OpLinear:
			var l *linearStage
			l, i = d.takeLinear(ops, i)
			d.takeNorm(&pt, l, ops[i-len(l.post):], later)
			pt.stages = append(pt.stages, stage{kind: stageLinear, lin: l})
		case kernels.OpAttention:
			a := &attnStage{op: *o}
			takeHeads(&pt, a)
			pt.stages = append(pt.stages, stage{kind: stageAttn, attn: a})
			i++
		default:
			pt.addRow(o)
			i++
		}
	}
	return pt
}

// addRow adds an op over rows to the last stage if that is of the kind.
func (pt *part) addRow(o *kernels.Op) {
	if n := len(pt.stages); n > 0 && pt.stages[n-1].kind == stageRows {
		pt.stages[n-1].rows = append(pt.stages[n-1].rows, *o)
		return
	}
	pt.stages = append(pt.stages, stage{kind: stageRows, rows: []kernels.Op{*o}})
}

// lastRow is the last op of the last stage if that is one over rows.
func (pt *part) lastRow() *kernels.Op {
	n := len(pt.stages)
	if n == 0 || pt.stages[n-1].kind != stageRows {
		return nil
	}
	s := &pt.stages[n-1]
	return &s.rows[len(s.rows)-1]
}

// dropRow removes it.
func (pt *part) dropRow() {
	n := len(pt.stages)
	s := &pt.stages[n-1]
	s.rows = s.rows[:len(s.rows)-1]
	if len(s.rows) == 0 {
		pt.stages = pt.stages[:n-1]
	}
}

// takeLinear collects the matrices from ops[i] on that read the same input, and
// the elementwise ops after them. It returns the index of the next op.
func (d *Device) takeLinear(ops []kernels.Op, i int) (*linearStage, int) {
	l := &linearStage{input: ops[i].A}
	for ; i < len(ops) && ops[i].Kind == kernels.OpLinear && ops[i].A == l.input; i++ {
		if dup(l.mats, ops[i].Dst) {
			break
		}
		l.mats = append(l.mats, ops[i])
		t := stored(&d.p.Tensors[ops[i].W])
		switch {
		case d.inBF16(t):
			l.needBF16 = true
		case isFloat(t) || d.floats:
			l.needFloat = true
		default:
			l.needInt = true
		}
	}
	for ; i < len(ops) && elementwise(&ops[i]) && ops[i].Dst != l.input; i++ {
		l.post = append(l.post, ops[i])
	}
	return l, i
}

func dup(mats []kernels.Op, dst kernels.Reg) bool { return writes(mats, dst) }

func elementwise(o *kernels.Op) bool {
	switch o.Kind {
	case kernels.OpAdd, kernels.OpScale, kernels.OpSiluMul, kernels.OpGeluMul, kernels.OpSoftCap:
		return true
	}
	return false
}

// takeNorm moves a norm of whole rows that made the input into the stage, if
// nothing else reads its result. rest are the ops after the matrices.
func (d *Device) takeNorm(pt *part, l *linearStage, rest, later []kernels.Op) {
	o := pt.lastRow()
	if o == nil || o.Kind != kernels.OpRMSNorm || o.Dst != l.input || o.A == o.Dst || o.Dst == d.p.Final ||
		o.Group != 0 && o.Group != d.p.Regs[o.Dst] {
		return
	}
	// Other threads may still read what the norm reads while this one writes.
	if writes(l.post, o.A) || writes(l.mats, o.A) {
		return
	}
	if readAgain(rest, l.input) || !writes(rest, l.input) && readAgain(later, l.input) {
		return
	}
	n := *o
	l.norm = &n
	pt.dropRow()
}

// readAgain tells whether r is read before it is written.
func readAgain(ops []kernels.Op, r kernels.Reg) bool {
	for i := range ops {
		if readsReg(&ops[i], r) {
			return true
		}
		if ops[i].Dst == r {
			return false
		}
	}
	return false
}

// takeHeads moves the ops before attention that turn single heads of Q and K
// into its stage.
func takeHeads(pt *part, a *attnStage) {
	for {
		o := pt.lastRow()
		if o == nil || o.Dst != a.op.A && o.Dst != a.op.K || a.op.A == a.op.K {
			return
		}
		dim := a.op.Attn.HeadDim
		switch {
		case o.Kind == kernels.OpRope && o.Rope.HeadDim == dim:
		case o.Kind == kernels.OpRMSNorm && o.Group == dim && o.A == o.Dst:
		default:
			return
		}
		a.heads = append([]kernels.Op{*o}, a.heads...)
		pt.dropRow()
	}
}
