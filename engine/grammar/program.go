package grammar

type opcode uint8

const (
	opFail   opcode = iota
	opByte          // a byte of lo..hi, then a
	opSwitch        // a byte of some edge in edges[a:b], then there
	opSplit         // a or b
	opAlt           // any of outs[a:b]
	opCall          // rule a, then b
	opRet           // the rule ends
	opGuard         // a, if guards[b] lets the counter take one more
	opInc           // count one, then a; b is the counter
	opMin           // a, if counter b has reached its minimum
	opEnd           // the whole text ends
)

// inst is one instruction. Only opByte and opSwitch consume.
type inst struct {
	op     opcode
	lo, hi byte
	a, b   int32
}

// edge is one branch of an opSwitch; the edges of one are ascending and apart.
type edge struct {
	lo, hi byte
	to     int32
}

// counter is the bounds of a counted rule. A rule has one at most, and it is
// zero when the rule is called.
type counter struct {
	min, max int32 // max < 0: none
	slack    int32 // counts beyond which a guard's answer no longer changes
}

// guard says whether from some state of a counted automaton a whole number of
// further counts leads to the end within the counter's bounds.
type guard struct {
	counter int32
	// atLeast[k] is the smallest number of further counts, k or more, with
	// which the end can be reached, -1 if there is none. Beyond the table every
	// number works if the last entry is not -1, else none. nil: every number.
	atLeast []int32
}

// need is the smallest number of further counts from k on, -1 if there is none.
func (g *guard) need(k int32) int32 {
	n := len(g.atLeast)
	switch {
	case n == 0:
		return k
	case int(k) < n:
		return g.atLeast[k]
	case g.atLeast[n-1] < 0:
		return -1
	}
	return k
}

// program is the grammar in the form that tables run. Immutable.
type program struct {
	insts    []inst
	edges    []edge
	outs     []int32
	counters []counter
	guards   []guard
	ctrOf    []int32 // by instruction: its rule's counter, or -1
	start    []int32 // by rule
	nullable []bool  // by rule
	order    []int32 // by rule: callers at the same position come first
	root     int32   // rule
	ends     int32   // the opEnd instruction

	classOf [256]uint8
	byteOf  []byte // one byte of each class
}

// bytes is about what the program takes in memory.
func (p *program) bytes() int64 {
	n := 16*len(p.insts) + 8*len(p.edges) + 4*len(p.outs) + 16*len(p.start)
	for _, g := range p.guards {
		n += 32 + 4*len(g.atLeast)
	}
	return int64(n)
}

// passes decides opGuard for a counter that stands at c before the count.
func (p *program) passes(g int32, c int32) bool {
	gd := &p.guards[g]
	ct := &p.counters[gd.counter]
	need := gd.need(max(ct.min-c-1, 0))
	return need >= 0 && (ct.max < 0 || need <= ct.max-c-1)
}

// clamp maps a count to the smallest one that behaves alike over the next
// `ahead` bytes, so that masks can be shared between them.
func (ct *counter) clamp(c, ahead int32) int32 {
	k := ahead + ct.slack + 1
	if ct.max >= 0 && ct.max-c <= k {
		return c
	}
	if c >= ct.min {
		return ct.min
	}
	if ct.min-c > k {
		return 0
	}
	return c
}

// computeClasses joins bytes that no instruction tells apart.
func (p *program) computeClasses() {
	var cut [257]bool
	for _, in := range p.insts {
		if in.op == opByte {
			cut[in.lo], cut[int(in.hi)+1] = true, true
		}
	}
	for _, e := range p.edges {
		cut[e.lo], cut[int(e.hi)+1] = true, true
	}
	class := -1
	for b := 0; b < 256; b++ {
		if b == 0 || cut[b] {
			class++
			p.byteOf = append(p.byteOf, byte(b))
		}
		p.classOf[b] = uint8(class)
	}
}

// computeOrder sorts rules so that a rule comes after all that can call it
// before a byte is consumed. A cycle is left recursion: its first rule is
// returned, else -1.
func (p *program) computeOrder() int32 {
	const unseen, open, done = 0, 1, 2
	mark := make([]uint8, len(p.start))
	p.order = make([]int32, len(p.start))
	pos := int32(len(p.start))
	type frame struct {
		rule  int32
		calls []int32
	}
	for r := range p.start {
		if mark[r] != unseen {
			continue
		}
		mark[r] = open
		stack := []frame{{int32(r), p.firstCalls(int32(r))}}
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if len(f.calls) == 0 {
				mark[f.rule] = done
				pos--
				p.order[f.rule] = pos
				stack = stack[:len(stack)-1]
				continue
			}
			next := f.calls[len(f.calls)-1]
			f.calls = f.calls[:len(f.calls)-1]
			switch mark[next] {
			case open:
				return next
			case unseen:
				mark[next] = open
				stack = append(stack, frame{next, p.firstCalls(next)})
			}
		}
	}
	return -1
}

// firstCalls is the rules that r may call before it has consumed a byte.
func (p *program) firstCalls(r int32) []int32 {
	var calls []int32
	seen := map[int32]bool{}
	work := []int32{p.start[r]}
	for len(work) > 0 {
		pc := work[len(work)-1]
		work = work[:len(work)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		switch in := p.insts[pc]; in.op {
		case opSplit:
			work = append(work, in.a, in.b)
		case opAlt:
			work = append(work, p.outs[in.a:in.b]...)
		case opGuard, opInc, opMin:
			work = append(work, in.a)
		case opCall:
			calls = append(calls, in.a)
			if p.nullable[in.a] {
				work = append(work, in.b)
			}
		}
	}
	return calls
}
