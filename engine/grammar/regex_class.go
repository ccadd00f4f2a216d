package grammar

import (
	"strconv"
	"strings"
	"unicode"
)

func itoa(n int) string { return strconv.Itoa(n) }

// class reads a bracket expression after its [.
func (p *reParser) class(at int) (runeSet, error) {
	negated := p.eat("^")
	var rs []runeRange
	for !p.eat("]") {
		if !p.more() {
			return nil, p.fault(at, "[ is not closed")
		}
		lo, set, err := p.classItem()
		if err != nil {
			return nil, err
		}
		if set != nil || !p.is("-") || p.is("-]") {
			rs = append(rs, set...)
			if set == nil {
				rs = append(rs, runeRange{lo, lo})
			}
			continue
		}
		dash := p.at
		p.at++
		if !p.more() {
			return nil, p.fault(at, "[ is not closed")
		}
		hi, set, err := p.classItem()
		if err != nil {
			return nil, err
		}
		if set != nil {
			return nil, p.fault(dash, "a range that ends in a class")
		}
		if hi < lo {
			return nil, p.fault(dash, "a range whose end is before its beginning")
		}
		rs = append(rs, runeRange{lo, hi})
	}
	s := newRuneSet(rs)
	if negated {
		s = s.negate()
	}
	return s, nil
}

// classItem is one code point, or a set where set is not nil.
func (p *reParser) classItem() (r rune, set runeSet, err error) {
	at := p.at
	if p.is("[:") && strings.Contains(p.s[p.at:], ":]") {
		return 0, nil, p.unsupported(at, "POSIX classes like [:alpha:] are")
	}
	r = p.rune()
	if r != '\\' {
		return r, nil, nil
	}
	if set, err = p.escape(at, true); err != nil {
		return 0, nil, err
	}
	if len(set) == 1 && set[0].lo == set[0].hi {
		return set[0].lo, nil, nil
	}
	return 0, set, nil
}

// escape reads what follows a backslash. A set is never nil without an error.
func (p *reParser) escape(at int, inClass bool) (runeSet, error) {
	if !p.more() {
		return nil, p.fault(at, "the pattern ends in a backslash")
	}
	one := func(r rune) (runeSet, error) { return runeSet{{r, r}}, nil }
	switch r := p.rune(); r {
	case 'd':
		return reDigit, nil
	case 'D':
		return reNotDigit, nil
	case 'w':
		return reWord, nil
	case 'W':
		return reNotWord, nil
	case 's':
		return reSpace, nil
	case 'S':
		return reNotSpace, nil
	case 't':
		return one('\t')
	case 'n':
		return one('\n')
	case 'r':
		return one('\r')
	case 'f':
		return one('\f')
	case 'v':
		return one('\v')
	case '0':
		if p.more() && p.s[p.at] >= '0' && p.s[p.at] <= '9' {
			return nil, p.unsupported(at, "octal escapes are")
		}
		return one(0)
	case 'c':
		if !p.more() || !isLetter(p.s[p.at]) {
			return nil, p.fault(at, "\\c without a letter")
		}
		return one(p.rune() & 31)
	case 'x':
		return p.hex(at, 2)
	case 'u':
		return p.unicodeEscape(at)
	case 'p', 'P':
		return p.property(at, r == 'P')
	case 'b':
		if inClass {
			return one('\b')
		}
		return nil, p.unsupported(at, "the word boundary \\b is")
	case 'B', 'A', 'Z', 'z', 'G', 'K', 'Q', 'E', 'R', 'X':
		return nil, p.unsupported(at, "\\%c is", r)
	case 'k':
		return nil, p.unsupported(at, "back references are")
	default:
		if r >= '1' && r <= '9' {
			return nil, p.unsupported(at, "back references are")
		}
		if r < 0x80 && (isLetter(byte(r))) {
			return nil, p.fault(at, "unknown escape \\%c", r)
		}
		return one(r)
	}
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

func (p *reParser) hexValue(n int) (rune, bool) {
	if p.at+n > len(p.s) {
		return 0, false
	}
	v, err := strconv.ParseUint(p.s[p.at:p.at+n], 16, 32)
	if err != nil || strings.ContainsAny(p.s[p.at:p.at+n], "+-_") {
		return 0, false
	}
	p.at += n
	return rune(v), true
}

func (p *reParser) hex(at, n int) (runeSet, error) {
	v, ok := p.hexValue(n)
	if !ok {
		return nil, p.fault(at, "a hexadecimal escape needs %d digits", n)
	}
	return runeSet{{v, v}}, nil
}

// unicodeEscape reads \u with four hex digits, a surrogate pair of these, or \u{hex}.
func (p *reParser) unicodeEscape(at int) (runeSet, error) {
	if p.eat("{") {
		end := strings.IndexByte(p.s[p.at:], '}')
		if end < 1 || end > 8 {
			return nil, p.fault(at, "\\u{ is not closed")
		}
		v, ok := p.hexValue(end)
		p.at++
		if !ok || v > unicode.MaxRune || v >= 0xD800 && v < 0xE000 {
			return nil, p.fault(at, "\\u{…} names no code point")
		}
		return runeSet{{v, v}}, nil
	}
	v, ok := p.hexValue(4)
	if !ok {
		return nil, p.fault(at, "\\u needs 4 hexadecimal digits")
	}
	if v >= 0xD800 && v < 0xDC00 && p.eat(`\u`) {
		low, ok := p.hexValue(4)
		if !ok || low < 0xDC00 || low > 0xDFFF {
			return nil, p.fault(at, "a surrogate without its pair")
		}
		v = 0x10000 + (v-0xD800)<<10 + (low - 0xDC00)
	}
	if v >= 0xD800 && v < 0xE000 {
		return nil, p.fault(at, "a surrogate without its pair")
	}
	return runeSet{{v, v}}, nil
}

// property reads {Name}, {Name=Value} or a single letter after \p or \P.
func (p *reParser) property(at int, negated bool) (runeSet, error) {
	name := ""
	if p.eat("{") {
		end := strings.IndexByte(p.s[p.at:], '}')
		if end < 1 {
			return nil, p.fault(at, "\\p{ is not closed")
		}
		name = p.s[p.at : p.at+end]
		p.at += end + 1
	} else if p.more() && isLetter(p.s[p.at]) {
		name = string(p.rune())
	}
	kind, value, given := strings.Cut(name, "=")
	if !given {
		kind, value = "", name
	}
	var t *unicode.RangeTable
	switch kind {
	case "", "General_Category", "gc":
		if long := categoryNames[value]; long != "" {
			value = long
		}
		t = unicode.Categories[value]
		if t == nil && kind == "" {
			t = unicode.Properties[value]
			if value == "Alphabetic" {
				return tableSet(unicode.L).union(tableSet(unicode.Nl)).union(tableSet(unicode.Other_Alphabetic)).flip(negated), nil
			}
			if value == "Any" {
				return allRunes.flip(negated), nil
			}
			if value == "ASCII" {
				return runeSet{{0, 0x7F}}.flip(negated), nil
			}
		}
	case "Script", "sc":
		t = unicode.Scripts[value]
	}
	if t == nil {
		return nil, p.fault(at, "unknown Unicode property %q", name)
	}
	return tableSet(t).flip(negated), nil
}

// flip is s or its complement, never nil.
func (s runeSet) flip(negated bool) runeSet {
	if negated {
		s = s.negate()
	}
	if s == nil {
		s = runeSet{}
	}
	return s
}

// categoryNames are the long names of general categories (UAX #44, §5.7.1).
var categoryNames = map[string]string{
	"Letter": "L", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Titlecase_Letter": "Lt",
	"Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Nonspacing_Mark": "Mn",
	"Spacing_Mark": "Mc", "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd",
	"Letter_Number": "Nl", "Other_Number": "No", "Punctuation": "P", "Connector_Punctuation": "Pc",
	"Dash_Punctuation": "Pd", "Open_Punctuation": "Ps", "Close_Punctuation": "Pe",
	"Initial_Punctuation": "Pi", "Final_Punctuation": "Pf", "Other_Punctuation": "Po", "Symbol": "S",
	"Math_Symbol": "Sm", "Currency_Symbol": "Sc", "Modifier_Symbol": "Sk", "Other_Symbol": "So",
	"Separator": "Z", "Space_Separator": "Zs", "Line_Separator": "Zl", "Paragraph_Separator": "Zp",
	"Control": "Cc", "Format": "Cf", "Private_Use": "Co",
}
