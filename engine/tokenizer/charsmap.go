package tokenizer

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// charsmap is SentencePiece's precompiled normalization: a double-array trie
// (the Darts-clone format) from byte strings to offsets in a blob of
// NUL-terminated replacements. The longest match at each position is replaced.
type charsmap struct {
	units []uint32
	blob  string
}

// maxCharsmapBytes is far above the published ones (about 240 KB).
const maxCharsmapBytes = 16 << 20

func newCharsmap(b []byte) (*charsmap, error) {
	if len(b) > maxCharsmapBytes {
		return nil, fmt.Errorf("cannot use charsmap: got %d bytes, want at most %d", len(b), maxCharsmapBytes)
	}
	if len(b) < 4 {
		return nil, fmt.Errorf("cannot use charsmap: got %d bytes, want a size of 4", len(b))
	}
	n := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if n%4 != 0 || uint64(n) > uint64(len(b)) {
		return nil, fmt.Errorf("cannot use charsmap: got a trie of %d bytes in %d", n, len(b))
	}
	c := &charsmap{units: make([]uint32, n/4), blob: string(b[n:])}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return c, nil
}

// The fields of a unit: see darts-clone's DoubleArrayUnit.
func unitHasLeaf(u uint32) bool  { return u>>8&1 == 1 }
func unitValue(u uint32) uint32  { return u & (1<<31 - 1) }
func unitLabel(u uint32) uint32  { return u & (1<<31 | 0xff) }
func unitOffset(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }

// longest returns the replacement for the longest match at the start of s and
// its length, 0 for none. Every index is checked: the trie is foreign.
func (c *charsmap) longest(s string) (replacement string, length int) {
	if len(c.units) == 0 {
		return "", 0
	}
	pos := unitOffset(c.units[0])
	for i := 0; i < len(s); i++ {
		b := uint32(s[i])
		if b == 0 {
			break
		}
		pos ^= b
		if uint64(pos) >= uint64(len(c.units)) {
			break
		}
		u := c.units[pos]
		if unitLabel(u) != b {
			break
		}
		pos ^= unitOffset(u)
		if !unitHasLeaf(u) {
			continue
		}
		if uint64(pos) >= uint64(len(c.units)) {
			break
		}
		if v := unitValue(c.units[pos]); uint64(v) < uint64(len(c.blob)) {
			replacement, _, _ = strings.Cut(c.blob[v:], "\x00")
			length = i + 1
		}
	}
	return replacement, length
}

func (c *charsmap) step(s string, _ bool) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := c.longest(s[i:])
		if n == 0 {
			_, n = utf8.DecodeRuneInString(s[i:])
			r = s[i : i+n]
		}
		if b.Len()+len(r) > maxNormalizedBytes {
			break
		}
		b.WriteString(r)
		i += n
	}
	return validUTF8(b.String())
}

// maxNormalizedBytes stops a hostile charsmap from blowing a text up.
const maxNormalizedBytes = 256 << 20

// normSqueeze removes spaces at the ends and all but one of each run, as
// SentencePiece's remove_extra_whitespaces does.
func normSqueeze(s string, _ bool) string {
	s = strings.Trim(s, " ")
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != ' ' || s[i-1] != ' ' {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
