package policy

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// finder finds what a rule looks for, in a text of which more may come. What it
// finds does not depend on the pieces in which the text comes: the fuzz test
// FuzzRedactionInPieces holds it to that.
type finder interface {
	// find gives the first match that begins at from or later; what stands before
	// is context. Without one, start is -1 and everything before open is decided:
	// no match begins there. last says that b ends the text; then open is len(b).
	find(b []byte, from int, last bool) (start, end, open int)
}

// maxMatchBytes bounds what one match of a pattern on an answer can span: so
// much of a stream is held back at most.
const maxMatchBytes = 4096

// pattern finds the matches of a regular expression, leftmost first.
type pattern struct {
	re *regexp.Regexp
	// after is the same behind one character of context, which must not be taken
	// for the beginning of the text.
	after *regexp.Regexp
	reach int // bytes from its beginning on that decide on a match
}

func newPattern(expr string) (*pattern, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	after, err := regexp.Compile(`\A(?s:.)(?s:.*?)(` + expr + `)`)
	if err != nil {
		return nil, err
	}
	_, most, err := matchLength(expr)
	if err != nil {
		return nil, err
	}
	return &pattern{re, after, most + utf8.UTFMax}, nil // \b and $ look at one more character
}

func (p *pattern) find(b []byte, from int, last bool) (start, end, open int) {
	start, end = p.first(b, from)
	limit := len(b) - p.reach // matches that begin later may turn out otherwise
	if last {
		limit = len(b)
	}
	if start >= 0 && start <= limit {
		return start, end, start
	}
	if last {
		return -1, -1, len(b)
	}
	return -1, -1, max(from, runeStart(b, limit+1))
}

// first finds the leftmost match from a position on, as the expression sees the
// whole text.
func (p *pattern) first(b []byte, from int) (start, end int) {
	_, n := utf8.DecodeLastRune(b[:from])
	at := from - n
	m := p.re.FindIndex(b[at:])
	switch {
	case m == nil:
		return -1, -1
	case at+m[0] >= from:
		return at + m[0], at + m[1]
	}
	// It began within the context, which has lost its own context.
	if m = p.after.FindSubmatchIndex(b[at:]); m == nil {
		return -1, -1
	}
	return at + m[2], at + m[3]
}

// runeStart moves i back to the beginning of the character it stands in.
func runeStart(b []byte, i int) int {
	if i <= 0 {
		return 0
	}
	for k := i; k > max(i-utf8.UTFMax, 0) && k < len(b); k-- {
		if utf8.RuneStart(b[k]) {
			return k
		}
	}
	return i
}

// wordPattern matches a word whole and in any case. A boundary is asked for only
// where RE2 knows one: beside ASCII letters, digits and underscore.
func wordPattern(w string) string {
	expr := regexp.QuoteMeta(w)
	if w != "" && isASCIIWord(w[0]) {
		expr = `\b` + expr
	}
	if w != "" && isASCIIWord(w[len(w)-1]) {
		expr += `\b`
	}
	return "(?i:" + expr + ")"
}

func isASCIIWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

func plainPattern(s string) string { return s }

// anyOf joins checked patterns.
func anyOf(exprs []string) string {
	return "(?:" + strings.Join(exprs, ")|(?:") + ")"
}

// checkPattern says why a pattern cannot be used; stream: on answers, where the
// length of a match must be bounded.
func checkPattern(expr string, stream bool) error {
	least, most, err := matchLength(expr)
	switch {
	case err != nil:
		return err
	case least == 0:
		return errors.New("cannot use a pattern that matches nothing at all")
	case stream && most > maxMatchBytes:
		return fmt.Errorf("cannot look in an answer, which comes in pieces, for what may be longer than %d bytes: want bounded repeats, such as {1,64} in place of +", maxMatchBytes)
	}
	if _, err := regexp.Compile(expr); err != nil {
		return fmt.Errorf("cannot compile: %w", err)
	}
	return nil
}

// unbounded is longer than any bounded match.
const unbounded = 1 << 30

// matchLength gives bounds of the length of a match in bytes.
func matchLength(expr string) (least, most int, err error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot parse: %w", err)
	}
	least, most = lengths(re)
	return least, most, nil
}

func lengths(re *syntax.Regexp) (least, most int) {
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			lo, hi := runeLengths(r, re.Flags&syntax.FoldCase != 0)
			least, most = least+lo, most+hi
		}
	case syntax.OpCharClass:
		if len(re.Rune) > 0 {
			least, most = 1, max(utf8.RuneLen(re.Rune[len(re.Rune)-1]), 1)
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		least, most = 1, utf8.UTFMax
	case syntax.OpCapture:
		return lengths(re.Sub[0])
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		return repeated(re)
	case syntax.OpConcat:
		for _, s := range re.Sub {
			lo, hi := lengths(s)
			least, most = least+lo, most+hi
		}
	case syntax.OpAlternate:
		least, most = lengths(re.Sub[0])
		for _, s := range re.Sub[1:] {
			lo, hi := lengths(s)
			least, most = min(least, lo), max(most, hi)
		}
	}
	return min(least, unbounded), min(most, unbounded)
}

func repeated(re *syntax.Regexp) (least, most int) {
	lo, hi := lengths(re.Sub[0])
	from, to := re.Min, re.Max
	switch re.Op {
	case syntax.OpStar:
		from, to = 0, -1
	case syntax.OpPlus:
		from, to = 1, -1
	case syntax.OpQuest:
		from, to = 0, 1
	}
	switch {
	case hi == 0:
		most = 0
	case to < 0 || hi > unbounded/max(to, 1):
		most = unbounded
	default:
		most = hi * to
	}
	return min(lo, unbounded/max(from, 1)) * from, most
}

// runeLengths bounds the bytes of a character, in any case if fold is set.
func runeLengths(r rune, fold bool) (least, most int) {
	n := max(utf8.RuneLen(r), 1)
	least, most = n, n
	if r == utf8.RuneError {
		least = 1 // it also stands for any byte that is no UTF-8
	}
	if fold {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least, most = min(least, utf8.RuneLen(f)), max(most, utf8.RuneLen(f))
		}
	}
	return least, most
}
