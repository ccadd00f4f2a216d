package cpu

import (
	"encoding/binary"

	"hearth/kernels"
)

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
		copy(l.q[:32], b[2:34])
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
		for i := range l.q {
			l.q[i] |= b[i%32] >> (i / 32) & 1 << 2
		}
	},
	kernels.Q4_K: func(l *levels, b []byte) {
		readQ4K(l, b, b[16:144])
	},
	kernels.Q5_K: func(l *levels, b []byte) {
		readQ4K(l, b, b[48:176])
		for i := range l.q {
			l.q[i] |= b[16+i%32] >> (i / 32) & 1 << 4
		}
	},
	kernels.Q6_K: func(l *levels, b []byte) {
		l.d = u16(b[208:])
		copy(l.sc[:], b[192:208])
		for h := range 2 {
			low, high, q := b[64*h:64*h+64], b[128+32*h:160+32*h], l.q[128*h:128*h+128]
			for i := range 32 {
				v := high[i]
				q[i] = low[i]&15 | v&3<<4
				q[i+32] = low[i+32]&15 | v>>2&3<<4
				q[i+64] = low[i]>>4 | v>>4&3<<4
				q[i+96] = low[i+32]>>4 | v>>6<<4
			}
		}
	},
}

func u16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }

// nibbles reads 32 levels from 16 bytes: low nibbles first.
func nibbles(l *levels, b []byte) {
	for i, v := range b {
		l.q[i], l.q[i+16] = v&15, v>>4
	}
}

func fifths(l *levels, b []byte) {
	h := binary.LittleEndian.Uint32(b)
	for i := range 32 {
		l.q[i] |= uint8(h>>i&1) << 4
	}
}

// pairs reads 256 2-bit levels from 64 bytes.
func pairs(l *levels, b []byte) {
	for h := range 2 {
		for j := range 4 {
			for i := range 32 {
				l.q[128*h+32*j+i] = b[32*h+i] >> (2 * j) & 3
			}
		}
	}
}

func readQ4K(l *levels, b, q []byte) {
	l.d, l.m = u16(b), u16(b[2:])
	sc, mn := kernels.ScalesQ4K(b[4:16])
	copy(l.sc[:], sc[:])
	copy(l.mn[:], mn[:])
	for s := range 8 {
		for i := range 32 {
			l.q[32*s+i] = q[s/2*32+i] >> (s % 2 * 4) & 15
		}
	}
}
