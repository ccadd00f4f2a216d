package infer

import (
	"context"
	"iter"
)

// Backend serves inference: the local engine, a worker process, or a provider.
// Implementations are safe for concurrent use.
type Backend interface {
	// Generate runs r. The iterator yields events in order and at most one
	// error, last. Breaking out of the loop or cancelling ctx stops the work
	// and frees everything it held, exactly once. Generate itself does nothing
	// until the iterator is run.
	Generate(ctx context.Context, r *Request) iter.Seq2[Event, error]

	// Count validates r against the model as far as possible without running
	// it and returns the sizes that a reservation needs. The work it does
	// (rendering, tokenizing, compiling the format) is kept for a following
	// Generate of the same Request.ID.
	Count(ctx context.Context, r *Request) (Count, error)

	// Embed computes one vector per input.
	Embed(ctx context.Context, r *EmbedRequest) (*EmbedResult, error)

	// Tokenize gives the ids of a prompt or of rendered messages; Detokenize
	// is its inverse on bytes.
	Tokenize(ctx context.Context, r *TokenizeRequest) ([]int32, error)
	Detokenize(ctx context.Context, model string, ids []int32) ([]byte, error)

	// Models lists what can be asked for, with what is known of each.
	Models(ctx context.Context) ([]Model, error)

	// Health reports progress, not presence.
	Health(ctx context.Context) Health

	// Close stops accepting, ends what runs with an error and frees all.
	Close() error
}

// Count is the size of a request: the sum over its prompts.
type Count struct {
	PromptTokens int
	// MaxOutputTokens is the most that can be generated, over all choices.
	MaxOutputTokens int
}

// TokenizeRequest asks for token ids of Text, or of Chat rendered through the
// model's template.
type TokenizeRequest struct {
	Model string
	Text  string
	Chat  *Request // if non-nil, Text is ignored
	// AddSpecial puts the model's own prefix (for instance BOS) in front.
	AddSpecial bool
}

// Model describes one served model.
type Model struct {
	Name          string
	Architecture  string
	ContextLength int
	Vocabulary    int
	Embedding     int // width of a hidden state
	Quantization  string
	ParameterSize int64 // number of weights
	FileBytes     int64
	Digest        string // sha256 of the weights artifact, hex
	TokenizerHash string // sha256 of the tokenizer's canonical form, hex
	TemplateHash  string // sha256 of the chat template text, hex
	Licence       string
	Device        string // "cpu", "cuda:0"
	Tools         bool   // the template or a generic prompt can carry tools
	Reasoning     bool
	TemplateArgs  []string // variables for reasoning that the template reads
	Created       int64    // unix seconds
	Fingerprint   string
	Terms         []Term // what Fingerprint is the digest of, in that order
}

// Term is one thing of a contract: everything in an engine that can change an
// answer.
type Term struct {
	Name, Value string
}

// Health is a snapshot of a backend's state and load.
type Health struct {
	Ready  bool
	Reason string // why not ready, in words for an operator
	// Failed says that it will not be ready again by itself: it must be replaced.
	Failed bool
	// Degraded says why it computes on less than it was meant to, for instance on
	// the CPU in place of a GPU; empty: it does not.
	Degraded string
	Device   string // that it computes on now: "cpu", "cuda:0"; empty: not known
	// Progress is how much of the loading is done, 0 to 1, while not Ready.
	Progress float64
	Stats    Stats
}

// Stats are counters (monotonic since start) and gauges of an engine.
type Stats struct {
	Steps          uint64 // completed steps: the progress counter
	Running        int
	Waiting        int
	BlocksTotal    int
	BlocksUsed     int // referenced by running sequences
	BlocksCached   int // free but holding reusable prefixes
	Preemptions    uint64
	PrefixQueries  uint64 // tokens looked up
	PrefixHits     uint64 // tokens found
	PromptTokens   uint64
	OutputTokens   uint64
	DraftTokens    uint64 // guessed ahead and computed
	AcceptedTokens uint64 // of these, right
	WeightBytes    int64
	KVBytes        int64
	WorkerRestarts uint64
	BlockTokens    int // tokens of a block
	// StepTokens counts the steps by how many tokens they computed: place i those
	// with at most StepTokenEdges[i], the last place all that had more; nil: not
	// known. StepTokenSum is the sum of their tokens.
	StepTokens   []uint64
	StepTokenSum uint64
	// Devices are what the engine computes on, as far as the backend can tell more
	// of them than the machine itself does.
	Devices []Device
}
