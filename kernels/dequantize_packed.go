package kernels

import (
	"encoding/binary"
	"math"
)

// U4: d, zero, 16 bytes as in Q4_0.
func dequantU4(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[19:], dst[32:] {
		d, z := half(src), int(src[2])
		for i, b := range src[3:19] {
			dst[i] = d * float32(int(b&15)-z)
			dst[i+16] = d * float32(int(b>>4)-z)
		}
	}
}

// U8: d, zero, 32 bytes.
func dequantU8(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[35:], dst[32:] {
		d, z := half(src), int(src[2])
		for i, b := range src[3:35] {
			dst[i] = d * float32(int(b)-z)
		}
	}
}

// F8: d as float32, 32 numbers.
func dequantF8(dst []float32, src []byte) {
	for ; len(src) > 0; src, dst = src[36:], dst[32:] {
		d := math.Float32frombits(binary.LittleEndian.Uint32(src))
		for i, b := range src[4:36] {
			dst[i] = d * FromE4M3(b)
		}
	}
}
