package ptx

import (
	"math/bits"
	"sync/atomic"
)

// countGlobal counts the sectors of one access, and marks them as used by the launch.
//
//go:norace
func (w *warp) countGlobal(in *inst, m uint32, size int, write bool) {
	b := w.b
	a := &b.access
	c := &b.counts[in.pc]
	u := b.m.unique[0]
	if write {
		u = b.m.unique[1]
	}
	touch := func(sector uint64) {
		if word, bit := &u[sector>>5], uint32(1)<<(sector&31); *word&bit == 0 {
			atomic.OrUint32(word, bit)
		}
	}
	if a.dense && m == ^uint32(0) {
		lo := a.addr[0] - globalBase
		hi := lo + uint64(32*size)
		for s := lo >> 5; s <= (hi-1)>>5; s++ {
			touch(s)
		}
		c.Sectors += (hi-1)>>5 - lo>>5 + 1
		c.IdealSectors += uint64(size) // 32 lanes of size bytes
		return
	}
	var sectors [32]uint64
	var bytes [32]uint32
	n := 0
	var low, high uint64 // of the sectors so far: one beyond them is new
lanes:
	for mm := m; mm != 0; mm &= mm - 1 {
		off := a.addr[bits.TrailingZeros32(mm)&31] - globalBase
		s, use := off>>5, uint32(uint64(1)<<size-1)<<(off&31)
		if n == 0 {
			low, high = s, s
		} else if s > high {
			high = s
		} else if s < low {
			low = s
		} else {
			for k := n - 1; k >= 0; k-- {
				if sectors[k] == s {
					bytes[k] |= use
					continue lanes
				}
			}
		}
		sectors[n], bytes[n] = s, use
		n++
		touch(s)
	}
	total := 0
	for _, x := range bytes[:n] {
		total += bits.OnesCount32(x)
	}
	c.Sectors += uint64(n)
	c.IdealSectors += uint64(total+31) / 32
}

// countShared counts the passes of one access: each serves 32 banks of four
// bytes, lanes at one word together. Accesses of eight bytes go by half warps,
// of sixteen by quarters.
func (w *warp) countShared(in *inst, m uint32, size int) {
	a := &w.b.access
	c := &w.b.counts[in.pc]
	lanes := 32
	if size > 4 {
		lanes = 32 * 4 / size
	}
	for first := 0; first < 32; first += lanes {
		sub := m >> first & uint32(uint64(1)<<lanes-1)
		if sub == 0 {
			continue
		}
		c.IdealWaves++
		c.SharedWaves += waves(a, sub, first, size)
	}
}

// waves is the largest number of different words that one bank must give.
func waves(a *access, sub uint32, first, size int) uint64 {
	if size < 4 {
		size = 4
	}
	var words [32]uint64 // the word each bank gives first
	var used uint32
	clash := false
	for mm := sub; mm != 0; mm &= mm - 1 {
		word := a.addr[(first+bits.TrailingZeros32(mm))&31] >> 2
		for k := uint64(0); k < uint64(size)/4; k++ {
			bank := (word + k) & 31
			if used>>bank&1 == 0 {
				used |= 1 << bank
				words[bank] = word + k
			} else if words[bank] != word+k {
				clash = true
			}
		}
	}
	if !clash {
		return 1
	}
	return slowWaves(a, sub, first, size)
}

func slowWaves(a *access, sub uint32, first, size int) uint64 {
	var per [32]int
	seen := map[uint64]bool{}
	most := 1
	for mm := sub; mm != 0; mm &= mm - 1 {
		word := a.addr[first+bits.TrailingZeros32(mm)] >> 2
		for k := uint64(0); k < uint64(size)/4; k++ {
			if !seen[word+k] {
				seen[word+k] = true
				per[(word+k)&31]++
				most = max(most, per[(word+k)&31])
			}
		}
	}
	return uint64(most)
}

// countMatrix counts ldmatrix: one pass a matrix without conflicts.
func (w *warp) countMatrix(in *inst, n int) {
	c := &w.b.counts[in.pc]
	for i := range n {
		c.IdealWaves++
		c.SharedWaves += waves(&w.b.access, 0xff, 8*i, 16)
	}
}
