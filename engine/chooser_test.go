package engine_test

import (
	"math"
	"slices"
	"testing"

	"hearth/engine"
	"hearth/engine/infer"
	"hearth/kernels"
	"hearth/kernels/ref"
)

// host hides that a device can choose tokens itself.
type host struct{ kernels.Device }

// TestChoosingOnTheDevice: an answer is the same whether the device or the loop
// chooses its tokens, with every parameter that has a say in it.
func TestChoosingOnTheDevice(t *testing.T) {
	with := func(hide bool) *engine.Engine {
		return own(t, func(o *engine.Options) {
			o.Device = "ref"
			o.OpenDevice = func(engine.Options) (kernels.Device, error) {
				if hide {
					return host{ref.New()}, nil
				}
				return ref.New(), nil
			}
		})
	}
	device, loop := with(false), with(true)
	seed := int64(7)
	for name, set := range map[string]func(*infer.Request){
		"greedy":    func(*infer.Request) {},
		"random":    func(r *infer.Request) { r.Sampling.Temperature, r.Sampling.TopP = 1, 0.9 },
		"penalties": func(r *infer.Request) { r.Sampling.FrequencyPenalty, r.Sampling.RepetitionPenalty = 1, 1.5 },
		"several": func(r *infer.Request) {
			r.Sampling.Temperature, r.Sampling.N, r.Sampling.TopK = 1, 3, 20
			r.Sampling.LogitBias = map[int32]float64{9: 3}
		},
		"logprobs": func(r *infer.Request) { r.Sampling.Logprobs, r.Sampling.TopLogprobs = true, 5 },
		"prompt": func(r *infer.Request) {
			r.Echo, r.Sampling.Logprobs, r.Sampling.TopLogprobs, r.Sampling.PromptLogprobs = true, true, 2, true
		},
		"more alternatives": func(r *infer.Request) { r.Sampling.Logprobs, r.Sampling.TopLogprobs = true, 21 },
		"format":            func(r *infer.Request) { r.Format = infer.Format{Kind: infer.FormatRegex, Pattern: "[a-z]{3,6}"} },
		"at least":          func(r *infer.Request) { r.Sampling.IgnoreEOS, r.Sampling.MinTokens = false, 6 },
	} {
		r := completion(5, 6, 7, 8)
		r.Sampling.Seed = &seed
		r.Sampling.MaxTokens = 12
		set(r)
		got, want := ask(t.Context(), device, r), ask(t.Context(), loop, r)
		if got.err != nil || want.err != nil {
			t.Fatalf("%s: %v, %v", name, got.err, want.err)
		}
		for i := range r.Sampling.N {
			if !slices.Equal(got.ids[i], want.ids[i]) || got.text[i] != want.text[i] {
				t.Errorf("%s: the device chose %v, the loop %v", name, got.ids[i], want.ids[i])
			}
			if !alike(got.lps[i], want.lps[i]) {
				t.Errorf("%s: log-probabilities %v, wanted %v", name, got.lps[i], want.lps[i])
			}
		}
		if *got.usage != *want.usage {
			t.Errorf("%s: usage %+v, wanted %+v", name, *got.usage, *want.usage)
		}
	}
	waitIdle(t, device)
}

func alike(a, b []infer.TokenLogprob) bool {
	return slices.EqualFunc(a, b, func(x, y infer.TokenLogprob) bool {
		near := func(p, q float64) bool { return math.IsNaN(p) && math.IsNaN(q) || math.Abs(p-q) < 1e-4 }
		return x.ID == y.ID && near(x.Logprob, y.Logprob) &&
			slices.EqualFunc(x.Top, y.Top, func(p, q infer.TopLogprob) bool { return p.ID == q.ID && near(p.Logprob, q.Logprob) })
	})
}
