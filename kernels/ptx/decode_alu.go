package ptx

import (
	"slices"
	"strings"
)

// decoders finds the decoder of an instruction by its first word. It is filled
// at init time since calls decode further instructions.
var decoders map[string]func(d *decoder, base string) error

func init() {
	decoders = map[string]func(*decoder, string) error{
		"mov": (*decoder).mov, "cvt": (*decoder).cvt, "cvta": (*decoder).cvta,
		"setp": (*decoder).setp, "set": (*decoder).set, "selp": (*decoder).selp, "slct": (*decoder).slct,
		"shl": (*decoder).shift, "shr": (*decoder).shift, "shf": (*decoder).shf, "lop3": (*decoder).lop3,
		"mul": (*decoder).mul, "mad": (*decoder).mul, "mul24": (*decoder).mul24, "mad24": (*decoder).mul24,
		"addc": (*decoder).carry, "subc": (*decoder).carry, "madc": (*decoder).carry,
		"popc": (*decoder).count, "clz": (*decoder).count, "bfind": (*decoder).bfind,
		"bfe": (*decoder).bfe, "bfi": (*decoder).bfi, "prmt": (*decoder).prmt, "dp4a": (*decoder).dp, "dp2a": (*decoder).dp,
		"testp": (*decoder).testp, "bmsk": (*decoder).bitMask, "szext": (*decoder).bitMask,
		"bra": (*decoder).bra, "brx": (*decoder).brx, "call": (*decoder).call, "ret": (*decoder).ret, "exit": (*decoder).exit,
		"trap": (*decoder).simple, "nanosleep": (*decoder).sleep, "pmevent": (*decoder).hint,
		"bar": (*decoder).bar, "barrier": (*decoder).bar, "membar": (*decoder).fence, "fence": (*decoder).fence,
		"shfl": (*decoder).shfl, "vote": (*decoder).vote, "activemask": (*decoder).active, "match": (*decoder).match,
		"redux": (*decoder).redux, "elect": (*decoder).elect,
		"ld": (*decoder).ld, "ldu": (*decoder).ld, "st": (*decoder).st, "prefetch": (*decoder).hint, "prefetchu": (*decoder).hint,
		"applypriority": (*decoder).hint, "isspacep": (*decoder).isspacep, "createpolicy": (*decoder).policy,
		"atom": (*decoder).atom, "red": (*decoder).atom, "cp": (*decoder).cp,
		"ldmatrix": (*decoder).ldmatrix, "stmatrix": (*decoder).ldmatrix, "mma": (*decoder).mma,
	}
	for _, n := range strings.Fields("add sub min max abs neg div rem and or xor not cnot sad brev fma rcp sqrt rsqrt ex2 lg2 sin cos tanh copysign") {
		decoders[n] = (*decoder).arith
	}
}

// emitLane emits d = lane(sources…), fast where the table has the opcode.
func (d *decoder) emitLane(f lane, dt typ, st ...typ) error {
	if f == nil {
		return d.fail("this form is not supported")
	}
	if err := d.args(1 + len(st)); err != nil {
		return err
	}
	in := d.emit(cLane)
	in.x.lane = f
	var err error
	if in.d, err = d.dst(d.s.args[0], dt); err != nil {
		return err
	}
	in.x.files[0] = dt.file()
	at := [...]*int32{&in.a, &in.b, &in.c}
	for i, t := range st {
		if *at[i], err = d.src(d.s.args[1+i], t); err != nil {
			return err
		}
		in.x.files[1+i] = t.file()
	}
	d.fast()
	return nil
}

// fast swaps the general form of the instruction just built for a quick one.
func (d *decoder) fast() {
	if slowOnly {
		return
	}
	if q, ok := quick[d.s.op]; ok {
		d.in.class, d.in.op = q.class, q.op
	}
	if d.in.a < 0 { // loops read all three; any register will do
		d.in.a = 0
	}
}

// slowOnly makes instructions decode to lanes only, and mma sum without AVX;
// tests compare both.
var slowOnly bool

// floatMods takes the modifiers of floating-point arithmetic.
func (d *decoder) floatMods() floatMods {
	m := floatMods{ftz: d.mod("ftz"), sat: d.mod("sat"), nan: d.mod("NaN"), relu: d.mod("relu"), approx: d.mod("approx"), full: d.mod("full")}
	m.xorsign = d.mod("xorsign") && d.mod("abs")
	m.round = d.rounding()
	return m
}

func (d *decoder) rounding() rounding {
	switch d.oneOf("rn", "rz", "rm", "rp", "rna") {
	case "rn":
		return rNearest
	case "rz":
		return rZero
	case "rm":
		return rDown
	case "rp":
		return rUp
	case "rna":
		return rAway
	}
	return rNone
}

var arity = map[string]int{"abs": 1, "neg": 1, "not": 1, "cnot": 1, "brev": 1, "rcp": 1, "sqrt": 1, "rsqrt": 1, "ex2": 1, "lg2": 1, "sin": 1, "cos": 1, "tanh": 1, "fma": 3, "sad": 3}

// Which instructions a class of types has.
var (
	integerOps = "add sub min max abs neg div rem sad"
	bitOps     = "and or xor not cnot brev"
	f32Ops     = "add sub mul fma mad div rcp sqrt rsqrt ex2 lg2 sin cos tanh min max abs neg copysign"
	f64Ops     = "add sub mul fma mad div rcp sqrt rsqrt min max abs neg copysign"
	halfOps    = "add sub mul fma min max abs neg ex2 tanh"
)

func member(list, name string) bool { return slices.Contains(strings.Fields(list), name) }

// arith decodes instructions whose sources and result have one type.
func (d *decoder) arith(base string) error {
	if (base == "add" || base == "sub") && slices.Contains(d.mods, "cc") {
		return d.carry(base)
	}
	t, err := d.typ()
	if err != nil {
		return err
	}
	n := arity[base]
	if n == 0 {
		n = 2
	}
	st := slices.Repeat([]typ{t}, n)
	if t == tPred {
		return d.predLogic(base, n)
	}
	f, err := d.arithLane(base, t)
	if err != nil {
		return err
	}
	return d.emitLane(f, t, st...)
}

func (d *decoder) arithLane(base string, t typ) (lane, error) {
	bad := d.fail("there is none for type %v", t)
	switch {
	case t == tF32:
		if !member(f32Ops, base) {
			return nil, bad
		}
		m := d.floatMods()
		return f32Lane(base, m), nil
	case t == tF64:
		if !member(f64Ops, base) {
			return nil, bad
		}
		m := d.floatMods()
		if m.sat || m.nan || m.relu || m.xorsign {
			return nil, bad
		}
		return f64Lane(base, m), nil
	case t == tF16 || t == tF16x2 || t == tBF16 || t == tBF16x2:
		if !member(halfOps, base) {
			return nil, bad
		}
		m := d.floatMods()
		if m.round > rNearest {
			return nil, bad
		}
		f := halfLane(base, t == tBF16 || t == tBF16x2, m)
		if t == tF16x2 || t == tBF16x2 {
			f = pairLane(f)
		}
		return f, nil
	case t == tU16x2 || t == tS16x2:
		one := map[typ]typ{tU16x2: tU16, tS16x2: tS16}[t]
		if base != "add" && base != "min" && base != "max" {
			return nil, bad
		}
		f := intLane(base, one, false)
		if d.mod("relu") {
			g := f
			f = func(a, b, c uint64) uint64 {
				if r := g(a, b, c); sext(r, 16) >= 0 {
					return r
				}
				return 0
			}
		}
		return pairLane(f), nil
	case t.integer() && t.size() > 1 && member(integerOps, base):
		if base == "neg" || base == "abs" {
			if !t.signed() {
				return nil, bad
			}
		}
		f := intLane(base, t, t == tS32 && d.mod("sat"))
		if (base == "min" || base == "max") && t == tS32 && d.mod("relu") {
			g := f
			f = func(a, b, c uint64) uint64 { return uint64(max(sext(g(a, b, c), 32), 0)) }
		}
		return f, nil
	case t.untyped() && t.size() > 1 && member(bitOps, base):
		return intLane(base, t, false), nil
	}
	return nil, bad
}

// predLogic decodes and, or, xor, not and mov of predicates.
func (d *decoder) predLogic(base string, n int) error {
	op, ok := map[string]uint8{"and": 0, "or": 1, "xor": 2, "not": 3, "mov": 4}[base]
	if !ok {
		return d.fail("there is none for predicates")
	}
	if err := d.args(1 + n); err != nil {
		return err
	}
	in := d.emit(cPred)
	in.op = op
	var err error
	if in.d, err = d.dst(d.s.args[0], tPred); err != nil {
		return err
	}
	d.copies = base == "mov"
	var neg bool
	if in.a, neg, err = d.pred(d.s.args[1]); neg {
		in.flags |= flagNegA
	}
	if err == nil && n == 2 {
		if in.b, neg, err = d.pred(d.s.args[2]); neg {
			in.flags |= flagNegB
		}
	}
	return err
}

// mul decodes mul and mad of all types.
func (d *decoder) mul(base string) error {
	if slices.Contains(d.mods, "cc") {
		return d.carry(base)
	}
	t, err := d.typ()
	if err != nil {
		return err
	}
	st := []typ{t, t}
	if !t.integer() {
		if base == "mad" {
			st = append(st, t)
		}
		f, err := d.arithLane(base, t)
		if err != nil {
			return err
		}
		return d.emitLane(f, t, st...)
	}
	half := d.oneOf("lo", "hi", "wide")
	if half == "" || t.size() == 1 || half == "wide" && t.size() == 8 {
		return d.fail("wanted .lo, .hi or .wide of 16, 32 or 64 bits")
	}
	dt := t
	if half == "wide" {
		dt = map[typ]typ{tU16: tU32, tS16: tS32, tU32: tU64, tS32: tS64}[t]
	}
	if base == "mad" {
		st = append(st, dt)
	}
	f := mulLane(half, t, base == "mad" && half == "hi" && t == tS32 && d.mod("sat"))
	if base == "mul" {
		g := f
		f = func(a, b, _ uint64) uint64 { return g(a, b, 0) }
	}
	return d.emitLane(f, dt, st...)
}

func (d *decoder) mul24(base string) error {
	t, err := d.typ()
	if err != nil {
		return err
	}
	half := d.oneOf("lo", "hi")
	if half == "" || t != tU32 && t != tS32 {
		return d.fail("wanted .lo or .hi of 32 bits")
	}
	f := mulLane("24"+half, t, false)
	st := []typ{t, t}
	if base == "mad24" {
		st = append(st, t)
	} else {
		g := f
		f = func(a, b, _ uint64) uint64 { return g(a, b, 0) }
	}
	return d.emitLane(f, t, st...)
}

// Carry operations: which sum, and whether the carry comes in and goes out.
const (
	carryAdd uint8 = iota
	carrySub
	carryMadLo
	carryMadHi
	carryIn  = 16
	carryOut = 32
)

// carry decodes add.cc, addc, sub.cc, subc, mad.cc and madc (ISA §9.7.2).
func (d *decoder) carry(base string) error {
	t, err := d.typ()
	if err != nil {
		return err
	}
	if !t.integer() || t.size() < 4 {
		return d.fail("wanted 32 or 64 bits")
	}
	op, n := carryAdd, 2
	switch strings.TrimSuffix(base, "c") {
	case "sub":
		op = carrySub
	case "mad":
		n = 3
		switch d.oneOf("lo", "hi") {
		case "lo":
			op = carryMadLo
		case "hi":
			op = carryMadHi
		default:
			return d.fail("wanted .lo or .hi")
		}
	}
	if strings.HasSuffix(base, "c") {
		op |= carryIn
	}
	if d.mod("cc") {
		op |= carryOut
	}
	if err := d.args(1 + n); err != nil {
		return err
	}
	in := d.emit(cCarry)
	in.op, in.typ = op, t
	in.x.files = [4]file{t.file(), t.file(), t.file(), t.file()}
	if in.d, err = d.dst(d.s.args[0], t); err != nil {
		return err
	}
	for i, at := range []*int32{&in.a, &in.b, &in.c}[:n] {
		if *at, err = d.src(d.s.args[1+i], t); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) shift(base string) error {
	t, err := d.typ()
	if err != nil {
		return err
	}
	if t.float() || t.size() < 2 || base == "shl" && !t.untyped() {
		return d.fail("there is none for type %v", t)
	}
	return d.emitLane(intLane(base, t, false), t, t, tU32)
}

func (d *decoder) shf(string) error {
	dir, mode := d.oneOf("l", "r"), d.oneOf("wrap", "clamp")
	if t, err := d.typ(); err != nil || t != tB32 || dir == "" || mode == "" {
		return d.fail("wanted .l or .r, .wrap or .clamp, .b32")
	}
	return d.emitLane(shfLane(dir == "l", mode == "clamp"), tB32, tB32, tB32, tU32)
}
