package store

import (
	"time"

	"hearth/engine/infer"
)

// Outcome says how a request ended. All but OutcomeOpen are terminal.
type Outcome string

const (
	OutcomeOpen      Outcome = "open"      // held, running
	OutcomeComplete  Outcome = "complete"  // the whole answer was delivered
	OutcomePartial   Outcome = "partial"   // the backend failed after output had been delivered
	OutcomeCancelled Outcome = "cancelled" // the caller left; charged for what was made
	OutcomeError     Outcome = "error"     // failed without delivering output
	OutcomeUnknown   Outcome = "unknown"   // the process died; charged at the hold
	OutcomeRefused   Outcome = "refused"   // turned away before any hold
	// OutcomeAmbiguous: nobody here can tell what the provider did and charged.
	// The row is charged at the hold until somebody corrects it.
	OutcomeAmbiguous Outcome = "ambiguous"
)

// atHold says that a row with this outcome is charged at its hold.
func (o Outcome) atHold() bool { return o == OutcomeUnknown || o == OutcomeAmbiguous }

// Termination says what ended an answer, where Outcome says what became of the
// request.
type Termination string

const (
	TermComplete     Termination = "complete"      // the provider's own end
	TermClientLeft   Termination = "client_left"   // the caller closed
	TermUpstreamLost Termination = "upstream_lost" // the provider's connection ended before its end mark
	TermDeadline     Termination = "deadline"      // the time of the request was up
	TermStalled      Termination = "stalled"       // too long a silence of the provider
	TermDrained      Termination = "drained"       // this server was shut down
	TermDenied       Termination = "denied"        // a rule ended it
	TermRevoked      Termination = "revoked"       // who asked may no longer
	TermError        Termination = "error"         // any other failure
	TermRefused      Termination = "refused"       // never sent to a provider
)

// Usage counts tokens in disjoint buckets, except Reasoning, which is part of
// Output. Prompt gives the length of the prompt.
type Usage struct {
	FreshInput     int64 `json:"fresh_input"`
	CachedInput    int64 `json:"cached_input"`
	CacheWrite     int64 `json:"cache_write"`                // written to be kept for the provider's usual time
	CacheWriteHour int64 `json:"cache_write_hour,omitempty"` // written to be kept for an hour
	Output         int64 `json:"output"`
	Reasoning      int64 `json:"reasoning"`
	Estimated      bool  `json:"estimated,omitempty"` // counted by us, not told by the provider
}

// Prompt is the number of tokens of the whole prompt.
func (u *Usage) Prompt() int64 {
	return u.FreshInput + u.CachedInput + u.CacheWrite + u.CacheWriteHour
}

// UsageOf turns the engine's usage into disjoint buckets. A cached or written
// part larger than the prompt is cut to the prompt.
func UsageOf(u infer.Usage) Usage {
	clamp := func(n, top int) int { return max(0, min(n, top)) }
	prompt := max(0, u.PromptTokens)
	cached := clamp(u.CachedTokens, prompt)
	write := clamp(u.CacheWriteTokens, prompt-cached)
	hour := clamp(u.CacheWriteHourTokens, write)
	out := max(0, u.CompletionTokens)
	return Usage{
		FreshInput:     int64(prompt - cached - write),
		CachedInput:    int64(cached),
		CacheWrite:     int64(write - hour),
		CacheWriteHour: int64(hour),
		Output:         int64(out),
		Reasoning:      int64(clamp(u.ReasoningTokens, out)),
		Estimated:      u.Estimated,
	}
}

// Price is what a row was charged by, in nano-USD per million tokens, so that a
// row can be priced again from itself. Version names the price table; it is
// empty where no price applied, and then nothing is charged.
type Price struct {
	Version        string `json:"version,omitempty"`
	Input          int64  `json:"input"`
	Cached         int64  `json:"cached"`
	CacheWrite     int64  `json:"cache_write"`
	CacheWriteHour int64  `json:"cache_write_hour,omitempty"`
	Output         int64  `json:"output"`
}

// Attempt is one try at a backend within a request.
type Attempt struct {
	Backend   string        `json:"backend"`            // the deployment: name of an upstream, or "local"
	Provider  string        `json:"provider,omitempty"` // its kind: "openai", "anthropic", "vllm"…
	Model     string        `json:"model"`              // as the backend names it
	Started   time.Time     `json:"started,omitzero"`
	Took      time.Duration `json:"took_ns"`
	Outcome   Outcome       `json:"outcome"`
	ErrorCode string        `json:"error_code,omitempty"`
	// UpstreamRequestID is the provider's own id of the attempt, which its
	// exports and its support know: at most 256 printable ASCII characters.
	UpstreamRequestID string `json:"upstream_request_id,omitempty"`
	Failure           string `json:"failure,omitempty"` // infer.FailureClass; empty: none
	Status            int    `json:"status,omitempty"`  // of HTTP; 0: none came
	// Sent says that the provider may have begun on the request; false is proof
	// that it did not.
	Sent bool `json:"sent"`
}

// Opening is the half of a row that is known before dispatch.
type Opening struct {
	RequestID string    `json:"request_id"` // unique for ever; at most 128 bytes
	TraceID   string    `json:"trace_id,omitempty"`
	Tenant    string    `json:"tenant"`
	KeyID     string    `json:"key_id"`
	Operation string    `json:"operation"` // "chat", "completion", "embeddings"
	Model     string    `json:"model"`     // as the caller wrote it
	Route     string    `json:"route"`
	Class     string    `json:"class,omitempty"`
	Stream    bool      `json:"stream"`
	Started   time.Time `json:"started"`
	Contract  string    `json:"contract,omitempty"` // fingerprint of the serving contract
	Revision  string    `json:"revision,omitempty"` // of the route's configuration
	// Idempotency is IdempotencyMark of the caller's Idempotency-Key.
	Idempotency string `json:"idempotency,omitempty"`
	Price       Price  `json:"price"`
}

// Result is the half of a row that is known at the end.
type Result struct {
	Outcome   Outcome       `json:"outcome"`
	Finish    string        `json:"finish,omitempty"` // finish reason told to the caller
	ErrorCode string        `json:"error_code,omitempty"`
	Backend   string        `json:"backend,omitempty"` // what served it in the end
	Attempts  []Attempt     `json:"attempts,omitempty"`
	Usage     Usage         `json:"usage"`
	TTFT      time.Duration `json:"ttft_ns"` // from Started to the first token; 0: none was made
	Ended     time.Time     `json:"ended,omitzero"`
	// Termination says what ended the answer.
	Termination Termination `json:"termination,omitempty"`
	// Losses are what translation to the backend lost, "path=class"; Decisions
	// what rules did, "rule=action", and who was passed over, "upstream/model=passed: why".
	// At most 64 of 256 bytes each.
	Losses    []string `json:"losses,omitempty"`
	Decisions []string `json:"decisions,omitempty"`
	// ServedContract and ServedPrice replace those of the opening where they
	// are set: another candidate than the first may have served the request.
	ServedContract string `json:"-"`
	ServedPrice    *Price `json:"-"`
}

// Row is one logical request. It holds no prompt, no completion and no secret.
type Row struct {
	Opening
	Result
	HoldNano      int64     `json:"hold_nano"`
	ChargeNano    int64     `json:"charge_nano"`    // in all, overdraft included
	OverdraftNano int64     `json:"overdraft_nano"` // the part above the hold
	Budgets       []Posting `json:"budgets,omitempty"`
	Seq           uint64    `json:"seq"`      // the record that carries this row
	HoldSeq       uint64    `json:"hold_seq"` // its hold; 0: never held
	// Corrected is set where a correction replaced an earlier charge.
	Corrected *Corrected `json:"corrected,omitempty"`
}

// Corrected says what a correction replaced. Who made it and why is in the
// record's Audit.
type Corrected struct {
	Record        uint64  `json:"record"` // that carried the row before
	Outcome       Outcome `json:"outcome"`
	ChargeNano    int64   `json:"charge_nano"`
	OverdraftNano int64   `json:"overdraft_nano"`
}
