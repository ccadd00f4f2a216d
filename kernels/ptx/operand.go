package ptx

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// operand reads one operand.
func (p *parser) operand(sc *scope, depth int) (o operand, err error) {
	if depth > 3 {
		return o, p.fail("operands nest too deep")
	}
	switch {
	case p.is("["):
		if err := p.next(); err != nil {
			return o, err
		}
		base, err := p.operand(sc, depth+1)
		if err != nil {
			return o, err
		}
		o = operand{kind: opMem, elems: []operand{base}, off: base.off}
		o.elems[0].off = 0
		return o, p.want("]")
	case p.is("{") || p.is("("):
		kind, end := opVec, "}"
		if p.is("(") {
			kind, end = opList, ")"
		}
		o.kind = kind
		if err := p.next(); err != nil {
			return o, err
		}
		for !p.is(end) {
			e, err := p.operand(sc, depth+1)
			if err != nil {
				return o, err
			}
			if o.elems = append(o.elems, e); len(o.elems) > 64 {
				return o, p.fail("more than 64 elements in one operand")
			}
			if !p.is(",") {
				break
			}
			if err := p.next(); err != nil {
				return o, err
			}
		}
		return o, p.want(end)
	case p.is("!"):
		if err := p.next(); err != nil {
			return o, err
		}
		o, err = p.operand(sc, depth+1)
		o.not = !o.not
		return o, err
	case p.tok.kind == tokNumber || p.is("-") || p.is("+"):
		return p.literal()
	case p.tok.kind != tokWord:
		return o, p.fail("got %q, wanted an operand", p.tok.text)
	}
	return p.named(sc, depth)
}

// named reads an operand that starts with a name.
func (p *parser) named(sc *scope, depth int) (o operand, err error) {
	name := p.tok.text
	switch {
	case name == "_":
		o.kind = opSink
	case sc.reg(name) != nil:
		o = operand{kind: opReg, reg: sc.reg(name), name: name}
	case name[0] == '%' && specialNames[name] != 0:
		o = operand{kind: opSpecial, name: name, imm: uint64(specialNames[name])}
	case name == "WARP_SZ":
		o = operand{kind: opInt, imm: 32}
	case name[0] == '%':
		return o, p.fail("cannot use register %q: it is not declared, or a special register that is not supported", name)
	default:
		o = operand{kind: opSym, name: name}
	}
	if err := p.next(); err != nil {
		return o, err
	}
	switch {
	case p.is("|"):
		if err := p.next(); err != nil {
			return o, err
		}
		q, err := p.operand(sc, depth+1)
		return operand{kind: opPair, elems: []operand{o, q}}, err
	case (p.is("+") || p.is("-")) && (o.kind == opReg || o.kind == opSym):
		minus := p.is("-")
		if err := p.next(); err != nil {
			return o, err
		}
		n, err := p.literal()
		if err != nil {
			return o, err
		}
		if n.kind != opInt {
			return o, p.fail("got an offset that is no whole number")
		}
		if o.off = int64(n.imm); minus {
			o.off = -o.off
		}
	}
	return o, nil
}

// literal reads a signed number.
func (p *parser) literal() (o operand, err error) {
	neg := false
	for p.is("-") || p.is("+") {
		neg = neg != p.is("-")
		if err := p.next(); err != nil {
			return o, err
		}
	}
	s := p.tok.text
	if p.tok.kind != tokNumber {
		return o, p.fail("got %q, wanted a number", s)
	}
	switch {
	case len(s) == 10 && (s[:2] == "0f" || s[:2] == "0F"):
		o.kind = opF32
		if o.imm, err = strconv.ParseUint(s[2:], 16, 32); neg {
			o.imm ^= 1 << 31
		}
	case len(s) == 18 && (s[:2] == "0d" || s[:2] == "0D"):
		o.kind = opF64
		if o.imm, err = strconv.ParseUint(s[2:], 16, 64); neg {
			o.imm ^= 1 << 63
		}
	case strings.ContainsRune(s, '.'):
		var v float64
		v, err = strconv.ParseFloat(s, 64)
		if neg {
			v = -v
		}
		o.kind, o.imm = opF64, math.Float64bits(v)
	default:
		o.kind = opInt
		o.imm, err = strconv.ParseUint(strings.TrimRight(s, "U"), 0, 64)
		if neg {
			o.imm = -o.imm
		}
	}
	if err != nil {
		return o, p.fail("cannot read the number %q", s)
	}
	return o, p.next()
}

// bitsAs gives a literal's bits as a value of type t.
func (o operand) bitsAs(t typ) (uint64, error) {
	mask := uint64(1)<<t.bits() - 1
	if t.size() == 8 {
		mask = math.MaxUint64
	}
	switch o.kind {
	case opInt:
		if t == tF32 || t == tF64 {
			return 0, fmt.Errorf("got a whole number, wanted a literal of type %v", t)
		}
		return o.imm & mask, nil
	case opF32:
		switch t {
		case tF32, tB32:
			return o.imm, nil
		case tF64:
			return math.Float64bits(float64(math.Float32frombits(uint32(o.imm)))), nil
		}
	case opF64:
		switch t {
		case tF64, tB64:
			return o.imm, nil
		case tF32:
			return uint64(math.Float32bits(float32(math.Float64frombits(o.imm)))), nil
		}
	}
	return 0, fmt.Errorf("got a literal that is no %v", t)
}

// special is a register that the machine provides (ISA §10).
type special uint8

const (
	spNone special = iota
	spTidX
	spTidY
	spTidZ
	spNtidX
	spNtidY
	spNtidZ
	spCtaidX
	spCtaidY
	spCtaidZ
	spNctaidX
	spNctaidY
	spNctaidZ
	spLaneid
	spWarpid
	spNwarpid
	spSmid
	spNsmid
	spGridid
	spLaneEq
	spLaneLe
	spLaneLt
	spLaneGe
	spLaneGt
	spDynShared
	spTotalShared
	spClock
	spClockHi
	spClock64
	spGlobaltimer
)

var specialNames = map[string]special{
	"%tid.x": spTidX, "%tid.y": spTidY, "%tid.z": spTidZ, "%ntid.x": spNtidX, "%ntid.y": spNtidY, "%ntid.z": spNtidZ,
	"%ctaid.x": spCtaidX, "%ctaid.y": spCtaidY, "%ctaid.z": spCtaidZ, "%nctaid.x": spNctaidX, "%nctaid.y": spNctaidY, "%nctaid.z": spNctaidZ,
	"%laneid": spLaneid, "%warpid": spWarpid, "%nwarpid": spNwarpid, "%smid": spSmid, "%nsmid": spNsmid, "%gridid": spGridid,
	"%lanemask_eq": spLaneEq, "%lanemask_le": spLaneLe, "%lanemask_lt": spLaneLt, "%lanemask_ge": spLaneGe, "%lanemask_gt": spLaneGt,
	"%dynamic_smem_size": spDynShared, "%total_smem_size": spTotalShared,
	"%clock": spClock, "%clock_hi": spClockHi, "%clock64": spClock64, "%globaltimer": spGlobaltimer,
}

// file of a special register: the clocks of 64 bits are wide.
func (s special) file() file {
	if s == spClock64 || s == spGlobaltimer || s == spGridid {
		return file64
	}
	return file32
}
