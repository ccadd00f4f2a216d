package pick

import (
	"cmp"
	"math"
	"slices"

	"hearth/kernels"
)

// filter leaves in kept, in token order, the tokens that top-k, top-p (arXiv
// 1904.09751) and min-p leave to be drawn. It looks at likely tokens first: the
// tail of the distribution is seldom gathered, and nothing long is sorted.
func (p *Picker) filter(c *kernels.Choice, top, scale float32) {
	k := int(c.TopK)
	least := max(c.MinP, math.SmallestNonzeroFloat32)
	floor := float32(1) / 64
	if c.MinP > 0 {
		floor = least
	}
	for ; ; floor /= 64 {
		all := floor <= least
		p.gather(max(floor, least), top, scale)
		if k > 0 {
			if len(p.kept) < k && !all {
				continue
			}
			p.cut(float64(k), func(float32) float64 { return 1 })
		}
		if c.TopP >= 1 {
			return
		}
		sum := sumOf(p.kept)
		total := p.total
		if k > 0 || c.MinP > 0 {
			total = sum
		}
		want := float64(c.TopP) * total
		if sum < want && !all {
			continue
		}
		p.cut(want, func(v float32) float64 { return float64(v) })
		return
	}
}

// gather lists the tokens whose power is at least floor, in token order.
func (p *Picker) gather(floor, top, scale float32) {
	p.kept = p.kept[:0]
	chunks(len(p.powers), func(i, from, to int) {
		// The chunk's likeliest, with room for its power's rounding.
		if float32(math.Exp(float64((p.tops[i]-top)*scale)))*1.001 < floor {
			return
		}
		for t, v := range p.powers[from:to] {
			if v >= floor {
				p.kept = append(p.kept, likely{int32(from + t), v})
			}
		}
	})
}

// bins sort powers, which are at most 1, by exponent and six bits behind it.
const bins = 1 + 0x3f800000>>binShift
const binShift = 17

func bin(v float32) int { return int(math.Float32bits(v) >> binShift) }

// cut keeps as many of the likeliest tokens as it takes for their weights to
// reach want, in token order; of equals, the lower tokens. Only the bin in which
// that happens is sorted.
func (p *Picker) cut(want float64, weight func(v float32) float64) {
	if p.bins == nil {
		p.bins = make([]float64, bins)
	}
	clear(p.bins)
	for _, x := range p.kept {
		p.bins[bin(x.p)] += weight(x.p)
	}
	at, sum := bins, 0.0
	for sum < want || sum == 0 {
		if at--; at < 0 {
			return // all of them do not reach it
		}
		sum += p.bins[at]
	}
	sum -= p.bins[at]
	p.edge = p.edge[:0]
	for _, x := range p.kept {
		if bin(x.p) == at {
			p.edge = append(p.edge, x)
		}
	}
	slices.SortFunc(p.edge, byLikelihood)
	last := p.edge[len(p.edge)-1]
	for _, x := range p.edge {
		if sum += weight(x.p); sum >= want {
			last = x
			break
		}
	}
	n := 0
	for _, x := range p.kept {
		if b := bin(x.p); b > at || b == at && byLikelihood(x, last) <= 0 {
			p.kept[n] = x
			n++
		}
	}
	p.kept = p.kept[:n]
}

// draw finds the point u of the distribution over l, which is in token order: the
// same order as without a filter, and as a device that does not sort.
func draw(l []likely, u float64) int32 {
	target := u * sumOf(l)
	var cum float64
	for _, x := range l {
		if cum += float64(x.p); cum > target {
			return x.token
		}
	}
	return l[len(l)-1].token
}

func sumOf(l []likely) (sum float64) {
	for _, x := range l {
		sum += float64(x.p)
	}
	return sum
}

func byLikelihood(a, b likely) int {
	if c := cmp.Compare(b.p, a.p); c != 0 {
		return c
	}
	return cmp.Compare(a.token, b.token)
}
