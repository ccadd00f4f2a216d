// Package sampler turns one row of logits into a token: penalties, bias and
// masks, then the greedy or the random choice, and the log-probabilities that
// the caller asked for. A choice depends only on the logits, the parameters, the
// tokens so far and (seed, choice, position); never on other sequences.
package sampler

import (
	"slices"

	"hearth/engine/infer"
	"hearth/kernels"
	"hearth/kernels/pick"
)

// Sampler holds the parameters and the token counts of one sequence. It belongs
// to one goroutine; Scratch may be shared by the samplers of one goroutine.
type Sampler struct {
	p      infer.Sampling
	bias   []tokenBias
	seed   uint64
	choice uint64
	// counts of generated tokens; prompt tokens count only for repetition.
	counts map[int32]int32
	prompt map[int32]struct{}
}

type tokenBias struct {
	id int32
	v  float32
}

// Scratch is reusable memory for Pick.
type Scratch struct {
	picker pick.Picker
	choice kernels.Choice
	pick   kernels.Pick
}

// Result is a chosen token. Logprob and Top are set if asked for and are of the
// distribution before penalties, masks and temperature.
type Result struct {
	Token   int32
	Logprob float64
	Top     []Ranked
}

// Ranked is an alternative with its log-probability.
type Ranked struct {
	Token   int32
	Logprob float64
}

// New makes the sampler of one choice. seed is the request's, or a random one.
func New(p infer.Sampling, seed uint64, choice int, prompt []int32) *Sampler {
	s := &Sampler{p: p, seed: seed, choice: uint64(choice)}
	for id, v := range p.LogitBias {
		s.bias = append(s.bias, tokenBias{id, float32(v)})
	}
	slices.SortFunc(s.bias, func(a, b tokenBias) int { return int(a.id) - int(b.id) })
	if s.penalizes() {
		s.counts = map[int32]int32{}
	}
	if p.RepetitionPenalty != 1 && p.RepetitionPenalty != 0 {
		s.prompt = make(map[int32]struct{}, len(prompt))
		for _, t := range prompt {
			s.prompt[t] = struct{}{}
		}
	}
	return s
}

func (s *Sampler) penalizes() bool {
	p := &s.p
	return p.FrequencyPenalty != 0 || p.PresencePenalty != 0 || (p.RepetitionPenalty != 1 && p.RepetitionPenalty != 0)
}

// Accept records a generated token for the penalties.
func (s *Sampler) Accept(token int32) {
	if s.counts != nil {
		s.counts[token]++
	}
}

// Pick chooses the token at position (of the generated text, from 0). allowed
// is a bit mask over the vocabulary, or nil. banned tokens are never chosen.
// logits are overwritten.
func (s *Sampler) Pick(logits []float32, position int, allowed []uint32, banned []int32, sc *Scratch) Result {
	s.Choice(&sc.choice, position, allowed, banned)
	sc.picker.Pick(&sc.pick, &sc.choice, logits)
	return Picked(&sc.pick, s.p.Logprobs)
}

// Logprobs gives the log-probability of token and the k likeliest tokens of a
// row of logits.
func Logprobs(logits []float32, token int32, k int, sc *Scratch) (float64, []Ranked) {
	lp, top := sc.picker.Logprobs(logits, token, k, sc.pick.Top[:0])
	sc.pick.Top = top
	return float64(lp), ranked(top)
}
