package kernel

import "fmt"

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

func (s *intShape) tile(t Target, w *Weight, c LinearCall) (Launch, error) {
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
			int32(c.Rows), int32(c.Y.Stride), int32(s.out), int32(s.strips), int32(s.blobs), int32(s.segments), intFlags(c)),
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
