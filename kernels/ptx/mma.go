package ptx

import (
	"math"
	"math/bits"
)

// tile is the operands of one mma as numbers.
type tile struct {
	a    [16][32]float64 // row, k
	b    [32][8]float64  // k, column
	cols [8][32]float64  // a piece of B by columns, before it is turned
	acc  [16][8]float64
	c    [4][32]uint32 // C, which D may overwrite
}

// mma multiplies 16×k by k×8 and adds 16×8. The fragments' layouts are those of
// ISA §9.7.13.4.7 to §9.7.13.4.9: with g = lane/4, register r of A holds in the
// four lanes of g a piece of 16 bytes (tf32: four numbers) of row g, or g+8 for
// odd r, which is piece r/2 along k; register r of B piece r of column g; C and D
// hold rows g and g+8, columns 2t and 2t+1 with t = lane%4. Products are exact,
// their sum in ascending k and with C last is formed in float64 and rounded once
// to the accumulator's type; the hardware's own order is not documented.
func (w *warp) mma(in *inst, m uint32) {
	if m != ^uint32(0) {
		w.fault(in, bits.TrailingZeros32(m), MmaPartial, "only lanes %#x run it, wanted all 32", m)
		if w.b.dead {
			return
		}
	}
	if w.b.count {
		w.b.counts[in.pc].MMA++
	}
	s, r, t := in.x.mma, in.x.regs, &w.b.tile
	d, a, b, c := r[:s.nc], r[s.nc:s.nc+s.na], r[s.nc+s.na:s.nc+s.na+s.nb], r[s.nc+s.na+s.nb:]
	n := 8 // numbers in a piece
	switch s.at {
	case tTF32:
		n = 4
	case tS8, tU8:
		n = 16
	}
	for r, reg := range a {
		w.piece(t.a[r&1*8:], r>>1*n, reg, s.at)
	}
	for r, reg := range b {
		w.piece(t.cols[:], 0, reg, s.bt)
		for k, row := range t.b[r*n:][:n] {
			for g := range row {
				t.b[r*n+k][g] = t.cols[g][k]
			}
		}
	}
	for r, reg := range c {
		t.c[r] = w.r32[reg]
	}
	mulAdd(t, s.k)
	switch s.dt {
	case tS32:
		w.storeInt(s, d, t)
	case tF16:
		w.storeHalf(d, t)
	default:
		w.storeFloat(d, t)
	}
}

// piece widens one register into eight rows at column k.
func (w *warp) piece(dst [][32]float64, k int, reg int32, t typ) {
	src := &w.r32[reg]
	if hasAVX && !slowOnly {
		switch t {
		case tF16:
			widenHalfAVX(&dst[0][k], 256, src)
			return
		case tBF16:
			widenBfloatAVX(&dst[0][k], 256, src)
			return
		case tS8:
			widenInt8AVX(&dst[0][k], 256, src)
			return
		}
	}
	for lane, v := range src {
		d := dst[lane/4][:]
		switch at := k + lane%4*2; t {
		case tTF32: // the 19 bits that the tensor core looks at
			d[k+lane%4] = float64(math.Float32frombits(v &^ 0x1fff))
		case tF16:
			d[at], d[at+1] = float64(halfToFloat(v&0xffff)), float64(halfToFloat(v>>16))
		case tBF16:
			d[at], d[at+1] = float64(bfloatToFloat(v&0xffff)), float64(bfloatToFloat(v>>16))
		default:
			for i := range 4 {
				x := float64(uint8(v >> (8 * i)))
				if t == tS8 {
					x = float64(int8(v >> (8 * i)))
				}
				d[k+lane%4*4+i] = x
			}
		}
	}
}

// mulAdd fills t.acc. Every product is exact in float64, so that a fused sum
// and one in two steps are the same.
func mulAdd(t *tile, k int) {
	if hasAVX && !slowOnly {
		mulAddAVX(&t.acc, &t.a, &t.b, k)
		return
	}
	for i := range t.acc {
		var s [8]float64
		for l, x := range t.a[i][:k] {
			for j, y := range &t.b[l] {
				s[j] += x * y
			}
		}
		t.acc[i] = s
	}
}

func (w *warp) storeFloat(d []int32, t *tile) {
	for r := range 4 {
		src, dst := &t.c[r], &w.r32[d[r]]
		for lane := range dst {
			v := float64(math.Float32frombits(src[lane]))
			dst[lane] = canon(float32(v + t.acc[lane/4+r>>1*8][lane%4*2+r&1]))
		}
	}
}

func (w *warp) storeHalf(d []int32, t *tile) {
	for r := range 2 {
		for lane := range 32 {
			v, acc := t.c[r][lane], &t.acc[lane/4+r*8]
			lo := f16Bits(float64(halfToFloat(v&0xffff))+acc[lane%4*2], rNearest)
			hi := f16Bits(float64(halfToFloat(v>>16))+acc[lane%4*2+1], rNearest)
			w.r32[d[r]][lane] = lo | hi<<16
		}
	}
}

func (w *warp) storeInt(s *mmaShape, d []int32, t *tile) {
	for r := range 4 {
		for lane := range 32 {
			v := int64(int32(t.c[r][lane])) + int64(t.acc[lane/4+r>>1*8][lane%4*2+r&1])
			if s.satfinite {
				v = min(max(v, math.MinInt32), math.MaxInt32)
			}
			w.r32[d[r]][lane] = uint32(v)
		}
	}
}
