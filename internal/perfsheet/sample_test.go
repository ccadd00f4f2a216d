package main

import (
	"errors"
	"testing"
)

// grid is a kernel in which block i does strips(i) pieces of work, each with bytes
// of its own, and all blocks read the same 2048 bytes.
type grid struct {
	strips func(i int) int
	waves  func(i int) int // passes over shared memory beyond those of strips
	joins  bool
	ran    int         // blocks in all
	times  map[int]int // that block i was run
}

func (g *grid) run(first, end int) (c cost, joined bool, err error) {
	c.Unique = 2048
	for i := first; i < end; i++ {
		n := float64(g.strips(i))
		c.add(cost{Warp: 100, Half: 4096, Unique: 512, Sectors: 80, Ideal: 80, Waves: 10, Least: 10}, n)
		c.add(cost{Warp: 333, Sectors: 64, Ideal: 64}, 1)
		if g.waves != nil {
			c.Waves += float64(g.waves(i))
		}
		g.ran++
		g.times[i]++
	}
	return c, g.joins, nil
}

// Stretches of blocks that cost alike are found, and the sum is that of all
// blocks exactly, though few ran.
func TestMeasureSamples(t *testing.T) {
	for what, c := range map[string]struct {
		blocks, most int
		strips       func(i int) int
	}{
		"all alike":                     {1000, 12, func(int) int { return 7 }},
		"the first have one more":       {132, 40, func(i int) int { return 8 - i/90 }},
		"the last has less":             {400, 40, func(i int) int { return 8 - i/399*5 }},
		"three weights":                 {264, 60, func(i int) int { return []int{12, 3, 5}[i/100] }},
		"a weight and one block of it":  {300, 50, func(i int) int { return 4 + (i+1)/300*9 }},
		"one more strip of two hundred": {132, 40, func(i int) int { return 201 - i/66 }},
	} {
		g := &grid{strips: c.strips, times: map[int]int{}}
		got, whole, err := measure(c.blocks, g.run)
		ran := g.ran
		want, _, _ := g.run(0, c.blocks)
		near := got == want || what == "one more strip of two hundred" && got.Warp > 0.995*want.Warp && got.Warp < 1.005*want.Warp
		if err != nil || whole || !near {
			t.Errorf("%s: got %+v, whole %v, %v, wanted %+v", what, got, whole, err, want)
		}
		if ran > c.most {
			t.Errorf("%s: ran %d blocks of %d, wanted at most %d", what, ran, c.blocks, c.most)
		}
	}
}

// A grid that is small or has no stretches is run whole, and one whose blocks
// count each other's arrival is first brought to its end.
func TestMeasureRunsWhole(t *testing.T) {
	for what, c := range map[string]struct {
		blocks int
		g      grid
	}{
		"small":               {few, grid{strips: func(int) int { return 3 }}},
		"no block like next":  {200, grid{strips: func(i int) int { return 1 + i }}},
		"conflicts by turns":  {200, grid{strips: func(int) int { return 1 }, waves: func(i int) int { return i * i }}},
		"blocks await others": {200, grid{strips: func(int) int { return 1 }, joins: true}},
	} {
		c.g.times = map[int]int{}
		got, whole, err := measure(c.blocks, c.g.run)
		for i := range c.blocks {
			if c.g.joins && c.g.times[i] != 2 {
				t.Fatalf("%s: block %d ran %d times, wanted once for the count and once to be counted", what, i, c.g.times[i])
			}
		}
		if want, _, _ := c.g.run(0, c.blocks); err != nil || !whole || got != want {
			t.Errorf("%s: got %+v, whole %v, %v, wanted %+v", what, got, whole, err, want)
		}
	}
	bad := errors.New("no")
	if _, _, err := measure(500, func(int, int) (cost, bool, error) { return cost{}, false, bad }); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
}
