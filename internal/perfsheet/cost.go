package main

import (
	"fmt"
	"math"
)

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

// extent is a grid, in blocks.
type extent [3]uint32

func (e extent) blocks() float64 { return float64(e[0]) * float64(e[1]) * float64(e[2]) }

// sample is the number of blocks along the longest side of a grid that is run
// where it has at least four times as many.
const sample = 12

// tolerance is how far the cost of the second half of a sample may lie from that
// of the first, for the rest of the grid to be taken alike.
const tolerance = 0.01

// measure finds the cost of a launch by run, which runs it with a smaller grid.
// A large grid is not run whole: its first blocks are, then twice as many, and if
// the second half costs what the first does, so does every further one. What all
// blocks share (they read the same x) is counted once, as it is in the first
// half. Otherwise, and where the grid is small, all of it is run. whole says
// which it was.
func measure(grid extent, run func(extent) (cost, error)) (total cost, whole bool, err error) {
	long := 0
	for i := range grid {
		if grid[i] > grid[long] {
			long = i
		}
	}
	if grid[long] >= 4*sample {
		part := grid
		part[long] = sample
		one, err := run(part)
		if err != nil {
			return cost{}, false, err
		}
		part[long] = 2 * sample
		two, err := run(part)
		if err != nil {
			return cost{}, false, err
		}
		if alike(one, two) {
			more := (float64(grid[long]) - 2*sample) / sample
			total = two
			total.add(two, more)
			total.add(one, -more)
			for _, v := range total.fields() {
				*v = math.Round(*v) // they are counts
			}
			return total, false, nil
		}
	}
	total, err = run(grid)
	return total, true, err
}

// alike tells that the second half of two costs what one, its first half, does.
// Distinct bytes may grow by less, since blocks share some; they may not shrink.
func alike(one, two cost) bool {
	b := two.fields()
	for i, first := range one.fields() {
		second, slack := *b[i]-*first, tolerance**first
		if second > *first+slack || second < 0 || second < *first-slack && first != &one.Unique {
			return false
		}
	}
	return true
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
