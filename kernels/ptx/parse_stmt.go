package ptx

import "strings"

// statement reads one declaration, label or instruction in a function.
func (p *parser) statement(f *function, sc *scope) error {
	switch {
	case p.is("{"):
		return p.block(f, newScope(sc))
	case p.is(";"):
		return p.next()
	case p.is(".reg"):
		return p.registers(sc)
	case p.is(".local") || p.is(".shared") || p.is(".param") || p.is(".const") || p.is(".global"):
		vs, err := p.variables(false)
		for _, v := range vs {
			sc.vars[v.name] = v
			if v.space == spaceGlobal || v.space == spaceConst {
				if p.m.byName[v.name] != nil {
					return p.fail("%s is declared twice", v.name)
				}
				p.m.byName[v.name] = v
				p.m.vars = append(p.m.vars, v)
			}
		}
		return err
	case p.is(".loc"):
		return p.loc()
	case p.is(".pragma"):
		return p.upTo(";")
	case p.is("@") || p.tok.kind == tokWord && p.tok.text[0] != '.':
		return p.instruction(f, sc)
	}
	return p.fail("cannot use %q here", p.tok.text)
}

// registers reads .reg .type names;
func (p *parser) registers(sc *scope) error {
	if err := p.next(); err != nil {
		return err
	}
	t, ok := typeNames[strings.TrimPrefix(p.tok.text, ".")]
	if !ok || t == tTF32 {
		return p.fail("cannot use registers of type %q", p.tok.text)
	}
	if err := p.next(); err != nil {
		return err
	}
	for {
		name, err := p.word()
		if err != nil {
			return err
		}
		if ok, err := p.take("<"); err != nil {
			return err
		} else if ok {
			n, err := p.number()
			if err != nil {
				return err
			}
			if n > 1<<20 {
				return p.fail("got %d registers, wanted at most %d", n, 1<<20)
			}
			sc.ranges[name] = regRange{t, n}
			if err := p.want(">"); err != nil {
				return err
			}
		} else {
			sc.regs[name] = &register{name, t}
		}
		if !p.is(",") {
			return p.want(";")
		}
		if err := p.next(); err != nil {
			return err
		}
	}
}

// instruction reads {label:} {@{!}p} opcode operands;
func (p *parser) instruction(f *function, sc *scope) (err error) {
	s := stmt{line: p.tok.line, src: p.src, scope: sc}
	if ok, err := p.take("@"); err != nil {
		return err
	} else if ok {
		if s.guardNeg, err = p.take("!"); err != nil {
			return err
		}
		name := p.tok.text
		if s.guard = sc.reg(name); s.guard == nil || s.guard.typ != tPred {
			return p.fail("got guard %q, wanted a predicate", name)
		}
		if err := p.next(); err != nil {
			return err
		}
	}
	if s.op, err = p.word(); err != nil {
		return err
	}
	if s.guard == nil && p.is(":") {
		if _, dup := sc.labels[s.op]; dup {
			return p.fail("label %s stands twice", s.op)
		}
		sc.labels[s.op] = len(f.body)
		if err := p.next(); err != nil {
			return err
		}
		if p.is(".branchtargets") {
			return p.targets(f, s.op)
		}
		if p.is(".callprototype") || p.is(".calltargets") {
			return p.fail("cannot use %s: no indirect calls", p.tok.text)
		}
		return nil
	}
	if base, _, _ := strings.Cut(s.op, "."); decoders[base] == nil {
		return &Error{s.line, s.op + ": this instruction is not supported"}
	}
	for !p.is(";") {
		o, err := p.operand(sc, 0)
		if err != nil {
			return err
		}
		s.args = append(s.args, o)
		if len(s.args) > 64 {
			return p.fail("%s has more than 64 operands", s.op)
		}
		if p.is(",") {
			err = p.next()
		} else if !p.is(";") {
			err = p.fail("got %q after an operand of %s", p.tok.text, s.op)
		}
		if err != nil {
			return err
		}
	}
	if len(f.body) >= maxCode {
		return p.fail("%s has more than %d instructions", f.name, maxCode)
	}
	f.body = append(f.body, s)
	return p.next()
}

// targets reads .branchtargets a, b, …;
func (p *parser) targets(f *function, name string) error {
	var list []string
	for !p.is(";") {
		if err := p.next(); err != nil {
			return err
		}
		l, err := p.word()
		if err != nil {
			return err
		}
		list = append(list, l)
		if !p.is(",") && !p.is(";") {
			return p.fail("got %q in .branchtargets", p.tok.text)
		}
	}
	f.tables[name] = list
	return p.next()
}
