package ptx

import (
	"fmt"
	"slices"
	"strings"
)

// decodeModule turns every entry's statements into a program.
func decodeModule(m *Module, sources []string) error {
	for _, v := range m.vars {
		for _, r := range v.relocs {
			if m.byName[r.sym] == nil {
				return &Error{v.line, fmt.Sprintf("%s holds the address of %q, which is not declared", v.name, r.sym)}
			}
		}
	}
	for _, name := range m.order {
		f := m.funcs[name]
		if !f.entry {
			continue
		}
		d := newDecoder(m, name, sources)
		if err := d.kernel(f); err != nil {
			return err
		}
		if at := d.places(); at != nil { // again, with registers that share places
			d = newDecoder(m, name, sources)
			d.at = at
			if err := d.kernel(f); err != nil {
				return err
			}
			d.p.n32, d.p.n64 = size(at[file32]), size(at[file64])
		}
		f.prog = d.p
		k := &Kernel{Name: name, Params: d.p.params, ParamBytes: d.p.paramBytes, MaxThreads: d.p.maxThreads, StaticShared: d.p.sharedStatic, code: f}
		m.kernels = append(m.kernels, k)
	}
	return nil
}

func newDecoder(m *Module, name string, sources []string) *decoder {
	p := &program{name: name, sources: sources, names: map[ref]string{}}
	return &decoder{m: m, p: p, consts: map[constKey]int32{}, syms: map[symKey]int32{}, sps: map[special]int32{}}
}

// size of a file whose registers have these places.
func size(at []int32) int {
	if len(at) == 0 {
		return 0
	}
	return int(slices.Max(at)) + 1
}

type constKey struct {
	file file
	val  uint64
}

type symKey struct {
	file file
	v    *variable
	add  int64
}

// decoder builds one program.
type decoder struct {
	m      *Module
	p      *program
	consts map[constKey]int32
	syms   map[symKey]int32
	sps    map[special]int32
	shared map[*variable]bool
	f      *frame
	s      *stmt // being decoded
	in     *inst // being built
	uses   []ref
	defs   []ref
	copies bool
	flow   []flowRefs // by pc, for the analyses of definitions and lives
	mods   []string
	at     *[2][]int32 // places of registers, in the order of newReg; nil for a place each
}

// frame is one function's expansion.
type frame struct {
	fn     *function
	up     *frame
	regs   map[*register]int32
	locals map[*variable]int // offset in a thread's local memory
	entry  map[*variable]int // a kernel's parameters: offset in the block
	pcs    []int32           // pc of each statement
	fixups []fixup
}

type fixup struct {
	pc    int32
	table int // index into extra.targets, or -1 for target
	stmt  int // statement to go to; len(body) is the end
	line  int
}

type flowRefs struct {
	uses, defs []ref
	copies     bool
}

func (d *decoder) fail(format string, args ...any) error {
	return &Error{d.s.line, d.s.op + ": " + fmt.Sprintf(format, args...)}
}

// kernel decodes an entry.
func (d *decoder) kernel(f *function) error {
	d.s = &stmt{line: f.line, src: -1, op: f.name}
	d.p.maxThreads = f.maxThreads
	if f.maxThreads == 0 {
		d.p.maxThreads = 1024
	}
	if len(f.rets) > 0 {
		return d.fail("a kernel returns nothing")
	}
	fr := &frame{fn: f, entry: map[*variable]int{}}
	at := 0
	for _, v := range f.params {
		at = (at + v.align - 1) &^ (v.align - 1)
		d.p.params = append(d.p.params, Param{v.name, at, v.size, v.align})
		fr.entry[v] = at
		at += v.size
	}
	if d.p.paramBytes = at; at > 32764 {
		return d.fail("got %d bytes of parameters, wanted at most 32764", at)
	}
	d.shared = map[*variable]bool{}
	d.p.localBytes = localBase
	if err := d.function(fr); err != nil {
		return err
	}
	d.s = &stmt{line: d.s.line, src: -1, op: "exit"} // whoever runs off the end
	d.emit(cExit)
	d.finish()
	d.layoutShared()
	d.definitions()
	return nil
}

// function decodes one expansion of a function's body.
func (d *decoder) function(fr *frame) error {
	for up, n := fr.up, 0; up != nil; up, n = up.up, n+1 {
		if up.fn == fr.fn || n > 32 {
			return d.fail("cannot call %s: recursion", fr.fn.name)
		}
	}
	outer := d.f
	d.f = fr
	defer func() { d.f = outer }()
	fr.regs = map[*register]int32{}
	if fr.locals == nil {
		fr.locals = map[*variable]int{}
	}
	fr.pcs = make([]int32, len(fr.fn.body)+1)
	for i := range fr.fn.body {
		fr.pcs[i] = int32(len(d.p.code))
		if err := d.statement(&fr.fn.body[i]); err != nil {
			return err
		}
		if len(d.p.code) > maxCode {
			return d.fail("more than %d instructions", maxCode)
		}
	}
	fr.pcs[len(fr.fn.body)] = int32(len(d.p.code))
	for _, x := range fr.fixups {
		pc := fr.pcs[x.stmt]
		if x.table >= 0 {
			d.p.code[x.pc].x.targets[x.table] = pc
		} else {
			d.p.code[x.pc].target = pc
		}
	}
	return nil
}

// emit starts an instruction of the current statement; finish ends it.
func (d *decoder) emit(c class) *inst {
	d.finish()
	in := inst{class: c, guard: -1, d: -1, e: -1, a: -1, b: -1, c: -1, line: int32(d.s.line), pc: int32(len(d.p.code)), x: &extra{src: d.s.src, text: d.s.op}}
	if d.s.guard != nil {
		in.guard, in.guardNeg = d.regIndex(d.s.guard), d.s.guardNeg
		d.uses = append(d.uses, ref{filePred, in.guard})
	}
	d.p.code = append(d.p.code, in)
	d.in = &d.p.code[len(d.p.code)-1]
	return d.in
}

func (d *decoder) finish() {
	if d.in == nil {
		return
	}
	d.flow = append(d.flow, flowRefs{slices.Clone(d.uses), slices.Clone(d.defs), d.copies})
	d.uses, d.defs, d.copies, d.in = d.uses[:0], d.defs[:0], false, nil
}

// statement decodes one instruction by the first part of its opcode.
func (d *decoder) statement(s *stmt) error {
	d.s = s
	parts := strings.Split(s.op, ".")
	d.mods = parts[1:]
	base := parts[0]
	fn := decoders[base]
	if fn == nil {
		return d.fail("this instruction is not supported")
	}
	if err := fn(d, base); err != nil {
		if _, ok := err.(*Error); !ok {
			err = d.fail("%v", err)
		}
		return err
	}
	d.finish()
	if len(d.mods) > 0 {
		return d.fail("cannot use .%s here", d.mods[0])
	}
	return nil
}

// mod takes a modifier if it is there.
func (d *decoder) mod(name string) bool {
	if i := slices.Index(d.mods, name); i >= 0 {
		d.mods = slices.Delete(slices.Clone(d.mods), i, i+1)
		return true
	}
	return false
}

// oneOf takes the first modifier that is among names.
func (d *decoder) oneOf(names ...string) string {
	for _, n := range names {
		if d.mod(n) {
			return n
		}
	}
	return ""
}

// typ takes the next modifier that is a type.
func (d *decoder) typ() (typ, error) {
	for _, m := range d.mods {
		if t, ok := typeNames[m]; ok {
			d.mod(m)
			return t, nil
		}
	}
	return tNone, d.fail("got no type")
}

func (d *decoder) args(n int) error {
	if len(d.s.args) != n {
		return d.fail("got %d operands, wanted %d", len(d.s.args), n)
	}
	return nil
}

func (d *decoder) argsIn(lo, hi int) error {
	if n := len(d.s.args); n < lo || n > hi {
		return d.fail("got %d operands, wanted %d to %d", n, lo, hi)
	}
	return nil
}

func (d *decoder) newReg(f file) int32 {
	n := [...]*int{&d.p.n32, &d.p.n64, &d.p.np}[f]
	*n++
	if d.at != nil && f != filePred {
		return d.at[f][*n-1]
	}
	return int32(*n - 1)
}

func (d *decoder) regIndex(r *register) int32 {
	i, ok := d.f.regs[r]
	if !ok {
		i = d.newReg(r.typ.file())
		d.f.regs[r] = i
		d.p.names[ref{r.typ.file(), i}] = r.name
	}
	return i
}

func (d *decoder) constant(f file, val uint64) int32 {
	k := constKey{f, val}
	i, ok := d.consts[k]
	if !ok {
		i = d.newReg(f)
		d.consts[k] = i
		d.p.consts = append(d.p.consts, constReg{ref{f, i}, val})
	}
	return i
}

// src resolves a source operand of type t.
func (d *decoder) src(o operand, t typ) (int32, error) { return d.source(o, t, false) }

// typ0 is the untyped type as wide as a register.
func typ0(r typ) typ { return map[int]typ{1: tB8, 2: tB16, 4: tB32, 8: tB64}[r.size()] }

// fileOf is the file of a register operand, or of a value of type t.
func fileOf(o operand, t typ) file {
	if o.kind == opReg {
		return o.reg.typ.file()
	}
	return t.file()
}

// srcLoose lets a wider register hold a narrow value, as ld, st and cvt do.
func (d *decoder) srcLoose(o operand, t typ) (int32, error) { return d.source(o, t, true) }

func (d *decoder) source(o operand, t typ, loose bool) (int32, error) {
	if o.not {
		return 0, d.fail("cannot negate an operand here")
	}
	switch o.kind {
	case opReg:
		if o.off != 0 {
			return 0, d.fail("cannot add to register %s here", o.name)
		}
		r := o.reg.typ
		if loose && r.size() > t.size() && t != tPred {
			t = typ0(r)
		}
		if r.file() != t.file() || !loose && r.size() != t.size() {
			return 0, d.fail("got register %s of type %v, wanted %v", o.name, r, t)
		}
		i := d.regIndex(o.reg)
		d.uses = append(d.uses, ref{t.file(), i})
		return i, nil
	case opInt, opF32, opF64:
		if t == tPred {
			if o.kind != opInt {
				return 0, d.fail("got a fraction, wanted a predicate")
			}
			return d.constant(filePred, uint64(boolInt(o.imm != 0))), nil
		}
		v, err := o.bitsAs(t)
		if err != nil {
			return 0, d.fail("%v", err)
		}
		return d.constant(t.file(), v), nil
	case opSpecial:
		sp := special(o.imm)
		if sp.file() != t.file() && !(sp == spGridid && t.file() == file32) {
			return 0, d.fail("got %s, wanted a value of type %v", o.name, t)
		}
		i, ok := d.sps[sp]
		if !ok {
			i = d.newReg(t.file())
			d.sps[sp] = i
			d.p.specials = append(d.p.specials, specialReg{ref{t.file(), i}, sp})
		}
		return i, nil
	case opSym:
		return d.symbol(o, t)
	}
	return 0, d.fail("cannot use this operand as a value of type %v", t)
}

// symbol resolves the address of a variable.
func (d *decoder) symbol(o operand, t typ) (int32, error) {
	v := d.lookup(o.name)
	if v == nil {
		return 0, d.fail("%q is not declared", o.name)
	}
	if t.size() != 8 && !(t.size() == 4 && v.space != spaceGlobal && v.space != spaceConst) {
		return 0, d.fail("cannot hold the address of %s in type %v", o.name, t)
	}
	if at, ok := d.offset(v); ok {
		return d.constant(t.file(), uint64(int64(at)+o.off)&mask(t.bits())), nil
	}
	if v.space == spaceShared {
		d.shared[v] = true
	}
	k := symKey{t.file(), v, o.off}
	i, ok := d.syms[k]
	if !ok {
		i = d.newReg(t.file())
		d.syms[k] = i
		d.p.syms = append(d.p.syms, symReg{ref{t.file(), i}, v, o.off})
	}
	return i, nil
}

func (d *decoder) lookup(name string) *variable {
	if v := d.s.scope.variable(name); v != nil {
		return v
	}
	return d.m.byName[name]
}

// Bytes around the variables of a thread's local memory.
const (
	localBase  = 64
	localZone  = 16
	maxLocal   = 1 << 20
	sharedBase = 1024 // the first address of shared memory, so that zero is in none
	sharedZone = 128  // between shared variables; keeps their banks
)

// offset is where a parameter or local variable lies; false for others.
func (d *decoder) offset(v *variable) (int, bool) {
	if at, ok := d.f.entry[v]; ok {
		return at, true
	}
	if at, ok := d.f.locals[v]; ok {
		return at, true
	}
	if v.space != spaceLocal && v.space != spaceParam {
		return 0, false
	}
	at := (d.p.localBytes + v.align - 1) &^ (v.align - 1)
	d.f.locals[v] = at
	d.p.localBytes = at + v.size + localZone
	d.p.localVars = append(d.p.localVars, span{at, at + v.size, v.name})
	return at, true
}

// dst resolves a destination register of type t.
func (d *decoder) dst(o operand, t typ) (int32, error) { return d.destination(o, t, false) }

func (d *decoder) dstLoose(o operand, t typ) (int32, error) { return d.destination(o, t, true) }

func (d *decoder) destination(o operand, t typ, loose bool) (int32, error) {
	if o.kind == opSink {
		return d.newReg(t.file()), nil
	}
	if o.kind != opReg || o.not || o.off != 0 {
		return 0, d.fail("got a destination that is no register")
	}
	r := o.reg.typ
	if loose && r.size() > t.size() && t != tPred {
		t = typ0(r)
	}
	if r.file() != t.file() || r.size() != t.size() && (!loose || r.size() < t.size()) {
		return 0, d.fail("got register %s of type %v, wanted %v", o.name, r, t)
	}
	i := d.regIndex(o.reg)
	d.defs = append(d.defs, ref{t.file(), i})
	return i, nil
}

// pred resolves a predicate operand that may be negated.
func (d *decoder) pred(o operand) (i int32, neg bool, err error) {
	neg, o.not = o.not, false
	i, err = d.src(o, tPred)
	return i, neg, err
}

// layoutShared places the shared variables that the kernel names.
func (d *decoder) layoutShared() {
	var vs []*variable
	for v := range d.shared {
		vs = append(vs, v)
	}
	slices.SortFunc(vs, func(a, b *variable) int { return a.line - b.line })
	packed, zones := 0, 0
	for _, v := range vs {
		if v.extern || v.size == 0 {
			d.p.dynamic = true
			d.p.dynamicAlign = max(d.p.dynamicAlign, v.align)
			continue
		}
		packed = (packed + v.align - 1) &^ (v.align - 1)
		d.p.sharedVars = append(d.p.sharedVars, sharedVar{v, sharedBase + packed + zones})
		packed += v.size
		zones += sharedZone
	}
	d.p.sharedStatic = packed
	a := max(d.p.dynamicAlign, 16)
	d.p.sharedBytes = (packed+a-1)&^(a-1) + zones
	for _, v := range vs {
		if v.extern || v.size == 0 {
			d.p.sharedVars = append(d.p.sharedVars, sharedVar{v, sharedBase + d.p.sharedBytes})
		}
	}
}
