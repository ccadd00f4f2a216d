package grammar

// fullMatch is the language of texts that n matches from end to end. Anchors
// may stand where they hold anyway.
func (n *reNode) fullMatch(enc encoding) (*ir, error) {
	x, err := n.toIR(enc, true, true)
	if err != nil {
		return nil, err
	}
	return x, x.check()
}

// toIR converts n; begins and ends tell whether n's borders are the text's.
func (n *reNode) toIR(enc encoding, begins, ends bool) (*ir, error) {
	switch n.kind {
	case reEmpty:
		return empty, nil
	case reClass:
		return class(n.set, enc), nil
	case reBegin, reEnd:
		if n.kind == reBegin && begins || n.kind == reEnd && ends {
			return empty, nil
		}
		return nil, n.misplaced()
	case reRepeat:
		one := n.max == 1 && n.min <= 1
		x, err := n.subs[0].toIR(enc, begins && one, ends && one)
		if err != nil {
			return nil, err
		}
		return repeat(x, n.min, n.max), nil
	}
	if set, ok := n.oneRune(); ok {
		return class(set, enc), nil
	}
	subs := make([]*ir, len(n.subs))
	for i, s := range n.subs {
		b, e := begins, ends
		if n.kind == reSeq {
			b = b && zeroWidth(n.subs[:i])
			e = e && zeroWidth(n.subs[i+1:])
		}
		x, err := s.toIR(enc, b, e)
		if err != nil {
			return nil, err
		}
		subs[i] = x
	}
	if n.kind == reSeq {
		return seq(subs...), nil
	}
	return alt(subs...), nil
}

func (n *reNode) misplaced() error {
	name := "^"
	if n.kind == reEnd {
		name = "$"
	}
	return faultf("%s inside the pattern, at byte %d, is not supported", name, n.at)
}

func zeroWidth(ns []*reNode) bool {
	for _, n := range ns {
		if n.kind != reBegin && n.kind != reEnd && n.kind != reEmpty {
			return false
		}
	}
	return true
}

// oneRune joins alternatives of single code points.
func (n *reNode) oneRune() (runeSet, bool) {
	if n.kind != reAlt {
		return nil, false
	}
	var set runeSet
	for _, s := range n.subs {
		if s.kind != reClass {
			return nil, false
		}
		set = set.union(s.set)
	}
	return set, true
}

// anchored returns what stands between ^ and $ if the pattern has the form
// ^…$, or alternatives of that form, and no anchors else.
func (n *reNode) anchored() (*reNode, bool) {
	switch n.kind {
	case reAlt:
		out := &reNode{kind: reAlt, at: n.at}
		for _, s := range n.subs {
			x, ok := s.anchored()
			if !ok {
				return nil, false
			}
			out.subs = append(out.subs, x)
		}
		return out, true
	case reSeq:
		k := len(n.subs) - 1
		if n.subs[0].kind != reBegin || n.subs[k].kind != reEnd {
			return nil, false
		}
		out := &reNode{kind: reSeq, subs: n.subs[1:k], at: n.at}
		if k == 1 {
			out = &reNode{kind: reEmpty, at: n.at}
		}
		return out, !out.hasAnchor()
	}
	return nil, false
}

func (n *reNode) hasAnchor() bool {
	if n.kind == reBegin || n.kind == reEnd {
		return true
	}
	for _, s := range n.subs {
		if s.hasAnchor() {
			return true
		}
	}
	return false
}

// size is the number of automaton positions of n, saturating at tooBig.
func (n *reNode) size() int {
	k := 1
	for _, s := range n.subs {
		k += s.size()
	}
	if n.kind == reRepeat {
		k *= max(n.min, n.max, 1)
	}
	return min(k, tooBig)
}
