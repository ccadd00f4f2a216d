package ptx

import (
	"fmt"
	"math/bits"
)

// worker runs blocks, one at a time, on one goroutine.
type worker struct {
	r                *launch
	m                *Machine
	p                *program
	checks           bool
	count            bool
	threads, dynamic int
	warps            []*warp
	counts           []Counts    // by pc
	ranges           []rangeHint // by pc: the allocation last used there

	linear uint64 // of the block
	cta    Dim
	steps  int64
	live   int // threads that have not exited
	bars   [16]barrier
	dead   bool // the block cannot go on
	fresh  bool // no block has run here: registers of constants are to be filled

	sh     sharedMemory
	order  order
	access access
	tile   tile
}

type rangeHint struct{ lo, hi int }

// barrier is one of a block's sixteen.
type barrier struct {
	arrived  int // threads
	expected int // threads, 0 for all
	warps    uint32
	popc     int
}

func newWorker(r *launch) *worker {
	w := &worker{r: r, m: r.m, p: r.p, checks: r.checks, count: r.count, threads: r.threads, dynamic: r.dynamic}
	w.counts = make([]Counts, len(r.p.code))
	w.ranges = make([]rangeHint, len(r.p.code))
	w.sh.init(r)
	for i := range r.warps {
		w.warps = append(w.warps, newWarp(w, i))
	}
	w.order.init(r.warps)
	w.fresh = true
	return w
}

// fits says whether the worker's registers and tables serve a launch.
func (b *worker) fits(r *launch) bool {
	return b.p == r.p && b.threads == r.threads && b.dynamic == r.dynamic
}

const maxIdle = 64 // workers kept

// worker gives one that has run the same kernel, or a new one.
func (m *Machine) worker(r *launch) *worker {
	for i := len(m.idle) - 1; i >= 0; i-- {
		if b := m.idle[i]; b.fits(r) {
			m.idle = append(m.idle[:i], m.idle[i+1:]...)
			b.r, b.fresh = r, true
			clear(b.ranges)
			return b
		}
	}
	return newWorker(r)
}

// keep puts workers by for later launches.
func (m *Machine) keep(workers []*worker) {
	for _, b := range workers {
		b.r = nil
	}
	m.idle = append(m.idle, workers...)
	if n := len(m.idle) - maxIdle; n > 0 {
		m.idle = append(m.idle[:0], m.idle[n:]...)
	}
}

// work takes blocks until none is left.
func (b *worker) work() {
	for !b.r.stop.Load() {
		i := b.r.next.Add(1) - 1
		if i >= b.r.blocks {
			return
		}
		b.linear, b.cta = i, b.r.grid.at(i)
		b.block()
	}
}

// block runs one block: each warp to a barrier or its end, in turn.
func (b *worker) block() {
	b.steps, b.live, b.dead = 0, b.r.threads, false
	b.bars = [16]barrier{}
	b.order.begin(&b.sh)
	b.sh.begin()
	for _, w := range b.warps {
		w.begin()
	}
	b.fresh = false
	for b.live > 0 {
		ran := false
		for _, w := range b.warps {
			if w.runnable() {
				ran = true
				w.run()
				if b.dead || b.r.stop.Load() {
					return
				}
			}
		}
		if !ran {
			b.deadlock()
			return
		}
	}
}

// deadlock says which barrier holds the block.
func (b *worker) deadlock() {
	for _, w := range b.warps {
		if len(w.groups) == 0 {
			continue
		}
		g := w.groups[0]
		bar := &b.bars[g.bar]
		want := bar.expected
		if want == 0 {
			want = b.live
		}
		b.r.fail(fmt.Errorf("ptx line %d: deadlock: block %v thread %v waits at barrier %d, where %d of %d threads have come", b.p.code[g.pc].line, b.cta, w.thread(g.mask), g.bar, bar.arrived, want))
		return
	}
}

// fault reports a finding; without checks it ends the launch.
func (w *warp) fault(in *inst, lane int, kind Kind, format string, args ...any) {
	b := w.b
	f := Finding{Kind: kind, Line: int(in.line), Source: b.r.source(in), CTA: b.cta, Thread: w.lane(lane), Detail: in.x.text + ": " + fmt.Sprintf(format, args...)}
	if !b.checks {
		b.dead = true
		b.r.fail(fmt.Errorf("%v", f))
		return
	}
	b.r.report(f)
}

// seen says whether a fault at this place is known, so that its text need not be made.
func (b *worker) seen(in *inst, kind Kind) bool {
	if !b.checks {
		return false
	}
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	return b.r.seen[seenKey{kind, in.line}]
}

// lane gives a lane's thread index.
func (w *warp) lane(i int) Dim { return w.b.r.block.at(uint64(w.id*32 + i)) }

func (w *warp) thread(mask uint32) Dim { return w.lane(bits.TrailingZeros32(mask)) }

// bar brings a group to a barrier, or past it.
func (w *warp) bar(in *inst, g *group) {
	b := w.b
	m := g.mask
	id, count, ok := w.barOperands(in, m)
	if !ok {
		g.pc++
		return
	}
	if absent := w.live &^ m; absent != 0 && in.flags&flagUnaligned == 0 {
		w.fault(in, bits.TrailingZeros32(m), DivergentBarrier, "lanes %#x of the warp come, lanes %#x do not", m, absent)
	}
	if b.dead {
		return
	}
	bar := &b.bars[id]
	if bar.arrived > 0 && bar.expected != count {
		w.fault(in, bits.TrailingZeros32(m), BarrierCount, "barrier %d is waited at for %d threads, and here for %d", id, bar.expected, count)
	}
	bar.expected = count
	bar.arrived += bits.OnesCount32(m)
	bar.warps |= 1 << w.id
	w.b.order.arrive(id, w.id, in.flags&flagArrive == 0)
	if in.flags&flagReduce != 0 {
		p := w.p[in.c]
		if in.flags&flagNegC != 0 {
			p = ^p
		}
		bar.popc += bits.OnesCount32(p & m)
	}
	if in.flags&flagArrive != 0 {
		g.pc++
	} else {
		g.state, g.bar = waitBarrier, uint8(id)
	}
	b.complete(id) // which may move the groups
}

func (w *warp) barOperands(in *inst, m uint32) (id, count int, ok bool) {
	i := bits.TrailingZeros32(m)
	a := w.r32[in.a][i]
	if a > 15 {
		w.fault(in, i, BarrierCount, "got barrier %d, wanted 0 to 15", a)
		return 0, 0, false
	}
	if in.flags&flagCount != 0 {
		n := w.r32[in.b][i]
		if n == 0 || n%32 != 0 || n > maxBlockThreads {
			w.fault(in, i, BarrierCount, "got a count of %d threads, wanted a multiple of 32", n)
			return 0, 0, false
		}
		count = int(n)
	}
	return int(a), count, true
}

// complete releases a barrier whose threads have all come.
func (b *worker) complete(id int) {
	bar := &b.bars[id]
	want := bar.expected
	if want == 0 {
		want = b.live
	}
	if bar.arrived == 0 || bar.arrived < want {
		return
	}
	b.order.barrier(id)
	for _, w := range b.warps {
		for i := range w.groups {
			g := &w.groups[i]
			if g.state != waitBarrier || int(g.bar) != id {
				continue
			}
			in := &b.p.code[g.pc]
			if in.flags&flagReduce != 0 {
				w.barResult(in, g.mask, bar)
			}
			g.state = ready
			g.pc++
		}
		w.merge()
	}
	*bar = barrier{}
}

func (w *warp) barResult(in *inst, m uint32, bar *barrier) {
	switch in.op {
	case 2:
		for mm := m; mm != 0; mm &= mm - 1 {
			w.r32[in.d][bits.TrailingZeros32(mm)] = uint32(bar.popc)
		}
	case 0:
		w.setPred(in.d, m, bar.popc == bar.arrived)
	case 1:
		w.setPred(in.d, m, bar.popc > 0)
	}
}

func (w *warp) setPred(i int32, m uint32, v bool) {
	if v {
		w.p[i] |= m
	} else {
		w.p[i] &^= m
	}
}

// exit ends the lanes m.
func (w *warp) exit(m uint32) {
	w.live &^= m
	w.b.live -= bits.OnesCount32(m)
	if w.b.live == 0 {
		return
	}
	for id := range w.b.bars {
		if w.b.bars[id].arrived > 0 && w.b.bars[id].expected == 0 {
			w.b.complete(id)
		}
	}
}
