package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// graphemeJoiner is put by x/text after 30 combining marks in a row (the
// Stream-Safe Text Format of UAX #15, section 13), which no tokenizer does.
const graphemeJoiner = "\u034f"

// normForm normalizes to one of the four forms of UAX #15.
func normForm(f norm.Form) normStep {
	return func(s string, _ bool) string {
		if f.QuickSpanString(s) == len(s) {
			return s
		}
		out := f.String(s)
		if strings.Count(out, graphemeJoiner) == strings.Count(s, graphemeJoiner) {
			return out
		}
		return normLong(f, s)
	}
}

// mark is a character with its canonical combining class.
type mark struct {
	r   rune
	ccc uint8
}

// normLong normalizes text with any number of combining marks in a row.
func normLong(f norm.Form, s string) string {
	decompose := norm.NFD
	if f == norm.NFKC || f == norm.NFKD {
		decompose = norm.NFKD
	}
	var marks []mark
	var buf []byte
	for _, r := range s {
		buf = decompose.AppendString(buf[:0], string(r))
		for i := 0; i < len(buf); {
			d, n := utf8.DecodeRune(buf[i:])
			marks = append(marks, mark{d, decompose.Properties(buf[i:]).CCC()})
			i += n
		}
	}
	orderMarks(marks)
	if f == norm.NFC || f == norm.NFKC {
		marks = compose(marks)
	}
	var b strings.Builder
	for _, m := range marks {
		b.WriteRune(m.r)
	}
	return b.String()
}

// orderMarks sorts each run of combining marks by class, keeping equals.
func orderMarks(marks []mark) {
	for i := 0; i < len(marks); {
		j := i
		for j < len(marks) && marks[j].ccc != 0 {
			j++
		}
		slices.SortStableFunc(marks[i:j], func(a, b mark) int { return int(a.ccc) - int(b.ccc) })
		i = j + 1
	}
}

// compose joins each starter with the characters after it that are not blocked
// from it (UAX #15, D117).
func compose(marks []mark) []mark {
	out := marks[:0]
	starter := -1
	last := uint8(0) // class of the last character kept after the starter
	for _, m := range marks {
		adjacent := starter == len(out)-1
		if starter >= 0 && (adjacent || last != 0 && last < m.ccc) {
			if r, ok := composePair(out[starter].r, m.r); ok {
				out[starter].r = r
				continue
			}
		}
		out = append(out, m)
		last = m.ccc
		if m.ccc == 0 {
			starter = len(out) - 1
		}
	}
	return out
}

// composePair finds the character that two canonically compose to.
func composePair(a, b rune) (rune, bool) {
	var buf [2 * utf8.UTFMax]byte
	var out [4 * utf8.UTFMax]byte
	pair := utf8.AppendRune(utf8.AppendRune(buf[:0], a), b)
	both := norm.NFC.Append(out[:0], pair...)
	r, n := utf8.DecodeRune(both)
	return r, n == len(both)
}
