// Package kernels defines what a device computes: tensor types, the Program a
// model is written as, and the Device interface that ref, cpu and cuda
// implement. A model is written once, as a Program of ops over per-token
// registers; a device only executes it, so two devices can be compared op by op.
//
// Batch invariance is part of the contract: the result for one row (token) must
// not depend on which other rows share the step, on how a prompt was cut into
// chunks, or on the number of threads. Every reduction has a fixed order.
package kernels

// Reg names a register: a float32 matrix (rows, Program.Regs[reg]), one row a
// token of the step. NoReg marks an unused operand.
type Reg int32

// TensorID names a weight: an index into Program.Tensors.
type TensorID int32

const (
	NoReg    Reg      = -1
	NoTensor TensorID = -1
)

// Tensor is a weight matrix, row-major, Rows × Cols. A vector has Rows 1. For
// y = x·Wᵀ Rows is the output width and Cols the input width.
type Tensor struct {
	Name       string
	Type       DType
	Rows, Cols int
	Data       []byte // little-endian, Rows × Type.RowBytes(Cols); read-only, may be a mapping
	// Order, if not nil, is of a weight of OpLinear whose columns are stored in
	// another order: column c of Data multiplies value Order[c] of the input. Each
	// of 0 … Cols-1 is there once. So lie the columns of GPTQ files that were
	// quantized in the order of activations, which brings groups side by side.
	Order []int32
}

// OpKind is what an Op does. In the comments x[r] is row r of register x.
type OpKind uint8

const (
	// OpEmbed: Dst[r] = Factor · W[token[r]].
	OpEmbed OpKind = iota
	// OpRMSNorm: Dst = A / sqrt(mean(A²) + Eps) · W, over groups of Group values
	// (0: the whole row). W has Group values. Mean over float32, fixed order.
	OpRMSNorm
	// OpLinear: Dst = A·Wᵀ (+ Bias).
	OpLinear
	// OpRope rotates every head of Dst in place by Rope at the row's position.
	OpRope
	// OpAttention appends rows of K and V to the cache of KV layer Layer, then
	// Dst = softmax(Scale·Q·Kᵀ [SoftCap]) V, causal, within Window.
	OpAttention
	// OpAdd: Dst += A.
	OpAdd
	// OpScale: Dst *= Factor.
	OpScale
	// OpSiluMul: Dst = silu(A) · B.
	OpSiluMul
	// OpGeluMul: Dst = gelu_tanh(A) · B.
	OpGeluMul
	// OpSoftCap: Dst = Factor · tanh(Dst / Factor).
	OpSoftCap
)

// Op is one operation over all rows of a step.
type Op struct {
	Kind   OpKind
	Dst    Reg
	A, B   Reg // inputs; for OpAttention A is Q
	K, V   Reg // OpAttention
	W      TensorID
	Bias   TensorID
	Layer  int // OpAttention: index into Program.KV
	Group  int // OpRMSNorm
	Eps    float32
	Factor float32
	Rope   *Rope
	Attn   *Attention
}

// Attention holds the constants of an OpAttention.
type Attention struct {
	Heads, KVHeads, HeadDim int     // Heads is a multiple of KVHeads
	Scale                   float32 // usually 1/sqrt(HeadDim)
	Window                  int     // a query sees keys j with pos-j < Window; 0: all
	SoftCap                 float32 // 0: off
}

// Rope is a rotary embedding: pair i of a head turns by pos·InvFreq[i].
type Rope struct {
	HeadDim int
	Dim     int       // rotated values per head, ≤ HeadDim; len(InvFreq) = Dim/2
	NeoX    bool      // pairs (i, i+Dim/2); otherwise (2i, 2i+1)
	InvFreq []float32 // scaling already applied
	Scale   float32   // multiplies sin and cos (attention factor); 1 for most
}

// KVLayer is the cache of one attention layer: per token KVHeads×HeadDim keys
// and as many values.
type KVLayer struct {
	KVHeads, HeadDim int
	Window           int // 0: all positions are needed
}

// Program is a whole model. Ops run over all rows of a step. Norm then runs
// over the rows whose final state is wanted, and Head over those whose logits
// are.
type Program struct {
	Regs    []int // width of each register
	Tensors []Tensor
	KV      []KVLayer
	Ops     []Op
	Norm    []Op // produces Final
	Head    []Op // produces Logits
	Final   Reg  // final normalized hidden state
	Logits  Reg  // width Vocab
	Vocab   int
	Width   int // width of Final
}

// KVValuesPerToken is the number of cached values (keys and values) a token needs.
func (p *Program) KVValuesPerToken() int {
	n := 0
	for _, l := range p.KV {
		n += 2 * l.KVHeads * l.HeadDim
	}
	return n
}

// WeightBytes is the size of all tensors.
func (p *Program) WeightBytes() int64 {
	var n int64
	for i := range p.Tensors {
		n += int64(len(p.Tensors[i].Data))
	}
	return n
}
