package grammar

import (
	"math/big"
	"sort"
	"strings"
)

type numKind uint8

const (
	anyNumber numKind = iota
	integers
	fractions // numbers that are no integers
)

// numSet is numbers: a finite list, or what meets all the conditions. The zero
// numSet is all numbers.
type numSet struct {
	finite   bool
	words    []numWord
	kind     numKind
	lo, hi   *big.Rat // nil: no bound
	loEx     bool
	hiEx     bool
	mults    []*big.Rat // multiples of each
	notMults []*big.Rat // and of none of these
}

// numWord is a number and how it is written.
type numWord struct {
	r    *big.Rat
	text string
}

// set is the numbers that the keywords of a node allow.
func (n *num) set() numSet {
	s := numSet{lo: n.lo, hi: n.hi, loEx: n.loEx, hiEx: n.hiEx}
	if n.mult != nil {
		s.mults = []*big.Rat{n.mult}
	}
	return s
}

// numWord is v in the spelling that a grammar writes: integers plainly, all
// else as the schema has it.
func (v *value) numWord() (numWord, bool) {
	r, ok := v.number()
	if !ok {
		return numWord{}, false
	}
	w := numWord{r, v.text}
	if r.IsInt() && len(r.Num().String()) <= 40 {
		w.text = r.Num().String()
	}
	return w, true
}

func (s *numSet) sortWords() {
	sort.SliceStable(s.words, func(i, j int) bool { return s.words[i].r.Cmp(s.words[j].r) < 0 })
	k := 0
	for i, w := range s.words {
		if i == 0 || w.r.Cmp(s.words[k-1].r) != 0 {
			s.words[k] = w
			k++
		}
	}
	s.words = s.words[:k]
}

// has reports whether r meets the conditions of s.
func (s *numSet) has(r *big.Rat) bool {
	if s.finite {
		for _, w := range s.words {
			if w.r.Cmp(r) == 0 {
				return true
			}
		}
		return false
	}
	if s.kind == integers && !r.IsInt() || s.kind == fractions && r.IsInt() {
		return false
	}
	if s.lo != nil {
		if c := r.Cmp(s.lo); c < 0 || c == 0 && s.loEx {
			return false
		}
	}
	if s.hi != nil {
		if c := r.Cmp(s.hi); c > 0 || c == 0 && s.hiEx {
			return false
		}
	}
	for _, m := range s.mults {
		if !new(big.Rat).Quo(r, m).IsInt() {
			return false
		}
	}
	for _, m := range s.notMults {
		if new(big.Rat).Quo(r, m).IsInt() {
			return false
		}
	}
	return true
}

// and is what a and b have in common; ok is false if that is plainly nothing.
func (a numSet) and(b numSet) (numSet, bool) {
	if b.finite && !a.finite {
		a, b = b, a
	}
	if a.finite {
		out := numSet{finite: true}
		for _, w := range a.words {
			if b.has(w.r) {
				out.words = append(out.words, w)
			}
		}
		return out, len(out.words) > 0
	}
	out := a
	switch {
	case a.kind == anyNumber:
		out.kind = b.kind
	case b.kind != anyNumber && b.kind != a.kind:
		return out, false
	}
	if b.lo != nil {
		c := 1
		if a.lo != nil {
			c = b.lo.Cmp(a.lo)
		}
		if c > 0 || c == 0 && b.loEx {
			out.lo, out.loEx = b.lo, b.loEx
		}
	}
	if b.hi != nil {
		c := -1
		if a.hi != nil {
			c = b.hi.Cmp(a.hi)
		}
		if c < 0 || c == 0 && b.hiEx {
			out.hi, out.hiEx = b.hi, b.hiEx
		}
	}
	if out.lo != nil && out.hi != nil {
		if c := out.lo.Cmp(out.hi); c > 0 || c == 0 && (out.loEx || out.hiEx) {
			return out, false
		}
	}
	out.mults = joinRats(a.mults, b.mults)
	out.notMults = joinRats(a.notMults, b.notMults)
	return out, true
}

func joinRats(a, b []*big.Rat) []*big.Rat {
	out := append([]*big.Rat(nil), a...)
next:
	for _, r := range b {
		for _, o := range a {
			if o.Cmp(r) == 0 {
				continue next
			}
		}
		out = append(out, r)
	}
	return out
}

// complement is all other numbers, as alternatives.
func (s *numSet) complement() []numSet {
	var out []numSet
	if s.finite {
		// The gaps between the words.
		var last *big.Rat
		for _, w := range s.words {
			out = append(out, numSet{lo: last, loEx: last != nil, hi: w.r, hiEx: true})
			last = w.r
		}
		return append(out, numSet{lo: last, loEx: last != nil})
	}
	switch s.kind {
	case integers:
		out = append(out, numSet{kind: fractions})
	case fractions:
		out = append(out, numSet{kind: integers})
	}
	if s.lo != nil {
		out = append(out, numSet{hi: s.lo, hiEx: !s.loEx})
	}
	if s.hi != nil {
		out = append(out, numSet{lo: s.hi, loEx: !s.hiEx})
	}
	for _, m := range s.mults {
		out = append(out, numSet{notMults: []*big.Rat{m}})
	}
	for _, m := range s.notMults {
		out = append(out, numSet{mults: []*big.Rat{m}})
	}
	return out
}

func (s *numSet) key() string {
	var b strings.Builder
	b.WriteByte('0' + byte(s.kind))
	bound := func(r *big.Rat, ex bool) {
		b.WriteByte('|')
		if r != nil {
			b.WriteString(r.RatString())
		}
		if ex {
			b.WriteByte('x')
		}
	}
	bound(s.lo, s.loEx)
	bound(s.hi, s.hiEx)
	for _, m := range s.mults {
		b.WriteString("*" + m.RatString())
	}
	for _, m := range s.notMults {
		b.WriteString("/" + m.RatString())
	}
	return b.String()
}

func (s *numSet) plain() bool {
	return !s.finite && s.lo == nil && s.hi == nil && len(s.mults)+len(s.notMults) == 0 && s.kind != fractions
}

func (z *normalizer) emptyNum(s *numSet) (bool, error) {
	if s.finite || s.plain() {
		return s.finite && len(s.words) == 0, nil
	}
	d, err := z.numDFA(s)
	return d == nil, err
}

// maxListed is how many integers of a range are tried one by one for
// multipleOf before an automaton is made.
const maxListed = 2000

// numDFA is the automaton of the decimal spellings of s.
func (z *normalizer) numDFA(s *numSet) (*dfa, error) {
	key := "num " + s.key()
	if d, ok := z.dfas[key]; ok {
		return d, nil
	}
	d, err := z.makeNumDFA(s)
	if err != nil {
		return nil, err
	}
	z.dfas[key] = d
	return d, nil
}

func (z *normalizer) makeNumDFA(s *numSet) (*dfa, error) {
	b := z.d.bd.g.b
	if words, ok := s.listed(); ok {
		return wordsDFA(words), nil
	}
	d := decimalDFA(s.kind)
	step := func(e *dfa, op func(x, y bool) bool, err error) error {
		if err == nil && d != nil {
			d, err = product(b, d, e, op)
		}
		return err
	}
	if s.lo != nil {
		e, err := boundDFA(s.lo, func(c int) bool { return c > 0 || c == 0 && !s.loEx })
		if err := step(e, both, err); err != nil {
			return nil, z.named(err, "minimum", z.d.nodes[0])
		}
	}
	if s.hi != nil {
		e, err := boundDFA(s.hi, func(c int) bool { return c < 0 || c == 0 && !s.hiEx })
		if err := step(e, both, err); err != nil {
			return nil, z.named(err, "maximum", z.d.nodes[0])
		}
	}
	for _, m := range s.mults {
		e, err := multipleDFA(m)
		if err := step(e, both, err); err != nil {
			return nil, z.named(err, "multipleOf", z.d.nodes[0])
		}
	}
	for _, m := range s.notMults {
		e, err := multipleDFA(m)
		if err := step(e, butNot, err); err != nil {
			return nil, z.named(err, "multipleOf", z.d.nodes[0])
		}
	}
	return d, nil
}

// listed gives the integers of a short range that is thinned by multipleOf.
func (s *numSet) listed() ([]string, bool) {
	if s.kind == anyNumber && len(s.mults) > 0 {
		k := *s
		for _, m := range s.mults {
			if m.IsInt() { // all multiples are integers
				k.kind = integers
			}
		}
		s = &k
	}
	if s.kind != integers || len(s.mults)+len(s.notMults) == 0 || s.lo == nil || s.hi == nil {
		return nil, false
	}
	lo, hi := ceil(s.lo), floor(s.hi)
	n := new(big.Int).Sub(hi, lo)
	if !n.IsInt64() || n.Int64() > maxListed {
		return nil, false
	}
	words := []string{}
	for i := int64(0); i <= n.Int64(); i++ {
		x := new(big.Int).Add(lo, big.NewInt(i))
		if s.has(new(big.Rat).SetInt(x)) {
			words = append(words, x.String())
		}
	}
	return words, true
}

func floor(r *big.Rat) *big.Int {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	_ = m // Euclidean: the remainder is never negative
	return q
}

func ceil(r *big.Rat) *big.Int {
	return new(big.Int).Neg(floor(new(big.Rat).Neg(r)))
}
