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

// walk runs all pieces of the vocabulary through the table, a subtree at a
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
	w.run()
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
	n    int
	work int
	cut  bool
}

func (w *walker) run() {
	v, class := w.t.v, &w.t.p.classOf
	for i := int32(1); i < int32(len(v.label)); {
		d := int(v.depth[i])
		from := w.path[d-1]
		k := class[v.label[i]]
		to := unknown
		if tr := w.t.sets[from].trans; tr != nil {
			to = tr[k]
		}
		if to == unknown {
			if w.t.full() {
				w.renew(d)
				from = w.path[d-1]
			}
			to = w.t.step(from, k)
		}
		w.work += len(w.t.sets[from].configs)
		if w.work > maxMaskWork {
			w.cut = true
			return
		}
		if to == deadSet {
			i = v.skip[i]
			continue
		}
		if d < len(w.path) {
			w.path[d] = to
		} else {
			w.path = append(w.path, to)
		}
		w.allow(i)
		i++
	}
}

func (w *walker) allow(node int32) {
	v := w.t.v
	for _, id := range v.ids[v.first[node]:v.first[node+1]] {
		if word, bit := id>>5, uint32(1)<<(id&31); w.bits[word]&bit == 0 {
			w.bits[word] |= bit
			w.n++
		}
	}
}

// singles adds the tokens of one byte, which every state can be completed with.
func (w *walker) singles() {
	v := w.t.v
	for i := int32(1); i < int32(len(v.label)); i = v.skip[i] {
		if w.t.step(w.path[0], w.t.p.classOf[v.label[i]]) != deadSet {
			w.allow(i)
		}
	}
}

// renew goes on in an empty table with the first states of the path.
func (w *walker) renew(depth int) {
	old := w.t
	w.t = newTable(old.p, old.v, old.limit)
	seen := map[int32]int32{}
	for i := 0; i < depth; i++ {
		w.path[i] = w.t.carry(old, w.path[i], seen)
	}
	w.t.settle()
}
