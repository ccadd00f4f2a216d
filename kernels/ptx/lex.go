package ptx

import (
	"fmt"
	"strings"
)

// Bounds on the text that Parse takes.
const (
	maxSource  = 32 << 20 // bytes
	maxNesting = 64       // of braces
	maxCode    = 1 << 20  // instructions of one kernel, calls expanded
)

// Error is what Parse says of text that it cannot run.
type Error struct {
	Line int // of the PTX, from 1
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("ptx line %d: %s", e.Line, e.Msg) }

type tokenKind uint8

const (
	tokEOF  tokenKind = iota
	tokWord           // identifier, register, directive or opcode with its dots
	tokNumber
	tokString
	tokPunct
)

type token struct {
	kind tokenKind
	text string
	line int
}

// lexer cuts the text into tokens, one at a time.
type lexer struct {
	src  string
	pos  int
	line int
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c == '%'
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// skip passes blanks and comments.
func (l *lexer) skip() error {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case c == '\n':
			l.line++
			l.pos++
		case c == ' ' || c == '\t' || c == '\r':
			l.pos++
		case strings.HasPrefix(l.src[l.pos:], "//"):
			n := strings.IndexByte(l.src[l.pos:], '\n')
			if n < 0 {
				n = len(l.src) - l.pos
			}
			l.pos += n
		case strings.HasPrefix(l.src[l.pos:], "/*"):
			n := strings.Index(l.src[l.pos:], "*/")
			if n < 0 {
				return &Error{l.line, "cannot read a comment that does not end"}
			}
			l.line += strings.Count(l.src[l.pos:l.pos+n], "\n")
			l.pos += n + 2
		default:
			return nil
		}
	}
	return nil
}

func (l *lexer) next() (token, error) {
	if err := l.skip(); err != nil {
		return token{}, err
	}
	if l.pos >= len(l.src) {
		return token{kind: tokEOF, line: l.line}, nil
	}
	start, c := l.pos, l.src[l.pos]
	kind := tokPunct
	switch {
	case letter(c) || c == '.' && l.pos+1 < len(l.src) && letter(l.src[l.pos+1]):
		kind = tokWord
		l.word()
	case digit(c):
		kind = tokNumber
		l.number()
	case c == '"':
		n := strings.IndexAny(l.src[l.pos+1:], "\"\n")
		if n < 0 || l.src[l.pos+1+n] == '\n' {
			return token{}, &Error{l.line, "cannot read a string that does not end"}
		}
		l.pos += n + 2
		return token{tokString, l.src[start+1 : l.pos-1], l.line}, nil
	case strings.IndexByte("{}[]();,:@!|+-=<>", c) >= 0:
		l.pos++
	default:
		return token{}, &Error{l.line, fmt.Sprintf("cannot read the character %q", c)}
	}
	return token{kind, l.src[start:l.pos], l.line}, nil
}

// word passes a name with its dots and double colons.
func (l *lexer) word() {
	for l.pos++; l.pos < len(l.src); l.pos++ {
		c := l.src[l.pos]
		if c == ':' && strings.HasPrefix(l.src[l.pos:], "::") && l.pos+2 < len(l.src) && (letter(l.src[l.pos+2]) || digit(l.src[l.pos+2])) {
			l.pos++
			continue
		}
		if !letter(c) && !digit(c) && c != '.' {
			return
		}
	}
}

// number passes digits in any base, and a decimal fraction with its exponent.
func (l *lexer) number() {
	start := l.pos
	for l.pos++; l.pos < len(l.src); l.pos++ {
		c := l.src[l.pos]
		exp := (c == '+' || c == '-') && (l.src[l.pos-1] == 'e' || l.src[l.pos-1] == 'E') && strings.IndexByte(l.src[start:l.pos], '.') >= 0
		if !letter(c) && !digit(c) && c != '.' && !exp {
			return
		}
	}
}
