package chattmpl

import "sort"

// bind matches arguments to parameter names; what is missing is nil. name is
// the function, for messages.
func (ev *eval) bind(name string, a args, params ...string) []value {
	if len(a.pos) > len(params) {
		ev.fail("%s takes at most %d arguments, got %d", name, len(params), len(a.pos))
	}
	out := make([]value, len(params))
	copy(out, a.pos)
next:
	for _, k := range a.kw {
		for i, p := range params {
			if p == k.name {
				if out[i] != nil {
					ev.fail("%s got %s twice", name, p)
				}
				out[i] = k.v
				continue next
			}
		}
		ev.fail("%s takes no argument %.80s", name, k.name)
	}
	return out
}

// textArg wants a string.
func (ev *eval) textArg(fn string, v value) text {
	t, ok := v.(text)
	if !ok {
		if v == nil {
			ev.fail("%s lacks an argument", fn)
		}
		ev.checkDefined(v)
		ev.fail("%s wants a string, got %s", fn, typeName(v))
	}
	return t
}

// intArg wants an integer; def where it is missing.
func (ev *eval) intArg(fn string, v value, def int64) int64 {
	if v == nil {
		return def
	}
	i, _, isInt, ok := number(v)
	if !ok || !isInt {
		ev.fail("%s wants an integer, got %s", fn, typeName(v))
	}
	return i
}

func boolArg(v value, def bool) bool {
	if v == nil {
		return def
	}
	return truth(v)
}

// sortStable sorts indexes.
func sortStable(order []int, less func(a, b int) bool) {
	sort.SliceStable(order, func(i, j int) bool { return less(order[i], order[j]) })
}
