package sampler

import (
	"math"
	"slices"
)

// Uniform is a number in [0, 1) that depends only on its arguments: three rounds
// of the SplitMix64 finalizer (Steele, Lea, Flood 2014) over a running state.
func Uniform(seed, choice, position uint64) float64 {
	const golden = 0x9E3779B97F4A7C15
	x := mix(seed + golden)
	x = mix(x ^ (choice+1)*0xD1B54A32D192ED03)
	x = mix(x + (position+1)*golden)
	return float64(x>>11) / (1 << 53)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// exp is e^x for x ≤ 0 within 3 units in the last place, 0 below -87.
func exp(x float32) float32 {
	if !(x > -87) {
		return 0
	}
	const log2e, ln2hi, ln2lo = 1.44269504, 0.693359375, -2.12194440e-4
	k := int32(x*log2e - 0.5) // nearest, since x ≤ 0 and conversion truncates
	n := float32(k)
	r := x - n*ln2hi - n*ln2lo
	// Polynomial of degree 6 (Cephes expf coefficients).
	p := float32(1.9875691500e-4)
	p = p*r + 1.3981999507e-3
	p = p*r + 8.3334519073e-3
	p = p*r + 4.1665795894e-2
	p = p*r + 1.6666665459e-1
	p = p*r + 5.0000001201e-1
	p = p*r*r + r + 1
	return math.Float32frombits(uint32(int32(math.Float32bits(p)) + k<<23))
}

// logSumExp is log Σ e^x.
func logSumExp(x []float32) float64 {
	top := x[argmax(x)]
	var sum float64
	for _, v := range x {
		sum += float64(exp(v - top))
	}
	return float64(top) + math.Log(sum)
}

// Top returns the k largest logits as log-probabilities, given their logSumExp;
// ties go to the lower id.
func Top(logits []float32, k int, lse float64) []Ranked {
	k = min(k, len(logits))
	if k == 0 {
		return nil
	}
	top := make([]Ranked, 0, k+1)
	floor := negInf
	for i, v := range logits {
		if len(top) == k && !(v > floor) {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, float64(v), func(r Ranked, v float64) int {
			if r.Logprob >= v {
				return -1
			}
			return 1
		})
		top = slices.Insert(top, at, Ranked{int32(i), float64(v)})
		if len(top) > k {
			top = top[:k]
		}
		if len(top) == k {
			floor = float32(top[k-1].Logprob)
		}
	}
	for i := range top {
		top[i].Logprob -= lse
	}
	return top
}

// Logprobs gives the log-probability of token and the k likeliest tokens of a
// row of logits.
func Logprobs(logits []float32, token int32, k int) (float64, []Ranked) {
	lse := logSumExp(logits)
	return float64(logits[token]) - lse, Top(logits, k, lse)
}
