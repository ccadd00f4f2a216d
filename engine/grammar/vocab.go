package grammar

import (
	"bytes"
	"sort"
	"strconv"
)

// Vocab is a tokenizer's pieces as a trie. It is immutable and shared by all
// grammars of a model.
//
// Nodes are in preorder, so a walk is one pass over the arrays and leaving out
// a subtree is one jump.
type Vocab struct {
	size   int
	pieces [][]byte // what Accept feeds; control tokens have their private spelling
	ends   []int32  // ascending
	isEnd  []uint32

	label  []byte   // byte on the edge into the node; node 0 is the root
	depth  []uint16 // bytes from the root
	skip   []int32  // first node after the subtree
	first  []int32  // tokens of node i are ids[first[i]:first[i+1]]
	ids    []int32
	longer int // bytes of the longest ordinary piece

	single [256]bool // bytes that are a token of their own
	whole  bool      // all bytes that UTF-8 uses are in single
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
	sort.Slice(v.ends, func(i, j int) bool { return v.ends[i] < v.ends[j] })
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
	sort.SliceStable(order, func(i, j int) bool {
		return bytes.Compare(v.pieces[order[i]], v.pieces[order[j]]) < 0
	})
	v.build(order)
	v.whole = true
	for b := 0; b < 256; b++ {
		if usedByUTF8(byte(b)) && !v.single[b] {
			v.whole = false
		}
	}
	return v
}

func usedByUTF8(b byte) bool { return b < 0xC0 || b >= 0xC2 && b <= 0xF4 }

func (v *Vocab) end(id int32) bool { return v.isEnd[id>>5]&(1<<(id&31)) != 0 }

// build lays the sorted pieces out as a trie in preorder.
func (v *Vocab) build(order []int32) {
	var open []int32 // nodes from the root to the last one
	add := func(label byte) {
		v.label = append(v.label, label)
		v.depth = append(v.depth, uint16(len(open)))
		v.skip = append(v.skip, 0)
		v.first = append(v.first, int32(len(v.ids)))
		open = append(open, int32(len(v.label)-1))
	}
	closeTo := func(n int) {
		for len(open) > n {
			v.skip[open[len(open)-1]] = int32(len(v.label))
			open = open[:len(open)-1]
		}
	}
	add(0)
	var last []byte
	for _, id := range order {
		p := v.pieces[id]
		common := 0
		for common < len(p) && common < len(last) && p[common] == last[common] {
			common++
		}
		closeTo(common + 1)
		for _, b := range p[common:] {
			add(b)
		}
		v.ids = append(v.ids, id)
		last = p
	}
	closeTo(0)
	v.first = append(v.first, int32(len(v.ids)))
}

// Size is the number of token ids.
func (v *Vocab) Size() int { return v.size }

// MaskWords is the length of a mask over n tokens.
func MaskWords(n int) int { return (n + 31) / 32 }
