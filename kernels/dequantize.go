package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Dequantize writes the numbers that src stands for to dst. src must be whole
// blocks of type t and dst have exactly their number of values. Every product
// and sum is rounded to float32, so the result is the same bits on any machine
// and the same as that of the format's reference.
func Dequantize(dst []float32, t DType, src []byte) error {
	if int(t) >= len(layouts) {
		return fmt.Errorf("cannot dequantize %v: unknown tensor type", t)
	}
	l := layouts[t]
	if len(src)%l.bytes != 0 {
		return fmt.Errorf("cannot dequantize %v: got %d bytes, want a multiple of %d", t, len(src), l.bytes)
	}
	if n := len(src) / l.bytes * l.values; len(dst) != n {
		return fmt.Errorf("cannot dequantize %v: got room for %d values, want %d", t, len(dst), n)
	}
	dequantizers[t](dst, src)
	return nil
}

var dequantizers = [...]func(dst []float32, src []byte){
	F32: dequantF32, F16: dequantF16, BF16: dequantBF16,
	Q4_0: dequantQ4_0, Q4_1: dequantQ4_1, Q5_0: dequantQ5_0, Q5_1: dequantQ5_1, Q8_0: dequantQ8_0,
	Q2_K: dequantQ2K, Q3_K: dequantQ3K, Q4_K: dequantQ4K, Q5_K: dequantQ5K, Q6_K: dequantQ6K,
	IQ4_NL: dequantIQ4NL,
	U4:     dequantU4, U8: dequantU8, F8: dequantF8,
}

// half reads a little-endian binary16.
func half(b []byte) float32 { return FromF16(binary.LittleEndian.Uint16(b)) }

func dequantF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func dequantF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func dequantBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = FromBF16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// Q4_0: d, 16 bytes; value i is the low nibble of byte i for i < 16, then the high.
func dequantQ4_0(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[18:], dst[32:] {
		d, q := half(src), src[2:18]
		for i, b := range q {
			dst[i] = d * float32(int(b&15)-8)
			dst[i+16] = d * float32(int(b>>4)-8)
		}
	}
}

// Q4_1: d, m, 16 bytes as in Q4_0.
func dequantQ4_1(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[20:], dst[32:] {
		d, m, q := half(src), half(src[2:]), src[4:20]
		for i, b := range q {
			dst[i] = float32(d*float32(b&15)) + m
			dst[i+16] = float32(d*float32(b>>4)) + m
		}
	}
}

// Q5_0: d, 32 fifth bits, 16 bytes as in Q4_0.
func dequantQ5_0(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[22:], dst[32:] {
		d, h, q := half(src), binary.LittleEndian.Uint32(src[2:]), src[6:22]
		for i, b := range q {
			dst[i] = d * float32(int(uint32(b&15)|h>>i&1<<4)-16)
			dst[i+16] = d * float32(int(uint32(b>>4)|h>>(i+16)&1<<4)-16)
		}
	}
}

// Q5_1: d, m, 32 fifth bits, 16 bytes as in Q4_0.
func dequantQ5_1(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[24:], dst[32:] {
		d, m, h, q := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:]), src[8:24]
		for i, b := range q {
			dst[i] = float32(d*float32(uint32(b&15)|h>>i&1<<4)) + m
			dst[i+16] = float32(d*float32(uint32(b>>4)|h>>(i+16)&1<<4)) + m
		}
	}
}

// Q8_0: d, 32 signed bytes.
func dequantQ8_0(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[34:], dst[32:] {
		d := half(src)
		for i, b := range src[2:34] {
			dst[i] = float32(int8(b)) * d
		}
	}
}

// IQ4NLValues are the sixteen levels of IQ4_NL (part of the format).
var IQ4NLValues = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// IQ4_NL: d, 16 bytes as in Q4_0, nibbles index IQ4NLValues.
func dequantIQ4NL(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[18:], dst[32:] {
		d := half(src)
		for i, b := range src[2:18] {
			dst[i] = d * float32(IQ4NLValues[b&15])
			dst[i+16] = d * float32(IQ4NLValues[b>>4])
		}
	}
}
