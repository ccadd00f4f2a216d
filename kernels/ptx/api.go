// Package ptx runs PTX, NVIDIA's virtual assembly, on the CPU, so that kernels
// can be tested where there is no GPU. It is for tests only: nothing that ships
// imports it.
//
// Parse reads the text of one module and decodes every function. A Machine is
// one imaginary device: its memory, the modules loaded into it and the launches
// on it. A launch executes each block warp by warp: one step runs one
// instruction for the 32 lanes of a warp under a mask, diverged lanes are kept
// as groups of equal program counter, and the group furthest behind goes first,
// which is where they meet again. Blocks are independent and run on
// Options.Workers goroutines.
//
// With Options.Checks every access is judged: bounds (to the byte, with red
// zones between allocations), bytes and registers read before they are written,
// alignment, two threads that touch one word with nothing between them (in a
// block: a barrier; between blocks: fence and atomic), copies of cp.async used
// before they are waited for, barriers and shuffles that not all lanes reach.
// With Options.Count memory traffic and instructions are counted by PTX line.
//
// The rules are those of the PTX ISA 7.8 manual; sections are named where code
// follows one.
package ptx

import "fmt"

// Options say what a Machine is and how closely it watches.
type Options struct {
	Checks  bool // report faults as Findings; without, only what cannot go on is an error
	Count   bool // fill Report.Counts
	Workers int  // goroutines that run blocks; 0 means 1
	Memory  int  // bytes of device memory, red zones included; 0 means 64 MiB
	// MaxSteps bounds the warp instructions of one block, so that a loop that
	// waits for what never comes ends with an error; 0 means 1<<26.
	MaxSteps int64
	// MaxFindings bounds Report.Findings; 0 means 32. One fault at one line is
	// reported once a launch.
	MaxFindings int
}

// Dim is the size of a grid in blocks, or of a block in threads. A zero counts as one.
type Dim struct{ X, Y, Z uint32 }

func (d Dim) norm() Dim { return Dim{max(d.X, 1), max(d.Y, 1), max(d.Z, 1)} }

func (d Dim) count() uint64 { return uint64(d.X) * uint64(d.Y) * uint64(d.Z) }

// at is the place with linear number i, x running fastest.
func (d Dim) at(i uint64) Dim {
	return Dim{uint32(i % uint64(d.X)), uint32(i / uint64(d.X) % uint64(d.Y)), uint32(i / (uint64(d.X) * uint64(d.Y)))}
}

func (d Dim) String() string { return fmt.Sprintf("(%d,%d,%d)", d.X, d.Y, d.Z) }

// Param is one parameter of a kernel in the packed block that Launch takes.
type Param struct {
	Name                string
	Offset, Size, Align int // bytes
}

// Kernel is what a module says about one of its entry points.
type Kernel struct {
	Name         string
	Params       []Param
	ParamBytes   int // size of the packed parameter block
	MaxThreads   int // threads of a block allowed by .maxntid or .reqntid; 1024 where the kernel does not say
	StaticShared int // bytes of shared memory declared with a size
	code         *function
}

// Kind names the class of a Finding.
type Kind string

// The faults that are looked for.
const (
	OutOfBounds      Kind = "out-of-bounds"          // beyond an allocation, or in none
	Uninitialised    Kind = "uninitialised-read"     // bytes that nobody has written
	UndefinedReg     Kind = "undefined-register"     // a register that this thread has not written
	Misaligned       Kind = "misaligned"             // an address that is no multiple of the access
	ReadOnly         Kind = "read-only"              // a write to constant memory or a parameter
	SharedRace       Kind = "shared-race"            // two threads of a block on one word, no barrier between
	GlobalRace       Kind = "global-race"            // two blocks, or two warps of one, on one word, nothing ordering them
	DivergentBarrier Kind = "divergent-barrier"      // a barrier that not all lanes of a warp reach together
	BarrierCount     Kind = "barrier-count"          // a barrier's thread count that is no whole number of warps, or differs
	ShflDivergence   Kind = "shfl-divergence"        // a warp operation without the lanes that its mask names
	AsyncInFlight    Kind = "async-in-flight"        // memory used between cp.async and its wait
	AsyncMisuse      Kind = "async-misuse"           // cp.async with a source size beyond its own
	ShflUndefined    Kind = "shfl-from-absent-lane"  // a shuffle that reads a lane that takes no part
	MmaPartial       Kind = "divergent-warp-operand" // mma or ldmatrix by part of a warp
)

// Finding is one fault that a launch showed.
type Finding struct {
	Kind   Kind
	Line   int    // of the PTX
	Source string // file:line from .loc, where the PTX has it
	CTA    Dim    // block index
	Thread Dim    // thread index in the block
	Detail string
}

func (f Finding) String() string {
	s := fmt.Sprintf("ptx line %d", f.Line)
	if f.Source != "" {
		s += " (" + f.Source + ")"
	}
	return fmt.Sprintf("%s: %s: block %v thread %v: %s", s, f.Kind, f.CTA, f.Thread, f.Detail)
}

// Counts is what a launch, or one line of it, cost.
type Counts struct {
	ThreadInstr  uint64 // instructions executed, summed over lanes whose guard let them
	WarpInstr    uint64 // instructions issued
	MMA          uint64 // mma instructions
	Sectors      uint64 // 32-byte sectors of global memory asked for, one warp instruction at a time
	IdealSectors uint64 // the fewest that could hold the same distinct bytes
	SharedWaves  uint64 // passes over the 32 banks of shared memory
	IdealWaves   uint64 // the passes without bank conflicts
	// UniqueSectors are the distinct sectors of the whole launch: what DRAM must
	// move at least. Reads and writes of one sector count once each in the
	// fields after it. Zero in Counts of a line.
	UniqueSectors, UniqueRead, UniqueWritten uint64
}

// Add sums counts of several launches; a sector then counts once in each.
func (c *Counts) Add(o Counts) {
	c.add(&o)
	c.UniqueSectors += o.UniqueSectors
	c.UniqueRead += o.UniqueRead
	c.UniqueWritten += o.UniqueWritten
}

func (c *Counts) add(o *Counts) {
	c.ThreadInstr += o.ThreadInstr
	c.WarpInstr += o.WarpInstr
	c.MMA += o.MMA
	c.Sectors += o.Sectors
	c.IdealSectors += o.IdealSectors
	c.SharedWaves += o.SharedWaves
	c.IdealWaves += o.IdealWaves
}

// LineCounts are the Counts of the instructions at one line of the PTX.
type LineCounts struct {
	Line   int
	Source string // file:line from .loc, where the PTX has it
	Text   string // the opcode
	Counts
}

// Report is what a launch showed.
type Report struct {
	Kernel   string
	Findings []Finding
	Dropped  int // findings beyond MaxFindings
	Counts   Counts
	lines    []LineCounts
}

// Lines are the counts by PTX line, in its order; empty without Options.Count.
func (r *Report) Lines() []LineCounts { return r.lines }
