//go:build amd64 && !purego

package cpu

import "unsafe"

// bf16 is the set of processors with AVX512_BF16: vnni, with VDPBF16PS where inputs
// are rounded to bf16.
var bf16 = func() kernelSet {
	s := vnni
	s.name = "avx512-bf16"
	s.bf16 = bf16Kernels{pairs: true, cols: len(bf16Mat) - 1, round: bf16Round, mat: bf16Pairs}
	return s
}()

// avx2BF16 are the kernels of processors without AVX512_BF16.
var avx2BF16 = bf16Kernels{cols: maxCols, round: avx2Round,
	mat: func(cols int, dst *float32, ldd int, w *byte, stride int, x *byte, ldx, k, count, ahead int) {
		avx2Flush[cols](dst, ldd, w, stride, (*float32)(unsafe.Pointer(x)), ldx, k, count, ahead)
	},
}

type bf16Func func(dst *float32, ldd int, w *byte, stride int, x *byte, ldx, k, count, ahead int)

// By number of columns.
var (
	avx2Flush = [maxCols + 1]fmatFunc{1: fmatFlushx1, 2: fmatFlushx2, 3: fmatFlushx3, 4: fmatFlushx4}
	bf16Mat   = [...]bf16Func{1: bf16matx1, 2: bf16matx2, 3: bf16matx3, 4: bf16matx4, 5: bf16matx5, 6: bf16matx6, 7: bf16matx7, 8: bf16matx8,
		9: bf16matx9, 10: bf16matx10, 11: bf16matx11, 12: bf16matx12, 13: bf16matx13, 14: bf16matx14, 15: bf16matx15, 16: bf16matx16}
)

func bf16Pairs(cols int, dst *float32, ldd int, w *byte, stride int, x *byte, ldx, k, count, ahead int) {
	bf16Mat[cols](dst, ldd, w, stride, x, ldx, k, count, ahead)
}

func bf16Round(dst *byte, x []float32) {
	n := len(x) &^ 15
	if n > 0 {
		bf16round(dst, &x[0], n/16)
	}
	if n < len(x) {
		roundPairs(at(dst, 2*n), x[n:])
	}
}

func avx2Round(dst *byte, x []float32) {
	n := len(x) &^ 7
	if n > 0 {
		roundFloatsAVX2((*float32)(unsafe.Pointer(dst)), &x[0], n/8)
	}
	if n < len(x) {
		roundFloats(at(dst, 4*n), x[n:])
	}
}
