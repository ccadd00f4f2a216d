package chattmpl

import (
	"encoding/json"
	"time"

	"hearth/engine/infer"
)

// Segment is a run of rendered text of one origin. Trusted text was written by
// the template itself (or is the model's BOS or EOS) and may hold control
// tokens; anything else came with the request and must be tokenized with
// special tokens off. No segment is empty and neighbours differ in Trusted.
type Segment struct {
	Text    string
	Trusted bool
}

// Input is what a conversation is rendered from.
type Input struct {
	Messages []infer.Message
	Tools    []infer.Tool
	// Args are extra template variables (enable_thinking, date_string, …); their
	// strings count as user text.
	Args map[string]json.RawMessage
	// BOS and EOS are the texts of the model's tokens; empty leaves the
	// template's variable undefined.
	BOS, EOS string
	// AddGenerationPrompt opens the assistant's turn.
	AddGenerationPrompt bool
	// ContinueFinalMessage cuts the rendering after the last message's text, so
	// that the answer continues it. Excludes AddGenerationPrompt.
	ContinueFinalMessage bool
	// Now is what strftime_now prints; the zero time counts as the Unix epoch.
	Now time.Time
}

// Caps says what a template can express, found by rendering probes.
type Caps struct {
	System        bool // a leading system message reaches the text
	Tools         bool // tool definitions reach the text
	ToolCalls     bool // an assistant's calls reach the text
	ToolResults   bool // messages of role tool reach the text
	ParallelCalls bool // several calls in one assistant message are accepted
	Thinking      bool // enable_thinking (or thinking) changes the prompt
	Reasoning     bool // the template knows reasoning markup or opens it
	OpensThink    bool // by default the generation prompt ends inside a reasoning block
}

// Prompt is a rendered conversation, with what the output side must know.
type Prompt struct {
	Segments []Segment
	// GenericTools: the tools were put in plain text with the generic syntax,
	// so the answer is to be read by that format and not by the model's own.
	GenericTools bool
	// OpenThink is the reasoning marker that the prompt leaves open, for
	// instance "<think>"; empty if none.
	OpenThink string
}
