package ptx

import (
	"math"
	"math/bits"
)

// mma multiplies 16×k by k×8 and adds 16×8. The fragments' layouts are those of
// ISA §9.7.13.4.7 to §9.7.13.4.9: with g = lane/4 and t = lane%4, register r of
// A holds row g (+8 for odd r) and columns from (r/2)·(k/2 or 8 or 4…); C and D
// hold rows g and g+8, columns 2t and 2t+1. Products are exact, their sum over k
// and C is formed in float64 and rounded once to the accumulator's type; the
// hardware's own order of rounding is not documented.
func (w *warp) mma(in *inst, m uint32) {
	if m != w.all || m != ^uint32(0) {
		w.fault(in, bits.TrailingZeros32(m), MmaPartial, "only lanes %#x run it, wanted all 32", m)
		if m == 0 || w.b.dead {
			return
		}
	}
	if w.b.count {
		w.b.counts[in.pc].MMA++
	}
	s := in.x.mma
	r := in.x.regs
	d, a, b, c := r[:s.nc], r[s.nc:s.nc+s.na], r[s.nc+s.na:s.nc+s.na+s.nb], r[s.nc+s.na+s.nb:]
	if s.dt == tS32 {
		w.mmaInt(s, d, a, b, c)
		return
	}
	w.mmaFloat(s, d, a, b, c)
}

// mmaFloat gathers A by rows and B by columns, both contiguous in k.
func (w *warp) mmaFloat(s *mmaShape, d, a, b, c []int32) {
	var fa [16][16]float64
	var fb [8][16]float64
	widen := bfloatToFloat
	if s.at == tF16 {
		widen = halfToFloat
	}
	for lane := range 32 {
		g, t := lane/4, lane%4
		if s.at == tTF32 {
			for r, reg := range a {
				fa[g+r&1*8][t+r>>1*4] = tf32(w.r32[reg][lane])
			}
			for r, reg := range b {
				fb[g][t+r*4] = tf32(w.r32[reg][lane])
			}
			continue
		}
		for r, reg := range a {
			v := w.r32[reg][lane]
			row, k := g+r&1*8, t*2+r>>1*8
			fa[row][k], fa[row][k+1] = float64(widen(v&0xffff)), float64(widen(v>>16))
		}
		for r, reg := range b {
			v := w.r32[reg][lane]
			k := t*2 + r*8
			fb[g][k], fb[g][k+1] = float64(widen(v&0xffff)), float64(widen(v>>16))
		}
	}
	var acc [16][8]float64
	if s.k == 16 {
		for i := range 16 {
			for j := range 8 {
				acc[i][j] = dot16(&fa[i], &fb[j])
			}
		}
	} else {
		for i := range 16 {
			for j := range 8 {
				for k := range s.k {
					acc[i][j] += fa[i][k] * fb[j][k]
				}
			}
		}
	}
	for lane := range 32 {
		g, t := lane/4, lane%4
		if s.dt == tF16 {
			for r := range 2 {
				v := w.r32[c[r]][lane]
				lo := f16Bits(float64(halfToFloat(v&0xffff))+acc[g+r*8][t*2], rNearest)
				hi := f16Bits(float64(halfToFloat(v>>16))+acc[g+r*8][t*2+1], rNearest)
				w.r32[d[r]][lane] = lo | hi<<16
			}
			continue
		}
		for r := range 4 {
			v := float64(math.Float32frombits(w.r32[c[r]][lane]))
			w.r32[d[r]][lane] = canon(float32(v + acc[g+r>>1*8][t*2+r&1]))
		}
	}
}

func dot16(a, b *[16]float64) float64 {
	s0 := a[0]*b[0] + a[4]*b[4] + a[8]*b[8] + a[12]*b[12]
	s1 := a[1]*b[1] + a[5]*b[5] + a[9]*b[9] + a[13]*b[13]
	s2 := a[2]*b[2] + a[6]*b[6] + a[10]*b[10] + a[14]*b[14]
	s3 := a[3]*b[3] + a[7]*b[7] + a[11]*b[11] + a[15]*b[15]
	return (s0 + s1) + (s2 + s3)
}

// tf32 reads the 19 bits that the tensor core looks at.
func tf32(b uint32) float64 { return float64(math.Float32frombits(b &^ 0x1fff)) }

// mmaInt multiplies bytes: register r of A holds row g (+8 for odd r) and
// columns 4t… of the half r/2 of k.
func (w *warp) mmaInt(s *mmaShape, d, a, b, c []int32) {
	var ia [16][32]int32
	var ib [8][32]int32
	split := func(dst []int32, v uint32, t typ) {
		for i := range 4 {
			if x := v >> (8 * i); t == tS8 {
				dst[i] = int32(int8(x))
			} else {
				dst[i] = int32(uint8(x))
			}
		}
	}
	for lane := range 32 {
		g, t := lane/4, lane%4
		for r, reg := range a {
			split(ia[g+r&1*8][t*4+r>>1*16:], w.r32[reg][lane], s.at)
		}
		for r, reg := range b {
			split(ib[g][t*4+r*16:], w.r32[reg][lane], s.bt)
		}
	}
	var acc [16][8]int32
	for i := range 16 {
		for j := range 8 {
			x, y := &ia[i], &ib[j]
			var s0, s1 int32
			for k := 0; k < 32; k += 4 {
				s0 += x[k]*y[k] + x[k+2]*y[k+2]
				s1 += x[k+1]*y[k+1] + x[k+3]*y[k+3]
			}
			acc[i][j] = s0 + s1
		}
	}
	for lane := range 32 {
		g, t := lane/4, lane%4
		for r := range 4 {
			v := int64(int32(w.r32[c[r]][lane])) + int64(acc[g+r>>1*8][t*2+r&1])
			if s.satfinite {
				v = min(max(v, math.MinInt32), math.MaxInt32)
			}
			w.r32[d[r]][lane] = uint32(v)
		}
	}
}

// matrix loads or stores 8×8 matrices of 16 bits: lane 8i+j gives the address of
// row j of matrix i, and lane 4j+t holds its elements 2t and 2t+1 (with .trans
// rows and columns change places).
func (w *warp) matrix(in *inst, m uint32) {
	if m != ^uint32(0) {
		w.fault(in, bits.TrailingZeros32(m), MmaPartial, "only lanes %#x run it, wanted all 32", m)
		return
	}
	load := in.class == cLdmatrix
	w.addresses(in, m)
	n := int(in.n)
	rows := uint32(uint64(1)<<(8*n) - 1)
	ok := w.admitShared(in, rows, 16, !load)
	if w.b.count {
		w.countMatrix(in, n)
	}
	sh := w.b.sh.data
	trans := in.flags&flagTrans != 0
	for i, reg := range in.x.regs {
		r := &w.r32[reg]
		for lane := range 32 {
			row, col := lane/4, lane%4*2
			var v uint32
			for h := range 2 {
				j, e := row, col+h
				if trans {
					j, e = col+h, row
				}
				from := 8*i + j
				if ok>>from&1 == 0 {
					continue
				}
				at := int(w.b.access.addr[from]) - sharedBase + 2*e
				if load {
					v |= (uint32(sh[at]) | uint32(sh[at+1])<<8) << (16 * h)
				} else {
					x := r[lane] >> (16 * h)
					sh[at], sh[at+1] = byte(x), byte(x>>8)
				}
			}
			if load {
				r[lane] = v
			}
		}
	}
}
