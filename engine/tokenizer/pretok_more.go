package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// run matches one or more characters of a class, most of them.
func run(class runeClass, most int) pattern {
	return func(s string) int {
		t := runes{bmpClasses(), s}
		end := 0
		for k := 0; most == 0 || k < most; k++ {
			_, c, n := t.at(end)
			if c&class == 0 {
				break
			}
			end += n
		}
		return end
	}
}

// threeDigits matches [0-9][0-9][0-9].
func threeDigits(s string) int {
	if len(s) < 3 {
		return 0
	}
	for i := range 3 {
		if s[i] < '0' || s[i] > '9' {
			return 0
		}
	}
	return 3
}

// punctRun matches [\p{P}\$\+<=>\^~\|`]+, and only [\p{P}\$\+<=>\^~\|]+
// without backtick.
func punctRun(backtick bool) pattern {
	return func(s string) int {
		t := runes{bmpClasses(), s}
		end := 0
		for {
			r, c, n := t.at(end)
			if n == 0 || c&classPunct == 0 && !(strings.ContainsRune("$+<=>^~|", r) || backtick && r == '`') {
				return end
			}
			end += n
		}
	}
}

// cjkRun matches [一-龥぀-ゟ゠-ヿ]+.
func cjkRun(s string) int {
	end := 0
	for end < len(s) {
		r, n := utf8.DecodeRuneInString(s[end:])
		if (r < 0x4e00 || r > 0x9fa5) && (r < 0x3040 || r > 0x30ff) {
			break
		}
		end += n
	}
	return end
}

// cjkWideRun matches [一-龥ࠀ-一가-퟿]+.
func cjkWideRun(s string) int {
	end := 0
	for end < len(s) {
		r, n := utf8.DecodeRuneInString(s[end:])
		if (r < 0x800 || r > 0x9fa5) && (r < 0xac00 || r > 0xd7ff) {
			break
		}
		end += n
	}
	return end
}

// lineEnd matches [\r\n].
func lineEnd(s string) int {
	if s != "" && (s[0] == '\r' || s[0] == '\n') {
		return 1
	}
	return 0
}

// afterSpace matches \s? and a run of a class.
func afterSpace(class runeClass) pattern {
	return func(s string) int {
		t := runes{bmpClasses(), s}
		_, c, n := t.at(0)
		if c&classSpace == 0 {
			n = 0
		}
		if end := t.while(n, class, 0); end > n {
			return end
		}
		return 0
	}
}

// bloomWord matches ?[^(\s|.,!?…。，、।۔،)]+.
func bloomWord(s string) int {
	t := runes{bmpClasses(), s}
	from := 0
	if s != "" && s[0] == ' ' {
		from = 1
	}
	end := from
	for {
		r, c, n := t.at(end)
		if n == 0 || c&classSpace != 0 || strings.ContainsRune("(|.,!?…。，、।۔،)", r) {
			break
		}
		end += n
	}
	if end == from {
		return 0
	}
	return end
}

// deepseek3 matches
//
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//	 ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func deepseek3(s string) int {
	t := runes{bmpClasses(), s}
	r, c, n := t.at(0)
	if n == 0 {
		return 0
	}
	if r < utf8.RuneSelf && c&(classPunct|classSymbol) != 0 {
		end := 1
		for end < len(s) && (s[end]|0x20) >= 'a' && (s[end]|0x20) <= 'z' {
			end++
		}
		if end > 1 {
			return end
		}
	}
	const word = classLetter | classMark
	if c&(classLetter|classPunct|classSymbol) == 0 && r != '\r' && r != '\n' {
		if end := t.while(n, word, 0); end > n {
			return end
		}
	}
	if end := t.while(0, word, 0); end > 0 {
		return end
	}
	from := 0
	if r == ' ' {
		from = 1
	}
	if end := t.while(from, classPunct|classSymbol, 0); end > from {
		return t.tail(end, "\r\n")
	}
	if end := t.newlines(); end > 0 {
		return end
	}
	return t.spaces()
}

// splitBehaviour says where the delimiter of a split goes.
type splitBehaviour uint8

const (
	isolated splitBehaviour = iota
	removed
	mergedWithPrevious
	mergedWithNext
)

// splitString splits at each occurrence of a text.
func splitString(sep string, b splitBehaviour) splitter {
	return func(s string) int {
		i := strings.Index(s, sep)
		switch {
		case i < 0:
			return len(s)
		case b == mergedWithPrevious:
			return i + len(sep)
		case b == mergedWithNext:
			if j := strings.Index(s[len(sep):], sep); i == 0 && j >= 0 {
				return len(sep) + j
			} else if i == 0 {
				return len(s)
			}
			return i
		case i > 0:
			return i
		case b == removed:
			return -len(sep)
		}
		return len(sep)
	}
}

// splitPunctuation isolates each character of \p{P} and of ASCII's
// punctuation, as the Punctuation and BertPreTokenizer of Hugging Face do.
func splitPunctuation(s string) int {
	t := runes{bmpClasses(), s}
	r, c, n := t.at(0)
	if n == 0 || c&classPunct != 0 || r < utf8.RuneSelf && c&classSymbol != 0 {
		return n
	}
	return 0
}

// splitSpaces leaves white space out and keeps what is between.
func splitSpaces(s string) int {
	t := runes{bmpClasses(), s}
	if n := t.while(0, classSpace, 0); n > 0 {
		return -n
	}
	return t.while(0, 0, classSpace)
}
