package ptx

import "math/bits"

// matrix loads or stores 8×8 matrices of 16 bits (ISA §9.7.13.4.15): lane 8i+j
// gives the address of row j of matrix i, and lane 4j+t holds its elements 2t and
// 2t+1; with .trans rows and columns change places.
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
	for i, reg := range in.x.regs {
		if in.flags&flagTrans != 0 {
			w.matrixTrans(&w.r32[reg], ok, i, load)
		} else {
			w.matrixRows(&w.r32[reg], ok, i, load)
		}
	}
}

func (w *warp) matrixRows(r *[32]uint32, ok uint32, i int, load bool) {
	sh, addr := w.b.sh.data, &w.b.access.addr
	for j := range 8 {
		if ok>>(8*i+j)&1 == 0 {
			continue
		}
		row := sh[addr[(8*i+j)&31]-sharedBase:][:16]
		part := r[4*j:][:4]
		for t := range part {
			if load {
				part[t] = le.Uint32(row[4*t:])
			} else {
				le.PutUint32(row[4*t:], part[t])
			}
		}
	}
}

func (w *warp) matrixTrans(r *[32]uint32, ok uint32, i int, load bool) {
	sh, addr := w.b.sh.data, &w.b.access.addr
	for row := range 8 { // of memory; it is column row of the fragment
		if ok>>(8*i+row)&1 == 0 {
			continue
		}
		p := sh[addr[(8*i+row)&31]-sharedBase:][:16]
		shift := row & 1 * 16
		for j := range 8 {
			x := &r[4*j+row/2]
			if load {
				*x = *x&^(0xffff<<shift) | uint32(le.Uint16(p[2*j:]))<<shift
			} else {
				le.PutUint16(p[2*j:], uint16(*x>>shift))
			}
		}
	}
}
