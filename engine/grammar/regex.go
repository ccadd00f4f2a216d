package grammar

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The regular expressions accepted are the regular part of ECMA-262 (§22.2)
// with the u flag, which is also the common part of Python's and Go's: classes,
// escapes, Unicode properties, groups, alternation, greedy and lazy quantifiers
// (the same language), ^ and $. What is not regular or depends on the
// surroundings (look-around, back references, \b, flags) is refused by name.

type reKind uint8

const (
	reEmpty reKind = iota
	reClass
	reSeq
	reAlt
	reRepeat
	reBegin // ^
	reEnd   // $
)

type reNode struct {
	kind     reKind
	set      runeSet
	subs     []*reNode
	min, max int // repeat; max < 0: no limit
	at       int // byte offset in the pattern, for errors
}

type reParser struct {
	s     string
	at    int
	depth int
	b     *budget
}

// parseRegex reads a pattern. Errors are *fault with the byte offset.
func parseRegex(pattern string, b *budget) (*reNode, error) {
	if len(pattern) > 1<<16 {
		return nil, faultf("the pattern has %d bytes, the limit is %d", len(pattern), 1<<16)
	}
	if !utf8.ValidString(pattern) {
		return nil, faultf("the pattern is not valid UTF-8")
	}
	p := &reParser{s: pattern, b: b}
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if p.at < len(p.s) {
		return nil, p.fault(p.at, "unmatched )")
	}
	return n, nil
}

func (p *reParser) fault(at int, format string, args ...any) error {
	f := faultf(format, args...)
	f.msg += " at byte " + itoa(at) + " of the pattern"
	return f
}

// unsupported is the fault of what other engines know and no automaton can do.
func (p *reParser) unsupported(at int, format string, args ...any) error {
	err := p.fault(at, format+" not supported", args...)
	err.(*fault).beyond = true
	return err
}

func (p *reParser) more() bool       { return p.at < len(p.s) }
func (p *reParser) is(s string) bool { return strings.HasPrefix(p.s[p.at:], s) }
func (p *reParser) eat(s string) bool {
	if !p.is(s) {
		return false
	}
	p.at += len(s)
	return true
}

func (p *reParser) rune() rune {
	r, n := utf8.DecodeRuneInString(p.s[p.at:])
	p.at += n
	return r
}

func (p *reParser) alternatives() (*reNode, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fault(p.at, "groups are nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	first, err := p.sequence()
	if err != nil || !p.is("|") {
		return first, err
	}
	n := &reNode{kind: reAlt, subs: []*reNode{first}, at: first.at}
	for p.eat("|") {
		s, err := p.sequence()
		if err != nil {
			return nil, err
		}
		n.subs = append(n.subs, s)
	}
	return n, nil
}

func (p *reParser) sequence() (*reNode, error) {
	n := &reNode{kind: reSeq, at: p.at}
	for p.more() && !p.is("|") && !p.is(")") {
		if !p.b.spend(1) {
			return nil, p.b.err
		}
		x, err := p.atom()
		if err != nil {
			return nil, err
		}
		if x, err = p.quantified(x); err != nil {
			return nil, err
		}
		n.subs = append(n.subs, x)
	}
	switch len(n.subs) {
	case 0:
		return &reNode{kind: reEmpty, at: n.at}, nil
	case 1:
		return n.subs[0], nil
	}
	return n, nil
}

// quantified reads a quantifier after x, if there is one.
func (p *reParser) quantified(x *reNode) (*reNode, error) {
	at := p.at
	lo, hi := 0, -1
	switch {
	case p.eat("*"):
	case p.eat("+"):
		lo = 1
	case p.eat("?"):
		hi = 1
	case p.is("{"):
		var ok bool
		var err error
		if lo, hi, ok, err = p.counts(); err != nil {
			return nil, err
		}
		if !ok {
			return x, nil
		}
	default:
		return x, nil
	}
	p.eat("?") // lazy: the same language
	if x.kind == reBegin || x.kind == reEnd {
		return nil, p.fault(at, "a quantifier after an anchor")
	}
	if p.is("*") || p.is("+") || p.is("?") || p.is("{") && p.looksCounted() {
		return nil, p.fault(p.at, "a quantifier after a quantifier")
	}
	return &reNode{kind: reRepeat, subs: []*reNode{x}, min: lo, max: hi, at: at}, nil
}

func (p *reParser) looksCounted() bool {
	at := p.at
	_, _, ok, err := p.counts()
	p.at = at
	return ok || err != nil
}

// counts reads {m}, {m,} or {m,n}; anything else after { is no quantifier.
func (p *reParser) counts() (lo, hi int, ok bool, err error) {
	at := p.at
	p.at++
	lo, given := p.number()
	hi = lo
	if given && p.eat(",") {
		var limit bool
		if hi, limit = p.number(); !limit {
			hi = -1
		}
	}
	if !given || !p.eat("}") {
		p.at = at
		return 0, 0, false, nil
	}
	if hi >= 0 && hi < lo {
		return 0, 0, false, p.fault(at, "the quantifier's minimum %d is above its maximum %d", lo, hi)
	}
	if max(lo, hi) > maxCount {
		return 0, 0, false, p.fault(at, "the quantifier's count is above %d", maxCount)
	}
	return lo, hi, true, nil
}

func (p *reParser) number() (int, bool) {
	n, start := 0, p.at
	for p.more() && p.s[p.at] >= '0' && p.s[p.at] <= '9' {
		n = min(n*10+int(p.s[p.at]-'0'), maxCount+1)
		p.at++
	}
	return n, p.at > start
}

func (p *reParser) atom() (*reNode, error) {
	at := p.at
	switch r := p.rune(); r {
	case '(':
		return p.group(at)
	case '[':
		set, err := p.class(at)
		return &reNode{kind: reClass, set: set, at: at}, err
	case '.':
		return &reNode{kind: reClass, set: lineEnds.negate(), at: at}, nil
	case '^':
		return &reNode{kind: reBegin, at: at}, nil
	case '$':
		return &reNode{kind: reEnd, at: at}, nil
	case '*', '+', '?':
		return nil, p.fault(at, "nothing to repeat before %c", r)
	case '{':
		p.at = at
		if p.looksCounted() {
			return nil, p.fault(at, "nothing to repeat before {")
		}
		p.at++
		return &reNode{kind: reClass, set: runeSet{{r, r}}, at: at}, nil
	case '\\':
		set, err := p.escape(at, false)
		return &reNode{kind: reClass, set: set, at: at}, err
	default:
		return &reNode{kind: reClass, set: runeSet{{r, r}}, at: at}, nil
	}
}

func (p *reParser) group(at int) (*reNode, error) {
	if p.eat("?") {
		switch {
		case p.eat(":"):
		case p.is("="), p.is("!"):
			return nil, p.unsupported(at, "look-ahead is")
		case p.is("<="), p.is("<!"):
			return nil, p.unsupported(at, "look-behind is")
		case p.eat("<"), p.eat("P<"):
			end := strings.IndexByte(p.s[p.at:], '>')
			if end <= 0 || strings.ContainsAny(p.s[p.at:p.at+end], "()[]\\|*+?{} ") {
				return nil, p.fault(at, "a group's name is not closed")
			}
			p.at += end + 1
		case p.is(">"):
			return nil, p.unsupported(at, "an atomic group is")
		default:
			return nil, p.unsupported(at, "flags or this kind of group are")
		}
	}
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if !p.eat(")") {
		return nil, p.fault(at, "( is not closed")
	}
	return n, nil
}

var (
	lineEnds = newRuneSet([]runeRange{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}})
	reDigit  = newRuneSet([]runeRange{{'0', '9'}})
	reWord   = newRuneSet([]runeRange{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}})
	// Dialects differ on which code points beyond ASCII are digits, spaces and
	// word characters: the positive classes hold what is common to all, and the
	// negative ones leave out what any counts in.
	reSpace    = newRuneSet([]runeRange{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}})
	reNotSpace = tableSet(unicode.White_Space).union(newRuneSet([]runeRange{{0x1C, 0x1F}, {0xFEFF, 0xFEFF}, {0x180E, 0x180E}})).negate()
	reNotDigit = tableSet(unicode.Nd).negate()
	reNotWord  = tableSet(unicode.L).union(tableSet(unicode.N)).union(tableSet(unicode.M)).union(reWord).negate()
)
