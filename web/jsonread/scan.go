package jsonread

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"hearth/engine/infer"
)

// Limits bound one text. Zero fields take the defaults below.
type Limits struct {
	Depth   int // nesting of arrays and objects
	Members int // members of one object
}

const (
	defaultDepth   = 64
	defaultMembers = 10_000
	// linearKeys is how many keys of one object are compared one by one before
	// a map takes over.
	linearKeys = 32
)

// scanner checks one text in a single pass. It builds nothing: what it keeps is
// the keys of the objects that are open at the moment.
type scanner struct {
	b    []byte
	i    int
	lim  Limits
	keys [][]byte // keys of all open objects, innermost last
}

// check reports the first fault of b as JSON text (RFC 8259) with the
// restrictions named in the package comment.
func check(b []byte, lim Limits) error {
	if lim.Depth == 0 {
		lim.Depth = defaultDepth
	}
	if lim.Members == 0 {
		lim.Members = defaultMembers
	}
	s := scanner{b: b, lim: lim}
	s.space()
	if s.i == len(b) {
		return infer.Invalid("", "cannot read an empty body: wanted a JSON object")
	}
	if bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		return s.fault("a byte-order mark", "JSON without one")
	}
	if err := s.value(0); err != nil {
		return err
	}
	s.space()
	if s.i < len(b) {
		return s.fault("data after the end of the JSON value", "one value")
	}
	return nil
}

// fault says what was met at the present offset. It never quotes the text,
// which may be a prompt.
func (s *scanner) fault(got, wanted string) error {
	return infer.Invalid("", "cannot parse the body as JSON: got %s at byte %d, wanted %s", got, s.i, wanted)
}

// here names the present byte in words.
func (s *scanner) here() string {
	if s.i >= len(s.b) {
		return "the end of the body"
	}
	c := s.b[s.i]
	switch {
	case c < 0x20 || c == 0x7f:
		return fmt.Sprintf("control character 0x%02x", c)
	case c >= 0x80:
		return "a character outside ASCII"
	default:
		return fmt.Sprintf("%q", rune(c))
	}
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) value(depth int) error {
	if s.i == len(s.b) {
		return s.fault("the end of the body", "a value")
	}
	switch c := s.b[s.i]; {
	case c == '{' || c == '[':
		if depth == s.lim.Depth {
			return infer.Invalid("", "cannot parse the body as JSON: nested deeper than %d levels at byte %d", s.lim.Depth, s.i)
		}
		if c == '{' {
			return s.object(depth + 1)
		}
		return s.array(depth + 1)
	case c == '"':
		_, err := s.str()
		return err
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return s.fault(s.here(), "a value")
}

func (s *scanner) word(w string) error {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		return s.fault("an unknown word", "true, false or null")
	}
	s.i += len(w)
	return nil
}

func (s *scanner) array(depth int) error {
	s.i++
	s.space()
	if s.i < len(s.b) && s.b[s.i] == ']' {
		s.i++
		return nil
	}
	for {
		s.space()
		if err := s.value(depth); err != nil {
			return err
		}
		s.space()
		switch {
		case s.i < len(s.b) && s.b[s.i] == ',':
			s.i++
		case s.i < len(s.b) && s.b[s.i] == ']':
			s.i++
			return nil
		default:
			return s.fault(s.here(), "',' or ']'")
		}
	}
}

func (s *scanner) object(depth int) error {
	s.i++
	s.space()
	if s.i < len(s.b) && s.b[s.i] == '}' {
		s.i++
		return nil
	}
	first := len(s.keys)
	defer func() { s.keys = s.keys[:first] }()
	var many map[string]struct{}
	for n := 1; ; n++ {
		s.space()
		if s.i == len(s.b) || s.b[s.i] != '"' {
			return s.fault(s.here(), "a member name in quotes")
		}
		raw, err := s.str()
		if err != nil {
			return err
		}
		if n > s.lim.Members {
			return infer.Invalid("", "cannot parse the body as JSON: an object has more than %d members at byte %d", s.lim.Members, s.i)
		}
		if many, err = s.unique(first, many, raw); err != nil {
			return err
		}
		s.space()
		if s.i == len(s.b) || s.b[s.i] != ':' {
			return s.fault(s.here(), "':'")
		}
		s.i++
		s.space()
		if err := s.value(depth); err != nil {
			return err
		}
		s.space()
		switch {
		case s.i < len(s.b) && s.b[s.i] == ',':
			s.i++
		case s.i < len(s.b) && s.b[s.i] == '}':
			s.i++
			return nil
		default:
			return s.fault(s.here(), "',' or '}'")
		}
	}
}

// unique records a key of the object whose keys begin at first, and refuses a
// second one of that name: which of two would count is a matter of taste, and
// two readers with different tastes are a hole.
func (s *scanner) unique(first int, many map[string]struct{}, raw []byte) (map[string]struct{}, error) {
	key := raw
	if bytes.IndexByte(raw, '\\') >= 0 {
		key = []byte(unescape(raw))
	}
	dup := func() error {
		return infer.Invalid(Shorten(string(key), 64), "cannot parse the body as JSON: the member %q comes twice in one object", Shorten(string(key), 64))
	}
	if many != nil {
		if _, ok := many[string(key)]; ok {
			return many, dup()
		}
		many[string(key)] = struct{}{}
		return many, nil
	}
	for _, k := range s.keys[first:] {
		if bytes.Equal(k, key) {
			return nil, dup()
		}
	}
	s.keys = append(s.keys, key)
	if len(s.keys)-first < linearKeys {
		return nil, nil
	}
	many = make(map[string]struct{}, 2*linearKeys)
	for _, k := range s.keys[first:] {
		many[string(k)] = struct{}{}
	}
	return many, nil
}

// plain marks the bytes that need no attention inside a string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 0x80; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return
}()

// str checks a string and returns its text between the quotes, escapes and all.
func (s *scanner) str() ([]byte, error) {
	s.i++
	start := s.i
	for {
		for s.i < len(s.b) && plain[s.b[s.i]] {
			s.i++
		}
		if s.i == len(s.b) {
			return nil, s.fault("the end of the body", "the end of a string")
		}
		switch c := s.b[s.i]; {
		case c == '"':
			raw := s.b[start:s.i]
			s.i++
			return raw, nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		case c < 0x20:
			return nil, s.fault(s.here(), "it escaped inside a string")
		default:
			r, n := utf8.DecodeRune(s.b[s.i:])
			if r == utf8.RuneError && n == 1 {
				return nil, s.fault("bytes that are not UTF-8", "UTF-8")
			}
			s.i += n
		}
	}
}

func (s *scanner) escape() error {
	if s.i+1 == len(s.b) {
		return s.fault("the end of the body", "an escape")
	}
	switch s.b[s.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i += 2
		return nil
	case 'u':
	default:
		return s.fault("an unknown escape", `one of \" \\ \/ \b \f \n \r \t \u`)
	}
	r, ok := hex4(s.b[s.i:])
	if !ok {
		return s.fault(`a broken \u escape`, "four hexadecimal digits")
	}
	switch {
	case r >= 0xdc00 && r < 0xe000:
		return s.fault("the second half of a surrogate pair alone", "whole characters")
	case r >= 0xd800 && r < 0xdc00:
		low, ok := hex4(s.b[s.i+6:])
		if !ok || low < 0xdc00 || low >= 0xe000 {
			return s.fault("the first half of a surrogate pair alone", "whole characters")
		}
		s.i += 12
	default:
		s.i += 6
	}
	return nil
}

// hex4 reads \u and four hex digits at the head of b.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}

// number follows the grammar of RFC 8259 section 6; NaN and Infinity are none.
func (s *scanner) number() error {
	if s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
		if s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
			return s.fault("a number with a leading zero", "a number")
		}
	} else if !s.digits() {
		return s.fault(s.here(), "a digit")
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return s.fault(s.here(), "a digit after the point")
		}
	}
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if !s.digits() {
			return s.fault(s.here(), "a digit in the exponent")
		}
	}
	return nil
}
