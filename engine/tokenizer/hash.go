package tokenizer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// Hash returns the SHA-256, in hex, of a canonical form of everything that
// decides ids and pieces. Two tokenizers with equal hashes encode alike.
func (t *Tokenizer) Hash() string {
	t.hashOnce.Do(func() {
		h := canonical{sha256.New(), make([]byte, 0, 1<<16)}
		h.text("hearth tokenizer 1")
		h.text(t.describe)
		h.int(int64(len(t.names)))
		for i, s := range t.names {
			h.text(s)
			h.text(string(t.pieces[i]))
			h.int(int64(t.kinds[i]))
		}
		for _, m := range []*matcher{t.added, t.addedNorm} {
			if m == nil {
				h.int(-1)
				continue
			}
			h.int(int64(len(m.toks)))
			for _, a := range m.toks {
				h.text(a.content)
				h.int(int64(a.id))
				for _, f := range []bool{a.special, a.lstrip, a.rstrip, a.singleWord} {
					h.bool(f)
				}
			}
		}
		for _, ids := range [][]int32{t.prefix, t.suffix, t.endIDs, {t.bos, t.eos, t.eot, t.unk, t.pad}} {
			h.int(int64(len(ids)))
			for _, id := range ids {
				h.int(int64(id))
			}
		}
		t.model.canonical(&h)
		h.flush()
		t.hash = hex.EncodeToString(h.h.Sum(nil))
	})
	return t.hash
}

// canonical writes values so that no two sequences of them look alike.
type canonical struct {
	h   hash.Hash
	buf []byte
}

func (c *canonical) flush() {
	c.h.Write(c.buf)
	c.buf = c.buf[:0]
}

func (c *canonical) text(s string) {
	c.int(int64(len(s)))
	c.buf = append(c.buf, s...)
}

func (c *canonical) int(v int64) {
	if len(c.buf) > 1<<15 {
		c.flush()
	}
	c.buf = binary.AppendVarint(c.buf, v)
}

func (c *canonical) bool(v bool) {
	if v {
		c.int(1)
	} else {
		c.int(0)
	}
}

// pairs writes the merges by rank.
func (c *canonical) pairs(t *pairTable) {
	most := uint32(0)
	for i := range t.slots {
		most = max(most, t.slots[i].rank)
	}
	byRank := make([]*pairSlot, most+1)
	for i := range t.slots {
		if s := &t.slots[i]; s.key != 0 {
			byRank[s.rank] = s
		}
	}
	c.int(int64(t.n))
	for _, s := range byRank {
		if s != nil {
			c.int(int64(s.key))
			c.int(int64(s.id))
		}
	}
}

func (m *byteBPE) canonical(c *canonical) {
	c.text("byte-bpe")
	c.pairs(m.pairs)
	c.int(int64(m.unk))
	c.bool(m.whole != nil)
}

func (m *charBPE) canonical(c *canonical) {
	c.text("char-bpe")
	c.pairs(m.pairs)
	c.int(int64(m.unk))
	for _, f := range []bool{m.bytes != nil, m.fuse, m.whole} {
		c.bool(f)
	}
}

func (m *scoreBPE) canonical(c *canonical) {
	c.text("score-bpe")
	for _, r := range m.ranks {
		c.int(int64(r))
	}
	c.bool(m.bytes != nil)
	c.int(int64(m.unk))
}
