package appliance

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hearth/engine/infer"
)

func TestLatencyBuckets(t *testing.T) {
	for d := time.Microsecond; d < 3*time.Hour; d += d/7 + 1 {
		got := latencyAt(latencyBucket(d))
		if d > 200*time.Microsecond && d < 2*time.Hour && math.Abs(float64(got-d)) > 0.033*float64(d) {
			t.Fatalf("%s is told as %s", d, got)
		}
	}
	for _, d := range []time.Duration{-1, 0, math.MaxInt64} {
		if i := latencyBucket(d); i < 0 || i >= latencyBuckets {
			t.Errorf("%d is in bucket %d", d, i)
		}
	}
}

func TestLatencyWindows(t *testing.T) {
	var l latencies
	now := time.Unix(1_000_000_020, 0)
	for i := range 100 {
		l.add(now.Add(-30*time.Minute), time.Duration(i+1)*time.Second)
		l.add(now, time.Duration(i+1)*time.Millisecond)
	}
	near := func(got, want time.Duration) bool { return math.Abs(float64(got-want)) < 0.04*float64(want) }
	if s := l.summary(now, 5*time.Minute); s.Count != 100 || !near(s.P50, 50*time.Millisecond) || !near(s.P99, 99*time.Millisecond) {
		t.Errorf("five minutes: %+v", s)
	}
	if s := l.summary(now, time.Hour); s.Count != 200 || !near(s.P95, 90*time.Second) {
		t.Errorf("an hour: %+v", s)
	}
	if s := l.summary(now.Add(2*time.Hour), time.Hour); s.Count != 0 {
		t.Errorf("two hours later: %+v", s)
	}
	l.add(now.Add(61*time.Minute), time.Second) // the same place in the ring as now
	if s := l.summary(now.Add(61*time.Minute), time.Minute); s.Count != 1 {
		t.Errorf("a minute that is used again: %+v", s)
	}
	var classes latencyClasses
	for i := range 20 {
		classes.of(string(rune('a'+i))).e2e.add(now, time.Second)
	}
	if n := len(classes.byName); n != maxLatencyClasses+1 {
		t.Errorf("%d classes have their own", n)
	}
}

func TestSeries(t *testing.T) {
	s := newSeries()
	at := time.Unix(1_700_000_000, 0)
	info := seriesInfo{"x", "x", ""}
	for i := range 100 {
		s.add(at.Add(time.Duration(i)*fineEvery), []value{{info, float64(i)}}, sample{})
	}
	s.add(at.Add(102*fineEvery), []value{{info, 102}}, sample{}) // two are missing
	out, step, end := s.read([]string{"x", "nothing"}, false, 0)
	if len(out) != 1 || step != fineEvery || !end.Equal(at.Add(102*fineEvery)) || len(out[0].Points) != finePoints {
		t.Fatalf("%d series, %s, %s", len(out), step, end)
	}
	p := out[0].Points
	n := len(p)
	if *p[n-1] != 102 || p[n-2] != nil || p[n-3] != nil || *p[n-4] != 99 || p[n-104] != nil || *p[n-103] != 0 {
		t.Errorf("the points are shifted: %v %v %v", p[n-1], p[n-2], p[n-4])
	}
	few, step, end := s.read([]string{"x"}, false, 180)
	if len(few[0].Points) != 180 || step != 4*fineEvery || !end.Equal(at.Add(102*fineEvery)) {
		t.Errorf("%d points of %s up to %s", len(few[0].Points), step, end)
	}
	// The samples of a mean are those of the same tick divided by four.
	sum, have, first := 0., 0., (at.UnixNano()/int64(fineEvery)+102)/4*4-at.UnixNano()/int64(fineEvery)
	for i := first; i <= 102; i++ {
		if i != 100 && i != 101 {
			sum, have = sum+float64(i), have+1
		}
	}
	if got := *few[0].Points[179]; math.Abs(float64(got)-sum/have) > 1e-4 {
		t.Errorf("the last mean is %v, wanted %v", got, sum/have)
	}
	day, step, _ := s.read(nil, true, 0)
	if len(day) != 1 || step != coarseEvery {
		t.Fatalf("%d series a day, %s", len(day), step)
	}
	last := day[0].Points[coarsePoint-1]
	if last == nil || math.Mod(float64(*last)*2, 1) != 0 {
		t.Errorf("the last coarse point is %v", last)
	}
	if m := s.mean("x", 25*time.Second); m != (102+99+98)/3. {
		t.Errorf("the mean is %v", m)
	}
	for i := range 2 * maxSeries {
		s.add(at.Add(time.Duration(200+i)*fineEvery), []value{{seriesInfo{Name: string(rune('a' + i))}, 1}}, sample{})
	}
	if len(s.list) != maxSeries {
		t.Errorf("%d series are kept", len(s.list))
	}
}

// What the page's overview is made of adds up after a few requests.
func TestOverviewAndSeries(t *testing.T) {
	b := newTestbed(t)
	b.fake.generate = words(3)
	for range 4 {
		if _, _, err := b.ask(context.Background(), "m", 0); err != nil {
			t.Fatal(err)
		}
	}
	_, _, _ = b.ask(context.Background(), "nothing", 0)
	b.sample(context.Background())
	c := &control{store: b.store, server: b.Appliance}
	o, err := opOverview.run(context.Background(), c, tenantQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if !o.Ready || len(o.Models) != 1 || !o.Models[0].Ready || o.Totals.Requests != 5 || o.Totals.Refused != 1 || o.Totals.TokensOut != 12 || len(o.Parts) != 5 {
		t.Errorf("got %+v", o)
	}
	if len(o.Denied) != 1 || o.Denied[0].Name != string(infer.CodeModelNotFound) || o.CostPerRequestNano <= 0 {
		t.Errorf("denied %+v, a request costs %d", o.Denied, o.CostPerRequestNano)
	}
	if len(o.Spend) != 1 || o.Spend[0].SpentNano != o.Totals.Nano || o.Spend[0].CapNano != 1e9 {
		t.Errorf("spend %+v, in all %d", o.Spend, o.Totals.Nano)
	}
	if len(o.Latency) != 6 || o.Latency[2].Class != "all" || o.Latency[2].Five.Count != 4 || o.Latency[3].Class != "default" {
		t.Errorf("latency %+v", o.Latency)
	}
	if len(o.Devices) != 1 || o.Devices[0].Readings[infer.ReadMemoryTotal] <= 0 {
		t.Errorf("devices %+v", o.Devices)
	}
	own, err := opOverview.run(context.Background(), c, tenantQuery{Tenant: "other"})
	if err != nil || len(own.Spend) != 0 || len(own.Devices) != 0 || own.Totals.Requests != 0 || len(own.Latency) != 0 {
		t.Errorf("another tenant sees %+v, %v", own, err)
	}
	s, err := opSeries.run(context.Background(), c, seriesQuery{Names: []string{"open", "kv_use", "running"}})
	if err != nil || len(s.Series) != 3 && len(s.Series) != 2 {
		t.Errorf("series %+v, %v", s, err)
	}
	if _, err := opSeries.run(context.Background(), c, seriesQuery{Range: "1y"}); err == nil {
		t.Error("a year of points is promised")
	}
}

// The kernel's files are read as they are, and what is not there is not told.
func TestCPUReader(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &cpuReader{root: root}
	now := time.Unix(1_700_000_000, 0)
	if d := r.read(now); len(d.Readings) != 0 {
		t.Errorf("without files: %+v", d)
	}
	put("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\n")
	put("proc/stat", "cpu  100 0 0 100 0 0 0 0 0 0\ncpu0 1\n")
	put("proc/cpuinfo", "processor : 0\nmodel name : A CPU\n")
	put("sys/class/hwmon/hwmon0/name", "nvme\n")
	put("sys/class/hwmon/hwmon0/temp1_input", "90000\n")
	put("sys/class/hwmon/hwmon1/name", "k10temp\n")
	put("sys/class/hwmon/hwmon1/temp1_input", "51500\n")
	put("sys/class/hwmon/hwmon1/temp2_input", "61500\n")
	put("sys/class/powercap/intel-rapl:0/energy_uj", "1000000\n")
	put("sys/class/powercap/intel-rapl:0:0/energy_uj", "9\n")
	put("sys/devices/system/cpu/cpu0/topology/physical_package_id", "0")
	put("sys/devices/system/cpu/cpu1/topology/physical_package_id", "0")
	put("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "7")
	put("sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "7")
	r = &cpuReader{root: root}
	r.read(now)
	put("proc/stat", "cpu  130 0 0 110 0 0 0 0 0 0\n")
	put("sys/class/powercap/intel-rapl:0/energy_uj", "21000000\n")
	d := r.read(now.Add(2 * time.Second))
	want := map[string]float64{infer.ReadTemperature: 61.5, infer.ReadPower: 10, infer.ReadMemoryUsed: 600 << 10, infer.ReadMemoryTotal: 1000 << 10,
		infer.ReadUtilization: 0.75, infer.ReadThrottles: 7}
	if len(d.Readings) != len(want) || d.Name != "A CPU" {
		t.Errorf("got %+v", d)
	}
	for name, v := range want {
		if got, ok := d.Read(name); !ok || math.Abs(got-v) > 1e-9 {
			t.Errorf("%s is %v, wanted %v", name, got, v)
		}
	}
}

func TestForecast(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	end := start.Add(24 * time.Hour)
	for _, c := range []struct {
		gone time.Duration
		want int64
	}{{time.Minute, 0}, {6 * time.Hour, 400}, {24 * time.Hour, 100}, {30 * time.Hour, 100}} {
		if got := forecast(100, start, end, start.Add(c.gone)); got != c.want {
			t.Errorf("after %s: %d, wanted %d", c.gone, got, c.want)
		}
	}
	if forecast(100, time.Time{}, time.Time{}, start) != 0 {
		t.Error("a window without an end is forecast")
	}
}
