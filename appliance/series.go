package appliance

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"hearth/engine/infer"
)

// Charts are drawn from samples that are taken here, every few seconds for the
// last hour and averaged for the last day. Their memory is bounded: each series
// has as many points as its ranges, and there are at most maxSeries.
const (
	fineEvery   = 5 * time.Second
	finePoints  = int(time.Hour / fineEvery)
	coarseEvery = 2 * time.Minute
	coarseEach  = int(coarseEvery / fineEvery) // fine samples in a coarse one
	coarseSpan  = 24 * time.Hour
	coarsePoint = int(coarseSpan / coarseEvery)
	maxSeries   = 160
)

// seriesInfo describes one series.
type seriesInfo struct {
	Name  string `json:"name"`
	Label string `json:"label"` // for people
	Unit  string `json:"unit"`  // "1/s", "tokens/s", "ratio", "ms", "usd/h", "usd", "celsius", "watts", "bytes", ""
}

// points is a ring of samples; the sample of tick t stands at t modulo its
// length. NaN is a sample that is missing.
type points struct {
	seriesInfo
	fine, coarse []float32
	sum          float64 // of the coarse sample that is being made
	n            int
}

// series is all samples. It is safe for concurrent use.
type series struct {
	mu     sync.RWMutex // guards below
	list   map[string]*points
	tick   int64 // of the last fine sample, in fineEvery since 1970; 0: none
	coarse int64
	last   sample
}

// sample is what the next one is compared with.
type sample struct {
	at                                 time.Time
	requests, failed, refused, in, out uint64
	repeated, repeatedWell             uint64
	nano                               int64
	models                             map[string]infer.Stats
}

func newSeries() *series { return &series{list: map[string]*points{}} }

// openSeries starts sampling.
func (a *Appliance) openSeries(context.Context) error {
	a.series = newSeries()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(fineEvery)
		defer tick.Stop()
		a.sample(ctx)
		for {
			select {
			case <-tick.C:
				a.sample(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	a.onClose(func() error { stop(); <-done; return nil })
	return nil
}

// before is the sample that the next one is compared with.
func (s *series) before() sample {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last
}

// value is one sample of a series.
type value struct {
	seriesInfo
	v float64
}

// sample takes one of everything.
func (a *Appliance) sample(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, fineEvery/2)
	defer cancel()
	now, s := a.now(), &a.telemetry.sums
	next := sample{
		at: now, requests: s.requests.Load(), failed: s.failed.Load(), refused: s.refused.Load(),
		in: s.input.Load(), out: s.output.Load(), nano: s.nano.Load(), repeated: s.repeated.Load(), repeatedWell: s.repeatedWell.Load(),
		models: map[string]infer.Stats{},
	}
	states := a.models.states(ctx)
	values := a.loadValues(states)
	values = append(values, a.latencyValues(now)...)
	for _, d := range a.devicesOf(states) {
		values = append(values, deviceValues(&d)...)
	}
	last := a.series.before()
	for i := range states {
		next.models[states[i].info.Name] = states[i].health.Stats
	}
	if !last.at.IsZero() {
		values = append(values, rates(&last, &next)...)
	}
	a.series.add(now, values, next)
}

// loadValues are the gauges.
func (a *Appliance) loadValues(states []modelState) []value {
	running, waiting, use := 0, 0, math.NaN()
	var out []value
	for i := range states {
		name, s := states[i].info.Name, &states[i].health.Stats
		running, waiting = running+s.Running, waiting+s.Waiting
		if s.BlocksTotal > 0 {
			u := float64(s.BlocksUsed) / float64(s.BlocksTotal)
			use = max(u, orZero(use))
			out = append(out, value{seriesInfo{"model." + name + ".kv_use", name + ": KV in use", "ratio"}, u})
		}
		out = append(out,
			value{seriesInfo{"model." + name + ".running", name + ": running", ""}, float64(s.Running)},
			value{seriesInfo{"model." + name + ".waiting", name + ": waiting", ""}, float64(s.Waiting)})
	}
	held := a.store.Stats().HeldNano
	return append(out,
		value{seriesInfo{"open", "Requests open", ""}, float64(a.open.Load())},
		value{seriesInfo{"running", "Sequences running", ""}, float64(running)},
		value{seriesInfo{"waiting", "Requests waiting", ""}, float64(waiting)},
		value{seriesInfo{"kv_use", "KV in use (the fullest model)", "ratio"}, use},
		value{seriesInfo{"held", "Held", "usd"}, float64(held) / 1e9})
}

func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// latencyValues are quantiles of the last minute or two.
func (a *Appliance) latencyValues(now time.Time) []value {
	var out []value
	for _, q := range []struct {
		name, label string
		l           *latencies
	}{
		{"ttft", "Time to first token", &a.telemetry.latency.all.ttft},
		{"tpot", "Time per output token", &a.telemetry.latency.all.tpot},
		{"e2e", "Time to the end", &a.telemetry.latency.all.e2e},
	} {
		s := q.l.summary(now, time.Minute)
		if s.Count == 0 {
			continue
		}
		for i, d := range [...]time.Duration{s.P50, s.P95, s.P99} {
			p := [...]string{"p50", "p95", "p99"}[i]
			out = append(out, value{seriesInfo{q.name + "_" + p, q.label + ", " + p, "ms"}, float64(d) / 1e6})
		}
	}
	return out
}

// rates are what counters did between two samples.
func rates(last, next *sample) []value {
	span := next.at.Sub(last.at)
	per := func(name, label, unit string, before, after uint64) value {
		return value{seriesInfo{name, label, unit}, perSecond(before, after, span)}
	}
	out := []value{
		per("requests", "Requests", "1/s", last.requests, next.requests),
		per("errors", "Errors", "1/s", last.failed, next.failed),
		per("refused", "Refused", "1/s", last.refused, next.refused),
		per("tokens_in", "Tokens in", "tokens/s", last.in, next.in),
		per("tokens_out", "Tokens out", "tokens/s", last.out, next.out),
	}
	if span > 0 {
		out = append(out, value{seriesInfo{"spend", "Spend", "usd/h"}, float64(max(0, next.nano-last.nano)) / 1e9 / span.Hours()})
	}
	if n := next.repeated - last.repeated; n > 0 && next.repeated > last.repeated {
		out = append(out, value{seriesInfo{"fallback_success", "Repeated requests that succeeded", "ratio"}, float64(next.repeatedWell-last.repeatedWell) / float64(n)})
	}
	for name, s := range next.models {
		if before, ok := last.models[name]; ok {
			out = append(out, per("model."+name+".tokens_out", name+": tokens out", "tokens/s", before.OutputTokens, s.OutputTokens))
		}
	}
	return out
}

// deviceValues are the readings of a device that charts show.
func deviceValues(d *infer.Device) []value {
	var out []value
	for _, r := range []struct{ reading, name, label, unit string }{
		{infer.ReadTemperature, "temperature", "temperature", "celsius"},
		{infer.ReadPower, "power", "power", "watts"},
		{infer.ReadMemoryUsed, "memory", "memory in use", "bytes"},
		{infer.ReadUtilization, "utilization", "utilization", "ratio"},
	} {
		if v, ok := d.Read(r.reading); ok {
			out = append(out, value{seriesInfo{"device." + d.ID + "." + r.name, d.ID + ": " + r.label, r.unit}, v})
		}
	}
	return out
}

// add stores the samples of a moment. What is not among them is missing then.
func (s *series) add(at time.Time, values []value, next sample) {
	tick := at.UnixNano() / int64(fineEvery)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = next
	if tick <= s.tick {
		return // the clock went back, or two samples in one tick
	}
	for t := max(s.tick+1, tick-int64(finePoints)+1); t <= tick; t++ {
		for _, p := range s.list {
			p.fine[t%int64(finePoints)] = float32(math.NaN())
		}
	}
	s.tick = tick
	s.closeCoarse(tick / int64(coarseEach))
	for _, v := range values {
		p := s.list[v.Name]
		if p == nil {
			if len(s.list) >= maxSeries {
				continue
			}
			p = &points{seriesInfo: v.seriesInfo, fine: missing(finePoints), coarse: missing(coarsePoint)}
			s.list[v.Name] = p
		}
		p.fine[tick%int64(finePoints)] = float32(v.v)
		if !math.IsNaN(v.v) {
			p.sum, p.n = p.sum+v.v, p.n+1
		}
	}
}

// closeCoarse writes the means of the coarse sample that has ended.
func (s *series) closeCoarse(now int64) {
	if now == s.coarse {
		return
	}
	for _, p := range s.list {
		for t := max(s.coarse, now-int64(coarsePoint)+1); t <= now; t++ {
			p.coarse[t%int64(coarsePoint)] = float32(math.NaN())
		}
		if p.n > 0 && now-s.coarse < int64(coarsePoint) {
			p.coarse[s.coarse%int64(coarsePoint)] = float32(p.sum / float64(p.n))
		}
		p.sum, p.n = 0, 0
	}
	s.coarse = now
}

func missing(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(math.NaN())
	}
	return out
}

// chart is the points of a series, oldest first, null where one is missing.
type chart struct {
	seriesInfo
	Points []*float32 `json:"points"`
}

// read gives the series with these names, or all, over the last hour or day, as
// at most so many points, each the mean of neighbours; 0: every sample. step is
// the time between two points, end when the last sample was taken.
func (s *series) read(names []string, day bool, most int) (out []chart, step time.Duration, end time.Time) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	step, n, last := fineEvery, finePoints, s.tick
	if day {
		step, n, last = coarseEvery, coarsePoint, s.coarse-1 // the running one is not whole
	}
	end = time.Unix(0, last*int64(step)).UTC()
	each := 1
	if most > 0 {
		each = max(1, (n+most-1)/most)
	}
	if len(names) == 0 {
		for name := range s.list {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	for _, name := range names {
		p := s.list[name]
		if p == nil {
			continue
		}
		ring := p.fine
		if day {
			ring = p.coarse
		}
		out = append(out, chart{p.seriesInfo, thinned(ring, last, int64(each))})
	}
	return out, step * time.Duration(each), end
}

// thinned is the means of so many samples of a ring each, up to the sample of
// tick last. Which samples share a mean does not change while time goes on.
func thinned(ring []float32, last, each int64) []*float32 {
	n := int64(len(ring))
	out := make([]*float32, n/each)
	values := make([]float32, n/each)
	first := last/each - n/each + 1 // means are counted as samples are
	for i := range out {
		sum, have := 0.0, 0
		from := (first + int64(i)) * each
		for t := max(1, last-n+1, from); t <= min(last, from+each-1); t++ {
			if v := float64(ring[t%n]); !math.IsNaN(v) && !math.IsInf(v, 0) {
				sum, have = sum+v, have+1
			}
		}
		if have > 0 {
			values[i] = float32(sum / float64(have))
			out[i] = &values[i]
		}
	}
	return out
}

// mean of a series over the last while; 0 where there is no sample.
func (s *series) mean(name string, span time.Duration) float64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := s.list[name]
	if p == nil {
		return 0
	}
	sum, n := 0.0, 0
	for t := s.tick; t > max(0, s.tick-int64(min(span/fineEvery, time.Duration(finePoints)))); t-- {
		if v := float64(p.fine[t%int64(finePoints)]); !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}
