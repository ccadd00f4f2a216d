package tokenizer

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
)

// nameTable maps token strings to ids by open addressing; several times faster
// to build than a Go map, which decides how long a vocabulary takes to load.
type nameTable struct {
	seed  maphash.Seed
	slots []uint64 // upper half of the hash << 32 | id+1; 0 is free
	names []string
	max   int // length of the longest name in the table
}

// newNameTable indexes the names for which keep says true; of equal names the
// first one wins.
func newNameTable(names []string, keep func(id int) bool) *nameTable {
	t := &nameTable{seed: maphash.MakeSeed(), names: names, slots: make([]uint64, len(names)*3/2+8)}
	for i, s := range names {
		if keep != nil && !keep(i) {
			continue
		}
		t.max = max(t.max, len(s))
		h := maphash.String(t.seed, s)
		for j := t.slot(h); ; j = t.next(j) {
			v := t.slots[j]
			if v == 0 {
				t.slots[j] = h&^0xffffffff | uint64(i+1)
				break
			}
			if (v^h)>>32 == 0 && names[uint32(v)-1] == s {
				break
			}
		}
	}
	return t
}

func (t *nameTable) slot(h uint64) int {
	hi, _ := bits.Mul64(h, uint64(len(t.slots)))
	return int(hi)
}

func (t *nameTable) next(j int) int {
	if j++; j == len(t.slots) {
		return 0
	}
	return j
}

func (t *nameTable) find(s string) (int32, bool) {
	if len(s) > t.max {
		return NoID, false
	}
	h := maphash.String(t.seed, s)
	for j := t.slot(h); ; j = t.next(j) {
		v := t.slots[j]
		if v == 0 {
			return NoID, false
		}
		if (v^h)>>32 == 0 {
			if id := uint32(v) - 1; t.names[id] == s {
				return int32(id), true
			}
		}
	}
}

// pairTable maps a pair of ids to the rank of their merge (lower goes first)
// and the id that it makes.
type pairTable struct {
	mul   uint64
	slots []pairSlot
	n     int
}

type pairSlot struct {
	key  uint64 // left+1 << 32 | right; 0 is free
	rank uint32
	id   int32
}

func newPairTable(n int) *pairTable {
	return &pairTable{mul: rand.Uint64() | 1, slots: make([]pairSlot, n*4/3+8)}
}

func pairKey(left, right int32) uint64 { return uint64(left+1)<<32 | uint64(uint32(right)) }

func (t *pairTable) slot(key uint64) int {
	h := key * t.mul
	h = (h ^ h>>32) * 0x9e3779b97f4a7c15
	hi, _ := bits.Mul64(h, uint64(len(t.slots)))
	return int(hi)
}

// add keeps the first rank of a pair; it must not be called more often than
// the table was made for.
func (t *pairTable) add(left, right int32, rank uint32, id int32) {
	key := pairKey(left, right)
	for j := t.slot(key); ; {
		switch s := &t.slots[j]; s.key {
		case 0:
			*s = pairSlot{key, rank, id}
			t.n++
			return
		case key:
			return
		}
		if j++; j == len(t.slots) {
			j = 0
		}
	}
}

// find returns noRank where the pair does not merge.
func (t *pairTable) find(left, right int32) (rank uint32, id int32) {
	key := pairKey(left, right)
	for j := t.slot(key); ; {
		s := &t.slots[j]
		if s.key == key {
			return s.rank, s.id
		}
		if s.key == 0 {
			return noRank, NoID
		}
		if j++; j == len(t.slots) {
			j = 0
		}
	}
}

// noRank is the rank of a pair that does not merge.
const noRank = ^uint32(0)
