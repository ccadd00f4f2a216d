// Package sched decides what each step of the engine computes: which sequences
// run, how many tokens of each, and which cache blocks hold them. It is pure:
// no clock, no goroutine, no I/O, and the same calls give the same plan.
package sched

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// BlockPool owns the blocks of a paged KV cache. A block is in one of three
// states:
//
//  1. used: RefCount > 0, on no list;
//  2. cached: RefCount 0, on the free list, still registered under its hash, so
//     that a later sequence with the same prefix can take it back;
//  3. free: RefCount 0, on the free list, without content of use.
//
// The free list is kept in eviction order: the front is taken first. Blocks of a
// finished sequence are freed tail first, so shared heads survive longest.
//
// A BlockPool belongs to one goroutine.
type BlockPool struct {
	blockSize int
	blocks    []block
	head      int32 // front of the free list, -1 when empty
	tail      int32
	free      int // length of the free list
	cached    int // how many of the free list are registered
	index     map[Hash]int32
	caching   bool
}

// Hash identifies the content of a full block and of everything before it.
type Hash [sha256.Size]byte

type block struct {
	refs       int32
	prev, next int32 // free list
	hash       Hash
	registered bool
	tokens     []int32 // content of a registered block, compared on a hit
}

// NewBlockPool makes a pool of n blocks of blockSize tokens. With caching false
// no block is ever shared.
func NewBlockPool(n, blockSize int, caching bool) *BlockPool {
	p := &BlockPool{
		blockSize: blockSize,
		blocks:    make([]block, n),
		index:     make(map[Hash]int32, n),
		caching:   caching,
		head:      -1, tail: -1,
	}
	tokens := make([]int32, n*blockSize)
	for i := range p.blocks {
		p.blocks[i].tokens = tokens[i*blockSize : i*blockSize : (i+1)*blockSize]
		p.pushBack(int32(i))
	}
	return p
}

// BlockSize is the number of tokens in a block.
func (p *BlockPool) BlockSize() int { return p.blockSize }

// Total is the number of blocks.
func (p *BlockPool) Total() int { return len(p.blocks) }

// Free is the number of blocks that can be allocated, cached ones included.
func (p *BlockPool) Free() int { return p.free }

// Cached is the number of free blocks that still hold a reusable prefix.
func (p *BlockPool) Cached() int { return p.cached }

// Alloc takes a free block, dropping the least valuable cached content.
func (p *BlockPool) Alloc() (int32, bool) {
	id := p.head
	if id < 0 {
		return -1, false
	}
	p.unlink(id)
	b := &p.blocks[id]
	p.unregister(id)
	b.refs = 1
	return id, true
}

// Release gives back one reference on each of ids, last first.
func (p *BlockPool) Release(ids []int32) {
	for _, id := range slices.Backward(ids) {
		b := &p.blocks[id]
		if b.refs <= 0 {
			panic("BUG: released a cache block that nobody holds")
		}
		b.refs--
		if b.refs > 0 {
			continue
		}
		if b.registered {
			p.pushBack(id)
		} else {
			p.pushFront(id)
		}
	}
}

// Register makes a full block findable by its chained hash. The block keeps its
// owner. If the same content is already registered, the older block stays.
func (p *BlockPool) Register(id int32, h Hash, tokens []int32) {
	b := &p.blocks[id]
	if !p.caching || b.registered {
		return
	}
	if _, taken := p.index[h]; taken {
		return
	}
	b.hash, b.registered = h, true
	b.tokens = append(b.tokens[:0], tokens...)
	p.index[h] = id
}

// Lookup returns the block registered under h if its tokens are the given ones,
// and takes a reference on it.
func (p *BlockPool) Lookup(h Hash, tokens []int32) (int32, bool) {
	id, ok := p.index[h]
	if !ok || !slices.Equal(p.blocks[id].tokens, tokens) {
		return -1, false
	}
	b := &p.blocks[id]
	if b.refs == 0 {
		p.unlink(id)
	}
	b.refs++
	return id, true
}

// DropCache forgets every registered block. Blocks in use stay with their owners.
func (p *BlockPool) DropCache() {
	for i := range p.blocks {
		free := p.blocks[i].refs == 0
		if free && p.blocks[i].registered {
			p.unlink(int32(i))
			p.unregister(int32(i))
			p.pushFront(int32(i))
			continue
		}
		p.unregister(int32(i))
	}
}

func (p *BlockPool) unregister(id int32) {
	b := &p.blocks[id]
	if b.registered {
		delete(p.index, b.hash)
		b.registered = false
		b.tokens = b.tokens[:0]
	}
}

func (p *BlockPool) pushBack(id int32) {
	b := &p.blocks[id]
	b.prev, b.next = p.tail, -1
	if p.tail >= 0 {
		p.blocks[p.tail].next = id
	} else {
		p.head = id
	}
	p.tail = id
	p.count(b, 1)
}

func (p *BlockPool) pushFront(id int32) {
	b := &p.blocks[id]
	b.prev, b.next = -1, p.head
	if p.head >= 0 {
		p.blocks[p.head].prev = id
	} else {
		p.tail = id
	}
	p.head = id
	p.count(b, 1)
}

func (p *BlockPool) unlink(id int32) {
	b := &p.blocks[id]
	if b.prev >= 0 {
		p.blocks[b.prev].next = b.next
	} else {
		p.head = b.next
	}
	if b.next >= 0 {
		p.blocks[b.next].prev = b.prev
	} else {
		p.tail = b.prev
	}
	p.count(b, -1)
}

// count keeps the lengths as block b enters or leaves the free list.
func (p *BlockPool) count(b *block, d int) {
	p.free += d
	if b.registered {
		p.cached += d
	}
}

// RootHash is the start of a chain. Each salt has its own tag, so that, say, a
// tenant named like an adapter cannot collide with it.
func RootHash(salts ...Salt) Hash {
	h := sha256.New()
	for _, s := range salts {
		var n [8]byte
		binary.LittleEndian.PutUint32(n[:4], uint32(len(s.Tag)))
		binary.LittleEndian.PutUint32(n[4:], uint32(len(s.Value)))
		h.Write(n[:])
		h.Write([]byte(s.Tag))
		h.Write([]byte(s.Value))
	}
	var out Hash
	h.Sum(out[:0])
	return out
}

// Salt separates prefix caches: "tenant", "salt", "adapter", "image".
type Salt struct{ Tag, Value string }

// Chain is the hash of a block of tokens that follows parent.
func (p *BlockPool) Chain(parent Hash, tokens []int32) Hash {
	var stack [sha256.Size + 4*64]byte
	buf := append(stack[:0], parent[:]...)
	for _, t := range tokens {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(t))
	}
	return sha256.Sum256(buf)
}
