package config

import (
	"fmt"
	"strings"
)

// keyLines finds the line of every key path of a TOML document that is known to
// be well-formed: the parser tells values, but not where they stood. Keys inside
// inline tables and lists of inline tables get no entry of their own; a fault
// there is shown at the key around them.
func keyLines(doc []byte) map[string]int {
	s := lineScanner{doc: string(doc), line: 1, found: map[string]int{}, arrays: map[string]int{}}
	s.run()
	return s.found
}

// lineScanner walks a document statement by statement.
type lineScanner struct {
	doc    string
	pos    int
	line   int
	prefix string         // path of the current table header
	found  map[string]int // key path → line
	arrays map[string]int // array-of-tables path → elements so far
}

func (s *lineScanner) run() {
	for s.pos < len(s.doc) {
		switch c := s.doc[s.pos]; {
		case c == '\n' || c == ' ' || c == '\t' || c == '\r':
			s.advance(1)
		case c == '#':
			s.skipComment()
		case strings.HasPrefix(s.doc[s.pos:], "[["):
			s.advance(2)
			s.arrayHeader()
		case c == '[':
			s.advance(1)
			s.prefix = s.resolve(s.keyPath(']'))
			s.mark(s.prefix)
			s.skipComment()
		default:
			at := s.line
			path := s.prefix
			for _, k := range s.keyPath('=') {
				path = join(path, k)
			}
			if _, ok := s.found[path]; !ok {
				s.found[path] = at
			}
			s.skipValue()
		}
	}
}

func (s *lineScanner) arrayHeader() {
	keys := s.keyPath(']')
	base := s.resolve(keys[:max(len(keys)-1, 0)])
	if len(keys) > 0 {
		base = join(base, keys[len(keys)-1])
	}
	n := s.arrays[base]
	s.arrays[base] = n + 1
	s.prefix = fmt.Sprintf("%s[%d]", base, n)
	s.mark(s.prefix)
	s.skipComment()
}

// resolve turns header keys into a path, with the index of the latest element
// where a part is an array of tables.
func (s *lineScanner) resolve(keys []string) string {
	path := ""
	for _, k := range keys {
		path = join(path, k)
		if n := s.arrays[path]; n > 0 {
			path = fmt.Sprintf("%s[%d]", path, n-1)
		}
	}
	return path
}

func (s *lineScanner) mark(path string) {
	if _, ok := s.found[path]; !ok {
		s.found[path] = s.line
	}
}

// keyPath reads dotted, maybe quoted keys up to and including end.
func (s *lineScanner) keyPath(end byte) []string {
	var keys []string
	var word strings.Builder
	flush := func() {
		if w := strings.TrimSpace(word.String()); w != "" {
			keys = append(keys, w)
		}
		word.Reset()
	}
	for s.pos < len(s.doc) {
		c := s.doc[s.pos]
		switch c {
		case end:
			s.advance(1)
			flush()
			return keys
		case '.':
			flush()
		case '"', '\'':
			start := s.pos + 1
			s.skipString()
			word.WriteString(strings.Trim(s.doc[start:max(start, s.pos-1)], `"'`))
			continue
		default:
			word.WriteByte(c)
		}
		s.advance(1)
	}
	flush()
	return keys
}

// skipValue passes a value: to the end of the line outside any bracket.
func (s *lineScanner) skipValue() {
	depth := 0
	for s.pos < len(s.doc) {
		switch s.doc[s.pos] {
		case '"', '\'':
			s.skipString()
			continue
		case '#':
			s.skipComment()
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case '\n':
			if depth <= 0 {
				return
			}
		}
		s.advance(1)
	}
}

// skipString passes a string of any of the four kinds, at its opening quote.
func (s *lineScanner) skipString() {
	quote := s.doc[s.pos : s.pos+1]
	triple := strings.Repeat(quote, 3)
	closing := quote
	if strings.HasPrefix(s.doc[s.pos:], triple) {
		closing = triple
	}
	s.advance(len(closing))
	for s.pos < len(s.doc) {
		if quote == `"` && s.doc[s.pos] == '\\' {
			s.advance(2)
			continue
		}
		if strings.HasPrefix(s.doc[s.pos:], closing) {
			s.advance(len(closing))
			// Up to two quotes may stand before the closing three.
			for len(closing) == 3 && strings.HasPrefix(s.doc[s.pos:], quote) {
				s.advance(1)
			}
			return
		}
		s.advance(1)
	}
}

func (s *lineScanner) skipComment() {
	for s.pos < len(s.doc) && s.doc[s.pos] != '\n' {
		s.advance(1)
	}
}

func (s *lineScanner) advance(n int) {
	end := min(s.pos+n, len(s.doc))
	s.line += strings.Count(s.doc[s.pos:end], "\n")
	s.pos = end
}
