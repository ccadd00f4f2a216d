package kernel

import (
	"fmt"

	"hearth/kernels"
)

// intType is how a type of weights lies in device memory and what its kernels
// fold into the activations. int_weights.cuh and int_gemv.cuh hold the same
// numbers; TestIntGeometry compares them.
type intType struct {
	name   string // of the kernels
	blocks int    // K blocks (of 32) in a blob: 16 rows × one block of the type
	bytes  int    // of a blob
	chunk  int    // blobs that gemv copies at a time
	fold   int    // see int_quantize.cuh
	offset int    // what is taken from a stored level
	number int    // among the types of its block size, in linear_int_mixed_32.cu or …_k.cu
	write  func(blob []byte, row int, b *intBlock)
}

// How activations are folded: the enum Fold.
const (
	foldOffset = iota
	foldMin
	foldHalves
	foldSums
)

// intTypes: Q3_K becomes Q6_K and IQ4_NL becomes Q8_0, which hold all that they
// can say; the others keep their size.
var intTypes = map[kernels.DType]*intType{
	kernels.Q8_0:   &intQ8,
	kernels.IQ4_NL: &intQ8,
	kernels.Q4_0:   {"q4_0", 1, 288, 4, foldOffset, 8, 0, writeQ4_0},
	kernels.Q4_1:   {"q4_1", 1, 320, 4, foldMin, 0, 1, writeQ4_1},
	kernels.Q5_0:   {"q5_0", 1, 352, 4, foldOffset, 16, 2, writeQ5_0},
	kernels.Q5_1:   {"q5_1", 1, 384, 4, foldMin, 0, 3, writeQ5_1},
	kernels.Q4_K:   {"q4_k", 8, 2304, 1, foldMin, 0, 1, writeQ4K},
	kernels.Q5_K:   {"q5_k", 8, 2816, 1, foldMin, 0, 2, writeQ5K},
	kernels.Q6_K:   &intQ6,
	kernels.Q3_K:   &intQ6,
	kernels.Q2_K:   {"q2_k", 8, 1344, 1, foldSums, 0, 0, writeQ2K},
}

var (
	intQ8 = intType{"q8_0", 1, 544, 2, foldOffset, 0, 4, writeQ8_0}
	intQ6 = intType{"q6_k", 8, 3360, 1, foldHalves, 32, 3, writeQ6K}
)

func (t *intType) module() string { return "linear_int_" + t.name }

// group is the size of the operand form of 8 rows of a K block.
func (t *intType) group() int {
	if t.fold >= foldHalves {
		return 352
	}
	return 320
}

// intShape is a weight as its kernels count it.
type intShape struct {
	*intType
	strips   int // of 16 rows, or of 8 pairs of gate and up
	blobs    int // of a strip
	segments int // K is cut into, which fixes the order of sums
	out      int // columns of y
}

const (
	intSegments  = 8 // at most
	intSegBlocks = 4 // K blocks of a segment, at least
)

func (w *Weight) intShape() intShape {
	t := intTypes[w.Type]
	s := intShape{intType: t, strips: (w.N + 15) / 16, blobs: w.K / (32 * t.blocks), out: w.N}
	if w.Gated {
		s.out = w.N / 2
		s.strips = (s.out + 7) / 8
	}
	s.segments = max(1, min(intSegments, s.blobs*t.blocks/intSegBlocks, s.blobs))
	return s
}

// layoutInt is NewWeight for the types of intTypes.
func layoutInt(w *Weight, ts []*kernels.Tensor) error {
	t := intTypes[w.Type]
	if t == nil {
		return fmt.Errorf("cannot lay out %s: no kernel reads %s", ts[0].Name, w.Type)
	}
	if w.K < 1 || w.K%w.Type.BlockValues() != 0 {
		return fmt.Errorf("cannot lay out %s: got rows of %d values, wanted a multiple of %d", ts[0].Name, w.K, w.Type.BlockValues())
	}
	for _, x := range ts {
		if x.Rows < 1 || len(x.Data) != x.Rows*x.Type.RowBytes(x.Cols) {
			return fmt.Errorf("cannot lay out %s: got %d bytes, wanted %d rows of %d", x.Name, len(x.Data), x.Rows, x.Type.RowBytes(x.Cols))
		}
	}
	s := w.intShape()
	w.Unit = int64(t.bytes)
	w.Bytes = int64(s.strips) * int64(s.blobs) * w.Unit
	w.Pack = func(dst []byte, from int64) { packInt(dst, from, w, ts) }
	return nil
}

// Rows that are few are rounded in the kernel that multiplies, once a block: up
// to gemvRows of them, and gemvValues values together, unless it is one.
const (
	gemvRows   = 8
	gemvValues = 16 << 10
)

func few(rows, k int) bool { return rows == 1 || rows <= gemvRows && rows*k <= gemvValues }

func linearInt(t Target, w *Weight, c LinearCall) ([]Launch, error) {
	if err := checkInt(w, &c); err != nil {
		return nil, err
	}
	s := w.intShape()
	if few(c.Rows, w.K) {
		if stages := s.gemvStages(c.Rows, t.Shared); stages > 0 {
			return []Launch{s.gemv(t, w, c, stages)}, nil
		}
	}
	tile, err := s.tile(t, w, c)
	if err != nil {
		return nil, err
	}
	return c.withPost(t, []Launch{s.quantize(w, c), tile}, s.out)
}

func checkInt(w *Weight, c *LinearCall) error {
	switch {
	case c.X.Addr%16 != 0 || c.X.Stride%4 != 0 || c.X.Stride < w.K && c.Rows > 1:
		return fmt.Errorf("cannot multiply: got x at %#x, rows %d values apart, wanted multiples of 16 bytes of at least %d values", uint64(c.X.Addr), c.X.Stride, w.K)
	case c.Norm%16 != 0 || w.Addr%16 != 0 || c.Scratch%16 != 0:
		return fmt.Errorf("cannot multiply: got a norm at %#x, a weight at %#x, scratch at %#x, wanted multiples of 16", uint64(c.Norm), uint64(w.Addr), uint64(c.Scratch))
	}
	return nil
}

// intFlags are the flags of int_linear.cuh.
func intFlags(c LinearCall) uint32 {
	flags := uint32(0)
	if c.Residual {
		flags |= 1
	}
	switch c.Act {
	case SiluMul:
		flags |= 2
	case GeluMul:
		flags |= 4
	}
	return flags
}
