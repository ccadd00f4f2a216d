package kernel

// The writers put a row (0 … 15) of a blob in its place; the blob was zero. Lane
// 4·(row%8)+i has quads i and i+4 of each K block, as registers a_n and a_{n+2}
// of the mma with n = row/8.

func lane(row, i int) int { return row%8*4 + i }

// putD writes the scale of a row; putDM the scale and the minimum.
func putD(p []byte, row int, b *intBlock) { put16(p[row%8*4+row/8*2:], b.d) }

func putDM(p []byte, row int, b *intBlock) {
	put16(p[row%8*8+row/8*2:], b.d)
	put16(p[row%8*8+4+row/8*2:], b.m)
}

// putNibbles writes the lower four bits of a K block.
func putNibbles(p []byte, row int, q []uint32) {
	for i := range 4 {
		put32(p[8*lane(row, i)+row/8*4:], q[i]&(15*each)|q[i+4]&(15*each)<<4)
	}
}

// putFifths writes the fifth bits of a K block: 16 of a lane.
func putFifths(p []byte, row int, q []uint32) {
	for i := range 8 {
		at := p[2*lane(row, i%4):]
		h := q[i] >> 4 & each << (row/8 + i/4*2) // bit a of byte j: to bit 4·(0, 2, 1, 3)+a
		h = h&15 | h>>8&15<<8 | h>>16&15<<4 | h>>24&15<<12
		put16(at, u16(at)|uint16(h))
	}
}

// putPairs writes two bits, from bit at, of the levels of a K block: a word of a lane.
func putPairs(p []byte, row int, q []uint32, at int) {
	for i := range 8 {
		or32(p[4*lane(row, i%4):], q[i]>>at&(3*each)<<(2*(row/8+i/4*2)))
	}
}

func writeQ8_0(blob []byte, row int, b *intBlock) {
	for i := range 8 {
		put32(blob[16*lane(row, i%4)+4*(row/8+i/4*2):], b.q[i])
	}
	putD(blob[512:], row, b)
}

func writeQ4_0(blob []byte, row int, b *intBlock) {
	putNibbles(blob, row, b.q[:])
	putD(blob[256:], row, b)
}

func writeQ4_1(blob []byte, row int, b *intBlock) {
	putNibbles(blob, row, b.q[:])
	putDM(blob[256:], row, b)
}

func writeQ5_0(blob []byte, row int, b *intBlock) {
	putNibbles(blob, row, b.q[:])
	putFifths(blob[256:], row, b.q[:])
	putD(blob[320:], row, b)
}

func writeQ5_1(blob []byte, row int, b *intBlock) {
	putNibbles(blob, row, b.q[:])
	putFifths(blob[256:], row, b.q[:])
	putDM(blob[320:], row, b)
}

// writeQ4K: 24 bits for each K block and pair of rows r, r+8: scales of both,
// then minima of both; the lower 16 of all, then the upper 8.
func writeQ4K(blob []byte, row int, b *intBlock) {
	putDM(blob, row, b)
	n, low, high := row/8*6, blob[64+row%8*16:], blob[192+row%8*8:]
	for i := range 8 {
		v := uint32(b.sc[i])<<n | uint32(b.mn[i])<<(12+n)
		put16(low[2*i:], u16(low[2*i:])|uint16(v))
		high[i] |= byte(v >> 16)
		putNibbles(blob[256+256*i:], row, b.q[8*i:])
	}
}

func writeQ5K(blob []byte, row int, b *intBlock) {
	writeQ4K(blob, row, b)
	for i := range 8 {
		for j := range 8 {
			or32(blob[2304+i/2*128+4*lane(row, j%4):], b.q[8*i+j]>>4&each<<(i%2*4+row/8+j/4*2))
		}
	}
}

func writeQ6K(blob []byte, row int, b *intBlock) {
	putD(blob, row, b)
	for i := range 8 {
		p := blob[32+32*i+row%8*4+row/8*2:]
		p[0], p[1] = b.sc[2*i]^0x80, b.sc[2*i+1]^0x80
		putNibbles(blob[288+256*i:], row, b.q[8*i:])
		putPairs(blob[2336+128*i:], row, b.q[8*i:], 4)
	}
}

func writeQ2K(blob []byte, row int, b *intBlock) {
	putDM(blob, row, b)
	for i := range 8 {
		p := blob[64+32*i+row%8*4+row/8*2:]
		p[0], p[1] = b.sc[2*i]|b.mn[2*i]<<4, b.sc[2*i+1]|b.mn[2*i+1]<<4
		putPairs(blob[320+128*i:], row, b.q[8*i:], 0)
	}
}
