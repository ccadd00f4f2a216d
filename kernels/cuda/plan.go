package cuda

import (
	"unsafe"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
)

// shape is all about a step that its launches depend on. Sizes are rounded up, so
// that few lists of launches serve all steps.
type shape struct {
	rows   int // of the registers, with padding
	decode int // the first rows, each attended to alone
	chunks int // of keys, at most, of those
	tiles  int // runs of the other rows
	blocks int // of a block table
}

const (
	// decodeSpan is the longest run of tokens whose rows are attended to alone:
	// that has more blocks at work, and reads the keys once a row.
	decodeSpan = 8
	// tableAlign is what the plan's parts are aligned to, in values.
	tableAlign = 4
)

// bucket rounds a number of rows up to one that there are graphs for.
func bucket(n int) int {
	switch {
	case n <= 2:
		return max(n, 1)
	case n <= 4:
		return 4
	case n <= 32:
		return (n + 7) / 8 * 8
	case n <= 64:
		return (n + 15) / 16 * 16
	case n <= 128:
		return (n + 31) / 32 * 32
	}
	return (n + 63) / 64 * 64
}

// power rounds up to a power of two.
func power(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

func ceil(n, per int) int { return (n + per - 1) / per }

func align(n int) int { return ceil(n, tableAlign) * tableAlign }

// planner lays steps out and writes their plans.
type planner struct {
	blockSize int
	context   int // tokens of a sequence at most
	decode    int // rows attended to alone at most
	gather    int // rows gathered at once at most
	chunks    int // of keys of a sequence at most

	words []int32 // page-locked: what is uploaded
	row   []int32 // row of the registers, by row of the batch
	used  int     // of words
}

// The plan's parts, in values from its beginning.
type parts struct{ tokens, pos, seq, tiles, tables int }

func (p *planner) parts(s shape) parts {
	var at parts
	at.tokens = align(p.gather)
	at.pos = at.tokens + align(s.rows)
	at.seq = at.pos + align(s.rows)
	at.tiles = at.seq + align(s.rows)
	at.tables = at.tiles + 4*s.tiles
	return at
}

// capacity is the number of values of the largest plan: rows includes padding.
func (p *planner) capacity(rows, sequences int) int {
	at := p.parts(shape{rows: rows, tiles: p.maxTiles(rows, sequences)})
	return at.tables + sequences*p.chunks*kernel.ChunkKeys/p.blockSize
}

func (p *planner) maxTiles(rows, sequences int) int {
	return bucket(rows/kernel.TileRows + sequences)
}

// plan is the plan of a shape as kernels see it.
func (d *Device) plan(s shape) kernel.Plan {
	at := d.planner.parts(s)
	addr := func(word int) kernel.Addr { return d.planAddr + kernel.Addr(4*word) }
	return kernel.Plan{Gather: addr(0), Tokens: addr(at.tokens), Pos: addr(at.pos), Seq: addr(at.seq), Tiles: addr(at.tiles),
		Tables: addr(at.tables), MaxBlocks: s.blocks, BlockSize: d.kv.BlockSize}
}

// lay decides the shape of a step.
func (p *planner) lay(b *kernels.Batch) shape {
	var s shape
	single, others, chunks := 0, 0, 1
	for i := range b.Spans {
		sp := &b.Spans[i]
		c := ceil(int(sp.Context+sp.Len), kernel.ChunkKeys)
		chunks = max(chunks, c)
		if p.single(sp, single) {
			single += int(sp.Len)
			s.chunks = max(s.chunks, c)
		} else {
			others += int(sp.Len)
			s.tiles += ceil(int(sp.Len), kernel.TileRows)
		}
	}
	if single > 0 {
		s.decode = bucket(single)
		s.chunks = min(power(s.chunks), p.chunks)
	}
	if others > 0 {
		s.tiles = bucket(s.tiles)
		others = pad(others)
	}
	s.rows = s.decode + others
	s.blocks = min(power(chunks), p.chunks) * kernel.ChunkKeys / p.blockSize
	return s
}

// pad rounds the rows of longer runs up.
func pad(n int) int {
	if n <= 64 {
		return ceil(n, 16) * 16
	}
	return ceil(n, 64) * 64
}

// single tells whether the rows of a span are attended to alone, when n rows are
// already.
func (p *planner) single(s *kernels.Span, n int) bool {
	return s.Len <= decodeSpan && n+int(s.Len) <= p.decode
}

// write fills the plan of a step of shape s.
func (p *planner) write(b *kernels.Batch, s shape) {
	at := p.parts(s)
	tokens, pos, seq := p.words[at.tokens:][:s.rows], p.words[at.pos:][:s.rows], p.words[at.seq:][:s.rows]
	for r := range pos {
		tokens[r], pos[r], seq[r] = 0, -1, 0
	}
	tiles := p.words[at.tiles:at.tables]
	clear(tiles)
	p.row = p.row[:0]
	single, other := 0, s.decode
	for i := range b.Spans {
		sp := &b.Spans[i]
		to := &other
		if p.single(sp, single) {
			to = &single
		} else {
			tiles = p.tile(tiles, sp, int32(i), int32(other))
		}
		for j := range sp.Len {
			r := *to + int(j)
			tokens[r], pos[r], seq[r] = b.Tokens[sp.Row+j], sp.Context+j, int32(i)
			p.row = append(p.row, int32(r))
		}
		*to += int(sp.Len)
		used := ceil(int(sp.Context+sp.Len), p.blockSize)
		copy(p.words[at.tables+i*s.blocks:][:s.blocks], sp.Blocks[:used])
	}
	p.used = at.tables + len(b.Spans)*s.blocks
}

// tile cuts a span into tiles, the last first: it has the most keys to see. It
// returns the room that is left.
func (p *planner) tile(tiles []int32, sp *kernels.Span, seq, row int32) []int32 {
	for from := (sp.Len - 1) / kernel.TileRows * kernel.TileRows; from >= 0; from -= kernel.TileRows {
		tiles[0], tiles[1], tiles[2], tiles[3] = row+from, min(sp.Len-from, kernel.TileRows), seq, sp.Context+from
		tiles = tiles[4:]
	}
	return tiles
}

// want writes the rows of the batch to gather, n in all with padding.
func (p *planner) want(rows []int32, n int) {
	for i := range n {
		p.words[i] = -1
		if i < len(rows) {
			p.words[i] = p.row[rows[i]]
		}
	}
}

// words sees page-locked bytes as values.
func words(b []byte) []int32 {
	if len(b) < 4 {
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(&b[0])), len(b)/4)
}

func floats(b []byte) []float32 {
	if len(b) < 4 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

func byteView(w []int32) []byte {
	if len(w) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), 4*len(w))
}
