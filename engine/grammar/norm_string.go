package grammar

import (
	"sort"
	"unicode/utf8"
)

// strSet is strings: a finite list, or what meets all the conditions and has
// min to max code points (max < 0: no limit). Words meet them all already.
type strSet struct {
	words    []string // nil: not finite
	conds    []*strCond
	min, max int
}

// strCond is a pattern, format or list that must (or must not) match.
type strCond struct {
	key     string // equal keys are equal conditions
	neg     bool
	re      *reNode
	approx  bool     // narrower than what the keyword says: has no opposite
	words   []string // instead of re
	keyword string
	ptr     string
}

func (z *normalizer) ownString(n *node) (*strSet, error) {
	s := &strSet{min: n.str.min, max: n.str.max}
	if n.str.pattern != nil {
		re, err := parseRegex(n.str.pattern.text, z.d.bd.g.b)
		if err != nil {
			return nil, z.named(err, "pattern", n)
		}
		s.conds = append(s.conds, &strCond{key: "p" + n.str.pattern.text, re: re, keyword: "pattern", ptr: n.ptr})
	}
	if n.str.format != "" {
		p, known := formats[n.str.format]
		if known && p == "" {
			return nil, z.named(faultf("the format %q is not supported", n.str.format), "format", n)
		}
		if known {
			re, err := parseRegex("^(?:"+p+")$", z.d.bd.g.b)
			if err != nil {
				panic("BUG: the pattern of format " + n.str.format + ": " + err.Error())
			}
			s.conds = append(s.conds, &strCond{key: "f" + n.str.format, re: re, approx: true, keyword: "format", ptr: n.ptr})
		}
	}
	return s, nil
}

func (z *normalizer) bothStr(a, b *strSet) (*strSet, error) {
	if a.words == nil && b.words != nil {
		a, b = b, a
	}
	if a.words != nil {
		out := &strSet{max: -1, words: []string{}}
		other := map[string]bool{}
		for _, w := range b.words {
			other[w] = true
		}
		for _, w := range a.words {
			ok := b.words == nil || other[w]
			if ok && b.words == nil {
				var err error
				if ok, err = z.strHas(b, w); err != nil {
					return nil, err
				}
			}
			if ok {
				out.words = append(out.words, w)
			}
		}
		if len(out.words) == 0 {
			return nil, nil
		}
		return out, z.spend(len(a.words))
	}
	out := &strSet{min: max(a.min, b.min), max: a.max, conds: append([]*strCond(nil), a.conds...)}
	if b.max >= 0 && (a.max < 0 || b.max < a.max) {
		out.max = b.max
	}
	for _, c := range b.conds {
		i := sort.Search(len(out.conds), func(i int) bool { return out.conds[i].key >= c.key })
		if i < len(out.conds) && out.conds[i].key == c.key {
			continue
		}
		out.conds = append(out.conds, nil)
		copy(out.conds[i+1:], out.conds[i:])
		out.conds[i] = c
	}
	if out.max >= 0 && out.min > out.max {
		return nil, nil
	}
	return out, nil
}

// strHas reports whether w meets the conditions of s, which has no words.
func (z *normalizer) strHas(s *strSet, w string) (bool, error) {
	if n := utf8.RuneCountInString(w); n < s.min || s.max >= 0 && n > s.max {
		return false, nil
	}
	for _, c := range s.conds {
		d, err := z.condDFA(c)
		if err != nil || !d.match(w) {
			return false, err
		}
	}
	return true, nil
}

// notStr is all other strings, as alternatives.
func (z *normalizer) notStr(s *strSet) ([]*strSet, error) {
	if s.words != nil {
		key := "!w"
		for _, w := range s.words {
			key += "\x00" + w
		}
		return []*strSet{{max: -1, conds: []*strCond{{key: key, neg: true, words: s.words, keyword: "enum"}}}}, nil
	}
	var out []*strSet
	if s.min > 0 {
		out = append(out, &strSet{max: s.min - 1})
	}
	if s.max >= 0 {
		out = append(out, &strSet{min: s.max + 1, max: -1})
	}
	for _, c := range s.conds {
		if c.approx {
			return nil, noOpposite(c.keyword)
		}
		n := *c
		n.neg = !c.neg
		if n.key = "!" + c.key; c.neg {
			n.key = c.key[1:]
		}
		out = append(out, &strSet{max: -1, conds: []*strCond{&n}})
	}
	return out, nil
}

// condDFA is the automaton of one condition.
func (z *normalizer) condDFA(c *strCond) (*dfa, error) {
	if d, ok := z.dfas[c.key]; ok {
		return d, nil
	}
	b := z.d.bd.g.b
	var d *dfa
	var err error
	if c.words != nil {
		total := 0
		for _, w := range c.words {
			total += len(w)
		}
		if total > 4*maxDFAStates {
			return nil, &fault{keyword: c.keyword, pointer: c.ptr, msg: "the opposite of so many strings is not supported"}
		}
		d = wordsDFA(c.words)
	} else if d, err = c.re.search(b); err != nil {
		return nil, c.wrap(err)
	}
	if c.neg {
		if d, err = anyText().subtract(b, d); err != nil {
			return nil, c.wrap(err)
		}
	}
	z.dfas[c.key] = d
	return d, nil
}

func (c *strCond) wrap(err error) error {
	if f, ok := err.(*fault); ok && f.keyword == "" {
		return &fault{keyword: c.keyword, pointer: c.ptr, msg: f.msg}
	}
	return err
}

// strDFA is the automaton of all conditions of s but the length, in what the
// vocabulary can write. s has conditions.
func (z *normalizer) strDFA(s *strSet) (*dfa, error) {
	key := "all"
	for _, c := range s.conds {
		key += "\x00" + itoa(len(c.key)) + c.key
	}
	if d, ok := z.dfas[key]; ok {
		return d, nil
	}
	g := z.d.bd.g
	d, err := z.condDFA(s.conds[0])
	for _, c := range s.conds[1:] {
		if err != nil {
			return nil, err
		}
		var e *dfa
		if e, err = z.condDFA(c); err == nil {
			d, err = d.intersect(g.b, e)
			err = c.wrapIf(err)
		}
	}
	if err == nil && d != nil && !g.v.spellsAll() {
		d, err = d.restrict(g.b, g.v.spellable(allRunes, jsonText))
	}
	if err != nil {
		return nil, err
	}
	z.dfas[key] = d
	return d, nil
}

func (c *strCond) wrapIf(err error) error {
	if err == nil {
		return nil
	}
	return c.wrap(err)
}

func (s *strSet) bounded() bool { return s.min > 0 || s.max >= 0 }

// productBelow is the number of states up to which a length is worked into an
// automaton instead of being counted beside it.
const productBelow = 4000

// withLength is the automaton of s including its length, or the automaton
// without it and counted set where the length must be counted.
func (z *normalizer) withLength(s *strSet) (d *dfa, counted bool, err error) {
	b := z.d.bd.g.b
	if d, err = z.strDFA(s); err != nil || d == nil || !s.bounded() {
		return d, false, err
	}
	if len(d.states)*max(s.min, s.max) <= productBelow {
		e, err := d.intersect(b, lengthDFA(s.min, s.max))
		return e, false, err
	}
	t, ok := d.lengths(b, s.max)
	if !ok {
		if b.err != nil {
			return nil, false, b.err
		}
		c := s.conds[0]
		return nil, false, &fault{keyword: c.keyword, pointer: c.ptr, msg: "cannot be combined with this minLength or maxLength"}
	}
	if !t.admits(s.min, s.max) {
		return nil, false, nil
	}
	return d, true, nil
}

func (z *normalizer) emptyStr(s *strSet) (bool, error) {
	if s.words != nil || len(s.conds) == 0 {
		return s.words != nil && len(s.words) == 0, nil
	}
	if len(s.conds) == 1 && !s.bounded() && s.conds[0].direct() != nil {
		return false, nil // decided later, without an automaton
	}
	d, _, err := z.withLength(s)
	return d == nil, err
}

// direct is the inside of a pattern ^…$, which can be written without an
// automaton of its own; nil for all others.
func (c *strCond) direct() *reNode {
	if c.neg || c.re == nil {
		return nil
	}
	inner, ok := c.re.anchored()
	if !ok {
		return nil
	}
	if x, err := inner.toIR(jsonText, true, true); err != nil || x.check() != nil {
		return nil
	}
	return inner
}
