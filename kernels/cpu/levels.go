package cpu

import (
	"encoding/binary"

	"hearth/kernels"
)

// levels is one block of one row, taken apart. Scales are kept as stored.
type levels struct {
	d, m   uint16     // binary16
	q      [64]uint32 // stored levels, a quad (four columns, the first lowest) a word
	sc, mn [16]uint8  // by sub-block
}

// each is a byte repeated in a word: masks that work on four levels at once.
const each = 0x01010101

// readers take one block of each quantized type apart. The layouts are those
// that kernels.Dequantize explains.
var readers = [...]func(l *levels, b []byte){
	kernels.Q4_0: func(l *levels, b []byte) {
		l.d = u16(b)
		nibbles(l, b[2:18])
	},
	kernels.Q4_1: func(l *levels, b []byte) {
		l.d, l.m = u16(b), u16(b[2:])
		nibbles(l, b[4:20])
	},
	kernels.Q5_0: func(l *levels, b []byte) {
		l.d = u16(b)
		nibbles(l, b[6:22])
		fifths(l, b[2:])
	},
	kernels.Q5_1: func(l *levels, b []byte) {
		l.d, l.m = u16(b), u16(b[2:])
		nibbles(l, b[8:24])
		fifths(l, b[4:])
	},
	kernels.Q8_0: func(l *levels, b []byte) {
		l.d = u16(b)
		for j := range 8 {
			l.q[j] = u32(b[2+4*j:])
		}
	},
	kernels.IQ4_NL: func(l *levels, b []byte) {
		l.d = u16(b)
		nibbles(l, b[2:18])
	},
	kernels.Q2_K: func(l *levels, b []byte) {
		l.d, l.m = u16(b[80:]), u16(b[82:])
		for s := range 16 {
			l.sc[s], l.mn[s] = b[s]&15, b[s]>>4
		}
		pairs(l, b[16:80])
	},
	kernels.Q3_K: func(l *levels, b []byte) {
		l.d = u16(b[108:])
		for s, v := range kernels.ScalesQ3K(b[96:108]) {
			l.sc[s] = uint8(v)
		}
		pairs(l, b[32:96])
		planes(l, b[:32], 2)
	},
	kernels.Q4_K: func(l *levels, b []byte) {
		readQ4K(l, b, b[16:144])
	},
	kernels.Q5_K: func(l *levels, b []byte) {
		readQ4K(l, b, b[48:176])
		planes(l, b[16:48], 4)
	},
	kernels.Q6_K: readQ6K,
}

func u16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
func u32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// nibbles reads 32 levels from 16 bytes: low nibbles first.
func nibbles(l *levels, b []byte) {
	for j := range 4 {
		w := u32(b[4*j:])
		l.q[j], l.q[j+4] = w&(15*each), w>>4&(15*each)
	}
}

// spread puts the bits of a nibble into the fifth bits of four bytes.
var spread = func() (t [16]uint32) {
	for n := range uint32(16) {
		t[n] = n&1<<4 | n>>1&1<<12 | n>>2&1<<20 | n>>3&1<<28
	}
	return t
}()

// fifths adds the fifth bits of 32 levels, one bit each in order.
func fifths(l *levels, b []byte) {
	h := u32(b)
	for j := range 8 {
		l.q[j] |= spread[h>>(4*j)&15]
	}
}

// pairs reads 256 2-bit levels from 64 bytes.
func pairs(l *levels, b []byte) {
	for h := range 2 {
		for t := range 8 {
			w := u32(b[32*h+4*t:])
			for j := range 4 {
				l.q[32*h+8*j+t] = w >> (2 * j) & (3 * each)
			}
		}
	}
}

// planes adds one bit, at bit at, to 256 levels: bit s of byte i is that of
// level 32s+i.
func planes(l *levels, b []byte, at int) {
	for t := range 8 {
		h := u32(b[4*t:])
		for s := range 8 {
			l.q[8*s+t] |= h >> s & each << at
		}
	}
}

func readQ4K(l *levels, b, q []byte) {
	l.d, l.m = u16(b), u16(b[2:])
	sc, mn := kernels.ScalesQ4K(b[4:16])
	copy(l.sc[:], sc[:])
	copy(l.mn[:], mn[:])
	for s := range 4 {
		for t := range 8 {
			w := u32(q[32*s+4*t:])
			l.q[16*s+t], l.q[16*s+8+t] = w&(15*each), w>>4&(15*each)
		}
	}
}

func readQ6K(l *levels, b []byte) {
	l.d = u16(b[208:])
	copy(l.sc[:], b[192:208])
	for h := range 2 {
		for t := range 8 {
			high, a, c := u32(b[128+32*h+4*t:]), u32(b[64*h+4*t:]), u32(b[64*h+32+4*t:])
			q := l.q[32*h+t:]
			q[0] = a&(15*each) | high&(3*each)<<4
			q[8] = c&(15*each) | high>>2&(3*each)<<4
			q[16] = a>>4&(15*each) | high>>4&(3*each)<<4
			q[24] = c>>4&(15*each) | high>>6&(3*each)<<4
		}
	}
}
