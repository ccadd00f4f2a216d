package kernel

import (
	"fmt"

	"hearth/kernels"
)

// intType is how a type of weights lies in device memory and what its kernels
// fold into the activations. int_weights.cuh and int_linear.cuh hold the same
// numbers; TestIntGeometry compares them.
type intType struct {
	name   string // of the kernels
	blocks int    // K blocks (of 32) in a blob: 16 rows × one block of the type
	bytes  int    // of a blob
	chunk  int    // blobs that gemv copies at a time
	fold   int    // see int_quantize.cuh
	offset int    // what is taken from a stored level
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
	kernels.Q4_0:   {"q4_0", 1, 288, 4, foldOffset, 8, writeQ4_0},
	kernels.Q4_1:   {"q4_1", 1, 320, 4, foldMin, 0, writeQ4_1},
	kernels.Q5_0:   {"q5_0", 1, 352, 4, foldOffset, 16, writeQ5_0},
	kernels.Q5_1:   {"q5_1", 1, 384, 4, foldMin, 0, writeQ5_1},
	kernels.Q4_K:   {"q4_k", 8, 2304, 1, foldMin, 0, writeQ4K},
	kernels.Q5_K:   {"q5_k", 8, 2816, 1, foldMin, 0, writeQ5K},
	kernels.Q6_K:   &intQ6,
	kernels.Q3_K:   &intQ6,
	kernels.Q2_K:   {"q2_k", 8, 1344, 1, foldSums, 0, writeQ2K},
}

var (
	intQ8 = intType{"q8_0", 1, 544, 2, foldOffset, 0, writeQ8_0}
	intQ6 = intType{"q6_k", 8, 3360, 1, foldHalves, 32, writeQ6K}
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

func linearInt(t Target, w *Weight, c LinearCall) ([]Launch, error) {
	switch {
	case c.X.Addr%16 != 0 || c.X.Stride%4 != 0 || c.X.Stride < w.K && c.Rows > 1:
		return nil, fmt.Errorf("cannot multiply: got x at %#x, rows %d values apart, wanted multiples of 16 bytes of at least %d values", uint64(c.X.Addr), c.X.Stride, w.K)
	case c.Norm%16 != 0 || w.Addr%16 != 0 || c.Scratch%16 != 0:
		return nil, fmt.Errorf("cannot multiply: got a norm at %#x, a weight at %#x, scratch at %#x, wanted multiples of 16", uint64(c.Norm), uint64(w.Addr), uint64(c.Scratch))
	}
	s, flags := w.intShape(), intFlags(c)
	if c.Rows == 1 || c.Rows <= gemvRows && c.Rows*w.K <= gemvValues {
		if stages := s.gemvStages(c.Rows, t.Shared); stages > 0 {
			return []Launch{s.gemv(t, w, c, flags, stages)}, nil
		}
	}
	tile, err := s.tile(t, w, c, flags)
	if err != nil {
		return nil, err
	}
	return []Launch{s.quantize(w, c), tile}, nil
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

// gemvShared is what gemv needs for rows rows: rings of stages chunks, x, sums,
// and sums of squares.
func (s *intShape) gemvShared(rows, stages int) int {
	meta := 8
	if s.fold >= foldHalves {
		meta = 16
	}
	return s.segments*stages*s.chunk*s.bytes + s.blobs*s.blocks*rows*(32+meta) + 2*s.segments*4*160 + rows*9*4
}

// gemvStages is how many chunks a ring holds: of large ones as many as there is
// room for. It is 0 where there is none.
func (s *intShape) gemvStages(rows, shared int) int {
	most, least := 4, 4
	if s.blocks > 1 {
		most, least = 3, 2
	}
	for n := most; n >= least; n-- {
		if s.gemvShared(rows, n) <= shared {
			return n
		}
	}
	return 0
}

const (
	gemvRegisters = 112 // above what ptxas gives any gemv
	gemvRounds    = 4   // strips that are worth a second block on a multiprocessor, which rounds x again
)

// gemvGrid is the number of blocks: such that all are resident and have about
// the same number of strips.
func (s *intShape) gemvGrid(t Target, shared int) int {
	resident := max(1, min((t.Shared+1024)/(shared+1024), 65536/(gemvRegisters*32*s.segments), 8))
	best, least := 0, 0 // blocks, and strips of a multiprocessor that has the most
	for n := 1; n <= resident; n++ {
		rounds := (s.strips + n*t.SMs - 1) / (n * t.SMs)
		if n > 1 && rounds < gemvRounds {
			break
		}
		if most := n * rounds; n == 1 || most <= least+least/32 {
			best, least = (s.strips+rounds-1)/rounds, most
		}
	}
	return best
}

func (s *intShape) gemv(t Target, w *Weight, c LinearCall, flags uint32, stages int) Launch {
	shared := s.gemvShared(c.Rows, stages)
	name := "int_gemv_"
	if c.Rows == 1 {
		name = "int_gemv1_"
	}
	return Launch{
		Module: s.module(), Name: name + s.name,
		Grid: Dim{uint32(s.gemvGrid(t, shared)), 1, 1}, Block: Dim{uint32(32 * s.segments), 1, 1}, Shared: uint32(shared),
		Params: Pack(w.Addr, c.X.Addr, c.Norm, c.Y.Addr, c.Bias, int32(c.Rows), int32(c.X.Stride), int32(c.Y.Stride), int32(s.out),
			int32(s.strips), int32(s.blobs), int32(s.segments), int32(stages), c.Eps, flags),
	}
}

func (s *intShape) quantize(w *Weight, c LinearCall) Launch {
	return Launch{
		Module: "linear_int", Name: "int_quantize",
		Grid: Dim{uint32((c.Rows + 7) &^ 7), 1, 1}, Block: Dim{256, 1, 1},
		Params: Pack(c.X.Addr, c.Norm, c.Scratch, int32(c.Rows), int32(c.X.Stride), int32(w.K/32), int32(s.fold), int32(s.offset), c.Eps),
	}
}

const (
	tileStrips   = 8        // of a block
	tileCutRows  = 128      // most rows for which segments go to blocks of their own,
	tileCutBytes = 48 << 20 // and most bytes of their sums: what a second-level cache may hold
	tileBlocks   = 2        // of a multiprocessor, at least, where segments can be cut for it
)

// tileWidth is the groups of 8 rows that a block takes: what makes the fewest
// instructions, of which bringing W into operand form is about 20 a K block and
// a group 14.
func tileWidth(groups int) int {
	best, least := 1, 0
	for n := 1; n <= 8; n *= 2 {
		if cost := (groups + n - 1) / n * (14*n + 20); n == 1 || cost < least {
			best, least = n, cost
		}
	}
	return best
}

// tiles are the blocks of a launch by groups of rows and by strips.
func (s *intShape) tiles(groups int) (width, across, down int) {
	width = tileWidth(groups)
	return width, (groups + width - 1) / width, (s.strips + tileStrips - 1) / tileStrips
}

// partBytes is what the segments' sums take where they are cut.
func (s *intShape) partBytes(groups int) int64 {
	width, across, down := s.tiles(groups)
	return int64(s.segments) * int64(across*down) * int64(tileStrips*width*128*4)
}

// mayCut says whether segments may go to blocks of their own, which then add
// their sums through memory.
func (s *intShape) mayCut(groups int) bool {
	_, across, down := s.tiles(groups)
	return groups <= tileCutRows/8 && across*down <= CounterBytes/4 && s.partBytes(groups) <= tileCutBytes
}

// operandBytes is what x takes in operand form.
func (s *intShape) operandBytes(groups int) int64 {
	return int64(groups) * int64(s.blobs*s.blocks*s.group())
}

func (s *intShape) tileShared(width int) int {
	stages, blobs := 4, 2
	if s.blocks > 1 {
		stages, blobs = 2, 1
	}
	return tileStrips*stages*blobs*s.bytes + 3*width*2*s.group()
}

func (s *intShape) tile(t Target, w *Weight, c LinearCall, flags uint32) (Launch, error) {
	groups := (c.Rows + 7) / 8
	width, across, down := s.tiles(groups)
	cut := 1
	if across*down < tileBlocks*t.SMs && s.mayCut(groups) {
		cut = s.segments
	}
	shared := s.tileShared(width)
	if shared+16 > t.Shared {
		return Launch{}, fmt.Errorf("cannot multiply: a block needs %d bytes of shared memory, the device gives %d", shared+16, t.Shared)
	}
	return Launch{
		Module: s.module(), Name: fmt.Sprintf("int_tile%d_%s", width, s.name),
		Grid: Dim{uint32(across), uint32(down), uint32(cut)}, Block: Dim{128, 1, 1}, Shared: uint32(shared),
		Params: Pack(w.Addr, c.Scratch, c.Y.Addr, c.Bias, c.Scratch+Addr(s.operandBytes(groups)), c.Counters,
			int32(c.Rows), int32(c.Y.Stride), int32(s.out), int32(s.strips), int32(s.blobs), int32(s.segments), flags),
	}, nil
}

func scratchInt(w *Weight, rows int) int64 {
	s := w.intShape()
	groups := (rows + 7) / 8
	n := s.operandBytes(groups)
	for g := 1; g <= min(groups, tileCutRows/8); g++ {
		if s.mayCut(g) {
			n = max(n, s.operandBytes(g)+s.partBytes(g))
		}
	}
	return n
}
