package ptx

import "math/bits"

// warpOp runs an instruction that lanes do together. It says false where the
// group must first wait for lanes that the mask names.
func (w *warp) warpOp(in *inst, g *group, m uint32) bool {
	mreg := in.b
	switch in.class {
	case cBarWarp:
		mreg = in.a
	case cShfl:
		mreg = in.x.regs[0]
	}
	named := w.r32[mreg][bits.TrailingZeros32(m)]
	if absent := named & w.live &^ m; absent != 0 && !w.force {
		rest := g.mask &^ m // lanes that the guard holds back go on
		g.pc, g.mask, g.state = in.pc, m, waitLanes
		if rest != 0 {
			w.groups = append(w.groups, group{pc: in.pc + 1, mask: rest})
		}
		return false
	}
	w.force = false
	w.checkLanes(in, m, mreg, named)
	if w.b.dead {
		return false
	}
	switch in.class {
	case cBarWarp:
		w.b.order.warpBarrier(w.id)
	case cShfl:
		w.shuffle(in, m)
	case cVote:
		w.vote(in, m)
	case cMatch:
		w.match(in, m)
	case cRedux:
		w.redux(in, m)
	case cElect:
		lead := bits.TrailingZeros32(m)
		for mm := m; mm != 0; mm &= mm - 1 {
			w.r32[in.d][bits.TrailingZeros32(mm)] = uint32(lead)
		}
		w.p[in.e] = w.p[in.e]&^m | 1<<lead
	}
	return true
}

// checkLanes reports a mask that does not name just the lanes that run.
func (w *warp) checkLanes(in *inst, m uint32, mreg int32, named uint32) {
	first := bits.TrailingZeros32(m)
	switch absent, extra := named&w.all&^m, m&^named; {
	case absent&w.live != 0:
		w.fault(in, first, ShflDivergence, "the mask %#x names lanes %#x, which do not come", named, absent)
	case absent != 0:
		w.fault(in, first, ShflDivergence, "the mask %#x names lanes %#x, which have exited", named, absent)
	case extra != 0:
		w.fault(in, bits.TrailingZeros32(extra), ShflDivergence, "lanes %#x run it and are not in the mask %#x", extra, named)
	default:
		for mm := m; mm != 0; mm &= mm - 1 {
			if i := bits.TrailingZeros32(mm); w.r32[mreg][i] != named {
				w.fault(in, i, ShflDivergence, "got mask %#x, and %#x in lane %d", w.r32[mreg][i], named, first)
				return
			}
		}
	}
}

// shuffle is shfl.sync (ISA §9.7.8.6).
func (w *warp) shuffle(in *inst, m uint32) {
	src := w.r32[in.a]
	d, bs, cs := &w.r32[in.d], w.r32[in.b], w.r32[in.c]
	var preds uint32
	for mm := m; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm) & 31
		lane, b := int32(i), int32(bs[i]&31)
		c := int32(cs[i] & 31)
		seg := int32(cs[i] >> 8 & 31)
		maxLane := lane&seg | c&^seg
		minLane := lane & seg
		var j int32
		var ok bool
		switch in.op {
		case 0:
			j = lane - b
			ok = j >= maxLane
		case 1:
			j = lane + b
			ok = j <= maxLane
		case 2:
			j = lane ^ b
			ok = j <= maxLane
		case 3:
			j = minLane | b&^seg
			ok = j <= maxLane
		}
		if !ok {
			j = lane
		} else {
			preds |= 1 << i
		}
		if m>>(j&31)&1 == 0 {
			w.fault(in, i, ShflUndefined, "reads lane %d, which takes no part", j)
		}
		d[i] = src[j&31]
	}
	if in.e >= 0 {
		w.p[in.e] = w.p[in.e]&^m | preds
	}
}

func (w *warp) vote(in *inst, m uint32) {
	p := w.p[in.a]
	if in.flags&flagNegA != 0 {
		p = ^p
	}
	p &= m
	switch in.op {
	case 0:
		w.setPred(in.d, m, p == m)
	case 1:
		w.setPred(in.d, m, p != 0)
	case 2:
		w.setPred(in.d, m, p == m || p == 0)
	case 3:
		for mm := m; mm != 0; mm &= mm - 1 {
			w.r32[in.d][bits.TrailingZeros32(mm)] = p
		}
	}
}

func (w *warp) match(in *inst, m uint32) {
	f := in.typ.file()
	var a [32]uint64
	for mm := m; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm)
		a[i] = w.get(f, in.a, i)
	}
	for mm := m; mm != 0; mm &= mm - 1 {
		i := bits.TrailingZeros32(mm)
		var same uint32
		for nn := m; nn != 0; nn &= nn - 1 {
			if j := bits.TrailingZeros32(nn); a[j] == a[i] {
				same |= 1 << j
			}
		}
		if in.op == 1 {
			if in.e >= 0 {
				w.p[in.e] = w.p[in.e]&^(1<<i) | bit(same == m)<<i
			}
			if same != m {
				same = 0
			}
		}
		w.r32[in.d][i] = same
	}
}

func (w *warp) redux(in *inst, m uint32) {
	first := bits.TrailingZeros32(m)
	v := uint64(w.r32[in.a][first])
	for mm := m & (m - 1); mm != 0; mm &= mm - 1 {
		v = in.x.lane(v, uint64(w.r32[in.a][bits.TrailingZeros32(mm)]), 0)
	}
	for mm := m; mm != 0; mm &= mm - 1 {
		w.r32[in.d][bits.TrailingZeros32(mm)] = uint32(v)
	}
}
