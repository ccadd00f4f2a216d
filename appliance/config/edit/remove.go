package edit

import (
	"fmt"
	"slices"
)

// Delete removes what stands at path: a key with its line, an element, a table
// with everything in it. The comments between its keys go with a table, those
// above its header stay, except above the second and later elements of an array
// of tables, where they are about that element.
func (d *Doc) Delete(path Path) error {
	next := *d
	if err := next.remove(path); err != nil {
		return err
	}
	*d = next
	return nil
}

func (d *Doc) remove(path Path) error {
	n, rest := d.find(path)
	if len(rest) > 0 || n.parent == nil {
		return fmt.Errorf("cannot remove %s: there is no such key", path)
	}
	return d.change(path, d.cuts(n), d.treeWithout(n))
}

// treeWithout is the configuration without n. Tables that are there only because
// of it, by dotted keys or by the headers of tables in them, go as well.
func (d *Doc) treeWithout(n *node) any {
	for n.parent.parent != nil {
		p := n.parent
		implied := p.kind == aDotted || p.kind == aTable && p.own < 0
		if !(implied && len(p.keys) == 1 || p.kind == tableOf && len(p.elems) == 1) {
			break
		}
		n = p
	}
	return without(d.tree, n.path())
}

// cuts are the ranges that make up n.
func (d *Doc) cuts(n *node) []splice {
	p := n.parent
	switch {
	case n.val != nil && p.kind == aList:
		items := make([]span, len(p.val.items))
		for i, it := range p.val.items {
			items[i] = it.span
		}
		return d.outOfBrackets(items, func(i int) bool { return i == n.step.Index })
	case n.inline() != nil:
		in := n.inline()
		items := make([]span, len(in.val.pairs))
		for i, pr := range in.val.pairs {
			items[i] = pr.span
		}
		keys := n.path()[len(in.path()):].keys()
		return d.outOfBrackets(items, func(i int) bool { return begins(in.val.pairs[i].keys, keys) })
	case n.val != nil || n.kind == aDotted:
		var out []splice
		for _, i := range unique(n.stmts) {
			out = append(out, splice{d.all[i].line, ""})
		}
		return out
	}
	return d.sections(n)
}

// inline is the inline table around a key, nil if it is in none.
func (n *node) inline() *node {
	p := n.parent
	if p != nil && p.kind == aDotted {
		p = p.within
	}
	if p != nil && p.kind == anInline {
		return p
	}
	return nil
}

func begins(keys []part, with []string) bool {
	return len(keys) >= len(with) && slices.EqualFunc(keys[:len(with)], with, func(p part, s string) bool { return p.name == s })
}

func unique(list []int) []int { return slices.Compact(slices.Clone(list)) }

// sections are the lines of a table and all below it, header by header.
func (d *Doc) sections(n *node) []splice {
	var out []splice
	stmts := unique(n.stmts)
	for i := 0; i < len(stmts); {
		j := i
		for j+1 < len(stmts) && stmts[j+1] == stmts[j]+1 {
			j++
		}
		first, last := stmts[i], stmts[j]
		cut := span{d.all[first].line.start, d.paragraph(last)}
		if n.parent.kind == tableOf && n.step.Index > 0 && first == n.own {
			cut.start = d.blockStart(cut.start)
		}
		// One of two blank lines around it goes as well.
		above := cut.start == 0 || d.blank(span{lineStart(d.text, cut.start-1), cut.start})
		if end := lineEnd(d.text, cut.end); above && end > cut.end && d.blank(span{cut.end, end}) {
			cut.end = end
		} else if above && cut.end == len(d.text) && cut.start > 0 {
			cut.start = lineStart(d.text, cut.start-1)
		}
		out = append(out, splice{cut, ""})
		i = j + 1
	}
	return out
}

// outOfBrackets removes elements of a list or inline table with their commas.
func (d *Doc) outOfBrackets(items []span, gone func(int) bool) []splice {
	var out []splice
	kept := -1 // the last element that stays
	for i, it := range items {
		if !gone(i) {
			kept = i
			continue
		}
		comma := commaAfter(d.text, it.end)
		cut := it
		if comma >= 0 {
			cut.end = comma + 1
		}
		out = append(out, splice{d.wholeLine(cut), ""})
	}
	// Without a comma behind the last one, the one before it must lose its own.
	last := len(items) - 1
	if kept >= 0 && kept < last && commaAfter(d.text, items[last].end) < 0 {
		c := commaAfter(d.text, items[kept].end)
		out = append(out, splice{span{c, c + 1}, ""})
	}
	return out
}

// wholeLine widens a cut to its line, with the comment on it, if nothing else
// stands there; else to the blanks behind it.
func (d *Doc) wholeLine(cut span) span {
	start, end := lineStart(d.text, cut.start), blanks(d.text, cut.end)
	rest := d.text[end:lineEnd(d.text, end)]
	alone := blanks(d.text, start) == cut.start && len(rest) > 0 && (rest[0] == '#' || rest[0] == '\n' || rest[0] == '\r')
	if alone {
		return span{start, end + len(rest)}
	}
	if len(rest) > 0 && (rest[0] == '\n' || rest[0] == '\r' || rest[0] == '#') {
		return span{blanksBack(d.text, cut.start), cut.end}
	}
	return span{cut.start, end}
}

// Rename gives the last key of path another name, in every place where it is
// written: headers, dotted keys, tables below it.
func (d *Doc) Rename(path Path, name string) error {
	n, rest := d.find(path)
	if len(rest) > 0 || n.parent == nil || !n.step.isKey() {
		return fmt.Errorf("cannot rename %s: there is no such key", path)
	}
	if n.parent.keys[name] != nil {
		return fmt.Errorf("cannot rename %s: %q is there already", path, name)
	}
	var cuts []splice
	if in := n.inline(); in != nil {
		keys := n.path()[len(in.path()):].keys()
		for _, p := range in.val.pairs {
			if begins(p.keys, keys) {
				cuts = append(cuts, splice{p.keys[len(keys)-1].span, keyText(name)})
			}
		}
	} else {
		depth := len(path.keys())
		for _, i := range unique(n.stmts) {
			s := &d.all[i]
			at := depth - 1 // which of its keys
			if s.kind == keyval {
				at -= d.headerDepth(i)
			}
			if at >= 0 && at < len(s.keys) {
				cuts = append(cuts, splice{s.keys[at].span, keyText(name)})
			}
		}
	}
	next := *d
	if err := next.change(path, cuts, renamed(d.tree, path, name)); err != nil {
		return err
	}
	*d = next
	return nil
}

// headerDepth is how many keys the header above a statement has.
func (d *Doc) headerDepth(stmt int) int {
	for ; stmt >= 0; stmt-- {
		if d.all[stmt].kind != keyval {
			return len(d.all[stmt].keys)
		}
	}
	return 0
}
