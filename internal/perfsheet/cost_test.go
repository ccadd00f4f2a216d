package main

import (
	"math"
	"testing"
)

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
