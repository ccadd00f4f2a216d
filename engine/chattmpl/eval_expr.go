package chattmpl

import "fmt"

func (ev *eval) expr(x expr) value {
	ev.step(0)
	ev.enter()
	v := ev.exprValue(x)
	ev.depth--
	return v
}

func (ev *eval) exprValue(x expr) value {
	switch x := x.(type) {
	case *constExpr:
		return x.v
	case *nameExpr:
		if v, ok := ev.scope.lookup(x.name); ok {
			return v
		}
		if f, ok := globals[x.name]; ok {
			return f
		}
		return undefined{x.name}
	case *attrExpr:
		return ev.attr(ev.expr(x.x), x.name)
	case *indexExpr:
		return ev.index(ev.expr(x.x), x.index)
	case *callExpr:
		return ev.call(x, nil)
	case *filterExpr:
		v := ev.expr(x.x)
		return ev.filter(v, x.f.name, ev.args(x.f.args))
	case *testExpr:
		v := ev.expr(x.x)
		test := tests[x.name]
		if test == nil {
			ev.fail("no test named %.40q", x.name)
		}
		return test(ev, v, ev.args(x.args))
	case *logicExpr:
		l := ev.expr(x.l)
		if truth(l) != x.and {
			return l
		}
		return ev.expr(x.r)
	case *unaryExpr:
		return ev.unary(x.op, ev.expr(x.x))
	case *binaryExpr:
		l := ev.expr(x.l)
		return ev.binary(x.op, l, ev.expr(x.r))
	case *compareExpr:
		return ev.compareChain(x)
	case *concatExpr:
		return ev.concat(x)
	case *condExpr:
		if truth(ev.expr(x.cond)) {
			return ev.expr(x.then)
		}
		if x.otherwise == nil {
			return undefined{"the inline if without else"}
		}
		return ev.expr(x.otherwise)
	case *listExpr:
		items := make([]value, len(x.items))
		for i, e := range x.items {
			items[i] = ev.expr(e)
		}
		return ev.newList(items, x.tuple)
	case *dictExpr:
		return ev.dictLiteral(x)
	}
	panic(fmt.Sprintf("BUG: expression %T", x))
}

func (ev *eval) dictLiteral(x *dictExpr) value {
	ev.charge(64 * len(x.keys))
	d := newDict(len(x.keys))
	for i, k := range x.keys {
		key := ev.expr(k)
		if !d.set(key, ev.expr(x.vals[i])) {
			ev.fail("cannot use %s as a key", typeName(key))
		}
	}
	return d
}

func (ev *eval) concat(x *concatExpr) value {
	var b textBuilder
	for _, e := range x.items {
		t := ev.str(ev.expr(e))
		ev.charge(len(t.s))
		b.writeText(t)
	}
	return b.text()
}

func (ev *eval) compareChain(x *compareExpr) value {
	l := ev.expr(x.x)
	for i, op := range x.ops {
		r := ev.expr(x.rest[i])
		if !ev.compare(op, l, r) {
			return false
		}
		l = r
	}
	return true
}

func (ev *eval) compare(op string, l, r value) bool {
	switch op {
	case "==":
		return ev.equal(l, r)
	case "!=":
		return !ev.equal(l, r)
	case "in":
		return ev.contains(r, l)
	case "not in":
		return !ev.contains(r, l)
	}
	c, nan := ev.order(l, r)
	if nan {
		return false
	}
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// args evaluates an argument list.
func (ev *eval) args(l argList) args {
	var a args
	if len(l.pos) > 0 {
		a.pos = make([]value, len(l.pos))
		for i, x := range l.pos {
			a.pos[i] = ev.expr(x)
		}
	}
	for i, x := range l.named {
		a.kw = append(a.kw, keyword{l.names[i], ev.expr(x)})
	}
	if l.star != nil {
		items := ev.iterate(ev.expr(l.star))
		ev.charge(16 * len(items))
		a.pos = append(a.pos, items...)
	}
	if l.starStar != nil {
		d, ok := ev.expr(l.starStar).(*dict)
		if !ok {
			ev.fail("argument after ** is no mapping")
		}
		ev.charge(32 * len(d.keys))
		for i, k := range d.keys {
			name, ok := k.(text)
			if !ok {
				ev.fail("argument names must be strings")
			}
			a.kw = append(a.kw, keyword{name.s, d.vals[i]})
		}
	}
	return a
}

// call evaluates fn(args); caller is the body of a call block, or nil.
func (ev *eval) call(x *callExpr, block *macro) value {
	fn := ev.expr(x.fn)
	a := ev.args(x.args)
	return ev.apply(fn, a, block)
}

func (ev *eval) apply(fn value, a args, block *macro) value {
	switch f := fn.(type) {
	case *macro:
		if block != nil {
			return ev.callMacro(f, a, block)
		}
		return ev.callMacro(f, a, nil)
	case *function:
		return f.call(ev, a)
	case *loopState:
		return ev.recurse(f, a)
	}
	ev.checkDefined(fn)
	ev.fail("cannot call %s", typeName(fn))
	return nil
}

// recurse runs loop(items) of a recursive loop.
func (ev *eval) recurse(l *loopState, a args) value {
	if !l.node.recursive || len(a.pos) != 1 {
		ev.fail("loop() wants a recursive loop and one iterable")
	}
	if ev.left.calls--; ev.left.calls < 0 {
		ev.fail("loops recurse deeper than %d", maxCallDepth)
	}
	outer, out := ev.scope, ev.out
	ev.out = &textBuilder{}
	ev.forLoop(l.node, a.pos[0], l.depth+1)
	t := ev.made(ev.out.text())
	ev.scope, ev.out = outer, out
	ev.left.calls++
	return t
}

// attr is x.name: methods and attributes first, then items, as Jinja does.
// Nothing but the listed methods can be reached this way.
func (ev *eval) attr(x value, name string) value {
	if m := method(x, name); m != nil {
		return m
	}
	switch x := x.(type) {
	case *dict:
		if v, ok := x.getString(name); ok {
			return v
		}
	case *namespace:
		if v, ok := x.vars.getString(name); ok {
			return v
		}
	case *loopState:
		if v, ok := x.attr(name); ok {
			return v
		}
	case *list:
		for i, f := range x.fields {
			if f == name {
				return x.items[i]
			}
		}
	case *macro:
		if name == "name" {
			return own(x.node.name)
		}
	case undefined:
		ev.fail("%.80s is undefined", x.name)
	}
	return undefined{name}
}

// index is x[index].
func (ev *eval) index(x value, index expr) value {
	if s, ok := index.(*sliceExpr); ok {
		return ev.slice(x, s)
	}
	return ev.item(x, ev.expr(index))
}

// item is x[key]: items first, then attributes. What is not there is undefined.
func (ev *eval) item(x, key value) value {
	switch x := x.(type) {
	case *dict:
		if v, ok := x.get(key); ok {
			return v
		}
	case *list:
		if i, _, isInt, ok := number(key); ok && isInt {
			n := int64(len(x.items))
			if i < 0 {
				i += n
			}
			if i >= 0 && i < n {
				return x.items[i]
			}
			return undefined{"an item out of range"}
		}
	case text:
		if i, _, isInt, ok := number(key); ok && isInt {
			return ev.charAt(x, i)
		}
	case undefined:
		ev.fail("%.80s is undefined", x.name)
	}
	if k, ok := key.(text); ok {
		return ev.attr(x, k.s)
	}
	return undefined{"an item"}
}

func (ev *eval) charAt(t text, i int64) value {
	ev.step(len(t.s) / bytesPerStep)
	n := int64(runeCount(t.s))
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return undefined{"a character out of range"}
	}
	at := byteOffset(t.s, int(i))
	return t.slice(at, at+runeWidth(t.s[at:]))
}

// slice is x[from:to:step].
func (ev *eval) slice(x value, s *sliceExpr) value {
	var n int64
	t, isText := x.(text)
	l, isList := x.(*list)
	switch {
	case isText:
		ev.step(len(t.s) / bytesPerStep)
		n = int64(runeCount(t.s))
	case isList:
		n = int64(len(l.items))
	default:
		ev.checkDefined(x)
		return undefined{"a slice of " + typeName(x)}
	}
	from, to, step := ev.sliceBounds(s, n)
	if isText {
		return ev.sliceText(t, from, to, step)
	}
	if step == 1 {
		return &list{items: l.items[from:max(from, to)], tuple: l.tuple, user: l.user}
	}
	var items []value
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		ev.charge(16)
		items = append(items, l.items[i])
	}
	return &list{items: items, tuple: l.tuple, user: l.user}
}

func (ev *eval) sliceText(t text, from, to, step int64) value {
	if step == 1 {
		i := byteOffset(t.s, int(from))
		j := i + byteOffset(t.s[i:], int(max(to-from, 0)))
		return ev.made(t.slice(i, j))
	}
	ev.charge(48 * len(t.s))
	var chars []text
	t.eachRuneText(func(c text) { chars = append(chars, c) })
	var b textBuilder
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		b.writeText(chars[i])
	}
	return b.text()
}

// sliceBounds clamps as Python's slice.indices. The step is clamped too, so
// that adding it cannot overflow.
func (ev *eval) sliceBounds(s *sliceExpr, n int64) (from, to, step int64) {
	step = 1
	if i, ok := ev.sliceBound(s.step); ok {
		if i == 0 {
			ev.fail("slice step is zero")
		}
		step = min(max(i, -n-1), n+1)
	}
	from, to = 0, n
	low, high := int64(0), n
	if step < 0 {
		from, to = n-1, -1
		low, high = -1, n-1
	}
	if i, ok := ev.sliceBound(s.from); ok {
		from = clampIndex(i, n, low, high)
	}
	if i, ok := ev.sliceBound(s.to); ok {
		to = clampIndex(i, n, low, high)
	}
	return from, to, step
}

func clampIndex(i, n, low, high int64) int64 {
	if i < 0 {
		i += n
	}
	return min(max(i, low), high)
}

// sliceBound evaluates one bound; ok is false if it is absent or none.
func (ev *eval) sliceBound(x expr) (i int64, ok bool) {
	if x == nil {
		return 0, false
	}
	v := ev.expr(x)
	if isNone(v) {
		return 0, false
	}
	i, _, isInt, ok := number(v)
	if !ok || !isInt {
		ev.fail("slice bound is %s, want an integer", typeName(v))
	}
	return i, true
}
