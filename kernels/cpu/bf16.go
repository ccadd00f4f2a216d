package cpu

import (
	"encoding/binary"
	"errors"
	"math"
	"unsafe"

	"hearth/kernels"
)

// With Options.Activations "bf16" the inputs of matrices in BF16 are rounded to
// bf16 too, to nearest even, and sums stay in float32. That is what VDPBF16PS of
// AVX512_BF16 computes: for every row acc = fma(w, x, acc) over its columns in order,
// since the product of two bf16 has no more bits than a float32 (Intel SDM vol. 2: the
// high halves of two dwords are multiplied and added first, then the low ones, each
// rounded to nearest even). Whatever is below 2⁻¹²⁶ is zero there: a weight, an input,
// a product's sum after rounding. So it is in the other sets: weights are cleared of
// subnormals when they are packed, inputs when they are rounded, and sums by the
// flush-to-zero mode, or by fmaFlush.
//
// Columns are padded with zeros to a multiple of bf16Step and panels to an even
// number. Panels lie as those of other float matrices do, or, with pairs, two side by
// side: dword 16j+r is column 2j, in the high half, and column 2j+1 of row r.
type bf16Kernels struct {
	pairs bool
	cols  int  // the most rows of inputs that mat takes
	own   bool // sums are rounded in a way of the processor's own, see fit

	// round writes x, rounded, and zeros up to a multiple of bf16Step values: float32,
	// or, with pairs, one dword for two as in the panels.
	round func(dst *byte, x []float32)
	// mat multiplies cols rows of k inputs, ldx bytes apart, by count panels from an
	// even one on, stride bytes each. The rest is as in kernelSet.fmat.
	mat func(cols int, dst *float32, ldd int, w *byte, stride int, x *byte, ldx, k, count, ahead int)
}

// bf16Step is how many columns the kernels take at a time.
const bf16Step = 8

// bf16Cols is n padded.
func bf16Cols(n int) int { return (n + bf16Step - 1) &^ (bf16Step - 1) }

// rowBytes is the distance of rows of n inputs: an odd number of cache lines, so that
// the rows of a tile never all want the same set of the cache.
func (b *bf16Kernels) rowBytes(n int) int {
	size := 4 * bf16Cols(n)
	if b.pairs {
		size /= 2
	}
	return (size+63)&^63 | 64
}

// inBF16 tells whether the inputs of matrices of type t are rounded to bf16.
func (d *Device) inBF16(t kernels.DType) bool { return d.bf16 && t == kernels.BF16 }

// checkBF16 refuses "bf16" for a program that it changes nothing of.
func (d *Device) checkBF16(p *kernels.Program) error {
	if !d.bf16 {
		return nil
	}
	for _, ops := range [][]kernels.Op{p.Ops, p.Norm, p.Head} {
		for i := range ops {
			if ops[i].Kind == kernels.OpLinear && stored(&p.Tensors[ops[i].W]) == kernels.BF16 {
				return nil
			}
		}
	}
	return errors.New(`cpu: activations "bf16" round the inputs of matrices in BF16, and this model has none: wanted "q8" or "f32"`)
}

// layout is the bytes of a panel of t and how many there are.
func (d *Device) layout(t *kernels.Tensor) (stride, count int) {
	if d.inBF16(stored(t)) {
		return 2 * panelRows * bf16Cols(t.Cols), (panels(t.Rows) + 1) &^ 1
	}
	return panelBytes(t), panels(t.Rows)
}

// flushBF16 makes the subnormal zero.
func flushBF16(h uint16) uint16 {
	if h&0x7f80 == 0 {
		h &= 0x8000
	}
	return h
}

// pack writes panel p of t among all panels, which must be zero.
func (b *bf16Kernels) pack(all []byte, stride int, t *kernels.Tensor, p int) {
	row, base, step, odd := 2*t.Cols, p*stride, 4*panelRows, 2*panelRows // of columns 2j, and from the even to the odd one
	for r := range min(panelRows, t.Rows-p*panelRows) {
		src := t.Data[(p*panelRows+r)*row:][:row]
		at := base + 2*r
		if b.pairs {
			base, step, odd = p&^1*stride, 8*panelRows, -2
			at = base + p&1*4*panelRows + 4*r + 2
		}
		for k := range t.Cols {
			binary.LittleEndian.PutUint16(all[at+k/2*step+k%2*odd:], flushBF16(u16(src[2*k:])))
		}
	}
}

// roundBF16 is x as a bf16, without subnormals: what VCVTNEPS2BF16 gives.
func roundBF16(x float32) uint16 {
	if b := math.Float32bits(x); b&0x7f800000 == 0 {
		return uint16(b>>16) & 0x8000
	}
	return kernels.ToBF16(x)
}

// roundPairs is bf16Kernels.round with pairs.
func roundPairs(dst *byte, x []float32) {
	out := unsafe.Slice((*uint32)(unsafe.Pointer(dst)), bf16Cols(len(x))/2)
	clear(out[len(x)/2:])
	for i, v := range x {
		if i%2 == 0 {
			out[i/2] = uint32(roundBF16(v)) << 16
		} else {
			out[i/2] |= uint32(roundBF16(v))
		}
	}
}

// roundFloats is bf16Kernels.round without pairs.
func roundFloats(dst *byte, x []float32) {
	out := unsafe.Slice((*float32)(unsafe.Pointer(dst)), bf16Cols(len(x)))
	clear(out[len(x):])
	for i, v := range x {
		out[i] = kernels.FromBF16(roundBF16(v))
	}
}

// portablePairs is bf16Kernels.mat with pairs.
func portablePairs(cols int, dst *float32, ldd int, w *byte, stride int, x *byte, ldx, k, count, _ int) {
	const rows = 2 * panelRows
	for p := 0; p < count; p += 2 {
		panel := unsafe.Slice((*uint32)(unsafe.Pointer(at(w, p*stride))), k/2*rows)
		n := min(2, count-p) * panelRows
		for c := range cols {
			in := unsafe.Slice((*uint32)(unsafe.Pointer(at(x, c*ldx))), k/2)
			var acc [rows]float32
			for j, v := range in {
				high, low := math.Float32frombits(v&0xffff0000), math.Float32frombits(v<<16)
				for r, w := range panel[j*rows:][:n] {
					a := fmaFlush(math.Float32frombits(w&0xffff0000), high, acc[r])
					acc[r] = fmaFlush(math.Float32frombits(w<<16), low, a)
				}
			}
			copy(unsafe.Slice(at(dst, c*ldd+4*p*panelRows), n), acc[:n])
		}
	}
}

// multiplyBF16 is multiply for matrices whose inputs are rounded to bf16.
func (d *Device) multiplyBF16(w *weight, dst *register, act *actRows, rows, from, to int) {
	ks := &d.ks.bf16
	k, ldx := bf16Cols(w.t.Cols), ks.rowBytes(w.t.Cols)
	x, out, ldd := &act.bf16[0], &dst.data[0], 4*dst.stride
	if rows <= ks.cols {
		ks.mat(rows, at(out, 4*panelRows*from), ldd, &w.panels[from*w.stride], w.stride, x, ldx, k, to-from, weightsAhead)
		return
	}
	chunk := max(ks.cols, chunkBytes/ldx)
	for r0 := 0; r0 < rows; r0 += chunk {
		n := min(chunk, rows-r0)
		t := tiles(n, ks.cols)
		for p := from; p < to; p += 2 {
			for i := range t {
				c, end := share(n, i, t)
				ks.mat(end-c, at(out, (c+r0)*ldd+4*panelRows*p), ldd, &w.panels[p*w.stride], w.stride, at(x, (c+r0)*ldx), ldx, k, min(2, to-p), weightsAhead)
			}
		}
	}
}
