package kernel

// ChunkKeys is the number of keys that attention takes as one unit: chunks begin
// at multiples of it, and their results are merged in ascending order.
const ChunkKeys = 256

// TileRows is the most rows of one sequence that a prefill tile holds.
const TileRows = 64

// Plan is what changes from step to step, in device memory. The device uploads
// it in one copy before a step. Row r is one token.
type Plan struct {
	Tokens    Addr // int32 (rows): token ids
	Pos       Addr // int32 (rows): position in its sequence; -1: a padding row, which nothing is computed for
	Seq       Addr // int32 (rows): row of Tables
	Tables    Addr // int32 (sequences, MaxBlocks): block tables
	MaxBlocks int  // stride of Tables
	BlockSize int  // tokens of a block: 16 or 32

	// Tiles are runs of rows of one sequence for prefill: int32 ×4 each: first
	// row, rows (≤ TileRows), sequence, position of the first row. A tile of 0
	// rows is padding.
	Tiles Addr
	// Gather are the rows whose final state is wanted: int32; -1 is padding.
	Gather Addr
}

// Mat is a float32 matrix in device memory: row r begins at Addr + 4·Stride·r.
// Several registers may be columns of one matrix. Addr is a multiple of 16 bytes
// and Stride one of 4 values; the width is any number. All of it has been written
// once before the first launch, so that padding rows hold numbers, though not
// always finite ones.
type Mat struct {
	Addr   Addr
	Stride int // values
}
