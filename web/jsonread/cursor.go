package jsonread

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// maxCursorDepth bounds the nesting that a Cursor walks into.
const maxCursorDepth = 128

// Cursor walks a JSON text once, front to back, and checks it on the way. It is
// for what providers send, many small texts of which little is wanted: it builds
// nothing and takes what Parse would refuse but every client takes (a name twice,
// half a surrogate pair, an escape that is none, bytes that are not UTF-8, which
// stay as they are). The zero Cursor walks nothing; see Reset.
//
//	for c.Object(); c.More(); {
//		switch key := c.Key(); string(key) {
//		case "text": text = c.Str()
//		default: c.Skip()
//		}
//	}
//	if !c.OK() { … }
//
// Once something is wrong, More is false and every value is empty.
type Cursor struct {
	b     []byte
	i     int
	bad   bool
	depth int
	first bool // nothing of the innermost container has been read
	open  [maxCursorDepth]byte
}

// Reset begins at the front of b, which must not change while it is walked.
func (c *Cursor) Reset(b []byte) { c.b, c.i, c.bad, c.depth = b, 0, false, 0 }

// OK tells whether what was walked is well-formed.
func (c *Cursor) OK() bool { return !c.bad }

// End tells whether the text was well-formed and nothing is left of it.
func (c *Cursor) End() bool {
	c.space()
	return !c.bad && c.depth == 0 && c.i == len(c.b)
}

func (c *Cursor) space() {
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return
		}
	}
}

// peek is the first byte of the next value, 0 at the end.
func (c *Cursor) peek() byte {
	c.space()
	if c.bad || c.i >= len(c.b) {
		return 0
	}
	return c.b[c.i]
}

// Kind tells the type of the next value; ok is false where there is none.
func (c *Cursor) Kind() (k Kind, ok bool) {
	switch ch := c.peek(); {
	case ch == '{':
		return Object, true
	case ch == '[':
		return Array, true
	case ch == '"':
		return String, true
	case ch == 't' || ch == 'f':
		return Bool, true
	case ch == 'n':
		return Null, true
	case ch == '-' || '0' <= ch && ch <= '9':
		return Number, true
	}
	return Null, false
}

// Object enters an object, Array an array. A value of another type is skipped,
// and the container is as if empty: More is false at once. wrong kinds are for
// the caller to notice with Kind.
func (c *Cursor) Object() bool { return c.enter('{') }

// Array enters an array; see Object.
func (c *Cursor) Array() bool { return c.enter('[') }

func (c *Cursor) enter(ch byte) bool {
	if c.peek() != ch || c.depth == maxCursorDepth {
		if c.depth == maxCursorDepth {
			c.bad = true
		}
		c.Skip()
		return false
	}
	c.i++
	c.open[c.depth] = ch
	c.depth++
	c.first = true
	return true
}

// More tells whether the container entered last holds another member or item,
// and leaves it if not. Call it only after Object or Array was true.
func (c *Cursor) More() bool {
	if c.bad || c.depth == 0 {
		return false
	}
	ch := c.peek()
	end := c.open[c.depth-1] + 2 // '{' and '}', '[' and ']' are two apart
	switch {
	case ch == end:
		c.i++
		c.depth--
		c.first = false
		return false
	case c.first:
		c.first = false
	case ch == ',':
		c.i++
	default:
		c.bad = true
		return false
	}
	if c.peek() == 0 {
		c.bad = true
	}
	return !c.bad
}

// Key is the name of the next member, escapes and all, without its quotes.
func (c *Cursor) Key() []byte {
	raw := c.text()
	if c.peek() != ':' {
		c.bad = true
		return nil
	}
	c.i++
	return raw
}

// text is the inside of the string that comes next.
func (c *Cursor) text() []byte {
	if c.peek() != '"' {
		c.bad = true
		return nil
	}
	c.i++
	start := c.i
	for c.i < len(c.b) {
		if plain[c.b[c.i]] || c.b[c.i] >= 0x80 {
			c.i++
			continue
		}
		switch c.b[c.i] {
		case '"':
			raw := c.b[start:c.i]
			c.i++
			return raw
		case '\\':
			c.i += 2
			continue
		case 0x7f:
			c.i++
			continue
		}
		break
	}
	c.bad = true
	return nil
}

// Text is the next value if it is a string, decoded, and appended to dst; other
// values are skipped and leave dst as it is.
func (c *Cursor) Text(dst []byte) []byte {
	if c.peek() != '"' {
		c.Skip()
		return dst
	}
	raw := c.text()
	if bytes.IndexByte(raw, '\\') < 0 {
		return append(dst, raw...)
	}
	return appendUnescaped(dst, raw)
}

// Str is the next value if it is a string, decoded; empty if it is none.
func (c *Cursor) Str() string {
	if c.peek() != '"' {
		c.Skip()
		return ""
	}
	raw := c.text()
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	return string(appendUnescaped(make([]byte, 0, len(raw)), raw))
}

// Int is the next value if it is a whole number, at most 2^53 either way.
func (c *Cursor) Int() (n int64, ok bool) {
	k, have := c.Kind()
	raw := c.Raw()
	if !have || k != Number {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || f != float64(int64(f)) {
			return 0, false
		}
		n = int64(f)
	}
	if n > 1<<53 || n < -1<<53 {
		return 0, false
	}
	return n, true
}

// Float is the next value if it is a number.
func (c *Cursor) Float() (f float64, ok bool) {
	k, have := c.Kind()
	raw := c.Raw()
	if !have || k != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil
}

// True tells whether the next value is true.
func (c *Cursor) True() bool { return string(c.Raw()) == "true" }

// Raw is the exact text of the next value, which is checked and skipped.
func (c *Cursor) Raw() []byte {
	c.space()
	start := c.i
	c.Skip()
	if c.bad {
		return nil
	}
	return c.b[start:c.i]
}

// Offset is where the walk has come to: behind the value that was read last.
func (c *Cursor) Offset() int { return c.i }

// Unescape decodes the inside of a string, as Key gives it.
func Unescape(raw []byte) string { return string(appendUnescaped(nil, raw)) }

// Skip passes over the next value.
func (c *Cursor) Skip() {
	switch ch := c.peek(); {
	case ch == '"':
		c.text()
	case ch == '{' || ch == '[':
		c.skipContainer(ch)
	case ch == 't':
		c.word("true")
	case ch == 'f':
		c.word("false")
	case ch == 'n':
		c.word("null")
	case ch == '-' || '0' <= ch && ch <= '9':
		s := scanner{b: c.b, i: c.i}
		if s.number() != nil {
			c.bad = true
		}
		c.i = s.i
	default:
		c.bad = true
	}
}

func (c *Cursor) skipContainer(ch byte) {
	base, first := c.depth, c.first
	if c.depth == maxCursorDepth {
		c.bad = true
		return
	}
	for c.enter(ch); c.depth > base && !c.bad; {
		if !c.More() {
			continue
		}
		if c.open[c.depth-1] == '{' {
			c.Key()
		}
		if ch := c.peek(); ch == '{' || ch == '[' {
			if c.depth == maxCursorDepth {
				c.bad = true
				return
			}
			c.enter(ch)
			continue
		}
		c.Skip()
	}
	c.first = first
}

func (c *Cursor) word(w string) {
	if !bytes.HasPrefix(c.b[c.i:], []byte(w)) {
		c.bad = true
		return
	}
	c.i += len(w)
}

// appendUnescaped decodes the inside of a string that need not be right: what
// cannot be decoded becomes U+FFFD.
func appendUnescaped(dst, in []byte) []byte {
	for i := 0; i < len(in); {
		c := in[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		if i+1 == len(in) {
			return utf8.AppendRune(dst, utf8.RuneError)
		}
		switch c := in[i+1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, ok := hex4(in[i:])
			if !ok {
				dst = utf8.AppendRune(dst, utf8.RuneError)
				break
			}
			i += 4
			if r >= 0xd800 && r < 0xdc00 {
				if low, ok := hex4(in[i+2:]); ok && low >= 0xdc00 && low < 0xe000 {
					r = (r-0xd800)<<10 | (low - 0xdc00) + 0x10000
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r) // half a pair becomes U+FFFD
		default:
			dst = append(dst, c)
		}
		i += 2
	}
	return dst
}
