package main

import "fmt"

// cost is what one launch does, by the interpreter's counters. They are floats
// because large grids are extrapolated.
type cost struct {
	Warp    float64 `json:"warp"`    // warp instructions of PTX
	Half    float64 `json:"half"`    // floating-point operations by mma on bf16 or f16
	Int8    float64 `json:"int8"`    // integer operations by mma on int8
	Unique  float64 `json:"unique"`  // bytes of distinct 32-byte sectors of global memory
	Sectors float64 `json:"sectors"` // sectors asked for
	Ideal   float64 `json:"ideal"`   // the fewest that could hold the same bytes
	Waves   float64 `json:"waves"`   // passes over shared memory
	Least   float64 `json:"least"`   // passes without bank conflicts
}

// fields lists the counters, for arithmetic over all of them.
func (c *cost) fields() []*float64 {
	return []*float64{&c.Warp, &c.Half, &c.Int8, &c.Unique, &c.Sectors, &c.Ideal, &c.Waves, &c.Least}
}

// add adds n times o.
func (c *cost) add(o cost, n float64) {
	to := c.fields()
	for i, v := range o.fields() {
		*to[i] += n * *v
	}
}

// bound names what a floor rests on.
type bound string

const (
	byMemory bound = "memory"
	byIssue  bound = "issue"
	byTensor bound = "tensor"
)

// floor is the least time of a launch on a GPU, in seconds: whichever is largest
// of moving its distinct bytes once, issuing its warp instructions on all
// schedulers of all SMs, and its matrix operations at their peak. It is no
// estimate: latency, launch overhead, an uneven last wave of blocks and all else
// that keeps a real GPU from its peaks are left out.
func floor(c cost, g gpu) (memory, issue, tensor float64) {
	const schedulers = 4 // of an SM; each issues one warp instruction a cycle at most
	return c.Unique / g.bandwidth, c.Warp / (float64(g.sms) * schedulers * g.clock), c.Half/g.half + c.Int8/g.int8
}

// total is the floor of a step: the sum over its launches, which follow each
// other.
type total struct {
	seconds               float64 // sum of each launch's floor
	memory, issue, tensor float64 // sums of each kind alone, in seconds
	bytes, warp           float64
	sectors, ideal        float64
	waves, least          float64
	launches              int
	boundBy               bound
	boundSeconds          float64 // of seconds, in launches bound by boundBy
	secondsOf             map[bound]float64
}

func sum(calls []call, g gpu) (total, error) {
	t := total{secondsOf: map[bound]float64{}}
	for _, c := range calls {
		if c.Times < 1 {
			return t, fmt.Errorf("cannot sum: a launch that happens %d times", c.Times)
		}
		n := float64(c.Times)
		m, i, x := floor(c.cost, g)
		t.memory, t.issue, t.tensor = t.memory+n*m, t.issue+n*i, t.tensor+n*x
		by, most := byMemory, m
		if i > most {
			by, most = byIssue, i
		}
		if x > most {
			by, most = byTensor, x
		}
		t.seconds += n * most
		t.secondsOf[by] += n * most
		t.bytes, t.warp = t.bytes+n*c.cost.Unique, t.warp+n*c.cost.Warp
		t.sectors, t.ideal = t.sectors+n*c.cost.Sectors, t.ideal+n*c.cost.Ideal
		t.waves, t.least = t.waves+n*c.cost.Waves, t.least+n*c.cost.Least
		t.launches += c.Times
	}
	for _, by := range []bound{byMemory, byIssue, byTensor} {
		if t.secondsOf[by] > t.boundSeconds {
			t.boundBy, t.boundSeconds = by, t.secondsOf[by]
		}
	}
	return t, nil
}
