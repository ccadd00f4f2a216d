package tokenizer

import (
	"slices"
	"sync"
)

// symbol is a stretch word[start:end] that is one token, or on the way to one.
type symbol struct {
	start, end int32
	id         int32 // NoID where it is no token
	prev, next int32 // neighbours in the list, -1 at the ends
	rank       uint32
	into       int32 // what it becomes with the next one, at rank
}

// ranker says what two neighbours merge into, noRank if they do not.
type ranker interface {
	rank(word string, left, right *symbol) (rank uint32, into int32)
}

// fewSymbols is up to how many a plain scan for the best pair beats a heap.
const fewSymbols = 32

// maxWordBytes keeps offsets in 31 bits; longer words are cut.
const maxWordBytes = 1 << 30

// workspace is reused from call to call.
type workspace struct {
	syms []symbol
	heap []uint64
}

// maxPooledSymbols bounds what the pool keeps of a pathological text.
const maxPooledSymbols = 1 << 14

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

func (w *workspace) free() {
	if cap(w.syms) <= maxPooledSymbols {
		workspaces.Put(w)
	}
}

// merge joins neighbours in w.syms, the lowest rank first and the leftmost of
// equal ranks, until none merges. What remains is in w.syms[0], its next, and
// so on.
func (w *workspace) merge(r ranker, word string) {
	n := len(w.syms)
	if n > fewSymbols {
		w.mergeByHeap(r, word)
		return
	}
	w.syms = mergeByScan(w.syms, r, word)
}

func mergeByScan(syms []symbol, r ranker, word string) []symbol {
	for i := 0; i+1 < len(syms); i++ {
		syms[i].rank, syms[i].into = r.rank(word, &syms[i], &syms[i+1])
	}
	for len(syms) > 1 {
		best, at := noRank, 0
		for i := range syms[:len(syms)-1] {
			if syms[i].rank < best {
				best, at = syms[i].rank, i
			}
		}
		if best == noRank {
			break
		}
		syms[at].id, syms[at].end = syms[at].into, syms[at+1].end
		syms = append(syms[:at+1], syms[at+2:]...)
		if at+1 < len(syms) {
			syms[at].rank, syms[at].into = r.rank(word, &syms[at], &syms[at+1])
		}
		if at > 0 {
			syms[at-1].rank, syms[at-1].into = r.rank(word, &syms[at-1], &syms[at])
		}
	}
	for i := range syms {
		syms[i].next = int32(i + 1)
	}
	if n := len(syms); n > 0 {
		syms[n-1].next = -1
	}
	return syms
}

// mergeByHeap keeps the pairs in a heap of rank<<32 | left symbol. An entry is
// stale, and skipped, when its symbol is gone or has another rank by now.
func (w *workspace) mergeByHeap(r ranker, word string) {
	syms, heap := w.syms, slices.Grow(w.heap[:0], len(w.syms))
	last := len(syms) - 1
	for i := range syms {
		s := &syms[i]
		s.prev, s.next, s.rank = int32(i-1), int32(i+1), noRank
		if i == last {
			s.next = -1
			break
		}
		if s.rank, s.into = r.rank(word, s, &syms[i+1]); s.rank != noRank {
			heap = append(heap, uint64(s.rank)<<32|uint64(i))
		}
	}
	for i := (len(heap) - 2) / 4; i >= 0 && len(heap) > 1; i-- {
		siftDown(heap, i)
	}
	for len(heap) > 0 {
		top := heap[0]
		s := &syms[uint32(top)]
		if s.rank != uint32(top>>32) || s.end < 0 {
			heap = popHeap(heap)
			continue
		}
		gone := &syms[s.next]
		s.id, s.end, s.next = s.into, gone.end, gone.next
		gone.end, gone.rank = -1, noRank
		s.rank = noRank
		replaced := false // the top was replaced by the new pair, not popped
		if s.next >= 0 {
			syms[s.next].prev = int32(uint32(top))
			if s.rank, s.into = r.rank(word, s, &syms[s.next]); s.rank != noRank {
				heap[0] = uint64(s.rank)<<32 | uint64(uint32(top))
				siftDown(heap, 0)
				replaced = true
			}
		}
		if !replaced {
			heap = popHeap(heap)
		}
		if s.prev >= 0 {
			p := &syms[s.prev]
			if p.rank, p.into = r.rank(word, p, s); p.rank != noRank {
				heap = pushHeap(heap, uint64(p.rank)<<32|uint64(uint32(s.prev)))
			}
		}
	}
	w.heap = heap
}

// The heap has four children to a node: fewer cache lines on the way down.

func siftDown(h []uint64, i int) {
	v := h[i]
	for {
		c := 4*i + 1
		if c >= len(h) {
			break
		}
		best := c
		for k := c + 1; k < min(c+4, len(h)); k++ {
			if h[k] < h[best] {
				best = k
			}
		}
		if h[best] >= v {
			break
		}
		h[i] = h[best]
		i = best
	}
	h[i] = v
}

func popHeap(h []uint64) []uint64 {
	n := len(h) - 1
	h[0] = h[n]
	h = h[:n]
	if n > 1 {
		siftDown(h, 0)
	}
	return h
}

func pushHeap(h []uint64, v uint64) []uint64 {
	h = append(h, v)
	i := len(h) - 1
	for i > 0 {
		p := (i - 1) / 4
		if h[p] <= v {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = v
	return h
}
