// Package edit changes a TOML document in place: every byte outside the values
// that change stays as it is, comments, order, spacing and line ends included.
//
// An edit is checked before it counts: the new text is decoded, and if it says
// anything but the old configuration with that one change, the edit fails and
// the document stays as it was.
//
// The byte ranges come from the parser of go-toml, which has no stable API; its
// version is pinned in go.mod and nothing outside this package sees it.
package edit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/BurntSushi/toml"
)

// Doc is a document that can be edited. It is not safe for concurrent use.
type Doc struct {
	text []byte // without a byte order mark
	mark bool   // it began with one
	all  []stmt
	root *node
	tree map[string]any
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// Parse reads a document, of at most MaxBytes. It takes what is well-formed
// TOML, whether the keys mean anything or not.
func Parse(text []byte) (*Doc, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("cannot edit %d bytes, at most %d", len(text), MaxBytes)
	}
	d := &Doc{text: slices.Clone(text)}
	d.text, d.mark = bytes.CutPrefix(d.text, byteOrderMark)
	var err error
	// The first of the two parsers bounds how deep values are nested.
	if d.all, err = statements(d.text); err != nil {
		return nil, fmt.Errorf("cannot read the document: %w", err)
	}
	if _, err := toml.Decode(string(d.text), &d.tree); err != nil {
		return nil, fmt.Errorf("cannot read the document: %w", err)
	}
	d.root = tree(d.all)
	return d, nil
}

// Bytes is the document as it is now.
func (d *Doc) Bytes() []byte {
	if d.mark {
		return append(slices.Clone(byteOrderMark), d.text...)
	}
	return slices.Clone(d.text)
}

// Get gives the value, the table (map[string]any) or the list ([]any) at path.
// It must not be changed.
func (d *Doc) Get(path Path) (any, bool) {
	var v any = d.tree
	for _, s := range path {
		switch x := v.(type) {
		case map[string]any:
			sub, ok := x[s.Key]
			if !ok || !s.isKey() {
				return nil, false
			}
			v = sub
		case []any:
			if s.isKey() || s.Index >= len(x) {
				return nil, false
			}
			v = x[s.Index]
		case []map[string]any:
			if s.isKey() || s.Index >= len(x) {
				return nil, false
			}
			v = x[s.Index]
		default:
			return nil, false
		}
	}
	if l, ok := v.([]map[string]any); ok {
		return untyped(l), true
	}
	return v, true
}

// Len is how many elements the list or array of tables at path has; 0 if there
// is none.
func (d *Doc) Len(path Path) int {
	v, _ := d.Get(path)
	l, _ := v.([]any)
	return len(l)
}

// Has says whether something stands at path.
func (d *Doc) Has(path Path) bool {
	_, ok := d.Get(path)
	return ok
}

// find walks along path as far as the document goes.
func (d *Doc) find(path Path) (n *node, rest Path) {
	n = d.root
	for i, s := range path {
		next := n.at(s)
		if next == nil {
			return n, path[i:]
		}
		n = next
	}
	return n, nil
}

// splice replaces a range of the document.
type splice struct {
	span
	with string
}

// change applies splices and keeps the result if it says what is intended.
func (d *Doc) change(path Path, cuts []splice, intended any) error {
	slices.SortStableFunc(cuts, func(a, b splice) int { return cmp.Compare(a.start, b.start) })
	var b bytes.Buffer
	pos := 0
	for _, c := range cuts {
		if c.start < pos {
			return fmt.Errorf("cannot edit %s: its parts overlap", path)
		}
		b.Write(d.text[pos:c.start])
		b.WriteString(c.with)
		pos = c.end
	}
	b.Write(d.text[pos:])
	next, err := Parse(b.Bytes())
	if err != nil {
		return fmt.Errorf("cannot edit %s in place, change it in the text: %w", path, errors.Unwrap(err))
	}
	if !Equal(next.tree, intended) {
		return fmt.Errorf("cannot edit %s in place without changing something else, change it in the text", path)
	}
	next.mark = d.mark
	*d = *next
	return nil
}

// newline is how lines end here.
func (d *Doc) newline() string {
	if i := bytes.IndexByte(d.text, '\n'); i > 0 && d.text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// lines makes the splice that puts whole lines at a line start, or at the end of
// a document whose last line may have no newline.
func (d *Doc) lines(at int, text string) splice {
	nl := d.newline()
	if nl != "\n" {
		text = string(bytes.ReplaceAll([]byte(text), []byte("\n"), []byte(nl)))
	}
	if at == len(d.text) && at > 0 && d.text[at-1] != '\n' {
		text = nl + text[:len(text)-len(nl)]
	}
	return splice{span{at, at}, text}
}
