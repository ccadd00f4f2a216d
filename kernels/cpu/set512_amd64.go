//go:build amd64 && !purego

package cpu

import "hearth/kernels"

// with512 is s with the kernels of avx512_amd64.s for floats and vectors.
func with512(s kernelSet) kernelSet {
	s.floatCols, s.floatPanels = maxFloatCols, 4
	s.fmat = func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int) {
		fmats512[t][cols](dst, ldd, w, stride, x, ldx, k, count, ahead, nil)
	}
	s.fmatAcc = func(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, ahead int, alpha *float32) {
		fmats512[t][cols](dst, ldd, w, stride, x, ldx, k, count, ahead, alpha)
	}
	s.quantize32 = func(dst []byte, x []float32) {
		n := len(x) &^ 127
		if n > 0 {
			quantize512(&dst[0], &x[0], n/128)
		}
		if n < len(x) {
			quantize32AVX2(&dst[n/32*act32Bytes], &x[n], (len(x)-n)/32)
		}
	}
	s.softmax = func(s *float32, cols, _, lo, hi int, scale float32, st *softState, alpha *float32) {
		softmax512(s, cols, lo, hi, scale, &st.max, alpha)
	}
	s.scaleMul = func(dst, a, w []float32, f float32) {
		n := len(dst) &^ 15
		if n > 0 {
			scaleMul512(&dst[0], &a[0], &w[0], f, n/16)
		}
		scaleMul(dst[n:], a[n:], w[n:], f)
	}
	s.add = func(dst, a []float32) {
		n := len(dst) &^ 15
		if n > 0 {
			add512(&dst[0], &a[0], n/16)
		}
		add(dst[n:], a[n:])
	}
	s.half = func(t kernels.DType, dst []uint16, x []float32) {
		n := 0
		if t == kernels.F16 {
			if n = len(x) &^ 15; n > 0 {
				half512(&dst[0], &x[0], n/16)
			}
		}
		half(t, dst[n:], x[n:])
	}
	s.widen = func(t kernels.DType, dst *float32, src *byte, vecs int) {
		widen512[t](dst, src, vecs/2)
		if n := vecs &^ 1 * panelRows; vecs%2 > 0 {
			avx2Widen[t](at(dst, 4*n), at(src, n*t.BlockBytes()), 1)
		}
	}
	s.siluMul = func(dst, a, b []float32) {
		n := len(dst) &^ 15
		if n > 0 {
			siluMul512(&dst[0], &a[0], &b[0], n/16)
		}
		siluMul(dst[n:], a[n:], b[n:])
	}
	s.geluMul = func(dst, a, b []float32) {
		n := len(dst) &^ 15
		if n > 0 {
			geluMul512(&dst[0], &a[0], &b[0], n/16)
		}
		geluMul(dst[n:], a[n:], b[n:])
	}
	s.powers = func(dst, x []float32, top, scale float32) float32 {
		n := len(x) &^ 7
		var sum float32
		if n > 0 {
			sum = powers512(&dst[0], &x[0], top, scale, n/8)
		}
		for i, v := range x[n:] {
			dst[n+i] = power(v, top, scale)
			sum += dst[n+i]
		}
		return sum
	}
	return s
}

var widen512 = [...]func(dst *float32, src *byte, vecs int){kernels.F32: widen512F32, kernels.F16: widen512F16, kernels.BF16: widen512BF16}

// By type and number of columns.
var fmats512 = [...][maxFloatCols + 1]fmatAccFunc{
	kernels.F32: {1: fmat512F32x1, 2: fmat512F32x2, 3: fmat512F32x3, 4: fmat512F32x4, 5: fmat512F32x5, 6: fmat512F32x6,
		7: fmat512F32x7, 8: fmat512F32x8, 9: fmat512F32x9, 10: fmat512F32x10, 11: fmat512F32x11, 12: fmat512F32x12},
	kernels.F16: {1: fmat512F16x1, 2: fmat512F16x2, 3: fmat512F16x3, 4: fmat512F16x4, 5: fmat512F16x5, 6: fmat512F16x6,
		7: fmat512F16x7, 8: fmat512F16x8, 9: fmat512F16x9, 10: fmat512F16x10, 11: fmat512F16x11, 12: fmat512F16x12},
	kernels.BF16: {1: fmat512BF16x1, 2: fmat512BF16x2, 3: fmat512BF16x3, 4: fmat512BF16x4, 5: fmat512BF16x5, 6: fmat512BF16x6,
		7: fmat512BF16x7, 8: fmat512BF16x8, 9: fmat512BF16x9, 10: fmat512BF16x10, 11: fmat512BF16x11, 12: fmat512BF16x12},
}
