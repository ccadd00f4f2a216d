package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// runeClass is a set of properties that pre-tokenizers ask for.
type runeClass uint8

const (
	classLetter runeClass = 1 << iota // \p{L}
	classNumber                       // \p{N}
	classSpace                        // \s, the White_Space property
	classMark                         // \p{M}
	classUpper                        // \p{Lu} \p{Lt} \p{Lm} \p{Lo} \p{M}
	classLower                        // \p{Ll} \p{Lm} \p{Lo} \p{M}
	classPunct                        // \p{P}
	classSymbol                       // \p{S}
)

var classTables = []struct {
	class  runeClass
	tables []*unicode.RangeTable
}{
	{classLetter, []*unicode.RangeTable{unicode.L}},
	{classNumber, []*unicode.RangeTable{unicode.N}},
	{classSpace, []*unicode.RangeTable{unicode.White_Space}},
	{classMark, []*unicode.RangeTable{unicode.M}},
	{classUpper, []*unicode.RangeTable{unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo, unicode.M}},
	{classLower, []*unicode.RangeTable{unicode.Ll, unicode.Lm, unicode.Lo, unicode.M}},
	{classPunct, []*unicode.RangeTable{unicode.P}},
	{classSymbol, []*unicode.RangeTable{unicode.S}},
}

// bmpClasses has the classes of U+0000 to U+FFFF.
var bmpClasses = sync.OnceValue(func() *[1 << 16]runeClass {
	t := new([1 << 16]runeClass)
	for _, c := range classTables {
		for _, table := range c.tables {
			for _, r := range table.R16 {
				for i := uint32(r.Lo); i <= uint32(r.Hi); i += uint32(r.Stride) {
					t[i] |= c.class
				}
			}
		}
	}
	return t
})

func classOf(bmp *[1 << 16]runeClass, r rune) runeClass {
	if uint32(r) < 1<<16 {
		return bmp[r]
	}
	var c runeClass
	for _, ct := range classTables {
		if unicode.In(r, ct.tables...) {
			c |= ct.class
		}
	}
	return c
}

func isSpace(r rune) bool { return unicode.Is(unicode.White_Space, r) }

// runes reads a string forwards; it decodes the classes as it goes.
type runes struct {
	bmp *[1 << 16]runeClass
	s   string
}

// at returns the rune at byte i with its class and width; width 0 at the end.
func (t *runes) at(i int) (r rune, c runeClass, n int) {
	if i >= len(t.s) {
		return 0, 0, 0
	}
	if b := t.s[i]; b < utf8.RuneSelf {
		return rune(b), t.bmp[b], 1
	}
	r, n = utf8.DecodeRuneInString(t.s[i:])
	return r, classOf(t.bmp, r), n
}

// while returns the end of the run at i of runes that have a class of want and
// none of not.
func (t *runes) while(i int, want, not runeClass) int {
	for {
		_, c, n := t.at(i)
		if n == 0 || c&not != 0 || want != 0 && c&want == 0 {
			return i
		}
		i += n
	}
}
