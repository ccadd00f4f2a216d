package chattmpl

import (
	"math/big"
	"strings"
)

// equal is Python's ==. Undefined values equal each other.
func (ev *eval) equal(a, b value) bool {
	ev.step(1)
	switch x := a.(type) {
	case text:
		y, ok := b.(text)
		if ok && len(x.s) == len(y.s) {
			ev.step(len(x.s) / bytesPerStep)
			return x.s == y.s
		}
		return false
	case undefined, none:
		return typeName(a) == typeName(b)
	case *list:
		y, ok := b.(*list)
		if !ok || x.tuple != y.tuple || len(x.items) != len(y.items) {
			return false
		}
		for i := range x.items {
			if !ev.equal(x.items[i], y.items[i]) {
				return false
			}
		}
		return true
	case *dict:
		y, ok := b.(*dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false
		}
		for i, k := range x.keys {
			v, ok := y.get(k)
			if !ok || !ev.equal(x.vals[i], v) {
				return false
			}
		}
		return true
	}
	if c, ok := compareNumbers(a, b); ok {
		return c == 0
	}
	if _, _, _, ok := number(a); ok {
		return false // a NaN, or b is no number
	}
	if _, _, _, ok := number(b); ok {
		return false
	}
	switch b.(type) {
	case text, undefined, none, *list, *dict:
		return false
	}
	return a == b // identity of functions, macros and namespaces
}

// compareNumbers orders two numbers; ok is false for other types and NaN.
func compareNumbers(a, b value) (c int, ok bool) {
	ai, af, aInt, aok := number(a)
	bi, bf, bInt, bok := number(b)
	if !aok || !bok {
		return 0, false
	}
	x, xBig := a.(*big.Int)
	y, yBig := b.(*big.Int)
	switch {
	case aInt && bInt:
		return cmp(ai, bi), true
	case (xBig || aInt) && (yBig || bInt):
		if !xBig {
			x = big.NewInt(ai)
		}
		if !yBig {
			y = big.NewInt(bi)
		}
		return x.Cmp(y), true
	case af != af || bf != bf:
		return 0, false
	}
	return cmp(af, bf), true
}

func cmp[T int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// order is Python's ordering of a and b; nan is true where any comparison is
// false. Values without an order raise.
func (ev *eval) order(a, b value) (c int, nan bool) {
	ev.step(1)
	if c, ok := compareNumbers(a, b); ok {
		return c, false
	}
	_, _, _, aok := number(a)
	_, _, _, bok := number(b)
	if aok && bok {
		return 0, true
	}
	if x, ok := a.(text); ok {
		if y, ok := b.(text); ok {
			ev.step(min(len(x.s), len(y.s)) / bytesPerStep)
			return strings.Compare(x.s, y.s), false
		}
	}
	if x, ok := a.(*list); ok {
		if y, ok := b.(*list); ok && x.tuple == y.tuple {
			for i := 0; i < len(x.items) && i < len(y.items); i++ {
				if !ev.equal(x.items[i], y.items[i]) {
					return ev.order(x.items[i], y.items[i])
				}
			}
			return cmp(int64(len(x.items)), int64(len(y.items))), false
		}
	}
	ev.checkDefined(a)
	ev.checkDefined(b)
	ev.fail("cannot order %s and %s", typeName(a), typeName(b))
	return 0, false
}

// contains is Python's `needle in v`.
func (ev *eval) contains(v, needle value) bool {
	switch v := v.(type) {
	case text:
		ev.checkDefined(needle)
		n, ok := needle.(text)
		if !ok {
			ev.fail("cannot look for %s in a string", typeName(needle))
		}
		ev.step(len(v.s) / bytesPerStep)
		return strings.Contains(v.s, n.s)
	case *list:
		for _, e := range v.items {
			if ev.equal(e, needle) {
				return true
			}
		}
		return false
	case *dict:
		_, ok := v.get(needle)
		return ok
	case undefined:
		return false
	}
	ev.fail("cannot look for a value in %s", typeName(v))
	return false
}
