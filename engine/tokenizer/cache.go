package tokenizer

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

const (
	maxCachedWord = 48   // bytes; longer words are rare
	cacheSlots    = 8192 // a power of two; with entries of about 120 B at most 1 MB
)

// wordCache remembers the tokens of short words. A slot holds the word that
// came last, so the size is bounded and no lock is needed.
type wordCache struct {
	seed  maphash.Seed
	slots [cacheSlots]atomic.Pointer[cachedWord]
}

type cachedWord struct {
	word string
	ids  []int32
}

func newWordCache() *wordCache { return &wordCache{seed: maphash.MakeSeed()} }

func (c *wordCache) hash(w string) uint64 { return maphash.String(c.seed, w) }

func (c *wordCache) get(h uint64, w string) ([]int32, bool) {
	e := c.slots[h%cacheSlots].Load()
	if e == nil || e.word != w {
		return nil, false
	}
	return e.ids, true
}

func (c *wordCache) put(h uint64, w string, ids []int32) {
	c.slots[h%cacheSlots].Store(&cachedWord{strings.Clone(w), append([]int32(nil), ids...)})
}
