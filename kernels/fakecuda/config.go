package main

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// config is what the environment says.
type config struct {
	devices   []deviceConfig
	driver    int
	eager     bool
	checks    bool
	noJIT     bool
	delay     time.Duration
	workers   int
	registers int
	trace     string
	errors    []injection
	hangs     []injection
}

// deviceConfig is one GPU.
type deviceConfig struct {
	compute int
	name    string
	memory  int64
	used    int64
	sms     int
	uuid    [16]byte
	bus     int
	ecc     bool
}

// injection is a result for the nth call of a name, or for all from it on.
type injection struct {
	name   string
	nth    int
	on     bool
	result result
}

// hits tells whether the injection is meant for call number n.
func (i injection) hits(name string, n int) bool {
	return i.name == name && (n == i.nth || i.on && n > i.nth)
}

// readConfig reads the environment through get.
func readConfig(get func(string) string) (*config, error) {
	c := &config{driver: 12020, checks: true, workers: 2, registers: 64, trace: get("FAKECUDA_TRACE"), noJIT: get("CUDA_DISABLE_PTX_JIT") == "1"}
	for _, v := range []struct {
		name string
		to   *int
		lo   int
	}{{"FAKECUDA_DRIVER_VERSION", &c.driver, 1000}, {"FAKECUDA_WORKERS", &c.workers, 1}, {"FAKECUDA_REGISTERS", &c.registers, 16}} {
		text := get(v.name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < v.lo || n > 1<<20 {
			return nil, fmt.Errorf("%s: got %q, wanted a number from %d", v.name, text, v.lo)
		}
		*v.to = n
	}
	switch s := get("FAKECUDA_STREAMS"); s {
	case "", "lazy":
	case "eager":
		c.eager = true
	default:
		return nil, fmt.Errorf("FAKECUDA_STREAMS: got %q, wanted lazy or eager", s)
	}
	switch s := get("FAKECUDA_CHECKS"); s {
	case "", "1":
	case "0":
		c.checks = false
	default:
		return nil, fmt.Errorf("FAKECUDA_CHECKS: got %q, wanted 0 or 1", s)
	}
	var err error
	if s := get("FAKECUDA_DELAY"); s != "" {
		if c.delay, err = time.ParseDuration(s); err != nil || c.delay < 0 {
			return nil, fmt.Errorf("FAKECUDA_DELAY: got %q, wanted a duration", s)
		}
	}
	if c.errors, err = readInjections("FAKECUDA_ERRORS", get("FAKECUDA_ERRORS"), true); err != nil {
		return nil, err
	}
	if c.hangs, err = readInjections("FAKECUDA_HANG", get("FAKECUDA_HANG"), false); err != nil {
		return nil, err
	}
	if c.devices, err = readDevices(get("FAKECUDA_DEVICES")); err != nil {
		return nil, fmt.Errorf("FAKECUDA_DEVICES: %w", err)
	}
	if s := get("CUDA_VISIBLE_DEVICES"); s != "" {
		c.devices = visible(c.devices, s)
	}
	return c, nil
}

// readInjections reads "name:nth=result" or, without results, "name:nth".
func readInjections(where, text string, results bool) ([]injection, error) {
	var all []injection
	for _, item := range strings.Split(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		bad := func() error {
			want := "name:number"
			if results {
				want = "name:number=result"
			}
			return fmt.Errorf("%s: got %q, wanted %s with the name of a call or launch", where, item, want)
		}
		rest, value, has := strings.Cut(item, "=")
		name, nth, ok := strings.Cut(rest, ":")
		if !ok || has != results || name != "launch" && !entryPoints[name] {
			return nil, bad()
		}
		i := injection{name: name}
		nth, i.on = strings.CutSuffix(nth, "+")
		var err error
		if i.nth, err = strconv.Atoi(nth); err != nil || i.nth < 1 {
			return nil, bad()
		}
		if results {
			n, err := strconv.Atoi(value)
			if _, known := resultTexts[result(n)]; err != nil || !known || n == 0 {
				return nil, fmt.Errorf("%s: got result %q in %q, wanted one of CUresult", where, value, item)
			}
			i.result = result(n)
		}
		all = append(all, i)
	}
	return all, nil
}

func readDevices(text string) ([]deviceConfig, error) {
	if text == "none" {
		return nil, nil
	}
	if text == "" {
		text = "8.0"
	}
	var all []deviceConfig
	for i, item := range strings.Split(text, ";") {
		d, err := readDevice(strings.Split(item, ","), i)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

func readDevice(fields []string, index int) (deviceConfig, error) {
	d := deviceConfig{memory: 256 << 20, sms: 8, bus: index + 1, uuid: [16]byte{0xfa, 0xce, 0xc0, 0xda, 15: byte(index)}}
	major, minor, ok := strings.Cut(strings.TrimSpace(fields[0]), ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if !ok || err1 != nil || err2 != nil || a < 1 || b < 0 || b > 9 {
		return d, fmt.Errorf("got compute capability %q, wanted for instance 8.0", fields[0])
	}
	d.compute = 10*a + b
	d.name = archOf(d.compute).name
	for _, f := range fields[1:] {
		key, value, _ := strings.Cut(strings.TrimSpace(f), "=")
		var err error
		switch key {
		case "name":
			d.name = value
		case "memory":
			d.memory, err = readSize(value)
		case "used":
			d.used, err = readSize(value)
		case "sms":
			d.sms, err = strconv.Atoi(value)
		case "bus":
			d.bus, err = strconv.Atoi(value)
		case "ecc":
			d.ecc = value == "on"
		case "uuid":
			var id []byte
			if id, err = hex.DecodeString(strings.ReplaceAll(strings.TrimPrefix(value, "GPU-"), "-", "")); err == nil && len(id) != 16 {
				err = fmt.Errorf("wanted 32 digits")
			}
			copy(d.uuid[:], id)
		default:
			err = fmt.Errorf("wanted name, memory, used, sms, uuid, bus or ecc")
		}
		if err != nil {
			return d, fmt.Errorf("got %q: %w", f, err)
		}
	}
	if d.memory < 1<<20 || d.memory > 1<<38 || d.used < 0 || d.used >= d.memory || d.sms < 1 || d.sms > 1024 {
		return d, fmt.Errorf("got %d bytes of memory with %d in use and %d multiprocessors", d.memory, d.used, d.sms)
	}
	return d, nil
}

// readSize reads bytes with an optional unit.
func readSize(s string) (int64, error) {
	shift := 0
	for _, u := range []struct {
		unit  string
		shift int
	}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}} {
		if rest, ok := strings.CutSuffix(s, u.unit); ok {
			s, shift = rest, u.shift
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<40>>shift {
		return 0, fmt.Errorf("wanted a size such as 256MiB")
	}
	return n << shift, nil
}

// visible follows CUDA_VISIBLE_DEVICES: numbers or beginnings of UUIDs, up to the
// first that names no device.
func visible(all []deviceConfig, text string) []deviceConfig {
	var out []deviceConfig
	for _, item := range strings.Split(text, ",") {
		item = strings.TrimSpace(item)
		found := -1
		for i, d := range all {
			if strconv.Itoa(i) == item || strings.HasPrefix(item, "GPU-") && strings.HasPrefix(uuidText(d.uuid), item) {
				found = i
				break
			}
		}
		if found < 0 {
			break
		}
		out = append(out, all[found])
	}
	return out
}

func uuidText(u [16]byte) string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
