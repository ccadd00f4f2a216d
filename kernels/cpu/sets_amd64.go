//go:build amd64 && !purego

package cpu

import (
	"unsafe"

	"hearth/kernels"
)

// intFuncs are the kernels for quantized matrices of one type.
type intFuncs struct {
	mat    [maxCols + 1]matFunc      // by columns
	pair   [maxTileCols + 1]pairFunc // by columns, from maxCols on
	expand func(dst, w *byte, blocks int)
	tile   [maxTileCols + 1]tileFunc // by columns, for two expanded panels

	// Where expanded panels lie side by side: tiles for one pair of them, and for two.
	expandPair func(dst, w *byte, stride, blocks int)
	wide       [2][maxTileCols + 1]wideFunc
}

// tileKernels are those of a set for two panels or more at a time.
type tileKernels struct {
	pair   func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, act *byte, lda, blocks, count int)
	rows   int
	cols   func(t kernels.DType, panels int) int
	expand func(t kernels.DType, panels int, dst, w *byte, stride, blocks int) expanded
	tile   func(t kernels.DType, panels, cols int, dst *float32, ldd int, x expanded, act *byte, lda, blocks, more int, next *byte, apart int)
}

// widest is the most columns there is a kernel for.
func widest(byCols []wideFunc) int {
	n := len(byCols) - 1
	for n > 0 && byCols[n] == nil {
		n--
	}
	return n
}

// tilesOf expands panels one after the other.
func tilesOf(ints []intFuncs) tileKernels {
	return tileKernels{
		rows: 12,
		cols: func(_ kernels.DType, panels int) int {
			if panels > 2 {
				return 0
			}
			return 3
		},
		expand: func(t kernels.DType, _ int, dst, w *byte, stride, blocks int) expanded {
			if ints[t].expand == nil {
				return expanded{w, stride}
			}
			x := expanded{dst, blocks * spec(t).expandedBytes()}
			ints[t].expand(dst, w, blocks)
			ints[t].expand(at(dst, x.stride), at(w, stride), blocks)
			return x
		},
		tile: func(t kernels.DType, _, cols int, dst *float32, ldd int, x expanded, act *byte, lda, blocks, more int, _ *byte, _ int) {
			ints[t].tile[cols](dst, ldd, x.at, x.stride, act, lda, blocks, more)
		},
	}
}

// wideTilesOf expands pairs of panels so that their vectors lie side by side, from that
// many rows on.
func wideTilesOf(ints []intFuncs, rows int) tileKernels {
	t := tileKernels{
		rows: rows,
		cols: func(t kernels.DType, panels int) int { return widest(ints[t].wide[panels/2-1][:]) },
		expand: func(t kernels.DType, panels int, dst, w *byte, stride, blocks int) expanded {
			x := expanded{dst, 2 * blocks * spec(t).expandedBytes()}
			for p := range panels / 2 {
				ints[t].expandPair(at(dst, p*x.stride), at(w, 2*p*stride), stride, blocks)
			}
			return x
		},
		tile: func(t kernels.DType, panels, cols int, dst *float32, ldd int, x expanded, act *byte, lda, blocks, more int, next *byte, apart int) {
			ints[t].wide[panels/2-1][cols](dst, ldd, x.at, x.stride, act, lda, blocks, more, next, apart)
		},
	}
	if ints[kernels.Q4_0].pair[maxCols] != nil {
		t.pair = func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, act *byte, lda, blocks, count int) {
			ints[t].pair[cols](dst, ldd, w, stride, act, lda, blocks, count)
		}
	}
	return t
}

// withInts is a set whose integer kernels are given and the rest AVX2. A round of
// peak is twelve vectors of so many products.
func withInts(name string, ints []intFuncs, tiles tileKernels, peak func(n int), products int) kernelSet {
	return kernelSet{
		name:       name,
		quantize32: func(dst []byte, x []float32) { quantize32AVX2(&dst[0], &x[0], len(x)/32) },
		mat: func(t kernels.DType, cols int, dst *float32, ldd int, w, act *byte, lda, blocks, count int) {
			ints[t].mat[cols](dst, ldd, w, act, lda, blocks, count)
		},
		pair:        tiles.pair,
		tileRows:    tiles.rows,
		tileCols:    tiles.cols,
		expand:      tiles.expand,
		tile:        tiles.tile,
		floats:      func(t kernels.DType, dst *float32, w *byte, blocks int) { avx2Floats[t](dst, w, blocks) },
		floatCols:   maxCols,
		floatPanels: 2,
		fmat: func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int) {
			avx2Fmat[t][cols](dst, ldd, w, stride, x, ldx, k, count, ahead)
		},
		fmatAcc: func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int, alpha *float32) {
			avx2FmatAcc[t][cols](dst, ldd, w, stride, x, ldx, k, count, ahead, alpha)
		},
		widen: func(t kernels.DType, dst *float32, src *byte, vecs int) { avx2Widen[t](dst, src, vecs) },
		softmax: func(s *float32, cols, vecs, lo, hi int, scale float32, st *softState, alpha *float32) {
			for c := range cols {
				*at(alpha, 4*c) = softmaxAVX2(at(s, 4*keyTile*c), vecs, lo, hi, scale, &unsafe.Slice(st, cols)[c].max)
			}
		},
		half: avx2Half,
		peakInts: func(rounds int) int {
			peak(rounds)
			return rounds * 12 * 2 * products
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
		largest:    avx2Largest,
		powers:     avx2Powers,
		bf16:       avx2BF16,
	}
}

// avx2 is the set in avx2_amd64.s. avxVNNI has the integer kernels of
// avxvnni_amd64.s, which use VPDPBUSD on 256 bits, as processors without AVX-512 have
// it. vnni has those of vnni_amd64.s, which use that of AVX-512, on 512 bits and, for
// few columns, on 256, and the rest of avx512_amd64.s.
var (
	avx2    = withInts("avx2", avx2Ints, tilesOf(avx2Ints), peakInts, 32)
	avxVNNI = withInts("avx-vnni", avxvnniInts, wideTilesOf(avxvnniInts, 12), avxvnnipeakInts, 32)
	vnni    = with512(withInts("avx512-vnni", vnniInts, wideTilesOf(vnniInts, maxTileCols+1), vnnipeakInts, 64))
)

type (
	matFunc     func(dst *float32, ldd int, w, act *byte, lda, blocks, count int)
	pairFunc    func(dst *float32, ldd int, w *byte, stride int, act *byte, lda, blocks, count int)
	tileFunc    func(dst *float32, ldd int, x *byte, stride int, act *byte, lda, blocks, more int)
	wideFunc    func(dst *float32, ldd int, x *byte, stride int, act *byte, lda, blocks, more int, next *byte, apart int)
	fmatFunc    func(dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int)
	fmatAccFunc func(dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int, alpha *float32)
)

// By type and, for most, number of columns; integer kernels are in tables of their own.
var (
	avx2Floats = [...]func(dst *float32, w *byte, blocks int){
		kernels.Q4_0:   floatsQ4_0,
		kernels.Q4_1:   floatsQ4_1,
		kernels.Q5_0:   floatsQ5_0,
		kernels.Q5_1:   floatsQ5_1,
		kernels.Q8_0:   floatsQ8_0,
		kernels.IQ4_NL: floatsIQ4_NL,
		kernels.Q2_K:   floatsQ2_K,
		kernels.Q3_K:   floatsQ3_K,
		kernels.Q4_K:   floatsQ4_K,
		kernels.Q5_K:   floatsQ5_K,
		kernels.Q6_K:   floatsQ6_K,
	}
	avx2Fmat = [...][maxCols + 1]fmatFunc{
		kernels.F32:  {1: fmatF32x1, 2: fmatF32x2, 3: fmatF32x3, 4: fmatF32x4},
		kernels.F16:  {1: fmatF16x1, 2: fmatF16x2, 3: fmatF16x3, 4: fmatF16x4},
		kernels.BF16: {1: fmatBF16x1, 2: fmatBF16x2, 3: fmatBF16x3, 4: fmatBF16x4},
	}
	avx2Widen   = [...]func(dst *float32, src *byte, vecs int){kernels.F32: widenF32, kernels.F16: widenF16, kernels.BF16: widenBF16}
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

func avx2Largest(x []float32) float32 {
	n := len(x) &^ 15
	top := portable.largest(x[n:])
	if n > 0 {
		top = max(top, largestAVX2(&x[0], n/16))
	}
	return top
}

func avx2Powers(dst, x []float32, top, scale float32) float32 {
	n := len(x) &^ 7
	var sum float32
	if n > 0 {
		sum = powersAVX2(&dst[0], &x[0], top, scale, n/8)
	}
	for i, v := range x[n:] {
		dst[n+i] = power(v, top, scale)
		sum += dst[n+i]
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
