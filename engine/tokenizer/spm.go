package tokenizer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// scoreBPE is SentencePiece's BPE: of all neighbours that together are a
// token, those with the highest score merge first.
type scoreBPE struct {
	tokens *roleTable // normal tokens
	ranks  []uint32   // by id; equal scores have equal ranks
	bytes  *byteTokens
	unk    int32
}

// ranksOf orders scores from the highest, rank 0, down.
func ranksOf(scores []float32) ([]uint32, error) {
	ids := make([]int32, len(scores))
	for i, s := range scores {
		if math.IsNaN(float64(s)) {
			return nil, fmt.Errorf("cannot use score of token %d: it is not a number", i)
		}
		ids[i] = int32(i)
	}
	sorted := slices.IsSortedFunc(ids, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	if !sorted {
		slices.SortFunc(ids, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	}
	ranks := make([]uint32, len(scores))
	rank := uint32(0)
	for k, id := range ids {
		if k > 0 && scores[id] != scores[ids[k-1]] {
			rank++
		}
		ranks[id] = rank
	}
	return ranks, nil
}

func (m *scoreBPE) rank(word string, l, r *symbol) (uint32, int32) {
	id, ok := m.tokens.find(word[l.start:r.end])
	if !ok {
		return noRank, NoID
	}
	return m.ranks[id], id
}

func (m *scoreBPE) segment(dst []int32, word string) []int32 {
	for len(word) > maxWordBytes {
		n := runeStart(word, maxWordBytes)
		dst = m.segment(dst, word[:n])
		word = word[n:]
	}
	w := workspaces.Get().(*workspace)
	w.syms = w.syms[:0]
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		id, ok := m.tokens.find(word[i : i+n])
		if !ok {
			id = NoID
		}
		w.syms = append(w.syms, symbol{start: int32(i), end: int32(i + n), id: id})
		i += n
	}
	w.merge(m, word)
	for i := int32(0); i >= 0 && len(w.syms) > 0; i = w.syms[i].next {
		s := &w.syms[i]
		if s.id != NoID {
			dst = append(dst, s.id)
			continue
		}
		dst = m.bytes.fallback(dst, word[s.start:s.end], m.unk)
	}
	w.free()
	return dst
}

// fallback appends a token for each byte of s, or the unknown token.
func (b *byteTokens) fallback(dst []int32, s string, unk int32) []int32 {
	if b.cover(s) {
		for i := 0; i < len(s); i++ {
			dst = append(dst, b.id[s[i]])
		}
		return dst
	}
	if unk != NoID {
		dst = append(dst, unk)
	}
	return dst
}

// metaBorders says where words of a SentencePiece vocabulary may be cut: before
// a U+2581, unless some token has it inside after the byte that stands there.
// Cut words give the same tokens, and short words can be remembered.
type metaBorders [256]bool // byte before U+2581 occurs inside a token

// newMetaBorders returns nil where U+2581 alone is not a token: then cutting
// could change how unknown characters join.
func newMetaBorders(tokens *roleTable) *metaBorders {
	if _, ok := tokens.find(meta); !ok {
		return nil
	}
	b := new(metaBorders)
	for id, s := range tokens.names {
		if s == "" || tokens.roles>>tokens.kinds[id]&1 == 0 {
			continue
		}
		for i := nextMeta(s, 1); i > 0; i = nextMeta(s, i+1) {
			b[s[i-1]] = true
		}
	}
	return b
}

func (b *metaBorders) split(s string) int {
	for i := nextMeta(s, 1); i > 0; i = nextMeta(s, i+1) {
		if !b[s[i-1]] {
			return i
		}
	}
	return len(s)
}

// nextMeta returns the index of the first U+2581 at or after from, or -1.
func nextMeta(s string, from int) int {
	if from >= len(s) {
		return -1
	}
	i := strings.Index(s[from:], meta)
	if i < 0 {
		return -1
	}
	return from + i
}
