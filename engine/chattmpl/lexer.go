package chattmpl

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is the kind of a lexical token.
type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

type token struct {
	kind tokenKind
	s    string // text of data, names, strings (decoded) and operators
	i    int64
	f    float64
	line int
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "end of template"
	case tokData:
		return "text"
	case tokVarEnd:
		return "}}"
	case tokBlockEnd:
		return "%}"
	case tokString:
		return "a string"
	case tokInt, tokFloat:
		return "a number"
	}
	return strconv.Quote(t.s)
}

// syntaxError is what the lexer and the parser panic with inside Compile.
type syntaxError struct {
	line int
	msg  string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("chat template line %d: %s", e.line, e.msg)
}

// lexer cuts a template into tokens with the whitespace rules of transformers'
// environment: trim_blocks, lstrip_blocks, no trailing newline kept.
type lexer struct {
	src  string
	at   int
	line int
	toks []token
	// lineStart: the tag before swallowed its newline, or there is none.
	lineStart bool
}

func (l *lexer) fail(format string, a ...any) {
	panic(&syntaxError{l.line, fmt.Sprintf(format, a...)})
}

func (l *lexer) emit(k tokenKind, s string) {
	l.toks = append(l.toks, token{kind: k, s: s, line: l.line})
}

// advance moves to offset to, counting lines.
func (l *lexer) advance(to int) {
	l.line += strings.Count(l.src[l.at:to], "\n")
	l.at = to
}

func lex(src string) []token {
	src = strings.ReplaceAll(src, "\r\n", "\n")
	src = strings.ReplaceAll(src, "\r", "\n")
	src = strings.TrimSuffix(src, "\n")
	l := &lexer{src: src, line: 1, lineStart: true}
	for l.at < len(l.src) {
		l.section()
	}
	l.emit(tokEOF, "")
	return l.toks
}

// section reads text up to the next tag, then the tag.
func (l *lexer) section() {
	start := l.at
	rel := nextTag(l.src[start:])
	if rel < 0 {
		l.emit(tokData, l.src[start:])
		l.advance(len(l.src))
		return
	}
	data, kind := l.src[start:start+rel], l.src[start+rel+1]
	sign := byte(0)
	if at := start + rel + 2; at < len(l.src) && (l.src[at] == '-' || l.src[at] == '+') {
		sign = l.src[at]
	}
	stripped := l.stripBefore(data, sign, kind)
	if stripped != "" {
		l.emit(tokData, stripped)
	}
	l.advance(start + rel + 2)
	if sign != 0 {
		l.advance(l.at + 1)
	}
	switch kind {
	case '#':
		l.comment()
	case '%':
		if !l.raw() {
			l.emit(tokBlockBegin, "{%")
			l.tag("%}", tokBlockEnd)
		}
	default:
		l.emit(tokVarBegin, "{{")
		l.tag("}}", tokVarEnd)
	}
}

func nextTag(s string) int {
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '{' && (s[i+1] == '{' || s[i+1] == '%' || s[i+1] == '#') {
			return i
		}
	}
	return -1
}

// stripBefore applies '-' or lstrip_blocks to the text before a tag.
func (l *lexer) stripBefore(data string, sign, kind byte) string {
	if sign == '-' {
		return strings.TrimRightFunc(data, isSpace)
	}
	if sign == '+' || kind == '{' {
		return data
	}
	at := strings.LastIndexByte(data, '\n') + 1
	if (at > 0 || l.lineStart) && strings.TrimLeftFunc(data[at:], isSpace) == "" {
		return data[:at]
	}
	return data
}

// isSpace is Python's str.isspace for one character.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f
}

// after applies the whitespace rule behind an end mark: minus strips all,
// otherwise a block or comment takes one newline with it.
func (l *lexer) after(sign byte, trim bool) {
	rest := l.src[l.at:]
	n := 0
	switch {
	case sign == '-':
		n = len(rest) - len(strings.TrimLeftFunc(rest, isSpace))
	case trim && sign != '+' && strings.HasPrefix(rest, "\n"):
		n = 1
	}
	l.advance(l.at + n)
	l.lineStart = l.at > 0 && l.src[l.at-1] == '\n'
}

func (l *lexer) comment() {
	end := strings.Index(l.src[l.at:], "#}")
	if end < 0 {
		l.fail("comment is not closed")
	}
	sign := byte(0)
	if end > 0 {
		sign = l.src[l.at+end-1]
	}
	l.advance(l.at + end + 2)
	l.after(sign, true)
}

// raw handles {% raw %} … {% endraw %}; at is behind "{%" and its sign.
func (l *lexer) raw() bool {
	n, sign, ok := rawTag(l.src[l.at:], "raw")
	if !ok {
		return false
	}
	l.advance(l.at + n)
	if sign == '-' {
		l.after('-', false)
	}
	for from := l.at; ; {
		rel := strings.Index(l.src[from:], "{%")
		if rel < 0 {
			l.fail("raw block is not closed")
		}
		tag := from + rel
		inner, open := tag+2, byte(0)
		if inner < len(l.src) && (l.src[inner] == '-' || l.src[inner] == '+') {
			open = l.src[inner]
			inner++
		}
		n, sign, ok := rawTag(l.src[inner:], "endraw")
		if !ok {
			from = tag + 2
			continue
		}
		if data := l.stripBefore(l.src[l.at:tag], open, '%'); data != "" {
			l.emit(tokData, data)
		}
		l.advance(inner + n)
		l.after(sign, true)
		return true
	}
}

// rawTag matches `word -?%}`, giving its length and end sign.
func rawTag(s, word string) (n int, sign byte, ok bool) {
	t := strings.TrimLeftFunc(s, isSpace)
	if !strings.HasPrefix(t, word) {
		return 0, 0, false
	}
	t = strings.TrimLeftFunc(t[len(word):], isSpace)
	if t != "" && (t[0] == '-' || t[0] == '+' && word == "endraw") {
		sign = t[0]
		t = t[1:]
	}
	if !strings.HasPrefix(t, "%}") {
		return 0, 0, false
	}
	return len(s) - len(t) + 2, sign, true
}

// tag reads the tokens of one tag up to and with its end mark.
func (l *lexer) tag(end string, endKind tokenKind) {
	depth := 0
	for {
		rest := l.src[l.at:]
		trimmed := strings.TrimLeftFunc(rest, isSpace)
		l.advance(l.at + len(rest) - len(trimmed))
		rest = trimmed
		if rest == "" {
			l.fail("tag is not closed")
		}
		if depth == 0 {
			sign := byte(0)
			if rest[0] == '-' || rest[0] == '+' && endKind == tokBlockEnd {
				sign = rest[0]
				rest = rest[1:]
			}
			if strings.HasPrefix(rest, end) {
				l.emit(endKind, end)
				n := len(end)
				if sign != 0 {
					n++
				}
				l.advance(l.at + n)
				l.after(sign, endKind == tokBlockEnd)
				return
			}
		}
		depth = l.lexeme(depth)
	}
}

// Longest operators first.
var operators = []string{"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "(", ")", "[", "]", "{", "}", "<", ">", "=", ".", ":", "|", ",", ";"}

// lexeme reads one token and returns the new bracket depth.
func (l *lexer) lexeme(depth int) int {
	rest := l.src[l.at:]
	c := rest[0]
	switch {
	case c >= '0' && c <= '9':
		l.number(rest)
		return depth
	case c == '\'' || c == '"':
		l.str(rest)
		return depth
	}
	if n := nameLength(rest); n > 0 {
		l.emit(tokName, rest[:n])
		l.advance(l.at + n)
		return depth
	}
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		switch op {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth < 0 {
				l.fail("unexpected %q", op)
			}
		}
		l.emit(tokOp, op)
		l.advance(l.at + len(op))
		return depth
	}
	l.fail("unexpected character")
	return 0
}

func nameLength(s string) int {
	n := 0
	for n < len(s) {
		r, w := utf8.DecodeRuneInString(s[n:])
		if r != '_' && !unicode.IsLetter(r) && (n == 0 || !unicode.IsDigit(r) && !unicode.IsMark(r)) {
			break
		}
		n += w
	}
	return n
}

func (l *lexer) number(s string) {
	digits := func(i int, set string) int {
		for i < len(s) && (strings.IndexByte(set, s[i]|0x20) >= 0 || s[i] == '_' && i+1 < len(s) && strings.IndexByte(set, s[i+1]|0x20) >= 0) {
			i++
		}
		return i
	}
	// OR-ing 0x20 keeps digits and folds letters.
	const dec = "0123456789"
	if len(s) > 2 && s[0] == '0' && strings.IndexByte("xob", s[1]|0x20) >= 0 {
		set := map[byte]string{'x': "0123456789abcdef", 'o': "01234567", 'b': "01"}[s[1]|0x20]
		if n := digits(2, set); n > 2 {
			l.integer(s[:n], 0)
			return
		}
	}
	n := digits(0, dec)
	isFloat := false
	if n+1 < len(s) && s[n] == '.' && s[n+1] >= '0' && s[n+1] <= '9' {
		n = digits(n+1, dec)
		isFloat = true
	}
	if n < len(s) && s[n]|0x20 == 'e' {
		m := n + 1
		if m < len(s) && (s[m] == '+' || s[m] == '-') {
			m++
		}
		if m < len(s) && s[m] >= '0' && s[m] <= '9' {
			n = digits(m, dec)
			isFloat = true
		}
	}
	if !isFloat {
		l.integer(s[:n], 10)
		return
	}
	f, _ := strconv.ParseFloat(strings.ReplaceAll(s[:n], "_", ""), 64) // an overflow gives ±Inf, as in Python
	l.toks = append(l.toks, token{kind: tokFloat, f: f, line: l.line})
	l.advance(l.at + n)
}

func (l *lexer) integer(s string, base int) {
	i, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), base, 64)
	if err != nil {
		l.fail("cannot hold the number %.40s, want at most 64 bits", s)
	}
	l.toks = append(l.toks, token{kind: tokInt, i: i, line: l.line})
	l.advance(l.at + len(s))
}

// str reads a quoted string with Python's escapes.
func (l *lexer) str(s string) {
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); {
		switch c := s[i]; {
		case c == quote:
			l.toks = append(l.toks, token{kind: tokString, s: b.String(), line: l.line})
			l.advance(l.at + i + 1)
			return
		case c == '\\' && i+1 < len(s):
			i += 1 + l.escape(&b, s[i+1:])
		default:
			b.WriteByte(c)
			i++
		}
	}
	l.fail("string is not closed")
}

// escape decodes what follows a backslash and returns its length.
func (l *lexer) escape(b *strings.Builder, s string) int {
	if i := strings.IndexByte("abfnrtv\\'\"", s[0]); i >= 0 {
		b.WriteByte("\a\b\f\n\r\t\v\\'\""[i])
		return 1
	}
	width := 0
	switch s[0] {
	case '\n':
		return 1
	case 'x':
		width = 2
	case 'u':
		width = 4
	case 'U':
		width = 8
	case 'N':
		l.fail("escape \\N is not supported")
	case '0', '1', '2', '3', '4', '5', '6', '7':
		n, v := 0, rune(0)
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			v = v*8 + rune(s[n]-'0')
			n++
		}
		b.WriteRune(v)
		return n
	default:
		b.WriteByte('\\')
		r, w := utf8.DecodeRuneInString(s)
		b.WriteRune(r)
		return w
	}
	if len(s) < 1+width {
		l.fail("escape \\%c is cut short", s[0])
	}
	v, err := strconv.ParseUint(s[1:1+width], 16, 32)
	if err != nil || v > utf8.MaxRune {
		l.fail("escape \\%c is no character", s[0])
	}
	b.WriteRune(rune(v))
	return 1 + width
}
