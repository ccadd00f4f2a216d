package grammar

import (
	"sort"
	"unicode"
	"unicode/utf8"
)

// runeRange is the code points lo to hi, both included.
type runeRange struct{ lo, hi rune }

// runeSet is a set of code points: ascending ranges that do not touch. It never
// holds surrogates, which no text has.
type runeSet []runeRange

var allRunes = runeSet{{0, 0xD7FF}, {0xE000, utf8.MaxRune}}

// newRuneSet sorts and joins ranges and leaves surrogates out.
func newRuneSet(rs []runeRange) runeSet {
	rs = append([]runeRange(nil), rs...)
	sort.Slice(rs, func(i, j int) bool { return rs[i].lo < rs[j].lo })
	var out runeSet
	for _, r := range rs {
		if r.lo > r.hi {
			continue
		}
		if n := len(out); n > 0 && r.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, r.hi)
			continue
		}
		out = append(out, r)
	}
	return out.intersect(allRunes)
}

func (s runeSet) intersect(t runeSet) runeSet {
	var out runeSet
	for i, j := 0, 0; i < len(s) && j < len(t); {
		lo, hi := max(s[i].lo, t[j].lo), min(s[i].hi, t[j].hi)
		if lo <= hi {
			out = append(out, runeRange{lo, hi})
		}
		if s[i].hi < t[j].hi {
			i++
		} else {
			j++
		}
	}
	return out
}

// negate is all code points that s does not have.
func (s runeSet) negate() runeSet {
	var out runeSet
	at := rune(0)
	for _, r := range s {
		if r.lo > at {
			out = append(out, runeRange{at, r.lo - 1})
		}
		at = r.hi + 1
	}
	if at <= utf8.MaxRune {
		out = append(out, runeRange{at, utf8.MaxRune})
	}
	return out.intersect(allRunes)
}

func (s runeSet) union(t runeSet) runeSet {
	return newRuneSet(append(append([]runeRange(nil), s...), t...))
}

func (s runeSet) has(r rune) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].hi >= r })
	return i < len(s) && s[i].lo <= r
}

// tableSet converts one of package unicode's tables.
func tableSet(t *unicode.RangeTable) runeSet {
	var rs []runeRange
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			rs = append(rs, runeRange{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			rs = append(rs, runeRange{r, r})
		}
	}
	for _, r := range t.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range t.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return newRuneSet(rs)
}
