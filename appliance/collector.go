package appliance

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// The collector runs when the heap has grown by so many percent of what is
// alive. A gateway has a few megabytes alive and makes tens of kilobytes a
// request, so that at the usual hundred percent it would collect every few dozen
// requests, for an eighth of all CPU time. What counts is the memory that may be
// used between two collections; the percentage follows from it.

const (
	// heapRoom is how much may be made between two collections, at most, where
	// little is alive.
	heapRoom = 24 << 20
	// heapGoal is what heap and stacks together should stay below: with the pages
	// of the program, and with a thousand streams open, that is 100 MB.
	heapGoal = 72 << 20
	// leastShare of what is alive may be made in any case.
	leastShare = 1. / 10
	maxPercent = 500
)

// heapPercent is the percentage that gives as much room as there should be where
// so many bytes are alive or scanned.
func heapPercent(live uint64) int {
	l := float64(max(live, 1))
	room := max(min(heapGoal-l, heapRoom), l*leastShare)
	return int(min(100*room/l, maxPercent))
}

// collector adjusts the collector's percentage after each of its runs.
type collector struct {
	mu      sync.Mutex // guards below
	samples []metrics.Sample
	percent int
	stopped bool
}

// tuneCollector begins to adjust; stop ends it and restores the percentage.
func tuneCollector() (stop func()) {
	c := &collector{samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}}
	before := debug.SetGCPercent(100)
	c.percent = 100
	c.adjust()
	c.watch()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stopped = true
		debug.SetGCPercent(before)
	}
}

// watch has adjust called after the next run, by way of a finalizer: an object
// that nobody holds is found by every run.
func (c *collector) watch() {
	type sentinel struct{ c *collector }
	runtime.SetFinalizer(&sentinel{c}, func(s *sentinel) {
		if s.c.adjust() {
			s.c.watch()
		}
	})
}

// adjust changes the percentage if it is off by more than an eighth: to set it
// stops the world for a moment. It returns false if that is over.
func (c *collector) adjust() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return false
	}
	metrics.Read(c.samples)
	live := uint64(0)
	for i := range c.samples {
		if v := c.samples[i].Value; v.Kind() == metrics.KindUint64 {
			live += v.Uint64()
		}
	}
	want := heapPercent(live)
	if d := want - c.percent; d*8 > c.percent || -d*8 > c.percent {
		c.percent = want
		debug.SetGCPercent(want)
	}
	return true
}
