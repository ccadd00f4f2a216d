package sampler

import (
	"cmp"
	"math"
	"slices"

	"hearth/kernels"
)

// Choice writes to c what Pick would do, for a device that chooses itself. c's
// Adjust is reused; Allowed is kept as it is given.
func (s *Sampler) Choice(c *kernels.Choice, position int, allowed []uint32, banned []int32) {
	p := &s.p
	*c = kernels.Choice{
		Adjust: s.adjustments(c.Adjust[:0], banned), Allowed: allowed,
		Temperature: float32(p.Temperature), TopK: int32(p.TopK), TopP: float32(p.TopP), MinP: float32(p.MinP),
		Logprob: p.Logprobs,
	}
	if p.Logprobs {
		c.Top = p.TopLogprobs
	}
	if p.TopK == 1 || math.IsInf(float64(float32(1/p.Temperature)), 0) {
		c.Temperature = 0
	}
	if c.Temperature != 0 {
		c.Uniform = Uniform(s.seed, s.choice, uint64(position))
	}
}

// adjustments appends all changes of single logits, one a token.
func (s *Sampler) adjustments(list []kernels.Adjust, banned []int32) []kernels.Adjust {
	p := &s.p
	if s.prompt != nil {
		rep := float32(p.RepetitionPenalty)
		for t := range s.prompt {
			list = append(list, kernels.Adjust{Token: t, Divide: rep})
		}
		for t := range s.counts {
			if _, twice := s.prompt[t]; !twice {
				list = append(list, kernels.Adjust{Token: t, Divide: rep})
			}
		}
	}
	if p.FrequencyPenalty != 0 || p.PresencePenalty != 0 {
		for t, n := range s.counts {
			list = append(list, kernels.Adjust{Token: t, Divide: 1, Add: -(float32(p.FrequencyPenalty)*float32(n) + float32(p.PresencePenalty))})
		}
	}
	for _, b := range s.bias {
		list = append(list, kernels.Adjust{Token: b.id, Divide: 1, Add: b.v})
	}
	for _, t := range banned {
		list = append(list, kernels.Adjust{Token: t, Divide: 1, Add: float32(math.Inf(-1))})
	}
	return merged(list)
}

// merged sorts by token and joins what concerns the same one.
func merged(list []kernels.Adjust) []kernels.Adjust {
	slices.SortStableFunc(list, func(a, b kernels.Adjust) int { return cmp.Compare(a.Token, b.Token) })
	n := 0
	for _, a := range list {
		if n > 0 && list[n-1].Token == a.Token {
			if a.Divide != 0 && a.Divide != 1 {
				list[n-1].Divide = a.Divide
			}
			list[n-1].Add += a.Add
			continue
		}
		if a.Divide == 0 {
			a.Divide = 1
		}
		list[n] = a
		n++
	}
	return list[:n]
}

// Picked is what a device chose, as Pick would return it.
func Picked(p *kernels.Pick, logprobs bool) Result {
	r := Result{Token: p.Token}
	if logprobs {
		r.Logprob, r.Top = float64(p.Logprob), ranked(p.Top)
	}
	return r
}

func ranked(top []kernels.Ranked) (out []Ranked) {
	for _, t := range top {
		out = append(out, Ranked{t.Token, float64(t.Logprob)})
	}
	return out
}
