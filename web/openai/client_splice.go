package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"hearth/web/jsonread"
)

// member is a top-level member that a body is sent with in place of its own.
type member struct {
	name  string
	value []byte
}

// splice returns a copy of body, which is one JSON object, with the members of
// set in place of its own of the same names, or behind them where it has none.
// Every other byte stays as it is. A name that stands there twice is replaced
// twice: two readers must not find two values.
func splice(body []byte, set []member) ([]byte, bool) {
	size := len(body)
	for _, m := range set {
		size += len(m.name) + len(m.value) + 4
	}
	dst := make([]byte, 0, size)
	var c jsonread.Cursor
	c.Reset(body)
	if k, ok := c.Kind(); !ok || k != jsonread.Object {
		return nil, false
	}
	var done uint64
	from, some := 0, false
	for c.Object(); c.More(); {
		some = true
		at := find(set, c.Key())
		raw := c.Raw()
		if at < 0 || !c.OK() {
			continue
		}
		begin := c.Offset() - len(raw)
		dst = append(append(dst, body[from:begin]...), set[at].value...)
		from = c.Offset()
		done |= 1 << at
	}
	if !c.End() || len(set) > 64 {
		return nil, false
	}
	last := bytes.LastIndexByte(body, '}')
	dst = append(dst, body[from:last]...)
	for i, m := range set {
		if done&(1<<i) != 0 {
			continue
		}
		if some {
			dst = append(dst, ',')
		}
		some = true
		dst = append(append(append(dst, '"'), m.name...), `":`...)
		dst = append(dst, m.value...)
	}
	return append(dst, body[last:]...), true
}

// find returns the index of the member with the name key, which may be escaped;
// -1 if there is none.
func find(set []member, key []byte) int {
	for i := range set {
		if string(key) == set[i].name || bytes.IndexByte(key, '\\') >= 0 && jsonread.Unescape(key) == set[i].name {
			return i
		}
	}
	return -1
}

// get returns the exact text of a top-level member, nil if there is none.
func get(body []byte, name string) []byte {
	var c jsonread.Cursor
	c.Reset(body)
	var raw []byte
	want := []member{{name: name}}
	for ok := c.Object(); ok && c.More(); {
		if find(want, c.Key()) == 0 {
			raw = c.Raw()
			continue
		}
		c.Skip()
	}
	return raw
}

// members gives what Wire.Set replaces, in a fixed order.
func members(set map[string]json.RawMessage) []member {
	out := make([]member, 0, len(set)+2)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		out = append(out, member{name, set[name]})
	}
	return out
}
