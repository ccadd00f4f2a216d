package output

import (
	"bytes"
	"strings"
)

// ReasoningFormat is the markup around a model's reasoning. The zero value is
// none.
type ReasoningFormat struct{ Open, Close string }

var reasoningFormats = []ReasoningFormat{
	{"<think>", "</think>"},
	{"[THINK]", "[/THINK]"},
	{"<|START_THINKING|>", "<|END_THINKING|>"},
	{"<seed:think>", "</seed:think>"},
	{"<thinking>", "</thinking>"},
}

// DetectReasoning gives the reasoning markup that the template or, failing
// that, the vocabulary shows; ok is false where there is none.
func DetectReasoning(template string, hasToken func(string) bool) (f ReasoningFormat, ok bool) {
	for _, f := range reasoningFormats {
		if strings.Contains(template, f.Open) || strings.Contains(template, f.Close) {
			return f, true
		}
	}
	for _, f := range reasoningFormats {
		if hasToken(f.Open) && hasToken(f.Close) {
			return f, true
		}
	}
	return ReasoningFormat{}, false
}

// Reasoning begins at the very start of an answer (white space aside), or was
// begun by the prompt; a mark later in the text is text. The line breaks inside
// the marks and behind the closing one are markup too.
type reasoningState uint8

const (
	lookForOpen reasoningState = iota
	skipAfterOpen
	inReasoning
	skipAfterClose
	afterReasoning
)

// reasoning splits text. Its held bytes are always the last ones seen.
type reasoning struct {
	format ReasoningFormat
	state  reasoningState
	keep   bool // markup and reasoning stay in the text
	held   []byte
}

// reasoningSink takes what reasoning splits: end is the offset of the last byte.
type reasoningSink interface {
	reasoningText(b []byte, end int64)
	plainText(b []byte, end int64) // text that cannot hold tool calls
	content(b []byte, end int64)
}

func (r *reasoning) write(b []byte, end int64, to reasoningSink) {
	if r.state == afterReasoning {
		to.content(b, end)
		return
	}
	r.held = append(r.held, b...)
	for len(r.held) > 0 && r.advance(end, to) {
	}
}

// take gives the first n held bytes to f, or drops them if f is nil. Kept
// markup goes to the text.
func (r *reasoning) take(n int, end int64, to reasoningSink, f func([]byte, int64)) {
	at := end - int64(len(r.held)-n)
	if r.keep {
		f = to.plainText
	}
	if f != nil && n > 0 {
		f(r.held[:n], at)
	}
	r.held = r.held[:copy(r.held, r.held[n:])]
}

// advance makes one move; false means that more input is needed.
func (r *reasoning) advance(end int64, to reasoningSink) bool {
	switch r.state {
	case lookForOpen:
		space := len(r.held) - len(bytes.TrimLeft(r.held, " \t\r\n"))
		rest := r.held[space:]
		if len(rest) == 0 {
			return false
		}
		switch n := prefixMatch(rest, r.format.Open); {
		case n == len(r.format.Open):
			r.take(space+n, end, to, nil)
			r.state = skipAfterOpen
		case n < len(rest):
			r.state = afterReasoning
			r.release(end, to)
		default:
			return false
		}
	case skipAfterOpen, skipAfterClose:
		n := len(r.held) - len(bytes.TrimLeft(r.held, "\r\n"))
		if r.state == skipAfterClose {
			n = len(r.held) - len(bytes.TrimLeft(r.held, " \t\r\n"))
		}
		r.take(n, end, to, nil)
		if len(r.held) > 0 {
			r.state++
			if r.state == afterReasoning {
				r.release(end, to)
			}
		}
	case inReasoning:
		return r.inside(end, to)
	case afterReasoning:
		r.release(end, to)
	}
	return true
}

// inside passes reasoning on, all but an end that may be line breaks before the
// closing mark, or part of that mark.
func (r *reasoning) inside(end int64, to reasoningSink) bool {
	if at := bytes.Index(r.held, []byte(r.format.Close)); at >= 0 {
		text := len(bytes.TrimRight(r.held[:at], "\r\n"))
		r.take(text, end, to, to.reasoningText)
		r.take(at-text+len(r.format.Close), end, to, nil)
		r.state = skipAfterClose
		return true
	}
	n := len(r.held) - overlap(r.held, r.format.Close)
	if n = len(bytes.TrimRight(r.held[:n], "\r\n")); n == 0 {
		return false
	}
	r.take(n, end, to, to.reasoningText)
	return false
}

func (r *reasoning) release(end int64, to reasoningSink) {
	if len(r.held) > 0 {
		to.content(r.held, end)
		r.held = r.held[:0]
	}
}

// flush lets go of what is held at the end of the text.
func (r *reasoning) flush(end int64, to reasoningSink) {
	switch {
	case r.state == inReasoning || r.state == skipAfterOpen:
		r.take(len(r.held), end, to, to.reasoningText)
	default:
		r.release(end, to)
	}
}

// in says whether the text is inside reasoning.
func (r *reasoning) in() bool { return r.state == skipAfterOpen || r.state == inReasoning }

// prefixMatch is the length of the common beginning of b and s.
func prefixMatch(b []byte, s string) int {
	n := min(len(b), len(s))
	for i := range n {
		if b[i] != s[i] {
			return i
		}
	}
	return n
}

// overlap is the length of the longest end of b that is a proper beginning of s.
func overlap(b []byte, s string) int {
	for n := min(len(b), len(s)-1); n > 0; n-- {
		if string(b[len(b)-n:]) == s[:n] {
			return n
		}
	}
	return 0
}
