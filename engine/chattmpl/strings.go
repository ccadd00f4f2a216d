package chattmpl

import (
	"strings"
	"unicode"
)

// split is str.split and str.rsplit.
func (ev *eval) split(name string, t text, a args, fromRight bool) value {
	p := ev.bind(name, a, "sep", "maxsplit")
	limit := ev.intArg(name, p[1], -1)
	var parts []value
	add := func(i, j int) {
		ev.charge(64)
		parts = append(parts, ev.made(t.slice(i, j)))
	}
	switch {
	case p[0] == nil || isNone(p[0]):
		if fromRight {
			splitSpaceRight(t.s, limit, add)
			reverse(parts)
		} else {
			splitSpace(t.s, limit, add)
		}
	default:
		sep := ev.textArg(name, p[0]).s
		if sep == "" {
			ev.fail("separator is empty")
		}
		if fromRight {
			end := len(t.s)
			for ; limit != 0; limit-- {
				n := strings.LastIndex(t.s[:end], sep)
				if n < 0 {
					break
				}
				add(n+len(sep), end)
				end = n
			}
			add(0, end)
			reverse(parts)
		} else {
			at := 0
			for ; limit != 0; limit-- {
				n := strings.Index(t.s[at:], sep)
				if n < 0 {
					break
				}
				add(at, at+n)
				at += n + len(sep)
			}
			add(at, len(t.s))
		}
	}
	return &list{items: parts}
}

func reverse(v []value) {
	for i, j := 0, len(v)-1; i < j; i, j = i+1, j-1 {
		v[i], v[j] = v[j], v[i]
	}
}

func splitSpace(s string, limit int64, add func(i, j int)) {
	at := 0
	for {
		at = len(s) - len(strings.TrimLeftFunc(s[at:], isSpace))
		if at == len(s) {
			return
		}
		if limit == 0 {
			add(at, len(s))
			return
		}
		n := strings.IndexFunc(s[at:], isSpace)
		if n < 0 {
			add(at, len(s))
			return
		}
		add(at, at+n)
		at += n
		limit--
	}
}

func splitSpaceRight(s string, limit int64, add func(i, j int)) {
	for {
		s = strings.TrimRightFunc(s, isSpace)
		if s == "" {
			return
		}
		n := strings.LastIndexFunc(s, isSpace)
		if limit == 0 || n < 0 {
			add(0, len(s))
			return
		}
		at := n + runeWidth(s[n:])
		add(at, len(s))
		s = s[:n]
		limit--
	}
}

// splitLines cuts at the line ends that Python knows.
func (ev *eval) splitLines(t text, keep bool) value {
	var parts []value
	from := 0
	for i := 0; i < len(t.s); {
		w := runeWidth(t.s[i:])
		if !isLineEnd(t.s[i : i+w]) {
			i += w
			continue
		}
		end := i + w
		if t.s[i] == '\r' && end < len(t.s) && t.s[end] == '\n' {
			end++
		}
		to := i
		if keep {
			to = end
		}
		ev.charge(64)
		parts = append(parts, ev.made(t.slice(from, to)))
		from, i = end, end
	}
	if from < len(t.s) {
		parts = append(parts, t.slice(from, len(t.s)))
	}
	return &list{items: parts}
}

func isLineEnd(c string) bool {
	switch c {
	case "\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\u0085", "\u2028", "\u2029":
		return true
	}
	return false
}

// join puts sep between the items; strict wants them to be strings.
func (ev *eval) join(sep text, items []value, strict bool) text {
	var b textBuilder
	for i, e := range items {
		if i > 0 {
			b.writeText(sep)
		}
		t, ok := e.(text)
		if !ok {
			if strict {
				ev.checkDefined(e)
				ev.fail("join wants strings, got %s", typeName(e))
			}
			t = ev.str(e)
		}
		ev.charge(len(sep.s) + len(t.s))
		b.writeText(t)
	}
	return b.text()
}

// mapRuns changes each run of one origin by itself.
func mapRuns(ev *eval, t text, f func(string) string) text {
	ev.charge(len(t.s))
	if len(t.flips) == 0 {
		return text{s: f(t.s), user: t.user}
	}
	var b textBuilder
	t.runs(func(s string, user bool) { b.write(f(s), user) })
	return b.text()
}

func upper(ev *eval, t text) text {
	return mapRuns(ev, t, func(s string) string {
		return strings.ReplaceAll(strings.ToUpper(s), "ß", "SS")
	})
}

func lower(ev *eval, t text) text { return mapRuns(ev, t, strings.ToLower) }

// mapRunes changes t rune by rune; f sees the rune before it too.
func mapRunes(ev *eval, t text, f func(prev, r rune) rune) text {
	ev.charge(len(t.s))
	var b textBuilder
	prev := rune(0)
	t.eachRune(func(r rune, _ int, user bool) {
		b.writeRune(f(prev, r), user)
		prev = r
	})
	return b.text()
}

func capitalize(ev *eval, t text) text {
	first := true
	return mapRunes(ev, t, func(_, r rune) rune {
		if first {
			first = false
			return unicode.ToTitle(r)
		}
		return unicode.ToLower(r)
	})
}

// title is str.title: an upper case letter after anything that is no letter.
func title(ev *eval, t text) text {
	return mapRunes(ev, t, func(prev, r rune) rune {
		if unicode.IsLetter(prev) {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	})
}

// titleFilter is Jinja's own: words begin after white space, hyphens and opening brackets.
func titleFilter(ev *eval, t text) text {
	return mapRunes(ev, t, func(prev, r rune) rune {
		if prev == 0 || isSpace(prev) || strings.ContainsRune("-({[<", prev) {
			return unicode.ToUpper(r)
		}
		return unicode.ToLower(r)
	})
}

func swapCase(ev *eval, t text) text {
	return mapRunes(ev, t, func(_, r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	})
}
