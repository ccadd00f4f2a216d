package grammar

// closer follows what takes no byte: choices, calls, returns, counting. Its
// slices are reused from step to step.
type closer struct {
	work    []task
	out     []config
	pending []call   // calls not entered yet
	seen    []seenAt // open addressing, stamped
	stamp   uint32
	used    int
	node    []config
}

// task is a config to follow. fresh means its rule has consumed nothing yet;
// a fresh return is dropped, since whoever called went on past the call at
// once if the rule is nullable.
type task struct {
	c     config
	fresh bool
}

type call struct {
	rule   int32
	caller config // where to go on, in the caller's terms
}

type seenAt struct {
	t     task
	stamp uint32
}

func (c *closer) begin() {
	c.work, c.out, c.pending = c.work[:0], c.out[:0], c.pending[:0]
	c.stamp++
	c.used = 0
	if c.seen == nil || c.stamp == 0 {
		c.seen = make([]seenAt, 64)
		c.stamp = 1
	}
}

func (c *closer) push(cf config, fresh bool) {
	if cf.pc != fail {
		c.work = append(c.work, task{cf, fresh})
	}
}

// first reports whether t comes up for the first time, and marks it.
func (c *closer) first(t task) bool {
	if 2*c.used >= len(c.seen) {
		c.grow()
	}
	m := uint32(len(c.seen) - 1)
	for i := t.hash() & m; ; i = (i + 1) & m {
		switch e := &c.seen[i]; {
		case e.stamp != c.stamp:
			*e = seenAt{t, c.stamp}
			c.used++
			return true
		case e.t == t:
			return false
		}
	}
}

func (t task) hash() uint32 {
	h := uint32(t.c.pc)*0x9E3779B1 ^ uint32(t.c.ctr)*0x85EBCA6B ^ uint32(t.c.node)*0xC2B2AE35
	if t.fresh {
		h = ^h
	}
	return h ^ h>>15
}

func (c *closer) grow() {
	old := c.seen
	c.seen = make([]seenAt, 2*len(old))
	c.used = 0
	for _, e := range old {
		if e.stamp == c.stamp {
			c.first(e.t)
		}
	}
}

// callRule notes a call of rule; ret is where its caller goes on.
func (c *closer) callRule(ret config, rule, node int32) {
	ret.node = node
	c.pending = append(c.pending, call{rule, ret})
}

// close follows everything pushed and called and interns the resulting state.
// Rules are entered in the program's order, so that all callers of a rule are
// known when it is entered.
func (t *table) close() int32 {
	c := &t.c
	for {
		for len(c.work) > 0 {
			tk := c.work[len(c.work)-1]
			c.work = c.work[:len(c.work)-1]
			if c.first(tk) {
				t.follow(tk)
			}
		}
		if len(c.pending) == 0 {
			break
		}
		t.enter()
	}
	if len(c.out) > maxConfigs {
		// Fewer threads only narrow what may come, and each can be completed.
		c.out = c.out[:maxConfigs]
	}
	return t.intern(t.order(c.out))
}

func (t *table) follow(tk task) {
	c, in := &t.c, &t.p.insts[tk.c.pc]
	to := tk.c
	switch in.op {
	case opByte, opSwitch, opEnd:
		c.out = append(c.out, tk.c)
	case opSplit:
		to.pc = in.b
		c.push(to, tk.fresh)
		to.pc = in.a
		c.push(to, tk.fresh)
	case opAlt:
		for i := in.b - 1; i >= in.a; i-- {
			to.pc = t.p.outs[i]
			c.push(to, tk.fresh)
		}
	case opCall:
		to.pc = in.b
		if t.p.nullable[in.a] {
			c.push(to, tk.fresh)
		}
		c.callRule(to, in.a, tk.c.node)
	case opRet:
		if !tk.fresh {
			for _, r := range t.sets[tk.c.node].configs {
				c.push(r, false)
			}
		}
	case opGuard:
		if t.p.passes(in.b, tk.c.ctr) {
			to.pc = in.a
			c.push(to, tk.fresh)
		}
	case opInc:
		to.pc = in.a
		if ct := &t.p.counters[in.b]; ct.max >= 0 || to.ctr < ct.min {
			to.ctr++
		}
		c.push(to, tk.fresh)
	case opMin:
		if tk.c.ctr >= t.p.counters[in.b].min {
			to.pc = in.a
			c.push(to, tk.fresh)
		}
	}
}

// enter begins the first pending rule with a node for all its callers. A
// caller with nothing left to do hands down its own callers instead, so that
// right recursion does not pile up.
func (t *table) enter() {
	c := &t.c
	rule := c.pending[0].rule
	for _, p := range c.pending[1:] {
		if t.p.order[p.rule] < t.p.order[rule] {
			rule = p.rule
		}
	}
	c.node = c.node[:0]
	rest := c.pending[:0]
	for _, p := range c.pending {
		switch {
		case p.rule != rule:
			rest = append(rest, p)
		case t.p.insts[p.caller.pc].op == opRet:
			c.node = append(c.node, t.sets[p.caller.node].configs...)
		default:
			c.node = append(c.node, p.caller)
		}
	}
	c.pending = rest
	c.node = t.order(c.node)
	if len(c.node) > maxConfigs {
		c.node = c.node[:maxConfigs]
	}
	c.push(config{pc: t.p.start[rule], node: t.intern(c.node)}, true)
}
