package policy

import (
	"unicode/utf8"
)

// scan is one text rule on one text that comes in pieces. What it passes on is
// decided: no match begins in it that is not found yet. So it holds back as much
// as one match may span, at most maxMatchBytes, and for the detectors of
// personal data only while one may have begun.
type scan struct {
	rule  *textRule
	buf   []byte
	from  int // before it everything is decided; a character of context is kept
	count int
}

// feed takes a piece, and gives what can be passed on, with matches replaced.
// last ends the text. denied says that a match was found that denies.
func (s *scan) feed(piece []byte, last bool) (out []byte, denied bool) {
	s.buf = append(s.buf, piece...)
	for {
		start, end, open := s.rule.finder.find(s.buf, s.from, last)
		if start < 0 {
			out = append(out, s.buf[s.from:open]...)
			s.from = open
			break
		}
		s.count++
		out = append(out, s.buf[s.from:start]...)
		switch s.rule.action {
		case actionDeny:
			return nil, true
		case actionRedact:
			out = append(out, s.rule.replacement...)
		default:
			out = append(out, s.buf[start:end]...)
		}
		s.from = end
	}
	s.forget()
	return out, false
}

// forget drops what is decided, but for one character.
func (s *scan) forget() {
	const enough = 512
	if s.from < enough {
		return
	}
	_, n := utf8.DecodeLastRune(s.buf[:s.from])
	drop := s.from - n
	s.buf = append(s.buf[:0], s.buf[drop:]...)
	s.from = n
}

// chain is every text rule of a route on one text, one behind the other.
type chain []scan

func newChain(rules []*textRule) chain {
	c := make(chain, len(rules))
	for i, r := range rules {
		c[i].rule = r
	}
	return c
}

// feed gives what can be passed on, or the rule that denies.
func (c chain) feed(piece []byte, last bool) (out []byte, deny *textRule) {
	for i := range c {
		var no bool
		if piece, no = c[i].feed(piece, last); no {
			return nil, c[i].rule
		}
	}
	return piece, nil
}
