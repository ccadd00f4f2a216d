package chattmpl

type testFunc func(ev *eval, v value, a args) bool

var tests map[string]testFunc

func kindTest(f func(v value) bool) testFunc {
	return func(ev *eval, v value, a args) bool {
		ev.bind("test", a)
		return f(v)
	}
}

func compareTest(op string) testFunc {
	return func(ev *eval, v value, a args) bool {
		p := ev.bind("test", a, "other")
		if p[0] == nil {
			ev.fail("test lacks an argument")
		}
		return ev.compare(op, v, p[0])
	}
}

func remainderTest(want int64) testFunc {
	return func(ev *eval, v value, a args) bool {
		ev.bind("test", a)
		return ev.equal(ev.binary("%", v, int64(2)), want)
	}
}

func init() {
	tests = map[string]testFunc{
		"defined":   kindTest(func(v value) bool { return !isUndefined(v) }),
		"undefined": kindTest(isUndefined),
		"none":      kindTest(isNone),
		"boolean":   kindTest(func(v value) bool { _, ok := v.(bool); return ok }),
		"true":      kindTest(func(v value) bool { b, ok := v.(bool); return ok && b }),
		"false":     kindTest(func(v value) bool { b, ok := v.(bool); return ok && !b }),
		"string":    kindTest(func(v value) bool { _, ok := v.(text); return ok }),
		"mapping":   kindTest(func(v value) bool { _, ok := v.(*dict); return ok }),
		"number":    kindTest(func(v value) bool { _, _, _, ok := number(v); return ok }),
		"integer": kindTest(func(v value) bool {
			n := typeName(v)
			return n == "int"
		}),
		"float": kindTest(func(v value) bool { _, ok := v.(float64); return ok }),
		"iterable": kindTest(func(v value) bool {
			switch v.(type) {
			case text, *list, *dict, undefined, *loopState:
				return true
			}
			return false
		}),
		"sequence": kindTest(func(v value) bool {
			switch v.(type) {
			case text, *list, *dict, undefined:
				return true
			}
			return false
		}),
		"callable": kindTest(func(v value) bool {
			switch v.(type) {
			case *function, *macro, *loopState:
				return true
			}
			return false
		}),
		"escaped": kindTest(func(value) bool { return false }),
		"filter":  func(ev *eval, v value, a args) bool { return filters[ev.textArg("filter", v).s] != nil },
		"test":    func(ev *eval, v value, a args) bool { return tests[ev.textArg("test", v).s] != nil },
		"lower":   func(ev *eval, v value, a args) bool { return isLower(ev.str(v).s) },
		"upper":   func(ev *eval, v value, a args) bool { return isUpper(ev.str(v).s) },
		"odd":     remainderTest(1),
		"even":    remainderTest(0),
		"divisibleby": func(ev *eval, v value, a args) bool {
			p := ev.bind("divisibleby", a, "num")
			if p[0] == nil {
				ev.fail("divisibleby lacks an argument")
			}
			return ev.equal(ev.binary("%", v, p[0]), int64(0))
		},
		"sameas": func(ev *eval, v value, a args) bool {
			p := ev.bind("sameas", a, "other")
			return p[0] != nil && typeName(v) == typeName(p[0]) && ev.equal(v, p[0])
		},
		"in": compareTest("in"),
		"eq": compareTest("=="), "equalto": compareTest("=="), "==": compareTest("=="),
		"ne": compareTest("!="), "!=": compareTest("!="),
		"lt": compareTest("<"), "lessthan": compareTest("<"), "<": compareTest("<"),
		"le": compareTest("<="), "<=": compareTest("<="),
		"gt": compareTest(">"), "greaterthan": compareTest(">"), ">": compareTest(">"),
		"ge": compareTest(">="), ">=": compareTest(">="),
	}
}
