package grammar

import "strings"

const (
	// maxLayered bounds array lengths and counts that are written out state by
	// state, as contains and uniqueItems need it.
	maxLayered = 512
	// maxSubsets is the number of different items up to which any order of
	// unique items is allowed; above it they come in the schema's order.
	maxSubsets = 8
)

func (w *schemaWriter) array(a *arrSet) (*ir, error) {
	inside, err := w.items(a)
	if err != nil {
		return nil, err
	}
	return seq(lit("["), inside, lit("]")), nil
}

func (w *schemaWriter) items(a *arrSet) (*ir, error) {
	if a.unique && (a.max < 0 || a.max > 1) {
		return w.uniqueItems(a)
	}
	if len(a.contains) > 0 {
		return w.containing(a)
	}
	p := len(a.prefix)
	if a.max == 0 {
		return w.list(never, a.min, 0), nil
	}
	rest, err := w.value(a.rest)
	if err != nil {
		return nil, err
	}
	if p == 0 {
		return w.list(ref(rest), a.min, a.max), nil
	}
	// From the back: what may follow the first i items.
	hi := a.max - p
	after := empty
	if a.max < 0 || hi > 0 {
		after = w.more(ref(rest), a.min-p, hi, a.max < 0)
	}
	for i := p - 1; i >= 0; i-- {
		r, err := w.value(a.prefix[i])
		if err != nil {
			return nil, err
		}
		x := seq(ref(r), after)
		if i > 0 {
			x = seq(w.comma(), x)
		}
		switch {
		case a.max >= 0 && i >= a.max:
			x = empty
		case i >= a.min:
			x = alt(empty, x)
		}
		if after, err = w.inline("items", x); err != nil {
			return nil, err
		}
	}
	return after, nil
}

// inline is a rule whose instructions are shared by those who go on alike after
// it, without a call.
func (w *schemaWriter) inline(name string, body *ir) (*ir, error) {
	r, err := w.bd.g.addRule(name)
	if err != nil {
		return nil, err
	}
	r.body, r.inline = body, true
	return ref(r), nil
}

// containing is items of which some must meet a contains. The states are how
// many items there are and how many of them have been made to meet it; an item
// that is not made to may do so by chance, unless maxContains counts.
func (w *schemaWriter) containing(a *arrSet) (*ir, error) {
	bad := func(format string, args ...any) error {
		return &fault{keyword: "contains", pointer: w.z.ptr(a.contains[0].s), msg: faultf(format, args...).msg}
	}
	if len(a.contains) > 1 {
		return nil, bad("several contains on one array are not supported")
	}
	c := a.contains[0]
	rows := max(a.min, len(a.prefix), a.max, 1) + 1 // items are told apart up to here
	cols := max(c.min, c.max) + 1
	if rows*cols > maxLayered {
		return nil, bad("is not supported with so many items (%d × %d, the limit is %d)", rows, cols, maxLayered)
	}
	states := make([][]*rule, rows)
	for i := range states {
		states[i] = make([]*rule, cols)
		for k := range states[i] {
			r, err := w.bd.g.newRule("items with contains")
			if err != nil {
				return nil, err
			}
			states[i][k] = r
		}
	}
	for i := range states {
		for k := range states[i] {
			var alts []*ir
			if i >= a.min && k >= c.min {
				alts = append(alts, empty)
			}
			if a.max < 0 || i < a.max {
				other := sset(nil)
				if c.max >= 0 {
					other = w.z.not(c.s)
				}
				for _, with := range []bool{false, true} {
					s, to := a.at(i).and(other), k
					if with {
						s, to = a.at(i).and(c.s), min(k+1, cols-1)
						if c.max >= 0 && k >= c.max {
							continue
						}
					}
					r, err := w.value(s)
					if err != nil {
						return nil, err
					}
					x := seq(ref(r), ref(states[min(i+1, rows-1)][to]))
					if i > 0 {
						x = seq(w.comma(), x)
					}
					alts = append(alts, x)
				}
			}
			states[i][k].body = alt(alts...)
		}
	}
	return ref(states[0][0]), nil
}

// uniqueItems is items without repetition, from a list of possible ones: there
// is no other way to keep endless kinds of values apart.
func (w *schemaWriter) uniqueItems(a *arrSet) (*ir, error) {
	bad := func(format string, args ...any) error {
		return &fault{keyword: "uniqueItems", pointer: a.uniquePtr, msg: faultf(format, args...).msg}
	}
	if len(a.prefix) > 0 || len(a.contains) > 0 {
		return nil, bad("is not supported together with prefixItems or contains")
	}
	texts, ok, err := w.z.listed(a.rest)
	if err != nil {
		return nil, err
	}
	n := len(texts)
	if !ok {
		return nil, bad("is supported only where the items are of an enum or another list of at most %d values", maxLayered)
	}
	if a.min > n {
		w.z.reason = &fault{keyword: "uniqueItems", pointer: a.uniquePtr, msg: "the schema is contradictory: there are fewer different items than minItems"}
		return never, nil
	}
	hi := n
	if a.max >= 0 {
		hi = min(hi, a.max)
	}
	if n <= maxSubsets {
		return w.anyOrder(texts, a.min, hi)
	}
	return w.oneOrder(texts, a.min, hi)
}

// anyOrder has a state for every set of used items.
func (w *schemaWriter) anyOrder(texts []string, lo, hi int) (*ir, error) {
	var state func(used, count int) (*ir, error)
	states := map[int]*ir{}
	state = func(used, count int) (*ir, error) {
		if x := states[used]; x != nil {
			return x, nil
		}
		var alts []*ir
		if count >= lo {
			alts = append(alts, empty)
		}
		for i, t := range texts {
			if used&(1<<i) != 0 || count >= hi {
				continue
			}
			next, err := state(used|1<<i, count+1)
			if err != nil {
				return nil, err
			}
			x := seq(lit(t), next)
			if count > 0 {
				x = seq(w.comma(), x)
			}
			alts = append(alts, x)
		}
		x, err := w.inline("unique items", alt(alts...))
		states[used] = x
		return x, err
	}
	return state(0, 0)
}

// oneOrder has a state for the first item that may still come and the number of
// items so far, as far as lo and hi need it.
func (w *schemaWriter) oneOrder(texts []string, lo, hi int) (*ir, error) {
	n := len(texts)
	cols := lo + 1
	if hi < n {
		cols = hi + 1
	}
	cols = max(cols, 2)
	if n*cols > 8*maxLayered {
		return nil, &fault{keyword: "uniqueItems", msg: "is not supported with so many different items and such bounds"}
	}
	// after[c] is what may follow when the items from i on are left and c are
	// there.
	after := make([]*ir, cols)
	for c := range after {
		after[c] = never
		if c >= lo {
			after[c] = empty
		}
	}
	for i := n - 1; i >= 0; i-- {
		now := make([]*ir, cols)
		for c := range now {
			take := never
			if hi >= n || c < hi {
				take = seq(lit(texts[i]), after[min(c+1, cols-1)])
				if c > 0 {
					take = seq(w.comma(), take)
				}
			}
			x, err := w.inline("unique items", alt(take, after[c]))
			if err != nil {
				return nil, err
			}
			now[c] = x
		}
		after = now
	}
	return after[0], nil
}

// listed is the values of s in JSON if they are few scalars, in order.
func (z *normalizer) listed(s sset) (texts []string, ok bool, err error) {
	n, err := z.of(s)
	if err != nil || len(n.arrs)+len(n.objs) > 0 {
		return nil, false, err
	}
	if n.null {
		texts = append(texts, "null")
	}
	if n.yes {
		texts = append(texts, "true")
	}
	if n.no {
		texts = append(texts, "false")
	}
	for i := range n.nums {
		words, ok, err := z.listedNums(&n.nums[i])
		if err != nil || !ok {
			return nil, false, err
		}
		texts = append(texts, words...)
	}
	for _, t := range n.strs {
		words := t.words
		if words == nil {
			if len(t.conds) == 0 {
				return nil, false, nil
			}
			d, counted, err := z.withLength(t)
			if err != nil || counted {
				return nil, false, err
			}
			var few bool
			if words, few = d.finite(z.d.bd.g.b, maxLayered); !few {
				return nil, false, z.d.bd.g.b.err
			}
		}
		for _, x := range words {
			texts = append(texts, jsonQuote(x))
		}
	}
	seen := map[string]bool{}
	k := 0
	for _, t := range texts {
		if key := strings.Clone(t); !seen[key] {
			seen[key] = true
			texts[k] = t
			k++
		}
	}
	return texts[:k], k <= maxLayered, nil
}

func (z *normalizer) listedNums(s *numSet) ([]string, bool, error) {
	if s.finite {
		var out []string
		for _, w := range s.words {
			out = append(out, w.text)
		}
		return out, true, nil
	}
	if s.kind != integers || s.lo == nil || s.hi == nil {
		return nil, false, nil
	}
	d, err := z.numDFA(s)
	if err != nil {
		return nil, false, err
	}
	words, few := d.finite(z.d.bd.g.b, maxLayered)
	return words, few, z.d.bd.g.b.err
}
