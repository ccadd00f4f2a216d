package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Quantize encodes src as type t: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0 and
// Q5_1. len(src) must be a multiple of BlockValues, len(dst) the matching
// number of bytes. The bytes are those of the format's reference quantizer.
func Quantize(dst []byte, t DType, src []float32) error {
	if int(t) >= len(layouts) || int(t) >= len(quantizers) || quantizers[t] == nil {
		return fmt.Errorf("cannot quantize to %v: not supported", t)
	}
	l := layouts[t]
	if len(src)%l.values != 0 {
		return fmt.Errorf("cannot quantize to %v: got %d values, want a multiple of %d", t, len(src), l.values)
	}
	if n := len(src) / l.values * l.bytes; len(dst) != n {
		return fmt.Errorf("cannot quantize to %v: got room for %d bytes, want %d", t, len(dst), n)
	}
	for ; len(src) > 0; src, dst = src[l.values:], dst[l.bytes:] {
		quantizers[t](dst, src[:l.values])
	}
	return nil
}

// quantizers encode one block each.
var quantizers = [...]func(dst []byte, src []float32){
	F32:  func(dst []byte, src []float32) { binary.LittleEndian.PutUint32(dst, math.Float32bits(src[0])) },
	F16:  func(dst []byte, src []float32) { binary.LittleEndian.PutUint16(dst, ToF16(src[0])) },
	BF16: func(dst []byte, src []float32) { binary.LittleEndian.PutUint16(dst, ToBF16(src[0])) },
	Q4_0: quantQ4_0, Q4_1: quantQ4_1, Q5_0: quantQ5_0, Q5_1: quantQ5_1, Q8_0: quantQ8_0,
}

// peak is the value of largest magnitude, with its sign; the first of equals.
func peak(src []float32) float32 {
	var p, a float32
	for _, v := range src {
		if m := float32(math.Abs(float64(v))); m > a {
			p, a = v, m
		}
	}
	return p
}

func bounds(src []float32) (lo, hi float32) {
	lo, hi = src[0], src[0]
	for _, v := range src {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}

// inverse is 1/d, or 0 for 0.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// level truncates v to 0…top; a NaN becomes 0.
func level(v float64, top uint8) uint8 {
	switch {
	case v >= float64(top):
		return top
	case v > 0:
		return uint8(v)
	}
	return 0
}

func putHalf(b []byte, f float32) { binary.LittleEndian.PutUint16(b, ToF16(f)) }

func quantQ8_0(dst []byte, src []float32) {
	d := float32(math.Abs(float64(peak(src)))) / 127
	id := inverse(d)
	putHalf(dst, d)
	for i, v := range src { // round half away from zero
		r := math.Round(float64(v * id))
		dst[2+i] = byte(int8(max(-128, min(127, r))))
	}
}

// symmetric finds the levels of a type with an implied offset of top/2+½.
func symmetric(q *[32]uint8, src []float32, top uint8) (d float32) {
	half := float64(top/2 + 1)
	d = peak(src) / float32(-half)
	id := float64(inverse(d))
	for i, v := range src {
		q[i] = level(float64(v)*id+half+0.5, top)
	}
	return d
}

// affine finds the levels of a type that stores its minimum.
func affine(q *[32]uint8, src []float32, top uint8) (d, m float32) {
	lo, hi := bounds(src)
	d = (hi - lo) / float32(top)
	id := inverse(d)
	for i, v := range src {
		q[i] = level(float64(float32((v-lo)*id)+0.5), top)
	}
	return d, lo
}

func putNibbles(dst []byte, q *[32]uint8) {
	for i := range 16 {
		dst[i] = q[i]&15 | q[i+16]&15<<4
	}
}

func putFifths(dst []byte, q *[32]uint8) {
	var h uint32
	for i, v := range q {
		h |= uint32(v>>4&1) << i
	}
	binary.LittleEndian.PutUint32(dst, h)
}

func quantQ4_0(dst []byte, src []float32) {
	var q [32]uint8
	putHalf(dst, symmetric(&q, src, 15))
	putNibbles(dst[2:], &q)
}

func quantQ4_1(dst []byte, src []float32) {
	var q [32]uint8
	d, m := affine(&q, src, 15)
	putHalf(dst, d)
	putHalf(dst[2:], m)
	putNibbles(dst[4:], &q)
}

func quantQ5_0(dst []byte, src []float32) {
	var q [32]uint8
	putHalf(dst, symmetric(&q, src, 31))
	putFifths(dst[2:], &q)
	putNibbles(dst[6:], &q)
}

func quantQ5_1(dst []byte, src []float32) {
	var q [32]uint8
	d, m := affine(&q, src, 31)
	putHalf(dst, d)
	putHalf(dst[2:], m)
	putFifths(dst[4:], &q)
	putNibbles(dst[8:], &q)
}
