package grammar

// emitRepeat makes a repetition from copies, a loop, or a counted rule.
func (l *lowerer) emitRepeat(x *ir, next int32) int32 {
	body, lo, hi := x.subs[0], x.min, x.max
	if !l.g.productive(body) {
		return next // lo is 0, or x would derive nothing
	}
	nullable := l.g.nullable(body)
	if nullable {
		lo = 0
	}
	if x.useCounter() && !nullable {
		return l.emitCounted(body, lo, hi, next)
	}
	if hi < 0 {
		loop := l.add(inst{op: opFail})
		l.p.insts[loop] = inst{op: opSplit, a: l.emit(body, loop), b: next}
		next = loop
		hi = lo
	}
	// The last copies may be left out: each leads to the same next.
	after := next
	for i := hi; i > lo; i-- {
		first := l.emit(body, after)
		if first == fail {
			return fail
		}
		after = l.add(inst{op: opSplit, a: first, b: next})
	}
	for i := 0; i < lo && after != fail; i++ {
		after = l.emit(body, after)
	}
	return after
}

// countedRule opens a rule that owns a counter; the returned function makes
// the call and closes it.
func (l *lowerer) countedRule(lo, hi int, slack int32) (ret int32, call func(start, next int32) int32, err error) {
	r, err := l.g.newRule("repetition")
	if err != nil {
		l.g.b.fail(err)
		return fail, nil, err
	}
	r.productive, r.nullable = true, lo == 0
	outer := l.ctr
	l.ctr = int32(len(l.p.counters))
	l.p.counters = append(l.p.counters, counter{int32(lo), int32(hi), slack})
	l.setRule(r.index, r.nullable)
	ret = l.add(inst{op: opRet})
	return ret, func(start, next int32) int32 {
		l.ctr = outer
		l.p.start[r.index] = start
		return l.add(inst{op: opCall, a: int32(r.index), b: next})
	}, nil
}

func (l *lowerer) emitCounted(body *ir, lo, hi int, next int32) int32 {
	ret, call, err := l.countedRule(lo, hi, 0)
	if err != nil {
		return fail
	}
	c := l.ctr
	g := int32(len(l.p.guards))
	l.p.guards = append(l.p.guards, guard{counter: c})
	head := l.add(inst{op: opFail})
	inc := l.add(inst{op: opInc, a: head, b: c})
	again := l.add(inst{op: opGuard, a: l.emit(body, inc), b: g})
	stop := l.add(inst{op: opMin, a: ret, b: c})
	l.p.insts[head] = inst{op: opSplit, a: again, b: stop}
	return call(head, next)
}

// emitAuto makes an automaton over code points, with its length bounded by a
// counter where x asks for that.
func (l *lowerer) emitAuto(x *ir, next int32) int32 {
	if x.min == 0 && x.max < 0 {
		return l.autoStates(x, next, nil)
	}
	lens, ok := x.dfa.lengths(l.g.b, x.max)
	if !ok {
		l.g.b.fail(faultf("the lengths that a pattern allows cannot be counted"))
		return fail
	}
	ret, call, err := l.countedRule(x.min, x.max, int32(lens.known))
	if err != nil {
		return fail
	}
	stop := l.add(inst{op: opMin, a: ret, b: l.ctr})
	base := int32(len(l.p.guards))
	for q := range x.dfa.states {
		l.p.guards = append(l.p.guards, guard{counter: l.ctr, atLeast: lens.atLeast[q]})
	}
	l.p.nullable[len(l.p.nullable)-1] = x.min == 0 && x.dfa.states[0].accept
	l.g.rules[len(l.g.rules)-1].nullable = x.min == 0 && x.dfa.states[0].accept
	return call(l.autoStates(x, stop, &base), next)
}

// autoStates makes the states of x.dfa; accepting ones may go on at next. With
// guards, each edge asks its target's guard and counts.
func (l *lowerer) autoStates(x *ir, next int32, guards *int32) int32 {
	n := len(x.dfa.states)
	pcs := make([]int32, n)
	for q := range pcs {
		pcs[q] = l.add(inst{op: opFail})
	}
	into := pcs
	if guards != nil {
		into = make([]int32, n)
		for q := range into {
			into[q] = l.add(inst{op: opInc, a: pcs[q], b: l.ctr})
		}
	}
	for q := range x.dfa.states {
		st := &x.dfa.states[q]
		var alts []int32
		if st.accept {
			alts = append(alts, next)
		}
		var seqs []byteSeq
		for _, to := range st.targets() {
			set := st.label(to)
			switch {
			case guards != nil:
				if test := l.emitClass(set, x.enc, into[to]); test != fail {
					alts = append(alts, l.add(inst{op: opGuard, a: test, b: *guards + to}))
				}
			case len(set) > callAbove/4:
				alts = append(alts, l.emitClass(set, x.enc, into[to]))
			default:
				seqs = append(seqs, l.encode(nil, set, x.enc, into[to])...)
			}
		}
		alts = append(alts, l.emitSeqs(seqs))
		if l.g.b.err != nil {
			return fail
		}
		l.p.insts[pcs[q]] = inst{op: opSplit, a: l.alt(alts...), b: fail}
	}
	return pcs[0]
}
