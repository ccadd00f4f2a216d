package model

import (
	"fmt"
	"math"

	"hearth/kernels"
)

// rotary holds the parameters of a rotary embedding as a model states them.
type rotary struct {
	dim  int // rotated values of a head
	base float64

	kind   string  // "", "linear", "llama3", "yarn" or "longrope"
	factor float64 // all but longrope: how much the context was stretched
	// original is the context before stretching; expanded the one after.
	original, expanded int

	lowFreq, highFreq   float64 // llama3
	betaFast, betaSlow  float64 // yarn; 0: 32 and 1
	exact               bool    // yarn: correction range is not rounded to whole pairs
	mscale, mscaleAll   float64 // yarn, optional
	attention           float64 // factor on sin and cos; 0: computed where the kind has one
	shortDiv, longDiv   []float32
	divisors            []float32 // GGUF rope_freqs.weight: each frequency is divided by its own
	attentionMultiplies bool      // GGUF yarn: attention scales the computed factor instead of replacing it
}

// frequencies computes the inverse frequency of each pair and the factor on sin
// and cos, for sequences of up to served tokens. Arithmetic is in float32 in the
// order of the reference implementation, transformers' modeling_rope_utils,
// since a frequency off by one unit in the last place is off by a part in 10^7
// of a turn at every position.
func (r *rotary) frequencies(served int) (inv []float32, scale float32, err error) {
	if !(r.base > 1) || math.IsInf(r.base, 0) {
		return nil, 0, fmt.Errorf("rope base is %v, wanted a number above 1", r.base)
	}
	if r.kind != "" && r.kind != "longrope" && !(r.factor >= 1 && r.factor <= 1e6) {
		return nil, 0, fmt.Errorf("rope scaling factor is %v, wanted 1 or more", r.factor)
	}
	powers := make([]float32, r.dim/2) // base^(2i/dim)
	for i := range powers {
		powers[i] = float32(math.Pow(r.base, float64(float32(2*i)/float32(r.dim))))
	}
	scale = 1
	switch r.kind {
	case "":
		inv = invert(powers)
	case "linear":
		inv = invert(powers)
		for i := range inv {
			inv[i] /= float32(r.factor)
		}
	case "llama3":
		inv, err = r.llama3(invert(powers))
	case "yarn":
		inv, scale, err = r.yarn(powers)
	case "longrope":
		inv, scale, err = r.longrope(powers, served)
	default:
		err = fmt.Errorf("rope scaling %q is not supported", r.kind)
	}
	if err == nil && r.divisors != nil {
		err = divide(inv, r.divisors, "rope_freqs.weight")
	}
	return inv, scale, err
}

// build makes the operand of an OpRope.
func (r *rotary) build(h *hyper, neoX bool, served int) (*kernels.Rope, error) {
	if r.dim < 2 || r.dim%2 != 0 || r.dim > h.headDim {
		return nil, fmt.Errorf("rope turns %d values of a head of %d, wanted an even number up to that", r.dim, h.headDim)
	}
	inv, scale, err := r.frequencies(served)
	if err != nil {
		return nil, err
	}
	for i, f := range inv {
		if !(f > 0 && f <= math.MaxFloat32) {
			return nil, fmt.Errorf("rope frequency %d is %v, wanted a positive number", i, f)
		}
	}
	if !(scale > 0 && scale <= 100) {
		return nil, fmt.Errorf("rope attention factor is %v, wanted between 0 and 100", scale)
	}
	return &kernels.Rope{HeadDim: h.headDim, Dim: r.dim, NeoX: neoX, InvFreq: inv, Scale: scale}, nil
}

func invert(powers []float32) []float32 {
	inv := make([]float32, len(powers))
	for i, p := range powers {
		inv[i] = 1 / p
	}
	return inv
}

func divide(inv, by []float32, what string) error {
	if len(by) != len(inv) {
		return fmt.Errorf("%s has %d factors, wanted %d", what, len(by), len(inv))
	}
	for i := range inv {
		inv[i] /= by[i]
	}
	return nil
}

// llama3 divides long wavelengths by the factor, keeps short ones, and blends
// those between (Llama 3.1).
func (r *rotary) llama3(inv []float32) ([]float32, error) {
	if r.original < 1 || !(r.lowFreq > 0) || !(r.highFreq > r.lowFreq) {
		return nil, fmt.Errorf("llama3 rope scaling has original context %d, low and high frequency factors %v and %v, wanted positive ones in order", r.original, r.lowFreq, r.highFreq)
	}
	longest := float64(r.original) / r.lowFreq
	shortest := float64(r.original) / r.highFreq
	for i, f := range inv {
		wavelength := float32(2*math.Pi) / f
		switch {
		case float64(wavelength) > longest:
			inv[i] = f / float32(r.factor)
		case float64(wavelength) >= shortest:
			smooth := (float32(r.original)/wavelength - float32(r.lowFreq)) / float32(r.highFreq-r.lowFreq)
			inv[i] = (1-smooth)*f/float32(r.factor) + smooth*f
		}
	}
	return inv, nil
}

// yarn interpolates slow pairs, keeps fast ones and ramps between them
// (arXiv 2309.00071, §3.2 and §3.4).
func (r *rotary) yarn(powers []float32) ([]float32, float32, error) {
	fast, slow := r.betaFast, r.betaSlow
	if fast == 0 {
		fast = 32
	}
	if slow == 0 {
		slow = 1
	}
	if r.original < 1 || !(slow > 0) || !(fast >= slow) || math.IsInf(fast, 0) {
		return nil, 0, fmt.Errorf("yarn rope scaling has original context %d, beta %v and %v, wanted positive ones in order", r.original, r.betaFast, r.betaSlow)
	}
	// The pair that turns the given number of times within the original context.
	pair := func(turns float64) float64 {
		return float64(r.dim) * math.Log(float64(r.original)/(turns*2*math.Pi)) / (2 * math.Log(r.base))
	}
	low, high := pair(fast), pair(slow)
	if !r.exact {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(r.dim-1))
	if low == high {
		high += 0.001
	}
	inv := make([]float32, len(powers))
	for i, p := range powers {
		ramp := min(max((float32(i)-float32(low))/float32(high-low), 0), 1)
		keep := 1 - ramp
		inv[i] = 1/(float32(r.factor)*p)*(1-keep) + 1/p*keep
	}
	magnitude := func(m float64) float64 { return 0.1*m*math.Log(r.factor) + 1 } // factor ≥ 1
	scale := magnitude(1)
	if r.mscale != 0 && r.mscaleAll != 0 {
		scale = magnitude(r.mscale) / magnitude(r.mscaleAll)
	}
	switch {
	case r.attention != 0 && r.attentionMultiplies:
		scale *= r.attention
	case r.attention != 0:
		scale = r.attention
	}
	return inv, float32(scale), nil
}

// longrope divides each frequency by a searched factor of its own: one set for
// sequences within the original context, another beyond (arXiv 2402.13753). The
// set follows the longest sequence that will be served, not the current one.
func (r *rotary) longrope(powers []float32, served int) ([]float32, float32, error) {
	if r.original < 1 {
		return nil, 0, fmt.Errorf("longrope scaling has original context %d, wanted 1 or more", r.original)
	}
	by, what := r.shortDiv, "longrope short factors"
	if served > r.original {
		by, what = r.longDiv, "longrope long factors"
	}
	if len(by) != len(powers) {
		return nil, 0, fmt.Errorf("%s: got %d, wanted %d", what, len(by), len(powers))
	}
	inv := make([]float32, len(powers))
	for i, p := range powers {
		inv[i] = 1 / (by[i] * p)
	}
	factor := r.factor
	if factor == 0 {
		factor = float64(r.expanded) / float64(r.original)
	}
	scale := 1.0
	switch {
	case r.attention != 0:
		scale = r.attention
	case factor > 1:
		scale = math.Sqrt(1 + math.Log(factor)/math.Log(float64(r.original)))
	}
	return inv, float32(scale), nil
}
