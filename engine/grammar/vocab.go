package grammar

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Vocab is a tokenizer's pieces as tries. It is immutable and shared by all
// grammars of a model.
type Vocab struct {
	size   int
	pieces [][]byte // what Accept feeds; control tokens have their private spelling
	ends   []int32  // ascending
	isEnd  []uint32
	longer int // bytes of the longest ordinary piece

	all   trie
	plain plainTokens
	other trie // all but the plain tokens

	single [256]bool // bytes that are a token of their own
	// What can be written whatever the other tokens are, since every byte of it
	// is a token: in the text itself, and inside a JSON string.
	rawRunes, jsonRunes runeSet
}

// trie holds pieces. Nodes are in preorder, so a walk is one pass over the
// arrays and leaving out a subtree is one jump.
type trie struct {
	label []byte   // byte on the edge into the node; node 0 is the root
	depth []uint16 // bytes from the root
	skip  []int32  // first node after the subtree
	first []int32  // tokens of node i are ids[first[i]:first[i+1]]
	ids   []int32
}

// plainTokens are those that consist of whole characters which a JSON string
// holds as they are. In most states inside a string they are allowed together.
type plainTokens struct {
	ids   []int32 // by number of characters
	upTo  []int32 // ids[:upTo[n]] have up to n characters
	bits  []uint32
	runes runeSet // the characters
	seqs  []byteSeq
}

// controlMark begins the private spelling of a control token. The byte occurs
// in no UTF-8 text, and ordinary pieces that have it are never allowed.
const controlMark = 0xFF

// maxPieceBytes bounds what takes part in masks; longer pieces are never
// allowed under a grammar (no tokenizer we know of comes near).
const maxPieceBytes = 1024

func controlSpelling(id int32) []byte {
	b := append([]byte{controlMark}, strconv.Itoa(int(id))...)
	return append(b, controlMark)
}

// NewVocab builds the trie. pieces holds the exact bytes of every token by id;
// an empty piece is never allowed. isControl (may be nil) tells tokens that are
// not text, such as turn markers. endIDs may be chosen exactly where the text
// is complete.
func NewVocab(pieces [][]byte, isControl func(int32) bool, endIDs []int32) *Vocab {
	v := &Vocab{size: len(pieces), pieces: make([][]byte, len(pieces)), isEnd: make([]uint32, MaskWords(len(pieces)))}
	for _, id := range endIDs {
		if id >= 0 && int(id) < v.size && v.isEnd[id>>5]&(1<<(id&31)) == 0 {
			v.isEnd[id>>5] |= 1 << (id & 31)
			v.ends = append(v.ends, id)
		}
	}
	slices.Sort(v.ends)
	order := make([]int32, 0, len(pieces))
	for i, p := range pieces {
		id := int32(i)
		switch {
		case v.end(id):
			continue
		case isControl != nil && isControl(id):
			v.pieces[i] = controlSpelling(id)
		case len(p) == 0 || len(p) > maxPieceBytes || bytes.IndexByte(p, controlMark) >= 0:
			continue
		default:
			v.pieces[i] = p
			v.longer = max(v.longer, len(p))
			if len(p) == 1 {
				v.single[p[0]] = true
			}
		}
		order = append(order, id)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(bytes.Compare(v.pieces[a], v.pieces[b]), cmp.Compare(a, b))
	})
	v.all = newTrie(order, v.pieces)
	v.spellings()
	v.split(order)
	return v
}

func (v *Vocab) end(id int32) bool { return v.isEnd[id>>5]&(1<<(id&31)) != 0 }

// spellings finds the code points that single-byte tokens can write.
func (v *Vocab) spellings() {
	missing := false
	for b := 0; b < 0xF5; b++ {
		missing = missing || !v.single[b] && b != 0xC0 && b != 0xC1
	}
	v.rawRunes, v.jsonRunes = allRunes, allRunes
	if !missing {
		return
	}
	var raw, quoted []runeRange
	for r := rune(0); r < utf8.RuneSelf; r++ {
		if v.spells(string(r)) {
			raw = append(raw, runeRange{r, r})
		}
		if v.spells(jsonForm(r)) {
			quoted = append(quoted, runeRange{r, r})
		}
	}
	long := v.longRunes()
	v.rawRunes, v.jsonRunes = newRuneSet(append(raw, long...)), newRuneSet(append(quoted, long...))
}

// longRunes finds the code points beyond ASCII that single-byte tokens can write.
// Those that differ in the last six bits only have all but the last byte in common.
func (v *Vocab) longRunes() (rs []runeRange) {
	const last = 1 << 6
	for r := rune(utf8.RuneSelf); r <= utf8.MaxRune; r += last {
		if s := string(r); !utf8.ValidRune(r) || !v.spells(s[:len(s)-1]) {
			continue
		}
		for i := range rune(last) {
			switch n := len(rs); {
			case !v.single[utf8.RuneSelf+i]:
			case n > 0 && rs[n-1].hi == r+i-1:
				rs[n-1].hi++
			default:
				rs = append(rs, runeRange{r + i, r + i})
			}
		}
	}
	return rs
}

// spells reports whether every byte of s is a token of its own. Control tokens
// are spelled whole.
func (v *Vocab) spells(s string) bool {
	if s != "" && s[0] == controlMark {
		return true
	}
	for i := 0; i < len(s); i++ {
		if !v.single[s[i]] {
			return false
		}
	}
	return true
}

// spellsAll reports whether every string can be written in JSON.
func (v *Vocab) spellsAll() bool { return slices.Equal(v.jsonRunes, allRunes) }

// spellable narrows set to what can be written in an encoding.
func (v *Vocab) spellable(set runeSet, enc encoding) runeSet {
	if enc == rawText {
		return set.intersect(v.rawRunes)
	}
	return set.intersect(v.jsonRunes)
}

// can reports whether a byte may be a step of its own: as a token, or within the
// spelling of a control token, which is passed as a whole.
func (v *Vocab) can(b byte) bool { return v.single[b] || b == controlMark }

// split sets the plain tokens apart.
func (v *Vocab) split(order []int32) {
	v.plain.runes = v.jsonRunes.intersect(jsonPlain)
	v.plain.seqs = utf8Seqs(nil, v.plain.runes, 0)
	v.plain.bits = make([]uint32, MaskWords(v.size))
	var rest []int32
	counts := make([]int32, v.size) // characters
	most := int32(0)
	for _, id := range order {
		n := int32(v.plain.count(v.pieces[id]))
		if n == 0 {
			rest = append(rest, id)
			continue
		}
		counts[id] = n
		most = max(most, n)
		v.plain.ids = append(v.plain.ids, id)
		v.plain.bits[id>>5] |= 1 << (id & 31)
	}
	slices.SortStableFunc(v.plain.ids, func(a, b int32) int { return cmp.Compare(counts[a], counts[b]) })
	v.plain.upTo = make([]int32, most+1)
	for i, id := range v.plain.ids {
		v.plain.upTo[counts[id]] = int32(i + 1)
	}
	for n := int32(1); n <= most; n++ {
		v.plain.upTo[n] = max(v.plain.upTo[n], v.plain.upTo[n-1])
	}
	v.other = newTrie(rest, v.pieces)
}

// count is the number of characters of a plain piece, 0 for any other.
func (p *plainTokens) count(piece []byte) int {
	n := 0
	for rest := piece; len(rest) > 0; n++ {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size <= 1 || !p.runes.has(r) {
			return 0
		}
		rest = rest[size:]
	}
	return n
}

// newTrie lays pieces, given in their order, out in preorder.
func newTrie(order []int32, pieces [][]byte) (t trie) {
	var open []int32 // nodes from the root to the last one
	add := func(label byte) {
		t.label = append(t.label, label)
		t.depth = append(t.depth, uint16(len(open)))
		t.skip = append(t.skip, 0)
		t.first = append(t.first, int32(len(t.ids)))
		open = append(open, int32(len(t.label)-1))
	}
	closeTo := func(n int) {
		for len(open) > n {
			t.skip[open[len(open)-1]] = int32(len(t.label))
			open = open[:len(open)-1]
		}
	}
	add(0)
	var last []byte
	for _, id := range order {
		p := pieces[id]
		common := 0
		for common < len(p) && common < len(last) && p[common] == last[common] {
			common++
		}
		closeTo(common + 1)
		for _, b := range p[common:] {
			add(b)
		}
		t.ids = append(t.ids, id)
		last = p
	}
	closeTo(0)
	t.first = append(t.first, int32(len(t.ids)))
	return t
}

// Size is the number of token ids.
func (v *Vocab) Size() int { return v.size }

// MaskWords is the length of a mask over n tokens.
func MaskWords(n int) int { return (n + 31) / 32 }
