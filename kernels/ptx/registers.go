package ptx

import "slices"

// nvcc names a new register for every value, thousands in an unrolled kernel,
// of which few hold something at a time. Registers whose values never live at
// the same time share a place in the warp's files, which then fit a cache. What
// one lane holds is its own, so that the lives along the paths of one thread
// decide, whatever other lanes do.

// separate gives each register a place of its own; tests compare both.
var separate bool

// life is the stretch of instructions in which a register holds a value:
// sources at 2·pc, destinations at 2·pc+1, so that a result may take the place
// of an operand that ends there.
type life struct {
	r        ref
	from, to int
}

// places gives each register a place in its file; nil where it is not worth it.
func (d *decoder) places() *[2][]int32 {
	p := d.p
	f := &flow{d: d, words: (p.n32 + p.n64 + p.np + 63) / 64}
	f.leaders, f.blockOf = d.blocks()
	if separate || p.n32+p.n64 < 64 || len(f.leaders)*f.words > 1<<24 {
		return nil
	}
	lives := f.lives()
	at := &[2][]int32{make([]int32, p.n32), make([]int32, p.n64)}
	next := [2]int32{1, 1} // place 0 is for results that nobody takes
	own := map[ref]bool{}  // never shared: constants, and what is tracked
	take := func(r ref) {
		if r.file != filePred && !own[r] {
			own[r] = true
			at[r.file][r.i] = next[r.file]
			next[r.file]++
		}
	}
	for _, r := range p.given {
		take(r)
	}
	for pc := range p.code {
		if c := p.code[pc].chk; c != nil {
			for _, r := range slices.Concat(c.use, c.def, c.copy) {
				take(r)
			}
		}
	}
	var free [2][]int32
	var busy [2][]life // by end
	for _, l := range lives {
		k := l.r.file
		if own[l.r] {
			continue
		}
		for len(busy[k]) > 0 && busy[k][0].to < l.from {
			free[k] = append(free[k], at[k][busy[k][0].r.i])
			busy[k] = busy[k][1:]
		}
		if n := len(free[k]); n > 0 {
			at[k][l.r.i], free[k] = free[k][n-1], free[k][:n-1]
		} else {
			at[k][l.r.i] = next[k]
			next[k]++
		}
		i, _ := slices.BinarySearchFunc(busy[k], l.to, func(b life, to int) int { return b.to - to })
		busy[k] = slices.Insert(busy[k], i, l)
	}
	return at
}

// lives finds the lives of the 32-bit and 64-bit registers, by their begins.
func (f *flow) lives() []life {
	d := f.d
	refs := make([]ref, f.words*64)
	span := make([]life, f.words*64)
	touch := func(i, at int) {
		l := &span[i]
		if l.to == 0 {
			l.from = at
		}
		l.from, l.to = min(l.from, at), max(l.to, at)
	}
	out := f.liveness()
	live := make(defined, f.words)
	for b := range f.leaders {
		copy(live, out[b])
		for pc := f.end(b) - 1; pc >= f.leaders[b]; pc-- {
			fl := &d.flow[pc]
			for _, r := range fl.defs {
				i := f.id(r)
				refs[i] = r
				touch(i, 2*pc+1)
			}
			f.back(live, pc)
			for _, r := range fl.uses {
				i := f.id(r)
				refs[i] = r
				touch(i, 2*pc)
			}
		}
		// what lives through the block or over its borders
		for w := range live {
			for i := range 64 {
				if live[w]>>i&1 == 1 {
					touch(64*w+i, 2*f.leaders[b])
				}
				if out[b][w]>>i&1 == 1 {
					touch(64*w+i, 2*f.end(b))
				}
			}
		}
	}
	var list []life
	for i, l := range span {
		if l.to > 0 && refs[i].file != filePred {
			l.r = refs[i]
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b life) int { return a.from - b.from })
	return list
}

// back turns what lives after an instruction into what lives before it.
func (f *flow) back(live defined, pc int) {
	fl := &f.d.flow[pc]
	if f.d.p.code[pc].guard < 0 { // behind a guard the old value may stay
		for _, r := range fl.defs {
			i := f.id(r)
			live[i/64] &^= 1 << (i % 64)
		}
	}
	for _, r := range fl.uses {
		live.add(f.id(r))
	}
	if f.d.p.code[pc].guard >= 0 {
		for _, r := range fl.defs {
			live.add(f.id(r))
		}
	}
}

// liveness gives what lives at the end of each block.
func (f *flow) liveness() []defined {
	d := f.d
	in, out := make([]defined, len(f.leaders)), make([]defined, len(f.leaders))
	before := make([][]int, len(f.leaders))
	for b := range f.leaders {
		in[b], out[b] = make(defined, f.words), make(defined, f.words)
		for _, s := range d.successors(f.end(b) - 1) {
			before[f.blockOf[s]] = append(before[f.blockOf[s]], b)
		}
	}
	live := make(defined, f.words)
	work := make([]int, len(f.leaders))
	for b := range work {
		work[b] = b
	}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		copy(live, out[b])
		for pc := f.end(b) - 1; pc >= f.leaders[b]; pc-- {
			f.back(live, pc)
		}
		copy(in[b], live)
		for _, p := range before[b] {
			changed := false
			for i, v := range in[b] {
				if v&^out[p][i] != 0 {
					out[p][i] |= v
					changed = true
				}
			}
			if changed {
				work = append(work, p)
			}
		}
	}
	return out
}
