package tokenizer

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is cut out of the text before anything else, with
// the flags of tokenizer.json.
type addedToken struct {
	content    string
	id         int32
	special    bool // control: never made from untrusted text
	lstrip     bool // takes the white space before it
	rstrip     bool // takes the white space after it
	singleWord bool // only where no letter, digit or _ touches it
	normalized bool // looked for in the normalized text
}

// matcher finds added tokens, the longest at the leftmost position, by a trie
// over bytes.
type matcher struct {
	toks  []addedToken
	start [256]bool       // bytes that begin a token
	edges *pairTable      // (node, byte) to node
	ends  map[int32]int32 // node to index in toks
}

// newMatcher returns nil where there are no tokens.
func newMatcher(toks []addedToken) (*matcher, error) {
	if len(toks) == 0 {
		return nil, nil
	}
	total := 0
	for _, t := range toks {
		if t.content == "" {
			return nil, fmt.Errorf("cannot use added token %d: its text is empty", t.id)
		}
		if len(t.content) > maxAddedBytes {
			return nil, fmt.Errorf("cannot use added token %d: got %d bytes, want at most %d", t.id, len(t.content), maxAddedBytes)
		}
		total += len(t.content)
	}
	m := &matcher{toks: toks, edges: newPairTable(total), ends: make(map[int32]int32, len(toks))}
	nodes := int32(1)
	for i, t := range toks {
		m.start[t.content[0]] = true
		at := int32(0)
		for j := 0; j < len(t.content); j++ {
			b := int32(t.content[j])
			_, to := m.edges.find(at, b)
			if to == NoID {
				to = nodes
				nodes++
				m.edges.add(at, b, 0, to)
			}
			at = to
		}
		if _, taken := m.ends[at]; !taken {
			m.ends[at] = int32(i)
		}
	}
	return m, nil
}

// match is an added token found at text[start:end].
type match struct {
	tok        *addedToken
	start, end int
}

// next finds the first token at or after position i.
func (m *matcher) next(text string, i int) (match, bool) {
	if m == nil {
		return match{}, false
	}
	for ; i < len(text); i++ {
		if !m.start[text[i]] {
			continue
		}
		if t, end := m.longest(text, i); t != nil {
			return match{t, i, end}, true
		}
	}
	return match{}, false
}

func (m *matcher) longest(text string, i int) (best *addedToken, end int) {
	at := int32(0)
	for j := i; j < len(text); j++ {
		_, to := m.edges.find(at, int32(text[j]))
		if to == NoID {
			break
		}
		at = to
		if k, ok := m.ends[at]; ok {
			if t := &m.toks[k]; !t.singleWord || aloneAt(text, i, j+1) {
				best, end = t, j+1
			}
		}
	}
	return best, end
}

// widen takes in the white space that the token wants, not before from.
func (m match) widen(text string, from int) (start, end int) {
	start, end = m.start, m.end
	for m.tok.lstrip && start > from {
		r, n := utf8.DecodeLastRuneInString(text[from:start])
		if !unicode.IsSpace(r) {
			break
		}
		start -= n
	}
	for m.tok.rstrip && end < len(text) {
		r, n := utf8.DecodeRuneInString(text[end:])
		if !unicode.IsSpace(r) {
			break
		}
		end += n
	}
	return start, end
}

func aloneAt(text string, start, end int) bool {
	before, n := utf8.DecodeLastRuneInString(text[:start])
	if n > 0 && isWordRune(before) {
		return false
	}
	after, n := utf8.DecodeRuneInString(text[end:])
	return n == 0 || !isWordRune(after)
}

// isWordRune is the \w of Unicode regular expressions (UTS #18, annex C).
func isWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.Is(unicode.Nd, r) ||
		unicode.Is(unicode.Nl, r) || unicode.Is(unicode.Pc, r) || r == 0x200c || r == 0x200d
}
