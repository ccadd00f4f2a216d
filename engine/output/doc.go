// Package output turns the tokens of one answer into its events: valid UTF-8
// text, up to a stop string, split into reasoning, content and tool calls.
//
// A token piece passes four stages, each holding as little as it must:
//
//	Decoder      bytes → whole characters; holds an unfinished one
//	StopMatcher  ends the text before (or behind) a stop string; holds the
//	             longest end that may begin one
//	reasoning    splits <think>…</think> and its like off; holds a mark that
//	             has begun
//	toolParser   reads calls in the family's own syntax; holds a call until its
//	             function is known, then streams its arguments
//
// No stage loses a byte: what turns out to be nothing is delivered as text. The
// exceptions are markup itself, white space beside it, and a call of which
// nothing was delivered when the limit or a stop string cut it. No stage depends
// on how the text was cut into tokens.
package output
