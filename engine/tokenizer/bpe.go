package tokenizer

import (
	"fmt"
	"hash/maphash"
	"slices"
	"unicode/utf8"
)

// byteBPE merges the bytes of a word by a table of pairs.
type byteBPE struct {
	pairs  *pairTable
	byteID [256]int32 // NoID where the vocabulary lacks the byte
	unk    int32      // stands for such a byte, or NoID: it is dropped
	whole  *roleTable // if not nil, a word that is one of these stays whole
}

func (m *byteBPE) rank(_ string, l, r *symbol) (uint32, int32) {
	if l.id == NoID || r.id == NoID {
		return noRank, NoID
	}
	return m.pairs.find(l.id, r.id)
}

func (m *byteBPE) segment(dst []int32, word string) []int32 {
	if len(word) == 1 {
		return m.one(dst, word[0])
	}
	for len(word) > maxWordBytes {
		dst = m.segment(dst, word[:maxWordBytes])
		word = word[maxWordBytes:]
	}
	if m.whole != nil && len(word) <= m.whole.max {
		var buf [128]byte
		if id, ok := m.whole.find(string(appendByteName(buf[:0], word))); ok {
			return append(dst, id)
		}
	}
	w := workspaces.Get().(*workspace)
	w.syms = slices.Grow(w.syms[:0], len(word))
	for i := 0; i < len(word); i++ {
		w.syms = append(w.syms, symbol{start: int32(i), end: int32(i + 1), id: m.byteID[word[i]]})
	}
	w.merge(m, word)
	for i := int32(0); i >= 0; i = w.syms[i].next {
		if id := w.syms[i].id; id != NoID {
			dst = append(dst, id)
		} else if m.unk != NoID {
			dst = append(dst, m.unk)
		}
	}
	w.free()
	return dst
}

func (m *byteBPE) one(dst []int32, b byte) []int32 {
	if id := m.byteID[b]; id != NoID {
		return append(dst, id)
	}
	if m.unk != NoID {
		return append(dst, m.unk)
	}
	return dst
}

// charBPE merges the characters of a word by a table of pairs, with byte
// tokens for characters that are not in the vocabulary.
type charBPE struct {
	pairs *pairTable
	chars *roleTable
	bytes *byteTokens // nil without byte fallback
	unk   int32
	fuse  bool // a run of unknown characters is one unknown token
	whole bool // a word that is a token stays whole
}

func (m *charBPE) rank(_ string, l, r *symbol) (uint32, int32) {
	if l.id == NoID || r.id == NoID {
		return noRank, NoID
	}
	return m.pairs.find(l.id, r.id)
}

func (m *charBPE) segment(dst []int32, word string) []int32 {
	for len(word) > maxWordBytes {
		n := runeStart(word, maxWordBytes)
		dst = m.segment(dst, word[:n])
		word = word[n:]
	}
	if m.whole {
		if id, ok := m.chars.find(word); ok {
			return append(dst, id)
		}
	}
	w := workspaces.Get().(*workspace)
	w.syms = m.symbols(w.syms[:0], word)
	w.merge(m, word)
	for i := int32(0); i >= 0 && len(w.syms) > 0; i = w.syms[i].next {
		if id := w.syms[i].id; id != NoID {
			dst = append(dst, id)
		}
	}
	w.free()
	return dst
}

// symbols lists the characters of word, or their bytes.
func (m *charBPE) symbols(syms []symbol, word string) []symbol {
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		c := word[i : i+n]
		from, to := int32(i), int32(i+n)
		i += n
		if id, ok := m.chars.find(c); ok {
			syms = append(syms, symbol{start: from, end: to, id: id})
			continue
		}
		if m.bytes.cover(c) {
			for j := range len(c) {
				syms = append(syms, symbol{start: from + int32(j), end: from + int32(j) + 1, id: m.bytes.id[c[j]]})
			}
			continue
		}
		if k := len(syms) - 1; m.fuse && k >= 0 && m.unk != NoID && syms[k].id == m.unk {
			syms[k].end = to
			continue
		}
		syms = append(syms, symbol{start: from, end: to, id: m.unk})
	}
	return syms
}

// byteTokens are the ids of <0x00> to <0xFF>, NoID where there is none.
type byteTokens struct{ id [256]int32 }

// cover says whether every byte of s has a token.
func (b *byteTokens) cover(s string) bool {
	if b == nil {
		return false
	}
	for i := 0; i < len(s); i++ {
		if b.id[s[i]] == NoID {
			return false
		}
	}
	return true
}

// runeStart returns the start of the character at or before i.
func runeStart(s string, i int) int {
	for i > 0 && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}

// parseByteName reads <0xHH>.
func parseByteName(s string) (byte, bool) {
	if len(s) != 6 || s[:3] != "<0x" || s[5] != '>' {
		return 0, false
	}
	hi, lo := hexDigit(s[3]), hexDigit(s[4])
	if hi < 0 || lo < 0 {
		return 0, false
	}
	return byte(hi<<4 | lo), true
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// pairBuilder makes a pairTable from merges written as names. It keeps hashes
// and looks them up all at once at the end: then the look-ups, which miss the
// processor's caches, overlap.
type pairBuilder struct {
	index  *nameTable
	hashes [][3]uint64 // left, right, both
	buf    []byte
}

// add takes the next merge in order of rank.
func (b *pairBuilder) add(left, right string) error {
	if len(b.hashes) >= maxMerges {
		return fmt.Errorf("cannot use vocabulary: got more than %d merges", maxMerges)
	}
	if len(left)+len(right) > maxTokenBytes {
		return fmt.Errorf("cannot use merge %d: got %d bytes, want at most %d", len(b.hashes), len(left)+len(right), maxTokenBytes)
	}
	b.buf = append(append(b.buf[:0], left...), right...)
	seed := b.index.seed
	b.hashes = append(b.hashes, [3]uint64{
		maphash.String(seed, left), maphash.String(seed, right), maphash.Bytes(seed, b.buf),
	})
	return nil
}

func (b *pairBuilder) build() (*pairTable, error) {
	pairs := newPairTable(len(b.hashes))
	for rank, h := range b.hashes {
		l, r, both := b.index.findByHash(h[0]), b.index.findByHash(h[1]), b.index.findByHash(h[2])
		if l == NoID || r == NoID || both == NoID {
			missing := "the result"
			if l == NoID {
				missing = "the left token"
			} else if r == NoID {
				missing = "the right token"
			}
			return nil, fmt.Errorf("cannot use merge %d: %s is not in the vocabulary", rank, missing)
		}
		pairs.add(l, r, uint32(rank), both)
	}
	return pairs, nil
}
