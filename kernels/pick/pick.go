// Package pick turns a row of logits into a token, on a CPU: adjustments and
// masks, then the likeliest token or a random one, and the log-probabilities
// that are asked for. It is the fast form of what kernels/ref says plainly. What
// is picked depends on the row and the choice alone.
package pick

import (
	"cmp"
	"math"
	"slices"

	"hearth/kernels"
)

// Loops are the inner loops over logits, of any number.
type Loops struct {
	// Largest is the largest of x; NaN counts for nothing, and of none it is -Inf.
	Largest func(x []float32) float32
	// Powers sets dst to e^((x−top)·scale), or to 0 where that is below e^-87 or
	// no number, and returns their sum, added in eight lanes. top is not below any
	// of x.
	Powers func(dst, x []float32, top, scale float32) float32
}

// chunk is the number of logits that the loops take at a time. Sums are exact
// enough in float32 over so many, and chunks without a likely token are passed
// over.
const chunk = 1024

// Picker picks with given loops; without, with Plain. It belongs to one
// goroutine, and keeps memory.
type Picker struct {
	Loops
	powers []float32 // by token
	tops   []float32 // by chunk: the largest logit
	sums   []float64 // by chunk: the sum of the powers
	total  float64   // of sums
	kept   []likely
	edge   []likely
	bins   []float64
	raw    []float32 // logits of adjusted tokens before, by adjustment
}

// likely is a token that may be drawn, with its power: how likely it is against
// the likeliest.
type likely struct {
	token int32
	p     float32
}

// Pick fills out with what c picks of logits, which it overwrites.
func (p *Picker) Pick(out *kernels.Pick, c *kernels.Choice, logits []float32) {
	out.Top = out.Top[:0]
	var lse float64
	if c.Logprob || c.Top > 0 {
		lse = p.logSumExp(logits)
		out.Top = p.appendTop(out.Top, logits, c.Top, lse)
	}
	p.adjust(c, logits)
	out.Token = p.token(c, logits)
	if c.Logprob {
		out.Logprob = float32(float64(p.before(c, logits, out.Token)) - lse)
	}
}

// Logprobs is the log-probability of token in a row of logits, and appends the k
// likeliest tokens to top, falling, equal ones by rising token.
func (p *Picker) Logprobs(logits []float32, token int32, k int, top []kernels.Ranked) (float32, []kernels.Ranked) {
	lse := p.logSumExp(logits)
	return float32(float64(logits[token]) - lse), p.appendTop(top, logits, k, lse)
}

// chunks calls f with each chunk's number and its part of x.
func chunks(n int, f func(i, from, to int)) {
	for i := 0; i*chunk < n; i++ {
		f(i, i*chunk, min((i+1)*chunk, n))
	}
}

// survey finds the largest logit of each chunk and of all, the first of equals.
func (p *Picker) survey(logits []float32) (top float32, at int) {
	if p.Largest == nil {
		p.Loops = Plain
	}
	p.tops = p.tops[:0]
	top, best := negInf, 0
	chunks(len(logits), func(i, from, to int) {
		v := p.Largest(logits[from:to])
		p.tops = append(p.tops, v)
		if v > top {
			top, best = v, i
		}
	})
	from := best * chunk
	return top, from + max(0, slices.Index(logits[from:min(from+chunk, len(logits))], top))
}

// spread computes the powers of all logits against top, and their sums.
func (p *Picker) spread(logits []float32, top, scale float32) {
	p.powers = slices.Grow(p.powers[:0], len(logits))[:len(logits)]
	p.sums, p.total = p.sums[:0], 0
	chunks(len(logits), func(_, from, to int) {
		sum := float64(p.Powers(p.powers[from:to], logits[from:to], top, scale))
		p.sums = append(p.sums, sum)
		p.total += sum
	})
}

// logSumExp is log Σ e^x, and leaves the survey of logits.
func (p *Picker) logSumExp(logits []float32) float64 {
	top, _ := p.survey(logits)
	p.spread(logits, top, 1)
	return float64(top) + math.Log(p.total)
}

// appendTop appends the k largest logits, after their survey.
func (p *Picker) appendTop(top []kernels.Ranked, logits []float32, k int, lse float64) []kernels.Ranked {
	k = min(k, len(logits))
	if k == 0 {
		return top
	}
	first, floor := len(top), negInf
	chunks(len(logits), func(i, from, to int) {
		if len(top) == first+k && !(p.tops[i] > floor) {
			return
		}
		for t := from; t < to; t++ {
			v := logits[t]
			if len(top) == first+k && !(v > floor) {
				continue
			}
			at, _ := slices.BinarySearchFunc(top[first:], v, func(r kernels.Ranked, v float32) int {
				if r.Logprob >= v {
					return -1
				}
				return 1
			})
			top = slices.Insert(top, first+at, kernels.Ranked{Token: int32(t), Logprob: v})
			top = top[:min(len(top), first+k)]
			floor = top[len(top)-1].Logprob
		}
	})
	for i := range top[first:] {
		top[first+i].Logprob = float32(float64(top[first+i].Logprob) - lse)
	}
	return top
}

// adjust applies c's adjustments and mask, and keeps what logits were.
func (p *Picker) adjust(c *kernels.Choice, logits []float32) {
	p.raw = p.raw[:0]
	for _, a := range c.Adjust {
		l := &logits[a.Token]
		p.raw = append(p.raw, *l)
		if *l > 0 {
			*l /= a.Divide
		} else {
			*l *= a.Divide
		}
		*l += a.Add
	}
	for w, bits := range c.Allowed {
		from, to := 32*w, min(32*w+32, len(logits))
		switch {
		case bits == math.MaxUint32 || from >= to:
		case bits == 0:
			for i := from; i < to; i++ {
				logits[i] = negInf
			}
		default:
			for i := from; i < to; i++ {
				if bits>>(i-from)&1 == 0 {
					logits[i] = negInf
				}
			}
		}
	}
}

// before is the logit that token had before adjust.
func (p *Picker) before(c *kernels.Choice, logits []float32, token int32) float32 {
	at, ok := slices.BinarySearchFunc(c.Adjust, token, func(a kernels.Adjust, t int32) int { return cmp.Compare(a.Token, t) })
	if ok {
		return p.raw[at]
	}
	return logits[token]
}

var negInf = float32(math.Inf(-1))

// token is what c picks of adjusted logits.
func (p *Picker) token(c *kernels.Choice, logits []float32) int32 {
	top, best := p.survey(logits)
	if c.Temperature == 0 || c.TopK == 1 {
		return int32(best)
	}
	scale := 1 / c.Temperature
	p.spread(logits, top, scale)
	if !(p.total > 0) { // no logit is a number below infinity
		return int32(best)
	}
	if c.TopK <= 0 && c.TopP >= 1 && c.MinP <= 0 {
		return p.drawAll(c.Uniform)
	}
	p.filter(c, top, scale)
	return draw(p.kept, c.Uniform)
}

// drawAll inverts the cumulative distribution in token order: no sort.
func (p *Picker) drawAll(u float64) int32 {
	target := u * p.total
	var cum float64
	last := 0
	for i, sum := range p.sums {
		if sum == 0 {
			continue
		}
		from := i * chunk
		if cum+sum <= target {
			cum += sum
			last = i
			continue
		}
		return p.within(from, target-cum)
	}
	return p.within(last*chunk, math.Inf(1)) // rounding
}

// within is the token of the chunk at from where its powers' sum passes target,
// or the chunk's last that has any.
func (p *Picker) within(from int, target float64) int32 {
	var cum float64
	last := from
	for i, v := range p.powers[from:min(from+chunk, len(p.powers))] {
		if v == 0 {
			continue
		}
		cum += float64(v)
		last = from + i
		if cum > target {
			break
		}
	}
	return int32(last)
}
