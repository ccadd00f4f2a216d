package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"hearth/engine"
	"hearth/engine/infer"
	"hearth/kernels"
	"hearth/kernels/ref"
)

// TestSpeculationChangesNothing: with guesses an answer is the same, token for
// token, alone and in company, greedy and seeded, whoever chooses.
func TestSpeculationChangesNothing(t *testing.T) {
	for _, device := range []string{"cpu", "ref"} {
		plain := own(t, func(o *engine.Options) { setDevice(o, device) })
		guessing := own(t, func(o *engine.Options) {
			setDevice(o, device)
			o.Speculation, o.SpeculationBatch = 6, 8
		})
		want := map[string]answer{}
		for i := range 12 {
			r := repetitive(i)
			want[r.ID] = ask(t.Context(), plain, r)
		}
		check := func(ctx context.Context, i int) {
			r := repetitive(i)
			got := ask(ctx, guessing, r)
			w := want[r.ID]
			if got.err != nil || w.err != nil {
				t.Errorf("%s: %v, %v", device, got.err, w.err)
				return
			}
			for c := range r.Sampling.N {
				if !slices.Equal(got.ids[c], w.ids[c]) || got.finish[c] != w.finish[c] || got.text[c] != w.text[c] {
					t.Errorf("%s, request %d: %v with guesses, %v without", device, i, got.ids[c], w.ids[c])
				}
				if !alike(got.lps[c], w.lps[c]) {
					t.Errorf("%s, request %d: log-probabilities differ", device, i)
				}
			}
			if got.usage.CompletionTokens != w.usage.CompletionTokens {
				t.Errorf("%s, request %d: %d tokens are counted, want %d", device, i, got.usage.CompletionTokens, w.usage.CompletionTokens)
			}
		}
		for i := range 12 {
			check(t.Context(), i)
		}
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() { check(t.Context(), i) })
		}
		wg.Wait()
		waitIdle(t, guessing)
		st := guessing.Health(t.Context()).Stats
		if st.DraftTokens == 0 || st.AcceptedTokens == 0 || st.AcceptedTokens > st.DraftTokens {
			t.Errorf("%s: %d tokens were guessed, %d rightly; the test shows nothing", device, st.DraftTokens, st.AcceptedTokens)
		}
		t.Logf("%s: %d of %d guesses were right, in %d steps", device, st.AcceptedTokens, st.DraftTokens, st.Steps)
	}
}

func setDevice(o *engine.Options, device string) {
	o.Device = device
	if device == "ref" {
		o.OpenDevice = func(engine.Options) (kernels.Device, error) { return ref.New(), nil }
	}
}

// repetitive is a request whose prompt repeats itself, which a random model tends
// to go on with.
func repetitive(i int) *infer.Request {
	var prompt []int32
	for range 8 {
		prompt = append(prompt, int32(10+i), 11, 12, int32(13+i%3), 14)
	}
	r := completion(prompt...)
	r.ID = fmt.Sprint("r", i)
	r.Sampling.MaxTokens = 60
	seed := int64(i)
	r.Sampling.Seed = &seed
	switch i % 6 {
	case 1:
		r.Sampling.Temperature, r.Sampling.TopK = 0.3, 3
	case 2:
		r.Sampling.N, r.Sampling.Temperature = 2, 0.2
	case 3:
		r.Sampling.Logprobs, r.Sampling.TopLogprobs = true, 2
	case 4:
		r.Sampling.IgnoreEOS, r.Sampling.MinTokens = false, 20
	case 5:
		r.Sampling.RepetitionPenalty = 1.1 // is not guessed ahead
	}
	return r
}
