package wire

import (
	"encoding/json"
	"maps"
	"slices"

	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// Member is a top-level member of a body with its exact text.
type Member struct {
	Name  string
	Value []byte
}

// Members gives what Wire.Set replaces, in a fixed order.
func Members(set map[string]json.RawMessage) []Member {
	out := make([]Member, 0, len(set)+2)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		out = append(out, Member{name, set[name]})
	}
	return out
}

// Splice returns a copy of body with the members of set in place of its own of
// the same name, or behind them where it has none. Every other byte stays as it
// is. A name that stands there twice is replaced twice: two readers must not
// find two values. same says which names are one; nil: those that are equal.
func Splice(body []byte, set []Member, same func(a, b string) bool) ([]byte, bool) {
	size := len(body)
	for _, m := range set {
		size += len(m.Name) + len(m.Value) + 4
	}
	dst := make([]byte, 0, size)
	done := make([]bool, len(set))
	var c jsonread.Cursor
	c.Reset(body)
	if k, ok := c.Kind(); !ok || k != jsonread.Object {
		return nil, false
	}
	from, some := 0, false
	for c.Object(); c.More(); {
		some = true
		name := jsonread.Unescape(c.Key())
		at := slices.IndexFunc(set, func(m Member) bool { return m.Name == name || same != nil && same(m.Name, name) })
		raw := c.Raw()
		if at < 0 || !c.OK() {
			continue
		}
		dst = append(append(dst, body[from:c.Offset()-len(raw)]...), set[at].Value...)
		from, done[at] = c.Offset(), true
	}
	if !c.End() {
		return nil, false
	}
	last := len(body) - 1
	for body[last] != '}' { // only white space follows it
		last--
	}
	dst = append(dst, body[from:last]...)
	for i, m := range set {
		if done[i] {
			continue
		}
		if some {
			dst = append(dst, ',')
		}
		some = true
		dst = append(append(jsonwrite.String(dst, m.Name), ':'), m.Value...)
	}
	return append(dst, body[last:]...), true
}
