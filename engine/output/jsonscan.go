package output

// scanResult is what one byte did to a JSON value.
type scanResult uint8

const (
	scanMore  scanResult = iota // the value goes on
	scanDone                    // this byte ends it
	scanEnded                   // it had ended before this byte
	scanError
)

// maxToolDepth bounds the nesting inside a call; deeper ones count as malformed.
const maxToolDepth = 256

type scanState uint8

const (
	wantValue scanState = iota
	wantFirstItem
	wantFirstKey
	wantKey
	wantColon
	wantComma
	inString
	inEscape
	inHex
	inNumber
	inLiteral
)

// jsonScan follows one JSON value byte by byte. The zero value is ready.
type jsonScan struct {
	state   scanState
	stack   []byte // '{' or '[' for each open container
	key     bool   // the string is a key
	hex     int
	literal string // what remains of true, false or null
	number  numberState
}

// control says whether c is a raw control character inside a string: not JSON,
// but what models write, and safe to escape.
func (s *jsonScan) control(c byte) bool { return s.state == inString && c < 0x20 }

func (s *jsonScan) step(c byte) scanResult {
	switch s.state {
	case inString:
		switch {
		case c == '"':
			return s.stringEnds()
		case c == '\\':
			s.state = inEscape
		}
		return scanMore
	case inEscape:
		switch c {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			s.state = inString
			return scanMore
		case 'u':
			s.state, s.hex = inHex, 4
			return scanMore
		}
		return scanError
	case inHex:
		if !isHex(c) {
			return scanError
		}
		if s.hex--; s.hex == 0 {
			s.state = inString
		}
		return scanMore
	case inNumber:
		if s.number.step(c) {
			return scanMore
		}
		if !s.number.complete() {
			return scanError
		}
		if len(s.stack) == 0 {
			return scanEnded
		}
		s.state = wantComma
	case inLiteral:
		if s.literal == "" || s.literal[0] != c {
			return scanError
		}
		if s.literal = s.literal[1:]; s.literal == "" {
			return s.valueEnds()
		}
		return scanMore
	}
	if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		return scanMore
	}
	return s.structure(c)
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// structure handles a byte outside strings, numbers and literals.
func (s *jsonScan) structure(c byte) scanResult {
	switch s.state {
	case wantFirstItem, wantValue:
		if c == ']' && s.state == wantFirstItem {
			return s.pop()
		}
		return s.begin(c)
	case wantFirstKey, wantKey:
		switch {
		case c == '"':
			s.state, s.key = inString, true
			return scanMore
		case c == '}' && s.state == wantFirstKey:
			return s.pop()
		}
	case wantColon:
		if c == ':' {
			s.state = wantValue
			return scanMore
		}
	case wantComma:
		top := s.stack[len(s.stack)-1]
		switch {
		case c == ',' && top == '{':
			s.state = wantKey
			return scanMore
		case c == ',':
			s.state = wantValue
			return scanMore
		case c == top+2: // '}' and ']' come two after their openers
			return s.pop()
		}
	}
	return scanError
}

func (s *jsonScan) begin(c byte) scanResult {
	switch {
	case c == '{' || c == '[':
		if len(s.stack) >= maxToolDepth {
			return scanError
		}
		s.stack = append(s.stack, c)
		s.state = wantFirstKey
		if c == '[' {
			s.state = wantFirstItem
		}
	case c == '"':
		s.state, s.key = inString, false
	case c == '-' || c >= '0' && c <= '9':
		s.state, s.number = inNumber, 0
		s.number.step(c)
	case c == 't':
		s.state, s.literal = inLiteral, "rue"
	case c == 'f':
		s.state, s.literal = inLiteral, "alse"
	case c == 'n':
		s.state, s.literal = inLiteral, "ull"
	default:
		return scanError
	}
	return scanMore
}

func (s *jsonScan) stringEnds() scanResult {
	if s.key {
		s.state = wantColon
		return scanMore
	}
	return s.valueEnds()
}

func (s *jsonScan) pop() scanResult {
	s.stack = s.stack[:len(s.stack)-1]
	return s.valueEnds()
}

func (s *jsonScan) valueEnds() scanResult {
	if len(s.stack) == 0 {
		return scanDone
	}
	s.state = wantComma
	return scanMore
}

func (s *jsonScan) reset() { *s = jsonScan{stack: s.stack[:0]} }

// numberState is where in a JSON number the text is (RFC 8259, section 6).
type numberState uint8

const (
	numStart numberState = iota
	numMinus
	numZero
	numInt
	numPoint
	numFrac
	numE
	numSign
	numExp
)

// step takes c if the number can go on with it.
func (n *numberState) step(c byte) bool {
	digit := c >= '0' && c <= '9'
	next := numberState(255)
	switch *n {
	case numStart, numMinus:
		switch {
		case c == '-' && *n == numStart:
			next = numMinus
		case c == '0':
			next = numZero
		case digit:
			next = numInt
		}
	case numZero, numInt:
		switch {
		case digit && *n == numInt:
			next = numInt
		case c == '.':
			next = numPoint
		case c|0x20 == 'e':
			next = numE
		}
	case numPoint, numFrac:
		switch {
		case digit:
			next = numFrac
		case c|0x20 == 'e' && *n == numFrac:
			next = numE
		}
	case numE:
		if c == '+' || c == '-' {
			next = numSign
			break
		}
		fallthrough
	case numSign, numExp:
		if digit {
			next = numExp
		}
	}
	if next == 255 {
		return false
	}
	*n = next
	return true
}

func (n numberState) complete() bool {
	return n == numZero || n == numInt || n == numFrac || n == numExp
}
