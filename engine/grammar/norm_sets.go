package grammar

// both is the values that a and b allow.
func (z *normalizer) both(a, b *norm) (*norm, error) {
	out := &norm{null: a.null && b.null, yes: a.yes && b.yes, no: a.no && b.no}
	var err error
	if out.nums, err = z.bothNums(a.nums, b.nums); err != nil {
		return nil, err
	}
	if out.strs, err = pairs(z, a.strs, b.strs, z.bothStr); err != nil {
		return nil, err
	}
	if out.arrs, err = pairs(z, a.arrs, b.arrs, z.bothArr); err != nil {
		return nil, err
	}
	out.objs, err = pairs(z, a.objs, b.objs, z.bothObj)
	return out, err
}

// pairs meets every alternative of one side with every one of the other; f
// returns nil where nothing is left.
func pairs[T any](z *normalizer, as, bs []*T, f func(a, b *T) (*T, error)) ([]*T, error) {
	var out []*T
	for _, a := range as {
		for _, b := range bs {
			if err := z.spend(8); err != nil {
				return nil, err
			}
			x, err := f(a, b)
			if err != nil {
				return nil, err
			}
			if x != nil {
				out = append(out, x)
			}
			if len(out) > maxDisjuncts {
				return nil, faultf("the combinations of alternatives are more than %d", maxDisjuncts)
			}
		}
	}
	return out, nil
}

func (z *normalizer) bothNums(as, bs []numSet) ([]numSet, error) {
	var out []numSet
	for _, a := range as {
		for _, b := range bs {
			if err := z.spend(8); err != nil {
				return nil, err
			}
			if x, ok := a.and(b); ok {
				out = append(out, x)
			}
			if len(out) > maxDisjuncts {
				return nil, faultf("the combinations of alternatives are more than %d", maxDisjuncts)
			}
		}
	}
	return out, nil
}

// either adds what b allows to a.
func (a *norm) either(b *norm) error {
	a.null, a.yes, a.no = a.null || b.null, a.yes || b.yes, a.no || b.no
	a.nums = append(a.nums, b.nums...)
	a.strs = append(a.strs, b.strs...)
	a.arrs = append(a.arrs, b.arrs...)
	a.objs = append(a.objs, b.objs...)
	if max(len(a.nums), len(a.strs), len(a.arrs), len(a.objs)) > 4*maxDisjuncts {
		return faultf("the alternatives are more than %d", 4*maxDisjuncts)
	}
	a.joinWords()
	return nil
}

// joinWords makes one enumeration of several.
func (a *norm) joinWords() {
	var first *strSet
	out := a.strs[:0:0]
	for _, s := range a.strs {
		if s.words == nil {
			out = append(out, s)
		} else if first == nil {
			first = &strSet{max: -1, words: s.words}
			out = append(out, first)
		} else {
			first.words = sortedUnique(append(append([]string(nil), first.words...), s.words...))
		}
	}
	a.strs = out
}

// complement is the values that a does not allow. What it cannot express is a
// fault without keyword; the caller names the one that asked.
func (z *normalizer) complement(a *norm) (*norm, error) {
	out := fullNorm()
	out.null, out.yes, out.no = !a.null, !a.yes, !a.no
	var err error
	for _, s := range a.nums {
		if out.nums, err = z.bothNums(out.nums, s.complement()); err != nil {
			return nil, err
		}
	}
	for _, s := range a.strs {
		c, err := z.notStr(s)
		if err != nil {
			return nil, err
		}
		if out.strs, err = pairs(z, out.strs, c, z.bothStr); err != nil {
			return nil, err
		}
	}
	for _, s := range a.arrs {
		c, err := z.notArr(s)
		if err != nil {
			return nil, err
		}
		if out.arrs, err = pairs(z, out.arrs, c, z.bothArr); err != nil {
			return nil, err
		}
	}
	for _, s := range a.objs {
		c, err := z.notObj(s)
		if err != nil {
			return nil, err
		}
		if out.objs, err = pairs(z, out.objs, c, z.bothObj); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (z *normalizer) anyOf(n *node) (*norm, error) {
	out := &norm{}
	sets := n.anyOfSets
	for _, s := range n.anyOf {
		sets = append(sets, is(s))
	}
	for _, s := range sets {
		m, err := z.of(s)
		if err != nil {
			return nil, err
		}
		if err := out.either(m); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (z *normalizer) notOf(n *node) (*norm, error) { return z.of(z.not(is(n.not))) }

// conditional is (if and then) or (not if and else).
func (z *normalizer) conditional(n *node) (*norm, error) {
	yes, err := z.of(is(n.ifThen[0]).and(is(n.ifThen[1])))
	if err != nil {
		return nil, err
	}
	no, err := z.of(z.not(is(n.ifThen[0])).and(is(n.ifThen[2])))
	if err != nil {
		return nil, err
	}
	out := &norm{}
	if err := out.either(yes); err != nil {
		return nil, err
	}
	return out, out.either(no)
}

// oneOf is the union of the alternatives, each without all others. Where two
// have nothing in common within what else the schema asks for (rest), neither
// needs to be left out of the other; that also serves schemas whose opposite
// cannot be expressed.
func (z *normalizer) oneOf(n *node, rest *norm) (*norm, error) {
	out := &norm{}
	subs := make([]*norm, len(n.oneOf))
	for i, s := range n.oneOf {
		m, err := z.of(is(s))
		if err != nil {
			return nil, err
		}
		if subs[i], err = z.both(m, rest); err != nil {
			return nil, err
		}
	}
	for i := range subs {
		only := subs[i]
		for j := range subs {
			if i == j {
				continue
			}
			common, err := z.both(only, subs[j])
			if err != nil {
				return nil, err
			}
			apart, err := z.isEmptyNorm(common, 0)
			if err != nil {
				return nil, err
			}
			if apart {
				continue
			}
			not, err := z.of(z.not(is(n.oneOf[j])))
			if err != nil {
				return nil, err
			}
			if only, err = z.both(only, not); err != nil {
				return nil, err
			}
		}
		if err := out.either(only); err != nil {
			return nil, err
		}
	}
	return out, nil
}

const maxEmptyDepth = 8

// isEmpty reports whether s certainly allows nothing; false may also mean that
// it was not worth finding out.
func (z *normalizer) isEmpty(s sset, depth int) (bool, error) {
	if len(s) == 0 || depth > maxEmptyDepth {
		return false, nil
	}
	key := s.key()
	if known, ok := z.empty[key]; ok {
		return known, nil
	}
	n, err := z.of(s)
	if f, ok := err.(*fault); ok && f.loop {
		return false, nil // it is being worked out: not known yet
	}
	if err != nil {
		return false, err
	}
	z.empty[key] = false // on meeting s again within itself
	e, err := z.isEmptyNorm(n, depth)
	if err != nil {
		return false, err
	}
	if !e {
		// Found at a bounded depth: not to be remembered as final.
		delete(z.empty, key)
	} else {
		z.empty[key] = true
	}
	return e, nil
}

func (z *normalizer) isEmptyNorm(n *norm, depth int) (bool, error) {
	if n.null || n.yes || n.no {
		return false, nil
	}
	for i := range n.nums {
		if e, err := z.emptyNum(&n.nums[i]); err != nil || !e {
			return false, err
		}
	}
	for _, s := range n.strs {
		if e, err := z.emptyStr(s); err != nil || !e {
			return false, err
		}
	}
	for _, a := range n.arrs {
		if e, err := z.emptyArr(a, depth); err != nil || !e {
			return false, err
		}
	}
	for _, o := range n.objs {
		if e, err := z.emptyObj(o, depth); err != nil || !e {
			return false, err
		}
	}
	return true, nil
}
