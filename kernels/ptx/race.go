package ptx

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// raceTable remembers, for each word of four bytes of device memory, who wrote
// and who read it in the running launch. Pages of it are made when first used.
//
// A writer is launch<<52 | block<<32 | warp<<27 | clock<<5 | strong<<4 | bytes,
// a reader launch<<25 | block<<5 | many<<4 | bytes. Clocks are those of the
// block's order since its begin. Only the last writer is kept, and of readers the
// last and whether there were others; a reader of many with no bytes stands for
// reads of different bytes by different blocks, about which nothing is known.
type raceTable struct {
	mu      sync.Mutex
	writers []atomic.Pointer[[pageWords]uint64]
	readers []atomic.Pointer[[pageWords]uint32]
	launch  uint64 // 1 to maxRaceLaunch
}

const (
	pageWords     = 1024
	pageShift     = 12
	maxRaceLaunch = 127     // then the tables are cleared
	maxRaceBlock  = 1 << 20 // blocks beyond are not watched
	maxRaceClock  = 1 << 22 // nor what happens after as many barriers
	many          = 1 << 4
	strongBit     = 1 << 4
)

func newRaceTable(memory int) *raceTable {
	n := memory >> pageShift
	return &raceTable{writers: make([]atomic.Pointer[[pageWords]uint64], n), readers: make([]atomic.Pointer[[pageWords]uint32], n)}
}

// begin starts a launch: what earlier ones left counts no more.
func (t *raceTable) begin() {
	if t.launch++; t.launch <= maxRaceLaunch {
		return
	}
	t.launch = 1
	for i := range t.readers {
		if p := t.readers[i].Load(); p != nil {
			*p = [pageWords]uint32{}
		}
		if p := t.writers[i].Load(); p != nil {
			*p = [pageWords]uint64{}
		}
	}
}

func page[T any](t *raceTable, list []atomic.Pointer[[pageWords]T], i int) *[pageWords]T {
	if p := list[i].Load(); p != nil {
		return p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := list[i].Load(); p != nil {
		return p
	}
	p := new([pageWords]T)
	list[i].Store(p)
	return p
}

// raceGlobal judges one lane's access of up to sixteen bytes.
//
//go:norace
func (w *warp) raceGlobal(in *inst, lane, off, size int, write bool) {
	if w.b.linear >= maxRaceBlock {
		return
	}
	for at := off &^ 3; at < off+size; at += 4 {
		mask := uint32(15)
		if size < 4 {
			mask = (1<<size - 1) << (off & 3)
		}
		if write {
			w.raceWrite(in, lane, at, mask)
		} else if in.flags&flagStrong == 0 || in.class == cAtom {
			w.raceRead(in, lane, at, mask)
		}
	}
}

// raceRange judges whole words of neighbouring lanes.
//
//go:norace
func (w *warp) raceRange(in *inst, lo, hi, size int, write bool) {
	if w.b.linear >= maxRaceBlock {
		return
	}
	if write {
		for at := lo; at < hi; at += 4 {
			w.raceWrite(in, (at-lo)/size, at, 15)
		}
		return
	}
	if in.flags&flagStrong != 0 {
		return
	}
	t := w.b.m.race
	key := uint32(t.launch)<<25 | uint32(w.b.linear)<<5
	for at := lo; at < hi; {
		i := at >> pageShift
		end := min(hi, (i+1)<<pageShift)
		if t.writers[i].Load() != nil {
			for ; at < end; at += 4 {
				w.raceRead(in, (at-lo)/size, at, 15)
			}
			continue
		}
		words := page(t, t.readers, i)[at>>2&(pageWords-1):][:(end-at)>>2]
		for k, c := range words {
			if c != key|15 {
				words[k] = joinReader(c, key, 15)
			}
		}
		at = end
	}
}

// joinReader adds a reader to a word's record.
func joinReader(c, key, mask uint32) uint32 {
	switch {
	case c>>25 != key>>25: // of an earlier launch
		return key | mask
	case c&^15 == key: // the same block, alone
		return c | mask
	case c&15 == mask:
		return key | many | mask
	}
	return key | many
}

//go:norace
func (w *warp) raceRead(in *inst, lane, at int, mask uint32) {
	t := w.b.m.race
	key := uint32(t.launch)<<25 | uint32(w.b.linear)<<5
	r := &page(t, t.readers, at>>pageShift)[at>>2&(pageWords-1)]
	if c := *r; c != key|mask {
		*r = joinReader(c, key, mask)
	}
	if p := t.writers[at>>pageShift].Load(); p != nil {
		w.raceWith(in, lane, at, p[at>>2&(pageWords-1)], mask, "reads", false)
	}
}

//go:norace
func (w *warp) raceWrite(in *inst, lane, at int, mask uint32) {
	t := w.b.m.race
	me := w.b.linear
	if p := t.readers[at>>pageShift].Load(); p != nil {
		c := p[at>>2&(pageWords-1)]
		if uint64(c>>25) == t.launch && c&mask != 0 && (c&many != 0 || uint64(c>>5&(maxRaceBlock-1)) != me) {
			w.raceReader(in, lane, at, c)
		}
	}
	p := page(t, t.writers, at>>pageShift)
	cell := &p[at>>2&(pageWords-1)]
	strong := in.flags&flagStrong != 0
	clock := min(w.b.order.clock-w.b.order.base, maxRaceClock-1)
	now := t.launch<<52 | me<<32 | uint64(w.id)<<27 | uint64(clock)<<5
	if strong {
		now |= strongBit
	}
	c := *cell
	if c&^15 == now { // more of what this warp has just written
		*cell = c | uint64(mask)
		return
	}
	w.raceWith(in, lane, at, c, mask, "writes", strong)
	*cell = now | uint64(mask)
}

// raceWith judges an access against a word's last writer.
func (w *warp) raceWith(in *inst, lane, at int, c uint64, mask uint32, what string, strong bool) {
	b := w.b
	block, warp, clock := c>>32&(maxRaceBlock-1), int(c>>27&31), uint32(c>>5&(maxRaceClock-1))
	if c>>52 != b.m.race.launch || uint32(c)&mask == 0 || strong && c&strongBit != 0 || clock == maxRaceClock-1 {
		return
	}
	if block == b.linear {
		if warp == w.id || b.order.base+clock <= b.order.before[w.id][warp] || b.seen(in, GlobalRace) {
			return
		}
		w.fault(in, lane, GlobalRace, "%s %#x, which warp %d of this block has written with no barrier between", what, at+globalBase, warp)
		return
	}
	if b.after(w.id, block, warp, clock, at) || b.seen(in, GlobalRace) {
		return
	}
	w.fault(in, lane, GlobalRace, "%s %#x, which block %v has written in this launch, with no fence and atomic between", what, at+globalBase, b.r.grid.at(block))
}

// raceReader judges a write against a word's readers.
func (w *warp) raceReader(in *inst, lane, at int, c uint32) {
	b := w.b
	block := uint64(c >> 5 & (maxRaceBlock - 1))
	if c&many != 0 {
		if len(b.order.acq) > 0 { // it has waited for others; which of them read is not known
			return
		}
		if b.seen(in, GlobalRace) {
			return
		}
		w.fault(in, lane, GlobalRace, "writes %#x, which other blocks have read in this launch", at+globalBase)
		return
	}
	if b.after(w.id, block, -1, 0, at) || b.seen(in, GlobalRace) {
		return
	}
	w.fault(in, lane, GlobalRace, "writes %#x, which block %v has read in this launch, with no fence and atomic between", at+globalBase, b.r.grid.at(block))
}

// syncTable holds what blocks have released to each other: a fence, then a
// strong write or atomic, releases to its address; a strong read or atomic there
// acquires.
type syncTable struct {
	n    atomic.Int64
	mu   sync.Mutex
	vars map[uint64][]release
}

// release is what one block had made visible when it wrote.
type release struct {
	block  uint64
	fenced []uint32 // by warp: clock since the block's begin, 0 for nothing
	acq    []*acquisition
}

// acquisition is what a warp has learnt from an address.
type acquisition struct {
	addr  uint64
	from  []release
	warp  int
	clock uint32
}

// acquire notes that the lanes' addresses have been read strongly.
func (w *warp) acquire(m uint32) {
	s := w.b.r.sync
	if s.n.Load() == 0 {
		return
	}
	for mm := m; mm != 0; mm &= mm - 1 {
		addr := w.b.access.addr[bits.TrailingZeros32(mm)]
		s.mu.Lock()
		from := s.vars[addr]
		s.mu.Unlock()
		w.learn(addr, from)
	}
}

func (w *warp) learn(addr uint64, from []release) {
	o := &w.b.order
	k := acqKey{addr, w.id}
	if len(from) == 0 || o.learnt[k] == len(from) {
		return
	}
	o.learnt[k] = len(from)
	o.acq = append(o.acq, &acquisition{addr: addr, from: from, warp: w.id, clock: o.clock})
	o.clock++
}

// release notes that the lanes' addresses have been written strongly.
func (w *warp) release(m uint32) {
	o := &w.b.order
	fenced := make([]uint32, o.n)
	some := false
	for j, c := range o.fenced[w.id] {
		if c > o.base {
			fenced[j] = c - o.base
			some = true
		}
	}
	if !some {
		return
	}
	s := w.b.r.sync
	for mm := m; mm != 0; mm &= mm - 1 {
		addr := w.b.access.addr[bits.TrailingZeros32(mm)]
		s.mu.Lock()
		if s.vars == nil {
			s.vars = map[uint64][]release{}
		}
		list := s.vars[addr]
		if n := len(list); n == 0 || list[n-1].block != w.b.linear || !slices.Equal(list[n-1].fenced, fenced) {
			s.vars[addr] = append(list, release{w.b.linear, fenced, o.acq})
			s.n.Add(1)
		}
		s.mu.Unlock()
	}
}

// after says whether what a warp of another block did up to clock comes before
// what warp me of this block does now. warp -1 asks for anything of the block.
func (b *worker) after(me int, block uint64, warp int, clock uint32, at int) bool {
	o := &b.order
	k := knownKey{me, warp, block}
	if known, ok := o.known[k]; ok && clock <= known {
		return true
	}
	seen := map[*acquisition]bool{}
	var search func(list []*acquisition, mine bool) bool
	search = func(list []*acquisition, mine bool) bool {
		for _, a := range list {
			if seen[a] || mine && a.warp != me && a.clock > o.before[me][a.warp] {
				continue
			}
			seen[a] = true
			if len(seen) > 4096 {
				return true // too long a chain to follow: say nothing
			}
			for _, r := range a.from {
				if r.block != block {
					continue
				}
				if warp < 0 || r.fenced[warp] >= clock {
					o.known[k] = clock
					return true
				}
				if a.addr-globalBase == uint64(at) { // the strong write itself
					return true
				}
			}
			for _, r := range a.from {
				if search(r.acq, false) {
					return true
				}
			}
		}
		return false
	}
	return search(o.acq, true)
}
