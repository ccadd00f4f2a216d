//go:build amd64 && !purego && vnniemu

package cpu

import "hearth/kernels"

// emulated is the AVX-512 set with AVX2 instructions in place of VPDPBUSD and pairs of
// vectors in place of 512 bits: it
// tests the generator where there is no such processor. Its assembly is made by
// ISA=vnniemu (see generate.go) and not kept.
func emulated() []*kernelSet {
	tiles := wideTilesOf(emuInts, 2)
	tiles.pair = nil // would need more registers than there are
	s := withInts("vnni-emulated", emuInts, tiles, peakInts, 32)
	return []*kernelSet{&s}
}

var (
	emuInts = []intFuncs{
		kernels.Q4_0: {mat: [maxCols + 1]matFunc{1: emumatQ4_0x1, 2: emumatQ4_0x2, 3: emumatQ4_0x3, 4: emumatQ4_0x4},
			expandPair: emuexpandQ4_0, wide: [2][maxTileCols + 1]wideFunc{{1: emutile2Q4_0x1}}},
		kernels.Q4_1: {mat: [maxCols + 1]matFunc{1: emumatQ4_1x1, 2: emumatQ4_1x2, 3: emumatQ4_1x3, 4: emumatQ4_1x4},
			expandPair: emuexpandQ4_1, wide: [2][maxTileCols + 1]wideFunc{{1: emutile2Q4_1x1}}},
		kernels.Q5_0: {mat: [maxCols + 1]matFunc{1: emumatQ5_0x1, 2: emumatQ5_0x2, 3: emumatQ5_0x3, 4: emumatQ5_0x4},
			expandPair: emuexpandQ5_0, wide: [2][maxTileCols + 1]wideFunc{{1: emutile2Q5_0x1}}},
		kernels.Q5_1: {mat: [maxCols + 1]matFunc{1: emumatQ5_1x1, 2: emumatQ5_1x2, 3: emumatQ5_1x3, 4: emumatQ5_1x4},
			expandPair: emuexpandQ5_1, wide: [2][maxTileCols + 1]wideFunc{{1: emutile2Q5_1x1}}},
		kernels.Q8_0: {mat: [maxCols + 1]matFunc{1: emumatQ8_0x1, 2: emumatQ8_0x2, 3: emumatQ8_0x3, 4: emumatQ8_0x4},
			expandPair: emuexpandQ8_0, wide: [2][maxTileCols + 1]wideFunc{{1: emutile2Q8_0x1}}},
		kernels.IQ4_NL: {mat: [maxCols + 1]matFunc{1: emumatIQ4_NLx1, 2: emumatIQ4_NLx2, 3: emumatIQ4_NLx3, 4: emumatIQ4_NLx4},
			expandPair: emuexpandIQ4_NL, wide: [2][maxTileCols + 1]wideFunc{{1: emutile2IQ4_NLx1}}},
		kernels.Q2_K: {mat: [maxCols + 1]matFunc{1: emumatQ2_Kx1, 2: emumatQ2_Kx2, 3: emumatQ2_Kx3, 4: emumatQ2_Kx4},
			expandPair: emuexpandQ2_K, wide: [2][maxTileCols + 1]wideFunc{{1: emutile2Q2_Kx1}}},
		kernels.Q3_K: {mat: [maxCols + 1]matFunc{1: emumatQ3_Kx1, 2: emumatQ3_Kx2, 3: emumatQ3_Kx3, 4: emumatQ3_Kx4},
			expandPair: emuexpandQ3_K, wide: [2][maxTileCols + 1]wideFunc{{1: emutile2Q3_Kx1}}},
		kernels.Q4_K: {mat: [maxCols + 1]matFunc{1: emumatQ4_Kx1, 2: emumatQ4_Kx2, 3: emumatQ4_Kx3, 4: emumatQ4_Kx4},
			expandPair: emuexpandQ4_K, wide: [2][maxTileCols + 1]wideFunc{{1: emutile2Q4_Kx1}}},
		kernels.Q5_K: {mat: [maxCols + 1]matFunc{1: emumatQ5_Kx1, 2: emumatQ5_Kx2, 3: emumatQ5_Kx3, 4: emumatQ5_Kx4},
			expandPair: emuexpandQ5_K, wide: [2][maxTileCols + 1]wideFunc{{1: emutile2Q5_Kx1}}},
		kernels.Q6_K: {mat: [maxCols + 1]matFunc{1: emumatQ6_Kx1, 2: emumatQ6_Kx2, 3: emumatQ6_Kx3, 4: emumatQ6_Kx4},
			expandPair: emuexpandQ6_K, wide: [2][maxTileCols + 1]wideFunc{{1: emutile2Q6_Kx1}}},
	}
)
