package grammar

type irKind uint8

const (
	irNever  irKind = iota // the empty language
	irEmpty                // the empty text
	irBytes                // lit
	irByte                 // one byte of bytes
	irClass                // one code point of set, in encoding enc
	irWords                // one of words, which are ascending, distinct and encoded already
	irAuto                 // what dfa accepts, min to max code points long, in encoding enc
	irSeq                  // subs in turn
	irAlt                  // one of subs
	irRepeat               // subs[0] from min to max times; max < 0: no limit
	irRef                  // rule
)

// ir is a regular expression over bytes and rules. Nodes are immutable after
// the front end is done and may be shared.
type ir struct {
	kind     irKind
	enc      encoding
	counted  bool // irRepeat: each text has one parse, so a counter may stand for copies
	lit      string
	bytes    [256]bool
	set      runeSet
	words    []string
	dfa      *dfa
	subs     []*ir
	min, max int
	rule     *rule
}

// rule is a named part that may refer to itself.
type rule struct {
	name       string
	body       *ir
	index      int
	nullable   bool // derives the empty text
	productive bool // derives some text
	inline     bool // shared instructions instead of calls; must not reach itself
}

// grammarIR is what front ends add rules to.
type grammarIR struct {
	rules []*rule
	named int // those that are not inline
	v     *Vocab
	b     *budget
}

func (g *grammarIR) newRule(name string) (*rule, error) {
	if g.named++; g.named > maxRules {
		return nil, faultf("the grammar has more than %d rules", maxRules)
	}
	return g.addRule(name)
}

// addRule makes a rule that does not count against the limit of rules.
func (g *grammarIR) addRule(name string) (*rule, error) {
	if len(g.rules) >= 8*maxRules {
		return nil, faultf("the grammar has more than %d states", 8*maxRules)
	}
	g.b.spend(8)
	r := &rule{name: name, index: len(g.rules)}
	g.rules = append(g.rules, r)
	return r, nil
}

var (
	never = &ir{kind: irNever}
	empty = &ir{kind: irEmpty}
)

func lit(s string) *ir {
	if s == "" {
		return empty
	}
	return &ir{kind: irBytes, lit: s}
}

func class(set runeSet, enc encoding) *ir {
	if len(set) == 0 {
		return never
	}
	return &ir{kind: irClass, set: set, enc: enc}
}

func ref(r *rule) *ir { return &ir{kind: irRef, rule: r} }

func seq(parts ...*ir) *ir {
	var out []*ir
	for _, p := range parts {
		switch p.kind {
		case irNever:
			return never
		case irEmpty:
		case irSeq:
			out = append(out, p.subs...)
		default:
			out = append(out, p)
		}
	}
	switch len(out) {
	case 0:
		return empty
	case 1:
		return out[0]
	}
	return &ir{kind: irSeq, subs: out}
}

func alt(alts ...*ir) *ir {
	var out []*ir
	for _, a := range alts {
		switch a.kind {
		case irNever:
		case irAlt:
			out = append(out, a.subs...)
		default:
			out = append(out, a)
		}
	}
	switch len(out) {
	case 0:
		return never
	case 1:
		return out[0]
	}
	return &ir{kind: irAlt, subs: out}
}

func repeat(x *ir, lo, hi int) *ir {
	switch {
	case hi == 0 || x.kind == irEmpty:
		return empty
	case x.kind == irNever && lo == 0:
		return empty
	case x.kind == irNever:
		return never
	case lo == 1 && hi == 1:
		return x
	}
	return &ir{kind: irRepeat, subs: []*ir{x}, min: lo, max: hi}
}

// words is one of the given texts.
func wordsIR(ws []string) *ir {
	switch ws = sortedUnique(ws); len(ws) {
	case 0:
		return never
	case 1:
		return lit(ws[0])
	}
	return &ir{kind: irWords, words: ws}
}

const tooBig = 1 << 40

// size estimates the instructions that x becomes, saturating at tooBig.
func (x *ir) size() int {
	n := 1
	switch x.kind {
	case irBytes:
		n = len(x.lit)
	case irClass:
		n = 4
		if x.enc == jsonFree {
			n = 32
		}
	case irWords:
		for _, w := range x.words {
			n += len(w)
		}
	case irAuto:
		n = 8 * len(x.dfa.states)
	case irSeq, irAlt:
		for _, s := range x.subs {
			n += s.size()
		}
	case irRepeat:
		s := x.subs[0].size()
		if x.useCounter() {
			return s + 4
		}
		n = s * max(x.min, x.max, 1)
	}
	return min(n, tooBig)
}

// copyBelow is the size under which copies beat a counter.
const copyBelow = 128

// useCounter decides between copies and a counter for a repetition.
func (x *ir) useCounter() bool {
	n := max(x.min, x.max)
	return n > 1 && (x.counted || x.subs[0].prefixFree()) && min(n*x.subs[0].size(), tooBig) > copyBelow
}

// prefixFree reports (conservatively) that no text of x begins another and the
// empty text is not in x; then a repetition of x has one parse at most.
func (x *ir) prefixFree() bool {
	switch x.kind {
	case irBytes, irClass, irByte:
		return true
	case irSeq:
		for _, s := range x.subs {
			if !s.prefixFree() {
				return false
			}
		}
		return true
	case irRepeat:
		return x.min == x.max && x.min > 0 && x.subs[0].prefixFree()
	}
	return false
}

// check refuses repetitions that neither copies nor a counter can express.
func (x *ir) check() error {
	for _, s := range x.subs {
		if err := s.check(); err != nil {
			return err
		}
	}
	if x.kind != irRepeat || x.useCounter() {
		return nil
	}
	n := max(x.min, x.max)
	if n > maxExpanded {
		return faultf("cannot repeat this %d times, the limit is %d except for single characters", n, maxExpanded)
	}
	if x.size() > 16*maxExpanded {
		return faultf("the repetitions inside each other multiply to more than %d states", 16*maxExpanded)
	}
	return nil
}

// analyse computes which rules derive the empty text and which derive any text
// at all, as least fixpoints. Front ends make rules from the outside in and
// lists from the back, so the rules are gone through in both directions.
func (g *grammarIR) analyse() error {
	for again := true; again; {
		again = false
		for i := range g.rules {
			again = g.update(g.rules[i]) || again
		}
		if !again {
			break
		}
		for i := len(g.rules) - 1; i >= 0; i-- {
			again = g.update(g.rules[i]) || again
		}
		if g.b.err != nil {
			return g.b.err
		}
	}
	return nil
}

func (g *grammarIR) update(r *rule) (changed bool) {
	if r.body == nil {
		return false
	}
	if !r.productive && g.productive(r.body) {
		r.productive, changed = true, true
	}
	if !r.nullable && g.nullable(r.body) {
		r.nullable, changed = true, true
	}
	return changed
}

func (g *grammarIR) productive(x *ir) bool {
	if !g.b.spend(1) {
		return false
	}
	switch x.kind {
	case irNever:
		return false
	case irBytes:
		return g.v.spells(x.lit)
	case irByte:
		for b, in := range x.bytes {
			if in && g.v.can(byte(b)) {
				return true
			}
		}
		return false
	case irClass:
		return len(g.v.spellable(x.set, x.enc)) > 0
	case irWords:
		for _, w := range x.words {
			if g.v.spells(w) {
				return true
			}
		}
		return false
	case irAuto:
		return x.dfa != nil
	case irSeq:
		for _, s := range x.subs {
			if !g.productive(s) {
				return false
			}
		}
		return true
	case irAlt:
		for _, s := range x.subs {
			if g.productive(s) {
				return true
			}
		}
		return false
	case irRepeat:
		return x.min == 0 || g.productive(x.subs[0])
	case irRef:
		return x.rule.productive
	}
	return true
}

func (g *grammarIR) nullable(x *ir) bool {
	if !g.b.spend(1) {
		return false
	}
	switch x.kind {
	case irEmpty:
		return true
	case irWords:
		return x.words[0] == ""
	case irAuto:
		return x.dfa != nil && x.dfa.states[0].accept && x.min == 0
	case irSeq:
		for _, s := range x.subs {
			if !g.nullable(s) {
				return false
			}
		}
		return true
	case irAlt:
		for _, s := range x.subs {
			if g.nullable(s) {
				return true
			}
		}
		return false
	case irRepeat:
		return x.min == 0 || g.nullable(x.subs[0])
	case irRef:
		return x.rule.nullable
	}
	return false
}
