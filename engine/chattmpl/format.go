package chattmpl

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formatSpec is what stands between the percent sign and the letter.
type formatSpec struct {
	left, zero, plus, space, alt bool
	width, prec                  int // prec is -1 if absent
}

const maxFormatWidth = 10_000

// percent is Python's `format % arguments`. A tuple gives several arguments, a
// mapping named ones.
func (ev *eval) percent(f text, arg value) value {
	ev.charge(len(f.s))
	tuple := []value{arg}
	if l, ok := arg.(*list); ok && l.tuple {
		tuple = l.items
	}
	used := 0
	next := func() value {
		if used >= len(tuple) {
			ev.fail("format string wants more than %d arguments", len(tuple))
		}
		used++
		return tuple[used-1]
	}
	_, mapping := arg.(*dict)
	var b textBuilder
	for at := 0; at < len(f.s); {
		n := strings.IndexByte(f.s[at:], '%')
		if n < 0 {
			b.writeText(f.slice(at, len(f.s)))
			break
		}
		b.writeText(f.slice(at, at+n))
		at += n + 1
		ev.step(8)
		var spec formatSpec
		var key string
		var named bool
		at, key, named = ev.formatKey(f.s, at)
		at, spec = ev.formatSpec(f.s, at, next)
		if at >= len(f.s) {
			ev.fail("format string ends in the middle of a directive")
		}
		verb := f.s[at]
		at++
		if verb == '%' {
			b.write("%", f.userAt(at-1))
			continue
		}
		var v value
		if named {
			d, ok := arg.(*dict)
			if !ok {
				ev.fail("format string wants a mapping")
			}
			if v, ok = d.getString(key); !ok {
				ev.fail("format string names a key that is not there")
			}
		} else {
			v = next()
		}
		t := ev.formatOne(verb, spec, v)
		ev.charge(len(t.s))
		b.writeText(t)
	}
	if used < len(tuple) && !mapping {
		ev.fail("not all arguments were used by the format string")
	}
	return b.text()
}

func (ev *eval) formatKey(s string, at int) (int, string, bool) {
	if at >= len(s) || s[at] != '(' {
		return at, "", false
	}
	end := strings.IndexByte(s[at:], ')')
	if end < 0 {
		ev.fail("format key is not closed")
	}
	return at + end + 1, s[at+1 : at+end], true
}

func (ev *eval) formatSpec(s string, at int, next func() value) (int, formatSpec) {
	f := formatSpec{prec: -1}
flags:
	for ; at < len(s); at++ {
		switch s[at] {
		case '-':
			f.left = true
		case '0':
			f.zero = true
		case '+':
			f.plus = true
		case ' ':
			f.space = true
		case '#':
			f.alt = true
		default:
			break flags
		}
	}
	num := func() int {
		if at < len(s) && s[at] == '*' {
			at++
			i, _, isInt, ok := number(next())
			if !ok || !isInt || i < -maxFormatWidth || i > maxFormatWidth {
				ev.fail("format width is out of range")
			}
			return int(i)
		}
		n := 0
		for ; at < len(s) && s[at] >= '0' && s[at] <= '9'; at++ {
			if n = n*10 + int(s[at]-'0'); n > maxFormatWidth {
				ev.fail("format width is over %d", maxFormatWidth)
			}
		}
		return n
	}
	if f.width = num(); f.width < 0 {
		f.width, f.left = -f.width, true
	}
	if at < len(s) && s[at] == '.' {
		at++
		f.prec = max(num(), 0)
	}
	for at < len(s) && strings.IndexByte("hlL", s[at]) >= 0 {
		at++
	}
	return at, f
}

func (ev *eval) formatOne(verb byte, f formatSpec, v value) text {
	switch verb {
	case 's', 'r', 'a':
		t := ev.str(v)
		if verb != 's' {
			var b textBuilder
			ev.repr(&b, v, 0, false)
			t = b.text()
		}
		if f.prec >= 0 && f.prec < runeCount(t.s) {
			t = t.slice(0, byteOffset(t.s, f.prec))
		}
		return pad(t, f.width, f.left)
	case 'c':
		if t, ok := v.(text); ok && runeCount(t.s) == 1 {
			return pad(t, f.width, f.left)
		}
		if i, _, isInt, ok := number(v); ok && isInt && i >= 0 && i <= utf8.MaxRune {
			return pad(own(string(rune(i))), f.width, f.left)
		}
		ev.fail("%%c wants a character")
	}
	i, x, isInt, ok := number(v)
	if !ok {
		ev.fail("%%%c wants a number, got %s", verb, typeName(v))
	}
	s := ""
	switch verb {
	case 'd', 'i', 'u':
		if !isInt {
			if math.IsNaN(x) || math.Abs(x) >= 1<<63 {
				ev.fail("cannot convert the number to an integer")
			}
			i = int64(x)
		}
		s = strconv.FormatInt(i, 10)
		if d := len(strings.TrimPrefix(s, "-")); f.prec > d {
			s = strings.Replace(s, strings.TrimPrefix(s, "-"), strings.Repeat("0", f.prec-d)+strings.TrimPrefix(s, "-"), 1)
		}
	case 'x', 'X', 'o':
		if !isInt {
			ev.fail("%%%c wants an integer", verb)
		}
		s = ev.radix(verb, f.alt, i)
	case 'f', 'F', 'e', 'E', 'g', 'G':
		prec := f.prec
		if prec < 0 {
			prec = 6
		}
		s = formatFixed(verb, x, prec)
	default:
		ev.fail("format letter %q is not supported", verb)
	}
	return own(signPad(s, f))
}

func (ev *eval) radix(verb byte, alt bool, i int64) string {
	base, prefix := 16, "0x"
	if verb == 'o' {
		base, prefix = 8, "0o"
	}
	s := strconv.FormatInt(i, base)
	if alt {
		if i < 0 {
			s = "-" + prefix + s[1:]
		} else {
			s = prefix + s
		}
	}
	if verb == 'X' {
		s = strings.ToUpper(s)
	}
	return s
}

func formatFixed(verb byte, x float64, prec int) string {
	var s string
	switch {
	case math.IsInf(x, 0) || x != x:
		s = formatFloat(x)
	case verb|0x20 == 'g':
		s = formatGeneral(x, max(prec, 1))
	default:
		s = strconv.FormatFloat(x, verb|0x20, prec, 64)
	}
	if verb < 'a' {
		s = strings.ToUpper(s)
	}
	return s
}

// formatGeneral is C's %g: prec significant digits, trailing zeros dropped.
func formatGeneral(x float64, prec int) string {
	e := strconv.FormatFloat(x, 'e', prec-1, 64)
	at := strings.IndexByte(e, 'e')
	exp, _ := strconv.Atoi(e[at+1:])
	if exp < -4 || exp >= prec {
		m := e[:at]
		if strings.Contains(m, ".") {
			m = strings.TrimRight(strings.TrimRight(m, "0"), ".")
		}
		return m + e[at:]
	}
	s := strconv.FormatFloat(x, 'f', prec-1-exp, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func signPad(s string, f formatSpec) string {
	sign := ""
	switch {
	case strings.HasPrefix(s, "-"):
		sign, s = "-", s[1:]
	case f.plus:
		sign = "+"
	case f.space:
		sign = " "
	}
	n := f.width - len(sign) - len(s)
	switch {
	case n <= 0:
		return sign + s
	case f.left:
		return sign + s + strings.Repeat(" ", n)
	case f.zero:
		return sign + strings.Repeat("0", n) + s
	}
	return strings.Repeat(" ", n) + sign + s
}

// pad fills t with spaces to width code points.
func pad(t text, width int, left bool) text {
	n := width - runeCount(t.s)
	if n <= 0 {
		return t
	}
	var b textBuilder
	if !left {
		b.write(strings.Repeat(" ", n), false)
	}
	b.writeText(t)
	if left {
		b.write(strings.Repeat(" ", n), false)
	}
	return b.text()
}
