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
)

// Usage counts tokens in disjoint buckets, except Reasoning, which is part of
// Output. The prompt was FreshInput + CachedInput + CacheWrite tokens long.
type Usage struct {
	FreshInput  int64 `json:"fresh_input"`
	CachedInput int64 `json:"cached_input"`
	CacheWrite  int64 `json:"cache_write"`
	Output      int64 `json:"output"`
	Reasoning   int64 `json:"reasoning"`
	Estimated   bool  `json:"estimated,omitempty"` // counted by us, not told by the provider
}

// UsageOf turns the engine's usage into disjoint buckets. A cached or written
// part larger than the prompt is cut to the prompt.
func UsageOf(u infer.Usage) Usage {
	clamp := func(n, top int) int { return max(0, min(n, top)) }
	prompt := max(0, u.PromptTokens)
	cached := clamp(u.CachedTokens, prompt)
	write := clamp(u.CacheWriteTokens, prompt-cached)
	out := max(0, u.CompletionTokens)
	return Usage{
		FreshInput:  int64(prompt - cached - write),
		CachedInput: int64(cached),
		CacheWrite:  int64(write),
		Output:      int64(out),
		Reasoning:   int64(clamp(u.ReasoningTokens, out)),
		Estimated:   u.Estimated,
	}
}

// Price is what a row was charged by, in nano-USD per million tokens, so that a
// row can be priced again from itself. Version names the price table; it is
// empty where no price applied, and then nothing is charged.
type Price struct {
	Version    string `json:"version,omitempty"`
	Input      int64  `json:"input"`
	Cached     int64  `json:"cached"`
	CacheWrite int64  `json:"cache_write"`
	Output     int64  `json:"output"`
}

// Attempt is one try at a backend within a request.
type Attempt struct {
	Backend   string        `json:"backend"`
	Model     string        `json:"model"`
	Started   time.Time     `json:"started,omitzero"`
	Took      time.Duration `json:"took_ns"`
	Outcome   Outcome       `json:"outcome"`
	ErrorCode string        `json:"error_code,omitempty"`
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
	Price     Price     `json:"price"`
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
}
