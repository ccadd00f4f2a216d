package kernels

import (
	"errors"
	"fmt"
)

// Limits of a Program, so that a damaged description cannot ask for absurd sizes.
const (
	maxDim    = 1 << 24 // rows, columns and register widths
	maxTensor = 1 << 40 // bytes of one tensor
)

// Validate checks that every op names registers and tensors that exist and that
// all shapes fit. Devices call it in Load, so that Step need not check again.
func (p *Program) Validate() error {
	for i, w := range p.Regs {
		if w <= 0 || w > maxDim {
			return fmt.Errorf("program: register %d has width %d, want 1 to %d", i, w, maxDim)
		}
	}
	for i := range p.Tensors {
		if err := p.Tensors[i].validate(); err != nil {
			return fmt.Errorf("program: %w", err)
		}
	}
	for i, l := range p.KV {
		if l.KVHeads <= 0 || l.HeadDim <= 0 || l.KVHeads > maxDim/l.HeadDim || l.Window < 0 {
			return fmt.Errorf("program: kv layer %d has %d heads of %d, window %d", i, l.KVHeads, l.HeadDim, l.Window)
		}
	}
	for _, part := range []struct {
		name string
		ops  []Op
	}{{"op", p.Ops}, {"norm op", p.Norm}, {"head op", p.Head}} {
		for i := range part.ops {
			o := &part.ops[i]
			if err := p.checkOp(o); err != nil {
				return fmt.Errorf("program: %s %d: %w", part.name, i, err)
			}
			if part.name != "op" && (o.Kind == OpEmbed || o.Kind == OpRope || o.Kind == OpAttention) {
				return fmt.Errorf("program: %s %d: needs tokens or positions, which only Ops have", part.name, i)
			}
		}
	}
	if len(p.Norm) > 0 || len(p.Head) > 0 {
		if err := p.checkReg(p.Final, p.Width); err != nil {
			return fmt.Errorf("program: final: %w", err)
		}
	}
	if len(p.Head) > 0 {
		if err := p.checkReg(p.Logits, p.Vocab); err != nil {
			return fmt.Errorf("program: logits: %w", err)
		}
	}
	return nil
}

func (t *Tensor) validate() error {
	if int(t.Type) >= len(layouts) {
		return fmt.Errorf("tensor %q has unknown type %v", t.Name, t.Type)
	}
	if t.Rows <= 0 || t.Cols <= 0 || t.Rows > maxDim || t.Cols > maxDim {
		return fmt.Errorf("tensor %q is %d×%d, want 1 to %d each", t.Name, t.Rows, t.Cols, maxDim)
	}
	if t.Cols%t.Type.BlockValues() != 0 {
		return fmt.Errorf("tensor %q has %d columns, want a multiple of %d for %v", t.Name, t.Cols, t.Type.BlockValues(), t.Type)
	}
	row := int64(t.Type.RowBytes(t.Cols))
	if want := row * int64(t.Rows); want > maxTensor || int64(len(t.Data)) != want {
		return fmt.Errorf("tensor %q has %d bytes, want %d", t.Name, len(t.Data), want)
	}
	return t.validateOrder()
}

// validateOrder checks that Order names each column once.
func (t *Tensor) validateOrder() error {
	if t.Order == nil {
		return nil
	}
	if len(t.Order) != t.Cols {
		return fmt.Errorf("tensor %q has an order of %d columns, want %d", t.Name, len(t.Order), t.Cols)
	}
	seen := make([]bool, t.Cols)
	for c, k := range t.Order {
		if k < 0 || int(k) >= t.Cols || seen[k] {
			return fmt.Errorf("tensor %q: column %d multiplies value %d, want each of 0 to %d once", t.Name, c, k, t.Cols-1)
		}
		seen[k] = true
	}
	return nil
}

// plain refuses a tensor whose columns are not in their own order.
func (p *Program) plain(id TensorID) error {
	if t := &p.Tensors[id]; t.Order != nil {
		return fmt.Errorf("tensor %q has an order of columns, which only the weight of a linear may", t.Name)
	}
	return nil
}

// checkReg checks that r exists and, if width > 0, that it has that width.
func (p *Program) checkReg(r Reg, width int) error {
	if r < 0 || int(r) >= len(p.Regs) {
		return fmt.Errorf("register %d of %d does not exist", r, len(p.Regs))
	}
	if width > 0 && p.Regs[r] != width {
		return fmt.Errorf("register %d has width %d, want %d", r, p.Regs[r], width)
	}
	return nil
}

func (p *Program) checkTensor(id TensorID, rows, cols int) error {
	if id < 0 || int(id) >= len(p.Tensors) {
		return fmt.Errorf("tensor %d of %d does not exist", id, len(p.Tensors))
	}
	t := &p.Tensors[id]
	if rows > 0 && t.Rows != rows || cols > 0 && t.Cols != cols {
		return fmt.Errorf("tensor %q is %d×%d, want %d×%d", t.Name, t.Rows, t.Cols, rows, cols)
	}
	return nil
}

func (p *Program) checkOp(o *Op) error {
	if err := p.checkReg(o.Dst, 0); err != nil {
		return fmt.Errorf("dst: %w", err)
	}
	w := p.Regs[o.Dst]
	switch o.Kind {
	case OpEmbed:
		if err := p.checkTensor(o.W, 0, w); err != nil {
			return err
		}
		return p.plain(o.W)
	case OpRMSNorm:
		g := o.Group
		if g == 0 {
			g = w
		}
		if g < 0 || w%g != 0 {
			return fmt.Errorf("norm group %d does not divide %d", g, w)
		}
		if err := first(p.checkReg(o.A, w), p.checkTensor(o.W, 1, g)); err != nil {
			return err
		}
		return p.plain(o.W)
	case OpLinear:
		if err := p.checkReg(o.A, 0); err != nil {
			return fmt.Errorf("a: %w", err)
		}
		if o.A == o.Dst {
			return errors.New("linear in place")
		}
		err := p.checkTensor(o.W, w, p.Regs[o.A])
		if o.Bias != NoTensor {
			if err = first(err, p.checkTensor(o.Bias, 1, w)); err == nil {
				err = p.plain(o.Bias)
			}
		}
		return err
	case OpRope:
		return checkRope(o.Rope, w)
	case OpAttention:
		return p.checkAttention(o)
	case OpAdd:
		return p.checkReg(o.A, w)
	case OpSiluMul, OpGeluMul:
		return first(p.checkReg(o.A, w), p.checkReg(o.B, w))
	case OpScale:
		return nil
	case OpSoftCap:
		if !(o.Factor > 0) {
			return fmt.Errorf("soft cap %v, want a positive number", o.Factor)
		}
		return nil
	}
	return fmt.Errorf("unknown kind %d", o.Kind)
}

func checkRope(r *Rope, width int) error {
	switch {
	case r == nil:
		return errors.New("rope constants missing")
	case r.HeadDim <= 0 || width%r.HeadDim != 0:
		return fmt.Errorf("rope head size %d does not divide %d", r.HeadDim, width)
	case r.Dim <= 0 || r.Dim > r.HeadDim || r.Dim%2 != 0 || len(r.InvFreq) != r.Dim/2:
		return fmt.Errorf("rope turns %d of %d values with %d frequencies", r.Dim, r.HeadDim, len(r.InvFreq))
	}
	return nil
}

func (p *Program) checkAttention(o *Op) error {
	a := o.Attn
	if a == nil {
		return errors.New("attention constants missing")
	}
	if a.KVHeads <= 0 || a.HeadDim <= 0 || a.Heads <= 0 || a.Heads%a.KVHeads != 0 ||
		a.Heads > maxDim/a.HeadDim || a.Window < 0 || a.SoftCap < 0 {
		return fmt.Errorf("attention with %d heads, %d kv heads of %d, window %d, soft cap %v",
			a.Heads, a.KVHeads, a.HeadDim, a.Window, a.SoftCap)
	}
	if o.Layer < 0 || o.Layer >= len(p.KV) {
		return fmt.Errorf("kv layer %d of %d does not exist", o.Layer, len(p.KV))
	}
	if l := p.KV[o.Layer]; l.KVHeads != a.KVHeads || l.HeadDim != a.HeadDim {
		return fmt.Errorf("kv layer %d has %d heads of %d, attention %d of %d", o.Layer, l.KVHeads, l.HeadDim, a.KVHeads, a.HeadDim)
	}
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	return first(p.checkReg(o.Dst, q), p.checkReg(o.A, q), p.checkReg(o.K, kv), p.checkReg(o.V, kv))
}

// CacheType is the type that kv_type names of a cache in the machine's memory.
func CacheType(name string) (DType, error) {
	switch name {
	case "f32":
		return F32, nil
	case "f16":
		return F16, nil
	case "bf16":
		return BF16, nil
	}
	return 0, fmt.Errorf("cannot keep keys and values as %q: a CPU knows f16, bf16 and f32", name)
}

// Validate checks the sizes of a cache.
func (kv KVConfig) Validate() error {
	if kv.Blocks < 1 {
		return fmt.Errorf("kv cache of %d blocks, want at least 1", kv.Blocks)
	}
	if kv.BlockSize != 16 && kv.BlockSize != 32 {
		return fmt.Errorf("kv block of %d tokens, want 16 or 32", kv.BlockSize)
	}
	if kv.Type != F32 && kv.Type != F16 && kv.Type != BF16 {
		return fmt.Errorf("kv cache of type %v, want F32, F16 or BF16", kv.Type)
	}
	return nil
}

// Validate checks a batch against the program and cache it is for. Devices call
// it first in Step; it does not allocate unless it fails.
func (b *Batch) Validate(p *Program, kv KVConfig) error {
	vocab := p.vocabIn()
	for i, tok := range b.Tokens {
		if tok < 0 || int(tok) >= vocab {
			return fmt.Errorf("batch: token %d of row %d is outside the vocabulary of %d", tok, i, vocab)
		}
	}
	next := int32(0)
	for i := range b.Spans {
		s := &b.Spans[i]
		if s.Row != next || s.Len <= 0 || int(s.Len) > len(b.Tokens)-int(next) || s.Context < 0 {
			return fmt.Errorf("batch: span %d has row %d, length %d, context %d; next row is %d of %d",
				i, s.Row, s.Len, s.Context, next, len(b.Tokens))
		}
		next += s.Len
		need := (int64(s.Context) + int64(s.Len) + int64(kv.BlockSize) - 1) / int64(kv.BlockSize)
		if int64(len(s.Blocks)) < need {
			return fmt.Errorf("batch: span %d has %d blocks, want %d for %d tokens", i, len(s.Blocks), need, int64(s.Context)+int64(s.Len))
		}
		for _, blk := range s.Blocks[:need] {
			if blk < 0 || int(blk) >= kv.Blocks {
				return fmt.Errorf("batch: span %d names block %d of %d", i, blk, kv.Blocks)
			}
		}
	}
	if int(next) != len(b.Tokens) {
		return fmt.Errorf("batch: spans cover %d of %d rows", next, len(b.Tokens))
	}
	if err := b.checkLogits(p); err != nil {
		return err
	}
	return checkRows("hidden", b.HiddenRows, len(b.Tokens), len(b.Hidden), p.Width)
}

// checkLogits: all rows of logits have room, or with Choices those that are wanted.
func (b *Batch) checkLogits(p *Program) error {
	room := len(b.Logits)
	if b.Choices != nil {
		if len(b.Choices) != len(b.LogitRows) || len(b.Picks) != len(b.LogitRows) {
			return fmt.Errorf("batch: %d choices and room for %d picks, want %d", len(b.Choices), len(b.Picks), len(b.LogitRows))
		}
		for i := range b.Choices {
			if !b.Choices[i].Logits {
				room += p.Vocab // nothing is written
			}
		}
	}
	return checkRows("logits", b.LogitRows, len(b.Tokens), room, p.Vocab)
}

// vocabIn is the number of tokens that every embedding of p knows.
func (p *Program) vocabIn() int {
	n := maxDim
	for i := range p.Ops {
		if p.Ops[i].Kind == OpEmbed {
			n = min(n, p.Tensors[p.Ops[i].W].Rows)
		}
	}
	return n
}

func checkRows(what string, rows []int32, limit, room, width int) error {
	last := int32(-1)
	for _, r := range rows {
		if r <= last || int(r) >= limit {
			return fmt.Errorf("batch: %s row %d after row %d, want ascending rows below %d", what, r, last, limit)
		}
		last = r
	}
	if room < len(rows)*width {
		return fmt.Errorf("batch: room for %d %s values, want %d", room, what, len(rows)*width)
	}
	return nil
}

// first is the first error that is one.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
