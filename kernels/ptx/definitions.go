package ptx

import (
	"math"
	"slices"
	"strings"
)

// definitions finds, by the paths through the program, which sources may be
// read before they are written, and leaves tracking at those and at the writers
// of the same registers only.
func (d *decoder) definitions() {
	p := d.p
	for _, c := range p.consts {
		p.given = append(p.given, c.ref)
	}
	for _, c := range p.syms {
		p.given = append(p.given, c.ref)
	}
	for _, c := range p.specials {
		p.given = append(p.given, c.ref)
	}
	f := &flow{d: d, words: (p.n32 + p.n64 + p.np + 63) / 64}
	f.leaders, f.blockOf = d.blocks()
	if len(f.leaders)*f.words > 1<<24 { // too large to analyse: track everything
		d.track(func(int, ref) bool { return true }, func(ref) bool { return true })
		return
	}
	f.solve()
	maybe := map[ref]bool{}
	at := map[int]map[ref]bool{}
	state := make(defined, f.words)
	for b := range f.leaders {
		copy(state, f.in[b])
		for pc := f.leaders[b]; pc < f.end(b); pc++ {
			for _, r := range d.flow[pc].uses {
				if state.has(f.id(r)) {
					continue
				}
				maybe[r] = true
				if at[pc] == nil {
					at[pc] = map[ref]bool{}
				}
				at[pc][r] = true
			}
			f.step(state, pc)
		}
	}
	d.track(func(pc int, r ref) bool { return at[pc][r] }, func(r ref) bool { return maybe[r] })
}

// defined is a set of registers by number.
type defined []uint64

func (s defined) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }
func (s defined) add(i int)      { s[i/64] |= 1 << (i % 64) }

// flow computes which registers every path to a block has written.
type flow struct {
	d       *decoder
	words   int
	leaders []int
	blockOf map[int]int
	in      []defined // by block, at its start
}

// id numbers registers over the three files.
func (f *flow) id(r ref) int {
	return int(r.i) + [...]int{0, f.d.p.n32, f.d.p.n32 + f.d.p.n64}[r.file]
}

func (f *flow) end(b int) int {
	if b+1 < len(f.leaders) {
		return f.leaders[b+1]
	}
	return len(f.d.p.code)
}

// step adds what an instruction surely writes. A copy of what may be undefined
// may be so too.
func (f *flow) step(s defined, pc int) {
	r := f.d.flow[pc]
	if f.d.p.code[pc].guard >= 0 || r.copies && slices.ContainsFunc(r.uses, func(r ref) bool { return !s.has(f.id(r)) }) {
		return
	}
	for _, r := range r.defs {
		s.add(f.id(r))
	}
}

// solve intersects over the ways into each block until nothing changes.
func (f *flow) solve() {
	f.in = make([]defined, len(f.leaders))
	for b := range f.in {
		f.in[b] = slices.Repeat(defined{math.MaxUint64}, f.words)
	}
	clear(f.in[0])
	for _, r := range f.d.p.given {
		f.in[0].add(f.id(r))
	}
	state := make(defined, f.words)
	for work := []int{0}; len(work) > 0; {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		copy(state, f.in[b])
		for pc := f.leaders[b]; pc < f.end(b); pc++ {
			f.step(state, pc)
		}
		for _, s := range f.d.successors(f.end(b) - 1) {
			t := f.in[f.blockOf[s]]
			changed := false
			for i := range t {
				if v := t[i] & state[i]; v != t[i] {
					t[i], changed = v, true
				}
			}
			if changed {
				work = append(work, f.blockOf[s])
			}
		}
	}
}

// blocks cuts the program into basic blocks.
func (d *decoder) blocks() (leaders []int, blockOf map[int]int) {
	lead := map[int]bool{0: true}
	for pc := range d.p.code {
		in := &d.p.code[pc]
		if in.class == cBra || in.class == cBrx || in.class == cExit || in.class == cTrap {
			for _, s := range d.successors(pc) {
				lead[s] = true
			}
			if pc+1 < len(d.p.code) {
				lead[pc+1] = true
			}
		}
	}
	for pc := range lead {
		leaders = append(leaders, pc)
	}
	slices.Sort(leaders)
	blockOf = map[int]int{}
	for b, pc := range leaders {
		blockOf[pc] = b
	}
	return leaders, blockOf
}

// successors of an instruction.
func (d *decoder) successors(pc int) []int {
	in := &d.p.code[pc]
	var s []int
	switch in.class {
	case cBra:
		s = append(s, int(in.target))
	case cBrx:
		for _, t := range in.x.targets {
			s = append(s, int(t))
		}
	}
	if (in.class != cBra && in.class != cBrx && in.class != cExit && in.class != cTrap || in.guard >= 0) && pc+1 < len(d.p.code) {
		s = append(s, pc+1)
	}
	return s
}

// track leaves a regCheck where uses are to be looked at or definitions marked.
func (d *decoder) track(use func(pc int, r ref) bool, def func(r ref) bool) {
	for pc := range d.p.code {
		f := d.flow[pc]
		var c regCheck
		for _, r := range f.uses {
			if !use(pc, r) {
				continue
			}
			guard := r.file == filePred && r.i == d.p.code[pc].guard
			if f.copies && !guard {
				c.copy = append(c.copy, r)
			} else {
				c.use = append(c.use, r)
			}
		}
		for _, r := range f.defs {
			if def(r) {
				c.def = append(c.def, r)
			}
		}
		if c.use != nil || c.def != nil {
			d.p.code[pc].chk = &c
			d.p.tracked = true
		}
	}
}

// registerName is what the PTX calls a register.
func (p *program) registerName(r ref) string {
	if n := p.names[r]; n != "" {
		return n
	}
	return strings.ToLower([...]string{"a 32-bit value", "a 64-bit value", "a predicate"}[r.file])
}
