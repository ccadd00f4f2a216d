package chattmpl

import (
	"math"
	"math/big"
)

func (ev *eval) unary(op string, v value) value {
	if op == "not" {
		return !truth(v)
	}
	ev.checkDefined(v)
	i, f, isInt, ok := number(v)
	if !ok {
		ev.fail("cannot apply %s to %s", op, typeName(v))
	}
	switch {
	case op == "+" && isInt:
		return i
	case op == "+":
		return f
	case !isInt:
		return -f
	case i == math.MinInt64:
		ev.overflow()
	}
	return -i
}

func (ev *eval) overflow() { ev.fail("number does not fit in 64 bits") }

// binary is an arithmetic operator, with Python's meanings for strings and lists.
func (ev *eval) binary(op string, l, r value) value {
	ev.checkDefined(l)
	if t, ok := l.(text); ok && op == "%" {
		return ev.percent(t, r)
	}
	ev.checkDefined(r)
	switch op {
	case "+":
		if v := ev.join2(l, r); v != nil {
			return v
		}
	case "*":
		if v := ev.repeat(l, r); v != nil {
			return v
		}
		if v := ev.repeat(r, l); v != nil {
			return v
		}
	}
	li, lf, lInt, lok := number(l)
	ri, rf, rInt, rok := number(r)
	if !lok || !rok {
		ev.fail("cannot apply %s to %s and %s", op, typeName(l), typeName(r))
	}
	if lInt && rInt && op != "/" {
		return ev.intOp(op, li, ri)
	}
	return ev.floatOp(op, lf, rf)
}

// join2 is + on strings and lists, nil for other types.
func (ev *eval) join2(l, r value) value {
	switch l := l.(type) {
	case text:
		if r, ok := r.(text); ok {
			return ev.add(l, r)
		}
	case *list:
		if r, ok := r.(*list); ok && l.tuple == r.tuple {
			ev.charge(16 * (len(l.items) + len(r.items)))
			items := make([]value, 0, len(l.items)+len(r.items))
			items = append(append(items, l.items...), r.items...)
			return &list{items: items, tuple: l.tuple, user: l.user || r.user}
		}
	}
	return nil
}

func (ev *eval) add(l, r text) text {
	if l.s == "" {
		return r
	}
	if r.s == "" {
		return l
	}
	ev.charge(len(l.s) + len(r.s))
	if l.flips == nil && r.flips == nil && l.user == r.user {
		return text{s: l.s + r.s, user: l.user}
	}
	var b textBuilder
	b.b = make([]byte, 0, len(l.s)+len(r.s))
	b.writeText(l)
	b.writeText(r)
	return b.text()
}

// repeat is sequence * count, nil for other types.
func (ev *eval) repeat(v, count value) value {
	n, _, isInt, ok := number(count)
	if !ok || !isInt {
		return nil
	}
	n = max(n, 0)
	size := func(unit int) {
		if unit > 0 && n > int64(ev.left.alloc/unit) {
			ev.room(math.MaxInt)
		}
		ev.charge(unit * int(n))
	}
	switch v := v.(type) {
	case text:
		if v.s == "" {
			return v
		}
		size(len(v.s) + 4*len(v.flips))
		var b textBuilder
		for ; n > 0; n-- {
			b.writeText(v)
		}
		return b.text()
	case *list:
		if len(v.items) == 0 {
			return v
		}
		size(16 * len(v.items))
		var items []value
		for ; n > 0; n-- {
			items = append(items, v.items...)
		}
		return &list{items: items, tuple: v.tuple, user: v.user}
	}
	return nil
}

func (ev *eval) intOp(op string, a, b int64) value {
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c
		}
		ev.overflow()
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c
		}
		ev.overflow()
	case "*":
		return ev.bigResult(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)))
	case "**":
		return ev.power(a, b)
	}
	if b == 0 {
		ev.fail("division by zero")
	}
	if a == math.MinInt64 && b == -1 {
		if op == "%" {
			return int64(0)
		}
		ev.overflow()
	}
	q, m := a/b, a%b
	if m != 0 && (m < 0) != (b < 0) {
		q, m = q-1, m+b
	}
	if op == "//" {
		return q
	}
	return m
}

func (ev *eval) bigResult(n *big.Int) value {
	if !n.IsInt64() {
		ev.overflow()
	}
	return n.Int64()
}

func (ev *eval) power(a, b int64) value {
	switch {
	case b < 0:
		return ev.floatOp("**", float64(a), float64(b))
	case a == 0 || a == 1 || b == 0:
		if b == 0 {
			return int64(1)
		}
		return a
	case a == -1:
		return 1 - 2*(b&1)
	case b > 63:
		ev.overflow()
	}
	return ev.bigResult(new(big.Int).Exp(big.NewInt(a), big.NewInt(b), nil))
}

func (ev *eval) floatOp(op string, a, b float64) value {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "**":
		if a == 0 && b < 0 {
			ev.fail("division by zero")
		}
		p := math.Pow(a, b)
		if p != p && a == a && b == b {
			ev.fail("cannot raise a negative number to a fraction")
		}
		return p
	}
	if b == 0 {
		ev.fail("division by zero")
	}
	switch op {
	case "/":
		return a / b
	case "//":
		return math.Floor(a / b)
	}
	m := math.Mod(a, b)
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m
}
