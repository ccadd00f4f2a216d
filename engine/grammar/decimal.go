package grammar

import (
	"math/big"
	"strings"
)

// Numbers under conditions are written as plain decimals: integers of up to
// maxIntDigits digits, others of up to maxDigits in all. So every one of them
// has a double of its own, and what holds for the spelling holds for readers
// that round to doubles. Automata over spellings decide by value: each of them
// accepts either all spellings of a number or none.
const (
	maxIntDigits = 18
	maxDigits    = 15
)

// dfaMaker numbers the states of an automaton by name.
type dfaMaker[K comparable] struct {
	d     dfa
	ids   map[K]int32
	order []K
}

func newDFAMaker[K comparable](start K) *dfaMaker[K] {
	m := &dfaMaker[K]{ids: map[K]int32{}}
	m.id(start)
	return m
}

func (m *dfaMaker[K]) id(k K) int32 {
	n, ok := m.ids[k]
	if !ok {
		n = int32(len(m.order))
		m.ids[k] = n
		m.order = append(m.order, k)
		m.d.states = append(m.d.states, dfaState{})
	}
	return n
}

// make runs f for every state that comes up. f says whether a state accepts
// and where each of the bytes - . 0 to 9 leads.
func (m *dfaMaker[K]) make(f func(k K, c byte) (K, bool), accept func(K) bool) *dfa {
	for i := 0; i < len(m.order); i++ {
		k := m.order[i]
		m.d.states[i].accept = accept(k)
		for _, c := range []byte("-.0123456789") {
			if next, ok := f(k, c); ok {
				to := m.id(next)
				m.d.states[i].edges = append(m.d.states[i].edges, dfaEdge{rune(c), rune(c), to})
			}
		}
	}
	return m.d.trim()
}

// decimalDFA accepts the spellings of one kind of number.
func decimalDFA(kind numKind) *dfa {
	type state struct {
		phase byte // 's' start, '-' after it, '0' a zero, 'i' digits, '.' the point, 'f' fraction
		neg   bool
		n     int  // digits
		odd   bool // a digit of the fraction is not zero
		zero  bool // all digits so far are
	}
	next := func(k state, c byte) (state, bool) {
		digit := c >= '0' && c <= '9'
		switch {
		case c == '-':
			return state{phase: '-', neg: true}, k.phase == 's'
		case c == '.':
			ok := kind != integers && (k.phase == '0' || k.phase == 'i' && k.n < maxDigits)
			return state{phase: '.', n: max(k.n, 1), neg: k.neg, zero: k.phase == '0'}, ok
		case digit && (k.phase == 's' || k.phase == '-'):
			if c == '0' {
				return state{phase: '0', n: 1, neg: k.neg, zero: true}, true
			}
			return state{phase: 'i', n: 1}, true
		case digit && k.phase == 'i':
			return state{phase: 'i', n: k.n + 1}, k.n < maxIntDigits
		case digit && (k.phase == '.' || k.phase == 'f'):
			z := k.zero && c == '0'
			return state{phase: 'f', n: k.n + 1, odd: k.odd || c != '0', zero: z, neg: k.neg && z}, k.n < maxDigits
		}
		return state{}, false
	}
	return newDFAMaker(state{phase: 's'}).make(next, func(k state) bool {
		if k.neg && k.zero { // -0 is for nobody
			return false
		}
		switch k.phase {
		case '0', 'i':
			return kind != fractions
		case 'f':
			return kind != fractions || k.odd
		}
		return false
	})
}

// boundDFA accepts the decimals x for which ok(x compared with b) holds.
func boundDFA(b *big.Rat, ok func(int) bool) (*dfa, error) {
	whole, part, err := decimalDigits(b)
	if err != nil {
		return nil, err
	}
	type state struct {
		phase byte // 's' start, '-', 'i' integer digits, 'f' after the point, 'c' decided
		neg   bool
		n     int // digits of the phase, up to one more than b has
		cmp   int // of the magnitude so far with b's; the result in 'c'
	}
	sign := b.Sign()
	order := func(a, b byte) int { return int(a) - int(b) }
	next := func(k state, c byte) (state, bool) {
		digit := c >= '0' && c <= '9'
		switch {
		case k.phase == 'c':
			return k, c != '-'
		case c == '-':
			if sign > 0 {
				return state{phase: 'c', cmp: -1}, k.phase == 's'
			}
			return state{phase: '-', neg: true}, k.phase == 's'
		case digit && k.phase != 'f':
			if !k.neg && sign < 0 {
				return state{phase: 'c', cmp: 1}, true
			}
			if k.phase != 'i' {
				return state{phase: 'i', neg: k.neg, n: 1, cmp: order(c, whole[0])}, true
			}
			if k.n < len(whole) && k.cmp == 0 {
				k.cmp = order(c, whole[k.n])
			}
			k.n = min(k.n+1, len(whole)+1)
			return k, true
		case c == '.' && k.phase == 'i':
			k.cmp = magnitude(k.n, len(whole), k.cmp)
			k.phase, k.n = 'f', 0
			return k, true
		case digit && k.phase == 'f':
			want := byte('0')
			if k.n < len(part) {
				want = part[k.n]
			}
			if k.cmp == 0 {
				k.cmp = order(c, want)
			}
			k.n = min(k.n+1, len(part))
			if k.cmp != 0 {
				k.n = 0
			}
			return k, true
		}
		return state{}, false
	}
	norm := func(k state, c byte) (state, bool) {
		s, ok := next(k, c)
		s.cmp = max(min(s.cmp, 1), -1)
		return s, ok
	}
	return newDFAMaker(state{phase: 's'}).make(norm, func(k state) bool {
		c := k.cmp
		switch k.phase {
		case 'c':
			return ok(c)
		case 'i':
			c = magnitude(k.n, len(whole), k.cmp)
			if c == 0 && part != "" {
				c = -1
			}
		case 'f':
			if c == 0 && k.n < len(part) {
				c = -1
			}
		default:
			return false
		}
		if k.neg {
			c = -c
		}
		return ok(c)
	}), nil
}

// magnitude compares integer parts of n and want digits whose common digits
// compare as cmp.
func magnitude(n, want, cmp int) int {
	switch {
	case n < want:
		return -1
	case n > want:
		return 1
	}
	return cmp
}

// decimalDigits is the magnitude of b as digits before and after the point,
// the latter without trailing zeros.
func decimalDigits(b *big.Rat) (whole, part string, err error) {
	places, exact := b.FloatPrec()
	if !exact || places > maxExponent {
		return "", "", faultf("is no decimal of up to %d places", maxExponent)
	}
	s := strings.TrimPrefix(b.FloatString(places), "-")
	whole, part, _ = strings.Cut(s, ".")
	if len(whole) > 2*maxExponent {
		return "", "", faultf("has more than %d digits", 2*maxExponent)
	}
	return whole, strings.TrimRight(part, "0"), nil
}

// maxModulus bounds the remainders that a multipleOf needs.
const maxModulus = 5000

// multipleDFA accepts the decimals that are multiples of m.
func multipleDFA(m *big.Rat) (*dfa, error) {
	places, exact := m.FloatPrec()
	scaled := new(big.Rat).Mul(m, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)))
	if !exact || places > maxDigits || !scaled.IsInt() || !scaled.Num().IsInt64() || scaled.Num().Int64() > maxModulus {
		return nil, faultf("the divisor needs too many remainders, the limit is %d", maxModulus)
	}
	mod := scaled.Num().Int64()
	type state struct {
		places int // after the point; -1 before it
		rem    int64
	}
	next := func(k state, c byte) (state, bool) {
		switch {
		case c == '-':
			return k, true
		case c == '.':
			return state{0, k.rem}, k.places < 0
		case k.places == places: // what is finer must be zero
			return k, c == '0'
		}
		k.rem = (k.rem*10 + int64(c-'0')) % mod
		if k.places >= 0 {
			k.places++
		}
		return k, true
	}
	return newDFAMaker(state{-1, 0}).make(next, func(k state) bool {
		rem := k.rem
		for i := max(k.places, 0); i < places; i++ {
			rem = rem * 10 % mod
		}
		return rem == 0
	}), nil
}
