package tokenizer

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// unigram is SentencePiece's unigram language model: of all ways to write a
// text as tokens, the one with the highest sum of scores (log-probabilities)
// wins; of equal ones, the one whose last token is longest.
type unigram struct {
	trie     *pairTable // (node, byte) to node
	ends     []int32    // by node: token, or NoID
	scores   []float64
	unk      int32
	unkScore float64
	bytes    *byteTokens
	maxLen   int
	fuse     bool
}

// unkPenalty is how far below the worst token an unknown character counts
// (kUnkPenalty of SentencePiece's unigram_model.cc).
const unkPenalty = 10.0

// maxUnigramBytes bounds the trie.
const maxUnigramBytes = 64 << 20

func newUnigram(names []string, scores []float64, unk int32, bytes *byteTokens, keep func(id int) bool) (*unigram, error) {
	if unk == NoID {
		return nil, fmt.Errorf("cannot use unigram vocabulary: it has no unknown token")
	}
	total := 0
	for _, s := range names {
		total += len(s)
	}
	if total > maxUnigramBytes {
		return nil, fmt.Errorf("cannot use unigram vocabulary: got %d bytes of tokens, want at most %d", total, maxUnigramBytes)
	}
	m := &unigram{trie: newPairTable(total), ends: []int32{NoID}, scores: scores, unk: unk, bytes: bytes, fuse: true}
	worst := math.Inf(1)
	for id, s := range names {
		if s == "" || !keep(id) || int32(id) == unk {
			continue
		}
		worst = min(worst, scores[id])
		m.maxLen = max(m.maxLen, len(s))
		m.insert(s, int32(id))
	}
	if math.IsInf(worst, 1) {
		worst = 0
	}
	m.unkScore = worst - unkPenalty
	return m, nil
}

func (m *unigram) insert(s string, id int32) {
	at := int32(0)
	for i := 0; i < len(s); i++ {
		_, to := m.trie.find(at, int32(s[i]))
		if to == NoID {
			to = int32(len(m.ends))
			m.ends = append(m.ends, NoID)
			m.trie.add(at, int32(s[i]), 0, to)
		}
		at = to
	}
	if m.ends[at] == NoID {
		m.ends[at] = id
	}
}

// lattice is the best way to each byte position.
type lattice struct {
	score float64
	from  int32
	id    int32
}

func (m *unigram) segment(dst []int32, word string) []int32 {
	const most = 1 << 24 // bytes at a time: the lattice takes 16 B for each
	for len(word) > most {
		n := runeStart(word, most)
		dst = m.segment(dst, word[:n])
		word = word[n:]
	}
	best := make([]lattice, len(word)+1)
	for i := range best {
		best[i].score = math.Inf(-1)
	}
	best[0].score = 0
	for i := 0; i < len(word); {
		m.relax(best, word, i)
		_, n := utf8.DecodeRuneInString(word[i:])
		i += n
	}
	return m.trace(dst, best, word)
}

// relax extends the best way to i by every token that fits there.
func (m *unigram) relax(best []lattice, word string, i int) {
	_, width := utf8.DecodeRuneInString(word[i:])
	single := false
	at := int32(0)
	for j := i; j < len(word); j++ {
		_, at = m.trie.find(at, int32(word[j]))
		if at == NoID {
			break
		}
		id := m.ends[at]
		if id == NoID || j+1 < len(word) && !utf8.RuneStart(word[j+1]) {
			continue
		}
		single = single || j+1-i == width
		if s := best[i].score + m.scores[id]; s > best[j+1].score {
			best[j+1] = lattice{s, int32(i), id}
		}
	}
	if !single {
		if s := best[i].score + m.unkScore; s > best[i+width].score {
			best[i+width] = lattice{s, int32(i), m.unk}
		}
	}
}

// trace reads the best way backwards.
func (m *unigram) trace(dst []int32, best []lattice, word string) []int32 {
	var path []lattice // from, id and, in score, the end
	for end := len(word); end > 0; {
		b := best[end]
		path = append(path, lattice{float64(end), b.from, b.id})
		end = int(b.from)
	}
	wasUnk := false
	for i := len(path) - 1; i >= 0; i-- {
		p := path[i]
		if p.id != m.unk {
			dst = append(dst, p.id)
			wasUnk = false
			continue
		}
		if m.bytes == nil && m.fuse && wasUnk {
			continue
		}
		dst = m.bytes.fallback(dst, word[p.from:int(p.score)], m.unk)
		wasUnk = true
	}
	return dst
}

func (m *unigram) canonical(c *canonical) {
	c.text("unigram")
	c.int(int64(len(m.scores)))
	for _, s := range m.scores {
		c.int(int64(math.Float64bits(s)))
	}
	c.bool(m.fuse)
}
