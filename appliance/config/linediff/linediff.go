// Package linediff compares two texts line by line and writes the difference in
// the unified format, as diff -u does.
package linediff

import (
	"fmt"
	"strings"
)

// Context is how many equal lines stand around a change.
const Context = 3

// maxEdits bounds the work on texts that have little in common: beyond it what
// lies between their equal ends is shown as replaced.
const maxEdits = 1500

// op is a run of lines that are equal, only in a, or only in b.
type op struct {
	kind byte // ' ', '-' or '+'
	a, b int  // first line in each
	n    int
}

// Unified gives the difference between a and b, empty if they are equal. Names
// stand in its head.
func Unified(nameA, nameB, a, b string) string {
	if a == b {
		return ""
	}
	la, lb := lines(a), lines(b)
	ops := compare(la, lb)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", nameA, nameB)
	for _, h := range hunks(ops) {
		h.write(&out, la, lb)
	}
	return out.String()
}

// lines splits a text behind its newlines.
func lines(s string) []string {
	if s == "" {
		return nil
	}
	l := strings.SplitAfter(s, "\n")
	if l[len(l)-1] == "" {
		l = l[:len(l)-1]
	}
	return l
}

// compare finds a short list of edits: equal ends aside, by Myers' greedy
// algorithm (An O(ND) difference algorithm and its variations, 1986).
func compare(a, b []string) []op {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var ops []op
	add := func(kind byte, x, y, n int) {
		if n == 0 {
			return
		}
		if l := len(ops); l > 0 && ops[l-1].kind == kind {
			ops[l-1].n += n
			return
		}
		ops = append(ops, op{kind, x, y, n})
	}
	add(' ', 0, 0, head)
	middle(a[head:len(a)-tail], b[head:len(b)-tail], func(kind byte, x, y, n int) { add(kind, head+x, head+y, n) })
	add(' ', len(a)-tail, len(b)-tail, tail)
	return ops
}

func middle(a, b []string, add func(kind byte, x, y, n int)) {
	trace := shortest(a, b)
	if trace == nil {
		add('-', 0, 0, len(a))
		add('+', len(a), 0, len(b))
		return
	}
	// Walk back from the end, then tell it forwards.
	type step struct {
		kind    byte
		x, y, n int
	}
	var back []step
	x, y := len(a), len(b)
	for d := len(trace) - 1; d >= 0; d-- {
		v, k := trace[d], x-y
		down := k == -d || k != d && v[off(d, k-1)] < v[off(d, k+1)]
		prev := k - 1
		if down {
			prev = k + 1
		}
		px := 0
		if d > 0 {
			px = v[off(d, prev)]
		}
		py := px - prev
		if d == 0 {
			px, py = 0, 0
			back = append(back, step{' ', 0, 0, x})
			break
		}
		sx, sy := px+1, py
		if down {
			sx, sy = px, py+1
		}
		back = append(back, step{' ', sx, sy, x - sx})
		if down {
			back = append(back, step{'+', px, py, 1})
		} else {
			back = append(back, step{'-', px, py, 1})
		}
		x, y = px, py
	}
	for i := len(back) - 1; i >= 0; i-- {
		add(back[i].kind, back[i].x, back[i].y, back[i].n)
	}
}

// off is where diagonal k of the round before d is kept: those from -d to d.
func off(d, k int) int { return k + d }

// shortest gives, for each number of edits, how far each diagonal had come before
// it; nil if more than maxEdits are needed.
func shortest(a, b []string) [][]int {
	var trace [][]int
	now := map[int]int{1: 0}
	for d := 0; d <= min(len(a)+len(b), maxEdits); d++ {
		kept := make([]int, 2*d+1)
		for k := -d; k <= d; k++ {
			kept[off(d, k)] = now[k]
		}
		trace = append(trace, kept)
		for k := -d; k <= d; k += 2 {
			x := now[k-1] + 1
			if k == -d || k != d && now[k-1] < now[k+1] {
				x = now[k+1]
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			now[k] = x
			if x >= len(a) && x-k >= len(b) {
				return trace
			}
		}
	}
	return nil
}

// hunk is a group of changes with the equal lines around them.
type hunk struct {
	a, b, na, nb int
	ops          []op
}

func hunks(ops []op) []hunk {
	var out []hunk
	var h *hunk
	for i, o := range ops {
		if o.kind != ' ' {
			if h == nil {
				out = append(out, hunk{a: o.a, b: o.b})
				h = &out[len(out)-1]
			}
			h.add(o)
			continue
		}
		if h != nil { // what follows on a change
			n := min(o.n, Context)
			if i < len(ops)-1 && o.n <= 2*Context {
				n = o.n
			}
			h.add(op{' ', o.a, o.b, n})
			if n == o.n && i < len(ops)-1 {
				continue
			}
			h = nil
		}
		if i < len(ops)-1 { // what leads to the next
			n := min(o.n, Context)
			out = append(out, hunk{a: o.a + o.n - n, b: o.b + o.n - n})
			h = &out[len(out)-1]
			h.add(op{' ', h.a, h.b, n})
		}
	}
	return out
}

func (h *hunk) add(o op) {
	h.ops = append(h.ops, o)
	if o.kind != '+' {
		h.na += o.n
	}
	if o.kind != '-' {
		h.nb += o.n
	}
}

func (h *hunk) write(out *strings.Builder, a, b []string) {
	fmt.Fprintf(out, "@@ -%s +%s @@\n", place(h.a, h.na), place(h.b, h.nb))
	for _, o := range h.ops {
		from, at := a, o.a
		if o.kind == '+' {
			from, at = b, o.b
		}
		for _, l := range from[at : at+o.n] {
			out.WriteByte(o.kind)
			out.WriteString(l)
			if !strings.HasSuffix(l, "\n") {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
}

// place writes where a hunk is; one without lines stands behind a line.
func place(at, n int) string {
	if n == 0 {
		return fmt.Sprintf("%d,0", at)
	}
	if n == 1 {
		return fmt.Sprint(at + 1)
	}
	return fmt.Sprintf("%d,%d", at+1, n)
}
