package tokenizer

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// lexer reads JSON in one pass without building values: a tokenizer.json of
// 33 MB holds a million short strings, for which encoding/json takes seconds.
type lexer struct {
	b       []byte
	i       int
	depth   int
	scratch []byte // of the last string with escapes
}

func (l *lexer) fail(want string) error {
	return fmt.Errorf("cannot read tokenizer.json at byte %d: want %s", l.i, want)
}

// peek returns the next byte that is not white space, 0 at the end.
func (l *lexer) peek() byte {
	for l.i < len(l.b) {
		switch c := l.b[l.i]; c {
		case ' ', '\t', '\n', '\r':
			l.i++
		default:
			return c
		}
	}
	return 0
}

func (l *lexer) expect(c byte) error {
	if l.peek() != c {
		return l.fail(string(rune(c)))
	}
	l.i++
	return nil
}

// object calls f for each member, with the lexer at its value, which f must
// read. The key is valid until then.
func (l *lexer) object(f func(key []byte) error) error {
	if err := l.open('{'); err != nil {
		return err
	}
	if l.peek() == '}' {
		return l.close('}')
	}
	for {
		l.peek()
		key, err := l.str()
		if err != nil {
			return err
		}
		if err := l.expect(':'); err != nil {
			return err
		}
		if err := f(key); err != nil {
			return err
		}
		if l.peek() != ',' {
			return l.close('}')
		}
		l.i++
	}
}

// array calls f for each element, which f must read.
func (l *lexer) array(f func() error) error {
	if err := l.open('['); err != nil {
		return err
	}
	if l.peek() == ']' {
		return l.close(']')
	}
	for {
		if err := f(); err != nil {
			return err
		}
		if l.peek() != ',' {
			return l.close(']')
		}
		l.i++
	}
}

func (l *lexer) open(c byte) error {
	if l.depth++; l.depth > maxJSONDepth {
		return l.fail(fmt.Sprintf("at most %d levels", maxJSONDepth))
	}
	return l.expect(c)
}

func (l *lexer) close(c byte) error {
	l.depth--
	return l.expect(c)
}

// str reads a string. The result is valid until the next call.
func (l *lexer) str() ([]byte, error) {
	if l.peek() != '"' {
		return nil, l.fail("a string")
	}
	start := l.i + 1
	for i := start; i < len(l.b); i++ {
		switch c := l.b[i]; {
		case c == '"':
			l.i = i + 1
			return l.b[start:i], nil
		case c == '\\':
			return l.escaped(start, i)
		case c < 0x20:
			l.i = i
			return nil, l.fail("no control character in a string")
		}
	}
	l.i = len(l.b)
	return nil, l.fail("the end of a string")
}

// escaped goes on with a string from its first backslash, at i.
func (l *lexer) escaped(start, i int) ([]byte, error) {
	out := append(l.scratch[:0], l.b[start:i]...)
	for i < len(l.b) {
		c := l.b[i]
		if c == '"' {
			l.i, l.scratch = i+1, out
			return out, nil
		}
		if c < 0x20 {
			break
		}
		if c != '\\' {
			out = append(out, c)
			i++
			continue
		}
		n := 0
		if out, n = appendEscape(out, l.b[i:]); n == 0 {
			break
		}
		i += n
	}
	l.i = i
	return nil, l.fail("a valid escape and the end of a string")
}

// appendEscape decodes the escape at the start of b; n is 0 if it is none.
func appendEscape(out, b []byte) (_ []byte, n int) {
	if len(b) < 2 {
		return out, 0
	}
	switch b[1] {
	case '"', '\\', '/':
		return append(out, b[1]), 2
	case 'b':
		return append(out, '\b'), 2
	case 'f':
		return append(out, '\f'), 2
	case 'n':
		return append(out, '\n'), 2
	case 'r':
		return append(out, '\r'), 2
	case 't':
		return append(out, '\t'), 2
	case 'u':
		r := hex4(b[2:])
		if r < 0 {
			return out, 0
		}
		if utf16.IsSurrogate(r) {
			if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
				if both := utf16.DecodeRune(r, hex4(b[8:])); both != utf8.RuneError {
					return utf8.AppendRune(out, both), 12
				}
			}
			r = utf8.RuneError
		}
		return utf8.AppendRune(out, r), 6
	}
	return out, 0
}

func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	r := rune(0)
	for _, c := range b[:4] {
		d := hexDigit(c)
		if d < 0 {
			return -1
		}
		r = r<<4 | rune(d)
	}
	return r
}

// integer reads a number that is one.
func (l *lexer) integer() (int64, error) {
	l.peek()
	start, neg := l.i, false
	if l.i < len(l.b) && l.b[l.i] == '-' {
		neg = true
		l.i++
	}
	v, digits := int64(0), 0
	for l.i < len(l.b) && l.b[l.i] >= '0' && l.b[l.i] <= '9' {
		v = v*10 + int64(l.b[l.i]-'0')
		l.i++
		if digits++; digits > 18 {
			return 0, l.fail("a smaller number")
		}
	}
	if digits == 0 || l.i < len(l.b) && (l.b[l.i] == '.' || l.b[l.i]|0x20 == 'e') {
		l.i = start
		return 0, l.fail("an integer")
	}
	if neg {
		v = -v
	}
	return v, nil
}

// raw skips a value and returns its text, which need not be valid JSON in
// detail.
func (l *lexer) raw() ([]byte, error) {
	c := l.peek()
	start := l.i
	var err error
	switch {
	case c == '{':
		err = l.object(func([]byte) error { _, err := l.raw(); return err })
	case c == '[':
		err = l.array(func() error { _, err := l.raw(); return err })
	case c == '"':
		_, err = l.str()
	default:
		for l.i < len(l.b) && (l.b[l.i] >= '0' && l.b[l.i] <= '9' || l.b[l.i]|0x20 >= 'a' && l.b[l.i]|0x20 <= 'z' ||
			l.b[l.i] == '-' || l.b[l.i] == '+' || l.b[l.i] == '.') {
			l.i++
		}
		if l.i == start {
			err = l.fail("a value")
		}
	}
	return l.b[start:l.i], err
}
