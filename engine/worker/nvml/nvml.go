// Package nvml reads GPUs through NVIDIA's management library,
// libnvidia-ml.so.1: temperature, power, memory, clocks, errors and why a GPU is
// slowed down. Built with cgo it goes through go-nvml, without through purego;
// the names are those of the NVML API Reference Guide.
package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hearth/engine/infer"
)

// Soname is the library's name on every Linux.
const Soname = "libnvidia-ml.so.1"

// How often a GPU is read at most, and how old a reading may be: what could not
// be read anew is not shown on.
const (
	readEvery = time.Second
	readStale = 10 * time.Second
)

// code is an nvmlReturn_t.
type code int

const (
	success          code = 0
	notSupported     code = 3
	timeout          code = 10
	functionNotFound code = 13
	gpuIsLost        code = 15
)

// bound is the library as one of the two ways binds it.
type bound interface {
	init() code
	driver() (string, code)
	handle(uuid string) (card, code)
}

// card is one GPU of it. Units are the library's.
type card interface {
	temperature() (uint32, code)                    // degrees Celsius
	power() (uint32, code)                          // milliwatts
	powerLimit() (uint32, code)                     // milliwatts
	memory() (used, total uint64, c code)           // bytes
	utilization() (uint32, code)                    // percent
	clock() (uint32, code)                          // MHz, of the multiprocessors
	throttle() (uint64, code)                       // bits, see reasons
	ecc() (corrected, wrong uint64, c code)         // since the driver was loaded
	mig() (current int, c code)                     // 1: the GPU is divided
	watchXID() (wait func() (uint64, code), c code) // blocks for a second at most
}

// Library is the loaded library.
type Library struct {
	bound  bound
	Driver string // version of the driver
}

// Open loads the library. path is the folder that holds it or the file itself;
// empty: where the system's loader finds it.
func Open(path string) (*Library, error) {
	file := Soname
	if path != "" {
		file = path
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			file = filepath.Join(path, Soname)
		}
	}
	b, err := bind(file)
	if err != nil {
		return nil, fmt.Errorf("cannot load %s: %w", file, err)
	}
	l, err := newLibrary(b)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return l, err
}

func newLibrary(b bound) (*Library, error) {
	if c := b.init(); c != success {
		return nil, fmt.Errorf("nvmlInit: %w", c)
	}
	v, c := b.driver()
	if c != success {
		return nil, fmt.Errorf("nvmlSystemGetDriverVersion: %w", c)
	}
	return &Library{bound: b, Driver: v}, nil
}

// Way says how the library is bound: "go-nvml" or "purego".
func (l *Library) Way() string { return way }

// Error names the code as the library does.
func (c code) Error() string {
	names := map[code]string{
		1: "uninitialized", 2: "invalid argument", notSupported: "not supported", 4: "no permission", 6: "not found", 9: "driver not loaded",
		timeout: "timeout", 12: "library not found", functionNotFound: "function not found", gpuIsLost: "the GPU is lost", 17: "operating system refused it",
		18: "library and driver are of two versions: restart the machine", 999: "unknown",
	}
	if n := names[c]; n != "" {
		return "NVML: " + n
	}
	return fmt.Sprintf("NVML: error %d", int(c))
}

// Mismatch says whether library and kernel module are of two versions.
func Mismatch(err error) bool {
	var c code
	return errors.As(err, &c) && c == 18
}

// GPU reads one GPU. It is safe for concurrent use.
type GPU struct {
	lib  *Library
	card card
	id   infer.Device // what does not change
	xid  atomic.Uint64
	stop chan struct{}
	once sync.Once
	wg   sync.WaitGroup

	mu       sync.Mutex // guards below
	at       time.Time  // of the last look
	good     time.Time  // of the last that gave something
	last     infer.Device
	slow     bool
	slowings float64 // times that it began to be slowed down
}

// GPU finds a GPU by its UUID. id and name are how it is told of.
func (l *Library) GPU(uuid, id, name string) (*GPU, error) {
	c, ret := l.bound.handle(uuid)
	if ret != success {
		return nil, fmt.Errorf("nvmlDeviceGetHandleByUUID(%s): %w", uuid, ret)
	}
	g := &GPU{lib: l, card: c, stop: make(chan struct{}), id: infer.Device{ID: id, Kind: "gpu", Name: name, UUID: uuid, Driver: l.Driver}}
	if wait, ret := c.watchXID(); ret == success {
		g.wg.Go(func() { g.follow(wait) })
	}
	return g, nil
}

// follow notes the errors that the driver reports.
func (g *GPU) follow(wait func() (uint64, code)) {
	for {
		select {
		case <-g.stop:
			return
		default:
		}
		xid, c := wait()
		switch c {
		case success:
			g.xid.Store(xid)
		case timeout:
		default: // for instance the GPU is lost
			return
		}
	}
}

// Close ends the reading.
func (g *GPU) Close() {
	g.once.Do(func() { close(g.stop) })
	g.wg.Wait()
}

// MIG says whether the GPU is divided; known is false where it cannot be.
func (g *GPU) MIG() (on, known bool) {
	m, c := g.card.mig()
	return m == 1, c == success
}

// Read gives the GPU as it is now, a second old at most. What cannot be read is
// left out; of a GPU that has answered nothing for a while only what does not
// change is told.
func (g *GPU) Read(now time.Time) infer.Device {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.at.IsZero() && now.Sub(g.at) < readEvery && !now.Before(g.at) {
		return g.last
	}
	g.at = now
	if d, ok := g.look(); ok {
		g.last, g.good = d, now
	} else if g.good.IsZero() || now.Sub(g.good) > readStale {
		g.last = g.id
	}
	return g.last
}

// look reads everything anew.
func (g *GPU) look() (d infer.Device, ok bool) {
	d = g.id
	add := func(name string, v float64, c code) {
		if c == success {
			d.Readings = append(d.Readings, infer.Reading{Name: name, Value: v})
		}
	}
	temp, c := g.card.temperature()
	add(infer.ReadTemperature, float64(temp), c)
	power, c := g.card.power()
	add(infer.ReadPower, float64(power)/1000, c)
	limit, c := g.card.powerLimit()
	add(infer.ReadPowerLimit, float64(limit)/1000, c)
	used, total, c := g.card.memory()
	add(infer.ReadMemoryUsed, float64(used), c)
	add(infer.ReadMemoryTotal, float64(total), c)
	busy, c := g.card.utilization()
	add(infer.ReadUtilization, float64(busy)/100, c)
	mhz, c := g.card.clock()
	add(infer.ReadClock, float64(mhz)*1e6, c)
	answered := len(d.Readings) > 0
	bits, c := g.card.throttle()
	if c == success {
		d.Throttle = reasons(bits)
		if slow := len(d.Throttle) > 0; slow != g.slow {
			if g.slow = slow; slow {
				g.slowings++
			}
		}
	}
	add(infer.ReadThrottles, g.slowings, c)
	corrected, wrong, c := g.card.ecc()
	add(infer.ReadECCCorrected, float64(corrected), c)
	add(infer.ReadECCUncorrected, float64(wrong), c)
	add(infer.ReadXID, float64(g.xid.Load()), success)
	return d, answered
}

// reasons puts the bits of nvmlClocksEventReasons into words; being idle, or at
// clocks that somebody has set, is no slowing down.
func reasons(bits uint64) (list []string) {
	for _, r := range []struct {
		bit  uint64
		name string
	}{
		{0x04, "power limit"}, {0x80, "power brake"}, {0x40, "heat"}, {0x20, "heat (software)"}, {0x08, "hardware slowdown"}, {0x10, "sync boost"},
	} {
		if bits&r.bit != 0 {
			list = append(list, r.name)
		}
	}
	slices.Sort(list)
	return list
}
