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
	slots []uint64 // upper bits of the hash << idBits | id+1; 0 is free
	names []string
	n     int // names in the table
	max   int // length of the longest
}

// idBits hold an id+1; the 42 bits above are a fingerprint of the name.
const (
	idBits = 22
	idMask = 1<<idBits - 1
)

// newNameTable indexes the names that are not empty; of equal ones the first
// wins.
func newNameTable(names []string) *nameTable {
	t := &nameTable{names: names}
	t.rebuild(len(names)*3/2 + 64)
	return t
}

// rebuild fills a new table, with another seed where two different names have
// the same fingerprint, so that findByHash is exact for names it holds.
func (t *nameTable) rebuild(size int) {
	for ok := false; !ok; {
		t.seed, t.slots, t.n = maphash.MakeSeed(), make([]uint64, size), 0
		ok = true
		for i := range t.names {
			if ok = t.insert(i); !ok {
				break
			}
		}
	}
}

// insert adds names[i]; false if its fingerprint is that of another name.
func (t *nameTable) insert(i int) bool {
	s := t.names[i]
	if s == "" {
		return true
	}
	t.max = max(t.max, len(s))
	h := maphash.String(t.seed, s)
	for j := t.slot(h); ; j = t.next(j) {
		v := t.slots[j]
		if v == 0 {
			t.slots[j] = h&^idMask | uint64(i+1)
			t.n++
			return true
		}
		if (v^h)>>idBits == 0 {
			return t.names[v&idMask-1] == s
		}
	}
}

// grow adds the name of id, which has been put into names.
func (t *nameTable) grow(names []string, id int) {
	t.names = names
	if t.n*4 > len(t.slots)*3 {
		t.rebuild(len(t.slots) * 2)
	} else if !t.insert(id) {
		t.rebuild(len(t.slots))
	}
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
	if len(s) > t.max || s == "" {
		return NoID, false
	}
	id := t.findByHash(maphash.String(t.seed, s))
	if id == NoID || t.names[id] != s {
		return NoID, false
	}
	return id, true
}

// findByHash finds a name by its hash alone, without touching the name: right
// for every name in the table, while one that is not in it is taken for another
// once in 2^42 times. NoID for none.
func (t *nameTable) findByHash(h uint64) int32 {
	for j := t.slot(h); ; j = t.next(j) {
		v := t.slots[j]
		if v == 0 {
			return NoID
		}
		if (v^h)>>idBits == 0 {
			return int32(v&idMask) - 1
		}
	}
}

// roleTable is a nameTable of which only tokens of some kinds are seen.
type roleTable struct {
	*nameTable
	kinds []Kind
	roles uint8 // 1<<kind of those seen
}

func (t *roleTable) find(s string) (int32, bool) {
	id, ok := t.nameTable.find(s)
	if !ok || t.roles>>t.kinds[id]&1 == 0 {
		return NoID, false
	}
	return id, true
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
