package kernels

// KVConfig sizes the paged cache of a device. A block holds BlockSize tokens of
// every layer.
type KVConfig struct {
	Blocks    int
	BlockSize int // 16 or 32
	Type      DType
}

// Span is a run of consecutive rows of one sequence in a step. Row r of the
// span has position Context + r - Row.
type Span struct {
	Row, Len int32
	Context  int32   // tokens of the sequence already in the cache
	Blocks   []int32 // block table, covering Context+Len tokens
}

// Batch is the input and output of one step. The caller owns all slices; a
// device keeps none after Step returns.
type Batch struct {
	Tokens []int32 // (rows)
	Spans  []Span  // in row order, covering all rows

	LogitRows []int32   // rows whose logits are wanted, ascending
	Logits    []float32 // out: (len(LogitRows), Vocab)

	// Choices, if not nil, says for each of LogitRows how its token is chosen; only
	// a Chooser reads it. Prepare, if set, is called once when the device has been
	// given all work before that, and completes Choices; without LogitRows it is not set.
	Choices []Choice
	Prepare func()
	Picks   []Pick // out, as long as Choices

	HiddenRows []int32   // rows whose Final state is wanted, ascending
	Hidden     []float32 // out: (len(HiddenRows), Width)
}

// Device executes a Program. One goroutine calls it; Stats may be called from any.
type Device interface {
	// Name is the kind and number, for instance "cpu" or "cuda:0".
	Name() string
	// Load takes the program, prepares its weights (the device may repack
	// them; the tensors' Data stays valid until Close) and allocates the cache.
	Load(p *Program, kv KVConfig) error
	// Step runs all rows of b and fills its outputs. It does not allocate in
	// steady state. After an error the device must be closed.
	Step(b *Batch) error
	// CopyBlocks copies whole cache blocks, all layers: pairs of (from, to).
	CopyBlocks(pairs [][2]int32) error
	Stats() DeviceStats
	Close() error
}

// DeviceStats is a snapshot of what a device holds.
type DeviceStats struct {
	WeightBytes  int64
	KVBytes      int64
	ScratchBytes int64
	Path         string // instruction set or kernel path in use, for instance "avx2"
	Threads      int
}
