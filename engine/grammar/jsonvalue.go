package grammar

import (
	"encoding/json"
	"math/big"
	"strings"
	"unicode/utf8"
)

// value is a parsed JSON text that keeps the order of members and the spelling
// of numbers.
type value struct {
	kind  byte   // 'n' null, 't', 'f', '0' number, 's' string, '[' array, '{' object
	text  string // string: its content; number: as spelled
	items []*value
	names []string // object: the names of items
	raw   string   // the text that it was read from
}

func (v *value) member(name string) *value {
	for i := len(v.names) - 1; i >= 0; i-- { // of duplicates the last counts
		if v.names[i] == name {
			return v.items[i]
		}
	}
	return nil
}

// parseValue reads a JSON text.
func parseValue(raw []byte, b *budget) (*value, error) {
	if len(raw) > maxInputBytes {
		return nil, faultf("the schema is longer than %d bytes", maxInputBytes)
	}
	if !utf8.Valid(raw) {
		return nil, faultf("the schema is not valid UTF-8")
	}
	if !json.Valid(raw) {
		return nil, faultf("the schema is not valid JSON")
	}
	p := valueParser{s: string(raw), b: b}
	p.space()
	return p.value(0)
}

// valueParser reads JSON that is known to be valid.
type valueParser struct {
	s  string
	at int
	b  *budget
}

func (p *valueParser) space() {
	for p.at < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.at]) >= 0 {
		p.at++
	}
}

func (p *valueParser) value(depth int) (*value, error) {
	if depth > maxDepth {
		return nil, faultf("the schema is nested more than %d deep", maxDepth)
	}
	if !p.b.spend(4) {
		return nil, p.b.err
	}
	start := p.at
	v := &value{kind: p.s[p.at]}
	switch v.kind {
	case '{', '[':
		if err := p.members(v, depth); err != nil {
			return nil, err
		}
	case '"':
		v.kind, v.text = 's', p.str()
	case 't', 'n':
		p.at += 4
	case 'f':
		p.at += 5
	default:
		for p.at < len(p.s) && strings.IndexByte("+-.eE0123456789", p.s[p.at]) >= 0 {
			p.at++
		}
		v.kind, v.text = '0', p.s[start:p.at]
	}
	v.raw = p.s[start:p.at]
	return v, nil
}

func (p *valueParser) members(v *value, depth int) error {
	closing := byte(']')
	if v.kind == '{' {
		closing = '}'
	}
	p.at++
	for p.space(); p.s[p.at] != closing; p.space() {
		if v.kind == '{' {
			v.names = append(v.names, p.str())
			p.space()
			p.at++ // the colon
			p.space()
		}
		x, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		v.items = append(v.items, x)
		if p.space(); p.s[p.at] == ',' {
			p.at++
		}
	}
	p.at++
	return nil
}

func (p *valueParser) str() string {
	start := p.at
	escaped := false
	for p.at++; p.s[p.at] != '"'; p.at++ {
		if p.s[p.at] == '\\' {
			escaped = true
			p.at++
		}
	}
	p.at++
	if !escaped {
		return p.s[start+1 : p.at-1]
	}
	var s string
	json.Unmarshal([]byte(p.s[start:p.at]), &s)
	return s
}

// maxExponent bounds what a number in a schema may unfold to.
const maxExponent = 400

// number is the exact value of a JSON number; ok is false where it is too
// large or too fine to be worked with.
func (v *value) number() (r *big.Rat, ok bool) {
	if len(v.text) > maxExponent {
		return nil, false
	}
	if i := strings.IndexAny(v.text, "eE"); i >= 0 {
		e, ok := new(big.Int).SetString(strings.TrimPrefix(v.text[i+1:], "+"), 10)
		if !ok || !e.IsInt64() || e.Int64() > maxExponent || e.Int64() < -maxExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(v.text)
}
