package appliance

import (
	"math/bits"
	"sync"
	"time"
)

// Distributions of latencies are kept a minute at a time, for quantiles over
// five minutes and an hour. Samples are counted in buckets of which sixteen lie
// between a value and its double, so that a quantile is off by 3 % at most and
// the memory does not depend on the load.
const (
	latencyMinutes = 61 // an hour and the minute that runs
	latencyGrain   = 4  // bits below the leading one
	latencyLow     = 17 // shorter than 2^17 ns, an eighth of a millisecond, is one bucket
	latencyHigh    = 43 // 2^43 ns, more than two hours, and longer is another
	latencyBuckets = (latencyHigh-latencyLow)<<latencyGrain + 2
)

// latencyBucket is where d counts.
func latencyBucket(d time.Duration) int {
	n := uint64(max(d, 0))
	top := bits.Len64(n) - 1
	switch {
	case top < latencyLow:
		return 0
	case top >= latencyHigh:
		return latencyBuckets - 1
	}
	return 1 + (top-latencyLow)<<latencyGrain + int(n>>(top-latencyGrain))&(1<<latencyGrain-1)
}

// latencyAt is the middle of bucket i.
func latencyAt(i int) time.Duration {
	switch i {
	case 0:
		return 1 << (latencyLow - 1)
	case latencyBuckets - 1:
		return 1 << latencyHigh
	}
	i--
	top := latencyLow + i>>latencyGrain
	low := 1<<top + i&(1<<latencyGrain-1)<<(top-latencyGrain)
	return time.Duration(low + 1<<(top-latencyGrain)/2)
}

// latencyMinute are the samples of one minute.
type latencyMinute struct {
	minute int64 // since 1970
	counts *[latencyBuckets]uint32
}

// latencies is one quantity over the last hour. It is safe for concurrent use.
type latencies struct {
	mu      sync.Mutex // guards below
	minutes [latencyMinutes]latencyMinute
}

func (l *latencies) add(at time.Time, took time.Duration) {
	minute := at.Unix() / 60
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &l.minutes[minute%latencyMinutes]
	if m.minute != minute || m.counts == nil {
		if m.counts == nil {
			m.counts = new([latencyBuckets]uint32)
		} else {
			*m.counts = [latencyBuckets]uint32{}
		}
		m.minute = minute
	}
	m.counts[latencyBucket(took)]++
}

// latencyQuantiles are those of a window. Times in nanoseconds.
type latencyQuantiles struct {
	Count uint64        `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P95   time.Duration `json:"p95_ns"`
	P99   time.Duration `json:"p99_ns"`
}

// summary gives the quantiles of the samples that are not older than the
// window, in whole minutes.
func (l *latencies) summary(now time.Time, window time.Duration) latencyQuantiles {
	var sum [latencyBuckets]uint64
	out := latencyQuantiles{}
	last := now.Unix() / 60
	first := last - int64(window/time.Minute)
	l.mu.Lock()
	for i := range l.minutes {
		m := &l.minutes[i]
		if m.counts == nil || m.minute < first || m.minute > last {
			continue
		}
		for k, n := range m.counts {
			sum[k] += uint64(n)
			out.Count += uint64(n)
		}
	}
	l.mu.Unlock()
	if out.Count > 0 {
		out.P50, out.P95, out.P99 = rank(&sum, out.Count, 50), rank(&sum, out.Count, 95), rank(&sum, out.Count, 99)
	}
	return out
}

// rank is the smallest value that at least percent of the samples do not exceed
// (nearest rank).
func rank(sum *[latencyBuckets]uint64, count uint64, percent uint64) time.Duration {
	want, seen := (count*percent+99)/100, uint64(0)
	for i, n := range sum {
		if seen += n; seen >= want {
			return latencyAt(i)
		}
	}
	return latencyAt(latencyBuckets - 1)
}

// classLatencies are the quantities of one request class.
type classLatencies struct{ ttft, tpot, e2e latencies }

// Request classes come from the configuration; beyond so many they share one.
const (
	maxLatencyClasses = 8
	defaultClass      = "default"
	otherClass        = "other"
)

// latencyClasses finds the latencies of a class.
type latencyClasses struct {
	all classLatencies

	mu     sync.RWMutex // guards below
	byName map[string]*classLatencies
}

func (l *latencyClasses) of(class string) *classLatencies {
	if class == "" {
		class = defaultClass
	}
	l.mu.RLock()
	c := l.byName[class]
	l.mu.RUnlock()
	if c != nil {
		return c
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName == nil {
		l.byName = map[string]*classLatencies{}
	}
	if len(l.byName) >= maxLatencyClasses {
		class = otherClass
	}
	if c = l.byName[class]; c == nil {
		c = &classLatencies{}
		l.byName[class] = c
	}
	return c
}

// each gives the classes that were seen.
func (l *latencyClasses) each(do func(class string, c *classLatencies)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for name, c := range l.byName {
		do(name, c)
	}
}
