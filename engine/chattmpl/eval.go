package chattmpl

import (
	"fmt"
	"time"
)

// fault is what evaluation panics with; Render turns it into an *infer.Error.
type fault struct {
	msg    string
	raised bool // by the template's own raise_exception
	limit  bool // a limit was met
}

// scope is one level of variables. Reads fall through to the parents, writes
// stay: a {% set %} inside a loop is gone at the end of the round.
type scope struct {
	vars   []binding
	index  map[string]int // of vars, once they are many
	parent *scope
}

type binding struct {
	name string
	v    value
}

const manyVars = 16

func (s *scope) find(name string) int {
	if s.index != nil {
		if i, ok := s.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range s.vars {
		if s.vars[i].name == name {
			return i
		}
	}
	return -1
}

func (s *scope) lookup(name string) (value, bool) {
	for ; s != nil; s = s.parent {
		if i := s.find(name); i >= 0 {
			return s.vars[i].v, true
		}
	}
	return nil, false
}

func (s *scope) set(name string, v value) {
	if i := s.find(name); i >= 0 {
		s.vars[i].v = v
		return
	}
	s.vars = append(s.vars, binding{name, v})
	switch {
	case s.index != nil:
		s.index[name] = len(s.vars) - 1
	case len(s.vars) > manyVars:
		s.index = make(map[string]int, 2*manyVars)
		for i := range s.vars {
			s.index[s.vars[i].name] = i
		}
	}
}

// signal is how a statement list ended.
type signal uint8

const (
	goOn signal = iota
	doBreak
	doContinue
)

// eval runs one rendering.
type eval struct {
	scope *scope
	out   *textBuilder
	now   time.Time
	left  limits
	full  limits // what left began with
	depth int    // nested evaluations
}

func (ev *eval) fail(format string, a ...any) {
	panic(&fault{msg: fmt.Sprintf(format, a...)})
}

// exceed fails because of a limit.
func (ev *eval) exceed(format string, a ...any) {
	panic(&fault{msg: fmt.Sprintf(format, a...), limit: true})
}

// step spends n steps and one more.
func (ev *eval) step(n int) {
	if ev.left.steps -= n + 1; ev.left.steps < 0 {
		ev.exceed("it takes more than %d evaluation steps", ev.full.steps)
	}
}

// charge pays for a new string or container of about n bytes.
func (ev *eval) charge(n int) {
	ev.step(n / bytesPerStep)
	ev.left.alloc -= n
	ev.room(0)
}

// room checks that n bytes more could be had.
func (ev *eval) room(n int) {
	if n > ev.left.alloc {
		ev.exceed("it asks for more than %d bytes of memory", ev.full.alloc)
	}
}

func (ev *eval) made(t text) text {
	ev.charge(len(t.s) + 4*len(t.flips))
	return t
}

func (ev *eval) newList(items []value, tuple bool) *list {
	ev.charge(16 * len(items))
	return &list{items: items, tuple: tuple}
}

func (ev *eval) checkDefined(v value) {
	if u, ok := v.(undefined); ok {
		ev.fail("%.80s is undefined", u.name)
	}
}

// enter guards the machine stack.
func (ev *eval) enter() {
	if ev.depth++; ev.depth > maxEvalDepth {
		ev.exceed("it is nested deeper than %d", maxEvalDepth)
	}
}

func (ev *eval) run(body []stmt) signal {
	for _, s := range body {
		if sig := ev.exec(s); sig != goOn {
			return sig
		}
	}
	return goOn
}

func (ev *eval) exec(s stmt) signal {
	ev.step(0)
	ev.enter()
	sig := ev.execute(s)
	ev.depth--
	return sig
}

func (ev *eval) execute(s stmt) signal {
	switch s := s.(type) {
	case *dataStmt:
		ev.print(s.s)
	case *outputStmt:
		ev.print(ev.str(ev.expr(s.x)))
	case *ifStmt:
		if truth(ev.expr(s.cond)) {
			return ev.run(s.body)
		}
		return ev.run(s.otherwise)
	case *forStmt:
		ev.forLoop(s, ev.expr(s.iter), 0)
	case *setStmt:
		ev.assign(s.target, ev.expr(s.x))
	case *setBlockStmt:
		t := ev.capture(s.body)
		ev.assign(s.target, ev.applyFilters(t, s.filters))
	case *filterStmt:
		ev.print(ev.str(ev.applyFilters(ev.capture(s.body), s.filters)))
	case *withStmt:
		ev.with(s)
	case *scopeStmt:
		outer := ev.push()
		sig := ev.run(s.body)
		ev.scope = outer
		return sig
	case *macroStmt:
		ev.scope.set(s.name, &macro{node: s, scope: ev.scope})
	case *callStmt:
		m := &macro{node: s.body, scope: ev.scope}
		ev.print(ev.str(ev.call(s.call, m)))
	case *breakStmt:
		return doBreak
	case *continueStmt:
		return doContinue
	default:
		panic(fmt.Sprintf("BUG: statement %T", s))
	}
	return goOn
}

func (ev *eval) print(t text) {
	ev.step(len(t.s) / bytesPerStep)
	ev.left.output -= len(t.s)
	if ev.left.output < 0 {
		ev.exceed("it writes more than %d bytes", ev.full.output)
	}
	ev.out.writeText(t)
}

// push opens a scope and returns the one to go back to.
func (ev *eval) push() *scope {
	outer := ev.scope
	ev.scope = &scope{parent: outer}
	return outer
}

// capture runs body in its own scope and returns what it wrote.
func (ev *eval) capture(body []stmt) text {
	outer, out := ev.push(), ev.out
	ev.out = &textBuilder{}
	ev.run(body)
	t := ev.made(ev.out.text())
	ev.out, ev.scope = out, outer
	return t
}

func (ev *eval) applyFilters(v value, fs []filterCall) value {
	for _, f := range fs {
		v = ev.filter(v, f.name, ev.args(f.args))
	}
	return v
}

func (ev *eval) with(s *withStmt) {
	vals := make([]value, len(s.values))
	for i, x := range s.values {
		vals[i] = ev.expr(x)
	}
	outer := ev.push()
	for i, t := range s.targets {
		ev.assign(t, vals[i])
	}
	ev.run(s.body)
	ev.scope = outer
}

func (ev *eval) assign(t target, v value) {
	switch {
	case t.items != nil:
		items := ev.iterate(v)
		if len(items) != len(t.items) {
			ev.fail("cannot unpack %d values into %d names", len(items), len(t.items))
		}
		for i, sub := range t.items {
			ev.assign(sub, items[i])
		}
	case t.attr != "":
		ns, _ := ev.scope.lookup(t.name)
		n, ok := ns.(*namespace)
		if !ok {
			ev.fail("cannot assign attribute on %.80s, want a namespace", t.name)
		}
		ev.charge(len(t.attr) + 32)
		n.vars.set(own(t.attr), v)
	default:
		ev.scope.set(t.name, v)
	}
}

// iterate lists the items of an iterable.
func (ev *eval) iterate(v value) []value {
	switch v := v.(type) {
	case *list:
		return v.items
	case *dict:
		return v.keys
	case undefined:
		return nil
	case text:
		ev.charge(48 * len(v.s))
		out := make([]value, 0, len(v.s))
		v.eachRuneText(func(c text) { out = append(out, c) })
		return out
	}
	ev.fail("cannot iterate over %s", typeName(v))
	return nil
}

// loopState is the variable `loop`.
type loopState struct {
	node    *forStmt
	items   []value
	index   int
	depth   int
	changed []value // arguments of the last loop.changed()
	called  bool
}

func (ev *eval) forLoop(s *forStmt, over value, depth int) {
	items := ev.iterate(over)
	if s.filter != nil {
		items = ev.loopFilter(s, items)
	}
	loop := &loopState{node: s, items: items, depth: depth}
	outer := ev.scope
	for i, item := range items {
		ev.step(4)
		loop.index = i
		ev.scope = &scope{parent: outer}
		ev.assign(s.target, item)
		ev.scope.set("loop", loop)
		if ev.run(s.body) == doBreak {
			break
		}
	}
	ev.scope = outer
	if len(items) == 0 && s.otherwise != nil {
		ev.push()
		ev.run(s.otherwise)
		ev.scope = outer
	}
}

func (ev *eval) loopFilter(s *forStmt, items []value) []value {
	ev.charge(16 * len(items))
	kept := make([]value, 0, len(items))
	outer := ev.scope
	for _, item := range items {
		ev.step(4)
		ev.scope = &scope{parent: outer}
		ev.assign(s.target, item)
		if truth(ev.expr(s.filter)) {
			kept = append(kept, item)
		}
	}
	ev.scope = outer
	return kept
}

func (l *loopState) attr(name string) (value, bool) {
	n := int64(len(l.items))
	i := int64(l.index)
	switch name {
	case "index":
		return i + 1, true
	case "index0":
		return i, true
	case "revindex":
		return n - i, true
	case "revindex0":
		return n - i - 1, true
	case "first":
		return i == 0, true
	case "last":
		return i == n-1, true
	case "length":
		return n, true
	case "depth":
		return int64(l.depth + 1), true
	case "depth0":
		return int64(l.depth), true
	case "previtem":
		if i > 0 {
			return l.items[i-1], true
		}
		return undefined{"there is no previous item"}, true
	case "nextitem":
		if i+1 < n {
			return l.items[i+1], true
		}
		return undefined{"there is no next item"}, true
	case "cycle":
		return &function{"cycle", func(ev *eval, a args) value {
			if len(a.pos) == 0 {
				ev.fail("loop.cycle wants values")
			}
			return a.pos[l.index%len(a.pos)]
		}}, true
	case "changed":
		return &function{"changed", func(ev *eval, a args) value {
			same := l.called && ev.equal(&list{items: l.changed}, &list{items: a.pos})
			l.changed, l.called = a.pos, true
			return !same
		}}, true
	}
	return nil, false
}

// macro is a template-defined callable. It sees the variables of the place
// where it was defined as they are when it is called.
type macro struct {
	node  *macroStmt
	scope *scope
}

func (ev *eval) callMacro(m *macro, a args, caller value) value {
	if ev.left.calls--; ev.left.calls < 0 {
		ev.exceed("macros call each other deeper than %d", maxCallDepth)
	}
	outer, out := ev.scope, ev.out
	ev.scope, ev.out = &scope{parent: m.scope}, &textBuilder{}
	ev.bindMacro(m.node, a, caller)
	ev.run(m.node.body)
	t := ev.made(ev.out.text())
	ev.scope, ev.out = outer, out
	ev.left.calls++
	return t
}

// bindMacro assigns the arguments as Jinja does: missing ones are undefined,
// surplus ones an error unless the body reads varargs or kwargs.
func (ev *eval) bindMacro(n *macroStmt, a args, caller value) {
	given := make(map[string]bool, len(n.params))
	for i, p := range n.params {
		if i < len(a.pos) {
			ev.scope.set(p, a.pos[i])
			given[p] = true
		}
	}
	extra := newDict(0)
	for _, k := range a.kw {
		switch {
		case given[k.name]:
			ev.fail("macro %.80s got %.80s twice", n.name, k.name)
		case contains(n.params, k.name):
			ev.scope.set(k.name, k.v)
			given[k.name] = true
		case k.name == "caller" && n.caller:
			caller = k.v
		case n.kwargs:
			extra.set(own(k.name), k.v)
		default:
			ev.fail("macro %.80s takes no argument %.80s", n.name, k.name)
		}
	}
	for i, p := range n.params {
		if given[p] {
			continue
		}
		if d := i - (len(n.params) - len(n.defaults)); d >= 0 {
			ev.scope.set(p, ev.expr(n.defaults[d]))
		} else {
			ev.scope.set(p, undefined{"parameter " + p})
		}
	}
	if n.kwargs {
		ev.scope.set("kwargs", extra)
	}
	if rest := max(len(a.pos)-len(n.params), 0); n.varargs {
		ev.scope.set("varargs", &list{items: a.pos[len(a.pos)-rest:], tuple: true})
	} else if rest > 0 {
		ev.fail("macro %.80s takes %d arguments, got %d", n.name, len(n.params), len(a.pos))
	}
	if caller == nil {
		caller = undefined{"caller"}
	} else if !n.caller {
		ev.fail("macro %.80s was called with a call block but does not use it", n.name)
	}
	if n.caller {
		ev.scope.set("caller", caller)
	}
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}
