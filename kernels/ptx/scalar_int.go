package ptx

import (
	"math"
	"math/bits"
)

// lane is what an instruction does in one lane: it takes up to three values,
// narrow ones with zeroes above, and gives one. It is the meaning of the
// instruction; what runs.go does warp by warp must agree with it.
type lane func(a, b, c uint64) uint64

// sext reads the low bits of v as a signed number.
func sext(v uint64, bits uint) int64 { return int64(v<<(64-bits)) >> (64 - bits) }

func mask(bits uint) uint64 { return math.MaxUint64 >> (64 - bits) }

// intLane is an integer instruction of type t (ISA §9.7.1, §9.7.8).
func intLane(base string, t typ, sat bool) lane {
	n := t.bits()
	m := mask(n)
	if sat { // add.sat.s32, sub.sat.s32
		clamp := func(v int64) uint64 { return uint64(min(max(v, math.MinInt32), math.MaxInt32)) & m }
		switch base {
		case "add":
			return func(a, b, _ uint64) uint64 { return clamp(sext(a, 32) + sext(b, 32)) }
		case "sub":
			return func(a, b, _ uint64) uint64 { return clamp(sext(a, 32) - sext(b, 32)) }
		}
		return nil
	}
	switch base {
	case "add":
		return func(a, b, _ uint64) uint64 { return (a + b) & m }
	case "sub":
		return func(a, b, _ uint64) uint64 { return (a - b) & m }
	case "neg":
		return func(a, _, _ uint64) uint64 { return -a & m }
	case "abs":
		return func(a, _, _ uint64) uint64 {
			if sext(a, n) < 0 {
				a = -a
			}
			return a & m
		}
	case "min", "max":
		return minMaxLane(base == "max", t)
	case "div", "rem":
		return divLane(base == "rem", t)
	case "and":
		return func(a, b, _ uint64) uint64 { return a & b }
	case "or":
		return func(a, b, _ uint64) uint64 { return a | b }
	case "xor":
		return func(a, b, _ uint64) uint64 { return a ^ b }
	case "not":
		return func(a, _, _ uint64) uint64 { return ^a & m }
	case "cnot":
		return func(a, _, _ uint64) uint64 {
			if a&m == 0 {
				return 1
			}
			return 0
		}
	case "shl":
		return func(a, b, _ uint64) uint64 { return a << min(b&0xffffffff, 64) & m }
	case "shr":
		if t.signed() {
			return func(a, b, _ uint64) uint64 { return uint64(sext(a, n)>>min(b&0xffffffff, 63)) & m }
		}
		return func(a, b, _ uint64) uint64 { return a & m >> min(b&0xffffffff, 64) }
	case "popc":
		return func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a & m)) }
	case "clz":
		return func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros64(a&m)) - 64 + uint64(n) }
	case "brev":
		return func(a, _, _ uint64) uint64 { return bits.Reverse64(a&m) >> (64 - n) }
	case "sad":
		return sadLane(t)
	}
	return nil
}

func minMaxLane(isMax bool, t typ) lane {
	n, signed := t.bits(), t.signed()
	return func(a, b, _ uint64) uint64 {
		less := a < b
		if signed {
			less = sext(a, n) < sext(b, n)
		}
		if less != isMax {
			return a
		}
		return b
	}
}

// divLane divides; by zero it gives all ones, the remainder the dividend: the
// ISA leaves both open.
func divLane(rem bool, t typ) lane {
	n, m := t.bits(), mask(t.bits())
	return func(a, b, _ uint64) uint64 {
		a, b = a&m, b&m
		switch {
		case b == 0 && rem:
			return a
		case b == 0:
			return m
		case t.signed() && b == m: // by -1, which may overflow
			if rem {
				return 0
			}
			return -a & m
		case t.signed() && rem:
			return uint64(sext(a, n)%sext(b, n)) & m
		case t.signed():
			return uint64(sext(a, n)/sext(b, n)) & m
		case rem:
			return a % b
		}
		return a / b
	}
}

func sadLane(t typ) lane {
	n, m := t.bits(), mask(t.bits())
	return func(a, b, c uint64) uint64 {
		d := a - b
		if t.signed() && sext(a, n) < sext(b, n) || !t.signed() && a < b {
			d = b - a
		}
		return (c + d) & m
	}
}

// mulHigh is the upper half of a product of type t.
func mulHigh(a, b uint64, t typ) uint64 {
	n := t.bits()
	if n == 64 {
		hi, _ := bits.Mul64(a, b)
		if t.signed() {
			hi -= uint64(int64(a)>>63)&b + uint64(int64(b)>>63)&a
		}
		return hi
	}
	if t.signed() {
		return uint64(sext(a, n)*sext(b, n)) >> n & mask(n)
	}
	return (a & mask(n)) * (b & mask(n)) >> n
}

// mulLane is mul and mad; half says lo, hi, wide, or 24lo, 24hi.
func mulLane(half string, t typ, sat bool) lane {
	n, m := t.bits(), mask(t.bits())
	switch half {
	case "lo":
		return func(a, b, c uint64) uint64 { return (a*b + c) & m }
	case "hi":
		if sat {
			return func(a, b, c uint64) uint64 {
				v := sext(mulHigh(a, b, t), 32) + sext(c, 32)
				return uint64(min(max(v, math.MinInt32), math.MaxInt32)) & m
			}
		}
		return func(a, b, c uint64) uint64 { return (mulHigh(a, b, t) + c) & m }
	case "wide":
		w := mask(2 * n)
		if t.signed() {
			return func(a, b, c uint64) uint64 { return (uint64(sext(a, n)*sext(b, n)) + c) & w }
		}
		return func(a, b, c uint64) uint64 { return ((a&m)*(b&m) + c) & w }
	case "24lo", "24hi":
		shift := uint(0)
		if half == "24hi" {
			shift = 16
		}
		if t.signed() {
			return func(a, b, c uint64) uint64 { return (uint64(sext(a, 24)*sext(b, 24)>>shift) + c) & m }
		}
		return func(a, b, c uint64) uint64 { return ((a&0xffffff)*(b&0xffffff)>>shift + c) & m }
	}
	return nil
}

// bfeLane extracts a bit field: position b, length c, of which the low eight bits count.
func bfeLane(t typ) lane {
	n, m := uint64(t.bits()), mask(t.bits())
	return func(a, b, c uint64) uint64 {
		pos, length := b&0xff, c&0xff
		sbit := uint64(0)
		if t.signed() && length > 0 {
			sbit = a >> min(pos+length-1, n-1) & 1
		}
		if length == 0 {
			return 0
		}
		d := uint64(0)
		if pos < n {
			d = a & m >> pos
		}
		keep := min(length, n)
		if keep < 64 {
			d &= 1<<keep - 1
		}
		valid := min(keep, n-min(pos, n)) // bits that came from a
		if sbit == 1 && valid < n {
			d |= m &^ (1<<valid - 1)
		}
		return d & m
	}
}

// bfi puts the low bits of a into b at pos.
func bfi(a, b, pos, length uint64, n uint) uint64 {
	pos, length = pos&0xff, length&0xff
	if pos >= uint64(n) || length == 0 {
		return b
	}
	field := mask(uint(min(length, uint64(n)-pos))) << pos
	return b&^field | a<<pos&field
}

// bfindLane finds the most significant bit that is not the sign.
func bfindLane(t typ, shiftAmount bool) lane {
	n, m := t.bits(), mask(t.bits())
	return func(a, _, _ uint64) uint64 {
		if t.signed() && sext(a, n) < 0 {
			a = ^a
		}
		a &= m
		if a == 0 {
			return 0xffffffff
		}
		i := uint64(bits.Len64(a)) - 1
		if shiftAmount {
			i = uint64(n) - 1 - i
		}
		return i
	}
}

// prmtLane picks bytes of {b,a} by the selector c (ISA §9.7.8.6).
func prmtLane(mode string) lane {
	pick := func(v, s uint64) uint64 {
		x := v >> (8 * (s & 7)) & 0xff
		if s&8 != 0 {
			x = uint64(int64(x<<56)>>63) & 0xff
		}
		return x
	}
	if mode == "" {
		return func(a, b, c uint64) uint64 {
			v := a&0xffffffff | b<<32
			return pick(v, c) | pick(v, c>>4)<<8 | pick(v, c>>8)<<16 | pick(v, c>>12)<<24
		}
	}
	sel := func(s [4]uint64) uint64 { return s[0] | s[1]<<4 | s[2]<<8 | s[3]<<12 }
	var table [4]uint64
	for i := range uint64(4) {
		switch mode {
		case "f4e":
			table[i] = sel([4]uint64{i, i + 1, i + 2, i + 3})
		case "b4e":
			table[i] = sel([4]uint64{i, (i + 7) & 7, (i + 6) & 7, (i + 5) & 7})
		case "rc8":
			table[i] = sel([4]uint64{i, i, i, i})
		case "ecl":
			table[i] = sel([4]uint64{i, max(i, 1), max(i, 2), 3})
		case "ecr":
			table[i] = sel([4]uint64{0, min(i, 1), min(i, 2), i})
		case "rc16":
			table[i] = sel([4]uint64{i & 1 * 2, i&1*2 + 1, i & 1 * 2, i&1*2 + 1})
		default:
			return nil
		}
	}
	plain := prmtLane("")
	return func(a, b, c uint64) uint64 { return plain(a, b, table[c&3]) }
}

// lop3 is any function of three bits, given by its truth table.
func lop3(a, b, c uint64, table uint8) uint64 {
	var r uint64
	for i := range 8 {
		if table>>i&1 == 1 {
			x, y, z := a, b, c
			if i&4 == 0 {
				x = ^x
			}
			if i&2 == 0 {
				y = ^y
			}
			if i&1 == 0 {
				z = ^z
			}
			r |= x & y & z
		}
	}
	return r & 0xffffffff
}

// shfLane is the funnel shift of {b,a} by c (ISA §9.7.8.7).
func shfLane(left, clamp bool) lane {
	return func(a, b, c uint64) uint64 {
		n := c & 31
		if clamp {
			n = min(c&0xffffffff, 32)
		}
		v := a&0xffffffff | b<<32
		if left {
			return v << n >> 32 & 0xffffffff
		}
		return v >> n & 0xffffffff
	}
}

// dpLane is dp4a, and dp2a of the low or high bytes of b.
func dpLane(four bool, ta, tb typ, hi bool) lane {
	part := func(v uint64, i, n uint, t typ) int64 {
		v = v >> (i * n) & mask(n)
		if t.signed() {
			return sext(v, n)
		}
		return int64(v)
	}
	return func(a, b, c uint64) uint64 {
		r := int64(c)
		if four {
			for i := range uint(4) {
				r += part(a, i, 8, ta) * part(b, i, 8, tb)
			}
			return uint64(r) & 0xffffffff
		}
		at := uint(0)
		if hi {
			at = 2
		}
		for i := range uint(2) {
			r += part(a, i, 16, ta) * part(b, i+at, 8, tb)
		}
		return uint64(r) & 0xffffffff
	}
}
