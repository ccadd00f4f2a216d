package grammar

import "math/bits"

// mask is which tokens a state allows, end tokens left out: ids if they are
// few, else bits.
type mask struct {
	ids  []int32
	bits []uint32
}

// maskOf returns the mask of state s of table c.t, which a walk may replace.
func (c *Compiled) maskOf(s int32) *mask {
	a := c.t.alikeSet(s)
	if m := c.t.sets[a].mask; m != nil {
		return m
	}
	m, t, a := walk(c.t, a)
	c.t = t
	t.sets[a].mask = m
	t.bytes += 64 + 4*len(m.ids) + 4*len(m.bits)
	return m
}

// fewIDs is how many allowed tokens are kept as a list.
const fewIDs = 128

// walk runs the pieces of the vocabulary through the table, a subtree at a
// time. Its work is bounded by counting, never by time, so that a state has the
// same mask whenever it is asked for; what the bound leaves out are tokens that
// begin with late bytes, and single bytes are always looked at.
//
// If the table fills up on the way, the walk goes on in a new one; it returns
// the table that it ended with, and s in it.
func walk(t *table, s int32) (*mask, *table, int32) {
	v := t.v
	w := walker{t: t, path: make([]int32, 1, v.longer+16), bits: make([]uint32, MaskWords(v.size))}
	w.path[0] = s
	if n := w.plain(); n > 0 {
		w.run(&v.other)
	} else {
		w.run(&v.all)
	}
	if w.cut {
		w.singles()
	}
	m := &mask{}
	if w.n > fewIDs {
		m.bits = w.bits
		return m, w.t, w.path[0]
	}
	for i, word := range w.bits {
		for ; word != 0; word &= word - 1 {
			m.ids = append(m.ids, int32(i<<5+bits.TrailingZeros32(word)))
		}
	}
	return m, w.t, w.path[0]
}

type walker struct {
	t    *table
	path []int32 // state by depth
	bits []uint32
	n    int // bits set, or more
	work int
	cut  bool
}

// plain allows the plain tokens at once if the state takes any plain characters
// alike, up to some number of them and no more. It returns that number; with 0
// nothing has been allowed.
func (w *walker) plain() int {
	p := &w.t.v.plain
	s, n := w.path[0], 0
	for n+1 < len(p.upTo) {
		next := w.t.plainNext(s)
		if next == noPlain {
			if w.t.takesPlain(s) {
				return 0
			}
			break
		}
		if n++; next == s {
			n = len(p.upTo) - 1
		}
		s = next
	}
	if n > 0 && n+1 == len(p.upTo) {
		copy(w.bits, p.bits)
		w.n = len(p.ids)
	} else if n > 0 {
		for _, id := range p.ids[:p.upTo[n]] {
			w.allow(id)
		}
	}
	return n
}

// takesPlain reports whether some plain character may begin at s.
func (t *table) takesPlain(s int32) bool {
	for _, sq := range t.v.plain.seqs {
		for b := int(sq.r[0].lo); b <= int(sq.r[0].hi); b++ {
			if t.step(s, t.p.classOf[b]) != deadSet {
				return true
			}
		}
	}
	return false
}

// plainNext is the state after one plain character, if it is the same for all
// of them, else noPlain.
func (t *table) plainNext(s int32) int32 {
	if n := t.sets[s].plain; n != unknown {
		return n
	}
	next := unknown
	for _, sq := range t.v.plain.seqs {
		next = t.converge(s, sq.r, next)
		if next == noPlain {
			break
		}
	}
	if next == unknown || next == deadSet {
		next = noPlain
	}
	t.sets[s].plain = next
	return next
}

// converge follows all texts of r from s; they must all lead to want, which is
// found out if it is unknown.
func (t *table) converge(s int32, r []byteRange, want int32) int32 {
	if len(r) == 0 {
		if want == unknown || want == s {
			return s
		}
		return noPlain
	}
	for b := int(r[0].lo); b <= int(r[0].hi); {
		k := t.p.classOf[b]
		to := t.step(s, k)
		if to == deadSet {
			return noPlain
		}
		if want = t.converge(to, r[1:], want); want == noPlain {
			return noPlain
		}
		for b <= int(r[0].hi) && t.p.classOf[b] == k {
			b++
		}
	}
	return want
}

func (w *walker) run(tr *trie) {
	class := &w.t.p.classOf
	for i := int32(1); i < int32(len(tr.label)); {
		d := int(tr.depth[i])
		from := w.path[d-1]
		k := class[tr.label[i]]
		to := unknown
		if trans := w.t.sets[from].trans; trans != nil {
			to = trans[k]
		}
		if to == unknown {
			if w.t.full() {
				w.renew(d)
				from = w.path[d-1]
			}
			to = w.t.step(from, k)
		}
		w.work += len(w.t.sets[from].configs)
		if w.work > w.t.work {
			w.cut = true
			return
		}
		if to == deadSet {
			i = tr.skip[i]
			continue
		}
		if d < len(w.path) {
			w.path[d] = to
		} else {
			w.path = append(w.path, to)
		}
		for _, id := range tr.ids[tr.first[i]:tr.first[i+1]] {
			w.allow(id)
		}
		i++
	}
}

func (w *walker) allow(id int32) {
	w.bits[id>>5] |= 1 << (id & 31)
	w.n++
}

// singles adds the tokens of one byte, which every state can be completed with.
func (w *walker) singles() {
	tr := &w.t.v.all
	for i := int32(1); i < int32(len(tr.label)); i = tr.skip[i] {
		if w.t.step(w.path[0], w.t.p.classOf[tr.label[i]]) != deadSet {
			for _, id := range tr.ids[tr.first[i]:tr.first[i+1]] {
				w.allow(id)
			}
		}
	}
}

// renew goes on in an empty table with the first states of the path.
func (w *walker) renew(depth int) {
	old := w.t
	w.t = newTable(old.p, old.v, old.limit)
	w.t.work = old.work
	seen := map[int32]int32{}
	for i := 0; i < depth; i++ {
		w.path[i] = w.t.carry(old, w.path[i], seen)
	}
	w.t.settle()
}
