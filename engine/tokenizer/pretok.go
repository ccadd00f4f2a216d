package tokenizer

import "unicode/utf8"

// A pattern is a hand-written regular expression: the length of its match at
// the beginning of s, 0 for none. The expressions that each stands for are in
// its comment; \s is White_Space, alternatives are tried in order.
type pattern func(s string) int

// isolate splits s into matches of p and what lies between them.
func isolate(p pattern) splitter {
	return func(s string) int {
		if n := p(s); n > 0 {
			return n
		}
		return gap(p, s)
	}
}

// gap returns the length of the text before the first match past the start.
func gap(p pattern, s string) int {
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		if i += n; i < len(s) && p(s[i:]) > 0 {
			return i
		}
	}
	return len(s)
}

// contraction matches 's|'t|'re|'ve|'m|'ll|'d, with fold in any case: U+017F
// folds to s.
func contraction(s string, fold bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	lower := func(i int) byte {
		if i >= len(s) {
			return 0
		}
		if c := s[i]; fold && 'A' <= c && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return s[i]
	}
	switch a, b := lower(1), lower(2); {
	case a == 's' || a == 't' || a == 'm' || a == 'd':
		return 2
	case (a == 'r' || a == 'v') && b == 'e', a == 'l' && b == 'l':
		return 3
	case fold && a == 0xc5 && b == 0xbf:
		return 3
	}
	return 0
}

// spaces matches \s+(?!\S)|\s+: a run of white space, without its last
// character where a word follows, which takes that along.
func (t *runes) spaces() int {
	end, last := 0, 0
	for {
		_, c, n := t.at(end)
		if n == 0 {
			return end
		}
		if c&classSpace == 0 {
			break
		}
		last = end
		end += n
	}
	if last > 0 {
		return last
	}
	return end
}

// newlines matches \s*[\r\n]+: a run of white space up to its last line end.
func (t *runes) newlines() int {
	end := 0
	for i := 0; ; {
		r, c, n := t.at(i)
		if n == 0 || c&classSpace == 0 {
			return end
		}
		i += n
		if r == '\r' || r == '\n' {
			end = i
		}
	}
}

// tail returns the end of the run at i of bytes that are in set.
func (t *runes) tail(i int, set string) int {
	for i < len(t.s) {
		b := t.s[i]
		found := false
		for j := 0; j < len(set); j++ {
			found = found || set[j] == b
		}
		if !found {
			break
		}
		i++
	}
	return i
}

// gpt2 matches
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func gpt2(s string) int {
	if n := contraction(s, false); n > 0 {
		return n
	}
	t := runes{bmpClasses(), s}
	i := 0
	if len(s) > 1 && s[0] == ' ' {
		i = 1
	}
	_, c, n := t.at(i)
	switch {
	case n == 0:
		return len(s)
	case c&classLetter != 0:
		return t.while(i, classLetter, 0)
	case c&classNumber != 0:
		return t.while(i, classNumber, 0)
	case c&classSpace == 0:
		return t.while(i, 0, classSpace|classLetter|classNumber)
	}
	return t.spaces()
}

// wordRules are the differences within the family of expressions that began
// with tiktoken's cl100k_base.
type wordRules struct {
	letters runeClass // what a word is made of
	digits  int       // most digits in a number
	tail    string    // what punctuation takes along at its end
	cased   bool      // words end before a capital after a small letter
	suffix  bool      // contractions belong to the word before
	ascii   bool      // contractions are written out in two cases, without U+017F
}

var (
	// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
	//  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
	llama3Rules = wordRules{letters: classLetter, digits: 3, tail: "\r\n"}
	// the same with '[sS]|'[tT]|... for the contractions
	dbrxRules = wordRules{letters: classLetter, digits: 3, tail: "\r\n", ascii: true}
	// the first with \p{N}
	qwen2Rules = wordRules{letters: classLetter, digits: 1, tail: "\r\n"}
	// the same with [\p{L}\p{M}]+ and [^\s\p{L}\p{M}\p{N}]+
	qwen35Rules = wordRules{letters: classLetter | classMark, digits: 1, tail: "\r\n"}
	// [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+CONTRACTION?|
	// [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*CONTRACTION?|
	// \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
	o200kRules = wordRules{letters: classLetter, digits: 3, tail: "\r\n/", cased: true, suffix: true}
	// the same without CONTRACTION and with \p{N}
	tekkenRules = wordRules{letters: classLetter, digits: 1, tail: "\r\n/", cased: true}
)

func (w wordRules) match(s string) int {
	if !w.cased {
		if n := contraction(s, true); n > 0 && !(w.ascii && s[1] == 0xc5) {
			return n
		}
	}
	t := runes{bmpClasses(), s}
	r, c, n := t.at(0)
	if n == 0 {
		return 0
	}
	if end := w.word(&t, r, c, n); end > 0 {
		return end
	}
	if c&classNumber != 0 {
		for k := 1; k < w.digits; k++ {
			_, c, m := t.at(n)
			if c&classNumber == 0 {
				break
			}
			n += m
		}
		return n
	}
	if end := w.punctuation(&t, r, c, n); end > 0 {
		return end
	}
	if end := t.newlines(); end > 0 {
		return end
	}
	return t.spaces()
}

// word matches a word with at most one character before it that is neither a
// line end nor a letter nor a number.
func (w wordRules) word(t *runes, r rune, c runeClass, n int) int {
	prefix := 0
	if c&(classLetter|classNumber) == 0 && r != '\r' && r != '\n' {
		prefix = n
	}
	if w.cased {
		return w.casedWord(t, prefix)
	}
	if prefix > 0 {
		if end := t.while(prefix, w.letters, 0); end > prefix {
			return end
		}
	}
	return t.while(0, w.letters, 0)
}

// casedWord tries the two expressions for words in upper and lower case, each
// with the prefix and without.
func (w wordRules) casedWord(t *runes, prefix int) int {
	for _, needLower := range []bool{true, false} {
		for from := prefix; ; from = 0 {
			if end := t.casedFrom(from, needLower); end > from {
				if w.suffix {
					end += contraction(t.s[end:], true)
				}
				return end
			}
			if from == 0 {
				break
			}
		}
	}
	return 0
}

// casedFrom matches U*L+ or, without needLower, U+L* at from: from for none.
func (t *runes) casedFrom(from int, needLower bool) int {
	mid, both := from, from // end of U*, end of the last in it that is also L
	for {
		_, c, n := t.at(mid)
		if c&classUpper == 0 {
			break
		}
		mid += n
		if c&classLower != 0 {
			both = mid
		}
	}
	end := t.while(mid, classLower, 0)
	switch {
	case !needLower:
		if mid == from {
			return from
		}
		return end
	case end > mid:
		return end
	}
	return both
}

// punctuation matches ?[^\s\p{L}\p{N}]+ with the tail.
func (w wordRules) punctuation(t *runes, r rune, c runeClass, n int) int {
	from := 0
	if r == ' ' {
		from = n
	}
	end := t.while(from, 0, classSpace|classNumber|w.letters)
	if end == from {
		return 0
	}
	return t.tail(end, w.tail)
}
