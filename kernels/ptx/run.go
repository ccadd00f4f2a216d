package ptx

import "math/bits"

// execute runs a group from its place until it meets another group's, splits,
// waits or ends, or has run most instructions. It returns how many it ran.
func (w *warp) execute(g *group, limit int32, most int) (n int) {
	b := w.b
	code := b.p.code
	pc, mask := g.pc, g.mask
	checks := b.checks
	for n < most && pc < limit {
		in := &code[pc]
		n++
		m := mask
		if in.guard >= 0 {
			if checks && in.chk != nil {
				w.checkGuard(in, m)
			}
			p := w.p[in.guard]
			if in.guardNeg {
				p = ^p
			}
			m &= p
		}
		if b.count {
			c := &b.counts[pc]
			c.WarpInstr++
			c.ThreadInstr += uint64(bits.OnesCount32(m))
		}
		if m == 0 {
			pc++
			continue
		}
		if checks && in.chk != nil {
			w.checkRegs(in, m)
		}
		switch {
		case in.class == c32:
			d, a, b, c := &w.r32[in.d], &w.r32[in.a], &w.r32[max(in.b, 0)], &w.r32[max(in.c, 0)]
			if m == ^uint32(0) {
				fast32(in, d, a, b, c)
			} else {
				fast32(in, &w.blend32, a, b, c)
				merge32(d, &w.blend32, m)
			}
		case in.class < cBra:
			w.compute(in, m)
		case in.class == cBra && m == mask:
			if pc = in.target; pc <= in.pc && b.r.stop.Load() { // backward: may never end
				g.pc = pc
				return n
			}
			continue
		case in.class < cBarWarp:
			w.control(in, g, m)
			return n
		case in.class < cLd:
			if !w.warpOp(in, g, m) {
				return n
			}
		default:
			w.memory(in, m)
		}
		if b.dead {
			return n
		}
		pc++
	}
	g.pc, g.mask = pc, mask
	return n
}

// compute runs what changes registers of its own lane only.
func (w *warp) compute(in *inst, m uint32) {
	switch in.class {
	case c64:
		if d := &w.r64[in.d]; m == ^uint32(0) {
			fast64(in.op, d, &w.r64[in.a], &w.r64[max(in.b, 0)])
		} else {
			fast64(in.op, &w.blend64, &w.r64[in.a], &w.r64[max(in.b, 0)])
			merge64(d, &w.blend64, m)
		}
	case cWide:
		d := &w.r64[in.d]
		c := d
		if in.c >= 0 {
			c = &w.r64[in.c]
		}
		if m == ^uint32(0) {
			fastWide(in.op, d, &w.r32[in.a], &w.r32[max(in.b, 0)], c)
		} else {
			fastWide(in.op, &w.blend64, &w.r32[in.a], &w.r32[max(in.b, 0)], c)
			merge64(d, &w.blend64, m)
		}
	case cShift64:
		fastShift(in.op, &w.blend64, &w.r64[in.a], &w.r32[in.b])
		merge64(&w.r64[in.d], &w.blend64, m)
	case cNarrow:
		narrow(&w.r32[in.d], &w.r64[in.a], m)
	case cSetpFast:
		w.setPreds(in, m, w.compareFast(in))
	case cLane:
		w.laneOp(in, m)
	case cSetp:
		w.setPreds(in, m, w.compareLanes(in, m))
	case cSel32:
		select32(&w.r32[in.d], &w.r32[in.a], &w.r32[in.b], w.predC(in), m)
	case cSel64:
		select64(&w.r64[in.d], &w.r64[in.a], &w.r64[in.b], w.predC(in), m)
	case cPred:
		w.predOp(in, m)
	case cCarry:
		w.carry(in, m)
	case cPack:
		w.pack(in, m)
	case cUnpack:
		w.unpack(in, m)
	case cClock:
		w.clock(in, m)
	case cSpaceTest:
		w.spaceTest(in, m)
	case cActive:
		for mm := m; mm != 0; mm &= mm - 1 {
			w.r32[in.d][bits.TrailingZeros32(mm)] = m
		}
	case cNop, cSleep: // time does not pass here; a loop that waits is bounded by MaxSteps
	default:
		panic("BUG: an instruction without an executor")
	}
}

// predC is the predicate operand c.
func (w *warp) predC(in *inst) uint32 {
	if in.flags&flagNegC != 0 {
		return ^w.p[in.c]
	}
	return w.p[in.c]
}

// control runs what may send lanes apart, end them or hold them. It leaves the
// group, and others it makes, where they go on.
func (w *warp) control(in *inst, g *group, m uint32) {
	rest := g.mask &^ m // lanes whose guard passes the instruction by
	g.pc, g.mask = in.pc+1, rest
	switch in.class {
	case cBra:
		w.groups = append(w.groups, group{pc: in.target, mask: m})
	case cBrx:
		w.branchTable(in, m)
	case cExit:
		w.exit(m)
	case cTrap:
		w.trap(in, m)
	case cBar:
		w.groups = append(w.groups, group{pc: in.pc, mask: m})
		w.bar(in, &w.groups[len(w.groups)-1])
	}
}

// memory runs loads, stores and what orders them.
func (w *warp) memory(in *inst, m uint32) {
	switch in.class {
	case cLd:
		w.load(in, m)
	case cSt:
		w.store(in, m)
	case cLdParam:
		w.loadParam(in, m)
	case cMma:
		w.mma(in, m)
	case cLdmatrix, cStmatrix:
		w.matrix(in, m)
	case cAtom:
		w.atomic(in, m)
	case cCpAsync:
		w.copyAsync(in, m)
	case cCommit:
		w.commitAsync(m)
	case cWait:
		w.waitAsync(in, m)
	case cFence:
		if in.op == 1 {
			w.b.order.fence(w.id)
		}
	default:
		panic("BUG: an instruction without an executor")
	}
}

func (w *warp) checkGuard(in *inst, m uint32) {
	for _, r := range in.chk.use {
		if r.file == filePred && r.i == in.guard {
			if bad := m &^ w.def[filePred][r.i]; bad != 0 {
				w.undefined(in, r, bad)
			}
		}
	}
}

// branchTable sends each lane to its place of the table.
func (w *warp) branchTable(in *inst, m uint32) {
	to := map[int32]uint32{}
	var order []int32
	for mm := m; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm)
		k := w.r32[in.a][i]
		if k >= uint32(len(in.x.targets)) {
			w.fault(in, i, OutOfBounds, "index %d of a table of %d targets", k, len(in.x.targets))
			k = 0
		}
		t := in.x.targets[k]
		if to[t] == 0 {
			order = append(order, t)
		}
		to[t] |= 1 << i
	}
	for _, t := range order {
		w.groups = append(w.groups, group{pc: t, mask: to[t]})
	}
}

func merge32(d, s *[32]uint32, m uint32) {
	for i := range d {
		if m>>(i&31)&1 == 1 {
			d[i] = s[i]
		}
	}
}

func merge64(d, s *[32]uint64, m uint32) {
	for i := range d {
		if m>>(i&31)&1 == 1 {
			d[i] = s[i]
		}
	}
}

func narrow(d *[32]uint32, s *[32]uint64, m uint32) {
	for i := range d {
		if m>>(i&31)&1 == 1 {
			d[i] = uint32(s[i])
		}
	}
}

func select32(d, a, b *[32]uint32, p, m uint32) {
	for i := range d {
		if m>>(i&31)&1 == 1 {
			v := b[i]
			if p>>(i&31)&1 == 1 {
				v = a[i]
			}
			d[i] = v
		}
	}
}

func select64(d, a, b *[32]uint64, p, m uint32) {
	for i := range d {
		if m>>(i&31)&1 == 1 {
			v := b[i]
			if p>>(i&31)&1 == 1 {
				v = a[i]
			}
			d[i] = v
		}
	}
}
