// Package jsonwrite appends JSON to byte slices. The stream encoders use it
// where encoding/json would allocate for every token.
package jsonwrite

import (
	"math"
	"strconv"
	"unicode/utf8"
)

const hex = "0123456789abcdef"

// String appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD,
// one for each maximal broken piece as in the WHATWG decoder.
func String(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n != 1 {
				i += n
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\ufffd"...)
			i += broken(s[i:])
			start = i
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// broken is the length of the maximal ill-formed piece at the head of s: the
// longest prefix that could have begun a character, at least one byte (Unicode
// 15, section 3.9, U+FFFD substitution of maximal subparts).
func broken(s string) int {
	for n := min(3, len(s)); n > 1; n-- {
		if Partial(s[:n]) {
			return n
		}
	}
	return 1
}

// Partial tells whether s is the beginning of a character, but not a whole one.
func Partial(s string) bool {
	if len(s) == 0 || len(s) > 3 || s[0] < 0xc2 || s[0] > 0xf4 {
		return false
	}
	need := 2
	if s[0] >= 0xe0 {
		need = 3
	}
	if s[0] >= 0xf0 {
		need = 4
	}
	if len(s) >= need {
		return false
	}
	lo, hi := byte(0x80), byte(0xbf)
	switch s[0] {
	case 0xe0:
		lo = 0xa0
	case 0xed:
		hi = 0x9f
	case 0xf0:
		lo = 0x90
	case 0xf4:
		hi = 0x8f
	}
	for i := 1; i < len(s); i++ {
		if s[i] < lo || s[i] > hi {
			return false
		}
		lo, hi = 0x80, 0xbf
	}
	return true
}

// Piece is the length of the first character of s, or of the maximal broken
// piece there; 0 for an empty s.
func Piece(s string) int {
	if r, n := utf8.DecodeRuneInString(s); r != utf8.RuneError || n != 1 {
		return n
	}
	return broken(s)
}

// Text is s as a reader of JSON sees it after String: broken pieces replaced.
func Text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	out := make([]byte, 0, len(s)+8)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			out = append(out, "\ufffd"...)
			i += broken(s[i:])
			continue
		}
		out = append(out, s[i:i+n]...)
		i += n
	}
	return string(out)
}

// Int appends a whole number.
func Int(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// Float appends f; what JSON cannot say becomes null.
func Float(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

// Bytes appends b as an array of numbers.
func Bytes(dst, b []byte) []byte {
	dst = append(dst, '[')
	for i, c := range b {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(c), 10)
	}
	return append(dst, ']')
}

// Int32s appends an array of whole numbers.
func Int32s(dst []byte, ids []int32) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return append(dst, ']')
}
