package chattmpl

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

type filterFunc func(ev *eval, v value, a args) value

// filters is filled in init, since some filters call others by name.
var filters map[string]filterFunc

func (ev *eval) filter(v value, name string, a args) value {
	ev.step(1)
	f := filters[name]
	if f == nil {
		ev.fail("no filter named %.40q", name)
	}
	return f(ev, v, a)
}

func init() {
	filters = map[string]filterFunc{
		"abs":        filterAbs,
		"batch":      filterBatch,
		"capitalize": textFilter("capitalize", capitalize),
		"center":     func(ev *eval, v value, a args) value { return stringMethods["center"](ev, ev.str(v), centerArgs(a)) },
		"count":      filterLength,
		"d":          filterDefault,
		"default":    filterDefault,
		"dictsort":   filterDictSort,
		"e":          filterEscape,
		"escape":     filterEscape,
		"first":      filterEnd("first", 0),
		"float":      filterFloat,
		"format":     filterFormat,
		"groupby":    filterGroupBy,
		"indent":     filterIndent,
		"int":        filterInt,
		"items":      filterItems,
		"join":       filterJoin,
		"last":       filterEnd("last", -1),
		"length":     filterLength,
		"list":       filterList,
		"lower":      textFilter("lower", lower),
		"map":        filterMap,
		"max":        filterExtreme("max", 1),
		"min":        filterExtreme("min", -1),
		"reject":     filterSelect("reject", false, false),
		"rejectattr": filterSelect("rejectattr", false, true),
		"replace":    filterReplace,
		"reverse":    filterReverse,
		"round":      filterRound,
		"safe":       filterString,
		"select":     filterSelect("select", true, false),
		"selectattr": filterSelect("selectattr", true, true),
		"slice":      filterSlice,
		"sort":       filterSort,
		"string":     filterString,
		"sum":        filterSum,
		"title":      textFilter("title", titleFilter),
		"tojson":     filterToJSON,
		"trim":       filterTrim,
		"truncate":   filterTruncate,
		"unique":     filterUnique,
		"upper":      textFilter("upper", upper),
		"wordcount":  filterWordCount,
	}
}

func textFilter(name string, f func(*eval, text) text) filterFunc {
	return func(ev *eval, v value, a args) value {
		ev.bind(name, a)
		return f(ev, ev.str(v))
	}
}

func centerArgs(a args) args {
	if len(a.pos) == 0 && len(a.kw) == 0 {
		a.pos = []value{int64(80)}
	}
	return a
}

func filterAbs(ev *eval, v value, a args) value {
	ev.bind("abs", a)
	i, f, isInt, ok := number(v)
	switch {
	case !ok:
		ev.fail("abs wants a number, got %s", typeName(v))
	case !isInt:
		return math.Abs(f)
	case i < 0:
		return ev.unary("-", i)
	}
	return i
}

func filterDefault(ev *eval, v value, a args) value {
	p := ev.bind("default", a, "default_value", "boolean")
	if isUndefined(v) || boolArg(p[1], false) && !truth(v) {
		if p[0] == nil {
			return text{}
		}
		return p[0]
	}
	return v
}

var htmlEscapes = map[byte]string{'&': "&amp;", '<': "&lt;", '>': "&gt;", '\'': "&#39;", '"': "&#34;"}

func filterEscape(ev *eval, v value, a args) value {
	ev.bind("escape", a)
	return mapRuns(ev, ev.str(v), func(s string) string {
		var b strings.Builder
		for i := 0; i < len(s); i++ {
			if e, ok := htmlEscapes[s[i]]; ok {
				b.WriteString(e)
			} else {
				b.WriteByte(s[i])
			}
		}
		return b.String()
	})
}

func filterEnd(name string, at int64) filterFunc {
	return func(ev *eval, v value, a args) value {
		ev.bind(name, a)
		items := ev.iterate(v)
		if len(items) == 0 {
			return undefined{"the " + name + " item of an empty sequence"}
		}
		if at < 0 {
			return items[len(items)-1]
		}
		return items[0]
	}
}

func filterFloat(ev *eval, v value, a args) value {
	p := ev.bind("float", a, "default")
	if _, f, _, ok := number(v); ok {
		return f
	}
	if t, ok := v.(text); ok {
		if f, err := parseFloat(t.s); err == nil {
			return f
		}
	}
	if p[0] == nil {
		return 0.0
	}
	return p[0]
}

// parseFloat takes what Python's float() takes of decimal texts.
func parseFloat(s string) (float64, error) {
	s = strings.TrimFunc(s, isSpace)
	if strings.ContainsAny(s, "xXpP") {
		return 0, strconv.ErrSyntax
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil && math.IsInf(f, 0) {
		return f, nil
	}
	return f, err
}

func filterInt(ev *eval, v value, a args) value {
	p := ev.bind("int", a, "default", "base")
	def := value(int64(0))
	if p[0] != nil {
		def = p[0]
	}
	if b, ok := v.(*big.Int); ok {
		return b
	}
	i, f, isInt, ok := number(v)
	if t, isText := v.(text); isText {
		s := strings.TrimFunc(t.s, isSpace)
		base := int(ev.intArg("int", p[1], 10))
		if base != 0 && (base < 2 || base > 36) {
			ev.fail("int base is out of range")
		}
		if base == 16 || base == 8 || base == 2 {
			s = trimRadix(s, base)
		}
		if n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), base, 64); err == nil {
			return n
		}
		var err error
		f, err = parseFloat(t.s)
		ok = err == nil
	}
	switch {
	case !ok || f != f || math.IsInf(f, 0):
		return def
	case isInt:
		return i
	case math.Abs(f) >= 1<<63:
		ev.overflow()
	}
	return int64(f)
}

func trimRadix(s string, base int) string {
	prefix := map[int]string{16: "0x", 8: "0o", 2: "0b"}[base]
	if len(s) > 2 && strings.EqualFold(s[:2], prefix) {
		return s[2:]
	}
	return s
}

func filterFormat(ev *eval, v value, a args) value {
	t := ev.str(v)
	if len(a.kw) > 0 {
		d := newDict(len(a.kw))
		for _, k := range a.kw {
			d.set(own(k.name), k.v)
		}
		return ev.percent(t, d)
	}
	return ev.percent(t, &list{items: a.pos, tuple: true})
}

func filterIndent(ev *eval, v value, a args) value {
	p := ev.bind("indent", a, "width", "first", "blank")
	pad := own("    ")
	if t, ok := p[0].(text); ok {
		pad = t
	} else if p[0] != nil {
		pad = ev.repeat(own(" "), ev.intArg("indent", p[0], 4)).(text)
	}
	first, blank := boolArg(p[1], false), boolArg(p[2], false)
	lines := ev.splitLines(ev.add(ev.str(v), own("\n")), false).(*list).items
	var b textBuilder
	for i, l := range lines {
		t := l.(text)
		if i > 0 {
			b.write("\n", false)
		}
		if i == 0 && first || i > 0 && (blank || t.s != "") {
			b.writeText(pad)
			ev.charge(len(pad.s))
		}
		b.writeText(t)
	}
	return ev.made(b.text())
}

func filterItems(ev *eval, v value, a args) value {
	ev.bind("items", a)
	switch v := v.(type) {
	case undefined:
		return &list{}
	case *dict:
		return ev.items(v)
	}
	ev.fail("items wants a mapping, got %s", typeName(v))
	return nil
}

func filterJoin(ev *eval, v value, a args) value {
	p := ev.bind("join", a, "d", "attribute")
	items := ev.iterate(v)
	if p[1] != nil && !isNone(p[1]) {
		ev.charge(16 * len(items))
		mapped := make([]value, len(items))
		for i, e := range items {
			mapped[i] = ev.path(e, p[1])
		}
		items = mapped
	}
	sep := text{}
	if p[0] != nil {
		sep = ev.str(p[0])
	}
	return ev.join(sep, items, false)
}

func filterLength(ev *eval, v value, a args) value {
	ev.bind("length", a)
	switch v := v.(type) {
	case text:
		ev.step(len(v.s) / bytesPerStep)
		return int64(runeCount(v.s))
	case *list:
		return int64(len(v.items))
	case *dict:
		return int64(len(v.keys))
	case undefined:
		return int64(0)
	case *loopState:
		return int64(len(v.items))
	}
	ev.fail("%s has no length", typeName(v))
	return nil
}

func filterList(ev *eval, v value, a args) value {
	ev.bind("list", a)
	items := ev.iterate(v)
	l := &list{items: items}
	switch v := v.(type) {
	case *list:
		l.user = v.user
	case *dict:
		l.user = v.user
	}
	return l
}

func filterReplace(ev *eval, v value, a args) value {
	p := ev.bind("replace", a, "old", "new", "count")
	if p[0] == nil || p[1] == nil {
		ev.fail("replace lacks an argument")
	}
	count := int64(-1)
	if p[2] != nil && !isNone(p[2]) {
		count = ev.intArg("replace", p[2], -1)
	}
	return ev.replace(ev.str(v), ev.str(p[0]), ev.str(p[1]), count)
}

func filterReverse(ev *eval, v value, a args) value {
	ev.bind("reverse", a)
	if t, ok := v.(text); ok {
		return ev.sliceText(t, int64(runeCount(t.s))-1, -1, -1)
	}
	items := ev.iterate(v)
	ev.charge(16 * len(items))
	out := append([]value(nil), items...)
	reverse(out)
	l := &list{items: out}
	if from, ok := v.(*list); ok {
		l.user = from.user
	}
	return l
}

func filterRound(ev *eval, v value, a args) value {
	p := ev.bind("round", a, "precision", "method")
	prec := ev.intArg("round", p[0], 0)
	if prec < -400 || prec > 400 {
		ev.fail("precision is out of range")
	}
	i, f, isInt, ok := number(v)
	if !ok {
		ev.fail("round wants a number, got %s", typeName(v))
	}
	how := "common"
	if p[1] != nil {
		how = ev.textArg("round", p[1]).s
	}
	scale := math.Pow(10, float64(prec))
	switch how {
	case "common":
		if isInt && prec >= 0 {
			return i
		}
		return roundHalfEven(f, int(prec), isInt)
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	}
	ev.fail("method must be common, ceil or floor")
	return nil
}

// roundHalfEven rounds the exact binary value, as Python's round does.
func roundHalfEven(f float64, prec int, isInt bool) value {
	if math.IsInf(f, 0) || f != f {
		return f
	}
	if prec >= 0 {
		r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', prec, 64), 64)
		return r
	}
	scale := math.Pow(10, float64(-prec))
	r := math.RoundToEven(f/scale) * scale
	if isInt && math.Abs(r) < 1<<63 {
		return int64(r)
	}
	return r
}

func filterString(ev *eval, v value, a args) value {
	ev.bind("string", a)
	return ev.str(v)
}

func filterTrim(ev *eval, v value, a args) value {
	p := ev.bind("trim", a, "chars")
	return ev.strip("trim", ev.str(v), p[0], true, true)
}

func filterTruncate(ev *eval, v value, a args) value {
	p := ev.bind("truncate", a, "length", "killwords", "end", "leeway")
	t, end := ev.str(v), own("...")
	if p[2] != nil {
		end = ev.textArg("truncate", p[2])
	}
	length := ev.intArg("truncate", p[0], 255)
	leeway := ev.intArg("truncate", p[3], 5)
	n, e := int64(runeCount(t.s)), int64(runeCount(end.s))
	if length < e || leeway < 0 {
		ev.fail("truncate length is out of range")
	}
	if n <= length+leeway {
		return t
	}
	cut := t.slice(0, byteOffset(t.s, int(length-e)))
	if !boolArg(p[1], false) {
		if at := strings.LastIndexByte(cut.s, ' '); at >= 0 {
			cut = cut.slice(0, at)
		}
	}
	return ev.add(cut, end)
}

func filterWordCount(ev *eval, v value, a args) value {
	ev.bind("wordcount", a)
	t := ev.str(v)
	ev.charge(len(t.s))
	n, in := int64(0), false
	for _, r := range t.s {
		word := r == '_' || isWord(r)
		if word && !in {
			n++
		}
		in = word
	}
	return n
}

func filterToJSON(ev *eval, v value, a args) value {
	p := ev.bind("tojson", a, "ensure_ascii", "indent", "separators", "sort_keys")
	// Jinja's own filter has indent first; transformers' has ensure_ascii.
	w := jsonWriter{ev: ev, ascii: boolArg(p[0], false), sorted: boolArg(p[3], false), item: ", ", pair: ": "}
	if p[1] != nil && !isNone(p[1]) {
		w.pretty, w.item = true, ","
		if t, ok := p[1].(text); ok {
			w.indent = t.s
		} else {
			w.indent = ev.repeat(own(" "), ev.intArg("tojson", p[1], 0)).(text).s
		}
	}
	if l, ok := p[2].(*list); ok && len(l.items) == 2 {
		w.item, w.pair = ev.textArg("tojson", l.items[0]).s, ev.textArg("tojson", l.items[1]).s
	}
	w.value(v, 0, false)
	return ev.made(w.b.text())
}
