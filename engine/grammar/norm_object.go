package grammar

// objSet is objects: of min to max members, with all the required ones, whose
// names meet names and whose values meet what every clause says about them.
type objSet struct {
	clauses  []*objClause
	required []string
	names    sset
	min, max int
	needs    []objNeed
	further  []objNeed // needs that no listed member is to meet
}

// objNeed asks for a member that a clause does not list, with a value that
// meets s: what breaks the clause's additionalProperties.
type objNeed struct {
	clause *objClause
	s      sset
}

// objClause is one schema's properties, patternProperties and
// additionalProperties; they speak about each other's names, so clauses of
// different schemas stay apart.
type objClause struct {
	props   []propSet
	index   map[string]int // into props
	pats    []propSet      // name is a pattern
	rest    sset
	hasRest bool // there is an additionalProperties
	// spoken means that its names count as evaluated.
	spoken bool
	// approx means that it may ask for more than its keyword does.
	approx bool
	ptr    string
}

type propSet struct {
	name string
	s    sset
}

func newClause(ptr string, props ...propSet) *objClause {
	c := &objClause{props: props, index: map[string]int{}, ptr: ptr}
	for i, p := range props {
		c.index[p.name] = i
	}
	return c
}

func (z *normalizer) ownObject(n *node) *objSet {
	o := &objSet{required: n.obj.required, names: is(n.obj.names), min: n.obj.min, max: n.obj.max}
	if n.obj.props == nil && n.obj.patterns == nil && n.obj.additional == nil {
		return o
	}
	var props []propSet
	for _, p := range n.obj.props {
		props = append(props, propSet{p.name, is(p.n)})
	}
	c := newClause(n.ptr, props...)
	c.spoken = true
	for _, p := range n.obj.patterns {
		c.pats = append(c.pats, propSet{p.name, is(p.n)})
	}
	if n.obj.additional != nil {
		c.rest, c.hasRest = is(n.obj.additional), true
	}
	o.clauses = []*objClause{c}
	return o
}

func (z *normalizer) literalObject(v *value) *objSet {
	var props []propSet
	o := &objSet{max: -1}
	for i, name := range v.names {
		if v.member(name) == v.items[i] {
			props = append(props, propSet{name, z.constant(v.items[i])})
			o.required = append(o.required, name)
		}
	}
	c := newClause("", props...)
	c.rest, c.hasRest = z.not(nil), true
	o.clauses = []*objClause{c}
	return o
}

func (z *normalizer) bothObj(a, b *objSet) (*objSet, error) {
	out := &objSet{names: a.names.and(b.names), min: max(a.min, b.min), max: a.max,
		clauses: append([]*objClause(nil), a.clauses...), required: append([]string(nil), a.required...),
		needs: append(append([]objNeed(nil), a.needs...), b.needs...)}
	if b.max >= 0 && (a.max < 0 || b.max < a.max) {
		out.max = b.max
	}
	have := map[string]bool{}
	for _, r := range a.required {
		have[r] = true
	}
	for _, r := range b.required {
		if !have[r] {
			out.required = append(out.required, r)
		}
	}
	if out.max >= 0 && max(out.min, len(out.required)) > out.max {
		return nil, nil
	}
next:
	for _, c := range b.clauses {
		for _, o := range a.clauses {
			if o == c {
				continue next
			}
		}
		out.clauses = append(out.clauses, c)
	}
	if len(out.clauses) > maxDisjuncts {
		return nil, faultf("too many schemas speak about one object")
	}
	if err := z.spend(len(out.clauses) + len(out.required)); err != nil {
		return nil, err
	}
	// What is required and forbidden at once is found here, before alternatives
	// multiply.
	for _, r := range out.required {
		s, err := z.valueOf(out, r)
		if err != nil {
			return nil, err
		}
		if len(s) == 1 && z.d.nodes[s[0]/2].never && s[0]&1 == 0 {
			return nil, nil
		}
	}
	return out, nil
}

// valueOf is what the value of a member must meet.
func (z *normalizer) valueOf(o *objSet, name string) (sset, error) {
	var s sset
	for _, c := range o.clauses {
		i, found := c.index[name]
		if found {
			s = s.and(c.props[i].s)
		}
		for _, p := range c.pats {
			d, err := z.condDFA(z.patternCond(p.name, c.ptr))
			if err != nil {
				return nil, err
			}
			if d.match(name) {
				found = true
				s = s.and(p.s)
			}
		}
		if !found {
			s = s.and(c.rest)
		}
	}
	return s, nil
}

func (z *normalizer) patternCond(p, ptr string) *strCond {
	c := &strCond{key: "p" + p, keyword: "patternProperties", ptr: ptr}
	re, err := parseRegex(p, z.d.bd.g.b)
	if err != nil {
		re = &reNode{kind: reEmpty} // checked when it was read; only the budget can end here
	}
	c.re = re
	return c
}

// nameAllowed reports whether propertyNames lets a member have this name.
func (z *normalizer) nameAllowed(o *objSet, name string) (bool, error) {
	if len(o.names) == 0 {
		return true, nil
	}
	n, err := z.of(o.names)
	if err != nil {
		return false, err
	}
	one := &strSet{max: -1, words: []string{name}}
	for _, s := range n.strs {
		x, err := z.bothStr(one, s)
		if err != nil || x != nil {
			return x != nil, err
		}
	}
	return false, nil
}

// forbidding is the objects that have no member of that name.
func forbidding(z *normalizer, name string) *objSet {
	return &objSet{max: -1, clauses: []*objClause{newClause("", propSet{name, z.not(nil)})}}
}

// notObj is all other objects, as alternatives.
func (z *normalizer) notObj(o *objSet) ([]*objSet, error) {
	if len(o.names) > 0 {
		return nil, noOpposite("propertyNames")
	}
	if len(o.needs) > 0 {
		return nil, noOpposite("not")
	}
	var out []*objSet
	for _, r := range o.required {
		out = append(out, forbidding(z, r))
	}
	if o.min > 0 {
		out = append(out, &objSet{max: o.min - 1})
	}
	if o.max >= 0 {
		out = append(out, &objSet{min: o.max + 1, max: -1})
	}
	for _, c := range o.clauses {
		if len(c.pats) > 0 {
			return nil, noOpposite("patternProperties")
		}
		if c.approx {
			return nil, noOpposite("unevaluatedProperties")
		}
		if len(c.rest) > 0 {
			out = append(out, &objSet{max: -1, needs: []objNeed{{c, z.not(c.rest)}}})
		}
		for _, p := range c.props {
			if len(p.s) > 0 {
				out = append(out, &objSet{max: -1, required: []string{p.name}, clauses: []*objClause{newClause(c.ptr, propSet{p.name, z.not(p.s)})}})
			}
		}
	}
	return out, nil
}

func (z *normalizer) emptyObj(o *objSet, depth int) (bool, error) {
	for _, r := range o.required {
		s, err := z.valueOf(o, r)
		if err != nil {
			return false, err
		}
		if e, err := z.isEmpty(s, depth+1); e || err != nil {
			return e, err
		}
		if ok, err := z.nameAllowed(o, r); err != nil || !ok {
			return !ok, err
		}
	}
	return o.max >= 0 && max(o.min, len(o.required)) > o.max, nil
}

// dependents works dependentRequired and dependentSchemas in: for each, either
// the member is absent, or it is there and the rest holds.
func (z *normalizer) dependents(n *node, out *norm) (*norm, error) {
	apply := func(keyword, name string, then *norm) error {
		absent := *out
		var err error
		if absent.objs, err = pairs(z, out.objs, []*objSet{forbidding(z, name)}, z.bothObj); err != nil {
			return z.named(err, keyword, n)
		}
		there, err := pairs(z, out.objs, []*objSet{{max: -1, required: []string{name}}}, z.bothObj)
		if err == nil {
			there, err = pairs(z, there, then.objs, z.bothObj)
		}
		if err != nil {
			return z.named(err, keyword, n)
		}
		absent.objs = append(absent.objs, there...)
		if len(absent.objs) > maxDisjuncts {
			return z.named(faultf("the combinations of alternatives are more than %d", maxDisjuncts), keyword, n)
		}
		out = &absent
		return nil
	}
	for _, d := range n.obj.depRequired {
		then := &norm{objs: []*objSet{{max: -1, required: d.needs}}}
		if err := apply("dependentRequired", d.name, then); err != nil {
			return nil, err
		}
	}
	for _, d := range n.obj.depSchemas {
		then, err := z.of(is(d.n))
		if err != nil {
			return nil, err
		}
		if err := apply("dependentSchemas", d.name, then); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// unevaluated adds what unevaluatedProperties and unevaluatedItems say about
// members and items that no other keyword of the schema spoke of. Within one
// alternative that is judged by the schemas which made it; where more of them
// happen to hold, more is spoken of, so this never allows too much.
func (z *normalizer) unevaluated(n *node, out *norm) {
	if u := n.obj.unevaluated; u != nil {
		objs := make([]*objSet, len(out.objs))
		for i, o := range out.objs {
			objs[i] = o
			c := newClause(n.ptr)
			c.rest, c.hasRest, c.spoken, c.approx = is(u), true, true, true
			all := false
			for _, k := range o.clauses {
				if !k.spoken {
					continue
				}
				all = all || k.hasRest
				for _, p := range k.props {
					if _, ok := c.index[p.name]; !ok {
						c.index[p.name] = len(c.props)
						c.props = append(c.props, propSet{name: p.name})
					}
				}
				for _, p := range k.pats {
					c.pats = append(c.pats, propSet{name: p.name})
				}
			}
			if !all {
				x := *o
				x.clauses = append(append([]*objClause(nil), o.clauses...), c)
				objs[i] = &x
			}
		}
		out.objs = objs
	}
	if u := n.arr.unevaluated; u != nil {
		arrs := make([]*arrSet, len(out.arrs))
		for i, a := range out.arrs {
			arrs[i] = a
			if a.spokenAll {
				continue
			}
			x := *a
			x.prefix = nil
			for k := 0; k < a.spokenFor; k++ {
				x.prefix = append(x.prefix, a.at(k))
			}
			for k := a.spokenFor; k < len(a.prefix); k++ {
				x.prefix = append(x.prefix, a.at(k).and(is(u)))
			}
			x.rest, x.spokenAll, x.approx = a.rest.and(is(u)), true, true
			arrs[i] = &x
		}
		out.arrs = arrs
	}
}
