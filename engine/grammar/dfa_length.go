package grammar

import "slices"

// lengthTable says for every state which numbers of further code points lead
// to acceptance; see guard for its form.
type lengthTable struct {
	atLeast [][]int32
	known   int
}

// maxLengthSteps bounds how far lengths are followed before they must repeat.
const maxLengthSteps = 4096

// lengths computes the table for numbers up to most (< 0: without limit). ok
// is false where they neither end nor settle within maxLengthSteps, as with a
// pattern for even lengths.
func (d *dfa) lengths(b *budget, most int) (t lengthTable, ok bool) {
	n := len(d.states)
	now := make([]bool, n) // accepts with exactly k more
	for q := range now {
		now[q] = d.states[q].accept
	}
	steps := [][]bool{now}
	for k := 0; most < 0 || k < most; k++ {
		if k > maxLengthSteps || !b.spend(n) {
			return t, false
		}
		next := make([]bool, n)
		for q := range next {
			for _, e := range d.states[q].edges {
				if now[e.to] {
					next[q] = true
					break
				}
			}
		}
		if slices.Equal(now, next) {
			break
		}
		steps = append(steps, next)
		now = next
	}
	t.known = len(steps)
	t.atLeast = make([][]int32, n)
	for q := range t.atLeast {
		row := make([]int32, len(steps))
		best := int32(-1)
		for k := len(steps) - 1; k >= 0; k-- {
			if steps[k][q] {
				best = int32(k)
			}
			row[k] = best
		}
		t.atLeast[q] = row
	}
	return t, true
}

// admits reports whether some text of lo to hi code points is accepted.
func (t *lengthTable) admits(lo, hi int) bool {
	g := guard{atLeast: t.atLeast[0]}
	need := g.need(int32(lo))
	return need >= 0 && (hi < 0 || int(need) <= hi)
}
