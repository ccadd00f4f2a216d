package cpu

import (
	"sync/atomic"
	"testing"
	"time"
)

// Every thread passes each barrier only after all have reached it, whatever the
// number of threads of a run.
func TestPool(t *testing.T) {
	p := newPool(3)
	defer p.stop()
	for round := range 300 {
		n := 1 + round%3
		var before, after atomic.Int32
		p.run(n, func(th int) {
			for i := range 5 {
				before.Add(1)
				p.turn.wait()
				if got := int(before.Load()); got != n*(i+1) {
					t.Errorf("thread %d passed barrier %d after %d of %d arrivals", th, i, got, n*(i+1))
				}
				p.turn.wait()
			}
			after.Add(1)
		})
		if int(after.Load()) != n {
			t.Fatalf("run returned after %d of %d threads", after.Load(), n)
		}
	}
}

func TestCrew(t *testing.T) {
	c := newCrew(8)
	const step = 9 * time.Millisecond
	c.report(1, step, 8*step/crewShare)
	if c.size(1) != 8 {
		t.Fatal("a step that was not bad made the crew smaller")
	}
	bad := func() { c.report(1, step, time.Duration(c.now)*step/crewShare+1) }
	for range 100 {
		bad()
		c.report(1, step, 0)
	}
	if c.size(1) != 8 {
		t.Fatal("a bad step now and then made the crew smaller")
	}
	for range 3 * crewBad {
		bad()
	}
	if c.size(1) != 1 || c.size(crewRows+1) != 8 {
		t.Fatalf("after three times %d bad steps: %d and %d threads, want 1 and 8", crewBad, c.size(1), c.size(crewRows+1))
	}
	steps := 0
	for c.size(1) < 8 {
		c.report(1, step, 0)
		if steps++; steps > 10*crewMaxPenalty {
			t.Fatal("the crew does not grow again")
		}
	}
	c.report(crewRows+1, step, 100*step)
	if c.size(1) != 8 {
		t.Fatal("a large step changed the crew")
	}
}
