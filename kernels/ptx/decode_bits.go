package ptx

// immediate takes the last operand, a constant in [0, limit).
func (d *decoder) immediate(limit uint64) (uint64, error) {
	if len(d.s.args) == 0 {
		return 0, d.fail("got no operands")
	}
	o := d.s.args[len(d.s.args)-1]
	if o.kind != opInt || o.imm >= limit {
		return 0, d.fail("got a last operand that is no constant below %d", limit)
	}
	s := *d.s
	s.args = s.args[:len(s.args)-1]
	d.s = &s
	return o.imm, nil
}

func (d *decoder) lop3(string) error {
	if t, err := d.typ(); err != nil || t != tB32 {
		return d.fail("wanted .b32")
	}
	table, err := d.immediate(256)
	if err != nil {
		return err
	}
	err = d.emitLane(func(a, b, c uint64) uint64 { return lop3(a, b, c, uint8(table)) }, tB32, tB32, tB32, tB32)
	if err == nil && !slowOnly {
		d.in.class, d.in.op, d.in.off = c32, fLop3, int64(table)
	}
	return err
}

// count decodes popc and clz.
func (d *decoder) count(base string) error {
	t, err := d.typ()
	if err != nil || t != tB32 && t != tB64 {
		return d.fail("wanted .b32 or .b64")
	}
	return d.emitLane(intLane(base, t, false), tU32, t)
}

func (d *decoder) bfind(string) error {
	t, err := d.typ()
	if err != nil || !t.integer() || t.size() < 4 {
		return d.fail("wanted an integer of 32 or 64 bits")
	}
	return d.emitLane(bfindLane(t, d.mod("shiftamt")), tU32, t)
}

func (d *decoder) bfe(string) error {
	t, err := d.typ()
	if err != nil || !t.integer() || t.size() < 4 {
		return d.fail("wanted an integer of 32 or 64 bits")
	}
	return d.emitLane(bfeLane(t), t, t, tU32, tU32)
}

// bfi has four sources; the length must be given to the lane by another way,
// so it is packed with the position when both are constants, or run in two steps.
func (d *decoder) bfi(string) error {
	t, err := d.typ()
	if err != nil || t != tB32 && t != tB64 {
		return d.fail("wanted .b32 or .b64")
	}
	if err := d.args(5); err != nil {
		return err
	}
	whole := *d.s
	args := whole.args
	// tmp = (pos & 255) | (len & 255) << 8
	tmp := &register{name: "bfi", typ: tU32}
	s := whole
	s.args = []operand{{kind: opReg, reg: tmp}, args[3], args[4]}
	d.s = &s
	if err := d.emitLane(func(a, b, _ uint64) uint64 { return a&0xff | b&0xff<<8 }, tU32, tU32, tU32); err != nil {
		return err
	}
	s2 := whole
	s2.args = []operand{args[0], args[1], args[2], {kind: opReg, reg: tmp}}
	d.s = &s2
	n := t.bits()
	return d.emitLane(func(a, b, c uint64) uint64 { return bfi(a, b, c, c>>8, n) }, t, t, t, tU32)
}

func (d *decoder) prmt(string) error {
	if t, err := d.typ(); err != nil || t != tB32 {
		return d.fail("wanted .b32")
	}
	return d.emitLane(prmtLane(d.oneOf("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")), tB32, tB32, tB32, tU32)
}

func (d *decoder) dp(base string) error {
	half := ""
	if base == "dp2a" {
		if half = d.oneOf("lo", "hi"); half == "" {
			return d.fail("wanted .lo or .hi")
		}
	}
	if len(d.mods) != 2 {
		return d.fail("wanted two types")
	}
	ta, tb := typeNames[d.mods[0]], typeNames[d.mods[1]]
	d.mods = nil
	if ta != tU32 && ta != tS32 || tb != tU32 && tb != tS32 {
		return d.fail("wanted .u32 or .s32 twice")
	}
	return d.emitLane(dpLane(base == "dp4a", ta, tb, half == "hi"), tB32, tB32, tB32, tB32)
}

// bitMask decodes bmsk, ones at a bit position, and szext, which extends the low
// bits of a number (ISA §9.7.1.21, §9.7.1.22).
func (d *decoder) bitMask(base string) error {
	mode := d.oneOf("clamp", "wrap")
	t, err := d.typ()
	if err != nil || mode == "" || base == "bmsk" && t != tB32 || base == "szext" && t != tU32 && t != tS32 {
		return d.fail("wanted .clamp or .wrap, and .b32 (szext: .u32 or .s32)")
	}
	count := func(v uint64) uint { return uint(min(v&0xffffffff, 32)) }
	if mode == "wrap" {
		count = func(v uint64) uint { return uint(v & 31) }
	}
	if base == "bmsk" {
		return d.emitLane(func(a, b, _ uint64) uint64 { return (1<<count(b) - 1) << count(a) & 0xffffffff }, tB32, tB32, tB32)
	}
	return d.emitLane(func(a, b, _ uint64) uint64 {
		n := count(b)
		switch {
		case n == 0:
			return 0
		case t == tS32:
			return uint64(sext(a, n)) & 0xffffffff
		}
		return a & mask(n)
	}, t, t, tU32)
}
