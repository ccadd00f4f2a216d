package grammar

import "fmt"

const (
	maxPatterns  = 6      // patternProperties that speak about one object
	maxListNames = 64     // finite sets of names up to here are written as properties
	maxStates    = 20_000 // member × count states of one object
)

// member is one named property of an object.
type member struct {
	name     string
	s        sset
	required bool
}

// objectPlan is an objSet worked out: its known members in order, and what
// other members may be.
type objectPlan struct {
	members []member
	extra   *ir // name, colon and value; never where there are none
	last    *ir // one that must come last; nil where none must
	lo, hi  int // members in all; hi < 0: no limit
}

func (w *schemaWriter) object(o *objSet) (*ir, error) {
	if len(o.needs) > 0 {
		return w.needed(o)
	}
	p, err := w.plan(o)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return never, nil
	}
	inside, err := w.members(o, p)
	if err != nil {
		return nil, err
	}
	return seq(lit("{"), inside, lit("}")), nil
}

// needed writes an object whose first need is met by each member that can meet
// it in turn.
func (w *schemaWriter) needed(o *objSet) (*ir, error) {
	need, rest := o.needs[0], *o
	rest.needs = o.needs[1:]
	var alts []*ir
	seen := map[string]bool{}
	for _, c := range o.clauses {
		for _, p := range c.props {
			if _, listed := need.clause.index[p.name]; listed || seen[p.name] {
				continue
			}
			seen[p.name] = true
			one := &objSet{max: -1, required: []string{p.name}, clauses: []*objClause{newClause("", propSet{p.name, need.s})}}
			both, err := w.z.bothObj(&rest, one)
			if err != nil {
				return nil, err
			}
			if both == nil {
				continue
			}
			both.further = rest.further
			x, err := w.object(both)
			if err != nil {
				return nil, err
			}
			alts = append(alts, x)
		}
	}
	if len(alts) > maxDisjuncts {
		return nil, noOpposite("additionalProperties")
	}
	rest.further = append(append([]objNeed(nil), o.further...), need)
	x, err := w.object(&rest)
	if err != nil {
		return nil, err
	}
	return alt(append(alts, x)...), nil
}

// lastMember is the member that meets a further need. It comes last, so that no
// other of the same name takes its place for a reader.
func (w *schemaWriter) lastMember(o *objSet, p *objectPlan, declared []string, known int) error {
	if len(o.further) == 0 {
		return nil
	}
	if len(o.further) > 1 || len(p.members) > known {
		return noOpposite("additionalProperties")
	}
	need := o.further[0]
	c := newClause("")
	c.rest = need.s
	x := *o
	x.clauses = append(append([]*objClause(nil), o.clauses...), c)
	q := &objectPlan{extra: never}
	if err := w.extras(&x, q, append(append([]string(nil), declared...), need.clause.names()...)); err != nil {
		return err
	}
	if len(q.members) > 0 {
		return noOpposite("additionalProperties")
	}
	p.last = q.extra
	return nil
}

func (c *objClause) names() []string {
	var out []string
	for _, p := range c.props {
		out = append(out, p.name)
	}
	return out
}

// plan finds the members; nil means that no object is possible.
func (w *schemaWriter) plan(o *objSet) (*objectPlan, error) {
	p := &objectPlan{lo: o.min, hi: o.max, extra: never}
	at := map[string]int{}
	add := func(name string) {
		if _, ok := at[name]; !ok {
			at[name] = len(p.members)
			p.members = append(p.members, member{name: name})
		}
	}
	for _, c := range o.clauses {
		for _, m := range c.props {
			add(m.name)
		}
	}
	for _, r := range o.required {
		add(r)
		p.members[at[r]].required = true
	}
	declared := make([]string, len(p.members))
	kept := p.members[:0]
	for i, m := range p.members {
		declared[i] = m.name
		if err := w.z.spend(4); err != nil {
			return nil, err
		}
		s, err := w.z.valueOf(o, m.name)
		if err != nil {
			return nil, err
		}
		ok, err := w.z.nameAllowed(o, m.name)
		if err != nil {
			return nil, err
		}
		if m.s = s; ok && !w.z.meantEmpty(s) {
			kept = append(kept, m)
		} else if m.required {
			w.z.blame(o, m.name, s)
			return nil, nil
		}
	}
	p.members = kept
	if err := w.extras(o, p, declared); err != nil {
		return nil, err
	}
	return p, w.lastMember(o, p, declared, len(kept))
}

// blame notes that a required member can never be there.
func (z *normalizer) blame(o *objSet, name string, s sset) {
	if z.reason == nil {
		ptr := ""
		for _, c := range o.clauses {
			if c.ptr != "" {
				ptr = c.ptr
			}
		}
		z.reason = &fault{keyword: "required", pointer: ptr, msg: "the schema is contradictory: the property " + quoteShort(name) + " is required and impossible"}
	}
}

// extras works out the members whose names the schema does not list: one kind
// for each set of patterns that a name can match at once.
func (w *schemaWriter) extras(o *objSet, p *objectPlan, declared []string) error {
	b := w.bd.g.b
	var pats []string
	seen := map[string]bool{}
	ptr := ""
	for _, c := range o.clauses {
		for _, x := range c.pats {
			if !seen[x.name] {
				seen[x.name] = true
				pats = append(pats, x.name)
				ptr = c.ptr
			}
		}
	}
	if len(pats) > maxPatterns {
		return &fault{keyword: "patternProperties", pointer: ptr, msg: "more than " + itoa(maxPatterns) + " patterns on one object are not supported"}
	}
	for subset := 0; subset < 1<<len(pats); subset++ {
		s := o.extraValue(pats, subset)
		if w.z.meantEmpty(s) {
			continue
		}
		if len(pats) == 0 && len(o.names) == 0 && len(declared) == 0 {
			return w.addExtra(p, repeat(class(allRunes, jsonText), 0, -1), s)
		}
		d, err := w.extraNames(o, pats, subset, declared, ptr)
		if err != nil {
			return err
		}
		if words, few := d.finite(b, maxListNames); few {
			for _, word := range words {
				p.members = append(p.members, member{name: word, s: s})
			}
			continue
		}
		if b.err != nil {
			return b.err
		}
		name, err := w.part(fmt.Sprintf("names %p", d), func() (*ir, error) {
			return &ir{kind: irAuto, enc: jsonText, dfa: d, max: -1}, nil
		})
		if err != nil {
			return err
		}
		if err := w.addExtra(p, name, s); err != nil {
			return err
		}
	}
	return nil
}

// extraValue is what a member must meet whose name matches exactly the patterns
// in subset and is not listed.
func (o *objSet) extraValue(pats []string, subset int) sset {
	matched := map[string]bool{}
	for i, p := range pats {
		matched[p] = subset&(1<<i) != 0
	}
	var s sset
	for _, c := range o.clauses {
		found := false
		for _, x := range c.pats {
			if matched[x.name] {
				found = true
				s = s.and(x.s)
			}
		}
		if !found {
			s = s.and(c.rest)
		}
	}
	return s
}

// extraNames is the automaton of these names.
func (w *schemaWriter) extraNames(o *objSet, pats []string, subset int, declared []string, ptr string) (*dfa, error) {
	z := w.z
	key := "names" + itoa(subset) + " " + o.names.key()
	for _, list := range [][]string{declared, pats} {
		key += itoa(len(list))
		for _, s := range list {
			key += " " + itoa(len(s)) + s
		}
	}
	if d, ok := z.dfas[key]; ok {
		return d, nil
	}
	d, err := w.makeNames(o, pats, subset, declared, ptr)
	if err == nil {
		z.dfas[key] = d
	}
	return d, err
}

func (w *schemaWriter) makeNames(o *objSet, pats []string, subset int, declared []string, ptr string) (*dfa, error) {
	b, z := w.bd.g.b, w.z
	base := anyText()
	var err error
	if len(declared) > 0 {
		if base, err = base.subtract(b, wordsDFA(declared)); err != nil {
			return nil, err
		}
	}
	for i, p := range pats {
		c := z.patternCond(p, ptr)
		d, err := z.condDFA(c)
		if err == nil && subset&(1<<i) != 0 {
			base, err = base.intersect(b, d)
		} else if err == nil {
			base, err = base.subtract(b, d)
		}
		if err != nil {
			return nil, c.wrap(err)
		}
		if base == nil {
			return nil, nil
		}
	}
	if !w.bd.g.v.spellsAll() {
		if base, err = base.restrict(b, w.bd.g.v.spellable(allRunes, jsonText)); err != nil || base == nil {
			return nil, err
		}
	}
	if len(o.names) == 0 {
		return base, nil
	}
	n, err := z.of(o.names)
	if err != nil {
		return nil, err
	}
	var union *dfa
	for _, s := range n.strs {
		d, err := z.nameDFA(s)
		if err == nil && d != nil {
			if d, err = d.intersect(b, base); err == nil {
				union, err = union.unite(b, d)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return union, nil
}

// nameDFA is the automaton of s whole, length included.
func (z *normalizer) nameDFA(s *strSet) (*dfa, error) {
	switch {
	case s.words != nil:
		return wordsDFA(s.words), nil
	case max(s.min, s.max) > productBelow:
		return nil, &fault{keyword: "propertyNames", msg: "minLength and maxLength up to " + itoa(productBelow) + " are supported in it"}
	case len(s.conds) == 0:
		return lengthDFA(s.min, s.max), nil
	}
	d, err := z.strDFA(s)
	if err != nil || d == nil || !s.bounded() {
		return d, err
	}
	return d.intersect(z.d.bd.g.b, lengthDFA(s.min, s.max))
}

func (w *schemaWriter) addExtra(p *objectPlan, name *ir, s sset) error {
	r, err := w.value(s)
	if err != nil {
		return err
	}
	x, err := w.bd.g.newRule("further member")
	if err != nil {
		return err
	}
	x.body = seq(lit(`"`), name, lit(`"`), w.colon(), ref(r))
	p.extra = alt(p.extra, ref(x))
	return nil
}

// members writes the inside of an object. The states are the member to be
// decided on next and how many there are, as far as the bounds need it.
func (w *schemaWriter) members(o *objSet, p *objectPlan) (*ir, error) {
	n, required := len(p.members), 0
	for _, m := range p.members {
		if m.required {
			required++
		}
	}
	lo, hi := max(p.lo, 0), p.hi
	if lo <= required {
		lo = 0
	}
	if hi >= n && p.extra.kind == irNever {
		hi = -1
	}
	if hi >= 0 && hi < required {
		return never, nil
	}
	if lo > n+1 || lo > n && p.extra.kind == irNever {
		return w.tooFew(o, lo, n, p)
	}
	cols := max(min(lo, n), 1) + 1
	if hi >= 0 {
		cols = max(cols, min(hi, n)+1)
	}
	if (n+1)*cols > maxStates {
		keyword := "minProperties"
		if hi >= 0 {
			keyword = "maxProperties"
		}
		return nil, &fault{keyword: keyword, pointer: o.place(), msg: "is not supported with so many properties"}
	}
	after := make([]*ir, cols)
	for c := range after {
		x, err := w.inline("further members", w.ending(p, c, lo-c, hi))
		if err != nil {
			return nil, err
		}
		after[c] = x
	}
	for i := n - 1; i >= 0; i-- {
		m := p.members[i]
		r, err := w.value(m.s)
		if err != nil {
			return nil, err
		}
		head := seq(lit(jsonQuote(m.name)), w.colon(), ref(r))
		now := make([]*ir, cols)
		for c := range now {
			x := never
			if hi < 0 || c < hi {
				x = seq(head, after[min(c+1, cols-1)])
				if c > 0 {
					x = seq(w.comma(), x)
				}
			}
			if !m.required {
				x = alt(x, after[c])
			}
			if now[c], err = w.inline("members", x); err != nil {
				return nil, err
			}
		}
		after = now
	}
	return after[0], nil
}

// ending is the further members after c known ones, at least lo more of them.
// Their names are not told apart, so no more than one can be relied on to count
// as one.
func (w *schemaWriter) ending(p *objectPlan, c, lo, hi int) *ir {
	extra := p.extra
	lo = max(lo, 0)
	if lo > 1 {
		return never
	}
	left := -1
	if hi >= 0 {
		left = max(hi-c, 0)
	}
	if left == 0 || extra.kind == irNever {
		if lo > 0 || p.last != nil {
			return never
		}
		return empty
	}
	if p.last != nil {
		if c > 0 {
			return seq(w.more(extra, 0, left-1, left < 0), w.comma(), p.last)
		}
		return alt(p.last, seq(w.list(extra, 1, max(left-1, -1)), w.comma(), p.last))
	}
	if c == 0 {
		return w.list(extra, lo, left)
	}
	return w.more(extra, lo, left, left < 0)
}

func (o *objSet) place() string {
	for _, c := range o.clauses {
		if c.ptr != "" {
			return c.ptr
		}
	}
	return ""
}

// tooFew is a minProperties that known members cannot reach. Others could, but
// nothing would keep their names apart.
func (w *schemaWriter) tooFew(o *objSet, lo, n int, p *objectPlan) (*ir, error) {
	f := &fault{keyword: "minProperties", pointer: o.place()}
	if p.extra.kind != irNever {
		f.msg = "more than one property beyond those listed cannot be guaranteed"
		return nil, f
	}
	f.msg = "the schema is contradictory: " + itoa(lo) + " properties are asked for and " + itoa(n) + " are possible"
	if w.z.reason == nil {
		w.z.reason = f
	}
	return never, nil
}
