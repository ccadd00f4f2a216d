package ptx

// address resolves a memory operand into in.a + in.off.
func (d *decoder) address(in *inst, o operand, sp space) (err error) {
	var wide bool
	in.a, in.off, wide, err = d.pointer(o, sp)
	if !wide {
		in.flags |= flagAddr32
	}
	return err
}

// pointer resolves [base+off]; wide says that base lies in the 64-bit file.
func (d *decoder) pointer(o operand, sp space) (i int32, off int64, wide bool, err error) {
	if o.kind != opMem {
		return 0, 0, false, d.fail("wanted an address in brackets")
	}
	base := o.elems[0]
	switch base.kind {
	case opReg:
		switch base.reg.typ.size() {
		case 8:
			i, err = d.src(base, tU64)
			return i, o.off, true, err
		case 4:
			if sp == spaceGlobal || sp == spaceGeneric || sp == spaceConst {
				return 0, 0, false, d.fail("got a 32-bit address in .%v", sp)
			}
			i, err = d.src(base, tU32)
			return i, o.off, false, err
		}
	case opSym:
		v := d.lookup(base.name)
		if v == nil {
			return 0, 0, false, d.fail("%q is not declared", base.name)
		}
		if v.space != sp {
			return 0, 0, false, d.fail("%s lies in .%v, not in .%v", base.name, v.space, sp)
		}
		i, err = d.symbol(base, tU64)
		return i, o.off, true, err
	case opInt:
		return d.constant(file64, base.imm), o.off, true, nil
	}
	return 0, 0, false, d.fail("cannot use this operand as an address")
}

// Cache operators and hints: they change no value.
var cacheHints = []string{"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
	"L2::evict_normal", "L2::evict_first", "L2::evict_last", "L2::64B", "L2::128B", "L2::256B"}

// memoryMods takes what ld, st, atom and red have in common.
func (d *decoder) memoryMods(in *inst) (hint bool) {
	for _, h := range cacheHints {
		d.mod(h)
	}
	hint = d.mod("L2::cache_hint")
	order := d.oneOf("weak", "volatile", "relaxed", "acquire", "release", "acq_rel")
	switch order {
	case "relaxed", "acquire", "release", "acq_rel":
		d.oneOf("cta", "gpu", "sys", "cluster")
		in.flags |= flagStrong
	case "volatile":
		in.flags |= flagStrong
	}
	if order == "acquire" || order == "acq_rel" {
		in.flags |= flagAcquire
	}
	if order == "release" || order == "acq_rel" {
		in.flags |= flagRelease
	}
	in.space = spaceNames[d.oneOf("global", "shared", "shared::cta", "local", "param", "const")]
	return hint
}

// vectorOf takes .v2 or .v4 and the type, and the registers of o.
func (d *decoder) vectorOf(in *inst, o operand, load bool) error {
	n := 1
	if v := d.oneOf("v2", "v4"); v != "" {
		n = int(v[1] - '0')
	}
	t, err := d.typ()
	if err != nil {
		return err
	}
	if t.size() == 0 || t.size()*n > 16 || t == tTF32 {
		return d.fail("cannot access %d of type %v", n, t)
	}
	elems := []operand{o}
	if o.kind == opVec {
		elems = o.elems
	}
	if len(elems) != n {
		return d.fail("got %d registers, wanted %d", len(elems), n)
	}
	in.typ, in.n = t, uint8(n)
	if t.signed() {
		in.flags |= flagSigned
	}
	in.x.width = int(t.bits())
	in.x.wide = fileOf(elems[0], t) != t.file()
	for _, e := range elems {
		if e.kind != opSink && fileOf(e, t) != fileOf(elems[0], t) {
			return d.fail("wanted a vector of registers of one width")
		}
		var i int32
		if load {
			i, err = d.dstLoose(e, t)
			if e.kind == opReg {
				in.x.width = int(e.reg.typ.bits())
			}
		} else {
			i, err = d.srcLoose(e, t)
		}
		if err != nil {
			return err
		}
		in.x.regs = append(in.x.regs, i)
	}
	return nil
}

func (d *decoder) ld(string) error {
	in := d.emit(cLd)
	hint := d.memoryMods(in)
	if err := d.accessArgs(hint); err != nil {
		return err
	}
	o := d.s.args[1]
	if in.space == spaceParam {
		return d.ldParam(in, o)
	}
	if err := d.vectorOf(in, d.s.args[0], true); err != nil {
		return err
	}
	return d.address(in, o, in.space)
}

// accessArgs checks the operands of ld and st; a cache policy is passed.
func (d *decoder) accessArgs(hint bool) error {
	n := 2
	if hint {
		n = 3
	}
	return d.args(n)
}

// ldParam loads a kernel's parameter, or a .param variable of a call.
func (d *decoder) ldParam(in *inst, o operand) error {
	if o.kind == opMem && o.elems[0].kind == opSym {
		v := d.lookup(o.elems[0].name)
		if v == nil || v.space != spaceParam {
			return d.fail("%q is no parameter", o.elems[0].name)
		}
		if _, entry := d.f.entry[v]; !entry {
			in.space = spaceLocal
			if err := d.vectorOf(in, d.s.args[0], true); err != nil {
				return err
			}
			at, _ := d.offset(v)
			in.a, in.off = d.constant(file64, uint64(at)), o.off
			return nil
		}
		if o.off < 0 || o.off > int64(v.size) {
			return d.fail("reads beyond parameter %s", v.name)
		}
	} else if d.f.up != nil {
		return d.fail("cannot read a parameter through a register in a function")
	}
	in.class = cLdParam
	if err := d.vectorOf(in, d.s.args[0], true); err != nil {
		return err
	}
	if o.kind == opMem && o.elems[0].kind != opReg {
		in.flags |= flagUniform
	}
	return d.address(in, o, spaceParam)
}

func (d *decoder) st(string) error {
	in := d.emit(cSt)
	hint := d.memoryMods(in)
	if err := d.accessArgs(hint); err != nil {
		return err
	}
	if in.space == spaceConst {
		return d.fail("cannot write to .const")
	}
	o := d.s.args[0]
	if err := d.vectorOf(in, d.s.args[1], false); err != nil {
		return err
	}
	if in.space == spaceParam {
		in.space = spaceLocal
		if o.kind == opMem && o.elems[0].kind == opSym {
			if v := d.lookup(o.elems[0].name); v != nil && v.space == spaceParam {
				if _, entry := d.f.entry[v]; !entry {
					at, _ := d.offset(v)
					in.a, in.off = d.constant(file64, uint64(at)), o.off
					return nil
				}
			}
		}
		return d.fail("wanted a .param variable declared in a function")
	}
	return d.address(in, o, in.space)
}

// isspacep asks whether a generic address lies in a space.
func (d *decoder) isspacep(string) (err error) {
	name := d.oneOf("global", "shared", "shared::cta", "local", "const", "param")
	if name == "" {
		return d.fail("wanted a state space")
	}
	if err := d.args(2); err != nil {
		return err
	}
	in := d.emit(cSpaceTest)
	in.space = spaceNames[name]
	if in.d, err = d.dst(d.s.args[0], tPred); err != nil {
		return err
	}
	in.a, err = d.src(d.s.args[1], tU64)
	return err
}

// atomOp is a read-modify-write operation of type t (ISA §9.7.12.4).
func atomOp(op string, t typ) func(old, b, c uint64) uint64 {
	two := func(f lane) func(old, b, c uint64) uint64 {
		if f == nil {
			return nil
		}
		return func(old, b, _ uint64) uint64 { return f(old, b, 0) }
	}
	switch {
	case op == "exch" && t.untyped():
		return func(_, b, _ uint64) uint64 { return b }
	case op == "cas" && t.untyped():
		return func(old, b, c uint64) uint64 {
			if old == b {
				return c
			}
			return old
		}
	case (op == "and" || op == "or" || op == "xor") && t.untyped():
		return two(intLane(op, t, false))
	case (op == "add" || op == "min" || op == "max") && t.integer():
		return two(intLane(op, t, false))
	case op == "inc" && t == tU32:
		return func(old, b, _ uint64) uint64 {
			if old >= b {
				return 0
			}
			return old + 1
		}
	case op == "dec" && t == tU32:
		return func(old, b, _ uint64) uint64 {
			if old == 0 || old > b {
				return b
			}
			return old - 1
		}
	case op == "add" && t == tF32:
		return two(f32Lane("add", floatMods{}))
	case op == "add" && t == tF64:
		return two(f64Lane("add", floatMods{}))
	case op == "add" && (t == tF16 || t == tBF16):
		return two(halfLane("add", t == tBF16, floatMods{}))
	case op == "add" && (t == tF16x2 || t == tBF16x2):
		return two(pairLane(halfLane("add", t == tBF16x2, floatMods{})))
	}
	return nil
}

// atom decodes atom and red.
func (d *decoder) atom(base string) error {
	in := d.emit(cAtom)
	hint := d.memoryMods(in)
	d.oneOf("cta", "gpu", "sys", "cluster")
	op := d.oneOf("exch", "cas", "and", "or", "xor", "add", "inc", "dec", "min", "max")
	d.mod("noftz")
	t, err := d.typ()
	if err != nil {
		return err
	}
	in.flags |= flagStrong
	in.typ = t
	if in.x.atom = atomOp(op, t); in.x.atom == nil || t.size() < 2 || in.space == spaceLocal || in.space == spaceParam || in.space == spaceConst || base == "red" && (op == "exch" || op == "cas") {
		return d.fail("this form is not supported")
	}
	args := d.s.args
	if hint && len(args) > 0 {
		args = args[:len(args)-1]
	}
	n := 2
	if op == "cas" {
		n = 3
	}
	if base == "atom" {
		if len(args) == 0 {
			return d.fail("got no operands")
		}
		if in.d, err = d.dst(args[0], t); err != nil {
			return err
		}
		args = args[1:]
	}
	if len(args) != n {
		return d.fail("got %d operands, wanted %d", len(d.s.args), n+1)
	}
	if err := d.address(in, args[0], in.space); err != nil {
		return err
	}
	if in.b, err = d.src(args[1], t); err != nil {
		return err
	}
	if n == 3 {
		in.c, err = d.src(args[2], t)
	}
	return err
}
