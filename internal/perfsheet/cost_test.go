package main

import (
	"errors"
	"math"
	"testing"
)

// fake is a kernel whose blocks all cost the same, and share what they read.
func fake(e extent) (cost, error) {
	n := e.blocks()
	return cost{Warp: 100 * n, Half: 4096 * n, Unique: 512*n + 2048, Sectors: 80 * n, Ideal: 80 * n, Waves: 10 * n, Least: 10 * n}, nil
}

// A sample of a uniform grid gives exactly the cost of the whole, whichever side
// is long, and what all blocks share is counted once.
func TestMeasureExtrapolates(t *testing.T) {
	for _, grid := range []extent{{1000, 1, 1}, {3, 77, 2}, {1, 2, 48}} {
		most := 0.0
		got, whole, err := measure(grid, func(e extent) (cost, error) {
			most = max(most, e.blocks())
			return fake(e)
		})
		want, _ := fake(grid)
		if err != nil || whole || got != want {
			t.Errorf("%v: got %+v, %v, %v, wanted %+v", grid, got, whole, err, want)
		}
		if most >= grid.blocks() {
			t.Errorf("%v: ran %v blocks", grid, most)
		}
	}
}

// A grid that is small or not uniform is run whole.
func TestMeasureRunsWhole(t *testing.T) {
	for what, c := range map[string]struct {
		grid extent
		run  func(extent) (cost, error)
	}{
		"small": {extent{4*sample - 1, 1, 1}, fake},
		"later blocks do more": {extent{200, 1, 1}, func(e extent) (cost, error) {
			n := e.blocks()
			return cost{Warp: n * n}, nil
		}},
		"later blocks do nothing": {extent{200, 1, 1}, func(e extent) (cost, error) {
			return cost{Warp: min(e.blocks(), 20)}, nil
		}},
		"bank conflicts in later blocks": {extent{200, 1, 1}, func(e extent) (cost, error) {
			c, _ := fake(e)
			c.Waves += max(0, e.blocks()-sample)
			return c, nil
		}},
	} {
		got, whole, err := measure(c.grid, c.run)
		if want, _ := c.run(c.grid); err != nil || !whole || got != want {
			t.Errorf("%s: got %+v, whole %v, %v, wanted %+v", what, got, whole, err, want)
		}
	}
	bad := errors.New("no")
	if _, _, err := measure(extent{5, 1, 1}, func(extent) (cost, error) { return cost{}, bad }); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
}

// By hand: 1 MB at 1 GB/s is 1 ms; 8 M instructions on 2 SMs × 4 at 1 GHz are
// 1 ms; 3 G operations at 1 T/s are 3 ms.
func TestFloor(t *testing.T) {
	g := gpu{sms: 2, bandwidth: 1e9, clock: 1e9, half: 1e12, int8: 2e12}
	m, i, x := floor(cost{Unique: 1e6, Warp: 8e6, Half: 2e9, Int8: 2e9}, g)
	for what, pair := range map[string][2]float64{"memory": {m, 1e-3}, "issue": {i, 1e-3}, "tensor": {x, 3e-3}} {
		if math.Abs(pair[0]-pair[1]) > 1e-12 {
			t.Errorf("%s: got %g, wanted %g", what, pair[0], pair[1])
		}
	}
	got, err := sum([]call{
		{Times: 2, cost: cost{Unique: 1e6, Warp: 4e6}},  // 1 ms, memory
		{Times: 1, cost: cost{Unique: 1e3, Warp: 24e6}}, // 3 ms, issue
	}, g)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(got.seconds-5e-3) > 1e-12 || got.boundBy != byIssue || got.launches != 3 || math.Abs(got.memory-2.001e-3) > 1e-12 || math.Abs(got.issue-4e-3) > 1e-12 {
		t.Errorf("got %+v", got)
	}
	if _, err := sum([]call{{Times: 0}}, g); err == nil {
		t.Error("a launch that never happens was accepted")
	}
}
