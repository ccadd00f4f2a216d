//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"hearth/kernels/fakecuda/gpulist"
)

// config is what the environment says.
type config struct {
	devices   []gpulist.GPU
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

// withFile puts the settings of the file that FAKECUDA_FILE names, "NAME=value" a
// line, before those that get gives.
func withFile(get func(string) string) (func(string) string, error) {
	file := get("FAKECUDA_FILE")
	if file == "" {
		return get, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("FAKECUDA_FILE: %w", err)
	}
	set := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || !strings.HasPrefix(name, "FAKECUDA_") || name == "FAKECUDA_FILE" {
			return nil, fmt.Errorf("FAKECUDA_FILE: got the line %q of %s, wanted FAKECUDA_NAME=value", line, file)
		}
		set[name] = value
	}
	return func(name string) string {
		if v, ok := set[name]; ok {
			return v
		}
		return get(name)
	}, nil
}

// readConfig reads the environment through get.
func readConfig(get func(string) string) (*config, error) {
	get, err := withFile(get)
	if err != nil {
		return nil, err
	}
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
	if c.devices, err = gpulist.Read(get("FAKECUDA_DEVICES")); err != nil {
		return nil, fmt.Errorf("FAKECUDA_DEVICES: %w", err)
	}
	if s := get("CUDA_VISIBLE_DEVICES"); s != "" {
		c.devices = gpulist.Visible(c.devices, s)
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
