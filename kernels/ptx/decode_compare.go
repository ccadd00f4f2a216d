package ptx

import "strings"

// compare is a comparison of type t by its name (ISA §9.7.5, Table 23).
func compare(name string, t typ, ftz bool) func(a, b uint64) bool {
	if t.float() {
		return compareFloat(name, t, ftz)
	}
	n, m := t.bits(), mask(t.bits())
	cmp := func(a, b uint64) int {
		if t.signed() {
			x, y := sext(a, n), sext(b, n)
			return boolInt(x > y) - boolInt(x < y)
		}
		return boolInt(a&m > b&m) - boolInt(a&m < b&m)
	}
	switch name {
	case "eq":
		return func(a, b uint64) bool { return cmp(a, b) == 0 }
	case "ne":
		return func(a, b uint64) bool { return cmp(a, b) != 0 }
	}
	if t.untyped() {
		return nil
	}
	switch name {
	case "lt", "lo":
		return func(a, b uint64) bool { return cmp(a, b) < 0 }
	case "le", "ls":
		return func(a, b uint64) bool { return cmp(a, b) <= 0 }
	case "gt", "hi":
		return func(a, b uint64) bool { return cmp(a, b) > 0 }
	case "ge", "hs":
		return func(a, b uint64) bool { return cmp(a, b) >= 0 }
	}
	return nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func compareFloat(name string, t typ, ftz bool) func(a, b uint64) bool {
	num := func(v uint64) float64 {
		if ftz && t == tF32 {
			v = uint64(flush(uint32(v)))
		}
		return decodeFloat(v, t)
	}
	ordered := map[string]func(x, y float64) bool{
		"eq": func(x, y float64) bool { return x == y }, "ne": func(x, y float64) bool { return x != y && x == x && y == y },
		"lt": func(x, y float64) bool { return x < y }, "le": func(x, y float64) bool { return x <= y },
		"gt": func(x, y float64) bool { return x > y }, "ge": func(x, y float64) bool { return x >= y },
		"num": func(x, y float64) bool { return x == x && y == y }, "nan": func(x, y float64) bool { return x != x || y != y },
	}
	if f := ordered[name]; f != nil {
		return func(a, b uint64) bool { return f(num(a), num(b)) }
	}
	if f := ordered[strings.TrimSuffix(name, "u")]; f != nil && strings.HasSuffix(name, "u") {
		return func(a, b uint64) bool { x, y := num(a), num(b); return x != x || y != y || f(x, y) }
	}
	return nil
}

var boolOps = map[string]uint8{"and": 0, "or": 1, "xor": 2}

// comparison takes the comparison's modifiers: name, boolean operator, type.
func (d *decoder) comparison() (name, boolOp string, ftz bool, err error) {
	if len(d.mods) == 0 {
		return "", "", false, d.fail("got no comparison")
	}
	name = d.mods[0]
	d.mods = d.mods[1:]
	return name, d.oneOf("and", "or", "xor"), d.mod("ftz"), nil
}

// setp decodes setp.cmp{.op}{.ftz}.type p{|q}, a, b{, {!}c} (ISA §9.7.5.2).
func (d *decoder) setp(string) error {
	name, boolOp, ftz, err := d.comparison()
	if err != nil {
		return err
	}
	t, err := d.typ()
	if err != nil {
		return err
	}
	half := t == tF16x2 || t == tBF16x2
	if t == tPred || t.size() == 1 || t == tU16x2 || t == tS16x2 || t == tTF32 {
		return d.fail("there is none for type %v", t)
	}
	n := 3
	if boolOp != "" {
		n = 4
	}
	if err := d.args(n); err != nil {
		return err
	}
	in := d.emit(cSetp)
	in.typ, in.op = t, 255
	if boolOp != "" {
		in.op = boolOps[boolOp]
	}
	ct := t
	if half {
		ct = map[typ]typ{tF16x2: tF16, tBF16x2: tBF16}[t]
	}
	if in.x.cmp = compare(name, ct, ftz); in.x.cmp == nil {
		return d.fail("cannot compare by .%s in type %v", name, t)
	}
	if err := d.predDst(in, d.s.args[0], half); err != nil {
		return err
	}
	if in.a, err = d.src(d.s.args[1], t); err != nil {
		return err
	}
	if in.b, err = d.src(d.s.args[2], t); err != nil {
		return err
	}
	if boolOp != "" {
		var neg bool
		if in.c, neg, err = d.pred(d.s.args[3]); neg {
			in.flags |= flagNegC
		}
	}
	if q, ok := quickSetp[name+"."+t.String()]; ok && !ftz && !slowOnly {
		in.class, in.off = cSetpFast, int64(q)
	}
	return err
}

// predDst resolves p or p|q.
func (d *decoder) predDst(in *inst, o operand, wantPair bool) (err error) {
	p := o
	if o.kind == opPair {
		p = o.elems[0]
		if in.e, err = d.dst(o.elems[1], tPred); err != nil {
			return err
		}
	} else if wantPair {
		return d.fail("wanted p|q")
	}
	in.d, err = d.dst(p, tPred)
	return err
}

// set decodes set.cmp{.op}{.ftz}.dtype.stype d, a, b{, {!}c}: as setp and selp
// of all ones (or 1.0) and zero.
func (d *decoder) set(string) error {
	name, boolOp, ftz, err := d.comparison()
	if err != nil {
		return err
	}
	dt, err := d.typ()
	if err != nil {
		return err
	}
	st := dt
	if len(d.mods) > 0 {
		if st, err = d.typ(); err != nil {
			return err
		}
	}
	if boolOp != "" {
		return d.fail("a boolean operator is not supported in set")
	}
	yes := map[typ]uint64{tU32: 0xffffffff, tS32: 0xffffffff, tF32: 0x3f800000, tF16: 0x3c00, tBF16: 0x3f80, tU16: 0xffff, tS16: 0xffff}
	if st == tF16x2 || st == tBF16x2 {
		ct := map[typ]typ{tF16x2: tF16, tBF16x2: tBF16}[st]
		cmp, on := compare(name, ct, ftz), uint64(0xffff)
		if dt == st {
			on = yes[ct]
		} else if dt != tU32 && dt != tS32 {
			return d.fail("cannot set type %v", dt)
		}
		if cmp == nil {
			return d.fail("cannot compare by .%s in type %v", name, st)
		}
		pair := pairLane(func(a, b, _ uint64) uint64 { return on * uint64(boolInt(cmp(a, b))) })
		return d.emitLane(pair, dt, st, st)
	}
	on, cmp := yes[dt], compare(name, st, ftz)
	if on == 0 || cmp == nil || st == tPred || st.size() == 1 {
		return d.fail("cannot set type %v by .%s of type %v", dt, name, st)
	}
	return d.emitLane(func(a, b, _ uint64) uint64 { return on * uint64(boolInt(cmp(a, b))) }, dt, st, st)
}

func (d *decoder) selp(string) error {
	t, err := d.typ()
	if err != nil || t == tPred || t.size() == 1 {
		return d.fail("wanted a type of 16, 32 or 64 bits")
	}
	if err := d.args(4); err != nil {
		return err
	}
	c := cSel32
	if t.size() == 8 {
		c = cSel64
	}
	in := d.emit(c)
	if in.d, err = d.dst(d.s.args[0], t); err != nil {
		return err
	}
	if in.a, err = d.src(d.s.args[1], t); err != nil {
		return err
	}
	if in.b, err = d.src(d.s.args[2], t); err != nil {
		return err
	}
	var neg bool
	if in.c, neg, err = d.pred(d.s.args[3]); neg {
		in.flags |= flagNegC
	}
	return err
}

// slct picks a where c is not negative (ISA §9.7.5.4).
func (d *decoder) slct(string) error {
	ftz := d.mod("ftz")
	if len(d.mods) != 2 {
		return d.fail("wanted two types")
	}
	t, ct := typeNames[d.mods[0]], typeNames[d.mods[1]]
	d.mods = nil
	if t == tPred || t.size() < 2 || ct != tS32 && ct != tF32 {
		return d.fail("this form is not supported")
	}
	return d.emitLane(func(a, b, c uint64) uint64 {
		if ct == tS32 && int32(c) >= 0 {
			return a
		}
		if ftz {
			c = uint64(flush(uint32(c)))
		}
		if ct == tF32 && f32(c) >= 0 {
			return a
		}
		return b
	}, t, t, t, ct)
}

func (d *decoder) testp(string) error {
	prop := d.oneOf("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	t, err := d.typ()
	if err != nil || t != tF32 && t != tF64 {
		return d.fail("wanted .f32 or .f64")
	}
	f := testpLane(prop, t)
	if f == nil {
		return d.fail("got no property to test")
	}
	if err := d.args(2); err != nil {
		return err
	}
	in := d.emit(cSetp)
	in.typ, in.op = t, 255
	in.x.cmp = func(a, _ uint64) bool { return f(a, 0, 0) == 1 }
	if in.d, err = d.dst(d.s.args[0], tPred); err != nil {
		return err
	}
	in.a, err = d.src(d.s.args[1], t)
	in.b = in.a
	return err
}
