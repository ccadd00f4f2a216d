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

// wideTilesOf expands pairs of panels so that their vectors lie side by side, where one
// kernel for pairs does not take all rows.
func wideTilesOf(ints []intFuncs, rows int) tileKernels {
	return tileKernels{
		rows: rows,
		cols: func(t kernels.DType, panels int) int { return widest(ints[t].wide[panels/2-1][:]) },
		pair: func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, act *byte, lda, blocks, count int) {
			ints[t].pair[cols](dst, ldd, w, stride, act, lda, blocks, count)
		},
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

// avx2 is the set in avx2_amd64.s; vnni has the integer kernels of
// vnni_amd64.s, which use the VPDPBUSD of AVX-512, on 512 bits and, for
// few columns, on 256, and the rest of avx512_amd64.s.
var (
	avx2 = withInts("avx2", avx2Ints, tilesOf(avx2Ints), peakInts, 32)
	vnni = with512(withInts("avx512-vnni", vnniInts, wideTilesOf(vnniInts, maxTileCols+1), vnnipeakInts, 64))
)

type (
	matFunc     func(dst *float32, ldd int, w, act *byte, lda, blocks, count int)
	pairFunc    func(dst *float32, ldd int, w *byte, stride int, act *byte, lda, blocks, count int)
	tileFunc    func(dst *float32, ldd int, x *byte, stride int, act *byte, lda, blocks, more int)
	wideFunc    func(dst *float32, ldd int, x *byte, stride int, act *byte, lda, blocks, more int, next *byte, apart int)
	fmatFunc    func(dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int)
	fmatAccFunc func(dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int, alpha *float32)
)

// By type and, for most, number of columns.
var (
	avx2Ints = []intFuncs{
		kernels.Q4_0: {mat: [maxCols + 1]matFunc{1: matQ4_0x1, 2: matQ4_0x2, 3: matQ4_0x3, 4: matQ4_0x4},
			expand: expandQ4_0, tile: [maxTileCols + 1]tileFunc{2: tileQ4_0x2, 3: tileQ4_0x3}},
		kernels.Q4_1: {mat: [maxCols + 1]matFunc{1: matQ4_1x1, 2: matQ4_1x2, 3: matQ4_1x3, 4: matQ4_1x4},
			expand: expandQ4_1, tile: [maxTileCols + 1]tileFunc{2: tileQ4_1x2, 3: tileQ4_1x3}},
		kernels.Q5_0: {mat: [maxCols + 1]matFunc{1: matQ5_0x1, 2: matQ5_0x2, 3: matQ5_0x3, 4: matQ5_0x4},
			expand: expandQ5_0, tile: [maxTileCols + 1]tileFunc{2: tileQ5_0x2, 3: tileQ5_0x3}},
		kernels.Q5_1: {mat: [maxCols + 1]matFunc{1: matQ5_1x1, 2: matQ5_1x2, 3: matQ5_1x3, 4: matQ5_1x4},
			expand: expandQ5_1, tile: [maxTileCols + 1]tileFunc{2: tileQ5_1x2, 3: tileQ5_1x3}},
		kernels.Q8_0: {mat: [maxCols + 1]matFunc{1: matQ8_0x1, 2: matQ8_0x2, 3: matQ8_0x3, 4: matQ8_0x4},
			tile: [maxTileCols + 1]tileFunc{2: tileQ8_0x2, 3: tileQ8_0x3}},
		kernels.IQ4_NL: {mat: [maxCols + 1]matFunc{1: matIQ4_NLx1, 2: matIQ4_NLx2, 3: matIQ4_NLx3, 4: matIQ4_NLx4},
			expand: expandIQ4_NL, tile: [maxTileCols + 1]tileFunc{2: tileIQ4_NLx2, 3: tileIQ4_NLx3}},
		kernels.Q2_K: {mat: [maxCols + 1]matFunc{1: matQ2_Kx1, 2: matQ2_Kx2, 3: matQ2_Kx3, 4: matQ2_Kx4},
			expand: expandQ2_K, tile: [maxTileCols + 1]tileFunc{2: tileQ2_Kx2, 3: tileQ2_Kx3}},
		kernels.Q3_K: {mat: [maxCols + 1]matFunc{1: matQ3_Kx1, 2: matQ3_Kx2, 3: matQ3_Kx3, 4: matQ3_Kx4},
			expand: expandQ3_K, tile: [maxTileCols + 1]tileFunc{2: tileQ3_Kx2, 3: tileQ3_Kx3}},
		kernels.Q4_K: {mat: [maxCols + 1]matFunc{1: matQ4_Kx1, 2: matQ4_Kx2, 3: matQ4_Kx3, 4: matQ4_Kx4},
			expand: expandQ4_K, tile: [maxTileCols + 1]tileFunc{2: tileQ4_Kx2, 3: tileQ4_Kx3}},
		kernels.Q5_K: {mat: [maxCols + 1]matFunc{1: matQ5_Kx1, 2: matQ5_Kx2, 3: matQ5_Kx3, 4: matQ5_Kx4},
			expand: expandQ5_K, tile: [maxTileCols + 1]tileFunc{2: tileQ5_Kx2, 3: tileQ5_Kx3}},
		kernels.Q6_K: {mat: [maxCols + 1]matFunc{1: matQ6_Kx1, 2: matQ6_Kx2, 3: matQ6_Kx3, 4: matQ6_Kx4},
			expand: expandQ6_K, tile: [maxTileCols + 1]tileFunc{2: tileQ6_Kx2, 3: tileQ6_Kx3}},
	}
	vnniInts = []intFuncs{
		kernels.Q4_0: {mat: [maxCols + 1]matFunc{1: vnnimatQ4_0x1, 2: vnnimatQ4_0x2, 3: vnnimatQ4_0x3, 4: vnnimatQ4_0x4},
			pair:       [maxTileCols + 1]pairFunc{4: vnnipairQ4_0x4, 5: vnnipairQ4_0x5, 6: vnnipairQ4_0x6, 7: vnnipairQ4_0x7, 8: vnnipairQ4_0x8},
			expandPair: vnniexpandQ4_0, wide: [2][maxTileCols + 1]wideFunc{{4: vnnitile2Q4_0x4, 5: vnnitile2Q4_0x5, 6: vnnitile2Q4_0x6, 7: vnnitile2Q4_0x7, 8: vnnitile2Q4_0x8},
				{3: vnnitile4Q4_0x3, 4: vnnitile4Q4_0x4, 5: vnnitile4Q4_0x5, 6: vnnitile4Q4_0x6}}},
		kernels.Q4_1: {mat: [maxCols + 1]matFunc{1: vnnimatQ4_1x1, 2: vnnimatQ4_1x2, 3: vnnimatQ4_1x3, 4: vnnimatQ4_1x4},
			pair:       [maxTileCols + 1]pairFunc{4: vnnipairQ4_1x4, 5: vnnipairQ4_1x5, 6: vnnipairQ4_1x6, 7: vnnipairQ4_1x7, 8: vnnipairQ4_1x8},
			expandPair: vnniexpandQ4_1, wide: [2][maxTileCols + 1]wideFunc{{4: vnnitile2Q4_1x4, 5: vnnitile2Q4_1x5, 6: vnnitile2Q4_1x6, 7: vnnitile2Q4_1x7, 8: vnnitile2Q4_1x8},
				{3: vnnitile4Q4_1x3, 4: vnnitile4Q4_1x4, 5: vnnitile4Q4_1x5, 6: vnnitile4Q4_1x6}}},
		kernels.Q5_0: {mat: [maxCols + 1]matFunc{1: vnnimatQ5_0x1, 2: vnnimatQ5_0x2, 3: vnnimatQ5_0x3, 4: vnnimatQ5_0x4},
			pair:       [maxTileCols + 1]pairFunc{4: vnnipairQ5_0x4, 5: vnnipairQ5_0x5, 6: vnnipairQ5_0x6, 7: vnnipairQ5_0x7, 8: vnnipairQ5_0x8},
			expandPair: vnniexpandQ5_0, wide: [2][maxTileCols + 1]wideFunc{{4: vnnitile2Q5_0x4, 5: vnnitile2Q5_0x5, 6: vnnitile2Q5_0x6, 7: vnnitile2Q5_0x7, 8: vnnitile2Q5_0x8},
				{3: vnnitile4Q5_0x3, 4: vnnitile4Q5_0x4, 5: vnnitile4Q5_0x5, 6: vnnitile4Q5_0x6}}},
		kernels.Q5_1: {mat: [maxCols + 1]matFunc{1: vnnimatQ5_1x1, 2: vnnimatQ5_1x2, 3: vnnimatQ5_1x3, 4: vnnimatQ5_1x4},
			pair:       [maxTileCols + 1]pairFunc{4: vnnipairQ5_1x4, 5: vnnipairQ5_1x5, 6: vnnipairQ5_1x6, 7: vnnipairQ5_1x7, 8: vnnipairQ5_1x8},
			expandPair: vnniexpandQ5_1, wide: [2][maxTileCols + 1]wideFunc{{4: vnnitile2Q5_1x4, 5: vnnitile2Q5_1x5, 6: vnnitile2Q5_1x6, 7: vnnitile2Q5_1x7, 8: vnnitile2Q5_1x8},
				{3: vnnitile4Q5_1x3, 4: vnnitile4Q5_1x4, 5: vnnitile4Q5_1x5, 6: vnnitile4Q5_1x6}}},
		kernels.Q8_0: {mat: [maxCols + 1]matFunc{1: vnnimatQ8_0x1, 2: vnnimatQ8_0x2, 3: vnnimatQ8_0x3, 4: vnnimatQ8_0x4},
			pair:       [maxTileCols + 1]pairFunc{4: vnnipairQ8_0x4, 5: vnnipairQ8_0x5, 6: vnnipairQ8_0x6, 7: vnnipairQ8_0x7, 8: vnnipairQ8_0x8},
			expandPair: vnniexpandQ8_0, wide: [2][maxTileCols + 1]wideFunc{{4: vnnitile2Q8_0x4, 5: vnnitile2Q8_0x5, 6: vnnitile2Q8_0x6, 7: vnnitile2Q8_0x7, 8: vnnitile2Q8_0x8},
				{3: vnnitile4Q8_0x3, 4: vnnitile4Q8_0x4, 5: vnnitile4Q8_0x5, 6: vnnitile4Q8_0x6}}},
		kernels.IQ4_NL: {mat: [maxCols + 1]matFunc{1: vnnimatIQ4_NLx1, 2: vnnimatIQ4_NLx2, 3: vnnimatIQ4_NLx3, 4: vnnimatIQ4_NLx4},
			pair:       [maxTileCols + 1]pairFunc{4: vnnipairIQ4_NLx4, 5: vnnipairIQ4_NLx5, 6: vnnipairIQ4_NLx6, 7: vnnipairIQ4_NLx7, 8: vnnipairIQ4_NLx8},
			expandPair: vnniexpandIQ4_NL, wide: [2][maxTileCols + 1]wideFunc{{4: vnnitile2IQ4_NLx4, 5: vnnitile2IQ4_NLx5, 6: vnnitile2IQ4_NLx6, 7: vnnitile2IQ4_NLx7, 8: vnnitile2IQ4_NLx8},
				{3: vnnitile4IQ4_NLx3, 4: vnnitile4IQ4_NLx4, 5: vnnitile4IQ4_NLx5, 6: vnnitile4IQ4_NLx6}}},
		kernels.Q2_K: {mat: [maxCols + 1]matFunc{1: vnnimatQ2_Kx1, 2: vnnimatQ2_Kx2, 3: vnnimatQ2_Kx3, 4: vnnimatQ2_Kx4},
			pair:       [maxTileCols + 1]pairFunc{4: vnnipairQ2_Kx4, 5: vnnipairQ2_Kx5, 6: vnnipairQ2_Kx6, 7: vnnipairQ2_Kx7, 8: vnnipairQ2_Kx8},
			expandPair: vnniexpandQ2_K, wide: [2][maxTileCols + 1]wideFunc{{4: vnnitile2Q2_Kx4, 5: vnnitile2Q2_Kx5, 6: vnnitile2Q2_Kx6, 7: vnnitile2Q2_Kx7, 8: vnnitile2Q2_Kx8},
				{3: vnnitile4Q2_Kx3, 4: vnnitile4Q2_Kx4, 5: vnnitile4Q2_Kx5, 6: vnnitile4Q2_Kx6}}},
		kernels.Q3_K: {mat: [maxCols + 1]matFunc{1: vnnimatQ3_Kx1, 2: vnnimatQ3_Kx2, 3: vnnimatQ3_Kx3, 4: vnnimatQ3_Kx4},
			pair:       [maxTileCols + 1]pairFunc{4: vnnipairQ3_Kx4, 5: vnnipairQ3_Kx5, 6: vnnipairQ3_Kx6, 7: vnnipairQ3_Kx7, 8: vnnipairQ3_Kx8},
			expandPair: vnniexpandQ3_K, wide: [2][maxTileCols + 1]wideFunc{{4: vnnitile2Q3_Kx4, 5: vnnitile2Q3_Kx5, 6: vnnitile2Q3_Kx6, 7: vnnitile2Q3_Kx7, 8: vnnitile2Q3_Kx8},
				{3: vnnitile4Q3_Kx3, 4: vnnitile4Q3_Kx4, 5: vnnitile4Q3_Kx5, 6: vnnitile4Q3_Kx6}}},
		kernels.Q4_K: {mat: [maxCols + 1]matFunc{1: vnnimatQ4_Kx1, 2: vnnimatQ4_Kx2, 3: vnnimatQ4_Kx3, 4: vnnimatQ4_Kx4},
			pair:       [maxTileCols + 1]pairFunc{4: vnnipairQ4_Kx4, 5: vnnipairQ4_Kx5, 6: vnnipairQ4_Kx6, 7: vnnipairQ4_Kx7, 8: vnnipairQ4_Kx8},
			expandPair: vnniexpandQ4_K, wide: [2][maxTileCols + 1]wideFunc{{4: vnnitile2Q4_Kx4, 5: vnnitile2Q4_Kx5, 6: vnnitile2Q4_Kx6, 7: vnnitile2Q4_Kx7, 8: vnnitile2Q4_Kx8},
				{3: vnnitile4Q4_Kx3, 4: vnnitile4Q4_Kx4, 5: vnnitile4Q4_Kx5, 6: vnnitile4Q4_Kx6}}},
		kernels.Q5_K: {mat: [maxCols + 1]matFunc{1: vnnimatQ5_Kx1, 2: vnnimatQ5_Kx2, 3: vnnimatQ5_Kx3, 4: vnnimatQ5_Kx4},
			pair:       [maxTileCols + 1]pairFunc{4: vnnipairQ5_Kx4, 5: vnnipairQ5_Kx5, 6: vnnipairQ5_Kx6, 7: vnnipairQ5_Kx7, 8: vnnipairQ5_Kx8},
			expandPair: vnniexpandQ5_K, wide: [2][maxTileCols + 1]wideFunc{{4: vnnitile2Q5_Kx4, 5: vnnitile2Q5_Kx5, 6: vnnitile2Q5_Kx6, 7: vnnitile2Q5_Kx7, 8: vnnitile2Q5_Kx8},
				{3: vnnitile4Q5_Kx3, 4: vnnitile4Q5_Kx4, 5: vnnitile4Q5_Kx5, 6: vnnitile4Q5_Kx6}}},
		kernels.Q6_K: {mat: [maxCols + 1]matFunc{1: vnnimatQ6_Kx1, 2: vnnimatQ6_Kx2, 3: vnnimatQ6_Kx3, 4: vnnimatQ6_Kx4},
			pair:       [maxTileCols + 1]pairFunc{4: vnnipairQ6_Kx4, 5: vnnipairQ6_Kx5, 6: vnnipairQ6_Kx6, 7: vnnipairQ6_Kx7, 8: vnnipairQ6_Kx8},
			expandPair: vnniexpandQ6_K, wide: [2][maxTileCols + 1]wideFunc{{4: vnnitile2Q6_Kx4, 5: vnnitile2Q6_Kx5, 6: vnnitile2Q6_Kx6, 7: vnnitile2Q6_Kx7, 8: vnnitile2Q6_Kx8},
				{2: vnnitile4Q6_Kx2, 3: vnnitile4Q6_Kx3, 4: vnnitile4Q6_Kx4}}},
	}
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
