// Package output turns the tokens of one sequence into the events of an
// answer: valid UTF-8 text, stop strings, reasoning and tool calls.
package output
