package ptx

import "slices"

// mov decodes mov, its packing and unpacking forms, and the taking of addresses.
func (d *decoder) mov(string) error {
	t, err := d.typ()
	if err != nil {
		return err
	}
	if err := d.args(2); err != nil {
		return err
	}
	a := d.s.args
	switch {
	case t == tPred:
		return d.predLogic("mov", 1)
	case a[0].kind == opVec || a[1].kind == opVec:
		return d.movVector(t)
	case a[1].kind == opSpecial:
		if sp := special(a[1].imm); sp >= spClock {
			return d.clock(t, sp)
		}
		return d.movSpecial(t)
	case a[1].kind == opSym && d.m.funcs[a[1].name] != nil:
		return d.fail("cannot take the address of function %s", a[1].name)
	case t == tF16x2 || t == tBF16x2 || t == tF16 || t == tBF16 || t.size() < 2:
		return d.fail("there is none for type %v", t)
	}
	err = d.emitLane(func(a, _, _ uint64) uint64 { return a }, t, t)
	d.copies = true
	if !slowOnly && err == nil {
		d.in.class, d.in.op = c32, fMov32
		if t.size() == 8 {
			d.in.class, d.in.op = c64, fMov64
		}
	}
	return err
}

// movSpecial copies a special register, widening or narrowing as needed.
func (d *decoder) movSpecial(t typ) error {
	in := d.emit(cLane)
	in.x.lane = func(a, _, _ uint64) uint64 { return a & mask(t.bits()) }
	var err error
	if in.d, err = d.dst(d.s.args[0], t); err != nil {
		return err
	}
	st := tU32
	if special(d.s.args[1].imm).file() == file64 {
		st = tU64
	}
	in.a, err = d.src(d.s.args[1], st)
	in.x.files = [4]file{t.file(), st.file()}
	return err
}

// clock reads a counter of steps.
func (d *decoder) clock(t typ, sp special) (err error) {
	if t.size() < 4 {
		return d.fail("wanted 32 or 64 bits")
	}
	in := d.emit(cClock)
	in.op, in.typ = uint8(sp), t
	in.d, err = d.dst(d.s.args[0], t)
	return err
}

// movVector packs {a,b} into one register or unpacks it.
func (d *decoder) movVector(t typ) error {
	a := d.s.args
	pack := a[1].kind == opVec
	one, vec := a[1], a[0]
	if pack {
		one, vec = a[0], a[1]
	}
	if one.kind == opVec || t.size() < 4 && !(t == tB16 && len(vec.elems) == 2) {
		return d.fail("wanted a vector on one side, and .b16, .b32 or .b64")
	}
	n := len(vec.elems)
	if n != 2 && n != 4 || t.size()%n != 0 {
		return d.fail("cannot cut %d bytes into %d", t.size(), n)
	}
	et := map[int]typ{1: tB8, 2: tB16, 4: tB32}[t.size()/n]
	c := cUnpack
	if pack {
		c = cPack
	}
	in := d.emit(c)
	in.typ, in.n = t, uint8(n)
	var err error
	elem := func(o operand) (int32, error) {
		switch {
		case et == tB8 && fileOf(o, et) == file64:
			return 0, d.fail("cannot use 64-bit registers for bytes")
		case et == tB8 && pack:
			return d.srcLoose(o, et)
		case et == tB8:
			return d.dstLoose(o, et)
		case pack:
			return d.src(o, et)
		}
		return d.dst(o, et)
	}
	if pack {
		in.d, err = d.dst(one, t)
	} else {
		in.a, err = d.src(one, t)
	}
	for _, o := range vec.elems {
		if err != nil {
			return err
		}
		var i int32
		i, err = elem(o)
		in.x.regs = append(in.x.regs, i)
	}
	d.copies = true
	return err
}

// cvta turns an address of a space into a generic one, or back.
func (d *decoder) cvta(string) error {
	to := d.mod("to")
	name := d.oneOf("global", "shared", "shared::cta", "local", "const", "param")
	t, err := d.typ()
	if err != nil || t != tU64 || name == "" {
		return d.fail("wanted a state space and .u64")
	}
	base := uint64(0)
	switch spaceNames[name] {
	case spaceShared:
		base = sharedWindow
	case spaceLocal:
		base = localWindow
	case spaceParam:
		base = paramWindow
	}
	if to {
		base = -base
	}
	if len(d.s.args) == 2 && d.s.args[1].kind == opSym && d.s.args[1].off != 0 {
		return d.fail("cannot add to an address here")
	}
	return d.emitLane(func(a, _, _ uint64) uint64 { return a + base }, t, t)
}

// cvt decodes the conversions (ISA §9.7.9.21).
func (d *decoder) cvt(string) error {
	if d.mod("pack") {
		return d.cvtPack()
	}
	if slices.Contains(d.mods, "e4m3x2") || slices.Contains(d.mods, "e5m2x2") {
		return d.cvtFP8()
	}
	m := cvtMods{ftz: d.mod("ftz"), sat: d.mod("sat"), relu: d.mod("relu"), satfinite: d.mod("satfinite")}
	for i, n := range []string{"rni", "rzi", "rmi", "rpi"} {
		if d.mod(n) {
			m.integer, m.round = true, rNearest+rounding(i)
		}
	}
	if !m.integer {
		m.round = d.rounding()
	}
	if m.satfinite {
		return d.fail(".satfinite is not supported")
	}
	if len(d.mods) != 2 {
		return d.fail("wanted two types, got %q", d.mods)
	}
	dt, st := typeNames[d.mods[0]], typeNames[d.mods[1]]
	if dt == tNone || st == tNone || dt.untyped() || st.untyped() || dt == tPred || st == tPred {
		return d.fail("cannot convert between %q", d.mods)
	}
	d.mods = nil
	if dt == tF16x2 || dt == tBF16x2 {
		return d.cvtPair(dt, st, m)
	}
	packed := []typ{tF16x2, tBF16x2, tU16x2, tS16x2}
	if slices.Contains(packed, dt) || slices.Contains(packed, st) || st == tTF32 {
		return d.fail("this conversion is not supported")
	}
	if err := d.cvtCheck(dt, st, m); err != nil {
		return err
	}
	if err := d.args(2); err != nil {
		return err
	}
	in := d.emit(cLane)
	var err error
	if in.d, err = d.dstLoose(d.s.args[0], dt); err != nil {
		return err
	}
	if in.a, err = d.srcLoose(d.s.args[1], st); err != nil {
		return err
	}
	regBits := dt.bits()
	if o := d.s.args[0]; o.kind == opReg {
		if regBits = o.reg.typ.bits(); dt.float() && regBits != dt.bits() {
			return d.fail("got register %s, wanted one of type %v", o.name, dt)
		}
	}
	in.x.lane = cvtLane(dt, st, m, regBits)
	in.x.files = [4]file{fileOf(d.s.args[0], dt), fileOf(d.s.args[1], st)}
	if in.x.files != [4]file{dt.file(), st.file()} {
		return nil
	}
	if regBits == dt.bits() || dt.file() == file32 && !dt.signed() {
		d.fast()
	}
	return nil
}

// cvtCheck refuses modifiers that a pair of types does not take.
func (d *decoder) cvtCheck(dt, st typ, m cvtMods) error {
	ff := dt.float() && st.float()
	switch {
	case dt.integer() && st.integer() && m.round != rNone:
		return d.fail("no rounding between whole numbers")
	case dt.integer() && st.float() && !m.integer:
		return d.fail("wanted .rni, .rzi, .rmi or .rpi")
	case dt.float() && st.integer() && (m.integer || m.round == rNone):
		return d.fail("wanted .rn, .rz, .rm or .rp")
	case m.integer && ff && dt != st:
		return d.fail("rounding to a whole number keeps the type")
	case ff && !m.integer && m.round == rNone && dt.size() < st.size():
		return d.fail("a narrower type wants a rounding")
	case dt == tTF32 && (st != tF32 || m.round != rAway && m.round != rNearest && m.round != rZero):
		return d.fail("wanted .rna.tf32.f32")
	case m.round == rAway && dt != tTF32:
		return d.fail(".rna is of tf32 only")
	case m.relu && !(ff && st == tF32 && dt != tF32 && dt != tF64):
		return d.fail("cannot use .relu here")
	case dt == tF64 && st.float() && m.round > rNearest && !m.integer, dt == tF64 && st.size() == 8 && m.round > rNearest && !m.integer:
		return d.fail("only .rn to f64")
	}
	return nil
}

// cvtPair decodes cvt.rn.{f16x2,bf16x2}.f32 d, a, b: a goes to the upper half.
func (d *decoder) cvtPair(dt, st typ, m cvtMods) error {
	if st != tF32 || m.round != rNearest && m.round != rZero || m.ftz || m.sat {
		return d.fail("wanted .rn or .rz from f32")
	}
	half := map[typ]typ{tF16x2: tF16, tBF16x2: tBF16}[dt]
	one := cvtFloatFloat(half, tF32, m)
	return d.emitLane(func(a, b, _ uint64) uint64 { return one(a, 0, 0)<<16 | one(b, 0, 0) }, dt, tF32, tF32)
}

// cvtPack decodes cvt.pack.sat.
func (d *decoder) cvtPack() error {
	if !d.mod("sat") || len(d.mods) < 2 {
		return d.fail("wanted .sat and two types")
	}
	dt, st := typeNames[d.mods[0]], typeNames[d.mods[1]]
	hasC := len(d.mods) == 3 && d.mods[2] == "b32"
	if st != tS32 || !dt.integer() || dt.size() > 2 || (dt.size() == 1) != hasC || len(d.mods) > 3 {
		return d.fail("this form is not supported")
	}
	d.mods = nil
	f := cvtPackLane(dt, st, hasC)
	if hasC {
		return d.emitLane(f, tB32, tS32, tS32, tB32)
	}
	return d.emitLane(f, tB32, tS32, tS32)
}

// cvtFP8 decodes the conversions of pairs of eight bits: from two f32, of which a
// goes to the upper half, from f16x2, and to f16x2.
func (d *decoder) cvtFP8() error {
	rn, satfinite, relu := d.mod("rn"), d.mod("satfinite"), d.mod("relu")
	if !rn || len(d.mods) != 2 {
		return d.fail("wanted .rn and two types")
	}
	to, from := d.mods[0], d.mods[1]
	d.mods = nil
	f := fmtE4M3
	if to == "e5m2x2" || from == "e5m2x2" {
		f = fmtE5M2
	}
	half := func(v uint64) float64 { return float64(halfToFloat(uint32(v & 0xffff))) }
	switch {
	case to == "f16x2" && !satfinite:
		one := func(v uint64) uint64 {
			x := f.value(v & 0xff)
			if relu && x < 0 {
				x = 0
			}
			return uint64(f16Bits(x, rNearest))
		}
		return d.emitLane(func(a, _, _ uint64) uint64 { return one(a) | one(a>>8)<<16 }, tB32, tB16)
	case from == "f32" && satfinite:
		return d.emitLane(func(a, b, _ uint64) uint64 {
			return f.bits(float64(f32(a)), relu)<<8 | f.bits(float64(f32(b)), relu)
		}, tB16, tF32, tF32)
	case from == "f16x2" && satfinite:
		return d.emitLane(func(a, _, _ uint64) uint64 { return f.bits(half(a>>16), relu)<<8 | f.bits(half(a), relu) }, tB16, tB32)
	}
	return d.fail("this conversion is not supported")
}
