package grammar

import "hearth/engine/infer"

// Matcher follows one sequence through a Compiled grammar. It is for use by
// one goroutine at a time; different Matchers of one Compiled may run at once.
type Matcher struct {
	c     *Compiled
	t     *table // where state is from
	state int32
	ended bool
}

// Clone returns an independent copy at the same place.
func (m *Matcher) Clone() *Matcher {
	n := *m
	return &n
}

// CopyFrom moves m to where o is; it allocates nothing.
func (m *Matcher) CopyFrom(o *Matcher) { *m = *o }

// Ended reports that an end token has been accepted.
func (m *Matcher) Ended() bool { return m.ended }

// enter locks the grammar's table and brings m's state into it.
func (m *Matcher) enter() *table {
	m.c.mu.Lock()
	t := m.c.t
	if t.full() {
		old := t
		t = newTable(old.p, old.v, old.limit)
		t.work = old.work
		m.c.t = t
	}
	if m.t != t {
		m.state = t.carry(m.t, m.state, map[int32]int32{})
		m.t = t
		t.settle()
	}
	return t
}

func (m *Matcher) leave() {
	m.c.size.Store(m.c.fixed + int64(m.c.t.bytes))
	m.c.mu.Unlock()
}

// Mask sets the bit of every token that may come next and clears all others.
// bits should have MaskWords(vocabulary size) words; what is beyond the
// vocabulary is cleared, and tokens beyond bits are left out. End tokens are set exactly where the text is complete. After an
// end token the mask is empty. Before it, a bit is always set if the vocabulary
// has an end token.
func (m *Matcher) Mask(bits []uint32) {
	clear(bits)
	if m.ended {
		return
	}
	t := m.enter()
	defer m.leave()
	k := m.c.maskOf(m.state)
	copy(bits, k.bits)
	allow(bits, k.ids)
	if t.sets[m.state].accept {
		allow(bits, t.v.ends)
	}
}

// allow sets bits. A model may have fewer rows than its tokenizer has tokens:
// what it cannot choose is left out.
func allow(bits []uint32, ids []int32) {
	for _, id := range ids {
		if w := int(id >> 5); w < len(bits) {
			bits[w] |= 1 << (id & 31)
		}
	}
}

// Accept moves on by token id. It fails, and leaves m where it was, if the
// token may not come next.
func (m *Matcher) Accept(id int32) error {
	v := m.c.v
	if id < 0 || int(id) >= v.size {
		return infer.Errorf(infer.CodeInternal, "token %d is outside the vocabulary of %d", id, v.size)
	}
	if v.end(id) {
		if m.ended || !m.Complete() {
			return infer.Errorf(infer.CodeInternal, "end token %d where the constrained text is not complete", id)
		}
		m.ended = true
		return nil
	}
	if m.ended || len(v.pieces[id]) == 0 || !m.advance(v.pieces[id]) {
		return infer.Errorf(infer.CodeInternal, "token %d is not allowed by the grammar", id)
	}
	return nil
}

// AcceptBytes moves on by text, for instance the beginning of an answer that
// is continued. It fails, and leaves m where it was, if the text does not fit.
func (m *Matcher) AcceptBytes(text []byte) error {
	if m.ended || !m.advance(text) {
		return infer.Errorf(infer.CodeInvalid, "the given text does not fit the grammar")
	}
	return nil
}

func (m *Matcher) advance(text []byte) bool {
	t := m.enter()
	defer m.leave()
	s := m.state
	for _, b := range text {
		if s = t.step(s, t.p.classOf[b]); s == deadSet {
			return false
		}
	}
	m.state = s
	return true
}

// Complete reports whether the text may end here.
func (m *Matcher) Complete() bool {
	t := m.enter()
	defer m.leave()
	return t.sets[m.state].accept
}

// Forced appends to dst the bytes that must come next whatever is chosen, up to
// limit bytes; none where the text may also end. It does not move m.
func (m *Matcher) Forced(dst []byte, limit int) []byte {
	if m.ended {
		return dst
	}
	t := m.enter()
	defer m.leave()
	for s := m.state; limit > 0; limit-- {
		b, ok := t.only(s)
		if !ok {
			break
		}
		dst = append(dst, b)
		s = t.step(s, t.p.classOf[b])
	}
	return dst
}

// only is the one byte that can follow s, if there is just one.
func (t *table) only(s int32) (b byte, ok bool) {
	for _, c := range t.sets[s].configs {
		in := &t.p.insts[c.pc]
		if in.op != opByte || in.lo != in.hi || ok && in.lo != b {
			return 0, false
		}
		b, ok = in.lo, true
	}
	return b, ok
}
