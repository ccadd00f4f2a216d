package kernel_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"hearth/kernels"
	"hearth/kernels/cuda/kernel"
	"hearth/kernels/ptx/ptxtest"
)

// operandForm is what int_quantize.cuh says x becomes, with kernels/cpu's
// rounding; offset < 0 asks for plain sums.
func operandForm(x []float32, rows, k int, halves, min bool, offset int) []byte {
	group := 320
	if halves {
		group = 352
	}
	groups := (rows + 7) / 8
	out := make([]byte, groups*k/32*group)
	for r := range 8 * groups {
		for b := range k / 32 {
			p := out[(r/8*(k/32)+b)*group:]
			var v [32]float32
			if r < rows {
				copy(v[:], x[r*k+32*b:])
			}
			var m float32
			for _, e := range v {
				m = max(m, float32(math.Abs(float64(e))))
			}
			var d, inv float32
			if m >= 1e-30 {
				d, inv = m/127, 127/m
			}
			var sums [2]int
			for i, e := range v {
				q := int(math.RoundToEven(float64(float32(e * inv))))
				sums[i/16] += q
				p[r%8*32+i%16/4*8+i/16*4+i%4] = byte(q)
			}
			put := func(at int, f float32) { binary.LittleEndian.PutUint32(p[at:], math.Float32bits(f)) }
			fold := func(sum int) float32 {
				switch {
				case min:
					return d * float32(sum)
				case offset < 0:
					return float32(sum)
				}
				return float32(3<<22 + offset*sum)
			}
			pair, odd := r%8/2, r%2*4
			if halves {
				put(256+8*pair+odd, d)
				put(288+16*pair+odd, fold(sums[0]))
				put(296+16*pair+odd, fold(sums[1]))
			} else {
				put(256+16*pair+odd, d)
				put(264+16*pair+odd, fold(sums[0]+sums[1]))
			}
		}
	}
	return out
}

// TestIntQuantize: x in operand form is bit for bit what kernels/cpu rounds it
// to: ties, zeros, tiny and huge blocks, and rows that pad a group.
func TestIntQuantize(t *testing.T) {
	const rows, k = 11, 768
	for _, c := range []struct {
		typ         kernels.DType
		halves, min bool
		offset      int
	}{{kernels.Q4_0, false, false, 8}, {kernels.Q8_0, false, false, 0}, {kernels.Q5_1, false, true, 0}, {kernels.Q6_K, true, false, 32}, {kernels.Q2_K, true, false, -1}} {
		in := &intCase{typ: c.typ, parts: []int{16}, k: k, norm: true}
		in.make()
		for i := range in.x[:rows*k] {
			switch i / 32 % 9 {
			case 1: // ties: multiples of half a level
				in.x[i] = float32(i*7%255-127) / 2
			case 2:
				in.x[i] *= 1e-31
			case 3:
				in.x[i] *= 3e-30
			case 4:
				in.x[i] *= 1e37
			}
		}
		ptxtest.Run(t, ptxtest.Options{Memory: 16 << 20}, func(t testing.TB, m *ptxtest.Machine) {
			w, call := in.upload(t, m)
			call.Rows = rows
			for _, normed := range []bool{false, true} {
				x := in.x
				if normed {
					x = nil
					for r := range rows {
						x = append(x, normRow(in.x[r*k:][:k], in.weight)...)
					}
				} else {
					call.Norm = 0
				}
				ls, err := kernel.IntTile(intTarget(m), w, call, false)
				if err != nil {
					t.Fatal(err)
				}
				m.Launch(ls[0])
				want := operandForm(x, rows, k, c.halves, c.min, c.offset)
				if got := m.ReadBytes(call.Scratch, len(want)); !bytes.Equal(got, want) {
					for i := range got {
						if got[i] != want[i] {
							t.Fatalf("%v, normed %v: byte %d is %d, wanted %d", c.typ, normed, i, got[i], want[i])
						}
					}
				}
				call.Norm = m.Floats(in.weight)
			}
		})
	}
}
