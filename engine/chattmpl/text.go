package chattmpl

import (
	"sort"
	"unicode/utf8"
)

// text is a string value that remembers, byte by byte, whether it came from the
// request (user) or from the template. Origins alternate at flips; a text of
// one origin, by far the commonest, has none.
type text struct {
	s     string
	user  bool    // origin of the first byte
	flips []int32 // ascending offsets in (0, len(s)) where the origin changes
}

func own(s string) text      { return text{s: s} }
func fromUser(s string) text { return text{s: s, user: true} }

// userAt is the origin of byte i.
func (t text) userAt(i int) bool {
	if len(t.flips) == 0 {
		return t.user
	}
	k := sort.Search(len(t.flips), func(k int) bool { return int(t.flips[k]) > i })
	return t.user != (k%2 == 1)
}

// slice is t.s[i:j] with its origins; i and j are byte offsets in range.
func (t text) slice(i, j int) text {
	if len(t.flips) == 0 || i == j {
		return text{s: t.s[i:j], user: t.user}
	}
	k := sort.Search(len(t.flips), func(k int) bool { return int(t.flips[k]) > i })
	m := k + sort.Search(len(t.flips)-k, func(m int) bool { return int(t.flips[k+m]) >= j })
	r := text{s: t.s[i:j], user: t.user != (k%2 == 1)}
	if m > k {
		r.flips = make([]int32, m-k)
		for n := range r.flips {
			r.flips[n] = t.flips[k+n] - int32(i)
		}
	}
	return r
}

// runs calls f for each maximal run of one origin.
func (t text) runs(f func(s string, user bool)) {
	user, from := t.user, 0
	for _, at := range t.flips {
		f(t.s[from:at], user)
		user, from = !user, int(at)
	}
	if from < len(t.s) {
		f(t.s[from:], user)
	}
}

// isASCII says whether code points and bytes coincide.
func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// byteOffset is the byte offset of code point n (0 ≤ n ≤ their number) in s.
func byteOffset(s string, n int) int {
	if isASCII(s) {
		return n
	}
	at := 0
	for ; n > 0 && at < len(s); n-- {
		_, w := utf8.DecodeRuneInString(s[at:])
		at += w
	}
	return at
}

// textBuilder assembles a text. The zero value is empty and ready.
type textBuilder struct {
	b     []byte
	user  bool
	cur   bool
	flips []int32
}

func (b *textBuilder) mark(user bool) {
	switch {
	case len(b.b) == 0:
		b.user, b.cur = user, user
	case b.cur != user:
		b.flips = append(b.flips, int32(len(b.b)))
		b.cur = user
	}
}

func (b *textBuilder) write(s string, user bool) {
	if s != "" {
		b.mark(user)
		b.b = append(b.b, s...)
	}
}

func (b *textBuilder) writeRune(r rune, user bool) {
	b.mark(user)
	b.b = utf8.AppendRune(b.b, r)
}

func (b *textBuilder) writeText(t text) {
	if len(t.flips) == 0 {
		b.write(t.s, t.user)
		return
	}
	t.runs(b.write)
}

func (b *textBuilder) text() text {
	return text{s: string(b.b), user: b.user, flips: b.flips}
}

// segments splits t into the exported form.
func (t text) segments() []Segment {
	segs := make([]Segment, 0, len(t.flips)+1)
	t.runs(func(s string, user bool) { segs = append(segs, Segment{Text: s, Trusted: !user}) })
	return segs
}

// eachRune calls f with every code point, its width and origin.
func (t text) eachRune(f func(r rune, w int, user bool)) {
	t.runs(func(s string, user bool) {
		for len(s) > 0 {
			r, w := utf8.DecodeRuneInString(s)
			f(r, w, user)
			s = s[w:]
		}
	})
}

// eachRuneText calls f with every code point as a text of its own.
func (t text) eachRuneText(f func(c text)) {
	t.runs(func(s string, user bool) {
		for len(s) > 0 {
			w := runeWidth(s)
			f(text{s: s[:w], user: user})
			s = s[w:]
		}
	})
}

func runeWidth(s string) int {
	_, w := utf8.DecodeRuneInString(s)
	return w
}

func runeCount(s string) int { return utf8.RuneCountInString(s) }
