package chattmpl

import (
	"strconv"
	"strings"
	"unicode"
)

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// path is Jinja's attribute argument: "a.b.0" looked up by items first.
func (ev *eval) path(v value, attr value) value {
	if _, _, isInt, ok := number(attr); ok && isInt {
		return ev.item(v, attr)
	}
	for _, part := range strings.Split(ev.textArg("attribute", attr).s, ".") {
		ev.step(1)
		if n, err := strconv.ParseInt(part, 10, 64); err == nil {
			v = ev.item(v, n)
		} else {
			v = ev.item(v, own(part))
		}
	}
	return v
}

// sortKey is what values are ordered by: an attribute, strings in lower case
// unless case counts.
func (ev *eval) sortKey(v, attr value, caseSensitive bool) value {
	if attr != nil && !isNone(attr) {
		v = ev.path(v, attr)
	}
	if t, ok := v.(text); ok && !caseSensitive {
		return lower(ev, t)
	}
	return v
}

func (ev *eval) sortKeys(items []value, attr value, caseSensitive bool) [][]value {
	attrs := []value{attr}
	if t, ok := attr.(text); ok && strings.Contains(t.s, ",") {
		attrs = attrs[:0]
		for _, s := range strings.Split(t.s, ",") {
			attrs = append(attrs, own(strings.TrimFunc(s, isSpace)))
		}
	}
	ev.charge(48 * len(items) * len(attrs))
	keys := make([][]value, len(items))
	for i, e := range items {
		for _, a := range attrs {
			keys[i] = append(keys[i], ev.sortKey(e, a, caseSensitive))
		}
	}
	return keys
}

// sorted gives the items in the order of their keys.
func (ev *eval) sorted(items []value, keys [][]value, descending bool) []value {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	sortStable(order, func(a, b int) bool {
		for k := range keys[a] {
			x, y := keys[a][k], keys[b][k]
			if descending {
				x, y = y, x
			}
			if c, _ := ev.order(x, y); c != 0 {
				return c < 0
			}
		}
		return false
	})
	out := make([]value, len(items))
	for i, n := range order {
		out[i] = items[n]
	}
	return out
}

func filterSort(ev *eval, v value, a args) value {
	p := ev.bind("sort", a, "reverse", "case_sensitive", "attribute")
	items := ev.iterate(v)
	keys := ev.sortKeys(items, p[2], boolArg(p[1], false))
	return ev.newList(ev.sorted(items, keys, boolArg(p[0], false)), false)
}

func filterDictSort(ev *eval, v value, a args) value {
	p := ev.bind("dictsort", a, "case_sensitive", "by", "reverse")
	d, ok := v.(*dict)
	if !ok {
		ev.fail("dictsort wants a mapping, got %s", typeName(v))
	}
	by := int64(0)
	if p[1] != nil {
		switch ev.textArg("dictsort", p[1]).s {
		case "key":
		case "value":
			by = 1
		default:
			ev.fail("dictsort sorts by key or value")
		}
	}
	pairs := ev.items(d).items
	keys := ev.sortKeys(pairs, by, boolArg(p[0], false))
	return ev.newList(ev.sorted(pairs, keys, boolArg(p[2], false)), false)
}

func filterGroupBy(ev *eval, v value, a args) value {
	p := ev.bind("groupby", a, "attribute", "default", "case_sensitive")
	if p[0] == nil {
		ev.fail("groupby lacks an attribute")
	}
	items := ev.iterate(v)
	get := func(e value, fold bool) value {
		k := ev.path(e, p[0])
		if isUndefined(k) && p[1] != nil {
			k = p[1]
		}
		if t, ok := k.(text); ok && fold {
			return lower(ev, t)
		}
		return k
	}
	fold := !boolArg(p[2], false)
	ev.charge(48 * len(items))
	keys := make([][]value, len(items))
	for i, e := range items {
		keys[i] = []value{get(e, fold)}
	}
	var groups []value
	var members *list
	var lastKey value
	for _, e := range ev.sorted(items, keys, false) {
		k := get(e, fold)
		if members == nil || !ev.equal(lastKey, k) {
			members, lastKey = &list{}, k
			groups = append(groups, &list{items: []value{get(e, false), members}, tuple: true, fields: groupFields})
		}
		members.items = append(members.items, e)
	}
	return ev.newList(groups, false)
}

var groupFields = []string{"grouper", "list"}

func filterUnique(ev *eval, v value, a args) value {
	p := ev.bind("unique", a, "case_sensitive", "attribute")
	seen := map[string]bool{}
	var out []value
	for _, e := range ev.iterate(v) {
		key := ev.sortKey(e, p[1], boolArg(p[0], false))
		h, ok := hashKey(key)
		if !ok {
			ev.fail("unique cannot compare %s", typeName(key))
		}
		ev.charge(len(h) + 256)
		if !seen[h] {
			seen[h] = true
			out = append(out, e)
		}
	}
	return ev.newList(out, false)
}

func filterExtreme(name string, sign int) filterFunc {
	return func(ev *eval, v value, a args) value {
		p := ev.bind(name, a, "case_sensitive", "attribute")
		var best, bestKey value
		for _, e := range ev.iterate(v) {
			k := ev.sortKey(e, p[1], boolArg(p[0], false))
			if best == nil {
				best, bestKey = e, k
				continue
			}
			if c, _ := ev.order(k, bestKey); c*sign > 0 {
				best, bestKey = e, k
			}
		}
		if best == nil {
			return undefined{"the " + name + " of an empty sequence"}
		}
		return best
	}
}

func filterSum(ev *eval, v value, a args) value {
	p := ev.bind("sum", a, "attribute", "start")
	total := value(int64(0))
	if p[1] != nil {
		total = p[1]
	}
	for _, e := range ev.iterate(v) {
		if p[0] != nil && !isNone(p[0]) {
			e = ev.path(e, p[0])
		}
		total = ev.binary("+", total, e)
	}
	return total
}

func filterBatch(ev *eval, v value, a args) value {
	p := ev.bind("batch", a, "linecount", "fill_with")
	n := ev.intArg("batch", p[0], 0)
	if n < 1 {
		ev.fail("batch wants a positive size")
	}
	items := ev.iterate(v)
	ev.charge(64 * len(items))
	var out []value
	for len(items) > 0 {
		k := min(int(n), len(items))
		row := append([]value(nil), items[:k]...)
		items = items[k:]
		if p[1] != nil && !isNone(p[1]) && int64(k) < n {
			ev.room(16 * int(min(n, 1<<40)))
			for int64(len(row)) < n {
				ev.charge(16)
				row = append(row, p[1])
			}
		}
		out = append(out, &list{items: row})
	}
	return &list{items: out}
}

func filterSlice(ev *eval, v value, a args) value {
	p := ev.bind("slice", a, "slices", "fill_with")
	n := ev.intArg("slice", p[0], 0)
	if n < 1 || n > maxRange {
		ev.fail("slice wants a positive number")
	}
	items := ev.iterate(v)
	ev.charge(16*len(items) + 64*int(n))
	per, more := len(items)/int(n), len(items)%int(n)
	out := make([]value, 0, n)
	at := 0
	for i := 0; i < int(n); i++ {
		size := per
		if i < more {
			size++
		}
		row := append([]value(nil), items[at:at+size]...)
		at += size
		if p[1] != nil && !isNone(p[1]) && i >= more && more > 0 {
			row = append(row, p[1])
		}
		out = append(out, &list{items: row})
	}
	return &list{items: out}
}

// filterMap is map(attribute=…, default=…) or map('filter', arguments…).
func filterMap(ev *eval, v value, a args) value {
	items := ev.iterate(v)
	ev.charge(16 * len(items))
	out := make([]value, len(items))
	if len(a.pos) == 0 {
		p := ev.bind("map", a, "attribute", "default")
		if p[0] == nil {
			ev.fail("map wants a filter or an attribute")
		}
		for i, e := range items {
			out[i] = ev.path(e, p[0])
			if isUndefined(out[i]) && p[1] != nil {
				out[i] = p[1]
			}
		}
		return &list{items: out}
	}
	name := ev.textArg("map", a.pos[0]).s
	rest := args{pos: a.pos[1:], kw: a.kw}
	for i, e := range items {
		out[i] = ev.filter(e, name, rest)
	}
	return &list{items: out}
}

// filterSelect is select, reject, selectattr and rejectattr.
func filterSelect(name string, keep, byAttr bool) filterFunc {
	return func(ev *eval, v value, a args) value {
		var attr value
		if byAttr {
			if len(a.pos) == 0 {
				ev.fail("%s wants an attribute", name)
			}
			attr, a.pos = a.pos[0], a.pos[1:]
		}
		pass := func(v value) bool { return truth(v) }
		if len(a.pos) > 0 {
			test := tests[ev.textArg(name, a.pos[0]).s]
			if test == nil {
				ev.fail("%s names a test that is not there", name)
			}
			rest := args{pos: a.pos[1:], kw: a.kw}
			pass = func(v value) bool { return test(ev, v, rest) }
		}
		var out []value
		for _, e := range ev.iterate(v) {
			ev.step(1)
			x := e
			if byAttr {
				x = ev.path(e, attr)
			}
			if pass(x) == keep {
				out = append(out, e)
			}
		}
		return ev.newList(out, false)
	}
}
