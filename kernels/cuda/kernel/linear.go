package kernel

import (
	"fmt"
	"slices"

	"hearth/kernels"
)

// Activation joins the two halves of a gated layer.
type Activation uint8

const (
	NoActivation Activation = iota
	SiluMul                 // silu(gate) · up
	GeluMul                 // gelu_tanh(gate) · up
)

// Weight is a matrix, or several that share their input, in the layout that its
// kernels read. Addr is set when it has been uploaded.
type Weight struct {
	Type  kernels.DType
	N, K  int   // outputs (all parts together) and inputs
	Parts []int // outputs of each part, in order
	Gated bool  // two equal parts, gate and up, interleaved so that one block has both
	Fast  bool  // the operand keeps only the upper half of x's bits (bf16/f16 types)
	Bytes int64 // in device memory
	Addr  Addr

	packed packing // of U4, U8 and F8

	// Pack writes the device form of bytes [from, from+len(dst)) into dst; from
	// and len(dst) are multiples of Unit. It reads the tensors' Data.
	Pack func(dst []byte, from int64)
	Unit int64
}

// LinearCall is y = x·Wᵀ with what is fused before and after it. The result for
// a row has the same bits whatever Rows is. Y shares no memory with X.
type LinearCall struct {
	Rows int // rows computed; the grid and the tier follow it
	X    Mat // (Rows, K)
	// Norm, if not 0, is a vector of K float32: x is first divided by
	// sqrt(mean(x²)+Eps) and multiplied by it.
	Norm Addr
	Eps  float32

	Y        Mat  // (Rows, N), or (Rows, N/2) if gated
	Bias     Addr // float32 (N), in the order of the parts; 0: none
	Residual bool // y is added to what Y holds
	Act      Activation
	Post     *PostNorm // what happens to y then; without Residual and Act

	// Scratch holds operand forms and partial sums: ScratchBytes of it. All linears
	// share it: what it holds before a launch is another's.
	Scratch Addr
	// Counters are CounterBytes of zeros, for blocks to count each other's arrival.
	// All linears share them: a launch leaves zeros behind.
	Counters Addr
}

// PostNorm adds the norm of a linear's result to another matrix:
// Sum += y / sqrt(mean(y²)+Eps) · W, over whole rows.
type PostNorm struct {
	W   Addr // float32 (N)
	Eps float32
	Sum Mat // (Rows, N); shares no memory with X and Y
}

// CounterBytes is the size of LinearCall.Counters.
const CounterBytes = 256 << 10

// NewWeight lays out tensors of one type and one K as one weight. gated asks for
// exactly two of equal shape, gate first.
func NewWeight(ts []*kernels.Tensor, gated, fast bool) (*Weight, error) {
	if len(ts) == 0 || (gated && (len(ts) != 2 || ts[0].Rows != ts[1].Rows)) {
		return nil, fmt.Errorf("cannot lay out weights: got %d tensors, wanted one or more, or two equal ones where they are gated", len(ts))
	}
	w := &Weight{Type: ts[0].Type, K: ts[0].Cols, Gated: gated, Fast: fast}
	for _, t := range ts {
		if t.Type != w.Type || t.Cols != w.K {
			return nil, fmt.Errorf("cannot lay out %s with %s: got %s × %d, wanted %s × %d", t.Name, ts[0].Name, t.Type, t.Cols, w.Type, w.K)
		}
		if !slices.Equal(t.Order, ts[0].Order) {
			return nil, fmt.Errorf("cannot lay out %s with %s: got columns in different orders", t.Name, ts[0].Name)
		}
		if form := formOf(t.Type); t.Order != nil && !form.packed() {
			return nil, fmt.Errorf("cannot lay out %s: got %s with columns in an order of their own, wanted U4, U8 or F8", t.Name, t.Type)
		}
		w.N += t.Rows
		w.Parts = append(w.Parts, t.Rows)
	}
	switch family(w.Type) {
	case familyFloat:
		return w, layoutFloat(w, ts)
	case familyInt:
		return w, layoutInt(w, ts)
	}
	return nil, fmt.Errorf("cannot lay out %s: no kernel reads %s", ts[0].Name, w.Type)
}

type familyKind uint8

const (
	familyNone  familyKind = iota
	familyFloat            // F32, F16, BF16, and integers with float activations: linear_float.go
	familyInt              // GGUF's block types with int8 activations: linear_int.go
)

func family(t kernels.DType) familyKind {
	switch t {
	case kernels.F32, kernels.F16, kernels.BF16, kernels.U4, kernels.U8, kernels.F8:
		return familyFloat
	}
	if t.BlockValues() >= 32 {
		return familyInt
	}
	return familyNone
}

// Linear gives the launches of c with w.
func Linear(t Target, w *Weight, c LinearCall) ([]Launch, error) {
	switch {
	case c.Rows < 1:
		return nil, fmt.Errorf("cannot multiply: got %d rows, wanted 1 or more", c.Rows)
	case (c.Act != NoActivation) != w.Gated:
		return nil, fmt.Errorf("cannot multiply: an activation joins the halves of a gated weight, and only of one")
	case c.Post != nil && (w.Gated || c.Residual):
		return nil, fmt.Errorf("cannot multiply: a result that is normed and added can be neither gated nor a residual")
	}
	if p := c.Post; p != nil {
		if err := checkNormAdd(c.Y, p.Sum, p.W); err != nil {
			return nil, err
		}
	}
	if family(w.Type) == familyInt {
		return linearInt(t, w, c)
	}
	ls, err := linearFloat(t, w, c)
	if err != nil || endsWithPost(w, c.Rows) {
		return ls, err
	}
	return c.withPost(t, ls, w.N)
}

// Linears gives the launches of linears of one X, Norm and Rows, whose Ys share no
// memory: one for all where their types allow it, or those of each.
func Linears(t Target, ws []*Weight, cs []LinearCall) ([]Launch, error) {
	var all []Launch
	for len(ws) > 0 {
		n := mixRun(t, ws, cs)
		if n > 1 {
			l, err := gemvMixed(t, ws[:n], cs[:n])
			if err != nil {
				return nil, err
			}
			all = append(all, l)
		} else {
			ls, err := Linear(t, ws[0], cs[0])
			if err != nil {
				return nil, err
			}
			all = append(all, ls...)
		}
		ws, cs = ws[n:], cs[n:]
	}
	return all, nil
}

// postShared is the shared memory that a post norm takes in a kernel.
const postShared = 272

// postParams are what a kernel that ends with a post norm takes.
func (c *LinearCall) postParams() []any {
	p := c.Post
	if p == nil {
		return []any{Addr(0), Addr(0), int32(0), float32(0), Addr(0)}
	}
	return []any{p.W, p.Sum.Addr, int32(p.Sum.Stride), p.Eps, c.Counters}
}

// withPost adds the launch of a post norm of n outputs to those of a linear that
// does not end with it.
func (c *LinearCall) withPost(t Target, ls []Launch, n int) ([]Launch, error) {
	if c.Post == nil {
		return ls, nil
	}
	more, err := NormAdd(t, c.Y, c.Post.Sum, c.Post.W, c.Rows, n, c.Post.Eps)
	return append(ls, more...), err
}

// ScratchBytes is what Linear needs in LinearCall.Scratch for up to rows rows.
func ScratchBytes(w *Weight, rows int) int64 {
	if family(w.Type) == familyInt {
		return scratchInt(w, rows)
	}
	return scratchFloat(w, rows)
}
