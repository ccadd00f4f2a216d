package ptx

import "slices"

// label resolves a branch target to a statement.
func (d *decoder) label(name string) (int, error) {
	i, ok := d.s.scope.label(name)
	if !ok {
		return 0, d.fail("no label %q", name)
	}
	return i, nil
}

func (d *decoder) bra(string) error {
	d.mod("uni")
	if err := d.args(1); err != nil {
		return err
	}
	if d.s.args[0].kind != opSym {
		return d.fail("wanted a label")
	}
	i, err := d.label(d.s.args[0].name)
	if err != nil {
		return err
	}
	d.emit(cBra)
	d.f.fixups = append(d.f.fixups, fixup{int32(len(d.p.code) - 1), -1, i, d.s.line})
	return nil
}

// brx decodes brx.idx: a jump through a table.
func (d *decoder) brx(string) error {
	d.mod("uni")
	if !d.mod("idx") {
		return d.fail("wanted .idx")
	}
	if err := d.args(2); err != nil {
		return err
	}
	table := d.f.fn.tables[d.s.args[1].name]
	if d.s.args[1].kind != opSym || len(table) == 0 {
		return d.fail("wanted a label with .branchtargets")
	}
	in := d.emit(cBrx)
	var err error
	if in.a, err = d.src(d.s.args[0], tU32); err != nil {
		return err
	}
	in.x.targets = make([]int32, len(table))
	for n, name := range table {
		i, err := d.label(name)
		if err != nil {
			return err
		}
		d.f.fixups = append(d.f.fixups, fixup{int32(len(d.p.code) - 1), n, i, d.s.line})
	}
	return nil
}

// call expands a function in place. Its parameters are the caller's .param
// variables, which lie in local memory.
func (d *decoder) call(string) error {
	d.mod("uni")
	args := d.s.args
	var rets, params []operand
	if len(args) > 0 && args[0].kind == opList {
		rets, args = args[0].elems, args[1:]
	}
	if len(args) == 0 || args[0].kind != opSym {
		return d.fail("wanted the name of a function: no indirect calls")
	}
	name := args[0].name
	if len(args) > 1 && args[1].kind == opList {
		params = args[1].elems
		args = args[1:]
	}
	if len(args) != 1 {
		return d.fail("got operands after the parameters")
	}
	fn := d.m.funcs[name]
	if fn == nil || !fn.defined || fn.entry {
		return d.fail("%s is no function defined here", name)
	}
	if len(rets) != len(fn.rets) || len(params) != len(fn.params) {
		return d.fail("%s takes %d and returns %d, got %d and %d", name, len(fn.params), len(fn.rets), len(params), len(rets))
	}
	fr := &frame{fn: fn, up: d.f, locals: map[*variable]int{}}
	for i, o := range slices.Concat(params, rets) {
		v := slices.Concat(fn.params, fn.rets)[i]
		w := d.lookup(o.name)
		if o.kind != opSym || w == nil || w.space != spaceParam || w.size != v.size {
			return d.fail("wanted .param variables of the sizes that %s declares", name)
		}
		if _, entry := d.f.entry[w]; entry {
			return d.fail("cannot pass on a kernel's parameter")
		}
		at, _ := d.offset(w)
		fr.locals[v] = at
	}
	skip := int32(-1)
	if d.s.guard != nil { // lanes that do not call go around
		in := d.emit(cBra)
		in.guardNeg = !in.guardNeg
		skip = int32(len(d.p.code) - 1)
		d.finish()
	}
	s := d.s
	mods := d.mods
	if err := d.function(fr); err != nil {
		return err
	}
	d.s, d.mods = s, mods
	if skip >= 0 {
		d.p.code[skip].target = int32(len(d.p.code))
	}
	return nil
}

func (d *decoder) ret(string) error {
	d.mod("uni")
	if err := d.args(0); err != nil {
		return err
	}
	if d.f.up == nil {
		d.emit(cExit)
		return nil
	}
	d.emit(cBra)
	d.f.fixups = append(d.f.fixups, fixup{int32(len(d.p.code) - 1), -1, len(d.f.fn.body), d.s.line})
	return nil
}

func (d *decoder) exit(string) error {
	d.emit(cExit)
	return d.args(0)
}

func (d *decoder) simple(string) error {
	d.emit(cTrap)
	return d.args(0)
}

func (d *decoder) sleep(string) (err error) {
	if t, err := d.typ(); err != nil || t != tU32 {
		return d.fail("wanted .u32")
	}
	if err := d.args(1); err != nil {
		return err
	}
	in := d.emit(cSleep)
	in.a, err = d.src(d.s.args[0], tU32)
	return err
}

// hint passes instructions that change no value: prefetch, applypriority, pmevent.
func (d *decoder) hint(string) error {
	d.mods = nil
	in := d.emit(cNop)
	for _, o := range d.s.args {
		if o.kind == opMem {
			if err := d.address(in, o, spaceGeneric); err != nil {
				return err
			}
		}
	}
	return nil
}

// policy decodes createpolicy, whose result only cache hints take.
func (d *decoder) policy(string) (err error) {
	d.mods = nil
	if len(d.s.args) == 0 {
		return d.fail("got no operands")
	}
	in := d.emit(cLane)
	in.x.lane = func(_, _, _ uint64) uint64 { return 0 }
	in.x.files[0] = file64
	in.a = d.constant(file32, 0)
	in.d, err = d.dst(d.s.args[0], tB64)
	return err
}

// bar decodes bar.sync, bar.arrive, bar.red and the barrier spellings (ISA §9.7.12.1).
func (d *decoder) bar(base string) (err error) {
	d.mod("cta")
	if d.mod("warp") {
		if !d.mod("sync") {
			return d.fail("wanted .sync")
		}
		if err := d.args(1); err != nil {
			return err
		}
		in := d.emit(cBarWarp)
		in.a, err = d.src(d.s.args[0], tU32)
		return err
	}
	kind := d.oneOf("sync", "arrive", "red")
	in := d.emit(cBar)
	aligned := d.mod("aligned")
	if base == "barrier" && !aligned {
		in.flags |= flagUnaligned
	}
	args := d.s.args
	switch kind {
	case "sync":
		err = d.argsIn(1, 2)
	case "arrive":
		in.flags |= flagArrive
		err = d.args(2)
	case "red":
		in.flags |= flagReduce
		if args, err = d.barReduce(in); err == nil && (len(args) < 1 || len(args) > 2) {
			err = d.fail("got %d operands", len(d.s.args))
		}
	default:
		err = d.fail("wanted .sync, .arrive or .red")
	}
	if err != nil {
		return err
	}
	if in.a, err = d.src(args[0], tU32); err == nil && len(args) == 2 {
		in.flags |= flagCount
		in.b, err = d.src(args[1], tU32)
	}
	return err
}

// barReduce takes result and predicate of bar.red; it returns the operands between.
func (d *decoder) barReduce(in *inst) ([]operand, error) {
	op := d.oneOf("popc", "and", "or")
	t, err := d.typ()
	if err != nil || op == "" || (op == "popc") != (t == tU32) || (op != "popc") != (t == tPred) {
		return nil, d.fail("wanted .popc.u32, .and.pred or .or.pred")
	}
	args := d.s.args
	if len(args) < 3 {
		return nil, d.fail("got %d operands", len(args))
	}
	in.op = map[string]uint8{"and": 0, "or": 1, "popc": 2}[op]
	in.typ = t
	if in.d, err = d.dst(args[0], t); err != nil {
		return nil, err
	}
	var neg bool
	if in.c, neg, err = d.pred(args[len(args)-1]); neg {
		in.flags |= flagNegC
	}
	return args[1 : len(args)-1], err
}

// fence decodes membar and fence; in.op is one where other blocks are reached.
func (d *decoder) fence(base string) error {
	d.oneOf("sc", "acq_rel")
	scope := d.oneOf("cta", "gl", "sys", "gpu", "cluster")
	if scope == "" {
		return d.fail("wanted a scope")
	}
	in := d.emit(cFence)
	if scope != "cta" {
		in.op = 1
	}
	return d.args(0)
}

// shfl decodes shfl.sync.mode.b32 d{|p}, a, b, c, membermask (ISA §9.7.8.6).
func (d *decoder) shfl(string) error {
	if !d.mod("sync") {
		return d.fail("wanted .sync: the form without is gone since sm_70")
	}
	mode := d.oneOf("up", "down", "bfly", "idx")
	t, err := d.typ()
	if err != nil || t != tB32 || mode == "" {
		return d.fail("wanted .up, .down, .bfly or .idx of .b32")
	}
	if err := d.args(5); err != nil {
		return err
	}
	in := d.emit(cShfl)
	in.op = map[string]uint8{"up": 0, "down": 1, "bfly": 2, "idx": 3}[mode]
	o := d.s.args[0]
	if o.kind == opPair {
		if in.e, err = d.dst(o.elems[1], tPred); err != nil {
			return err
		}
		o = o.elems[0]
	}
	if in.d, err = d.dst(o, tB32); err != nil {
		return err
	}
	in.x.regs = make([]int32, 1)
	for i, at := range []*int32{&in.a, &in.b, &in.c, &in.x.regs[0]} {
		if *at, err = d.src(d.s.args[1+i], tB32); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) vote(string) error {
	if !d.mod("sync") {
		return d.fail("wanted .sync")
	}
	mode := d.oneOf("all", "any", "uni", "ballot")
	t, err := d.typ()
	if err != nil || mode == "" || (mode == "ballot") != (t == tB32) || (mode != "ballot") != (t == tPred) {
		return d.fail("wanted .all, .any or .uni of .pred, or .ballot of .b32")
	}
	if err := d.args(3); err != nil {
		return err
	}
	in := d.emit(cVote)
	in.op = map[string]uint8{"all": 0, "any": 1, "uni": 2, "ballot": 3}[mode]
	if in.d, err = d.dst(d.s.args[0], t); err != nil {
		return err
	}
	var neg bool
	if in.a, neg, err = d.pred(d.s.args[1]); neg {
		in.flags |= flagNegA
	}
	if err == nil {
		in.b, err = d.src(d.s.args[2], tB32)
	}
	return err
}

func (d *decoder) active(string) (err error) {
	if t, err := d.typ(); err != nil || t != tB32 {
		return d.fail("wanted .b32")
	}
	if err := d.args(1); err != nil {
		return err
	}
	in := d.emit(cActive)
	in.d, err = d.dst(d.s.args[0], tB32)
	return err
}

// match decodes match.any.sync and match.all.sync (ISA §9.7.12.9).
func (d *decoder) match(string) error {
	mode := d.oneOf("any", "all")
	sync := d.mod("sync")
	t, err := d.typ()
	if err != nil || mode == "" || !sync || t != tB32 && t != tB64 {
		return d.fail("wanted .any or .all, .sync, .b32 or .b64")
	}
	if err := d.args(3); err != nil {
		return err
	}
	in := d.emit(cMatch)
	in.typ = t
	o := d.s.args[0]
	if mode == "all" {
		in.op = 1
		if o.kind == opPair {
			if in.e, err = d.dst(o.elems[1], tPred); err != nil {
				return err
			}
			o = o.elems[0]
		}
	}
	if in.d, err = d.dst(o, tB32); err != nil {
		return err
	}
	if in.a, err = d.src(d.s.args[1], t); err != nil {
		return err
	}
	in.b, err = d.src(d.s.args[2], tB32)
	return err
}

// redux decodes redux.sync (ISA §9.7.12.11).
func (d *decoder) redux(string) error {
	sync := d.mod("sync")
	op := d.oneOf("add", "min", "max", "and", "or", "xor")
	t, err := d.typ()
	bit := op == "and" || op == "or" || op == "xor"
	if err != nil || !sync || op == "" || bit != (t == tB32) || !bit && t != tU32 && t != tS32 {
		return d.fail("wanted .sync, an operation, and .u32, .s32 or .b32")
	}
	if err := d.args(3); err != nil {
		return err
	}
	in := d.emit(cRedux)
	in.x.lane = intLane(op, t, false)
	if in.d, err = d.dst(d.s.args[0], t); err != nil {
		return err
	}
	if in.a, err = d.src(d.s.args[1], t); err != nil {
		return err
	}
	in.b, err = d.src(d.s.args[2], tB32)
	return err
}

// elect decodes elect.sync _|p, membermask: the lowest lane leads.
func (d *decoder) elect(string) error {
	if !d.mod("sync") {
		return d.fail("wanted .sync")
	}
	if err := d.args(2); err != nil {
		return err
	}
	o := d.s.args[0]
	if o.kind != opPair {
		return d.fail("wanted d|p")
	}
	in := d.emit(cElect)
	var err error
	if in.d, err = d.dst(o.elems[0], tB32); err != nil {
		return err
	}
	if in.e, err = d.dst(o.elems[1], tPred); err != nil {
		return err
	}
	in.b, err = d.src(d.s.args[1], tB32)
	return err
}
