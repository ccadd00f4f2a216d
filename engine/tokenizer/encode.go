package tokenizer

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// segmenter splits one word into tokens.
type segmenter interface {
	segment(dst []int32, word string) []int32
	// canonical writes all that segment depends on, but names.
	canonical(c *canonical)
}

// splitter returns the length of the first piece of s, which is not empty; it
// is in [1, len(s)]. A negative length means a piece that is left out.
type splitter func(s string) int

// Encode appends the ids of text to dst. With parseSpecial the control tokens
// written in text become ids; without it they are plain text. No prefix is
// added. A byte that is not part of valid UTF-8 counts as U+FFFD.
func (t *Tokenizer) Encode(dst []int32, text string, parseSpecial bool) []int32 {
	text = validUTF8(text)
	e := encoder{t: t, text: text, trust: trustNone}
	if parseSpecial {
		e.trust = trustAll
	}
	return e.run(dst)
}

// EncodeSegments returns the ids of a prompt put together from trusted and
// untrusted text. Ordinary tokens may reach over the borders, as they would if
// the whole were one text; a control token is recognized only where all of its
// text is trusted.
func (t *Tokenizer) EncodeSegments(segs []Segment) []int32 {
	n := 0
	for _, s := range segs {
		n += len(s.Text)
	}
	var b strings.Builder
	b.Grow(n)
	e := encoder{t: t, trust: trustMixed}
	for _, s := range segs {
		b.WriteString(validUTF8(s.Text))
		if k := len(e.spans); k > 0 && e.spans[k-1].trusted == s.Trusted {
			e.spans[k-1].end = b.Len()
		} else {
			e.spans = append(e.spans, span{b.Len(), s.Trusted})
		}
	}
	e.text = b.String()
	return e.run(make([]int32, 0, n/3+8))
}

// span is a stretch of one trust, up to end.
type span struct {
	end     int
	trusted bool
}

type trust uint8

const (
	trustNone trust = iota
	trustAll
	trustMixed // see encoder.spans
)

// encoder is the state of one call.
type encoder struct {
	t     *Tokenizer
	text  string
	trust trust
	spans []span
}

// trustOf says how [start, end) is trusted.
func (e *encoder) trustOf(start, end int) trust {
	if e.trust != trustMixed {
		return e.trust
	}
	i := sort.Search(len(e.spans), func(i int) bool { return e.spans[i].end > start })
	switch {
	case i == len(e.spans):
		return trustNone
	case end > e.spans[i].end:
		return trustMixed
	case e.spans[i].trusted:
		return trustAll
	}
	return trustNone
}

func (e *encoder) run(dst []int32) []int32 {
	t := e.t
	pos := 0 // start of the text not yet encoded
	for i := 0; i < len(e.text); {
		m, ok := t.added.next(e.text, i)
		if !ok {
			break
		}
		if m.tok.special {
			switch e.trustOf(m.start, m.end) {
			case trustNone: // plain, and what is inside it too
				i = m.end
				continue
			case trustMixed:
				i = m.start + 1
				continue
			}
		}
		start, end := m.widen(e.text, pos)
		if start > pos {
			dst = e.plain(dst, pos, start)
		}
		dst = append(dst, m.tok.id)
		pos, i = end, end
	}
	if pos < len(e.text) {
		dst = e.plain(dst, pos, len(e.text))
	}
	return dst
}

// plain encodes text between added tokens.
func (e *encoder) plain(dst []int32, start, end int) []int32 {
	t := e.t
	s := t.norm.apply(e.text[start:end], start == 0)
	if t.addedNorm == nil {
		return t.words(dst, s, 0)
	}
	// A stretch of mixed trust is taken for untrusted: normalizing may have
	// moved the border.
	trusted := e.trust == trustAll || e.trust == trustMixed && e.trustOf(start, end) == trustAll
	pos := 0
	for i := 0; i < len(s); {
		m, ok := t.addedNorm.next(s, i)
		if !ok {
			break
		}
		if m.tok.special && !trusted {
			i = m.end
			continue
		}
		from, to := m.widen(s, pos)
		if from > pos {
			dst = t.words(dst, s[pos:from], 0)
		}
		dst = append(dst, m.tok.id)
		pos, i = to, to
	}
	if pos < len(s) {
		dst = t.words(dst, s[pos:], 0)
	}
	return dst
}

// words splits s by the stages from level on and encodes each word.
func (t *Tokenizer) words(dst []int32, s string, level int) []int32 {
	if level == len(t.stages) {
		return t.word(dst, s)
	}
	split := t.stages[level]
	for len(s) > 0 {
		n := split(s)
		if n < 0 {
			s = s[-n:]
			continue
		}
		dst = t.words(dst, s[:n], level+1)
		s = s[n:]
	}
	return dst
}

func (t *Tokenizer) word(dst []int32, w string) []int32 {
	if len(w) > maxCachedWord {
		return t.model.segment(dst, w)
	}
	h := t.cache.hash(w)
	if ids, ok := t.cache.get(h, w); ok {
		return append(dst, ids...)
	}
	n := len(dst)
	dst = t.model.segment(dst, w)
	t.cache.put(h, w, dst[n:])
	return dst
}

// validUTF8 replaces each byte that is not part of valid UTF-8 by U+FFFD.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
