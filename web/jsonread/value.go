// Package jsonread reads request bodies. It is stricter than encoding/json: the
// text is one value of bounded depth, without duplicate names, in valid UTF-8,
// with whole surrogate pairs and nothing behind it. Every complaint is an
// *infer.Error that names the field by its path and never quotes the text.
//
// Parse checks the whole text once and builds no tree; a Value is a window on
// the body that is walked on demand, so that memory stays near the body's size
// whatever the body holds.
package jsonread

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"hearth/engine/infer"
)

// Kind is the type of a Value.
type Kind uint8

const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// String names the kind with its article, as error texts use it.
func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// Value is a checked piece of a body. It aliases the body, which must not
// change while the Value lives. The zero Value is not valid.
type Value struct {
	raw  []byte
	path *path
}

// path is the way from the root to a value, kept as a list so that its text is
// made only for errors.
type path struct {
	up    *path
	key   string
	index int // of an array item; -1 for a member
}

// Parse checks body and returns its root.
func Parse(body []byte, lim Limits) (Value, error) {
	if err := check(body, lim); err != nil {
		return Value{}, err
	}
	return Value{raw: bytes.Trim(body, " \t\r\n")}, nil
}

// Raw is the exact text of the value. It aliases the body.
func (v Value) Raw() []byte { return v.raw }

// Clone is a copy of the exact text.
func (v Value) Clone() []byte { return bytes.Clone(v.raw) }

// Kind tells the type.
func (v Value) Kind() Kind {
	switch v.raw[0] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	}
	return Number
}

// IsNull tells whether the value is null.
func (v Value) IsNull() bool { return v.raw[0] == 'n' }

// Path is the name of the field as the dialects write it: messages[2].content.
func (v Value) Path() string {
	var keys []*path
	for p := v.path; p != nil; p = p.up {
		keys = append(keys, p)
	}
	var b strings.Builder
	for i := len(keys) - 1; i >= 0; i-- {
		if p := keys[i]; p.index >= 0 {
			b.WriteByte('[')
			b.WriteString(strconv.Itoa(p.index))
			b.WriteByte(']')
		} else {
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(Shorten(p.key, 64))
		}
	}
	return b.String()
}

// Errorf makes an error about this field.
func (v Value) Errorf(format string, args ...any) *infer.Error {
	return infer.Invalid(v.Path(), format, args...)
}

// Unsupported makes an error that says this field or value is not offered.
func (v Value) Unsupported(format string, args ...any) *infer.Error {
	return infer.Unsupported(v.Path(), format, args...)
}

// Unknown is the error for a field that nobody knows.
func (v Value) Unknown() *infer.Error {
	return v.Errorf("unknown field %q", v.Path())
}

// wrong is the error for a value of the wrong type or range. Numbers and
// booleans are shown; strings are not, as they may be content.
func (v Value) wrong(wanted string) *infer.Error {
	got := v.Kind().String()
	if k := v.Kind(); k == Number || k == Bool {
		got = Shorten(string(v.raw), 32)
	}
	name := v.Path()
	if name == "" {
		name = "the body"
	}
	return v.Errorf("cannot use %s: got %s, wanted %s", name, got, wanted)
}

// Wrong is the error for a value that is not what wanted describes.
func (v Value) Wrong(wanted string) *infer.Error { return v.wrong(wanted) }

// Str is the decoded string.
func (v Value) Str() (string, error) {
	if v.Kind() != String {
		return "", v.wrong("a string")
	}
	in := v.raw[1 : len(v.raw)-1]
	if bytes.IndexByte(in, '\\') < 0 {
		return string(in), nil
	}
	return unescape(in), nil
}

// Bool is the truth value.
func (v Value) Bool() (bool, error) {
	if v.Kind() != Bool {
		return false, v.wrong("true or false")
	}
	return v.raw[0] == 't', nil
}

// Int is a whole number of lo to hi. 3.0 and 3e2 are whole.
func (v Value) Int(lo, hi int64) (int64, error) {
	wanted := "a whole number"
	switch {
	case hi == math.MaxInt64 && lo == math.MinInt64:
	case hi >= math.MaxInt32:
		wanted += " of " + strconv.FormatInt(lo, 10) + " or more"
	default:
		wanted += " from " + strconv.FormatInt(lo, 10) + " to " + strconv.FormatInt(hi, 10)
	}
	if v.Kind() != Number {
		return 0, v.wrong(wanted)
	}
	n, err := strconv.ParseInt(string(v.raw), 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(string(v.raw), 64)
		// Beyond 2^53 a float no longer tells which whole number was meant.
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return 0, v.wrong(wanted)
		}
		n = int64(f)
	}
	if n < lo || n > hi {
		return 0, v.wrong(wanted)
	}
	return n, nil
}

// Float is a finite number of lo to hi, both included.
func (v Value) Float(lo, hi float64) (float64, error) {
	wanted := "a number from " + strconv.FormatFloat(lo, 'g', -1, 64) + " to " + strconv.FormatFloat(hi, 'g', -1, 64)
	if v.Kind() != Number {
		return 0, v.wrong(wanted)
	}
	f, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil || f < lo || f > hi {
		return 0, v.wrong(wanted)
	}
	return f, nil
}

// Enum is a string out of a list.
func (v Value) Enum(words ...string) (string, error) {
	s, err := v.Str()
	if err != nil {
		return "", v.wrong("one of " + strings.Join(words, ", "))
	}
	for _, w := range words {
		if s == w {
			return s, nil
		}
	}
	return "", v.Errorf("cannot use %s: got %q, wanted one of %s", v.Path(), Shorten(s, 40), strings.Join(words, ", "))
}

// Members calls f for each member of an object, in order.
func (v Value) Members(f func(key string, m Value) error) error {
	if v.Kind() != Object {
		return v.wrong("an object")
	}
	b := v.raw
	for i := skipSpace(b, 1); b[i] != '}'; {
		end := skipString(b, i)
		key := b[i+1 : end-1]
		name := string(key)
		if bytes.IndexByte(key, '\\') >= 0 {
			name = unescape(key)
		}
		i = skipSpace(b, skipSpace(b, end)+1)
		end = skipValue(b, i)
		if err := f(name, Value{b[i:end], &path{v.path, name, -1}}); err != nil {
			return err
		}
		if i = skipSpace(b, end); b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return nil
}

// Get returns a member of an object.
func (v Value) Get(key string) (found Value, ok bool) {
	if v.Kind() != Object {
		return Value{}, false
	}
	v.Members(func(k string, m Value) error {
		if k == key {
			found, ok = m, true
		}
		return nil
	})
	return found, ok
}

// items walks an array without making paths.
func (v Value) items(f func(i int, raw []byte) error) error {
	b := v.raw
	n := 0
	for i := skipSpace(b, 1); b[i] != ']'; n++ {
		end := skipValue(b, i)
		if err := f(n, b[i:end]); err != nil {
			return err
		}
		if i = skipSpace(b, end); b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return nil
}

// Items calls f for each item of an array of at most max items.
func (v Value) Items(max int, f func(i int, m Value) error) error {
	if v.Kind() != Array {
		return v.wrong("an array")
	}
	return v.items(func(i int, raw []byte) error {
		if i == max {
			return v.Errorf("cannot use %s: got more than %d items", v.Path(), max)
		}
		return f(i, Value{raw, &path{v.path, "", i}})
	})
}

// Empty tells whether an array or object holds nothing.
func (v Value) Empty() bool {
	c := v.raw[skipSpace(v.raw, 1)]
	return c == ']' || c == '}'
}

// First is the first item of an array that has one.
func (v Value) First() Value {
	i := skipSpace(v.raw, 1)
	return Value{v.raw[i:skipValue(v.raw, i)], &path{v.path, "", 0}}
}

// Int32s is an array of whole numbers of lo to hi, at most max of them.
func (v Value) Int32s(max int, lo, hi int32) ([]int32, error) {
	if v.Kind() != Array {
		return nil, v.wrong("an array of whole numbers")
	}
	out := make([]int32, 0, min(max, bytes.Count(v.raw, []byte{','})+1))
	err := v.items(func(i int, raw []byte) error {
		if i == max {
			return v.Errorf("cannot use %s: got more than %d items", v.Path(), max)
		}
		n, err := Value{raw, nil}.Int(int64(lo), int64(hi))
		if err != nil {
			_, err = Value{raw, &path{v.path, "", i}}.Int(int64(lo), int64(hi))
			return err
		}
		out = append(out, int32(n))
		return nil
	})
	return out, err
}

// Strings is an array of strings, at most max of them.
func (v Value) Strings(max int) ([]string, error) {
	var out []string
	err := v.Items(max, func(_ int, m Value) error {
		s, err := m.Str()
		out = append(out, s)
		return err
	})
	return out, err
}

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r' {
		i++
	}
	return i
}

// skipString returns the offset behind the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; ; i++ {
		i += bytes.IndexByte(b[i:], '"')
		// A quote is escaped by an odd number of backslashes. The search for
		// them ends at the quote that opens the string, at the latest.
		n := 0
		for b[i-1-n] == '\\' {
			n++
		}
		if n&1 == 0 {
			return i + 1
		}
	}
}

// skipValue returns the offset behind the value that begins at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
				if depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(b) {
		switch b[i] {
		case ',', ']', '}', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

// unescape decodes the inside of a checked string.
func unescape(in []byte) string {
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		j := bytes.IndexByte(in[i:], '\\')
		if j < 0 {
			out = append(out, in[i:]...)
			break
		}
		out = append(out, in[i:i+j]...)
		i += j
		switch c := in[i+1]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, _ := hex4(in[i:])
			if r >= 0xd800 && r < 0xdc00 {
				low, _ := hex4(in[i+6:])
				r = (r-0xd800)<<10 | (low - 0xdc00) + 0x10000
				i += 6
			}
			out = utf8.AppendRune(out, r)
			i += 4
		default:
			out = append(out, c)
		}
		i += 2
	}
	return string(out)
}

// Shorten cuts s to at most n bytes, at a character border.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
