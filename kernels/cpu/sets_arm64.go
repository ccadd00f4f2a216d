//go:build arm64 && !purego

package cpu

import (
	"unsafe"

	"golang.org/x/sys/cpu"

	"hearth/kernels"
)

// candidates lists what this processor can run, best first. Every arm64 processor has
// NEON; SDOT came with Armv8.2, and Armv8.4 demands it.
func candidates() []candidate {
	all := []candidate{{set: &neon}, {set: &portable}}
	if cpu.ARM64.HasASIMDDP {
		all = append([]candidate{{set: &dotprod}}, all...)
	}
	return all
}

// dotprod has the integer kernels of dotprod_arm64.s, neon those of neon_arm64.s.
var (
	dotprod = withMats("neon-dotprod", &matsDot)
	neon    = withMats("neon", &matsNeon)
)

// neonBF16 multiplies in the mode that flushes to zero. It finds what is too small
// before it rounds: sums that only rounding lifts to 2⁻¹²⁶ are zero here and not
// elsewhere.
var neonBF16 = bf16Kernels{cols: maxCols, round: roundFloats,
	mat: func(cols int, dst *float32, ldd int, w *byte, stride int, x *byte, ldx, k, count, _ int) {
		fmatsFlushNeon[kernels.BF16][cols](dst, ldd, w, stride, (*float32)(unsafe.Pointer(x)), ldx, k, count)
	},
}

type (
	matFunc     func(dst *float32, ldd int, w, act *byte, lda, blocks, count int)
	fmatFunc    func(dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count int)
	fmatAccFunc func(dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count int, alpha *float32)
)

// withMats is a set whose integer kernels are given, by type and columns; those of
// float32 matrices are NEON, the rest is portable.
func withMats(name string, mats *[len(matsNeon)][maxCols + 1]matFunc) kernelSet {
	s := portable
	s.name = name
	s.quantize32 = func(dst []byte, x []float32) { quantize32Neon(&dst[0], &x[0], len(x)/32) }
	s.mat = func(t kernels.DType, cols int, dst *float32, ldd int, w, act *byte, lda, blocks, count int) {
		mats[t][cols](dst, ldd, w, act, lda, blocks, count)
	}
	s.fmat = func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, _ int) {
		fmatsNeon[t][cols](dst, ldd, w, stride, x, ldx, k, count)
	}
	s.bf16 = neonBF16
	s.fmatAcc = func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, _ int, alpha *float32) {
		fmatAccsNeon[t][cols](dst, ldd, w, stride, x, ldx, k, count, alpha)
	}
	return s
}
