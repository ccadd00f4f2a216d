package kernels

// The K types: blocks of 256 values cut into sub-blocks with scales of their
// own (sub-block scale · block scale).

// ScalesQ4K unpacks the eight 6-bit scales and minima of the twelve bytes in a
// Q4_K or Q5_K block. The first four of each are the low six bits of bytes 0–7;
// of the last four the low nibbles are in bytes 8–11 and the two high bits are
// the top bits of bytes 0–7.
func ScalesQ4K(b []byte) (scales, mins [8]uint8) {
	_ = b[11]
	for i := range 4 {
		scales[i] = b[i] & 63
		mins[i] = b[4+i] & 63
		scales[4+i] = b[8+i]&15 | b[i]>>6<<4
		mins[4+i] = b[8+i]>>4 | b[4+i]>>6<<4
	}
	return scales, mins
}

// ScalesQ3K unpacks the sixteen 6-bit scales of the twelve bytes in a Q3_K
// block and takes 32 from each: low nibbles in bytes 0–7 (low, then high),
// top pairs in bytes 8–11.
func ScalesQ3K(b []byte) (scales [16]int8) {
	_ = b[11]
	for i := range 8 {
		scales[i] = int8(b[i]&15|b[8+i%4]>>(i/4*2)&3<<4) - 32
		scales[8+i] = int8(b[i]>>4|b[8+i%4]>>(4+i/4*2)&3<<4) - 32
	}
	return scales
}

// Q2_K: 16 bytes (scale, min) nibbles, 64 bytes of 2-bit values, d, dmin.
// Value 128h+32j+l is bits 2j of byte 32h+l.
func dequantQ2K(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[84:], dst[256:] {
		q, d, dmin := src[16:80], half(src[80:]), half(src[82:])
		for s := range 16 {
			dl, ml := d*float32(src[s]&15), dmin*float32(src[s]>>4)
			for i := 16 * s; i < 16*s+16; i++ {
				v := q[i/128*32+i%32] >> (i % 128 / 32 * 2) & 3
				dst[i] = float32(dl*float32(v)) - ml
			}
		}
	}
}

// Q3_K: 32 bytes of third bits, 64 bytes of 2-bit values as in Q2_K, 12 bytes
// of scales, d. Value i's third bit is bit i/32 of byte i%32; clear means −4.
func dequantQ3K(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[110:], dst[256:] {
		h, q, d := src[:32], src[32:96], half(src[108:])
		scales := ScalesQ3K(src[96:108])
		for s := range 16 {
			dl := d * float32(scales[s])
			for i := 16 * s; i < 16*s+16; i++ {
				v := int(q[i/128*32+i%32]>>(i%128/32*2)&3) - 4 + int(h[i%32]>>(i/32)&1)*4
				dst[i] = dl * float32(v)
			}
		}
	}
}

// Q4_K: d, dmin, 12 bytes of scales and minima, 128 bytes of nibbles: sub-block
// 2j is the low nibbles of bytes 32j…32j+31, 2j+1 the high.
func dequantQ4K(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[144:], dst[256:] {
		d, dmin, q := half(src), half(src[2:]), src[16:144]
		scales, mins := ScalesQ4K(src[4:16])
		for s := range 8 {
			dl, ml := d*float32(scales[s]), dmin*float32(mins[s])
			for i := range 32 {
				v := q[s/2*32+i] >> (s % 2 * 4) & 15
				dst[32*s+i] = float32(dl*float32(v)) - ml
			}
		}
	}
}

// Q5_K: d, dmin, 12 bytes of scales and minima, 32 bytes of fifth bits, 128
// bytes of nibbles as in Q4_K. Bit s of byte i is the fifth of value 32s+i.
func dequantQ5K(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[176:], dst[256:] {
		d, dmin, h, q := half(src), half(src[2:]), src[16:48], src[48:176]
		scales, mins := ScalesQ4K(src[4:16])
		for s := range 8 {
			dl, ml := d*float32(scales[s]), dmin*float32(mins[s])
			for i := range 32 {
				v := q[s/2*32+i]>>(s%2*4)&15 | h[i]>>s&1<<4
				dst[32*s+i] = float32(dl*float32(v)) - ml
			}
		}
	}
}

// ValueQ6K is value i (0…255) of a Q6_K block, 0…63: 128 bytes of low nibbles,
// 64 bytes of high pairs, in two halves of 128 values.
func ValueQ6K(block []byte, i int) uint8 {
	h, r := i/128, i%128
	low := block[64*h+r%64] >> (r / 64 * 4) & 15
	high := block[128+32*h+r%32] >> (r / 32 * 2) & 3
	return low | high<<4
}

// Q6_K: low nibbles and high pairs (see ValueQ6K), 16 signed scales, d.
func dequantQ6K(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[210:], dst[256:] {
		d := half(src[208:])
		for s := range 16 {
			dl := d * float32(int8(src[192+s]))
			for i := 16 * s; i < 16*s+16; i++ {
				dst[i] = dl * float32(int(ValueQ6K(src, i))-32)
			}
		}
	}
}
