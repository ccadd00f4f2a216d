// Package grammar constrains generated text to a language: a JSON Schema, any
// JSON object, a regular expression, a GBNF grammar, a list of choices, or a
// composition of these with literal text.
//
// An Expr describes the language. A Compiler, one for each tokenizer, turns it
// into a Compiled grammar that all requests with the same Expr share; a Matcher
// follows one sequence through it and says, before each token, which tokens may
// come next.
//
//	expr ─ front ends ─▶ ir (rules of regular expressions over bytes and rules)
//	     ─ lower ──────▶ program (byte tests, calls, returns, one counter a rule)
//	     ─ table ──────▶ states: sets of (instruction, counter, return node),
//	                     interned, with lazily filled transitions and masks
//
// # What is promised
//
// Every text that ends where Complete is true is in the language; every state
// that is reached can be completed, so a mask always has a bit set. What a front
// end cannot honour it refuses by name; nothing is ignored but annotations.
// Compiling is bounded in work, time and memory whatever the input.
//
// # Return nodes
//
// A program may call rules, so a state needs a stack. All callers of one rule
// at one position share one node that lists where each goes on; nodes are
// interned like states, hence equal situations are one number, ambiguity stays
// polynomial, and a Matcher is copied by copying two words.
package grammar
