// Package sampler turns one row of logits into a token: penalties, bias and
// masks, then the greedy or the random choice, and the log-probabilities that
// the caller asked for. A choice depends only on the logits, the parameters, the
// tokens so far and (seed, choice, position); never on other sequences.
package sampler

import (
	"math"
	"slices"

	"hearth/engine/infer"
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
	p    []float32
	cand []candidate
}

type candidate struct {
	id int32
	p  float32
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
	var res Result
	var lse float64
	if s.p.Logprobs {
		lse = logSumExp(logits)
		if s.p.TopLogprobs > 0 {
			res.Top = Top(logits, s.p.TopLogprobs, lse)
		}
	}
	var raw []float32
	if s.p.Logprobs {
		raw = append(sc.p[:0], logits...)
		sc.p = raw
	}
	s.adjust(logits, allowed, banned)
	res.Token = s.choose(logits, position, sc)
	if s.p.Logprobs {
		res.Logprob = float64(raw[res.Token]) - lse
	}
	return res
}

var negInf = float32(math.Inf(-1))

// adjust applies penalties (as OpenAI and CTRL, arXiv 1909.05858 §4.1, define
// them), bias and masks to logits.
func (s *Sampler) adjust(logits []float32, allowed []uint32, banned []int32) {
	p := &s.p
	if s.prompt != nil {
		rep := float32(p.RepetitionPenalty)
		for t := range s.prompt {
			penalizeRepetition(logits, t, rep)
		}
		for t := range s.counts {
			if _, twice := s.prompt[t]; !twice {
				penalizeRepetition(logits, t, rep)
			}
		}
	}
	if p.FrequencyPenalty != 0 || p.PresencePenalty != 0 {
		for t, n := range s.counts {
			logits[t] -= float32(p.FrequencyPenalty)*float32(n) + float32(p.PresencePenalty)
		}
	}
	for _, b := range s.bias {
		logits[b.id] += b.v
	}
	for _, t := range banned {
		logits[t] = negInf
	}
	if allowed != nil {
		mask(logits, allowed)
	}
}

func penalizeRepetition(logits []float32, t int32, rep float32) {
	if logits[t] > 0 {
		logits[t] /= rep
	} else {
		logits[t] *= rep
	}
}

func mask(logits []float32, allowed []uint32) {
	for w, bits := range allowed {
		if bits == math.MaxUint32 {
			continue
		}
		base := w * 32
		end := min(base+32, len(logits))
		for i := base; i < end; i++ {
			if bits&(1<<(i-base)) == 0 {
				logits[i] = negInf
			}
		}
	}
}

func (s *Sampler) choose(logits []float32, position int, sc *Scratch) int32 {
	best := argmax(logits)
	if s.p.Temperature == 0 || s.p.TopK == 1 {
		return best
	}
	u := Uniform(s.seed, s.choice, uint64(position))
	invT := float32(1 / s.p.Temperature)
	if math.IsInf(float64(invT), 0) {
		return best
	}
	top := logits[best]
	if s.p.TopK <= 0 && s.p.TopP >= 1 && s.p.MinP <= 0 {
		return sampleAll(logits, top, invT, u)
	}
	sc.cand = sc.cand[:0]
	for i, l := range logits {
		pr := exp((l - top) * invT)
		if pr > 0 && pr >= float32(s.p.MinP) {
			sc.cand = append(sc.cand, candidate{int32(i), pr})
		}
	}
	c := sc.cand
	if k := s.p.TopK; k > 0 && k < len(c) {
		selectTop(c, k)
		c = c[:k]
	}
	return sampleTopP(c, s.p.TopP, u)
}

// sampleAll inverts the cumulative distribution in token order: no sort.
func sampleAll(logits []float32, top, invT float32, u float64) int32 {
	var sum float64
	for _, l := range logits {
		sum += float64(exp((l - top) * invT))
	}
	target := u * sum
	var cum float64
	last := int32(0)
	for i, l := range logits {
		pr := float64(exp((l - top) * invT))
		if pr == 0 {
			continue
		}
		cum += pr
		last = int32(i)
		if cum > target {
			return last
		}
	}
	return last
}

// sampleTopP keeps the smallest set of likeliest candidates whose share of the
// whole reaches topP (arXiv 1904.09751) and samples from it. Only the head of
// the distribution is sorted.
func sampleTopP(c []candidate, topP, u float64) int32 {
	var total float64
	for _, x := range c {
		total += float64(x.p)
	}
	if topP >= 1 {
		return invert(c, u)
	}
	want := topP * total
	for floor := float32(1.0 / 64); ; floor /= 64 {
		n := partition(c, floor)
		head := c[:n]
		var sum float64
		for _, x := range head {
			sum += float64(x.p)
		}
		if sum < want && n < len(c) {
			continue
		}
		slices.SortFunc(head, byProbability)
		sum = 0
		for i, x := range head {
			sum += float64(x.p)
			if sum >= want {
				return invert(head[:i+1], u)
			}
		}
		return invert(head, u)
	}
}

// invert finds the point u of the distribution over c, in token order: the same
// order as without a filter, and as a device that does not sort.
func invert(c []candidate, u float64) int32 {
	slices.SortFunc(c, func(a, b candidate) int { return int(a.id) - int(b.id) })
	var sum float64
	for _, x := range c {
		sum += float64(x.p)
	}
	var cum float64
	for _, x := range c {
		cum += float64(x.p)
		if cum > u*sum {
			return x.id
		}
	}
	return c[len(c)-1].id
}

func byProbability(a, b candidate) int {
	switch {
	case a.p > b.p:
		return -1
	case a.p < b.p:
		return 1
	}
	return int(a.id) - int(b.id)
}

// partition moves the candidates with p ≥ floor to the front, keeping order
// among them, and returns their number.
func partition(c []candidate, floor float32) int {
	n := 0
	for i := range c {
		if c[i].p >= floor {
			c[n], c[i] = c[i], c[n]
			n++
		}
	}
	return n
}

// selectTop moves the k likeliest candidates to the front (quickselect with a
// median-of-three pivot); ties go to the lower id.
func selectTop(c []candidate, k int) {
	lo, hi := 0, len(c)
	for hi-lo > 16 {
		a, b, d := c[lo], c[(lo+hi)/2], c[hi-1]
		pivot := median(a, b, d)
		i, j := lo, hi-1
		for i <= j {
			for byProbability(c[i], pivot) < 0 {
				i++
			}
			for byProbability(c[j], pivot) > 0 {
				j--
			}
			if i <= j {
				c[i], c[j] = c[j], c[i]
				i++
				j--
			}
		}
		switch {
		case k <= j+1:
			hi = j + 1
		case k >= i:
			lo = i
		default:
			return
		}
	}
	slices.SortFunc(c[lo:hi], byProbability)
}

// median returns the middle one of three.
func median(a, b, c candidate) candidate {
	if byProbability(a, b) > 0 {
		a, b = b, a
	}
	if byProbability(b, c) > 0 {
		b = c
	}
	if byProbability(a, b) > 0 {
		b = a
	}
	return b
}

func argmax(x []float32) int32 {
	best, at := negInf, 0
	for i, v := range x {
		if v > best {
			best, at = v, i
		}
	}
	return int32(at)
}
