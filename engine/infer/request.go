// Package infer is the shared vocabulary of Hearth: what a request for
// inference is, what comes back, what an error is, and the one interface,
// Backend, that the local engine, the worker client and every provider client
// implement. It imports nothing of ours, so that web, policy, engine and
// appliance can all depend on it without depending on each other.
package infer

import "encoding/json"

// Kind says which shape of request this is.
type Kind uint8

const (
	// Chat renders Messages and Tools through the model's chat template.
	Chat Kind = iota
	// Completion continues each of Prompts as it is.
	Completion
)

// Request is a dialect-free request for generated tokens. A dialect decoder
// fills it completely: every field of the wire is either represented here or
// refused by the decoder. A zero Request is not valid; see NewRequest.
//
// A Request is immutable once it has been handed to a Backend.
type Request struct {
	ID     string // logical request id, the x-request-id that the client sees
	Model  string // the model name as the caller wrote it; a route may rewrite it
	Tenant string // owner of the request: cache salt and fairness key
	Class  string // request class of the route; empty means the default class
	Kind   Kind

	// Chat.
	Messages   []Message
	Tools      []Tool
	ToolChoice ToolChoice
	// ParallelToolCalls false allows at most one tool call per answer.
	ParallelToolCalls bool
	// TemplateArgs are extra variables for the chat template, for instance
	// enable_thinking. Only names on the engine's allow list are accepted.
	TemplateArgs map[string]json.RawMessage
	// AddGenerationPrompt asks the template to open the assistant's turn.
	AddGenerationPrompt bool
	// ContinueFinalMessage leaves the last (assistant) message open, so that
	// the answer goes on from it. Excludes AddGenerationPrompt.
	ContinueFinalMessage bool

	// Completion. Choices are numbered prompt*N + choice.
	Prompts []Prompt
	Suffix  string
	Echo    bool // the answer begins with the prompt

	Sampling Sampling
	Format   Format
	// Reasoning false leaves reasoning markup in the text as it was generated.
	SplitReasoning bool
	// CacheSalt narrows prefix-cache sharing further than the tenant.
	CacheSalt string
	Priority  int // lower runs earlier; 0 is the default

	Thinking Thinking
	Hints    Hints
	// Stream says that the caller reads the answer as it comes.
	Stream bool
	// Uses lists the fields that ask for more than plain text; see Losses.
	Uses []Use
	// Wire is the request as it came; nil for one that was made or changed here.
	Wire *Wire
}

// Prompt is one completion prompt: Tokens if non-nil, else Text.
type Prompt struct {
	Text   string
	Tokens []int32
}

// Role of a message.
type Role string

const (
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one turn of a conversation.
type Message struct {
	Role       Role
	Name       string
	Content    []Part
	Reasoning  string     // assistant: reasoning shown in an earlier turn
	ToolCalls  []ToolCall // assistant
	ToolCallID string     // tool: the call that this result answers
	ToolError  bool       // tool: the result tells of a failure
	// Thoughts are the reasoning of an earlier assistant turn in the form in
	// which a provider takes it back; Reasoning is its readable text.
	Thoughts []Thought
}

// Text joins the text parts of the message.
func (m *Message) Text() string {
	if len(m.Content) == 1 {
		return m.Content[0].Text
	}
	n := 0
	for i := range m.Content {
		n += len(m.Content[i].Text)
	}
	b := make([]byte, 0, n)
	for i := range m.Content {
		b = append(b, m.Content[i].Text...)
	}
	return string(b)
}

// Part is a piece of content. Only text parts can be served by a model without
// other modalities; the decoder keeps the rest so that the route can decide.
type Part struct {
	Type string // "text", "image", "audio", "video", "file"
	Text string
	// URL or Data of a non-text part, MIME its type.
	URL  string
	Data []byte
	MIME string
	// Stored says that URL names what one provider keeps: no other can open it.
	Stored bool
	// Name of a file; Detail of an image ("low", "high", "auto").
	Name   string
	Detail string
	// Cache marks a cache breakpoint after this part: "", "5m" or "1h".
	Cache string
}

// Tool is a function that the model may call.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema; nil means no parameters
	Strict      bool            // arguments must match Parameters
	Cache       string          // cache breakpoint after this tool: "", "5m" or "1h"
	// Custom is set where the tool takes free text. For targets that have functions
	// only, Parameters ask for one string, "input"; the arguments of a call have
	// that form in either case.
	Custom *CustomTool
}

// CustomTool is the form of a tool's free text: any, or what a grammar allows.
type CustomTool struct {
	Syntax     string // "": any text; "lark" or "regex"
	Definition string
	// Description is the tool's own; the Description of the Tool says the form too,
	// for targets that have functions only.
	Description string
}

// ToolChoice says whether and which tool must be called.
type ToolChoice struct {
	Mode string // "auto" (default), "none", "required", "function"
	Name string // with "function"
	// Allowed narrows "auto" and "required" to these tools, if not empty.
	Allowed []string
}

// ToolCall is a complete call made by the model.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // JSON text as generated
}

// Sampling holds the decoding parameters. NewRequest gives the defaults.
type Sampling struct {
	N                 int     // choices per prompt, at least 1
	BestOf            int     // choices that a provider makes and charges for, to give the best N of them; 0: N
	MaxTokens         int     // 0: as many as the context allows
	MinTokens         int     // end tokens are masked before this many
	Temperature       float64 // 0 is greedy
	TopK              int     // 0: off
	TopP              float64 // 1: off
	MinP              float64 // 0: off
	FrequencyPenalty  float64
	PresencePenalty   float64
	RepetitionPenalty float64 // 1: off
	LogitBias         map[int32]float64
	Seed              *int64 // nil: chosen anew for each request

	Stop         []string
	StopTokenIDs []int32
	IgnoreEOS    bool
	IncludeStop  bool // keep the stop string in the text

	Logprobs       bool
	TopLogprobs    int  // alternatives per position, 0 to 20
	PromptLogprobs bool // log-probabilities of the prompt too (Completion with Echo)
	ReturnTokenIDs bool
}

// FormatKind selects how the answer is constrained.
type FormatKind string

const (
	FormatText       FormatKind = ""            // free text
	FormatJSONObject FormatKind = "json_object" // any JSON object
	FormatJSONSchema FormatKind = "json_schema"
	FormatRegex      FormatKind = "regex"
	FormatGrammar    FormatKind = "grammar" // GBNF-like
	FormatChoice     FormatKind = "choice"  // one of Choices
)

// Format is the structured-output constraint of a request.
type Format struct {
	Kind    FormatKind
	Name    string          // json_schema: its name
	Schema  json.RawMessage // json_schema
	Strict  bool
	Pattern string // regex
	Grammar string
	Choices []string
}

// NewRequest returns a Request with every default in place.
func NewRequest() *Request {
	return &Request{
		ToolChoice:          ToolChoice{Mode: "auto"},
		ParallelToolCalls:   true,
		AddGenerationPrompt: true,
		SplitReasoning:      true,
		Sampling: Sampling{
			N: 1, Temperature: 1, TopP: 1, RepetitionPenalty: 1,
		},
	}
}

// EmbedRequest asks for one vector per input.
type EmbedRequest struct {
	ID         string
	Model      string
	Tenant     string
	Inputs     []Prompt
	Dimensions int // 0: the model's own width; else truncate and renormalize
	Hints      Hints
	Uses       []Use
	Wire       *Wire
}

// EmbedResult holds one unit-length vector per input, in order.
type EmbedResult struct {
	Model   string
	Vectors [][]float32
	Usage   Usage
	Frame   *Frame // the answer as the provider sent it, in the caller's dialect
}
