package infer

import "time"

// EventKind tells what an Event carries.
type EventKind uint8

const (
	// EventStart comes once, before any other event, when the request has been
	// scheduled: Usage.PromptTokens and Model are set.
	EventStart EventKind = iota
	// EventText adds Text to the answer of Choice.
	EventText
	// EventReasoning adds Text to the reasoning of Choice.
	EventReasoning
	// EventTool begins or continues a tool call of Choice.
	EventTool
	// EventFinish ends Choice; exactly one for each choice.
	EventFinish
	// EventUsage is the last event of a complete stream; exactly one.
	EventUsage
	// EventFrame carries nothing but a Frame.
	EventFrame
)

// Event is one step of an answer. Events of one choice are ordered; choices may
// interleave. A stream is complete when EventUsage has been seen; a stream that
// ends with an error has no EventUsage, and its consumer counts Tokens itself.
type Event struct {
	Kind   EventKind
	Choice int
	Text   string
	Tool   *ToolDelta
	// Tokens is how many generated tokens stand behind this event, also where
	// they became no text. The sum over a stream is its completion tokens.
	Tokens   int
	TokenIDs []int32        // with Sampling.ReturnTokenIDs
	Logprobs []TokenLogprob // one per token of this event, with Sampling.Logprobs
	Finish   FinishReason   // EventFinish
	Stop     string         // EventFinish: the stop string that matched, if any
	Usage    *Usage         // EventStart (prompt side), EventUsage
	Model    *Served        // EventStart
	// Signature closes a piece of reasoning (EventReasoning): the provider's own
	// seal, to be sent back with it. Redacted is a sealed block in place of text.
	Signature string
	Redacted  string
	// Refusal marks Text of an EventText as the model's words of declining, where
	// its provider tells them apart from an answer.
	Refusal bool
	// Frame is set where the answer is passed on as it came (Served.Native): the
	// provider's bytes that this event was read from. Of several events out of
	// one frame only the first carries it.
	Frame *Frame
	// More announces that another event follows without a wait: the two may be
	// sent on together. It is a hint, and may be broken.
	More bool
}

// ToolDelta is a piece of a tool call. The first delta of a call has ID and
// Name; later ones only Index and Arguments.
type ToolDelta struct {
	Index     int
	ID        string
	Name      string
	Arguments string
}

// FinishReason says why a choice ended.
type FinishReason string

const (
	FinishStop          FinishReason = "stop"           // end token or stop string
	FinishLength        FinishReason = "length"         // max tokens or context
	FinishToolCalls     FinishReason = "tool_calls"     // complete tool calls
	FinishContentFilter FinishReason = "content_filter" // withheld by policy or provider
	FinishRefusal       FinishReason = "refusal"        // the model declined
	FinishPause         FinishReason = "pause"          // a provider's long turn was interrupted, to be continued
	FinishContext       FinishReason = "context"        // the context window is full; to dialects without the word: length
)

// Usage counts tokens in disjoint buckets on the prompt side:
// PromptTokens = fresh + CachedTokens + CacheWriteTokens. ReasoningTokens are
// part of CompletionTokens.
type Usage struct {
	PromptTokens     int
	CachedTokens     int
	CacheWriteTokens int
	CompletionTokens int
	ReasoningTokens  int
	// CacheWriteHourTokens are those of CacheWriteTokens that are kept for an hour.
	CacheWriteHourTokens int
	Estimated            bool // counted by us because the provider gave none
}

// TokenLogprob is one token with its log-probability in the unfiltered
// distribution (before temperature, penalties and filters).
type TokenLogprob struct {
	ID      int32
	Bytes   []byte  // exact bytes of the token, maybe part of a character
	Logprob float64 // natural log; NaN where there is none (first prompt token)
	Top     []TopLogprob
}

// TopLogprob is an alternative at a position.
type TopLogprob struct {
	ID      int32
	Bytes   []byte
	Logprob float64
}

// Served identifies what answered: the deployment and its contract digest.
type Served struct {
	Name        string
	Fingerprint string // system_fingerprint: short form of the contract digest
	// Native says that the answer comes in the caller's own dialect: every
	// event's Frame is to be passed on in place of what the event says.
	Native bool
	// RequestID is the provider's own id of the request, empty for the local
	// engine.
	RequestID string
	// Queued is how long the request waited for its first step, as an engine of
	// ours tells it; 0: it did not, or nobody knows.
	Queued time.Duration
}
