package main

import "math/bits"

// inLoops says for each instruction whether it lies in a loop: the body of an
// edge back to a block that dominates the edge's begin. A jump back alone makes
// none, since rare paths (a divergent shuffle, a slow division) lie at the end
// of a function and return from there.
func (f *function) inLoops() []bool {
	g := newGraph(f)
	in := make([]bool, len(f.code))
	for from, succ := range g.next {
		for _, head := range succ {
			if g.dominates(head, from) {
				for block, ok := range g.body(head, from) {
					if ok {
						for i := g.begin[block]; i < g.begin[block+1]; i++ {
							in[i] = true
						}
					}
				}
			}
		}
	}
	return in
}

// graph holds the basic blocks of a function.
type graph struct {
	begin      []int // first instruction of each block, and one past the last
	next, prev [][]int
	dominators []bitset // of each block that can be reached, itself included
}

type bitset []uint64

func (b bitset) has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }

func newGraph(f *function) *graph {
	leader := make([]bool, len(f.code)+1)
	leader[0], leader[len(f.code)] = true, true
	for _, at := range f.labels {
		leader[at] = true
	}
	for i, in := range f.code {
		if len(in.targets) > 0 || in.ends {
			leader[i+1] = true
		}
	}
	g := &graph{}
	block := make([]int, len(f.code)+1)
	for i, l := range leader {
		if l {
			g.begin = append(g.begin, i)
		}
		block[i] = len(g.begin) - 1
	}
	n := len(g.begin) - 1
	g.next, g.prev = make([][]int, n), make([][]int, n)
	edge := func(from, to int) {
		if to < n { // not past the end
			g.next[from], g.prev[to] = append(g.next[from], to), append(g.prev[to], from)
		}
	}
	for b := range n {
		last := f.code[g.begin[b+1]-1]
		for _, to := range last.targets {
			edge(b, block[f.labels[to]])
		}
		if !last.ends {
			edge(b, b+1)
		}
	}
	g.dominate(n)
	return g
}

// dominate computes dominators by iteration: those of a block are itself and
// what all its predecessors have in common.
func (g *graph) dominate(n int) {
	words := (n + 63) / 64
	g.dominators = make([]bitset, n)
	if n == 0 {
		return
	}
	g.dominators[0] = make(bitset, words)
	g.dominators[0][0] = 1
	for changed := true; changed; {
		changed = false
		for b := 1; b < n; b++ {
			var common bitset
			for _, p := range g.prev[b] {
				switch {
				case g.dominators[p] == nil:
				case common == nil:
					common = append(bitset(nil), g.dominators[p]...)
				default:
					for w := range common {
						common[w] &= g.dominators[p][w]
					}
				}
			}
			if common == nil {
				continue // not reached, or not yet
			}
			common[b/64] |= 1 << (b % 64)
			if g.dominators[b] == nil || size(common) != size(g.dominators[b]) {
				g.dominators[b], changed = common, true
			}
		}
	}
}

func size(b bitset) int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

func (g *graph) dominates(a, b int) bool { return g.dominators[b] != nil && g.dominators[b].has(a) }

// body is the loop of the edge from tail back to head: the blocks that reach
// tail without passing head.
func (g *graph) body(head, tail int) []bool {
	in := make([]bool, len(g.next))
	in[head] = true
	for stack := []int{tail}; len(stack) > 0; {
		b := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !in[b] {
			in[b] = true
			stack = append(stack, g.prev[b]...)
		}
	}
	return in
}
