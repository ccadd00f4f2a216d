package kernel

import (
	"fmt"

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

	// Scratch holds operand forms and partial sums: ScratchBytes of it. All linears
	// share it: what it holds before a launch is another's.
	Scratch Addr
	// Counters are CounterBytes of zeros, for blocks to count each other's arrival.
	// All linears share them: a launch leaves zeros behind.
	Counters Addr
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
	}
	if family(w.Type) == familyInt {
		return linearInt(t, w, c)
	}
	return linearFloat(t, w, c)
}

// ScratchBytes is what Linear needs in LinearCall.Scratch for up to rows rows.
func ScratchBytes(w *Weight, rows int) int64 {
	if family(w.Type) == familyInt {
		return scratchInt(w, rows)
	}
	return scratchFloat(w, rows)
}
