package cpu

import (
	"encoding/binary"
	"math"
	"unsafe"

	"hearth/kernels"
)

// floatPanel reads eight values of column k.
func floatPanel(dst *[panelRows]float32, t kernels.DType, panel []byte, k int) {
	switch t {
	case kernels.F32:
		for r := range dst {
			dst[r] = f32At(panel[32*k+4*r:])
		}
	case kernels.F16:
		for r := range dst {
			dst[r] = kernels.FromF16(binary.LittleEndian.Uint16(panel[16*k+2*r:]))
		}
	case kernels.BF16:
		for r := range dst {
			dst[r] = kernels.FromBF16(binary.LittleEndian.Uint16(panel[16*k+2*r:]))
		}
	}
}

func portableFmat(t kernels.DType, cols int, dst *float32, ldd int, w *byte, stride int, x *float32, ldx, k, count, _ int, alpha *float32) {
	size := k * panelRows * t.BlockBytes()
	for p := range count {
		panel := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(w), p*stride)), size)
		var acc [maxFloatCols][panelRows]float32
		if alpha != nil {
			for c := range cols {
				a := unsafe.Slice(alpha, cols)[c]
				for r, v := range rowAt(dst, c, ldd, (p+1)*panelRows)[p*panelRows:] {
					acc[c][r] = v * a
				}
			}
		}
		var v [panelRows]float32
		for i := range k {
			floatPanel(&v, t, panel, i)
			for c := range cols {
				xi := rowAt(x, c, ldx, k)[i]
				for r := range v {
					acc[c][r] = fma32(v[r], xi, acc[c][r])
				}
			}
		}
		for c := range cols {
			copy(rowAt(dst, c, ldd, (p+1)*panelRows)[p*panelRows:], acc[c][:])
		}
	}
}

func portableWiden(t kernels.DType, dst *float32, src *byte, vecs int) {
	panel := unsafe.Slice(src, vecs*panelRows*t.BlockBytes())
	out := unsafe.Slice((*[panelRows]float32)(unsafe.Pointer(dst)), vecs)
	for k := range out {
		floatPanel(&out[k], t, panel, k)
	}
}

// Constants of exp32 (Cody and Waite's reduction; the polynomial is that of the
// Cephes library's expf, S. L. Moshier). The error is below 2 ulp.
const (
	expMin, expMax float32 = -87, 88
	log2e          float32 = 1.44269504088896341
	ln2hi, ln2lo   float32 = 0.693359375, -2.12194440e-4
	expC0, expC1   float32 = 1.9875691500e-4, 1.3981999507e-3
	expC2, expC3   float32 = 8.3334519073e-3, 4.1665795894e-2
	expC4, expC5   float32 = 1.6666665459e-1, 5.0000001201e-1
)

// exp32 is e^x for x clamped to [expMin, expMax].
func exp32(x float32) float32 {
	x = min(max(x, expMin), expMax)
	t := float32(x*log2e) + toInt
	n := t - toInt
	x -= float32(n * ln2hi)
	x -= float32(n * ln2lo)
	y := float32(expC0*x) + expC1
	y = float32(y*x) + expC2
	y = float32(y*x) + expC3
	y = float32(y*x) + expC4
	y = float32(y*x) + expC5
	y = float32(y*float32(x*x)) + x
	y += 1
	return math.Float32frombits(math.Float32bits(y) + math.Float32bits(t)<<23)
}

func portableSoftmax(s *float32, cols, vecs, lo, hi int, scale float32, st *softState, alpha *float32) {
	for c := range cols {
		*at(alpha, 4*c) = softmaxColumn(at(s, 4*keyTile*c), vecs, lo, hi, scale, &unsafe.Slice(st, cols)[c])
	}
}

func softmaxColumn(s *float32, vecs, lo, hi int, scale float32, st *softState) float32 {
	v := unsafe.Slice(s, 8*vecs)
	top := st.max
	for i := lo; i < hi; i++ {
		v[i] *= scale
		top = max(top, v[i])
	}
	alpha := exp32(st.max - top)
	st.max = top
	for i := range st.sum {
		st.sum[i] *= alpha
	}
	for i := range v {
		if i < lo || i >= hi {
			v[i] = 0
		} else {
			v[i] = exp32(v[i] - top)
		}
		st.sum[i%8] += v[i]
	}
	return alpha
}

func half(t kernels.DType, dst []uint16, x []float32) {
	dst = dst[:len(x)]
	if t == kernels.F16 {
		for i, v := range x {
			dst[i] = kernels.ToF16(v)
		}
		return
	}
	for i, v := range x {
		dst[i] = kernels.ToBF16(v)
	}
}

func sumSquares(x []float32) float32 {
	var l [8]float32
	n := len(x) &^ 7
	for i := 0; i < n; i += 8 {
		v := x[i : i+8 : i+8]
		for r := range l {
			l[r] += float32(v[r] * v[r])
		}
	}
	sum := sum8(&l)
	for _, v := range x[n:] {
		sum += float32(v * v)
	}
	return sum
}

func scaleMul(dst, a, w []float32, f float32) {
	a, w = a[:len(dst)], w[:len(dst)]
	for i := range dst {
		dst[i] = float32(a[i]*f) * w[i]
	}
}

func add(dst, a []float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] += a[i]
	}
}

// siluMul: silu(x) = x / (1 + e^-x).
func siluMul(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = float32(a[i]/(1+exp32(-a[i]))) * b[i]
	}
}

// Constants of the tanh form of GELU: x·½(1+tanh u) = x / (1 + e^-2u) with
// u = √(2/π)·(x + 0.044715 x³).
const (
	geluCubic float32 = 0.044715
	geluScale float32 = -1.5957691216057308 // −2√(2/π)
)

func geluMul(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x := a[i]
		u := x + float32(float32(float32(x*x)*x)*geluCubic)
		dst[i] = float32(x/(1+exp32(float32(u*geluScale)))) * b[i]
	}
}

func powers(dst, x []float32, top, scale float32) float32 {
	n := len(x) &^ 7
	var lanes [8]float32
	for i, v := range x[:n] {
		dst[i] = power(v, top, scale)
		lanes[i%8] += dst[i]
	}
	sum := sum8(&lanes)
	for i, v := range x[n:] {
		dst[n+i] = power(v, top, scale)
		sum += dst[n+i]
	}
	return sum
}

func power(v, top, scale float32) float32 {
	if e := (v - top) * scale; e > expMin {
		return exp32(e)
	}
	return 0
}
