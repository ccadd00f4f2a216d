package ptx

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

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
