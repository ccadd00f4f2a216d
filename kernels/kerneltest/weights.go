// Package kerneltest holds the cases every device must pass: one table of ops,
// shapes and types compared with the reference device, and properties such as
// batch invariance that are checked on small random models.
package kerneltest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"hearth/kernels"
)

// Tensor makes a random weight of standard deviation about dev. For quantized
// types the levels are random bits and the scales are set so that values have
// about that size.
func Tensor(rng *rand.Rand, name string, t kernels.DType, rows, cols int, dev float32) kernels.Tensor {
	w := kernels.Tensor{Name: name, Type: t, Rows: rows, Cols: cols, Data: make([]byte, rows*t.RowBytes(cols))}
	if t == kernels.U4 || t == kernels.U8 || t == kernels.F8 {
		grouped(rng, &w, dev)
		return w
	}
	if offsets, ok := scaleFields[t]; ok {
		for i := 0; i < len(w.Data); i += 8 {
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], rng.Uint64())
			copy(w.Data[i:], word[:])
		}
		for b := 0; b < len(w.Data); b += t.BlockBytes() {
			size := dev * (0.75 + 0.5*rng.Float32())
			for _, f := range offsets {
				v := size * f.factor
				binary.LittleEndian.PutUint16(w.Data[b+f.at:], kernels.ToF16(v))
			}
		}
		return w
	}
	vals := make([]float32, rows*cols)
	for i := range vals {
		vals[i] = dev * float32(rng.NormFloat64())
	}
	if err := kernels.Quantize(w.Data, t, vals); err != nil {
		panic(fmt.Sprintf("BUG: %v", err))
	}
	return w
}

// grouped fills a weight of U4, U8 or F8 as files have them: runs of up to four
// blocks share a scale and a zero point.
func grouped(rng *rand.Rand, w *kernels.Tensor, dev float32) {
	n := w.Type.BlockBytes()
	var head [4]byte
	for b := 0; b*n < len(w.Data); b++ {
		block := w.Data[b*n : (b+1)*n]
		if b%(w.Cols/32)%4 == 0 {
			size := dev * (0.75 + 0.5*rng.Float32())
			switch w.Type {
			case kernels.F8: // of random bits without NaN
				binary.LittleEndian.PutUint32(head[:], math.Float32bits(size/130))
			case kernels.U4:
				binary.LittleEndian.PutUint16(head[:], kernels.ToF16(size/4.6))
				head[2] = byte(6 + rng.IntN(4))
			default:
				binary.LittleEndian.PutUint16(head[:], kernels.ToF16(size/74))
				head[2] = byte(120 + rng.IntN(16))
			}
		}
		at := copy(block, head[:n%16])
		for i := range block[at:] {
			v := byte(rng.Uint32())
			if w.Type == kernels.F8 && v&0x7f == 0x7f {
				v--
			}
			block[at+i] = v
		}
	}
}

// Vector makes an F32 row vector of values around mean.
func Vector(rng *rand.Rand, name string, cols int, mean, dev float32) kernels.Tensor {
	w := kernels.Tensor{Name: name, Type: kernels.F32, Rows: 1, Cols: cols, Data: make([]byte, 4*cols)}
	for i := range cols {
		binary.LittleEndian.PutUint32(w.Data[4*i:], math.Float32bits(mean+dev*float32(rng.NormFloat64())))
	}
	return w
}

// scaleField is where a block keeps a binary16 scale, and the value to put
// there for weights of unit deviation when all other bits are random.
type scaleField struct {
	at     int
	factor float32
}

var scaleFields = map[kernels.DType][]scaleField{
	kernels.Q4_0:   {{0, 1 / 4.6}},
	kernels.Q4_1:   {{0, 1 / 4.6}, {2, -7.5 / 4.6}},
	kernels.Q5_0:   {{0, 1 / 9.2}},
	kernels.Q5_1:   {{0, 1 / 9.2}, {2, -15.5 / 9.2}},
	kernels.Q8_0:   {{0, 1.0 / 74}},
	kernels.IQ4_NL: {{0, 1.0 / 70}},
	kernels.Q2_K:   {{80, 1.0 / 11}, {82, 1.0 / 7}},
	kernels.Q3_K:   {{108, 1.0 / 42}},
	kernels.Q4_K:   {{0, 1.0 / 170}, {2, 1.0 / 22}},
	kernels.Q5_K:   {{0, 1.0 / 340}, {2, 1.0 / 22}},
	kernels.Q6_K:   {{208, 1.0 / 1370}},
}
