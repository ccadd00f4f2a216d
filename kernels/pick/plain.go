package pick

import "math"

// Plain are loops for logits that are not where faster ones run.
var Plain = Loops{Largest: largest, Powers: powers}

func largest(x []float32) float32 {
	top := negInf
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	return top
}

func powers(dst, x []float32, top, scale float32) float32 {
	var lanes [8]float32
	for i, v := range x {
		dst[i] = 0
		if e := (v - top) * scale; e > -87 {
			dst[i] = float32(math.Exp(float64(e)))
		}
		lanes[i%8] += dst[i]
	}
	var sum float32
	for _, l := range lanes {
		sum += l
	}
	return sum
}
