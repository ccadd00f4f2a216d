package sched

// Sequence is one stream of tokens that the engine extends: one choice of one
// prompt. Its fields are read by the engine loop; only Scheduler changes those
// below the line.
type Sequence struct {
	ID       uint64
	Tenant   string
	Priority int  // lower runs earlier
	Root     Hash // start of its cache chain
	NoReuse  bool // take no cached prefix (every position's output is needed)
	// ChunkCap bounds the tokens of one step; 0 is the scheduler's bound.
	ChunkCap int
	// After, if set, is a sequence with the same prompt whose prefill this one
	// waits for, to share its blocks.
	After *Sequence

	Tokens    []int32 // prompt, then what was generated
	Draft     []int32 // guesses of what comes next, computed along if there is room
	PromptLen int
	Data      any // the engine's own

	// ----
	NumComputed int     // tokens whose keys and values are in the cache
	Blocks      []int32 // block table
	CachedLen   int     // prompt tokens taken from the cache when first scheduled
	Started     bool    // has been scheduled once
	Preempted   int     // how often it was preempted

	arrival uint64
	state   state
	hashes  []Hash // of full blocks, as far as registered
}

type state uint8

const (
	stateNew state = iota
	stateWaiting
	stateRunning
	stateFinished
)

// Pending is the number of tokens not yet computed.
func (s *Sequence) Pending() int { return len(s.Tokens) - s.NumComputed }

// Running says whether the sequence holds blocks and takes part in steps.
func (s *Sequence) Running() bool { return s.state == stateRunning }
