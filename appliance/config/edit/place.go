package edit

import (
	"bytes"
	"strings"
)

// Where new keys and tables go.

// sectionKeys are the statements under the header of a table, up to the next
// header; those above all headers for the root.
func (d *Doc) sectionKeys(n *node) []int {
	var out []int
	for i := n.own + 1; i < len(d.all) && d.all[i].kind == keyval; i++ {
		out = append(out, i)
	}
	return out
}

// region is the text from below the header of a table to the next header.
func (d *Doc) region(n *node) span {
	r := span{0, len(d.text)}
	if n.own >= 0 {
		r.start = d.all[n.own].line.end
	}
	if next := n.own + 1 + len(d.sectionKeys(n)); next < len(d.all) {
		r.end = d.all[next].line.start
	}
	return r
}

// freeLines calls do for each line of r that belongs to no statement, until it
// returns false.
func (d *Doc) freeLines(r span, do func(line span) bool) {
	next := 0
	for at := r.start; at < r.end; {
		for next < len(d.all) && d.all[next].line.end <= at {
			next++
		}
		if next < len(d.all) && d.all[next].line.start <= at {
			at = d.all[next].line.end
			continue
		}
		line := span{at, lineEnd(d.text, at)}
		if !do(line) {
			return
		}
		at = line.end
	}
}

// comment gives what stands behind the # of a line, and what stands before it.
func (d *Doc) comment(line span) (indent, text string, ok bool) {
	s := string(d.text[line.start:line.end])
	rest := strings.TrimLeft(s, " \t")
	indent = s[:len(s)-len(rest)]
	text, ok = strings.CutPrefix(rest, "#")
	return indent, strings.TrimRight(text, "\r\n"), ok
}

// commentedDefault finds the comment "#key = …" in the section of n.
func (d *Doc) commentedDefault(n *node, key string) (line span, indent, value string, ok bool) {
	d.freeLines(d.region(n), func(l span) bool {
		in, text, isComment := d.comment(l)
		if !isComment {
			return true
		}
		text = strings.TrimPrefix(text, " ")
		if strings.HasPrefix(text, "[") {
			return false // what follows is of another, commented-out table
		}
		after, has := strings.CutPrefix(text, key)
		after = strings.TrimLeft(after, " \t")
		if v, is := strings.CutPrefix(after, "="); has && is {
			line, indent, value, ok = l, in, strings.TrimSpace(v), true
			return false
		}
		return true
	})
	if !ok {
		return
	}
	// A list over several lines goes on in the comments below.
	open := brackets(value)
	for open > 0 {
		l := span{line.end, lineEnd(d.text, line.end)}
		_, text, more := d.comment(l)
		if !more {
			break
		}
		open += brackets(text)
		line.end = l.end
	}
	return
}

func brackets(s string) int {
	return strings.Count(s, "[") + strings.Count(s, "{") - strings.Count(s, "]") - strings.Count(s, "}")
}

func (d *Doc) inlineDefault(n *node, key string) bool {
	_, _, v, ok := d.commentedDefault(n, keyText(key))
	return ok && strings.HasPrefix(v, "{")
}

// placeFor finds the line start where a key goes in the section of n, and how
// lines are indented there.
func (d *Doc) placeFor(n *node, keys []string) (at int, indent string) {
	if line, indent, _, ok := d.commentedDefault(n, dotted(keys)); ok {
		return line.end, indent
	}
	own := d.sectionKeys(n)
	for i := len(own) - 1; i >= 0; i-- { // beside those with the same beginning
		if s := &d.all[own[i]]; len(keys) > 1 && s.keys[0].name == keys[0] {
			return s.line.end, d.indentOf(s.line)
		}
	}
	if len(own) > 0 {
		s := &d.all[own[len(own)-1]]
		return s.line.end, d.indentOf(s.line)
	}
	if n.own >= 0 {
		return d.all[n.own].line.end, d.indentOf(d.all[n.own].line)
	}
	return d.blockStart(d.region(n).end), ""
}

func (d *Doc) indentOf(line span) string {
	return string(d.text[line.start:blanks(d.text, line.start)])
}

// blockStart is where the comments begin that stand right above the line at `at`.
func (d *Doc) blockStart(at int) int {
	for at > 0 {
		start := lineStart(d.text, at-1)
		if _, _, ok := d.comment(span{start, at}); !ok {
			break
		}
		at = start
	}
	return at
}

func (d *Doc) blank(line span) bool {
	return len(bytes.TrimSpace(d.text[line.start:line.end])) == 0
}

// paragraph is the end of the comments that follow on a statement without a blank
// line, unless they lead over to the next statement.
func (d *Doc) paragraph(after int) int {
	from, limit := d.all[after].line.end, len(d.text)
	if after+1 < len(d.all) {
		limit = d.all[after+1].line.start
	}
	for at := from; at < limit; at = lineEnd(d.text, at) {
		if d.blank(span{at, lineEnd(d.text, at)}) {
			return at
		}
	}
	if limit == len(d.text) {
		return limit
	}
	return from
}

// tail is where a table below n goes: behind all that is of n.
func (d *Doc) tail(n *node) int {
	if n.parent == nil || len(n.stmts) == 0 {
		return len(d.text)
	}
	return d.paragraph(n.stmts[len(n.stmts)-1])
}

// commentedHeader finds the comment "#[head]" where a table can begin without
// taking keys away from another, and is below n; -1: there is none.
func (d *Doc) commentedHeader(n *node, head string) int {
	if n.kind == tableOf {
		return -1 // behind the elements that are there
	}
	found := -1
	foreign, last := false, -1
	d.freeLines(span{0, len(d.text)}, func(l span) bool {
		before := d.before(l.start)
		if before != last {
			foreign, last = false, before
		}
		_, text, ok := d.comment(l)
		text = strings.TrimSpace(text)
		if !ok || !strings.HasPrefix(text, "[") {
			return true
		}
		below := n.parent == nil || before >= 0 && n.has(before) && !foreign
		free := before+1 == len(d.all) || d.all[before+1].kind != keyval
		if text == head && below && free {
			found = l.end
			return false
		}
		foreign = foreign || strings.HasPrefix(text, "[[")
		return true
	})
	return found
}

// before is the last statement that begins before a place, -1 if there is none.
func (d *Doc) before(at int) int {
	lo, hi := 0, len(d.all)
	for lo < hi {
		if mid := (lo + hi) / 2; d.all[mid].line.start < at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// has says whether a statement is of n or below it.
func (n *node) has(stmt int) bool {
	for _, s := range n.stmts {
		if s == stmt {
			return true
		}
	}
	return false
}
