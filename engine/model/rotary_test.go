package model

import (
	"math"
	"strings"
	"testing"
)

// TestFrequencies compares with values computed apart, in numpy's float32, from
// the formulas of transformers' modeling_rope_utils.
func TestFrequencies(t *testing.T) {
	short := []float32{1, 1.05, 1.1, 1.2, 1.3, 1.4}
	long := []float32{1, 1.5, 3, 9, 20, 40}
	phi := rotary{dim: 12, base: 10000, kind: "longrope", original: 4096, expanded: 131072, shortDiv: short, longDiv: long}
	for _, c := range []struct {
		name   string
		r      rotary
		served int
		want   map[int]float32
		scale  float64
	}{
		{"llama3", rotary{dim: 128, base: 500000, kind: "llama3", factor: 8, original: 8192, lowFreq: 1, highFreq: 4}, 131072,
			map[int]float32{0: 1, 1: 0.814617217, 16: 0.0376060307, 32: 0.000524846022, 48: 6.64786967e-06, 63: 3.06892588e-07}, 1},
		{"yarn", rotary{dim: 128, base: 1e6, kind: "yarn", factor: 4, original: 32768}, 131072,
			map[int]float32{0: 1, 1: 0.805842221, 16: 0.0316227786, 32: 0.000602941145, 48: 7.90569356e-06, 63: 3.10234441e-07}, 1.138629436111989},
		{"yarn exact", rotary{dim: 64, base: 10000, kind: "yarn", factor: 8, original: 4096, exact: true}, 32768,
			map[int]float32{1: 0.749894202, 8: 0.100000001, 16: 0.00598313287, 24: 0.000125000006, 31: 1.66690188e-05}, 1.2079441541679836},
		{"yarn with a factor", rotary{dim: 64, base: 10000, kind: "yarn", factor: 8, original: 4096, attention: 0.5}, 32768, nil, 0.5},
		{"yarn of GGUF", rotary{dim: 64, base: 10000, kind: "yarn", factor: 8, original: 4096, attention: 0.5, attentionMultiplies: true}, 32768, nil, 1.2079441541679836 / 2},
		{"longrope within", phi, 4096, map[int]float32{0: 1, 1: 0.205184266, 3: 0.00833333284, 4: 0.00165725732, 5: 0.000331542135}, 1.1902380714238083},
		{"longrope beyond", phi, 4097, map[int]float32{0: 1, 1: 0.14362897, 3: 0.00111111114, 4: 0.000107721709, 5: 1.16039737e-05}, 1.1902380714238083},
		{"linear", rotary{dim: 256, base: 1e6, kind: "linear", factor: 8}, 131072,
			map[int]float32{0: 0.125, 1: 0.112210892, 32: 0.00395284733, 64: 0.000125000006, 96: 3.95284678e-06, 127: 1.39246737e-07}, 1},
		{"divisors", rotary{dim: 4, base: 10000, divisors: []float32{1, 4}}, 1, map[int]float32{0: 1, 1: 0.0025}, 1},
	} {
		inv, scale, err := c.r.frequencies(c.served)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(inv) != c.r.dim/2 || math.Abs(float64(scale)-c.scale) > 1e-6 {
			t.Errorf("%s: %d frequencies, scale %v, wanted %v", c.name, len(inv), scale, c.scale)
		}
		for i, want := range c.want {
			if d := math.Abs(float64(inv[i]/want) - 1); d > 3e-7 {
				t.Errorf("%s: frequency %d is %v, wanted %v", c.name, i, inv[i], want)
			}
		}
	}
}

func TestRefusedRotary(t *testing.T) {
	h := &hyper{headDim: 8}
	for _, c := range []struct {
		want string
		r    rotary
	}{
		{"rope base is 0", rotary{dim: 8}},
		{"rope base is NaN", rotary{dim: 8, base: math.NaN()}},
		{"turns 9 values", rotary{dim: 9, base: 10000}},
		{"turns 16 values", rotary{dim: 16, base: 10000}},
		{"turns 0 values", rotary{base: 10000}},
		{`"dynamic" is not supported`, rotary{dim: 8, base: 10000, kind: "dynamic", factor: 2}},
		{"factor is 0", rotary{dim: 8, base: 10000, kind: "linear"}},
		{"original context 0", rotary{dim: 8, base: 10000, kind: "yarn", factor: 2}},
		{"wanted positive ones in order", rotary{dim: 8, base: 10000, kind: "llama3", factor: 2, original: 8, lowFreq: 4, highFreq: 1}},
		{"short factors: got 1, wanted 4", rotary{dim: 8, base: 10000, kind: "longrope", original: 99, shortDiv: []float32{1}}},
		{"has 3 factors, wanted 4", rotary{dim: 8, base: 10000, divisors: []float32{1, 1, 1}}},
		{"frequency 0 is +Inf", rotary{dim: 8, base: 10000, divisors: []float32{0, 1, 1, 1}}},
		{"attention factor is -1", rotary{dim: 8, base: 10000, kind: "yarn", factor: 2, original: 64, attention: -1}},
	} {
		if _, err := c.r.build(h, true, 8); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, wanted %q", err, c.want)
		}
	}
}
