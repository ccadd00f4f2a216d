package edit

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Set makes path hold v: a string, bool, int, int64, float64, or a list ([]any)
// or table (map[string]any) of such. A value that is there is replaced where it
// stands. A new key goes right below its commented-out default, if it has one in
// that table ("#key = …"), else below the last key of the table; a table that is
// missing is made. The index that is one beyond the last appends to a list or an
// array of tables. A table that is set is changed key by key.
func (d *Doc) Set(path Path, v any) error {
	if len(path) == 0 {
		return fmt.Errorf("cannot set the whole document as one value")
	}
	next := *d
	if err := next.set(path, v); err != nil {
		return err
	}
	*d = next
	return nil
}

func (d *Doc) set(path Path, v any) error {
	n, rest := d.find(path)
	if len(rest) > 0 {
		return d.insert(n, path[:len(path)-len(rest)], rest, v)
	}
	if n.val != nil {
		text, err := literal(v)
		if err != nil {
			return fmt.Errorf("cannot set %s: %w", path, err)
		}
		return d.put(path, v, splice{n.val.span, text})
	}
	switch n.kind {
	case aTable, aDotted:
		m, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("cannot set %s to a value: it is a table, set its keys", path)
		}
		return d.merge(path, n, m)
	default:
		list, ok := tables(v)
		if l, empty := v.([]any); empty && len(l) == 0 {
			return d.remove(path)
		} else if !ok {
			return fmt.Errorf("cannot set %s to this value: it is an array of tables", path)
		}
		return d.mergeList(path, n, list)
	}
}

// put changes the text so that path holds v.
func (d *Doc) put(path Path, v any, cuts ...splice) error {
	intended, err := with(d.tree, path, v)
	if err != nil {
		return fmt.Errorf("cannot set %s: %w", path, err)
	}
	return d.change(path, cuts, intended)
}

// merge makes the table at path equal to m.
func (d *Doc) merge(path Path, n *node, m map[string]any) error {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if err := d.set(path.with(Key(k)), m[k]); err != nil {
			return err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(n.keys)) {
		if _, keep := m[k]; !keep {
			if err := d.remove(path.with(Key(k))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Doc) mergeList(path Path, n *node, list []map[string]any) error {
	for i := len(n.elems) - 1; i >= len(list); i-- {
		if err := d.remove(path.with(Index(i))); err != nil {
			return err
		}
	}
	for i, m := range list {
		if err := d.set(path.with(Index(i)), m); err != nil {
			return err
		}
	}
	return nil
}

// Append adds a table to the end of the array of tables, or a value to the end
// of the list, at path. It makes the array of tables if there is none.
func (d *Doc) Append(path Path, v any) error {
	if len(path) == 0 || !path[len(path)-1].isKey() {
		return fmt.Errorf("cannot append to %s: wanted the path of a list", path)
	}
	return d.Set(path.with(Index(d.Len(path))), v)
}

// insert puts v at rest below n, which has nothing there.
func (d *Doc) insert(n *node, at, rest Path, v any) error {
	whole := at.with(rest...)
	if !rest[0].isKey() && rest[0].Index != len(n.elems) {
		return fmt.Errorf("cannot set %s: %s has %d elements", whole, at, len(n.elems))
	}
	switch {
	case n.kind == aList && !rest[0].isKey():
		text, err := literal(nested(rest[1:], v))
		if err != nil {
			return fmt.Errorf("cannot set %s: %w", whole, err)
		}
		return d.put(whole, v, d.intoList(n.val, text)...)
	case n.kind == tableOf && !rest[0].isKey():
		m, ok := nested(rest[1:], v).(map[string]any)
		if !ok {
			return fmt.Errorf("cannot append to %s: wanted a table", at)
		}
		return d.newTables(n, at.keys(), "[["+dotted(at.keys())+"]]", m, whole, v)
	case n.kind == anInline && rest[0].isKey():
		return d.intoInline(n, nil, rest, v)
	case n.kind == aDotted && rest[0].isKey() && n.within.kind == anInline:
		return d.intoInline(n.within, n.prefix, rest, v)
	case n.kind == aDotted && rest[0].isKey():
		return d.newKey(n.within, n.prefix, rest, v)
	case n.kind == aTable && rest[0].isKey():
		return d.intoTable(n, at, rest, v)
	}
	if n.kind == tableOf || n.kind == aList {
		return fmt.Errorf("cannot set %s: %s is a list; name one of it, as in %s[0] or %s[NAME]", whole, at, at, at)
	}
	return fmt.Errorf("cannot set %s: %s is no table or list", whole, at)
}

// nested wraps v so that it stands at rest.
func nested(rest Path, v any) any {
	for _, s := range slices.Backward(rest) {
		if s.isKey() {
			v = map[string]any{s.Key: v}
		} else {
			v = []any{v}
		}
	}
	return v
}

// intoTable adds to a table that headers make.
func (d *Doc) intoTable(n *node, at, rest Path, v any) error {
	whole := at.with(rest...)
	last := len(rest) - 1
	for i, s := range rest {
		if !s.isKey() && (s.Index != 0 || i == 0) {
			return fmt.Errorf("cannot set %s: it is not the next element", whole)
		}
	}
	if last > 0 && !rest[1].isKey() { // a list that is not there yet
		m, ok := nested(rest[2:], v).(map[string]any)
		keys := append(at.keys(), rest[0].Key)
		if ok {
			return d.newTables(n, keys, "[["+dotted(keys)+"]]", m, whole, v)
		}
		return d.intoTable(n, at, rest[:1], nested(rest[1:], v))
	}
	if last > 0 {
		keys := append(at.keys(), rest[0].Key)
		m, _ := nested(rest[1:], v).(map[string]any)
		for len(m) == 1 { // name the innermost table only
			k := slices.Sorted(maps.Keys(m))[0]
			sub, ok := m[k].(map[string]any)
			if !ok || len(keys)-len(at.keys()) >= last {
				break
			}
			keys, m = append(keys, k), sub
		}
		return d.newTables(n, keys, "["+dotted(keys)+"]", m, whole, v)
	}
	keys := append(at.keys(), rest[0].Key)
	if list, ok := tables(v); ok {
		for i, m := range list {
			if err := d.set(whole.with(Index(i)), m); err != nil {
				return err
			}
		}
		return nil
	}
	if m, ok := v.(map[string]any); ok && !d.inlineDefault(n, rest[0].Key) {
		return d.newTables(n, keys, "["+dotted(keys)+"]", m, whole, v)
	}
	if n.own < 0 && n.parent != nil { // implied by the header of another table
		return d.newTables(n, at.keys(), "["+dotted(at.keys())+"]", map[string]any{rest[0].Key: v}, whole, v)
	}
	return d.newKey(n, nil, rest, v)
}

// newKey adds a key to the section of a table: below its commented-out default,
// else below the last key, else below the header.
func (d *Doc) newKey(n *node, prefix []string, rest Path, v any) error {
	whole := n.path()
	for _, k := range prefix {
		whole = append(whole, Key(k))
	}
	whole = whole.with(rest...)
	keys := prefix
	for len(rest) > 0 && rest[0].isKey() {
		keys, rest = append(keys[:len(keys):len(keys)], rest[0].Key), rest[1:]
	}
	text, err := literal(nested(rest, v))
	if err != nil {
		return fmt.Errorf("cannot set %s: %w", whole, err)
	}
	at, indent := d.placeFor(n, keys)
	text = indent + dotted(keys) + " = " + text + "\n"
	if at == d.blockStart(d.region(n).end) && n.own < 0 && len(d.sectionKeys(n)) == 0 && at < len(d.text) {
		text += "\n" // the first key of all, above a table
	}
	return d.put(whole, v, d.lines(at, text))
}

// intoInline adds a pair to an inline table.
func (d *Doc) intoInline(n *node, prefix []string, rest Path, v any) error {
	whole := n.path()
	keys := prefix
	for _, k := range prefix {
		whole = append(whole, Key(k))
	}
	whole = whole.with(rest...)
	for len(rest) > 0 && rest[0].isKey() {
		keys, rest = append(keys[:len(keys):len(keys)], rest[0].Key), rest[1:]
	}
	text, err := literal(nested(rest, v))
	if err != nil {
		return fmt.Errorf("cannot set %s: %w", whole, err)
	}
	items := make([]span, len(n.val.pairs))
	for i, p := range n.val.pairs {
		items[i] = p.span
	}
	return d.put(whole, v, d.intoBrackets(n.val, items, dotted(keys)+" = "+text)...)
}

func (d *Doc) intoList(v *value, text string) []splice {
	items := make([]span, len(v.items))
	for i, it := range v.items {
		items[i] = it.span
	}
	return d.intoBrackets(v, items, text)
}

// intoBrackets adds an element behind the last one, on a line of its own where
// that one has one.
func (d *Doc) intoBrackets(v *value, items []span, text string) []splice {
	if len(items) == 0 {
		at := v.start + 1
		switch {
		case v.kind != unstable.InlineTable:
		case v.end == at+1:
			text = " " + text + " "
		default:
			text = " " + text
		}
		return []splice{{span{at, at}, text}}
	}
	last := items[len(items)-1]
	comma := commaAfter(d.text, last.end)
	start := lineStart(d.text, last.start)
	indent := d.text[start:last.start]
	if start < v.start || len(bytes.TrimLeft(indent, " \t")) > 0 {
		if comma >= 0 {
			return []splice{{span{comma + 1, comma + 1}, " " + text}}
		}
		return []splice{{span{last.end, last.end}, ", " + text}}
	}
	nl := d.newline()
	if comma >= 0 {
		at := lineEnd(d.text, comma)
		if at > v.end-1 || d.text[at-1] != '\n' { // the bracket stands on the line of the last element
			return []splice{{span{comma + 1, comma + 1}, " " + text}}
		}
		return []splice{{span{at, at}, string(indent) + text + "," + nl}}
	}
	at := lineEnd(d.text, last.end)
	if at > v.end-1 {
		return []splice{{span{last.end, last.end}, "," + nl + string(indent) + text}}
	}
	return []splice{{span{last.end, last.end}, ","}, {span{at, at}, string(indent) + text + nl}}
}

// commaAfter finds the comma behind an element, -1 if there is none.
func commaAfter(text []byte, at int) int {
	for at < len(text) {
		switch text[at] {
		case ',':
			return at
		case ' ', '\t', '\r', '\n':
			at++
		case '#':
			at = lineEnd(text, at)
		default:
			return -1
		}
	}
	return -1
}

// newTables adds a table with a header of its own below n. whole holds v then.
func (d *Doc) newTables(n *node, keys []string, head string, m map[string]any, whole Path, v any) error {
	var b strings.Builder
	if err := section(&b, head, keys, m, 0); err != nil {
		return fmt.Errorf("cannot set %s: %w", whole, err)
	}
	text := b.String()
	if at := d.commentedHeader(n, head); at >= 0 {
		return d.put(whole, v, d.lines(at, text))
	}
	at := d.tail(n)
	if before := strings.TrimSuffix(string(d.text[:at]), "\n"); before != "" && !strings.HasSuffix(strings.ReplaceAll(before, "\r", ""), "\n") {
		text = "\n" + text
	}
	if at < len(d.text) && !d.blank(span{at, lineEnd(d.text, at)}) {
		text += "\n"
	}
	return d.put(whole, v, d.lines(at, text))
}
