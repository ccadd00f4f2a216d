package kernel

import (
	"encoding/binary"

	"hearth/kernels"
)

// packInt writes blobs of a weight; the layouts are those of int_weights.cuh.
// Strips are numbered first, then blobs of a strip. Rows past the end are zero.
func packInt(dst []byte, from int64, w *Weight, ts []*kernels.Tensor) {
	s := w.intShape()
	read, size := intReaders[w.Type], w.Type.BlockBytes()
	var b intBlock
	for at := from / w.Unit; len(dst) > 0; at, dst = at+1, dst[s.bytes:] {
		strip, block := int(at)/s.blobs, int(at)%s.blobs
		blob := dst[:s.bytes]
		clear(blob)
		for i := range 16 {
			if row := w.sourceRow(ts, strip, i); row != nil {
				read(&b, row[block*size:][:size])
				s.write(blob, i, &b)
			}
		}
	}
}

// sourceRow is row i of a strip as the file has it, or nil past the end.
func (w *Weight) sourceRow(ts []*kernels.Tensor, strip, i int) []byte {
	t, n := ts[0], 16*strip+i
	if w.Gated {
		t, n = ts[i/8], 8*strip+i%8
	} else {
		for len(ts) > 1 && n >= t.Rows {
			n -= t.Rows
			ts = ts[1:]
			t = ts[0]
		}
	}
	if n >= t.Rows {
		return nil
	}
	size := t.Type.RowBytes(t.Cols)
	return t.Data[n*size:][:size]
}

// intBlock is one block of one row, taken apart.
type intBlock struct {
	d, m   uint16     // binary16
	q      [64]uint32 // stored levels: a quad, four columns, the first lowest, a word
	sc, mn [16]uint8  // by sub-block
}

// each is a byte repeated in a word: masks for the four levels of a quad.
const each = 0x01010101

func u16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
func u32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

func put16(b []byte, v uint16) { binary.LittleEndian.PutUint16(b, v) }
func put32(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }
func or32(b []byte, v uint32)  { put32(b, u32(b)|v) }

// intReaders take a block of the file apart; kernels.Dequantize explains the
// formats.
var intReaders = map[kernels.DType]func(b *intBlock, src []byte){
	kernels.Q4_0: func(b *intBlock, src []byte) {
		b.d = u16(src)
		b.nibbles(src[2:])
	},
	kernels.Q4_1: func(b *intBlock, src []byte) {
		b.d, b.m = u16(src), u16(src[2:])
		b.nibbles(src[4:])
	},
	kernels.Q5_0: func(b *intBlock, src []byte) {
		b.d = u16(src)
		b.nibbles(src[6:])
		b.fifths(src[2:])
	},
	kernels.Q5_1: func(b *intBlock, src []byte) {
		b.d, b.m = u16(src), u16(src[2:])
		b.nibbles(src[8:])
		b.fifths(src[4:])
	},
	kernels.Q8_0: func(b *intBlock, src []byte) {
		b.d = u16(src)
		for i := range 8 {
			b.q[i] = u32(src[2+4*i:])
		}
	},
	kernels.IQ4_NL: func(b *intBlock, src []byte) {
		b.d = u16(src)
		b.nibbles(src[2:])
		for i, w := range b.q[:8] {
			var v uint32
			for j := range 4 {
				v |= uint32(uint8(kernels.IQ4NLValues[w>>(8*j)&15])) << (8 * j)
			}
			b.q[i] = v
		}
	},
	kernels.Q2_K: func(b *intBlock, src []byte) {
		b.d, b.m = u16(src[80:]), u16(src[82:])
		for i, v := range src[:16] {
			b.sc[i], b.mn[i] = v&15, v>>4
		}
		b.pairs(src[16:])
	},
	// A level l with third bit h stands for l − 4 (+ 4h): as Q6_K that is stored
	// as l − 4 + 32.
	kernels.Q3_K: func(b *intBlock, src []byte) {
		b.d = u16(src[108:])
		for i, v := range kernels.ScalesQ3K(src[96:108]) {
			b.sc[i] = uint8(v)
		}
		b.pairs(src[32:])
		b.planes(src, 2)
		for i := range b.q {
			b.q[i] += 28 * each
		}
	},
	kernels.Q4_K: func(b *intBlock, src []byte) {
		b.q4K(src, src[16:])
	},
	kernels.Q5_K: func(b *intBlock, src []byte) {
		b.q4K(src, src[48:])
		b.planes(src[16:], 4)
	},
	kernels.Q6_K: func(b *intBlock, src []byte) {
		b.d = u16(src[208:])
		copy(b.sc[:], src[192:208])
		for h := range 2 {
			for t := range 8 {
				high, lo, hi := u32(src[128+32*h+4*t:]), u32(src[64*h+4*t:]), u32(src[64*h+32+4*t:])
				q := b.q[32*h+t:]
				q[0] = lo&(15*each) | high&(3*each)<<4
				q[8] = hi&(15*each) | high>>2&(3*each)<<4
				q[16] = lo>>4&(15*each) | high>>4&(3*each)<<4
				q[24] = hi>>4&(15*each) | high>>6&(3*each)<<4
			}
		}
	},
}

func (b *intBlock) nibbles(src []byte) {
	for i := range 4 {
		w := u32(src[4*i:])
		b.q[i], b.q[i+4] = w&(15*each), w>>4&(15*each)
	}
}

func (b *intBlock) fifths(src []byte) {
	h := u32(src)
	for i := range 8 {
		n := h >> (4 * i) & 15
		b.q[i] |= n&1<<4 | n>>1&1<<12 | n>>2&1<<20 | n>>3&1<<28
	}
}

// pairs reads 256 2-bit levels from 64 bytes.
func (b *intBlock) pairs(src []byte) {
	for h := range 2 {
		for t := range 8 {
			w := u32(src[32*h+4*t:])
			for i := range 4 {
				b.q[32*h+8*i+t] = w >> (2 * i) & (3 * each)
			}
		}
	}
}

// planes adds one bit, at bit at, to 256 levels: bit s of byte i to level 32s+i.
func (b *intBlock) planes(src []byte, at int) {
	for t := range 8 {
		h := u32(src[4*t:])
		for s := range 8 {
			b.q[8*s+t] |= h >> s & each << at
		}
	}
}

func (b *intBlock) q4K(src, q []byte) {
	b.d, b.m = u16(src), u16(src[2:])
	sc, mn := kernels.ScalesQ4K(src[4:16])
	copy(b.sc[:], sc[:])
	copy(b.mn[:], mn[:])
	for s := range 4 {
		for t := range 8 {
			w := u32(q[32*s+4*t:])
			b.q[16*s+t], b.q[16*s+8+t] = w&(15*each), w>>4&(15*each)
		}
	}
}
