package chattmpl

import (
	"strings"
	"unicode"
)

// method is the bound method of x of that name, nil if there is none. These
// tables are everything that attribute access can reach besides items; the
// mutating methods are left out, as the sandbox of transformers refuses them.
func method(x value, name string) value {
	switch x := x.(type) {
	case text:
		if m, ok := stringMethods[name]; ok {
			return &function{name, func(ev *eval, a args) value {
				ev.charge(len(x.s))
				return m(ev, x, a)
			}}
		}
	case *dict:
		if m, ok := dictMethods[name]; ok {
			return &function{name, func(ev *eval, a args) value { return m(ev, x, a) }}
		}
	case *list:
		if m, ok := listMethods[name]; ok {
			return &function{name, func(ev *eval, a args) value { return m(ev, x, a) }}
		}
	}
	return nil
}

var dictMethods = map[string]func(ev *eval, d *dict, a args) value{
	"get": func(ev *eval, d *dict, a args) value {
		p := ev.bind("get", a, "key", "default")
		if p[0] == nil {
			ev.fail("get lacks an argument")
		}
		if v, ok := d.get(p[0]); ok {
			return v
		}
		if p[1] == nil {
			return none{}
		}
		return p[1]
	},
	"items": func(ev *eval, d *dict, a args) value {
		ev.bind("items", a)
		return ev.items(d)
	},
	"keys": func(ev *eval, d *dict, a args) value {
		ev.bind("keys", a)
		return &list{items: d.keys, user: d.user}
	},
	"values": func(ev *eval, d *dict, a args) value {
		ev.bind("values", a)
		return &list{items: d.vals, user: d.user}
	},
	"copy": func(ev *eval, d *dict, a args) value {
		ev.bind("copy", a)
		return d
	},
}

func (ev *eval) items(d *dict) *list {
	ev.charge(80 * len(d.keys))
	l := &list{items: make([]value, len(d.keys)), user: d.user}
	for i, k := range d.keys {
		l.items[i] = &list{items: []value{k, d.vals[i]}, tuple: true, user: d.user}
	}
	return l
}

var listMethods = map[string]func(ev *eval, l *list, a args) value{
	"count": func(ev *eval, l *list, a args) value {
		p := ev.bind("count", a, "value")
		n := int64(0)
		for _, e := range l.items {
			if p[0] != nil && ev.equal(e, p[0]) {
				n++
			}
		}
		return n
	},
	"index": func(ev *eval, l *list, a args) value {
		p := ev.bind("index", a, "value")
		for i, e := range l.items {
			if p[0] != nil && ev.equal(e, p[0]) {
				return int64(i)
			}
		}
		ev.fail("value is not in the list")
		return nil
	},
	"copy": func(ev *eval, l *list, a args) value {
		ev.bind("copy", a)
		return l
	},
}

type stringMethod func(ev *eval, t text, a args) value

var stringMethods map[string]stringMethod

func init() {
	stringMethods = map[string]stringMethod{
		"strip":  stripMethod("strip", true, true),
		"lstrip": stripMethod("lstrip", true, false),
		"rstrip": stripMethod("rstrip", false, true),
		"split":  func(ev *eval, t text, a args) value { return ev.split("split", t, a, false) },
		"rsplit": func(ev *eval, t text, a args) value { return ev.split("rsplit", t, a, true) },
		"splitlines": func(ev *eval, t text, a args) value {
			p := ev.bind("splitlines", a, "keepends")
			return ev.splitLines(t, boolArg(p[0], false))
		},
		"startswith":   affixMethod("startswith", strings.HasPrefix),
		"endswith":     affixMethod("endswith", strings.HasSuffix),
		"removeprefix": removeMethod("removeprefix", true),
		"removesuffix": removeMethod("removesuffix", false),
		"replace": func(ev *eval, t text, a args) value {
			p := ev.bind("replace", a, "old", "new", "count")
			return ev.replace(t, ev.textArg("replace", p[0]), ev.textArg("replace", p[1]), ev.intArg("replace", p[2], -1))
		},
		"upper":      mapMethod("upper", upper),
		"lower":      mapMethod("lower", lower),
		"casefold":   mapMethod("casefold", lower),
		"title":      mapMethod("title", title),
		"capitalize": mapMethod("capitalize", capitalize),
		"swapcase":   mapMethod("swapcase", swapCase),
		"find":       findMethod("find", strings.Index, false),
		"index":      findMethod("index", strings.Index, true),
		"rfind":      findMethod("rfind", strings.LastIndex, false),
		"rindex":     findMethod("rindex", strings.LastIndex, true),
		"count": func(ev *eval, t text, a args) value {
			p := ev.bind("count", a, "sub", "start", "end")
			part, _ := ev.window("count", t, p[1], p[2])
			return int64(strings.Count(part.s, ev.textArg("count", p[0]).s))
		},
		"join": func(ev *eval, t text, a args) value {
			p := ev.bind("join", a, "iterable")
			if p[0] == nil {
				ev.fail("join lacks an argument")
			}
			return ev.join(t, ev.iterate(p[0]), true)
		},
		"partition":  partitionMethod("partition", strings.Index),
		"rpartition": partitionMethod("rpartition", strings.LastIndex),
		"zfill":      zfill,
		"ljust":      padMethod("ljust", 0, 1),
		"rjust":      padMethod("rjust", 1, 0),
		"center":     padMethod("center", 1, 1),
		"format":     formatMethod,
		"isspace":    classMethod("isspace", isSpace),
		"isdigit":    classMethod("isdigit", unicode.IsDigit),
		"isdecimal":  classMethod("isdecimal", unicode.IsDigit),
		"isnumeric":  classMethod("isnumeric", unicode.IsNumber),
		"isalpha":    classMethod("isalpha", unicode.IsLetter),
		"isalnum":    classMethod("isalnum", func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isupper":    func(ev *eval, t text, a args) value { ev.bind("isupper", a); return isUpper(t.s) },
		"islower":    func(ev *eval, t text, a args) value { ev.bind("islower", a); return isLower(t.s) },
	}
}

func isUpper(s string) bool { return s != strings.ToLower(s) && s == strings.ToUpper(s) }
func isLower(s string) bool { return s != strings.ToUpper(s) && s == strings.ToLower(s) }

func stripMethod(name string, left, right bool) stringMethod {
	return func(ev *eval, t text, a args) value {
		p := ev.bind(name, a, "chars")
		return ev.strip(name, t, p[0], left, right)
	}
}

// strip is Python's str.strip with its optional set of characters.
func (ev *eval) strip(name string, t text, chars value, left, right bool) text {
	in := isSpace
	if chars != nil && !isNone(chars) {
		set := ev.textArg(name, chars).s
		ev.charge(8 * len(set))
		members := make(map[rune]bool, len(set))
		for _, r := range set {
			members[r] = true
		}
		in = func(r rune) bool { return members[r] }
	}
	i, j := 0, len(t.s)
	if left {
		i = j - len(strings.TrimLeftFunc(t.s, in))
	}
	if right {
		j = i + len(strings.TrimRightFunc(t.s[i:], in))
	}
	return ev.made(t.slice(i, j))
}

func affixMethod(name string, has func(s, affix string) bool) stringMethod {
	return func(ev *eval, t text, a args) value {
		p := ev.bind(name, a, "affix", "start", "end")
		part, ok := ev.window(name, t, p[1], p[2])
		if !ok {
			return false
		}
		if l, isList := p[0].(*list); isList && l.tuple {
			for _, e := range l.items {
				ev.step(1)
				if has(part.s, ev.textArg(name, e).s) {
					return true
				}
			}
			return false
		}
		return has(part.s, ev.textArg(name, p[0]).s)
	}
}

// window is t[start:end] in code points; ok is false if start is past the end.
func (ev *eval) window(name string, t text, start, end value) (text, bool) {
	if (start == nil || isNone(start)) && (end == nil || isNone(end)) {
		return t, true
	}
	n := int64(runeCount(t.s))
	get := func(v value, def int64) int64 {
		if v == nil || isNone(v) {
			return def
		}
		i := ev.intArg(name, v, def)
		if i < 0 {
			i = max(i+n, 0)
		}
		return i
	}
	from, to := get(start, 0), min(get(end, n), n)
	if from > n || from > to {
		return text{}, false
	}
	i := byteOffset(t.s, int(from))
	return t.slice(i, i+byteOffset(t.s[i:], int(to-from))), true
}

func removeMethod(name string, prefix bool) stringMethod {
	return func(ev *eval, t text, a args) value {
		p := ev.bind(name, a, "affix")
		s := ev.textArg(name, p[0]).s
		switch {
		case prefix && strings.HasPrefix(t.s, s):
			return ev.made(t.slice(len(s), len(t.s)))
		case !prefix && strings.HasSuffix(t.s, s):
			return ev.made(t.slice(0, len(t.s)-len(s)))
		}
		return t
	}
}

// replace is str.replace; count < 0 means all.
func (ev *eval) replace(t, old, repl text, count int64) text {
	var b textBuilder
	at := 0
	put := func(x text) {
		ev.charge(len(x.s) + 4*len(x.flips))
		b.writeText(x)
	}
	if old.s == "" {
		for ; count != 0 && at <= len(t.s); count-- {
			put(repl)
			if at == len(t.s) {
				return b.text()
			}
			w := runeWidth(t.s[at:])
			put(t.slice(at, at+w))
			at += w
		}
	} else {
		for ; count != 0; count-- {
			n := strings.Index(t.s[at:], old.s)
			if n < 0 {
				break
			}
			put(t.slice(at, at+n))
			put(repl)
			at += n + len(old.s)
		}
	}
	if at == 0 {
		return t
	}
	put(t.slice(at, len(t.s)))
	return b.text()
}

func mapMethod(name string, f func(ev *eval, t text) text) stringMethod {
	return func(ev *eval, t text, a args) value {
		ev.bind(name, a)
		return f(ev, t)
	}
}

func findMethod(name string, index func(s, sub string) int, must bool) stringMethod {
	return func(ev *eval, t text, a args) value {
		p := ev.bind(name, a, "sub", "start", "end")
		sub := ev.textArg(name, p[0]).s
		part, ok := ev.window(name, t, p[1], p[2])
		at := -1
		if ok {
			at = index(part.s, sub)
		}
		if at < 0 {
			if must {
				ev.fail("substring is not found")
			}
			return int64(-1)
		}
		before := 0
		if p[1] != nil && !isNone(p[1]) {
			if i := ev.intArg(name, p[1], 0); i < 0 {
				before = max(runeCount(t.s)+int(i), 0)
			} else {
				before = int(i)
			}
		}
		return int64(before + runeCount(part.s[:at]))
	}
}

func partitionMethod(name string, index func(s, sub string) int) stringMethod {
	return func(ev *eval, t text, a args) value {
		p := ev.bind(name, a, "sep")
		sep := ev.textArg(name, p[0]).s
		if sep == "" {
			ev.fail("separator is empty")
		}
		at := index(t.s, sep)
		parts := []value{t, text{}, text{}}
		switch {
		case at >= 0:
			parts = []value{t.slice(0, at), t.slice(at, at+len(sep)), t.slice(at+len(sep), len(t.s))}
		case name == "rpartition":
			parts = []value{text{}, text{}, t}
		}
		return ev.newList(parts, true)
	}
}

func zfill(ev *eval, t text, a args) value {
	p := ev.bind("zfill", a, "width")
	n := ev.intArg("zfill", p[0], 0) - int64(runeCount(t.s))
	if n <= 0 {
		return t
	}
	zeros := ev.repeat(own("0"), n).(text)
	if t.s != "" && (t.s[0] == '-' || t.s[0] == '+') {
		return ev.add(ev.add(t.slice(0, 1), zeros), t.slice(1, len(t.s)))
	}
	return ev.add(zeros, t)
}

// padMethod fills on the left, the right or both sides.
func padMethod(name string, left, right int64) stringMethod {
	return func(ev *eval, t text, a args) value {
		p := ev.bind(name, a, "width", "fillchar")
		fill := own(" ")
		if p[1] != nil {
			fill = ev.textArg(name, p[1])
		}
		width := ev.intArg(name, p[0], 0)
		n := width - int64(runeCount(t.s))
		if n <= 0 {
			return t
		}
		l := n * left
		if left+right == 2 {
			l = n/2 + n&width&1 // CPython's choice of the side that gets the odd one
		}
		lt := ev.repeat(fill, l).(text)
		rt := ev.repeat(fill, n-l).(text)
		return ev.add(ev.add(lt, t), rt)
	}
}

func classMethod(name string, in func(rune) bool) stringMethod {
	return func(ev *eval, t text, a args) value {
		ev.bind(name, a)
		for _, r := range t.s {
			if !in(r) {
				return false
			}
		}
		return t.s != ""
	}
}

// formatMethod is str.format with plain {}, {0} and {name} fields; conversions,
// attribute walks and format specs are refused.
func formatMethod(ev *eval, t text, a args) value {
	var b textBuilder
	auto := 0
	for at := 0; at < len(t.s); {
		n := strings.IndexAny(t.s[at:], "{}")
		if n < 0 {
			b.writeText(t.slice(at, len(t.s)))
			break
		}
		b.writeText(t.slice(at, at+n))
		at += n
		ev.step(8)
		if at+1 < len(t.s) && t.s[at+1] == t.s[at] {
			b.writeText(t.slice(at, at+1))
			at += 2
			continue
		}
		end := strings.IndexByte(t.s[at:], '}')
		if t.s[at] == '}' || end < 0 {
			ev.fail("format string has a single brace")
		}
		v := ev.formatField(t.s[at+1:at+end], &auto, a)
		at += end + 1
		s := ev.str(v)
		ev.charge(len(s.s))
		b.writeText(s)
	}
	return b.text()
}

func (ev *eval) formatField(name string, auto *int, a args) value {
	n := 0
	switch {
	case name == "":
		n = *auto
		*auto++
	case isDigits(name) && len(name) < 6:
		for _, c := range name {
			n = n*10 + int(c-'0')
		}
	default:
		for _, k := range a.kw {
			if k.name == name {
				return k.v
			}
		}
		ev.fail("format field is not supported or not given")
	}
	if n >= len(a.pos) {
		ev.fail("format string wants more than %d arguments", len(a.pos))
	}
	return a.pos[n]
}

func isDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
