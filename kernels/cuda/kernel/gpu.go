package kernel

// GPU is what runs launches: the driver on a real one, or the interpreter that
// stands in for it in tests. Everything that is queued runs in order. All methods
// but Name, Target, Do and Close are for functions that Do runs.
type GPU interface {
	// Name is the kind and number, for instance "cuda:0".
	Name() string
	Target() Target
	// Do runs f on the thread that owns the GPU and returns its error.
	Do(f func() error) error

	// Memory tells the free and all bytes.
	Memory() (free, total int64, err error)
	// Alloc takes n bytes, aligned to 256, of any content.
	Alloc(n int64) (Addr, error)
	Free(Addr) error
	// HostAlloc takes page-locked memory of the host, of any content.
	HostAlloc(n int) ([]byte, error)
	HostFree([]byte) error

	// Upload, Download, Copy and Fill are queued. Host memory is of HostAlloc and
	// is left alone until the copy has run.
	Upload(dst Addr, src []byte) error
	Download(dst []byte, src Addr) error
	Copy(dst, src Addr, n int64) error
	Fill(dst Addr, value byte, n int64) error

	// Mark puts mark number i, 0 to MaxMarks-1, behind what is queued; Wait returns
	// when the GPU has come to where it was last put, at once if that is nowhere.
	Mark(i int) error
	Wait(i int) error

	// Load compiles PTX that launches will name as module. Prepare makes launches of
	// loaded modules ready.
	Load(module string, ptx []byte) error
	Prepare([]Launch) (Work, error)

	// Close gives everything back.
	Close() error
}

// MaxMarks is the number of marks of a GPU.
const MaxMarks = 4

// Work is a list of launches that can be queued again and again.
type Work interface {
	// Capture makes the list a graph, which Run queues as one.
	Capture() error
	// Run queues the launches. It does not allocate.
	Run() error
	Release() error
}
