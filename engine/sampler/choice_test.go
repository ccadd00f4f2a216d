package sampler

import (
	"math/rand/v2"
	"slices"
	"testing"

	"hearth/engine/infer"
	"hearth/kernels"
	"hearth/kernels/ref"
)

// TestChoiceIsPick: what a device is told gives the token that Pick gives.
func TestChoiceIsPick(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var sc Scratch
	var c kernels.Choice
	var pick kernels.Pick
	for n := range 3000 {
		p := randomParameters(r)
		logits := randomLogits(r, 200)
		prompt := []int32{1, 2, 3, int32(r.IntN(200))}
		s := New(p, r.Uint64(), r.IntN(3), prompt)
		for range r.IntN(20) {
			s.Accept(int32(r.IntN(30)))
		}
		var allowed []uint32
		if r.IntN(3) == 0 {
			allowed = make([]uint32, 7)
			for i := range allowed {
				allowed[i] = r.Uint32()
			}
		}
		var banned []int32
		if r.IntN(3) == 0 {
			banned = []int32{2, 7, int32(r.IntN(200))}
		}
		s.Choice(&c, n, allowed, banned)
		if err := ref.Choose(&pick, &c, logits); err != nil {
			t.Fatal(err)
		}
		want := s.Pick(slices.Clone(logits), n, allowed, banned, &sc)
		got := Picked(&pick, p.Logprobs)
		if got.Token != want.Token {
			t.Fatalf("case %d: a device would choose %d, Pick chose %d, of %+v", n, got.Token, want.Token, p)
		}
		if len(got.Top) != len(want.Top) || p.Logprobs && !near(got.Logprob, want.Logprob) {
			t.Fatalf("case %d: log-probability %v and %d alternatives, want %v and %d", n, got.Logprob, len(got.Top), want.Logprob, len(want.Top))
		}
		for i := range got.Top {
			if got.Top[i].Token != want.Top[i].Token || !near(got.Top[i].Logprob, want.Top[i].Logprob) {
				t.Fatalf("case %d: alternative %d is %v, want %v", n, i, got.Top[i], want.Top[i])
			}
		}
	}
}

func near(a, b float64) bool { return a-b < 1e-4 && b-a < 1e-4 }

func randomParameters(r *rand.Rand) infer.Sampling {
	p := defaults()
	some := func() bool { return r.IntN(3) == 0 }
	p.Temperature = float64(r.IntN(4)) / 2
	if some() {
		p.TopP = 0.1 + 0.8*r.Float64()
	}
	if some() {
		p.TopK = 1 + r.IntN(30)
	}
	if some() {
		p.MinP = r.Float64() / 4
	}
	if some() {
		p.FrequencyPenalty = r.Float64()
	}
	if some() {
		p.PresencePenalty = -r.Float64()
	}
	if some() {
		p.RepetitionPenalty = 0.5 + r.Float64()
	}
	if some() {
		p.LogitBias = map[int32]float64{3: 4, 7: -2, 11: 1}
	}
	if some() {
		p.Logprobs, p.TopLogprobs = true, r.IntN(21)
	}
	return p
}
