package grammar

import "sort"

// dfa is a deterministic automaton over code points. State 0 is the start.
// Every state leads to an accepting one; what has no edge is refused. A nil
// *dfa is the empty language.
type dfa struct {
	states []dfaState
}

type dfaState struct {
	accept bool
	edges  []dfaEdge // ascending and apart
}

type dfaEdge struct {
	lo, hi rune
	to     int32
}

// targets is the states that s leads to, ascending.
func (s *dfaState) targets() []int32 {
	var out []int32
	for _, e := range s.edges {
		out = append(out, e.to)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	k := 0
	for i, q := range out {
		if i == 0 || q != out[k-1] {
			out[k] = q
			k++
		}
	}
	return out[:k]
}

// label is the code points that lead from s to state to.
func (s *dfaState) label(to int32) runeSet {
	var out runeSet
	for _, e := range s.edges {
		if e.to == to {
			out = append(out, runeRange{e.lo, e.hi})
		}
	}
	return out
}

func (s *dfaState) next(r rune) int32 {
	i := sort.Search(len(s.edges), func(i int) bool { return s.edges[i].hi >= r })
	if i < len(s.edges) && s.edges[i].lo <= r {
		return s.edges[i].to
	}
	return -1
}

func (d *dfa) match(text string) bool {
	if d == nil {
		return false
	}
	q := int32(0)
	for _, r := range text {
		if q = d.states[q].next(r); q < 0 {
			return false
		}
	}
	return d.states[q].accept
}

// trim leaves out what cannot be reached or cannot accept, joins edges, and
// numbers states in breadth-first order, which makes equal constructions equal.
func (d *dfa) trim() *dfa {
	n := len(d.states)
	back := make([][]int32, n)
	var work []int32
	live := make([]bool, n)
	for q := range d.states {
		for _, e := range d.states[q].edges {
			back[e.to] = append(back[e.to], int32(q))
		}
		if d.states[q].accept {
			live[q] = true
			work = append(work, int32(q))
		}
	}
	for len(work) > 0 {
		q := work[len(work)-1]
		work = work[:len(work)-1]
		for _, p := range back[q] {
			if !live[p] {
				live[p] = true
				work = append(work, p)
			}
		}
	}
	if n == 0 || !live[0] {
		return nil
	}
	number := make([]int32, n)
	for q := range number {
		number[q] = -1
	}
	number[0] = 0
	order := []int32{0}
	out := &dfa{}
	for i := 0; i < len(order); i++ {
		st := &d.states[order[i]]
		ns := dfaState{accept: st.accept}
		for _, e := range st.edges {
			if !live[e.to] {
				continue
			}
			if number[e.to] < 0 {
				number[e.to] = int32(len(order))
				order = append(order, e.to)
			}
			to := number[e.to]
			if k := len(ns.edges); k > 0 && ns.edges[k-1].to == to && ns.edges[k-1].hi+1 == e.lo {
				ns.edges[k-1].hi = e.hi
			} else {
				ns.edges = append(ns.edges, dfaEdge{e.lo, e.hi, to})
			}
		}
		out.states = append(out.states, ns)
	}
	return out
}

// product runs a and b side by side; accept decides from both. A side that has
// fallen out is nil there, so that unions and differences can be made too.
func product(bud *budget, a, b *dfa, accept func(x, y bool) bool) (*dfa, error) {
	type pair struct{ x, y int32 } // -1: fallen out
	start := pair{-1, -1}
	if a != nil {
		start.x = 0
	}
	if b != nil {
		start.y = 0
	}
	ids := map[pair]int32{start: 0}
	order := []pair{start}
	out := &dfa{}
	none := &dfaState{}
	state := func(d *dfa, q int32) *dfaState {
		if q < 0 {
			return none
		}
		return &d.states[q]
	}
	for i := 0; i < len(order); i++ {
		p := order[i]
		x, y := state(a, p.x), state(b, p.y)
		st := dfaState{accept: accept(x.accept, y.accept)}
		mergeEdges(x.edges, y.edges, func(lo, hi rune, qx, qy int32) {
			if (qx < 0 || qy < 0) && !accept(qx >= 0, qy >= 0) {
				return // both accept functions in use are monotone enough for this
			}
			next := pair{qx, qy}
			id, ok := ids[next]
			if !ok {
				id = int32(len(order))
				ids[next] = id
				order = append(order, next)
			}
			st.edges = append(st.edges, dfaEdge{lo, hi, id})
		})
		out.states = append(out.states, st)
		if !bud.spend(4 + 2*len(st.edges)) {
			return nil, bud.err
		}
		if len(order) > maxDFAStates {
			return nil, faultf("it needs an automaton of more than %d states", maxDFAStates)
		}
	}
	return out.trim(), nil
}

// mergeEdges calls f for every range on which both sides are constant and one
// has an edge; the target of a side without is -1.
func mergeEdges(a, b []dfaEdge, f func(lo, hi rune, x, y int32)) {
	at := rune(0)
	for i, j := 0, 0; i < len(a) || j < len(b); {
		const end = rune(1 << 30)
		x, y, hi := int32(-1), int32(-1), end
		lo := end
		if i < len(a) {
			lo = max(a[i].lo, at)
		}
		if j < len(b) {
			lo = min(lo, max(b[j].lo, at))
		}
		if i < len(a) {
			if a[i].lo <= lo {
				x, hi = a[i].to, min(hi, a[i].hi)
			} else {
				hi = min(hi, a[i].lo-1)
			}
		}
		if j < len(b) {
			if b[j].lo <= lo {
				y, hi = b[j].to, min(hi, b[j].hi)
			} else {
				hi = min(hi, b[j].lo-1)
			}
		}
		f(lo, hi, x, y)
		at = hi + 1
		if i < len(a) && a[i].hi < at {
			i++
		}
		if j < len(b) && b[j].hi < at {
			j++
		}
	}
}

func both(x, y bool) bool   { return x && y }
func either(x, y bool) bool { return x || y }
func butNot(x, y bool) bool { return x && !y }

// intersect, unite and subtract are the set operations.
func (d *dfa) intersect(b *budget, e *dfa) (*dfa, error) { return product(b, d, e, both) }
func (d *dfa) unite(b *budget, e *dfa) (*dfa, error)     { return product(b, d, e, either) }
func (d *dfa) subtract(b *budget, e *dfa) (*dfa, error)  { return product(b, d, e, butNot) }

// anyText accepts every text.
func anyText() *dfa {
	return &dfa{[]dfaState{{accept: true, edges: []dfaEdge{{0, 0xD7FF, 0}, {0xE000, 0x10FFFF, 0}}}}}
}

// restrict leaves only the code points of set.
func (d *dfa) restrict(b *budget, set runeSet) (*dfa, error) {
	only := &dfa{[]dfaState{{accept: true}}}
	for _, r := range set {
		only.states[0].edges = append(only.states[0].edges, dfaEdge{r.lo, r.hi, 0})
	}
	return d.intersect(b, only)
}

// lengthDFA accepts texts of lo to hi code points; hi < 0: no limit.
func lengthDFA(lo, hi int) *dfa {
	n := max(lo, hi) + 1
	d := &dfa{states: make([]dfaState, n)}
	for i := range d.states {
		to := int32(i + 1)
		if i == n-1 {
			if hi >= 0 {
				d.states[i].accept = i >= lo
				break
			}
			to = int32(i)
		}
		d.states[i] = dfaState{i >= lo, []dfaEdge{{0, 0xD7FF, to}, {0xE000, 0x10FFFF, to}}}
	}
	return d.trim()
}

// wordsDFA accepts just the given texts.
func wordsDFA(words []string) *dfa {
	d := &dfa{states: make([]dfaState, 1)}
	for _, w := range sortedUnique(words) {
		q := int32(0)
		for _, r := range w {
			// Sorted by bytes is sorted by code point, so a new edge comes last.
			es := d.states[q].edges
			if n := len(es); n > 0 && es[n-1].lo == r {
				q = es[n-1].to
				continue
			}
			to := int32(len(d.states))
			d.states[q].edges = append(es, dfaEdge{r, r, to})
			d.states = append(d.states, dfaState{})
			q = to
		}
		d.states[q].accept = true
	}
	return d.trim()
}

// finite lists the language if it has at most limit texts.
func (d *dfa) finite(b *budget, limit int) (words []string, ok bool) {
	if d == nil {
		return nil, true
	}
	on := make([]bool, len(d.states)) // on the way from the start: a way back is a cycle
	var walk func(q int32, text []rune) bool
	walk = func(q int32, text []rune) bool {
		if on[q] || len(text) > 4096 || !b.spend(1) {
			return false
		}
		on[q] = true
		defer func() { on[q] = false }()
		st := &d.states[q]
		if st.accept {
			if len(words) == limit {
				return false
			}
			words = append(words, string(text))
		}
		for _, e := range st.edges {
			if int(e.hi-e.lo) >= limit {
				return false
			}
			for r := e.lo; r <= e.hi; r++ {
				if !walk(e.to, append(text, r)) {
					return false
				}
			}
		}
		return true
	}
	if !walk(0, nil) {
		return nil, false
	}
	return words, true
}
