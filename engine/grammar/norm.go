package grammar

import (
	"encoding/binary"
	"slices"
)

// A sset is a conjunction of schemas: of nodes that must hold (2*id) and nodes
// that must not (2*id+1), ascending and distinct. The empty sset is the schema
// true. As places in a schema are few, so are the ssets that can come up, and
// recursion through $ref ends in one that is known.
type sset []int32

func is(n *node) sset {
	if n == nil {
		return nil
	}
	return sset{2 * n.id}
}

func (s sset) and(t sset) sset {
	if len(s) == 0 {
		return t
	}
	if len(t) == 0 {
		return s
	}
	out := append(slices.Clone(s), t...)
	slices.Sort(out)
	return slices.Compact(out)
}

func (s sset) key() string {
	b := make([]byte, 0, 4*len(s))
	for _, x := range s {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return string(b)
}

// norm is the normal form of a schema: for each type what is allowed, as
// alternatives of which any may hold.
type norm struct {
	null, yes, no bool
	nums          []numSet
	strs          []*strSet
	arrs          []*arrSet
	objs          []*objSet
}

func fullNorm() *norm {
	return &norm{null: true, yes: true, no: true, nums: []numSet{{}}, strs: []*strSet{{max: -1}},
		arrs: []*arrSet{{max: -1}}, objs: []*objSet{{max: -1}}}
}

// normalizer computes normal forms, each once.
type normalizer struct {
	d      *schemaDoc
	done   map[string]*norm
	open   map[string]bool // being computed: meeting one again is a loop
	empty  map[string]bool // decisions of isEmpty
	dfas   map[string]*dfa // of patterns and numbers; nil values count
	reason *fault          // the first place where nothing is allowed
}

func (z *normalizer) spend(n int) error {
	if !z.d.bd.g.b.spend(n) {
		return z.d.bd.g.b.err
	}
	return nil
}

// of is the normal form of a conjunction.
func (z *normalizer) of(s sset) (*norm, error) {
	key := s.key()
	if n := z.done[key]; n != nil {
		return n, nil
	}
	if z.open[key] {
		return nil, &fault{keyword: "$ref", pointer: z.ptr(s), msg: "refers to itself without anything in between", loop: true}
	}
	z.open[key] = true
	defer delete(z.open, key)
	out := fullNorm()
	for _, x := range s {
		n, err := z.literal(x, len(s) > 1)
		if err != nil {
			return nil, err
		}
		if out, err = z.both(out, n); err != nil {
			return nil, z.at(err, z.d.nodes[x/2])
		}
	}
	z.done[key] = out
	return out, nil
}

// literal is the normal form of one node or of its opposite.
func (z *normalizer) literal(x int32, memo bool) (*norm, error) {
	n := z.d.nodes[x/2]
	if memo { // through of, which remembers
		return z.of(sset{x})
	}
	if x&1 == 0 {
		return z.node(n)
	}
	pos, err := z.of(sset{x &^ 1})
	if err != nil {
		return nil, err
	}
	out, err := z.complement(pos)
	return out, z.at(err, n)
}

// at puts a place on a fault that has none.
func (z *normalizer) at(err error, n *node) error {
	if f, ok := err.(*fault); ok && f.pointer == "" {
		g := *f
		g.pointer = n.ptr
		return &g
	}
	return err
}

func (z *normalizer) ptr(s sset) string {
	if len(s) == 0 {
		return ""
	}
	return z.d.nodes[s[0]/2].ptr
}

// named is like at, and names the keyword.
func (z *normalizer) named(err error, keyword string, n *node) error {
	if f, ok := err.(*fault); ok && f.keyword == "" {
		return &fault{keyword: keyword, pointer: n.ptr, msg: f.msg}
	}
	return err
}

// not is the opposite of a conjunction.
func (z *normalizer) not(s sset) sset {
	switch len(s) {
	case 0:
		return is(z.made("never", func(n *node) { n.never = true }))
	case 1:
		if s[0]&1 == 0 && z.d.nodes[s[0]/2].never {
			return nil
		}
		return sset{s[0] ^ 1}
	}
	return is(z.made("not"+s.key(), func(n *node) {
		for _, x := range s {
			n.anyOfSets = append(n.anyOfSets, sset{x ^ 1})
		}
	}))
}

// made is a node of our own making, known by key.
func (z *normalizer) made(key string, fill func(*node)) *node {
	if n := z.d.byText["made "+key]; n != nil {
		return n
	}
	n := newNode(int32(len(z.d.nodes)), "")
	fill(n)
	z.d.nodes = append(z.d.nodes, n)
	z.d.byText["made "+key] = n
	return n
}

// node is the normal form of a schema object: its own keywords, and then the
// schemas that it applies in place.
func (z *normalizer) node(n *node) (*norm, error) {
	if n.never {
		return &norm{}, nil
	}
	out, err := z.own(n)
	if err != nil {
		return nil, err
	}
	and := func(m *norm, err error, keyword string) error {
		if err == nil {
			out, err = z.both(out, m)
		}
		return z.named(err, keyword, n)
	}
	if n.ref != nil {
		m, err := z.of(is(n.ref))
		if err = and(m, err, "$ref"); err != nil {
			return nil, err
		}
	}
	for _, s := range n.allOf {
		m, err := z.of(is(s))
		if err = and(m, err, "allOf"); err != nil {
			return nil, err
		}
	}
	steps := []struct {
		keyword string
		on      bool
		f       func(*node) (*norm, error)
	}{{"anyOf", n.anyOf != nil || n.anyOfSets != nil, z.anyOf}, {"not", n.not != nil, z.notOf}, {"if", n.ifThen[0] != nil && (n.ifThen[1] != nil || n.ifThen[2] != nil), z.conditional}}
	for _, s := range steps {
		if !s.on {
			continue
		}
		m, err := s.f(n)
		if err = and(m, err, s.keyword); err != nil {
			return nil, err
		}
	}
	if n.oneOf != nil {
		m, err := z.oneOf(n, out)
		if err = and(m, err, "oneOf"); err != nil {
			return nil, err
		}
	}
	if out, err = z.dependents(n, out); err != nil {
		return nil, err
	}
	z.unevaluated(n, out)
	return out, nil
}

// own is the normal form of type, enum, const and the keywords of each type.
func (z *normalizer) own(n *node) (*norm, error) {
	out := fullNorm()
	if t := n.types; t != 0 {
		out.null, out.yes, out.no = t&typeNull != 0, t&typeBool != 0, t&typeBool != 0
		switch {
		case t&typeNumber != 0:
		case t&typeInteger != 0:
			out.nums = []numSet{{kind: integers}}
		default:
			out.nums = nil
		}
		if t&typeString == 0 {
			out.strs = nil
		}
		if t&typeArray == 0 {
			out.arrs = nil
		}
		if t&typeObject == 0 {
			out.objs = nil
		}
	}
	var err error
	if out.nums, err = z.bothNums(out.nums, []numSet{n.num.set()}); err != nil {
		return nil, z.named(err, "minimum", n)
	}
	if len(out.strs) > 0 {
		s, err := z.ownString(n)
		if err != nil {
			return nil, err
		}
		out.strs = []*strSet{s}
	}
	if len(out.arrs) > 0 {
		out.arrs = []*arrSet{z.ownArray(n)}
	}
	if len(out.objs) > 0 {
		out.objs = []*objSet{z.ownObject(n)}
	}
	if n.hasEnum {
		if out, err = z.both(out, z.values(n.enum)); err != nil {
			return nil, z.named(err, "enum", n)
		}
	}
	if n.constant != nil {
		if out, err = z.both(out, z.values([]*value{n.constant})); err != nil {
			return nil, z.named(err, "const", n)
		}
	}
	return out, nil
}

// values is the normal form of an enumeration.
func (z *normalizer) values(vs []*value) *norm {
	out := &norm{}
	words := &strSet{max: -1, words: []string{}}
	nums := numSet{finite: true}
	for _, v := range vs {
		switch v.kind {
		case 'n':
			out.null = true
		case 't':
			out.yes = true
		case 'f':
			out.no = true
		case '0':
			if w, ok := v.numWord(); ok {
				nums.words = append(nums.words, w)
			}
		case 's':
			words.words = append(words.words, v.text)
		case '[':
			out.arrs = append(out.arrs, z.literalArray(v))
		case '{':
			out.objs = append(out.objs, z.literalObject(v))
		}
	}
	if words.words = sortedUnique(words.words); len(words.words) > 0 {
		out.strs = []*strSet{words}
	}
	if len(nums.words) > 0 {
		nums.sortWords()
		out.nums = []numSet{nums}
	}
	return out
}

// constant is the sset of exactly v.
func (z *normalizer) constant(v *value) sset {
	return is(z.made("const "+v.raw, func(n *node) { n.constant = v }))
}
