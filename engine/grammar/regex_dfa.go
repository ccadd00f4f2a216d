package grammar

import (
	"encoding/binary"
	"slices"
	"sort"
)

// A position automaton over code points, from which a dfa is made by sets. The
// anchors are steps that only the first closure (^) or only the question
// whether a set accepts ($) may take.

type reOp uint8

const (
	reStepRune reOp = iota // a code point of class, then a
	reStepSplit
	reStepBegin
	reStepEnd
	reStepAny // any code point, then a
	reStepMatch
)

type reStep struct {
	op    reOp
	a, b  int32
	class int32
}

type reAutomaton struct {
	steps   []reStep
	sets    []runeSet // by class
	cuts    []rune    // first code point of each interval that the sets do not tell apart
	in      [][]bool  // by class, by interval
	bud     *budget
	seen    []uint32
	stamp   uint32
	initial int32
}

// search makes the automaton of the texts in which n matches somewhere.
func (n *reNode) search(bud *budget) (*dfa, error) {
	if n.size() > 16*maxExpanded {
		return nil, faultf("its repetitions multiply to more than %d states", 16*maxExpanded)
	}
	a := &reAutomaton{bud: bud}
	after := a.add(reStep{op: reStepMatch})
	tail := a.add(reStep{op: reStepAny})
	a.steps[tail].a = tail
	after = a.add(reStep{op: reStepSplit, a: after, b: tail})
	a.steps[tail].a = after
	body := a.emit(n, after)
	head := a.add(reStep{op: reStepAny})
	a.initial = a.add(reStep{op: reStepSplit, a: body, b: head})
	a.steps[head].a = a.initial
	if bud.err != nil {
		return nil, bud.err
	}
	a.intervals()
	return a.determinize()
}

func (a *reAutomaton) add(s reStep) int32 {
	a.bud.spend(1)
	a.steps = append(a.steps, s)
	return int32(len(a.steps) - 1)
}

func (a *reAutomaton) emit(n *reNode, next int32) int32 {
	switch n.kind {
	case reClass:
		a.sets = append(a.sets, n.set)
		return a.add(reStep{op: reStepRune, a: next, class: int32(len(a.sets) - 1)})
	case reBegin:
		return a.add(reStep{op: reStepBegin, a: next})
	case reEnd:
		return a.add(reStep{op: reStepEnd, a: next})
	case reSeq:
		for i := len(n.subs) - 1; i >= 0; i-- {
			next = a.emit(n.subs[i], next)
		}
	case reAlt:
		first := a.emit(n.subs[len(n.subs)-1], next)
		for i := len(n.subs) - 2; i >= 0; i-- {
			first = a.add(reStep{op: reStepSplit, a: a.emit(n.subs[i], next), b: first})
		}
		return first
	case reRepeat:
		if n.max < 0 {
			loop := a.add(reStep{op: reStepSplit, b: next})
			a.steps[loop].a = a.emit(n.subs[0], loop)
			next = loop
		}
		end := next
		for i := n.max; i > n.min; i-- {
			next = a.add(reStep{op: reStepSplit, a: a.emit(n.subs[0], next), b: end})
		}
		for i := 0; i < n.min; i++ {
			next = a.emit(n.subs[0], next)
		}
	}
	return next
}

// intervals cuts the code points so that each class is a union of pieces. Equal
// classes are made one first.
func (a *reAutomaton) intervals() {
	distinct := map[string]int32{}
	var sets []runeSet
	number := make([]int32, len(a.sets))
	for i, s := range a.sets {
		var key []byte
		for _, r := range s {
			key = binary.LittleEndian.AppendUint32(key, uint32(r.lo))
			key = binary.LittleEndian.AppendUint32(key, uint32(r.hi))
		}
		k, ok := distinct[string(key)]
		if !ok {
			k = int32(len(sets))
			distinct[string(key)] = k
			sets = append(sets, s)
		}
		number[i] = k
	}
	for i := range a.steps {
		if a.steps[i].op == reStepRune {
			a.steps[i].class = number[a.steps[i].class]
		}
	}
	a.sets = sets
	cuts := []rune{0, 0xD800, 0xE000, 0x110000}
	for _, s := range sets {
		for _, r := range s {
			cuts = append(cuts, r.lo, r.hi+1)
		}
	}
	slices.Sort(cuts)
	a.cuts = slices.Compact(cuts)
	a.in = make([][]bool, len(sets))
	for c, s := range sets {
		a.bud.spend(len(a.cuts))
		row := make([]bool, len(a.cuts)-1)
		for _, r := range s {
			i := sort.Search(len(a.cuts), func(i int) bool { return a.cuts[i] >= r.lo })
			for ; a.cuts[i] <= r.hi; i++ {
				row[i] = true
			}
		}
		a.in[c] = row
	}
}

// closure follows steps that take no code point from the given ones.
func (a *reAutomaton) closure(from []int32, begin, end bool) []int32 {
	if a.seen == nil {
		a.seen = make([]uint32, len(a.steps))
	}
	a.stamp++
	var out []int32
	work := slices.Clone(from)
	for len(work) > 0 {
		pc := work[len(work)-1]
		work = work[:len(work)-1]
		if a.seen[pc] == a.stamp {
			continue
		}
		a.seen[pc] = a.stamp
		a.bud.spend(1)
		switch s := a.steps[pc]; s.op {
		case reStepSplit:
			work = append(work, s.a, s.b)
		case reStepBegin:
			if begin {
				work = append(work, s.a)
			}
		case reStepEnd:
			out = append(out, pc)
			if end {
				work = append(work, s.a)
			}
		default:
			out = append(out, pc)
		}
	}
	slices.Sort(out)
	return out
}

const matchStep = 0 // search makes it first

// accepts reports whether the text may end in this set.
func (a *reAutomaton) accepts(set []int32, begin bool) bool {
	all := a.closure(set, begin, true)
	return len(all) > 0 && all[0] == matchStep
}

func (a *reAutomaton) determinize() (*dfa, error) {
	d := &dfa{}
	ids := map[string]int32{}
	var order [][]int32
	id := func(set []int32, begin bool) int32 {
		if len(set) > 0 && set[0] == matchStep {
			set = set[:1] // matched already: anything may follow
		}
		key := make([]byte, 0, 4*len(set)+1)
		for _, pc := range set {
			key = binary.LittleEndian.AppendUint32(key, uint32(pc))
		}
		if begin {
			key = append(key, 1)
		}
		n, ok := ids[string(key)]
		if !ok {
			n = int32(len(order))
			ids[string(key)] = n
			order = append(order, set)
			d.states = append(d.states, dfaState{accept: a.accepts(set, begin)})
		}
		return n
	}
	id(a.closure([]int32{a.initial}, true, false), true)
	targets := make([][]int32, len(a.cuts)-1)
	for i := 0; i < len(order); i++ {
		if len(order[i]) == 1 && order[i][0] == matchStep {
			for _, r := range allRunes {
				d.states[i].edges = append(d.states[i].edges, dfaEdge{r.lo, r.hi, int32(i)})
			}
			continue
		}
		a.targets(order[i], targets)
		var last []int32
		to := int32(-1)
		for k, ts := range targets {
			if a.cuts[k] == 0xD800 || len(ts) == 0 {
				last = nil
				continue
			}
			if !slices.Equal(ts, last) {
				to = id(a.closure(ts, false, false), false)
				last = ts
			}
			d.states[i].edges = append(d.states[i].edges, dfaEdge{a.cuts[k], a.cuts[k+1] - 1, to})
		}
		if a.bud.err != nil {
			return nil, a.bud.err
		}
		if len(order) > maxDFAStates {
			return nil, faultf("it needs an automaton of more than %d states", maxDFAStates)
		}
	}
	return d.trim(), nil
}

// targets lists for each interval where the steps of set lead.
func (a *reAutomaton) targets(set []int32, out [][]int32) {
	for k := range out {
		out[k] = out[k][:0:0]
	}
	for _, pc := range set {
		s := a.steps[pc]
		if s.op != reStepRune && s.op != reStepAny {
			continue
		}
		a.bud.spend(len(out))
		for k := range out {
			if s.op == reStepAny || a.in[s.class][k] {
				out[k] = append(out[k], s.a)
			}
		}
	}
}
