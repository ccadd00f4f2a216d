//go:build amd64 && !purego

package cpu

import (
	"unsafe"

	"golang.org/x/sys/cpu"

	"hearth/kernels"
)

// sets lists what this processor can run, best first.
func sets() []*kernelSet {
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C {
		return []*kernelSet{&avx2, &portable}
	}
	return []*kernelSet{&portable}
}

// avx2 is the set in avx2_amd64.s.
var avx2 = kernelSet{
	name:        "avx2",
	quantize32:  func(dst []byte, x []float32) { quantize32AVX2(&dst[0], &x[0], len(x)/32) },
	quantize256: func(dst []byte, x []float32) { quantize256AVX2(&dst[0], &x[0], len(x)/256) },
	mat: func(t kernels.DType, cols int, dst *float32, ldd int, w, act *byte, lda, blocks, count int) {
		avx2Mat[t][cols](dst, ldd, w, act, lda, blocks, count)
	},
	expand: func(t kernels.DType, dst, w *byte, blocks int) { avx2Tile[t].expand(dst, w, blocks) },
	floats: func(t kernels.DType, dst *float32, w *byte, blocks int) { avx2Tile[t].floats(dst, w, blocks) },
	tile: func(t kernels.DType, cols int, dst *float32, ldd int, x *byte, stride int, act *byte, lda, blocks int) {
		avx2Tile[t].tile[cols](dst, ldd, x, stride, act, lda, blocks)
	},
	fmat: func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count int) {
		avx2Fmat[t][cols](dst, ldd, w, stride, x, ldx, k, count)
	},
	fmatAcc: func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count int, alpha *float32) {
		avx2FmatAcc[t][cols](dst, ldd, w, stride, x, ldx, k, count, alpha)
	},
	softmax: func(s *float32, vecs, lo, hi int, scale float32, st *softState) float32 {
		return softmaxAVX2(s, vecs, lo, hi, scale, (*float32)(unsafe.Pointer(st)))
	},
	half: avx2Half,
	peakInts: func(rounds int) int {
		peakIntsAVX2(rounds)
		return rounds * 12 * 64
	},
	read: func(b []byte) {
		if n := len(b) / 256; n > 0 {
			readBytesAVX2(&b[0], n)
		}
	},
	sumSquares: avx2SumSquares,
	scaleMul:   avx2ScaleMul,
	add:        avx2Add,
	siluMul:    avx2SiluMul,
	geluMul:    avx2GeluMul,
}

type (
	matFunc     func(dst *float32, ldd int, w, act *byte, lda, blocks, count int)
	tileFunc    func(dst *float32, ldd int, x *byte, stride int, act *byte, lda, blocks int)
	fmatFunc    func(dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count int)
	fmatAccFunc func(dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count int, alpha *float32)
)

// tileFuncs are the kernels of one type that unpack panels, and those that
// multiply expanded ones.
type tileFuncs struct {
	expand func(dst, w *byte, blocks int)
	floats func(dst *float32, w *byte, blocks int)
	tile   [tileCols + 1]tileFunc // by columns
}

// By type and number of columns.
var (
	avx2Mat = [...][maxCols + 1]matFunc{
		kernels.Q4_0:   {1: matQ4_0x1, 2: matQ4_0x2, 3: matQ4_0x3, 4: matQ4_0x4},
		kernels.Q4_1:   {1: matQ4_1x1, 2: matQ4_1x2, 3: matQ4_1x3, 4: matQ4_1x4},
		kernels.Q5_0:   {1: matQ5_0x1, 2: matQ5_0x2, 3: matQ5_0x3, 4: matQ5_0x4},
		kernels.Q5_1:   {1: matQ5_1x1, 2: matQ5_1x2, 3: matQ5_1x3, 4: matQ5_1x4},
		kernels.Q8_0:   {1: matQ8_0x1, 2: matQ8_0x2, 3: matQ8_0x3, 4: matQ8_0x4},
		kernels.IQ4_NL: {1: matIQ4_NLx1, 2: matIQ4_NLx2, 3: matIQ4_NLx3, 4: matIQ4_NLx4},
		kernels.Q2_K:   {1: matQ2_Kx1, 2: matQ2_Kx2, 3: matQ2_Kx3, 4: matQ2_Kx4},
		kernels.Q3_K:   {1: matQ3_Kx1, 2: matQ3_Kx2, 3: matQ3_Kx3, 4: matQ3_Kx4},
		kernels.Q4_K:   {1: matQ4_Kx1, 2: matQ4_Kx2, 3: matQ4_Kx3, 4: matQ4_Kx4},
		kernels.Q5_K:   {1: matQ5_Kx1, 2: matQ5_Kx2, 3: matQ5_Kx3, 4: matQ5_Kx4},
		kernels.Q6_K:   {1: matQ6_Kx1, 2: matQ6_Kx2, 3: matQ6_Kx3, 4: matQ6_Kx4},
	}
	avx2Tile = [...]tileFuncs{
		kernels.Q4_0:   {expandQ4_0, floatsQ4_0, [tileCols + 1]tileFunc{2: tileQ4_0x2, 3: tileQ4_0x3}},
		kernels.Q4_1:   {expandQ4_1, floatsQ4_1, [tileCols + 1]tileFunc{2: tileQ4_1x2, 3: tileQ4_1x3}},
		kernels.Q5_0:   {expandQ5_0, floatsQ5_0, [tileCols + 1]tileFunc{2: tileQ5_0x2, 3: tileQ5_0x3}},
		kernels.Q5_1:   {expandQ5_1, floatsQ5_1, [tileCols + 1]tileFunc{2: tileQ5_1x2, 3: tileQ5_1x3}},
		kernels.Q8_0:   {expandQ8_0, floatsQ8_0, [tileCols + 1]tileFunc{2: tileQ8_0x2, 3: tileQ8_0x3}},
		kernels.IQ4_NL: {expandIQ4_NL, floatsIQ4_NL, [tileCols + 1]tileFunc{2: tileIQ4_NLx2, 3: tileIQ4_NLx3}},
		kernels.Q2_K:   {expandQ2_K, floatsQ2_K, [tileCols + 1]tileFunc{2: tileQ2_Kx2, 3: tileQ2_Kx3}},
		kernels.Q3_K:   {expandQ3_K, floatsQ3_K, [tileCols + 1]tileFunc{2: tileQ3_Kx2, 3: tileQ3_Kx3}},
		kernels.Q4_K:   {expandQ4_K, floatsQ4_K, [tileCols + 1]tileFunc{2: tileQ4_Kx2, 3: tileQ4_Kx3}},
		kernels.Q5_K:   {expandQ5_K, floatsQ5_K, [tileCols + 1]tileFunc{2: tileQ5_Kx2, 3: tileQ5_Kx3}},
		kernels.Q6_K:   {expandQ6_K, floatsQ6_K, [tileCols + 1]tileFunc{2: tileQ6_Kx2, 3: tileQ6_Kx3}},
	}
	avx2Fmat = [...][maxCols + 1]fmatFunc{
		kernels.F32:  {1: fmatF32x1, 2: fmatF32x2, 3: fmatF32x3, 4: fmatF32x4},
		kernels.F16:  {1: fmatF16x1, 2: fmatF16x2, 3: fmatF16x3, 4: fmatF16x4},
		kernels.BF16: {1: fmatBF16x1, 2: fmatBF16x2, 3: fmatBF16x3, 4: fmatBF16x4},
	}
	avx2FmatAcc = [...][maxCols + 1]fmatAccFunc{
		kernels.F32:  {1: fmatAccF32x1, 2: fmatAccF32x2, 3: fmatAccF32x3, 4: fmatAccF32x4},
		kernels.F16:  {1: fmatAccF16x1, 2: fmatAccF16x2, 3: fmatAccF16x3, 4: fmatAccF16x4},
		kernels.BF16: {1: fmatAccBF16x1, 2: fmatAccBF16x2, 3: fmatAccBF16x3, 4: fmatAccBF16x4},
	}
)

// The vector kernels do whole vectors; the portable twin does the rest.

func avx2Half(t kernels.DType, dst []uint16, x []float32) {
	n := 0
	if t == kernels.F16 {
		if n = len(x) &^ 7; n > 0 {
			halfAVX2(&dst[0], &x[0], n/8)
		}
	}
	half(t, dst[n:], x[n:])
}

func avx2SumSquares(x []float32) float32 {
	n := len(x) &^ 7
	var sum float32
	if n > 0 {
		sum = sumSquaresAVX2(&x[0], n/8)
	}
	for _, v := range x[n:] {
		sum += float32(v * v)
	}
	return sum
}

func avx2ScaleMul(dst, a, w []float32, f float32) {
	n := len(dst) &^ 7
	if n > 0 {
		scaleMulAVX2(&dst[0], &a[0], &w[0], f, n/8)
	}
	scaleMul(dst[n:], a[n:], w[n:], f)
}

func avx2Add(dst, a []float32) {
	n := len(dst) &^ 7
	if n > 0 {
		addAVX2(&dst[0], &a[0], n/8)
	}
	add(dst[n:], a[n:])
}

func avx2SiluMul(dst, a, b []float32) {
	n := len(dst) &^ 7
	if n > 0 {
		siluMulAVX2(&dst[0], &a[0], &b[0], n/8)
	}
	siluMul(dst[n:], a[n:], b[n:])
}

func avx2GeluMul(dst, a, b []float32) {
	n := len(dst) &^ 7
	if n > 0 {
		geluMulAVX2(&dst[0], &a[0], &b[0], n/8)
	}
	geluMul(dst[n:], a[n:], b[n:])
}
