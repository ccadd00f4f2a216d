package grammar

// arrSet is arrays: of min to max items (max < 0: no limit), where item i meets
// prefix[i], those beyond meet rest, and every contains finds its items.
type arrSet struct {
	prefix   []sset
	rest     sset
	min, max int
	unique   bool
	contains []containing

	// For unevaluatedItems: how many leading items some keyword spoke of.
	spokenFor int
	spokenAll bool
	// approx means that unevaluatedItems made it narrower than it had to be.
	approx    bool
	uniquePtr string
}

// containing asks for min to max items (max < 0: no limit) that meet s.
type containing struct {
	s        sset
	min, max int
}

func (z *normalizer) ownArray(n *node) *arrSet {
	a := &arrSet{rest: is(n.arr.items), min: n.arr.min, max: n.arr.max, unique: n.arr.unique, uniquePtr: n.ptr,
		spokenFor: len(n.arr.prefix), spokenAll: n.arr.items != nil}
	for _, s := range n.arr.prefix {
		a.prefix = append(a.prefix, is(s))
	}
	if n.arr.contains != nil && (n.arr.minContains > 0 || n.arr.maxContains >= 0) {
		a.contains = []containing{{is(n.arr.contains), n.arr.minContains, n.arr.maxContains}}
	}
	return a
}

func (z *normalizer) literalArray(v *value) *arrSet {
	a := &arrSet{min: len(v.items), max: len(v.items)}
	for _, x := range v.items {
		a.prefix = append(a.prefix, z.constant(x))
	}
	return a
}

// at is what item i must meet.
func (a *arrSet) at(i int) sset {
	if i < len(a.prefix) {
		return a.prefix[i]
	}
	return a.rest
}

func (z *normalizer) bothArr(a, b *arrSet) (*arrSet, error) {
	out := &arrSet{rest: a.rest.and(b.rest), min: max(a.min, b.min), max: a.max, unique: a.unique || b.unique, uniquePtr: a.uniquePtr,
		spokenFor: max(a.spokenFor, b.spokenFor), spokenAll: a.spokenAll || b.spokenAll, approx: a.approx || b.approx}
	if b.unique && !a.unique {
		out.uniquePtr = b.uniquePtr
	}
	if b.max >= 0 && (a.max < 0 || b.max < a.max) {
		out.max = b.max
	}
	if out.max >= 0 && out.min > out.max {
		return nil, nil
	}
	n := max(len(a.prefix), len(b.prefix))
	if out.max >= 0 {
		n = min(n, out.max)
	}
	for i := 0; i < n; i++ {
		out.prefix = append(out.prefix, a.at(i).and(b.at(i)))
	}
	out.contains = append([]containing(nil), a.contains...)
next:
	for _, c := range b.contains {
		for _, o := range a.contains {
			if o.s.key() == c.s.key() && o.min == c.min && o.max == c.max {
				continue next
			}
		}
		out.contains = append(out.contains, c)
	}
	return out, z.spend(n)
}

// notArr is all other arrays, as alternatives.
func (z *normalizer) notArr(a *arrSet) ([]*arrSet, error) {
	if a.unique {
		return nil, noOpposite("uniqueItems")
	}
	if a.approx {
		return nil, noOpposite("unevaluatedItems")
	}
	var out []*arrSet
	if a.min > 0 {
		out = append(out, &arrSet{max: a.min - 1})
	}
	if a.max >= 0 {
		out = append(out, &arrSet{min: a.max + 1, max: -1})
	}
	for i, s := range a.prefix {
		if len(s) > 0 {
			out = append(out, &arrSet{prefix: append(make([]sset, i), z.not(s)), min: i + 1, max: -1})
		}
	}
	if len(a.rest) > 0 {
		if len(a.prefix) > 0 {
			return nil, noOpposite("items after prefixItems")
		}
		out = append(out, &arrSet{max: -1, contains: []containing{{z.not(a.rest), 1, -1}}})
	}
	for _, c := range a.contains {
		if c.min > 0 {
			out = append(out, &arrSet{max: -1, contains: []containing{{c.s, 0, c.min - 1}}})
		}
		if c.max >= 0 {
			out = append(out, &arrSet{max: -1, contains: []containing{{c.s, c.max + 1, -1}}})
		}
	}
	return out, nil
}

func (z *normalizer) emptyArr(a *arrSet, depth int) (bool, error) {
	if a.max >= 0 && a.min > a.max {
		return true, nil
	}
	for i := 0; i < min(a.min, len(a.prefix)+1); i++ {
		if e, err := z.isEmpty(a.at(i), depth+1); e || err != nil {
			return e, err
		}
	}
	for _, c := range a.contains {
		if c.min > 0 {
			if e, err := z.isEmpty(c.s, depth+1); e || err != nil {
				return e, err
			}
		}
	}
	return false, nil
}
