package policy

import "math"

// pickLocked chooses among candidates that may all be asked now: group holds
// their indexes, at least one.
func (d *Dispatch) pickLocked(group []int) int {
	if len(group) == 1 {
		return group[0]
	}
	switch d.split() {
	case SplitWeighted:
		return d.pickWeighted(group)
	case SplitLeast:
		return d.pickLeast(group)
	case SplitPrefix:
		return d.pickPrefix(group)
	}
	return group[0]
}

func (d *Dispatch) split() string {
	if c := d.route.Config; c != nil {
		return c.Split
	}
	return SplitOrdered
}

// pickWeighted is smooth weighted round robin, as nginx has it: everyone's level
// rises by its weight, the highest is taken and falls by the sum.
func (d *Dispatch) pickWeighted(group []int) int {
	levels := d.route.lane.current
	best, sum := -1, 0
	for _, i := range group {
		c := &d.route.Candidates[i]
		levels[c.live.deployment] += c.Weight
		sum += c.Weight
		if best < 0 || levels[c.live.deployment] > levels[d.route.Candidates[best].live.deployment] {
			best = i
		}
	}
	levels[d.route.Candidates[best].live.deployment] -= sum
	return best
}

// pickLeast takes the one with the fewest open requests for its weight; of
// several the one that has not been chosen for longest.
func (d *Dispatch) pickLeast(group []int) int {
	best := group[0]
	for _, i := range group[1:] {
		a, b := &d.route.Candidates[i], &d.route.Candidates[best]
		l, r := a.live.deployment.outstanding*b.Weight, b.live.deployment.outstanding*a.Weight
		if l < r || l == r && a.live.deployment.picked < b.live.deployment.picked {
			best = i
		}
	}
	return best
}

// maxShare bounds the load that one prefix can draw to a replica: so many times
// the average (Mirrokni, Thorup, Zadimoghaddam: consistent hashing with bounded
// loads).
const maxShare = 1.25

// pickPrefix is weighted rendezvous hashing: each candidate draws a number from
// the prefix and its own name, the best one wins. A candidate that has more than
// its share of the open requests is passed over for the next best.
func (d *Dispatch) pickPrefix(group []int) int {
	open, weights := 1, 0
	for _, i := range group {
		c := &d.route.Candidates[i]
		open += c.live.deployment.outstanding
		weights += c.Weight
	}
	best, low := group[0], math.Inf(1)
	for _, i := range group {
		c := &d.route.Candidates[i]
		room := math.Ceil(maxShare * float64(open) * float64(c.Weight) / float64(weights))
		if float64(c.live.deployment.outstanding) >= room {
			continue
		}
		draw := (float64(mix(d.req.Prefix^c.live.deployment.hash)>>11) + 0.5) / (1 << 53)
		if score := -math.Log(draw) / float64(c.Weight); score < low {
			best, low = i, score
		}
	}
	return best
}

// mix is the finalizer of SplitMix64: every bit of the result depends on every
// bit of x.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
