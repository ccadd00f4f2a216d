package cpu

import (
	"encoding/binary"
	"math"

	"hearth/kernels"
)

// Types that have no panels of their own are converted to one that has when they
// are repacked, without loss: the levels of U4 less their zero point fit Q8_0,
// and Q4_0 where that point is always 8; U8 fits where it is always 128, as it is
// in symmetric quantization. What is left, U8 with other zero points, F8, and
// weights whose columns are in an order of their own, is multiplied as F32, which
// takes four bytes a weight.

// stored is the type whose panels hold t.
func stored(t *kernels.Tensor) kernels.DType {
	if t.Order != nil {
		return kernels.F32
	}
	switch t.Type {
	case kernels.U4:
		if zeros(t, 8) {
			return kernels.Q4_0
		}
		return kernels.Q8_0
	case kernels.U8:
		if zeros(t, 128) {
			return kernels.Q8_0
		}
		return kernels.F32
	case kernels.F8:
		return kernels.F32
	}
	return t.Type
}

// zeros tells whether all zero points of t, in the third byte of a block, are z.
func zeros(t *kernels.Tensor, z byte) bool {
	n := t.Type.BlockBytes()
	for at := 2; at < len(t.Data); at += n {
		if t.Data[at] != z {
			return false
		}
	}
	return true
}

// convert makes the rows of panel p a tensor of type typ, one that stored gave,
// with the columns in their own order.
func convert(t *kernels.Tensor, typ kernels.DType, p int) *kernels.Tensor {
	rows := min(panelRows, t.Rows-p*panelRows)
	n := t.Type.RowBytes(t.Cols)
	src := t.Data[p*panelRows*n:][:rows*n]
	out := &kernels.Tensor{Name: t.Name, Type: typ, Rows: rows, Cols: t.Cols, Data: make([]byte, rows*typ.RowBytes(t.Cols))}
	if typ == kernels.F32 {
		x := make([]float32, rows*t.Cols)
		if err := kernels.Dequantize(x, t.Type, src); err != nil {
			panic("BUG: " + err.Error()) // the program was validated
		}
		for i, v := range x {
			at := i
			if t.Order != nil {
				at += int(t.Order[i%t.Cols]) - i%t.Cols
			}
			binary.LittleEndian.PutUint32(out.Data[4*at:], math.Float32bits(v))
		}
		return out
	}
	from, to := t.Type.BlockBytes(), typ.BlockBytes()
	for b := range rows * t.Cols / 32 {
		block, dst := src[b*from:][:from], out.Data[b*to:][:to]
		z := int(block[2])
		copy(dst, block[:2])
		switch {
		case typ == kernels.Q4_0: // the same nibbles
			copy(dst[2:], block[3:])
		case t.Type == kernels.U4:
			for i, v := range block[3:] {
				dst[2+i], dst[18+i] = byte(int(v&15)-z), byte(int(v>>4)-z)
			}
		default:
			for i, v := range block[3:] {
				dst[2+i] = byte(int(v) - z)
			}
		}
	}
	return out
}
