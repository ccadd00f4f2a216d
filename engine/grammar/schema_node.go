package grammar

import (
	"math/big"
	"strings"
)

// node is one schema of a document, with its keywords checked for form. What
// they mean together is worked out in norm.go.
type node struct {
	id    int32
	ptr   string // JSON pointer of (the first copy of) the schema
	never bool   // the schema false

	types    typeSet // 0: not given
	enum     []*value
	hasEnum  bool
	constant *value
	ref      *node
	allOf    []*node
	anyOf    []*node
	oneOf    []*node
	not      *node
	ifThen   [3]*node // if, then, else

	num num
	str struct {
		min, max int
		pattern  *value
		format   string
	}
	arr       arrayWords
	obj       objectWords
	anyOfSets []sset // made by us: one of these must hold
}

// num is the number keywords of a node.
type num struct {
	lo, hi     *big.Rat
	loEx, hiEx bool
	mult       *big.Rat
}

// arrayWords is the array keywords of a node.
type arrayWords struct {
	prefix      []*node
	items       *node
	contains    *node
	minContains int
	maxContains int
	min, max    int
	unique      bool
	unevaluated *node
}

// objectWords is the object keywords of a node.
type objectWords struct {
	props       []named
	patterns    []named
	additional  *node
	names       *node
	required    []string
	min, max    int
	depRequired []dependency
	depSchemas  []named
	unevaluated *node
}

type named struct {
	name string
	n    *node
}

type dependency struct {
	name  string
	needs []string
}

// typeSet is a set of JSON types.
type typeSet uint8

const (
	typeNull typeSet = 1 << iota
	typeBool
	typeInteger
	typeNumber // holds the integers
	typeString
	typeArray
	typeObject
)

var typeNames = map[string]typeSet{"null": typeNull, "boolean": typeBool, "integer": typeInteger, "number": typeNumber,
	"string": typeString, "array": typeArray, "object": typeObject}

// schemaDoc is a schema document and its nodes.
type schemaDoc struct {
	bd     *builder
	effort bool // leave out what is not supported
	root   *value
	nodes  []*node
	byText map[string]*node  // equal schemas are one node
	ids    map[string]*value // $id and, with #, $anchor
}

// parse makes the node of schema v at ptr.
func (d *schemaDoc) parse(v *value, ptr string) (*node, error) {
	if v.kind != '{' && v.kind != 't' && v.kind != 'f' {
		return nil, &fault{pointer: ptr, msg: "a schema must be an object or a boolean, got " + kindName(v)}
	}
	if n := d.byText[v.raw]; n != nil {
		return n, nil
	}
	if len(d.nodes) >= maxRules {
		return nil, faultf("the schema has more than %d subschemas", maxRules)
	}
	n := newNode(int32(len(d.nodes)), ptr)
	n.never = v.kind == 'f'
	d.nodes = append(d.nodes, n)
	d.byText[v.raw] = n
	d.bd.g.b.spend(len(v.raw) / 16)
	if v.kind != '{' {
		return n, nil
	}
	for i, name := range v.names {
		if v.member(name) != v.items[i] {
			continue // an earlier duplicate
		}
		k := keyword{d: d, n: n, in: v, name: name, v: v.items[i]}
		if err := k.read(); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func newNode(id int32, ptr string) *node {
	n := &node{id: id, ptr: ptr}
	n.str.max, n.arr.max, n.obj.max, n.arr.maxContains = -1, -1, -1, -1
	n.arr.minContains = 1
	return n
}

// keyword is one keyword being read.
type keyword struct {
	d    *schemaDoc
	n    *node
	in   *value
	name string
	v    *value
}

func (k *keyword) ptr() string { return k.n.ptr + "/" + escapePointer(k.name) }

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

func (k *keyword) fault(format string, args ...any) error {
	f := faultf(format, args...)
	f.keyword, f.pointer = k.name, k.n.ptr
	return f
}

func kindName(v *value) string {
	return map[byte]string{'n': "null", 't': "true", 'f': "false", '0': "a number", 's': "a string", '[': "an array", '{': "an object"}[v.kind]
}

// read fills the node from the keyword. Keywords of no vocabulary are
// annotations (JSON Schema 2020-12 core §6.5) and need no reading.
func (k *keyword) read() (err error) {
	n := k.n
	switch k.name {
	case "$ref":
		return k.readRef()
	case "$dynamicRef", "$recursiveRef":
		err := k.fault("is not supported, use $ref").(*fault)
		err.beyond = true
		return k.d.tolerate(err)
	case "type":
		return k.readType()
	case "enum":
		return k.readEnum()
	case "const":
		n.constant = k.v
	case "allOf", "anyOf", "oneOf":
		return k.readList()
	case "not":
		n.not, err = k.schema()
	case "if":
		n.ifThen[0], err = k.schema()
	case "then":
		n.ifThen[1], err = k.schema()
	case "else":
		n.ifThen[2], err = k.schema()
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return k.readNumber()
	case "minLength":
		n.str.min, err = k.count()
	case "maxLength":
		n.str.max, err = k.count()
	case "pattern":
		if k.v.kind != 's' {
			return k.fault("must be a string, got %s", kindName(k.v))
		}
		if err = k.checkPattern(k.v.text); err == nil {
			n.str.pattern = k.v
		}
		return k.d.tolerate(err)
	case "format":
		if k.v.kind != 's' {
			return k.fault("must be a string, got %s", kindName(k.v))
		}
		n.str.format = k.v.text
	case "nullable":
		if k.v.kind == 't' && n.types == 0 && k.in.member("type") == nil {
			return nil
		}
	default:
		if done, err := k.readArray(); done || err != nil {
			return err
		}
		return k.readObject()
	}
	return err
}

func (k *keyword) schema() (*node, error) { return k.d.parse(k.v, k.ptr()) }

// count reads a non-negative integer.
func (k *keyword) count() (int, error) {
	if k.v.kind == '0' {
		if r, ok := k.v.number(); ok && r.IsInt() && r.Sign() >= 0 {
			if r.Num().IsInt64() && r.Num().Int64() <= maxCount {
				return int(r.Num().Int64()), nil
			}
			if strings.HasPrefix(k.name, "max") {
				return maxCount, nil // nothing grows as long
			}
			return 0, k.fault("is above %d", maxCount)
		}
	}
	return 0, k.fault("must be a non-negative integer, got %s", short(k.v))
}

func short(v *value) string {
	if len(v.raw) > 40 {
		return kindName(v)
	}
	return v.raw
}

func (k *keyword) texts() ([]string, error) {
	if k.v.kind != '[' {
		return nil, k.fault("must be an array of strings, got %s", kindName(k.v))
	}
	var out []string
	seen := map[string]bool{}
	for _, x := range k.v.items {
		if x.kind != 's' {
			return nil, k.fault("must be an array of strings, got %s in it", kindName(x))
		}
		if !seen[x.text] {
			seen[x.text] = true
			out = append(out, x.text)
		}
	}
	return out, nil
}

func (k *keyword) readType() error {
	list := k.v.items
	if k.v.kind == 's' {
		list = []*value{k.v}
	} else if k.v.kind != '[' || len(list) == 0 {
		return k.fault("must be a type's name or a list of them, got %s", short(k.v))
	}
	for _, x := range list {
		t := typeNames[x.text]
		if x.kind != 's' || t == 0 {
			return k.fault("has no type %s", short(x))
		}
		k.n.types |= t
	}
	if m := k.in.member("nullable"); m != nil && m.kind == 't' { // OpenAPI 3.0
		k.n.types |= typeNull
	}
	return nil
}

func (k *keyword) readEnum() error {
	if k.v.kind != '[' || len(k.v.items) == 0 {
		return k.fault("must be an array with at least one value")
	}
	if len(k.v.items) > maxEnum {
		return k.fault("has %d values, the limit is %d", len(k.v.items), maxEnum)
	}
	k.n.enum, k.n.hasEnum = k.v.items, true
	return nil
}

func (k *keyword) readList() error {
	if k.v.kind != '[' || len(k.v.items) == 0 {
		return k.fault("must be an array with at least one schema")
	}
	var out []*node
	for i, x := range k.v.items {
		n, err := k.d.parse(x, k.ptr()+"/"+itoa(i))
		if err != nil {
			return err
		}
		out = append(out, n)
	}
	switch k.name {
	case "allOf":
		k.n.allOf = out
	case "anyOf":
		k.n.anyOf = out
	default:
		k.n.oneOf = out
	}
	return nil
}

// schemas reads an object whose members are schemas.
func (k *keyword) schemas() ([]named, error) {
	if k.v.kind != '{' {
		return nil, k.fault("must be an object of schemas, got %s", kindName(k.v))
	}
	var out []named
	at := map[string]int{}
	for i, name := range k.v.names {
		n, err := k.d.parse(k.v.items[i], k.ptr()+"/"+escapePointer(name))
		if err != nil {
			return nil, err
		}
		if j, ok := at[name]; ok {
			out[j].n = n
			continue
		}
		at[name] = len(out)
		out = append(out, named{name, n})
	}
	return out, nil
}

func (k *keyword) checkPattern(p string) error {
	if _, err := parseRegex(p, k.d.bd.g.b); err != nil {
		return k.wrap(err)
	}
	return nil
}

// wrap puts the keyword and its place on a fault that has none.
func (k *keyword) wrap(err error) error {
	f, ok := err.(*fault)
	if !ok || f.keyword != "" {
		return err
	}
	g := *f
	g.keyword, g.pointer = k.name, k.n.ptr
	return &g
}

func (k *keyword) readNumber() error {
	n := &k.n.num
	if k.v.kind == 't' || k.v.kind == 'f' { // draft 4: a flag on minimum or maximum
		switch k.name {
		case "exclusiveMinimum":
			n.loEx = n.loEx || k.v.kind == 't' && k.in.member("minimum") != nil
			return nil
		case "exclusiveMaximum":
			n.hiEx = n.hiEx || k.v.kind == 't' && k.in.member("maximum") != nil
			return nil
		}
	}
	if k.v.kind != '0' {
		return k.fault("must be a number, got %s", short(k.v))
	}
	r, ok := k.v.number()
	if !ok {
		return k.fault("is too large or too fine")
	}
	switch k.name {
	case "multipleOf":
		if r.Sign() <= 0 {
			return k.fault("must be above 0")
		}
		n.mult = r
	case "minimum":
		if n.lo == nil || r.Cmp(n.lo) > 0 {
			n.lo, n.loEx = r, n.loEx && n.lo == nil
		}
	case "exclusiveMinimum":
		if n.lo == nil || r.Cmp(n.lo) >= 0 {
			n.lo, n.loEx = r, true
		}
	case "maximum":
		if n.hi == nil || r.Cmp(n.hi) < 0 {
			n.hi, n.hiEx = r, n.hiEx && n.hi == nil
		}
	case "exclusiveMaximum":
		if n.hi == nil || r.Cmp(n.hi) <= 0 {
			n.hi, n.hiEx = r, true
		}
	}
	return nil
}
