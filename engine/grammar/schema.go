package grammar

import (
	"encoding/json"
	"strings"
)

// JSON Schema, drafts 2020-12 and 7 (and what 4 and OpenAPI 3.0 spell
// otherwise: boolean exclusive bounds, nullable). A document is read into nodes
// (schema_node.go), conjunctions of nodes are brought into a normal form by type
// on demand (norm.go), and each conjunction that comes up as a value becomes one
// rule (here and in schema_*.go).
//
// Every text is an instance of its schema. The other way round, of the ways to
// write an instance these are offered:
//
//   - Members come in the order in which the schema names them, required ones
//     without a schema of their own next, all others last. Names
//     that the schema lists are written once.
//   - Whitespace is SchemaOptions.Whitespace and nothing else.
//   - Strings that a schema describes (enum, const, pattern, format, names) are
//     written without needless escapes; all others may use every escape.
//   - Integers have up to 18 digits, numbers under conditions up to 15 and no
//     exponent, any other number up to 18 + 17 digits and an exponent of two.
//   - Values that no schema describes nest up to 16 levels.
//   - Formats may be narrower than their definition (formats.go).
//   - uniqueItems needs a finite list of possible items, of which more than 8
//     come in their order; more than one member beyond those named cannot be
//     guaranteed by minProperties.
//
// Refused by name are $dynamicRef, references out of the document, format
// regex, several contains on one array, patterns that are not regular, and the
// opposite (by not, oneOf, if, maxContains) of format, patternProperties,
// propertyNames, uniqueItems, unevaluated… and items after prefixItems. oneOf
// needs no opposite where its alternatives exclude each other.

// schemaWriter writes normal forms as rules.
type schemaWriter struct {
	bd    *builder
	z     *normalizer
	rules map[string]*rule // by sset
	queue []pendingRule
	gap   *ir // what may follow ',' and ':'
	parts map[string]*rule
}

type pendingRule struct {
	r *rule
	s sset
}

// schema adds the rules of a schema and returns a reference to its root.
func (bd *builder) schema(raw json.RawMessage, o SchemaOptions) (*ir, error) {
	if len(raw) == 0 {
		raw = json.RawMessage("true")
	}
	root, err := parseValue(raw, bd.g.b)
	if err != nil {
		return nil, err
	}
	d := &schemaDoc{bd: bd, effort: o.BestEffort, root: root, byText: map[string]*node{}, ids: map[string]*value{}}
	d.index(root)
	n, err := d.parse(root, "")
	if err != nil {
		return nil, err
	}
	mark := *bd.g
	for try := 0; ; try++ {
		x, err := d.write(n, o)
		if err == nil || try == maxLeftOut || !d.leaveOut(err) {
			return x, err
		}
		bd.g.rules, bd.g.named = bd.g.rules[:len(mark.rules)], mark.named
	}
}

// write makes the rules for root n.
func (d *schemaDoc) write(n *node, o SchemaOptions) (*ir, error) {
	z := &normalizer{d: d, done: map[string]*norm{}, open: map[string]bool{}, empty: map[string]bool{}, dfas: map[string]*dfa{}}
	w := &schemaWriter{bd: d.bd, z: z, rules: map[string]*rule{}, parts: map[string]*rule{}, gap: empty}
	if o.Whitespace != NoWhitespace {
		w.gap = repeat(lit(" "), 0, min(max(o.Whitespace, 1), 4))
	}
	s := is(n)
	if o.NeedObject {
		s = s.and(is(z.made("object", func(n *node) { n.types = typeObject })))
	}
	r, err := w.value(s)
	if err != nil {
		return nil, err
	}
	if err := w.drain(); err != nil {
		return nil, err
	}
	if err := d.bd.g.analyse(); err != nil {
		return nil, err
	}
	if !r.productive {
		return nil, z.unsatisfiable()
	}
	return ref(r), nil
}

// unsatisfiable is the fault of a schema that allows nothing.
func (z *normalizer) unsatisfiable() error {
	f := z.reason
	if f == nil {
		f = faultf("the schema is contradictory: no value satisfies it")
	}
	f.against = true
	return f
}

// drain writes the rules that have been asked for, which asks for more.
func (w *schemaWriter) drain() error {
	for len(w.queue) > 0 {
		p := w.queue[0]
		w.queue = w.queue[1:]
		n, err := w.z.of(p.s)
		if err != nil {
			return err
		}
		if p.r.body, err = w.norm(n); err != nil {
			return err
		}
		if p.r.body.kind == irNever && w.z.reason == nil && !w.z.meantEmpty(p.s) {
			w.z.reason = w.z.contradiction(p.s)
		}
		if w.bd.g.b.err != nil {
			return w.bd.g.b.err
		}
	}
	return nil
}

// meantEmpty tells the schema false, or a member that is forbidden, from a
// contradiction.
func (z *normalizer) meantEmpty(s sset) bool {
	for _, x := range s {
		if n := z.d.nodes[x/2]; n.never && x&1 == 0 {
			return true
		}
	}
	return false
}

// contradiction names the place, and the keywords at it, that allow nothing.
func (z *normalizer) contradiction(s sset) *fault {
	for _, x := range s {
		n := z.d.nodes[x/2]
		if n.ptr == "" && n.id != 0 {
			continue
		}
		var at []string
		add := func(on bool, name string) {
			if on {
				at = append(at, name)
			}
		}
		add(n.hasEnum, "enum")
		add(n.constant != nil, "const")
		add(n.num.lo != nil, "minimum")
		add(n.num.hi != nil, "maximum")
		add(n.num.mult != nil, "multipleOf")
		add(n.str.min > 0, "minLength")
		add(n.str.max >= 0, "maxLength")
		add(n.str.pattern != nil, "pattern")
		add(n.str.format != "", "format")
		add(n.arr.min > 0, "minItems")
		add(n.arr.max >= 0, "maxItems")
		add(n.obj.required != nil, "required")
		add(n.obj.min > 0, "minProperties")
		add(n.obj.max >= 0, "maxProperties")
		add(n.allOf != nil, "allOf")
		add(n.oneOf != nil, "oneOf")
		add(n.not != nil, "not")
		add(n.types != 0, "type")
		return &fault{keyword: strings.Join(at, "/"), pointer: n.ptr, msg: "the schema is contradictory: no value satisfies it"}
	}
	return nil
}

// value is the rule for values that meet s.
func (w *schemaWriter) value(s sset) (*rule, error) {
	if len(s) == 0 {
		return w.anyValue(maxAnyDepth)
	}
	key := s.key()
	if r := w.rules[key]; r != nil {
		return r, nil
	}
	r, err := w.bd.g.newRule("value at " + pointerText(w.z.ptr(s)))
	if err != nil {
		return nil, err
	}
	w.rules[key] = r
	w.queue = append(w.queue, pendingRule{r, s})
	return r, nil
}

func (w *schemaWriter) norm(n *norm) (*ir, error) {
	var alts []*ir
	add := func(x *ir, err error) error {
		alts = append(alts, x)
		return err
	}
	if n.null {
		alts = append(alts, lit("null"))
	}
	if n.yes {
		alts = append(alts, lit("true"))
	}
	if n.no {
		alts = append(alts, lit("false"))
	}
	seen := map[string]bool{}
	for i := range n.nums {
		s := &n.nums[i]
		if key := s.key(); !s.finite {
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		if err := add(w.number(s)); err != nil {
			return nil, err
		}
	}
	for _, s := range n.strs {
		if err := add(w.str(s)); err != nil {
			return nil, err
		}
	}
	for _, a := range n.arrs {
		if err := add(w.array(a)); err != nil {
			return nil, err
		}
	}
	for _, o := range n.objs {
		if err := add(w.object(o)); err != nil {
			return nil, err
		}
	}
	return alt(alts...), nil
}

// part is a rule that is made once for its key.
func (w *schemaWriter) part(key string, make func() (*ir, error)) (*ir, error) {
	if r := w.parts[key]; r != nil {
		return ref(r), nil
	}
	r, err := w.bd.g.newRule(key)
	if err != nil {
		return nil, err
	}
	w.parts[key] = r
	r.body, err = make()
	return ref(r), err
}

// maxAnyDepth is how deep values nest that no schema describes.
const maxAnyDepth = 16

// anyValue is any JSON value with up to depth levels of arrays and objects.
func (w *schemaWriter) anyValue(depth int) (*rule, error) {
	x, err := w.part("any value "+itoa(depth), func() (*ir, error) {
		text, err := w.anyString()
		if err != nil {
			return nil, err
		}
		num, err := w.number(&numSet{})
		if err != nil {
			return nil, err
		}
		alts := []*ir{text, num, lit("true"), lit("false"), lit("null")}
		if depth > 0 {
			r, err := w.anyValue(depth - 1)
			if err != nil {
				return nil, err
			}
			item := ref(r)
			member := seq(text, w.colon(), item)
			alts = append(alts, seq(lit("["), w.list(item, 0, -1), lit("]")), seq(lit("{"), w.list(member, 0, -1), lit("}")))
		}
		return alt(alts...), nil
	})
	if err != nil {
		return nil, err
	}
	return x.rule, nil
}

func (w *schemaWriter) colon() *ir { return seq(lit(":"), w.gap) }
func (w *schemaWriter) comma() *ir { return seq(lit(","), w.gap) }

// list is lo to hi items with commas between them. An item has one parse only
// up to its comma or bracket, so it may be counted.
func (w *schemaWriter) list(item *ir, lo, hi int) *ir {
	if hi == 0 {
		if lo > 0 {
			return never
		}
		return empty
	}
	x := seq(item, w.more(item, lo-1, hi-1, hi < 0))
	if lo <= 0 {
		return alt(empty, x)
	}
	return x
}

// more is lo to hi further items, each after a comma.
func (w *schemaWriter) more(item *ir, lo, hi int, endless bool) *ir {
	if endless {
		hi = -1
	} else if hi < max(lo, 0) {
		return never
	}
	x := repeat(seq(w.comma(), item), max(lo, 0), hi)
	if x.kind == irRepeat {
		x.counted = true
	}
	return x
}

func (w *schemaWriter) number(s *numSet) (*ir, error) {
	switch {
	case s.finite:
		var words []string
		for _, x := range s.words {
			words = append(words, x.text)
		}
		return wordsIR(words), nil
	case s.plain() && s.kind == integers:
		return w.part("integer", func() (*ir, error) { return w.pattern(`0|-?[1-9][0-9]{0,` + itoa(maxIntDigits-1) + `}`) })
	case s.plain():
		return w.part("number", func() (*ir, error) {
			return w.pattern(`-?(0|[1-9][0-9]{0,` + itoa(maxIntDigits-1) + `})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?`)
		})
	}
	d, err := w.z.numDFA(s)
	if d == nil || err != nil {
		return never, err
	}
	return w.part("number "+s.key(), func() (*ir, error) {
		return &ir{kind: irAuto, dfa: d, max: -1}, nil
	})
}

func (w *schemaWriter) pattern(p string) (*ir, error) {
	re, err := parseRegex(p, w.bd.g.b)
	if err != nil {
		return nil, err
	}
	return re.fullMatch(rawText)
}

func (w *schemaWriter) anyString() (*ir, error) {
	return w.part("string", func() (*ir, error) {
		return seq(lit(`"`), repeat(class(allRunes, jsonFree), 0, -1), lit(`"`)), nil
	})
}

func (w *schemaWriter) str(s *strSet) (*ir, error) {
	inside, err := w.strInside(s, jsonFree)
	if err != nil {
		return nil, err
	}
	if len(s.conds) == 0 && s.words == nil && !s.bounded() {
		return w.anyString()
	}
	return seq(lit(`"`), inside, lit(`"`)), nil
}

// strInside is a string without its quotes. free is the encoding where nothing
// but the length matters.
func (w *schemaWriter) strInside(s *strSet, free encoding) (*ir, error) {
	switch {
	case s.words != nil:
		words := make([]string, len(s.words))
		for i, t := range s.words {
			q := jsonQuote(t)
			words[i] = q[1 : len(q)-1]
		}
		return wordsIR(words), nil
	case len(s.conds) == 0:
		return repeat(class(allRunes, free), s.min, s.max), nil
	case len(s.conds) == 1 && !s.bounded():
		if re := s.conds[0].direct(); re != nil {
			return re.fullMatch(jsonText)
		}
	}
	d, counted, err := w.z.withLength(s)
	if d == nil || err != nil {
		return never, err
	}
	x := &ir{kind: irAuto, enc: jsonText, dfa: d, max: -1}
	if counted {
		x.min, x.max = s.min, s.max
	}
	return x, nil
}
