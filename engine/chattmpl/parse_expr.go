package chattmpl

import "fmt"

// parser builds the syntax tree by recursive descent, with Jinja's precedence.
type parser struct {
	toks  []token
	at    int
	nodes int
	depth int
	loops int // enclosing for statements of the current macro
	soft  int // enclosing if statements, where an unknown filter may stand unused
	names map[string]bool
}

func (p *parser) cur() token { return p.toks[p.at] }

func (p *parser) next() token {
	t := p.toks[p.at]
	if p.at < len(p.toks)-1 {
		p.at++
	}
	return t
}

func (p *parser) fail(format string, a ...any) {
	panic(&syntaxError{p.cur().line, fmt.Sprintf(format, a...)})
}

func (p *parser) isOp(op string) bool { t := p.cur(); return t.kind == tokOp && t.s == op }

func (p *parser) isName(names ...string) bool {
	t := p.cur()
	if t.kind != tokName {
		return false
	}
	for _, n := range names {
		if t.s == n {
			return true
		}
	}
	return false
}

func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.next()
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expectOp(op string) {
	if !p.skipOp(op) {
		p.fail("got %v, want %q", p.cur(), op)
	}
}

func (p *parser) expectName() string {
	if p.cur().kind != tokName {
		p.fail("got %v, want a name", p.cur())
	}
	return p.next().s
}

// enter counts a node and one level of nesting; use as defer p.enter()().
func (p *parser) enter() func() {
	p.count()
	if p.depth++; p.depth > maxParseDepth {
		p.fail("nested deeper than %d", maxParseDepth)
	}
	return func() { p.depth-- }
}

func (p *parser) count() {
	if p.nodes++; p.nodes > maxNodes {
		p.fail("more than %d syntax nodes", maxNodes)
	}
}

func (p *parser) expression() expr { return p.conditional(true) }

// conditional parses `a if b else c`; without allowIf only the part before.
func (p *parser) conditional(allowIf bool) expr {
	defer p.enter()()
	x := p.or()
	for allowIf && p.skipName("if") {
		c := &condExpr{cond: p.or(), then: x}
		if p.skipName("else") {
			c.otherwise = p.conditional(true)
		}
		x = c
		p.count()
	}
	return x
}

func (p *parser) or() expr {
	x := p.and()
	for p.skipName("or") {
		p.count()
		x = &logicExpr{and: false, l: x, r: p.and()}
	}
	return x
}

func (p *parser) and() expr {
	x := p.not()
	for p.skipName("and") {
		p.count()
		x = &logicExpr{and: true, l: x, r: p.not()}
	}
	return x
}

func (p *parser) not() expr {
	if p.isName("not") {
		defer p.enter()()
		p.next()
		return &unaryExpr{op: "not", x: p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	x := p.sum()
	var c *compareExpr
	for {
		op := ""
		switch t := p.cur(); {
		case t.kind == tokOp && (t.s == "==" || t.s == "!=" || t.s == "<" || t.s == "<=" || t.s == ">" || t.s == ">="):
			op = t.s
		case p.isName("in"):
			op = "in"
		case p.isName("not") && p.toks[p.at+1].kind == tokName && p.toks[p.at+1].s == "in":
			op = "not in"
			p.next()
		default:
			if c == nil {
				return x
			}
			return c
		}
		p.next()
		p.count()
		if c == nil {
			c = &compareExpr{x: x}
		}
		c.ops = append(c.ops, op)
		c.rest = append(c.rest, p.sum())
	}
}

// binary parses a left-associative level of the given operators.
func (p *parser) binary(operand func() expr, ops ...string) expr {
	x := operand()
next:
	for {
		for _, op := range ops {
			if p.skipOp(op) {
				p.count()
				x = &binaryExpr{op: op, l: x, r: operand()}
				continue next
			}
		}
		return x
	}
}

func (p *parser) sum() expr { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() expr {
	x := p.product()
	if !p.isOp("~") {
		return x
	}
	c := &concatExpr{items: []expr{x}}
	for p.skipOp("~") {
		p.count()
		c.items = append(c.items, p.product())
	}
	return c
}

func (p *parser) product() expr { return p.binary(p.power, "*", "//", "/", "%") }
func (p *parser) power() expr {
	return p.binary(func() expr { return p.unary(true) }, "**")
}

func (p *parser) unary(withFilter bool) expr {
	defer p.enter()()
	var x expr
	switch {
	case p.skipOp("-"):
		x = &unaryExpr{op: "-", x: p.unary(false)}
	case p.skipOp("+"):
		x = &unaryExpr{op: "+", x: p.unary(false)}
	default:
		x = p.primary()
	}
	x = p.postfix(x)
	if withFilter {
		x = p.filtered(x)
	}
	return x
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case tokName:
		switch t.s {
		case "true", "True":
			return &constExpr{true}
		case "false", "False":
			return &constExpr{false}
		case "none", "None":
			return &constExpr{none{}}
		}
		p.names[t.s] = true
		return &nameExpr{t.s}
	case tokString:
		s := t.s
		for p.cur().kind == tokString {
			s += p.next().s
			p.count()
		}
		return &constExpr{own(s)}
	case tokInt:
		return &constExpr{t.i}
	case tokFloat:
		return &constExpr{t.f}
	case tokOp:
		switch t.s {
		case "(":
			x := p.tuple(func() bool { return p.isOp(")") }, true, true)
			p.expectOp(")")
			return x
		case "[":
			return p.listLiteral()
		case "{":
			return p.dictLiteral()
		}
	}
	p.at = max(p.at-1, 0)
	p.fail("unexpected %v", t)
	return nil
}

// tuple parses `a, b, …`: one expression without a comma is itself.
func (p *parser) tuple(end func() bool, allowIf, parens bool) expr {
	var items []expr
	comma := false
	for !end() {
		items = append(items, p.conditional(allowIf))
		p.count()
		if !p.skipOp(",") {
			break
		}
		comma = true
	}
	if len(items) == 1 && !comma {
		return items[0]
	}
	if len(items) == 0 && !parens {
		p.fail("got %v, want an expression", p.cur())
	}
	return &listExpr{items: items, tuple: true}
}

func (p *parser) listLiteral() expr {
	l := &listExpr{}
	for !p.isOp("]") {
		l.items = append(l.items, p.expression())
		if !p.skipOp(",") {
			break
		}
	}
	p.expectOp("]")
	return l
}

func (p *parser) dictLiteral() expr {
	d := &dictExpr{}
	for !p.isOp("}") {
		d.keys = append(d.keys, p.expression())
		p.expectOp(":")
		d.vals = append(d.vals, p.expression())
		if !p.skipOp(",") {
			break
		}
	}
	p.expectOp("}")
	return d
}

func (p *parser) postfix(x expr) expr {
	for {
		switch {
		case p.skipOp("."):
			x = p.attribute(x)
		case p.skipOp("["):
			x = p.subscript(x)
		case p.isOp("("):
			x = &callExpr{fn: x, args: p.arguments()}
		default:
			return x
		}
		p.count()
	}
}

func (p *parser) attribute(x expr) expr {
	switch t := p.next(); t.kind {
	case tokName:
		return &attrExpr{x: x, name: t.s}
	case tokInt:
		return &indexExpr{x: x, index: &constExpr{t.i}}
	default:
		p.fail("got %v, want a name after the dot", t)
		return nil
	}
}

func (p *parser) subscript(x expr) expr {
	var items []expr
	for !p.isOp("]") {
		items = append(items, p.subscriptItem())
		if !p.skipOp(",") {
			break
		}
	}
	p.expectOp("]")
	switch len(items) {
	case 0:
		p.fail("subscript is empty")
	case 1:
		return &indexExpr{x: x, index: items[0]}
	}
	for _, item := range items {
		if _, ok := item.(*sliceExpr); ok {
			p.fail("a slice among several subscripts, and nothing in a template has more than one dimension")
		}
	}
	return &indexExpr{x: x, index: &listExpr{items: items, tuple: true}}
}

func (p *parser) subscriptItem() expr {
	var from expr
	if !p.isOp(":") {
		from = p.expression()
		if !p.isOp(":") {
			return from
		}
	}
	p.expectOp(":")
	s := &sliceExpr{from: from}
	part := func() expr {
		if p.isOp(":") || p.isOp("]") || p.isOp(",") {
			return nil
		}
		return p.expression()
	}
	s.to = part()
	if p.skipOp(":") {
		s.step = part()
	}
	return s
}

func (p *parser) arguments() argList {
	defer p.enter()()
	p.expectOp("(")
	var a argList
	for !p.isOp(")") {
		p.count()
		switch {
		case p.skipOp("**"):
			a.starStar = p.expression()
		case p.skipOp("*"):
			a.star = p.expression()
		case p.cur().kind == tokName && p.toks[p.at+1].kind == tokOp && p.toks[p.at+1].s == "=":
			a.names = append(a.names, p.next().s)
			p.next()
			a.named = append(a.named, p.expression())
		default:
			if len(a.names) > 0 || a.starStar != nil {
				p.fail("positional argument follows a named one")
			}
			a.pos = append(a.pos, p.expression())
		}
		if !p.skipOp(",") {
			break
		}
	}
	p.expectOp(")")
	return a
}

// filtered parses `|filter`, `is test` and calls of their results.
func (p *parser) filtered(x expr) expr {
	for {
		switch {
		case p.skipOp("|"):
			x = &filterExpr{x: x, f: p.filter()}
		case p.skipName("is"):
			x = p.test(x)
		case p.isOp("("):
			x = &callExpr{fn: x, args: p.arguments()}
		default:
			return x
		}
		p.count()
	}
}

func (p *parser) filter() filterCall {
	f := filterCall{line: p.cur().line, name: p.dotted()}
	if filters[f.name] == nil && p.soft == 0 {
		p.fail("no filter named %.40q", f.name)
	}
	if p.isOp("(") {
		f.args = p.arguments()
	}
	return f
}

func (p *parser) dotted() string {
	name := p.expectName()
	for p.skipOp(".") {
		name += "." + p.expectName()
	}
	return name
}

func (p *parser) test(x expr) expr {
	negated := p.skipName("not")
	t := &testExpr{x: x, name: p.dotted()}
	if tests[t.name] == nil && p.soft == 0 {
		p.fail("no test named %.40q", t.name)
	}
	switch tok := p.cur(); {
	case p.isOp("("):
		t.args = p.arguments()
	case p.isName("is"):
		p.fail("tests cannot be chained with is")
	case p.isName("else", "or", "and", "if", "in", "not"):
	case tok.kind == tokName || tok.kind == tokString || tok.kind == tokInt || tok.kind == tokFloat || p.isOp("[") || p.isOp("{"):
		t.args.pos = []expr{p.postfix(p.primary())}
	}
	if negated {
		return &unaryExpr{op: "not", x: t}
	}
	return t
}
