package chattmpl

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// formatFloat is Python's repr of a float.
func formatFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case f != f:
		return "nan"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	at := strings.IndexByte(s, 'e')
	exp, _ := strconv.Atoi(s[at+1:])
	if exp < -4 || exp >= 16 {
		mantissa, sign := s[:at], s[at+1]
		digits := s[at+2:]
		return mantissa + "e" + string(sign) + digits
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// str is Python's str().
func (ev *eval) str(v value) text {
	switch v := v.(type) {
	case text:
		return v
	case undefined:
		return text{}
	case none:
		return own("None")
	case bool:
		if v {
			return own("True")
		}
		return own("False")
	case int64:
		return own(strconv.FormatInt(v, 10))
	case *big.Int:
		return own(v.String())
	case float64:
		return own(formatFloat(v))
	}
	var b textBuilder
	ev.repr(&b, v, 0, false)
	ev.charge(len(b.b))
	return b.text()
}

// repr appends Python's repr(). What stands inside a container that came with
// the request counts as user text, its punctuation too.
func (ev *eval) repr(b *textBuilder, v value, depth int, user bool) {
	ev.step(1)
	if depth > maxParseDepth {
		ev.fail("value is nested deeper than %d", maxParseDepth)
	}
	switch v := v.(type) {
	case text:
		reprText(b, v)
		ev.step(len(v.s) / bytesPerStep)
	case undefined:
		b.write("Undefined", user)
	case *list:
		open, end := "[", "]"
		if v.tuple {
			open, end = "(", ")"
			if len(v.items) == 1 {
				end = ",)"
			}
		}
		b.write(open, v.user)
		for i, e := range v.items {
			if i > 0 {
				b.write(", ", v.user)
			}
			ev.repr(b, e, depth+1, v.user)
		}
		b.write(end, v.user)
	case *dict:
		b.write("{", v.user)
		for i, k := range v.keys {
			if i > 0 {
				b.write(", ", v.user)
			}
			ev.repr(b, k, depth+1, v.user)
			b.write(": ", v.user)
			ev.repr(b, v.vals[i], depth+1, v.user)
		}
		b.write("}", v.user)
	case *namespace:
		b.write("<Namespace ", false)
		ev.repr(b, v.vars, depth+1, user)
		b.write(">", false)
	case *macro:
		b.write("<Macro "+v.node.name+">", false)
	case *function:
		b.write("<function "+v.name+">", false)
	case *loopState:
		b.write("<LoopContext>", false)
	default:
		b.write(ev.str(v).s, user) // a scalar
	}
	ev.room(len(b.b))
}

// reprText quotes as Python does: single quotes unless only they occur inside.
func reprText(b *textBuilder, t text) {
	quote := "'"
	if strings.Contains(t.s, "'") && !strings.Contains(t.s, `"`) {
		quote = `"`
	}
	b.write(quote, t.user)
	last := t.user
	t.eachRune(func(r rune, w int, user bool) {
		last = user
		switch {
		case r == utf8.RuneError && w == 1:
			b.writeRune(utf8.RuneError, user)
		case string(r) == quote || r == '\\':
			b.write(`\`+string(r), user)
		case r == '\n':
			b.write(`\n`, user)
		case r == '\r':
			b.write(`\r`, user)
		case r == '\t':
			b.write(`\t`, user)
		case unicode.IsPrint(r):
			b.writeRune(r, user)
		case r < 0x100:
			b.write(`\x`+hex(r, 2), user)
		case r < 0x10000:
			b.write(`\u`+hex(r, 4), user)
		default:
			b.write(`\U`+hex(r, 8), user)
		}
	})
	b.write(quote, last)
}

func hex(r rune, width int) string {
	s := strconv.FormatInt(int64(r), 16)
	for len(s) < width {
		s = "0" + s
	}
	return s
}
