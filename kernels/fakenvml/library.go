package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"hearth/kernels/fakecuda/gpulist"
)

// code is nvmlReturn_t; nvml.h.
type code int32

const (
	success         code = 0
	uninitialized   code = 1
	invalidArgument code = 2
	notSupported    code = 3
	notFound        code = 6
	tooSmall        code = 7
	timeout         code = 10
	versionMismatch code = 25
)

// texts are those of nvmlErrorString.
var texts = map[code]string{
	success: "Success", uninitialized: "Uninitialized", invalidArgument: "Invalid Argument", notSupported: "Not Supported", 4: "Insufficient Permissions",
	notFound: "Not Found", tooSmall: "Insufficient Size", 9: "Driver Not Loaded", timeout: "Timeout", 12: "Shared Library Not Found", 13: "Function Not Found",
	15: "GPU is lost", 17: "Operating System call failed", 18: "Driver/library version mismatch", versionMismatch: "Argument version mismatch", 999: "Unknown Error",
}

// library is the state of the process. mu is held by every call but a wait.
type library struct {
	mu     sync.Mutex
	uses   int // inits that are not shut down
	gpus   []gpulist.GPU
	get    func(string) string
	counts map[string]int
	events map[uintptr]*eventSet
	next   uintptr
	seen   map[int]uint64 // xid that was last reported, by GPU
}

// eventSet is nvmlEventSet_t.
type eventSet struct{ gpus map[int]uint64 } // masks of kinds

func newLibrary(get func(string) string) (*library, error) {
	gpus, err := gpulist.Read(get("FAKECUDA_DEVICES"))
	if err != nil {
		return nil, fmt.Errorf("FAKECUDA_DEVICES: %w", err)
	}
	return &library{gpus: gpus, get: get, counts: map[string]int{}, events: map[uintptr]*eventSet{}, next: 0x20000, seen: map[int]uint64{}}, nil
}

// settings are what the environment and the file say now.
func (l *library) settings() map[string]string {
	text := l.get("FAKENVML")
	if f := l.get("FAKENVML_FILE"); f != "" {
		if b, err := os.ReadFile(f); err == nil {
			text += "," + strings.ReplaceAll(string(b), "\n", ",")
		}
	}
	all := map[string]string{}
	for _, item := range strings.Split(text, ",") {
		if k, v, ok := strings.Cut(strings.TrimSpace(item), "="); ok {
			all[k] = v
		} else if k != "" {
			complain("got setting %q, wanted name=value", item)
		}
	}
	return all
}

// injected is the result that a call is made to have.
func (l *library) injected(name string, set map[string]string) code {
	l.counts[name]++
	if v := set["error."+name]; v != "" {
		return code(number("error."+name, v))
	}
	for _, item := range strings.Split(l.get("FAKENVML_ERRORS"), ",") {
		if item == "" {
			continue
		}
		which, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		call, nth, ok2 := strings.Cut(which, ":")
		nth, on := strings.CutSuffix(nth, "+")
		n, err := strconv.Atoi(nth)
		if !ok || !ok2 || err != nil {
			complain("FAKENVML_ERRORS: got %q, wanted call:number=code", item)
			continue
		}
		if call == name && (l.counts[name] == n || on && l.counts[name] > n) {
			return code(number("FAKENVML_ERRORS", value))
		}
	}
	return success
}

// call runs one entry point.
func (l *library) call(name string, f func(set map[string]string) code) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	set := l.settings()
	if c := l.injected(name, set); c != success {
		return int32(c)
	}
	if l.uses == 0 && !strings.HasPrefix(name, "nvmlInit") {
		return int32(uninitialized)
	}
	return int32(f(set))
}

// Handles are addresses that are nobody's.
const firstHandle = 0x10000

func handle(i int) uintptr { return firstHandle + uintptr(i)*16 }

// gpu is one of the GPUs with its settings.
type gpu struct {
	gpulist.GPU
	index int
	set   map[string]string
}

func (l *library) gpu(h uintptr, set map[string]string) (g gpu, ok bool) {
	i := int(h-firstHandle) / 16
	if h < firstHandle || h%16 != 0 || i >= len(l.gpus) {
		return g, false
	}
	return gpu{l.gpus[i], i, set}, true
}

// text is a setting, of this GPU before that of all.
func (g gpu) text(name, otherwise string) string {
	if v, ok := g.set[fmt.Sprintf("%d.%s", g.index, name)]; ok {
		return v
	}
	if v, ok := g.set[name]; ok {
		return v
	}
	return otherwise
}

func (g gpu) number(name, otherwise string) float64 { return number(name, g.text(name, otherwise)) }

// number reads a setting's value.
func number(name, text string) float64 {
	if bits, err := strconv.ParseUint(text, 0, 64); err == nil {
		return float64(bits)
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		complain("%s: got %q, wanted a number", name, text)
	}
	return v
}

// used is the memory in use.
func (g gpu) used() uint64 {
	text := g.text("used", "")
	if text == "" {
		return uint64(g.Used)
	}
	n, err := gpulist.Size(text)
	if err != nil || n > g.Memory {
		complain("used: got %q: wanted a size up to %d", text, g.Memory)
		n = g.Memory
	}
	return uint64(n)
}

// mode reads on, off or none.
func (g gpu) mode(name, otherwise string) (uint32, code) {
	switch v := g.text(name, otherwise); v {
	case "on":
		return 1, success
	case "off":
		return 0, success
	case "none":
		return 0, notSupported
	default:
		complain("%s: got %q, wanted on, off or none", name, v)
		return 0, 999
	}
}

// xid is an error that has not been reported yet.
func (l *library) xid(set map[string]string, e *eventSet) (g gpu, xid uint64, ok bool) {
	for i, mask := range e.gpus {
		g := gpu{l.gpus[i], i, set}
		x := uint64(g.number("xid", "0"))
		if x != 0 && x != l.seen[i] && mask&xidEvent != 0 {
			l.seen[i] = x
			return g, x, true
		}
		l.seen[i] = x
	}
	return g, 0, false
}

// xidEvent is nvmlEventTypeXidCriticalError.
const xidEvent = 8

// wait is nvmlEventSetWait_v2. Others may call meanwhile.
func (l *library) wait(h uintptr, ms uint32) (g gpu, xid uint64, c code) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.injected("nvmlEventSetWait_v2", l.settings()); c != success {
		return g, 0, c
	}
	for until := time.Now().Add(time.Duration(ms) * time.Millisecond); ; {
		e := l.events[h]
		switch {
		case l.uses == 0:
			return g, 0, uninitialized
		case e == nil:
			return g, 0, invalidArgument
		}
		if g, xid, ok := l.xid(l.settings(), e); ok {
			return g, xid, success
		}
		if !time.Now().Before(until) {
			return g, 0, timeout
		}
		l.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		l.mu.Lock()
	}
}

// complain tells a person what is wrong with the settings.
func complain(format string, args ...any) { fmt.Fprintf(os.Stderr, "fakenvml: "+format+"\n", args...) }
