package ptx

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

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

// variables reads one declaration of variables up to its semicolon.
func (p *parser) variables(extern bool) ([]*variable, error) {
	v, err := p.variable(extern)
	if err != nil {
		return nil, err
	}
	vs := []*variable{v}
	for p.is(",") {
		return nil, p.fail("cannot read several variables in one declaration")
	}
	return vs, p.want(";")
}

const maxVariable = 1 << 30 // bytes

// variable reads .space {.align n} .type name{[n]…} {= init}.
func (p *parser) variable(extern bool) (*variable, error) {
	v := &variable{extern: extern, line: p.tok.line, align: 0}
	var ok bool
	if v.space, ok = spaceNames[strings.TrimPrefix(p.tok.text, ".")]; !ok {
		return nil, p.fail("cannot use state space %q", p.tok.text)
	}
	t, lanes, err := p.variableType(v)
	if err != nil {
		return nil, err
	}
	if v.name, err = p.word(); err != nil {
		return nil, err
	}
	count, open := 1, false
	for p.is("[") {
		if err := p.next(); err != nil {
			return nil, err
		}
		if p.is("]") {
			open = true
		} else {
			n, err := p.number()
			if err != nil {
				return nil, err
			}
			if hi, lo := bits.Mul64(uint64(count), uint64(n)); hi != 0 || lo > maxVariable {
				return nil, p.fail("%s is larger than %d bytes", v.name, maxVariable)
			}
			count *= n
		}
		if err := p.want("]"); err != nil {
			return nil, err
		}
	}
	if v.size = t.size() * lanes * count; v.size > maxVariable {
		return nil, p.fail("%s is larger than %d bytes", v.name, maxVariable)
	}
	if v.align == 0 {
		v.align = max(t.size()*lanes, 1)
	}
	if open {
		v.size = 0
	}
	if ok, err := p.take("="); err != nil || !ok {
		if err == nil && open && !(extern && v.space == spaceShared) {
			err = p.fail("%s has no size", v.name)
		}
		return v, err
	}
	if v.space != spaceGlobal && v.space != spaceConst {
		return nil, p.fail("cannot initialise %s in .%s", v.name, v.space)
	}
	w := initialiser{p: p, v: v, t: t}
	if err := w.value(0); err != nil {
		return nil, err
	}
	if open {
		v.size = len(v.init)
	}
	if len(v.init) > v.size {
		return nil, p.fail("%s has %d bytes and more values", v.name, v.size)
	}
	return v, nil
}

// variableType reads what stands between a variable's space and its name.
func (p *parser) variableType(v *variable) (t typ, lanes int, err error) {
	lanes = 1
	if err := p.next(); err != nil {
		return 0, 0, err
	}
	for p.tok.kind == tokWord && p.tok.text[0] == '.' {
		name := p.tok.text[1:]
		if err := p.next(); err != nil {
			return 0, 0, err
		}
		switch name {
		case "align":
			if v.align, err = p.number(); err != nil {
				return 0, 0, err
			}
			if v.align == 0 || v.align&(v.align-1) != 0 || v.align > 256 {
				return 0, 0, p.fail("got .align %d, wanted a power of two up to 256", v.align)
			}
		case "v2":
			lanes = 2
		case "v4":
			lanes = 4
		case "ptr":
			if v.space != spaceParam {
				return 0, 0, p.fail("cannot use .ptr here")
			}
			align := v.align // what follows is the pointee's
			if s := strings.TrimPrefix(p.tok.text, "."); spaceNames[s] != 0 {
				if err := p.next(); err != nil {
					return 0, 0, err
				}
			}
			if ok, err := p.take(".align"); err != nil {
				return 0, 0, err
			} else if ok {
				if _, err := p.number(); err != nil {
					return 0, 0, err
				}
			}
			v.align = align
		default:
			var ok bool
			if t, ok = typeNames[name]; !ok || t.size() == 0 {
				return 0, 0, p.fail("cannot use variables of type %q", name)
			}
		}
	}
	if t == tNone {
		return 0, 0, p.fail("got %q, wanted a type", p.tok.text)
	}
	return t, lanes, nil
}

// initialiser gathers the bytes after = of a variable.
type initialiser struct {
	p *parser
	v *variable
	t typ
}

func (w *initialiser) value(depth int) error {
	p := w.p
	if depth > 8 || len(w.v.init) > maxVariable {
		return p.fail("the values of %s nest too deep", w.v.name)
	}
	if p.is("{") {
		if err := p.next(); err != nil {
			return err
		}
		for !p.is("}") {
			if err := w.value(depth + 1); err != nil {
				return err
			}
			if !p.is(",") {
				break
			}
			if err := p.next(); err != nil {
				return err
			}
		}
		return p.want("}")
	}
	at, n := len(w.v.init), w.t.size()
	var bits uint64
	if p.tok.kind == tokWord {
		r := reloc{at: at, width: n, sym: p.tok.text, generic: p.tok.text == "generic"}
		if err := p.next(); err != nil {
			return err
		}
		if r.generic {
			if err := p.want("("); err != nil {
				return err
			}
			var err error
			if r.sym, err = p.word(); err != nil {
				return err
			}
			if err := p.want(")"); err != nil {
				return err
			}
		}
		if ok, err := p.take("+"); err != nil {
			return err
		} else if ok {
			k, err := p.number()
			if err != nil {
				return err
			}
			r.add = int64(k)
		}
		if n != 8 {
			return p.fail("cannot hold an address in %d bytes", n)
		}
		w.v.relocs = append(w.v.relocs, r)
	} else {
		o, err := p.literal()
		if err != nil {
			return err
		}
		if bits, err = o.bitsAs(w.t); err != nil {
			return p.fail("%v", err)
		}
	}
	w.v.init = append(w.v.init, binary.LittleEndian.AppendUint64(nil, bits)[:n]...)
	return nil
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

// operand reads one operand.
func (p *parser) operand(sc *scope, depth int) (o operand, err error) {
	if depth > 3 {
		return o, p.fail("operands nest too deep")
	}
	switch {
	case p.is("["):
		if err := p.next(); err != nil {
			return o, err
		}
		base, err := p.operand(sc, depth+1)
		if err != nil {
			return o, err
		}
		o = operand{kind: opMem, elems: []operand{base}, off: base.off}
		o.elems[0].off = 0
		return o, p.want("]")
	case p.is("{") || p.is("("):
		kind, end := opVec, "}"
		if p.is("(") {
			kind, end = opList, ")"
		}
		o.kind = kind
		if err := p.next(); err != nil {
			return o, err
		}
		for !p.is(end) {
			e, err := p.operand(sc, depth+1)
			if err != nil {
				return o, err
			}
			if o.elems = append(o.elems, e); len(o.elems) > 64 {
				return o, p.fail("more than 64 elements in one operand")
			}
			if !p.is(",") {
				break
			}
			if err := p.next(); err != nil {
				return o, err
			}
		}
		return o, p.want(end)
	case p.is("!"):
		if err := p.next(); err != nil {
			return o, err
		}
		o, err = p.operand(sc, depth+1)
		o.not = !o.not
		return o, err
	case p.tok.kind == tokNumber || p.is("-") || p.is("+"):
		return p.literal()
	case p.tok.kind != tokWord:
		return o, p.fail("got %q, wanted an operand", p.tok.text)
	}
	return p.named(sc, depth)
}

// named reads an operand that starts with a name.
func (p *parser) named(sc *scope, depth int) (o operand, err error) {
	name := p.tok.text
	switch {
	case name == "_":
		o.kind = opSink
	case sc.reg(name) != nil:
		o = operand{kind: opReg, reg: sc.reg(name), name: name}
	case name[0] == '%' && specialNames[name] != 0:
		o = operand{kind: opSpecial, name: name, imm: uint64(specialNames[name])}
	case name == "WARP_SZ":
		o = operand{kind: opInt, imm: 32}
	case name[0] == '%':
		return o, p.fail("cannot use register %q: it is not declared, or a special register that is not supported", name)
	default:
		o = operand{kind: opSym, name: name}
	}
	if err := p.next(); err != nil {
		return o, err
	}
	switch {
	case p.is("|"):
		if err := p.next(); err != nil {
			return o, err
		}
		q, err := p.operand(sc, depth+1)
		return operand{kind: opPair, elems: []operand{o, q}}, err
	case (p.is("+") || p.is("-")) && (o.kind == opReg || o.kind == opSym):
		minus := p.is("-")
		if err := p.next(); err != nil {
			return o, err
		}
		n, err := p.literal()
		if err != nil {
			return o, err
		}
		if n.kind != opInt {
			return o, p.fail("got an offset that is no whole number")
		}
		if o.off = int64(n.imm); minus {
			o.off = -o.off
		}
	}
	return o, nil
}

// literal reads a signed number.
func (p *parser) literal() (o operand, err error) {
	neg := false
	for p.is("-") || p.is("+") {
		neg = neg != p.is("-")
		if err := p.next(); err != nil {
			return o, err
		}
	}
	s := p.tok.text
	if p.tok.kind != tokNumber {
		return o, p.fail("got %q, wanted a number", s)
	}
	switch {
	case len(s) == 10 && (s[:2] == "0f" || s[:2] == "0F"):
		o.kind = opF32
		if o.imm, err = strconv.ParseUint(s[2:], 16, 32); neg {
			o.imm ^= 1 << 31
		}
	case len(s) == 18 && (s[:2] == "0d" || s[:2] == "0D"):
		o.kind = opF64
		if o.imm, err = strconv.ParseUint(s[2:], 16, 64); neg {
			o.imm ^= 1 << 63
		}
	case strings.ContainsRune(s, '.'):
		var v float64
		v, err = strconv.ParseFloat(s, 64)
		if neg {
			v = -v
		}
		o.kind, o.imm = opF64, math.Float64bits(v)
	default:
		o.kind = opInt
		o.imm, err = strconv.ParseUint(strings.TrimRight(s, "U"), 0, 64)
		if neg {
			o.imm = -o.imm
		}
	}
	if err != nil {
		return o, p.fail("cannot read the number %q", s)
	}
	return o, p.next()
}
