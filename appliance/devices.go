package appliance

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"hearth/engine/infer"
)

// The processor is read here, in the server: a worker's sandbox keeps it from
// the files that tell of it. Figures come from the kernel's own files and are
// left out where it has none; a virtual machine often has no temperature.

// cpuReader reads the processor of this machine. It is safe for concurrent use.
type cpuReader struct {
	root string // "/" but in tests

	mu     sync.Mutex // guards below
	at     time.Time
	last   infer.Device
	name   string
	busy   uint64 // jiffies, at the reading before
	all    uint64
	joules uint64 // microjoules of the packages
	power  time.Time
}

// cpuReadEvery is how old a reading may be: many ask, and the files are many.
const cpuReadEvery = time.Second

func newCPUReader() *cpuReader { return &cpuReader{root: "/"} }

// read gives the processor as it is now.
func (r *cpuReader) read(now time.Time) infer.Device {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && now.Sub(r.at) < cpuReadEvery && !now.Before(r.at) {
		return r.last
	}
	if r.name == "" {
		r.name = r.model()
	}
	d := infer.Device{ID: "cpu", Kind: "cpu", Name: r.name}
	add := func(name string, v float64, ok bool) {
		if ok {
			d.Readings = append(d.Readings, infer.Reading{Name: name, Value: v})
		}
	}
	v, ok := r.temperature()
	add(infer.ReadTemperature, v, ok)
	v, ok = r.watts(now)
	add(infer.ReadPower, v, ok)
	total, free, ok := r.memory()
	add(infer.ReadMemoryUsed, float64(total-min(free, total)), ok)
	add(infer.ReadMemoryTotal, float64(total), ok)
	v, ok = r.utilization()
	add(infer.ReadUtilization, v, ok)
	v, ok = r.number("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
	add(infer.ReadClock, v*1000, ok)
	v, ok = r.throttles()
	add(infer.ReadThrottles, v, ok)
	r.at, r.last = now, d
	return d
}

func (r *cpuReader) path(name string) string { return filepath.Join(r.root, name) }

// number reads a file that holds one number.
func (r *cpuReader) number(name string) (float64, bool) {
	b, err := os.ReadFile(r.path(name))
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	return v, err == nil
}

func (r *cpuReader) glob(pattern string) []string {
	list, _ := filepath.Glob(r.path(pattern))
	for i := range list {
		list[i], _ = filepath.Rel(r.root, list[i])
	}
	return list
}

// cpuSensors are the drivers of hwmon that measure a processor (Linux
// Documentation/hwmon: coretemp, k10temp, zenpower, and those of ARM boards).
var cpuSensors = []string{"coretemp", "k10temp", "zenpower", "cpu_thermal", "scpi_sensors", "soc_thermal"}

// temperature is the hottest sensor of the processor, degrees Celsius.
func (r *cpuReader) temperature() (hottest float64, found bool) {
	take := func(file string) {
		if v, ok := r.number(file); ok && v > -50_000 && v < 200_000 && (!found || v/1000 > hottest) {
			hottest, found = v/1000, true
		}
	}
	for _, dir := range r.glob("sys/class/hwmon/hwmon*") {
		name, _ := os.ReadFile(r.path(dir + "/name"))
		for _, s := range cpuSensors {
			if strings.TrimSpace(string(name)) == s {
				for _, file := range r.glob(dir + "/temp*_input") {
					take(file)
				}
			}
		}
	}
	if found {
		return hottest, true
	}
	for _, dir := range r.glob("sys/class/thermal/thermal_zone*") {
		kind, _ := os.ReadFile(r.path(dir + "/type"))
		if k := strings.ToLower(strings.TrimSpace(string(kind))); strings.Contains(k, "cpu") || strings.Contains(k, "pkg_temp") || strings.Contains(k, "soc") {
			take(dir + "/temp")
		}
	}
	return hottest, found
}

// throttles is how often the packages were slowed down for heat.
func (r *cpuReader) throttles() (sum float64, found bool) {
	seen := map[string]bool{}
	for _, dir := range r.glob("sys/devices/system/cpu/cpu[0-9]*") {
		pkg, _ := os.ReadFile(r.path(dir + "/topology/physical_package_id"))
		if seen[string(pkg)] {
			continue
		}
		if v, ok := r.number(dir + "/thermal_throttle/package_throttle_count"); ok {
			seen[string(pkg)] = true
			sum, found = sum+v, true
		}
	}
	return sum, found
}

// watts is the mean power of the packages since the reading before, from the
// energy counters that the kernel shows to root (Documentation/power/powercap).
func (r *cpuReader) watts(now time.Time) (float64, bool) {
	sum, found := uint64(0), false
	for _, dir := range r.glob("sys/class/powercap/intel-rapl:[0-9]*") {
		if strings.Count(filepath.Base(dir), ":") != 1 {
			continue // a part of a package
		}
		if v, ok := r.number(dir + "/energy_uj"); ok {
			sum, found = sum+uint64(v), true
		}
	}
	if !found {
		return 0, false
	}
	before, at := r.joules, r.power
	r.joules, r.power = sum, now
	if at.IsZero() || sum < before || !now.After(at) { // the first reading, or a counter that began anew
		return 0, false
	}
	return float64(sum-before) / 1e6 / now.Sub(at).Seconds(), true
}

// memory gives what the machine has and what is available, bytes.
func (r *cpuReader) memory() (total, free uint64, ok bool) {
	b, err := os.ReadFile(r.path("proc/meminfo"))
	if err != nil {
		return 0, 0, false
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 54)
		switch {
		case err != nil:
		case f[0] == "MemTotal:":
			total = n << 10
		case f[0] == "MemAvailable:":
			free, ok = n<<10, true
		}
	}
	return total, free, ok && total > 0
}

// utilization is the part of the time since the reading before in which the
// processors worked (proc_stat(5)).
func (r *cpuReader) utilization() (float64, bool) {
	b, err := os.ReadFile(r.path("proc/stat"))
	if err != nil {
		return 0, false
	}
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	if len(f) < 6 || f[0] != "cpu" {
		return 0, false
	}
	all, idle := uint64(0), uint64(0)
	for i, s := range f[1:min(len(f), 9)] { // guest time is part of user time
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			return 0, false
		}
		all += n
		if i == 3 || i == 4 { // idle, iowait
			idle += n
		}
	}
	busy := all - idle
	busyBefore, before := r.busy, r.all
	r.busy, r.all = busy, all
	if before == 0 || all <= before || busy < busyBefore {
		return 0, false
	}
	return min(1, float64(busy-busyBefore)/float64(all-before)), true
}

// model is what the processor is called.
func (r *cpuReader) model() string {
	b, _ := os.ReadFile(r.path("proc/cpuinfo"))
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
