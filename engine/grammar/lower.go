package grammar

import (
	"encoding/binary"
	"slices"
)

// lowerer turns rules into a program. Instructions are made from the end of a
// text to its beginning: every emitter gets the instruction that follows and
// returns the one that comes first.
type lowerer struct {
	g   *grammarIR
	p   *program
	ctr int32 // counter of the rule at hand, or -1

	shared  map[sharedAt]int32 // inline rules made already
	classes map[string]*rule   // large classes made already
}

// sharedAt is an inline rule and what follows it.
type sharedAt struct {
	rule *rule
	next int32
}

const fail = int32(0) // instruction 0 is opFail

// lower makes the program of g with root as its start.
func (g *grammarIR) lower(root *rule) (*program, error) {
	if err := g.analyse(); err != nil {
		return nil, err
	}
	if !root.productive {
		return nil, faultf("no text can satisfy the grammar")
	}
	l := &lowerer{g: g, p: &program{root: int32(root.index)}, ctr: -1, shared: map[sharedAt]int32{}, classes: map[string]*rule{}}
	l.add(inst{op: opFail})
	l.p.ends = l.add(inst{op: opEnd})
	for i := 0; i < len(g.rules); i++ { // counted loops become rules on the way
		r := g.rules[i]
		l.setRule(r.index, r.nullable)
		if r.productive && r.body != nil && !r.inline {
			start := l.emit(r.body, l.add(inst{op: opRet}))
			l.p.start[r.index] = start
		}
		if g.b.err != nil {
			return nil, g.b.err
		}
		if len(l.p.insts) > maxInsts || len(l.p.edges) > maxInsts {
			return nil, faultf("the grammar becomes more than %d instructions", maxInsts)
		}
	}
	l.p.computeClasses()
	if r := l.p.computeOrder(); r >= 0 {
		return nil, faultf("rule %q refers to itself before it consumes anything (left recursion)", g.rules[r].name)
	}
	return l.p, nil
}

func (l *lowerer) setRule(index int, nullable bool) {
	for len(l.p.start) <= index {
		l.p.start = append(l.p.start, fail)
		l.p.nullable = append(l.p.nullable, false)
	}
	l.p.nullable[index] = nullable
}

func (l *lowerer) add(in inst) int32 {
	l.g.b.spend(1)
	l.p.insts = append(l.p.insts, in)
	l.p.ctrOf = append(l.p.ctrOf, l.ctr)
	return int32(len(l.p.insts) - 1)
}

// alt makes a choice among pcs, leaving out those that fail.
func (l *lowerer) alt(pcs ...int32) int32 {
	k := 0
	for _, pc := range pcs {
		if pc != fail {
			pcs[k] = pc
			k++
		}
	}
	switch pcs = pcs[:k]; len(pcs) {
	case 0:
		return fail
	case 1:
		return pcs[0]
	case 2:
		return l.add(inst{op: opSplit, a: pcs[0], b: pcs[1]})
	}
	a := int32(len(l.p.outs))
	l.p.outs = append(l.p.outs, pcs...)
	return l.add(inst{op: opAlt, a: a, b: a + int32(len(pcs))})
}

// emit makes x so that it goes on at next. What derives no text is left out
// here, so that everything in the program can be completed.
func (l *lowerer) emit(x *ir, next int32) int32 {
	if next == fail || l.g.b.err != nil || len(l.p.insts) > maxInsts || !l.g.productive(x) {
		return fail
	}
	switch x.kind {
	case irEmpty:
		return next
	case irBytes:
		for i := len(x.lit) - 1; i >= 0; i-- {
			next = l.add(inst{op: opByte, lo: x.lit[i], hi: x.lit[i], a: next})
		}
		return next
	case irByte:
		return l.emitBytes(&x.bytes, next)
	case irClass:
		if x.enc == jsonFree {
			return l.emitFreeChar(next)
		}
		return l.emitClass(x.set, x.enc, next)
	case irWords:
		return l.emitWords(x.words, 0, next)
	case irAuto:
		return l.emitAuto(x, next)
	case irSeq:
		for i := len(x.subs) - 1; i >= 0; i-- {
			next = l.emit(x.subs[i], next)
		}
		return next
	case irAlt:
		pcs := make([]int32, 0, len(x.subs))
		for _, s := range x.subs {
			pcs = append(pcs, l.emit(s, next))
		}
		return l.alt(pcs...)
	case irRepeat:
		return l.emitRepeat(x, next)
	case irRef:
		if x.rule.inline {
			at := sharedAt{x.rule, next}
			pc, ok := l.shared[at]
			if !ok {
				pc = l.emit(x.rule.body, next)
				l.shared[at] = pc
			}
			return pc
		}
		return l.add(inst{op: opCall, a: int32(x.rule.index), b: next})
	}
	return fail
}

// emitBytes makes one instruction for a set of bytes.
func (l *lowerer) emitBytes(set *[256]bool, next int32) int32 {
	a := int32(len(l.p.edges))
	for b := 0; b < 256; b++ {
		if !set[b] || !l.g.v.can(byte(b)) {
			continue
		}
		if n := len(l.p.edges); n > int(a) && int(l.p.edges[n-1].hi)+1 == b {
			l.p.edges[n-1].hi = byte(b)
		} else {
			l.p.edges = append(l.p.edges, edge{byte(b), byte(b), next})
		}
	}
	return l.addSwitch(a)
}

// addSwitch makes the instruction for the edges from a to the end.
func (l *lowerer) addSwitch(a int32) int32 {
	switch n := int32(len(l.p.edges)); n - a {
	case 0:
		return fail
	case 1:
		e := l.p.edges[a]
		l.p.edges = l.p.edges[:a]
		return l.add(inst{op: opByte, lo: e.lo, hi: e.hi, a: e.to})
	default:
		return l.add(inst{op: opSwitch, a: a, b: n})
	}
}

// encode lists the byte forms of set that the vocabulary can write.
func (l *lowerer) encode(dst []byteSeq, set runeSet, enc encoding, next int32) []byteSeq {
	return enc.encode(dst, l.g.v.spellable(set, enc), next)
}

// callAbove is the number of byte forms above which a class becomes a rule that
// all its uses share: \p{L} has more than a thousand.
const callAbove = 40

// emitClass is one code point of set.
func (l *lowerer) emitClass(set runeSet, enc encoding, next int32) int32 {
	if len(set) <= callAbove/4 || next == fail {
		return l.emitSeqs(l.encode(nil, set, enc, next))
	}
	key := enc.key(set)
	r := l.classes[key]
	if r == nil {
		var err error
		if r, err = l.g.newRule("class"); err != nil {
			l.g.b.fail(err)
			return fail
		}
		r.productive = true
		l.classes[key] = r
		l.setRule(r.index, false)
		outer := l.ctr
		l.ctr = -1
		l.p.start[r.index] = l.emitSeqs(l.encode(nil, set, enc, l.add(inst{op: opRet})))
		l.ctr = outer
	}
	if l.p.start[r.index] == fail {
		return fail
	}
	return l.add(inst{op: opCall, a: int32(r.index), b: next})
}

func (e encoding) key(set runeSet) string {
	b := []byte{byte(e)}
	for _, r := range set {
		b = binary.LittleEndian.AppendUint32(b, uint32(r.lo))
		b = binary.LittleEndian.AppendUint32(b, uint32(r.hi))
	}
	return string(b)
}

// emitFreeChar is any character of a JSON string, with all the escapes that
// RFC 8259 §7 has; surrogates come in pairs only.
func (l *lowerer) emitFreeChar(next int32) int32 {
	seqs := l.encode(nil, allRunes, jsonText, next)
	if !l.g.v.spells(`\/"bfnrtu0123456789abcdefABCDEF`) {
		return l.emitSeqs(seqs)
	}
	digits := func(lo, hi byte, to int32) []byteSeq {
		var out []byteSeq
		for _, r := range hexRange(lo, hi) {
			out = append(out, byteSeq{[]byteRange{r}, to})
		}
		return out
	}
	hex := func(to int32) int32 { return l.emitSeqs(digits(0, 15, to)) }
	lit := func(s string, to int32) int32 { return l.emit(&ir{kind: irBytes, lit: s}, to) }
	last2 := hex(hex(next))
	low := lit(`\u`, l.emitSeqs(digits(13, 13, l.emitSeqs(digits(12, 15, last2)))))
	afterD := l.emitSeqs(append(digits(0, 7, last2), digits(8, 11, hex(hex(low)))...))
	first := append(digits(13, 13, afterD), digits(0, 12, hex(last2))...)
	unicode := l.emitSeqs(append(first, digits(14, 15, hex(last2))...))

	plain := seqs[:0:0]
	for _, s := range seqs {
		if s.r[0].lo != '\\' {
			plain = append(plain, s)
		}
	}
	short := []byteSeq{{seqOf("u"), unicode}}
	for _, c := range `"\/bfnrt` {
		short = append(short, byteSeq{seqOf(string(c)), next})
	}
	return l.emitSeqs(append(plain, byteSeq{seqOf(`\`), l.emitSeqs(short)}))
}

// emitSeqs makes a deterministic tree of byte tests for seqs, as far as they
// are apart; where two end alike with different continuations, both go on.
func (l *lowerer) emitSeqs(seqs []byteSeq) int32 {
	return l.seqTree(seqs, map[string]int32{})
}

func (l *lowerer) seqTree(seqs []byteSeq, memo map[string]int32) int32 {
	key := seqKey(seqs)
	if pc, ok := memo[key]; ok {
		return pc
	}
	var ended []int32
	var cuts []int
	for _, s := range seqs {
		if len(s.r) == 0 {
			ended = append(ended, s.next)
			continue
		}
		cuts = append(cuts, int(s.r[0].lo), int(s.r[0].hi)+1)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	at := map[int][]byteSeq{} // what goes on after the bytes from a cut to the next
	for _, s := range seqs {
		if len(s.r) == 0 {
			continue
		}
		for i, _ := slices.BinarySearch(cuts, int(s.r[0].lo)); cuts[i] <= int(s.r[0].hi); i++ {
			at[cuts[i]] = append(at[cuts[i]], byteSeq{s.r[1:], s.next})
		}
	}
	l.g.b.spend(len(seqs) + len(cuts))
	var edges []edge
	for i := 0; i+1 < len(cuts); i++ {
		lo, hi := cuts[i], cuts[i+1]-1
		tails := at[lo]
		if len(tails) == 0 {
			continue
		}
		to := l.seqTree(tails, memo)
		if n := len(edges); n > 0 && edges[n-1].to == to && int(edges[n-1].hi)+1 == lo {
			edges[n-1].hi = byte(hi)
		} else {
			edges = append(edges, edge{byte(lo), byte(hi), to})
		}
	}
	a := int32(len(l.p.edges))
	l.p.edges = append(l.p.edges, edges...)
	pc := l.addSwitch(a)
	if len(ended) > 0 {
		pc = l.alt(append(ended, pc)...)
	}
	memo[key] = pc
	return pc
}

func seqKey(seqs []byteSeq) string {
	var b []byte
	for _, s := range seqs {
		b = append(b, byte(len(s.r)), byte(s.next), byte(s.next>>8), byte(s.next>>16), byte(s.next>>24))
		for _, r := range s.r {
			b = append(b, r.lo, r.hi)
		}
	}
	return string(b)
}

// emitWords makes a trie of ascending words, the first `at` bytes of which are
// alike and done.
func (l *lowerer) emitWords(ws []string, at int, next int32) int32 {
	if len(ws) == 1 {
		if !l.g.v.spells(ws[0][at:]) {
			return fail
		}
		for i := len(ws[0]) - 1; i >= at; i-- {
			next = l.add(inst{op: opByte, lo: ws[0][i], hi: ws[0][i], a: next})
		}
		return next
	}
	// Walk the common part without recursion: words may be long.
	end := at
	first, last := ws[0], ws[len(ws)-1]
	for end < len(first) && end < len(last) && first[end] == last[end] {
		end++
	}
	if !l.g.v.spells(first[at:end]) {
		return fail
	}
	ends := fail
	rest := ws
	if len(first) == end {
		ends, rest = next, ws[1:]
	}
	var edges []edge
	for i := 0; i < len(rest); {
		j := i
		for j < len(rest) && rest[j][end] == rest[i][end] {
			j++
		}
		if b := rest[i][end]; l.g.v.single[b] {
			if to := l.emitWords(rest[i:j], end+1, next); to != fail {
				edges = append(edges, edge{b, b, to})
			}
		}
		i = j
	}
	a := int32(len(l.p.edges))
	l.p.edges = append(l.p.edges, edges...)
	pc := l.alt(ends, l.addSwitch(a))
	if pc == fail {
		return fail
	}
	for i := end - 1; i >= at; i-- {
		pc = l.add(inst{op: opByte, lo: first[i], hi: first[i], a: pc})
	}
	return pc
}
