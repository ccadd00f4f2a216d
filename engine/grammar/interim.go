package grammar

import (
	"context"
	"hearth/engine/infer"
)

type program struct{}
type table struct{}

func (c *Compiler) compile(ctx context.Context, e Expr) (*Compiled, error) {
	return nil, infer.Errorf(infer.CodeUnsupported, "grammars are being built")
}

// NewMatcher returns a Matcher at the beginning of the text.
func (c *Compiled) NewMatcher() *Matcher { return &Matcher{c: c, t: c.t} }

// Mask sets the bit of every token that may come next and clears all others.
// bits has MaskWords(vocabulary size) words or more; bits beyond the vocabulary
// are cleared. After an end token the mask is empty.
func (m *Matcher) Mask(bits []uint32) { clear(bits) }

// Accept moves on by token id. It fails, and leaves m where it was, if the
// token may not come next.
func (m *Matcher) Accept(id int32) error { return infer.Errorf(infer.CodeInternal, "not allowed") }

// AcceptBytes moves on by text, for instance the beginning of an answer that
// is continued.
func (m *Matcher) AcceptBytes(b []byte) error { return infer.Errorf(infer.CodeInternal, "not allowed") }

// Complete reports whether the text may end here.
func (m *Matcher) Complete() bool { return false }

// Forced appends to dst the bytes that must come next whatever is chosen, up to
// limit bytes. It does not move m.
func (m *Matcher) Forced(dst []byte, limit int) []byte { return dst }

// Validate checks text against schema after generation.
func Validate(schema []byte, text []byte) error { return nil }
