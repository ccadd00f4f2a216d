package weights

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"hearth/kernels"
)

// float8 joins a weight of e4m3.
func (j *joiner) float8(base string, w *rawTensor) (*Tensor, error) {
	p := &packedFloats{n: w.shape[0], k: w.shape[1], data: w.data}
	if p.k%32 != 0 {
		return nil, fmt.Errorf("%d values of K, wanted a multiple of 32", p.k)
	}
	name := base + ".weight_scale_inv"
	t := j.float(name)
	if t == nil {
		name = base + ".weight_scale"
		t = j.float(name)
	}
	b := j.s.block
	grid := []int{(p.n + max(b[0], 1) - 1) / max(b[0], 1), (p.k + max(b[1], 1) - 1) / max(b[1], 1)}
	switch {
	case t == nil:
		return nil, j.missing(name, "F32")
	case b != [2]int{} && slices.Equal(t.Shape, grid):
		p.rows, p.cols, p.stride = b[0], b[1], grid[1]
	case b == [2]int{} && t.Rows*t.Cols == 1:
		p.rows, p.cols, p.stride = p.n, p.k, 1
	case b == [2]int{} && t.Rows*t.Cols == p.n && t.Shape[0] == p.n:
		p.rows, p.cols, p.stride = 1, p.k, 1
	default:
		return nil, fmt.Errorf("%s has shape %v, wanted one number, one for each of %d outputs, or blocks of %v as config.json states", name, t.Shape, p.n, b)
	}
	p.scales = make([]float32, t.Rows*t.Cols)
	if err := kernels.Dequantize(p.scales, t.Type, t.Data); err != nil {
		return nil, err
	}
	j.used[name] = true
	// What activations were to be divided by before they are rounded, which is the
	// devices' own affair.
	j.used[base+".input_scale"] = true
	return &Tensor{Tensor: kernels.Tensor{Name: base + ".weight", Type: kernels.F8, Rows: p.n, Cols: p.k},
		Shape: w.shape, unpack: p.unpack, parts: [][]byte{w.data}}, nil
}

// packedFloats are the parts of a weight of e4m3: scale (n/rows, k/cols).
type packedFloats struct {
	n, k               int
	data               []byte
	scales             []float32
	rows, cols, stride int
}

func (p *packedFloats) unpack(dst []byte) error {
	block, row := kernels.F8.BlockBytes(), kernels.F8.RowBytes(p.k)
	return eachRows(p.n, func(from, to int) error {
		for n := from; n < to; n++ {
			for k := 0; k < p.k; k += 32 {
				out := dst[n*row+k/32*block:][:block]
				binary.LittleEndian.PutUint32(out, math.Float32bits(p.scales[n/p.rows*p.stride+k/p.cols]))
				for i, b := range p.data[n*p.k+k:][:32] {
					if b&0x7f == 0x7f {
						return errors.New("a weight is not a number")
					}
					out[4+i] = b
				}
			}
		}
		return nil
	})
}
