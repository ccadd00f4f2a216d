package kernel

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
		if s.gemvShared(rows, n)+postShared <= shared {
			return n
		}
	}
	return 0
}

// stripBytes is what a block reads of W for a strip.
func (s *intShape) stripBytes() int { return s.blobs * s.bytes }

const (
	gemvRegisters  = 112 // above what ptxas gives any gemv,
	mixedRegisters = 120 // and any of several types
	gemvRounds     = 4   // strips that are worth a second block on a multiprocessor, which rounds x again
)

// gemvGrid is the number of blocks of each of parts, which have equal segments:
// such that all are resident and have about as much to read.
func gemvGrid(t Target, parts []intShape, shared int) []int {
	registers := gemvRegisters
	if len(parts) > 1 {
		registers = mixedRegisters
	}
	resident := max(1, min((t.Shared+1024)/(shared+1024), 65536/(registers*32*parts[0].segments), 8))
	var best []int
	least := 0 // bytes of a multiprocessor that has the most
	for n := 1; n <= resident; n++ {
		blocks, strips, most := gemvShare(parts, n*t.SMs)
		if n > 1 && strips < gemvRounds {
			break
		}
		if most *= n; n == 1 || most <= least+least/32 {
			best, least = blocks, most
		}
	}
	return best
}

// gemvShare spreads strips over slots, so that the block that reads the most
// reads as little as can be: strips is the most that a block has, most its bytes.
func gemvShare(parts []intShape, slots int) (blocks []int, strips, most int) {
	blocks = make([]int, len(parts))
	each := make([]int, len(parts)) // strips of a block of a part, at most
	for i := range each {
		each[i] = 1
	}
	for {
		sum, next, bytes := 0, -1, 0 // the part whose blocks read least with a strip more
		for i := range parts {
			blocks[i] = (parts[i].strips + each[i] - 1) / each[i]
			sum += blocks[i]
			if b := (each[i] + 1) * parts[i].stripBytes(); blocks[i] > 1 && (next < 0 || b < bytes) {
				next, bytes = i, b
			}
		}
		if sum <= slots || next < 0 {
			break
		}
		each[next]++
	}
	for i := range parts {
		strips, most = max(strips, each[i]), max(most, each[i]*parts[i].stripBytes())
	}
	return blocks, strips, most
}

func gemvName(rows int, of string) string {
	if rows == 1 {
		return "int_gemv1_" + of
	}
	return "int_gemv_" + of
}

func (s *intShape) gemv(t Target, w *Weight, c LinearCall, stages int) Launch {
	shared := s.gemvShared(c.Rows, stages)
	return Launch{
		Module: s.module(), Name: gemvName(c.Rows, s.name),
		Grid: Dim{uint32(gemvGrid(t, []intShape{*s}, shared)[0]), 1, 1}, Block: Dim{uint32(32 * s.segments), 1, 1}, Shared: uint32(shared),
		Params: Pack(append([]any{w.Addr, c.X.Addr, c.Norm, c.Y.Addr, c.Bias, int32(c.Rows), int32(c.X.Stride), int32(c.Y.Stride), int32(s.out),
			int32(s.strips), int32(s.blobs), int32(s.segments), int32(stages), c.Eps, intFlags(c)}, c.postParams()...)...),
	}
}
