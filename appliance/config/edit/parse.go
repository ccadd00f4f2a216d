package edit

import (
	"bytes"
	"fmt"

	"github.com/pelletier/go-toml/v2/unstable"
)

type stmtKind uint8

const (
	keyval      stmtKind = iota
	header               // [a.b]
	arrayHeader          // [[a.b]]
)

// span is a range of bytes of the document.
type span struct{ start, end int }

// part is one key of a maybe dotted one, with where it stands.
type part struct {
	name string
	span
}

// stmt is one statement of the document.
type stmt struct {
	kind stmtKind
	keys []part
	text span   // from its first byte to its last, without indentation and comment
	line span   // whole lines, with the newline
	val  *value // of a keyval
}

// value is what stands behind an equals sign, or in a list.
type value struct {
	kind unstable.Kind
	span
	items []*value // Array
	pairs []pair   // InlineTable
}

// pair is a key with its value in an inline table.
type pair struct {
	keys []part
	val  *value
	span
}

// statements splits a document with the byte range of everything in it.
func statements(text []byte) ([]stmt, error) {
	var p unstable.Parser
	p.Reset(text)
	var out []stmt
	for p.NextExpression() {
		n := p.Expression()
		s := stmt{keys: keysOf(n)}
		if len(s.keys) == 0 {
			return nil, fmt.Errorf("cannot find the key of a statement")
		}
		first, last := s.keys[0].start, s.keys[len(s.keys)-1].end
		switch n.Kind {
		case unstable.KeyValue:
			s.text = rangeOf(n.Raw)
			at := blanks(text, bytes.IndexByte(text[last:], '=')+last+1)
			s.val = valueAt(text, n.Value(), at)
			if s.val.end != s.text.end {
				return nil, fmt.Errorf("cannot find the end of the value of %s", s.keys[0].name)
			}
		case unstable.Table, unstable.ArrayTable:
			s.kind = header
			open := blanksBack(text, first)
			if n.Kind == unstable.ArrayTable {
				s.kind = arrayHeader
				open--
			}
			s.text = span{open - 1, blanks(text, last) + 1}
			if s.kind == arrayHeader {
				s.text.end++
			}
		default:
			return nil, fmt.Errorf("cannot edit a statement of kind %s", n.Kind)
		}
		s.line = span{lineStart(text, s.text.start), lineEnd(text, s.text.end)}
		out = append(out, s)
	}
	return out, p.Error()
}

func rangeOf(r unstable.Range) span { return span{int(r.Offset), int(r.Offset + r.Length)} }

func keysOf(n *unstable.Node) []part {
	var out []part
	for it := n.Key(); it.Next(); {
		k := it.Node()
		out = append(out, part{string(k.Data), rangeOf(k.Raw)})
	}
	return out
}

// valueAt gives a value that begins at the byte `at`. The parser tells the ranges
// of scalars and pairs; those of lists and inline tables follow from them.
func valueAt(text []byte, n *unstable.Node, at int) *value {
	v := &value{kind: n.Kind, span: span{at, at + int(n.Raw.Length)}}
	switch n.Kind {
	case unstable.Array:
		pos := at + 1
		for it := n.Children(); it.Next(); {
			item := valueAt(text, it.Node(), between(text, pos))
			v.items = append(v.items, item)
			pos = item.end
		}
		v.end = between(text, pos) + 1
	case unstable.InlineTable:
		pos := at + 1
		for it := n.Children(); it.Next(); {
			kv := it.Node()
			p := pair{keys: keysOf(kv), span: rangeOf(kv.Raw)}
			last := p.keys[len(p.keys)-1].end
			p.val = valueAt(text, kv.Value(), blanks(text, bytes.IndexByte(text[last:], '=')+last+1))
			v.pairs = append(v.pairs, p)
			pos = p.end
		}
		v.end = between(text, pos) + 1
	}
	return v
}

// blanks passes spaces and tabs.
func blanks(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t') {
		at++
	}
	return at
}

func blanksBack(text []byte, at int) int {
	for at > 0 && (text[at-1] == ' ' || text[at-1] == '\t') {
		at--
	}
	return at
}

// between passes what may stand between the elements of a list: blanks, newlines,
// comments and commas.
func between(text []byte, at int) int {
	for at < len(text) {
		switch text[at] {
		case ' ', '\t', '\r', '\n', ',':
			at++
		case '#':
			at = lineEnd(text, at)
		default:
			return at
		}
	}
	return at
}

func lineStart(text []byte, at int) int { return bytes.LastIndexByte(text[:at], '\n') + 1 }

// lineEnd is behind the newline that ends the line of at, or the end of text.
func lineEnd(text []byte, at int) int {
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

type nodeKind uint8

const (
	aTable   nodeKind = iota // of headers, or implied by them
	aDotted                  // a table that dotted keys make
	tableOf                  // an array of tables
	aValue                   // a scalar
	aList                    // a list that is a value
	anInline                 // an inline table
)

// node is what a path leads to.
type node struct {
	kind   nodeKind
	parent *node
	step   Step
	keys   map[string]*node
	elems  []*node
	own    int   // the statement that is its header, or holds its value; -1: none
	stmts  []int // statements that are of it or below it
	val    *value
	prefix []string // aDotted: keys from the header of its section to it
	within *node    // aDotted: the table, or inline table, whose keys are dotted
}

func (n *node) path() Path {
	if n.parent == nil {
		return nil
	}
	return append(n.parent.path(), n.step)
}

// sub finds or makes the node at a key.
func (n *node) sub(key string, made nodeKind) *node {
	c := n.keys[key]
	if c == nil {
		c = &node{kind: made, parent: n, step: Key(key), own: -1, keys: map[string]*node{}}
		if n.keys == nil {
			n.keys = map[string]*node{}
		}
		n.keys[key] = c
	}
	return c
}

// at finds the node at a step, nil if there is none.
func (n *node) at(s Step) *node {
	if s.isKey() {
		return n.keys[s.Key]
	}
	if s.Index < len(n.elems) {
		return n.elems[s.Index]
	}
	return nil
}

// tree finds what each statement is part of. The document is known to be valid.
func tree(all []stmt) *node {
	root := &node{own: -1, keys: map[string]*node{}}
	section := root
	for i := range all {
		s := &all[i]
		if s.kind == keyval {
			section.pass(i)
			section.place(s.keys, s.val, i, section, nil)
			continue
		}
		n := root
		for j, k := range s.keys {
			if j == len(s.keys)-1 && s.kind == arrayHeader {
				n = n.sub(k.name, tableOf).element(len(n.sub(k.name, tableOf).elems))
				continue
			}
			n = n.sub(k.name, aTable)
			if n.kind == tableOf && len(n.elems) > 0 {
				n = n.elems[len(n.elems)-1]
			}
		}
		n.own, section = i, n
		n.pass(i)
	}
	return root
}

func (n *node) element(i int) *node {
	c := &node{parent: n, step: Index(i), own: -1, keys: map[string]*node{}}
	n.elems = append(n.elems, c)
	return c
}

// pass notes a statement at n and all around it.
func (n *node) pass(stmt int) {
	for ; n != nil; n = n.parent {
		if l := len(n.stmts); l == 0 || n.stmts[l-1] != stmt {
			n.stmts = append(n.stmts, stmt)
		}
	}
}

// place puts a value below n, at dotted keys.
func (n *node) place(keys []part, v *value, stmt int, within *node, prefix []string) {
	for _, k := range keys[:len(keys)-1] {
		prefix = append(prefix[:len(prefix):len(prefix)], k.name)
		if n.keys[k.name] == nil {
			c := n.sub(k.name, aDotted)
			c.within, c.prefix = within, prefix
		}
		n = n.keys[k.name]
		n.stmts = append(n.stmts, stmt)
	}
	c := n.sub(keys[len(keys)-1].name, aValue)
	c.hold(v, stmt)
}

// hold makes n the node of a value, with what is inside it.
func (n *node) hold(v *value, stmt int) {
	n.kind, n.val, n.own = aValue, v, stmt
	n.stmts = append(n.stmts, stmt)
	switch v.kind {
	case unstable.Array:
		n.kind = aList
		for i, item := range v.items {
			n.element(i).hold(item, stmt)
		}
	case unstable.InlineTable:
		n.kind = anInline
		for _, p := range v.pairs {
			n.place(p.keys, p.val, stmt, n, nil)
		}
	}
}
