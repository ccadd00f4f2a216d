package ptx

import (
	"math"
	"slices"
	"strings"
)

// address resolves a memory operand into in.a + in.off.
func (d *decoder) address(in *inst, o operand, sp space) (err error) {
	var wide bool
	in.a, in.off, wide, err = d.pointer(o, sp)
	if !wide {
		in.flags |= flagAddr32
	}
	return err
}

// pointer resolves [base+off]; wide says that base lies in the 64-bit file.
func (d *decoder) pointer(o operand, sp space) (i int32, off int64, wide bool, err error) {
	if o.kind != opMem {
		return 0, 0, false, d.fail("wanted an address in brackets")
	}
	base := o.elems[0]
	switch base.kind {
	case opReg:
		switch base.reg.typ.size() {
		case 8:
			i, err = d.src(base, tU64)
			return i, o.off, true, err
		case 4:
			if sp == spaceGlobal || sp == spaceGeneric || sp == spaceConst {
				return 0, 0, false, d.fail("got a 32-bit address in .%v", sp)
			}
			i, err = d.src(base, tU32)
			return i, o.off, false, err
		}
	case opSym:
		v := d.lookup(base.name)
		if v == nil {
			return 0, 0, false, d.fail("%q is not declared", base.name)
		}
		if v.space != sp {
			return 0, 0, false, d.fail("%s lies in .%v, not in .%v", base.name, v.space, sp)
		}
		i, err = d.symbol(base, tU64)
		return i, o.off, true, err
	case opInt:
		return d.constant(file64, base.imm), o.off, true, nil
	}
	return 0, 0, false, d.fail("cannot use this operand as an address")
}

// Cache operators and hints: they change no value.
var cacheHints = []string{"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
	"L2::evict_normal", "L2::evict_first", "L2::evict_last", "L2::64B", "L2::128B", "L2::256B"}

// memoryMods takes what ld, st, atom and red have in common.
func (d *decoder) memoryMods(in *inst) (hint bool) {
	for _, h := range cacheHints {
		d.mod(h)
	}
	hint = d.mod("L2::cache_hint")
	order := d.oneOf("weak", "volatile", "relaxed", "acquire", "release", "acq_rel")
	switch order {
	case "relaxed", "acquire", "release", "acq_rel":
		d.oneOf("cta", "gpu", "sys", "cluster")
		in.flags |= flagStrong
	case "volatile":
		in.flags |= flagStrong
	}
	if order == "acquire" || order == "acq_rel" {
		in.flags |= flagAcquire
	}
	if order == "release" || order == "acq_rel" {
		in.flags |= flagRelease
	}
	in.space = spaceNames[d.oneOf("global", "shared", "shared::cta", "local", "param", "const")]
	return hint
}

// vectorOf takes .v2 or .v4 and the type, and the registers of o.
func (d *decoder) vectorOf(in *inst, o operand, load bool) error {
	n := 1
	if v := d.oneOf("v2", "v4"); v != "" {
		n = int(v[1] - '0')
	}
	t, err := d.typ()
	if err != nil {
		return err
	}
	if t.size() == 0 || t.size()*n > 16 || t == tTF32 {
		return d.fail("cannot access %d of type %v", n, t)
	}
	elems := []operand{o}
	if o.kind == opVec {
		elems = o.elems
	}
	if len(elems) != n {
		return d.fail("got %d registers, wanted %d", len(elems), n)
	}
	in.typ, in.n = t, uint8(n)
	if t.signed() {
		in.flags |= flagSigned
	}
	in.x.width = int(t.bits())
	in.x.wide = fileOf(elems[0], t) != t.file()
	for _, e := range elems {
		if e.kind != opSink && fileOf(e, t) != fileOf(elems[0], t) {
			return d.fail("wanted a vector of registers of one width")
		}
		var i int32
		if load {
			i, err = d.dstLoose(e, t)
			if e.kind == opReg {
				in.x.width = int(e.reg.typ.bits())
			}
		} else {
			i, err = d.srcLoose(e, t)
		}
		if err != nil {
			return err
		}
		in.x.regs = append(in.x.regs, i)
	}
	return nil
}

func (d *decoder) ld(string) error {
	in := d.emit(cLd)
	hint := d.memoryMods(in)
	if err := d.accessArgs(hint); err != nil {
		return err
	}
	o := d.s.args[1]
	if in.space == spaceParam {
		return d.ldParam(in, o)
	}
	if err := d.vectorOf(in, d.s.args[0], true); err != nil {
		return err
	}
	return d.address(in, o, in.space)
}

// accessArgs checks the operands of ld and st; a cache policy is passed.
func (d *decoder) accessArgs(hint bool) error {
	n := 2
	if hint {
		n = 3
	}
	return d.args(n)
}

// ldParam loads a kernel's parameter, or a .param variable of a call.
func (d *decoder) ldParam(in *inst, o operand) error {
	if o.kind == opMem && o.elems[0].kind == opSym {
		v := d.lookup(o.elems[0].name)
		if v == nil || v.space != spaceParam {
			return d.fail("%q is no parameter", o.elems[0].name)
		}
		if _, entry := d.f.entry[v]; !entry {
			in.space = spaceLocal
			if err := d.vectorOf(in, d.s.args[0], true); err != nil {
				return err
			}
			at, _ := d.offset(v)
			in.a, in.off = d.constant(file64, uint64(at)), o.off
			return nil
		}
		if o.off < 0 || o.off > int64(v.size) {
			return d.fail("reads beyond parameter %s", v.name)
		}
	} else if d.f.up != nil {
		return d.fail("cannot read a parameter through a register in a function")
	}
	in.class = cLdParam
	if err := d.vectorOf(in, d.s.args[0], true); err != nil {
		return err
	}
	return d.address(in, o, spaceParam)
}

func (d *decoder) st(string) error {
	in := d.emit(cSt)
	hint := d.memoryMods(in)
	if err := d.accessArgs(hint); err != nil {
		return err
	}
	if in.space == spaceConst {
		return d.fail("cannot write to .const")
	}
	o := d.s.args[0]
	if err := d.vectorOf(in, d.s.args[1], false); err != nil {
		return err
	}
	if in.space == spaceParam {
		in.space = spaceLocal
		if o.kind == opMem && o.elems[0].kind == opSym {
			if v := d.lookup(o.elems[0].name); v != nil && v.space == spaceParam {
				if _, entry := d.f.entry[v]; !entry {
					at, _ := d.offset(v)
					in.a, in.off = d.constant(file64, uint64(at)), o.off
					return nil
				}
			}
		}
		return d.fail("wanted a .param variable declared in a function")
	}
	return d.address(in, o, in.space)
}

// isspacep asks whether a generic address lies in a space.
func (d *decoder) isspacep(string) (err error) {
	name := d.oneOf("global", "shared", "shared::cta", "local", "const", "param")
	if name == "" {
		return d.fail("wanted a state space")
	}
	if err := d.args(2); err != nil {
		return err
	}
	in := d.emit(cSpaceTest)
	in.space = spaceNames[name]
	if in.d, err = d.dst(d.s.args[0], tPred); err != nil {
		return err
	}
	in.a, err = d.src(d.s.args[1], tU64)
	return err
}

// atomOp is a read-modify-write operation of type t (ISA §9.7.12.4).
func atomOp(op string, t typ) func(old, b, c uint64) uint64 {
	two := func(f lane) func(old, b, c uint64) uint64 {
		if f == nil {
			return nil
		}
		return func(old, b, _ uint64) uint64 { return f(old, b, 0) }
	}
	switch {
	case op == "exch" && t.untyped():
		return func(_, b, _ uint64) uint64 { return b }
	case op == "cas" && t.untyped():
		return func(old, b, c uint64) uint64 {
			if old == b {
				return c
			}
			return old
		}
	case (op == "and" || op == "or" || op == "xor") && t.untyped():
		return two(intLane(op, t, false))
	case (op == "add" || op == "min" || op == "max") && t.integer():
		return two(intLane(op, t, false))
	case op == "inc" && t == tU32:
		return func(old, b, _ uint64) uint64 {
			if old >= b {
				return 0
			}
			return old + 1
		}
	case op == "dec" && t == tU32:
		return func(old, b, _ uint64) uint64 {
			if old == 0 || old > b {
				return b
			}
			return old - 1
		}
	case op == "add" && t == tF32:
		return two(f32Lane("add", floatMods{}))
	case op == "add" && t == tF64:
		return two(f64Lane("add", floatMods{}))
	case op == "add" && (t == tF16 || t == tBF16):
		return two(halfLane("add", t == tBF16, floatMods{}))
	case op == "add" && (t == tF16x2 || t == tBF16x2):
		return two(pairLane(halfLane("add", t == tBF16x2, floatMods{})))
	}
	return nil
}

// atom decodes atom and red.
func (d *decoder) atom(base string) error {
	in := d.emit(cAtom)
	hint := d.memoryMods(in)
	d.oneOf("cta", "gpu", "sys", "cluster")
	op := d.oneOf("exch", "cas", "and", "or", "xor", "add", "inc", "dec", "min", "max")
	d.mod("noftz")
	t, err := d.typ()
	if err != nil {
		return err
	}
	in.flags |= flagStrong
	in.typ = t
	if in.x.atom = atomOp(op, t); in.x.atom == nil || t.size() < 2 || in.space == spaceLocal || in.space == spaceParam || in.space == spaceConst || base == "red" && (op == "exch" || op == "cas") {
		return d.fail("this form is not supported")
	}
	args := d.s.args
	if hint && len(args) > 0 {
		args = args[:len(args)-1]
	}
	n := 2
	if op == "cas" {
		n = 3
	}
	if base == "atom" {
		if len(args) == 0 {
			return d.fail("got no operands")
		}
		if in.d, err = d.dst(args[0], t); err != nil {
			return err
		}
		args = args[1:]
	}
	if len(args) != n {
		return d.fail("got %d operands, wanted %d", len(d.s.args), n+1)
	}
	if err := d.address(in, args[0], in.space); err != nil {
		return err
	}
	if in.b, err = d.src(args[1], t); err != nil {
		return err
	}
	if n == 3 {
		in.c, err = d.src(args[2], t)
	}
	return err
}

// cp decodes cp.async, its commit and its waits (ISA §9.7.8.22).
func (d *decoder) cp(string) error {
	if !d.mod("async") {
		return d.fail("this form is not supported")
	}
	switch d.oneOf("commit_group", "wait_group", "wait_all") {
	case "commit_group":
		d.emit(cCommit)
		return d.args(0)
	case "wait_all":
		in := d.emit(cWait)
		in.off = -1
		return d.args(0)
	case "wait_group":
		n, err := d.immediate(1 << 16)
		if err != nil {
			return err
		}
		in := d.emit(cWait)
		in.off = int64(n)
		return d.args(0)
	}
	in := d.emit(cCpAsync)
	way := d.oneOf("ca", "cg")
	shared := d.oneOf("shared", "shared::cta")
	global := d.mod("global")
	hint := d.mod("L2::cache_hint")
	d.oneOf("L2::64B", "L2::128B", "L2::256B")
	if way == "" || shared == "" || !global || len(d.mods) > 0 {
		return d.fail("wanted cp.async.ca or .cg from .global to .shared")
	}
	args := d.s.args
	if hint && len(args) > 0 {
		args = args[:len(args)-1]
	}
	if len(args) < 3 || len(args) > 4 {
		return d.fail("got %d operands, wanted 3 or 4", len(args))
	}
	size := args[2].imm
	if args[2].kind != opInt || size != 16 && (way == "cg" || size != 4 && size != 8) {
		return d.fail("got a copy size other than 4, 8 and 16 (.cg: 16)")
	}
	in.n = uint8(size)
	if err := d.address(in, args[0], spaceShared); err != nil {
		return err
	}
	i, off, wide, err := d.pointer(args[1], spaceGlobal)
	if err != nil {
		return err
	}
	if !wide {
		return d.fail("wanted a 64-bit source address")
	}
	in.b, in.x.regs = i, []int32{0}
	in.x.width = int(off)
	if len(args) == 4 {
		if o := args[3]; o.kind == opReg && o.reg.typ == tPred {
			return d.fail("ignore-src is not supported")
		}
		in.flags |= flagSrcSize
		in.c, err = d.src(args[3], tU32)
	}
	return err
}

// ldmatrix decodes ldmatrix and stmatrix of 8×8 matrices of 16 bits (ISA §9.7.13.4.15).
func (d *decoder) ldmatrix(base string) error {
	sync, aligned, shape := d.mod("sync"), d.mod("aligned"), d.mod("m8n8")
	num := d.oneOf("x1", "x2", "x4")
	trans := d.mod("trans")
	sp := d.oneOf("shared", "shared::cta")
	t, err := d.typ()
	if err != nil || !sync || !aligned || !shape || num == "" || sp == "" || t != tB16 {
		return d.fail("wanted .sync.aligned.m8n8.x1, .x2 or .x4 of .shared.b16")
	}
	if err := d.args(2); err != nil {
		return err
	}
	c, regs, mem := cLdmatrix, d.s.args[0], d.s.args[1]
	if base == "stmatrix" {
		c, regs, mem = cStmatrix, mem, regs
	}
	in := d.emit(c)
	in.n = num[1] - '0'
	if trans {
		in.flags |= flagTrans
	}
	if in.x.regs, err = d.fragment(regs, int(in.n), tB32, c == cLdmatrix); err != nil {
		return err
	}
	return d.address(in, mem, spaceShared)
}

// fragment resolves a vector of n registers.
func (d *decoder) fragment(o operand, n int, t typ, dst bool) ([]int32, error) {
	elems := o.elems
	if o.kind != opVec {
		elems = []operand{o}
	}
	if len(elems) != n {
		return nil, d.fail("got %d registers in a fragment, wanted %d", len(elems), n)
	}
	regs := make([]int32, n)
	for i, e := range elems {
		var err error
		if dst {
			regs[i], err = d.dst(e, t)
		} else {
			regs[i], err = d.src(e, t)
		}
		if err != nil {
			return nil, err
		}
	}
	return regs, nil
}

// mmaShape is one form of mma: m16 n8 and k, with its operand types.
type mmaShape struct {
	k              int
	dt, at, bt, ct typ
	satfinite      bool
	na, nb, nc     int // registers of A, B, and of C and D
}

// mma decodes mma.sync.aligned.m16n8kK.row.col (ISA §9.7.13.4.14).
func (d *decoder) mma(string) error {
	sync, aligned := d.mod("sync"), d.mod("aligned")
	shape := d.oneOf("m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32")
	row, col := d.mod("row"), d.mod("col")
	m := &mmaShape{satfinite: d.mod("satfinite")}
	if !sync || !aligned || shape == "" || !row || !col || len(d.mods) != 4 {
		return d.fail("wanted .sync.aligned, m16n8k4 to k32, .row.col and four types")
	}
	t := make([]typ, 4)
	for i, n := range d.mods {
		t[i] = typeNames[n]
	}
	d.mods = nil
	m.dt, m.at, m.bt, m.ct = t[0], t[1], t[2], t[3]
	for _, c := range shape[len("m16n8k"):] {
		m.k = m.k*10 + int(c-'0')
	}
	float := m.at == m.bt && !m.satfinite && m.dt == m.ct
	switch {
	case (m.at == tF16 || m.at == tBF16) && float && (m.k == 8 || m.k == 16) && (m.dt == tF32 || m.dt == tF16 && m.at == tF16):
		m.na, m.nb = m.k/4, m.k/8
	case m.at == tTF32 && float && (m.k == 4 || m.k == 8) && m.dt == tF32:
		m.na, m.nb = m.k/2, m.k/4
	case (m.at == tS8 || m.at == tU8) && (m.bt == tS8 || m.bt == tU8) && (m.k == 16 || m.k == 32) && m.dt == tS32 && m.ct == tS32:
		m.na, m.nb = m.k/8, m.k/16
	default:
		return d.fail("this form is not supported")
	}
	m.nc = 4
	ct := tB32
	if m.dt == tF16 {
		m.nc = 2
	}
	if err := d.args(4); err != nil {
		return err
	}
	in := d.emit(cMma)
	in.x.mma = m
	var all []int32
	for i, n := range []int{m.nc, m.na, m.nb, m.nc} {
		r, err := d.fragment(d.s.args[i], n, ct, i == 0)
		if err != nil {
			return err
		}
		all = append(all, r...)
	}
	in.x.regs = all
	return nil
}

// definitions finds, by the paths through the program, which sources may be
// read before they are written, and leaves tracking at those and at the writers
// of the same registers only.
func (d *decoder) definitions() {
	p := d.p
	n := p.n32 + p.n64 + p.np
	words := (n + 63) / 64
	id := func(r ref) int { return int(r.i) + [...]int{0, p.n32, p.n32 + p.n64}[r.file] }
	for _, c := range p.consts {
		p.given = append(p.given, c.ref)
	}
	for _, c := range p.syms {
		p.given = append(p.given, c.ref)
	}
	for _, c := range p.specials {
		p.given = append(p.given, c.ref)
	}
	leaders, blockOf := d.blocks()
	if len(leaders)*words > 1<<24 { // too large to analyse: track everything
		d.track(func(int, ref) bool { return true }, func(ref) bool { return true })
		return
	}
	always := make([]uint64, words)
	set := func(s []uint64, i int) { s[i/64] |= 1 << (i % 64) }
	for _, r := range p.given {
		set(always, id(r))
	}
	in := make([][]uint64, len(leaders))
	for b := range in {
		in[b] = slices.Repeat([]uint64{math.MaxUint64}, words)
	}
	copy(in[0], always)
	step := func(state []uint64, pc int) {
		f := d.flow[pc]
		if p.code[pc].guard >= 0 || f.copies && slices.ContainsFunc(f.uses, func(r ref) bool { return state[id(r)/64]>>(id(r)%64)&1 == 0 }) {
			return
		}
		for _, r := range f.defs {
			set(state, id(r))
		}
	}
	work := []int{0}
	state := make([]uint64, words)
	end := func(b int) int {
		if b+1 < len(leaders) {
			return leaders[b+1]
		}
		return len(p.code)
	}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		copy(state, in[b])
		for pc := leaders[b]; pc < end(b); pc++ {
			step(state, pc)
		}
		for _, s := range d.successors(end(b) - 1) {
			t := in[blockOf[s]]
			changed := false
			for i := range t {
				if v := t[i] & state[i]; v != t[i] {
					t[i], changed = v, true
				}
			}
			if changed {
				work = append(work, blockOf[s])
			}
		}
	}
	maybe := map[ref]bool{}
	at := map[int]map[ref]bool{}
	for b := range leaders {
		copy(state, in[b])
		for pc := leaders[b]; pc < end(b); pc++ {
			for _, r := range d.flow[pc].uses {
				if state[id(r)/64]>>(id(r)%64)&1 == 0 {
					maybe[r] = true
					if at[pc] == nil {
						at[pc] = map[ref]bool{}
					}
					at[pc][r] = true
				}
			}
			step(state, pc)
		}
	}
	d.track(func(pc int, r ref) bool { return at[pc][r] }, func(r ref) bool { return maybe[r] })
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
