package chattmpl

// body parses statements up to a block tag whose name is in ends, which stays
// unread but for its "{%".
func (p *parser) body(ends ...string) []stmt {
	defer p.enter()()
	var out []stmt
	for {
		switch t := p.next(); t.kind {
		case tokEOF:
			if len(ends) > 0 {
				p.fail("template ends, want %q", ends[0])
			}
			return out
		case tokData:
			p.count()
			out = append(out, &dataStmt{own(t.s)})
		case tokVarBegin:
			p.count()
			out = append(out, &outputStmt{p.tuple(func() bool { return p.cur().kind == tokVarEnd }, true, false)})
			p.end(tokVarEnd)
		case tokBlockBegin:
			if p.isName(ends...) {
				return out
			}
			if s := p.statement(); s != nil {
				out = append(out, s)
			}
		}
	}
}

func (p *parser) end(k tokenKind) {
	if t := p.cur(); t.kind != k {
		p.fail("unexpected %v", t)
	}
	p.next()
}

// closing reads the end tag that body stopped at.
func (p *parser) closing() {
	p.next()
	p.end(tokBlockEnd)
}

func (p *parser) statement() stmt {
	p.count()
	name := p.expectName()
	switch name {
	case "for":
		return p.forLoop()
	case "if":
		return p.ifChain()
	case "set":
		return p.set()
	case "macro":
		return p.macro()
	case "call":
		return p.callBlock()
	case "filter":
		return p.filterBlock()
	case "with":
		return p.with()
	case "generation":
		p.end(tokBlockEnd)
		s := &scopeStmt{p.body("endgeneration")}
		p.closing()
		return s
	case "block":
		return p.block()
	case "break", "continue":
		if p.loops == 0 {
			p.fail("%s outside a loop", name)
		}
		p.end(tokBlockEnd)
		if name == "break" {
			return &breakStmt{}
		}
		return &continueStmt{}
	}
	p.fail("statement %.40q is not supported", name)
	return nil
}

func (p *parser) block() stmt {
	p.expectName()
	p.skipName("scoped")
	p.end(tokBlockEnd)
	s := &scopeStmt{p.body("endblock")}
	p.next()
	if p.cur().kind == tokName {
		p.next()
	}
	p.end(tokBlockEnd)
	return s
}

func (p *parser) forLoop() stmt {
	f := &forStmt{target: p.targets(func() bool { return p.isName("in") })}
	if !p.skipName("in") {
		p.fail("got %v, want %q", p.cur(), "in")
	}
	stop := func() bool { return p.cur().kind == tokBlockEnd || p.isName("if", "recursive") }
	f.iter = p.tuple(stop, false, false)
	if p.skipName("if") {
		f.filter = p.expression()
	}
	f.recursive = p.skipName("recursive")
	p.end(tokBlockEnd)
	p.loops++
	f.body = p.body("endfor", "else")
	p.loops--
	if p.next().s == "else" {
		p.end(tokBlockEnd)
		f.otherwise = p.body("endfor")
		p.next()
	}
	p.end(tokBlockEnd)
	return f
}

// ifChain parses from behind "if" or "elif" to the end tag. Chained elifs nest
// to the right but cost no parse depth.
func (p *parser) ifChain() stmt {
	p.soft++
	defer func() { p.soft-- }()
	first := &ifStmt{}
	for s := first; ; {
		s.cond = p.tuple(func() bool { return p.cur().kind == tokBlockEnd }, true, false)
		p.end(tokBlockEnd)
		s.body = p.body("elif", "else", "endif")
		switch p.next().s {
		case "elif":
			n := &ifStmt{}
			s.otherwise = []stmt{n}
			s = n
			p.count()
			continue
		case "else":
			p.end(tokBlockEnd)
			s.otherwise = p.body("endif")
			p.next()
		}
		p.end(tokBlockEnd)
		return first
	}
}

// targets parses an assignment target, perhaps a tuple without parentheses.
func (p *parser) targets(end func() bool) target {
	var ts []target
	comma := false
	for !end() {
		ts = append(ts, p.oneTarget())
		if !p.skipOp(",") {
			break
		}
		comma = true
	}
	if len(ts) == 0 {
		p.fail("got %v, want a name to assign to", p.cur())
	}
	if len(ts) == 1 && !comma {
		return ts[0]
	}
	return target{items: ts}
}

func (p *parser) oneTarget() target {
	defer p.enter()()
	if p.skipOp("(") {
		t := p.targets(func() bool { return p.isOp(")") })
		p.expectOp(")")
		return t
	}
	name := p.expectName()
	switch name {
	case "true", "false", "none", "True", "False", "None":
		p.fail("cannot assign to %q", name)
	}
	return target{name: name}
}

func (p *parser) set() stmt {
	var t target
	if p.cur().kind == tokName && p.toks[p.at+1].kind == tokOp && p.toks[p.at+1].s == "." {
		t.name = p.next().s
		p.names[t.name] = true
		p.next()
		t.attr = p.expectName()
	} else {
		t = p.targets(func() bool { return p.isOp("=") || p.cur().kind == tokBlockEnd })
	}
	if p.skipOp("=") {
		s := &setStmt{target: t, x: p.tuple(func() bool { return p.cur().kind == tokBlockEnd }, true, false)}
		p.end(tokBlockEnd)
		return s
	}
	if t.items != nil {
		p.fail("block assignment takes one name")
	}
	s := &setBlockStmt{target: t}
	for p.skipOp("|") {
		s.filters = append(s.filters, p.filter())
	}
	p.end(tokBlockEnd)
	s.body = p.body("endset")
	p.closing()
	return s
}

func (p *parser) filterBlock() stmt {
	s := &filterStmt{filters: []filterCall{p.filter()}}
	for p.skipOp("|") {
		s.filters = append(s.filters, p.filter())
	}
	p.end(tokBlockEnd)
	s.body = p.body("endfilter")
	p.closing()
	return s
}

func (p *parser) with() stmt {
	s := &withStmt{}
	for p.cur().kind != tokBlockEnd {
		s.targets = append(s.targets, p.oneTarget())
		p.expectOp("=")
		s.values = append(s.values, p.expression())
		if !p.skipOp(",") {
			break
		}
	}
	p.end(tokBlockEnd)
	s.body = p.body("endwith")
	p.closing()
	return s
}

func (p *parser) macro() stmt {
	m := &macroStmt{name: p.expectName()}
	p.signature(m)
	p.end(tokBlockEnd)
	p.macroBody(m, "endmacro")
	return m
}

// signature parses "(a, b=1)".
func (p *parser) signature(m *macroStmt) {
	p.expectOp("(")
	seen := map[string]bool{}
	for !p.isOp(")") {
		name := p.expectName()
		if seen[name] {
			p.fail("parameter %.40q is named twice", name)
		}
		seen[name] = true
		m.params = append(m.params, name)
		p.count()
		if p.skipOp("=") {
			m.defaults = append(m.defaults, p.expression())
		} else if len(m.defaults) > 0 {
			p.fail("parameter without default follows one with")
		}
		if !p.skipOp(",") {
			break
		}
	}
	p.expectOp(")")
}

// macroBody notes which of the special names the body reads.
func (p *parser) macroBody(m *macroStmt, end string) {
	outer, loops := p.names, p.loops
	p.names, p.loops = map[string]bool{}, 0
	m.body = p.body(end)
	p.closing()
	m.varargs, m.kwargs, m.caller = p.names["varargs"], p.names["kwargs"], p.names["caller"]
	for n := range p.names {
		outer[n] = true
	}
	p.names, p.loops = outer, loops
}

func (p *parser) callBlock() stmt {
	m := &macroStmt{name: "caller"}
	if p.isOp("(") {
		p.signature(m)
	}
	c, ok := p.unary(false).(*callExpr)
	if !ok {
		p.fail("call block wants a call")
	}
	p.end(tokBlockEnd)
	p.macroBody(m, "endcall")
	return &callStmt{call: c, body: m}
}
