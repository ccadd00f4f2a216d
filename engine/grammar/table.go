package grammar

import (
	"cmp"
	"slices"
)

// config is one thread of a state: where it is, what its rule has counted, and
// the node (a set) that holds where its rule returns to.
type config struct{ pc, ctr, node int32 }

// set is an interned list of configs, ascending. It is a state (then all its
// instructions consume or end) or a return node.
type set struct {
	configs []config
	hash    uint64  // of the content, the same in every table
	trans   []int32 // by byte class: the set after it, or unknown; nil until asked for
	alike   int32   // the set with clamped counters that has the same mask, or unknown
	plain   int32   // the set after any one plain character, noPlain, or unknown
	accept  bool    // the text may end here
	mask    *mask
}

const (
	deadSet = int32(0) // no configs
	unknown = int32(-1)
	noPlain = int32(-2)
)

// table holds the sets that have occurred, with their transitions. It is
// guarded by its Compiled's mutex, and thrown away as a whole when it has grown
// too large; sets are then carried over on demand.
type table struct {
	p     *program
	v     *Vocab
	sets  []set
	index map[uint64]int32 // hash of configs to set; colliding hashes count on
	bytes int              // estimate of what all this takes
	work  int              // configs that one mask may look at
	limit int              // bytes at which it is full
	room  int              // bytes at which it is full, not below twice what was carried over
	start int32

	arena []config
	c     closer
}

func newTable(p *program, v *Vocab, limit int) *table {
	t := &table{p: p, v: v, limit: limit, room: limit, work: maxMaskWork, index: map[uint64]int32{}}
	t.intern(nil)
	t.c.begin()
	if p.nullable[p.root] {
		t.c.push(config{pc: p.ends}, false)
	}
	t.c.callRule(config{pc: p.ends}, p.root, deadSet)
	t.start = t.close()
	return t
}

func (t *table) full() bool { return t.bytes > t.room }

// settle notes that what is in t now has been carried over and must stay.
func (t *table) settle() { t.room = max(t.limit, 2*t.bytes) }

// intern returns the set with the given configs, which must be in order.
func (t *table) intern(cs []config) int32 {
	h := uint64(14695981039346656037)
	for _, c := range cs {
		h = (h ^ uint64(uint32(c.pc)) ^ uint64(uint32(c.ctr))<<32) * 0x9E3779B97F4A7C15
		h = (h ^ h>>29) * 0xBF58476D1CE4E5B9
		if c.node != deadSet {
			h = (h ^ t.sets[c.node].hash ^ h>>32) * 0x94D049BB133111EB
		}
	}
	at := h
	for ; ; at++ {
		id, ok := t.index[at]
		if !ok {
			break
		}
		if slices.Equal(t.sets[id].configs, cs) {
			return id
		}
	}
	id := int32(len(t.sets))
	s := set{configs: t.keep(cs), hash: h, alike: unknown, plain: unknown}
	for _, c := range cs {
		if c.pc == t.p.ends {
			s.accept = true
		}
	}
	t.sets = append(t.sets, s)
	t.index[at] = id
	t.bytes += 112 + 12*len(cs)
	return id
}

// keep copies cs into the arena.
func (t *table) keep(cs []config) []config {
	if len(t.arena)+len(cs) > cap(t.arena) {
		t.arena = make([]config, 0, max(256, min(8192, 2*cap(t.arena)), len(cs)))
	}
	n := len(t.arena)
	t.arena = append(t.arena, cs...)
	return t.arena[n:len(t.arena):len(t.arena)]
}

// step is the state after a byte of class k.
func (t *table) step(s int32, k uint8) int32 {
	if tr := t.sets[s].trans; tr != nil {
		if to := tr[k]; to != unknown {
			return to
		}
	} else {
		tr = make([]int32, len(t.p.byteOf))
		for i := range tr {
			tr[i] = unknown
		}
		t.sets[s].trans = tr
		t.bytes += 4 * len(tr)
	}
	to := t.compute(t.sets[s].configs, t.p.byteOf[k])
	t.sets[s].trans[k] = to
	return to
}

func (t *table) compute(cs []config, b byte) int32 {
	t.c.begin()
	for _, c := range cs {
		in := &t.p.insts[c.pc]
		switch in.op {
		case opByte:
			if in.lo <= b && b <= in.hi {
				t.c.push(config{in.a, c.ctr, c.node}, false)
			}
		case opSwitch:
			if to := findEdge(t.p.edges[in.a:in.b], b); to != fail {
				t.c.push(config{to, c.ctr, c.node}, false)
			}
		}
	}
	return t.close()
}

func findEdge(edges []edge, b byte) int32 {
	lo, hi := 0, len(edges)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if edges[mid].hi < b {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(edges) && edges[lo].lo <= b {
		return edges[lo].to
	}
	return fail
}

// alikeSet is s with every counter clamped: what it allows over the length of
// one token is the same.
func (t *table) alikeSet(s int32) int32 {
	if a := t.sets[s].alike; a != unknown {
		return a
	}
	ahead := int32(t.v.longer)
	old := t.sets[s].configs
	cs := make([]config, len(old))
	for i, c := range old {
		if k := t.p.ctrOf[c.pc]; k >= 0 {
			c.ctr = t.p.counters[k].clamp(c.ctr, ahead)
		}
		if c.node != deadSet {
			c.node = t.alikeSet(c.node)
		}
		cs[i] = c
	}
	a := t.intern(t.order(cs))
	t.sets[s].alike = a
	t.sets[a].alike = a
	return a
}

// order sorts configs and drops repetitions. Nodes are ordered by content, not
// by number, so that the order does not depend on what the table has seen.
func (t *table) order(cs []config) []config {
	slices.SortFunc(cs, func(a, b config) int {
		switch {
		case a.pc != b.pc:
			return int(a.pc) - int(b.pc)
		case a.ctr != b.ctr:
			return int(a.ctr) - int(b.ctr)
		case a.node == b.node:
			return 0
		}
		if c := cmp.Compare(t.sets[a.node].hash, t.sets[b.node].hash); c != 0 {
			return c
		}
		return int(a.node) - int(b.node)
	})
	return slices.Compact(cs)
}

// carry brings set s of old into t, its return nodes first. seen maps what has
// been carried already.
func (t *table) carry(old *table, s int32, seen map[int32]int32) int32 {
	if s == deadSet {
		return s
	}
	if n, ok := seen[s]; ok {
		return n
	}
	cs := slices.Clone(old.sets[s].configs)
	for i := range cs {
		cs[i].node = t.carry(old, cs[i].node, seen)
	}
	n := t.intern(t.order(cs))
	seen[s] = n
	return n
}
