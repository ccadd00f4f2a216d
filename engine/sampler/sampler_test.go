package sampler

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"hearth/engine/infer"
)

func defaults() infer.Sampling { return infer.NewRequest().Sampling }

func randomLogits(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * 4)
	}
	return x
}

// The set that top-k, top-p and min-p leave must be the one that a full sort
// gives, and the frequencies those of the renormalized distribution.
func TestFiltersAgainstSort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		n := 50 + r.IntN(500)
		logits := randomLogits(r, n)
		p := defaults()
		p.Temperature = []float64{0.5, 1, 1.7}[round%3]
		p.TopK = []int{0, 3, 17, 60}[r.IntN(4)]
		p.TopP = []float64{1, 0.3, 0.9, 0.999}[r.IntN(4)]
		p.MinP = []float64{0, 0.01, 0.2}[r.IntN(3)]
		want := allowedBySort(logits, p)
		got := map[int32]bool{}
		var sc Scratch
		for pos := range 3000 {
			tok := New(p, 7, 0, nil).Pick(slices.Clone(logits), pos, nil, nil, &sc).Token
			got[tok] = true
			if !want[tok] {
				t.Fatalf("round %d: token %d is outside the allowed set (%+v)", round, tok, p)
			}
		}
		if len(want) <= 5 && len(got) != len(want) {
			t.Fatalf("round %d: %d of %d allowed tokens ever chosen", round, len(got), len(want))
		}
	}
}

func allowedBySort(logits []float32, p infer.Sampling) map[int32]bool {
	type tp struct {
		id int32
		p  float64
	}
	var all []tp
	top := float64(slices.Max(logits))
	for i, l := range logits {
		all = append(all, tp{int32(i), math.Exp((float64(l) - top) / p.Temperature)})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].p > all[j].p })
	var kept []tp
	for _, x := range all {
		if x.p >= p.MinP {
			kept = append(kept, x)
		}
	}
	if p.TopK > 0 && p.TopK < len(kept) {
		kept = kept[:p.TopK]
	}
	var total float64
	for _, x := range kept {
		total += x.p
	}
	out := map[int32]bool{}
	var sum float64
	for _, x := range kept {
		out[x.id] = true
		sum += x.p
		if sum >= p.TopP*total*(1+1e-7) {
			break
		}
	}
	return out
}

func TestFrequencies(t *testing.T) {
	logits := []float32{0, 1, 2, -1}
	var sum float64
	for _, l := range logits {
		sum += math.Exp(float64(l))
	}
	for _, filter := range []bool{false, true} {
		p := defaults()
		if filter {
			p.TopK = 4
		}
		count := [4]int{}
		var sc Scratch
		const n = 20000
		for i := range n {
			count[New(p, 99, 0, nil).Pick(slices.Clone(logits), i, nil, nil, &sc).Token]++
		}
		for i, c := range count {
			want := math.Exp(float64(logits[i])) / sum
			if got := float64(c) / n; math.Abs(got-want) > 0.012 {
				t.Errorf("filter %v token %d: frequency %.3f, want %.3f", filter, i, got, want)
			}
		}
	}
}

func TestGreedyMaskBiasPenalty(t *testing.T) {
	var sc Scratch
	p := defaults()
	p.Temperature = 0
	logits := []float32{1, 5, 5, 2}
	pick := func(p infer.Sampling, after []int32, allowed []uint32, banned ...int32) int32 {
		s := New(p, 0, 0, nil)
		for _, a := range after {
			s.Accept(a)
		}
		return s.Pick(slices.Clone(logits), 0, allowed, banned, &sc).Token
	}
	if got := pick(p, nil, nil); got != 1 {
		t.Errorf("tie went to %d, want the lower id 1", got)
	}
	if got := pick(p, nil, nil, 1); got != 2 {
		t.Errorf("banned: %d, want 2", got)
	}
	if got := pick(p, nil, []uint32{1<<0 | 1<<3}); got != 3 {
		t.Errorf("masked: %d, want 3", got)
	}
	q := p
	q.LogitBias = map[int32]float64{0: 100}
	if got := pick(q, nil, nil); got != 0 {
		t.Errorf("bias: %d, want 0", got)
	}
	q = p
	q.FrequencyPenalty = 0.5
	if got := pick(q, []int32{1}, nil); got != 2 {
		t.Errorf("frequency penalty: %d, want 2", got)
	}
	q = p
	q.RepetitionPenalty = 3
	if got := New(q, 0, 0, []int32{1, 2}).Pick(slices.Clone(logits), 0, nil, nil, &sc).Token; got != 3 {
		t.Errorf("repetition penalty: %d, want 3", got)
	}
}

func TestLogprobsAreOfTheUnfilteredDistribution(t *testing.T) {
	var sc Scratch
	p := defaults()
	p.Logprobs, p.TopLogprobs, p.Temperature = true, 2, 0
	logits := []float32{0, 1, 2, 3}
	res := New(p, 0, 0, nil).Pick(slices.Clone(logits), 0, nil, []int32{3}, &sc)
	var sum float64
	for _, l := range logits {
		sum += math.Exp(float64(l))
	}
	if res.Token != 2 || math.Abs(res.Logprob-(2-math.Log(sum))) > 1e-6 {
		t.Errorf("token %d logprob %v", res.Token, res.Logprob)
	}
	if len(res.Top) != 2 || res.Top[0].Token != 3 || res.Top[1].Token != 2 {
		t.Errorf("top = %v", res.Top)
	}
}

func TestTopMatchesSort(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var sc Scratch
	for range 50 {
		x := randomLogits(r, 300)
		for i := range x { // force ties
			x[i] = float32(math.Round(float64(x[i])))
		}
		ids := make([]int32, len(x))
		for i := range ids {
			ids[i] = int32(i)
		}
		sort.SliceStable(ids, func(i, j int) bool { return x[ids[i]] > x[ids[j]] })
		_, top := Logprobs(x, 0, 20, &sc)
		for i, r := range top {
			if r.Token != ids[i] {
				t.Fatalf("rank %d is %d, want %d", i, r.Token, ids[i])
			}
		}
	}
}
