package tokenizer

import "strings"

// normalizer rewrites the text between added tokens, step by step. first says
// that the text begins the whole.
type normalizer []normStep

type normStep func(s string, first bool) string

func (n normalizer) apply(s string, first bool) string {
	for _, step := range n {
		s = step(s, first)
	}
	return s
}

// meta is U+2581, which stands for a space in SentencePiece vocabularies.
const meta = "\u2581"

func normReplace(old, new string) normStep {
	return func(s string, _ bool) string { return strings.ReplaceAll(s, old, new) }
}

func normPrepend(p string) normStep {
	return func(s string, _ bool) string {
		if s == "" {
			return s
		}
		return p + s
	}
}

// normMetaspace writes spaces as U+2581 and puts one in front: always, or only
// at the beginning of the whole text, unless one is there.
func normMetaspace(replacement string, prepend, firstOnly bool) normStep {
	return func(s string, first bool) string {
		s = strings.ReplaceAll(s, " ", replacement)
		if prepend && (first || !firstOnly) && s != "" && !strings.HasPrefix(s, replacement) {
			s = replacement + s
		}
		return s
	}
}

// normStrip removes white space at the ends.
func normStrip(left, right bool) normStep {
	return func(s string, _ bool) string {
		if left {
			s = strings.TrimLeftFunc(s, isSpace)
		}
		if right {
			s = strings.TrimRightFunc(s, isSpace)
		}
		return s
	}
}

func normLower() normStep {
	return func(s string, _ bool) string { return strings.ToLower(s) }
}
