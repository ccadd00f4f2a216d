// Package output turns the tokens of one sequence into the events of an
// answer: valid UTF-8 text, stop strings, reasoning and tool calls.
package output

import "hearth/engine/infer"

// Options configures the pipeline of one choice.
type Options struct {
	Choice int // goes into every event

	// Stops ends the answer at the first of these strings; nil means none. One
	// set is shared by all choices of a request.
	Stops       *StopSet
	IncludeStop bool // keep the matched stop string in the text

	// Reasoning splits reasoning off; the zero value does not look for it.
	Reasoning ReasoningFormat
	// InReasoning: the prompt left a reasoning block open.
	InReasoning bool
	// KeepReasoning leaves reasoning and its markup in the text, but still looks
	// for no tool calls in it.
	KeepReasoning bool

	// Format reads tool calls; nil leaves all text as it is.
	Format *ToolFormat
	// Tools are the request's tools: names decide doubtful calls, schemas the
	// types of untyped arguments.
	Tools []infer.Tool
	// SingleCall ends the answer after the first complete call.
	SingleCall bool
	// Forced: decoding is constrained to tool calls, so nothing that is left
	// over is text.
	Forced bool
	// NewID gives the id of the next call; see CallIDs.
	NewID func() string

	Logprobs bool // put TokenLogprob into events
	TokenIDs bool // put token ids into events
}

// ReasoningFormat is the markup around a model's reasoning.
type ReasoningFormat struct{ Open, Close string }

// ToolFormat is one family's syntax of tool calls.
type ToolFormat struct {
	Name string
	// Markers are the control tokens of the syntax: their text must be pushed
	// like any other although they are special tokens.
	Markers []string
	// Call is the shape for constrained decoding.
	Call Envelope
}

// Envelope spells a sequence of calls for constrained decoding:
//
//	Begin  CallOpen NAME ArgsOpen ARGS CallClose  [Separator CallOpen …]  End
//
// where NAME is the JSON-escaped function name without quotes and ARGS a JSON
// object that matches the function's schema.
type Envelope struct {
	Begin, CallOpen, ArgsOpen, CallClose, Separator, End string
}

// Pipeline is the output side of one choice. It is not safe for concurrent use.
type Pipeline struct{ o Options }

// New makes a pipeline.
func New(o Options) *Pipeline { return &Pipeline{o: o} }

// Push takes one generated token: its id, the bytes it stands for (nil for an
// end token or another control token that is not shown) and, where asked for,
// its log-probability. The events are valid until the next call. stopped is
// true once the answer has ended by itself (a stop string, or the only call
// allowed is complete): call Finish(infer.FinishStop) and generate no more.
func (p *Pipeline) Push(id int32, piece []byte, lp *infer.TokenLogprob) (events []infer.Event, stopped bool) {
	return nil, false
}

// Finish ends the choice: it releases what is held and returns the last events,
// the very last being the one EventFinish. FinishStop becomes FinishToolCalls
// when the answer was complete calls.
func (p *Pipeline) Finish(reason infer.FinishReason) []infer.Event { return nil }

// ReasoningTokens counts the tokens generated inside reasoning so far.
func (p *Pipeline) ReasoningTokens() int { return 0 }

// StopSet is a compiled set of stop strings, safe for concurrent use.
type StopSet struct{}

// NewStopSet compiles stop strings; empty strings are ignored, and a set of none
// is nil.
func NewStopSet(stops []string) *StopSet { return nil }

// DetectToolFormat chooses the syntax of tool calls by the template's text and
// the vocabulary; Generic where neither names one.
func DetectToolFormat(template string, hasToken func(string) bool) *ToolFormat { return Generic }

// Generic is the syntax that chattmpl's generic tool prompt asks for.
var Generic = &ToolFormat{Name: "generic"}

// DetectReasoning gives the reasoning markup that the template or vocabulary
// shows; ok is false where there is none.
func DetectReasoning(template string, hasToken func(string) bool) (f ReasoningFormat, ok bool) {
	return ReasoningFormat{}, false
}

// CallIDs returns a generator of ids "call_<24 characters>" from a source of
// random words.
func CallIDs(random func() uint64) func() string { return nil }
