package grammar

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// GBNF is the notation of llama.cpp's grammars: name ::= alternatives of
// sequences of "literals", [classes], names, groups and `.`, each with *, +, ?,
// {m}, {m,}, {m,n}; comments begin with #. Matching is by code point.
//
// Beyond it, a rule may go on on the next line with |, and a rule whose
// alternatives begin with the rule itself is turned into a loop.

type gbnfParser struct {
	s     string
	at    int
	depth int
	g     *grammarIR
	rules map[string]*gbnfRule
	self  *gbnfRule
}

type gbnfRule struct {
	r       *rule
	defined bool
	used    int // offset of the first mention, for errors
}

// gbnf adds the rules of text and returns a reference to root.
func (bd *builder) gbnf(text string) (*ir, error) {
	p := &gbnfParser{s: text, g: bd.g, rules: map[string]*gbnfRule{}}
	if !utf8.ValidString(text) {
		return nil, faultf("the grammar is not valid UTF-8")
	}
	for p.space(true); p.at < len(p.s); p.space(true) {
		if err := p.definition(); err != nil {
			return nil, err
		}
	}
	first := -1
	for _, r := range p.rules {
		if !r.defined && (first < 0 || r.used < first) {
			first = r.used
		}
	}
	if first >= 0 {
		p.at = first
		return nil, p.fault(first, "undefined rule %q", p.name())
	}
	root := p.rules["root"]
	if root == nil {
		return nil, faultf("the grammar has no rule named root")
	}
	return ref(root.r), nil
}

func (p *gbnfParser) fault(at int, format string, args ...any) error {
	line := strings.Count(p.s[:at], "\n") + 1
	col := utf8.RuneCountInString(p.s[strings.LastIndexByte(p.s[:at], '\n')+1:at]) + 1
	f := faultf(format, args...)
	f.msg += " at line " + itoa(line) + ":" + itoa(col)
	return f
}

// space skips blanks and comments, and line ends if newlines is set.
func (p *gbnfParser) space(newlines bool) {
	for p.at < len(p.s) {
		switch c := p.s[p.at]; {
		case c == ' ' || c == '\t':
			p.at++
		case c == '#':
			for p.at < len(p.s) && p.s[p.at] != '\n' && p.s[p.at] != '\r' {
				p.at++
			}
		case newlines && (c == '\n' || c == '\r'):
			p.at++
		default:
			return
		}
	}
}

func (p *gbnfParser) name() string {
	start := p.at
	for p.at < len(p.s) && (isLetter(p.s[p.at]) || p.s[p.at] >= '0' && p.s[p.at] <= '9' || p.s[p.at] == '-' || p.s[p.at] == '_') {
		p.at++
	}
	return p.s[start:p.at]
}

func (p *gbnfParser) lookup(name string, at int) (*gbnfRule, error) {
	if r := p.rules[name]; r != nil {
		return r, nil
	}
	r, err := p.g.newRule(name)
	if err != nil {
		return nil, err
	}
	p.rules[name] = &gbnfRule{r: r, used: at}
	return p.rules[name], nil
}

func (p *gbnfParser) definition() error {
	at := p.at
	name := p.name()
	if name == "" {
		return p.fault(at, "want the name of a rule")
	}
	p.space(false)
	if !strings.HasPrefix(p.s[p.at:], "::=") {
		return p.fault(p.at, "want ::= after the name %q", name)
	}
	p.at += 3
	p.space(true)
	r, err := p.lookup(name, at)
	if err != nil {
		return err
	}
	if r.defined {
		return p.fault(at, "rule %q is defined twice", name)
	}
	r.defined = true
	p.self = r
	alts, err := p.alternatives(false)
	if err != nil {
		return err
	}
	r.r.body = unrecurse(r.r, alts)
	if p.at < len(p.s) && p.s[p.at] != '\n' && p.s[p.at] != '\r' {
		return p.fault(p.at, "unexpected %q", p.s[p.at:p.at+min(1, len(p.s)-p.at)])
	}
	return nil
}

// unrecurse makes A ::= A x | y into A ::= y x*.
func unrecurse(r *rule, alts []*ir) *ir {
	var base, tails []*ir
	for _, a := range alts {
		switch {
		case a.kind == irRef && a.rule == r: // adds nothing
		case a.kind == irSeq && a.subs[0].kind == irRef && a.subs[0].rule == r:
			tails = append(tails, seq(a.subs[1:]...))
		default:
			base = append(base, a)
		}
	}
	return seq(alt(base...), repeat(alt(tails...), 0, -1))
}

func (p *gbnfParser) alternatives(nested bool) ([]*ir, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fault(p.at, "groups are nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	var alts []*ir
	for {
		s, err := p.sequence(nested)
		if err != nil {
			return nil, err
		}
		alts = append(alts, s)
		if !nested { // the next line may go on with |
			end := p.at
			if p.space(true); p.at >= len(p.s) || p.s[p.at] != '|' {
				p.at = end
			}
		}
		if p.at >= len(p.s) || p.s[p.at] != '|' {
			return alts, nil
		}
		p.at++
		p.space(true)
	}
}

func (p *gbnfParser) sequence(nested bool) (*ir, error) {
	var parts []*ir
	for p.at < len(p.s) {
		if !p.g.b.spend(1) {
			return nil, p.g.b.err
		}
		at := p.at
		x, err := p.element()
		if err != nil {
			return nil, err
		}
		if x == nil {
			break
		}
		if x, err = p.repetition(x, at, nested); err != nil {
			return nil, err
		}
		parts = append(parts, x)
		p.space(nested)
	}
	return seq(parts...), nil
}

// element is nil where the sequence ends.
func (p *gbnfParser) element() (*ir, error) {
	at := p.at
	switch c := p.s[p.at]; {
	case c == '"':
		p.at++
		return p.literal(at)
	case c == '[':
		p.at++
		return p.class(at)
	case c == '.':
		p.at++
		return class(allRunes, rawText), nil
	case c == '(':
		p.at++
		p.space(true)
		alts, err := p.alternatives(true)
		if err != nil {
			return nil, err
		}
		if p.at >= len(p.s) || p.s[p.at] != ')' {
			return nil, p.fault(at, "( is not closed")
		}
		p.at++
		return alt(alts...), nil
	case c == '*' || c == '+' || c == '?' || c == '{':
		return nil, p.fault(at, "nothing to repeat before %c", c)
	case c == '|' || c == ')' || c == '\n' || c == '\r':
		return nil, nil
	}
	name := p.name()
	if name == "" {
		r, _ := utf8.DecodeRuneInString(p.s[at:])
		return nil, p.fault(at, "unexpected %q", r)
	}
	r, err := p.lookup(name, at)
	if err != nil {
		return nil, err
	}
	return ref(r.r), nil
}

// repetition reads the quantifiers after x, if any; blanks may come before them.
func (p *gbnfParser) repetition(x *ir, at int, nested bool) (*ir, error) {
	for p.space(nested); p.at < len(p.s); p.space(nested) {
		lo, hi := 0, -1
		switch p.s[p.at] {
		case '*':
			p.at++
		case '+':
			p.at++
			lo = 1
		case '?':
			p.at++
			hi = 1
		case '{':
			var err error
			if lo, hi, err = p.counts(); err != nil {
				return nil, err
			}
		default:
			return x, nil
		}
		if max(lo, hi) > 1 && x.size() > 8 && x.kind != irRef {
			r, err := p.g.newRule("group")
			if err != nil {
				return nil, err
			}
			r.body, x = x, ref(r)
		}
		x = repeat(x, lo, hi)
		if err := x.check(); err != nil {
			return nil, p.fault(at, "%s", err.Error())
		}
	}
	return x, nil
}

// counts reads {m}, {m,}, {m,n} or {,n}.
func (p *gbnfParser) counts() (lo, hi int, err error) {
	at := p.at
	p.at++
	number := func(missing int) int {
		start := p.at
		for p.at < len(p.s) && p.s[p.at] >= '0' && p.s[p.at] <= '9' {
			p.at++
		}
		if p.at == start {
			return missing
		}
		n, e := strconv.Atoi(p.s[start:p.at])
		if e != nil || n > maxCount {
			n = maxCount + 1
		}
		return n
	}
	lo = number(-1)
	hi = lo
	if p.at < len(p.s) && p.s[p.at] == ',' {
		p.at++
		hi = number(-1)
		if lo < 0 && hi >= 0 {
			lo = 0
		}
	}
	switch {
	case lo < 0 || p.at >= len(p.s) || p.s[p.at] != '}':
		return 0, 0, p.fault(at, "want {m}, {m,} or {m,n}")
	case hi >= 0 && hi < lo:
		return 0, 0, p.fault(at, "the repetition's minimum %d is above its maximum %d", lo, hi)
	case max(lo, hi) > maxCount:
		return 0, 0, p.fault(at, "the repetition's count is above %d", maxCount)
	}
	p.at++
	return lo, hi, nil
}

func (p *gbnfParser) literal(at int) (*ir, error) {
	var b []byte
	for p.at < len(p.s) && p.s[p.at] != '"' {
		r, err := p.char(at)
		if err != nil {
			return nil, err
		}
		b = utf8.AppendRune(b, r)
	}
	if p.at >= len(p.s) {
		return nil, p.fault(at, "the literal is not closed")
	}
	p.at++
	return lit(string(b)), nil
}

func (p *gbnfParser) class(at int) (*ir, error) {
	negated := false
	if p.at < len(p.s) && p.s[p.at] == '^' {
		negated = true
		p.at++
	}
	var rs []runeRange
	for p.at < len(p.s) && p.s[p.at] != ']' {
		lo, err := p.char(at)
		if err != nil {
			return nil, err
		}
		hi := lo
		if p.at+1 < len(p.s) && p.s[p.at] == '-' && p.s[p.at+1] != ']' {
			p.at++
			if hi, err = p.char(at); err != nil {
				return nil, err
			}
			if hi < lo {
				return nil, p.fault(at, "a range whose end is before its beginning")
			}
		}
		rs = append(rs, runeRange{lo, hi})
	}
	if p.at >= len(p.s) {
		return nil, p.fault(at, "[ is not closed")
	}
	p.at++
	set := newRuneSet(rs)
	if negated {
		set = set.negate()
	}
	if len(set) == 0 {
		return nil, p.fault(at, "the class is empty")
	}
	return class(set, rawText), nil
}

// char reads one character of a literal or class. A line end in it means the
// closing quote is missing.
func (p *gbnfParser) char(open int) (rune, error) {
	at := p.at
	r, n := utf8.DecodeRuneInString(p.s[p.at:])
	p.at += n
	if r == '\n' || r == '\r' {
		return 0, p.fault(open, "the literal or class is not closed on its line")
	}
	if r != '\\' {
		return r, nil
	}
	if p.at >= len(p.s) {
		return 0, p.fault(at, "the grammar ends in a backslash")
	}
	c := p.s[p.at]
	p.at++
	switch c {
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'x', 'u', 'U':
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		if p.at+digits > len(p.s) {
			return 0, p.fault(at, "\\%c needs %d hexadecimal digits", c, digits)
		}
		v, err := strconv.ParseUint(p.s[p.at:p.at+digits], 16, 32)
		if err != nil || !utf8.ValidRune(rune(v)) || v > utf8.MaxRune {
			return 0, p.fault(at, "\\%c names no code point", c)
		}
		p.at += digits
		return rune(v), nil
	}
	if isLetter(c) || c >= '0' && c <= '9' || c >= utf8.RuneSelf {
		return 0, p.fault(at, "unknown escape \\%c", c)
	}
	return rune(c), nil
}
