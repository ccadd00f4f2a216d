package infer

import (
	"encoding/json"
	"net/textproto"
)

// Wire is a request as it came over the wire. A target of the same dialect is
// sent these bytes, so that what nobody here knows arrives unchanged.
type Wire struct {
	Dialect string // "openai-chat", "openai-completions", "openai-responses", "openai-embeddings", "anthropic", "gemini", "ollama-chat", ...
	Body    []byte // the whole body, valid JSON; never changed in place
	// Header holds the few request headers that belong to the dialect, for
	// instance Anthropic-Beta. Never credentials, cookies or hop-by-hop headers.
	Header textproto.MIMEHeader
	// Set replaces top-level members of Body before it is sent: what policy has
	// clamped. The model's name and what metering needs are set by the client
	// of the dialect itself.
	Set map[string]json.RawMessage
}

// Frame is a piece of an answer as the provider sent it. Where the provider
// speaks the caller's dialect, frames are passed on and the events beside them
// serve metering only.
type Frame struct {
	Event string // SSE event name, empty if it has none
	Data  []byte // payload without framing; the whole body of an answer that is not streamed
}

// Thought is a piece of reasoning of an earlier turn, as its provider wants it
// back. Text is what it said, if it may be read; Signature and Redacted are
// opaque and belong to the provider that made them.
type Thought struct {
	Text      string
	Signature string
	Redacted  string // a sealed block in place of Text
	ID        string // of the item, where the dialect names it
}

// Thinking says how much a model may reason before it answers.
type Thinking struct {
	Switch  string // "", "on", "off", "adaptive"
	Effort  string // "", "none", "minimal", "low", "medium", "high", "xhigh", "max"
	Budget  int    // tokens; 0: not given
	Summary string // "", "auto", "concise", "detailed", "omitted", "none": how much of it is shown
}

// Hints are labels and wishes that cannot change what the answer says.
type Hints struct {
	User        string // end user, opaque
	Metadata    json.RawMessage
	ServiceTier string
	CacheKey    string
	// CacheRetention is how long a prompt is kept in the cache: "in_memory" or "24h".
	CacheRetention string
	Verbosity      string
	KeepAlive      string
}
