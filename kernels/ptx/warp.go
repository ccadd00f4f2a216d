package ptx

import (
	"fmt"
	"math/bits"
	"runtime"
)

// warp is 32 lanes that run one program.
type warp struct {
	b    *worker
	id   int
	all  uint32 // lanes that exist
	live uint32 // lanes that have not exited
	r32  [][32]uint32
	r64  [][32]uint64
	p    []uint32
	// def says by file and register which lanes have written it; kept where
	// the program's regChecks look only.
	def    [3][]uint32
	cc     uint32 // carry flags
	groups []group
	force  bool // run a warp operation without the lanes that never came

	local     []byte // by lane
	localInit []bool
	async     asyncQueue
	blend32   [32]uint32
	blend64   [32]uint64
}

type groupState uint8

const (
	ready       groupState = iota
	waitBarrier            // at a barrier of the block
	waitLanes              // at a warp operation, for lanes its mask names
)

// group is the lanes of a warp that stand at one instruction.
type group struct {
	pc    int32
	mask  uint32
	state groupState
	bar   uint8
}

func newWarp(b *worker, id int) *warp {
	p := b.p
	w := &warp{b: b, id: id, r32: make([][32]uint32, max(p.n32, 1)), r64: make([][32]uint64, max(p.n64, 1)), p: make([]uint32, max(p.np, 1))}
	n := min(b.r.threads-id*32, 32)
	w.all = uint32(uint64(1)<<n - 1)
	w.def = [3][]uint32{make([]uint32, p.n32), make([]uint32, p.n64), make([]uint32, p.np)}
	if p.localBytes > localBase {
		w.local = make([]byte, 32*p.localBytes)
		w.localInit = make([]bool, 32*p.localBytes)
	}
	return w
}

// begin sets the warp to a block's start.
func (w *warp) begin() {
	if w.b.p.tracked {
		for _, d := range w.def {
			clear(d)
		}
	}
	if w.b.checks {
		clear(w.localInit)
	}
	w.async.reset()
	w.constants(w.b.fresh)
	w.cc, w.force = 0, false
	w.live = w.all
	w.groups = append(w.groups[:0], group{mask: w.all})
}

// constants fills the registers that hold immediates, addresses and special registers.
// Only what depends on the block is filled anew at each.
func (w *warp) constants(all bool) {
	p := w.b.p
	set := func(r ref, v uint64) {
		if r.file == filePred {
			w.p[r.i] = -uint32(v)
			return
		}
		for i := range 32 {
			if r.file == file64 {
				w.r64[r.i][i] = v
			} else {
				w.r32[r.i][i] = uint32(v)
			}
		}
	}
	if p.tracked {
		for _, r := range p.given {
			w.def[r.file][r.i] = ^uint32(0)
		}
	}
	if all {
		for _, c := range p.consts {
			set(c.ref, c.val)
		}
		for _, s := range p.syms {
			set(s.ref, w.b.address(s.v)+uint64(s.add))
		}
	}
	for _, s := range p.specials {
		if !all && (s.sp < spCtaidX || s.sp > spCtaidZ) {
			continue
		}
		for i := range 32 {
			if s.file == file64 {
				w.r64[s.i][i] = w.special(s.sp, i)
			} else {
				w.r32[s.i][i] = uint32(w.special(s.sp, i))
			}
		}
	}
}

// address is where a variable lies.
func (b *worker) address(v *variable) uint64 {
	if v.space == spaceShared {
		for _, s := range b.p.sharedVars {
			if s.v == v {
				return uint64(s.at)
			}
		}
	}
	return b.r.l.addrs[v]
}

func (w *warp) special(sp special, lane int) uint64 {
	r, b := w.b.r, w.b
	t := w.lane(lane)
	bit := uint32(1) << lane
	switch sp {
	case spTidX:
		return uint64(t.X)
	case spTidY:
		return uint64(t.Y)
	case spTidZ:
		return uint64(t.Z)
	case spNtidX:
		return uint64(r.block.X)
	case spNtidY:
		return uint64(r.block.Y)
	case spNtidZ:
		return uint64(r.block.Z)
	case spCtaidX:
		return uint64(b.cta.X)
	case spCtaidY:
		return uint64(b.cta.Y)
	case spCtaidZ:
		return uint64(b.cta.Z)
	case spNctaidX:
		return uint64(r.grid.X)
	case spNctaidY:
		return uint64(r.grid.Y)
	case spNctaidZ:
		return uint64(r.grid.Z)
	case spLaneid:
		return uint64(lane)
	case spWarpid:
		return uint64(w.id)
	case spNwarpid:
		return uint64(r.warps)
	case spNsmid:
		return 1
	case spGridid:
		return uint64(r.m.launch)
	case spLaneEq:
		return uint64(bit)
	case spLaneLe:
		return uint64(bit | (bit - 1))
	case spLaneLt:
		return uint64(bit - 1)
	case spLaneGe:
		return uint64(^(bit - 1))
	case spLaneGt:
		return uint64(^(bit | (bit - 1)))
	case spDynShared:
		return uint64(r.dynamic)
	case spTotalShared:
		return uint64(r.dynamic + r.p.sharedStatic)
	}
	return 0 // %smid
}

// runnable says whether a group can go on.
func (w *warp) runnable() bool {
	waiting := false
	for _, g := range w.groups {
		if g.state == ready {
			return true
		}
		waiting = waiting || g.state == waitLanes
	}
	return waiting
}

// merge joins groups that stand at one instruction and drops empty ones. Lanes
// that wait for others go on with those who come.
func (w *warp) merge() {
	gs := w.groups
	n := 0
	for _, g := range gs {
		if g.mask == 0 {
			continue
		}
		joined := false
		for j := range n {
			h := &gs[j]
			if h.pc == g.pc && h.state != waitBarrier && g.state != waitBarrier {
				if h.state == ready || g.state == ready {
					h.state = ready
				}
				h.mask |= g.mask
				joined = true
				break
			}
		}
		if !joined {
			gs[n] = g
			n++
		}
	}
	w.groups = gs[:n]
}

// pick chooses the group furthest behind, and the place where it must stop to
// let others join.
func (w *warp) pick() (g *group, limit int32) {
	for _, want := range []groupState{ready, waitLanes} {
		for i := range w.groups {
			if h := &w.groups[i]; h.state == want && (g == nil || h.pc < g.pc) {
				g = h
			}
		}
		if g != nil {
			w.force = want == waitLanes // nobody else can move: the lanes it waits for do not come
			g.state = ready
			break
		}
	}
	if g == nil {
		return nil, 0
	}
	limit = int32(len(w.b.p.code))
	for _, h := range w.groups {
		if h.pc > g.pc && h.pc < limit {
			limit = h.pc
		}
	}
	return g, limit
}

// A warp that runs this long without reaching a barrier lets the others go on,
// in case it waits for one of them.
const quantum = 1 << 16

// run executes the warp until nothing of it can go on, or its quantum ends.
func (w *warp) run() {
	for turn := 0; turn < quantum; {
		g, limit := w.pick()
		if g == nil {
			return
		}
		n := w.execute(g, limit, quantum-turn)
		turn += max(n, 1)
		w.b.steps += int64(n)
		if w.b.dead || w.b.r.stop.Load() {
			return
		}
		if w.b.steps > w.b.m.opt.MaxSteps {
			w.b.dead = true
			w.b.r.fail(fmt.Errorf("ptx line %d: block %v ran %d warp instructions without an end: it loops, or waits for what never comes", w.b.p.code[w.pcNow()].line, w.b.cta, w.b.steps))
			return
		}
		if len(w.groups) != 1 || w.groups[0].mask == 0 {
			w.merge()
		}
	}
	runtime.Gosched()
}

func (w *warp) pcNow() int32 {
	if len(w.groups) == 0 {
		return 0
	}
	return min(w.groups[0].pc, int32(len(w.b.p.code)-1))
}

// checkRegs reports undefined sources and marks destinations.
func (w *warp) checkRegs(in *inst, m uint32) {
	c := in.chk
	for _, r := range c.use {
		g := m
		if r.file == filePred && r.i == in.guard {
			continue // looked at before the guard was taken
		}
		if bad := g &^ w.def[r.file][r.i]; bad != 0 {
			w.undefined(in, r, bad)
		}
	}
	if len(c.def) == 0 {
		return
	}
	from := m
	for _, r := range c.copy {
		from &= w.def[r.file][r.i]
	}
	for _, r := range c.def {
		w.def[r.file][r.i] = w.def[r.file][r.i]&^m | from
	}
}

func (w *warp) undefined(in *inst, r ref, bad uint32) {
	if w.b.seen(in, UndefinedReg) {
		return
	}
	w.fault(in, bits.TrailingZeros32(bad), UndefinedReg, "lanes %#x have not written %s", bad, w.b.p.registerName(r))
}
