package grammar

import (
	"fmt"
	"unicode/utf8"
)

// byteRange is the bytes lo to hi, both included.
type byteRange struct{ lo, hi byte }

// byteSeq is one way to write a code point of some set: a byte of each range in
// turn, after which the program goes on at next.
type byteSeq struct {
	r    []byteRange
	next int32
}

// utf8Seqs appends the UTF-8 forms of the code points in set. Each result
// covers a full product of byte ranges (Unicode 15, table 3-7).
func utf8Seqs(dst []byteSeq, set runeSet, next int32) []byteSeq {
	for _, r := range set {
		dst = splitUTF8(dst, r.lo, r.hi, next)
	}
	return dst
}

func splitUTF8(dst []byteSeq, lo, hi rune, next int32) []byteSeq {
	for _, edge := range []rune{0x7F, 0x7FF, 0xFFFF} {
		if lo <= edge && hi > edge {
			dst = splitUTF8(dst, lo, edge, next)
			return splitUTF8(dst, edge+1, hi, next)
		}
	}
	// Split until only trailing bytes that run over all of 80-BF differ.
	for i := 1; i < utf8.RuneLen(hi); i++ {
		m := rune(1)<<(6*i) - 1
		if lo&^m == hi&^m {
			continue
		}
		if lo&m != 0 {
			dst = splitUTF8(dst, lo, lo|m, next)
			return splitUTF8(dst, (lo|m)+1, hi, next)
		}
		if hi&m != m {
			dst = splitUTF8(dst, lo, (hi&^m)-1, next)
			return splitUTF8(dst, hi&^m, hi, next)
		}
	}
	var a, b [utf8.UTFMax]byte
	n := utf8.EncodeRune(a[:], lo)
	utf8.EncodeRune(b[:], hi)
	s := byteSeq{next: next, r: make([]byteRange, n)}
	for i := range s.r {
		s.r[i] = byteRange{a[i], b[i]}
	}
	return append(dst, s)
}

// encoding says how code points are written in the text.
type encoding uint8

const (
	rawText  encoding = iota // as UTF-8
	jsonText                 // inside a JSON string, in the shortest form (RFC 8259 §7)
	jsonFree                 // any character inside a JSON string, with every escape that the RFC has
)

var (
	jsonShort   = map[rune]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}
	jsonEscaped = newRuneSet([]runeRange{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}})
	jsonPlain   = jsonEscaped.negate()
)

// encode appends the byte forms of the code points in set (jsonFree has more of
// them, see lowerer.emitFreeChar).
func (e encoding) encode(dst []byteSeq, set runeSet, next int32) []byteSeq {
	if e == rawText {
		return utf8Seqs(dst, set, next)
	}
	dst = utf8Seqs(dst, set.intersect(jsonPlain), next)
	for _, r := range set.intersect(jsonEscaped) {
		for c := r.lo; c <= r.hi; c++ {
			dst = append(dst, byteSeq{seqOf(jsonForm(c)), next})
		}
	}
	return dst
}

// jsonForm is the canonical spelling of r inside a JSON string.
func jsonForm(r rune) string {
	if b, ok := jsonShort[r]; ok {
		return string([]byte{'\\', b})
	}
	if r < 0x20 {
		return fmt.Sprintf(`\u%04x`, r)
	}
	return string(r)
}

// jsonQuote is s as a JSON string in its canonical spelling.
func jsonQuote(s string) string {
	b := make([]byte, 0, len(s)+2)
	b = append(b, '"')
	for _, r := range s {
		if r >= 0x20 && r != '"' && r != '\\' {
			b = utf8.AppendRune(b, r)
			continue
		}
		b = append(b, jsonForm(r)...)
	}
	return string(append(b, '"'))
}

func seqOf(s string) []byteRange {
	out := make([]byteRange, 0, len(s)+8)
	for i := 0; i < len(s); i++ {
		out = append(out, byteRange{s[i], s[i]})
	}
	return out
}

func upper(r byteRange) byteRange { return byteRange{r.lo - 'a' + 'A', r.hi - 'a' + 'A'} }

// hexRange is the digits a to b in both cases.
func hexRange(a, b byte) []byteRange {
	var out []byteRange
	if a <= 9 {
		out = append(out, byteRange{'0' + a, '0' + min(b, 9)})
	}
	if b > 9 {
		r := byteRange{'a' + max(a, 10) - 10, 'a' + b - 10}
		out = append(out, r, upper(r))
	}
	return out
}
