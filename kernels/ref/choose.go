package ref

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hearth/kernels"
)

var _ kernels.Chooser = (*Device)(nil)

// MaxTop implements kernels.Chooser.
func (d *Device) MaxTop() int { return 20 }

// give fills Logits, or where there are Choices what they ask for.
func (d *Device) give(b *kernels.Batch) error {
	if b.Choices == nil {
		for i, r := range b.LogitRows {
			copy(b.Logits[i*d.p.Vocab:], d.row(d.p.Logits, r))
		}
		return nil
	}
	if b.Prepare != nil {
		b.Prepare()
	}
	given := 0
	for i, r := range b.LogitRows {
		c, row := &b.Choices[i], d.row(d.p.Logits, r)
		if c.Logits {
			copy(b.Logits[given*d.p.Vocab:], row)
			given++
			continue
		}
		if err := Choose(&b.Picks[i], c, row); err != nil {
			return fmt.Errorf("ref: row %d: %w", r, err)
		}
	}
	return nil
}

// Choose is the plain form of what a kernels.Chooser does with a row of logits,
// which it leaves as it is.
func Choose(pick *kernels.Pick, c *kernels.Choice, logits []float32) error {
	l := make([]float64, len(logits))
	for i, x := range logits {
		l[i] = float64(x)
	}
	for _, a := range c.Adjust {
		if a.Token < 0 || int(a.Token) >= len(l) {
			return fmt.Errorf("cannot adjust token %d of %d", a.Token, len(l))
		}
		if x := &l[a.Token]; *x > 0 {
			*x = *x/float64(a.Divide) + float64(a.Add)
		} else {
			*x = *x*float64(a.Divide) + float64(a.Add)
		}
	}
	for i := range l {
		if c.Allowed != nil && c.Allowed[i/32]>>(i%32)&1 == 0 {
			l[i] = math.Inf(-1)
		}
	}
	pick.Token = int32(draw(c, l))
	logprobs(pick, c, logits)
	return nil
}

// draw is the index that is chosen of the adjusted logits.
func draw(c *kernels.Choice, l []float64) int {
	byRank := make([]int, len(l))
	for i := range byRank {
		byRank[i] = i
	}
	slices.SortStableFunc(byRank, func(a, b int) int { return cmp.Compare(l[b], l[a]) })
	best := byRank[0]
	if c.Temperature == 0 {
		return best
	}
	p := make([]float64, len(l))
	var kept []int
	for _, i := range byRank {
		p[i] = math.Exp((l[i] - l[best]) / float64(c.Temperature))
		if p[i] > 0 && p[i] >= float64(c.MinP) {
			kept = append(kept, i)
		}
	}
	if c.TopK > 0 && int(c.TopK) < len(kept) {
		kept = kept[:c.TopK]
	}
	sum := func(of []int) (s float64) {
		for _, i := range of {
			s += p[i]
		}
		return s
	}
	if c.TopP < 1 {
		want, s := float64(c.TopP)*sum(kept), 0.0
		for n, i := range kept {
			if s += p[i]; s >= want {
				kept = kept[:n+1]
				break
			}
		}
	}
	slices.Sort(kept)
	target, s := c.Uniform*sum(kept), 0.0
	for _, i := range kept {
		if s += p[i]; s > target {
			return i
		}
	}
	return kept[len(kept)-1]
}

// logprobs are of the logits as the model gave them.
func logprobs(pick *kernels.Pick, c *kernels.Choice, logits []float32) {
	pick.Top = pick.Top[:0]
	if !c.Logprob && c.Top == 0 {
		return
	}
	top := float64(slices.Max(logits))
	var sum float64
	for _, x := range logits {
		sum += math.Exp(float64(x) - top)
	}
	lse := top + math.Log(sum)
	pick.Logprob = float32(float64(logits[pick.Token]) - lse)
	ids := make([]int32, len(logits))
	for i := range ids {
		ids[i] = int32(i)
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
	for _, id := range ids[:min(c.Top, len(ids))] {
		pick.Top = append(pick.Top, kernels.Ranked{Token: id, Logprob: float32(float64(logits[id]) - lse)})
	}
}
